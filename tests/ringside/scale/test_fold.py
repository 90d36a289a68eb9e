"""Ranks that are alike, timed once: the same picoseconds as timing them all, or a refusal."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from ringside import Machine, TraceError, replay
from ringside.network.ranklog import MAKES_GROUP, Collective, RankLog, checked
from ringside.scale.fake_ranks import TorchTrace, asked, from_logs
from ringside.scale.symmetry import Grid
from ringside.timing.timeline import Timeline
from ringside.trace import Kind

CLUSTER = Machine(
    "cluster", 5e-6, 4e-11, intra_alpha_s=1e-6, intra_beta_s_per_byte=3e-12, ranks_per_node=4,
    flop_per_s=1e12, eager_threshold_bytes=2048,
)  # fmt: skip


class Writer:
    """Writes one rank's log: what it computes, sends, receives and takes part in."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.rows: list[list[int]] = []
        self.work: list[list[float]] = []
        self.waits: list[int] = []
        self.shared: list[Collective] = []
        self.comms: list[tuple[int, Any]] = []
        self.requests = 0

    def _row(self, kind: Kind, peer: int, nbytes: int, comm: int, ref: int, count: int) -> None:
        self.rows.append([kind, peer, 0, nbytes, comm, ref, count, 0])

    def compute(self, flops: float) -> None:
        self._row(Kind.COMPUTE, -1, 0, 0, len(self.work), 0)
        self.work.append([flops, 0.0, 1.0, 0.0, -1.0])

    def isend(self, dest: int, nbytes: int) -> int:
        self._row(Kind.ISEND, dest, nbytes, 0, 0, 0)
        self.requests += 1
        return self.requests

    def irecv(self, source: int, nbytes: int) -> int:
        self._row(Kind.IRECV, source, nbytes, 0, 0, 0)
        self.requests += 1
        return self.requests

    def wait(self, *requests: int) -> None:
        self._row(Kind.WAIT, -1, 0, 0, len(self.waits), len(requests))
        self.waits += requests

    def group(self, members: list[int]) -> int:
        """Make a group, as torch does: all its members, and nobody else, take part."""
        side = Collective(MAKES_GROUP, "new_group", 0, tuple(members), (), ())
        self.wait(self.collective(0, side))
        self.comms.append((0, np.array(members, np.int64)))
        return len(self.comms)

    def all_reduce(self, comm: int, nbytes: int) -> int:
        return self.collective(comm, Collective("allreduce", "all_reduce", 0, (), (nbytes,), ()))

    def collective(self, comm: int, side: Collective) -> int:
        self._row(Kind.COLLECTIVE, -1, 0, comm, len(self.shared), 0)
        self.shared.append(side)
        self.requests += 1
        return self.requests

    def log(self) -> RankLog:
        return RankLog(
            rank=self.rank,
            rows=np.array(self.rows, np.int64).reshape(-1, 8),
            work=np.array(self.work, np.float64).reshape(-1, 5),
            waits=np.array(self.waits, np.int64),
            shared=tuple(self.shared),
            comms=tuple(self.comms),
            sites=(("step()", "gpt.py", 1),),
            labels=("forward",),
            memory={},
        )


Program = Callable[[Writer, Grid], None]
ALIKE = ("dp", "tp")


def line(grid: Grid, rank: int, axis: str) -> list[int]:
    """The ranks that differ from this one in one coordinate only."""
    place = grid.place(rank)
    return sorted(grid.rank({**place, axis: at}) for at in range(grid.sizes[axis]))


def pipeline(
    schedule: str = "1f1b", *, microbatches: int = 4, layers: int = 2, activation: int = 6000,
    tensor: int = 4800, gradient: int = 4800, waits: bool = False,
) -> Program:  # fmt: skip
    """A step on pipeline, data and tensor groups, as ``benchmarks/gpt.py`` makes it."""

    def run(me: Writer, grid: Grid) -> None:
        groups = {axis: line(grid, me.rank, axis) for axis in grid.sizes}
        tp, dp = me.group(groups["tp"]), me.group(groups["dp"])
        stages, stage = grid.sizes["pp"], grid.place(me.rank)["pp"]
        place = grid.place(me.rank)
        before = grid.rank({**place, "pp": stage - 1}) if stage else -1
        after = grid.rank({**place, "pp": stage + 1}) if stage + 1 < stages else -1
        sending: list[int] = []

        def send(dest: int) -> None:
            sending.append(me.isend(dest, activation))
            if waits:
                me.wait(sending.pop())

        def layer(flops: float) -> None:
            for _ in range(layers):
                me.compute(flops * (1 + (stage == 0) / 3))
                me.wait(me.all_reduce(tp, tensor))

        def forward() -> None:
            if before >= 0:
                me.wait(me.irecv(before, activation))
            layer(1e7)
            if after >= 0:
                send(after)

        def backward() -> None:
            if after >= 0:
                me.wait(me.irecv(after, activation))
            layer(2e7)
            if before >= 0:
                send(before)

        warm_up = microbatches if schedule == "gpipe" else min(stages - 1 - stage, microbatches)
        for _ in range(warm_up):
            forward()
        for _ in range(microbatches - warm_up):
            forward()
            backward()
        for _ in range(warm_up):
            backward()
        if sending:
            me.wait(*sending)
        reduced = [me.all_reduce(dp, gradient) for _ in range(2)]
        me.wait(*reduced)

    return run


def traced(program: Program, sizes: Mapping[str, int], alike: tuple[str, ...]) -> TorchTrace:
    """The program's trace by kinds, as the tracing process would answer it."""
    world_size = int(np.prod(list(sizes.values())))
    grid = Grid.of(sizes, world_size)
    logs = {}
    for rank in range(world_size):
        if grid.stand_in(rank, alike) == rank:
            writer = Writer(rank)
            program(writer, grid)
            logs[rank] = checked(writer.log(), world_size)
    return from_logs((logs, list(alike)), asked(world_size, sizes, alike, False))


def same(folded: Timeline, every: Timeline) -> None:
    """Assert that two timelines agree, rank by rank and message by message."""
    assert every.folded == ()
    assert folded.makespan_ps == every.makespan_ps
    assert folded.end_s == every.end_s
    for rank in range(every.world_size):
        ours, theirs = folded.spans[rank], every.spans[rank]
        assert [(s.start_s, s.end_s, s.kind) for s in ours] == [
            (s.start_s, s.end_s, s.kind) for s in theirs
        ]
    assert sorted(map(dataclasses.astuple, folded.messages)) == sorted(
        map(dataclasses.astuple, every.messages)
    )
    np.testing.assert_array_equal(folded.bytes_matrix, every.bytes_matrix)
    assert folded.busy_s == every.busy_s
    assert folded.communication_s == every.communication_s
    path, whole = folded.critical_path, every.critical_path
    assert [(s.start_s, s.end_s, s.kind) for s in path] == [
        (s.start_s, s.end_s, s.kind) for s in whole
    ]


GRIDS = [
    {"pp": 3, "dp": 2, "tp": 4},
    {"pp": 2, "dp": 4, "tp": 2},
    {"dp": 3, "pp": 3, "tp": 4},
    {"tp": 2, "dp": 4, "pp": 2},
    {"dp": 2, "tp": 4, "pp": 4},
    {"pp": 1, "dp": 1, "tp": 8},
    {"pp": 4, "dp": 5, "tp": 1},
]
MACHINES = {
    "textbook": Machine.load("textbook").with_(flop_per_s=1e12),
    "cluster": CLUSTER,
    "rendezvous": CLUSTER.with_(eager_threshold_bytes=0),
    "eager": CLUSTER.with_(eager_threshold_bytes=1 << 30),
    "peer": CLUSTER.with_(ports="peer"),
    "two a node": CLUSTER.with_(ranks_per_node=2),
    "shared": CLUSTER.with_(shared_nic=True),
    "shared by two": CLUSTER.with_(shared_nic=True, ranks_per_node=2),
    "no latency": CLUSTER.with_(alpha_s=0.0, intra_alpha_s=0.0),
    "free": CLUSTER.with_(beta_s_per_byte=0.0, intra_beta_s_per_byte=0.0),
    "halving": CLUSTER.with_(collectives={"allreduce": "halving_doubling"}),
    "tree": CLUSTER.with_(collectives={"allreduce": "tree"}),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("sizes", GRIDS, ids=str)
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_folded_times_are_those_of_all_ranks(
    schedule: str, sizes: dict[str, int], machine: str
) -> None:
    trace = traced(pipeline(schedule), sizes, ALIKE)
    same(replay(trace, MACHINES[machine]), replay(trace.trace, MACHINES[machine]))


if __name__ == "__main__":
    for name, machine in MACHINES.items():
        for sizes in GRIDS:
            for schedule in ("1f1b", "gpipe"):
                trace = traced(pipeline(schedule), sizes, ALIKE)
                line_ = replay(trace, machine)
                print(name, sizes, schedule, line_.folded, line_.not_folded)
