"""The calls of moe_torch.py that the tests make, and what must come of them: without torch."""

from dataclasses import dataclass

import numpy as np
from given.experts import Routing, drawn_experts, serial_backward, serial_forward

from checks.cases import Tokens, check_experts
from ringside.checking import assert_ran
from ringside.checking.cases import assert_like


@dataclass(frozen=True)
class Passes(Tokens):
    """Both passes of ``Experts``, of which y alone is compared.

    Attributes:
        how: "plain", "forward" (no backward pass), or "twice" (before the backward pass comes
            another forward pass).
    """

    target = "moe_torch:Experts"
    through = "checks/inside_torch.py:layer"
    parts = (
        "y",
        "dx",
        "gradient of the gate",
        "dw1 of the shared expert",
        "dw2 of the shared expert",
    )
    how: str = "plain"

    @property
    def gate_weight(self):
        """Shape (d, E)."""
        return self.rng().standard_normal((self.d, self.experts)).astype(self.dtype)

    def inputs(self, rank):
        x, routing, dy = self.of_ranks[rank]
        given = self.experts, self.hidden, self.seed, self.gate_weight
        return *given, routing.experts, routing.kept, x, dy, self.how

    def right(self):
        """By one rank with all experts and all tokens."""
        *experts, shared = drawn_experts(
            self.experts + 1, self.d, self.hidden, self.seed, self.dtype
        )
        x, dy = (np.concatenate([own[i] for own in self.of_ranks]) for i in (0, 2))
        routings = [routing for _, routing, _ in self.of_ranks]
        chosen, _, kept = (np.concatenate(part) for part in zip(*routings, strict=True))
        scores = 1 / (1 + np.exp(-(x @ self.gate_weight)))
        weights = np.take_along_axis(scores, chosen, axis=1) * kept
        routing = Routing(chosen, weights, kept)
        y = serial_forward(experts, x, routing) + shared.forward(x)[0]
        dx, dweights, gradients = serial_backward(experts, x, routing, dy)
        into = np.zeros_like(scores)
        np.add.at(into, (np.arange(len(x))[:, None], chosen), dweights * kept)
        into *= scores * (1 - scores)
        dx += into @ self.gate_weight.T
        found, cuts = [], np.cumsum(self.counts)[:-1]
        parts = [np.split(each, cuts) for each in (x, dy, y, dx, into)]
        for rank, (x, dy, y, dx, into) in enumerate(zip(*parts, strict=True)):
            more, own = shared.backward(shared.forward(x)[1], dy)
            of_experts = gradients[slice(*self.bounds(rank))]
            found.append([y, dx + more, x.T @ into, *own, of_experts])
        return found

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_like(value[0], right[0], self, f"rank {rank}'s y")


@dataclass(frozen=True)
class Gradients(Passes):
    """The same, of which a test says what it compares."""

    def check_parts(self, run, *names):
        """Raise a verdict unless these are right on every rank; "experts" are the gradients of its
        routed ones."""
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            for name, own, wanted in zip(self.parts, value, right, strict=False):
                if name in names:
                    assert_like(own, wanted, self, f"rank {rank}'s {name}")
            if "experts" in names:
                check_experts(self, rank, value, right)


@dataclass(frozen=True)
class MeasuredPasses(Passes):
    """Both passes, for runs and jobs."""

    target = "checks/inside_torch.py:layer"
    through = ""
