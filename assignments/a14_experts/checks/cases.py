"""The calls of exchange.py that the tests make, and what must come of them."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from given.experts import (
    Routing,
    drawn_experts,
    owners,
    serial_backward,
    serial_forward,
    shard_bounds,
)

from ringside.checking import assert_ran
from ringside.checking.cases import Case, assert_like, brief
from ringside.checking.ring_bytes import bytes_of
from ringside.trace import Kind
from ringside.units import format_count


@dataclass(frozen=True)
class Tokens(Case):
    """Tokens of each rank, and the experts that a gate has chosen for them.

    Attributes:
        tokens: of each rank; rank r has ``tokens[r % len(tokens)]``.
        experts: of all ranks together.
        kind: which experts are chosen. "usual": any; "even": each rank sends every expert the same
            number of rows, and all are kept; "one": everybody's first choice is expert 0; "uneven":
            that of rank r is expert r + 1.
        d: elements of a token.
        k: experts of a token.
        share: of the choices that are kept.
        hidden: width of an expert.
    """

    machine: str = field(default="buffered", kw_only=True)
    tokens: tuple = (6,)
    experts: int = 4
    kind: str = "usual"
    d: int = 3
    k: int = 2
    share: float = 0.85
    dtype: str = "float64"
    hidden: int = 6

    @property
    def counts(self):
        """How many tokens each rank has."""
        return [self.tokens[rank % len(self.tokens)] for rank in range(self.p)]

    @cached_property
    def of_ranks(self):
        """Per rank ``(x, routing, dy)``."""
        return [self._drawn(rank, count) for rank, count in enumerate(self.counts)]

    def _drawn(self, rank, count):
        rng = self.rng(rank)
        x, dy = rng.standard_normal((2, count, self.d)).astype(self.dtype)
        first = {"even": np.arange(count), "one": np.zeros(count, int)}.get(
            self.kind, np.full(count, rank + 1)
        )
        experts = (first[:, None] + np.arange(self.k)) % self.experts
        if self.kind == "usual":
            experts = np.argsort(rng.random((count, self.experts)), axis=1)[:, : self.k]
        kept = rng.random(experts.shape) < (1.0 if self.kind == "even" else self.share)
        weights = (rng.random(experts.shape) * kept).astype(self.dtype)
        return x, Routing(experts.astype(np.int64), weights, kept), dy

    def bounds(self, rank):
        """Of the experts of a rank."""
        return shard_bounds(self.experts, self.p, rank)

    def drawn_experts(self):
        """All of them."""
        return drawn_experts(self.experts, self.d, self.hidden, self.seed, self.dtype)

    @property
    def row_nbytes(self):
        """Bytes of a row."""
        return self.d * np.dtype(self.dtype).itemsize

    def row_bytes(self):
        """``[source, dest]``: bytes of the rows that go from one rank to another; 0 to itself."""
        owner = owners(self.experts, self.p)
        there = [owner[routing.experts[routing.kept]] for _, routing, _ in self.of_ranks]
        rows = np.array([np.bincount(each, minlength=self.p) for each in there])
        np.fill_diagonal(rows, 0)
        return rows * self.row_nbytes

    def count_bytes(self):
        """Of the counts that a rank may send each other one: 8 for each expert there."""
        owned = np.bincount(owners(self.experts, self.p), minlength=self.p)
        counts = np.tile(8 * owned, (self.p, 1))
        np.fill_diagonal(counts, 0)
        return counts


# -- exchange --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dispatch(Tokens):
    """``dispatch`` of rows, ``send_back`` of what came, twice, and ``send_again`` of rows, thrice.

    Attributes:
        back: what ``send_back`` gives is compared.
        in_order: the order of an expert's rows is compared, too.
    """

    target = "exchange:dispatch"
    through = "checks/inside.py:dispatched"
    back: bool = False
    in_order: bool = False

    def inputs(self, rank):
        x, routing, _ = self.of_ranks[rank]
        token, choice = np.nonzero(routing.kept)
        return self.experts, x[token], routing.experts[token, choice]

    def right(self):
        """Per rank the arrays that its experts receive, and its own rows."""
        calls = [self.inputs(rank) for rank in range(self.p)]
        received = [
            np.concatenate([rows[numbers == expert] for _, rows, numbers in calls])
            for expert in range(self.experts)
        ]
        return [(received[slice(*self.bounds(r))], calls[r][1]) for r in range(self.p)]

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, (received, rows)) in enumerate(
            zip(run.values, self.right(), strict=True)
        ):
            for name, lists, times in (("dispatch", value[0], 1), ("send_again", value[2], 3)):
                if not isinstance(lists, list | tuple) or len(lists) != len(received):
                    arrays = format_count(len(received), "array")
                    raise self.fail(
                        f"rank {rank}: {name} gave {brief(lists)}; it must be a list of {arrays}."
                    )
                for number, (own, right) in enumerate(zip(lists, received, strict=True)):
                    what = f"rank {rank}: what {name} gives for its expert {number}"
                    rows_here = [own, times * right]
                    if not self.in_order:
                        what, rows_here = f"{what}, rows sorted,", map(sorted_rows, rows_here)
                    assert_like(*rows_here, self, what, tolerance=0)
            if self.back:
                what = f"rank {rank}: what send_back gives"
                assert_like(value[1], 2 * rows, self, what, tolerance=0)


def sorted_rows(array):
    """The rows in an order that values alone decide; what is no array of rows comes back."""
    is_table = isinstance(array, np.ndarray) and array.ndim == 2
    return array[np.lexsort(array.T)] if is_table else array


@dataclass(frozen=True)
class Forward(Tokens):
    """A forward pass and a backward pass, of which y alone is compared."""

    target = "exchange:forward"
    through = "checks/inside.py:layer"
    parts = "y", "dx", "dweights"

    def inputs(self, rank):
        x, routing, dy = self.of_ranks[rank]
        return self.experts, self.d, self.hidden, self.seed, self.dtype, x, *routing, dy

    def right(self):
        """Per rank ``(y, dx, dweights, gradients of its experts)``, by one rank with all tokens."""
        x, dy = (np.concatenate([own[i] for own in self.of_ranks]) for i in (0, 2))
        routings = [routing for _, routing, _ in self.of_ranks]
        routing = Routing(*(np.concatenate(part) for part in zip(*routings, strict=True)))
        experts = self.drawn_experts()
        y = serial_forward(experts, x, routing)
        dx, dweights, gradients = serial_backward(experts, x, routing, dy)
        cuts = np.cumsum(self.counts)[:-1]
        parts = zip(*(np.split(each, cuts) for each in (y, dx, dweights)), strict=True)
        return [[*part, gradients[slice(*self.bounds(rank))]] for rank, part in enumerate(parts)]

    def wrong(self):
        unweighted = [
            [serial_forward(self.drawn_experts(), x, Routing(experts, 1.0 * kept, kept))]
            for x, (experts, _, kept), _ in self.of_ranks
        ]
        return {"These are the sums of the experts' answers without the weights.": unweighted}

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_like(value[0], right[0], self, f"rank {rank}'s y")


@dataclass(frozen=True)
class Backward(Forward):
    """The same, of which all but y is compared."""

    target = "exchange:backward"

    def wrong(self):
        silent = [[y, dx, np.zeros_like(dweights), own] for y, dx, dweights, own in self.right()]
        return {"The weights get no gradient, so the gate would learn nothing.": silent}

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            check_layer(self, rank, value, right)


def check_layer(case, rank, value, right):
    """What a layer gave on a rank beside y: what ``case.parts`` names, and experts' gradients."""
    for name, own, wanted in list(zip(case.parts, value, right, strict=False))[1:]:
        assert_like(own, wanted, case, f"rank {rank}'s {name}")
    check_experts(case, rank, value, right)


def check_experts(case, rank, value, right):
    """The gradients of a rank's experts, which stand last."""
    if len(value) != len(right) or len(value[-1]) != len(right[-1]):
        raise case.fail(
            f"rank {rank} gave {', '.join(case.parts)} and gradients of {len(value[-1])} experts; "
            f"it has {len(right[-1])}."
        )
    for number, (own, wanted) in enumerate(zip(value[-1], right[-1], strict=True)):
        for name, one, other in zip(("dw1", "dw2"), own, wanted, strict=True):
            assert_like(one, other, case, f"rank {rank}'s {name} of its expert {number}")


@dataclass(frozen=True)
class MeasuredLayer(Forward):
    """``measured_layer`` of two experts a rank and n tokens of 64 elements, for runs and jobs."""

    target = "exchange:measured_layer"
    through = ""
    n: int = 16

    def sized(self):
        """The tokens that it stands for."""
        return Forward(self.p, (self.n,), 2 * self.p, d=64, hidden=256,
                       dtype=self.dtype, seed=self.seed)  # fmt: skip

    def inputs(self, rank):
        case = self.sized()
        own = case.drawn_experts()[slice(*case.bounds(rank))]
        weights = [np.stack([getattr(one, name) for one in own]) for name in ("w1", "w2")]
        x, routing, dy = case.of_ranks[rank]
        return *weights, case.experts, x, *routing, dy

    def right(self):
        return [own[:3] for own in self.sized().right()]


# -- what the network saw --------------------------------------------------------------------------


def sent_of_ranks(run):
    """``[source, dest]``: bytes sent by world rank; another collective than the all-to-all counts
    as a ring's messages to the next rank."""
    sent = np.array(run.bytes_matrix(), dtype=float)
    for rank, ops in enumerate(run.trace.ops):
        for op in ops:
            if op.kind == Kind.COLLECTIVE and op.detail[0] == "alltoall":
                _, _, _, members, sizes = op.detail
                p, me = len(members), members.index(rank)
                for other in set(range(p)) - {me}:
                    sent[rank, members[other]] += sizes[me * p + other]
    for record in run.collectives:
        if record.name != "alltoall":
            for rank, after in zip(record.members, np.roll(record.members, -1), strict=True):
                sent[rank, after] += bytes_of(record)
    return sent


def assert_sent(run, case, num_counts=1):
    """Each rank sent each other one its rows four times, and counts ``num_counts`` times at most.

    A row goes there and back in the forward pass, and there and back in the backward pass; what one
    rank sends, the other one sends back.
    """
    rows, sent = case.row_bytes(), sent_of_ranks(run)
    allowed = 2 * (rows + rows.T) + num_counts * case.count_bytes()
    np.fill_diagonal(sent, 0)
    for source, dest in np.argwhere(sent > allowed)[:1]:
        raise case.fail(
            f"rank {source} sent {sent[source, dest]:,.0f} bytes to rank {dest}; rows there and "
            f"back, and 8 bytes for each expert's count, are {allowed[source, dest]:,} at most."
        )


def assert_sent_in_all(run, case, most):
    """All ranks together sent at most so many bytes, and rows for experts elsewhere among them."""
    sent, rows = sent_of_ranks(run).sum(), case.row_bytes().sum()
    if sent < rows:
        raise case.fail(
            f"all ranks together sent {sent:,.0f} bytes; the rows for experts of other ranks are "
            f"{rows:,}."
        )
    if sent > most:
        raise case.fail(
            f"all ranks together sent {sent:,.0f} bytes; rows that go to their experts alone, and "
            f"8 bytes for each expert's count, are {most:,} at most."
        )


def assert_exchanges(run, case):
    """Counts, and rows four times: at most five exchanges in both passes."""
    for rank, ops in enumerate(run.trace.ops):
        alltoalls = sum(op.kind == Kind.COLLECTIVE and op.detail[0] == "alltoall" for op in ops)
        peers = [op.peer for op in ops if op.kind == Kind.ISEND]
        count = alltoalls + max(map(peers.count, peers), default=0)
        if count > 5:
            raise case.fail(
                f"rank {rank} took part in {count} exchanges; both passes may have 5: counts, and "
                "rows there and back twice."
            )
