"""Calls of the torch modules, as the tests make them, and when values agree: supplied.

A ``Call`` is what a verdict is about: its words, and the line that runs the same thing.
"""

import math

import numpy as np

from ringside import checking

TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
WHOLE_NAMES = ("norm_weight", "norm_bias", "w1", "b1", "w2", "b2")


class Call(checking.Call):
    """A call on ranks that is not of one vector; ``n`` counts rows or positions."""

    def __str__(self):
        return f"{super().__str__()}, {self.dtype}"


def operator_call(target, world_size, shape, dtype="float64", how="plain"):
    """One of the four operators; ``how`` as for ``callers_torch.operator``."""
    module, _, name = target.partition(":")
    shown = " x ".join(map(str, shape))
    more = {"plain": "", "beside": ", which is used elsewhere too"}.get(how, f", {how}")
    words = f"--target {target} --shape '{list(shape)}' --how {how} --dtype {dtype}"
    return Call(
        f"{module}:{name}", world_size, shape[0], dtype,
        about=f"x of {shown}{more}",
        line=f"ringside run callers_torch.py:try_operator --ranks {world_size} -- {words}",
    )  # fmt: skip


def pair_call(world_size, rows, widths, dtype="float64", about=""):
    """A column- and a row-parallel layer; ``widths`` are d_in, d_hidden, d_out."""
    words = f"--rows {rows} --widths '{list(widths)}' --dtype {dtype}"
    more = ", ".join(filter(None, [f"widths {', '.join(map(str, widths))}", about]))
    return Call(
        "linear_torch:ColumnLinear+RowLinear", world_size, rows, dtype,
        about=f"{rows} rows, {more}",
        line=f"ringside run callers_torch.py:try_pair --ranks {world_size} -- {words}",
    )  # fmt: skip


def block_call(world_size, positions, widths, rate=0.0, dtype="float64", about=""):
    """``SequenceBlock`` on a whole sequence; ``widths`` are d and h."""
    words = f"--positions {positions} --widths '{list(widths)}' --rate {rate} --dtype {dtype}"
    more = ", ".join(filter(None, [f"d, h = {widths[0]}, {widths[1]}, dropout {rate:g}", about]))
    return Call(
        "sequence_torch:SequenceBlock", world_size, positions, dtype,
        about=f"T = {positions}, {more}",
        line=f"ringside run callers_torch.py:try_block --ranks {world_size} -- {words}",
    )  # fmt: skip


def pair_params(rng, widths, dtype="float64", biases=True):
    """W1, b1, W2, b2 of a pair of layers; None for biases that aren't wanted."""
    d_in, d_hidden, d_out = widths
    shapes = ((d_hidden, d_in), (d_hidden,), (d_out, d_hidden), (d_out,))
    drawn = [rng.standard_normal(shape) / math.sqrt(shape[-1]) for shape in shapes]
    return [drawn[k].astype(dtype) if biases or k % 2 == 0 else None for k in range(len(shapes))]


def block_params(rng, widths, dtype="float64"):
    """The whole parameters of a ``SequenceBlock``."""
    d, h = widths
    shapes = ((d,), (d,), (h, d), (h,), (d, h), (d,))
    params = {
        name: (rng.standard_normal(shape) / math.sqrt(shape[-1])).astype(dtype)
        for name, shape in zip(WHOLE_NAMES, shapes, strict=True)
    }
    params["norm_weight"] += 1
    return params


PAIR_CUTS = (0, 0, 1, None)  # axes along which W1, b1, W2 and b2 are cut
BLOCK_CUTS = {"w1": 0, "b1": 0, "w2": 1}


def handed(whole, axis, world_size, rank):
    """A parameter as a rank is handed it: beside its own part it holds other numbers.

    So no rank has what another one must compute with.
    """
    if whole is None or axis is None:
        return whole
    given = np.random.default_rng([77, rank]).standard_normal(whole.shape).astype(whole.dtype)
    own = [slice(None)] * whole.ndim
    own[axis] = np.array_split(np.arange(whole.shape[axis]), world_size)[rank]
    given[tuple(own)] = whole[tuple(own)]
    return given


def handed_pair(params, world_size, rank):
    """``handed`` for what ``pair_params`` gives."""
    return [handed(*each, world_size, rank) for each in zip(params, PAIR_CUTS, strict=True)]


def handed_block(params, world_size, rank):
    """``handed`` for what ``block_params`` gives."""
    return {
        name: handed(each, BLOCK_CUTS.get(name), world_size, rank) for name, each in params.items()
    }


def assert_near(value, expected, call, what):
    """An array of the right dtype and shape, close to what is expected in the Frobenius norm."""
    expected = np.asarray(expected)
    if not isinstance(value, np.ndarray):
        kind = "None" if value is None else f"of type {type(value).__name__}"
        raise call.fail(f"{what} is {kind}; it must be a tensor.")
    if value.shape != expected.shape or str(value.dtype) != call.dtype:
        raise call.fail(
            f"{what} has shape {value.shape} and dtype {value.dtype}; it must have "
            f"{expected.shape} and {call.dtype}."
        )
    with np.errstate(all="ignore"):  # what comes back may be anything, infinities too
        off = np.linalg.norm((value.astype("float64") - expected).ravel())
    # A sum of few elements may be nearly 0 by chance: norms below 1 count as 1.
    size, allowed = max(1.0, np.linalg.norm(expected.ravel())), TOLERANCE[call.dtype]
    if not off <= allowed * size:  # a NaN is wrong too
        raise call.fail(
            f"{what} is wrong by {off / size:.1e} of its size (the Frobenius "
            f"norm, {size:.6g}); "
            f"at most {allowed:g} is allowed."
        )
