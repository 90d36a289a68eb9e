"""Notebook files and cells, with the types that nbformat's own functions lack."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output


def read(path: Path) -> NotebookNode:
    """A notebook of ours from its file; submitted ones go through `autograder.rebuild`."""
    return cast(NotebookNode, nbformat.read(path, as_version=4))  # type: ignore[no-untyped-call]


def write(notebook: NotebookNode, path: Path) -> None:
    """Write `notebook`, with a line end after the last line."""
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def notebook(cells: list[NotebookNode]) -> NotebookNode:
    """A notebook of format 4.5, whose cells have ids."""
    made = cast(NotebookNode, new_notebook(cells=cells))  # type: ignore[no-untyped-call]
    made.nbformat_minor = 5
    return made


def code_cell(source: str, cell_id: str, metadata: dict[str, Any] | None = None) -> NotebookNode:
    """A code cell; ids are ours, so that a second build gives the same bytes."""
    cell = new_code_cell(source, id=cell_id[:64], metadata=metadata or {})  # type: ignore[no-untyped-call]
    return cast(NotebookNode, cell)


def markdown_cell(
    source: str, cell_id: str, metadata: dict[str, Any] | None = None
) -> NotebookNode:
    """A markdown cell."""
    cell = new_markdown_cell(source, id=cell_id[:64], metadata=metadata or {})  # type: ignore[no-untyped-call]
    return cast(NotebookNode, cell)


def display(html: str, text: str) -> NotebookNode:
    """An output that is shown and never read as a score."""
    data = {"text/html": html, "text/plain": text}
    return cast(NotebookNode, new_output("display_data", data))  # type: ignore[no-untyped-call]


def number(value: float) -> NotebookNode:
    """An output that nbgrader reads as a score."""
    data = {"text/plain": f"{value:.4f}"}
    made = new_output("execute_result", data, execution_count=1)  # type: ignore[no-untyped-call]
    return cast(NotebookNode, made)


def marks(cell: NotebookNode) -> dict[str, Any]:
    """nbgrader's metadata of a cell of ours; empty where it has none."""
    return cast(dict[str, Any], cell.metadata.get("nbgrader", {}))
