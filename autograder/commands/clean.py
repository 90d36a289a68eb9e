"""``make clean``: removes what the kit's own commands made in a checkout, and names what it leaves.

    build/{demo,site,slides,ringside-students}    by their marks (`ringside.output_folder`)
    build/ringside-students.zip                   by what `bundle` writes into it
    build/source/<a>                              where it is as the last `build` left it
    build/results/                                graded results, by their names: hashes
    __pycache__ in the kit's folders, and the caches of pytest, mypy and ruff

A course's submissions and grades stay, and so does whatever else somebody has put there.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from autograder.author.demo.show import COMMAND as DEMO
from autograder.course.course import Course
from autograder.publish import build, bundle
from ringside import command_line, output_folder
from ringside.course.lectures.site import COMMAND as SITE
from ringside.course.lectures.slides import COMMAND as SLIDES

MADE = {"demo": DEMO, "ringside-students": bundle.COMMAND, "site": SITE, "slides": SLIDES}
CODE = (
    "assignments", "autograder", "benchmarks", "cluster", "lectures", "ringside", "solutions",
    "tests",
)  # fmt: skip
TOOLS = (".mypy_cache", ".pytest_cache", ".ruff_cache")
RESULT = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}\.json")


def clean(kit: Path) -> Iterator[str]:
    """Remove what was made in the checkout; yield a line for each thing that is left, and why."""
    course = Course(kit=kit, root=kit)
    for name, command in MADE.items():
        folder = course.build / name
        if folder.is_dir() and not folder.is_symlink():
            if strangers := output_folder.strangers(folder, command):
                yield f"{folder} is left: `{command}` did not make {', '.join(strangers[:4])}."
            else:
                shutil.rmtree(folder)
    with contextlib.suppress(output_folder.FolderError):
        bundle.zip_beside(course.build / "ringside-students").unlink(missing_ok=True)
    for folder in _folders(course.build / "source"):
        if strangers := build.not_built(folder, course):
            yield f"{folder} is left: `autograder build` did not make {', '.join(strangers[:4])}."
        else:
            shutil.rmtree(folder)
    _remove_results(course.build / "results")
    for code in CODE:
        _remove_bytecode(kit / code)
    for tool in TOOLS:
        if (kit / tool / "CACHEDIR.TAG").is_file():
            shutil.rmtree(kit / tool)


def _folders(place: Path) -> list[Path]:
    """The folders in a folder; no links."""
    return [path for path in sorted(place.glob("*")) if path.is_dir() and not path.is_symlink()]


def _remove_results(store: Path) -> None:
    for path in store.glob("*/*.json"):
        if RESULT.fullmatch(path.relative_to(store).as_posix()):
            path.unlink()
    for folder in [*_folders(store), store]:
        with contextlib.suppress(OSError):  # not empty, or not there
            folder.rmdir()


def _remove_bytecode(code: Path) -> None:
    for folder in list(code.rglob("__pycache__")):
        for path in folder.glob("*.pyc"):
            path.unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()


def main() -> int:
    """Clean the checkout that this is started in."""
    for line in clean(Path.cwd()):
        print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(command_line.ended("make clean", main))
