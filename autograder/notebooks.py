"""Notebook files and cells, with the types that nbformat's own functions lack.

nbformat is imported with the first of them: where jsonschema has its optional formats that takes
two seconds, which grading a folder of modules needn't.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbformat import NotebookNode


def _nbformat() -> Any:
    import nbformat

    return nbformat


def read(path: Path) -> NotebookNode:
    """A notebook of ours from its file; submitted ones go through `collect.rebuild`."""
    document: NotebookNode = _nbformat().read(path, as_version=4)
    return document


def write(notebook: NotebookNode, path: Path) -> None:
    """Write `notebook`, with a line end after the last line."""
    _nbformat().write(notebook, path)


def notebook(cells: list[NotebookNode]) -> NotebookNode:
    """A notebook of format 4.5, whose cells have ids."""
    document: NotebookNode = _nbformat().v4.new_notebook(cells=cells)
    document.nbformat_minor = 5
    return document


def code_cell(source: str, cell_id: str, metadata: dict[str, Any] | None = None) -> NotebookNode:
    """A code cell; ids are ours, so that a second build gives the same bytes."""
    new = _nbformat().v4.new_code_cell
    cell: NotebookNode = new(source, id=cell_id[:64], metadata=metadata or {})
    return cell


def markdown_cell(
    source: str, cell_id: str, metadata: dict[str, Any] | None = None
) -> NotebookNode:
    """A markdown cell."""
    new = _nbformat().v4.new_markdown_cell
    cell: NotebookNode = new(source, id=cell_id[:64], metadata=metadata or {})
    return cell


def display(html: str, text: str) -> NotebookNode:
    """An output that is shown and never read as a score."""
    data = {"text/html": html, "text/plain": text}
    output: NotebookNode = _nbformat().v4.new_output("display_data", data)
    return output


def number(value: float) -> NotebookNode:
    """An output that nbgrader reads as a score."""
    data = {"text/plain": f"{value:.4f}"}
    output: NotebookNode = _nbformat().v4.new_output("execute_result", data, execution_count=1)
    return output


def marks(cell: NotebookNode) -> dict[str, Any]:
    """nbgrader's metadata of a cell of ours; empty where it has none."""
    metadata: dict[str, Any] = cell.metadata.get("nbgrader", {})
    return metadata
