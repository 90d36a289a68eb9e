"""What those call that are left when a rank has died: torch has no agreement of its own.

    lost(error)           is this error the failure of another rank, or of a connection to it?
    agree(group, flag)    one answer for all that are alive: whether all flags are true
    shrink(group)         the group of those that are alive

On the network all that are alive get the same, whoever dies meanwhile. On other backends these are
an all-reduce and the group itself, for programs in which nobody dies.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from ringside.pytorch.group import NetworkGroup


def lost(error: BaseException) -> bool:
    """Whether a RuntimeError of torch.distributed tells of a rank that has died."""
    return isinstance(error, RuntimeError) and "Connection " in str(error) and "peer" in str(error)


def agree(group: dist.ProcessGroup, flag: bool) -> bool:
    """Whether all ranks of a group are alive and give a true flag: the same on all of them."""
    if not isinstance(group, NetworkGroup):
        flags = torch.tensor([int(flag)])
        dist.all_reduce(flags, dist.ReduceOp.MIN, group)
        return bool(flags.item())
    try:
        return bool(group.among_survivors("agree", int(bool(flag))))
    except RuntimeError as error:
        if not lost(error):
            raise
        return False


def shrink(group: dist.ProcessGroup) -> dist.ProcessGroup:
    """Those ranks of a group that are alive, in their old order."""
    if not isinstance(group, NetworkGroup):
        return group
    from ringside.pytorch.front import group_of  # which real ranks must not import

    alive: dist.ProcessGroup = group_of(group.among_survivors("shrink"))
    return alive
