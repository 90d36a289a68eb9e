"""Where a run's passes lie among its operations, as the network saw them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ringside.checking.assertions import one_line
from ringside.trace import Kind, Op

if TYPE_CHECKING:
    from ringside.checking.cases import Case
    from ringside.session.session import Result


def announced(ops: Sequence[Op]) -> list[tuple[int, str, int]]:
    """The passes that a rank announced: place among its operations, phase, number.

    Each stands once, where it was announced first: from there on its factors were known.
    """
    seen: set[tuple[str, int]] = set()
    passes = []
    for index, op in enumerate(ops):
        if op.kind == Kind.PASS:
            phase, number, _ = op.detail
            if (phase, number) not in seen:
                seen.add((phase, number))
                passes.append((index, str(phase), int(number)))
    return passes


def assert_declared_at_once(result: Result, case: Case, phases_like: str = "") -> None:
    """In a test of order, work of announced passes was declared where each was announced.

    So virtual time passes where the network saw the pass begin, and not where a rank says so. A
    pass that is made again, as in recomputation, is announced and declared again.

    Args:
        phases_like: how the names of passes begin whose work is declared; that of torch's
            operators is counted by itself.
    """
    for rank, ops in enumerate(result.trace.ops):
        begun = [entry for entry in announced(ops) if entry[1].startswith(phases_like)]
        phases = {phase for _, phase, _ in begun}
        for index, phase, number in begun:
            after = ops[index + 1] if index + 1 < len(ops) else None
            if after is not None and after.kind == Kind.DEATH:
                continue
            if after is None or _declared(after) != phase:
                raise case.fail(
                    f"rank {rank} announced the pass {one_line(phase, 60)!r} (number {number}) and "
                    "did not declare its work there: call the supplied layer, which does both."
                )
        for index, op in enumerate(ops):
            phase = _declared(op)
            before = ops[index - 1] if index else op
            if phase in phases and (before.kind != Kind.PASS or before.detail[0] != phase):
                raise case.fail(
                    f"rank {rank} declared the work of {one_line(phase, 60)!r} elsewhere than "
                    "where it announced the pass: call the supplied layer, which does both."
                )


def _declared(op: Op) -> str:
    """The phase whose work an operation declares, if it does."""
    return str(op.detail[3]) if op.kind == Kind.COMPUTE else ""
