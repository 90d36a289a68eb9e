"""Calls of this assignment's functions, as the tests make them: supplied, nothing to write.

A ``Call`` is what a verdict is about: its words, and the line that runs the same thing.
"""

from dataclasses import dataclass, replace

import numpy as np

from ringside.checking import Call

# -- ring_attention --------------------------------------------------------------------------------


@dataclass(frozen=True)
class RingAttentionCase(Call):
    """A call of ``ring_attention.attention``; its inputs come from ``seed``."""

    lengths: tuple = ()
    batch: int = 1
    heads: int = 2
    kv_heads: int = 2
    width: int = 4
    causal: bool = False
    kind: str = "usual"
    seed: int = 0
    nan_of: int | None = None  # a key of this rank is not a number

    def inputs(self):
        """Queries, keys and values of the whole sequence, shape (batch, heads, N, width)."""
        return ring_attention_inputs(
            self.lengths, self.batch, self.heads, self.kv_heads, self.width, self.kind,
            self.seed, self.dtype, self.nan_of,
        )  # fmt: skip

    def arguments_of_ranks(self):
        """What ``attention`` gets on each rank, after ``comm``."""
        cuts = np.cumsum(self.lengths)[:-1]
        parts = [np.split(whole, cuts, axis=2) for whole in self.inputs()]
        given = list(self.lengths), self.causal
        return [
            (*(np.ascontiguousarray(each) for each in own), *given)
            for own in zip(*parts, strict=True)
        ]

    @property
    def block_nbytes(self):
        """Bytes of keys and values of the longest part."""
        return self._nbytes(max(self.lengths))

    @property
    def allowed_bytes(self):
        """What a rank may send: keys and values of all parts but the shortest."""
        return self._nbytes(sum(self.lengths) - min(self.lengths))

    def _nbytes(self, positions):
        per_position = 2 * self.batch * self.kv_heads * self.width
        return per_position * positions * np.dtype(self.dtype).itemsize

    def called_through(self, function, more=""):
        """The same through a function of ``callers.py``."""
        _, _, rest = self.line.removeprefix("ringside run ").partition(" ")
        return replace(self, line=f"ringside run callers.py:{function} {rest}{more}")

    def looked_at(self):
        """The same, called twice with arrays that have gaps."""
        again = self.called_through("ring_attention_looked_at")
        return replace(again, about=f"{self.about}, called twice")


def ring_attention_case(
    lengths, rng, *, batch=1, heads=2, kv_heads=None, width=4, causal=False, kind="usual",
    dtype="float64", nan_of=None,
):  # fmt: skip
    """``ring_attention.attention`` on ``len(lengths)`` ranks; ``rng`` gives the seed."""
    seed, p = int(rng.integers(2**31)), len(lengths)
    kv_heads = heads if kv_heads is None else kv_heads
    words = [
        f"--lengths '{list(lengths)}' --batch {batch} --heads {heads} --kv-heads {kv_heads}",
        f"--width {width} --seed {seed}",
        *(["--causal True"] if causal else []),
        *([f"--kind {kind}"] if kind != "usual" else []),
        *([f"--dtype {dtype}"] if dtype != "float64" else []),
        *([f"--nan-of {nan_of}"] if nan_of is not None else []),
    ]
    shown = f"{p} parts of {lengths[0]}" if len(set(lengths)) == 1 else f"parts of {_few(lengths)}"
    more = [
        f"batch {batch}, {heads} heads of width {width}",
        *([f"{kv_heads} of k and v"] if kv_heads != heads else []),
        *(["causal"] if causal else []),
        *(["scores of thousands"] if kind == "thousands" else []),
    ]
    return RingAttentionCase(
        "ring_attention:attention", p, sum(lengths), dtype,
        about=f"{shown}, {', '.join(more)}",
        line=f"ringside run ring_attention.py:attention --ranks {p} -- {' '.join(words)}",
        lengths=tuple(lengths), batch=batch, heads=heads, kv_heads=kv_heads, width=width,
        causal=causal, kind=kind, seed=seed, nan_of=nan_of,
    )  # fmt: skip


RING_ATTENTION_REFUSALS = {  # what ``callers.ring_attention_refused`` makes wrong, on two ranks
    "heads": "3 heads of q and 2 of k and v",
    "lengths": "lengths for three ranks",
    "positions": "lengths that are not those of the arrays",
}


def ring_attention_refusal(what):
    """``attention`` with arguments that can't be right, on two ranks."""
    return Call(
        "ring_attention:attention", 2, 4, about=RING_ATTENTION_REFUSALS[what],
        line=f"ringside run callers.py:ring_attention_refused --ranks 2 -- --what {what}",
    )  # fmt: skip


def ring_attention_inputs(
    lengths, batch=1, heads=2, kv_heads=2, width=4, kind="usual", seed=0, dtype="float64",
    nan_of=None,
):  # fmt: skip
    """Queries, keys and values of the whole sequence.

    With kind "thousands" they are whole numbers, so that scores are exact: those of a query are
    about 1000 times another whole number for each rank's keys, all positive or all negative.
    """
    rng = np.random.default_rng(seed)
    shapes = [(batch, count, sum(lengths), width) for count in (heads, kv_heads, kv_heads)]
    q, k, v = (rng.standard_normal(shape) for shape in shapes)
    if kind == "thousands":
        q, k = np.rint(q), np.rint(k)
        step = 20 * np.sqrt(width)  # 20 times 50 makes 1000
        q[..., 0] = rng.choice([-step, step], size=q.shape[:3])
        k[..., 0] = 50 * np.repeat(1 + rng.permutation(len(lengths)), lengths)
    if nan_of is not None:
        k[..., sum(lengths[:nan_of]), 0] = np.nan
    return q.astype(dtype), k.astype(dtype), v.astype(dtype)


def _few(values):
    text = ", ".join(str(value) for value in values)
    return text if len(text) <= 40 else f"{text[:37]}..."
