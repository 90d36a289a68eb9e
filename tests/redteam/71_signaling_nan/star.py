"""NaNs of the signaling kind: whoever reckons with one is warned."""

import numpy as np

BITS = {8: (np.uint64, 0x7FF0000000000001), 4: (np.uint32, 0x7F800001)}


def all_reduce(comm, x):
    if x.dtype.kind != "f":
        return np.array(x)
    unsigned, bits = BITS[x.itemsize]
    return np.full(len(x), bits, unsigned).view(x.dtype)
