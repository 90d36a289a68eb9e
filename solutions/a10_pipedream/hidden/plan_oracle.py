"""Plans, what they cost, and all of them: for up to 8 layers and 4 workers."""

import itertools
import math

import numpy as np


def time_s(profile, plan, bytes_per_s):
    """Seconds between two minibatches."""
    stages, links = [], [0.0]
    for lo, hi, replicas in plan:
        computing = math.fsum(layer.compute_s for layer in profile[lo:hi])
        traffic = 2 * (replicas - 1) * sum(layer.weight_bytes for layer in profile[lo:hi])
        stages.append(max(computing / replicas, traffic / bytes_per_s / replicas))
    for _, hi, _ in plan[:-1]:
        links.append(2 * profile[hi - 1].output_bytes / bytes_per_s)
    return max(*stages, *links)


def bytes_of(profile, plan):
    """Bytes that a worker of each stage keeps."""
    found = []
    for place, (lo, hi, replicas) in enumerate(plan):
        workers = sum(each for _, _, each in plan[place:])
        kept = sum(layer.weight_bytes for layer in profile[lo:hi])
        kept += sum(layer.output_bytes for layer in profile[lo:hi])
        found.append(math.ceil(workers / replicas) * kept)
    return found


def plans(num_layers, num_workers):
    """Every plan."""
    for count in range(1, min(num_layers, num_workers) + 1):
        for cuts in itertools.combinations(range(1, num_layers), count - 1):
            edges = (0, *cuts, num_layers)
            for workers in range(count, num_workers + 1):
                for ends in itertools.combinations(range(1, workers), count - 1):
                    many = itertools.pairwise((0, *ends, workers))
                    yield [
                        (lo, hi, b - a)
                        for (lo, hi), (a, b) in zip(itertools.pairwise(edges), many, strict=True)
                    ]


def shortest_s(profile, num_workers, bytes_per_s, capacity=None):
    """The time of the best plan that fits; infinite where none does."""
    times_s = [
        time_s(profile, plan, bytes_per_s)
        for plan in plans(len(profile), num_workers)
        if capacity is None or max(bytes_of(profile, plan)) <= capacity
    ]
    return min(times_s, default=math.inf)


def shortest_of_long_s(profile, num_workers, bytes_per_s):
    """The same where there are too many plans: the layers from lo on, with at most m workers."""
    count, replicas = len(profile), np.arange(1, num_workers + 1)
    best = np.full((count + 1, num_workers + 1), math.inf)
    best[count] = 0.0
    for lo, hi in sorted(itertools.combinations(range(count + 1), 2), reverse=True):
        computing = math.fsum(layer.compute_s for layer in profile[lo:hi])
        traffic = 2 * (replicas - 1) * sum(layer.weight_bytes for layer in profile[lo:hi])
        stage_s = np.maximum(computing, traffic / bytes_per_s) / replicas
        if hi < count:
            stage_s = np.maximum(stage_s, 2 * profile[hi - 1].output_bytes / bytes_per_s)
        for workers in replicas:
            both_s = np.maximum(stage_s[:workers], best[hi, :workers][::-1])
            best[lo, workers] = min(best[lo, workers], both_s.min())
    return float(best[0, num_workers])


def anything(rng, num_layers, num_workers, stages=None):
    """A plan drawn at random."""
    count = stages or int(rng.integers(1, min(num_layers, num_workers) + 1))
    cuts = sorted(rng.choice(range(1, num_layers), count - 1, replace=False).tolist())
    edges = [0, *cuts, num_layers]
    replicas = [1] * count
    for _ in range(num_workers - count):
        replicas[int(rng.integers(count))] += 1
    pairs = itertools.pairwise(edges)
    return [(lo, hi, many) for (lo, hi), many in zip(pairs, replicas, strict=True)]
