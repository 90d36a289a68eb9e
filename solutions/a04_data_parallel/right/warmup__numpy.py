"""NumPy's numbers, an array of rates, interpolation."""

import numpy as np


def scale(local_batch_size, world_size, base_batch_size):
    return np.float64(local_batch_size * world_size) / base_batch_size


def lr_at(step, base_lr, k, warmup_steps, milestones=(), decay=0.1):
    lr = np.interp(step, [0, warmup_steps], [base_lr, base_lr * k]) if warmup_steps else base_lr * k
    return lr * np.prod(np.where(step >= np.array(milestones, dtype=float), decay, 1.0))


def schedule(n, num_epochs, local_batch_size, world_size, base_lr, base_batch_size,
             warmup_epochs=5, milestone_epochs=(), decay=0.1):
    steps = int(np.ceil(n / (local_batch_size * world_size)))
    k = scale(local_batch_size, world_size, base_batch_size)
    at = np.arange(num_epochs * steps)
    climbed = np.clip(at / (warmup_epochs * steps), 0, 1) if warmup_epochs else np.ones(len(at))
    rates = base_lr * (1 + (k - 1) * climbed)
    for epoch in milestone_epochs:
        rates[epoch * steps :] *= decay
    return rates
