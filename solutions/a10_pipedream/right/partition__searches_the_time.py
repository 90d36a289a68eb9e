"""Is there a plan within this time? Asked for all times that a stage or a link can take.

A plan of at most so many seconds that uses fewest workers is not enough with a capacity, since more
workers behind a stage keep more versions; so the number of workers stays in the table.
"""

import bisect

import numpy as np


def plan_s(profile, plan, machine):
    compute, outputs, weights = _columns(profile)
    beta, times = machine.beta_s_per_byte, []
    for lo, hi, m in plan:
        times += [compute[lo:hi].sum() / m, 2 * (m - 1) * weights[lo:hi].sum() * beta / m]
    times += [2 * outputs[hi - 1] * beta for _, hi, _ in plan[:-1]]
    return float(max(times))


def plan_bytes(profile, plan):
    _, outputs, weights = _columns(profile)
    behind = np.cumsum([m for *_, m in plan[::-1]])[::-1]
    return [
        int(-(-int(workers) // m) * (outputs[lo:hi].sum() + weights[lo:hi].sum()))
        for workers, (lo, hi, m) in zip(behind, plan)
    ]


def _columns(profile):
    kinds = ("compute_s", float), ("output_bytes", int), ("weight_bytes", int)
    return [np.array([getattr(each, name) for each in profile], kind) for name, kind in kinds]


def partition(profile, num_workers, machine, capacity_bytes=None):
    compute, outputs, weights = _columns(profile)
    beta, count = machine.beta_s_per_byte, len(profile)
    m = np.arange(1, num_workers + 1)
    stage_s = np.full((count, count + 1, num_workers), np.inf)
    kept = np.zeros((count, count + 1), int)
    for lo in range(count):
        for hi in range(lo + 1, count + 1):
            traffic = 2 * (m - 1) * weights[lo:hi].sum() * beta
            own = np.maximum(compute[lo:hi].sum(), traffic) / m
            link = 2 * outputs[hi - 1] * beta if hi < count else 0
            stage_s[lo, hi] = np.maximum(own, link)
            kept[lo, hi] = weights[lo:hi].sum() + outputs[lo:hi].sum()

    def possible(time_s):
        """From lo on with exactly so many workers: the first stage of a plan within the time."""
        first = [[None] * (num_workers + 1) for _ in range(count)] + [[()] + [None] * num_workers]
        for lo in reversed(range(count)):
            for hi in range(lo + 1, count + 1):
                for replicas in np.flatnonzero(stage_s[lo, hi] <= time_s) + 1:
                    replicas = int(replicas)
                    for workers in range(replicas, num_workers + 1):
                        if first[lo][workers] is not None:
                            continue
                        needed = -(-workers // replicas) * int(kept[lo, hi])
                        if capacity_bytes is not None and needed > capacity_bytes:
                            break
                        if first[hi][workers - replicas] is not None:
                            first[lo][workers] = hi, replicas
        used = [workers for workers in range(num_workers + 1) if first[0][workers]]
        if not used:
            return None
        plan, lo, workers = [], 0, used[0]
        while lo < count:
            hi, replicas = first[lo][workers]
            plan.append((lo, hi, replicas))
            lo, workers = hi, workers - replicas
        return plan

    times = sorted(set(stage_s[np.isfinite(stage_s)].tolist()))
    if possible(times[-1]) is None:
        raise ValueError("no plan fits")
    at = bisect.bisect_left(range(len(times)), True, key=lambda k: possible(times[k]) is not None)
    return possible(times[at])
