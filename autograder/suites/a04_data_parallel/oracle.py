"""What the docstrings allow: the serial step, bytes per rank, work and time."""

import math
from collections.abc import Collection, Sequence

import numpy as np

from ringside.machine import Machine
from ringside.trace import Kind
from ringside.world import Result
from solutions.a04_data_parallel.model import loss_and_gradients, num_flops

Arrays = list[np.ndarray]
Batch = tuple[np.ndarray, np.ndarray]


def serial_steps(
    params: Arrays,
    velocity: Arrays,
    batches: Sequence[Batch],
    lrs: Sequence[float],
    momentum: float,
    frozen: Collection[int] = (),
) -> tuple[Arrays, Arrays, list[float]]:
    """The same steps on one rank that has all samples; ``frozen`` arrays stay as they are."""
    losses = []
    for (x, y), lr in zip(batches, lrs, strict=True):
        loss, gradients = loss_and_gradients(params, x, y)
        moved = [momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
        velocity = [old if k in frozen else moved[k] for k, old in enumerate(velocity)]
        params = [p if k in frozen else p - lr * velocity[k] for k, p in enumerate(params)]
        losses.append(loss)
    return params, velocity, losses


def step_bytes(params: Arrays, world_size: int) -> int:
    """Bytes that each rank may send, and receive, in a step."""
    shares = sum(math.ceil(p.size / world_size) for p in params)
    return 2 * (world_size - 1) * shares * params[0].itemsize + 64 * (world_size - 1)


def step_seconds(params: Arrays, longest: int, world_size: int, machine: Machine) -> float:
    """The longest work of a rank, and one all-reduce by halving and doubling."""
    steps = world_size.bit_length() - 1
    nbytes = (sum(p.size for p in params) + 8) * params[0].itemsize
    moved = 2 * (world_size - 1) / world_size * nbytes
    reduce_s = 2 * steps * machine.alpha_s + moved * machine.beta_s_per_byte
    return num_flops(params, longest) / machine.flop_per_s + reduce_s


def work(result: Result) -> list[float]:
    """Floating-point operations that each rank declared."""
    return [sum(op.detail[0] for op in own if op.kind == Kind.COMPUTE) for own in result.trace.ops]


def longest_forward(result: Result) -> list[float]:
    """Per rank, the operations of its longest pass through the first layer."""
    return [
        max((op.detail[0] for op in own if op.kind == Kind.COMPUTE
             and op.detail[3] == "forward 1"), default=0.0)
        for own in result.trace.ops
    ]  # fmt: skip
