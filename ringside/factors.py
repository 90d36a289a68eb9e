"""Factors of announced passes: they make the order of passes and messages an observed fact.

What a rank computes, and when, nobody outside can see. So in a test of order the supplied layers
announce each pass to the network before they compute it, and scale its input with factors that the
network answers with::

    x = ringside.announce("forward layer 2", x)        y = x @ W + b         x' = r s x
    g = ringside.announce("backward layer 2", grad)    dW = x'.T @ g         g  = u t grad
                                                       db = g.sum(axis=0)
                                                       dx = g @ W.T

``r`` and ``u`` have a factor for each sample, ``s`` and ``t`` one for each feature: one vector for
each axis. So every product of the pass sums over an axis with factors of its own, and none can be
computed before they are known, to be scaled later: of dx that holds because it sums over the
features of g, of dW because it sums over the samples. One number, or a shift, could be applied to
the result instead, because a backward pass is linear. The backward pass above is not the derivative
of the forward pass, and needn't be: an oracle runs the same layers with the same factors.

A factor is ``k / 64`` with whole k from 32 to 127. These are exact in all floating-point types, and
a product of two has 14 bits; scaling rounds once, for the rank and for the oracle alike.

Which factors a pass gets depends on the run's seed, the rank, the phase and its number: the step,
the microbatch, or how many other inputs the phase had before. The seed stays outside the ranks. A
pass that is announced again gets the same factors again, so that recomputation, a second product
and tied layers stay right. Its first announcement counts. Where any rank may compute a pass, since
others die, it has the same factors on each.

What follows for a run whose values are right: each pass was computed after it was announced, and
before the first message that depends on it, since payloads are fixed when they are posted. What
doesn't follow: that a rank computed at once what it announced. Between those two places it may
have waited.

On real ranks, on fake tensors and in all other runs nothing is announced, and nothing is scaled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from ringside.arrays import Array

SEED_BYTES = 16
UNIT = 64  # factors are LOWEST / UNIT up to, and without, HIGHEST / UNIT
LOWEST, HIGHEST = 32, 128


class Factors:
    """The factors of one run's passes.

    Args:
        seed: a new one for each run: ranks that live on may remember what they were told.
        members: world ranks of ``comm``, in its order; empty: all ranks of the world.
        alike: a pass has the same factors on every rank.
    """

    def __init__(self, seed: bytes, members: Sequence[int] = (), *, alike: bool = False) -> None:
        self._seed = seed
        self._members = tuple(members)
        self._alike = alike
        self._orders: dict[int, Order] = {}

    @classmethod
    def drawn(cls, rng: np.random.Generator, *, alike: bool = False) -> Factors:
        """Factors of a seed that is drawn."""
        return cls(rng.bytes(SEED_BYTES), alike=alike)

    def among(self, members: Sequence[int]) -> Factors:
        """The same, for those who name ranks by their place in ``comm``."""
        return Factors(self._seed, members, alike=self._alike)

    def sixty_fourths(self, world_rank: int, phase: str, number: int, count: int) -> bytes:
        """The first ``count`` factors of a pass, in sixty-fourths."""
        # The phase comes last: it may hold blanks and digits, so that elsewhere two passes could be
        # spelled alike.
        rank = 0 if self._alike else world_rank
        about = f"{rank} {number} {phase}".encode()
        drawn = np.frombuffer(hashlib.shake_128(self._seed + about).digest(count), np.uint8)
        # 255 * 96 fits 16 bits.
        spread = drawn.astype(np.uint16) * (HIGHEST - LOWEST) >> 8
        return (LOWEST + spread).astype(np.uint8).tobytes()

    def scaled(self, rank: int, phase: str, number: int, array: Array) -> Array:
        """The input of a pass of rank ``rank`` of ``comm``, scaled as ``announce`` scales it."""
        count = sum(array.shape)
        return scaled(array, self.sixty_fourths(self._world(rank), phase, number, count))

    @contextmanager
    def of_rank(self, rank: int) -> Iterator[None]:
        """Inside, what this process announces is answered as if rank ``rank`` of ``comm`` did.

        So an oracle runs the supplied layers themselves. Nothing is recorded.
        """
        order = self._orders.setdefault(rank, Order())
        _played.append((self, self._world(rank), order))
        try:
            yield
        finally:
            _played.pop()

    def _world(self, rank: int) -> int:
        return self._members[rank] if self._members else rank


class Order:
    """Numbers the inputs of a phase in the order in which they first appear."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[bytes, int]] = {}

    def number(self, phase: str, content: bytes) -> int:
        """0 for a phase's first input, 1 for the next other one; the same for the same."""
        seen = self._seen.setdefault(phase, {})
        return seen.setdefault(hashlib.blake2b(content, digest_size=16).digest(), len(seen))


class Announcer(Protocol):
    """A rank's way to the network."""

    observed: bool
    order: Order

    def announce(self, phase: str, number: int, count: int) -> bytes:
        """The factors of a pass, in sixty-fourths."""


_played: list[tuple[Factors, int, Order]] = []  # the ranks that an oracle plays, innermost last


def answered(link: Announcer | None, phase: str, number: int | None, array: Any) -> bytes | None:
    """The factors of a pass of this process, as many as its input's axes are long together.

    None: nobody answers here, and nothing is scaled.

    Args:
        link: of the rank that this process is, if it is one.
        array: the pass's input, a NumPy array.
    """
    if link is not None:
        if not link.observed:
            return None
        if number is None:
            number = link.order.number(phase, array.tobytes())
        return link.announce(phase, number, sum(array.shape))
    if not _played:
        return None
    factors, rank, order = _played[-1]
    if number is None:
        number = order.number(phase, array.tobytes())
    return factors.sixty_fourths(rank, phase, number, sum(array.shape))


def scaled(array: Array, sixty_fourths: bytes) -> Array:
    """The array times one vector of factors for each of its axes, one after another in the bytes.

    >>> scaled(np.ones((2, 3)), bytes([32, 64, 64, 96, 127])).tolist()
    [[0.5, 0.75, 0.9921875], [1.0, 1.5, 1.984375]]
    """
    at = 0
    vectors = np.frombuffer(sixty_fourths, np.uint8).astype(array.dtype) / UNIT
    whole = np.ones((1,) * array.ndim, array.dtype)
    for axis, extent in enumerate(array.shape):
        shape = [1] * array.ndim
        shape[axis] = extent
        whole = whole * vectors[at : at + extent].reshape(shape)
        at += extent
    # The factors are multiplied first, which is exact for two axes from float32 on: the array is
    # rounded once.
    product: Array = array * whole
    return product
