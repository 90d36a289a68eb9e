"""Calls of ``node_limited.py`` as the tests make them, and their checks: supplied."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from exchange_cases import ExchangeCase, exchange_case, sent_of_members
from experts import drawn_experts, serial_forward

from ringside.checking import Verdict, assert_array, assert_ran, buffered, one_line
from ringside.checking.formulas import evaluated


def node_words(call):
    """How a sentence names a call of ``choose``, and the line that makes it."""
    scores, *others = call
    words = f"choose(np.array({scores.tolist()}), {', '.join(map(str, others))})"
    short = f"an array of shape {scores.shape}" if scores.size > 12 else str(scores.tolist())
    line = f'python -c "import numpy as np; from node_limited import *; print({words})"'
    return f"choose({short}, {', '.join(map(str, others))})", line


def node_check(ranks, calls, rights):
    """``choose`` gives the right experts."""
    values = evaluated(ranks, "callers:route_answers", "node_limited:choose", calls, node_words)
    for call, value, right in zip(calls, values, rights, strict=True):
        what, line = node_words(call)
        if isinstance(right, str):
            if not isinstance(value, str) or value != right:
                raise Verdict(f"{what} must raise {right}.", reproduce=line)
            continue
        right = np.asarray(right)
        if not isinstance(value, np.ndarray) or value.shape != right.shape:
            said = one_line(repr(value))
            raise Verdict(f"{what} gives {said}; its shape must be {right.shape}.", reproduce=line)
        wrong = np.argwhere(value != right)
        if len(wrong):
            token = int(wrong[0][0])
            raise Verdict(
                f"{what}: token {token} gets experts {value[token].tolist()}; they must be "
                f"{right[token].tolist()}.",
                reproduce=line,
            )


@dataclass(frozen=True)
class NodeCase(ExchangeCase):
    """A call of ``node_limited.forward``; its inputs come from ``seed``."""

    ranks_per_node: int = 2
    hidden: int = 4

    def arguments_of_ranks(self):
        """What ``node_layer`` of ``callers.py`` gets on each rank after ``comm``."""
        return [
            (self.num_experts, self.d, self.hidden, self.seed, self.dtype, x, *routing,
             self.ranks_per_node)
            for x, routing, _ in self.given
        ]  # fmt: skip

    @cached_property
    def rights(self):
        """Per rank y."""
        experts = drawn_experts(self.num_experts, self.d, self.hidden, self.seed, self.dtype)
        return [serial_forward(experts, x, routing) for x, routing, _ in self.given]

    def check(self, rank, value, *, forward=True):
        """What ``node_layer`` gave back on a rank is right."""
        right = self.rights[rank]
        assert_array(value, right, np.full(right.shape, 60.0), self, f"rank {rank}'s y")

    def rows_between(self):
        """``[rank, node]``: rows that a rank's tokens need on another node."""
        num_nodes = self.world_size // self.ranks_per_node
        each, found = self.num_experts // num_nodes, []
        for rank, (_, routing, _) in enumerate(self.given):
            there = np.where(routing.kept, routing.experts // each, -1)
            rows = [int((there == node).any(axis=1).sum()) for node in range(num_nodes)]
            rows[rank // self.ranks_per_node] = 0
            found.append(rows)
        return np.array(found)

    def pair_bytes(self):
        """``[source, dest]``: bytes allowed between ranks of different nodes."""
        g, p, rows = self.ranks_per_node, self.world_size, self.rows_between()
        allowed = np.zeros((p, p))
        for source, dest in np.ndindex(p, p):
            if source % g == dest % g and source // g != dest // g:
                both = rows[source, dest // g] + rows[dest, source // g]
                itemsize = np.dtype(self.dtype).itemsize
                allowed[source, dest] = both * (self.d + 2 * self.k) * itemsize + 8
        return allowed


def node_case(
    tokens, num_experts, ranks_per_node, kind="usual", *, d=3, k=2, seed=1, dtype="float64"
):
    """A forward pass on nodes of so many ranks."""
    of = exchange_case(tokens, num_experts, kind, d=d, k=k, seed=seed, dtype=dtype)
    line = of.line.replace("callers.py:exchange_layer", "callers.py:node_layer", 1)
    return NodeCase(
        "callers:node_layer", of.world_size, of.n, dtype,
        about=f"{of.about}, {ranks_per_node} ranks a node",
        line=f"{line} --ranks-per-node {ranks_per_node}",
        tokens=of.tokens, num_experts=num_experts, d=d, k=k, kind=kind, seed=seed,
        ranks_per_node=ranks_per_node,
    )  # fmt: skip


def node_ran(ranks, case, **options):
    """Run it; values are right."""
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(case.target, world_size, case.arguments_of_ranks(), **options)
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        case.check(rank, value)
    return result


def assert_once_to_a_node(result, case, room=1.0):
    """Between nodes no row travelled twice: at most ``room`` times the bytes that are allowed."""
    bound = room * case.pair_bytes().sum()
    assert_between_nodes(result, case, f"{case.ranks_per_node}:{bound:.0f}")


def on_two_levels(ranks, case):
    """Few copies of a token cross to a node, whatever else is wrong."""
    given = case.arguments_of_ranks()
    result = ranks.call(case.target, case.world_size, given, machine=buffered())
    assert_ran(result, case)
    assert_once_to_a_node(result, case, 2.2)


def assert_between_nodes(result, case, bound):
    """``"4:800"``: with 4 ranks a node, at most 800 bytes in all crossed from node to node."""
    ranks_per_node, most = map(int, bound.split(":"))
    sent = sent_of_members(result, case)
    node = np.arange(len(sent)) // ranks_per_node
    crossed = sent[node[:, None] != node].sum()
    if crossed > most:
        raise (
            case.seen_in(result)
            .asking(f"between={bound}")
            .fail(
                f"{crossed:,.0f} bytes crossed from node to node; a row to each other node that "
                f"needs it, and one back, are {most:,} at most."
            )
        )


def assert_same_place(result, case, bound):
    """``"4"``: with 4 ranks a node, only ranks of the same place sent to another node."""
    sent = sent_of_members(result, case)
    rank = np.arange(len(sent))
    node, place = np.divmod(rank, int(bound))
    wrong = (node[:, None] != node) & (place[:, None] != place) & (sent > 0)
    if wrong.any():
        source, dest = (int(i) for i in np.argwhere(wrong)[0])
        raise (
            case.seen_in(result)
            .asking(f"places={bound}")
            .fail(
                f"rank {source} sent {sent[source, dest]:,.0f} bytes to rank {dest}, on another "
                "node and at another place."
            )
        )
