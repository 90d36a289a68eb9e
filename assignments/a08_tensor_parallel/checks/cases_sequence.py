"""The calls of sequence_torch.py that the tests make, and what must come of them: without torch."""

import math
from dataclasses import dataclass

import numpy as np
from given.dropout import scaled_mask
from given.layers import layer_norm, layer_norm_backward

from checks.cases import assert_near
from checks.cases_torch import (
    FREE_NBYTES,
    OnTorch,
    Operator,
    all_reduce_nbytes,
    serial_pair,
    verify_registered,
)
from ringside.checking import assert_ran

WHOLE_NAMES = ("norm_weight", "norm_bias", "w1", "b1", "w2", "b2")
BLOCK_CUTS = {"w1": 0, "b1": 0, "w2": 1}


@dataclass(frozen=True)
class OfSequence(Operator):
    """An operator that moves positions; ``own_nbytes`` are those of a rank's."""

    @property
    def allowed_nbytes(self):
        """What a rank may send in both passes."""
        return (self.p - 1) * (2 * self.own_nbytes + FREE_NBYTES)


@dataclass(frozen=True)
class Gather(OfSequence):
    """``gather_sequence`` of as many positions of each rank as x has."""

    target = "sequence_torch:gather_sequence"
    shape: tuple = (3, 4)

    def forward(self, xs):
        return [np.concatenate(xs)] * self.p

    def backward(self, dys):
        return np.split(sum(dys), self.p)

    def wrong(self):
        own = self.with_gradients(
            lambda dys: [np.split(dy, self.p)[rank] for rank, dy in enumerate(dys)]
        )
        return {"This is the gradient on this rank alone; all ranks used its positions.": own}

    @property
    def own_nbytes(self):
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Scatter(OfSequence):
    """``reduce_scatter_sequence``; p must divide the positions of x."""

    target = "sequence_torch:reduce_scatter_sequence"

    def forward(self, xs):
        return np.split(sum(xs), self.p)

    def backward(self, dys):
        return [np.concatenate(dys)] * self.p

    @property
    def own_nbytes(self):
        return math.prod(self.shape) // self.p * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Block(OnTorch):
    """A ``SequenceBlock``; all steps add up their gradients.

    Attributes:
        n: positions of the whole sequence; p must divide them.
        widths: d and h.
        rate: of dropout.
        steps: with a ``finish`` after the last one.
        before: such steps with a ``finish`` of their own, after which gradients are 0 again.
        training: the mode; False: evaluation.
        forward: no backward pass.
        finished: gradients of replicated parameters are compared, too.
        measure: find out what the block keeps.
        how: "" or "together" (``checks/inside_torch.py:block``).
    """

    target = "sequence_torch:SequenceBlock"
    through = "checks/inside_torch.py:block"
    n: int = 6
    widths: tuple = (6, 24)
    rate: float = 0.0
    dtype: str = "float64"
    steps: int = 1
    before: int = 0
    training: bool = True
    forward: bool = False
    finished: bool = False
    measure: bool = False
    how: str = ""

    @property
    def params(self):
        """The whole parameters, by name."""
        d, h = self.widths
        rng, shapes = self.rng(), ((d,), (d,), (h, d), (h,), (d, h), (d,))
        drawn = [rng.standard_normal(shape) / math.sqrt(shape[-1]) for shape in shapes]
        drawn[0] += 1
        drawn = [each.astype(self.dtype) for each in drawn]
        return dict(zip(WHOLE_NAMES, drawn, strict=True))

    @property
    def given(self):
        """Per step ``(x, dz, seed)`` of the whole sequence."""
        rng = np.random.default_rng([self.seed, 1, 1])
        return [
            (
                *rng.standard_normal((2, self.n, self.widths[0])).astype(self.dtype),
                int(rng.integers(2**31)),
            )
            for _ in range(self.before + self.steps)
        ]

    def handed_params(self, rank):
        return {
            name: self.handed(each, rank, BLOCK_CUTS.get(name))
            for name, each in self.params.items()
        }

    def inputs(self, rank):
        own = [(self.part(x, rank), self.part(dz, rank), seed) for x, dz, seed in self.given]
        return (
            self.handed_params(rank), self.rate, own[self.before :], self.training,
            not self.forward, self.measure, own[: self.before], self.how,
        )  # fmt: skip

    def serial(self, x, dz, seed):
        """The whole sequence on one rank: ``(z, dx, gradients by name)``."""
        own = {name: each.astype("float64") for name, each in self.params.items()}
        x, dz = x.astype("float64"), dz.astype("float64")
        mask = scaled_mask(seed, 0, *x.shape, self.rate) if self.training else 1.0
        y, kept = layer_norm(x, own["norm_weight"], own["norm_bias"])
        linear = [own[name] for name in WHOLE_NAMES[2:]]
        inner, dy, of_linear = serial_pair(linear, y, dz * mask)
        dx, *of_norm = layer_norm_backward(kept, dy)
        gradients = dict(zip(WHOLE_NAMES, (*of_norm, *of_linear), strict=True))
        return x + inner * mask, dx + dz, gradients

    def right(self):
        """Per step what the whole sequence on one rank gives."""
        return [self.serial(*step) for step in self.given[self.before :]]

    def wrong(self):
        b2, found = self.params["b2"].astype("float64"), []
        for (z, *rest), (_, _, seed) in zip(self.right(), self.given[self.before :], strict=True):
            mask = scaled_mask(seed, 0, *z.shape, self.rate) if self.training else 1.0
            found.append((z + (self.p - 1) * b2 * mask, *rest))
        return {"b2 was added on every rank before the sum, so it counts p times.": found}

    def check(self, run):
        assert_ran(run, self)
        wanted = self.right()
        names = [
            name for name in WHOLE_NAMES if (self.exact if name in BLOCK_CUTS else self.finished)
        ]
        for rank, value in enumerate(run.values):
            verify_registered(value, rank, self)
            for number, (z, dx, _) in enumerate(wanted):
                found = value["z"][number], value["dx"][number]
                assert_near(found[0], self.part(z, rank), self, f"rank {rank}'s result")
                if not self.forward:
                    what = f"rank {rank}'s gradient of x"
                    assert_near(found[1], self.part(dx, rank), self, what)
            for name in () if self.forward else names:
                right = sum(gradients[name] for _, _, gradients in wanted)
                right = self.part(right, rank, BLOCK_CUTS.get(name))
                what = f"rank {rank}'s gradient of {name}"
                assert_near(value["gradients"][name], right, self, what)

    def replicated(self, value):
        """What all ranks have whole of their values: names and arrays."""
        return [
            (f"gradient of {name}", value["gradients"][name])
            for name in WHOLE_NAMES
            if name not in BLOCK_CUTS
        ]

    @property
    def flops(self):
        """Matrix products of forward and backward pass: three of each weight."""
        return 12 * self.n * self.widths[0] * self.widths[1]

    @property
    def weight_nbytes(self):
        return sum(self.params[name].nbytes for name in ("w1", "w2"))

    @property
    def allowed_nbytes(self):
        """What a rank may send."""
        size, d = np.dtype(self.dtype).itemsize, self.widths[0]
        once = (self.p - 1) * (self.n // self.p) * d * size
        vectors = 3 * all_reduce_nbytes(self.p, d, 1, size)
        return (2 * once if self.forward else 5 * once + vectors) + FREE_NBYTES * (self.p - 1)

    @property
    def kept_nbytes(self):
        """What the block may keep, but for what is free."""
        d, h = self.widths
        return (8 * ((h // self.p) * (2 * d + 1) + 3 * d),)


@dataclass(frozen=True)
class KeptForBackward(Block):
    """A forward pass whose graph is still there at the end."""

    through = "checks/inside_torch.py:kept_for_backward"

    def inputs(self, rank):
        ((x, _, seed),) = self.given
        return self.handed_params(rank), self.rate, self.part(x, rank), seed

    def check(self, run):
        assert_ran(run, self)
        z, *_ = self.serial(*self.given[0])
        for rank, value in enumerate(run.values):
            assert_near(value, self.part(z, rank), self, f"rank {rank}'s result")
