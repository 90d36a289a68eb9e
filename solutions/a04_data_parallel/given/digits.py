"""Real data: 1797 handwritten digits of 8 x 8 pixels; supplied.

Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI 1998 (its test
set).
"""

import numpy as np

from ringside.digits import load_digits

NUM_TRAIN = 1437  # the others are for testing


def load(dtype="float64"):
    """The digits in a fixed random order.

    Returns:
        ``(x, y), (x_test, y_test)``: x of shape ``(1437, 64)`` and ``(360, 64)`` with values
        0 to 1, y the digits.
    """
    x, y = load_digits()
    order = np.random.default_rng(0).permutation(len(y))
    x, y = (x[order] / 16).astype(dtype), y[order]
    return (x[:NUM_TRAIN], y[:NUM_TRAIN]), (x[NUM_TRAIN:], y[NUM_TRAIN:])
