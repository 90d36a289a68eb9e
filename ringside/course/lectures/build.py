"""Executing a lecture's text into a notebook, and checking one against the other."""

from __future__ import annotations

import importlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ringside.course.lectures.inputs import digest
from ringside.course.lectures.lecture import Lecture, LectureError
from ringside.course.predictions.ask import NOTES
from ringside.course.predictions.in_notebook import revealed_in

Notebook = Any  # nbformat ships no types
WIDGET = "application/vnd.jupyter.widget-view+json"
CELL_TIMEOUT_S = 300
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # terminal codes in IPython's tracebacks
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# Outputs name temporary folders, kernels and addresses, which differ from run to run.
UNREPEATABLE = [
    (re.compile(r"/tmp/ipykernel_\d+/"), "/tmp/ipykernel/"),
    (re.compile(r" at 0x[0-9a-f]{6,}"), ""),
]


def untyped(module: str) -> Any:
    """Import a module of the notebook world when it is needed; none of them ships types."""
    return importlib.import_module(module)


def read(lecture: Lecture) -> Notebook:
    """Return the text as a notebook without outputs; cells are named after their place."""
    import jupytext

    notebook = jupytext.read(lecture.source)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
        cell.metadata.pop("lines_to_next_cell", None)
    notebook.metadata = dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def execute(lecture: Lecture) -> Notebook:
    """Return the lecture's notebook with outputs, the same ones for the same inputs.

    Raises:
        LectureError: a cell raised; the message names the cell and shows its error.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    notebook = read(lecture)
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    search_path = f"{lecture.tree}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
    client = NotebookClient(
        notebook,
        extra_arguments=["--log-level=ERROR"],
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(lecture.source.resolve().parent)}},
    )
    with tempfile.TemporaryDirectory(prefix="ringside-guesses-") as scratch:
        noted = Path(scratch) / "noted.jsonl"
        there = {"PYTHONPATH": search_path, "PYTHONHASHSEED": "0", NOTES: str(noted)}
        try:
            client.execute(env={**os.environ, **there})
        except (CellExecutionError, CellTimeoutError) as error:
            plain = COLOURS.sub("", str(error))
            where = f"{lecture.source.name}, {failed_cell(notebook)}"
            raise LectureError(f"{where}:\n{plain}") from None
        lines = noted.read_text(encoding="utf-8").splitlines() if noted.is_file() else []
    results = {one["reveal"]: one["value"] for one in map(json.loads, lines) if "reveal" in one}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = list(repeatable(cell.outputs))
            if here := {key: results[key] for key in revealed_in(cell) if key in results}:
                cell.metadata["revealed"] = here  # what the reader was asked to predict
    notebook.metadata = {**METADATA, "ringside": digest(lecture)}  # no widgets' states, no versions
    return notebook


def failed_cell(notebook: Notebook) -> str:
    """Name the cell that raised by its place and first line."""
    for number, cell in enumerate(notebook.cells):
        if any(output.output_type == "error" for output in cell.get("outputs", [])):
            return f"cell {number} ({cell.source.strip().splitlines()[0]!r})"
    return "the last cell that ran"


def repeatable(outputs: list[Any]) -> Iterator[Any]:
    """Yield outputs without what differs from run to run; stream pieces are joined.

    A live widget needs its kernel, so its view is left out; what `explore` shows has pictures, too.
    """
    previous: Any = None
    for output in outputs:
        if output.get("data", {}).pop(WIDGET, None) and "text/html" not in output.data:
            continue
        if output.output_type == "stream":
            for pattern, replacement in UNREPEATABLE:
                output.text = pattern.sub(replacement, output.text)
            if previous is not None and previous.get("name") == output.name:
                previous.text += output.text
                continue
        elif "data" in output and "text/plain" in output.data:
            for pattern, replacement in UNREPEATABLE:
                output.data["text/plain"] = pattern.sub(replacement, output.data["text/plain"])
        previous = output if output.output_type == "stream" else None
        yield output


def build(lecture: Lecture, *, force: bool = False) -> bool:
    """Execute a lecture whose notebook is stale, and write it; return whether it was."""
    if not force and not problems(lecture):
        return False
    nbformat = untyped("nbformat")
    text = nbformat.writes(execute(lecture), version=4)
    fresh = lecture.notebook.with_suffix(".ipynb.new")
    fresh.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    fresh.replace(lecture.notebook)
    return True


def problems(lecture: Lecture) -> list[str]:
    """Return what is wrong with a lecture's notebook, nothing if it belongs to its text."""
    nbformat = untyped("nbformat")
    if not lecture.notebook.is_file():
        return ["there is no executed notebook."]
    stored = nbformat.read(lecture.notebook, as_version=4)
    record = dict(stored.metadata.get("ringside", {}))
    found = []
    if cells(stored) != cells(read(lecture)):
        found.append("its cells differ from the text's.")
    elif record.get("text") != digest(lecture)["text"]:
        found.append("the text has changed since it was executed.")
    if record.get("kit_and_data") != digest(lecture)["kit_and_data"]:
        found.append("the kit, a machine file or the data have changed since it was executed.")
    for number, cell in enumerate(stored.cells):
        if cell.cell_type == "code" and cell.source.strip() and cell.execution_count is None:
            found.append(f"cell {number} has not been executed.")
        if any(output.output_type == "error" for output in cell.get("outputs", [])):
            found.append(f"cell {number} ended in an error.")
    return found


def cells(notebook: Notebook) -> list[tuple[str, ...]]:
    """Return what text and notebook must share: name, kind, slide, tags and source of each cell."""
    return [
        (
            cell.id,
            cell.cell_type,
            str(cell.metadata.get("slideshow", "")),
            *cell.metadata.get("tags", []),
            cell.source,
        )
        for cell in notebook.cells
    ]
