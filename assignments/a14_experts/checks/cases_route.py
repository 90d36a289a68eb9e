"""The calls of route.py that the tests make, and what must come of them."""

import math
from dataclasses import dataclass, field

import numpy as np

from ringside.checking import Verdict
from ringside.checking.cases import Formula, assert_like, brief

NAMES = ("experts", "weights", "kept")  # of a Routing


@dataclass(frozen=True)
class Capacity(Formula):
    """Room of an expert."""

    target = "route:capacity"
    num_tokens: int = 100
    num_experts: int = 8
    k: int = 2
    factor: float = 1.0

    def check_value(self, value):
        super().check_value(value)
        if not isinstance(value, int):
            raise Verdict(f"{self} is {value!r}; it must be an int.")


@dataclass(frozen=True)
class Scored(Formula):
    """Scores of tokens for experts.

    Attributes:
        tokens, experts: how many scores are drawn.
        rows: the scores, token by token; (): drawn ones.
        scale: of drawn ones.
        whole: drawn ones are whole numbers, many of them equal.
    """

    unsaid = tuple(name for name in Formula.unsaid if name != "seed")
    tokens: int = 6
    experts: int = 4
    k: int = 2
    rows: tuple = field(default=(), kw_only=True)
    scale: float = field(default=1.0, kw_only=True)
    whole: bool = field(default=False, kw_only=True)
    dtype: str = field(default="float64", kw_only=True)

    @property
    def scores(self):
        """Shape (T, E)."""
        drawn = self.scale * self.rng().standard_normal((self.tokens, self.experts))
        return np.array(self.rows or (np.rint(drawn) if self.whole else drawn), self.dtype)


@dataclass(frozen=True)
class Route(Scored):
    """The experts of each token; a test says which of the three arrays it compares.

    Attributes:
        room: of an expert, in tokens.
    """

    target = "route:route"
    may_change: bool = field(default=True, kw_only=True)
    room: int = 9

    def arguments(self):
        return self.scores, self.k, self.room

    def right(self):
        return routed(self.scores, self.k, self.room)

    def check_value(self, value):
        if not isinstance(value, list | tuple) or len(value) != 3:
            raise Verdict(f"{self} gives {brief(value)}; it must be a Routing.")
        for name, array, right in zip(NAMES, value, self.right(), strict=True):
            if not isinstance(array, np.ndarray) or array.shape != right.shape:
                raise Verdict(
                    f"{self}: {name} is {brief(array)}; it must have shape {right.shape}."
                )

    def check_experts(self, value):
        """The experts, best first."""
        assert_like(value[0], self.right()[0], self, "experts")

    def check_by_expert(self, name, value):
        """Weights or what is kept, in whatever order a token's experts stand."""
        right, place = self.right(), NAMES.index(name)
        chosen = value[0].astype(int)
        if not ((chosen >= 0) & (chosen < self.scores.shape[1])).all():
            raise self.fail(f"experts are {brief(chosen)}; there are {self.scores.shape[1]}.")
        tables = []
        for routing in (value, right):
            tables.append(np.zeros(self.scores.shape, routing[place].dtype))
            np.put_along_axis(tables[-1], routing[0].astype(int), routing[place], axis=1)
        assert_like(*tables, self, f"{name}, by token and expert,")


@dataclass(frozen=True)
class BalanceLoss(Scored):
    """The loss of given choices.

    Attributes:
        chosen: experts of each token; (): the k best.
    """

    target = "route:balance_loss"
    chosen: tuple = ()

    def arguments(self):
        best = routed(self.scores, self.k, len(self.scores))[0]
        return self.scores, np.array(self.chosen or best, np.int64)

    def right(self):
        return self.of(self.arguments()[1])

    def wrong(self):
        first = self.of(self.arguments()[1][:, :1])
        return {"This counts first choices alone; f counts all k of a token.": first}

    def of(self, experts):
        """The loss of these choices, as the docstring has it, in loops."""
        scores = self.scores
        num_tokens, num_experts = scores.shape
        shares = [[math.exp(s - max(own)) for s in own] for own in scores.tolist()]
        means = [sum(own[e] / sum(own) for own in shares) / num_tokens for e in range(num_experts)]
        chosen = [(experts == e).sum() / experts.size for e in range(num_experts)]
        return float(num_experts * sum(f * p for f, p in zip(chosen, means, strict=True)))


def routed(scores, k, room):
    """``(experts, weights, kept)``, token by token."""
    num_tokens, num_experts = scores.shape
    left, found = [room] * num_experts, ([], [], [])
    for own in scores:
        best = sorted(range(num_experts), key=lambda e, own=own: (-own[e], e))[:k]
        shares = [math.exp(float(own[e]) - float(own[best[0]])) for e in best]
        kept = [left[e] > 0 for e in best]
        for e, here in zip(best, kept, strict=True):
            left[e] -= here
        found[0].append(best)
        found[1].append([s / sum(shares) * here for s, here in zip(shares, kept, strict=True)])
        found[2].append(kept)
    dtypes = np.int64, scores.dtype, bool
    return tuple(
        np.array(part, dtype).reshape(num_tokens, k)
        for part, dtype in zip(found, dtypes, strict=True)
    )
