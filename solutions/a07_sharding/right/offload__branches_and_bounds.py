"""A tree over the layers, cut where computing alone takes as long as the best plan so far."""

from offload_model import makespan_s


def schedule(layers, capacity_bytes, host_bytes_per_s):
    count = len(layers)
    if any(layer.nbytes > capacity_bytes for layer in layers):
        raise ValueError("one layer doesn't fit alone.")
    computing = sum(layer.forward_s + layer.backward_s for layer in layers)

    def seconds(plan):
        return makespan_s(layers, plan, capacity_bytes, host_bytes_per_s)

    best = ["swap"] * count
    best_s, left = seconds(best), 8000
    start = ["recompute"] * count  # one layer after the other gets what is best for it
    for _ in range(3):
        for k in range(count):
            start = min(
                ([*start[:k], choice, *start[k + 1 :]] for choice in ("swap", "recompute", "keep")),
                key=seconds,
            )
    if seconds(start) < best_s:
        best, best_s = start, seconds(start)

    def visit(k, plan, least_s, kept):
        nonlocal best, best_s, left
        if least_s >= best_s or (count > 8 and left <= 0):
            return
        if k == count:
            left -= 1
            taken_s = seconds(plan)
            if taken_s < best_s:
                best, best_s = list(plan), taken_s
            return
        layer = layers[k]
        if kept + layer.nbytes > capacity_bytes:
            return
        visit(k + 1, [*plan, "keep"], least_s, kept + layer.nbytes)
        visit(k + 1, [*plan, "swap"], least_s, kept)
        visit(k + 1, [*plan, "recompute"], least_s + layer.forward_s, kept)

    visit(0, [], computing, 0)
    return best
