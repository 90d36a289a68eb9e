"""Executing a lecture's text into a notebook, and checking one against the other.

    what changed                                    the notebook is      `build`
    a cell of code, data that the lecture read      stale                executes it
    prose, a tag, the type of a slide               stale                keeps its outputs
    the kit                                         up to date           does nothing

Whether a change of the kit changes an output is what `ringside.course.lectures.compare` finds out.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ringside.course.lectures import meetings
from ringside.course.lectures.executed_with import changed_data, has_record, noting_reads, record
from ringside.course.lectures.lecture import Lecture, LectureError
from ringside.course.predictions.ask import NOTES
from ringside.course.predictions.in_notebook import revealed_in
from ringside.draw.live import script_tag
from ringside.files import write_atomically

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
    """Return the text as a notebook without outputs, its list of sections written out.

    Cells are named after their place.
    """
    import jupytext

    notebook = jupytext.read(lecture.source)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
        cell.metadata.pop("lines_to_next_cell", None)
    meetings.write_plan(notebook.cells)
    notebook.metadata = dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def execute(lecture: Lecture) -> Notebook:
    """Return the lecture's notebook with outputs, the same ones for the same text, data and kit.

    Raises:
        LectureError: a cell raised; the message names the cell and shows its error.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    notebook = read(lecture)
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    search_path = f"{lecture.tree}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
    with tempfile.TemporaryDirectory(prefix="ringside-lecture-") as scratch:
        noted, reads = Path(scratch) / "noted.jsonl", Path(scratch) / "reads.txt"
        client = NotebookClient(
            notebook,
            extra_arguments=["--log-level=ERROR", noting_reads(reads)],
            timeout=CELL_TIMEOUT_S,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": str(lecture.source.resolve().parent)}},
        )
        # One seed for hashes: sets of texts come in one order, so outputs repeat to the byte.
        there = {"PYTHONPATH": search_path, "PYTHONHASHSEED": "0", NOTES: str(noted)}
        try:
            client.execute(env={**os.environ, **there})
        except (CellExecutionError, CellTimeoutError) as error:
            plain = COLOURS.sub("", str(error))
            where = f"{lecture.source.name}, {failed_cell(notebook)}"
            raise LectureError(f"{where}:\n{plain}") from None
        lines = noted.read_text(encoding="utf-8").splitlines() if noted.is_file() else []
        executed_with = record(lecture, reads)
    results = {one["reveal"]: one["value"] for one in map(json.loads, lines) if "reveal" in one}
    keep_one_script(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = list(repeatable(cell.outputs))
            if here := {key: results[key] for key in revealed_in(cell) if key in results}:
                cell.metadata["revealed"] = here  # what the reader was asked to predict
    notebook.metadata = {**METADATA, "ringside": executed_with}  # no widgets' states
    return notebook


def keep_one_script(notebook: Notebook) -> None:
    """Keep the first of the scripts that make timelines live: one is enough for a page."""
    tag, seen = script_tag(), False
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            page = output.get("data", {}).get("text/html", "")
            if tag in page:
                output["data"]["text/html"] = page.replace(tag, "") if seen else page
                seen = True


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


def build(lecture: Lecture, *, force: bool = False) -> str:
    """Bring a lecture's notebook up to date; return what that took, empty where it was.

    Outputs are those of the last execution where no code and no data has changed since.
    """
    if not force and not problems(lecture):
        return ""
    nbformat = untyped("nbformat")
    stored = nbformat.read(lecture.notebook, as_version=4) if lecture.notebook.is_file() else None
    if force or stored is None or must_execute(lecture, stored):
        notebook, done = execute(lecture), "executed"
    else:
        notebook, done = read(lecture), "renewed without being executed, since no code has changed"
        notebook.cells = with_outputs(notebook.cells, stored.cells)
        notebook.metadata["ringside"] = stored.metadata["ringside"]
    text = nbformat.writes(notebook, version=4)
    write_atomically(lecture.notebook, (text.rstrip("\n") + "\n").encode())
    return done


def problems(lecture: Lecture) -> list[str]:
    """Return why a lecture's notebook is stale, nothing if it belongs to its text and its data."""
    if not lecture.notebook.is_file():
        return ["there is no executed notebook."]
    stored = untyped("nbformat").read(lecture.notebook, as_version=4)
    if not has_record(stored):
        return ["its notebook doesn't say what it was executed with."]
    reasons = []
    pairs = zip_longest(cells(stored), cells(read(lecture)))
    if (number := next((i for i, (old, new) in enumerate(pairs) if old != new), None)) is not None:
        reasons.append(f"cell {number} differs from the text's.")
    reasons += [
        f"{name} has changed since it was executed." for name in changed_data(lecture, stored)
    ]
    return reasons + unfinished(stored)


def unfinished(executed: Notebook) -> list[str]:
    """Return which cells of a notebook did not run to their end."""
    reasons = []
    for number, cell in enumerate(executed.cells):
        if cell.cell_type == "code" and cell.source.strip() and cell.execution_count is None:
            reasons.append(f"cell {number} has not been executed.")
        if any(output.output_type == "error" for output in cell.get("outputs", [])):
            reasons.append(f"cell {number} ended in an error.")
    return reasons


def must_execute(lecture: Lecture, executed: Notebook) -> bool:
    """Whether the outputs of a notebook are no longer those of its lecture's code and data."""
    before, now = (
        [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        for notebook in (executed, read(lecture))
    )
    return (
        not has_record(executed)
        or before != now
        or bool(changed_data(lecture, executed) or unfinished(executed))
    )


def with_outputs(text: Sequence[Any], executed: Sequence[Any]) -> list[Any]:
    """The cells of a text that has changed, with what is still right of the executed notebook's.

    Cells of the same code take its outputs in their order.
    """
    results: dict[str, Any] = {}
    same_code = defaultdict(list)
    for cell in executed:
        results |= cell["metadata"].get("revealed", {})
        same_code[cell["source"]].append(cell)
    for cell in text:
        if cell["cell_type"] == "code":
            if same_code[cell["source"]]:
                before = same_code[cell["source"]].pop(0)
                cell["outputs"] = before.get("outputs", [])
                cell["execution_count"] = before.get("execution_count")
            if here := {key: results[key] for key in revealed_in(cell) if key in results}:
                cell["metadata"]["revealed"] = here
    return list(text)


def cells(notebook: Notebook) -> list[tuple[Any, ...]]:
    """Return what text and notebook must share of each cell: all but what an execution adds."""
    return [
        (
            cell.id,
            cell.cell_type,
            {key: value for key, value in cell.metadata.items() if key != "revealed"},
            cell.source,
        )
        for cell in notebook.cells
    ]
