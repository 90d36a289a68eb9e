"""The calls of lowbit.py that the tests make, and how far off their results may be."""

from dataclasses import dataclass, field

import numpy as np

from ringside.checking import assert_array, assert_ran
from ringside.checking.cases import Case, machine_of

# What sentences call a kind of numbers, and what helps where they come out wrong.
KINDS = {
    "even": ("", "Read each number as its code times its block's scale, and only then add."),
    "uneven": ("uneven blocks", "Give each block a scale of its own."),
    "alike": ("numbers of one sign", "Quantise a sum once a node, not at each hop of a ring."),
    "zeros": ("blocks of zeros", "Their scale is 0: don't divide by it."),
    "special": ("NaN and infinities", "Let a scale that isn't finite arrive, too."),
}


@dataclass(frozen=True)
class LowBit(Case):
    """A call on vectors of n elements, of which all are near with ``check_exactly``, and else half.

    Attributes:
        kind: "even": from -1 to 1, with a 1 in each block; "uneven": up to 0.001, 1 or 1000, by
            blocks; "alike": from 0.5 to 1, so that sums grow; "zeros": most blocks are zeros;
            "special": like "even", with NaN and infinities.
    """

    n: int = 32
    bits: int = 8
    block: int = 16
    kind: str = "even"
    machine: str = field(default="buffered", kw_only=True)

    def vector(self, rank):
        """A rank's vector."""
        rng = self.rng(rank)
        x = rng.uniform(0.5 if self.kind == "alike" else -1, 1, self.n)
        place = np.arange(self.n) % max(1, self.size)  # in its shard
        block = place // self.block
        if self.kind in ("even", "special"):
            x[place % self.block == 0] = 1
        if self.kind == "uneven":
            x *= 1000.0 ** (block % 3 - 1)
        if self.kind == "zeros":
            x[block != 1] = 0
        if self.kind == "special":
            x[[0, -1]] = [(np.nan, np.inf), (np.inf, -np.inf)][rank % 2]
        return x.astype("float32")

    @property
    def vectors(self):
        return np.array([self.vector(rank) for rank in range(self.p)], "float64")

    def peaks(self, shards):
        """Per element of some shards, the last axis, the largest magnitude in its block."""
        starts = np.arange(0, shards.shape[-1], self.block)
        peaks = np.maximum.reduceat(np.abs(shards), starts, axis=-1)
        return peaks.repeat(self.block, axis=-1)[..., : shards.shape[-1]]

    @property
    def half_a_step(self):
        """Of a code, for numbers up to 1."""
        return 0.5 / (2 ** (self.bits - 1) - 1)

    @property
    def w(self):
        """Bytes of a shard's codes and scales."""
        return -(-self.size * self.bits // 8) + 4 * -(-self.size // self.block)

    @property
    def told(self):
        words = [f"n = {self.n}", f"{self.bits} bits", f"blocks of {self.block}"]
        return ", ".join(filter(None, [*words, KINDS[self.kind][0]]))

    def check(self, run):
        """Each element is as near as the docstring says."""
        assert_ran(run, self)
        bounds = self.bounds()
        for rank, (value, (right, allowed)) in enumerate(zip(run.values, bounds, strict=True)):
            what = f"rank {rank}'s result"
            if getattr(value, "dtype", None) != "float32" or np.shape(value) != right.shape:
                assert_array(value, right.astype("float32"), None, self, what)
            wrong = too_far(value, right, allowed)
            if not self.exact and wrong.sum() <= wrong.size / 2:
                wrong &= (right == 0) & (self.kind == "zeros")
            if not wrong.any():
                continue
            k = int(np.argmax(wrong))
            must = f"must be {right[k]:.6g} within {allowed[k]:.3g}"
            if not np.isfinite(allowed[k]):
                must = f"can't be finite where the right number is {right[k]}"
            like = [r for r, other in enumerate(bounds) if not too_far(value, *other).any()]
            cure = (
                f"That is rank {like[0]}'s part."
                if like and right.size > 3
                else KINDS[self.kind][1]
            )
            raise self.fail(
                f"{what} is too far off in {wrong.sum()} of {value.size} elements: element {k} is "
                f"{value[k]:.6g}; it {must}. {cure}"
            )


def too_far(value, right, allowed):
    """Where numbers are further off than is allowed; in blocks with NaN, where it is lost."""
    with np.errstate(invalid="ignore"):
        off = ~(np.abs(value - right) <= allowed)
    return np.where(np.isfinite(allowed), off, ~np.isfinite(right) & np.isfinite(value))


@dataclass(frozen=True)
class Gathered(LowBit):
    """All shards, of n elements each."""

    target = "lowbit:all_gather"

    @property
    def size(self):
        return self.n

    def inputs(self, rank):
        return self.vector(rank), self.bits, self.block

    def bounds(self):
        shards = self.vectors
        allowed = self.peaks(shards) * (self.half_a_step + 1e-6)
        return [(shards.ravel(), allowed.ravel())] * self.p

    @property
    def nbytes(self):
        """Of each rank."""
        return (self.p - 1) * self.w

    @property
    def time_s(self):
        machine = machine_of(self)
        return (self.p - 1) * (machine.alpha_s + self.w * machine.beta_s_per_byte)


@dataclass(frozen=True)
class Scattered(LowBit):
    """Each rank's part of the sum of gradients of n elements."""

    target = "lowbit:reduce_scatter"
    per_node: int = field(default=2, kw_only=True)

    @property
    def size(self):
        return -(-self.n // self.p)

    @property
    def num_nodes(self):
        return self.p // self.per_node

    @property
    def told(self):
        return f"{super().told}, {self.per_node} a node"

    def inputs(self, rank):
        return self.vector(rank), self.bits, self.block, self.per_node

    def bounds(self):
        """A node's sum is off by the first hop, and its largest magnitude, too."""
        padded = np.pad(self.vectors, [(0, 0), (0, self.p * self.size - self.n)])
        parts = padded.reshape(self.p, self.p, self.size)  # (from rank, part, s)
        with np.errstate(invalid="ignore"):
            nodes = parts.reshape(self.num_nodes, self.per_node, self.p, self.size).sum(axis=1)
            peaks = self.peaks(parts).sum(axis=0)
            first = self.half_a_step * peaks
            second = self.half_a_step * (self.peaks(nodes).sum(axis=0) + first)
            return list(zip(nodes.sum(axis=0), first + second + 1e-6 * peaks, strict=True))

    @property
    def nbytes(self):
        """Of each rank."""
        return sum(self.level_nbytes)

    @property
    def level_nbytes(self):
        """Of each rank, inside its node and to other nodes."""
        inside = (self.per_node - 1) * self.num_nodes * self.w
        return inside, (self.num_nodes - 1) * self.w

    @property
    def time_s(self):
        machine, inside_nbytes = machine_of(self), self.num_nodes * self.w
        inside_s = machine.intra_alpha_s + inside_nbytes * machine.intra_beta_s_per_byte
        between_s = machine.alpha_s + self.per_node * self.w * machine.beta_s_per_byte
        return (self.per_node - 1) * inside_s + (self.num_nodes - 1) * between_s
