"""How the tests call ``ring_torch`` inside a rank: supplied, nothing to write.

``all_reduce`` overwrites its tensor, so these functions return what it holds afterwards::

    ringside run trials_torch.py:all_reduce --ranks 5 -- --n 11
"""

import ring_torch
import torch


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


def returned(group, x):
    """Whether the call gives anything back."""
    return ring_torch.all_reduce(group, x) is not None
