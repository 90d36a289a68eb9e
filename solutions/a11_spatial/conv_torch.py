"""A convolution that is cut in space: each rank has some rows of the image, on torch.distributed.

    k = 3, three ranks                    rank 1 computes its rows of y from x and a halo

    rank 0   ..........                   ----------   last row of rank 0's x
             ----------  <- rank 1 needs  ..........
    rank 1   ..........                   ..........   its own rows
             ..........                   ..........
    rank 2   ----------  <- rank 1 needs  ----------   first row of rank 2's x
             ..........

A row of y needs k // 2 rows of x above it and as many below it. Around the image there are zeros:
y is as large as x. In the backward pass a row of the gradient of x depends on k // 2 rows of the
gradient of y above and below. The gradient of the weight is a sum over all rows of the image, so
each rank has one summand.

Rules:

- ``group`` is a process group of p >= 1 ranks in any order; it need not be the world. Place r of
  the group has the rows after those of place r - 1.
- Tensors are of one floating-point dtype, on all ranks the same: float64, float32 or bfloat16,
  for example. They may have gaps, and so may gradients (one made by ``expand``).
- Several calls may stand in one graph, whose backward passes follow in any order.
- Halo rows travel point to point, between neighbours in the group. The only collective is the
  all-reduce of the weight's and the bias's gradients.
- The file runs unchanged under ``torchrun``, with gloo on CPUs and with NCCL on GPUs. NCCL needs
  ``dist.batch_isend_irecv`` where two ranks send to each other.

Source: Dryden et al., Improving strong-scaling of CNN training by exploiting finer-grained
parallelism, 2019.
"""

import torch
import torch.distributed as dist


def conv2d(
    group: dist.ProcessGroup,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """This rank's rows of the convolution of the whole image, with a gradient for autograd.

    Args:
        group: the ranks that take part; p of them.
        x: this rank's rows, shape ``(batch, c_in, h, w)``. Ranks may have different heights h.
        weight: shape ``(c_out, c_in, k, k)`` with odd k, the same on all ranks.
        bias: shape ``(c_out,)``, the same on all ranks, or None.

    Returns:
        Shape ``(batch, c_out, h, w)``: this rank's rows of
        ``torch.conv2d(image, weight, bias, padding=k // 2)``.

    Raises:
        ValueError: before any message, if k is even, or if p > 1 and h is below k // 2: then a
            neighbour would need rows of a rank further away. (The tests of this give all ranks
            such arguments.)

    - Values and gradients: those of the whole image on one rank, to a relative error of 1e-12 in
      float64 (1e-5 in float32, 0.03 in bfloat16), in the Frobenius norm; norms below 1 count as 1.
      The gradients of weight and bias are those of the whole image on every rank.
    - Bytes forward: a rank sends each neighbour ``batch c_in (k // 2) w`` elements at most.
      Example: batch 1, 64 channels, k = 3, w = 512: 32,768 elements to each of two neighbours, for
      any height. For k = 1 it sends nothing.
    - Bytes backward: each neighbour ``batch max(c_in, c_out) (k // 2) w`` elements at most; and one
      all-reduce of the gradients of weight and bias, which counts as
      ``2 (p - 1) / p (c_out c_in k k + c_out)`` elements.
    - A gradient that nobody asked for costs no bytes: no halo backward for an ``x`` that requires
      none (an image), and of weight and bias only those that require a gradient are summed.
    - Time: at most 1.05 times ``work / p`` and the messages; half the points up to 1.5 times. The
      messages of both neighbours are under way together: a halo takes one latency and the bytes
      that one rank sends. An all-reduce of m bytes takes ``2 (p - 1) (alpha + ceil(m / p) beta)``.
    """
    ### BEGIN SOLUTION
    halo = weight.shape[2] // 2
    if weight.shape[2] % 2 == 0:
        raise ValueError(f"the kernel has {weight.shape[2]} rows; it must be an odd number")
    if dist.get_world_size(group) > 1 and x.shape[2] < halo:
        raise ValueError(
            f"this rank has {x.shape[2]} rows and the halo has {halo}: take fewer ranks"
        )
    return _SpatialConv.apply(x, weight, bias, group)


def _with_halo(x, halo, group):
    """The rows of ``x`` between the neighbours' rows, or zeros at the ends of the image."""
    p, r = dist.get_world_size(group), dist.get_rank(group)
    above, below = (x.new_zeros(*x.shape[:2], halo, x.shape[3]) for _ in range(2))
    ops = []
    for place, theirs, edge in (
        (r - 1, above, x[:, :, :halo]),
        (r + 1, below, x[:, :, x.shape[2] - halo :]),
    ):
        if halo and 0 <= place < p:
            peer = dist.get_global_rank(group, place)
            ops.append(dist.P2POp(dist.isend, edge.contiguous(), peer, group))
            ops.append(dist.P2POp(dist.irecv, theirs, peer, group))
    for work in dist.batch_isend_irecv(ops) if ops else ():
        work.wait()
    return torch.cat([above, x, below], dim=2)


class _SpatialConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, group):
        halo = weight.shape[2] // 2
        tall = _with_halo(x, halo, group)
        ctx.save_for_backward(tall, weight)
        ctx.group, ctx.halo = group, halo
        return torch.conv2d(tall, weight, bias, padding=(0, halo))

    @staticmethod
    def backward(ctx, dy):
        (tall, weight), group, halo = ctx.saved_tensors, ctx.group, ctx.halo
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        dx, sums = None, []
        if needs_weight:
            sums.append(torch.nn.grad.conv2d_weight(tall, weight.shape, dy, padding=(0, halo)))
        if needs_bias:
            sums.append(dy.sum(dim=(0, 2, 3)))
        if needs_x:
            # y took x with the kernel; x takes dy with the kernel turned around.
            turned = weight.flip(2, 3).transpose(0, 1)
            dx = torch.conv2d(_with_halo(dy, halo, group), turned, padding=(0, halo))
        if sums:
            flat = torch.cat([each.reshape(-1) for each in sums])
            dist.all_reduce(flat, group=group)
            parts = flat.split([each.numel() for each in sums])
            sums = [part.view_as(each) for part, each in zip(parts, sums, strict=True)]
        dw = sums.pop(0) if needs_weight else None
        return dx, dw, sums.pop() if needs_bias else None, None

    ### END SOLUTION
