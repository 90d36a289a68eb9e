"""Executing a lecture anew, and comparing its outputs with those of the committed notebook.

The same text, data, kit and libraries give the same bytes: in all pictures, too. What would differ
from run to run is taken out when a lecture is executed (`ringside.course.lectures.build`):
addresses, folders of kernels, live widgets. One thing can't be: a picture of times that were
measured on the machine. Its cell carries the tag `measured`, and of its outputs only the pictures
may differ.
"""

from __future__ import annotations

import base64
import io
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ringside.course.lectures.build import Notebook, execute, problems, untyped
from ringside.course.lectures.lecture import Lecture, LectureError
from ringside.course.predictions.in_notebook import has_tag

MEASURED = "measured"  # tag
STUDENTS_HAVE = ("ringside", "lectures", "cluster")  # all that a lecture may need
PNG = "image/png"
WIDTH = 60  # characters of a value, around the place where it differs


def compare(lecture: Lecture) -> list[str]:
    """Execute a lecture in a copy of what students have; return which outputs differ, and how.

    The tree isn't changed.

    Raises:
        LectureError: the notebook is stale, or a cell raised.
    """
    if stale := problems(lecture):
        raise LectureError(f"{lecture.name}: {stale[0]} Build it before you compare its outputs.")
    stored = untyped("nbformat").read(lecture.notebook, as_version=4)
    with tempfile.TemporaryDirectory(prefix="ringside-compare-") as scratch:
        leave_out = shutil.ignore_patterns("__pycache__", "*.ipynb")
        for part in STUDENTS_HAVE:
            if (lecture.tree / part).is_dir():
                shutil.copytree(
                    lecture.tree / part, Path(scratch, part), symlinks=True, ignore=leave_out
                )
        fresh = execute(Lecture(Path(scratch, "lectures", lecture.source.name)))
    return list(differences(stored, fresh))


def differences(committed: Notebook, fresh: Notebook) -> Iterator[str]:
    """Yield which outputs differ between two notebooks of the same text, with both values."""
    for number, (old, new) in enumerate(zip(committed.cells, fresh.cells, strict=True)):
        before, now = shown(old), shown(new)
        for part in dict.fromkeys([*before, *now]):
            if before.get(part) == now.get(part):
                continue
            if part.endswith(PNG) and has_tag(new, MEASURED) and part in before and part in now:
                continue
            values = excerpts(part, before.get(part), now.get(part))
            line = new.source.strip().splitlines()[0]
            cell = f"cell {number} ({line!r}), {part}"
            yield f"{cell}:\n  committed: {values[0]}\n  now:       {values[1]}"


def shown(cell: Any) -> dict[str, str]:
    """What an execution has added to a cell, each part by its name."""
    parts = {f"reveal {key!r}": repr(one) for key, one in cell.metadata.get("revealed", {}).items()}
    for number, output in enumerate(cell.get("outputs", []), 1):
        where = f"output {number}"
        if output.output_type == "stream":
            parts[f"{where}, {output.name}"] = output.text
            continue
        for kind, value in output.get("data", {}).items():
            parts[f"{where}, {kind}"] = str(value)
        if output.get("metadata"):
            parts[f"{where}, its description"] = str(dict(output.metadata))
    return parts


def excerpts(part: str, before: str | None, now: str | None) -> tuple[str, str]:
    """Both values of a part, around the first place where they differ."""
    if before is None:
        return "none", repr((now or "")[:WIDTH])
    if now is None:
        return repr(before[:WIDTH]), "none"
    if part.endswith(PNG):
        return pictures(before, now)
    index = next(
        (i for i, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]),
        min(len(before), len(now)),
    )
    begin = max(0, index - WIDTH // 2)
    return repr(before[begin : begin + WIDTH]), repr(now[begin : begin + WIDTH])


def pictures(before: str, now: str) -> tuple[str, str]:
    """The sizes of two pictures, and how many pixels differ."""
    from matplotlib.image import imread

    old, new = (imread(io.BytesIO(base64.b64decode(one)), format="png") for one in (before, now))
    sizes = [f"a picture of {one.shape[1]} x {one.shape[0]} pixels" for one in (old, new)]
    if old.shape != new.shape:
        return sizes[0], sizes[1]
    count = int((old != new).any(axis=-1).sum())
    return sizes[0], f"{sizes[1]}, of which {count:,} differ"
