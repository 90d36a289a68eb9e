"""Cases in which ranks die: their kills, their lines, and what is asked of who is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ringside
from ringside import Session, TargetError
from ringside.checking import Verdict
from ringside.checking.cases import Case, parse
from ringside.checking.kills import every_kill, flipped_cases, killed_cases, line_of
from ringside.checking.ring_bytes import sent_as_ring
from ringside.checking.suite import Share, Suite, called, right_run
from ringside.trace import Kind

PROGRAM = """
import numpy as np
import ringside
from mpi4py import MPI

def doubled(comm, mine, plain):
    mine = ringside.announce("double", mine, 0)
    ringside.compute(num_flops=len(mine), phase="double")
    total, complete = np.zeros_like(mine), 1
    try:
        comm.Allreduce(2 * mine, total)
    except MPI.Exception:
        complete = 0
    try:
        complete = comm.Agree(complete)
    except MPI.Exception:
        complete = 0
    return 2 * mine if plain or complete else total

def passed_on(comm):
    x, y = np.full(2, 1.0 + comm.rank), np.empty(2)
    comm.Sendrecv(x, (comm.rank + 1) % comm.size, 0, y, (comm.rank - 1) % comm.size, 0)
    return y
"""


@dataclass(frozen=True)
class Doubled(Case):
    """Each rank doubles the same numbers; where a rank has died, and not ``plain``, it's wrong."""

    target = "program:doubled"
    passes_of_anyone = True
    n: int = 3
    plain: bool = True

    def vector(self) -> Any:
        return self.rng().standard_normal(self.n)

    def inputs(self, rank: int) -> tuple[Any, ...]:
        return self.vector(), self.plain

    def right(self) -> list[Any]:
        with self.passes_of(0):
            return [2 * ringside.announce("double", self.vector(), 0)] * self.p


@dataclass(frozen=True)
class PassedOn(Case):
    """Each rank sends a message to the next one."""

    target = "program:passed_on"

    def inputs(self, rank: int) -> tuple[Any, ...]:
        return ()

    def right(self) -> list[Any]:
        return [np.full(2, 1.0 + (rank - 1) % self.p) for rank in range(self.p)]


class Ranks:
    """What a test has of its module's ranks."""

    def __init__(self, session: Session) -> None:
        self.call = session.call

    def table(self, test: Any) -> list[Share]:
        return [Share("the others", test.public)]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "program.py").write_text(PROGRAM)
    with Session(folder) as session:
        yield Ranks(session)


def test_a_rank_dies_at_each_of_its_operations(ranks: Ranks) -> None:
    case = Doubled(3, announced=True)
    cases = list(killed_cases(ranks, case, lambda run: every_kill(run, 1)))
    # A pass, its work, the sum and its wait, the agreement and its wait, and the return.
    assert [killed.kill for killed in cases] == [f"1@op{number}" for number in range(1, 8)]
    assert [killed.lost for killed in cases] == [False, True, False, True, False, True, False]
    for killed in cases:
        run = right_run(ranks, killed)
        assert killed.survivors(run) == [0, 2] and run.values[1] is None
    assert list(killed_cases(ranks, cases[2], lambda run: [])) == [cases[2]]


def test_a_death_between_a_pass_and_its_work_is_no_fault(ranks: Ranks) -> None:
    run = right_run(ranks, Doubled(3, announced=True, kill="1@op2"))
    assert [op.kind for op in run.trace.ops[1]] == [Kind.PASS, Kind.DEATH]


def test_a_pass_of_anyone_has_the_same_factors_on_all_ranks(ranks: Ranks) -> None:
    values = right_run(ranks, Doubled(3, announced=True)).values
    assert all(np.array_equal(value, values[0]) for value in values)
    assert not np.array_equal(values[0], called(ranks, Doubled(3)).values[0])


def test_a_failure_has_the_line_of_its_kill(ranks: Ranks) -> None:
    @Suite("program").test("all", "values", Doubled(3, plain=False))
    def test(case: Doubled, ranks: Any) -> None:
        for killed in killed_cases(ranks, case, lambda run: ["0@op3,1@op4"]):
            with line_of(killed):
                right_run(ranks, killed)

    with pytest.raises(Verdict) as failed:
        test(ranks=ranks)
    assert failed.value.sentence.startswith(
        "doubled on 3 ranks, n = 3, plain False, kill 0@op3,1@op4: rank 2's result is wrong"
    )
    assert failed.value.reproduce.endswith('--case "p=3 kill=0@op3,1@op4 plain=False"')
    assert parse("p=3 plain=False kill=0@op3,1@op4", [Doubled]) == Doubled(
        3, plain=False, kill="0@op3,1@op4"
    )


def test_in_a_part_of_a_world_kills_name_ranks_of_comm(ranks: Ranks) -> None:
    part = Doubled(3, members=(4, 2, 1), world=5, kill="1@op3")
    run = right_run(ranks, part)
    assert [death.rank for death in run.deaths] == [2]
    assert part.survivors(run) == [0, 2]


def test_who_has_returned_before_a_kill_is_told(ranks: Ranks) -> None:
    with pytest.raises(Verdict, match="rank 1 has 5 operations in this run"):
        called(ranks, Doubled(3, kill="1@op40"))
    with pytest.raises(Verdict, match="there is no such rank among 3"):
        called(ranks, Doubled(3, kill="3@op1"))


def test_what_is_no_kill_is_refused() -> None:
    with pytest.raises(TargetError, match="write 3@1"):
        assert Doubled(3, kill="1").failures
    assert Doubled(3).failures is None
    failures = Doubled(3, kill="node1@2ms,0@op3", lost=True, collectives="none", seed=4).failures
    assert failures is not None and [str(kill) for kill in failures.kills] == [
        "node1@0.002s",
        "0@op3",
    ]
    assert (failures.in_flight, failures.collectives, failures.seed) == ("lost", "none", 4)


def test_an_agreement_counts_no_bytes(ranks: Ranks) -> None:
    run = right_run(ranks, Doubled(3))
    assert [record.name for record in run.collectives] == ["allreduce", "agree"]
    assert sent_as_ring(run) == [2 * 24 * 2 / 3] * 3


def test_a_bit_of_a_message_is_flipped(ranks: Ranks) -> None:
    cases = list(flipped_cases(ranks, PassedOn(3), 4))
    assert [case.flip.partition(":")[0] for case in cases] == ["0#1", "1#1", "2#1", "0#1"]
    for case in cases:
        sender = int(case.flip[0])
        values, right = called(ranks, case).values, case.right()
        wrong = [rank for rank in range(3) if not np.array_equal(values[rank], right[rank])]
        assert wrong == [(sender + 1) % 3]
        assert parse(case.text, [PassedOn]) == case
        assert list(flipped_cases(ranks, case, 4)) == [case]
    part = cases[0].in_part()
    run = called(ranks, part)
    assert part.flip[:3] == "0#1"
    assert any(f"rank {part.members[0]} sent" in note for note in run.notes.values())
    with pytest.raises(Verdict, match="there is no such rank among 3"):
        called(ranks, PassedOn(3, flip="3#1:bit0"))
    with pytest.raises(Verdict, match="no rank sends a message of its own"):
        list(flipped_cases(ranks, Doubled(2), 1))
