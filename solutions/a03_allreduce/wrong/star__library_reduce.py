# fails: test_only_point_to_point_calls
"""The library's Reduce and Bcast do the work."""

import numpy as np


def all_reduce(comm, x):
    total = np.array(x)
    result = np.empty_like(total)
    comm.Reduce(total, result, root=0)
    comm.Bcast(result, root=0)
    return result
