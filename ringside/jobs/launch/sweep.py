"""What a scaling sweep measured: a table, a picture, and the run of the most ranks.

    python -m ringside.jobs.launch.sweep FOLDER --out OUT

reads ``FOLDER/1/run.json``, ``FOLDER/2/run.json``, ... (``ringside launch --sweep``) and writes

    OUT/sweep.csv       a row for each number of ranks and length, columns as `COLUMNS`
    OUT/sweep.svg       time over ranks, one line a length; only where Matplotlib is installed
    OUT/run.json        with its trace, of the most ranks: for the hand-in
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ringside import command_line
from ringside.errors import RingsideError
from ringside.files import write_atomically
from ringside.units import format_count, format_time

# speedup: the time on the fewest ranks over the time on so many, at the same length.
COLUMNS = ("ranks", "nodes", "n", "nbytes", "time_s", "speedup", "values")

Row = dict[str, Any]


class SweepError(RingsideError):
    """A sweep of which no run has left a record."""


def runs(folder: Path) -> dict[int, dict[str, Any]]:
    """The records of a sweep by number of ranks; runs that left none are missing."""
    records = {}
    for path in folder.glob("*/run.json"):
        if path.parent.name.isdigit():
            records[int(path.parent.name)] = json.loads(path.read_text())
    return dict(sorted(records.items()))


def table(records: Mapping[int, Mapping[str, Any]]) -> list[Row]:
    """One row for each number of ranks and length; a script has one row, its makespan."""
    rows: list[Row] = []
    first_s: dict[Any, float] = {}
    for ranks, record in sorted(records.items()):
        script = [{"n": None, "nbytes": None, "median_s": record["makespan_s"], "values": ""}]
        for entry in record["measurements"] or script:
            time_s = float(entry["median_s"])
            base_s = first_s.setdefault(entry["n"], time_s)
            rows.append(
                {
                    "ranks": ranks,
                    "nodes": record["nodes"],
                    "n": entry["n"],
                    "nbytes": entry["nbytes"],
                    "time_s": time_s,
                    "speedup": base_s / time_s if time_s else None,
                    "values": entry["values"],
                }
            )
    return rows


def as_csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_text(rows: Sequence[Row]) -> str:
    """For people: the table, one length after the other, and what its last column is."""
    lines = []
    for row in sorted(rows, key=lambda row: (row["n"] or 0, row["ranks"])):
        length = f"n = {row['n']:>9,}  " if row["n"] is not None else ""
        speedup = f"speedup {row['speedup']:.2f}" if row["speedup"] is not None else ""
        lines.append(
            f"  {format_count(row['ranks'], 'rank'):>9} on {format_count(row['nodes'], 'node')}  "
            f"{length}{format_time(row['time_s']):>9}  {speedup}"
        )
    lines.append("  speedup: the time on the fewest ranks over the time on so many")
    if any(row["n"] is not None for row in rows):
        lines.append(
            "  (below 1 where every rank brings n elements of its own, as in an all-reduce:"
        )
        lines.append("  the work grows with the ranks, and one rank alone sends nothing)")
    return "\n".join(lines)


def draw(rows: Sequence[Row], path: Path) -> bool:
    """Draw time over ranks, both logarithmic; False where there is no Matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    sizes = sorted({row["ranks"] for row in rows})
    for n in dict.fromkeys(row["n"] for row in rows):
        points = [row for row in rows if row["n"] == n]
        label = f"n = {n:,}" if n is not None else "the script"
        axes.loglog(
            [row["ranks"] for row in points], [row["time_s"] for row in points], "o-", label=label
        )
    axes.set_xticks(sizes, [str(size) for size in sizes], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("ranks")
    axes.set_ylabel("time in s")
    axes.legend()
    picture = io.BytesIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    write_atomically(path, picture.getvalue())
    return True


def collect(folder: Path, out: Path) -> list[Row]:
    """Write what a sweep leaves; return its table.

    Raises:
        SweepError: no run has left a record.
    """
    records = runs(folder)
    if not records:
        raise SweepError(f"no run of the sweep in {folder} has left a run.json.")
    rows = table(records)
    write_atomically(out / "sweep.csv", as_csv(rows).encode())
    draw(rows, out / "sweep.svg")
    most = folder / str(max(records))
    for name in ("run.trace.gz", "run.json"):  # the record last: it names the trace
        if (most / name).exists():
            write_atomically(out / name, (most / name).read_bytes())
    return rows


def main(words: Sequence[str] | None = None) -> int:
    """The end of a sweep's job; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m ringside.jobs.launch.sweep")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path())
    arguments = parser.parse_args(words)

    def action() -> int:
        print(as_text(collect(arguments.folder, arguments.out)))
        return 0

    return command_line.ended("ringside", action)


if __name__ == "__main__":
    sys.exit(main())
