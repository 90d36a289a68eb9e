"""The calls of gossip.py that the tests make, and what must come of them."""

import functools
from dataclasses import dataclass, field

import numpy as np
from given.graphs import line, metropolis, mixing_matrix, random_graph, ring, wheel

from checks.cases import Refused, check_looked_at
from ringside.checking import assert_own_messages, assert_peers, assert_ran
from ringside.checking.cases import Case, assert_like, machine_of


@dataclass(frozen=True)
class Gossip(Case):
    """Rounds of ``average``.

    Attributes:
        graph: "ring", "wheel", "line" (a ring without its last edge), "apart" (the last rank has no
            neighbours, and the others form a ring), "even" (a random graph), or "random" (with
            weights of its own for each edge). All others have equal weights:
            1 / (1 + the largest number of neighbours).
        shape: of each rank's x.
        nan_of: the first element of this rank's x is not a number; -1: all are.
    """

    target = "gossip:average"
    graph: str = "ring"
    num_rounds: int = 3
    shape: tuple = (5,)
    dtype: str = "float64"
    nan_of: int = -1
    machine: str = field(default="buffered", kw_only=True)

    @property
    def told(self):
        x = f"x of shape {self.shape}{'' if self.nan_of < 0 else ' with NaN'}"
        return f"graph {self.graph}, num_rounds {self.num_rounds}, {x}, {self.dtype}"

    @functools.cached_property
    def edges(self):
        """Each rank's neighbours in some order, and their weights."""
        rng, p = self.rng(), self.p
        if self.graph in ("random", "even"):
            neighbours = random_graph(p, rng)
        elif self.graph == "apart":
            neighbours = [*ring(p - 1), []]
        else:
            neighbours = {"ring": ring, "wheel": wheel, "line": line}[self.graph](p)
        neighbours = [[int(j) for j in rng.permutation(each)] for each in neighbours]
        equal = 1 / (1 + max(map(len, neighbours)))
        weights = [[equal] * len(each) for each in neighbours]
        if self.graph == "random":
            factors = rng.uniform(0.3, 1.0, (p, p))
            rows = zip(neighbours, metropolis(neighbours), strict=True)
            weights = [
                [w * float(factors[min(i, j), max(i, j)]) for j, w in zip(*row, strict=True)]
                for i, row in enumerate(rows)
            ]
        return neighbours, weights

    @property
    def neighbours(self):
        return self.edges[0]

    @property
    def degree(self):
        """The largest number of neighbours of a rank."""
        return max(map(len, self.neighbours))

    def x(self, rank):
        """A rank's x."""
        x = np.asarray(self.rng(rank).standard_normal(self.shape)).astype(self.dtype)
        if rank == self.nan_of:
            x.reshape(-1)[:1] = np.nan
        return x

    def inputs(self, rank):
        neighbours, weights = self.edges
        return self.x(rank), neighbours[rank], weights[rank], self.num_rounds

    def right(self):
        return self.after(self.num_rounds)

    def wrong(self):
        if self.num_rounds < 1:
            return {}
        return {
            "These are the values after one round fewer.": self.after(self.num_rounds - 1),
            "These are the values after one round more.": self.after(self.num_rounds + 1),
        }

    def after(self, num_rounds):
        """W^num_rounds times all x, in float64; NaN reaches whom it can, and nobody else."""
        power = np.linalg.matrix_power(mixing_matrix(*self.edges), num_rounds)
        stacked = np.array([np.ravel(self.x(rank)) for rank in range(self.p)], dtype="float64")
        mixed = power @ np.nan_to_num(stacked)
        mixed[(power != 0) @ np.isnan(stacked)] = np.nan
        return [row.reshape(self.shape).astype(self.dtype) for row in mixed]

    def check(self, run):
        """Right values; and messages go to neighbours only."""
        super().check(run)
        if hasattr(run, "trace"):
            assert_gossip(run, self)

    @property
    def nbytes(self):
        """Bytes of a rank's x."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    @property
    def edge_nbytes(self):
        """What each rank may send each other one: shape (p, p)."""
        allowed = np.zeros((self.p, self.p))
        for rank, own in enumerate(self.neighbours):
            allowed[rank, own] = self.num_rounds * self.nbytes
        return allowed

    @property
    def time_s(self):
        """All rounds, if ranks talk to all neighbours at once."""
        machine = machine_of(self)
        nbytes = 2 * self.degree * self.nbytes  # a port may idle while it waits for its turn
        return self.num_rounds * (machine.alpha_s + nbytes * machine.beta_s_per_byte)


@dataclass(frozen=True)
class GossipTwice(Gossip):
    """Two equal calls with an x that is not contiguous, looked at from inside."""

    through = "checks/inside.py:gossip_looked_at"

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_like(value["first"], right, self, f"rank {rank}'s result")
            assert_like(value["second"], right, self, f"in a second call, rank {rank}'s result")
            check_looked_at(self, rank, value)


@dataclass(frozen=True)
class RefusedGossip(Refused):
    """``average`` on two ranks with a row that can't be right.

    Attributes:
        neighbours: "me", "you", and numbers of ranks.
    """

    target = "gossip:average"
    through = "checks/inside.py:gossip_refused"
    neighbours: tuple = ("you",)
    weights: tuple = (0.1,)
    num_rounds: int = 2

    def inputs(self, rank):
        return self.neighbours, self.weights, self.num_rounds


def assert_gossip(run, case):
    """Messages went to neighbours only, and none through a library collective."""
    assert_own_messages(run, case)
    world = list(case.members or range(case.p))
    allowed = [set() for _ in range(run.world_size)]
    for rank, own in enumerate(case.neighbours):
        allowed[world[rank]] = {world[j] for j in own}
    assert_peers(run, allowed, case, "messages go to neighbours only")
