"""The scripts of an autograder, from ``autograder/templates/platforms``."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, StrictUndefined

from autograder.course.assignment import Assignment

__all__ = ["needs_torch", "script"]

TEMPLATES = Path(__file__).parents[1] / "templates" / "platforms"
_jinja = Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)


def needs_torch(plan: Assignment) -> bool:
    """Whether one of its modules is for PyTorch."""
    return any(module.name.endswith("_torch") for module in plan.modules)


def script(name: str, plan: Assignment, **values: object) -> str:
    """A template, filled in for an assignment."""
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    extras = "torch" if needs_torch(plan) else ""
    return _jinja.from_string(text).render(plan=plan, extras=extras, **values)
