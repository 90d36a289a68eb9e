"""The calls of the modules that the tests make, and what must come of them.

Times and bytes are those that the docstrings of the modules allow.
"""

import functools
import math
from dataclasses import dataclass, field

import numpy as np
from given.shards import shard_bounds

from ringside.checking import Verdict, assert_array, assert_ran, magnitude, one_line, total
from ringside.checking.cases import Formula, Vectors

EVEN = "lengths that p divides"

# -- sums of vectors -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sum(Vectors):
    """Every rank gets the sum of all ranks' vectors.

    Tests that are about something else than the sum allow rounding to float32, and any dtype:
    what is wrong with those costs the points of ``check_exactly`` alone.

    Attributes:
        stride: x is every so many-th element of a longer array, which can't be written to; 1: x is
            an array of its own.
        special: NaN, infinities, very large and very small numbers are among the others.
        again: a call with another vector follows, and the same call once more; between them is one
            with the other vector in float32.
    """

    stride: int = field(default=1, kw_only=True)
    special: bool = field(default=False, kw_only=True)
    again: bool = field(default=False, kw_only=True)

    half = False  # of an all-reduce: one of the functions that it is made of
    inside = "checks/inside.py"
    plainly = ""  # what calls the function where nothing more is to be seen than what it returns

    @property
    def through(self):
        if self.again:
            return f"{self.inside}:twice"
        return f"{self.inside}:strided" if self.stride != 1 else self.plainly

    # What goes in, and what must come out

    @functools.cached_property
    def vectors(self):
        """Of each rank."""
        return [self.vector(rank) for rank in range(self.p)]

    def vector(self, rank):
        vector = super().vector(rank)
        if self.special:
            large, small = self.ends
            owners = self.rng().integers(self.p, size=4)
            for place, number in enumerate((np.nan, np.inf, -np.inf, large)):
                if owners[place] == rank:
                    vector[place] = number
            vector[4] *= small
        return vector

    @property
    def ends(self):
        """Numbers near the ends of the dtype's range."""
        return (1e300, 1e-200) if self.dtype == "float64" else (1e37, 1e-30)

    @property
    def second(self):
        """The call that follows."""
        return self.with_(seed=self.seed + 1, again=False)

    def given(self, rank):
        """What the function itself gets."""
        return (self.vectors[rank],)

    def inputs(self, rank):
        given = self.given(rank)
        if self.again:
            return self.target, given[0], *self.second.given(rank)
        return (self.target, self.stride, *given) if self.stride != 1 else given

    def summands(self, rank):
        return self.vectors

    @functools.cached_property
    def sums(self):
        """What must come out, of each rank."""
        return [total(self.summands(rank)) for rank in range(self.p)]

    def right(self):
        return self.sums

    # How they are compared

    @property
    def noun(self):
        """What sentences call a rank's value, where it is the sum of numbers like any others."""
        return "result"

    @property
    def what(self):
        if not self.special:
            return self.noun
        large, small = self.ends
        return f"{self.noun} for NaN, infinities, {large} and {small} among others"

    def check(self, run):
        assert_ran(run, self)
        look = self.check_twice if self.again else self.check_strided
        if not self.again and self.stride == 1:
            look = self.check_value
        for rank, value in enumerate(run.values):
            look(rank, value)

    def check_value(self, rank, value, what="", of=None):
        """One result; ``of`` is the call that it is of."""
        of = of or self
        parts, right = of.summands(rank), of.right()[rank]
        what = f"rank {rank}'s {what or self.what}"
        self.check_array(value, right, magnitude(parts), what, parts if len(parts) > 1 else ())

    def check_array(self, value, right, scale, what, parts=()):
        """An array, exactly or not."""
        if not self.exact and isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
            if right.dtype.kind == "i" or value.dtype != right.dtype:
                value, right = value.astype("float64"), right.astype("float64")
            scale = scale * (np.finfo("float32").eps / np.finfo(right.dtype).eps)
        assert_array(value, right, scale, self, what, parts)

    def check_strided(self, rank, value):
        """What ``inside.strided`` gave back."""
        of = f"{self.what} for elements of an array that are {self.stride} apart"
        self.check_value(rank, value["result"], of)
        if value["shared"]:
            raise self.fail(f"rank {rank} returned a view of its input, not a new array.")
        if value["changed"]:
            raise self.fail(f"rank {rank} changed the array that its input is part of.")

    def check_twice(self, rank, value):
        """What ``inside.twice`` gave back."""
        first = f"first {self.noun}"
        self.check_value(rank, value["then"], first)
        self.check_value(rank, value["now"], f"{first}, looked at after a second call,")
        self.check_value(rank, value["late"], f"second {self.noun}", self.second)
        if value["shared"]:
            raise self.fail(
                f"rank {rank}'s results share memory with each other or with an input; "
                "each must be a new array."
            )
        if value["fixed"]:
            raise self.fail(f"rank {rank}'s result can't be written to by its caller.")
        if self.dtype != "float32":
            right, scale = self.second.right()[rank], magnitude(self.second.summands(rank))
            what = f"rank {rank}'s {self.noun} for float32, after a call with {self.dtype},"
            self.check_array(value["single"], right.astype("float32"), scale, what)

    # What the docstrings allow

    @property
    def itemsize(self):
        return np.dtype(self.dtype).itemsize

    @property
    def steps(self):
        """floor(log2(p))."""
        return self.p.bit_length() - 1

    @property
    def fold(self):
        """0 if p is a power of two, else 1."""
        return int(self.p != 1 << self.steps)

    @property
    def ring_nbytes(self):
        """Of each rank, twice round a ring."""
        return 2 * (self.p - 1) * self.shard_nbytes

    def star_s(self, machine):
        """Of blocking calls, one after the other, through one master."""
        return 2 * (self.p - 1) * (machine.alpha_s + self.nbytes * machine.beta_s_per_byte)

    def beside(self, machine):
        """What stands beside a time."""
        return f" The star takes {self.star_s(machine) * 1e6:.1f} µs."

    def ring_s(self, machine):
        """Of p - 1 steps with a shard, twice."""
        return 2 * (self.p - 1) * (machine.alpha_s + self.shard_nbytes * machine.beta_s_per_byte)


@dataclass(frozen=True)
class Star(Sum):
    """The sum through rank 0."""

    target = "star:all_reduce"

    def bound_s(self, machine):
        return self.star_s(machine)

    def beside(self, machine):
        return ""


@dataclass(frozen=True)
class Server(Sum):
    """The sum by a server on every rank."""

    target = "sharded_server:all_reduce"

    def bound_s(self, machine):
        return self.ring_s(machine)


@dataclass(frozen=True)
class Ring(Sum):
    """The sum round the ring."""

    target = "ring:all_reduce"

    def bound_s(self, machine):
        return self.ring_s(machine)


@dataclass(frozen=True)
class Scatter(Sum):
    """Each rank's shard of the sum."""

    target = "ring:reduce_scatter"
    half = True

    def summands(self, rank):
        shard = slice(*shard_bounds(self.n, self.p, rank))
        return [vector[shard] for vector in self.vectors]


@dataclass(frozen=True)
class Gather(Sum):
    """The whole vector from each rank's shard of it."""

    target = "ring:all_gather"
    half = True

    def given(self, rank):
        lo, hi = shard_bounds(self.n, self.p, rank)
        return self.vectors[0][lo:hi].copy(), self.n

    def summands(self, rank):
        return self.vectors[:1]


@dataclass(frozen=True)
class Doubling(Sum):
    """The sum by exchanges of whole vectors."""

    target = "recursive:recursive_doubling"

    @property
    def most_nbytes(self):
        return (self.steps + self.fold) * self.nbytes

    def bound_s(self, machine):
        whole_s = machine.alpha_s + self.nbytes * machine.beta_s_per_byte
        return (self.steps + 2 * self.fold) * whole_s


@dataclass(frozen=True)
class Halving(Sum):
    """The sum by exchanges of halves of halves."""

    target = "recursive:halving_doubling"

    @property
    def _elements(self):
        core = 1 << self.steps
        return 2 * (core - 1) * -(-self.n // core)

    @property
    def most_nbytes(self):
        return (self._elements + self.fold * self.n) * self.itemsize

    def bound_s(self, machine):
        alpha, beta = machine.alpha_s, machine.beta_s_per_byte
        exchanges_s = 2 * self.steps * alpha + self._elements * self.itemsize * beta
        return exchanges_s + 2 * self.fold * (alpha + self.nbytes * beta)


@dataclass(frozen=True)
class Tree(Sum):
    """The sum over two trees."""

    target = "tree:all_reduce"
    num_chunks: int = 3

    def given(self, rank):
        return self.vectors[rank], self.num_chunks

    def bound_s(self, machine):
        alpha, beta = machine.alpha_s, machine.beta_s_per_byte
        chunk = math.ceil(math.ceil(self.n / 2) / self.num_chunks) * self.itemsize
        return 2 * self.nbytes * beta + 4 * math.ceil(math.log2(self.p)) * (alpha + chunk * beta)


@dataclass(frozen=True)
class Levels(Sum):
    """The sum inside the nodes and between them; a last node that isn't full is refused."""

    target = "hierarchical:all_reduce"
    ranks_per_node: int = 2

    @property
    def is_full(self):
        return self.p % self.ranks_per_node == 0

    @property
    def kind(self):
        """Any number of nodes is like any other."""
        return EVEN if self.n % self.p == 0 else "lengths that p does not divide"

    @property
    def through(self):
        return super().through if self.is_full else f"{self.inside}:refused"

    def given(self, rank):
        return self.vectors[rank], self.ranks_per_node

    def inputs(self, rank):
        return super().inputs(rank) if self.is_full else (self.target, *self.given(rank))

    def check(self, run):
        if self.is_full:
            super().check(run)
            return
        assert_ran(run, self)
        for rank, error in enumerate(run.values):
            if error != "ValueError":
                raise self.fail(
                    f"rank {rank} raised {error or 'nothing'}; it must be ValueError, since "
                    f"{self.p} ranks are no multiple of {self.ranks_per_node}."
                )

    def wrong(self):
        nodes = [rank // self.ranks_per_node for rank in range(self.p)]
        of_nodes = [
            [v for v, n in zip(self.vectors, nodes, strict=True) if n == own] for own in nodes
        ]
        return {
            "This is the sum over the ranks of its own node; the other nodes' sums are missing.": [
                total(vectors) for vectors in of_nodes
            ]
        }

    @property
    def num_nodes(self):
        return self.p // self.ranks_per_node

    @property
    def node_shard(self):
        """Elements of each rank's shard of its node's sum."""
        return -(-self.n // self.ranks_per_node)

    @property
    def most_between(self):
        """Bytes of a rank to other nodes."""
        return 2 * (self.num_nodes - 1) * -(-self.node_shard // self.num_nodes) * self.itemsize

    @property
    def most_nbytes(self):
        return self.most_between + 2 * (self.ranks_per_node - 1) * self.node_shard * self.itemsize

    def bound_s(self, machine):
        step_s = machine.intra_alpha_s
        step_s += self.node_shard * self.itemsize * machine.intra_beta_s_per_byte
        nbytes = self.ranks_per_node * -(-self.node_shard // self.num_nodes) * self.itemsize
        across_s = machine.alpha_s + nbytes * machine.beta_s_per_byte
        return 2 * (self.ranks_per_node - 1) * step_s + 2 * (self.num_nodes - 1) * across_s


@dataclass(frozen=True)
class TorchRing(Ring):
    """The sum round the ring, of tensors in place: what x holds afterwards."""

    target = "ring_torch:all_reduce"
    inside = "checks/inside_torch.py"
    plainly = "checks/inside_torch.py:all_reduce"

    @property
    def noun(self):
        return "x"

    def check_strided(self, rank, value):
        if value["returned"]:
            raise self.fail(
                f"rank {rank}'s call returned something; it must put the sum into x and return "
                "None."
            )
        what = "x, elements with gaps between them of a longer tensor,"
        self.check_value(rank, value["result"], what)
        if value["changed"]:
            raise self.fail(
                f"rank {rank} changed elements between those of x, or gave x another storage than "
                "that of the longer tensor; copy the sum into x."
            )


@dataclass(frozen=True)
class MeasuredTorchRing(Ring):
    """The same, for runs and jobs."""

    target = "checks/inside_torch.py:all_reduce"


# -- trees -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DoubleTree(Formula):
    """Two trees over all ranks."""

    target = "tree:double_tree"
    world_size: int = 6

    def check_value(self, value):
        for which, tree in enumerate(self.parents(value)):
            self.depth(tree, which)

    def parents(self, value):
        """An answer as two lists of int."""
        p, found = self.world_size, []
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise Verdict(f"{self} must be two lists of parents.")
        for tree in value:
            if isinstance(tree, np.ndarray) and tree.dtype.kind in "iu":
                tree = tree.tolist()
            fits = isinstance(tree, tuple | list) and len(tree) == p
            if not fits or not all(type(each) is int and -1 <= each < p for each in tree):
                raise Verdict(
                    f"{self}: {one_line(repr(tree), 80)} is no list of {p} parents, each from -1 "
                    f"to {p - 1}."
                )
            found.append(list(tree))
        return found

    def depth(self, tree, which):
        """Edges from the root to the deepest rank; fails if it is no tree."""
        p = self.world_size
        if tree.count(-1) != 1:
            raise Verdict(f"{self}: tree {which + 1} has {tree.count(-1)} roots; it must have one.")
        deepest = 0
        for rank in range(p):
            edges, at = 0, rank
            while tree[at] >= 0 and edges <= p:
                edges, at = edges + 1, tree[at]
            if edges > p:
                raise Verdict(f"{self}: rank {rank} never gets to the root of tree {which + 1}.")
            deepest = max(deepest, edges)
        return deepest


# -- formulas --------------------------------------------------------------------------------------

NAMES = ("star", "sharded_server", "ring", "recursive_doubling", "halving_doubling")


@dataclass(frozen=True)
class OnMachine(Formula):
    """A function of cost.py, for a machine of these numbers; ``gives`` says what it must give."""

    caller = "checks/inside.py:formulas"
    nbytes: int = 8000
    world_size: int = 4
    alpha_s: float = 1e-6
    beta: float = 1e-9

    def __str__(self):
        return (
            f"{self.function}({self.nbytes}, {self.world_size}, machine) with alpha_s = "
            f"{self.alpha_s:g}, beta_s_per_byte = {self.beta:g}"
        )


@dataclass(frozen=True)
class Seconds(OnMachine):
    """Seconds of a scheme."""

    def check_value(self, value):
        if type(value) not in (int, float):
            raise Verdict(f"{self} is of type {type(value).__name__}; it must be a number.")
        if not math.isclose(value, self.gives, rel_tol=1e-6, abs_tol=1e-18):
            named = (says for says, other in self.wrong().items() if math.isclose(value, other))
            says = next((f" {says}" for says in named), "")
            raise Verdict(f"{self} is {value:.6g} s; it must be {self.gives:.6g} s.{says}")


@dataclass(frozen=True)
class StarSeconds(Seconds):
    """Seconds of the star."""

    target = "cost:star_s"


@dataclass(frozen=True)
class ServerSeconds(Seconds):
    """Seconds of the sharded server."""

    target = "cost:sharded_server_s"


@dataclass(frozen=True)
class RingSeconds(Seconds):
    """Seconds of the ring."""

    target = "cost:ring_s"


@dataclass(frozen=True)
class DoublingSeconds(Seconds):
    """Seconds of recursive doubling."""

    target = "cost:recursive_doubling_s"


@dataclass(frozen=True)
class HalvingSeconds(Seconds):
    """Seconds of halving-doubling."""

    target = "cost:halving_doubling_s"


@dataclass(frozen=True)
class Choice(OnMachine):
    """The fastest; ``gives`` has all names that are right, the fastest first."""

    target = "cost:choose"

    def check_value(self, value):
        if not isinstance(value, str) or value not in NAMES:
            raise Verdict(
                f"{self} is {one_line(repr(value), 60)}; it must be one of {', '.join(NAMES)}."
            )
        if value not in self.gives:
            also = f"; {', '.join(self.gives[1:])} may be named, too" if self.gives[1:] else ""
            raise Verdict(
                f"{self} is {value!r}, which takes more than 5 % longer than the fastest, "
                f"{self.gives[0]!r}{also}."
            )
