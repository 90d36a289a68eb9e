"""The learning rate of a large batch: scaled with it, and reached step by step.

    lr                                     k lr = lr * (global batch / base batch)
     ^         ______________
     |        /              |             linear scaling: k times the samples a step, k times
     |      /                |______       fewer steps, each k times as long
     |    /                         |___
     |  /
     | lr                                  warm-up: a straight line from lr to k lr, since the
     +---------+------------+------+--> step   first steps of a fresh network are the wildest
       warm-up         milestones

Source: Goyal et al. 2017, "Accurate, large minibatch SGD", sections 2.1 and 2.2; there lr is
0.1 for a batch of 256, and the warm-up takes five epochs.

Each function communicates nothing and gives floats, checked to 1e-9 relative.
"""

from collections.abc import Sequence


def scale(local_batch_size: int, world_size: int, base_batch_size: int) -> float:
    """The factor k of the linear scaling rule.

    Args:
        local_batch_size: samples that each rank takes a step.
        world_size: number of ranks.
        base_batch_size: samples a step, of all ranks, that the base learning rate was found for.

    Returns:
        k, a float: the global batch over the base batch. It need not be whole, and is below 1
        where the global batch is the smaller one.
    """
    ### BEGIN SOLUTION
    return local_batch_size * world_size / base_batch_size
    ### END SOLUTION


def lr_at(
    step: int,
    base_lr: float,
    k: float,
    warmup_steps: int,
    milestones: Sequence[int] = (),
    decay: float = 0.1,
) -> float:
    """The learning rate of one step.

    Args:
        step: 0, 1, 2, ...
        base_lr: the learning rate of the base batch.
        k: what it is scaled by.
        warmup_steps: length of the warm-up, at least 0: step 0 has ``base_lr``, step
            ``warmup_steps`` is the first to have ``k * base_lr``, and in between lies a straight
            line. Without a warm-up, step 0 has ``k * base_lr``.
        milestones: steps, in any order; from each of them on (that step included) the rate is
            multiplied by ``decay`` once more, during the warm-up too. One that is listed twice
            counts twice.
        decay: see there.

    Returns:
        A float.
    """
    ### BEGIN SOLUTION
    climbed = min(step / warmup_steps, 1.0) if warmup_steps else 1.0
    lr = base_lr * (1 + (k - 1) * climbed)
    return lr * decay ** sum(step >= milestone for milestone in milestones)
    ### END SOLUTION


def schedule(
    n: int,
    num_epochs: int,
    local_batch_size: int,
    world_size: int,
    base_lr: float,
    base_batch_size: int,
    warmup_epochs: int = 5,
    milestone_epochs: Sequence[int] = (),
    decay: float = 0.1,
) -> list[float]:
    """The learning rates of all steps of a training run.

    Args:
        n: number of training samples; a step takes ``local_batch_size * world_size`` of them,
            the last step of an epoch what is left.
        num_epochs: how often all samples are seen.
        local_batch_size, world_size, base_batch_size: as ``scale`` wants them.
        base_lr: the learning rate of the base batch.
        warmup_epochs: whole epochs.
        milestone_epochs: the rate is multiplied by ``decay`` from the first step of each of them.

    Returns:
        A list of floats, one for each step.
    """
    ### BEGIN SOLUTION
    steps_per_epoch = -(-n // (local_batch_size * world_size))
    k = scale(local_batch_size, world_size, base_batch_size)
    milestones = [epoch * steps_per_epoch for epoch in milestone_epochs]
    return [
        lr_at(step, base_lr, k, warmup_epochs * steps_per_epoch, milestones, decay)
        for step in range(num_epochs * steps_per_epoch)
    ]
    ### END SOLUTION
