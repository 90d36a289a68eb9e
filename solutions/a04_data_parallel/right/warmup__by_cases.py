"""Cases, and a loop over milestones."""

def scale(local_batch_size, world_size, base_batch_size):
    return (local_batch_size / base_batch_size) * world_size


def lr_at(step, base_lr, k, warmup_steps, milestones=(), decay=0.1):
    top = base_lr * k
    if step >= warmup_steps:
        lr = top
    else:
        lr = ((warmup_steps - step) * base_lr + step * top) / warmup_steps
    for milestone in sorted(milestones):
        if milestone > step:
            break
        lr = lr * decay
    return lr


def schedule(n, num_epochs, local_batch_size, world_size, base_lr, base_batch_size,
             warmup_epochs=5, milestone_epochs=(), decay=0.1):
    global_batch_size, steps = local_batch_size * world_size, 0
    while steps * global_batch_size < n:
        steps += 1
    rates = []
    for epoch in range(num_epochs):
        for step in range(epoch * steps, (epoch + 1) * steps):
            k = scale(local_batch_size, world_size, base_batch_size)
            rates.append(lr_at(step, base_lr, k, warmup_epochs * steps))
            for milestone in milestone_epochs:
                rates[-1] *= decay if epoch >= milestone else 1
    return rates
