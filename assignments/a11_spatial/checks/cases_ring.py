"""The calls of ring_attention.py that the tests make, and what must come of them."""

import functools
from dataclasses import dataclass, field

import numpy as np
from given.ring_blocks import block_scores

from ringside.checking import announced, assert_own_messages, assert_peers, assert_ran
from ringside.checking.cases import Case, assert_like, cast, machine_of
from ringside.trace import Kind


@dataclass(frozen=True)
class Attention(Case):
    """``attention`` of a sequence in parts.

    Attributes:
        lengths: of the parts; rank r has ``lengths[r % len(lengths)]`` positions.
        heads: of queries.
        kv_heads: of keys and values; 0: as many.
        kind: "thousands": scores are exact, and those of a query are about 1000 times another whole
            number for each rank's keys, all positive or all negative; "usual".
        nan_of: a key of this rank is not a number; -1: none.
    """

    target = "ring_attention:attention"
    machine: str = field(default="buffered", kw_only=True)
    lengths: tuple = (3,)
    batch: int = 1
    heads: int = 2
    kv_heads: int = 0
    width: int = 4
    causal: bool = False
    kind: str = "usual"
    dtype: str = "float64"
    nan_of: int = -1

    @property
    def all_lengths(self):
        """Of each rank's part."""
        return [self.lengths[rank % len(self.lengths)] for rank in range(self.p)]

    @functools.cached_property
    def whole(self):
        """Queries, keys and values of the whole sequence, shape (batch, heads, N, width)."""
        rng, lengths = self.rng(), self.all_lengths
        counts = (self.heads, self.kv_heads or self.heads, self.kv_heads or self.heads)
        shapes = [(self.batch, count, sum(lengths), self.width) for count in counts]
        q, k, v = (rng.standard_normal(shape) for shape in shapes)
        if self.kind == "thousands":
            q, k = np.rint(q), np.rint(k)
            step = 20 * np.sqrt(self.width)  # 20 times 50 makes 1000
            q[..., 0] = rng.choice([-step, step], size=q.shape[:3])
            k[..., 0] = 50 * np.repeat(1 + rng.permutation(self.p), lengths)
        if self.nan_of >= 0:
            k[..., sum(lengths[: self.nan_of]), 0] = np.nan
        return [each.astype(self.dtype) for each in (q, k, v)]

    def parts(self, whole):
        """Each rank's part of an array, without gaps."""
        cuts = np.cumsum(self.all_lengths)[:-1]
        return [np.ascontiguousarray(each) for each in np.split(whole, cuts, axis=2)]

    def inputs(self, rank):
        own = [self.parts(each)[rank] for each in self.whole]
        return *own, self.all_lengths, *([True] if self.causal else [])

    def right(self):
        """Softmax over the whole sequence, in float64."""
        places = np.arange(sum(self.all_lengths))
        causal = places <= places[:, None]
        return self._attended(causal if self.causal else np.ones_like(causal))

    def wrong(self):
        if self.announced:
            return {}
        lengths = self.all_lengths
        of, own = np.repeat(range(self.p), lengths), np.concatenate(list(map(np.arange, lengths)))
        places = np.arange(sum(lengths))
        seen = {
            "The last block of the ring is missing.": of != (of[:, None] + 1) % self.p,
            "This is the softmax over this rank's own keys alone.": of == of[:, None],
        }
        if self.causal:
            seen = {words: each & (places <= places[:, None]) for words, each in seen.items()}
            words = (
                "The mask counts positions from 0 in each block; in the whole sequence is asked."
            )
            # The own block has a key for each query.
            seen[words] = (of <= of[:, None]) & (own <= own[:, None])
        found = {words: self._attended(each) for words, each in seen.items() if self.p > 1}
        if self.heads > (self.kv_heads or self.heads) > 1:
            words = "Query head h looked at key head h modulo their number; it is h // g."
            everything = np.ones((len(places), len(places)), dtype=bool)
            found[words] = self._attended(everything, turns=True)
        return found

    def _attended(self, seen, turns=False):
        """Each rank's results, where queries see these keys.

        Args:
            turns: query heads take key heads in turn.
        """
        q, k, v = (each.astype("float64") for each in self.whole)
        g, found = q.shape[1] // k.shape[1], []
        k, v = (
            np.tile(each, (1, g, 1, 1)) if turns else np.repeat(each, g, axis=1) for each in (k, v)
        )
        cuts = np.cumsum(self.all_lengths)[:-1]
        for rank, (own, sees) in enumerate(zip(self.parts(q), np.split(seen, cuts), strict=True)):
            with self.passes_of(rank):
                blocks = enumerate(self.parts(k))
                scores = [block_scores(own, each, source) for source, each in blocks]
            scores = np.concatenate(scores, axis=-1)
            scores[..., ~sees] = -np.inf
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            found.append(weights @ v / weights.sum(axis=-1, keepdims=True))
        return cast(found, self.dtype)

    def check(self, run):
        super().check(run)
        used = getattr(run, "collectives", ())  # real ranks have none
        if hasattr(run, "trace") and (not used or any(each.nbytes for each in used)):
            assert_own_messages(run, self)

    # -- what the docstring allows -----------------------------------------------------------------

    def _nbytes(self, positions):
        per_position = 2 * self.batch * (self.kv_heads or self.heads) * self.width
        return per_position * positions * np.dtype(self.dtype).itemsize

    @property
    def block_nbytes(self):
        """Bytes of keys and values of the longest part."""
        return self._nbytes(max(self.all_lengths))

    @property
    def allowed_bytes(self):
        """What a rank may send: keys and values of all parts but the shortest."""
        return self._nbytes(sum(self.all_lengths) - min(self.all_lengths))

    @property
    def held_bytes(self):
        """What a rank may have at a time."""
        n, rows = max(self.all_lengths), self.batch * self.heads
        arrays = 8 * rows * n * self.width + 8 * rows * n * n
        return 4 * self.block_nbytes + arrays * np.dtype(self.dtype).itemsize + (64 << 10)

    def takes_s(self):
        """Blocks and messages side by side."""
        machine, n = machine_of(self), max(self.all_lengths)
        block_s = machine.compute_s(4 * self.batch * self.heads * n * n * self.width, 0)
        message_s = machine.alpha_s + self.block_nbytes * machine.beta_s_per_byte
        return block_s + (self.p - 1) * max(block_s, message_s)


@dataclass(frozen=True)
class Held(Attention):
    """The same, and the most bytes that were allocated at a time."""

    through = "checks/inside.py:held_attention"

    def check(self, run):
        assert_ran(run, self)
        for rank, ((value, held), right) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_like(value, right, self, f"rank {rank}'s {self.what}")
            if held > self.held_bytes:
                raise self.fail(
                    f"rank {rank} had {held} bytes of arrays at a time; at most {self.held_bytes} "
                    "are allowed: a rank never has all keys and values."
                )


@dataclass(frozen=True)
class Refused(Attention):
    """``attention`` with arguments that can't be right.

    Attributes:
        wrong: "heads": 3 of queries and 2 of keys; "lengths": those of one rank more; "positions":
            lengths that are not those of the arrays.
    """

    through = "checks/inside.py:refused_attention"
    wrong: str = "heads"

    def inputs(self, rank):
        q, k, v, lengths = super().inputs(rank)
        if self.wrong == "heads":
            q = np.concatenate([q, q[:, :1]], axis=1)
        if self.wrong == "lengths":
            lengths = [*lengths, 1]
        if self.wrong == "positions":
            lengths = [length + 1 for length in lengths]
        return q, k, v, lengths

    def check(self, run):
        assert_ran(run, self)
        for rank, error in enumerate(run.values):
            if error != "ValueError":
                raise self.fail(f"rank {rank} raised {error or 'nothing'}; it must be ValueError.")


# -- what the network saw --------------------------------------------------------------------------


def assert_ring(run, case):
    """Messages went round a ring."""
    assert_own_messages(run, case)
    allowed = [{(rank + 1) % case.p, (rank - 1) % case.p} for rank in range(case.p)]
    assert_peers(run, allowed, case, "only the previous and the next rank of the ring are peers")


def assert_shared(run, case):
    """Each rank computed blocks of its queries with the keys of every rank."""
    wanted = {f"block {source}" for source in range(case.p)}
    for rank, ops in enumerate(run.trace.ops):
        found = {phase for _, phase, _ in announced(ops)}
        if not wanted <= found:
            raise case.fail(
                f"rank {rank} announced blocks of {len(wanted & found)} of {case.p} ranks: each "
                "rank computes its own queries with each rank's keys, through block_scores of "
                "given/ring_blocks.py."
            )


def assert_overlap(run, case):
    """When a block was announced, the next one was under way, and not all had been waited for."""
    p, nbytes = case.p, case.block_nbytes
    for rank, counted in enumerate(_started(run, case)):
        for i, (sent, received, come) in enumerate(counted[: p - 1]):
            if come > (i + 2) * nbytes:
                raise case.fail(
                    f"when rank {rank} began block {i} of {p}, it had waited for {come} bytes; it "
                    f"may be {(i + 2) * nbytes} at most, so that blocks travel while others are "
                    "computed."
                )
            for did, found in (("sent", sent), ("received", received)):
                if found < (i + 1) * nbytes:
                    raise case.fail(
                        f"when rank {rank} began block {i} of {p}, it had started messages of "
                        f"{found} bytes that are {did}; it must be {(i + 1) * nbytes} or more, so "
                        "that the next block travels while this one is computed."
                    )


def assert_room(run, case):
    """When a block was announced, not all the others were there, or on their way."""
    p, nbytes = case.p, case.block_nbytes
    for rank, counted in enumerate(_started(run, case)):
        for i, (_, received, _) in enumerate(counted):
            if received > (i + 3) * nbytes:
                raise case.fail(
                    f"when rank {rank} began block {i} of {p}, it had started to receive "
                    f"{received} bytes; it may be {(i + 3) * nbytes} at most, so that it never has "
                    "room for all keys and values."
                )


def _started(run, case):
    """Per rank and block, bytes of sends and receives started before it, and those waited for."""
    found = []
    for rank, ops in enumerate(run.trace.ops):
        begun = announced(ops)
        phases = sorted(phase for _, phase, _ in begun)
        if phases != sorted(f"block {source}" for source in range(case.p)):
            raise case.fail(
                f"rank {rank} announced {len(begun)} blocks; it must be each rank's keys once, "
                "through block_scores of given/ring_blocks.py."
            )
        counts = []
        for place, _, _ in begun:
            before = ops[:place]
            started = [
                sum(op.nbytes for op in before if op.kind == kind)
                for kind in (Kind.ISEND, Kind.IRECV)
            ]
            ended = {request for op in before if op.kind == Kind.WAIT for request in op.detail}
            come = sum(op.nbytes for op in before if op.kind == Kind.IRECV and op.request in ended)
            counts.append((*started, come))
        found.append(counts)
    return found
