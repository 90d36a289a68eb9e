"""All plans where they are few; beyond, a random walk that cools, with a generator of its own."""

import itertools
import math
import random

from offload_model import CHOICES, makespan_s


def schedule(layers, capacity_bytes, host_bytes_per_s):
    if not layers:
        return []
    if max(layer.nbytes for layer in layers) > capacity_bytes:
        raise ValueError("the largest layer doesn't fit.")

    def seconds(plan):
        return makespan_s(layers, plan, capacity_bytes, host_bytes_per_s)

    count = len(layers)
    if count <= 8:
        plans = itertools.product(CHOICES, repeat=count - 1)
        return min(([*plan, "keep"] for plan in plans), key=seconds)
    rng = random.Random(7)
    plan = ["recompute"] * count
    now_s = best_s = seconds(plan)
    best = plan
    for step in range(8000):
        heat = 0.03 * now_s * (1 - step / 8000) + 1e-9
        changed = list(plan)
        for _ in range(rng.choice((1, 1, 2))):
            changed[rng.randrange(count)] = rng.choice(CHOICES)
        new_s = seconds(changed)
        if new_s <= now_s or rng.random() < math.exp((now_s - new_s) / heat):
            plan, now_s = changed, new_s
        if now_s < best_s:
            best, best_s = plan, now_s
    return best
