"""Queries, keys and values in one product."""

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
    found = np.empty_like(x)
    comm.Allreduce(x, found)
    return found


def forward(comm, tokens, cache, part, sizes):
    counts = [len(each) for each in tokens]
    x = part["words"][np.concatenate(tokens)]
    x = x + part["positions"][positions_of(tokens, cache)]
    for layer in range(sizes.layers):
        w = of_layer(part, layer)
        n = layer_norm(x, w["gamma1"], w["beta1"])
        columns = [w["Wq"], w["Wk"], w["Wv"]]
        qkv = matmul(n, np.concatenate(columns, axis=1))
        qkv += np.concatenate([w["bq"], w["bk"], w["bv"]])
        ends = np.cumsum([each.shape[1] for each in columns])
        q, k, v = np.split(qkv, ends[:2], axis=1)
        x = x + w["bo"] + total(comm, matmul(cache.attend(layer, q, k, v, counts), w["Wo"]))
        n = layer_norm(x, w["gamma2"], w["beta2"])
        x = x + w["b2"] + total(comm, matmul(gelu(matmul(n, w["W1"]) + w["b1"]), w["W2"]))
    cache.advance(counts)
    return layer_norm(x[last_rows(counts)], part["gamma"], part["beta"])


def greedy(comm, hidden, part, sizes):
    lo, hi = shard_bounds(sizes.vocabulary, comm.Get_size(), comm.Get_rank())
    own = np.full((len(hidden), 2), [-np.inf, sizes.vocabulary])
    if lo < hi:
        logits = matmul(hidden, part["head"].T)
        own[:, 0], own[:, 1] = logits.max(axis=1), lo + logits.argmax(axis=1)
    every = comm.allgather(own)
    words = [max(pairs, key=lambda pair: (pair[0], -pair[1]))[1] for pairs in zip(*every, strict=True)]
    return np.array(words).astype(int)


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

