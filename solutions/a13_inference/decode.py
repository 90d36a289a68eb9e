"""Text generation on p ranks: each has some heads, hidden units and words, and its part of a cache.

                 words, positions, norms, bo, b2: whole on every rank
    x -- layer norm -- q k v of my heads -- my cache -- o Wo[mine] --[sum]-- + bo + x
      -- layer norm -- gelu(n W1[mine] + b1[mine]) -- W2[mine] ------[sum]-- + b2 + x     each layer
      -- layer norm -- logits of my words -- my best word --[compare]-- token

    part 0 of 2 of 6 query heads and 3 key heads     key heads 0 1, query heads 0 1 2 3
    part 1                                           key head  2,   query heads 4 5

A query head goes where its key head goes, so a rank's cache holds its own key heads only. Part r of
the key heads, hidden units or words is ``model.shard_bounds(n, p, r)``; a part may be empty.

- Values: the tokens of ``model.serial_generate``. What ``forward`` returns agrees with one rank to
  1e-10 of the largest element (1e-4 in float32).
- Work: matrix products go through ``model.matmul`` and attention through the cache. A rank computes
  those of its part, once for each new position, and nothing again for positions in the cache.
- Bytes of ``forward``, a rank: two all-reduces of ``rows * d`` elements in each layer, and
  ``64 (p - 1)`` more for each all-reduce. Example: 2 layers, d = 24, 3 sequences that decode, 4
  ranks, float64. Of 72 numbers a rank sends 2 * 72 * 3/4 = 108. In 4 all-reduces these are 3,456
  bytes, and 768 more are free.
- Bytes of ``greedy``, a rank: two numbers a sequence to each other rank, of 8 bytes in any dtype.
  These are ``16 B (p - 1)``, and ``64 (p - 1)`` more are free. Example: 3 sequences, 4 ranks: 144
  bytes, and 192 free.
- The library's collectives are allowed.
- Memory: what ``generate`` holds at any time, besides the weights that it is given, is at most
  (1) its cache, of this rank's key heads only, (2) four times the bytes of these weights, and
  (3) 64 KiB. Example of (1): 2 layers, 2 sequences, ``longest`` 2048, 2 key heads of width 4,
  float64: 1 MiB.
- Time: at most 1.05 times that of ``given/token_time.py`` on the same machine; half the points up
  to 1.5.

Source: Pope et al., Efficiently scaling transformer inference, 2022; Shoeybi et al., Megatron-LM,
2019.
"""

import numpy as np
from given.model import (
    Cache,
    Sizes,
    cut,
    gelu,
    last_rows,
    layer_norm,
    matmul,
    of_layer,
    positions_of,
    shard_bounds,
)
from mpi4py import MPI


def shard(
    weights: dict[str, np.ndarray], sizes: Sizes, world_size: int, rank: int
) -> dict[str, np.ndarray]:
    """This rank's part of the weights.

    Args:
        weights: all weights, a dict as ``given/model.py`` names them.
        sizes: of the whole model, a ``model.Sizes``.

    Returns:
        A dict with the same names: new, contiguous arrays; ``model.cut`` makes them. Cut are the
        columns of Wq, Wk, Wv and W1, their biases, and the rows of Wo, W2 and ``head``.
    """
    ### BEGIN SOLUTION
    lo, hi = (sizes.head_dim * b for b in shard_bounds(sizes.kv_heads, world_size, rank))
    group = sizes.heads // sizes.kv_heads
    kv, q = slice(lo, hi), slice(group * lo, group * hi)
    units = slice(*shard_bounds(sizes.hidden, world_size, rank))
    words = slice(*shard_bounds(sizes.vocabulary, world_size, rank))
    last = {"Wq": q, "bq": q, "Wk": kv, "bk": kv, "Wv": kv, "bv": kv, "W1": units, "b1": units}
    return cut(weights, last, {"Wo": q, "W2": units, "head": words})
    ### END SOLUTION


def forward(
    comm: MPI.Comm, tokens: list[list[int]], cache: Cache, part: dict[str, np.ndarray], sizes: Sizes
) -> np.ndarray:
    """What comes out of the last layer norm, for each sequence's last new position.

    Args:
        comm: p ranks.
        tokens: the new tokens of each sequence, a list of B lists, the same on all ranks: prompts
            in prefill, one token each in decoding. Lengths may differ.
        cache: a ``model.Cache`` with this rank's key heads; the new positions are added to it.
        part: this rank's part of the weights.
        sizes: of the whole model.

    Returns:
        Shape ``(B, d)``, the same on all ranks.
    """
    ### BEGIN SOLUTION
    counts = [len(new) for new in tokens]
    x = part["words"][np.concatenate(tokens)] + part["positions"][positions_of(tokens, cache)]
    for layer in range(sizes.layers):
        w = of_layer(part, layer)
        n = layer_norm(x, w["gamma1"], w["beta1"])
        q, k, v = (matmul(n, w["W" + each], each) + w["b" + each] for each in "qkv")
        y = matmul(cache.attend(layer, q, k, v, counts), w["Wo"], "o")  # one summand
        comm.Allreduce(MPI.IN_PLACE, y)
        x = x + y + w["bo"]
        n = layer_norm(x, w["gamma2"], w["beta2"])
        y = matmul(gelu(matmul(n, w["W1"], "up") + w["b1"]), w["W2"], "down")
        comm.Allreduce(MPI.IN_PLACE, y)
        x = x + y + w["b2"]
    cache.advance(counts)
    return layer_norm(x[last_rows(counts)], part["gamma"], part["beta"])
    ### END SOLUTION


def greedy(
    comm: MPI.Comm, hidden: np.ndarray, part: dict[str, np.ndarray], sizes: Sizes
) -> np.ndarray:
    """The word of the largest logit of each sequence; of equal ones the lowest.

    Args:
        hidden: what ``forward`` returned, shape ``(B, d)``.
        part: this rank's part of the weights. Its logits are ``hidden @ part["head"].T``; a rank
            that has no words has none.

    Returns:
        B integers, the same on all ranks.
    """
    ### BEGIN SOLUTION
    lo, hi = shard_bounds(sizes.vocabulary, comm.size, comm.rank)
    best = np.full((2, len(hidden)), -np.inf)  # a logit and its word; a rank may have no words
    if hi > lo:
        logits = matmul(hidden, part["head"].T, "head")
        best[:] = logits.max(axis=1), logits.argmax(axis=1) + lo
    everyone = np.empty((comm.size, 2, len(hidden)))
    comm.Allgather(best, everyone)
    # argmax takes the first of equal ones: the lowest rank, which has the lowest words.
    winner = everyone[:, 0].argmax(axis=0)
    return everyone[winner, 1, np.arange(len(hidden))].astype(int)
    ### END SOLUTION


def generate(
    comm: MPI.Comm,
    prompts: list[list[int]],
    part: dict[str, np.ndarray],
    sizes: Sizes,
    num_tokens: int,
) -> np.ndarray:
    """Greedy generation: prefill once, then one token of each sequence in each step.

    Args:
        prompts: a list of B lists of tokens, each of one or more, the same on all ranks.
        num_tokens: how many tokens each sequence gets, at least 1.

    Returns:
        The new tokens, an integer array of shape ``(B, num_tokens)``, the same on all ranks.
    """
    ### BEGIN SOLUTION
    kv_heads = part["0.Wk"].shape[1] // sizes.head_dim
    cache = Cache(sizes, len(prompts), kv_heads, part["head"].dtype)
    found, tokens = np.empty((len(prompts), num_tokens), int), prompts
    for step in range(num_tokens):
        found[:, step] = greedy(comm, forward(comm, tokens, cache, part, sizes), part, sizes)
        tokens = found[:, step : step + 1]
    return found
    ### END SOLUTION


def measured_tokens(
    comm: MPI.Comm,
    sizes: tuple,
    part: dict[str, np.ndarray],
    prompts: list[list[int]],
    num_tokens: int,
):
    """``generate`` as the run on a cluster measures it: supplied. ``sizes`` is a tuple."""
    return generate(comm, prompts, part, Sizes(*sizes), num_tokens)
