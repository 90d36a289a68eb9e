# fails: test_schedule_decays_at_the_start_of_epochs
"""A training run's milestones during its warm-up count for nothing."""

import math


def scale(local_batch_size, world_size, base_batch_size):
    return local_batch_size * world_size / base_batch_size


def lr_at(step, base_lr, k, warmup_steps, milestones=(), decay=0.1):
    if step < warmup_steps:
        lr = base_lr * (1 + (k - 1) * step / warmup_steps)
    else:
        lr = k * base_lr
    return lr * decay ** sum(step >= m for m in milestones)


def schedule(
    n,
    num_epochs,
    local_batch_size,
    world_size,
    base_lr,
    base_batch_size,
    warmup_epochs=5,
    milestone_epochs=(),
    decay=0.1,
):
    per = math.ceil(n / (local_batch_size * world_size))
    k = scale(local_batch_size, world_size, base_batch_size)
    return [
        lr_at(
            s,
            base_lr,
            k,
            warmup_epochs * per,
            [e * per for e in milestone_epochs if e >= warmup_epochs],
            decay,
        )
        for s in range(num_epochs * per)
    ]
