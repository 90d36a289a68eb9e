# fails: test_layers_in_pairs
"""The gradient of the first pair's input is summed too."""

TIMES = {"all_reduce": 2, "reduce_scatter": 1}


def weights(widths):
    return sum(a * b for a, b in zip(widths[:-1], widths[1:]))


def data_bytes(widths, batch, world_size, itemsize=8):
    return 2 * (world_size - 1) * weights(widths) * itemsize


def model_bytes(widths, batch, world_size, backward="reduce_scatter", itemsize=8):
    forward, back = sum(widths[1:]), TIMES[backward] * sum(widths[1:-1])
    return (world_size - 1) * batch * (forward + back) * itemsize


def paired_bytes(widths, batch, world_size, itemsize=8):
    forward, back = sum(widths[2::2]), sum(widths[:-1:2])
    return 2 * (world_size - 1) * batch * (forward + back) * itemsize


def hybrid_bytes(widths, batch, model_size, data_size, backward="reduce_scatter", itemsize=8):
    model = model_bytes(widths, batch, model_size, backward, itemsize)
    return model + data_bytes(widths, batch, data_size, itemsize)


def crossover_batch(widths, backward="reduce_scatter"):
    return data_bytes(widths, 1, 2) / model_bytes(widths, 1, 2, backward)


def best_grid(widths, batch, world_size, backward="reduce_scatter"):
    grids = [
        (world_size // q, q) for q in range(1, min(world_size, batch) + 1) if world_size % q == 0
    ]
    return min(grids, key=lambda grid: hybrid_bytes(widths, batch, *grid, backward))
