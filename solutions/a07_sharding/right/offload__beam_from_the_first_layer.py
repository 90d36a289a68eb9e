"""The first layers are decided first; the others are recomputed until their turn comes."""

from offload_model import CHOICES, simulate


def schedule(layers, capacity_bytes, host_bytes_per_s):
    for number, layer in enumerate(layers):
        if layer.nbytes > capacity_bytes:
            raise ValueError(f"layer {number} needs more than {capacity_bytes} bytes.")
    width = 6561 if len(layers) <= 8 else 250
    front = {("recompute",) * len(layers)}
    for k in range(len(layers)):
        grown = set()
        for plan in front:
            for choice in CHOICES:
                changed = list(plan)
                changed[k] = choice
                grown.add(tuple(changed))
        ranked = sorted(
            grown, key=lambda plan: simulate(layers, plan, capacity_bytes, host_bytes_per_s)
        )
        front = set(ranked[:width])
        best = ranked[0]
    return list(best) if layers else []
