"""Functions that call yours inside a rank, for the tests: nothing to write.

``prefix_sum`` overwrites its tensor: what it holds afterwards is looked at.
"""

import prefix_torch


def prefix_sum(group, x):
    """Call, and return the tensor."""
    prefix_torch.prefix_sum(group, x)
    return x.clone()
