"""The calls of linear_torch.py that the tests make, and what must come of them: without torch."""

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from given.layers import gelu, gelu_backward

from checks.cases import assert_near
from ringside import Machine
from ringside.checking import assert_ran
from ringside.checking.cases import Case

SLOW = Machine("slow cores", alpha_s=5e-7, beta_s_per_byte=2e-9, flop_per_s=1e9)
FREE_NBYTES = 64  # to each other rank
PAIR_CUTS = (0, 0, 1, None)  # axes along which W1, b1, W2 and b2 are cut


@dataclass(frozen=True)
class OnTorch(Case):
    """A call on torch's ranks."""

    machines: ClassVar = {"slow cores": SLOW, "slow links": SLOW.with_(alpha_s=5e-6)}
    machine: str = dataclasses.field(default="buffered", kw_only=True)

    def part(self, array, rank, axis=0):
        """A rank's part, as torch's ``tensor_split`` makes it; of an axis None the whole."""
        if array is None or axis is None:
            return array
        return np.array_split(array, self.p, axis=axis)[rank]

    def handed(self, whole, rank, axis):
        """A parameter as a rank is handed it: beside its own part it holds other numbers.

        So no rank has what another one must compute with.
        """
        if whole is None or axis is None:
            return whole
        given = np.random.default_rng([77, rank]).standard_normal(whole.shape).astype(whole.dtype)
        own = [slice(None)] * whole.ndim
        own[axis] = np.array_split(np.arange(whole.shape[axis]), self.p)[rank]
        given[tuple(own)] = whole[tuple(own)]
        return given


# -- operators -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operator(OnTorch):
    """An operator, and the gradient of x.

    Attributes:
        shape: of x.
        how: "", "gaps", "sum", "shared" or "beside" (``checks/inside_torch.py:operator``).
    """

    through = "checks/inside_torch.py:operator"
    shape: tuple = (6, 4)
    dtype: str = "float64"
    how: str = ""

    def forward(self, xs):
        """Every rank's result."""
        raise NotImplementedError

    def backward(self, dys):
        """Every rank's gradient of x."""
        raise NotImplementedError

    def x(self, rank):
        return self.rng(rank).standard_normal(self.shape).astype(self.dtype)

    @property
    def xs(self):
        return [self.x(rank) for rank in range(self.p)]

    @property
    def dys(self):
        shape, ranks = self.forward(self.xs)[0].shape, range(self.p)
        rngs = [np.random.default_rng([self.seed, rank, 1]) for rank in ranks]
        return [rng.standard_normal(shape).astype(self.dtype) for rng in rngs]

    def inputs(self, rank):
        return self.target, self.x(rank), self.dys[rank], self.how

    def right(self):
        """Per rank its result and the gradient of x."""
        return self.with_gradients(self.backward)

    def with_gradients(self, backward):
        """The right results, with these gradients of x."""
        dys = [dy.astype("float64") for dy in self.dys]
        dxs = backward([np.ones_like(dy) for dy in dys] if self.how == "sum" else dys)
        ys = self.forward([x.astype("float64") for x in self.xs])
        return [(y, dx + 3 if self.how == "beside" else dx) for y, dx in zip(ys, dxs, strict=True)]

    def check(self, run):
        assert_ran(run, self)
        pairs = zip(run.values, self.right(), strict=True)
        for rank, ((y, dx, second, changed), (right_y, right_dx)) in enumerate(pairs):
            assert_near(y, right_y, self, f"rank {rank}'s result")
            assert_near(dx, right_dx, self, f"rank {rank}'s gradient of x")
            if self.how == "shared":
                what = f"rank {rank}'s gradient of another tensor that shares the incoming gradient"
                assert_near(second, 3 * self.dys[rank].astype("float64"), self, what)
                self.verify_kept(rank, changed)

    def verify_kept(self, rank, changed):
        if changed:
            raise self.fail(
                f"rank {rank} changed x or the gradient that came in; both must stay as they were."
            )


@dataclass(frozen=True)
class CopyToGroup(Operator):
    """f, of an x that is the same on all ranks."""

    target = "linear_torch:copy_to_group"

    def x(self, rank):
        return self.rng().standard_normal(self.shape).astype(self.dtype)

    def forward(self, xs):
        return xs

    def backward(self, dys):
        return [sum(dys)] * self.p

    def wrong(self):
        own = self.with_gradients(lambda dys: dys)
        return {"This is the rank's own gradient; that of f is the sum of all ranks'.": own}


@dataclass(frozen=True)
class ReduceFromGroup(Operator):
    """g."""

    target = "linear_torch:reduce_from_group"

    def forward(self, xs):
        return [sum(xs)] * self.p

    def backward(self, dys):
        return dys

    def wrong(self):
        summed = self.with_gradients(lambda dys: [sum(dys)] * self.p)
        return {"This is the sum of all ranks' gradients; that of g is the one that came.": summed}


# -- a column and a row ----------------------------------------------------------------------------


def pair_params(rng, widths, dtype="float64", biases=True):
    """W1, b1, W2, b2 of a pair of layers; None for biases that aren't wanted."""
    d_in, d_hidden, d_out = widths
    shapes = ((d_hidden, d_in), (d_hidden,), (d_out, d_hidden), (d_out,))
    drawn = [rng.standard_normal(shape) / math.sqrt(shape[-1]) for shape in shapes]
    return [drawn[k].astype(dtype) if biases or k % 2 == 0 else None for k in range(len(shapes))]


def serial_pair(params, x, dz):
    """Linear, gelu, linear on one rank: ``(z, dx, [dW1, db1, dW2, db2])``."""
    w1, b1, w2, b2 = (None if each is None else each.astype("float64") for each in params)
    x, dz = x.astype("float64"), dz.astype("float64")
    before = x @ w1.T + (0 if b1 is None else b1)
    hidden, d_hidden = gelu(before), gelu_backward(before, dz @ w2)
    rows, d_rows, y_rows, dz_rows = (e.reshape(-1, e.shape[-1]) for e in (x, d_hidden, hidden, dz))
    gradients = [
        d_rows.T @ rows,
        None if b1 is None else d_rows.sum(axis=0),
        dz_rows.T @ y_rows,
        None if b2 is None else dz_rows.sum(axis=0),
    ]
    return hidden @ w2.T + (0 if b2 is None else b2), d_hidden @ w1, gradients


def all_reduce_nbytes(p, rows, width, itemsize):
    """What a rank sends: p equal chunks of rows, or of columns, go round a ring twice."""
    return 2 * (p - 1) * max(-(-rows // p) * width, rows * -(-width // p)) * itemsize


def ring_s(machine, p, nbytes, rounds=2):
    """Seconds for ``rounds`` times round a ring: 2 for an all-reduce, 1 for an all-gather."""
    return rounds * (p - 1) * (machine.alpha_s + -(-nbytes // p) * machine.beta_s_per_byte)


@dataclass(frozen=True)
class Pair(OnTorch):
    """A ``ColumnLinear``, gelu and a ``RowLinear``; all steps add up their gradients.

    Attributes:
        n: rows of x.
        widths: d_in, d_hidden and d_out.
        shape: of the dimensions of x before the last one; (): (n,).
        needs: which gradients: "all", "weights" (x is data), "x" (all parameters are frozen),
            "biases" (of biases and x: weights are frozen), "none".
        measure: find out what the layers keep.
        how: "", "gaps" or "together" (``checks/inside_torch.py:pair``).
        wide: the time is that of a run stretched to so many ranks; 0: of the run itself.
    """

    target = "linear_torch:ColumnLinear"
    through = "checks/inside_torch.py:pair"
    n: int = 5
    widths: tuple = (4, 6, 4)
    shape: tuple = ()
    dtype: str = "float64"
    biases: bool = True
    steps: int = 1
    needs: str = "all"
    measure: bool = False
    how: str = ""
    wide: int = 0

    def __str__(self):
        return super().__str__().replace(self.function, "ColumnLinear and RowLinear", 1)

    @property
    def params(self):
        return pair_params(self.rng(), self.widths, self.dtype, self.biases)

    @property
    def given(self):
        """Per step ``(x, dz)``, the same on all ranks."""
        rng, lead = np.random.default_rng([self.seed, 1, 1]), self.shape or (self.n,)
        return [
            tuple(rng.standard_normal((*lead, d)).astype(self.dtype) for d in self.widths[::2])
            for _ in range(self.steps)
        ]

    def inputs(self, rank):
        pairs = zip(self.params, PAIR_CUTS, strict=True)
        params = [self.handed(each, rank, axis) for each, axis in pairs]
        return params, self.given, self.needs, self.measure, self.how

    def right(self):
        """Per step what the whole layers give."""
        return [serial_pair(self.params, x, dz) for x, dz in self.given]

    def wrong(self):
        if not self.biases:
            return {}
        b2 = self.params[3].astype("float64")
        often = [(z + (self.p - 1) * b2, *rest) for z, *rest in self.right()]
        return {"b was added on every rank before the sum, so it counts p times.": often}

    def check(self, run):
        assert_ran(run, self)
        wanted = self.right()
        steps = zip(*(gradients for _, _, gradients in wanted), strict=True)
        whole = [None if each[0] is None else sum(each) for each in steps]
        for rank, value in enumerate(run.values):
            verify_registered(value, rank, self)
            for number, (z, dx, _) in enumerate(wanted):
                assert_near(value["z"][number], z, self, f"rank {rank}'s result")
                if self.needs in ("all", "x", "biases"):
                    assert_near(value["dx"][number], dx, self, f"rank {rank}'s gradient of x")
            self._check_parameters(value, whole, rank)

    def _check_parameters(self, value, whole, rank):
        names = ("column weight", "column bias", "row weight", "row bias")
        for k, name in enumerate(names):
            part, shape = self.part(whole[k], rank, PAIR_CUTS[k]), value["shapes"][k]
            learns = self.needs in ("all", "weights") or (self.needs == "biases" and k % 2)
            if part is None or shape is None:
                if part is not shape:
                    raise self.fail(f"rank {rank}'s {name}: a bias of None must stay None.")
            elif shape != list(part.shape):
                raise self.fail(
                    f"rank {rank}'s {name} has shape {tuple(shape)}; its part has {part.shape}."
                )
            elif learns and self.exact:
                found = value["gradients"][k]
                assert_near(found, part, self, f"rank {rank}'s gradient of the {name}")

    def replicated(self, value):
        """What all ranks have whole of their values: names and arrays."""
        found = [("result", z) for z in value["z"]]
        found += [("gradient of x", dx) for dx in value["dx"]]
        return [*found, ("gradient of the row bias", value["gradients"][3])]

    @property
    def flops(self):
        """Matrix products of forward and backward pass: three of each weight."""
        d_in, d_hidden, d_out = self.widths
        return 6 * self.n * d_hidden * (d_in + d_out)

    @property
    def weight_nbytes(self):
        return sum(each.nbytes for each in self.params[::2])

    @property
    def allowed_nbytes(self):
        """What a rank may send."""
        size = np.dtype(self.dtype).itemsize
        sums = self.widths[2:] if self.needs in ("none", "weights") else self.widths[::2]
        sent = sum(all_reduce_nbytes(self.p, self.n, d, size) for d in sums)
        return self.steps * sent + FREE_NBYTES * (self.p - 1)

    @property
    def kept_nbytes(self):
        """What each of the two layers may keep, but for what is free."""
        d_in, d_hidden, d_out = self.widths
        own = -(-d_hidden // self.p)
        return 8 * own * (d_in + 1), 8 * (own * d_out + d_out)


@dataclass(frozen=True)
class TwoGroups(OnTorch):
    """A pair of layers on the rows of a grid of ranks, then a pair on its columns.

    Attributes:
        n: rows of x.
        widths: of the first pair, and of the second.
    """

    target = "linear_torch:RowLinear"
    through = "checks/inside_torch.py:two_groups"
    p: int = 4
    n: int = 4
    widths: tuple = ((5, 6, 4), (4, 7, 3))
    dtype: str = "float64"

    def __str__(self):
        return f"two pairs of layers on the rows and columns of 2 x {self.p // 2} ranks"

    def in_part(self):
        """Its groups are parts of the world."""
        return self

    @property
    def params(self):
        return [pair_params(self.rng(), each, self.dtype) for each in self.widths]

    @property
    def given(self):
        rng, ends = np.random.default_rng([self.seed, 1, 1]), (self.widths[0][0], self.widths[1][2])
        return [rng.standard_normal((self.n, d)) for d in ends]

    def of_rank(self, rank):
        """Per pair ``(case, place)``: the part of its parameters that is a rank's."""
        q = self.p // 2
        return (Pair(q), rank % q), (Pair(2), rank // q)

    def inputs(self, rank):
        handed = [
            [case.handed(one, place, axis) for one, axis in zip(params, PAIR_CUTS, strict=True)]
            for params, (case, place) in zip(self.params, self.of_rank(rank), strict=True)
        ]
        return handed, *self.given

    def check(self, run):
        assert_ran(run, self)
        (one, other), (x, dz) = self.params, self.given
        # Every group computes the same, so results and gradients are those of one chain.
        middle, *_ = serial_pair(one, x, np.zeros((self.n, self.widths[0][2])))
        z, d_middle, second = serial_pair(other, middle, dz)
        _, dx, first = serial_pair(one, x, d_middle)
        for rank, (found_z, found_dx, gradients) in enumerate(run.values):
            assert_near(found_z, z, self, f"rank {rank}'s result")
            assert_near(found_dx, dx, self, f"rank {rank}'s gradient of x")
            wanted = [
                case.part(each, place, axis)
                for whole, (case, place) in zip((first, second), self.of_rank(rank), strict=True)
                for each, axis in zip(whole, PAIR_CUTS, strict=True)
            ]
            for number, (found, right) in enumerate(zip(gradients, wanted, strict=True)):
                assert_near(found, right, self, f"rank {rank}'s gradient of parameter {number}")


@dataclass(frozen=True)
class MeasuredPair(OnTorch):
    """``measured_pair``: widths are those of the result and of the hidden units."""

    target = "checks/inside_torch.py:measured_pair"
    n: int = 256
    widths: tuple = (512, 2048)
    dtype: str = "float64"
    exact = True

    def inputs(self, rank):
        d, h = self.widths
        rng = self.rng()
        params = pair_params(rng, (d, h, d), self.dtype)
        x, dz = rng.standard_normal((2, self.n, d)).astype(self.dtype)
        return params, x, dz

    def right(self):
        z, dx, _ = serial_pair(*self.inputs(0))
        return [(z, dx)] * self.p

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, (z, dx)) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_near(value[0], z, self, f"rank {rank}'s result")
            assert_near(value[1], dx, self, f"rank {rank}'s gradient of x")


def verify_registered(value, rank, case):
    """Parameters are parameters of their module, so that an optimizer finds them."""
    if not value["registered"]:
        raise case.fail(
            f"on rank {rank} the attributes that the docstring names are not among the module's "
            "parameters(): an optimizer would not find them."
        )
