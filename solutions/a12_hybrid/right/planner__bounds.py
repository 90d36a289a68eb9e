"""Branch and bound: a mixture whose time over free wires is longer than the best is skipped."""

import heapq
from dataclasses import replace

from ringside.scale.hybrid_cost import configs


def plan(model, machine, num_gpus, memory_bytes, cost):
    budget = 20_000
    free = machine.with_(alpha_s=0.0, beta_s_per_byte=0.0)
    if machine.intra_alpha_s is not None:
        free = free.with_(intra_alpha_s=0.0, intra_beta_s_per_byte=0.0)
    mixtures = list(configs(model, num_gpus))
    if len(mixtures) <= budget:
        return pick(((cost(model, each, machine), each) for each in mixtures), memory_bytes)

    # Over free wires the order doesn't matter: ask once for all orders.
    families = {}
    for each in mixtures:
        families.setdefault(replace(each, order=("tensor", "data", "pipeline")), []).append(each)
    heap, nearest, asked, too_large = [], None, 0, {}
    for number, members in enumerate(families.values()):
        size = replace(members[0], microbatch_size=1, order=("tensor", "data", "pipeline"))
        if members[0].microbatch_size >= too_large.get(size, 1 << 40):
            continue
        told = cost(model, members[0], free)
        asked += 1
        if nearest is None or told.memory_bytes < nearest[0]:
            nearest = told.memory_bytes, members[0]
        if told.memory_bytes <= memory_bytes:
            heapq.heappush(heap, (told.step_s, number, members))
        else:
            too_large[size] = members[0].microbatch_size
    best = None
    while heap and asked < budget - 6:
        bound, _, members = heapq.heappop(heap)
        if best is not None and bound >= best[0]:
            break
        for each in members:
            told = cost(model, each, machine)
            asked += 1
            if best is None or told.step_s < best[0]:
                best = told.step_s, each
    if best is None:
        raise ValueError(f"there are {memory_bytes} bytes; {nearest[1]} takes {nearest[0]}")
    return best[1]


def pick(pairs, memory_bytes):
    pairs = list(pairs)
    fitting = [(told.step_s, k) for k, (told, _) in enumerate(pairs) if told.memory_bytes <= memory_bytes]
    if not fitting:
        told, config = min(pairs, key=lambda pair: pair[0].memory_bytes)
        raise ValueError(f"there are {memory_bytes} bytes; {config} takes {told.memory_bytes}")
    return pairs[min(fitting)[1]][1]
