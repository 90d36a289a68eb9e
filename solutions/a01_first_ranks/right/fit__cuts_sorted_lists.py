"""Sorts copies, cuts between different neighbours, keeps the best of a list."""

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
    cuts = [k for k in range(1, len(n)) if n[k - 1] != n[k]]
    tried = []
    for k in cuts[1:-1]:
        short, long = fit(n[:k], t[:k]), fit(n[k:], t[k:])
        left = residuals(n[:k], t[:k], *short)
        right = residuals(n[k:], t[k:], *long)
        tried.append((float(left @ left + right @ right), k, short, long))
    if not tried:
        raise ValueError("four different sizes at least")
    _, k, short, long = min(tried)
    return n[k], short, long
