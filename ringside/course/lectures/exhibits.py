"""What lectures show: tables that they ship as data, and figures with a description."""

from __future__ import annotations

import base64
import csv
import io
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def table(path: str | Path) -> dict[str, np.ndarray]:
    """Return a CSV file's columns; ``#`` opens a comment line, an empty cell is nan."""
    text = Path(path).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    return {name: column([row[name] for row in rows]) for name in rows[0]}


def column(values: list[str]) -> np.ndarray:
    """Return numbers as integers if all are, else as floats; anything else stays text."""
    try:
        return np.array([int(value) for value in values])
    except ValueError:
        pass
    try:
        return np.array([float(value or "nan") for value in values])
    except ValueError:
        return np.array(values)


def show(figure: Figure, alt: str) -> None:
    """Display a Matplotlib figure as a picture with a description for those who cannot see it."""
    from IPython.display import publish_display_data

    encoded, width = png(figure)
    publish_display_data(  # type: ignore[no-untyped-call]
        {"image/png": encoded, "text/plain": alt},
        metadata={"image/png": {"alt": alt, "width": width}},
    )


def image(encoded: str, alt: str, width: int, more: str = "") -> str:
    """A PNG in base64 as HTML; `more` is written into the tag."""
    return (
        f'<img alt="{escape(alt)}" width="{width}" '
        f'src="data:image/png;base64,{encoded.strip()}"{more}>'
    )


def png(figure: Figure) -> tuple[str, int]:
    """Return a Matplotlib figure as PNG in base64, and its width on a page; close the figure."""
    from matplotlib import pyplot

    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=144, bbox_inches="tight", metadata={"Software": None})
    # A PNG has its width in bytes 16 to 19 (of the chunk IHDR).
    width = int.from_bytes(picture.getvalue()[16:20], "big") * 2 // 3  # 96 of 144 dots an inch
    pyplot.close(figure)
    return base64.b64encode(picture.getvalue()).decode(), width
