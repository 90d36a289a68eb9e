"""The calls of decode.py that the tests make, and what must come of them."""

import functools
import math
from dataclasses import astuple, dataclass, field

import numpy as np
from given.model import (
    Cache,
    Sizes,
    make_weights,
    serial_forward,
    serial_generate,
    shard_bounds,
)

from ringside.checking import assert_moved, assert_ran
from ringside.checking.cases import Case, assert_like

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
ROWS_CUT = {"Wo": "q", "W2": "units", "head": "words"}
COLUMNS_CUT = {
    "Wq": "q", "bq": "q", "Wk": "kv", "bk": "kv", "Wv": "kv", "bv": "kv",
    "W1": "units", "b1": "units",
}  # fmt: skip


@dataclass(frozen=True)
class Decode(Case):
    """A model, and prompts.

    Attributes:
        heads: of width 4; the model's width follows.
        kv_heads: heads of keys and values; 0: as many as ``heads``.
        lengths: of the prompts.
        tokens: that each sequence gets.
        kind: "ties": words of equal logits; "first": a word of the first 20th wins; "negative":
            all logits are; "usual".
    """

    machine: str = field(default="buffered", kw_only=True)
    heads: int = 6
    kv_heads: int = 0
    vocabulary: int = 29
    layers: int = 2
    longest: int = 32
    lengths: tuple = (3, 3)
    tokens: int = 4
    kind: str = "usual"
    dtype: str = "float64"

    @property
    def sizes(self):
        heads, kv_heads = self.heads, self.kv_heads or self.heads
        return Sizes(self.vocabulary, 4 * heads, heads, kv_heads, self.layers, self.longest)

    @property
    def alone(self):
        """The same on one rank."""
        return self.with_(p=1, machine="buffered", latencies=0, members=(), world=0)

    @property
    def clear_seed(self):
        """The first seed, from ``seed`` on, with which rounding decides between no two words."""
        return _clear_seed(self.alone)

    def logits(self, seed):
        """The logits of each word that is chosen."""
        return ()

    @property
    def weights(self):
        """The whole model's."""
        return _weights(self.sizes, self.clear_seed, self.dtype, self.kind)

    @property
    def prompts(self):
        """Lists of tokens."""
        return self.prompts_of(self.clear_seed)

    def prompts_of(self, seed):
        """The prompts that come from a seed."""
        rng = np.random.default_rng([seed, 1])
        return [rng.integers(self.vocabulary, size=n).tolist() for n in self.lengths]

    def part(self, rank):
        """A rank's part of the weights."""
        return part_of(self.weights, self.sizes, self.p, rank)

    # -- what the docstring allows -----------------------------------------------------------------

    @property
    def unit(self):
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def forward_nbytes(self):
        """Bytes that a rank may send in ``forward``, prefill and all later steps together."""
        steps = [sum(self.lengths)] + [len(self.lengths)] * (self.tokens - 1)
        d, p = self.sizes.d, self.p
        sums = sum(2 * (p - 1) * math.ceil(rows * d / p) for rows in steps)
        return 2 * self.layers * (self.unit * sums + 64 * (p - 1) * self.tokens)

    @property
    def greedy_nbytes(self):
        """Bytes that a rank may send in one call of ``greedy``."""
        return (16 * len(self.lengths) + 64) * (self.p - 1)

    def num_flops(self, rank):
        """Operations of a rank's part, prompts and all later steps, without the logits."""
        part = _Extents(self.sizes, self.p, rank)
        rows = sum(self.lengths) + len(self.lengths) * (self.tokens - 1)
        products = 2 * rows * self.sizes.d * (2 * part.q + 2 * part.kv + 2 * part.units)
        looks = sum(n * n + sum(n + 1 + i for i in range(self.tokens - 1)) for n in self.lengths)
        return self.layers * (products + 4 * looks * part.q)

    def cache_nbytes(self, rank):
        """Bytes of a rank's cache."""
        positions = 2 * self.layers * len(self.lengths) * self.longest
        return positions * _Extents(self.sizes, self.p, rank).kv * self.unit

    def check_moved(self, run):
        """Whole weights or logits didn't travel: one sum too many passes here."""
        if hasattr(run, "trace"):  # real ranks have none
            allowed = 3 * (self.forward_nbytes + self.tokens * self.greedy_nbytes)
            rule = "three times the all-reduces of new positions, no weights"
            assert_moved(run, allowed, self, rule)


@dataclass(frozen=True)
class Shard(Decode):
    """``shard`` on each rank.

    Attributes:
        biases: whether those are compared, too.
    """

    target = "decode:shard"
    through = "checks/inside.py:sharded"
    biases: bool = True

    def inputs(self, rank):
        return astuple(self.sizes), self.weights

    def check(self, run):
        assert_ran(run, self)
        for rank, value in enumerate(run.values):
            part, right = value["part"], self.part(rank)
            if set(part) != set(right):
                raise self.fail(f"rank {rank}'s part has other names than the weights.")
            for name, wanted in right.items():
                short = name.rpartition(".")[2]
                if (self.biases or not short.startswith("b")) and not np.array_equal(
                    part[name], wanted
                ):
                    raise self.fail(
                        f"rank {rank}'s part of {name} has shape {part[name].shape}; it must be of "
                        f"shape {wanted.shape}, and hold its part of the whole."
                    )
            if value["shared"]:
                raise self.fail(f"rank {rank}'s part shares memory with the whole weights.")


@dataclass(frozen=True)
class Forward(Decode):
    """``forward`` of the prompts, and of later tokens that don't depend on what it gave."""

    target = "decode:forward"
    through = "checks/inside.py:stepped"

    @property
    def later(self):
        """New tokens of each step after prefill."""
        shape = (self.tokens - 1, len(self.lengths), 1)
        return np.random.default_rng([self.seed, 2]).integers(self.vocabulary, size=shape).tolist()

    def inputs(self, rank):
        return astuple(self.sizes), self.part(rank), self.prompts, self.later

    def right(self):
        return [_forward(self.alone, self.weights)] * self.p

    def wrong(self):
        found = {}
        for names in (("bo",), ("b2",), ("bo", "b2")):
            weights = {
                name: array * self.p if name.rpartition(".")[2] in names else array
                for name, array in self.weights.items()
            }
            sentence = f"Here {' and '.join(names)} {'are' if names[1:] else 'is'} added on each "
            found[f"{sentence}rank, and so {self.p} times."] = [
                _forward(self.alone, weights)
            ] * self.p
        return found

    def check(self, run):
        assert_ran(run, self)
        for rank, (steps, right) in enumerate(zip(run.values, self.right(), strict=True)):
            for number, (value, wanted) in enumerate(zip(steps, right, strict=True)):
                step = f"decoding step {number}" if number else "prefill"
                what = f"rank {rank}'s result of {step}"
                assert_like(value, wanted, self, what, TOLERANCE[self.dtype])
        self.check_moved(run)


@dataclass(frozen=True)
class Greedy(Decode):
    """``greedy`` once, of rows that are drawn."""

    target = "decode:greedy"
    through = "checks/inside.py:chosen"

    def hidden(self, seed):
        """What it gets: one row for each sequence."""
        rng = np.random.default_rng([seed, 3])
        hidden = rng.standard_normal((len(self.lengths), self.sizes.d)).astype(self.dtype)
        return np.abs(hidden) if self.kind == "negative" else hidden

    def logits(self, seed):
        weights = _weights(self.sizes, seed, self.dtype, self.kind)
        return [self.hidden(seed) @ weights["head"].T]

    def inputs(self, rank):
        return astuple(self.sizes), self.part(rank), self.hidden(self.clear_seed)

    def right(self):
        return [self.logits(self.clear_seed)[0].argmax(axis=1)] * self.p

    def wrong(self):
        (logits,) = self.logits(self.clear_seed)
        right, last = logits.argmax(axis=1), self.vocabulary - 1
        bounds = [shard_bounds(self.vocabulary, self.p, rank) for rank in range(self.p)]
        own = [word - next(lo for lo, hi in bounds if lo <= word < hi) for word in right]
        return {
            "These are the words' numbers among the words of their rank.": [np.array(own)] * self.p,
            "Of equal logits this is the highest word; the lowest one is asked for.": (
                [last - logits[:, ::-1].argmax(axis=1)] * self.p
            ),
        }

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            self.check_words(value, right, rank)

    def check_words(self, value, right, rank, where=""):
        """Raise a verdict unless these are the words that a rank must choose."""
        value = np.asarray(value)
        if value.shape != right.shape or value.dtype.kind not in "iu":
            raise self.fail(
                f"{where}rank {rank} returned shape {value.shape} of dtype {value.dtype}; it must "
                f"be integers of shape {right.shape}."
            )
        wrong = np.argwhere(value != right)
        if len(wrong):
            sequence, *step = index = tuple(wrong[0])
            token = "".join(f", token {number}" for number in step)
            raise self.fail(
                f"{where}rank {rank} chose word {value[index]} for sequence {sequence}{token}; it "
                f"must be word {right[index]}."
            )


@dataclass(frozen=True)
class Generate(Greedy):
    """``generate``.

    Attributes:
        again: it is called with other prompts, and with the first ones once more.
        watched: look at the memory that is held.
    """

    target = "decode:generate"
    through = "checks/inside.py:generated"
    again: bool = False
    watched: bool = False

    def logits(self, seed):
        weights, sizes = _weights(self.sizes, seed, self.dtype, self.kind), self.sizes
        for tokens in self.texts(seed):
            cache = Cache(sizes, len(self.lengths), sizes.kv_heads, self.dtype)
            for _ in range(self.tokens):
                yield (logits := serial_forward(tokens, cache, weights, sizes) @ weights["head"].T)
                tokens = logits.argmax(axis=1)[:, None]

    def texts(self, seed):
        """Prompts of each call."""
        first = self.prompts_of(seed)
        return [first, self.prompts_of(seed + 1), first] if self.again else [first]

    def inputs(self, rank):
        texts = self.texts(self.clear_seed)
        return astuple(self.sizes), self.part(rank), texts, self.tokens, self.watched

    def right(self):
        return [_generate(self.alone)] * self.p

    def wrong(self):
        return {}

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            for number, each in enumerate(right):
                where = ("", "in a second call, ", "in a third call, ")[number]
                self.check_words(value["tokens"][number], each, rank, where)
        self.check_moved(run)


@dataclass(frozen=True)
class MeasuredTokens(Decode):
    """``measured_tokens`` of a model of width n, for runs and jobs."""

    target = "decode:measured_tokens"
    n: int = 64
    heads: int = 8

    @property
    def sizes(self):
        kv_heads = self.kv_heads or self.heads
        return Sizes(8 * self.n, self.n, self.heads, kv_heads, self.layers, self.longest)

    def inputs(self, rank):
        return astuple(self.sizes), self.part(rank), self.prompts, self.tokens

    def right(self):
        return [serial_generate(self.prompts, self.weights, self.sizes, self.tokens)] * self.p


def even(call, p, /, heads=2, **settings):
    """A case of a model whose heads, hidden units and words p divides: of ``heads`` heads a rank.

    Where rank 0 has the word that wins there are more words.
    """
    words = 60 if settings.get("kind") == "first" else 6
    return call(p, heads=heads * p, **{"vocabulary": words * p, **settings})


def part_of(weights, sizes, world_size, rank):
    """A rank's part of the weights."""
    width, several = sizes.head_dim, sizes.heads // sizes.kv_heads
    heads = range(*shard_bounds(sizes.kv_heads, world_size, rank))
    chosen = {
        "kv": [width * head + i for head in heads for i in range(width)],
        "q": [several * width * head + i for head in heads for i in range(several * width)],
        "units": range(*shard_bounds(sizes.hidden, world_size, rank)),
        "words": range(*shard_bounds(sizes.vocabulary, world_size, rank)),
    }
    part = {}
    for name, array in weights.items():
        short = name.rpartition(".")[2]
        which = COLUMNS_CUT.get(short) or ROWS_CUT.get(short)
        if which:
            index = np.array(chosen[which], int)
            array = array.take(index, axis=0 if short in ROWS_CUT else -1)
        part[name] = np.array(array, order="C")
    return part


class _Extents:
    """How many columns, hidden units and words a rank has."""

    def __init__(self, sizes, world_size, rank):
        def mine(n):
            lo, hi = shard_bounds(n, world_size, rank)
            return hi - lo

        self.kv = mine(sizes.kv_heads) * sizes.head_dim
        self.q = self.kv * sizes.heads // sizes.kv_heads
        self.units, self.words = mine(sizes.hidden), mine(sizes.vocabulary)


@functools.lru_cache(maxsize=64)
def _weights(sizes, seed, dtype, kind):
    weights = make_weights(sizes, seed, dtype)
    if kind == "ties":  # word v has a one in column v modulo d: its logit is that number, exactly
        words = np.arange(sizes.vocabulary)
        weights["head"] = np.eye(sizes.d, dtype=dtype)[words % sizes.d]
    if kind == "first":  # the other words have the logit 0, which is never the largest
        weights["head"][sizes.vocabulary // 20 :] = 0
    if kind == "negative":
        weights["head"] = -np.abs(weights["head"])
    return weights


@functools.lru_cache(maxsize=256)
def _clear_seed(case):
    seed = case.seed
    while not all(_clear(logits, case.kind) for logits in case.logits(seed)):
        seed += 1
    return seed


def _clear(logits, kind):
    """Whether no two logits are so close that rounding could choose the other word."""
    first = logits.max(axis=1)
    others = np.where(logits == first[:, None], -np.inf, logits).max(axis=1)
    return bool((first - others >= 1e-3).all() and (kind != "first" or (first >= 1e-3).all()))


def _forward(case, weights):
    """What one rank gives that has the whole model."""
    cache = Cache(case.sizes, len(case.lengths), case.sizes.kv_heads, case.dtype)
    steps = [case.prompts, *case.later]
    return [serial_forward(each, cache, weights, case.sizes) for each in steps]


@functools.lru_cache(maxsize=64)
def _generate(case):
    texts = case.texts(case.clear_seed)
    return [serial_generate(each, case.weights, case.sizes, case.tokens) for each in texts]
