"""Puzzles: a program in a file works, and misses a target of time, bytes, messages or memory.

%%writefile slow.py       the reader changes the program ...
puzzle("slow.py:total", 4, args, expected=10.0, at_most_us=14, hint="Post all receives first.")

Values    Each of the 4 ranks returns what is expected.               ... and is told at once
Time      The program takes 18 µs. The target is at most 14 µs.
Not solved yet. Hint: Post all receives first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ringside.errors import RunError, TargetError
from ringside.session.session import run, trace_torch
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.timing.timeline import Timeline
from ringside.units import format_count, format_time


@dataclass(frozen=True)
class Finding:
    """One thing that a puzzle asks for, and what the program does about it."""

    about: str
    said: str
    holds: bool


@dataclass(frozen=True)
class Attempt:
    """How a program does on a puzzle.

    Attributes:
        solved: whether all findings hold.
        findings: what was asked for, one by one.
        time_us: the makespan.
        sent_bytes, sent_messages: per rank, library collectives included.
        peak_bytes: per rank, the most memory that its tensors take; empty for mpi4py programs.
        values: what the ranks return; empty where the program is traced.
        error: why the run failed, or None.
    """

    solved: bool
    findings: tuple[Finding, ...]
    time_us: float
    sent_bytes: tuple[int, ...]
    sent_messages: tuple[int, ...]
    peak_bytes: tuple[int, ...] = ()
    values: tuple[Any, ...] = ()
    error: RunError | None = None
    timeline: Timeline | None = field(default=None, repr=False)

    def _ipython_display_(self) -> None:
        """Show nothing: what there is to see was shown when the program was judged."""


def puzzle(
    target: str | Callable[..., Any],
    world_size: int,
    args: Any = (),
    *,
    machine: Machine | str = "textbook",
    expected: Any = None,
    at_most_us: float | None = None,
    at_most_bytes: int | None = None,
    at_most_bytes_in_all: int | None = None,
    at_most_messages: int | None = None,
    at_most_messages_in_all: int | None = None,
    at_most_memory_bytes: int | None = None,
    rtol: float = 1e-6,
    traced: bool = False,
    hint: str = "",
    draw: bool = True,
) -> Attempt:
    """Run a program on the counted network, say which targets it meets, and draw its timeline.

    Args:
        target: ``"slow.py:total"``, a function of a file that ``%%writefile`` made, for mpi4py or
            for torch, as for ``ringside.run``.
        world_size: number of ranks.
        args: a list with one tuple of arguments per rank, or one tuple for all ranks.
        machine: the machine that times it.
        expected: what the function must return: a list with one value per rank, or else one value
            that every rank must return. None: values aren't looked at.
        at_most_us: the makespan's target in µs.
        at_most_bytes, at_most_messages: how much any one rank may send, library collectives
            included.
        at_most_bytes_in_all, at_most_messages_in_all: how much all ranks may send together.
        at_most_memory_bytes: the most that the tensors of any one rank may take; torch only.
        rtol: how far values may be from what is expected, relative to it.
        traced: trace the program on fake tensors (``ringside.trace_torch``), for models that are
            too large to be run. There are no values then.
        hint: a sentence that helps whoever misses a target.
        draw: show the timeline.

    Raises:
        TargetError: there is no such file; no target is given; or memory is asked of a program
            that doesn't use torch, values of a traced one.
    """
    targets = (
        ("Time", "takes", at_most_us, "the longest rank", format_us),
        ("Bytes", "sends", at_most_bytes, "any one rank", format_nbytes),
        ("Bytes", "sends", at_most_bytes_in_all, "all ranks", format_nbytes),
        ("Messages", "sends", at_most_messages, "any one rank", format_messages),
        ("Messages", "sends", at_most_messages_in_all, "all ranks", format_messages),
        ("Memory", "holds", at_most_memory_bytes, "any one rank", format_nbytes),
    )
    if expected is None and all(target is None for _, _, target, _, _ in targets):
        raise TargetError("a puzzle needs a target: give expected, at_most_us, at_most_bytes, ...")
    if traced and expected is not None:
        raise TargetError("a traced program has no values: leave expected out, or run it.")
    ran = _traced if traced else _run
    values, error, timeline, peaks = ran(target, world_size, args, machine)
    if at_most_memory_bytes is not None and not peaks and error is None:
        raise TargetError("memory is counted of torch programs only: leave at_most_memory_bytes.")
    nbytes = [int(n) for n in timeline.bytes_matrix.sum(axis=1)]
    counts = [0] * world_size
    for message in timeline.messages:
        counts[message.source] += 1
    figures = (
        1e6 * timeline.makespan_s,
        *(max(nbytes), sum(nbytes), max(counts), sum(counts), max(peaks, default=0)),
    )
    findings: list[Finding] = []
    if error is not None:
        findings.append(
            Finding("Run", f"The program fails: {type(error).__name__}: {error}", False)
        )
    else:
        if expected is not None:
            findings.append(judged_values(values, expected, rtol))
        findings += [
            judged_figure(about, verb, who, figure, most, formatter)
            for (about, verb, most, who, formatter), figure in zip(targets, figures, strict=True)
            if most is not None
        ]
    attempt = Attempt(
        solved=all(finding.holds for finding in findings),
        findings=tuple(findings),
        time_us=figures[0],
        sent_bytes=tuple(nbytes),
        sent_messages=tuple(counts),
        peak_bytes=tuple(peaks),
        values=tuple(values),
        error=error,
        timeline=timeline,
    )
    tell(attempt, hint)
    if draw:
        show_timeline(timeline)
    return attempt


Ran = tuple[Sequence[Any], RunError | None, Timeline, list[int]]


def _run(target: Any, world_size: int, args: Any, machine: Machine | str) -> Ran:
    result = run(target, world_size, args, machine=machine, check=False)
    peaks = [usage["peak"] for usage in result.memory if usage]
    return result.values, result.error, result.timeline, peaks


def _traced(target: Any, world_size: int, args: Any, machine: Machine | str) -> Ran:
    traced = trace_torch(target, world_size, args)
    peaks = [usage["peak"] for usage in traced.memory if usage]
    return (), None, replay(traced.trace, machine), peaks


def judged_values(values: Sequence[Any], expected: Any, rtol: float) -> Finding:
    """Compare what each rank returned with what it must return."""
    answers = expected if isinstance(expected, list) else [expected] * len(values)
    if len(answers) != len(values):
        raise TargetError(f"expected has {len(answers)} values for {len(values)} ranks.")
    wrong = [
        rank
        for rank, (value, answer) in enumerate(zip(values, answers, strict=True))
        if not same(value, answer, rtol)
    ]
    if not wrong:
        who = f"Each of the {len(values)} ranks" if len(values) > 1 else "The rank"
        return Finding("Values", f"{who} returns what is expected.", True)
    rank = wrong[0]
    others = f" {format_count(len(wrong), 'rank')} of {len(values)} differ." if wrong[1:] else ""
    text = f"Rank {rank} returns {short(values[rank])}. Expected is {short(answers[rank])}.{others}"
    return Finding("Values", text, False)


def judged_figure(
    about: str, verb: str, who: str, figure: float, most: float, words: Callable[[float], str]
) -> Finding:
    """Compare a figure of the run with its target."""
    subject = {
        "the longest rank": "The program",
        "any one rank": "The rank with the most",
        "all ranks": "All ranks together",
    }[who]
    verb = verb.removesuffix("s") if who == "all ranks" else verb
    # A target is often computed as the replay is, in another order of rounding.
    holds = figure <= most * (1 + 1e-9)
    text = f"{subject} {verb} {words(figure)}. The target is at most {words(most)}."
    return Finding(about, text, holds)


def same(value: Any, wanted: Any, rtol: float) -> bool:
    """Whether two results are equal, to `rtol` in their numbers."""
    if isinstance(wanted, dict):
        return (
            isinstance(value, dict)
            and value.keys() == wanted.keys()
            and all(same(value[key], wanted[key], rtol) for key in wanted)
        )
    if isinstance(wanted, (list, tuple)) and isinstance(value, (list, tuple)):
        return len(value) == len(wanted) and all(
            same(one, other, rtol) for one, other in zip(value, wanted, strict=True)
        )
    if value is None or wanted is None or isinstance(wanted, (str, bytes)):
        return type(value) is type(wanted) and bool(value == wanted)
    try:
        mine, theirs = np.asarray(value), np.asarray(wanted)
        if mine.shape != theirs.shape:
            return False
        scale = float(np.abs(theirs).max()) if theirs.size else 0.0
        return bool(np.allclose(mine, theirs, rtol=rtol, atol=rtol * scale))
    except (TypeError, ValueError):
        return bool(value == wanted)


def short(value: Any) -> str:
    """A value in at most 80 characters, an array's numbers to four digits."""
    if isinstance(value, np.ndarray):
        numbers = np.array2string(value, precision=4, threshold=6, edgeitems=3, separator=", ")
        text = f"an array of shape {value.shape}: {' '.join(numbers.split())}"
    else:
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def format_us(microseconds: float) -> str:
    return format_time(microseconds * 1e-6)


def format_nbytes(nbytes: float) -> str:
    return f"{int(nbytes):,} bytes" if nbytes != 1 else "1 byte"


def format_messages(count: float) -> str:
    return format_count(int(count), "message")


def tell(attempt: Attempt, hint: str) -> None:
    """Print a line for each finding, and whether the puzzle is solved."""
    for finding in attempt.findings:
        print(f"{finding.about:10}{finding.said}{'' if finding.holds else '  <- not met'}")
    if attempt.solved:
        print("Solved.")
    else:
        print("Not solved yet." + (f" Hint: {hint}" if hint else ""))


def show_timeline(timeline: Timeline) -> None:
    """Draw it where there is a notebook."""
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    if get_ipython() is not None:
        display(timeline)  # type: ignore[no-untyped-call]
