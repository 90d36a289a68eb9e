"""The command that executes and checks lectures, and makes slides and pages of them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ringside import command_line
from ringside.course import term
from ringside.course.handout.listing import listing
from ringside.course.lectures import (
    api,
    course_map,
    decks,
    page_spoilers,
    paths_page,
    term_calendar,
)
from ringside.course.lectures.build import build, problems, read, untyped, with_outputs
from ringside.course.lectures.compare import compare
from ringside.course.lectures.executed_with import kit_of
from ringside.course.lectures.handout import Handout
from ringside.course.lectures.lecture import Lecture, LectureError, find
from ringside.course.lectures.site import site
from ringside.course.lectures.slides import renew
from ringside.course.lectures.spoilers import given_away
from ringside.course.lectures.tagged_parts import missing
from ringside.course.predictions import students
from ringside.course.term import Term
from ringside.files import write_atomically
from ringside.progress import waiting
from ringside.toml_tables import TableError

BEGIN, END = "<!-- units -->", "<!-- end of units -->"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what was asked; 0: done, 1: a lecture is wrong, stale or differs, 2: asked wrongly."""
    parser = argparse.ArgumentParser(
        prog="python -m ringside.course.lectures",
        description="Execute the lectures' text sources into notebooks (build), find those whose "
        "text or data has changed since (check), execute them anew and compare all outputs with "
        "the notebooks' (compare), and make slides and the course's pages of what is executed; "
        "api writes docs/api.md, and readme the table of units in README.md and lectures/paths.md.",
        epilog="example: python -m ringside.course.lectures build 03_allreduce",
    )
    actions = ["build", "check", "compare", "slides", "site", "api", "readme"]
    parser.add_argument("action", choices=actions)
    parser.add_argument("names", nargs="*", help="lectures by name or number; all if none is given")
    parser.add_argument("--folder", type=Path, default=Path("lectures"), help="default: lectures")
    parser.add_argument("--force", action="store_true", help="build: also what is up to date")
    parser.add_argument("--out", type=Path, default=Path("build"), help="slides, site: where to")
    parser.add_argument(
        "--course",
        type=Path,
        metavar="FOLDER",
        help="site: a course, whose course.toml has the term's dates (or RINGSIDE_COURSE)",
    )
    parser.add_argument(
        "--also-future",
        action="store_true",
        help="site: also the assignments that course.toml releases later",
    )
    options = parser.parse_intermixed_args(arguments)
    return command_line.ended("", lambda: run(options), faults=(TableError,))


def run(options: argparse.Namespace) -> int:
    """Do what was asked; return the exit status."""
    if options.action == "api":
        return write_api(options.folder.parent / "docs" / "api.md")
    if options.action == "readme":
        return write_units(options.folder.parent / "README.md")
    lectures = find(options.folder, options.names)
    if not lectures:
        raise LectureError(f"no lectures in {options.folder}: start in the tree's root.")
    if options.action in ("slides", "site"):
        return present(lectures, options)
    failed = False
    for lecture in lectures:
        try:
            failed |= not act(lecture, options)
        except LectureError as error:
            command_line.complain("", error)
            failed = True
    if options.action == "check":
        print(
            "A change of the kit alone makes no notebook stale. Where you changed what a lecture "
            "calls, prints or draws, run: python -m ringside.course.lectures compare NN"
        )
    return 1 if failed else 0


def write_api(path: Path) -> int:
    """Write the page of public names."""
    try:
        path.write_text(api.page(), encoding="utf-8")
    except OSError as error:
        raise LectureError(f"{path}: {error.strerror}: start in the tree's root.") from error
    print(path)
    return 0


def write_units(page: Path) -> int:
    """Write the tree's table of units between two marks of its README, and the page of paths."""
    tree = page.parent
    try:
        names = listing([path.name for path in tree.glob("assignments/a*")], None, tree).given
        rows = course_map.unit_rows(course_map.units(tree, names))
        text = page.read_text(encoding="utf-8")
        paths = "\n".join(paths_page.page(course_map.units(tree), tree))
    except OSError as error:
        raise LectureError(f"{page}: {error.strerror}: start in the tree's root.") from error
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end or BEGIN in rest:
        raise LectureError(f"{page}: put {BEGIN} and {END} around the table of units.")
    whole = "\n".join([f"{before}{BEGIN}", "", *rows, "", f"{END}{after}"])
    for path, written in ((page, whole), (tree / paths_page.PAGE, paths)):
        write_atomically(path, written.encode())
        print(path)
    return 0


def present(lectures: Sequence[Lecture], asked: argparse.Namespace) -> int:
    """Make slides, or the pages and slides; nothing is executed."""
    notebooks = [lecture.notebook for lecture in lectures]
    try:
        tree = lectures[0].tree
        dates = the_term(asked.course, tree) if asked.action == "site" else None
        for sentence in term_calendar.out_of_order(dates, tree) if dates else ():
            print(sentence, file=sys.stderr)
        with waiting(f"making the {'slides' if asked.action == 'slides' else 'pages and slides'}"):
            if asked.action == "slides":
                talks = [Handout(path, is_lecture=True) for path in notebooks]
                paths = renew(talks, asked.out / "slides", whole=not asked.names)
            else:
                paths = [site(tree, notebooks, asked.out, dates, also_future=asked.also_future)]
    except LectureError as error:
        command_line.complain("", error)
        return 1
    for path in paths:
        print(path)
    return 0


def the_term(course: Path | None, tree: Path) -> Term | None:
    """What a course's file says of its term; nothing where no course has dates.

    Raises:
        TableError: the course that was asked for has no dates, or its file holds something else.
    """
    folder = os.environ.get("RINGSIDE_COURSE")
    path = (course or Path(folder or "")) / term.FILE
    if course is None and not (folder and path.is_file()):
        return None
    if not path.is_file():
        raise TableError(f"{path} is missing: --course names a folder that holds one.")
    names = [notebook.parent.name for notebook in tree.glob("assignments/*/a*.ipynb")]
    course_term = term.read(path, names)
    if course is not None and not course_term.has_dates:
        raise TableError(f"{path} has no dates: write some below [units], [released] or [due].")
    return course_term if course_term.has_dates else None


def act(lecture: Lecture, asked: argparse.Namespace) -> bool:
    """Do what was asked for one lecture; return whether all is well with it."""
    if asked.action == "check":
        return check(lecture)
    with waiting(f"executing {lecture.name}"):
        if asked.action == "build":
            print(f"{lecture.name}: {build(lecture, force=asked.force) or 'up to date'}")
            return True
        differing = compare(lecture)
    for difference in differing:
        print(f"{lecture.name}, {difference}")
    if differing:
        count = f"{len(differing)} output{'s differ' if len(differing) > 1 else ' differs'}"
        cure = f"python -m ringside.course.lectures build --force {lecture.name}"
        print(f"{lecture.name}: {count}. Where that is meant, run: {cure}")
    else:
        print(f"{lecture.name}: the same outputs")
    return not differing


def check(lecture: Lecture) -> bool:
    """Say whether a lecture is stale, what executed it, and what it lacks; nothing is executed."""
    stale = problems(lecture)
    for problem in stale:
        command = f"python -m ringside.course.lectures build {lecture.name}"
        print(f"{lecture.name}: {problem} Run: {command}")
    text = read(lecture)
    executed = untyped("nbformat").read(lecture.notebook, 4) if lecture.notebook.is_file() else None
    if executed and not stale:
        print(f"{lecture.name}: up to date, {kit_of(lecture, executed)}")
    if executed:
        executed.cells = cells = with_outputs(read(lecture).cells, executed.cells)
    lacking = missing(text, executed or text)
    if executed:
        lacking += given_away(cells)
        lacking += page_spoilers.early(cells)
        lacking += students.lacking(cells)
    for sentence in lacking:
        print(f"{lecture.source.name}: {sentence} CONTRIBUTING.md says what a lecture has.")
    deck = decks.source_of(lecture.notebook)
    if executed and deck.is_file():
        for fault in decks.wrong(decks.read(deck), executed):
            lacking.append(fault)
            print(f"{deck}: {fault}")
    return not stale and not lacking


if __name__ == "__main__":
    raise SystemExit(main())
