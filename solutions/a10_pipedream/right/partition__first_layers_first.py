"""The table begins with the first layers; the number of workers behind them is a third index."""

from math import inf


def plan_s(profile, plan, machine):
    worst = 0
    for lo, hi, replicas in plan:
        share = sum(layer.compute_s for layer in profile[lo:hi]) / replicas
        bytes_ = 2 * sum(layer.weight_bytes for layer in profile[lo:hi]) * (replicas - 1) / replicas
        behind = 0 if hi == len(profile) else 2 * profile[hi - 1].output_bytes
        worst = max(worst, share, max(bytes_, behind) * machine.beta_s_per_byte)
    return float(worst)


def plan_bytes(profile, plan):
    numbers = []
    workers = sum(replicas for _, _, replicas in plan)
    for lo, hi, replicas in plan:
        versions, rest = divmod(workers, replicas)
        one = sum(layer.weight_bytes + layer.output_bytes for layer in profile[lo:hi])
        numbers.append((versions + (rest > 0)) * one)
        workers -= replicas
    return numbers


def partition(profile, num_workers, machine, capacity_bytes=None):
    if capacity_bytes is None:
        capacity_bytes = inf
    count, beta = len(profile), machine.beta_s_per_byte
    sums = [(0.0, 0, 0)]
    for layer in profile:
        compute, weights, outputs = sums[-1]
        sums.append(
            (compute + layer.compute_s, weights + layer.weight_bytes, outputs + layer.output_bytes)
        )
    # best[hi][left]: the layers before hi, with exactly ``left`` workers for those behind. All
    # plans that use num_workers, num_workers - 1, ... workers begin with a stage of their own.
    best = [{} for _ in range(count + 1)]
    best[0] = {workers: (0.0, None) for workers in range(1, num_workers + 1)}
    for lo in range(count):
        for workers, (time, _) in best[lo].items():
            for hi in range(lo + 1, count + 1):
                compute, weights, outputs = (b - a for a, b in zip(sums[lo], sums[hi]))
                link = 2 * profile[hi - 1].output_bytes * beta if hi < count else 0.0
                if max(time, link) == inf or weights + outputs > capacity_bytes:
                    continue
                for replicas in range(1, workers + 1):
                    if hi == count and replicas != workers:
                        continue
                    if -(-workers // replicas) * (weights + outputs) > capacity_bytes:
                        continue
                    own = max(compute, 2 * (replicas - 1) * weights * beta) / replicas
                    new = max(time, link, own)
                    if new < best[hi].get(workers - replicas, (inf,))[0]:
                        best[hi][workers - replicas] = new, (lo, workers)
    if 0 not in best[count]:
        raise ValueError(f"{count} layers do not fit into {capacity_bytes} bytes")
    plan, hi, left = [], count, 0
    while hi:
        lo, workers = best[hi][left][1]
        plan.append((lo, hi, workers - left))
        hi, left = lo, workers
    return plan[::-1]
