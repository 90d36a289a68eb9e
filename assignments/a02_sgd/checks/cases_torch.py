"""The calls of sgd_torch.py that the tests make, and what must come of them: without torch."""

from dataclasses import dataclass, field

import numpy as np
from given import digits

from checks.cases import TOLERANCE, MeasuredStep, losses, network, onward, trained
from ringside.checking import assert_ran
from ringside.checking.cases import Case, assert_like, cast

SMALL, DEEP, FLAT, SQUARE = (12, 9, 5), (7, 11, 6, 8, 4), (10, 3), (6, 6, 6)


@dataclass(frozen=True)
class Torch(Case):
    """A call in one process, of a network of layers of these widths."""

    unsaid = ("p", "members", "world", "machine", "latencies", "announced")
    p: int = field(default=1, kw_only=True)
    widths: tuple = SMALL

    @property
    def params(self):
        return network(self.rng(), self.widths, self.dtype)

    def value(self, run):
        """What came back, if nothing was raised."""
        assert_ran(run, self)
        return run.values[0]

    def same(self, value, right, what, dtype=""):
        """Arrays, numbers, or lists of them, within the docstring's tolerance."""
        dtype = dtype or self.dtype
        assert_like(value, cast(right, dtype), self, what, TOLERANCE[dtype])

    def samples(self, rng, count):
        """Samples of ``x_dtype``, whole numbers of 0 to 16 if they are integers."""
        dtype = np.dtype(self.x_dtype or self.dtype)
        if dtype.kind in "iu":
            x = rng.integers(17, size=(count, self.widths[0]))
        else:
            x = rng.standard_normal((count, self.widths[0]))
        return x.astype(dtype), rng.integers(self.widths[-1], size=count)

    def forward_flops(self, count):
        return 2 * count * sum(W.size for W in self.params[::2])

    def __str__(self):
        return f"{self.function} of layers {self.widths}, {self.with_(widths=SMALL).told}"


@dataclass(frozen=True)
class RoundTrip(Torch):
    """``from_numpy``, then ``to_numpy``, before and after the model has changed."""

    target = "sgd_torch:from_numpy"
    through = "checks/inside_torch.py:there_and_back"
    dtype: str = "float64"

    def inputs(self, rank):
        return (self.params,)

    def check(self, run):
        _, scores, back, *_ = self.value(run)
        W, b, *rest = cast(self.params, "float64")
        right = onward(np.ones((3, self.widths[0])) @ W + b, rest)
        self.same(scores, right, "the scores of the model")
        self.same(back, self.params, "in to_numpy(from_numpy(params)), array")

    @property
    def layers(self):
        """What the model's layers are called."""
        return ["Linear", *["ReLU", "Linear"] * (len(self.widths) - 2)]


@dataclass(frozen=True)
class Steps(Torch):
    """One ``train_step`` for each mini-batch.

    Attributes:
        sizes: of the mini-batches.
        moving: the velocity isn't 0 before.
        frozen: parameters that don't learn. The optimizer has them too.
        stale: every parameter's ``grad`` holds something before the first step.
        training: whether the model is in training mode.
        pixels: samples are digits.
    """

    target = "sgd_torch:train_step"
    through = "checks/inside_torch.py:steps"
    sizes: tuple = (7, 3)
    dtype: str = "float64"
    x_dtype: str = ""
    lr: float = 0.2
    momentum: float = 0.8
    moving: bool = False
    frozen: tuple = ()
    stale: bool = False
    training: bool = True
    pixels: bool = False

    @property
    def velocity(self):
        scale = 0.1 * self.moving
        drawn = network(self.rng(1), self.widths)
        return [(scale * v).astype(self.dtype) for v in drawn]

    @property
    def batches(self):
        rng = self.rng(0)
        if not self.pixels:
            return [self.samples(rng, count) for count in self.sizes]
        (x, y), _ = digits.load(self.dtype)
        chosen = rng.permutation(len(x))[: sum(self.sizes)]
        return [(x[batch], y[batch]) for batch in np.split(chosen, np.cumsum(self.sizes)[:-1])]

    def inputs(self, rank):
        given = self.params, self.velocity, self.batches, self.lr, self.momentum
        return *given, self.frozen, self.stale, self.training

    def right(self):
        return trained(*self.inputs(0)[:6])

    def wrong(self):
        params, velocity, batches, lr, _, frozen, *_ = self.inputs(0)
        plain, _, means = trained(params, velocity, batches, lr, 0.0, frozen)
        says = "Here each step forgets the velocity of the one before; the optimizer keeps it."
        return {says: (plain, velocity, means)}

    def check(self, run):
        params, velocity, means, _ = self.value(run)
        right = self.right()
        self.same(params, right[0], f"after {len(self.sizes)} steps, parameter")
        self.same(velocity, right[1], "the optimizer's velocity")
        self.same(means, right[2], "the loss of step")

    @property
    def flops(self):
        """Of one forward and one backward pass of each step; x gets no gradient."""
        first = self.widths[0] * self.widths[1]
        return 3 * self.forward_flops(sum(self.sizes)) - 2 * sum(self.sizes) * first


@dataclass(frozen=True)
class Evaluate(Torch):
    """``evaluate`` on n samples.

    Attributes:
        training: whether the model is in training mode before.
        dropout: share of the scores that is dropped in that mode.
    """

    target = "sgd_torch:evaluate"
    through = "checks/inside_torch.py:evaluation"
    n: int = 30
    dtype: str = "float64"
    x_dtype: str = ""
    training: bool = True
    dropout: float = 0.0

    def inputs(self, rank):
        return self.params, *self.samples(self.rng(0), self.n), self.training, self.dropout

    def check(self, run):
        loss, accuracy, seen = self.value(run)
        if any(mode for _, mode, _ in seen["passes"]):
            raise self.fail("evaluate went forward in training mode; call model.eval() before.")
        (W, b, *rest), x, y, *_ = self.inputs(0)
        scores = onward(x.astype("float64") @ W.astype("float64") + b, rest)
        self.same(loss, losses(scores, y).mean(), "the loss")
        right = (scores.argmax(axis=1) == y).mean()
        self.same(accuracy, right, "the accuracy", "float32")  # a mean in float32 is right


@dataclass(frozen=True)
class MeasuredTorch(MeasuredStep):
    """The same step in torch, for runs and jobs."""

    target = "checks/inside_torch.py:measured_step"
