# fails: test_old_gradients_count_for_nothing
"""Clears the gradients of trainable parameters only, and leaves old ones at the others."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def broadcast_parameters(group, model):
    """Overwrite the model's parameters, also frozen ones, with those of place 0; returns nothing.

    Args:
        group: the ranks that take part; p of them.
        model: the same on all ranks but for the values of its parameters. Buffers, if it has
            any, may travel or stay.

    Bytes: each rank receives at most the size of the parameters once, place 0 nothing; all ranks
    together send at most p - 1 times that size.
    """
    ### BEGIN SOLUTION
    source = dist.get_global_rank(group, 0)
    for p in model.parameters():
        dist.broadcast(p.detach(), source, group=group)
    ### END SOLUTION


def train_step(group, model, optimizer, x, y):
    """One step on the samples of all ranks; returns their mean loss before the update, a float.

    Args:
        group: the ranks that take part; p of them.
        model: ``model(x)`` gives scores, shape ``(b, classes)``; the same on all ranks. What its
            parameters' ``grad`` holds before the call counts for nothing.
        optimizer: any ``torch.optim.Optimizer`` of the model's parameters, with the same state on
            all ranks; its ``step()`` is called once.
        x, y: this rank's samples and their classes, of b rows; b differs from rank to rank and
            may be 0, but not on all ranks.

    - Values: those of the same step on one rank that has all samples, to 1e-12 in float64
      (1e-5 in float32); parameters and the optimizer's state are equal on all ranks, bit for bit.
    - Work: each sample goes through the network once, forward and backward, on the rank that
      has it.
    - Bytes: each rank sends and receives at most ``2 (p - 1) ceil(m / p)`` elements for each
      learning parameter of m elements, and ``64 (p - 1)`` bytes more: an all-reduce of the
      gradient, in any number of calls, and of up to 8 numbers beside it.
    - Time: where the machine's latency hardly counts, at most 1.05 times
      ``work / p + one all-reduce of the gradient and 8 numbers``, half the points up to 1.5
      times. A call for each parameter is right, a call for each row or number is too slow.
    """
    ### BEGIN SOLUTION
    learning = [p for p in model.parameters() if p.requires_grad]
    for p in learning:
        p.grad = None
    # The sum over no samples is 0, their mean would be 0 / 0. Sums add up, whoever holds them.
    loss = cross_entropy(model(x), y, reduction="sum")
    loss.backward()
    numbers = [loss.detach().view(1), loss.new_tensor([len(x)])]
    flat = torch.cat([p.grad.flatten() for p in learning] + numbers)
    dist.all_reduce(flat, group=group)
    flat[:-1] /= flat[-1]
    sizes = [p.numel() for p in learning]
    for p, g in zip(learning, flat[:-2].split(sizes), strict=True):
        p.grad = g.view_as(p)
    optimizer.step()
    return flat[-2].item()
    ### END SOLUTION
