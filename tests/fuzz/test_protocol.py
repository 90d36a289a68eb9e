"""The network against ranks that say anything: it ends with a verdict, and keeps its head.

`make fuzz` runs the same for as long as wanted; here the examples are few and always the same.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ringside.errors import LimitError, RankError, RunError
from tests.fuzz.frames import Program, damage, programs
from tests.fuzz.stage import play

FEW = settings(
    max_examples=60, derandomize=True, database=None, deadline=None,
    suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate),
)  # fmt: skip
ORDER = st.lists(st.integers(0, 3), max_size=30)
PIECES = st.sampled_from([0, 0, 0, 1000, 37])
SEED = st.sampled_from([None, None, 3])


@FEW
@given(programs(), ORDER, PIECES, SEED)
def test_ranks_that_keep_the_rules_get_what_was_sent(
    program: Program, order: list[int], pieces: int, seed: int | None
) -> None:
    result = play(program, order, pieces, seed=seed)
    assert result.error is None, result.error
    assert result.values == [("done", rank) for rank in range(program.world_size)]


@settings(FEW, max_examples=250)
@given(st.data())
def test_ranks_that_break_the_rules_end_their_run_and_nothing_else(data: Any) -> None:
    attack(data)


def attack(data: Any, measured: bool = False) -> None:
    """One rank, or all, say what nobody should."""
    program = data.draw(programs())
    everyone = range(program.world_size)
    chosen = data.draw(st.sampled_from([*everyone, None]))
    for rank in everyone if chosen is None else [chosen]:
        damage(program, rank, data.draw)
    order, pieces = data.draw(ORDER), data.draw(PIECES)
    machine = data.draw(st.sampled_from(["textbook", "zaratan", "laptop"]))
    result = play(program, order, pieces, seed=data.draw(SEED), machine=machine, measured=measured)
    blamed = getattr(result.error, "rank", None)
    ended = getattr(result.error, "type_name", "") == "ProcessEnded"  # the stage ends them all
    if isinstance(result.error, (LimitError, RankError)) and not (ended or program.makes_comms):
        assert blamed in program.hostile, f"blamed {blamed}: {result.error}"
    assert result.error is None or isinstance(result.error, RunError)
