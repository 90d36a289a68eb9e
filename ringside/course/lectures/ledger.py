"""One small GPT through the course: each lecture adds a line of step time and memory.

    lecture  scheme              GPUs    step   exposed   tokens/s   memory a GPU
    02       one GPU                1   ...
    04       data parallelism      32   ...

The model is the GPT of 1.7 billion parameters (1,652 million) of Narayanan et al. 2021, table 1.
Each GPU takes 8 sequences a step, in bf16, and computes each layer forward twice, so that it need
not keep what is inside of it. The machine is ``zaratan``, with one change: 137 TFLOP/s, the rate
that this very model *reached* on each of 32 A100 (the same table; 44 % of the peak of 312). It
counts all operations of a step over all its time, so memory traffic and launches are in it.

A lecture that has a line measures it in a cell, and shows the table so far::

    from ringside import replay
    from ringside.course.lectures import course_machine, course_step, ledger

    traced = course_step(32, reduce="once")            # 1 GPU: course_step(1, reduce="none")
    step_s = replay(traced.trace, course_machine()).makespan_s
    ledger("04", gpus=32, step_s=step_s, exposed_s=step_s - compute_s,
           memory_bytes=max(memory["peak"] for memory in traced.memory))

Its own row must be what ``lectures/data/ledger.csv`` holds; the rows of earlier lectures are read
from there. To write or renew a row, add ``renew=True`` once, run the cell, and take it out again.

``compute_s`` is a GPU's work alone, 1.792 s where nothing is cut: the step of one GPU. What a step
takes beyond it waits for other GPUs. (``Timeline.exposed_comm_s`` leaves out waits for a GPU that
is late, so it may be less.)

- 02, one GPU: ``course_step(1, reduce="none")``, nothing exposed.
- 04, one all-reduce at the end: ``course_step(32, reduce="once")``.
- 05, overlapped: ``course_step(32, reduce="layers")``. For other buckets write a program as below.
- 07, sharded: ``programs/sharded_gpt.py``, traced with ``(8, True)``: 8 sequences, with prefetch.
- 08, cut by tensors, and 09, piped, have programs of their own. Write a file with a function
  ``step(group, sizes, ...)`` and trace it by ``course_trace("file.py:step", 32, (...), grid=...,
  alike=...)``, which passes ``group`` and ``SIZES`` first; ``course_gpt`` has layers to copy from.
  Keep 32 GPUs and 256 sequences a step of all GPUs together, else say ``num_sequences``.
- 12, mixed: the planner's best on 512 GPUs with 512 sequences, by the formula of
  ``ringside.scale.hybrid_cost`` and not by a trace.
- A scheme that isn't in ``SCHEMES`` gets a name there.

``work_to_hide`` is the course's roofline of communication: the arithmetic that hides some bytes.
"""

from __future__ import annotations

import csv
import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ringside import kit
from ringside.course.lectures.lecture import LectureError
from ringside.errors import TargetError
from ringside.scale.fake_ranks import TorchTrace
from ringside.session.session import trace_torch
from ringside.timing.machine import Machine

if TYPE_CHECKING:  # run by its path, on ranks; lectures that read this module depend on it
    from ringside.course.lectures import course_gpt as _program  # noqa: F401

SIZES = {
    "num_layers": 24,
    "width": 2304,
    "num_heads": 24,
    "sequence": 2048,
    "vocabulary": 51200,
}
SEQUENCES_PER_GPU = 8
NUM_GPUS = 32
REACHED_FLOP_PER_S = 137e12  # Narayanan et al. 2021, table 1, first row
SCHEMES = {
    "02": "one GPU",
    "04": "data parallelism, one all-reduce",
    "05": "data parallelism, overlapped",
    "06": "four passes to an all-reduce",
    "07": "sharded",
    "08": "cut by tensors",
    "09": "piped",
    "12": "hybrid",
}
PROGRAM = Path(__file__).with_name("course_gpt.py")
FILE = kit.lectures_folder() / "data" / "ledger.csv"
TOLERANCE = 1e-3  # rows are written with five digits


@dataclass(frozen=True)
class Line:
    """One lecture's line: a training step of the course's GPT under one scheme."""

    lecture: str
    gpus: int
    num_sequences: int
    step_s: float
    exposed_s: float
    memory_bytes: int

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all GPUs together."""
        return self.num_sequences * SIZES["sequence"] / self.step_s


@dataclass(frozen=True)
class Ledger:
    """Lines, in the order of the lectures; the first one is what the others are compared with."""

    lines: tuple[Line, ...]

    HEAD = ("lecture", "scheme", "GPUs", "step", "exposed", "tokens/s", "efficiency",
            "memory a GPU")  # fmt: skip

    def rows(self) -> list[tuple[str, ...]]:
        """The table in words; efficiency is tokens a second and GPU against the first line."""
        first = self.lines[0].tokens_per_s / self.lines[0].gpus
        return [
            (
                line.lecture,
                SCHEMES[line.lecture],
                str(line.gpus),
                f"{line.step_s:.3f} s",
                f"{line.exposed_s:.3f} s",
                f"{line.tokens_per_s:,.0f}",
                f"{line.tokens_per_s / line.gpus / first:.1%}".replace("%", " %"),
                f"{line.memory_bytes / 1e9:.1f} GB",
            )
            for line in self.lines
        ]

    def __repr__(self) -> str:
        rows = [self.HEAD, *self.rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.HEAD))]
        return "\n".join(
            "  ".join(cell.ljust(wide) if i < 2 else cell.rjust(wide)
                      for i, (cell, wide) in enumerate(zip(row, widths, strict=True))).rstrip()
            for row in rows
        )  # fmt: skip

    def _repr_html_(self) -> str:
        def row(cells: Iterable[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

        body = "".join(row(cells, "td") for cells in self.rows())
        return f"<table><thead>{row(self.HEAD, 'th')}</thead><tbody>{body}</tbody></table>"


def num_parameters(sizes: Mapping[str, int] = SIZES) -> int:
    """Parameters of the course's GPT: layers, words and positions, the last norm."""
    wide = sizes["width"]
    # Attention 4 h^2 + 4 h, MLP 8 h^2 + 5 h with its biases, two layer norms 4 h.
    layer = 12 * wide * wide + 13 * wide
    embeddings = (sizes["vocabulary"] + sizes["sequence"]) * wide
    return sizes["num_layers"] * layer + embeddings + 2 * wide


def step_flops(num_sequences: int, sizes: Mapping[str, int] = SIZES) -> float:
    """Operations of a step that runs every layer, and the last matrix, forward twice.

    It is equation 3 of Narayanan et al. 2021 with one difference: there the last matrix runs
    forward once, and its term is V / (16 l h) instead of V / (12 l h).
    """
    n, wide, tokens = sizes["num_layers"], sizes["width"], sizes["sequence"]
    beside = tokens / (6 * wide) + sizes["vocabulary"] / (12 * n * wide)
    return 96 * num_sequences * tokens * n * wide**2 * (1 + beside)


def course_machine() -> Machine:
    """``zaratan`` at the rate that this model reached, which includes memory and launches."""
    return Machine.load("zaratan").with_(
        flop_per_s=REACHED_FLOP_PER_S, memory_bytes_per_s=math.inf, kernel_overhead_s=0.0
    )


def course_step(gpus: int = NUM_GPUS, *, reduce: str = "once") -> TorchTrace:
    """Trace one step of the course's GPT, every GPU a replica with 8 sequences.

    Args:
        gpus: number of ranks.
        reduce: of the gradients: ``"none"``, ``"once"`` after the backward pass, or ``"layers"``,
            one all-reduce for each layer as soon as its gradients are there.
    """
    if reduce not in ("none", "once", "layers"):
        raise TargetError(f"reduce ({reduce!r}) must be 'none', 'once' or 'layers'.")
    target = f"{PROGRAM}:step"
    grid = {"dp": gpus}
    return course_trace(target, gpus, (SEQUENCES_PER_GPU, reduce), grid=grid, alike=("dp",))


def course_trace(
    target: str,
    gpus: int,
    args: tuple[Any, ...] = (),
    *,
    grid: Mapping[str, int] | None = None,
    alike: Sequence[str] = (),
) -> TorchTrace:
    """Trace ``step(group, sizes, *args)`` of a file, with the course's sizes."""
    return trace_torch(target, gpus, (SIZES, *args), grid=grid, alike=alike, witnesses=False)


def work_to_hide(nbytes: float, machine: Machine | None = None, *, inside: bool = False) -> float:
    """Return the operations that a GPU does in the time that a link takes for some bytes.

    To hide communication, a rank needs at least that much work at the same time. For one byte it
    is the machine's balance: 137 TFLOP/s over 12.5 GB/s between nodes, 10,960 operations.

    Data parallelism sends ``2 w (p - 1) / p`` bytes for a parameter of w bytes, behind a backward
    pass of 4 operations a token (6 where layers run forward again), so tokens a GPU must be at
    least ``work_to_hide(2 * w * (p - 1) / p) / 4``.

    Args:
        nbytes: what a rank sends.
        machine: the course's, if not given.
        inside: over the links inside a node instead of those between nodes.
    """
    machine = machine or course_machine()
    source, dest = (0, 1) if inside else (0, machine.ranks_per_node)
    return nbytes * machine.link(source, dest).beta_s_per_byte * machine.flop_per_s


def ledger(
    lecture: str,
    *,
    gpus: int,
    step_s: float,
    memory_bytes: int,
    exposed_s: float = 0.0,
    num_sequences: int | None = None,
    renew: bool = False,
    file: str | Path = FILE,
) -> Ledger:
    """Return the course's ledger up to this lecture's line, as a table that notebooks show.

    Args:
        lecture: ``"04"``; its scheme's name is in ``SCHEMES``.
        gpus: all of them.
        step_s, exposed_s: a step, and the part of it that waits for communication.
        memory_bytes: of the GPU that needs most.
        num_sequences: of all GPUs in a step; 8 a GPU if not given.
        renew: write this line into the file instead of comparing it.
        file: where the lines are kept.

    Raises:
        LectureError: the line isn't what the file holds, or the file has none.
    """
    if lecture not in SCHEMES:
        raise LectureError(f"lecture {lecture!r} has no scheme: give it a name in SCHEMES.")
    number = SEQUENCES_PER_GPU * gpus if num_sequences is None else num_sequences
    line = Line(lecture, gpus, number, float(step_s), float(exposed_s), int(memory_bytes))
    lines = {each.lecture: each for each in read(Path(file))}
    if renew:
        lines[lecture] = line
        write(Path(file), lines.values())
    elif lecture not in lines:
        raise LectureError(
            f"{Path(file).name} has no line of lecture {lecture}: add renew=True once to write it."
        )
    else:
        compare(line, lines[lecture], Path(file).name)
    return Ledger(tuple(lines[each] for each in SCHEMES if each in lines and each <= lecture))


def compare(line: Line, held: Line, name: str) -> None:
    """Raise where a line that a lecture measured isn't the one that the file holds."""
    for about in ("gpus", "num_sequences", "step_s", "exposed_s", "memory_bytes"):
        measured, written = getattr(line, about), getattr(held, about)
        if not math.isclose(measured, written, rel_tol=TOLERANCE, abs_tol=1e-6):
            raise LectureError(
                f"lecture {line.lecture}: {about} is {measured:.6g}, and {name} holds "
                f"{written:.6g}. If the new value is right, add renew=True once to write it, and "
                f"build the later lectures again."
            )


def read(file: Path) -> list[Line]:
    """Lines of a ledger's file; none if there is no file."""
    if not file.is_file():
        return []
    text = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    return [
        Line(
            row["lecture"], int(row["gpus"]), int(row["num_sequences"]), float(row["step_s"]),
            float(row["exposed_s"]), int(row["memory_bytes"]),
        )
        for row in csv.DictReader(text)
    ]  # fmt: skip


def write(file: Path, lines: Iterable[Line]) -> None:
    """Write a ledger's file, in the order of the lectures."""
    text = [
        "# The course's GPT on zaratan, at 137 TFLOP/s a GPU: one line for each lecture.",
        "# Written by ringside.course.lectures.ledger(renew=True); lectures check their lines.",
        "lecture,gpus,num_sequences,step_s,exposed_s,memory_bytes",
    ]
    text += [
        f"{line.lecture},{line.gpus},{line.num_sequences},{line.step_s:.5g},"
        f"{line.exposed_s:.5g},{line.memory_bytes}"
        for line in sorted(lines, key=lambda each: each.lecture)
    ]
    file.write_text("\n".join(text) + "\n")
