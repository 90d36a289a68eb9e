"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see messages and results only. What must be made or looked at inside a
rank, they ask for here. A verdict names the same functions in its line.
"""

import tracemalloc

import numpy as np
from model import Piece

from ringside.checking import find

# -- stash -----------------------------------------------------------------------------------------


def stash_trained(
    comm, params, batch_sizes, lr, inputs, targets, vertical_sync=False, costs=(1e-6, 2e-6),
    calls=1, memory=False,
):  # fmt: skip
    """``stash.train`` on this stage.

    Args:
        costs: seconds of a forward and a backward pass.
        calls: 2 for what the second call gives, after one with other parameters.
        memory: watch it, and tell the peak of allocated bytes.

    Returns:
        A dict: ``params``, ``losses``; ``kept`` (is all that was given as it was?); ``shared`` (is
        a result the same memory as a parameter that was given?); ``peak`` or None.
    """
    piece = Piece(comm.Get_rank(), *costs)
    options = {"vertical_sync": True} if vertical_sync else {}
    for _ in range(calls - 1):
        halved = [param / 2 for param in params]
        find("stash:train")(comm, piece, halved, batch_sizes, lr, inputs, targets, **options)
    given = [*params, *(inputs or []), *(targets or [])]
    before, lists = [np.array(each) for each in given], _stash_held(params, inputs, targets)
    train = find("stash:train")
    if memory:
        tracemalloc.start()
    try:
        told = train(comm, piece, params, batch_sizes, lr, inputs, targets, **options)
        peak = tracemalloc.get_traced_memory()[1] if memory else None
    finally:
        tracemalloc.stop()
    kept = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(given, before, strict=True))
    kept = kept and lists == _stash_held(params, inputs, targets)
    trained, losses = told if isinstance(told, tuple) and len(told) == 2 else (told, None)
    shared = isinstance(trained, list | tuple) and any(
        np.shares_memory(a, b) for a in trained if isinstance(a, np.ndarray) for b in given
    )
    return {
        "params": trained, "losses": _stash_plain(losses), "kept": bool(kept), "shared": shared,
        "peak": peak,
    }  # fmt: skip


def _stash_held(*lists):
    """What lists have in them, to be compared with what they have later."""
    return [[id(item) for item in each or ()] for each in lists]


def _stash_plain(losses):
    """NumPy's numbers as Python's; all else as it is."""
    if not isinstance(losses, list | tuple):
        return losses
    return [each.item() if isinstance(each, np.generic) else each for each in losses]
