"""What the cases of all NumPy layers have in common, and those of linear.py.

A layer is drawn whole, from the seed. Each rank gets its part, and must return its part of what the
whole layer on one rank gives.
"""

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from given.shards import shard_bounds

from ringside import Machine
from ringside.checking import Verdict, assert_ran
from ringside.checking.cases import Case, Formula

TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
ROUGHLY = 0.01  # where a test is about something else: low precision costs its points once
SEEDED = tuple(name for name in Formula.unsaid if name != "seed")  # of cases that draw something
HOWS = {  # per result: what sentences call it, and which layer it is of
    "": [("rank {rank}'s", 0)],
    "memory": [("rank {rank}'s", 0)],
    "twice": [
        ("rank {rank}'s first", 0),
        ("looked at after a second call, rank {rank}'s first", 0),
        ("rank {rank}'s second", 1),
    ],
    "again": [("rank {rank}'s first", 0), ("rank {rank}'s second", 1)],
    "updated": [("called again, with new values in the same arrays, rank {rank}'s", 1)],
    "in order": [
        ("of two layers in flight, backward in their order, rank {rank}'s first", 0),
        ("of two layers in flight, backward in their order, rank {rank}'s second", 1),
    ],
    "last first": [
        ("of two layers in flight, the later one's backward pass first, rank {rank}'s first", 0),
        ("of two layers in flight, the later one's backward pass first, rank {rank}'s second", 1),
    ],
    "gaps": [("from {kind} with gaps, rank {rank}'s", 0)],
    "gaps by columns": [("from {kind} with gaps that lie by columns, rank {rank}'s", 0)],
}


def assert_near(value, right, case, what, dtype="", size=1.0):
    """An array of the right dtype and shape, close in the Frobenius norm.

    A sum of few elements may be nearly 0 by chance: norms below 1 count as 1.

    Args:
        dtype: that it must have; empty: the case's.
        size: what the error is divided by, beside the norm.
    """
    dtype = dtype or case.dtype
    right = np.asarray(right)
    assert_formed(value, right, case, what, dtype)
    with np.errstate(all="ignore"):  # what comes back may be anything, infinities too
        off = float(np.linalg.norm((value.astype("float64") - right).ravel()))
    norm = max(1.0, float(np.linalg.norm(right.ravel())))
    allowed = TOLERANCE[dtype] * size if case.exact else ROUGHLY
    if not off <= allowed * norm:  # a NaN is wrong, too
        raise case.fail(
            f"{what} is off by {off / norm:.2g} of its norm (or of 1) from the whole layer's on "
            f"one rank; {allowed:.1g} is allowed."
        )


def assert_formed(value, right, case, what, dtype):
    """An array of the right dtype and shape."""
    if not isinstance(value, np.ndarray):
        kind = "None" if value is None else f"of type {type(value).__name__}"
        raise case.fail(f"{what} is {kind}; it must be an array.")
    if value.shape != right.shape or str(value.dtype) != dtype:
        raise case.fail(
            f"{what} has shape {value.shape} and dtype {value.dtype}; it must have {right.shape} "
            f"and {dtype}."
        )


def in_miniature(machine, tokens, width, n, d):
    """A machine on which a layer of n rows of d takes the time of one of tokens rows of width.

    An element stands for many: bytes are as much dearer as there are fewer of them, and operations
    too. ``width / d`` is also the ratio of the hidden units. An element of the large layer has 2
    bytes (bfloat16), one of the small layer 8.
    """
    rows, columns = tokens / n, width / d
    nbytes, flops = rows * columns * 2 / 8, rows * columns**2
    return machine.with_(
        beta_s_per_byte=machine.beta_s_per_byte * nbytes,
        intra_beta_s_per_byte=machine.intra_beta_s_per_byte * nbytes,
        flop_per_s=machine.flop_per_s / flops,
        kernel_overhead_s=0.0,
        eager_threshold_bytes=int(machine.eager_threshold_bytes / nbytes),
    )


@dataclass(frozen=True)
class Layer(Case):
    """Forward and backward pass of a layer.

    ``check_exactly`` compares all results, to the last digit asked for; ``check`` those that other
    layers get, roughly.

    Attributes:
        n: samples, B.
        widths: as the class says.
        how: what is called (``checks/inside.py:passes``).
        then: ``(n, *widths)`` of a second layer; (): as the first one.
        then_dtype: of the second layer, where it is another one.
        wide: the time is that of a run stretched to so many ranks; 0: of the run itself.
    """

    through = "checks/inside.py:passes"
    called: ClassVar[str] = ""  # what sentences call the functions
    layer: ClassVar[str] = ""  # for ``through``
    result_names: ClassVar[tuple] = ()  # of what both passes give
    passed_on: ClassVar[int] = 2  # so many of the results go to other layers
    # The axis along which each is cut; None: every rank has it whole.
    x_cut: ClassVar[object] = None
    param_cuts: ClassVar[tuple] = ()
    y_cut: ClassVar[object] = None
    sums: ClassVar[int] = 2  # all-reduces of rows
    free: ClassVar[int] = 8  # numbers a column that may travel beside each
    products: ClassVar[tuple] = (2, 4)  # matrix products before the first sum and before the second
    again: ClassVar[float] = 0.0  # the part of the work that may be computed once more
    machines: ClassVar = {"gpt": in_miniature(Machine.load("zaratan"), 2048, 4096, 128, 16)}

    n: int = 6
    widths: tuple = ()
    dtype: str = "float64"
    how: str = ""
    then: tuple = ()
    then_dtype: str = ""
    wide: int = 0
    machine: str = dataclasses.field(default="buffered", kw_only=True)

    def drawn(self, rng):
        """The whole layer: ``(x, parameters, gradient of the result)``."""
        raise NotImplementedError

    def serial(self, x, params, grad):
        """What the whole layer gives: the result, then gradients of x and of each parameter."""
        raise NotImplementedError

    def more(self):
        """Arguments between parameters and gradient."""
        return ()

    def __str__(self):
        text = super().__str__().replace(f", how {self.how}", "")  # sentences say it
        return text.replace(self.function, self.called, 1)

    @functools.cached_property
    def whole(self):
        """``(x, parameters, gradient of the result)``, in the case's dtype."""
        x, params, grad = self.drawn(self.rng())
        params = tuple(each.astype(self.dtype) for each in params)
        return x.astype(self.dtype), params, grad.astype(self.dtype)

    @property
    def second(self):
        """The second layer, as a case of its own."""
        n, *widths = self.then or (self.n, *self.widths)
        return self.with_(
            n=n, widths=tuple(widths), dtype=self.then_dtype or self.dtype,
            how="", then=(), then_dtype="", seed=self.seed + 1,
        )  # fmt: skip

    def cut(self, array, axis, rank):
        """A rank's part of a whole array, in memory of its own."""
        if axis is None:
            return array
        lo, hi = shard_bounds(array.shape[axis], self.p, rank)
        return np.ascontiguousarray(array.take(range(lo, hi), axis=axis))

    def own(self, params, rank):
        """A rank's part of the parameters, or of their gradients."""
        pairs = zip(params, self.param_cuts, strict=True)
        return tuple(self.cut(array, axis, rank) for array, axis in pairs)

    def arguments(self, rank):
        """What one call of the layer gets."""
        x, params, grad = self.whole
        own = self.own(params, rank)
        return self.cut(x, self.x_cut, rank), own, *self.more(), self.cut(grad, self.y_cut, rank)

    def inputs(self, rank):
        second = self.second.arguments(rank) if self.of_two else None
        return self.layer, self.how, self.arguments(rank), second

    @property
    def of_two(self):
        """Is there a second layer?"""
        return any(number for _, number in HOWS[self.how])

    @property
    def exactly(self):
        """``whole``, in float64."""
        x, params, grad = self.whole
        x, *params, grad = (each.astype("float64") for each in (x, *params, grad))
        return x, params, grad

    def right(self):
        return self.dealt_out(*self.serial(*self.exactly))

    def dealt_out(self, y, grad_x, *grads):
        """Each rank's part of what the whole layer gives."""
        return [
            (
                self.cut(y, self.y_cut, rank),
                self.cut(grad_x, self.x_cut, rank),
                *self.own(grads, rank),
            )
            for rank in range(self.p)
        ]

    def replicated(self, value):
        """What every rank has whole of its value: names and arrays."""
        cuts = self.y_cut, self.x_cut, *self.param_cuts
        named = zip(self.result_names, value["results"][0], strict=True)
        return [pair for pair, axis in zip(named, cuts, strict=False) if axis is None]

    @property
    def size(self):
        """What errors grow with, beside the norm."""
        return 1.0

    def check(self, run):
        assert_ran(run, self)
        cases = [self, self.second] if self.of_two else [self]
        rights = [case.right() for case in cases]
        for rank, value in enumerate(run.values):
            kind = "arrays" if rank % 2 else "read-only arrays"
            for got, (words, number) in zip(value["results"], HOWS[self.how], strict=True):
                whose = words.format(rank=rank, kind=kind)
                self._check_results(got, rights[number][rank], cases[number], whose)
            if value.get("changed"):
                raise self.fail(f"rank {rank} changed what it was given; it must stay as it was.")
            if value.get("shared"):
                raise self.fail(f"rank {rank} returned memory that it was given, no new array.")
            if value.get("fixed"):
                raise self.fail(f"rank {rank} returned an array that its caller can't write to.")

    def check_form(self, run, compared=0):
        """Results of the right shapes and dtypes, the first ``compared`` of which are near."""
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            self._check_results(value["results"][0], right, self, f"rank {rank}'s", compared)

    def _check_results(self, got, right, case, whose, compared=None):
        if not isinstance(got, list | tuple) or len(got) != len(right):
            names = ", ".join(self.result_names)
            raise self.fail(f"{whose} results must be {len(right)} arrays: {names}.")
        if compared is None:
            compared = len(right) if self.exact else self.passed_on
        for number, triple in enumerate(zip(self.result_names, got, right, strict=True)):
            name, array, each = triple
            assert_formed(array, each, self, f"{whose} {name}", case.dtype)
            if number < compared:
                assert_near(array, each, self, f"{whose} {name}", case.dtype, case.size)

    # What the docstrings allow

    @property
    def flops(self):
        """Operations of the products of the whole layer, forward and backward."""
        raise NotImplementedError

    @property
    def count(self):
        """How many columns, rows, hidden units or heads are dealt out to the ranks."""
        raise NotImplementedError

    def own_flops(self, rank):
        """A rank's part of ``flops``."""
        return self.flops / self.count * len(range(rank, self.count, self.p))

    @property
    def weight_nbytes(self):
        return sum(each.nbytes for each in self.whole[1] if each.ndim == 2)

    @property
    def rows(self):
        """Rows and columns of what is summed."""
        return self.n, self.widths[0]

    @property
    def allowed_nbytes(self):
        """What a rank may send in both passes."""
        n, d = self.rows
        longest = max(-(-n // self.p) * d, n * -(-d // self.p))
        elements = 2 * (self.p - 1) * longest + self.free * d
        return self.sums * (elements * np.dtype(self.dtype).itemsize + 64 * (self.p - 1))

    @property
    def steps(self):
        """What each rank does, one thing after another: products, and sums of so many bytes."""
        each = ("compute", self.flops / self.p / sum(self.products))
        moved = ("allreduce", 8 * math.prod(self.rows))
        return [step for count in self.products for step in [*[each] * count, moved]]


def normal(rng, *shape, scale=1.0):
    return scale * rng.standard_normal(shape)


def weight(rng, d_in, d_out):
    return normal(rng, d_in, d_out, scale=d_in**-0.5)


# -- parts of the parameters -----------------------------------------------------------------------


@dataclass(frozen=True)
class Shards(Formula):
    """The parts of all ranks, each in memory of its own.

    Attributes:
        ranks: p.
        widths: of the layer.
        order: how the whole arrays lie in memory, by rows ("C") or by columns ("F").
    """

    through = "checks/inside.py:cut"
    unsaid = SEEDED
    of: ClassVar[type] = Layer
    ranks: int = 3
    widths: tuple = (5, 7)
    dtype: str = "float64"
    order: str = "C"

    @property
    def layer(self):
        return self.of(self.ranks, 0, self.widths, self.dtype, seed=self.seed)

    def arguments(self):
        return self.target, self.shared, self.ranks, self.order

    @property
    def shared(self):
        """What a shard function gets before the number of ranks."""
        return self.layer.whole[1], *self.layer.more()

    def __str__(self):
        return f"{self.function} of {self.ranks} ranks, widths {self.widths}"

    def check_value(self, value):
        layer = self.layer
        _, params, _ = layer.whole
        for rank, (parts, shared, gaps) in enumerate(value):
            what = f"{self}: for rank {rank}"
            rights = layer.own(params, rank)
            if not isinstance(parts, list | tuple) or len(parts) != len(rights):
                raise Verdict(f"{what} it must be a tuple of {len(rights)} arrays.")
            for number, (part, right) in enumerate(zip(parts, rights, strict=True)):
                same = isinstance(part, np.ndarray) and part.dtype == right.dtype
                if not same or not np.array_equal(part, right):
                    seen = type(part).__name__
                    if isinstance(part, np.ndarray):
                        seen = f"an array of shape {part.shape} and dtype {part.dtype}"
                    raise Verdict(
                        f"{what} array {number}, {seen}, is not its part of the whole, of shape "
                        f"{right.shape} and dtype {right.dtype}."
                    )
            if shared:
                raise Verdict(
                    f"{what} it shares memory with the whole layer, which then can't be given back."
                )
            if gaps:
                raise Verdict(f"{what} an array is not contiguous.")


# -- linear ----------------------------------------------------------------------------------------


class Linear(Layer):
    """A linear layer; widths are d_in and d_out."""

    sums, free, products = 1, 0, (3,)

    def drawn(self, rng):
        d_in, d_out = self.widths
        x, W, b = normal(rng, self.n, d_in), weight(rng, d_in, d_out), normal(rng, d_out)
        return x, (W, b), normal(rng, self.n, d_out)

    def serial(self, x, params, grad):
        W, b = params
        return x @ W + b, grad @ W.T, x.T @ grad, grad.sum(axis=0)

    @property
    def flops(self):
        return 6 * self.n * self.widths[0] * self.widths[1]


@dataclass(frozen=True)
class ColumnLayer(Linear):
    """``column_forward`` and ``column_backward``."""

    target = "linear:column_forward"
    called, layer = "column_forward and column_backward", "column"
    result_names = ("Y", "gradient of X", "gradient of W", "gradient of b")
    x_cut, param_cuts, y_cut = None, (1, 0), 1
    widths: tuple = (4, 7)

    @property
    def count(self):
        return self.widths[1]

    def wrong(self):
        _, (W, _), grad = self.exactly
        alone = [self.cut(grad, 1, r) @ self.cut(W, 1, r).T for r in range(self.p)]
        pairs = zip(alone, self.right(), strict=True)
        own = [(y, dx, *grads) for dx, (y, _, *grads) in pairs]
        return {"This is a rank's own summand; the gradient of X is the sum of all.": own}


@dataclass(frozen=True)
class RowLayer(Linear):
    """``row_forward`` and ``row_backward``."""

    target = "linear:row_forward"
    called, layer = "row_forward and row_backward", "row"
    result_names = ("Z", "gradient of X", "gradient of W", "gradient of b")
    x_cut, param_cuts, y_cut = 1, (0, None), None
    widths: tuple = (7, 4)

    @property
    def count(self):
        return self.widths[0]

    @property
    def rows(self):
        return self.n, self.widths[1]

    def wrong(self):
        x, (W, b), _ = self.exactly
        z, *rest = self.serial(*self.exactly)
        alone = [self.cut(x, 1, r) @ self.cut(W, 0, r) + b for r in range(self.p)]
        own = [(y, *grads) for y, (_, *grads) in zip(alone, self.right(), strict=True)]
        often = self.dealt_out(z + (self.p - 1) * b, *rest)
        return {
            "b was added on every rank before the sum, so it counts p times.": often,
            "This is a rank's own summand, and b; Z is the sum of all summands, and b.": own,
        }


@dataclass(frozen=True)
class ColumnShard(Shards):
    target = "linear:column_shard"
    of = ColumnLayer

    @property
    def shared(self):
        return self.layer.whole[1]


@dataclass(frozen=True)
class RowShard(ColumnShard):
    target = "linear:row_shard"
    of = RowLayer
