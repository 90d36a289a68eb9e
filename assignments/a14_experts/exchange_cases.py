"""Calls of ``exchange.py`` as the tests make them, and their checks: supplied, nothing to write."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from experts import (
    Routing,
    drawn_experts,
    owners,
    serial_backward,
    serial_forward,
    shard_bounds,
)

from ringside.checking import Call, assert_array, assert_ran, buffered
from ringside.checking.ring_bytes import bytes_of
from ringside.trace import Kind


@dataclass(frozen=True)
class ExchangeCase(Call):
    """A call of a function of ``exchange.py``; tokens and their experts come from ``seed``."""

    tokens: tuple = ()  # of each rank
    num_experts: int = 4
    d: int = 3
    k: int = 2
    kind: str = "usual"
    seed: int = 0
    hidden: int = 6

    def via(self, function, about=""):
        """The same by way of another function of ``callers.py``."""
        called = self.line.split()[2]
        line = self.line.replace(called, f"{called.partition(':')[0]}:{function}", 1)
        target = f"{called.partition('.')[0]}:{function}"
        return replace(self, target=target, line=line, about=self.about + about)

    @cached_property
    def given(self):
        """Per rank ``(x, routing, dy)``, numbers of the case's dtype."""
        rng, found = np.random.default_rng(self.seed), []
        for rank, num_tokens in enumerate(self.tokens):
            x, dy = rng.standard_normal((2, num_tokens, self.d)).astype(self.dtype)
            chosen = np.array(
                [rng.permutation(self.num_experts)[: self.k] for _ in range(num_tokens)]
            )
            chosen = chosen.reshape(num_tokens, self.k).astype(np.int64)
            if self.kind == "even":  # each rank sends every expert the same number of rows
                first = np.arange(num_tokens)[:, None] + np.arange(self.k)
                chosen = (first % self.num_experts).astype(np.int64)
            elif self.kind == "one":  # everybody's first choice is expert 0
                chosen = np.tile(np.arange(self.k), (num_tokens, 1)).astype(np.int64)
            elif self.kind == "uneven":  # rank r sends to the expert after its own alone
                first = (rank + 1) % self.num_experts + np.arange(self.k)
                chosen = np.tile(first % self.num_experts, (num_tokens, 1)).astype(np.int64)
            kept = rng.random(chosen.shape) < (0.0 if self.kind == "none" else 0.85)
            kept |= self.kind == "even"
            weights = rng.random(chosen.shape).astype(self.dtype) * kept
            found.append((x, Routing(chosen, weights.astype(self.dtype), kept), dy))
        return found

    def arguments_of_ranks(self):
        """What ``exchange_layer`` of ``callers.py`` gets on each rank after ``comm``."""
        return [
            (self.num_experts, self.d, self.hidden, self.seed, self.dtype, x, *routing, dy)
            for x, routing, dy in self.given
        ]

    @property
    def routings(self):
        """Per rank its tokens' ``Routing``."""
        return [routing for _, routing, _ in self.given]

    def measured_arguments(self):
        """What ``exchange.measured_layer`` gets on each rank after ``comm``."""
        every = drawn_experts(self.num_experts, self.d, self.hidden, self.seed, self.dtype)
        found = []
        for rank, (x, routing, dy) in enumerate(self.given):
            lo, hi = shard_bounds(self.num_experts, self.world_size, rank)
            weights = [
                np.stack([getattr(one, name) for one in every[lo:hi]]) for name in ("w1", "w2")
            ]
            found.append((*weights, self.num_experts, x, *routing, dy))
        return found

    @cached_property
    def rights(self):
        """Per rank ``(y, dx, dweights, gradients of its experts)``."""
        experts = drawn_experts(self.num_experts, self.d, self.hidden, self.seed, self.dtype)
        x, dy = (np.concatenate([own[i] for own in self.given]) for i in (0, 2))
        routing = Routing(*(np.concatenate(part) for part in zip(*self.routings, strict=True)))
        y = serial_forward(experts, x, routing)
        dx, dweights, gradients = serial_backward(experts, x, routing, dy)
        cuts = np.cumsum(self.tokens)[:-1]
        parts = [np.split(each, cuts) for each in (y, dx, dweights)]
        bounds = [
            shard_bounds(self.num_experts, self.world_size, r) for r in range(self.world_size)
        ]
        return [
            (*(part[rank] for part in parts), gradients[lo:hi])
            for rank, (lo, hi) in enumerate(bounds)
        ]

    def dispatched_arguments(self):
        """What ``exchange_dispatched`` of ``callers.py`` gets on each rank after ``comm``."""
        found = []
        for x, routing, _ in self.given:
            token, choice = np.nonzero(routing.kept)
            found.append((self.num_experts, x[token], routing.experts[token, choice]))
        return found

    def check_dispatched(self, rank, value, *, back=True):
        """What ``exchange_dispatched`` gave back on a rank is right, exactly."""
        given = self.dispatched_arguments()
        lo, hi = shard_bounds(self.num_experts, self.world_size, rank)
        rights = [np.concatenate([rows[numbers == e] for _, rows, numbers in given])
                  for e in range(lo, hi)]  # fmt: skip
        if not isinstance(value, list | tuple) or len(value) != 3:
            raise self.fail(f"rank {rank}: {type(value).__name__} came back.")
        received, returned, again = value
        for name, lists, times in (("dispatch", received, 1), ("send_again", again, 3)):
            if not isinstance(lists, list | tuple) or len(lists) != hi - lo:
                raise self.fail(f"rank {rank}: {name} must give a list of {hi - lo} arrays.")
            for number, (rows, right) in enumerate(zip(lists, rights, strict=True)):
                what = f"rank {rank}: {name}'s rows of its expert {number}"
                assert_array(rows, times * right, None, self, what)
        if back:
            what = f"rank {rank}: what send_back gives"
            assert_array(returned, 2 * given[rank][1], None, self, what)

    def row_bytes(self):
        """``[source, dest]``: bytes of the rows that go from one rank to another; 0 to itself."""
        owner, found = owners(self.num_experts, self.world_size), []
        for _, routing, _ in self.given:
            there = owner[routing.experts[routing.kept]]
            found.append(np.bincount(there, minlength=self.world_size))
        counts = np.array(found) * self.d * np.dtype(self.dtype).itemsize
        np.fill_diagonal(counts, 0)
        return counts

    def count_bytes(self):
        """Of the counts that a rank may send each other one: 8 for each expert there."""
        owned = np.bincount(owners(self.num_experts, self.world_size), minlength=self.world_size)
        counts = np.tile(8 * owned, (self.world_size, 1))
        np.fill_diagonal(counts, 0)
        return counts

    def check(self, rank, value, *, forward=False):
        """What ``exchange_layer`` gave back on a rank is right; ``forward``: look at y alone."""
        y, dx, dweights, gradients = self.rights[rank]
        if not isinstance(value, list | tuple) or len(value) != 4:
            raise self.fail(f"rank {rank}: forward and backward gave {type(value).__name__}.")
        for name, array, right in zip(
            ("y", "dx", "dweights"), value, (y, dx, dweights), strict=False
        ):
            assert_array(array, right, np.full(right.shape, 30.0), self, f"rank {rank}'s {name}")
            if forward:
                return
        if len(value[3]) != len(gradients):
            raise self.fail(
                f"rank {rank} gave gradients of {len(value[3])} experts; it has {len(gradients)}."
            )
        for number, (ours, rights) in enumerate(zip(value[3], gradients, strict=True)):
            for name, array, right in zip(("dw1", "dw2"), ours, rights, strict=True):
                what = f"rank {rank}'s {name} of its expert {number}"
                assert_array(array, right, np.full(right.shape, 100.0), self, what)


def exchange_case(
    tokens, num_experts, kind="usual", *, d=3, k=2, seed=1, dtype="float64", hidden=6
):
    """A forward and a backward pass of a layer."""
    p = len(tokens)
    words = f"--tokens '{list(tokens)}' --experts {num_experts} --kind {kind} --d {d} --k {k}"
    return ExchangeCase(
        "callers:exchange_layer", p, sum(tokens), dtype,
        about=f"a layer of {num_experts} experts, {list(tokens)} tokens of {d} elements, k = {k}, "
        f"{dtype}",
        line=f"ringside run callers.py:exchange_layer --ranks {p} -- {words} --seed {seed} "
        f"--dtype {dtype}",
        tokens=tuple(tokens), num_experts=num_experts, d=d, k=k, kind=kind,
        seed=seed, hidden=hidden,
    )  # fmt: skip


def exchanged(ranks, case, *, forward=True, **options):
    """Both passes; values are right, those of the backward pass only if they are looked at."""
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(case.target, world_size, case.arguments_of_ranks(), **options)
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        case.check(rank, value, forward=forward)
    return result


def dispatched(ranks, case, *, back=True, **options):
    """``dispatch``, ``send_again`` and ``send_back`` of the rows that ``case`` routes."""
    looked = case.via("exchange_dispatched")
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(
        "callers:exchange_dispatched", world_size, case.dispatched_arguments(), **options
    )
    assert_ran(result, looked)
    for rank, value in enumerate(result.values):
        looked.check_dispatched(rank, value, back=back)
    return result


def sent_to_experts(ranks, case, **options):
    """Rows go to their experts and not to everybody, whatever else is wrong.

    That is an exchange at all: of rows that go to all of 8 ranks, each has what 8 would need.
    """
    looked = case.via("exchange_dispatched")
    given = case.dispatched_arguments()
    result = ranks.call("callers:exchange_dispatched", case.world_size, given, **options)
    assert_ran(result, looked)
    rows = case.row_bytes()  # three exchanges
    most = 9 * rows.sum() + 3 * case.count_bytes().sum()
    assert_sent_at_most(result, looked, f"all:{most:.0f}")


def sent_of_ranks(result):
    """``[source, dest]``: bytes sent by world rank; another collective than the all-to-all counts
    as a ring's messages to the next rank."""
    sent = np.array(result.bytes_matrix(), dtype=float)
    for rank, ops in enumerate(result.trace.ops):
        for op in ops:
            if op.kind == Kind.COLLECTIVE and op.detail[0] == "alltoall":
                _, _, _, members, sizes = op.detail
                p, me = len(members), members.index(rank)
                for other in set(range(p)) - {me}:
                    sent[rank, members[other]] += sizes[me * p + other]
    for record in result.collectives:
        if record.name != "alltoall":
            for rank, after in zip(record.members, np.roll(record.members, -1), strict=True):
                sent[rank, after] += bytes_of(record)
    return sent


def assert_sent(result, case, num_counts=1):
    """Each rank sent each other one its rows four times, and counts once.

    A row goes there and back in the forward pass, and there and back in the backward pass; what one
    rank sends, the other one sends back.

    Args:
        num_counts: how often counts may go.
    """
    rows = case.row_bytes()
    allowed = 2 * (rows + rows.T) + num_counts * case.count_bytes()
    sent = sent_of_members(result, case)
    np.fill_diagonal(sent, 0)
    for source, dest in np.argwhere(sent > allowed):
        assert_sent_at_most(result, case, f"{source}:{dest}:{allowed[source, dest]:.0f}")


def sent_of_members(result, case):
    """As ``sent_of_ranks``, by rank of the communicator."""
    members = list(result.members or range(case.world_size))
    return sent_of_ranks(result)[np.ix_(members, members)]


def assert_sent_at_most(result, case, bound):
    """``"2:0:800"``: rank 2 sent rank 0 at most 800 bytes; ``"all:800"``: all ranks together."""
    sent = sent_of_members(result, case)
    *pair, most = bound.split(":")
    named, total = "all ranks together", sent.sum()
    if pair != ["all"]:
        source, dest = map(int, pair)
        named, total = f"rank {source}", sent[source, dest]
    if total > int(most):
        where = "" if pair == ["all"] else f" to rank {dest}"
        raise (
            case.seen_in(result)
            .asking(f"sent={bound}")
            .fail(
                f"{named} sent {total:,.0f} bytes{where}; rows there and back, and 8 bytes for "
                f"each expert's count, are {int(most):,} at most."
            )
        )


def exchanges_of(result):
    """Per rank of comm, how many exchanges: all-to-alls, or the most messages to one other rank."""
    members = list(result.members or range(len(result.trace.ops)))
    found = []
    for rank in members:
        alltoalls, sends = 0, {}
        for op in result.trace.ops[rank]:
            alltoalls += op.kind == Kind.COLLECTIVE and op.detail[0] == "alltoall"
            if op.kind == Kind.ISEND:
                sends[op.peer] = sends.get(op.peer, 0) + 1
        found.append(alltoalls + max(sends.values(), default=0))
    return found


def assert_exchanges(result, case):
    """Counts, and rows four times: at most five exchanges in both passes."""
    for rank, count in enumerate(exchanges_of(result)):
        if count > 5:
            raise case.asking("exchanges").fail(
                f"rank {rank} took part in {count} exchanges; both passes may have 5: counts, and "
                "rows there and back twice."
            )
