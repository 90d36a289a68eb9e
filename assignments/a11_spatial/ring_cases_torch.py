"""Calls of the modules of attention in parts, and what they must give: supplied.

A ``Call`` is what a verdict is about: its words, and the line that runs the same thing. ``serial``
is attention over the whole sequence, forward and backward, in NumPy on one process.
"""

from dataclasses import dataclass, replace

import numpy as np

from ringside.checking import Call, assert_array

RING, ZIGZAG = "ring_attention_torch:ring_attention", "zigzag_torch:zigzag_attention"
NAMES = ("the result", "the gradient of q", "the gradient of k", "the gradient of v")
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}


@dataclass(frozen=True)
class Attention:
    """What is computed: see the docstrings of the modules.

    Attributes:
        how: "plain"; "gaps": tensors whose elements don't lie side by side; "together": two calls,
            whose backward passes follow both forward passes, the second call's first; "forward":
            no backward pass.
        spread: the standard deviation of queries and keys.
    """

    lengths: tuple[int, ...]
    heads: int = 2
    kv_heads: int = 2
    width: int = 4
    batch: int = 2
    causal: bool = False
    dtype: str = "float64"
    how: str = "plain"
    spread: float = 1.0
    zigzag: bool = False

    @property
    def world_size(self):
        """P."""
        return len(self.lengths)

    @property
    def elements(self):
        """Elements of a position's keys: e."""
        return self.batch * self.kv_heads * self.width

    @property
    def itemsize(self):
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    def positions(self):
        """Per rank the positions of its part in the sequence."""
        if self.zigzag:
            chunks = np.split(np.arange(sum(self.lengths)), 2 * self.world_size)
            return [np.concatenate([chunks[r], chunks[-1 - r]]) for r in range(self.world_size)]
        return np.split(np.arange(sum(self.lengths)), np.cumsum(self.lengths)[:-1])

    def forward_bytes(self):
        """What a rank may send forward."""
        parts = sum(self.lengths) - min(self.lengths)
        return 2 * self.elements * parts * self.itemsize

    def backward_bytes(self):
        """What a rank may send backward."""
        if self.world_size == 1:
            return 0
        return self.forward_bytes() + 2 * self.elements * sum(self.lengths) * self.itemsize

    def block_flops(self, backward=False):
        """Two products forward and five backward of the largest block, of two FLOPs a summand."""
        pairs = max(self.lengths) ** 2 * self.batch * self.heads
        return (10 if backward else 4) * pairs * self.width

    def given(self, **others):
        """The same with some settings changed."""
        return replace(self, **others)


def attention_call(case):
    """The call that an ``Attention`` describes."""
    p, lengths = case.world_size, list(case.lengths)
    shown = str(lengths) if p < 10 else f"[{lengths[0]}] * {p}"
    module = "zigzag" if case.zigzag else "ring"
    words = [f"--lengths '{lengths}'"]
    for name in ("heads", "kv_heads", "width", "batch", "causal", "spread"):
        if getattr(case, name) != getattr(Attention, name) and not (case.zigzag and name[0] == "c"):
            words.append(f"--{name.replace('_', '-')} {getattr(case, name)}")
    words += [] if case.dtype == "float64" else [f"--precision {case.dtype}"]
    words += [] if case.how == "plain" else [f"--how {case.how}"]
    told = [
        f"parts of {shown} positions",
        f"{case.heads} heads" + (f", {case.kv_heads} of keys" * (case.kv_heads != case.heads)),
        f"width {case.width}, batch of {case.batch}",
        "causal" if case.causal and not case.zigzag else "",
        "" if case.spread == 1 else "large scores",
        "" if case.how == "plain" else case.how,
        case.dtype,
    ]
    return Call(
        ZIGZAG if case.zigzag else RING, p, sum(lengths), case.dtype,
        about=", ".join(filter(None, told)),
        line=f"ringside run ring_callers_torch.py:try_{module} --ranks {p} -- {' '.join(words)}",
    )  # fmt: skip


def sample_attention(rng, case):
    """Per rank and call ``(q, k, v, dout)``."""

    def drawn(length, heads, spread=1.0):
        shape = case.batch, heads, length, case.width
        return (spread * rng.standard_normal(shape)).astype(case.dtype)

    def part(length):
        q, k = (drawn(length, heads, case.spread) for heads in (case.heads, case.kv_heads))
        return q, k, drawn(length, case.kv_heads), drawn(length, case.heads)

    calls = 2 if case.how == "together" else 1
    return [[part(length) for length in case.lengths] for _ in range(calls)]


def serial(case, parts, factors=None):
    """Attention over the whole sequence: per rank ``(out, dq, dk, dv)``.

    Args:
        parts: per rank ``(q, k, v, dout)``.
        factors: of the blocks, in a test of order. Then the keys of a block are scaled forward,
            and ``dout`` backward, for each rank and block by others.
    """
    places, p = case.positions(), case.world_size
    parts = [tuple(each.astype("float64") for each in own) for own in parts]
    found = [[None, *(np.zeros_like(each) for each in own[:3])] for own in parts]
    group = case.heads // case.kv_heads

    def scaled(rank, phase, array):
        return array if factors is None else factors.scaled(rank, phase, 0, array)

    def scores(rank, source, rows, k):
        """Of a rank's rows; masked ones are minus infinity."""
        q = parts[rank][0][:, :, rows]
        every = q @ np.repeat(k, group, axis=1).swapaxes(2, 3) / np.sqrt(case.width)
        columns = places[source][_seen(case, rank, source)[1]]
        hidden = places[rank][rows][:, None] < columns[None, :]
        return np.where(hidden & case.causal, -np.inf, every)

    for rank, (q, _, _, dout) in enumerate(parts):
        total, out = np.full(q.shape[:3], -np.inf), np.zeros_like(q)
        for twice in range(2):  # first the logarithms of the sums, then what they weigh
            for source in range(p):
                rows, columns = _seen(case, rank, source)
                k, v = (each[:, :, columns] for each in parts[source][1:3])
                each = scores(rank, source, rows, scaled(rank, f"forward {source}", k))
                if twice:
                    weights = np.exp(each - total[:, :, rows, None])
                    out[:, :, rows] += weights @ np.repeat(v, group, axis=1)
                else:
                    sums = np.logaddexp.reduce(each, axis=-1)
                    total[:, :, rows] = np.logaddexp(total[:, :, rows], sums)
        found[rank][0] = out
        for source in range(p):
            rows, columns = _seen(case, rank, source)
            small = [each[:, :, columns] for each in parts[source][1:3]]
            k, v = (np.repeat(each, group, axis=1) for each in small)
            g = scaled(rank, f"backward {source}", dout[:, :, rows])
            weights = scores(rank, source, rows, small[0]) - total[:, :, rows, None]
            weights = np.exp(np.minimum(weights, 0))  # as in backward_block
            slope = g @ v.swapaxes(2, 3) - (g * out[:, :, rows]).sum(axis=-1, keepdims=True)
            slope = weights * slope / np.sqrt(case.width)
            found[rank][1][:, :, rows] += slope @ k
            for at, left, right in ((2, slope, q[:, :, rows]), (3, weights, g)):
                heads = left.swapaxes(2, 3) @ right
                heads = heads.reshape(case.batch, case.kv_heads, group, *heads.shape[2:])
                found[source][at][:, :, columns] += heads.sum(axis=2)
    return [tuple(one.astype(case.dtype) for one in own) for own in found]


def _seen(case, rank, source):
    """Of a block: the rank's queries and the source's keys, as slices of their parts."""
    n, m = case.lengths[rank], case.lengths[source]
    if case.zigzag and source < rank:
        return slice(0, n), slice(0, m // 2)
    if case.zigzag and source > rank:
        return slice(n // 2, n), slice(0, m)
    return slice(0, n), slice(0, m)


def check_attention(value, wanted, case, call, rank, only=range(4)):
    """What ``ring_callers_torch.ring_called`` gave back on a rank is right.

    Args:
        wanted: per call what ``serial`` gives.
        only: which of ``NAMES`` are compared, by their numbers.
    """
    only = [k for k in only if k == 0 or case.how != "forward"]
    for found, right in zip(value["calls"], wanted, strict=True):
        if len(found) <= max(only, default=0):
            raise call.fail(f"rank {rank} gave no gradients.")
        for k in only:
            _assert_near(found[k], right[rank][k], call, f"{NAMES[k]} on rank {rank}")


def _assert_near(value, right, call, what):
    if value is None:
        raise call.fail(f"{what} is missing: None.")
    rounding = 2 * (call.world_size + 1) * np.finfo(right.dtype).eps
    size = TOLERANCE[str(right.dtype)] * (1 + np.abs(right).max(initial=0)) / rounding
    assert_array(value, right, np.full(right.shape, size), call, what)


def orders_call(positions, num_ranks):
    """``split`` and ``merge`` of a sequence."""
    words = f"--positions {positions} --num-ranks {num_ranks}"
    return Call(
        "zigzag_torch:split", 1, positions,
        about=f"{positions} positions, in parts for {num_ranks} ranks",
        line=f"ringside run ring_callers_torch.py:try_orders --ranks 1 -- {words}",
    )  # fmt: skip


def check_orders(value, x, num_ranks, call):
    """Chunks r and 2 P - 1 - r, and the whole again; an error where there are no equal chunks."""
    parts, whole, error = value
    if x.shape[2] % (2 * num_ranks):
        if error != "ValueError":
            raise call.fail(f"split raised {error or 'nothing'}; it must raise ValueError.")
        return
    if error:
        raise call.fail(f"split or merge raised {error}.")
    if len(parts) != num_ranks:
        raise call.fail(f"split gave {len(parts)} parts for {num_ranks} ranks.")
    chunks = np.split(x, 2 * num_ranks, axis=2)
    for rank, part in enumerate(parts):
        right = np.concatenate([chunks[rank], chunks[-1 - rank]], axis=2)
        assert_array(part, right, None, call, f"the part of rank {rank}")
    assert_array(whole, x, None, call, "what merge makes of the parts")


def refused_call(lengths, positions):
    """``ring_attention`` with lengths that can't be right."""
    words = f"--lengths '{list(lengths)}' --positions {positions}"
    return Call(
        RING, 2, sum(lengths),
        about=f"lengths {list(lengths)}, and {positions} positions on each rank",
        line=f"ringside run ring_callers_torch.py:try_refused --ranks 2 -- {words}",
    )  # fmt: skip


def check_refused(error, call):
    """A ``ValueError``, and nothing else."""
    if error != "ValueError":
        raise call.fail(f"the call raised {error or 'nothing'}; it must raise ValueError.")


KEPT = Attention((4,) * 8, width=64, batch=1, how="forward")


def kept_call():
    """A forward pass on 8 ranks, whose memory is looked at."""
    words = f"--positions {KEPT.lengths[0]} --width {KEPT.width}"
    return Call(
        RING, 8, sum(KEPT.lengths),
        about=f"{KEPT.lengths[0]} positions each, width {KEPT.width}, forward",
        line=f"ringside run ring_callers_torch.py:try_kept --ranks 8 -- {words}",
    )  # fmt: skip


def check_kept(result, case, call):
    """Between forward and backward pass a rank keeps at most seven tensors of its part's size."""
    part = case.batch * case.heads * case.lengths[0] * case.width * case.itemsize
    for rank, memory in enumerate(result.memory):
        kept = memory["live"]["activations"] + memory["live"]["communication"]
        if kept > 7 * part + 1024:
            raise call.asking("ring_kept").fail(
                f"rank {rank} keeps {kept} bytes for the backward pass; seven tensors of its part "
                f"have {7 * part}, and the keys and values of all parts "
                f"{2 * part * case.world_size}."
            )


def check_kept_result(value, parts, case, call, rank):
    """What that forward pass gave on a rank."""
    _assert_near(value, serial(case, parts)[rank][0], call, f"the result on rank {rank}")
