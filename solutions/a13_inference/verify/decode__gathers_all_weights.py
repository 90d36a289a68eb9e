# fails: test_work_is_divided_and_sums_travel
# earns: 0 to 10
"""All ranks collect the whole weights, and each computes as one rank would."""

import numpy as np
from decode_cases import decode_part
from model import Cache, serial_forward

_kept = {}


def shard(weights, sizes, world_size, rank):
    return decode_part(weights, sizes, world_size, rank)


def _whole(comm, part):
    found, parts = {}, comm.allgather(part)
    for name, own in part.items():
        kind = name.rpartition(".")[2]
        axis = 0 if kind in ("Wo", "W2", "head") else -1
        cut = kind in ("Wq", "Wk", "Wv", "W1", "bq", "bk", "bv", "b1", "Wo", "W2", "head")
        found[name] = np.concatenate([each[name] for each in parts], axis=axis) if cut else own
    return found


def forward(comm, tokens, cache, part, sizes):
    if cache not in _kept:
        _kept[cache] = Cache(sizes, len(tokens), sizes.kv_heads, part["head"].dtype)
    return serial_forward(tokens, _kept[cache], _whole(comm, part), sizes)


def greedy(comm, hidden, part, sizes):
    return (hidden @ _whole(comm, part)["head"].T).argmax(axis=1)


def generate(comm, prompts, part, sizes, num_tokens):
    cache = Cache(sizes, len(prompts), 0, part["head"].dtype)
    found, tokens = np.empty((len(prompts), num_tokens), int), prompts
    for step in range(num_tokens):
        found[:, step] = greedy(comm, forward(comm, tokens, cache, part, sizes), part, sizes)
        tokens = found[:, step : step + 1]
    return found
