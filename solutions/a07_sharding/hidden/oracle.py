"""What the docstrings allow: shards, bytes and time."""

import math
from pathlib import Path

from ringside.checking.examples import beside
from ringside.timing.machine import Machine
from solutions.a07_sharding.adam import FLOPS

SOLUTION = Path(__file__).resolve().parents[1]
examples = beside(SOLUTION / "zero1.py")  # inputs, and the checks of what comes back

# -- partition -------------------------------------------------------------------------------------


def layout(arrays, same, world_size):
    """Starts, and the shard size, of parameters ``arrays[same[k]]``."""
    first, psi = {}, 0
    for index in same:
        if index not in first:
            first[index] = psi
            psi += arrays[index].size
    return [first[index] for index in same], math.ceil(psi / world_size)


def pieces(starts, shapes, shard_size, rank):
    """Element by element."""
    owner, found = {}, {}
    for index, (start, shape) in enumerate(zip(starts, shapes, strict=True)):
        for k in range(math.prod(shape)):
            owner.setdefault(start + k, (index, k))
    for place in range(rank * shard_size, (rank + 1) * shard_size):
        if place in owner:
            index, k = owner[place]
            found.setdefault(index, []).append(k)
    return [(index, min(ks), max(ks) + 1) for index, ks in found.items()]


# -- zero1 -----------------------------------------------------------------------------------------


def step_bytes(n: int, world_size: int, itemsize: int) -> int:
    """Bytes that each rank may send, and receive, in a step."""
    return (world_size - 1) * (2 * math.ceil(n / world_size) * itemsize + 16)


def step_seconds(n: int, world_size: int, itemsize: int, machine: Machine) -> float:
    """Reduce-scatter, the sum of one number, the update of a shard, all-gather: one by one."""
    shard = math.ceil(n / world_size)
    around = machine.alpha_s + shard * itemsize * machine.beta_s_per_byte
    number = machine.alpha_s + 8 * machine.beta_s_per_byte
    return 2 * (world_size - 1) * (around + number) + FLOPS * shard / machine.flop_per_s


# -- zero2 -----------------------------------------------------------------------------------------


def backward_bytes(shard_size: int, world_size: int, itemsize: int) -> int:
    """Bytes that each rank may send, and receive, in a backward pass."""
    return world_size * shard_size * itemsize
