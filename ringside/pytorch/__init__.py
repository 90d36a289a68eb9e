"""torch.distributed on Ringside's network: a process-group backend of its own name, ``ringside``.

    student's code     dist.all_reduce, isend, DistributedDataParallel, fully_shard, DTensor, ...
    torch              torch.distributed, the C++ reducer
    group.Group        a ProcessGroup; every call of it is an operation of ``ringside.network.link``
    network            matches, reduces, counts and times

``ringside.run("ring_torch.py:all_reduce", 4, (x,))`` calls ``all_reduce(group, x)`` on ranks that
hold torch: arrays among the arguments come as tensors, tensors among the results go back as arrays.
A script calls ``dist.init_process_group()`` as under torchrun. Whatever backend a program asks for
(gloo, nccl, none) it gets this one; tensors are on the CPU.

What the run's trace and result then hold:

- ``isend``, ``irecv`` and their waits as messages; the payload counts, dtype and size travel free.
- collectives under MPI's names (all_reduce is ``allreduce``, all_gather_into_tensor ``allgather``),
  timed as the machine lowers them, in ``Result.collectives``; a coalesced call counts each of its
  parts; objects count as the tensors that torch makes of them.
- ``new_group`` in ``Result.comm_calls``: its members meet on the network, which takes time.
- compute: FLOPs and bytes of operators between two calls, merged, labelled forward, backward or
  optimizer (``counting``); ``Result.num_flops()``.
- ``Result.memory``: peak and live bytes by kind (``memory``).

A rank's own numbers (FLOPs, memory, lines) are attested, everything else the network observed.
A tensor in flight is poisoned (NaN, -1) until it is waited for, and one that is changed while it is
sent is an error, as on a real machine either would be a race.

Only ranks and the zygote that forks them import this package: the network never imports torch.
"""

__all__: list[str] = []
