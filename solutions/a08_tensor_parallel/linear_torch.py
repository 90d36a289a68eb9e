"""Linear layers cut among ranks, on torch.distributed: two conjugate operators, and autograd.

                                forward           backward
    f  copy_to_group            x                 all-reduce
    g  reduce_from_group        all-reduce        dy

                            rank 0   rank 1   rank 2
    column: Y = X W^T + b   rows of W and b are cut: each rank has some columns of Y
    row:    Z = Y V^T + c   columns of V are cut: each rank has a part of each sum

    X -- f -- X W_r^T + b_r -- gelu -- Y_r V_r^T -- g -- + c -- Z        (a pair: an MLP)
    all ranks                                            all ranks
    have X                                               have Z

What is special to this module:

- ``group`` is a process group. Collectives and point-to-point calls on it are allowed; make no
  group of your own. A graph may use several groups.
- Tensors are float64 or float32, and travel as what they are. A layer's input has two or more
  dimensions. Tensors may have gaps (a transposed tensor, a gradient made by ``expand``). Gradients
  that autograd hands to you are inputs, too: don't change them.
- "Part r" of n elements is ``tensor_split(p)[r]``: the first ``n % p`` parts have one more. Parts
  may be empty.
- Values and gradients: within 1e-12 of the whole layers' on one rank (1e-5 in float32), in the
  Frobenius norm.
- The result of ``g``, the gradient of ``f`` and that of a row's bias are equal on all ranks, bit
  for bit.
- Bytes: for n rows of d elements a rank sends and receives at most
  ``2 (p - 1) max(ceil(n / p) d, n ceil(d / p))`` elements in the forward pass of ``g``, as many in
  the backward pass of ``f``, and ``64 (p - 1)`` bytes more: one all-reduce, however it is made.
  Example: p = 4, n = 8, d = 24 in float64: 2 * 3 * 48 * 8 = 2304 bytes, and 192 more. Nothing else
  travels: no weights and none of their gradients, and no gradient of an ``x`` that requires none.
- Memory: a layer keeps its own part of W and b, and 4 KiB. So the whole tensors can be given back.
- Time of a pair forward and backward: at most 1.05 times ``work / p`` plus two all-reduces.
  ``work`` is the time of the matrix products on one rank that has whole layers, three for each
  weight. An all-reduce of m bytes takes ``2 (p - 1) (alpha + ceil(m / p) beta)`` on a machine with
  a latency of alpha seconds and beta seconds per byte.

Source: Shoeybi et al., Megatron-LM, 2019, section 3.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import linear


def copy_to_group(group: dist.ProcessGroup, x: torch.Tensor) -> torch.Tensor:
    """f: the elements of ``x``; the gradient of ``x`` is the sum of all ranks' gradients.

    The result may be a view of ``x``.

    Args:
        x: the same on all ranks, of any shape.
    """
    ### BEGIN SOLUTION
    return _Copy.apply(x, group)


def _all_reduced(x, group):
    """The sum over all ranks, in a tensor of its own: ``all_reduce`` works in place."""
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dy):
        return _all_reduced(dy, ctx.group), None

    ### END SOLUTION


def reduce_from_group(group: dist.ProcessGroup, x: torch.Tensor) -> torch.Tensor:
    """g: the sum of all ranks' ``x``; the gradient of ``x`` is the one that arrives.

    Args:
        x: a summand on each rank, of any shape, the same on all ranks.
    """
    ### BEGIN SOLUTION
    return _Reduce.apply(x, group)


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        return _all_reduced(x, group)

    @staticmethod
    def backward(ctx, dy):
        return dy, None

    ### END SOLUTION


class ColumnLinear(nn.Module):
    """``x W^T + b`` with the rows of W cut: each rank computes some columns of the result.

    Args:
        weight: of the whole W's shape ``(d_out, d_in)``. Only part r of the rows is this rank's; in
            the others may stand anything.
        bias: likewise of b's shape ``(d_out,)``, or None.

    Attributes:
        weight, bias: parameters: this rank's parts of W's rows and of b; ``bias`` may be None.
            Either may be frozen (``requires_grad`` False) later.
    """

    def __init__(
        self, group: dist.ProcessGroup, weight: torch.Tensor, bias: torch.Tensor | None = None
    ):
        super().__init__()
        ### BEGIN SOLUTION
        self.group = group
        p, r = dist.get_world_size(group), dist.get_rank(group)
        # A view would keep the whole tensor in memory.
        self.weight = nn.Parameter(weight.detach().tensor_split(p)[r].clone())
        self.bias = None if bias is None else nn.Parameter(bias.detach().tensor_split(p)[r].clone())
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From x, shape ``(..., d_in)``, the same on all ranks: this rank's part of the columns."""
        ### BEGIN SOLUTION
        return linear(copy_to_group(self.group, x), self.weight, self.bias)
        ### END SOLUTION


class RowLinear(nn.Module):
    """``x W^T + b`` with the columns of W cut: each rank computes one summand of the result.

    Arguments and attributes are those of ``ColumnLinear``, but that part r of W's *columns* is this
    rank's, and b is whole, the same on all ranks.
    """

    def __init__(
        self, group: dist.ProcessGroup, weight: torch.Tensor, bias: torch.Tensor | None = None
    ):
        super().__init__()
        ### BEGIN SOLUTION
        self.group = group
        p, r = dist.get_world_size(group), dist.get_rank(group)
        self.weight = nn.Parameter(weight.detach().tensor_split(p, dim=1)[r].clone())
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From this rank's part of the columns of x: the whole result, on all ranks."""
        ### BEGIN SOLUTION
        y = reduce_from_group(self.group, linear(x, self.weight))
        # After the sum, or b would be added p times.
        return y if self.bias is None else y + self.bias
        ### END SOLUTION
