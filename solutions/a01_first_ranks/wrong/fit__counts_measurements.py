# fails: test_too_few_sizes_are_refused
"""Two measurements of one size are no two sizes."""

import numpy as np


def fit(sizes, times_s):
    sizes, times_s = np.asarray(sizes, float), np.asarray(times_s, float)
    if len(sizes) < 2:
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
