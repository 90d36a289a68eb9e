"""Functions that call ``prefix_torch`` inside a rank, for the tests: supplied, nothing to write.

``prefix_sum`` overwrites its tensor, so these functions return what it holds afterwards::

    ringside run callers_torch.py:prefix_sum --ranks 5 -- --n 11
"""

import prefix_torch
import torch


def prefix_sum(group, x):
    """Call, and return the tensor."""
    prefix_torch.prefix_sum(group, x)
    return torch.clone(x)


def twice(group, first, second):
    """Call twice in a row; returns the first tensor after each call, and the second one."""
    prefix_torch.prefix_sum(group, first)
    then = torch.clone(first)
    prefix_torch.prefix_sum(group, second)
    return then, torch.clone(first), torch.clone(second)
