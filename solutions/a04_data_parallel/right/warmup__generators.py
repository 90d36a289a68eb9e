"""A generator of rates; lr_at is asked for none of them; tuples."""

from itertools import chain, islice, repeat


def scale(local_batch_size, world_size, base_batch_size):
    return sum(local_batch_size for _ in range(world_size)) / base_batch_size


def rates(base_lr, k, warmup_steps):
    difference = k * base_lr - base_lr
    climb = (base_lr + difference * step / warmup_steps for step in range(warmup_steps))
    return chain(climb, repeat(k * base_lr))


def lr_at(step, base_lr, k, warmup_steps, milestones=(), decay=0.1):
    (lr,) = islice(rates(base_lr, k, warmup_steps), step, step + 1)
    return lr * decay ** len([milestone for milestone in milestones if not step < milestone])


def schedule(n, num_epochs, local_batch_size, world_size, base_lr, base_batch_size,
             warmup_epochs=5, milestone_epochs=(), decay=0.1):
    batch = local_batch_size * world_size
    steps = (n + batch - 1) // batch
    k = scale(local_batch_size, world_size, base_batch_size)
    plain = islice(rates(base_lr, k, warmup_epochs * steps), num_epochs * steps)
    decays = [sum(step // steps >= e for e in milestone_epochs) for step in range(num_epochs * steps)]
    return tuple(lr * decay**times for lr, times in zip(plain, decays))
