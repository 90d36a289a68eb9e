# fails: test_two_regimes_at_the_ends_and_of_a_cloud
"""Measurements of one size may be on both sides of the threshold."""

import numpy as np


def fit(sizes, times_s):
    sizes, times_s = np.asarray(sizes, float), np.asarray(times_s, float)
    if len(np.unique(sizes)) < 2:
        raise ValueError("a line needs messages of two different sizes at least")
    largest = sizes.max()  # in units of it both columns are of the same order
    model = np.stack([1 / times_s, sizes / largest / times_s], axis=1)  # (m, 2)
    alpha_s, largest_s = np.linalg.lstsq(model, np.ones(len(sizes)), rcond=None)[0]
    return float(alpha_s), float(largest_s / largest)


def residuals(sizes, times_s, alpha_s, beta_s_per_byte):
    sizes, times_s = np.asarray(sizes, float), np.asarray(times_s, float)
    return 1 - (alpha_s + beta_s_per_byte * sizes) / times_s


def two_regimes(sizes, times_s):
    order = np.argsort(sizes, kind="stable")
    n, t = np.array(sizes)[order], np.array(times_s)[order]
    if len(np.unique(n)) < 4:
        raise ValueError("four sizes")
    best = None
    for k in range(2, len(n) - 1):
        if len(np.unique(n[:k])) < 2 or len(np.unique(n[k:])) < 2:
            continue
        short, long = fit(n[:k], t[:k]), fit(n[k:], t[k:])
        left, right = residuals(n[:k], t[:k], *short), residuals(n[k:], t[k:], *long)
        squares = left @ left + right @ right
        if best is None or squares < best[0]:
            best = (squares, int(n[k]), short, long)
    return best[1:]
