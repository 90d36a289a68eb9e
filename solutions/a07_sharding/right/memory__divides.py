"""No search: the layers and the shard that fit follow by division."""


def num_parameters(sizes):
    h = sizes.width
    return h * (sizes.num_layers * (12 * h + 13) + sizes.vocabulary + sizes.sequence + 2)


def state_bytes(
    num_parameters, world_size, stage, *, weight_bytes=2, gradient_bytes=2, optimizer_bytes=12
):
    if stage not in range(4):
        raise ValueError("no such stage.")
    if world_size < 1:
        raise ValueError("no ranks.")
    shard = (num_parameters + world_size - 1) // world_size
    total = 0
    for first, nbytes in ((3, weight_bytes), (2, gradient_bytes), (1, optimizer_bytes)):
        total += nbytes * (shard if stage >= first else num_parameters)
    return total


def activation_bytes(sizes, batch, *, recompute=False, element_bytes=2, dropout=True):
    s, b, h, a, w = sizes.sequence, batch, sizes.width, sizes.num_heads, element_bytes
    layer = 16 * w * s * b * h + w * a * s * s * b
    ends = 2 * w * s * b * h + w * s * b * sizes.vocabulary
    if dropout:
        layer += 2 * s * b * h + (w + 1) * a * s * s * b
        ends += s * b * h
    if recompute:
        return ends + layer + w * s * b * h * (sizes.num_layers - 1)
    return ends + layer * sizes.num_layers


def step_bytes(sizes, batch, world_size, stage, *, recompute=False):
    return state_bytes(num_parameters(sizes), world_size, stage) + activation_bytes(
        sizes, batch, recompute=recompute
    )


def most_layers(capacity_bytes, sizes, batch, world_size, stage, *, recompute=False):
    def needed(count):
        model = type(sizes)(
            count, sizes.width, sizes.num_heads, sizes.sequence, sizes.vocabulary
        )
        return step_bytes(model, batch, world_size, stage, recompute=recompute)

    if needed(1) > capacity_bytes:
        raise ValueError("not even one layer fits.")
    count = 1 + (capacity_bytes - needed(1)) // (needed(2) - needed(1))
    count = max(1, count - 20)  # a layer's shard is rounded up only in part
    while needed(count + 1) <= capacity_bytes:
        count += 1
    while needed(count) > capacity_bytes:
        count -= 1
    return count


def fewest_ranks(capacity_bytes, sizes, batch, stage, *, recompute=False):
    psi = num_parameters(sizes)
    if step_bytes(sizes, batch, 1, stage, recompute=recompute) <= capacity_bytes:
        return 1
    held, divided = {0: (16, 0), 1: (4, 12), 2: (2, 14), 3: (0, 16)}[stage]
    left = capacity_bytes - activation_bytes(sizes, batch, recompute=recompute) - held * psi
    if not divided or left < divided:
        raise ValueError("it fits on no number of ranks.")
    shard = left // divided
    return -(-psi // shard)
