"""Latency and bandwidth, from the measured times of messages.

    time of a message of n bytes = alpha + n beta

    residual of a measurement = (measured - model) / measured

The sizes lie on a logarithmic grid, from a few bytes to megabytes, so the times differ by factors
of a thousand. Least squares of *seconds* would see the largest messages only: one percent of
their time is more than all of a small one's, and alpha would be lost in it. So it is the
*residuals* above, which have no unit, whose squares are added and made as small as possible. In
alpha and beta they are linear; no iteration is needed.

Rules for all functions:

- ``sizes`` and ``times_s`` are lists or one-dimensional arrays of the same length: bytes, whole
  numbers >= 0, and seconds, > 0. They come in any order, and a size may come several times.
- Results are right to six digits. Nothing is cut off: alpha and beta may be negative.
"""

import numpy as np


def fit(sizes: np.ndarray, times_s: np.ndarray) -> tuple[float, float]:
    """The machine whose message times are nearest to the measured ones.

    Args:
        sizes, times_s: see above.

    Returns:
        ``(alpha_s, beta_s_per_byte)``, two floats: those with the smallest sum of squared
        residuals.

    Raises:
        ValueError: there are fewer than two different sizes.
    """
    ### BEGIN SOLUTION
    sizes, times_s = np.asarray(sizes, float), np.asarray(times_s, float)
    if len(np.unique(sizes)) < 2:
        raise ValueError("a line needs messages of two different sizes at least")
    largest = sizes.max()  # in units of it both columns are of the same order
    model = np.stack([1 / times_s, sizes / largest / times_s], axis=1)  # (m, 2)
    alpha_s, largest_s = np.linalg.lstsq(model, np.ones(len(sizes)), rcond=None)[0]
    return float(alpha_s), float(largest_s / largest)
    ### END SOLUTION


def residuals(
    sizes: np.ndarray, times_s: np.ndarray, alpha_s: float, beta_s_per_byte: float
) -> np.ndarray:
    """How far each measurement is from the model, as a fraction of the measured time.

    Args:
        sizes, times_s: see above.
        alpha_s, beta_s_per_byte: the model; any numbers.

    Returns:
        A float64 array, in the order of ``sizes``: positive where the message was slower than
        the model says, 0.1 where the model misses a tenth of the measured time.
    """
    ### BEGIN SOLUTION
    sizes, times_s = np.asarray(sizes, float), np.asarray(times_s, float)
    return 1 - (alpha_s + beta_s_per_byte * sizes) / times_s
    ### END SOLUTION


def two_regimes(sizes: np.ndarray, times_s: np.ndarray) -> tuple:
    """Two lines instead of one: libraries treat short and long messages differently.

    Messages of fewer than ``threshold`` bytes get one line, all others a second, each by ``fit``.
    The threshold is one of ``sizes``, with at least two different sizes below it, and two from it
    on. Of these it is the one whose two lines together have the smallest sum of squared
    residuals; of equally good ones, any is right.

    Args:
        sizes, times_s: see above.

    Returns:
        ``(threshold, short, long)``: the threshold in bytes, a number, and the two fits
        ``(alpha_s, beta_s_per_byte)`` below it, and from it on.

    Raises:
        ValueError: there are fewer than four different sizes.
    """
    ### BEGIN SOLUTION
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
    ### END SOLUTION
