"""DiLoCo: an optimizer takes steps on every rank alone, a second one moves what all agree on.

A fragment is a part of the parameters. Twelve steps, a period of 4 and two fragments:

    steps taken    1  2  3  4  5  6  7  8  9  10  11  12
    fragment 0              o           o              o      o: averaged over all ranks
    fragment 1                    o           o        o
                                                       the last step: every fragment

Every rank has an anchor beside its parameters: the parameters as all ranks last agreed on them,
cut into fragments like these. When a fragment's turn comes, w is the rank's part of the parameters
and a the same part of the anchor; v is the outer momentum, and it begins with zeros. On all ranks:

    d <- a - (mean of w over all ranks)          how far the ranks came, as a gradient
    v <- outer_momentum * v + d
    a <- a - outer_lr * (d + outer_momentum * v)          Nesterov's momentum
    w <- a

So nothing is sent in most steps, and the others send a part of the parameters. With an outer rate
of 1 and no outer momentum, w becomes the mean: then this is local SGD in fragments.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn


def train(
    group: dist.ProcessGroup,
    model: nn.Module,
    loss: Callable,
    inner: torch.optim.Optimizer,
    outer_lr: float,
    outer_momentum: float,
    num_steps: int,
    period: int,
    num_fragments: int,
) -> None:
    """Train ``model`` for ``num_steps`` steps on every rank; returns None.

    Args:
        group: a process group of p >= 1 ranks. Only all-reduces on it may be called.
        model: a module, changed in place. Its parameters are equal on all ranks. Those that
            require a gradient are all float64 or all float32. Frozen ones and buffers are the
            rank's own matter, and are never sent.
        loss: ``loss(model, step)`` returns this rank's own loss, a tensor of one element. ``step``
            counts from 0 and chooses the samples. Call it once a step.
        inner: a ``torch.optim`` optimizer of the parameters that require a gradient. A step is:
            clear the gradients, compute the loss and its gradients, then ``inner.step()``. Its
            state stays on its rank: nobody averages or resets it.
        outer_lr: the outer learning rate, a float; the same on all ranks, as all that follow.
        outer_momentum: at least 0 and below 1.
        num_steps: T, how many steps each rank takes; 0 or more.
        period: H, how many steps lie between two averages of one fragment; 1 or more.
        num_fragments: F, from 1 to ``period``.

    Raises:
        ValueError: ``num_steps``, ``period``, ``num_fragments`` or ``outer_momentum`` is not as
            stated; on all ranks, before any message and before any loss is computed.

    - Fragments: write the parameters that require a gradient one after another in one vector of n
      elements, in the order of ``model.parameters()``. Fragment f holds elements f * n // F up to,
      and without, (f + 1) * n // F. It may cut a parameter in two, and with n < F some are empty;
      an empty one is never sent. Example: n = 10 and F = 4 give [0, 2), [2, 5), [5, 7), [7, 10).
    - Turns: fragment f has the offset o_f = f * H // F. It is averaged after t steps if t >= H and
      t modulo H is o_f, and after the last step. So all ranks end with the same parameters, bit for
      bit. A fragment is averaged at most once after the same step, and at most ceil(T / H) times.
      Example: T = 10, H = 4, F = 3 give the offsets 0, 1, 2. Fragment 0 is averaged after 4, 8 and
      10 steps, fragment 1 after 5, 9 and 10, fragment 2 after 6 and 10.
    - Values: those of the formulas above, to 1e-12 in float64 (1e-5 in float32).
    - Bytes: an average of fragment f all-reduces at most its elements, in the parameters' dtype.
      In all that is at most ceil(T / H) times the parameters. After any step but the last it is
      one fragment. Example: n = 1000 float64, H = 4, F = 4: 2000 bytes after a step, where F = 1
      has 8000.
    - Time: at most 1.05 times the steps and one all-reduce for each average. With a fragment of m
      elements it takes ``2 (p - 1) (alpha + ceil(m / p) * itemsize * beta)``. So let a fragment
      travel whole, and not a parameter at a time.

    Source: Douillard et al., DiLoCo (2023) and Streaming DiLoCo (2025).
    """
    ### BEGIN SOLUTION
    if num_steps < 0 or period < 1 or not 1 <= num_fragments <= period:
        raise ValueError(
            f"num_steps ({num_steps}) is below 0, period ({period}) below 1, or num_fragments "
            f"({num_fragments}) not from 1 to period"
        )
    if not 0 <= outer_momentum < 1:
        raise ValueError(f"outer_momentum ({outer_momentum}) must be at least 0 and below 1")
    params = [param for param in model.parameters() if param.requires_grad]
    anchor = _flat(params)
    velocity = torch.zeros_like(anchor)
    ends = [f * len(anchor) // num_fragments for f in range(num_fragments + 1)]
    for step in range(num_steps):
        inner.zero_grad()
        loss(model, step).backward()
        inner.step()
        taken = step + 1
        turns = [
            f
            for f in range(num_fragments)
            if taken == num_steps
            or (taken >= period and taken % period == f * period // num_fragments)
        ]
        if not turns:
            continue
        flat = _flat(params)
        for f in turns:
            part = slice(ends[f], ends[f + 1])
            if ends[f] < ends[f + 1]:
                flat[part] = _outer_step(
                    group, flat[part], anchor[part], velocity[part], outer_lr, outer_momentum
                )
        _write(params, flat)


def _outer_step(group, own, anchor, velocity, outer_lr, outer_momentum):
    """Average a fragment; move its anchor and velocity in place, and return the anchor."""
    mean = own.clone()
    dist.all_reduce(mean, group=group)
    mean /= group.size()
    delta = anchor - mean
    velocity.mul_(outer_momentum).add_(delta)
    anchor.sub_(outer_lr * (delta + outer_momentum * velocity))
    return anchor


def _flat(params):
    """All parameters in one new vector."""
    return torch.cat([param.detach().reshape(-1) for param in params])


def _write(params, flat):
    """Copy a vector into the parameters."""
    parts = flat.split([param.numel() for param in params])
    with torch.no_grad():
        for param, part in zip(params, parts, strict=True):
            param.copy_(part.view_as(param))
    ### END SOLUTION
