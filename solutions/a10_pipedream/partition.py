"""PipeDream's planner: which layers form a stage, and how many workers replicate it.

    layers    0   1   2   3   4 | 5   6          plan [(0, 5, 3), (5, 7, 1)] on 4 workers, "3-1":
    workers   minibatch 0, 3, 6 | 0 1 2 3 ...    three workers have layers 0 to 4 and take the
              minibatch 1, 4, 7 |                minibatches in turn; a fourth worker has layers 5
              minibatch 2, 5, 8 |                and 6 and takes each minibatch

A *plan* is a list of stages ``(lo, hi, replicas)``: layers lo to hi - 1 on so many workers, in the
order of the layers, each layer once. A plan may leave workers idle, which is faster where averaging
takes longest.

**What a plan costs.** In the steady state of the pipeline all stages and all links work at the same
time. So the slowest of them says how many seconds pass between two minibatches. With B bytes per
second, which is ``1 / machine.beta_s_per_byte``, they take for each minibatch:

    stage with m replicas       max(compute, 2 (m - 1) weights / B) / m
    link behind stage (lo, hi)  2 output_bytes of layer hi - 1 / B           none behind the last

``compute`` and ``weights`` are sums over the stage's layers. The replicas compute m minibatches at
a time, and average their gradients once, beside the computation. So the larger one of the two times
counts, over m. Averaging moves 2 (m - 1) weights bytes, and we count all of them as if they went
over one link. The link behind a stage carries the activation forward and its gradient back,
whatever the replicas.
The time of the plan is the largest of all these times; the latency ``machine.alpha_s`` is not
counted.

Example. A profile has compute_s 4, 2, 2 s, output_bytes 1, 1, 1 GB, weight_bytes 1, 1, 2 GB, and
B is 1 GB/s. The plan [(0, 1, 2), (1, 3, 1)] takes max(4, 2) / 2 = 2 s in stage 0, 2 s on the link
and 2 + 2 = 4 s in stage 1. Its time is 4 s.

**What a worker keeps.** A stage keeps a version of its weights, and its layers' outputs, for each
minibatch that is under way on a worker. For stage s these are

    versions = ceil((replicas of stages s, s + 1, ..., last) / (replicas of stage s))

and each of its workers needs ``versions * (weights + outputs)`` bytes, where ``outputs`` is the sum
of ``output_bytes`` over the stage's layers. Nothing else is counted: no gradients, no optimizer
state, no input of the stage. In the example stage 0 has ceil(3 / 2) = 2 versions and needs 2 *
(1 + 1) = 4 GB; stage 1 has 1 version and needs (1 + 2) + (1 + 1) = 5 GB.

``given/profiles.py`` has ``Layer``, the profile of VGG-16, and profiles that are drawn.

Source: Narayanan et al., PipeDream, SOSP 2019, section 3.1. There a plan uses all workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringside import Machine

if TYPE_CHECKING:
    from given.profiles import Layer


def plan_s(profile: list[Layer], plan: list[tuple[int, int, int]], machine: Machine) -> float:
    """The time of a plan: seconds between two minibatches.

    Args:
        profile: list of ``profiles.Layer``, from 1.
        plan: list of ``(lo, hi, replicas)``, as above.
        machine: a ``ringside.Machine``; ``beta_s_per_byte`` may be 0.

    The example above gives 4.0.
    """
    ### BEGIN SOLUTION
    times_s = []
    for lo, hi, replicas in plan:
        compute_s = sum(layer.compute_s for layer in profile[lo:hi])
        weight_bytes = sum(layer.weight_bytes for layer in profile[lo:hi])
        average_s = 2 * (replicas - 1) * weight_bytes * machine.beta_s_per_byte
        times_s.append(max(compute_s, average_s) / replicas)
        if hi < len(profile):
            times_s.append(2 * profile[hi - 1].output_bytes * machine.beta_s_per_byte)
    return max(times_s)
    ### END SOLUTION


def plan_bytes(profile: list[Layer], plan: list[tuple[int, int, int]]) -> list[int]:
    """Bytes that a worker of each stage needs: a list of ``int``, one for each stage.

    The example above gives [4_000_000_000, 5_000_000_000].
    """
    ### BEGIN SOLUTION
    needed, workers = [], 0
    for lo, hi, replicas in reversed(plan):
        workers += replicas
        versions = -(-workers // replicas)
        kept = sum(layer.weight_bytes + layer.output_bytes for layer in profile[lo:hi])
        needed.append(versions * kept)
    return needed[::-1]
    ### END SOLUTION


def partition(
    profile: list[Layer], num_workers: int, machine: Machine, capacity_bytes: int | None = None
) -> list[tuple[int, int, int]]:
    """Find the plan of the shortest time.

    Args:
        profile: list of ``profiles.Layer``, from 1; up to 50 in the tests. Not modified.
        num_workers: from 1, up to 64 in the tests. The plan may use fewer.
        machine: as above.
        capacity_bytes: what a worker has. No stage of the plan needs more. None: no limit.

    Returns:
        A plan: a list of tuples of three whole numbers.
        - Each layer is in one stage, each stage has a layer and a worker, and all stages together
          have at most ``num_workers`` workers.
        - No such plan that fits is shorter (to 1e-9). Any of the shortest is right. For the profile
          above, 3 workers and 1 GB/s the shortest takes 3 s: [(0, 2, 2), (2, 3, 1)]. It needs 8 GB
          in stage 0. With ``capacity_bytes`` of 5 GB it doesn't fit, and the shortest takes 4 s.

    Raises:
        ValueError: no plan fits in ``capacity_bytes``.

    For 50 layers and 64 workers there are more than 10**25 plans, and a call must end within a few
    seconds of CPU time. What a stage keeps depends on the stages behind it alone. So begin with the
    last stage: find the best plan of the layers from lo on with m workers, for all lo and m, each
    from those with a larger lo.
    """
    ### BEGIN SOLUTION
    beta, count = machine.beta_s_per_byte, len(profile)
    # best[lo][m]: time and stages of the layers from lo on, with exactly m workers.
    best = [[(float("inf"), None)] * (num_workers + 1) for _ in range(count)]
    best.append([(0.0, ())] + [(float("inf"), None)] * num_workers)
    for lo in reversed(range(count)):
        compute_s = weight_bytes = output_bytes = 0
        for hi in range(lo + 1, count + 1):
            layer = profile[hi - 1]
            compute_s += layer.compute_s
            weight_bytes += layer.weight_bytes
            output_bytes += layer.output_bytes
            link_s = 2 * layer.output_bytes * beta if hi < count else 0.0
            for replicas in range(1, num_workers + 1):
                stage_s = max(compute_s, 2 * (replicas - 1) * weight_bytes * beta) / replicas
                stage_s = max(stage_s, link_s)
                for workers in range(replicas, num_workers + 1):
                    rest_s, stages = best[hi][workers - replicas]
                    versions = -(-workers // replicas)
                    needed = versions * (weight_bytes + output_bytes)
                    if capacity_bytes is not None and needed > capacity_bytes:
                        break  # more workers behind it keep more versions
                    time_s = max(stage_s, rest_s)
                    if time_s < best[lo][workers][0]:
                        best[lo][workers] = time_s, ((lo, hi, replicas), *stages)
    time_s, stages = min(best[0], key=lambda each: each[0])
    if stages is None:
        raise ValueError(
            f"no plan of {count} layers on {num_workers} workers fits in {capacity_bytes} bytes a "
            "worker: take more workers, or a smaller minibatch."
        )
    return list(stages)
    ### END SOLUTION
