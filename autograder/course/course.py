"""Where a course keeps its things: one root folder, and the names under it.

kit/solutions/<assignment>/              reference, suite, wrong and right forms; never released
kit/assignments/<assignment>/            the release, generated
root/build/source/<assignment>/          nbgrader's instructor version, generated
root/build/release/<assignment>/         the release of a course outside the kit
root/build/{submitted,autograded,feedback}/<student>/<assignment>/
root/build/receipts/<assignment>.csv     when each submission arrived, by our clock
root/build/receipts/platform/<assignment>.csv    the same by a learning platform's download
root/build/downloads/<assignment>/       what was unpacked of such a download; may be removed
root/build/extensions.csv                who has more time: student, assignment, days
root/build/accommodations.csv            who has more time for all of them: student, factor
root/build/excused.csv                   who need not do it: student, assignment
root/build/teams/<assignment>.csv        who hands in together: team, student
root/build/teams/platform/<assignment>.csv       the same by a learning platform's download
root/build/requests/<assignment>/<student>.txt   a student's text that asks for a regrade
root/build/decisions/<assignment>.csv    what a person decided: student, part, points, by, when, why
root/build/graded/<assignment>/          why the gradebook's points were given, a file a student
root/build/gradebook.db
root/course.toml                         this term: dates, weights, policies
root/nbgrader_config.py, root/limits.toml  what this course wants otherwise than the kit
root/course_secret.txt                   seeds the hidden inputs (`autograder.course.secret`)
root/build/results/                      graded results, by hash (RINGSIDE_RESULTS: elsewhere)

`autograder new-course FOLDER` makes a root outside the kit. The root of a command is the folder
that RINGSIDE_COURSE names; else the nearest one, from the current folder upwards, whose
nbgrader_config.py takes the kit's settings; else the kit. A root without that file has its
results and releases in the kit.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from autograder.course import secret as course_secret
from ringside.course_folder import CONFIG, course_above, is_course

__all__ = ["CONFIG", "SETTINGS", "Course", "course_above"]

SETTINGS = "course.toml"


@dataclass(frozen=True)
class Course:
    """The folders of one course.

    The kit (solutions and release) and the course's own data (submissions, gradebook) may
    lie under different roots: the demo keeps its class beside a real one.
    """

    kit: Path
    root: Path
    given_secret: str = ""  # instead of its own: what is public may be given away

    @classmethod
    def here(cls, start: str | Path | None = None) -> Course:
        """The course of this command, looked for from `start` (the current folder) upwards."""
        kit = Path(os.environ.get("RINGSIDE_KIT") or Path(__file__).resolve().parents[2])
        root = os.environ.get("RINGSIDE_COURSE")
        return cls(kit=kit, root=Path(root) if root else course_above(start) or kit)

    @classmethod
    def of_root(cls, root: str | Path) -> Course:
        """The course whose data lies under nbgrader's course directory `root`."""
        return cls(kit=cls.here().kit, root=Path(root))

    @property
    def _apart(self) -> bool:
        """Whether this is a course of its own outside the kit."""
        root = self.root.resolve()
        return not root.is_relative_to(self.kit.resolve()) and is_course(root)

    @property
    def nbgrader_folders(self) -> dict[str, str]:
        """What nbgrader's CourseDirectory must be told of this course, wherever it is started."""
        return {
            "root": os.path.abspath(self.root),
            "db_url": f"sqlite:///{os.path.abspath(self.database)}",
            "release_directory": os.path.relpath(self.releases, self.root),
        }

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def database(self) -> Path:
        return self.build / "gradebook.db"

    @property
    def results(self) -> Path:
        """The store of a course of its own, else of the kit; RINGSIDE_RESULTS moves it."""
        folder = self.root if self._apart else self.kit
        return Path(os.environ.get("RINGSIDE_RESULTS") or folder / "build" / "results")

    def solution(self, assignment: str) -> Path:
        return self.kit / "solutions" / assignment

    def hidden(self, assignment: str) -> Path:
        """The hidden suite."""
        return self.solution(assignment) / "hidden"

    @property
    def releases(self) -> Path:
        """Where releases are made: in a course of its own, which leaves the kit alone, or there."""
        return self.build / "release" if self._apart else self.kit / "assignments"

    def release(self, assignment: str) -> Path:
        """What students were given; the kit's where the course has made none."""
        folder = self.releases / assignment
        return folder if folder.is_dir() else self.kit / "assignments" / assignment

    def source(self, assignment: str) -> Path:
        return self.build / "source" / assignment

    def submitted(self, student: str, assignment: str) -> Path:
        return self.build / "submitted" / student / assignment

    def autograded(self, student: str, assignment: str) -> Path:
        return self.build / "autograded" / student / assignment

    def feedback(self, student: str, assignment: str) -> Path:
        return self.build / "feedback" / student / assignment

    def graded(self, student: str, assignment: str) -> Path:
        """The record of what the gradebook was given."""
        return self.build / "graded" / assignment / f"{student}.json"

    @property
    def any_graded(self) -> bool:
        """Whether there are grades that a gradebook must hold."""
        return any((self.build / "graded").glob("*/*.json"))

    def submissions(self, assignment: str) -> list[Path]:
        """The submission folders of nbgrader's tree, by student."""
        return sorted(
            path
            for path in (self.build / "submitted").glob(f"*/{assignment}")
            if path.is_dir() and not path.is_symlink() and not path.parent.is_symlink()
        )

    def receipts(self, assignment: str) -> Path:
        return self.build / "receipts" / f"{assignment}.csv"

    def platform_receipts(self, assignment: str) -> Path:
        return self.build / "receipts" / "platform" / f"{assignment}.csv"

    @property
    def extensions(self) -> Path:
        return self.build / "extensions.csv"

    @property
    def accommodations(self) -> Path:
        return self.build / "accommodations.csv"

    @property
    def excused(self) -> Path:
        return self.build / "excused.csv"

    def teams(self, assignment: str) -> Path:
        return self.build / "teams" / f"{assignment}.csv"

    def platform_teams(self, assignment: str) -> Path:
        return self.build / "teams" / "platform" / f"{assignment}.csv"

    def requests(self, assignment: str) -> Path:
        """A folder: a text for each student who asks for a regrade."""
        return self.build / "requests" / assignment

    def decisions(self, assignment: str) -> Path:
        return self.build / "decisions" / f"{assignment}.csv"

    @property
    def settings(self) -> Path:
        return self.root / SETTINGS

    def secret(self) -> str:
        """What the hidden inputs are derived from; a course without one draws it now.

        Raises:
            SecretError: the file holds none, or none can be written.
        """
        return self.given_secret or course_secret.of(self.root, self.kit)
