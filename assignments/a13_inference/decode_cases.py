"""Calls of ``decode.py``, as the tests make them: supplied, nothing to write."""

import functools
import math
from dataclasses import astuple, dataclass, replace

import numpy as np
from model import (
    Cache,
    Sizes,
    make_weights,
    serial_forward,
    serial_generate,
    shard_bounds,
)

from ringside import Machine
from ringside.checking import Call, assert_array, assert_moved, assert_ran

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
ROWS_CUT = {"Wo": "q", "W2": "units", "head": "words"}
COLUMNS_CUT = {
    "Wq": "q", "bq": "q", "Wk": "kv", "bk": "kv", "Wv": "kv", "bv": "kv",
    "W1": "units", "b1": "units",
}  # fmt: skip


def decode_part(weights, sizes, world_size, rank):
    """A rank's part of the weights."""
    width, several = sizes.head_dim, sizes.heads // sizes.kv_heads
    heads = range(*shard_bounds(sizes.kv_heads, world_size, rank))
    chosen = {
        "kv": [width * head + i for head in heads for i in range(width)],
        "q": [several * width * head + i for head in heads for i in range(several * width)],
        "units": range(*shard_bounds(sizes.hidden, world_size, rank)),
        "words": range(*shard_bounds(sizes.vocabulary, world_size, rank)),
    }
    found = {}
    for name, array in weights.items():
        kind = name.rpartition(".")[2]
        which = COLUMNS_CUT.get(kind) or ROWS_CUT.get(kind)
        if which:
            index = np.array(chosen[which], int)
            array = array.take(index, axis=0 if kind in ROWS_CUT else -1)
        found[name] = np.array(array, order="C")
    return found


USUAL = Sizes()


@dataclass(frozen=True)
class DecodeCase(Call):
    """A call of ``decode.py`` on all ranks; weights and prompts come from ``seed``."""

    sizes: Sizes = USUAL
    lengths: tuple = (3,)  # of the prompts
    tokens: int = 4
    kind: str = "usual"  # "ties": words of equal logits; "first": a word of the first 20th wins
    seed: int = 0

    def weights(self):
        """The whole model's."""
        return _weights(self.sizes, self.seed, self.dtype, self.kind)

    def prompts(self):
        """Lists of tokens, of the lengths that are asked for."""
        rng = np.random.default_rng([self.seed, 1])
        return [rng.integers(self.sizes.vocabulary, size=n).tolist() for n in self.lengths]

    def later(self):
        """Tokens for the steps after prefill that don't depend on what was computed."""
        rng = np.random.default_rng([self.seed, 2])
        shape = (self.tokens - 1, len(self.lengths), 1)
        return rng.integers(self.sizes.vocabulary, size=shape).tolist()

    def hidden(self):
        """What ``greedy`` gets."""
        rng = np.random.default_rng([self.seed, 3])
        return rng.standard_normal((len(self.lengths), self.sizes.d)).astype(self.dtype)

    def arguments(self, rank, function=None):
        """What a function of ``callers.py`` gets on a rank, after ``comm``."""
        function = function or self.target.rpartition(":")[2]
        part = decode_part(self.weights(), self.sizes, self.world_size, rank)
        given = astuple(self.sizes), part
        if function == "decode_steps":
            return *given, self.prompts(), self.later()
        if function == "decode_greedy":
            return *given, self.hidden()
        if function == "decode_shards":
            return astuple(self.sizes), self.weights()
        if function == "decode_twice":
            other = replace(self, seed=self.seed + 1)
            return *given, self.prompts(), other.prompts(), self.tokens
        return *given, self.prompts(), self.tokens

    def arguments_of_ranks(self):
        """The same for all ranks."""
        return [self.arguments(rank) for rank in range(self.world_size)]

    def right(self, function=None):
        """What one rank that has the whole model gives."""
        function = function or self.target.rpartition(":")[2]
        weights, prompts = self.weights(), self.prompts()
        if function == "decode_steps":
            cache = Cache(self.sizes, len(prompts), self.sizes.kv_heads, self.dtype)
            steps = [prompts, *self.later()]
            return [serial_forward(each, cache, weights, self.sizes) for each in steps]
        if function == "decode_greedy":
            return (self.hidden() @ weights["head"].T).argmax(axis=1)
        return serial_generate(prompts, weights, self.sizes, self.tokens)

    def called_through(self, function):
        """The same prompts and weights through another function of ``callers.py``."""
        old = self.target.rpartition(":")[2]
        return replace(self, target=f"callers:{function}", line=self.line.replace(old, function, 1))

    # -- what the docstring allows -----------------------------------------------------------------

    @property
    def unit(self):
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def rows(self):
        """Positions that go through the layers: prompts, and each token but the last."""
        return sum(self.lengths) + len(self.lengths) * (self.tokens - 1)

    def forward_nbytes(self):
        """Bytes that a rank may send in ``forward``, prefill and all later steps together."""
        p, calls = self.world_size, 2 * self.sizes.layers
        steps = [sum(self.lengths)] + [len(self.lengths)] * (self.tokens - 1)
        sums = sum(2 * (p - 1) * math.ceil(rows * self.sizes.d / p) for rows in steps)
        return calls * (self.unit * sums + 64 * (p - 1) * self.tokens)

    def greedy_nbytes(self):
        """Bytes that a rank may send in one call of ``greedy``."""
        return (16 * len(self.lengths) + 64) * (self.world_size - 1)

    def num_flops(self, rank):
        """Operations of a rank's part, prompts and all later steps, without the logits."""
        part = _Extents(self.sizes, self.world_size, rank)
        products = 2 * self.rows * self.sizes.d * (2 * part.q + 2 * part.kv + 2 * part.units)
        looks = sum(n * n + sum(n + 1 + i for i in range(self.tokens - 1)) for n in self.lengths)
        return self.sizes.layers * (products + 4 * looks * part.q)

    def cache_nbytes(self, rank):
        """Bytes of a rank's cache."""
        kv = _Extents(self.sizes, self.world_size, rank).kv
        sizes = self.sizes
        return 2 * sizes.layers * len(self.lengths) * sizes.longest * kv * self.unit


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
    return weights


def decode_case(
    function, world_size, rng=None, *, lengths=(3, 3), tokens=4, kind="usual", dtype="float64",
    seed=None, **sizes,
):  # fmt: skip
    """A call through ``callers.py:function``; ``rng`` gives the seed.

    Args:
        sizes: of the model; what isn't given is as ``Sizes`` says. ``d`` follows the heads, of
            width 4.
    """
    sizes.setdefault("heads", 6)
    sizes.setdefault("kv_heads", sizes["heads"])
    sizes.setdefault("d", 4 * sizes["heads"])
    made = Sizes(**sizes)
    words = [
        f"--{name.replace('_', '-')} {value}"
        for name, value in vars(made).items()
        if value != getattr(USUAL, name)
    ]
    words += [f"--lengths '{list(lengths)}'", f"--tokens {tokens}"]
    words += [f"--kind {kind}"] if kind != "usual" else []
    words += [f"--dtype {dtype}"] if dtype != "float64" else []
    case = DecodeCase(
        f"callers:{function}", world_size, sum(lengths), dtype, sizes=made,
        lengths=tuple(lengths), tokens=tokens, kind=kind,
    )  # fmt: skip
    seed = int(rng.integers(2**31)) if seed is None else seed
    while rng is not None and not _clear(replace(case, seed=seed)):
        seed += 1
    heads = f"{made.heads} heads"
    if made.kv_heads != made.heads:
        heads += f", {made.kv_heads} of k and v"
    about = f"prompts of {_few(lengths)}, {tokens} tokens each, {heads}, {made.vocabulary} words"
    line = f"ringside run callers.py:{function} --ranks {world_size} -- {' '.join(words)}"
    return replace(case, seed=seed, about=about, line=f"{line} --seed {seed}")


def _clear(case):
    """Whether no two logits are so close that rounding could choose the other word."""
    for logits in _logits(case):
        first = logits.max(axis=1)
        others = np.where(logits == first[:, None], -np.inf, logits).max(axis=1)
        if (first - others < 1e-3).any() or (case.kind == "first" and (first < 1e-3).any()):
            return False
    return True


def _logits(case):
    """The logits of each word that is chosen."""
    weights, sizes = case.weights(), case.sizes
    if case.target.endswith("decode_greedy"):
        yield case.hidden() @ weights["head"].T
        return
    cache = Cache(sizes, len(case.lengths), sizes.kv_heads, case.dtype)
    tokens = case.prompts()
    for _ in range(case.tokens):
        yield (logits := serial_forward(tokens, cache, weights, sizes) @ weights["head"].T)
        tokens = logits.argmax(axis=1)[:, None]


def of_the_scheme(case):
    """The case where a line looks at what was sent, and not at values."""
    return replace(case, line=f"{case.line} --compare scheme")


def _few(values):
    text = ", ".join(str(value) for value in values)
    return text if len(text) <= 30 else f"{text[:27]}..."


# -- what comes back -------------------------------------------------------------------------------


def assert_decoded(value, case, rank, what="", right=None):
    """What ``forward``, ``greedy`` or ``generate`` gave on one rank."""
    right = case.right() if right is None else right
    if isinstance(right, list):
        assert_forward(value, right, case, rank)
    else:
        assert_tokens(value, right, case, rank, what)


def assert_forward(value, right, case, rank):
    """What ``forward`` gave in each step."""
    for step, (got, wanted) in enumerate(zip(value, right, strict=True)):
        name = "prefill" if step == 0 else f"decoding step {step}"
        tolerance = TOLERANCE[str(wanted.dtype)] * float(np.abs(wanted).max(initial=1))
        scale = np.full(wanted.size, tolerance / (2 * (case.world_size + 1)))
        scale /= np.finfo(wanted.dtype).eps
        shaped = isinstance(got, np.ndarray) and got.shape == wanted.shape
        flat = got.reshape(-1) if shaped else got
        wanted = wanted.reshape(-1) if shaped else wanted
        assert_array(flat, wanted, scale, case, f"rank {rank}'s result of {name}")


def assert_tokens(value, right, case, rank, what=""):
    """Chosen words."""
    got = np.asarray(value)
    if got.shape != right.shape or got.dtype.kind not in "iu":
        raise case.fail(
            f"{what}rank {rank} returned shape {got.shape} of dtype {got.dtype}; it must be "
            f"integers of shape {right.shape}."
        )
    wrong = np.argwhere(got != right)
    if len(wrong):
        sequence, *step = wrong[0]
        where = f"sequence {sequence}" + "".join(f", token {each}" for each in step)
        raise case.fail(
            f"{what}rank {rank} chose word {got[tuple(wrong[0])]} for {where}; it must be word "
            f"{right[tuple(wrong[0])]}."
        )


def check_decoded(result, case):
    """All ranks' values are right, and whole weights or logits didn't travel."""
    assert_ran(result, case)
    seen, right = case.seen_in(result), case.right()
    for rank, value in enumerate(result.values):
        assert_decoded(value, seen, rank, right=right)
    if case.target.endswith("decode_greedy"):
        return
    # The scheme itself, and whole weights or logits are more: one sum too many passes here.
    allowed = 3 * (case.forward_nbytes() + case.tokens * case.greedy_nbytes())
    assert_moved(result, allowed, case, "three times the all-reduces of new positions, no weights")


# -- machines --------------------------------------------------------------------------------------


def decode_machine(ranks_per_node):
    """GPUs that take a few microseconds to read this small model's layer, on real links."""
    return Machine.load("zaratan").with_(
        name=f"{ranks_per_node} a node", ranks_per_node=ranks_per_node, memory_bytes_per_s=4e9,
        flop_per_s=1e13,
    )  # fmt: skip
