"""``autograder new-course FOLDER``: a course outside the kit, which its owner alone may read.

    FOLDER/course.toml           this term: dates, weights, policies
           nbgrader_config.py    the kit's settings, and below them this course's
           course_secret.txt     drawn at random, 0600
           README.md             what is typed here, in ten lines
           build/source, release what nbgrader releases: copies of the kit's

It is made beside FOLDER under a temporary name, then renamed: all of it or nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from autograder.course import assignment as plans
from autograder.course import secret as course_secret
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import CONFIG, SETTINGS, Course, course_above
from autograder.publish import build
from autograder.storage import explain
from ringside import output_folder
from ringside.course.handout.listing import listing
from ringside.course.term import NOT_YET

CONFIGURATION = '''\
"""nbgrader's settings for this course: the kit's, and below them what this course wants otherwise.

Every nbgrader command that is run in this folder reads them, and so does `autograder`.
"""

from autograder.course import Course

c = get_config()
course = Course.here(__file__)
load_subconfig("nbgrader_config.py", path=str(course.kit))
c.CourseDirectory.update(course.nbgrader_folders)

# c.CourseDirectory.course_id = "ringside"  # the exchange's name of this course, one for each
# What lateness costs stands in course.toml, below [late].
'''
TERM = """\
# This term: what is taught, handed out and due when, and how it counts. Take off the # of what
# you want to say; all of it is optional, and what stands here goes before the kit's own.

# title = "Parallel deep learning"   # of the site's calendar (`ringside.course.lectures site`)
# term = "Spring 2026"
# timezone = "Europe/Berlin"         # of dates that have no Z or +01:00 behind them; else UTC
# path = "8 weeks"                   # its modules make up the total: also "14 weeks"; else all do
# runs = "by hand"                   # points of runs on the cluster: also "accounting", "word"
# assistants = "separated"           # what AI assistants may do: also "open", "closed"
# drop_lowest = 1                    # so many assignments don't count in `autograder total`

[units]                              # lectures: a day, or a day with its time, or a list of them
{units}
[late]                               # goes before the numbers in nbgrader_config.py
# grace_days = 5                     # of the whole course
# grace_days_each = 2                # of them, at most so many for an assignment
# percent_per_day = 10               # of the score, for each day begun after them
# max_percent = 50
# grace_s = 900                      # lateness that costs nothing

[waived]                             # tests that proved too strict: their points go to all
# {first}.MODULE.TEST = "why"

# Assignments: handed out, due, and their share of the course's total (10 of the sum of all).
# Students get those below [released] whose date has come; "not yet" holds one back.
"""
READY = """[released]
{released}
[due]
{due}
[weights]
{weights}"""
READ_ME = """\
# A course

Type all commands in this folder, or in one below it (`nbgrader`: in this folder).

- Dates, weights, policies, which assignments students get: `course.toml`; then `autograder build` puts due dates into the notebooks. More time: `build/extensions.csv`, a first line `student,assignment,days`, then `ada,a03_allreduce,2`.
- `nbgrader release_assignment NAME`, `nbgrader collect NAME` hand out and take in on the exchange; `autograder collect NAME DOWNLOAD` takes in what Canvas, Moodle or Gradescope gives.
- `autograder grade NAME build/submitted` grades the class on all cores; then `nbgrader autograde NAME` fills the gradebook.
- `nbgrader generate_feedback NAME`, `nbgrader release_feedback NAME`; texts by hand: `jupyter lab` here, Nbgrader > Formgrader.
- `autograder report NAME`, `autograder export NAME --to canvas ...` for the class and its platform; `autograder total` for the whole course.
- Back up `build/gradebook.db` and `course_secret.txt`: nobody can make them again.
- For co-instructors: `chgrp -R GROUP .`, `chmod -R g+rwX .`, `chmod g+s .`; everybody else stays out.
- After the kit was updated: `autograder build` makes the releases anew, `autograder regrade NAME` tells what changes.
"""  # noqa: E501


def make(folder: Path, kit: Path, units: Sequence[str] = ()) -> Course:
    """Make a course in `folder`, which is new or empty.

    Args:
        units: those that it teaches, in two digits; none: the choice is still to be made, and
            course.toml has a line for each assignment.

    Raises:
        AssignmentError: there is something, or it is no place for a course.
        StorageError: it can't be written.
    """
    target = _place(folder, kit)
    try:
        with output_folder.beside(target) as fresh:
            fresh.chmod(0o700)
            _fill(Course(kit=kit, root=fresh), units)
            os.rename(fresh, target)  # the kernel refuses it where something has come meanwhile
    except OSError as error:
        raise explain(target, error) from error
    return Course(kit=kit, root=target)


def _place(folder: Path, kit: Path) -> Path:
    """Where the course comes to lie; refused where one can't be, or would be in the way."""
    target, kit = folder.absolute().resolve(), kit.resolve()
    if target.is_relative_to(kit) or kit.is_relative_to(target):
        raise AssignmentError(
            f"{target} and the kit, {kit}, lie one inside the other: name a folder beside it, "
            f"like {kit.parent / 'my-course'}."
        )
    if not target.parent.is_dir():
        raise AssignmentError(f"{target.parent} is no folder: `mkdir -p` makes it.")
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise AssignmentError(f"{target} is there and not an empty folder: name another one.")
    if (other := course_above(target.parent)) is not None:
        raise AssignmentError(
            f"{target} lies inside the course {other}: commands typed in it would have two. Name "
            "a folder outside."
        )
    return target


def _fill(course: Course, units: Sequence[str]) -> None:
    """All that a course begins with."""
    names = _of_units(course, units)
    course_secret.draw(course.root)
    (course.root / SETTINGS).write_text(_term(names, units), encoding="utf-8")
    (course.root / CONFIG).write_text(CONFIGURATION, encoding="utf-8")
    (course.root / "README.md").write_text(READ_ME, encoding="utf-8")
    course.build.mkdir(mode=0o700)
    for name in names:
        _copy(plans.load(name, course), course)


def _of_units(course: Course, units: Sequence[str]) -> tuple[str, ...]:
    """The kit's assignments of these units; of all units where none is named."""
    names = listing(plans.known(course), None, course.kit).given
    if not units:
        return names
    numbers = {name[1:3] for name in names}
    lectures = {path.name[:2] for path in course.kit.glob("lectures/[0-9][0-9]_*.py")}
    for unit in units:
        if unit not in numbers | lectures:
            choices = ", ".join(sorted(numbers)) or "none"
            raise AssignmentError(
                f"--units: {unit!r} is no unit with an assignment; {choices} are."
            )
    return tuple(name for name in names if name[1:3] in units)


def _term(names: Sequence[str], units: Sequence[str]) -> str:
    """A course.toml with a line for each thing that it may say; of the term, only its units."""
    tables = {"released": "2026-02-16T12:00:00Z", "due": "2026-03-01T23:59:00Z", "weights": "10"}
    lines = {key: "".join(f"# {n} = {value}\n" for n in names) for key, value in tables.items()}
    if units:
        lines["released"] = "".join(
            f'{name} = "{NOT_YET}"  # or a date: {tables["released"]}\n' for name in names
        )
    days = "".join(f"# {unit} = 2026-02-04\n" for unit in units)
    days = days or "# 00 = 2026-02-02\n# 01 = [2026-02-04T10:15:00, 2026-02-09T10:15:00]\n"
    first = names[0] if names else "a03_allreduce"
    return TERM.format(units=days, first=first) + READY.format(**lines)


def _copy(plan: Assignment, course: Course) -> None:
    """What nbgrader makes the release from, and the release as the kit has built it."""
    source, built = course.source(plan.name), course.release(plan.name)
    source.mkdir(parents=True)
    build.write_source(plan, course, source)
    build.record(source, output_folder.contents(source), course)
    if not (built / plan.notebook).is_file():
        return
    release = course.releases / plan.name
    release.mkdir(parents=True)
    for name in output_folder.contents(source):  # and nothing that somebody has tried there
        (release / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(built / name, release / name)
    build.record(release, output_folder.contents(release), course)
