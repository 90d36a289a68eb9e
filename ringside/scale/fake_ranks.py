"""Traces of hundreds of ranks: what the tracing process is asked, and what becomes of its answer.

caller      asked()          world size, grid, axes along which ranks are alike
a rank      pytorch.fake     runs the student's function on fake tensors: logs of some ranks
caller      from_logs()      checks every log, gives each rank its own, puts them together,
                             and checks the conservation laws
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ringside.errors import TargetError, TraceError
from ringside.network.ranklog import RankLog, checked
from ringside.scale import agreement
from ringside.scale.assembly import assemble
from ringside.scale.symmetry import Grid, expand
from ringside.timing.fold import Fold
from ringside.timing.machine import Machine
from ringside.timing.rails import formula_s, rounds
from ringside.timing.replay import Kinds
from ringside.trace import Kind, Trace

MAX_FAKE_RANKS = 16_384
MAX_PROCESSES = 4
KINDS_PER_PROCESS = 4


@dataclass(frozen=True, eq=False)
class TorchTrace(Kinds):
    """A trace made on fake tensors.

    ``ringside.replay`` takes it as it is, and times one rank of each kind where that is exact.

    Attributes:
        stand_ins: per rank, the rank that was traced for it.
        alike: the grid's axes along which ranks are alike.
        memory: per rank, bytes of tensors, as ``Result.memory`` has them of a real run.
    """

    logs: Mapping[int, RankLog]
    grid: Grid
    alike: tuple[str, ...] = ()
    memory: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def stand_ins(self) -> tuple[int, ...]:
        """Per rank, the rank that was traced for it."""
        return tuple(self.grid.stand_in(rank, self.alike) for rank in range(self.world_size))

    @cached_property
    def trace(self) -> Trace:
        """All ranks' operations, as the network would have recorded them; made when asked for.

        Raises:
            TraceError: they are too many.
        """
        ranks = expand(self.logs, self.grid, self.alike, range(self.world_size))
        return assemble(ranks, self.world_size)

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.grid.world_size

    @property
    def num_kinds(self) -> int:
        """How many ranks were traced."""
        return len(self.logs)

    @property
    def num_ops(self) -> int:
        """Operations of all ranks together."""
        per_kind = self.world_size // self.num_kinds
        return per_kind * sum(len(log.rows) for log in self.logs.values())

    @property
    def extents(self) -> dict[str, int]:
        """See ``Kinds``."""
        return {axis: self.grid.sizes[axis] for axis in self.alike}

    def fold(self, axes: Sequence[str]) -> Fold:
        """See ``Kinds``."""
        return Fold(self.grid.moves(axes), axes)

    def folded(self, fold: Fold) -> Trace:
        """See ``Kinds``."""
        ranks = expand(self.logs, self.grid, self.alike, fold.ranks)
        return assemble(ranks, self.world_size, fold)

    def __repr__(self) -> str:
        return (
            f"TorchTrace({self.world_size} ranks, {self.num_kinds} traced, "
            f"{self.num_ops} operations)"
        )


def asked(
    world_size: int,
    grid: Mapping[str, int] | None,
    alike: Sequence[str] | None,
    witnesses: bool,
) -> dict[str, Any]:
    """What the tracing process is told.

    Raises:
        TargetError, TraceError: impossible sizes or axes.
    """
    if not 1 <= world_size <= MAX_FAKE_RANKS:
        raise TargetError(f"world_size ({world_size}) must be between 1 and {MAX_FAKE_RANKS}.")
    if alike and grid is None:
        raise TraceError("alike names axes of a grid: give the grid too.")
    sizes = dict(grid) if grid is not None else {"rank": world_size}
    Grid.of(sizes, world_size).check_axes(alike or ())
    return {
        "world_size": world_size,
        "grid": sizes,
        "alike": None if alike is None else list(alike),
        "witnesses": bool(witnesses),
    }


def num_processes(told: dict[str, Any], cores: int) -> int:
    """How many processes share the tracing: one for each core, if each has kinds enough."""
    grid = Grid(told["grid"])
    fixed = [size for axis, size in grid.sizes.items() if axis not in (told["alike"] or ())]
    return max(1, min(cores, MAX_PROCESSES, math.prod(fixed) // KINDS_PER_PROCESS))


def from_logs(answers: Sequence[Any], told: dict[str, Any]) -> TorchTrace:
    """Put together what the tracing processes answered; they ran student code, so nothing is
    believed.

    Raises:
        TraceError: an answer is malformed, or breaks a conservation law.
    """
    world_size, grid = told["world_size"], Grid(told["grid"])
    by_rank: dict[Any, Any] = {}
    axes: Any = None
    for answer in answers:
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TraceError("the tracing process gave no logs.")
        logs, its_axes = answer
        if not isinstance(logs, dict) or len(logs) > world_size or not isinstance(its_axes, list):
            raise TraceError("the tracing process gave no logs.")
        if axes not in (None, its_axes):
            raise TraceError(f"two tracing processes found ranks alike along {axes}, {its_axes}.")
        by_rank.update(logs)
        axes = its_axes
    alike = tuple(axes)
    grid.check_axes(alike)
    if told["alike"] is not None and list(alike) != told["alike"]:
        raise TraceError(f"ranks were to be alike along {told['alike']}, and are along {axes}.")
    logs = {rank: checked(log, world_size) for rank, log in by_rank.items()}
    if any(rank != log.rank for rank, log in logs.items()):
        raise TraceError("the tracing process gave logs under wrong ranks.")
    traced = TorchTrace(logs, grid, alike)
    missing = [rank for rank in set(traced.stand_ins) if rank not in logs]
    if missing:
        raise TraceError(f"rank {min(missing)}, which stands for others, has no log.")
    fold = traced.fold(alike)
    agreement.check_conservation(traced.folded(fold), fold=fold)
    memory = [logs[source].memory for source in traced.stand_ins]
    return replace(traced, memory=memory)


def num_transfers(trace: Trace, machine: Machine) -> int:
    """How many point-to-point messages a replay carries, collectives lowered to their rounds.

    A replay takes about 15 µs of CPU and 1.5 kB of memory for each. A ring all-reduce of p ranks
    is 2 p (p - 1) of them: 24 for 4 ranks, 8,064 for 64, 523,264 for 512. For traces with many
    all-reduces of hundreds of ranks choose a machine whose ``collectives`` names
    ``halving_doubling`` (2 p log2 p: 9,216 for 512).
    """
    total = 0
    cache: dict[tuple[str, int, tuple[int, ...], int], int] = {}
    for rank, ops in enumerate(trace.ops):
        for op in ops:
            if op.kind == Kind.ISEND:
                total += 1
            elif op.kind == Kind.COLLECTIVE and op.detail and op.detail[3][0] == rank:
                name, _, root, members, sizes = op.detail
                key = name, root, members, max(sizes, default=0)
                if key not in cache:
                    cache[key] = _transfers_of(machine, name, members, root, sizes)
                total += cache[key]
    return total


def _transfers_of(
    machine: Machine, name: str, members: tuple[int, ...], root: int, sizes: tuple[int, ...]
) -> int:
    """Messages of one collective; none where a formula times it."""
    if formula_s(machine, name, members, sizes) is not None:
        return 0
    return sum(
        sent >= 0
        for member in range(len(members))
        for transfers in rounds(machine, name, members, member, root, sizes)
        for _, sent, _ in transfers
    )
