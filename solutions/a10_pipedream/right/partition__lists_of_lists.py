"""A table filled by rising number of stages' first layers; stages come as lists, numbers by NumPy."""

import numpy as np


def plan_s(profile, plan, machine):
    slowest = 0.0
    for number, (lo, hi, replicas) in enumerate(plan):
        stage = profile[lo:hi]
        slowest = max(slowest, sum(layer.compute_s for layer in stage) / replicas)
        shared = (replicas - 1) * sum(layer.weight_bytes for layer in stage) * 2
        slowest = max(slowest, shared * machine.beta_s_per_byte / replicas)
        if number + 1 < len(plan):
            slowest = max(slowest, 2 * stage[-1].output_bytes * machine.beta_s_per_byte)
    return slowest


def plan_bytes(profile, plan):
    result = []
    for number, (lo, hi, replicas) in enumerate(plan):
        ahead = sum(m for _, _, m in plan[number + 1 :])
        versions = 1 + (ahead + replicas - 1) // replicas
        result.append(versions * sum(x.weight_bytes + x.output_bytes for x in profile[lo:hi]))
    return result


def partition(profile, num_workers, machine, capacity_bytes=None):
    length, beta = len(profile), machine.beta_s_per_byte
    best = {(length, 0): (0.0, [])}
    for lo in range(length - 1, -1, -1):
        for workers in range(1, num_workers + 1):
            found = None
            for replicas in range(1, workers + 1):
                work = weights = kept = 0
                for hi in range(lo + 1, length + 1):
                    layer = profile[hi - 1]
                    work += layer.compute_s
                    weights += layer.weight_bytes
                    kept += layer.weight_bytes + layer.output_bytes
                    if capacity_bytes is not None:
                        if np.ceil(workers / replicas) * kept > capacity_bytes:
                            break
                    if work / replicas >= (found[0] if found else np.inf):
                        break
                    rest = best.get((hi, workers - replicas))
                    if rest is None:
                        continue
                    time = max(work, 2 * (replicas - 1) * weights * beta) / replicas
                    if hi < length:
                        time = max(time, 2 * layer.output_bytes * beta)
                    time = max(time, rest[0])
                    if found is None or time < found[0]:
                        found = time, [[lo, hi, replicas], *rest[1]]
            if found is not None:
                best[lo, workers] = found
    plans = [best[0, m] for m in range(1, num_workers + 1) if (0, m) in best]
    if not plans:
        raise ValueError("too little memory for every plan")
    return min(plans, key=lambda each: each[0])[1]
