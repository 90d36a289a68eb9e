"""All plans of up to 8 layers; beyond, steepest descent from two plans by single changes and swaps."""

import itertools

from offload_model import CHOICES, makespan_s


def _neighbours(plan):
    for k, old in enumerate(plan):
        for choice in CHOICES:
            if choice != old:
                yield (*plan[:k], choice, *plan[k + 1 :])
    for i, j in itertools.combinations(range(len(plan)), 2):
        if plan[i] != plan[j]:
            changed = list(plan)
            changed[i], changed[j] = plan[j], plan[i]
            yield tuple(changed)


def schedule(layers, capacity_bytes, host_bytes_per_s):
    count = len(layers)
    if max((layer.nbytes for layer in layers), default=0) > capacity_bytes:
        raise ValueError(f"a layer is larger than {capacity_bytes} bytes.")

    def seconds(plan):
        return makespan_s(layers, plan, capacity_bytes, host_bytes_per_s)

    if count <= 8:
        return list(min(itertools.product(CHOICES, repeat=count), key=seconds))
    found = []
    for choice in ("swap", "recompute"):
        plan = (choice,) * count
        while True:
            best = min(_neighbours(plan), key=seconds)
            if seconds(best) >= seconds(plan):
                break
            plan = best
        found.append(plan)
    return list(min(found, key=seconds))
