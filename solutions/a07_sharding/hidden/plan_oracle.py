"""What memory.py and offload.py should answer, from the docstrings' tables and by trying plans."""

import itertools

from solutions.a07_sharding.offload_model import CHOICES, makespan_s

# -- memory ----------------------------------------------------------------------------------------


def parameters(sizes):
    num_layers, h, _, s, vocabulary = sizes
    layer = 3 * h * h + 3 * h + h * h + h + 8 * h * h + 5 * h + 4 * h
    return num_layers * layer + vocabulary * h + s * h + 2 * h


def state(psi, n, stage, weight=2, gradient=2, optimizer=12):
    shard = psi // n + (psi % n > 0)
    held = {0: (psi, psi, psi), 1: (psi, psi, shard), 2: (psi, shard, shard), 3: (shard,) * 3}
    return sum(a * b for a, b in zip(held[stage], (weight, gradient, optimizer), strict=True))


def layer(sizes, batch, w=2, dropout=True):
    """The table's lines: elements, and bytes of each."""
    _, h, a, s, _ = sizes
    row, scores = s * batch * h, a * s * s * batch
    lines = [(row, w)] * 2 + [(3 * row, w), (scores, w), (row, w)]
    lines += [(row, w)] * 2 + [(4 * row, w)] * 2
    if dropout:
        lines += [(scores, 1), (scores, w), (row, 1), (row, 1)]
    return sum(count * size for count, size in lines)


def activations(sizes, batch, recompute=False, element_bytes=2, dropout=True):
    num_layers, h, _, s, vocabulary = sizes
    row = s * batch * h
    ends = 2 * row * element_bytes + row * dropout + s * batch * vocabulary * element_bytes
    whole = layer(sizes, batch, element_bytes, dropout)
    if not recompute:
        return ends + num_layers * whole
    return ends + (num_layers - 1) * row * element_bytes + whole


def step(sizes, batch, n, stage, recompute=False):
    return state(parameters(sizes), n, stage) + activations(sizes, batch, recompute)


# -- offload ---------------------------------------------------------------------------------------


def shortest_s(layers, capacity_bytes, host_bytes_per_s):
    """Of all plans that keep the last layer: nothing gains by letting it go for no time."""
    if not layers:
        return 0.0
    plans = ((*plan, "keep") for plan in itertools.product(CHOICES, repeat=len(layers) - 1))
    return min(makespan_s(layers, plan, capacity_bytes, host_bytes_per_s) for plan in plans)


def reference_s(layers, capacity_bytes, host_bytes_per_s, width=100):
    """From the last layer to the first, with the best plans so far going on."""
    best = [["recompute"] * len(layers)]
    for k in reversed(range(len(layers))):
        plans = [[*plan[:k], choice, *plan[k + 1 :]] for plan in best for choice in CHOICES]
        timed = [(makespan_s(layers, p, capacity_bytes, host_bytes_per_s), p) for p in plans]
        best = [plan for _, plan in sorted(timed)[:width]]
    return makespan_s(layers, best[0], capacity_bytes, host_bytes_per_s)


def drawn(rng, num_layers, host=None):
    """Layers as numbers, a capacity between one layer and all, and a link as fast as the GPU."""
    numbers = [tuple(int(rng.integers(1, top)) for top in (10, 19, 31)) for _ in range(num_layers)]
    total, most = sum(n for *_, n in numbers), max(n for *_, n in numbers)
    capacity = max(most, int(total * rng.uniform(0.25, 0.8)))
    pace = total / sum(forward for forward, *_ in numbers)  # bytes made in a second
    return numbers, capacity, round(max(0.01, pace * (host or rng.choice([0.2, 0.4, 0.8, 1.5]))), 2)
