"""Adds up the lines of the table, in place of collected terms; searches by doubling."""

from dataclasses import replace


def num_parameters(sizes):
    h = sizes.width
    matrices = [h * 3 * h, h * h, h * 4 * h, 4 * h * h]
    biases = [3 * h, h, 4 * h, h]
    norms = [h] * 4
    total = sizes.num_layers * sum(matrices + biases + norms)
    return total + sum(h for _ in range(sizes.vocabulary)) + sizes.sequence * h + 2 * h


def state_bytes(
    num_parameters, world_size, stage, *, weight_bytes=2, gradient_bytes=2, optimizer_bytes=12
):
    if world_size <= 0:
        raise ValueError("at least one rank is needed.")
    whole, (shard, rest) = num_parameters, divmod(num_parameters, world_size)
    shard += bool(rest)
    held = {
        0: (whole, whole, whole),
        1: (whole, whole, shard),
        2: (whole, shard, shard),
        3: (shard, shard, shard),
    }
    if stage not in held:
        raise ValueError("there are stages 0 to 3.")
    each = (weight_bytes, gradient_bytes, optimizer_bytes)
    return sum(count * size for count, size in zip(held[stage], each, strict=True))


def activation_bytes(sizes, batch, *, recompute=False, element_bytes=2, dropout=True):
    total = 0
    s, h = sizes.sequence, sizes.width
    for number in range(sizes.num_layers):
        total += batch * s * h * element_bytes
        if recompute and number < sizes.num_layers - 1:
            continue
        for columns in (h, 3 * h, h, h, h, 4 * h, 4 * h, sizes.num_heads * s):
            total += batch * s * columns * element_bytes
        if dropout:
            total += batch * s * (sizes.num_heads * s * (1 + element_bytes) + 2 * h)
    total += 2 * batch * s * h * element_bytes + batch * s * sizes.vocabulary * element_bytes
    return total + (batch * s * h if dropout else 0)


def step_bytes(sizes, batch, world_size, stage, *, recompute=False):
    return activation_bytes(sizes, batch, recompute=recompute) + state_bytes(
        num_parameters(sizes), world_size, stage
    )


def _largest(fits):
    """The largest count that fits, by doubling and halving; 0 if none."""
    if not fits(1):
        return 0
    step = 1
    while fits(2 * step):
        step *= 2
    count = step
    while step:
        if fits(count + step):
            count += step
        step //= 2
    return count


def most_layers(capacity_bytes, sizes, batch, world_size, stage, *, recompute=False):
    def fits(count):
        model = replace(sizes, num_layers=count)
        return step_bytes(model, batch, world_size, stage, recompute=recompute) <= capacity_bytes

    count = _largest(fits)
    if count < 1:
        raise ValueError("not even one layer fits.")
    return count


def fewest_ranks(capacity_bytes, sizes, batch, stage, *, recompute=False):
    def lacks(world_size):
        return step_bytes(sizes, batch, world_size, stage, recompute=recompute) > capacity_bytes

    if lacks(num_parameters(sizes)):
        raise ValueError("it fits on no number of ranks.")
    return _largest(lacks) + 1
