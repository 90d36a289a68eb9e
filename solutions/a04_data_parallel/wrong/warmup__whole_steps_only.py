# fails: test_schedule_has_a_rate_for_each_step
"""The steps of an epoch, rounded down."""

def scale(local_batch_size, world_size, base_batch_size):
    return local_batch_size * world_size / base_batch_size


def lr_at(step, base_lr, k, warmup_steps, milestones=(), decay=0.1):
    climbed = min(step / warmup_steps, 1.0) if warmup_steps else 1.0
    lr = base_lr * (1 + (k - 1) * climbed)
    return lr * decay ** sum(step >= milestone for milestone in milestones)


def schedule(
    n, num_epochs, local_batch_size, world_size, base_lr, base_batch_size,
    warmup_epochs=5, milestone_epochs=(), decay=0.1,
):
    per_epoch = n // (local_batch_size * world_size)
    k = scale(local_batch_size, world_size, base_batch_size)
    milestones = [epoch * per_epoch for epoch in milestone_epochs]
    warmup_steps = warmup_epochs * per_epoch
    steps = range(num_epochs * per_epoch)
    return [lr_at(step, base_lr, k, warmup_steps, milestones, decay) for step in steps]
