"""Who takes part in a step, and whether it counts: supplied, nothing to write.

    rank      0   1   2   3   4   5        num_shards = 2
    replica   0   0   1   1   2   2
    shard     0   1   0   1   0   1

A replica takes part while all its ranks are alive. torchft asks a service with heartbeats for
this, its lighthouse. Here the network tells who is alive; on real ranks all are.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from ringside.pytorch.survivors import agree, lost, shrink


class LeftOut(Exception):
    """A rank is alive, and another one of its replica isn't: it takes no part any more."""


@dataclass(frozen=True)
class Quorum:
    """Who takes part in an attempt of a step; alike on all ranks that do, but for ``ranks``.

    Attributes:
        replica: the number of this rank's replica.
        steps: of each replica that takes part, by its number, the step that it has; -1: none.
        ranks: of each of them, its rank that has the same shard as this one, in the world.
        group: a group of these ranks, in this order.
    """

    replica: int
    steps: dict[int, int]
    ranks: dict[int, int]
    group: dist.ProcessGroup


class Lighthouse:
    """Answers alike on all ranks, whoever dies.

    Args:
        group: all ranks, of whole replicas.
        num_shards: ranks of a replica.
    """

    def __init__(self, group, num_shards):
        self._everyone, self._num_shards = group, num_shards
        self._first = dist.get_process_group_ranks(group)
        self._replica, self._shard = divmod(dist.get_rank(group), num_shards)

    def begin(self, step):
        """Wait for all that are alive, and tell who takes part in this attempt.

        Args:
            step: the number of steps that this rank's state has taken; -1: it has none.

        Raises:
            LeftOut: this rank's replica isn't whole any more. Let it out.
        """
        while True:
            alive = shrink(self._everyone)
            steps, agreed = {}, False
            try:
                steps = self._steps(alive, step)
                groups = self._groups(steps)
                agreed = True
            except RuntimeError as error:
                if not lost(error):
                    raise
            self._everyone = alive
            if agree(alive, agreed):
                break
        if self._replica not in steps:
            raise LeftOut
        self._everyone, group = groups
        return Quorum(self._replica, steps, self._ranks(steps, self._shard), group)

    def commit(self, complete):
        """Whether the step counts: ``complete`` is true on all ranks, and all are alive."""
        return agree(self._everyone, complete)

    def _steps(self, alive, step):
        """The step of each replica that is whole: of its ranks' steps the least."""
        ranks = dist.get_process_group_ranks(alive)
        steps = [torch.empty(1, dtype=torch.int64) for _ in ranks]
        dist.all_gather(steps, torch.tensor([step]), group=alive)
        of_replica = {}
        for rank, of_rank in zip(ranks, steps, strict=True):
            replica = self._first.index(rank) // self._num_shards
            of_replica.setdefault(replica, []).append(int(of_rank))
        return {
            replica: min(own)
            for replica, own in sorted(of_replica.items())
            if len(own) == self._num_shards
        }

    def _groups(self, steps):
        """A group of all ranks that take part, and one of those with this rank's shard."""
        if self._replica not in steps:
            return None
        shards = [list(self._ranks(steps, shard).values()) for shard in range(self._num_shards)]
        everyone = [rank for replica in zip(*shards, strict=True) for rank in replica]
        return [
            dist.new_group(ranks, use_local_synchronization=True)
            for ranks in (everyone, shards[self._shard])
        ]

    def _ranks(self, steps, shard):
        return {each: self._first[each * self._num_shards + shard] for each in steps}
