"""Normal equations solved by hand, no NumPy in the sums."""

import numpy as np


def fit(sizes, times_s):
    if len({int(n) for n in sizes}) < 2:
        raise ValueError("one size is no line")
    a = b = c = d = e = 0.0
    for n, t in zip(sizes, times_s, strict=True):
        u, v = 1 / float(t), float(n) / float(t)
        a, b, c, d, e = a + u * u, b + u * v, c + v * v, d + u, e + v
    det = a * c - b * b
    return [(c * d - b * e) / det, (a * e - b * d) / det]


def residuals(sizes, times_s, alpha_s, beta_s_per_byte):
    pairs = zip(sizes, times_s, strict=True)
    return np.array([1 - (alpha_s + beta_s_per_byte * float(n)) / float(t) for n, t in pairs])


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
