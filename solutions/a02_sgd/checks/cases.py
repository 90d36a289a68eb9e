"""The calls of sgd.py that the tests make, and what must come of them.

The oracle goes forward only. How the loss changes if a number does, it finds by *complex steps*:
f(z + ih) = f(z) + ih f'(z) for a tiny h, so the imaginary part is the derivative, to all digits.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from given import digits

from ringside.checking import Verdict, assert_ran
from ringside.checking.cases import Case, Formula, assert_like, brief, cast
from ringside.units import format_bytes

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
SLACK_BYTES = 64 << 10  # of memory, beside what a rule allows
STEP = 1e-100
LR, MOMENTUM = 0.1, 0.9
ALONE = ("libraries", "autograd")  # what is looked at without the result
COSTS = ("lines", "memory")
HOW = {"inputs": ", with read-only arguments", "layout": ", with slices of larger arrays"}


@dataclass(frozen=True)
class Drawn(Formula):
    """A call of a function without ranks, with arrays that are drawn from ``seed``.

    Attributes:
        dtype: of weights, and of what is computed from them.
        x_dtype: of samples or images; "": the same.
        watch: what is looked at beside the result: "inputs" (they can't be written to, and stay as
            they are), "layout" (the same with slices of larger arrays), "second" (a second call),
            "lines", "memory", "libraries", or "autograd".
    """

    caller = "checks/inside.py:watched"
    unsaid = ("p", "members", "world", "machine", "latencies", "announced", "gives", "raises",
              "may_change")  # fmt: skip
    parts = ()  # what a result's parts are called, where it has some
    rule = ""  # why there may be so many lines

    dtype: str = field(default="float64", kw_only=True)
    x_dtype: str = field(default="", kw_only=True)
    watch: str = field(default="", kw_only=True)

    def given(self):
        """What the function gets."""
        raise NotImplementedError

    def arguments(self):
        second = [self.second.given()] if self.watch == "second" else []
        return self.watch, self.given(), *second

    @property
    def second(self):
        return self.with_(seed=self.seed + 1)

    def numbers(self, rng, *shape, dtype="", most=16):
        """Normal ones, or whole ones of 0 to ``most``, as pixels are."""
        dtype = np.dtype(dtype or self.dtype)
        if dtype.kind in "iu":
            return rng.integers(most + 1, size=shape).astype(dtype)
        return rng.standard_normal(shape).astype(dtype)

    def check_value(self, value):
        result, seen = value
        if self.watch != "second":
            if self.watch in COSTS:
                self.compare_forward(result)
            elif self.watch not in ALONE:
                self.compare(result)
            self.look(seen)
            return
        first, now, late = result
        self.compare(first)
        self.compare(now, "of the first call, looked at after a second one, ")
        self.second.compare(late, "of a second call, ")

    def compare_forward(self, value):
        """What is compared where the costs of a call are looked at."""
        self.compare(value)

    def compare(self, value, when=""):
        """Raise a verdict unless this is right, within the docstring's tolerance."""
        try:
            self._compare(value, self.right(), when)
        except Verdict as verdict:
            named = (says for says, other in self.wrong().items() if self._passes(value, other))
            verdict.sentence += next((f" {says}" for says in named), "")
            raise

    def _passes(self, value, right):
        """Whether a value would be right if this were."""
        try:
            self._compare(value, right, "")
        except Verdict:
            return False
        return True

    def _compare(self, value, right, when):
        right, tolerance = cast(right, self.dtype), TOLERANCE.get(self.dtype, 0.0)
        if not self.parts:
            assert_like(value, right, self, f"{when}the result", tolerance)
            return
        if not isinstance(value, list | tuple) or len(value) != len(right):
            names = ", ".join(self.parts)
            raise self.fail(f"{when}the result is {brief(value)}; it must have the parts {names}.")
        for name, one, other in zip(self.parts, value, right, strict=True):
            assert_like(one, other, self, f"{when}{name}", tolerance)

    def look(self, seen):
        """Raise a verdict unless what was looked at is as it must be."""
        if self.watch in HOW and seen:
            raise self.fail(f"{seen}.")
        if self.watch == "lines" and seen > self.most_lines:
            raise self.fail(
                f"{seen} lines of your file ran; at most {self.most_lines} may: {self.rule}."
            )
        if self.watch == "memory":
            peak, kept = seen
            times, nbytes = self.most_bytes
            allowed = times * nbytes + SLACK_BYTES
            if peak > allowed:
                raise self.fail(
                    f"{format_bytes(peak)} of memory were in use at once; at most "
                    f"{format_bytes(allowed)} may be, {times} times {nbytes} bytes and 64 KiB."
                )
            if kept > SLACK_BYTES:
                raise self.fail(
                    f"{format_bytes(kept)} beside the result are still in use afterwards; a call "
                    "keeps nothing."
                )
        if self.watch == "autograd":
            seen = [name for name in seen if name != "scipy"]
        if self.watch in ALONE and seen:
            raise self.fail(f"{seen[0]} does work here; it is yours to do, with NumPy.")

    def __str__(self):
        call = f"{self.function}({', '.join(map(shown, self.given()))})"
        return call + HOW.get(self.watch, "")


def shown(argument):
    """An argument for a sentence: arrays by dtype and shape."""
    if isinstance(argument, np.ndarray):
        return f"{argument.dtype} {argument.shape}"
    if isinstance(argument, list):
        return f"[{', '.join(map(shown, argument[:8]))}]"
    return brief(argument)


# -- the oracle ------------------------------------------------------------------------------------


def slopes(function, z):
    """The derivatives by ``z[n, k]`` of numbers ``function(z)[n]``, which depend on row n alone.

    >>> slopes(lambda z: z[:, 0] * z[:, 1], np.array([[2.0, 3.0]]))
    array([[3., 2.]])
    """
    found = np.empty(z.shape)
    for k in range(z.shape[1]):
        moved = z.astype(complex)
        moved[:, k] += 1j * STEP
        found[:, k] = function(moved).imag / STEP
    return found


def relu(z):
    return np.where(z.real > 0, z, 0)


def losses(scores, y):
    """Each sample's loss."""
    highest = scores.real.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(scores - highest).sum(axis=1)) + highest[:, 0]
    return log_sum - scores[np.arange(len(y)), y]


def onward(z, params):
    """Scores, from the output of a layer and the parameters of those behind it."""
    for W, b in zip(params[::2], params[1::2], strict=True):
        z = relu(z) @ W + b
    return z


def loss_and_gradients(params, x, y):
    """The mean loss, and its gradient, in float64."""
    params, a, gradients = [np.asarray(p, "float64") for p in params], x.astype("float64"), []
    for k in range(0, len(params), 2):
        z = a @ params[k] + params[k + 1]
        dz = slopes(lambda z, k=k: losses(onward(z, params[k + 2 :]), y), z) / len(y)
        gradients += [np.einsum("ni,no->io", a, dz), np.einsum("no->o", dz)]
        a = relu(z)
    return losses(z, y).mean(), gradients


def trained(params, velocity, batches, lr, momentum, frozen=()):
    """Parameters, velocity and losses of one step for each ``(x, y)``, in float64."""
    params, velocity = [[np.array(a, "float64") for a in each] for each in (params, velocity)]
    means = []
    for x, y in batches:
        loss, gradients = loss_and_gradients(params, x, y)
        for k, gradient in enumerate(gradients):
            if k not in frozen:
                velocity[k] = momentum * velocity[k] + gradient
                params[k] = params[k] - lr * velocity[k]
        means.append(loss)
    return params, velocity, means


def network(rng, widths, dtype="float64"):
    """Random parameters; biases are as large as weights, so a forgotten one shows."""
    layers = [
        (rng.standard_normal((d_in, d_out)) / np.sqrt(d_in), rng.standard_normal(d_out))
        for d_in, d_out in pairwise(widths)
    ]
    return [array.astype(dtype) for layer in layers for array in layer]


# -- the calls -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Linear(Drawn):
    """One layer, of n samples."""

    target = "sgd:linear"
    n: int = 4
    d_in: int = 3
    d_out: int = 5

    def given(self):
        rng = self.rng()
        x = self.numbers(rng, self.n, self.d_in, dtype=self.x_dtype, most=255)
        return x, self.numbers(rng, self.d_in, self.d_out), self.numbers(rng, self.d_out)

    def right(self):
        x, W, b = (array.astype("float64") for array in self.given())
        return np.einsum("ni,io->no", x, W) + b


@dataclass(frozen=True)
class LinearBackward(Linear):
    """Its gradients."""

    target = "sgd:linear_backward"
    parts = ("dx", "dW", "db")

    def given(self):
        x, W, _ = super().given()
        return self.numbers(self.rng(0), self.n, self.d_out), x, W

    def right(self):
        """As the module's docstring says it."""
        dy, x, W = (array.astype("float64") for array in self.given())
        sums = np.einsum("ni,no->io", x, dy), np.einsum("no->o", dy)
        return [np.einsum("no,io->ni", dy, W), *sums]

    def wrong(self):
        dx, dW, db = self.right()
        return {
            "db is the mean of the rows of dy; their sum is asked for.": [dx, dW, db / self.n],
            "dW and db are means over the samples; sums are asked for.": [
                dx, dW / self.n, db / self.n,
            ],
            "dW is a mean over the samples; the sum is asked for.": [dx, dW / self.n, db],
        }  # fmt: skip


@dataclass(frozen=True)
class Relu(Drawn):
    """Numbers of which many are 0, or tiny."""

    target = "sgd:relu"
    shape: tuple = (4, 5)

    def given(self):
        values = [-2.0, -1e-300, -0.0, 0.0, 1e-300, 0.5, 3.0]
        return (self.rng().choice(values, size=self.shape).astype(self.dtype),)

    def right(self):
        return relu(self.given()[0])


@dataclass(frozen=True)
class ReluBackward(Relu):
    """Its gradient."""

    target = "sgd:relu_backward"

    def given(self):
        return self.numbers(self.rng(0), *self.shape), *super().given()

    def right(self):
        da, z = self.given()
        return relu(z + 1j * STEP * da.astype("float64")).imag / STEP

    def wrong(self):
        da, z = self.given()
        return {
            "This asks where da is above 0; it is z that must be.": relu(da),
            "Where z is 0, da comes through here; the gradient is 0 there.": np.where(z < 0, 0, da),
        }


@dataclass(frozen=True)
class CrossEntropy(Drawn):
    """Scores between -scale and scale.

    Attributes:
        used: no class from this one on is right; 0: all may be.
        shift: is added to all scores.
    """

    target = "sgd:cross_entropy"
    parts = ("the loss", "dscores")
    n: int = 6
    classes: int = 4
    scale: float = 3.0
    used: int = 0
    shift: float = 0.0

    def given(self):
        rng = self.rng()
        scores = self.shift + self.scale * rng.uniform(-1, 1, size=(self.n, self.classes))
        y = rng.integers(self.used or self.classes, size=self.n)
        return np.clip(scores, -1e4, 1e4).astype(self.dtype), y

    def right(self):
        scores, y = self.given()
        scores = scores.astype("float64")
        return [losses(scores, y).mean(), slopes(lambda z: losses(z, y), scores) / self.n]

    def wrong(self):
        loss, dscores = self.right()
        return {
            "These are the sum over the samples and its gradient; the mean is asked for.": [
                self.n * loss, self.n * dscores,
            ],
            "dscores is the gradient of the sum over the samples; the loss is their mean.": [
                loss, self.n * dscores,
            ],
        }  # fmt: skip

    def __str__(self):
        large = max(self.scale, abs(self.shift)) > 100
        return super().__str__() + (", with scores as large as 10000" if large else "")


@dataclass(frozen=True)
class LossAndGradients(Drawn):
    """A network and n samples.

    Attributes:
        zeros: W1 and b1 are 0, so that the first ReLU gets nothing but 0.
    """

    target = "sgd:loss_and_gradients"
    parts = ("the loss", "gradient")
    widths: tuple = (6, 5, 4)
    n: int = 7
    zeros: bool = False

    def given(self):
        rng = self.rng()
        params = network(rng, self.widths, self.dtype)
        if self.zeros:
            params[:2] = [0 * params[0], 0 * params[1]]
        x = self.numbers(rng, self.n, self.widths[0], dtype=self.x_dtype)
        return params, x, rng.integers(self.widths[-1], size=self.n)

    def right(self):
        return list(loss_and_gradients(*self.given()))

    def wrong(self):
        loss, gradients = self.right()
        sums = [self.n * gradient for gradient in gradients]
        return {
            "These are of the sum over the samples; the mean is asked for.": [self.n * loss, sums],
            "The gradients are those of the sum over the samples; the loss is their mean.": [
                loss, sums,
            ],
        }  # fmt: skip

    def compare_forward(self, value):
        """The loss, and shapes of the gradient: other tests ask for its numbers."""
        _, gradients = self.right()
        if isinstance(value, list | tuple) and len(value) == 2:
            loss, found = value
            shapes = list(map(np.shape, gradients))
            if isinstance(found, list | tuple) and list(map(np.shape, found)) == shapes:
                value = loss, cast(gradients, self.dtype)
        self.compare(value)

    @property
    def most_lines(self):
        return 100 * (len(self.widths) - 1)

    @property
    def rule(self):
        return f"100 for each of {len(self.widths) - 1} layers, whatever the number of samples"

    @property
    def most_bytes(self):
        """How many times how many bytes a call may have in use, beside the slack."""
        numbers = self.n * sum(self.widths) + sum(param.size for param in self.given()[0])
        return 6, numbers * np.dtype(self.dtype).itemsize

    def __str__(self):
        return super().__str__() + (", where W1 and b1 are 0" if self.zeros else "")


@dataclass(frozen=True)
class Minibatches(Drawn):
    """Some epochs from one generator, from another one, and from one like the first."""

    target = "sgd:minibatches"
    caller = "checks/inside.py:shuffled"
    n: int = 50
    batch_size: int = 8
    epochs: int = 1

    def arguments(self):
        return self.n, self.batch_size, self.seed, self.epochs

    def check_value(self, value):
        generators, _ = value
        for batches in (batches for epochs in generators for batches in epochs):
            if fault := self._fault(batches):
                raise self.fail(f"{fault}.")

    def _fault(self, batches):
        """What is wrong with an epoch, if anything."""
        if not isinstance(batches, list | tuple):
            return f"the result is of type {type(batches).__name__}; it must be a list"
        if not all(
            isinstance(b, np.ndarray) and b.ndim == 1 and b.dtype.kind in "iu" for b in batches
        ):
            return "each mini-batch must be an array of one dimension, of an integer dtype"
        lengths = [len(batch) for batch in batches]
        right = [min(self.batch_size, self.n - k) for k in range(0, self.n, self.batch_size)]
        if lengths != right:
            return f"the lengths are {lengths[:9]}; they must be {right[:9]}"
        if sorted(np.concatenate(batches).tolist()) != list(range(self.n)):
            return "every sample must be in one mini-batch, once"
        return ""

    def check_orders(self, value):
        """The orders are rng's alone, and new in each call."""
        generators, moved = value
        first, other, again = (
            [np.concatenate(batches) for batches in epochs] for epochs in generators
        )
        if moved:
            raise self.fail("a global random generator was drawn from or seeded; only rng may be.")
        if not all(map(np.array_equal, first, again)):
            raise self.fail("the same rng gives other orders.")
        orders = np.array([np.arange(self.n), *first, *other])
        for late in range(1, len(orders)):
            for early in range(late):
                share = float((orders[early] == orders[late]).mean())
                if share > 0.1:
                    raise self.fail(
                        f"in two epochs (or in one and the given order) {share:.0%} of the samples "
                        "have the same place; each call must draw a new order of all samples."
                    )
        stays = (orders[1:] == orders[1]).all(axis=0)
        if stays.any():
            raise self.fail(
                f"place {int(np.argmax(stays))} of the order has the same sample in all of "
                f"{len(orders) - 1} epochs; each call must draw a new order of all samples."
            )

    def __str__(self):
        return f"minibatches({self.n}, {self.batch_size}, rng)"


@dataclass(frozen=True)
class SgdStep(Drawn):
    """One update of a network's parameters."""

    target = "sgd:sgd_step"
    parts = ("parameter", "velocity")
    widths: tuple = (3, 2)
    lr: float = 0.1
    momentum: float = 0.5

    def given(self):
        rng = self.rng()
        return *(network(rng, self.widths, self.dtype) for _ in range(3)), self.lr, self.momentum

    def right(self):
        params, velocity, gradients, *_ = cast(self.given(), "float64")
        both = list(zip(velocity, gradients, strict=True))
        velocity = [self.momentum * v + g for v, g in both]
        return [[p - self.lr * v for p, v in zip(params, velocity, strict=True)], velocity]

    def wrong(self):
        params, old, gradients, *_ = cast(self.given(), "float64")

        def stepped(momentum, share, lr):
            velocity = [momentum * v + share * g for v, g in zip(old, gradients, strict=True)]
            return [[p - lr * v for p, v in zip(params, velocity, strict=True)], velocity]

        by_old = [p - self.lr * v for p, v in zip(params, old, strict=True)]
        return {
            "Here the velocity holds the learning rate; it is momentum v + g.": stepped(
                self.momentum, -self.lr, -1
            ),
            "Here the gradient is damped by 1 - momentum; it is added whole.": stepped(
                self.momentum, 1 - self.momentum, self.lr
            ),
            "Here the momentum is missing.": stepped(0, 1, self.lr),
            "Here w moves by the old velocity; it moves by the new one.": [
                by_old, stepped(self.momentum, 1, self.lr)[1],
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class Train(Drawn):
    """Training on digits, whose first mini-batch comes once more at the end.

    Attributes:
        sizes: of the mini-batches.
        raw: pixels are whole numbers of 0 to 16.
    """

    target = "sgd:train"
    parts = ("parameter", "loss")
    widths: tuple = (64, 3, 10)
    sizes: tuple = (9, 5)
    lr: float = 0.3
    momentum: float = 0.8
    raw: bool = False

    def given(self):
        rng, ((x, y), _) = self.rng(), digits.load()
        chosen = rng.permutation(len(x))[: sum(self.sizes)]
        own = np.rint(16 * x[chosen]).astype("uint8") if self.raw else x[chosen]
        cuts = np.split(rng.permutation(len(own)), np.cumsum(self.sizes)[:-1])
        params = network(rng, self.widths, self.dtype)
        return params, own, y[chosen], [*cuts, cuts[0]], self.lr, self.momentum

    def right(self):
        params, x, y, batches, *rates = self.given()
        pairs = [(x[batch], y[batch]) for batch in batches]
        params, _, means = trained(params, [0 * p for p in params], pairs, *rates)
        return [params, means]

    def wrong(self):
        params, x, y, batches, lr, _ = self.given()
        pairs = [(x[batch], y[batch]) for batch in batches]
        plain, _, means = trained(params, [0 * p for p in params], pairs, lr, 0.0)
        return {"This is training without momentum.": [plain, means]}

    def compare(self, value, when=""):
        if isinstance(value, list | tuple) and len(value) == 2:
            params, means = value
            value = [params, means.tolist() if isinstance(means, np.ndarray) else means]
        super().compare(value, when)


@dataclass(frozen=True)
class MeasuredStep(Case):
    """``measured_step`` of layers 64 -> width -> width -> 10 and n samples, for runs and jobs."""

    target = "sgd:measured_step"
    n: int = 16
    dtype: str = "float64"
    width: int = 1024

    def inputs(self, rank):
        widths, rng = (64, self.width, self.width, 10), self.rng()
        params = network(rng, widths, self.dtype)
        velocity = [(0.1 * p).astype(self.dtype) for p in network(rng, widths)]
        x = self.rng(rank).standard_normal((self.n, 64)).astype(self.dtype)
        return params, velocity, x, self.rng(rank).integers(10, size=self.n), LR, MOMENTUM

    def right(self):
        """Torch takes the same step: the oracle above is slow."""
        return [self._step(*self.inputs(rank)) for rank in range(self.p)]

    def _step(self, params, velocity, x, y, lr, momentum):
        import torch

        leaves = [torch.tensor(p, requires_grad=True) for p in params]
        scores = torch.tensor(x)
        for k in range(0, len(leaves), 2):
            scores = (scores.relu() if k else scores) @ leaves[k] + leaves[k + 1]
        loss = torch.nn.functional.cross_entropy(scores, torch.tensor(y))
        loss.backward()
        pairs = zip(velocity, leaves, strict=True)
        velocity = [momentum * v + p.grad.numpy() for v, p in pairs]
        return [
            [p - lr * v for p, v in zip(params, velocity, strict=True)],
            velocity,
            np.asarray(loss.item()),
        ]

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_like(value, right, self, f"rank {rank}'s {self.what}", TOLERANCE[self.dtype])
