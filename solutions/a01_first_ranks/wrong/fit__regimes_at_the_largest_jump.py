# fails: test_two_regimes
"""Cuts where the time grows most from one size to the next."""

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
    different = np.unique(sizes)
    if len(different) < 4:
        raise ValueError("four sizes")
    means = np.array([times_s[sizes == n].mean() for n in different])
    cut = different[2 + int(np.argmax((means[1:] / means[:-1])[1:-1]))]
    below = sizes < cut
    return int(cut), fit(sizes[below], times_s[below]), fit(sizes[~below], times_s[~below])
