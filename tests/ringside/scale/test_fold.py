"""Ranks that are alike, timed once: the same picoseconds as timing them all, or a refusal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from ringside import Machine, TraceError, replay
from ringside.network.ranklog import MAKES_GROUP, Collective, RankLog, checked
from ringside.scale import assembly
from ringside.scale.fake_ranks import TorchTrace, asked, from_logs
from ringside.scale.symmetry import Grid
from ringside.spans import TimedMessage
from ringside.timing import fold as fold_module
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
    return from_logs([(logs, list(alike))], asked(world_size, sizes, alike, False))


def told(message: TimedMessage) -> tuple[Any, ...]:
    return tuple(vars(message).values())


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
    assert sorted(map(told, folded.messages)) == sorted(map(told, every.messages))
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
    "shared": CLUSTER.with_(gpus_per_nic=4),
    "shared by two": CLUSTER.with_(gpus_per_nic=2, ranks_per_node=2),
    "no latency": CLUSTER.with_(alpha_s=0.0, intra_alpha_s=0.0),
    "free": CLUSTER.with_(beta_s_per_byte=0.0, intra_beta_s_per_byte=0.0),
    "halving": CLUSTER.with_(collectives={"allreduce": "halving_doubling"}),
    "tree": CLUSTER.with_(collectives={"allreduce": "tree"}),
    "by formula": CLUSTER.with_(collectives={"allreduce": "ring_or_tree"}),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("sizes", GRIDS, ids=str)
def test_folded_times_are_those_of_all_ranks(sizes: dict[str, int], machine: str) -> None:
    schedule = ("1f1b", "gpipe")[len(machine) % 2]
    trace = traced(pipeline(schedule, waits=machine == "eager"), sizes, ALIKE)
    same(replay(trace, MACHINES[machine]), replay(trace.trace, MACHINES[machine]))


@pytest.mark.parametrize(
    ("machine", "sizes", "folded"),
    [
        ("textbook", GRIDS[0], ("dp", "tp")),
        ("cluster", GRIDS[0], ("dp", "tp")),
        ("cluster", GRIDS[4], ("dp", "tp")),
        ("peer", GRIDS[0], ("dp", "tp")),
        ("no latency", GRIDS[0], ("dp", "tp")),
        ("shared", GRIDS[0], ("dp",)),
        ("shared", GRIDS[4], ("dp", "tp")),
        ("two a node", GRIDS[0], ("dp",)),
        ("halving", GRIDS[0], ("dp",)),
        ("cluster", GRIDS[1], ("tp",)),
        ("tree", GRIDS[0], ()),
        ("free", GRIDS[0], ()),
    ],
    ids=str,
)
def test_ranks_are_folded_along_as_many_axes_as_is_exact(
    machine: str, sizes: dict[str, int], folded: tuple[str, ...]
) -> None:
    timeline = replay(traced(pipeline(), sizes, ALIKE), MACHINES[machine])
    assert timeline.folded == folded
    assert bool(timeline.not_folded) == (folded != ALIKE)


# -- programs at random ----------------------------------------------------------------------------


def at_random(seed: int, grid: dict[str, int]) -> Program:
    """Shifts along axes, collectives and work in a drawn order, waited for sooner or later."""
    rng = np.random.default_rng(seed)
    axes = [axis for axis in grid if axis != "pp"]
    steps = [
        (
            rng.choice(["compute", "shift", "pipe", "reduce", "gather", "split", "wait"]),
            str(rng.choice(axes)),
            int(rng.integers(1, 4)),
            int(rng.choice([0, 8, 1200, 4096, 24000])),
        )
        for _ in range(25)
    ]

    def run(me: Writer, grid: Grid) -> None:
        comms = {axis: me.group(line(grid, me.rank, axis)) for axis in axes}
        place, open_ = grid.place(me.rank), []
        for kind, axis, by, nbytes in steps:
            size = grid.sizes[axis]
            if kind == "compute":
                me.compute(1e6 * by * (1 + place["pp"]))
            elif kind == "shift" and size > 1:
                to = grid.rank({**place, axis: (place[axis] + by) % size})
                source = grid.rank({**place, axis: (place[axis] - by) % size})
                open_ += [me.irecv(source, nbytes), me.isend(to, nbytes)]
            elif kind == "pipe":
                if place["pp"] > 0:
                    open_.append(me.irecv(grid.rank({**place, "pp": place["pp"] - 1}), nbytes))
                if place["pp"] < grid.sizes["pp"] - 1:
                    open_.append(me.isend(grid.rank({**place, "pp": place["pp"] + 1}), nbytes))
            elif kind in ("reduce", "gather", "split"):
                sizes = (nbytes // size * size,)
                if kind != "reduce":
                    sizes = (nbytes,) * (1 if kind == "gather" else size)
                name = {"reduce": "allreduce", "gather": "allgather", "split": "alltoall"}[kind]
                open_.append(me.collective(comms[axis], Collective(name, name, 0, (), sizes, ())))
            elif kind == "wait" and open_:
                me.wait(*open_)
                open_ = []
        if open_:
            me.wait(*open_)

    return run


@pytest.mark.parametrize("seed", range(40))
def test_programs_at_random_take_the_same_time(seed: int) -> None:
    sizes = [
        {"pp": 2, "dp": 2, "tp": 4}, {"dp": 3, "pp": 2, "tp": 2}, {"tp": 4, "pp": 2, "dp": 2},
        {"pp": 3, "dp": 4, "tp": 1}, {"dp": 5, "tp": 2, "pp": 1},
    ][seed % 5]  # fmt: skip
    machine = list(MACHINES.values())[seed % len(MACHINES)]
    trace = traced(at_random(seed, sizes), sizes, ALIKE)
    same(replay(trace, machine), replay(trace.trace, machine))


# -- what tells ranks apart ------------------------------------------------------------------------


def crossing(me: Writer, grid: Grid) -> None:
    """Stages 0 and 2 send to stage 1 at once, stage 0 to the next of its ranks.

    To rank (tp, 1) come messages of (tp - 1, 0) and (tp, 2), so to the first one those of ranks 9
    and 2, to the others the lower rank's is that of stage 0.
    """
    place, size = grid.place(me.rank), grid.sizes["tp"]
    nearby = {at: grid.rank({**place, "pp": at}) for at in range(3)}
    if place["pp"] == 1:
        before = grid.rank({"tp": (place["tp"] - 1) % size, "pp": 0})
        me.wait(me.irecv(before, 5000), me.irecv(nearby[2], 9000))
    elif place["pp"] == 0:
        me.wait(me.isend(grid.rank({"tp": (place["tp"] + 1) % size, "pp": 1}), 5000))
    else:
        me.wait(me.isend(nearby[1], 9000))


def rooted(me: Writer, grid: Grid) -> None:
    """A broadcast: the root sends, the others take."""
    me.wait(me.collective(0, Collective("bcast", "broadcast", 0, (), (5000,), ())))


@pytest.mark.parametrize(
    ("program", "sizes", "machine", "axis", "why"),
    [
        (pipeline(), GRIDS[1], "cluster", "dp", "are on one node of cluster, and"),
        (pipeline(), GRIDS[0], "shared", "tp", "alike and share a port of their node"),
        (pipeline(), GRIDS[0], "halving", "tp", "'halving_doubling' gives them messages of"),
        (
            pipeline(gradient=4801), GRIDS[0], "textbook", "dp",
            "allreduce of 4801 bytes over ranks 0, 4, ... tells its 2 members apart: 'ring'",
        ),
        (pipeline(tensor=4802), GRIDS[0], "textbook", "tp", "4802 bytes .* tells its 4 members"),
        (crossing, {"tp": 4, "pp": 3}, "textbook", "tp", "which of them goes first isn't the same"),
        (rooted, {"tp": 4}, "textbook", "tp", "broadcast|bcast of 5000 bytes"),
        (pipeline(), GRIDS[0], "free", "dp, tp", "at the same instant"),
    ],
)  # fmt: skip
def test_what_tells_ranks_apart_is_told_and_all_are_replayed(
    program: Program, sizes: dict[str, int], machine: str, axis: str, why: str
) -> None:
    trace = traced(program, sizes, tuple(a for a in ALIKE if a in sizes))
    timeline = replay(trace, MACHINES[machine])
    same(timeline, replay(trace.trace, MACHINES[machine]))
    (reason,) = [text for axes, text in timeline.not_folded.items() if ", ".join(axes) == axis]
    assert re.search(why, reason)


def test_drawn_latencies_tell_all_ranks_apart() -> None:
    trace = traced(pipeline(), GRIDS[0], ALIKE)
    timeline = replay(trace, CLUSTER, latency_seed=3)
    assert timeline.folded == ()
    assert "latency_seed" in timeline.not_folded[("tp",)]
    assert timeline.makespan_ps == replay(trace.trace, CLUSTER, latency_seed=3).makespan_ps


def test_ranks_that_must_all_be_replayed_may_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = traced(pipeline(), GRIDS[0], ALIKE)
    monkeypatch.setattr(assembly, "MAX_OPS", 2000)
    assert replay(trace, CLUSTER).folded == ALIKE
    with pytest.raises(TraceError, match=r"more than 2000 operations.*Not along tp: allreduce of"):
        replay(trace, MACHINES["tree"])


def test_a_folded_trace_that_cannot_end_is_refused() -> None:
    def run(me: Writer, grid: Grid) -> None:
        previous, following = ((me.rank + by) % 4 for by in (-1, 1))
        me.wait(me.irecv(previous, 5000))
        me.wait(me.isend(following, 5000))

    with pytest.raises(TraceError, match="can't end: rank 0 waits"):
        replay(traced(run, {"tp": 4}, ("tp",)), CLUSTER)


def test_members_that_are_folded_must_agree() -> None:
    def run(me: Writer, grid: Grid) -> None:
        if me.rank < 4:
            me.wait(me.all_reduce(0, 800))

    with pytest.raises(TraceError, match="collective on world that not all members call"):
        traced(run, {"pp": 2, "tp": 4}, ("tp",))


def test_a_group_in_another_order_cannot_be_moved() -> None:
    def run(me: Writer, grid: Grid) -> None:
        me.wait(me.all_reduce(me.group([3, 0, 1, 2]), 800))

    with pytest.raises(TraceError, match=r"\[3, 0, 1, 2\] aren't in ascending order"):
        traced(run, {"tp": 4}, ("tp",))


def test_a_ring_of_very_many_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_module, "MAX_LOWERED", 50)
    timeline = replay(traced(pipeline(), GRIDS[0], ALIKE), CLUSTER)
    assert "too many messages" in timeline.not_folded[("tp",)]


def test_thousands_of_ranks_are_never_expanded() -> None:
    sizes = {"pp": 8, "dp": 48, "tp": 8}
    trace = traced(pipeline(microbatches=8, gradient=9600), sizes, ALIKE)
    timeline = replay(trace, CLUSTER.with_(ranks_per_node=8))
    assert timeline.folded == ALIKE
    assert len(timeline.end_s) == len(timeline.spans) == timeline.world_size == 3072
    assert "trace" not in vars(trace)
    assert timeline.busy_s[0] == timeline.busy_s[383] > 0
    assert timeline.spans[383][0].rank == 383
    # Each rank's share of a ring, twice round but for one step; activations; and making groups.
    rank = timeline.bytes_matrix.sum(axis=1)[1 * 384 + 9]
    tensor, data = 8 * 4 * 4800 * 2 * 7 // 8, 2 * 9600 * 2 * 47 // 48
    assert rank == tensor + data + 2 * 8 * 6000 + 8 * 7 + 8 * 47
