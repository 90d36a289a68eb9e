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


def assert_conv_torch_value(value, rank, mine, serial, case, parts=("y", "dx", "dw", "db")):
    """What ``callers_torch.conv_torch_called`` gave back on a rank.

    Args:
        mine: the call, a ``ConvTorchCase``.
        serial: what ``conv_torch_serial`` gives for it.
        case: what a sentence is about.
        parts: which of y, dx, dw and db are compared.
    """
    y, dx, dw, db = serial
    own = {
        "y": ("result", mine.rows(y)[rank]),
        "dx": ("gradient of x", None if dx is None else mine.rows(dx)[rank]),
        "dw": ("gradient of the weight", dw),
        "db": ("gradient of the bias", db),
    }
    for part in parts:
        name, right = own[part]
        if right is not None:
            assert_near_torch(value[part], right, case, f"rank {rank}'s {name}", mine.kind)
    if value["changed"]:
        raise case.fail(f"rank {rank} changed x, weight, bias or dy; they must stay as they were.")


def assert_conv_torch(result, case, parts=("y", "dx", "dw", "db")):
    """All ranks' values, and no collective but the sum of gradients."""
    assert_ran(result, case)
    serial = conv_torch_serial(case)
    for rank, value in enumerate(result.values):
        assert_conv_torch_value(value, rank, case, serial, case.seen_in(result), parts)
    assert_conv_torch_collectives(result, case, case.summed_bytes)


def assert_conv_torch_collectives(result, case, nbytes):
    """Images and their gradients didn't travel by a collective; no groups were made.

    Args:
        nbytes: of the gradients that are summed.
    """
    case = case.seen_in(result).asking(f"conv_torch_halos={nbytes}")
    for record in getattr(result, "collectives", ()):  # real ranks have none
        if record.nbytes and (record.name != "allreduce" or record.nbytes > nbytes):
            raise case.fail(
                f"the library's {record.name} moved {record.nbytes} bytes; rows travel point to "
                f"point, and one all-reduce of {nbytes} bytes sums the gradients."
            )
    if getattr(result, "comm_calls", ()):
        raise case.fail("groups were made; none is allowed.")


def assert_conv_torch_peers(result, case, ends=False):
    """Messages went to neighbours only; with ``ends`` the image's two ends are neighbours, too."""
    members = list(result.members or range(case.world_size))
    allowed = [set() for _ in range(result.world_size)]
    for rank, member in enumerate(members):
        allowed[member] = {members[k] for k in (rank - 1, rank + 1) if 0 <= k < len(members)}
    if ends:
        allowed[members[0]].add(members[-1])
        allowed[members[-1]].add(members[0])
    assert_peers(result, allowed, case, "halo rows travel between neighbours")


# -- ulysses_torch ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class UlyssesTorchCase(Call):
    """A call of ``ulysses_torch.attention``; its inputs come from ``seed``; ``n`` for each rank."""

    batch: int = 1
    heads: int = 4
    kv_heads: int = 4
    width: int = 3
    sees: str = "before"
    backward: bool = True
    how: str = "plain"
    kind: str = "float64"  # the dtype on the ranks
    seed: int = 0

    def inputs(self):
        """Queries, keys, values and the gradient of the result, of the whole sequence."""
        rng = np.random.default_rng(self.seed)
        length = self.world_size * self.n
        counts = (self.heads, self.kv_heads, self.kv_heads, self.heads)
        kind = "float32" if self.kind == "bfloat16" else self.kind
        return [
            _rounded(
                rng.standard_normal((self.batch, count, length, self.width)).astype(kind), self.kind
            )
            for count in counts
        ]

    def positions(self, whole):
        """Each rank's positions."""
        return np.split(whole, self.world_size, axis=2)

    def arguments_of_ranks(self):
        """What ``callers_torch.ulysses_torch_called`` gets on each rank, after ``group``."""
        parts = zip(*map(self.positions, self.inputs()), strict=True)
        more = self.sees, self.backward, self.how, self.kind
        return [(*(np.ascontiguousarray(each) for each in own), *more) for own in parts]

    @property
    def allowed_bytes(self):
        """What a rank may send in the passes that are made."""
        p = self.world_size
        once = self.batch * 2 * (self.heads + self.kv_heads) * self.width * self.n * (p - 1) / p
        return (2 if self.backward else 1) * once * ITEMSIZE[self.kind]

    @property
    def num_flops(self):
        """Of the two products of attention on all heads, in the passes that are made."""
        length = self.world_size * self.n
        once = 4 * self.batch * self.heads * length * length * self.width
        return (3 if self.backward else 1) * once


def ulysses_torch_case(
    p, n, rng, *, batch=1, heads=4, kv_heads=None, width=3, sees="before", backward=True,
    how="plain", kind="float64",
):  # fmt: skip
    """``ulysses_torch.attention`` on p ranks with n positions each; ``rng`` gives the seed."""
    seed, kv_heads = int(rng.integers(2**31)), heads if kv_heads is None else kv_heads
    words = [
        f"--n {n} --batch {batch} --heads {heads} --kv-heads {kv_heads} --width {width}",
        f"--seed {seed}",
        *([f"--sees {sees}"] if sees != "before" else []),
        *([] if backward else ["--backward False"]),
        *([f"--how {how}"] if how != "plain" else []),
        *([f"--kind {kind}"] if kind != "float64" else []),
    ]
    how_shown = {
        "gaps": "tensors with gaps",
        "sum": "the gradient of a sum",
        "together": "two calls, then two backward passes",
    }
    more = [
        f"batch {batch}, {heads} heads of width {width}, {kind}",
        *([f"{kv_heads} of k and v"] if kv_heads != heads else []),
        *(["queries see near keys only"] if sees == "near" else []),
        *([] if backward else ["forward only"]),
        *filter(None, [how_shown.get(how)]),
    ]
    return UlyssesTorchCase(
        "ulysses_torch:attention", p, n, "float32" if kind == "bfloat16" else kind,
        about=f"n = {n} a rank, {', '.join(more)}",
        line=f"ringside run callers_torch.py:ulysses_torch_called --ranks {p} -- {' '.join(words)}",
        batch=batch, heads=heads, kv_heads=kv_heads, width=width, sees=sees, backward=backward,
        how=how, kind=kind, seed=seed,
    )  # fmt: skip


ULYSSES_TORCH_PARTS = ("y", "dq", "dk", "dv")
ULYSSES_TORCH_REFUSALS = ((3, 3), (4, 1))  # heads and kv_heads, on two ranks


def ulysses_torch_refusal(heads, kv_heads):
    """``attention`` with heads that two ranks can't share."""
    words = f"--heads {heads} --kv-heads {kv_heads}"
    return Call(
        "ulysses_torch:attention", 2, 2, "float32", about=f"{heads} heads, {kv_heads} of k and v",
        line=f"ringside run callers_torch.py:ulysses_torch_refused --ranks 2 -- {words}",
    )  # fmt: skip


def ulysses_torch_serial(case):
    """``y, dq, dk, dv`` of the whole sequence, in float64."""
    q, k, v, dy = map(_wide, case.inputs())
    dy = np.ones_like(dy) if case.how == "sum" else dy
    group = case.heads // case.kv_heads
    k, v = (np.repeat(each, group, axis=1) for each in (k, v))
    place = np.arange(q.shape[2])
    behind = place[:, None] - place
    hidden = behind < 0 if case.sees == "before" else np.abs(behind) > 2
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(case.width)
    scores[..., hidden] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    dv = weights.swapaxes(-1, -2) @ dy
    dweights = dy @ v.swapaxes(-1, -2)
    dscores = weights * (dweights - (weights * dweights).sum(axis=-1, keepdims=True))
    dscores /= np.sqrt(case.width)
    dq, dk = dscores @ k, dscores.swapaxes(-1, -2) @ q
    dk, dv = (
        each.reshape(case.batch, case.kv_heads, group, *each.shape[2:]).sum(axis=2)
        for each in (dk, dv)
    )
    times = 3 if case.how == "together" else 1  # the second call has 2 v
    return weights @ v, times * dq, times * dk, times * dv


def assert_ulysses_torch_value(value, rank, mine, serial, case, parts=ULYSSES_TORCH_PARTS):
    """What ``callers_torch.ulysses_torch_called`` gave back on a rank.

    Args:
        mine: the call, a ``UlyssesTorchCase``.
        serial: what ``ulysses_torch_serial`` gives for it.
        case: what a sentence is about.
        parts: which of y, dq, dk and dv are compared.
    """
    names = ("result", "gradient of q", "gradient of k", "gradient of v")
    for key, name, right in zip(ULYSSES_TORCH_PARTS, names, serial, strict=True):
        if key in parts and (key == "y" or mine.backward):
            own = mine.positions(right)[rank]
            assert_near_torch(value[key], own, case, f"rank {rank}'s {name}", mine.kind)
    if value["changed"]:
        raise case.fail(f"rank {rank} changed q, k, v or dy; they must stay as they were.")


def assert_ulysses_torch(result, case, parts=ULYSSES_TORCH_PARTS):
    """All ranks' values, and no collective but the all-to-all."""
    assert_ran(result, case)
    serial = ulysses_torch_serial(case)
    for rank, value in enumerate(result.values):
        assert_ulysses_torch_value(value, rank, case, serial, case.seen_in(result), parts)
    assert_ulysses_torch_collectives(result, case)


def assert_ulysses_torch_collectives(result, case):
    """No collective but the all-to-all; no groups were made."""
    case = case.seen_in(result).asking("all_to_all")
    for record in getattr(result, "collectives", ()):  # real ranks have none
        if record.nbytes and record.name != "alltoall":
            raise case.fail(f"the library's {record.name} was called; only the all-to-all may be.")
    if getattr(result, "comm_calls", ()):
        raise case.fail("groups were made; none is allowed.")


def assert_ulysses_torch_work(result, case, num_flops):
    """Each rank did its share of the products.

    Args:
        num_flops: of one rank.
    """
    case = case.seen_in(result).asking(f"shared_work={num_flops:.12g}")
    for rank, done in enumerate(result.num_flops()):
        if not num_flops * (1 - 1e-9) <= done <= num_flops * (1 + 1e-9):
            raise case.fail(
                f"rank {rank} counted {done:.6g} floating-point operations of matrix products; "
                f"its heads take {num_flops:.6g}."
            )


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
