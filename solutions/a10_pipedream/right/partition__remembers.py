"""A recursion from the first layer that remembers, with tables of what each stage costs."""

import functools
import itertools
import math


def _sums(numbers):
    return list(itertools.accumulate(numbers, initial=0))


def _stage_s(profile, lo, hi, replicas, machine):
    compute = sum(layer.compute_s for layer in profile[lo:hi])
    weights = sum(layer.weight_bytes for layer in profile[lo:hi])
    return max(compute / replicas, 2 * (replicas - 1) / replicas * weights * machine.beta_s_per_byte)


def plan_s(profile, plan, machine):
    links = [2 * profile[hi - 1].output_bytes * machine.beta_s_per_byte for _, hi, _ in plan[:-1]]
    return max(itertools.chain(links, (_stage_s(profile, *stage, machine) for stage in plan)))


def plan_bytes(profile, plan):
    return [
        math.ceil(sum(m for _, _, m in plan[k:]) / plan[k][2])
        * sum(layer.weight_bytes + layer.output_bytes for layer in profile[plan[k][0] : plan[k][1]])
        for k in range(len(plan))
    ]


def partition(profile, num_workers, machine, capacity_bytes=None):
    compute, weights, outputs = (
        _sums(getattr(layer, name) for layer in profile)
        for name in ("compute_s", "weight_bytes", "output_bytes")
    )
    beta, end = machine.beta_s_per_byte, len(profile)
    room = math.inf if capacity_bytes is None else capacity_bytes

    @functools.lru_cache(maxsize=None)
    def best(lo, workers):
        """Time and first stage of the layers from lo on."""
        if lo == end or not workers:
            return (0.0 if (lo, workers) == (end, 0) else math.inf), None
        found = math.inf, None
        for hi in range(lo + 1, end + 1):
            link = 2 * profile[hi - 1].output_bytes * beta if hi < end else 0
            w = weights[hi] - weights[lo]
            kept = w + outputs[hi] - outputs[lo]
            for m in range(1, workers + 1):
                if (workers + m - 1) // m * kept <= room:
                    c = compute[hi] - compute[lo]
                    own = max(c, 2 * (m - 1) * w * beta) / m
                    time = max(link, own, best(hi, workers - m)[0])
                    found = min(found, (time, (hi, m)), key=lambda each: each[0])
        return found

    workers = min(range(1, num_workers + 1), key=lambda workers: best(0, workers)[0])
    if best(0, workers)[0] == math.inf:
        raise ValueError(f"{capacity_bytes} bytes are too few for any plan")
    plan, lo = [], 0
    while lo < end:
        hi, m = best(lo, workers)[1]
        plan.append((lo, hi, m))
        lo, workers = hi, workers - m
    return plan
