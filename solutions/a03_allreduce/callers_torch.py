"""Functions that call ``ring_torch`` inside a rank, for the tests: supplied, nothing to write.

``all_reduce`` overwrites its tensor, so these functions return what it holds afterwards::

    ringside run callers_torch.py:all_reduce --ranks 5 -- --n 11
"""

import multiprocessing
import sys
import tempfile
from datetime import timedelta

import ring_torch
import torch
import torch.distributed as dist


def all_reduce(group, x):
    """Call, and return the tensor."""
    ring_torch.all_reduce(group, x)
    return x.clone()


def strided(group, stride, x):
    """Call with every stride-th element of a longer tensor.

    Returns:
        ``(x afterwards, changed)``: did anything between the elements change?
    """
    longer = torch.full((stride * len(x) + 1,), 77, dtype=x.dtype)
    view = longer[: stride * len(x) : stride]
    view.copy_(x)
    ring_torch.all_reduce(group, view)
    result = view.clone()
    view.fill_(77)
    return result, bool((longer != 77).any())


def twice(group, first, second):
    """Call twice in a row; returns the first tensor after each call, and the second one."""
    ring_torch.all_reduce(group, first)
    then = first.clone()
    ring_torch.all_reduce(group, second)
    return then, first.clone(), second.clone()


def special(group, x):
    """Call with a vector that has NaN and infinities in it, which ``examples.py`` gives."""
    return all_reduce(group, x)


def returned(group, x):
    """Whether the call gives anything back."""
    return ring_torch.all_reduce(group, x) is not None


def on_gloo(rank, world_size, path):
    """Be one of ``world_size`` ranks on this machine, and compare one sum."""
    patience = timedelta(seconds=30)
    store = dist.FileStore(path, world_size)
    dist.init_process_group("gloo", store=store, world_size=world_size, rank=rank, timeout=patience)
    x = torch.arange(11.0) * (rank + 1)
    ring_torch.all_reduce(dist.group.WORLD, x)
    torch.testing.assert_close(x, torch.arange(11.0) * sum(range(1, world_size + 1)))
    dist.destroy_process_group()


def try_gloo(world_size):
    """Run ``on_gloo`` in as many processes; returns how many failed."""
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            context.Process(target=on_gloo, args=(rank, world_size, f"{folder}/store"))
            for rank in range(world_size)
        ]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
    return sum(process.exitcode != 0 for process in ranks)
