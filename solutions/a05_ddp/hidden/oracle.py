"""What must come out: serial training of the whole batch, and the docstrings' closed forms."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ringside.checking.examples import beside
from ringside.factors import Factors
from ringside.timing.machine import Machine
from solutions.a05_ddp.cases import ring_s
from solutions.a05_ddp.model import Model, loss_gradient

Arrays = list[np.ndarray]
Batch = tuple[np.ndarray, np.ndarray]
SOLUTION = Path(__file__).resolve().parents[1]
examples = beside(SOLUTION / "buckets.py")  # the checks that students have, too
mean = examples.mean


def train(
    params: Arrays,
    per_rank: Sequence[Sequence[Batch]],
    lr: float | None,
    factors: Factors | None = None,
) -> dict:
    """Serial training on all ranks' batches at once.

    Args:
        per_rank: per rank a list of ``(x, target)``, one a step, of equal lengths.
        factors: of the passes, in a test of order; then each rank's batch has its own.

    Returns:
        ``params`` and ``gradients`` at the end, and ``inputs``: per rank and step the gradient
        with respect to x of this rank's own loss.
    """
    if factors is not None:
        return examples.training(params, per_rank, lr, factors)
    model = Model([np.array(each) for each in params])
    ranks = len(per_rank)
    inputs: list[Arrays] = [[] for _ in range(ranks)]
    for batches in zip(*per_rank, strict=True):
        x, target = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        grad_input = model.backward(loss_gradient(model.forward(x), target))
        for rank, part in enumerate(np.array_split(grad_input, ranks)):
            inputs[rank].append(part * ranks)  # a rank divides by its own part of the batch
        if lr is not None:
            for param, gradient in zip(model.parameters(), model.gradients(), strict=True):
                param -= lr * gradient
    return {"params": model.parameters(), "gradients": model.gradients(), "inputs": inputs}


def assign(sizes: Sequence[int], cap: int, first_cap: int | None = None) -> list[list[int]]:
    """As few buckets as the caps allow, in reverse order."""
    found: list[list[int]] = []
    room = -1
    for index in reversed(range(len(sizes))):
        if not found or sizes[index] > room:
            found.append([])
            room = cap if first_cap is None or len(found) > 1 else first_cap
        found[-1].append(index)
        room -= sizes[index]
    return found


def finish_s(ready_s, end_s, buckets, bucket_s) -> float:
    """When everything is done, if all-reduces follow one another."""
    free_s = 0.0
    for bucket, duration_s in zip(buckets, bucket_s, strict=True):
        free_s = max([free_s, *(ready_s[index] for index in bucket)]) + duration_s
    return max(end_s, free_s)


def layer_flops(params: Arrays, batch: int, work: float) -> list[float]:
    """Per linear layer, the operations of its forward pass; the backward pass has twice as many."""
    return [2 * batch * weight.size * work for weight in params[::2]]


def step_s(
    params: Arrays, batch: int, work: float, buckets: list[list[int]], p: int, machine: Machine
) -> float:
    """The time of one step in which all-reduces follow one another."""
    forward_s = [machine.compute_s(flops, 0) for flops in layer_flops(params, batch, work)]
    ready_s = [0.0] * len(params)
    end_s = 0.0
    for layer in reversed(range(len(forward_s))):
        end_s += machine.compute_s(2 * layer_flops(params, batch, work)[layer], 0)
        ready_s[2 * layer] = ready_s[2 * layer + 1] = end_s
    bucket_s = [ring_s(sum(params[i].nbytes for i in each), p, machine) for each in buckets]
    return sum(forward_s) + finish_s(ready_s, end_s, buckets, bucket_s)


def work_for(
    params: Arrays, batch: int, buckets: list[list[int]], p: int, machine: Machine
) -> float:
    """The factor with which all backward passes take as long as all all-reduces."""
    nbytes = [sum(params[i].nbytes for i in each) for each in buckets]
    comm_s = sum(ring_s(each, p, machine) for each in nbytes)
    flops = 2 * sum(layer_flops(params, batch, 1.0))
    overhead_s = len(params) // 2 * machine.kernel_overhead_s
    return max(comm_s - overhead_s, 0.1 * comm_s) * machine.flop_per_s / flops
