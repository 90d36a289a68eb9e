"""Functions that call ``ring_torch`` inside a rank, for the tests: supplied, nothing to write.

``all_reduce`` overwrites its tensor, so these functions return what it holds afterwards::

    ringside run callers_torch.py:all_reduce --ranks 5 -- --n 11
"""

import ring_torch
import torch
import torch.distributed as dist

from ringside.checking.callers_torch import failures_on_gloo


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
    """Call with one tensor, with float32 of the second, and with the second.

    Returns:
        ``(first then, first now, second, float32)``: None if the second is float32 itself.
    """
    ring_torch.all_reduce(group, first)
    then = first.clone()
    single = None if second.dtype == torch.float32 else all_reduce(group, second.float())
    ring_torch.all_reduce(group, second)
    return then, first.clone(), second.clone(), single


def special(group, x):
    """Call with a vector that has NaN and infinities in it, which ``examples.py`` gives."""
    return all_reduce(group, x)


def returned(group, x):
    """Whether the call gives anything back."""
    return ring_torch.all_reduce(group, x) is not None


def assert_sum(group):
    """Compare one sum."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    x = torch.arange(11.0) * (rank + 1)
    ring_torch.all_reduce(group, x)
    torch.testing.assert_close(x, torch.arange(11.0) * sum(range(1, world_size + 1)))


def try_gloo(world_size):
    """Compare one sum on real ranks of this machine; returns how many failed."""
    return failures_on_gloo(assert_sum, world_size)
