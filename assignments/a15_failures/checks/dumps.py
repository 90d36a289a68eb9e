"""What the flight recorders of a training run hold, if something goes wrong in it.

Ranks lie in a grid; each axis cuts them into groups of its own. A step adds up activations in the
groups of the last axis, and gradients in those of the others; some steps also add up the loss of
all ranks. All ranks' operations are written
down as the network would record them, and timed by the kit's own clock. Runs of the same program on
real ranks of the network leave the same dumps; a test of the kit compares them.
"""

from dataclasses import dataclass, replace

import numpy as np

from ringside import Machine
from ringside.timing import flight_recorder
from ringside.trace import Kind, Op, Trace

AXES = ("pp", "dp", "tp")
PS = 10**12


@dataclass(frozen=True)
class Call:
    """A rank's call of a collective; ``waits``: it goes on only when that is complete."""

    group: str
    op: str
    dtype: str = ""
    count: int = 0
    waits: bool = True


class Program:
    """What each rank computes and calls, with what goes wrong in it.

    Args:
        shape: extents of the grid's axes: tp; dp, tp; or pp, dp, tp.
        steps: steps of training.
        fault: "hang", "kill", "slow"; "op", "dtype", "size", or several of these, such as
            "op+size"; "uneven": layers cost more and gradients less; or "": nothing goes wrong.
        who: the ranks that it happens to.
        at: how many calls they make before: they hang or die before the next one, or make it with
            another op, dtype or count.
        factor: how slow they are, or how uneven.
        overlap: gradients travel in buckets while the next one is computed.
        jitter: how much the times of computations vary.
        seed: draws them.
        layers: how many pairs of layers there are, by the coordinate on the first axis; the last
            number is that of all further coordinates.
        every: after how many steps the loss is added up; 0: never.
    """

    def __init__(
        self, shape, steps, fault="", who=(), at=0, factor=1.5, overlap=False, jitter=0.05, seed=0,
        layers=(1,), every=0,
    ):  # fmt: skip
        self.size = int(np.prod(shape))
        rows = self.size // shape[0]  # ranks of one coordinate
        self.layers = [layers[min(rank // rows, len(layers) - 1)] for rank in range(self.size)]
        self.every = every
        self.fault, self.who, self.at, self.factor = fault, who, at, factor
        self.axes = AXES[-len(shape) :]
        self.groups = {"world": tuple(range(self.size)), **groups_of(shape, self.axes)}
        self.group_of = {
            (rank, axis): name
            for axis in self.axes
            for name, ranks in self.groups.items()
            for rank in ranks
            if name.startswith(axis)
        }
        chance = np.random.default_rng([seed, self.size, steps])
        self.ranks = [
            self._of_rank(rank, steps, overlap, jitter, chance) for rank in range(self.size)
        ]
        self.slow = dict.fromkeys(who, factor) if fault == "slow" else {}

    def _of_rank(self, rank, steps, overlap, jitter, chance):
        """Seconds of work, calls, and None: wait for all that was begun."""
        items = [Call("world", "split") for _ in self.axes]
        for step in range(steps):
            items += self._step(rank, overlap)
            if self.every and (step + 1) % self.every == 0:
                items.append(Call("world", "allreduce", "float64", 1))
        items = [
            item * float(1 + jitter * chance.uniform(-1, 1)) if isinstance(item, float) else item
            for item in items
        ]
        if rank not in self.who or self.fault in ("", "slow", "uneven"):
            return items
        places = [place for place, item in enumerate(items) if isinstance(item, Call)]
        if self.fault in ("hang", "kill"):
            return items[: places[self.at]]
        items[places[self.at]] = changed(items[places[self.at]], self.fault)
        return items

    def _step(self, rank, overlap):
        tp, *others = (self.group_of[rank, axis] for axis in reversed(self.axes))
        uneven = self.factor if self.fault == "uneven" and rank in self.who else 1.0
        for _ in range(2 * self.layers[rank]):
            yield 1e-3 * uneven
            yield Call(tp, "allreduce", "float32", 256)
        for group in others:
            for bucket in range(2):
                yield 2e-3 / uneven
                yield Call(group, "allreduce", "float64", 2000 + 500 * bucket, waits=not overlap)
        if overlap and others:
            yield None

    def dumps(self, last):
        """The records of all ranks, and the groups that are in them."""
        recorder = self.recorder(last)
        return recorder.dumps, recorder.groups

    def recorder(self, last):
        """What the flight recorders hold."""
        run = _Run(self)
        trace = Trace(self.size, run.ops, slow=self.slow)
        gone = self.who if self.fault == "kill" else ()
        return flight_recorder.recorded(
            trace, Machine.load("textbook"), run.joined, self.groups, gone=gone, last=last
        )


class _Run:
    """Who comes how far: the ranks' operations, as the network records them."""

    def __init__(self, program):
        self.program = program
        self.ops = [[] for _ in program.ranks]
        self.joined = []
        self._came = {}  # (group, number) -> rank -> index of its operation, call
        self._counts = [dict.fromkeys(program.groups, 0) for _ in program.ranks]
        self._open = [[] for _ in program.ranks]  # what was begun: (group, number), request
        self._waits = [set() for _ in program.ranks]
        self._broken = self._left_open() if program.fault == "kill" else set()
        self._items = [list(reversed(items)) for items in program.ranks]
        moved = True
        while moved:
            moved = sum(self._goes_on(rank) for rank in range(program.size)) > 0

    def _left_open(self):
        """The collectives that dead ranks had begun and not waited for: nobody gets a result."""
        places = set()
        for rank in self.program.who:
            counts, begun = dict.fromkeys(self.program.groups, 0), set()
            for item in self.program.ranks[rank]:
                if isinstance(item, Call):
                    begun |= {(item.group, counts[item.group])} if not item.waits else set()
                    counts[item.group] += 1
                elif item is None:
                    begun = set()
            places |= begun
        return places

    def _goes_on(self, rank):
        """Let a rank go on as far as it can; whether it did anything."""
        items, moved = self._items[rank], False
        while items and not self._waits[rank]:
            item, moved = items.pop(), True
            if isinstance(item, Call):
                self._call(rank, item)
            elif item is None:
                self._wait(rank)
            else:
                work = (0.0, 0.0, round(item * PS), "compute")
                self.ops[rank].append(Op(Kind.COMPUTE, detail=work))
        return moved

    def _call(self, rank, call):
        number = self._counts[rank][call.group]
        self._counts[rank][call.group] += 1
        place, index = (call.group, number), len(self.ops[rank])
        self.joined.append(flight_recorder.Joined(
            rank, index, call.group, number, call.op, call.dtype, call.count
        ))  # fmt: skip
        self.ops[rank].append(Op(Kind.COLLECTIVE, comm=call.group, request=index))
        self._open[rank].append((place, index))
        came = self._came.setdefault(place, {})
        came[rank] = index, call
        if call.waits:
            self._wait(rank)
        members = self.program.groups[call.group]
        asked = {(each.op, each.dtype, each.count) for _, each in came.values()}
        if len(came) == len(members) and len(asked) == 1 and place not in self._broken:
            self._complete(place, call, members)

    def _wait(self, rank):
        self.ops[rank].append(Op(Kind.WAIT, detail=tuple(index for _, index in self._open[rank])))
        self._waits[rank] = {place for place, _ in self._open[rank] if place in self._came}
        self._open[rank] = []

    def _complete(self, place, call, members):
        nbytes = call.count * (np.dtype(call.dtype).itemsize if call.dtype else 0)
        name, sizes = call.op, (nbytes,)
        if call.op == "split":
            name, sizes = "allgather", (8,) * len(members)
        elif call.op == "allgather":
            sizes = (nbytes,) * len(members)
        for rank, (index, _) in self._came.pop(place).items():
            detail = (name, place[1], 0, members, sizes)
            self.ops[rank][index] = self.ops[rank][index]._replace(nbytes=max(sizes), detail=detail)
            self._waits[rank].discard(place)


def changed(call, fault):
    """A call with another op, dtype or count, or several of these."""
    other_dtype = {"float32": "float64", "float64": "float32"}
    faults = fault.split("+")
    return replace(
        call,
        op="allgather" if "op" in faults else call.op,
        dtype=other_dtype[call.dtype] if "dtype" in faults else call.dtype,
        count=call.count + ("size" in faults),
    )


def groups_of(shape, axes):
    """The groups of each axis: ranks that differ in this coordinate alone."""
    ranks = np.arange(int(np.prod(shape))).reshape(shape)
    groups = {}
    for place, axis in enumerate(axes):
        rows = np.moveaxis(ranks, place, -1).reshape(-1, shape[place])
        groups |= {f"{axis}{number}": tuple(map(int, row)) for number, row in enumerate(rows)}
    return groups
