# fails: test_fifty_layers_on_sixty_four_workers
"""The recursion is right and remembers nothing, so that it solves the same part again and again."""


def plan_s(profile, plan, machine):
    seconds = [0.0]
    for lo, hi, replicas in plan:
        compute = sum(layer.compute_s for layer in profile[lo:hi])
        weights = sum(layer.weight_bytes for layer in profile[lo:hi])
        beta = machine.beta_s_per_byte
        seconds.append(max(compute, 2 * (replicas - 1) * weights * beta) / replicas)
        if hi < len(profile):
            seconds.append(2 * profile[hi - 1].output_bytes * beta)
    return max(seconds)


def plan_bytes(profile, plan):
    found = []
    for stage, (lo, hi, replicas) in enumerate(plan):
        workers = sum(each[2] for each in plan[stage:])
        kept = sum(layer.weight_bytes + layer.output_bytes for layer in profile[lo:hi])
        found.append(-(-workers // replicas) * kept)
    return found


def partition(profile, num_workers, machine, capacity_bytes=None):
    def best_of(lo, workers):
        if lo == len(profile):
            return [] if workers == 0 else None
        best = None
        for hi in range(lo + 1, len(profile) + 1):
            for replicas in range(1, workers + 1):
                rest = best_of(hi, workers - replicas)
                if rest is None:
                    continue
                plan = [(lo, hi, replicas), *rest]
                if capacity_bytes is not None and plan_bytes(profile, plan)[0] > capacity_bytes:
                    continue
                if best is None or cost(plan) < cost(best):
                    best = plan
        return best

    def cost(plan):
        return plan_s(profile, plan, machine)

    plans = [best_of(0, workers) for workers in range(1, num_workers + 1)]
    plans = [plan for plan in plans if plan is not None]
    if not plans:
        raise ValueError("nothing fits.")
    return min(plans, key=cost)
