"""The assignments' prompts: well made, and with the reference's modules honest."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from autograder.authoring.build import write_source
from autograder.course import assignment as plans
from autograder.course.course import Course
from ringside.lectures import honest
from ringside.predictions import in_notebook
from ringside.predictions.ask import NOTES
from tests.conftest import share

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.parent.name for path in ROOT.glob("solutions/*/assignment.toml"))
COURSE = Course(kit=ROOT, root=ROOT)


def notebook_of(name: str, folder: Path) -> Path:
    """The instructor's notebook in a folder, with what it imports."""
    plan = plans.load(name, COURSE)
    write_source(plan, COURSE, folder)
    return folder / plan.notebook


@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_well_made_and_no_prose_asks_for_what_is_never_shown(
    name: str, tmp_path: Path
) -> None:
    cells = nbformat.read(notebook_of(name, tmp_path), as_version=4).cells
    keys = [key for cell in cells for key in in_notebook.guessed_in(cell)]
    assert len(keys) >= 4 and all(key.startswith(f"{name[:3]}/") for key in keys)
    assert list(in_notebook.wrong_prompts(cells)) == []
    prose = [cell.source for cell in cells if cell.cell_type == "markdown"]
    assert [text for text in prose if re.search(r"\*Predict\b", text)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", share(NAMES))
def test_every_prompt_meets_its_result_and_nothing_gives_it_away(name: str, tmp_path: Path) -> None:
    """Executed with the reference's modules; cells that hang on purpose say so and go on."""
    notebook = nbformat.read(notebook_of(name, tmp_path), as_version=4)
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
    assert list(honest.given_away(notebook.cells)) == []
