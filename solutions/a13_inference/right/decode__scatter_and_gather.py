"""Reduce-scatter and all-gather; the best words go to rank 0, which decides."""

import numpy as np
from model import Cache, cut, gelu, last_rows, layer_norm, matmul, of_layer, positions_of, shard_bounds
from model import Sizes
from mpi4py import MPI


def shard(weights, sizes, world_size, rank):
    width, group = sizes.head_dim, sizes.heads // sizes.kv_heads
    lo, hi = shard_bounds(sizes.kv_heads, world_size, rank)
    kv, q = slice(lo * width, hi * width), slice(lo * width * group, hi * width * group)
    units = slice(*shard_bounds(sizes.hidden, world_size, rank))
    words = slice(*shard_bounds(sizes.vocabulary, world_size, rank))
    last = dict.fromkeys(("Wq", "bq"), q) | dict.fromkeys(("Wk", "bk", "Wv", "bv"), kv)
    last |= dict.fromkeys(("W1", "b1"), units)
    return cut(weights, last, {"Wo": q, "W2": units, "head": words})


def total(comm, x):
    flat = x.reshape(-1)
    counts = [hi - lo for lo, hi in (shard_bounds(x.size, comm.size, r) for r in range(comm.size))]
    mine = np.empty(counts[comm.rank], x.dtype)
    comm.Reduce_scatter(flat, mine, counts)
    found = np.empty_like(flat)
    comm.Allgatherv(mine, [found, counts])
    return found.reshape(x.shape)


def forward(comm, tokens, cache, part, sizes):
    counts = [len(each) for each in tokens]
    flat = np.array([word for each in tokens for word in each])
    x = part["words"][flat] + part["positions"][positions_of(tokens, cache)]
    for layer in range(sizes.layers):
        w = of_layer(part, layer)
        n = layer_norm(x, w["gamma1"], w["beta1"])
        q, k, v = (matmul(n, w[f"W{name}"]) + w[f"b{name}"] for name in "qkv")
        o = cache.attend(layer, q, k, v, counts)
        x = x + total(comm, matmul(o, w["Wo"])) + w["bo"]
        n = layer_norm(x, w["gamma2"], w["beta2"])
        a = gelu(matmul(n, w["W1"]) + w["b1"])
        x = x + total(comm, matmul(a, w["W2"])) + w["b2"]
    cache.advance(counts)
    return layer_norm(x[last_rows(counts)], part["gamma"], part["beta"])


def greedy(comm, hidden, part, sizes):
    lo, hi = shard_bounds(sizes.vocabulary, comm.size, comm.rank)
    own = np.full((2, len(hidden)), -np.inf)
    if hi > lo:
        logits = matmul(hidden, part["head"].T)
        own[0], own[1] = logits.max(axis=1), lo + logits.argmax(axis=1)
    every = comm.gather(own)
    words = None
    if comm.rank == 0:
        every = np.array(every)
        words = np.take_along_axis(every[:, 1], every[:, 0].argmax(axis=0)[None], 0)[0].astype(int)
    return comm.bcast(words)


def generate(comm, prompts, part, sizes, num_tokens):
    heads = part["0.Wk"].shape[1] // sizes.head_dim
    cache, chosen = Cache(sizes, len(prompts), heads, part["head"].dtype), []
    hidden = forward(comm, prompts, cache, part, sizes)
    while True:
        chosen.append(greedy(comm, hidden, part, sizes))
        if len(chosen) == num_tokens:
            return np.stack(chosen, axis=1)
        hidden = forward(comm, [[int(word)] for word in chosen[-1]], cache, part, sizes)


def measured_tokens(comm, sizes, part, prompts, num_tokens):
    return generate(comm, prompts, part, Sizes(*sizes), num_tokens)

