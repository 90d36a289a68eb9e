"""Prompts in a notebook: where a prediction is asked for, and where its result is shown.

    predict   guess("08/first-layer", ...)          a cell of its own, with the tag predict
    ...       code and output that give it away     folded on pages, a fragment on slides
    reveal    reveal("08/first-layer", result)      the last line of the cell that computes it

An executed notebook keeps what was revealed in the metadata of the cell: ``{"revealed": {key:
result}}``. It stands in no output, since without a prediction ``reveal`` shows nothing.
"""

from __future__ import annotations

import re
from typing import Any

_CALL = re.compile(r"""^\s*(?:ringside\.)?(guess|reveal)\(\s*(["'])(.+?)\2""", re.MULTILINE)


def guessed_in(cell: Any) -> list[str]:
    """The keys that a cell asks for."""
    return _keys(cell, "guess")


def revealed_in(cell: Any) -> list[str]:
    """The keys whose results a cell shows."""
    return _keys(cell, "reveal")


def _keys(cell: Any, name: str) -> list[str]:
    if cell.cell_type != "code":
        return []
    return [key for called, _, key in _CALL.findall(cell.source) if called == name]
