"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see messages and results only. What must be made or looked at inside a
rank, they ask for here. A verdict names the same functions in its line.
"""

import tracemalloc

import numpy as np

from ringside.checking import find

# -- ring_attention --------------------------------------------------------------------------------


def ring_attention_looked_at(comm, q, k, v, lengths, causal=False):
    """Two equal calls of ``ring_attention.attention`` with arrays that have gaps.

    Returns:
        ``(first, second, changed, shared)``: both results, looked at after the second call; was an
        argument changed, and does a result share memory with one, or with the other result?
    """
    larger = [np.full((*each.shape, 2), 77, each.dtype) for each in (q, k, v)]
    given = [each[..., 0] for each in larger]
    for own, each in zip(given, (q, k, v), strict=True):
        own[...] = each
    told = list(lengths)
    first, second = (find("ring_attention:attention")(comm, *given, told, causal) for _ in range(2))
    changed = told != list(lengths) or any(bool(np.any(each[..., 1] != 77)) for each in larger)
    changed = changed or not all(map(np.array_equal, given, (q, k, v)))
    return first, second, changed, overlapping([*larger, first, second])


def ring_attention_held(comm, q, k, v, lengths, causal=False, bound=None):
    """``ring_attention.attention``, and the most bytes that were allocated at a time."""
    tracemalloc.start()
    try:
        result = find("ring_attention:attention")(comm, q, k, v, lengths, causal)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return result, peak


def ring_attention_refused(comm, what):
    """``ring_attention.attention`` on two ranks with arguments that can't be right: its error."""
    heads = 3 if what == "heads" else 2
    q, k = np.ones((1, heads, 2, 4)), np.ones((1, 2, 2, 4))
    lengths = {"lengths": [2, 2, 2], "positions": [3, 3]}.get(what, [2, 2])
    return error_of("ring_attention:attention", comm, q, k, k, lengths)


# -- what several of them need ---------------------------------------------------------------------


def overlapping(arrays):
    """Do two of these share memory?"""
    found = [array for array in arrays if isinstance(array, np.ndarray) and array.size]
    return any(np.shares_memory(a, b) for k, a in enumerate(found) for b in found[:k])


def error_of(target, *arguments):
    """The type of the exception that a call raises; empty if it returns."""
    try:
        find(target)(*arguments)
    except Exception as error:
        return type(error).__name__
    return ""
