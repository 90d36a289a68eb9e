"""Calls of ``moe_torch.py`` as the tests make them, and their checks: supplied."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from exchange_cases import (
    ExchangeCase,
    assert_exchanges,
    assert_sent,
    assert_sent_at_most,
    exchange_case,
)
from experts import Routing, drawn_experts, serial_backward, serial_forward, shard_bounds

from ringside.checking import assert_ran, buffered

TOLERANCE = {"float64": 1e-11, "float32": 1e-4}


@dataclass(frozen=True)
class MoeCase(ExchangeCase):
    """A call of a ``moe_torch.Experts``; its inputs come from ``seed``."""

    hidden: int = 6
    how: str = "plain"

    @cached_property
    def gate_weight(self):
        """Shape (d, E)."""
        rng = np.random.default_rng([self.seed, 1])
        return rng.standard_normal((self.d, self.num_experts)).astype(self.dtype)

    def arguments_of_ranks(self):
        """What ``moe_called`` of ``callers_torch.py`` gets on each rank after ``group``."""
        return [
            (self.num_experts, self.hidden, self.seed, self.gate_weight, routing.experts,
             routing.kept, x, dy, self.dtype, self.how)
            for x, routing, dy in self.given
        ]  # fmt: skip

    @cached_property
    def rights(self):
        """Per rank the dictionary that ``moe_called`` gives, without ``changed``."""
        *experts, shared = drawn_experts(
            self.num_experts + 1, self.d, self.hidden, self.seed, self.dtype
        )
        x, dy = (np.concatenate([own[i] for own in self.given]) for i in (0, 2))
        chosen, _, kept = (np.concatenate(part) for part in zip(*self.routings, strict=True))
        scores = 1 / (1 + np.exp(-(x @ self.gate_weight)))
        weights = np.take_along_axis(scores, chosen, axis=1) * kept
        routing = Routing(chosen, weights, kept)
        y = serial_forward(experts, x, routing) + shared.forward(x)[0]
        dx, dweights, gradients = serial_backward(experts, x, routing, dy)
        into = np.zeros_like(scores)
        np.add.at(into, (np.arange(len(x))[:, None], chosen), dweights * kept)
        into *= scores * (1 - scores)
        dx += into @ self.gate_weight.T
        found, cuts = [], np.cumsum(self.tokens)[:-1]
        parts = [np.split(each, cuts) for each in (x, dy, y, dx, into)]
        for rank, (x, dy, y, dx, into) in enumerate(zip(*parts, strict=True)):
            lo, hi = shard_bounds(self.num_experts, self.world_size, rank)
            more, dshared = shared.backward(shared.forward(x)[1], dy)
            found.append({
                "y": y, "dx": (dx + more), "dgate": (x.T @ into),
                "dshared": list(dshared),
                "dexperts": [list(own) for own in gradients[lo:hi]],
            })  # fmt: skip
        return found

    def check(self, rank, value, *, forward=False):
        """What ``moe_called`` gave back on a rank is right; ``forward``: look at y alone."""
        right = self.rights[rank]
        self._near(value["y"], right["y"], f"rank {rank}'s y")
        if self.how != "forward" and not forward:
            for name in ("dx", "dgate"):
                self._near(value[name], right[name], f"rank {rank}'s {name}")
            for name, own, wanted in zip(
                ("dw1", "dw2"), value["dshared"], right["dshared"], strict=True
            ):
                self._near(own, wanted, f"rank {rank}'s {name} of the shared expert")
            pairs = zip(value["dexperts"], right["dexperts"], strict=True)
            for number, (ours, rights) in enumerate(pairs):
                for name, own, wanted in zip(("dw1", "dw2"), ours, rights, strict=True):
                    self._near(own, wanted, f"rank {rank}'s {name} of its expert {number}")
        if value["changed"]:
            raise self.fail(f"rank {rank} changed x or dy; they must stay as they were.")

    def _near(self, value, wanted, what):
        if value is None and not np.any(wanted):
            return  # an expert without tokens may have no gradient
        if not isinstance(value, np.ndarray):
            raise self.fail(f"{what} is {'None' if value is None else type(value).__name__}.")
        if value.shape != wanted.shape or value.dtype != wanted.dtype:
            raise self.fail(
                f"{what} has shape {value.shape} and dtype {value.dtype}; it must have "
                f"{wanted.shape} and {wanted.dtype}."
            )
        off = np.linalg.norm((value - wanted).ravel())
        size = max(1.0, float(np.linalg.norm(wanted.ravel())))
        if not off <= TOLERANCE[self.dtype] * size:
            raise self.fail(
                f"{what} is wrong by {off / size:.1e} of its size; at most "
                f"{TOLERANCE[self.dtype]:g} is allowed."
            )


def moe_case(
    tokens, num_experts, kind="usual", *, d=3, k=2, hidden=6, how="plain", seed=1, dtype="float64"
):
    """Both passes of a layer with a shared expert."""
    of = exchange_case(tokens, num_experts, kind, d=d, k=k, seed=seed, dtype=dtype)
    line = of.line.replace("callers.py:exchange_layer", "callers_torch.py:moe_called", 1)
    line += f" --hidden {hidden}" + (f" --how {how}" if how != "plain" else "")
    shown = {"forward": ", forward only", "twice": ", two forward passes"}.get(how, "")
    return MoeCase(
        "moe_torch:Experts", of.world_size, of.n, dtype, about=of.about + shown, line=line,
        tokens=of.tokens, num_experts=num_experts, d=d, k=k, kind=kind, seed=seed, hidden=hidden,
        how=how,
    )  # fmt: skip


def moe_ran(ranks, case, *, forward=True, **options):
    """Both passes; values are right, those of the backward pass only if they are looked at."""
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(
        "callers_torch:moe_called", world_size, case.arguments_of_ranks(), **options
    )
    assert_moe_values(result.values, result, case, forward=forward)
    return result


def sent_to_experts(ranks, case):
    """In a forward pass rows go to their experts and not to everybody, whatever else is wrong."""
    result = ranks.call("callers_torch:moe_called", case.world_size, case.arguments_of_ranks())
    assert_ran(result, case)
    rows = case.row_bytes()  # two exchanges
    assert_sent_at_most(result, case, f"all:{6 * rows.sum() + 3 * case.count_bytes().sum():.0f}")


def assert_all_to_all(result, case):
    """No other collective was called."""
    for record in result.collectives:
        if record.name != "alltoall":
            raise (
                case.seen_in(result)
                .asking("all_to_all")
                .fail(f"the library's {record.name} was called; only the all-to-all may be.")
            )


def assert_moe_values(values, result, case, *, forward=False):
    """All ranks' values."""
    assert_ran(result, case)
    for rank, value in enumerate(values):
        case.check(rank, value, forward=forward)


__all__ = ["MoeCase", "assert_exchanges", "assert_moe_values", "assert_sent", "moe_case", "moe_ran"]
