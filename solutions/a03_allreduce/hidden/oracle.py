"""What the docstrings allow: bytes per rank, and the reference's time under the port model."""

import math

import numpy as np

from ringside.checking import Case
from ringside.timing.machine import Machine
from solutions.a03_allreduce.shards import shard_bounds


def steps_and_fold(world_size: int) -> tuple[int, int]:
    """floor(log2(p)), and 1 if p is no power of two."""
    steps = world_size.bit_length() - 1
    return steps, int(world_size != 1 << steps)


def itemsize(case: Case) -> int:
    return np.dtype(case.dtype).itemsize


def shard_sizes(case: Case) -> list[int]:
    """Elements of each rank's shard."""
    bounds = [shard_bounds(case.n, case.world_size, rank) for rank in range(case.world_size)]
    return [hi - lo for lo, hi in bounds]


def star_bytes(case: Case) -> list[int]:
    """The master moves every other rank's vector, the others their own."""
    others = case.world_size - 1
    return [others * case.nbytes] + [case.nbytes] * others


def server_pairs(case: Case) -> np.ndarray:
    """Rank i sends rank j shard j to be added and shard i when it is: [source, dest]."""
    sizes = np.array(shard_sizes(case)) * itemsize(case)
    allowed = sizes[:, None] + sizes[None, :]
    np.fill_diagonal(allowed, 0)
    return allowed


def ring_bytes(case: Case, rounds: int) -> list[int]:
    """One round (half) or two (whole) of p - 1 shards."""
    return [rounds * (case.world_size - 1) * case.shard_nbytes] * case.world_size


def doubling_bytes(case: Case) -> list[int]:
    steps, fold = steps_and_fold(case.world_size)
    return [(steps + fold) * case.nbytes] * case.world_size


def halving_bytes(case: Case) -> list[int]:
    steps, fold = steps_and_fold(case.world_size)
    core = 1 << steps
    part = -(-case.n // core)
    elements = 2 * (core - 1) * part + fold * case.n
    return [elements * itemsize(case)] * case.world_size


def seconds(name: str, case: Case, machine: Machine) -> float:
    """The time that the docstring's bound is stated in; shards count as ceil(n / p)."""
    alpha, beta, p = machine.alpha_s, machine.beta_s_per_byte, case.world_size
    steps, fold = steps_and_fold(p)
    core = 1 << steps
    part = -(-case.n // core) * itemsize(case)
    whole = alpha + case.nbytes * beta
    return {
        "star": 2 * (p - 1) * whole,
        "sharded_server": 2 * (p - 1) * (alpha + case.shard_nbytes * beta),
        "ring": 2 * (p - 1) * (alpha + case.shard_nbytes * beta),
        "recursive_doubling": (steps + 2 * fold) * whole,
        "halving_doubling": 2 * steps * alpha + 2 * (core - 1) * part * beta + 2 * fold * whole,
    }[name]


def two_level_bytes(case: Case) -> tuple[int, int]:
    """What a rank may send between nodes, and inside its node."""
    per_node = case.options["ranks_per_node"]
    nodes, shard = case.world_size // per_node, -(-case.n // per_node)
    between, inside = 2 * (nodes - 1) * -(-shard // nodes), 2 * (per_node - 1) * shard
    return between * itemsize(case), inside * itemsize(case)


def two_level_s(case: Case, machine: Machine) -> float:
    """Rings in a node, and rings between nodes whose ranks share a port."""
    per_node = case.options["ranks_per_node"]
    nodes, shard = case.world_size // per_node, -(-case.n // per_node)
    size = itemsize(case)
    step = machine.intra_alpha_s + shard * size * machine.intra_beta_s_per_byte
    across = machine.alpha_s + per_node * -(-shard // nodes) * size * machine.beta_s_per_byte
    return 2 * (per_node - 1) * step + 2 * (nodes - 1) * across


def tree_seconds(case: Case, machine: Machine) -> float:
    """The double tree's own bound: all bytes twice through a port, and the way up and down."""
    alpha, beta, p = machine.alpha_s, machine.beta_s_per_byte, case.world_size
    half = math.ceil(case.n / 2)
    chunk = math.ceil(half / case.options["num_chunks"]) * itemsize(case)
    return 2 * case.nbytes * beta + 4 * math.ceil(math.log2(p)) * (alpha + chunk * beta)


def beside_star(case: Case, machine: Machine) -> str:
    """A half sentence on what the same sum takes through one master, unless it is asked for."""
    if case.target.startswith("star:"):
        return ""
    return f" The star takes {seconds('star', case, machine) * 1e6:.1f} µs."
