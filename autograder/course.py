"""Where a course keeps its things: one root folder, and the names under it.

root/solutions/<assignment>/             the reference, never released
root/assignments/<assignment>/           the release, generated
root/build/source/<assignment>/          nbgrader's instructor version, generated
root/build/{submitted,autograded,feedback}/<student>/<assignment>/
root/build/receipts/<assignment>.csv     when each submission arrived, by our clock
root/build/extensions.csv                who has more time: student, assignment, days
root/build/graded/<assignment>/          why the gradebook's points were given, a file a student
root/build/gradebook.db
kit/build/results/                       graded results, by hash (RINGSIDE_RESULTS: elsewhere)
kit/course_secret.txt                    seeds the hidden inputs; not in git
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PUBLIC_SECRET = "no secret was set"


@dataclass(frozen=True)
class Course:
    """The folders of one course.

    The kit (solutions and release) and the course's own data (submissions, gradebook) may
    lie under different roots: the demo keeps its class beside a real one.
    """

    kit: Path
    root: Path

    @classmethod
    def here(cls) -> Course:
        """The course that this checkout is; RINGSIDE_COURSE names another data root."""
        kit = Path(os.environ.get("RINGSIDE_KIT") or Path(__file__).resolve().parent.parent)
        return cls(kit=kit, root=Path(os.environ.get("RINGSIDE_COURSE") or kit))

    @classmethod
    def of_root(cls, root: str | Path) -> Course:
        """The course whose data lies under nbgrader's course directory `root`."""
        return cls(kit=cls.here().kit, root=Path(root))

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def database(self) -> Path:
        return self.build / "gradebook.db"

    @property
    def results(self) -> Path:
        """The store belongs to the kit: the same work is graded once; RINGSIDE_RESULTS moves it."""
        return Path(os.environ.get("RINGSIDE_RESULTS") or self.kit / "build" / "results")

    def solution(self, assignment: str) -> Path:
        return self.kit / "solutions" / assignment

    def release(self, assignment: str) -> Path:
        return self.kit / "assignments" / assignment

    def source(self, assignment: str) -> Path:
        return self.build / "source" / assignment

    def submitted(self, student: str, assignment: str) -> Path:
        return self.build / "submitted" / student / assignment

    def autograded(self, student: str, assignment: str) -> Path:
        return self.build / "autograded" / student / assignment

    def feedback(self, student: str, assignment: str) -> Path:
        return self.build / "feedback" / student / assignment

    def submissions(self, assignment: str) -> list[Path]:
        """The submission folders of nbgrader's tree, by student."""
        return sorted(
            path
            for path in (self.build / "submitted").glob(f"*/{assignment}")
            if path.is_dir() and not path.is_symlink() and not path.parent.is_symlink()
        )

    def receipts(self, assignment: str) -> Path:
        return self.build / "receipts" / f"{assignment}.csv"

    @property
    def extensions(self) -> Path:
        return self.build / "extensions.csv"

    def secret(self) -> str:
        """What the hidden inputs are derived from; a course sets its own (see README)."""
        given = os.environ.get("RINGSIDE_COURSE_SECRET")
        if given:
            return given
        path = self.kit / "course_secret.txt"
        return path.read_text(encoding="utf-8").strip() if path.is_file() else PUBLIC_SECRET
