"""`ringside progress`: how far you are in the course: modules, hand-ins, predictions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ringside.commands.command import add, print_json
from ringside.units import format_count

EXAMPLES = """\
examples:
  ringside progress             of the course's tree around this folder
  ringside progress --json

Points are those of the public tests, as `ringside check` has last and at best counted them.
`ringside guesses` lists and draws your predictions.
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(commands, "progress", "show how far you are in the course", EXAMPLES)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path(), help="in the course's tree (default: here)"
    )


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.checking.cases import CHECKS
    from ringside.checking.public_tests import CheckError
    from ringside.course.predictions import progress

    here = asked.folder.resolve()
    root = next((base for base in (here, *here.parents) if (base / "assignments").is_dir()), None)
    base, inside = (root, "assignments/*/") if root else (here, "")
    paths = sorted(base.glob(f"{inside}{CHECKS}"))
    if not paths:
        raise CheckError(f"{here} lies in no course's tree: go to its folder, or name it.")
    rows = [_row(path.parent) for path in paths]
    predicted = progress.progress(progress.files_around(asked.folder))
    if asked.json:
        predictions = {"shown": len(predicted.made), "open": predicted.open}
        print_json({"assignments": rows, "predictions": predictions})
        return 0
    for row in rows:
        print("\n".join(_lines(row)))
    print(f"predictions: {predicted.summary()}")
    return 0


def _row(folder: Path) -> dict[str, Any]:
    """What is known of one assignment."""
    from ringside.checking import notebook, saved_progress
    from ringside.checking.cases import CHECKS
    from ringside.course.handin import hints_taken

    record, hints = saved_progress.read(folder), hints_taken.read(folder)
    modules: dict[str, Any] = {}
    for path in notebook.notebooks(folder):
        for cell in notebook.module_cells(path):
            file = folder / cell.module
            if not cell.marks and not (folder / CHECKS / f"test_{file.stem}.py").is_file():
                continue  # a program that the notebook runs
            text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else None
            written = text is not None and not cell.was_released_as(text)
            written = written or not cell.was_released_as(cell.source)
            points = record.modules.get(file.stem)
            modules[file.stem] = {
                "written": written,
                **(asdict(points) if points and written else {}),
                "hints": hints.get(file.stem, 0),
            }
    handed_in = {"at": record.handed_in, "way": record.way} if record.handed_in else None
    return {"assignment": folder.name, "modules": modules, "handed_in": handed_in}


def _lines(row: dict[str, Any]) -> Iterator[str]:
    modules = row["modules"]
    written = {name: info for name, info in modules.items() if info["written"]}
    full = sum(info.get("best", 0) == info.get("points") for info in written.values())
    handed_in = ""
    if row["handed_in"]:
        how = "packed to hand in" if row["handed_in"]["way"] == "zip" else "handed in"
        handed_in = f", {how} on {row['handed_in']['at'][:10]}"
    if not written:
        yield f"{row['assignment']}: not begun{handed_in}"
        return
    yield f"{row['assignment']}: {full} of {len(modules)} modules have all public points{handed_in}"
    width = max(map(len, written))
    for name, info in written.items():
        hints = f"; {format_count(info['hints'], 'hint')}" if info["hints"] else ""
        if "points" not in info:
            yield f"  {name:<{width}}  written, not checked yet{hints}"
            continue
        last = "" if info["earned"] == info["best"] else f"; {info['earned']:g} at the last check"
        yield f"  {name:<{width}}  {info['best']:g} of {info['points']:g}{last}{hints}"
    rest = [name for name in modules if name not in written]
    if rest:
        yield f"  not begun: {', '.join(rest)}"
