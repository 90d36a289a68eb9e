"""``autograder new-assignment NAME``: a small assignment that builds, verifies and grades at once.

    templates/new_assignment/{mpi,torch}/solution  ->  solutions/NAME
                                         suite     ->  autograder/suites/NAME
                                         wrong     ->  autograder/mutants/NAME/wrong
                                         right     ->  autograder/mutants/NAME/right

It is made beside these places under temporary names, then renamed: all of it or nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import keyword
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from autograder import storage
from autograder.course.assignment import NAME, AssignmentError
from autograder.course.course import Course
from autograder.report.feedback import TEMPLATES

PLACEHOLDER = "a00_name"


def make(name: str, course: Course, *, torch: bool = False) -> list[Path]:
    """Make the folders of assignment `name`; returns them.

    Raises:
        AssignmentError: the name can't be used, or something of that name is there.
        StorageError: the kit can't be written.
    """
    _check(name)
    template = TEMPLATES / "new_assignment" / ("torch" if torch else "mpi")
    mutants = course.kit / "autograder" / "mutants" / name
    targets = {
        course.solution(name): {".": template / "solution"},
        course.kit / "autograder" / "suites" / name: {".": template / "suite"},
        mutants: {"wrong": template / "wrong", "right": template / "right"},
    }
    for folder in (*targets, course.release(name), course.kit / "solutions" / f"{name}.py"):
        if os.path.lexists(folder):
            raise AssignmentError(f"{folder} is there already: choose another name, or remove it.")
    other_way = f"Or work in a copy of {course.kit} (`cp -r`)."
    with (
        storage.making(*(folder.parent for folder in targets), otherwise=other_way),
        contextlib.ExitStack() as stack,
    ):
        made = {
            folder: stack.enter_context(_filled(folder, parts, name))
            for folder, parts in targets.items()
        }
        _move(made)
    return list(targets)


def _check(name: str) -> None:
    if not NAME.fullmatch(name):
        raise AssignmentError(
            f"{name!r} is no name for an assignment: it needs a letter, then lower-case letters, "
            "digits and _, at most 64 in all (like a14_prefix)."
        )
    if keyword.iskeyword(name):
        raise AssignmentError(f"{name!r} is a word of Python's, and the suites are a package.")


@contextlib.contextmanager
def _filled(target: Path, parts: dict[str, Path], name: str) -> Iterator[Path]:
    """A temporary folder beside `target`, with the templates in it; removed if it isn't moved."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        for place, source in parts.items():
            (folder / place).mkdir(exist_ok=True)
            for path in sorted(source.iterdir()):
                if path.suffix in (".py", ".toml"):
                    text = path.read_text(encoding="utf-8").replace(PLACEHOLDER, name)
                    (folder / place / path.name).write_text(text, encoding="utf-8")
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move(made: dict[Path, Path]) -> None:
    done: list[Path] = []
    try:
        for target, folder in made.items():
            os.rename(folder, target)  # fails where somebody was faster
            done.append(target)
    except OSError:
        for target in done:
            shutil.rmtree(target, ignore_errors=True)
        raise


def new_assignment(options: argparse.Namespace) -> int:
    """`autograder new-assignment`"""
    course = Course.here()
    name = options.name
    for folder in make(name, course, torch=options.torch):
        print(os.path.relpath(folder))
    print(
        "An example stands in each: make it yours (CONTRIBUTING.md tells how). It works as it is:\n"
        f"  autograder build {name}\n"
        f"  autograder verify {name}\n"
        f"  autograder grade {name} {os.path.relpath(course.solution(name))}"
    )
    return 0
