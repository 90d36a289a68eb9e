"""Functions that call ``ring_torch`` inside a rank, for the tests: nothing to write.

``all_reduce`` overwrites its tensor, so these functions return what it holds afterwards::

    ringside run checks/inside_torch.py:all_reduce --ranks 5 -- --n 11
"""

import ring_torch
import torch


def all_reduce(group, x):
    """Call, and return the tensor."""
    ring_torch.all_reduce(group, x)
    return x.clone()


def strided(group, target, stride, x):
    """Call with every stride-th element of a longer tensor.

    Returns:
        A dict: the ``result``, what x holds afterwards; whether anything between its elements
        ``changed``; whether the call ``returned`` anything.
    """
    longer = torch.full((stride * len(x) + 1,), 77, dtype=x.dtype)
    view = longer[: stride * len(x) : stride]
    view.copy_(x)
    returned = ring_torch.all_reduce(group, view)
    result = view.clone()
    view.fill_(77)
    changed = bool((longer != 77).any())
    return {"result": result, "changed": changed, "returned": returned is not None}


def twice(group, target, first, second):
    """Call with one tensor, with float32 of the second, and with the second.

    Returns:
        A dict: what the first tensor holds ``then`` and ``now``, the second one (``late``) and that
        of float32 (``single``), which is None if the second is float32 itself.
    """
    ring_torch.all_reduce(group, first)
    then = first.clone()
    single = None if second.dtype == torch.float32 else all_reduce(group, second.float())
    ring_torch.all_reduce(group, second)
    return {
        "then": then, "now": first.clone(), "late": second.clone(), "single": single,
        "shared": False, "fixed": False,
    }  # fmt: skip
