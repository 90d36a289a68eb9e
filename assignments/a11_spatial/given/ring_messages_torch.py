"""Messages between neighbours in a ring, for attention in parts: supplied, nothing to write.

    rank 0  ->  rank 1  ->  rank 2  ->  rank 0        each rank sends to the next one, and receives
                                                      from the one before

Sends and receives are started together, so that no order can block NCCL.
"""

import torch
import torch.distributed as dist


def start_to_pass_on(
    group: dist.ProcessGroup, tensors: list[torch.Tensor], length: int | None = None
):
    """Start to send tensors to the next rank, and to receive as many from the rank before.

    Args:
        group: the ranks of the ring, two or more, in its order.
        tensors: a list, each of shape ``(batch, heads, n, d)`` and without gaps (``contiguous``).
            Don't change them before the send has ended.
        length: how many positions the tensors that come have; None: n, too.

    Returns:
        ``(coming, works)``: new tensors in a list, filled when ``wait_for(works)`` has returned.
    """
    p, rank = dist.get_world_size(group), dist.get_rank(group)
    after, before = (dist.get_global_rank(group, (rank + step) % p) for step in (1, -1))
    shapes = [(*x.shape[:2], x.shape[2] if length is None else length, x.shape[3]) for x in tensors]
    coming = [x.new_empty(shape) for x, shape in zip(tensors, shapes, strict=True)]
    calls = [dist.P2POp(dist.isend, x, after, group) for x in tensors]
    calls += [dist.P2POp(dist.irecv, x, before, group) for x in coming]
    return coming, dist.batch_isend_irecv(calls)


def wait_for(works):
    """Wait until all that was started has ended; an empty list is allowed."""
    for started in works:
        started.wait()
