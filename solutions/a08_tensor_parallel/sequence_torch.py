"""Sequence parallelism: between two tensor-parallel parts each rank has some positions only.

                                    forward           backward
    gather_sequence                 all-gather        reduce-scatter
    reduce_scatter_sequence         reduce-scatter    all-gather

    x_r - norm - gather - W1_r, b1_r - gelu - W2_r - reduce-scatter - + b2 - dropout - + x_r - z_r
    |  t = T / p positions  |     all T positions        |          t positions              |

An all-reduce is a reduce-scatter and an all-gather: the bytes are the same as before, and layer
norm and dropout are computed and kept once, not p times. They and ``b2`` see a rank's own
positions only, so the gradients of their parameters are one summand of p on each rank.

What is special to this module:

- ``group`` is a process group. Collectives and point-to-point calls on it are allowed; make no
  group of your own.
- The rank at place r of the group has the positions ``r t, ..., r t + t - 1`` of a sequence of
  ``T = p t``. They are dimension 0 of every tensor; t >= 1 is the same on all ranks.
- Tensors are float64 or float32, travel as what they are, and may have gaps. Gradients that
  autograd hands to you are inputs, too: don't change them.
- Values and gradients: within 1e-12 of those of the whole sequence on one rank (1e-5 in float32),
  in the Frobenius norm.
- Bytes of an operator: a rank sends and receives at most ``(p - 1) t`` positions in the forward
  pass, as many in the backward pass, and ``64 (p - 1)`` bytes more.
- Time of a block forward, backward and ``finish``: at most 1.05 times ``work / p``, five
  all-gathers of T positions and three all-reduces of d elements.
  Work and all-reduce as in ``linear_torch.py``; an all-gather is half an all-reduce.

Source: Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022,
section 4.
"""

import torch
import torch.distributed as dist
from given.dropout import scaled_mask
from torch import nn
from torch.nn.functional import gelu, layer_norm, linear


def gather_sequence(group: dist.ProcessGroup, x: torch.Tensor) -> torch.Tensor:
    """All positions, of all ranks; the gradient of ``x`` is the sum of all ranks' for its part.

    Args:
        x: this rank's positions, shape ``(t, ...)``.

    Returns:
        A tensor, shape ``(p t, ...)``, in the order of the group.
    """
    ### BEGIN SOLUTION
    return _Gather.apply(x, group)


def _gathered(x, group):
    whole = x.new_empty(dist.get_world_size(group) * x.shape[0], *x.shape[1:])
    dist.all_gather_into_tensor(whole, x.contiguous(), group=group)
    return whole


def _scattered_sum(x, group):
    own = x.new_empty(x.shape[0] // dist.get_world_size(group), *x.shape[1:])
    dist.reduce_scatter_tensor(own, x.contiguous(), group=group)
    return own


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return _gathered(x, group)

    @staticmethod
    def backward(ctx, dy):
        return _scattered_sum(dy, ctx.group), None

    ### END SOLUTION


def reduce_scatter_sequence(group: dist.ProcessGroup, x: torch.Tensor) -> torch.Tensor:
    """This rank's positions of the sum of all ranks' ``x``; its gradient is all ranks' gradients.

    Args:
        x: a summand on each rank, shape ``(p t, ...)``.

    Returns:
        A tensor, shape ``(t, ...)``.
    """
    ### BEGIN SOLUTION
    return _ReduceScatter.apply(x, group)


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return _scattered_sum(x, group)

    @staticmethod
    def backward(ctx, dy):
        return _gathered(dy, ctx.group), None

    ### END SOLUTION


class SequenceBlock(nn.Module):
    """A transformer's MLP with its norm, dropout and residual, tensor- and sequence-parallel.

    On one rank it is
    ``x + dropout(linear(gelu(linear(norm(x), w1, b1), approximate="tanh"), w2, b2))``
    with ``norm(x) = layer_norm(x, (d,), norm_weight, norm_bias)``.

    Args:
        params: ``norm_weight``, ``norm_bias`` and ``b2``, shape ``(d,)``, the same on all ranks;
            ``w1``, shape ``(h, d)``; ``b1``, shape ``(h,)``; ``w2``, shape ``(d, h)``. h is
            divisible by p. Of the last three only part r of h is this rank's; in the others may
            stand anything.
        rate: of dropout; 0 <= rate < 1.

    Attributes:
        norm_weight, norm_bias, b2: parameters: whole tensors.
        w1, b1, w2: parameters: this rank's h / p of h rows, elements and columns. A block keeps
            nothing else of the whole tensors, but 4 KiB.

    Memory: the forward pass leaves at most ``T d + t (6 d + 4 h)`` elements and 16 KiB for the
    backward pass, the result included. So only the input of w1 may have all T positions at width d.
    Example: T = 512, t = 64, d = 64, h = 32 in float64: 528 KiB.
    """

    def __init__(
        self, group: dist.ProcessGroup, params: dict[str, torch.Tensor], rate: float = 0.0
    ):
        super().__init__()
        ### BEGIN SOLUTION
        self.group, self.rate = group, rate
        self.p, self.r = dist.get_world_size(group), dist.get_rank(group)
        cuts = {"w1": 0, "b1": 0, "w2": 1}
        for name, whole in params.items():
            own = whole.detach()
            if name in cuts:
                own = own.chunk(self.p, dim=cuts[name])[self.r]
            self.register_parameter(name, nn.Parameter(own.clone()))
        ### END SOLUTION

    def forward(self, x: torch.Tensor, seed: int = 0) -> torch.Tensor:
        """From x, shape ``(t, d)``, this rank's positions: those of the result.

        In training mode dropout multiplies by ``dropout.scaled_mask`` of this rank's positions in
        the whole sequence, with ``seed``; in evaluation mode there is none.

        Bytes: at most ``2 (p - 1) t d`` elements forward and ``3 (p - 1) t d`` backward (the input
        of w1 may be gathered once more there, instead of being kept).
        """
        ### BEGIN SOLUTION
        t, d = x.shape
        y = layer_norm(x, (d,), self.norm_weight, self.norm_bias)
        y = gather_sequence(self.group, y)  # (T, d)
        y = gelu(linear(y, self.w1, self.b1), approximate="tanh")  # (T, h / p)
        y = reduce_scatter_sequence(self.group, linear(y, self.w2)) + self.b2  # (t, d)
        if self.training and self.rate:
            y = y * x.new_tensor(scaled_mask(seed, self.r * t, t, d, self.rate))
        return x + y
        ### END SOLUTION

    def finish(self) -> None:
        """Called in each training step, after one or several backward passes.

        Afterwards ``grad`` of ``norm_weight``, ``norm_bias`` and ``b2`` is that of the whole
        sequence, equal on all ranks bit for bit; before the first backward pass it was None or 0.

        Bytes, here or in each backward pass: an all-reduce of ``norm_weight``, ``norm_bias`` and
        ``b2``, each at most ``2 (p - 1) ceil(d / p)`` elements.
        """
        ### BEGIN SOLUTION
        grads = [each.grad for each in (self.norm_weight, self.norm_bias, self.b2)]
        flat = torch.cat(grads)
        dist.all_reduce(flat, group=self.group)
        for grad, total in zip(grads, flat.chunk(3), strict=True):
            grad.copy_(total)
        ### END SOLUTION
