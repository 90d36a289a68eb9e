"""A ring of its own, and lists of objects."""

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
    p, rank = comm.size, comm.rank
    parts = [np.array(part) for part in np.array_split(x.reshape(-1), p)]
    for step in range(2 * (p - 1)):
        give, take = (rank - step) % p, (rank - step - 1) % p
        got = np.empty_like(parts[take])
        comm.Sendrecv(parts[give], (rank + 1) % p, recvbuf=got, source=(rank - 1) % p)
        parts[take] = parts[take] + got if step < p - 1 else got
    return np.concatenate(parts).reshape(x.shape)


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

