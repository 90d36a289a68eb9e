"""The calls of node_limited.py that the tests make, and what must come of them."""

import itertools
from dataclasses import dataclass

import numpy as np
from given.experts import serial_forward

from checks.cases import Tokens
from checks.cases_route import Scored
from ringside.checking import Verdict
from ringside.checking.cases import brief


@dataclass(frozen=True)
class Choose(Scored):
    """Experts on few nodes."""

    target = "node_limited:choose"
    nodes: int = 4
    most: int = 2

    @property
    def scores(self):
        """Shape (T, E), at least 0."""
        return np.abs(super().scores)

    def arguments(self):
        return self.scores, self.k, self.nodes, self.most

    def right(self):
        return self.chosen(lambda node: sum(sorted(node)[::-1][: self.k // self.most]))

    def wrong(self):
        return {
            "That is what comes out where a node is worth its best score.": self.chosen(max),
            "That is what comes out where a node is worth all its scores.": self.chosen(sum),
        }

    def chosen(self, worth_of):
        """Token by token, in loops.

        Args:
            worth_of: what a node is worth, by its scores.
        """
        each, found = self.scores.shape[1] // self.nodes, []
        for own in self.scores.tolist():
            on = [own[n * each : (n + 1) * each] for n in range(self.nodes)]
            worth = [worth_of(node) for node in on]
            best = sorted(range(self.nodes), key=lambda n, worth=worth: (-worth[n], n))
            there = [range(n * each, (n + 1) * each) for n in best[: self.most]]
            experts = itertools.chain(*there)
            found.append(sorted(experts, key=lambda e, own=own: (-own[e], e))[: self.k])
        return np.array(found, np.int64).reshape(len(self.scores), self.k)

    def check_value(self, value):
        right = self.right()
        if not isinstance(value, np.ndarray) or value.shape != right.shape:
            raise Verdict(f"{self} gives {brief(value)}; its shape must be {right.shape}.")
        for token in np.flatnonzero((value != right).any(axis=1))[:1]:
            named = (says for says, other in self.wrong().items() if np.array_equal(value, other))
            raise Verdict(
                " ".join(
                    [
                        f"{self}: token {token} gets experts {value[token].tolist()}; they must be "
                        f"{right[token].tolist()}.",
                        *list(named)[:1],
                    ]
                )
            )


@dataclass(frozen=True)
class OnNodes(Tokens):
    """A forward pass on two levels.

    Attributes:
        per_node: ranks on a node.
    """

    target = "node_limited:forward"
    through = "checks/inside.py:node_layer"
    what = "y"
    hidden: int = 4
    per_node: int = 2

    def inputs(self, rank):
        x, routing, _ = self.of_ranks[rank]
        given = self.experts, self.d, self.hidden, self.seed, self.dtype, x, *routing
        return *given, self.per_node

    def right(self):
        experts = self.drawn_experts()
        return [serial_forward(experts, x, routing) for x, routing, _ in self.of_ranks]

    def pair_bytes(self):
        """``[source, dest]``: bytes allowed between ranks of different nodes."""
        g, num_nodes = self.per_node, self.p // self.per_node
        each, rows = self.experts // num_nodes, []
        for _, routing, _ in self.of_ranks:
            there = np.where(routing.kept, routing.experts // each, -1)
            rows.append([(there == node).any(axis=1).sum() for node in range(num_nodes)])
        row_nbytes = (self.d + 2 * self.k) * np.dtype(self.dtype).itemsize
        allowed = np.zeros((self.p, self.p))
        for source, dest in np.ndindex(self.p, self.p):
            if source % g == dest % g and source != dest:
                both = rows[source][dest // g] + rows[dest][source // g]
                allowed[source, dest] = both * row_nbytes + 8
        return allowed
