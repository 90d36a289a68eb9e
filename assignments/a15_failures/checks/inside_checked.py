"""Products whose multiplication goes wrong, for the tests of checked.py: nothing to write."""

import numpy as np

from ringside.checking.callers import find


def products(comm, pairs, places, bits):
    """Call ``product`` for each pair, with a ``mul`` that gives one wrong element.

    Args:
        places: per pair three numbers from 0 to 1: row, column and bit.

    Returns:
        Per pair c, what ``mul`` would have given for it, where that was wrong, the sizes of the
        calls of ``mul``, and the place that was named.
    """
    product, answers = find("checked:product"), []
    for (a, b), drawn in zip(pairs, places, strict=True):
        calls, scale = [], np.linalg.norm(a) * np.linalg.norm(b)

        def mul(x, y, drawn=drawn, scale=scale, calls=calls):
            calls.append((*x.shape, y.shape[1]))
            c = _multiplied(x, y)
            if bits != "none" and len(calls) == 1:
                at = _place(drawn, c.shape)
                c[at] = _flipped(c[at], drawn[2], bits, scale)
            return c

        c, place = product(a, b, mul)
        where = None
        if bits != "none" and calls:
            row, column = _place(drawn, calls[0][::2])
            if row < len(a) and column < b.shape[1]:  # else a checksum was hit
                where = row, column
        place = None if place is None else tuple(int(index) for index in place)
        answers.append((c, _multiplied(a, b), where, calls, place))
    return answers


def _place(drawn, shape):
    return int(drawn[0] * shape[0]), int(drawn[1] * shape[1])


def _multiplied(x, y):
    """The product, column by column of x: the rounding of an element doesn't depend on others."""
    total = np.zeros((x.shape[0], y.shape[1]))
    for column, row in zip(x.T, y, strict=True):
        total += np.outer(column, row)
    return total


def _flipped(number, drawn, bits, scale):
    """The number with a bit flipped that changes it enough."""
    words = np.float64(number).view(np.uint64) ^ (np.uint64(1) << np.arange(64, dtype=np.uint64))
    with np.errstate(all="ignore"):
        changes = np.abs(words.view(np.float64) - number)
        seen = [bit for bit in range(64) if not changes[bit] < 1.01e-10 * scale]
    seen.sort(key=lambda bit: np.nan_to_num(changes[bit], nan=np.inf))
    if bits == "low":
        seen = seen[:3]
    elif bits == "high":
        seen = seen[-1:]
        if drawn < 0.5:
            return np.nan if drawn < 0.25 else np.inf
    return words[seen[int(drawn * len(seen))]].view(np.float64)
