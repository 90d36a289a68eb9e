"""How the tests call ``prefix_torch`` inside a rank: supplied, nothing to write.

``prefix_sum`` overwrites its tensor, so these functions return what it holds afterwards::

    ringside run trials_torch.py:prefix_sum --ranks 5 -- --n 11
"""

import prefix_torch


def prefix_sum(group, x):
    """Call, and return the tensor."""
    prefix_torch.prefix_sum(group, x)
    return x.clone()


def twice(group, first, second):
    """Call twice in a row; returns the first tensor after each call, and the second one."""
    prefix_torch.prefix_sum(group, first)
    then = first.clone()
    prefix_torch.prefix_sum(group, second)
    return then, first.clone(), second.clone()
