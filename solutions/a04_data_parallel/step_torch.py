"""The same step on torch.distributed: autograd finds the gradients, an optimizer makes the update.

    rank 0   forward backward |            | optimizer.step()
    rank 1   forward backward | all-reduce | optimizer.step()      each on its own samples
    rank 2   forward backward |            | optimizer.step()

             loss     L = (1 / B) sum of the cross-entropy over all B samples of all ranks
             gradient g = dL/dw, in ``p.grad`` of each parameter when the optimizer looks at it

What differs from ``step.py``:

- ``group`` is a process group. Its first rank, place 0, is ``dist.get_global_rank(group, 0)`` in
  the whole job, and that is how a broadcast names its source. Make no group of your own.
- Parameters are changed in place. The velocity lives in the optimizer.
- ``model`` is any ``nn.Module`` whose parameters are dense and contiguous, all float64 or all
  float32. Those that learn (``requires_grad`` is True) are all used by the forward pass. The
  others are frozen: a step leaves them as they are, bit for bit, and does not send them.
- Bytes count as in ``step.py``: collectives as their namesakes there, point-to-point calls as what
  they send.

The file runs unchanged under ``torchrun``, with gloo on CPUs and with NCCL on GPUs: create what
you need with ``x.new_tensor`` and the like, and it lies where ``x`` lies.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy


def broadcast_parameters(group: dist.ProcessGroup, model: nn.Module) -> None:
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


def train_step(
    group: dist.ProcessGroup,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: torch.Tensor,
    y: torch.Tensor,
) -> float:
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
      (1e-5 in float32). Parameters and the optimizer's state are equal on all ranks, bit for bit.
    - Work: each sample goes through the network once, forward and backward, on the rank that
      has it.
    - Bytes: one all-reduce of the gradient, in any number of calls, and of up to 8 numbers more.
      For each learning parameter of m elements a rank sends and receives at most
      ``2 (p - 1) ceil(m / p)`` elements, and ``64 (p - 1)`` bytes in all beside them. The
      numbers may be float64 although the parameters are float32.
    - Time: as in ``step.py``.
    """
    ### BEGIN SOLUTION
    model.zero_grad()
    # The sum over no samples is 0, their mean would be 0 / 0. Sums add up, whoever holds them.
    loss = cross_entropy(model(x), y, reduction="sum")
    loss.backward()
    learning = [p for p in model.parameters() if p.requires_grad]
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
