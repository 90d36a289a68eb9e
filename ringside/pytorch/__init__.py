"""torch.distributed on Ringside's network: a process-group backend of its own name, ``ringside``.

    student's code     dist.all_reduce, isend, DistributedDataParallel, fully_shard, DTensor, ...
    torch              torch.distributed, the C++ reducer
    group.Group        a ProcessGroup; every call of it is an operation of ``ringside.link``
    network            matches, reduces, counts and times

``front`` starts it in a rank. Only ranks and the zygote that forks them import this package: the
network process never imports torch.
"""

__all__: list[str] = []
