"""The assignments' prompts: well made, and with the reference's modules honest."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.publish.build import instructor_notebook, write_source
from ringside.course.lectures import page_spoilers, spoilers
from ringside.course.predictions import in_notebook, students
from ringside.course.predictions.ask import NOTES

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.parent.name for path in ROOT.glob("solutions/*/assignment.toml"))
COURSE = Course(kit=ROOT, root=ROOT)


def at_release(name: str) -> Any:
    """A notebook that is executed before a release only: together they take minutes."""
    return pytest.param(name, marks=pytest.mark.release)


def notebook_of(name: str, folder: Path) -> Path:
    """The notebook in a folder, with what it imports, solutions included."""
    plan = plans.load(name, COURSE)
    write_source(plan, COURSE, folder)
    return folder / plan.notebook


def whole(name: str) -> list[Any]:
    """The cells as their author wrote them, with explanations and checks."""
    plan, place = plans.load(name, COURSE), COURSE.solution(name)
    text = (place / "notebook.py").read_text(encoding="utf-8")
    return list(instructor_notebook(plan, text, place).cells)


@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_well_made_and_no_prose_asks_for_what_is_never_shown(
    name: str,
) -> None:
    cells = whole(name)
    keys = [key for cell in cells for key in in_notebook.guessed_in(cell)]
    assert len(keys) >= 4 and all(key.startswith(f"{name[:3]}/") for key in keys)
    assert list(in_notebook.wrong_prompts(cells)) == []
    assert list(students.lacking(cells)) == []
    prose = [cell.source for cell in cells if cell.cell_type == "markdown"]
    assert [text for text in prose if re.search(r"\*Predict\b", text)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [NAMES[0], *map(at_release, NAMES[1:])])
def test_every_prompt_meets_its_result_and_nothing_gives_it_away(name: str, tmp_path: Path) -> None:
    """Executed with the reference's modules; cells that hang on purpose say so and go on."""
    notebook = nbformat.read(notebook_of(name, tmp_path), as_version=4)
    assert not any(in_notebook.is_aside(cell) for cell in notebook.cells)
    notebook.cells = whole(name)
    for cell in notebook.cells:
        if str(cell.metadata.get("nbgrader", {}).get("grade_id", "")).startswith("check_"):
            cell.source = ""  # the suites' own tests run the modules
    noted = tmp_path / "noted"
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT), NOTES: str(noted)})
    lines = [json.loads(line) for line in noted.read_text().splitlines()]
    results = {line["reveal"]: line["value"] for line in lines if "reveal" in line}
    for cell in notebook.cells:
        for key in in_notebook.revealed_in(cell):
            assert key in results, cell.outputs
            cell.metadata.setdefault("revealed", {})[key] = results[key]
    assert list(spoilers.given_away(notebook.cells)) == []
    mine, asked = students.cleared(notebook)[0]["cells"], page_spoilers.answers(notebook.cells)
    assert asked and list(page_spoilers.told(mine, asked, page_spoilers.notebook_shows(mine))) == []
