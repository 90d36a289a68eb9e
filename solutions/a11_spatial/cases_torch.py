"""Calls of the torch modules, as the tests make them, and when values agree: supplied.

A ``Call`` is what a verdict is about: its words, and the line that runs the same thing.
"""

from dataclasses import dataclass

import numpy as np

from ringside.checking import Call, assert_peers, assert_ran

TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 0.03}
ITEMSIZE = {"float64": 8, "float32": 4, "bfloat16": 2}

# -- conv_torch ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConvTorchCase(Call):
    """A call of ``conv_torch.conv2d``; its inputs come from ``seed``."""

    heights: tuple = ()
    batch: int = 1
    channels: tuple = (2, 3)
    width: int = 5
    kernel: int = 3
    with_bias: bool = True
    needs: str = "all"
    how: str = "plain"
    kind: str = "float64"  # the dtype on the ranks
    seed: int = 0

    def inputs(self):
        """Image, weight, bias or None, and the gradient of the whole result."""
        rng = np.random.default_rng(self.seed)
        c_in, c_out = self.channels
        rows = sum(self.heights)
        drawn = [
            rng.standard_normal((self.batch, c_in, rows, self.width)),
            rng.standard_normal((c_out, c_in, self.kernel, self.kernel)),
            rng.standard_normal(c_out),
            rng.standard_normal((self.batch, c_out, rows, self.width)),
        ]
        kind = "float32" if self.kind == "bfloat16" else self.kind
        x, weight, bias, dy = (_rounded(each.astype(kind), self.kind) for each in drawn)
        return x, weight, bias if self.with_bias else None, dy

    def rows(self, whole):
        """Each rank's rows of an image."""
        return np.split(whole, np.cumsum(self.heights)[:-1], axis=2)

    def arguments_of_ranks(self):
        """What ``callers_torch.conv_torch_called`` gets on each rank, after ``group``."""
        x, weight, bias, dy = self.inputs()
        more = self.needs, self.how, self.kind
        return [
            (np.ascontiguousarray(own), weight, bias, np.ascontiguousarray(gradient), *more)
            for own, gradient in zip(self.rows(x), self.rows(dy), strict=True)
        ]

    def halo_bytes(self, rank, channels):
        """What a rank may send its neighbours, of so many channels."""
        neighbours = (rank > 0) + (rank < self.world_size - 1)
        elements = self.batch * channels * (self.kernel // 2) * self.width
        return neighbours * elements * ITEMSIZE[self.kind]

    @property
    def summed_bytes(self):
        """Of the gradients that are summed over the ranks."""
        c_in, c_out = self.channels
        weight = c_out * c_in * self.kernel**2 * (self.needs in ("all", "weights"))
        bias = c_out * (self.with_bias and self.needs in ("all", "weights", "bias"))
        return (weight + bias) * ITEMSIZE[self.kind]

    def allowed_bytes(self, rank):
        """What a rank may send in both passes, an all-reduce as a ring's."""
        p, (c_in, c_out) = self.world_size, self.channels
        forward = self.halo_bytes(rank, c_in)
        backward = self.halo_bytes(rank, max(c_in, c_out)) * (self.needs in ("all", "x"))
        return forward + backward + 2 * (p - 1) / p * self.summed_bytes


def conv_torch_case(
    heights, rng, *, batch=1, channels=(2, 3), width=5, kernel=3, bias=True, needs="all",
    how="plain", kind="float64",
):  # fmt: skip
    """``conv_torch.conv2d`` on ``len(heights)`` ranks; ``rng`` gives the seed."""
    seed, p = int(rng.integers(2**31)), len(heights)
    words = [
        f"--heights '{list(heights)}' --batch {batch} --channels '{list(channels)}'",
        f"--width {width} --kernel {kernel} --seed {seed}",
        *([] if bias else ["--bias False"]),
        *([f"--needs {needs}"] if needs != "all" else []),
        *([f"--how {how}"] if how != "plain" else []),
        *([f"--kind {kind}"] if kind != "float64" else []),
    ]
    same = len(set(heights)) == 1
    shown = f"{p} parts of {heights[0]} rows" if same else f"parts of {list(heights)} rows"
    how_shown = {
        "gaps": "tensors with gaps",
        "sum": "the gradient of a sum",
        "together": "two calls, then two backward passes",
    }
    needs_shown = {
        "x": "weights are frozen",
        "weights": "x is data",
        "bias": "only the bias is trained",
        "none": "forward only",
    }
    more = [
        f"{channels[0]} to {channels[1]} channels, w = {width}, k = {kernel}, {kind}",
        *(["no bias"] if not bias else []),
        *filter(None, [how_shown.get(how), needs_shown.get(needs)]),
    ]
    return ConvTorchCase(
        "conv_torch:conv2d", p, sum(heights), "float32" if kind == "bfloat16" else kind,
        about=f"{shown}, {', '.join(more)}",
        line=f"ringside run callers_torch.py:conv_torch_called --ranks {p} -- {' '.join(words)}",
        heights=tuple(heights), batch=batch, channels=tuple(channels), width=width, kernel=kernel,
        with_bias=bias, needs=needs, how=how, kind=kind, seed=seed,
    )  # fmt: skip


CONV_TORCH_REFUSALS = ((2, 4), (5, 1))  # kernel and height


def conv_torch_refusal(kernel, height):
    """``conv2d`` with such a kernel and height, on two ranks."""
    words = f"--kernel {kernel} --height {height}"
    return Call(
        "conv_torch:conv2d", 2, 2 * height, "float32", about=f"k = {kernel}, h = {height}",
        line=f"ringside run callers_torch.py:conv_torch_refused --ranks 2 -- {words}",
    )  # fmt: skip


def conv_torch_serial(case):
    """``y, dx, dw, db`` of the whole image, in float64; None for what nobody asked for."""
    x, weight, bias, dy = (None if each is None else _wide(each) for each in case.inputs())
    halo = case.kernel // 2
    dy = np.ones_like(dy) if case.how == "sum" else dy

    def windows(image):
        padded = np.pad(image, ((0, 0), (0, 0), (halo, halo), (halo, halo)))
        shape = (case.kernel, case.kernel)
        return np.lib.stride_tricks.sliding_window_view(padded, shape, axis=(2, 3))

    seen = windows(x)
    y = np.einsum("bchwij,ocij->bohw", seen, weight)
    y = y if bias is None else y + bias[:, None, None]
    turned = weight[:, :, ::-1, ::-1]
    dx = np.einsum("bohwij,ocij->bchw", windows(dy), turned)
    dw, db = np.einsum("bchwij,bohw->ocij", seen, dy), dy.sum(axis=(0, 2, 3))
    if case.how == "together":  # the second call sees 3 x
        dx, dw, db = 4 * dx, 4 * dw, 2 * db
    return (
        y,
        dx if case.needs in ("all", "x") else None,
        dw if case.needs in ("all", "weights") else None,
        db if case.with_bias and case.needs in ("all", "weights", "bias") else None,
    )


def assert_conv_torch_value(value, rank, mine, serial, case):
    """What ``callers_torch.conv_torch_called`` gave back on a rank.

    Args:
        mine: the call, a ``ConvTorchCase``.
        serial: what ``conv_torch_serial`` gives for it.
        case: what a sentence is about.
    """
    y, dx, dw, db = serial
    own = {
        "result": (value["y"], mine.rows(y)[rank]),
        "gradient of x": (value["dx"], None if dx is None else mine.rows(dx)[rank]),
        "gradient of the weight": (value["dw"], dw),
        "gradient of the bias": (value["db"], db),
    }
    for name, (found, right) in own.items():
        if right is not None:
            assert_near_torch(found, right, case, f"rank {rank}'s {name}", mine.kind)
    if value["changed"]:
        raise case.fail(f"rank {rank} changed x, weight, bias or dy; they must stay as they were.")


def assert_conv_torch(result, case):
    """All ranks' values, and no collective but the sum of gradients."""
    assert_ran(result, case)
    serial = conv_torch_serial(case)
    for rank, value in enumerate(result.values):
        assert_conv_torch_value(value, rank, case, serial, case.seen_in(result))
    assert_conv_torch_collectives(result, case, case.summed_bytes)


def assert_conv_torch_collectives(result, case, nbytes):
    """Images and their gradients didn't travel by a collective; no groups were made.

    Args:
        nbytes: of the gradients that are summed.
    """
    case = case.seen_in(result).asking(f"halos={nbytes}")
    for record in getattr(result, "collectives", ()):  # real ranks have none
        if record.name != "allreduce" or record.nbytes > nbytes:
            raise case.fail(
                f"the library's {record.name} moved {record.nbytes} bytes; rows travel point to "
                f"point, and one all-reduce of {nbytes} bytes sums the gradients."
            )
    if getattr(result, "comm_calls", ()):
        raise case.fail("groups were made; none is allowed.")


def assert_conv_torch_peers(result, case):
    """Messages went to neighbours only."""
    members = list(result.members or range(case.world_size))
    allowed = [set() for _ in range(result.world_size)]
    for rank, member in enumerate(members):
        allowed[member] = {members[k] for k in (rank - 1, rank + 1) if 0 <= k < len(members)}
    assert_peers(result, allowed, case, "halo rows travel between neighbours")


# -- what several modules need ---------------------------------------------------------------------


def _wide(array):
    return array.astype("float64")


def _rounded(array, kind):
    """Rounded to bfloat16, if that is the dtype on the ranks."""
    if kind != "bfloat16":
        return array
    return (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def assert_near_torch(value, wanted, case, what, kind="float64"):
    """An array of the right dtype and shape, close to what is expected in the Frobenius norm."""
    wanted = np.asarray(wanted)
    if not isinstance(value, np.ndarray):
        shown = "None" if value is None else f"of type {type(value).__name__}"
        raise case.fail(f"{what} is {shown}; it must be a tensor.")
    dtype = "float32" if kind == "bfloat16" else kind
    if value.shape != wanted.shape or str(value.dtype) != dtype:
        raise case.fail(
            f"{what} has shape {value.shape} and dtype {value.dtype}; it must have "
            f"{wanted.shape} and {dtype}."
        )
    with np.errstate(all="ignore"):  # what comes back may be anything, infinities too
        off = np.linalg.norm((value.astype("float64") - wanted).ravel())
    size, allowed = max(1.0, float(np.linalg.norm(wanted.ravel()))), TOLERANCE[kind]
    if not off <= allowed * size:  # a NaN is wrong too
        raise case.fail(
            f"{what} is wrong by {off / size:.1e} of its size (the Frobenius norm, {size:.6g}); "
            f"at most {allowed:g} is allowed."
        )
