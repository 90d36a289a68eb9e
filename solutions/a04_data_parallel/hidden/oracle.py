"""What the docstrings allow: the serial step, bytes per rank, work and time."""

import math
from pathlib import Path

import numpy as np

from ringside.checking.examples import beside
from ringside.session.session import Result
from ringside.timing.machine import Machine
from ringside.trace import Kind
from solutions.a04_data_parallel.model import num_flops

SOLUTION = Path(__file__).resolve().parents[1]
examples = beside(SOLUTION / "step.py")  # trainings, and the checks of what comes back
Arrays = list[np.ndarray]
Batch = tuple[np.ndarray, np.ndarray]


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
