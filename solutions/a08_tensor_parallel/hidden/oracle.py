"""What the docstrings allow: whole layers on one rank, bytes, work and time."""

import math
from collections.abc import Sequence
from pathlib import Path

from ringside.checking.examples import beside
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import Kind, Op, Trace

SOLUTION = Path(__file__).resolve().parents[1]
examples = beside(SOLUTION / "mlp.py")  # drawn, parts, serial, results


def part_of(n: int, world_size: int, rank: int) -> int:
    """How many of n things a rank has."""
    return len(range(rank, n, world_size))


def all_reduce_elements(n: int, d: int, world_size: int) -> int:
    """Elements that a rank may send: an all-reduce of n rows of d, cut by rows or by columns."""
    longest = max(math.ceil(n / world_size) * d, n * math.ceil(d / world_size))
    return 2 * (world_size - 1) * longest


def makespan_s(steps: Sequence[tuple[str, float]], world_size: int, machine: Machine) -> float:
    """Replay of ranks that all do the same: ``("compute", flops)`` and ``("allreduce", bytes)``."""
    ops, members = [], tuple(range(world_size))
    for number, (what, amount) in enumerate(steps):
        if what == "compute":
            ops.append(Op(Kind.COMPUTE, detail=(float(amount), 0.0, -1, "product")))
        elif world_size > 1:
            nbytes, request = int(amount), number + 1
            detail = ("allreduce", sum(op.kind == Kind.COLLECTIVE for op in ops), 0, members)
            ops.append(
                Op(Kind.COLLECTIVE, nbytes=nbytes, request=request, detail=(*detail, (nbytes,)))
            )
            ops.append(Op(Kind.WAIT, detail=(request,)))
    return replay(Trace(world_size, [ops] * world_size), machine).makespan_s


def in_miniature(machine: Machine, tokens: int, width: int, n: int, d: int) -> Machine:
    """A machine on which a layer of n rows of d takes the time of one of tokens rows of width.

    An element stands for many: bytes are as much dearer as there are fewer of them, and
    operations too. ``width / d`` is also the ratio of the hidden units. An element of the large
    layer has 2 bytes (bfloat16), one of the small layer 8.
    """
    rows, columns = tokens / n, width / d
    nbytes, flops = rows * columns * 2 / 8, rows * columns**2
    changes = {
        "beta_s_per_byte": machine.beta_s_per_byte * nbytes,
        "flop_per_s": machine.flop_per_s / flops,
        "kernel_overhead_s": 0.0,
        "eager_threshold_bytes": int(machine.eager_threshold_bytes / nbytes),
    }
    if machine.intra_beta_s_per_byte is not None:
        changes["intra_beta_s_per_byte"] = machine.intra_beta_s_per_byte * nbytes
    return machine.with_(**changes)
