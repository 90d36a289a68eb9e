"""Data, tensor and pipeline parallelism together: one training step of a GPT on a grid of ranks.

    rank = (pp * dp_size + dp) * tp_size + tp          2 x 2 x 2: the tensor axis is the fastest,
                                                       then the data axis, then the pipeline
              replica 0        replica 1
    stage 0   [ 0   1 ]        [ 2   3 ]               tensor groups    01  23  45  67
    stage 1   [ 4   5 ]        [ 6   7 ]               data groups      02  13  46  57
                                                       pipeline groups  04  15  26  37

Layers sum over the tensor group, microbatches travel along the pipeline group, and gradients are
summed over the data group, once a step. What is whole on all ranks of the tensor group (norms,
biases, positions) has the same gradient on each if operator f stands where a cut piece takes its
input. The first and the last stage share the table of words: its gradient is the sum of both.

``given/gpt_torch.py`` has what you need: the pieces of the model, ``copy_to_axis`` (f),
``reduce_from_axis`` (g), ``split``, ``ends_of`` and ``Messages``. The step is also traced on fake
tensors, so nothing may depend on the elements' values, and groups are lists made with Python or
NumPy.
"""

import numpy as np
import torch
import torch.distributed as dist
from given.gpt_torch import (
    Axis,
    Batch,
    Grid,
    Layer,
    Messages,
    Stage,
    copy_to_axis,
    ends_of,
    reduce_from_axis,
    split,
)


def make_grid(group: dist.ProcessGroup, pp_size: int, dp_size: int, tp_size: int) -> Grid:
    """This rank's axes of the grid.

    Returns:
        A ``Grid``. Each group is ordered by its axis. ``ends`` holds the first and the last rank of
        a pipeline group; of one rank alone where ``pp_size`` is 1; None between the ends.

    Raises:
        ValueError: the sizes don't make up the group.
    """
    world_size = dist.get_world_size(group)
    if world_size != pp_size * dp_size * tp_size:
        raise ValueError(
            f"the group has {world_size} ranks, and the grid {pp_size} * {dp_size} * {tp_size}: "
            "choose sizes whose product is the number of ranks."
        )
    ### BEGIN SOLUTION
    grid = np.arange(world_size).reshape(pp_size, dp_size, tp_size)
    lists = [np.moveaxis(grid, k, -1).reshape(-1, grid.shape[k]).tolist() for k in range(3)]
    return Grid(*(split(group, each) for each in (*lists, ends_of(lists[0]))))
    ### END SOLUTION


def run_layer(tp: Axis, layer: Layer, x: torch.Tensor) -> torch.Tensor:
    """The output of a layer: the same on all ranks of the tensor axis, and so is the gradient of x.

    ``tp`` is the axis, ``layer`` this rank's part, a ``gpt_torch.Layer``. ``x`` is the same on all
    its ranks, of shape ``(sequences, T, hidden)``.
    """
    ### BEGIN SOLUTION
    summand = layer.attention(copy_to_axis(tp, layer.norm1(x)))
    x = x + reduce_from_axis(tp, summand) + layer.attention_bias
    summand = layer.mlp(copy_to_axis(tp, layer.norm2(x)))
    return x + reduce_from_axis(tp, summand) + layer.mlp_bias
    ### END SOLUTION


def run_pipeline(
    grid: Grid, stage: Stage, batch: Batch, actions: list[tuple[str, int]]
) -> torch.Tensor:
    """Forward and backward passes of all microbatches through this stage.

    The gradients of the stage's parameters are left in ``.grad``: of this replica's share of the
    loss, which is the mean over all tokens of the *whole* batch, on all replicas.

    Args:
        grid, stage: what ``make_grid`` gave, and this rank's ``gpt_torch.Stage``.
        batch: a ``gpt_torch.Batch``; all replicas have the same sizes. The last microbatch may be
            smaller, so a mean of means is wrong.
        actions: this stage's passes in their order, such as ``[("forward", 0), ("backward", 0)]``.

    Returns:
        This replica's share of the loss, a tensor without gradient; 0 on all stages but the last.
    """
    ### BEGIN SOLUTION
    pp, messages, held, share = grid.pp, Messages(grid.pp), {}, stage.zero()
    num_tokens = grid.dp.size * sum(batch.sizes) * stage.config.sequence
    for kind, i in actions:
        if kind == "forward":
            if pp.is_first:
                y = x = stage.embed(batch.tokens[i])
            else:
                y = x = messages.receive(pp.rank - 1, stage.empty(batch.sizes[i])).requires_grad_()
            for layer in stage.layers:
                y = run_layer(grid.tp, layer, y)
            if pp.is_last:
                y = stage.loss(y, batch.targets[i]) / num_tokens
                share += y.detach()
            else:
                messages.send(y, pp.rank + 1)
            held[i] = x, y
        else:
            x, y = held.pop(i)
            y.backward(None if pp.is_last else messages.receive(pp.rank + 1, torch.empty_like(y)))
            if not pp.is_first:
                messages.send(x.grad, pp.rank - 1)
    messages.wait()
    return share
    ### END SOLUTION


def train_step(
    grid: Grid,
    stage: Stage,
    batch: Batch,
    actions: list[tuple[str, int]],
    optimizer: torch.optim.Optimizer,
) -> torch.Tensor:
    """One step: gradients of the whole batch on every rank that holds a parameter, then the update.

    First clear the gradients: those of an earlier step may still be there.

    Args:
        optimizer: a ``torch.optim`` optimizer of the stage's parameters.

    Returns:
        The loss of the whole batch before the step, a tensor of shape ``()``, on **every** rank.

    Bytes that a rank sends, all-reduces counted as a ring's, with e elements in a microbatch's
    activations and p parameters on the rank. Up to 64 bytes more an axis are free, for the loss.

    - tensor, t ranks: 4 all-reduces a layer and microbatch, each ``2 (t - 1) / t e`` elements, and
      what ``embed`` and ``loss`` send.
    - pipeline: e a microbatch to each neighbour; between ``ends`` one all-reduce of the words.
    - data, d ranks: ``2 (d - 1) / d p`` a step, whatever the number of microbatches.

    Example: stage 0 of 2 x 2 x 2 in float64, one layer, 12 features, 24 words, 4 microbatches of 2
    sequences of 4 positions (e = 96, p = 1170). Tensor: 4 (4 + 1) 96 * 8 = 15,360 bytes, where the
    1 is ``embed``'s all-reduce. Pipeline: 4 * 96 * 8 + 12 * 12 * 8 = 4,224. Data: 1170 * 8 = 9,360.

    Schedule: each stage begins the passes of its layers in the order of ``actions``.
    Time: on 64 GPUs (4 x 4 x 4) of the machine "zaratan", traced on fake tensors, at most 1.05
    times our solution's 795 ms; half the points up to 1.5 times. On 8 (2 x 2 x 2) it takes 824 ms.

    Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
    Megatron-LM, 2021, sections 2 and 3.
    """
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    loss = run_pipeline(grid, stage, batch, actions)
    if grid.ends is not None:
        dist.all_reduce(stage.words.grad, group=grid.ends.group)
    for parameter in stage.parameters():
        dist.all_reduce(parameter.grad, group=grid.dp.group)
    optimizer.step()
    dist.all_reduce(loss, group=grid.dp.group)
    dist.broadcast(loss, grid.pp.ranks[-1], group=grid.pp.group)
    return loss
    ### END SOLUTION
