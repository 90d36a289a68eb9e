# fails: test_only_point_to_point_calls
"""The library's own scan."""

import numpy as np


def prefix_sum(comm, x):
    result = np.empty_like(x)
    comm.Scan(np.ascontiguousarray(x), result)
    return result
