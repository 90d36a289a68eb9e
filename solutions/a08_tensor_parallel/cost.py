"""What training sends in one step: data against model parallelism, and both at once.

A network of L linear layers without biases, ``Y_i = X_{i-1} W_i``; X_0 is the batch of B samples,
``widths = (d_0, d_1, ..., d_L)``, W_i has shape ``(d_{i-1}, d_i)``. Between layers stands something
elementwise that sends nothing.

    data parallelism    each rank has all W_i and B / p samples
                        after the step   the gradient of each W_i is summed over ranks

    model parallelism   each rank has B samples, and d_i / p columns of each W_i
                        forward          each layer's columns of Y_i are gathered, i = 1, ..., L
                        backward         dX_{i-1} is a sum over ranks, i = 2, ..., L; with
                                         "all_reduce" every rank gets all of it, with
                                         "reduce_scatter" its own columns, which are all it needs:
                                         dY_{i-1}'s other columns belong to other ranks' weights

    pairs               W_1 by columns, W_2 by rows, W_3 by columns, W_4 by rows, ...; L is even
                        forward          each pair's result is summed, on every rank
                        backward         so is the gradient of each pair's input, but the first's

    both                p = p_model * p_data: the batch is cut into p_data parts, one for each group
                        of p_model ranks, which share the model as above; then ranks of different
                        groups that have the same columns sum their gradients

``given/traffic.py`` sends all this for real, and the network counts it. Each function returns bytes
that *all ranks together* send in one step, an exact integer, whether or not p divides widths and
batch. All-reduce, reduce-scatter and all-gather are rings: a rank sends p - 1 parts of p in a
reduce-scatter or an all-gather, and twice as many in an all-reduce. On one rank all is 0. Example:
an all-reduce of 300 elements on 4 ranks is 2 * 3 * 300 elements in all.

Source: Gholami, Azad, Jin, Keutzer, Buluc, Integrated Model, Batch and Domain Parallelism in
Training Neural Networks, SPAA 2018.
"""

from itertools import pairwise


def data_bytes(widths: tuple[int, ...], batch: int, world_size: int, itemsize: int = 8) -> float:
    """Bytes of all ranks in a step of data parallelism: they don't depend on the batch.

    Args:
        widths: ``(d_0, ..., d_L)``, L >= 1.
        batch: samples of all ranks together.
        world_size: p ranks.
        itemsize: bytes of an element.
    """
    ### BEGIN SOLUTION
    weights = sum(d_in * d_out for d_in, d_out in pairwise(widths))
    return 2 * (world_size - 1) * weights * itemsize
    ### END SOLUTION


def model_bytes(
    widths: tuple[int, ...],
    batch: int,
    world_size: int,
    backward: str = "reduce_scatter",
    itemsize: int = 8,
) -> float:
    """Bytes of all ranks in a step of model parallelism.

    Args:
        backward: ``"all_reduce"`` or ``"reduce_scatter"``.
    """
    ### BEGIN SOLUTION
    times = {"all_reduce": 2, "reduce_scatter": 1}[backward]
    elements = sum(widths[1:]) + times * sum(widths[1:-1])
    return (world_size - 1) * batch * elements * itemsize
    ### END SOLUTION


def paired_bytes(widths: tuple[int, ...], batch: int, world_size: int, itemsize: int = 8) -> float:
    """Bytes of all ranks in a step of layers in pairs; ``widths`` has an odd number of entries."""
    ### BEGIN SOLUTION
    elements = sum(widths[2::2]) + sum(widths[2:-1:2])
    return 2 * (world_size - 1) * batch * elements * itemsize
    ### END SOLUTION


def hybrid_bytes(
    widths: tuple[int, ...],
    batch: int,
    model_size: int,
    data_size: int,
    backward: str = "reduce_scatter",
    itemsize: int = 8,
) -> float:
    """Bytes of all ``model_size * data_size`` ranks in a step of both.

    Args:
        model_size, data_size: p_model ranks share a model, p_data groups share the batch.
        backward: as in ``model_bytes``.
    """
    ### BEGIN SOLUTION
    # Each group sends for its part of the batch, each set of equal columns for its part of W.
    model = model_bytes(widths, batch, model_size, backward, itemsize)
    return model + data_bytes(widths, batch, data_size, itemsize)
    ### END SOLUTION


def crossover_batch(widths: tuple[int, ...], backward: str = "reduce_scatter") -> float:
    """The batch at which model parallelism sends as much as data parallelism, a float.

    For smaller batches it sends less. It is the same on any number of ranks above 1.
    """
    ### BEGIN SOLUTION
    return data_bytes(widths, 1, 2) / model_bytes(widths, 1, 2, backward)
    ### END SOLUTION


def best_grid(
    widths: tuple[int, ...], batch: int, world_size: int, backward: str = "reduce_scatter"
) -> tuple[int, int]:
    """``(model_size, data_size)`` whose product is ``world_size`` and which sends least.

    ``data_size`` is at most ``batch``: a group without samples would be idle. Of two that send the
    same, either is right.
    """
    ### BEGIN SOLUTION
    grids = [
        (world_size // data_size, data_size)
        for data_size in range(1, min(world_size, batch) + 1)
        if world_size % data_size == 0
    ]
    return min(grids, key=lambda grid: hybrid_bytes(widths, batch, *grid, backward))
    ### END SOLUTION
