# fails: test_noise_counts_alike_at_all_sizes
"""A line through the smallest and the largest."""

import numpy as np


def fit(sizes, times_s):
    sizes, times_s = np.asarray(sizes, float), np.asarray(times_s, float)
    if len(np.unique(sizes)) < 2:
        raise ValueError("two different sizes")
    a, b = np.argmin(sizes), np.argmax(sizes)
    beta = (times_s[b] - times_s[a]) / (sizes[b] - sizes[a])
    return float(times_s[a] - beta * sizes[a]), float(beta)


def residuals(sizes, times_s, alpha_s, beta_s_per_byte):
    sizes, times_s = np.asarray(sizes, float), np.asarray(times_s, float)
    return 1 - (alpha_s + beta_s_per_byte * sizes) / times_s


def two_regimes(sizes, times_s):
    sizes, times_s = np.asarray(sizes), np.asarray(times_s, float)
    different = np.unique(sizes)
    if len(different) < 4:
        raise ValueError("two lines need messages of four different sizes at least")
    best = None
    for threshold in different[2:-1]:
        lines, squares = [], 0.0
        for part in (sizes < threshold, sizes >= threshold):
            line = fit(sizes[part], times_s[part])
            lines.append(line)
            squares += np.sum(residuals(sizes[part], times_s[part], *line) ** 2)
        if best is None or squares < best[0]:
            best = (squares, threshold, lines)
    _, threshold, (short, long) = best
    return int(threshold), short, long
