"""The calls of checked.py that the tests make."""

from dataclasses import dataclass

import numpy as np

from ringside.checking import assert_array, assert_ran
from ringside.checking.assertions import magnitude, total
from ringside.checking.cases import Case, Vectors, brief

_SPECIAL = (np.nan, np.inf, -np.inf)


@dataclass(frozen=True)
class Sum(Vectors):
    """A sum over all ranks, where a bit of a message may be flipped.

    Attributes:
        special: NaN and infinities are among the numbers.
        uneven: small numbers stand beside large ones.
    """

    target = "checked:all_reduce"
    n: int = 12
    special: bool = False
    uneven: bool = False

    def vector(self, rank):
        vector = super().vector(rank)
        if self.special:
            vector[rank % self.n] = _SPECIAL[rank % 3]
        if self.uneven:
            vector[::2] *= 1e12
        return vector

    def check(self, run):
        assert_ran(run, self)
        for rank, value in enumerate(run.values):
            what = f"rank {rank}'s total"
            if not isinstance(value, tuple) or len(value) != 2:
                raise self.fail(f"rank {rank} returned {brief(value)}; (total, sender) is asked.")
            parts = self.summands(rank)
            with np.errstate(invalid="ignore"):
                assert_array(value[0], total(parts), magnitude(parts), self, what, parts)

    def check_sender(self, run):
        """Raise a verdict unless all ranks name who sent the wrong bit."""
        right = int(self.flip.partition("#")[0]) if self.flip else -1
        sent = f"rank {right} sent the wrong bit" if self.flip else "no bit was flipped"
        for rank, (_, sender) in enumerate(run.values):
            if isinstance(sender, bool) or sender != right:
                raise self.fail(f"rank {rank} returned sender {brief(sender)}; {sent}.")

    @property
    def most(self):
        """Bytes that a rank may send."""
        once = 16 * (self.p - 1) * (self.shard_nbytes // 8 + 2)
        return 2 * once if self.flip else once


@dataclass(frozen=True)
class Products(Case):
    """Products on each rank by itself, of each some are wrong in one element.

    Attributes:
        count: products of a rank.
        kind: "plain"; "cancels": b is nearly the inverse of a, and c far smaller than both; "small"
            and "large": numbers near 1e-8 and 1e8.
        wrong_bits: "all": any flip that is large enough; "low": those that are just large enough;
            "high": those that make infinities, NaN and numbers near 1e300; "none".
    """

    target = "checked:product"
    through = "checks/inside_checked.py:products"
    count: int = 10
    kind: str = "plain"
    wrong_bits: str = "all"

    @property
    def silent(self):
        return True

    def factors_of(self, rank):
        """The pairs a, b of a rank."""
        rng = self.rng(rank)
        for _ in range(self.count):
            m, k, n = (int(size) for size in rng.integers(2, 25, size=3))
            scale = {"small": 1e-8, "large": 1e8}.get(self.kind, 1.0)
            a, b = rng.standard_normal((m, k)) * scale, rng.standard_normal((k, n)) * scale
            if self.kind == "cancels":
                left, _, right = np.linalg.svd(rng.standard_normal((k, k)))
                spread = np.logspace(0, -6, k)
                a, b = left * spread @ right, right.T / spread @ left.T
            yield a, b

    def inputs(self, rank):
        pairs = list(self.factors_of(rank))
        rng = np.random.default_rng([self.seed, rank, 7])
        return pairs, rng.random((self.count, 3)), self.wrong_bits

    def check(self, run):
        assert_ran(run, self)
        for rank, answers in enumerate(run.values):
            for number, ((a, b), answer) in enumerate(
                zip(self.factors_of(rank), answers, strict=True)
            ):
                self.check_product(a, b, *answer[:4], f"rank {rank}'s product {number}")

    def check_product(self, a, b, c, given, where, calls, what):
        """Raise a verdict unless c is right, the rest of it as ``mul`` gave it.

        Args:
            given: what ``mul`` gave in the place of c, before an element of it was wrong.
            where: which one that was; None: none of c.
            calls: the shapes of what ``mul`` was given.
        """
        (m, k), n = a.shape, b.shape[1]
        what = f"{what} ({m} x {k} x {n})"
        if len(calls) != 1:
            raise self.fail(f"{what} called mul {len(calls)} times; once is allowed.")
        rows, inner, columns = calls[0]
        if inner != k or not (m <= rows <= m + 2 and n <= columns <= n + 2):
            raise self.fail(
                f"{what} called mul with {rows} x {inner} x {columns}; up to two rows and two "
                "columns more are allowed."
            )
        if not isinstance(c, np.ndarray) or c.shape != (m, n) or c.dtype != np.float64:
            raise self.fail(f"{what}: c is {brief(c)}; float64 of shape ({m}, {n}) is asked for.")
        scale = np.linalg.norm(a) * np.linalg.norm(b)
        for place in np.argwhere(c != given):
            at = tuple(int(index) for index in place)
            off = abs(float(c[at]) - float(given[at]))
            if at == where and not off <= 1e-12 * scale:
                raise self.fail(
                    f"{what}: element {at} was wrong, and is {c[at]:.10g}; {given[at]:.10g} is "
                    f"right, and {1e-12 * scale:.1g} is allowed."
                )
            if at != where:
                raise self.fail(f"{what}: element {at} isn't the one that mul gave.")

    def check_places(self, run):
        """Raise a verdict unless the element that was mended is named."""
        for rank, answers in enumerate(run.values):
            for number, (_, _, where, _, place) in enumerate(answers):
                if place != where:
                    right = f"{where} was wrong" if where else "no element was wrong"
                    raise self.fail(
                        f"rank {rank}'s product {number}: place is {brief(place)}; {right}."
                    )
