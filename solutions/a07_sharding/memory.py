"""Where the bytes of a training step go, and what fits.

    weights      gradients    optimizer          one rank holds, with Psi parameters on N ranks
    [2 Psi]      [2 Psi]      [12 Psi]           stage 0: 16 Psi, all on every rank
    [2 Psi]      [2 Psi]      [12 Psi/N]         stage 1: the optimizer's state is sharded
    [2 Psi]      [2 Psi/N]    [12 Psi/N]         stage 2: and the gradients
    [2 Psi/N]    [2 Psi/N]    [12 Psi/N]         stage 3: and the weights

A shard has ceil(Psi / N) elements, padding included, on every rank. Mixed precision with Adam is
2 bytes of weight, 2 of gradient, and 12 of optimizer state: the weight in 32 bits and two moments.

Activations are what the forward pass leaves for the backward pass. ``given/gpt_memory.py`` counts
them: ``layer_bytes`` of one layer, and ``outside_bytes`` of the rest of the model. **With
recomputation** each layer keeps only its input, ``input_bytes``. The layer whose backward pass is
under way is an exception: it has been computed again, and keeps all of its ``layer_bytes``. So a
model of one layer saves nothing.

Every result is an exact ``int``, up to 10**18 parameters: a float is not enough. Not counted are
communication buffers, the layers gathered in stage 3, and temporaries.

Source: Rajbhandari et al., ZeRO, SC 2020, section 5.
"""

from dataclasses import replace

from given.gpt_memory import Sizes, input_bytes, layer_bytes, num_parameters, outside_bytes


def state_bytes(
    num_parameters: int,
    world_size: int,
    stage: int,
    *,
    weight_bytes: int = 2,
    gradient_bytes: int = 2,
    optimizer_bytes: int = 12,
) -> int:
    """Bytes of weights, gradients and optimizer state on one rank.

    Args:
        num_parameters: Psi, from 0.
        world_size: N, from 1; there may be more ranks than parameters.
        stage: of ZeRO, 0 to 3.

    7.5e9 parameters on 64 ranks take 120, 31.40625, 16.640625 and 1.875 GB; 7 parameters on
    2 ranks, in stage 1: 7 * 4 + 4 * 12 = 76 bytes.

    Raises:
        ValueError: ``stage`` is none of 0, 1, 2, 3, or ``world_size`` is below 1.
    """
    ### BEGIN SOLUTION
    if stage not in (0, 1, 2, 3) or world_size < 1:
        raise ValueError(f"no stage {stage} of ZeRO on {world_size} ranks.")
    shard = -(-num_parameters // world_size)
    return (
        weight_bytes * (shard if stage >= 3 else num_parameters)
        + gradient_bytes * (shard if stage >= 2 else num_parameters)
        + optimizer_bytes * (shard if stage >= 1 else num_parameters)
    )
    ### END SOLUTION


def activation_bytes(
    sizes: Sizes,
    batch: int,
    *,
    recompute: bool = False,
    element_bytes: int = 2,
    dropout: bool = True,
) -> int:
    """The most bytes of activations kept at one time, for ``batch`` sequences, as described above.

    Args:
        recompute: keep the layers' inputs only, and compute each layer once more.
        element_bytes, dropout: as ``layer_bytes`` takes them.

    One sequence of 2 tokens, h = 4, a = 2, V = 3, two layers: 312 bytes a layer and 52 outside, so
    676 in all, and 380 with recomputation.
    """
    ### BEGIN SOLUTION
    layer = layer_bytes(sizes, batch, element_bytes, dropout)
    rest = input_bytes(sizes, batch, element_bytes) if recompute else layer
    outside = outside_bytes(sizes, batch, element_bytes, dropout)
    return outside + layer + (sizes.num_layers - 1) * rest
    ### END SOLUTION


def step_bytes(
    sizes: Sizes, batch: int, world_size: int, stage: int, *, recompute: bool = False
) -> int:
    """State and activations of a step on one rank with ``batch`` sequences, with their defaults."""
    ### BEGIN SOLUTION
    state = state_bytes(num_parameters(sizes), world_size, stage)
    return state + activation_bytes(sizes, batch, recompute=recompute)
    ### END SOLUTION


def most_layers(
    capacity_bytes: float,
    sizes: Sizes,
    batch: int,
    world_size: int,
    stage: int,
    *,
    recompute: bool = False,
) -> int:
    """The largest number of layers with which a step fits in ``capacity_bytes`` on each rank.

    Everything else is as in ``sizes``, whose own number of layers is ignored. A step of exactly
    ``capacity_bytes`` fits. Answers are at most 5000.

    Raises:
        ValueError: not even one layer fits.
    """

    ### BEGIN SOLUTION
    def fits(count):
        model = replace(sizes, num_layers=count)
        needed = step_bytes(model, batch, world_size, stage, recompute=recompute)
        return needed <= capacity_bytes

    count = 0
    while fits(count + 1):
        count += 1
    if not count:
        raise ValueError(f"one layer of width {sizes.width} doesn't fit in {capacity_bytes} bytes.")
    return count
    ### END SOLUTION


def fewest_ranks(
    capacity_bytes: float, sizes: Sizes, batch: int, stage: int, *, recompute: bool = False
) -> int:
    """The smallest number of ranks on which a step fits in ``capacity_bytes`` on each.

    Answers are at most 5000, and needn't be powers of two.

    Raises:
        ValueError: the step fits on no number of ranks. Try N = Psi first: a shard then has one
            element, and more ranks never help.
    """

    ### BEGIN SOLUTION
    def fits(world_size):
        needed = step_bytes(sizes, batch, world_size, stage, recompute=recompute)
        return needed <= capacity_bytes

    low, high = 1, num_parameters(sizes)
    if not fits(high):
        raise ValueError(f"stage {stage} doesn't fit in {capacity_bytes} bytes on any ranks.")
    while low < high:  # the answer is in low ... high
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low
    ### END SOLUTION
