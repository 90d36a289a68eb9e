"""Enumerates the fields itself, and keeps what it asked in a table of its own."""

import itertools

from ringside.scale.hybrid_cost import RECOMPUTE, Config, why_illegal

ORDERS = list(itertools.permutations(("tensor", "data", "pipeline")))


def factors(n):
    return [k for k in range(1, n + 1) if n % k == 0]


def families(model, gpus):
    """One for each mixture, whatever its order and its microbatch."""
    for t, p in itertools.product(factors(gpus), factors(gpus)):
        if gpus % (t * p) or model.num_heads % t or p > model.num_layers:
            continue
        d = gpus // (t * p)
        if model.batch % d:
            continue
        pieces = [1] if p == 1 else [v for v in factors(model.num_layers) if p * v <= model.num_layers]
        for v, zero, again in itertools.product(pieces, range(4) if d > 1 else [0], RECOMPUTE):
            yield d, t, p, v, zero, again


def plan(model, machine, num_gpus, memory_bytes, cost):
    table, least = [], None
    for d, t, p, v, zero, again in families(model, num_gpus):
        for size in factors(model.batch // d):
            config = Config(d, t, p, size, v, zero, again)
            if why_illegal(model, config):
                continue
            told = cost(model, config, machine)
            if least is None or told.memory_bytes < least[0]:
                least = told.memory_bytes, config
            if told.memory_bytes > memory_bytes:
                break
            table.append((told.step_s, len(table), config))
    if not table:
        raise ValueError(
            f"Needed: {least[0]:,} bytes a GPU, by {least[1]}. Available: {memory_bytes:,} bytes."
        )
    table.sort()
    best = table[0]
    for step_s, _, config in table[:1500]:
        d, t, p = config.data, config.tensor, config.pipeline
        several = ORDERS[1:] if (d > 1) + (t > 1) + (p > 1) > 1 else []
        for order in several:
            other = Config(
                d, t, p, config.microbatch_size, config.interleave, config.zero,
                config.recompute, order,
            )  # fmt: skip
            told = cost(model, other, machine)
            if told.step_s < best[0]:
                best = told.step_s, 0, other
    return best[2]
