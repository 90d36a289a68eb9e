# fails: test_two_regimes
"""Takes the sizes for sorted."""

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
    sizes, times_s = np.asarray(sizes), np.asarray(times_s, float)
    if len(np.unique(sizes)) < 4:
        raise ValueError("four sizes")
    best = None
    for k in range(2, len(sizes) - 1):
        try:
            lines = [fit(sizes[part], times_s[part]) for part in (slice(0, k), slice(k, None))]
        except ValueError:
            continue
        squares = np.sum(residuals(sizes[:k], times_s[:k], *lines[0]) ** 2)
        squares += np.sum(residuals(sizes[k:], times_s[k:], *lines[1]) ** 2)
        if best is None or squares < best[0]:
            best = (squares, sizes[k], *lines)
    return int(best[1]), best[2], best[3]
