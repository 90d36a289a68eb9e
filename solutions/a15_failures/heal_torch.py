"""Replicas that come back get their state from a peer, while the others go on.

    HSDP: three replicas of two shards. Replica 1 is new; replica 0 was away and has step 4.

    replica    0          1           2
    shard 0    rank 0     rank 2      rank 4         newest step: 6, of replica 2 alone
    shard 1    rank 1     rank 3      rank 5         0 and 1 join, and get theirs from 2

    rank 4     | begin | sends to 0 and 2, computes its gradient        | sum | commit | step 7
    rank 2     | begin | receives w, m, v and the step; gradient: zeros | sum | commit | step 7

A replica is the unit of failure. Each rank has a shard of the state; ranks with the same shard of
all replicas make up a group. When a rank dies, its replica takes no part any more. In a later run
new ranks come in its place, with any numbers for a state. The quorum (``given/quorum_torch.py``)
tells who takes part in an attempt of a step, and with which steps: replicas with the newest one are
healthy, and all others join.

Ranks may be killed at any moment, but one healthy replica is left. Then calls of torch.distributed
raise an error for which ``lost`` of ``given/quorum_torch.py`` is true, on some ranks that wait for
them; others may have their result all the same. Catch no other errors.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from given.adam_torch import adam
from given.quorum_torch import Lighthouse, Quorum, lost


class Replicated:
    """A rank's shard of the training state, and the steps that it takes with the other replicas.

    Args:
        state: ``{"w": ..., "m": ..., "v": ..., "step": ...}``: three vectors of this shard, all of
            shape ``(n,)`` and float64, and the number of steps taken. A new rank has any numbers in
            them, and step -1. Steps change them in place; ``self.state`` is this dict.
        quorum: ``quorum.begin(step)`` and ``quorum.commit(complete)``; all ranks that are alive
            call them, each once in an attempt.
    """

    def __init__(self, state: dict, quorum: Lighthouse) -> None:
        self.state = state
        self.quorum = quorum

    def step(self, gradient_of: Callable[[torch.Tensor, int], torch.Tensor]) -> bool:
        """Make one attempt to take a step.

        Args:
            gradient_of: ``gradient_of(w, step)`` is a new tensor, this replica's gradient for the
                step after ``step`` steps, on its own samples. Call it once an attempt on a healthy
                replica, and not on one that joins.

        Returns:
            Whether the step was taken. All ranks that are left return the same: if somebody dies in
            an attempt, either all have taken the step, or none has, and w, m, v and the step of the
            healthy ones are as before. The caller then makes another attempt.

        - The step is ``adam(state, mean)`` with the mean over the healthy replicas' gradients: who
          joins adds zeros, and isn't counted. Example: of four replicas one joins; the sum is
          divided by 3. It takes the step with the others.
        - ``commit`` is the vote: nobody takes the step before it, or if it says no.
        - Time: a joining rank adds its zeros at once, and a healthy one computes while its state is
          copied. An attempt takes at most 1.05 ``max(computing, copying)``, beside the messages of
          the quorum and of the sum. Half the points up to 1.5 times.
        """
        ### BEGIN SOLUTION
        q = self.quorum.begin(self.state["step"])
        newest = max(q.steps.values())
        healthy = [replica for replica, step in q.steps.items() if step == newest]
        works, received, complete = *self.heal(q), True
        if q.replica in healthy:
            total = gradient_of(self.state["w"], newest)
        else:
            total = torch.zeros_like(self.state["w"])
        works.append(dist.all_reduce(total, group=q.group, async_op=True))
        for work in works:
            try:
                work.wait()
            except RuntimeError as death:
                if not lost(death):
                    raise
                complete = False
        if not self.quorum.commit(complete):
            return False
        if received is not None:
            self.state["step"] = int(received)
        adam(self.state, total / len(healthy))
        return True
        ### END SOLUTION

    def heal(self, q: Quorum) -> tuple[list[dist.Work], torch.Tensor | None]:
        """Begin to copy states to the replicas that join, and return at once.

        Args:
            q: who takes part.

        Returns:
            What is under way, and whatever ``step`` needs.

        - A rank that joins gets w, m, v and the step from a rank with the same shard, of a healthy
          replica. Donors are spread: with h healthy replicas and d that join, each gives its state
          to at most ``ceil(d / h)``.
        - Bytes: who joins receives ``3 n`` elements and 8 bytes more, and a donor sends as much to
          each. Example: n = 1000 are 24,008 bytes. Nothing else is sent, but for the sum over the
          group, an all-reduce of n elements.
        """
        ### BEGIN SOLUTION
        newest, works = max(q.steps.values()), []
        healthy = [replica for replica, step in q.steps.items() if step == newest]
        joining = [replica for replica in q.steps if replica not in healthy]
        vectors = [self.state[name] for name in ("w", "m", "v")]
        number, received = torch.tensor([newest]), None
        for place, joins in enumerate(joining):
            donor = healthy[place % len(healthy)]
            if donor == q.replica:
                to = q.ranks[joins]
                works += [dist.isend(each, to, q.group) for each in [*vectors, number]]
            elif joins == q.replica:
                received, of = torch.empty_like(number), q.ranks[donor]
                works += [dist.irecv(each, of, q.group) for each in [*vectors, received]]
        return works, received
        ### END SOLUTION
