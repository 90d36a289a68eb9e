"""Our pages as HTML: everything is escaped, nothing may be missing."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from autograder import file_names
from autograder.course.assignment import Assignment
from autograder.grade.outcome import Outcome
from autograder.gradebook.report.feedback import INVISIBLE, Page, duration, page_of

if TYPE_CHECKING:
    pass

TEMPLATES = Path(__file__).parents[2] / "templates"


def _visible(value: object) -> object:
    """What is printed on the page, whatever it is: no control or direction characters."""
    if not isinstance(value, str):
        return value
    return type(value)(INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", value))


def environment() -> jinja2.Environment:
    """What our pages are rendered in: everything is escaped, nothing may be missing."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["duration"] = duration
    return environment


@functools.cache
def _environment() -> jinja2.Environment:
    return environment()


def render(page: Page) -> str:
    """The page as one HTML document."""
    return _environment().get_template("feedback.html.j2").render(page=page)


def write_pages(folder: Path, plan: Assignment, outcomes: list[Outcome]) -> list[Path]:
    """One page per submission, for courses that don't use nbgrader's feedback."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for outcome in outcomes:
        path = folder / f"{file_names.of(outcome.student)}.html"
        path.write_text(render(page_of(plan, outcome)), encoding="utf-8")
        written.append(path)
    return written
