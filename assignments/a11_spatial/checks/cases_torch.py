"""The calls of conv_torch.py and ulysses_torch.py that the tests make: without torch."""

import functools
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from checks.cases import InParts
from ringside.checking import assert_moved, assert_peers, assert_ran
from ringside.checking.cases import Case, machine_of

TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 0.03}
ITEMSIZE = {"float64": 8, "float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Tensors(InParts, Case):
    """A call of one of these modules, and the gradients.

    Attributes:
        how: "gaps": tensors are transposed; "sum": the gradient is that of a sum, one number in
            memory; "together": two calls, and both backward passes afterwards, the last one first;
            "plain".
        dtype: on the ranks; "bfloat16", too.
        parts: what is compared.
    """

    machine: str = field(default="buffered", kw_only=True)
    how: str = field(default="plain", kw_only=True)
    dtype: str = field(default="float64", kw_only=True)
    parts: tuple = field(default=(), kw_only=True)
    titles: ClassVar = {}

    def cast(self, array):
        """Rounded to the dtype; bfloat16 in float32."""
        if self.dtype != "bfloat16":
            return array.astype(self.dtype)
        bits = array.astype("float32").view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32)

    @functools.cached_property
    def rights(self):
        """Per name of a part what each rank must get; None: nobody asked for it."""
        raise NotImplementedError

    def right(self):
        found = [{"changed": False} for _ in range(self.p)]
        for rank, own in enumerate(found):
            for name, right in self.rights.items():
                own[name] = None if right is None else self.cast(right[rank])
        return found

    def check(self, run):
        self.check_parts(run, self.parts or self.titles)

    def check_parts(self, run, parts):
        """Compare these parts; look at what was changed, and at collectives."""
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            for part in self.titles:
                if part in parts and right[part] is not None:
                    what = f"rank {rank}'s {self.titles[part]}"
                    self._check_near(value[part], right[part], what)
            if value["changed"]:
                raise self.fail(f"rank {rank} changed an argument or the gradient of the result.")
        self.check_collectives(run)

    def _check_near(self, value, wanted, what):
        """An array of the right dtype and shape, close in the Frobenius norm."""
        wanted = np.asarray(wanted)
        if not isinstance(value, np.ndarray):
            shown = "None" if value is None else f"of type {type(value).__name__}"
            raise self.fail(f"{what} is {shown}; it must be a tensor.")
        dtype = "float32" if self.dtype == "bfloat16" else self.dtype
        if value.shape != wanted.shape or str(value.dtype) != dtype:
            raise self.fail(
                f"{what} has shape {value.shape} and dtype {value.dtype}; it must have "
                f"{wanted.shape} and {dtype}."
            )
        with np.errstate(all="ignore"):  # what comes back may be anything, infinities too
            off = np.linalg.norm((value.astype("float64") - wanted).ravel())
        size, allowed = max(1.0, float(np.linalg.norm(wanted.ravel()))), TOLERANCE[self.dtype]
        if not off <= allowed * size:  # a NaN is wrong too
            raise self.fail(
                f"{what} is wrong by {off / size:.1e} of its size (the Frobenius norm, "
                f"{size:.6g}); at most {allowed:g} is allowed."
            )

    def check_collectives(self, run):
        """One collective alone moved bytes, and no groups were made."""
        for record in getattr(run, "collectives", ()):  # real ranks have none
            self.check_collective(record)
        if getattr(run, "comm_calls", ()):
            raise self.fail("groups were made; none is allowed.")


@dataclass(frozen=True)
class Refused(Case):
    """A call that must be refused, before any message."""

    def check(self, run):
        assert_ran(run, self)
        for rank, error in enumerate(run.values):
            if error != "ValueError":
                raise self.fail(f"rank {rank} raised {error or 'nothing'}; it must be ValueError.")


# -- conv_torch ------------------------------------------------------------------------------------

IMAGES, WEIGHTS = ("y", "dx"), ("dw", "db")


@dataclass(frozen=True)
class Conv2d(Tensors):
    """``conv2d`` and its gradients.

    Attributes:
        heights: of the ranks' parts; rank r has ``heights[r % len(heights)]`` rows.
        channels: in and out.
        kernel: its rows and columns.
        needs: which gradients: "all"; "x" (weight and bias are frozen); "weights" (x is data);
            "bias" (only that); "none" (no backward pass).
    """

    target = "conv_torch:conv2d"
    through = "checks/inside_torch.py:convolved"
    titles: ClassVar = {
        "y": "result", "dx": "gradient of x", "dw": "gradient of the weight",
        "db": "gradient of the bias",
    }  # fmt: skip
    shares = (IMAGES, WEIGHTS)
    heights: tuple = (4,)
    batch: int = 1
    channels: tuple = (2, 3)
    width: int = 5
    kernel: int = 3
    bias: bool = True
    needs: str = "all"

    @property
    def all_heights(self):
        """Of each rank's part."""
        return [self.heights[rank % len(self.heights)] for rank in range(self.p)]

    @functools.cached_property
    def whole(self):
        """Image, weight, bias and the gradient of the whole result."""
        (c_in, c_out), rows, k, rng = self.channels, sum(self.all_heights), self.kernel, self.rng()
        shapes = (
            (self.batch, c_in, rows, self.width), (c_out, c_in, k, k), (c_out,),
            (self.batch, c_out, rows, self.width),
        )  # fmt: skip
        return [self.cast(rng.standard_normal(shape)) for shape in shapes]

    def rows(self, whole):
        """Each rank's rows of an image."""
        cuts = np.cumsum(self.all_heights)[:-1]
        return [np.ascontiguousarray(each) for each in np.split(whole, cuts, axis=2)]

    def inputs(self, rank):
        x, weight, bias, dy = self.whole
        own = self.rows(x)[rank], weight, bias if self.bias else None, self.rows(dy)[rank]
        return *own, self.needs, self.how, self.dtype

    def wrong(self):
        if self.how != "plain" or self.needs != "all":
            return {}
        x, weight, _, dy = (each.astype("float64") for each in self.whole)
        turned, right = weight[:, :, ::-1, ::-1], self.right()
        seen, sums, inputs = self.rows(self._windows(x)), [], []
        for own, windows, rows in zip(right, seen, self.rows(dy), strict=True):
            dw = np.einsum("bchwij,bohw->ocij", windows, rows)
            sums.append({**own, "dw": dw, "db": rows.sum(axis=(0, 2, 3))})
            dx = np.einsum("bohwij,ocij->bchw", self._windows(rows), turned)
            inputs.append({**own, "dx": dx})
        return {
            "These are the sums over this rank's rows alone; sums over all ranks' are asked for.": (
                sums
            ),
            "What the neighbours' outputs add at this part's edges is missing.": inputs,
        }

    @functools.cached_property
    def rights(self):
        x, weight, bias, dy = (each.astype("float64") for each in self.whole)
        dy = np.ones_like(dy) if self.how == "sum" else dy
        seen = self._windows(x)
        y = np.einsum("bchwij,ocij->bohw", seen, weight)
        y = y + bias[:, None, None] if self.bias else y
        dx = np.einsum("bohwij,ocij->bchw", self._windows(dy), weight[:, :, ::-1, ::-1])
        dw, db = np.einsum("bchwij,bohw->ocij", seen, dy), dy.sum(axis=(0, 2, 3))
        if self.how == "together":  # the second call sees 3 x
            dx, dw, db = 4 * dx, 4 * dw, 2 * db
        return {
            "y": self.rows(y),
            "dx": self.rows(dx) if self.needs in ("all", "x") else None,
            "dw": [dw] * self.p if self.needs in ("all", "weights") else None,
            "db": [db] * self.p if self.bias and self.needs in ("all", "weights", "bias") else None,
        }

    def _windows(self, image):
        halo, shape = self.kernel // 2, (self.kernel, self.kernel)
        padded = np.pad(image, ((0, 0), (0, 0), (halo, halo), (halo, halo)))
        return np.lib.stride_tricks.sliding_window_view(padded, shape, axis=(2, 3))

    # -- what the docstring allows -----------------------------------------------------------------

    def halo_bytes(self, rank, channels):
        """What a rank may send its neighbours, of so many channels."""
        neighbours = (rank > 0) + (rank < self.p - 1)
        elements = self.batch * channels * (self.kernel // 2) * self.width
        return neighbours * elements * ITEMSIZE[self.dtype]

    @property
    def summed_bytes(self):
        """Of the gradients that are summed over the ranks."""
        c_in, c_out = self.channels
        weight = c_out * c_in * self.kernel**2 * (self.needs in ("all", "weights"))
        bias = c_out * (self.bias and self.needs in ("all", "weights", "bias"))
        return (weight + bias) * ITEMSIZE[self.dtype]

    @property
    def allowed_bytes(self):
        """What each rank may send in both passes, an all-reduce as a ring's."""
        p, (c_in, c_out) = self.p, self.channels
        backward = max(c_in, c_out) * (self.needs in ("all", "x"))
        ring = 2 * (p - 1) / p * self.summed_bytes
        return [
            self.halo_bytes(rank, c_in) + self.halo_bytes(rank, backward) + ring
            for rank in range(p)
        ]

    def check_moved(self, run):
        """Each rank sent and received its halos and one all-reduce at most."""
        what = "a halo forward, a halo backward, and one all-reduce of the weights' gradients"
        for rank, nbytes in enumerate(self.allowed_bytes):
            assert_moved(run, nbytes + 0.5, self, what, rank=rank)

    def check_parts(self, run, parts):
        super().check_parts(run, parts)
        if hasattr(run, "trace") and self.p > 1:  # real ranks have none
            self.check_peers(run, ends=True)

    def check_collective(self, record):
        nbytes = self.summed_bytes
        if record.nbytes and (record.name != "allreduce" or record.nbytes > nbytes):
            raise self.fail(
                f"the library's {record.name} moved {record.nbytes} bytes; rows travel point to "
                f"point, and one all-reduce of {nbytes} bytes sums the gradients."
            )

    def check_peers(self, run, ends=False):
        """Messages went to neighbours only; with ``ends`` the image's two are neighbours, too."""
        world = list(run.members or range(self.p))
        allowed = [set() for _ in range(run.world_size)]
        for rank, member in enumerate(world):
            allowed[member] = {world[r] for r in (rank - 1, rank + 1) if 0 <= r < self.p}
        if ends and self.p > 1:
            allowed[world[0]].add(world[-1])
            allowed[world[-1]].add(world[0])
        assert_peers(run, allowed, self, "halo rows travel between neighbours")

    @property
    def num_flops(self):
        """Of a pass, of all ranks together."""
        c_in, c_out = self.channels
        rows = self.batch * sum(self.all_heights)
        return 2 * c_in * c_out * self.kernel**2 * rows * self.width

    def takes_s(self):
        """A halo; and with gradients the work, another halo and the all-reduce."""
        machine, p = machine_of(self), self.p
        alpha_s, beta = machine.alpha_s, machine.beta_s_per_byte
        if self.needs == "none":
            return alpha_s + self.halo_bytes(1, self.channels[0]) * beta
        ring_s = 2 * (p - 1) * (alpha_s + -(-self.summed_bytes // p) * beta)
        halos_s = 2 * (alpha_s + self.halo_bytes(1, max(self.channels)) * beta)
        return 3 * self.num_flops / p / machine.flop_per_s + ring_s + halos_s


@dataclass(frozen=True)
class MeasuredConv2d(Conv2d):
    """The same, for runs and jobs."""

    target = "checks/inside_torch.py:convolved"
    through = ""


@dataclass(frozen=True)
class RefusedConv(Refused):
    """``conv2d`` with such a kernel and height."""

    target = "conv_torch:conv2d"
    through = "checks/inside_torch.py:refused_conv"
    kernel: int = 2
    height: int = 4

    def inputs(self, rank):
        return self.kernel, self.height


# -- ulysses_torch ---------------------------------------------------------------------------------

RESULT, GRADIENTS = ("y",), ("dq", "dk", "dv")


@dataclass(frozen=True)
class Ulysses(Tensors):
    """``attention`` and its gradients.

    Attributes:
        n: positions of a rank.
        kv_heads: 0: as many as heads.
        sees: "before": a query sees keys up to its own position; "near": keys at most two
            positions away.
        backward: whether there is a backward pass.
    """

    target = "ulysses_torch:attention"
    through = "checks/inside_torch.py:dealt_out"
    titles: ClassVar = {
        "y": "result", "dq": "gradient of q", "dk": "gradient of k", "dv": "gradient of v",
    }  # fmt: skip
    shares = (RESULT, GRADIENTS)
    n: int = 3
    batch: int = 1
    heads: int = 4
    kv_heads: int = 0
    width: int = 3
    sees: str = "before"
    backward: bool = True

    @functools.cached_property
    def whole(self):
        """Queries, keys, values and the gradient of the result, of the whole sequence."""
        rng, length, kv_heads = self.rng(), self.p * self.n, self.kv_heads or self.heads
        counts = (self.heads, kv_heads, kv_heads, self.heads)
        shapes = [(self.batch, count, length, self.width) for count in counts]
        return [self.cast(rng.standard_normal(shape)) for shape in shapes]

    def positions(self, whole):
        """Each rank's positions."""
        return [np.ascontiguousarray(each) for each in np.split(whole, self.p, axis=2)]

    def inputs(self, rank):
        own = [self.positions(each)[rank] for each in self.whole]
        return *own, self.sees, self.backward, self.how, self.dtype

    @functools.cached_property
    def rights(self):
        q, k, v, dy = (each.astype("float64") for each in self.whole)
        dy = np.ones_like(dy) if self.how == "sum" else dy
        group = q.shape[1] // k.shape[1]
        k, v = (np.repeat(each, group, axis=1) for each in (k, v))
        behind = np.subtract.outer(np.arange(q.shape[2]), np.arange(q.shape[2]))
        hidden = behind < 0 if self.sees == "before" else np.abs(behind) > 2
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(self.width)
        scores[..., hidden] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        dweights = dy @ v.swapaxes(-1, -2)
        dscores = weights * (dweights - (weights * dweights).sum(axis=-1, keepdims=True))
        dscores /= np.sqrt(self.width)
        dq, dk = dscores @ k, dscores.swapaxes(-1, -2) @ q
        dk, dv = (
            each.reshape(self.batch, -1, group, *each.shape[2:]).sum(axis=2)
            for each in (dk, weights.swapaxes(-1, -2) @ dy)
        )
        times = 3 if self.how == "together" else 1  # the second call has 2 v
        gradients = dict.fromkeys(GRADIENTS)
        if self.backward:
            found = zip(GRADIENTS, (dq, dk, dv), strict=True)
            gradients = {name: self.positions(times * each) for name, each in found}
        return {"y": self.positions(weights @ v), **gradients}

    def check_collective(self, record):
        if record.nbytes and record.name != "alltoall":
            raise self.fail(f"the library's {record.name} was called; only the all-to-all may be.")

    # -- what the docstring allows -----------------------------------------------------------------

    @property
    def allowed_bytes(self):
        """What a rank may send in the passes that are made."""
        heads = 2 * (self.heads + (self.kv_heads or self.heads))
        once = self.batch * heads * self.width * self.n * (self.p - 1) / self.p
        return (2 if self.backward else 1) * once * ITEMSIZE[self.dtype]

    def check_moved(self, run):
        """Each rank sent and received so many bytes at most, an all-to-all as its messages."""
        what = "q, k, v and the result travel once in each pass, and a rank's own part stays"
        assert_moved(run, self.allowed_bytes + 0.5, self, what)

    @property
    def num_flops(self):
        """Of the two products of attention on all heads, in the passes that are made."""
        length = self.p * self.n
        once = 4 * self.batch * self.heads * length * length * self.width
        return (3 if self.backward else 1) * once

    def check_work(self, run):
        """Each rank did its share of the products."""
        share = self.num_flops / self.p
        for rank, done in enumerate(run.num_flops()):
            if not share * (1 - 1e-9) <= done <= share * (1 + 1e-9):
                raise self.fail(
                    f"rank {rank} counted {done:.6g} floating-point operations of matrix "
                    f"products; its heads take {share:.6g}."
                )

    def takes_s(self):
        """A part of the work, and 8 all-to-alls."""
        machine, p = machine_of(self), self.p
        nbytes = self.heads * self.width * self.n * ITEMSIZE[self.dtype] / p
        exchanges_s = 8 * (p - 1) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)
        return self.num_flops / p / machine.flop_per_s + exchanges_s


@dataclass(frozen=True)
class MeasuredUlysses(Ulysses):
    """The same, for runs and jobs."""

    target = "checks/inside_torch.py:dealt_out"
    through = ""


@dataclass(frozen=True)
class RefusedUlysses(Refused):
    """``attention`` with heads that two ranks can't share."""

    target = "ulysses_torch:attention"
    through = "checks/inside_torch.py:refused_ulysses"
    heads: int = 3
    kv_heads: int = 3

    def inputs(self, rank):
        return self.heads, self.kv_heads
