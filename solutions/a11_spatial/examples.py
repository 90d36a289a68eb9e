"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

ringside run ring_callers_torch.py:try_ring --ranks 3 -- --lengths '[4, 6, 5]' --causal True
ringside run ring_callers_torch.py:try_zigzag --ranks 4 -- --heads 4 --kv-heads 2
ringside run ring_callers_torch.py:try_orders --ranks 1 -- --positions 12 --num-ranks 3
"""

from pathlib import Path

import numpy as np
import ring_observed_torch as ring_observed
from ring_cases_torch import (
    KEPT,
    RING,
    ZIGZAG,
    Attention,
    check_attention,
    check_kept,
    check_kept_result,
    check_orders,
    check_refused,
    sample_attention,
    serial,
)

import ringside

# -- ring_attention_torch, zigzag_torch ------------------------------------------------------------

RING_TRIES = ("try_ring", "try_zigzag")


def ring_check(case, function, rank, value, options):
    """Raise a verdict where what a function of ``ring_callers_torch.py`` gave back isn't right."""
    others = options.others
    if function in RING_TRIES:
        attention = _attention(others, function == "try_zigzag", case.world_size)
        sample = sample_attention(np.random.default_rng(0), attention)
        wanted = [serial(attention, parts, case.factors) for parts in sample]
        check_attention(value, wanted, attention, case, rank)
        if value["changed"]:
            raise case.fail(f"rank {rank} changed a tensor that it was given.")
    elif function == "try_orders":
        x = np.arange(float(others.get("positions", 8))).reshape(1, 1, -1, 1)
        check_orders(value, x, others.get("num_ranks", 2), case)
    elif function == "try_kept":
        attention = _kept(others, case.world_size)
        (parts,) = sample_attention(np.random.default_rng(0), attention)
        check_kept_result(value, parts, attention, case, rank)
    elif function == "try_refused":
        check_refused(value, case)
    else:
        return False
    return True


def _attention(others, zigzag, world_size):
    """The settings of a line's options."""
    names = ("heads", "kv_heads", "width", "batch", "how", "spread")
    given = {name: others[name] for name in names if name in others}
    given["lengths"] = tuple(others.get("lengths") or (4,) * world_size)
    given["causal"] = zigzag or bool(others.get("causal", False))
    return Attention(**given, dtype=others.get("precision", "float64"), zigzag=zigzag)


def _kept(others, world_size):
    lengths = (others.get("positions", 4),) * world_size
    return KEPT.given(lengths=lengths, width=others.get("width", 64))


def _ring_seen(check_of_run):
    def checked(result, case, _):
        check_of_run(
            result, case, _attention(case.options, "zigzag" in case.target, case.world_size)
        )

    return checked


def _long_time(_, case, value):
    folder = Path(__file__).parent

    def trace(target, *arguments, **options):
        return ringside.trace_torch(
            f"{folder}/{target.replace(':', '.py:')}", *arguments, **options
        )

    target = ZIGZAG if "zigzag" in case.target else RING
    ring_observed.assert_long_time(trace, case, target, int(value))


RING_INSTEAD = {
    "ring_attention_torch.py:ring_attention": "ring_callers_torch.py:try_ring -- --causal True",
    "zigzag_torch.py:zigzag_attention": "ring_callers_torch.py:try_zigzag -- --heads 4",
}
RING_CHECKS = {
    "ring": lambda result, case, _: ring_observed.assert_ring(result, case),
    "volume": _ring_seen(ring_observed.assert_volume),
    "travelling": _ring_seen(ring_observed.assert_travelling),
    "early": _ring_seen(ring_observed.assert_early),
    "skipped": _ring_seen(ring_observed.assert_skipped),
    "balanced": _ring_seen(ring_observed.assert_balanced),
    "kept": lambda result, case, _: check_kept(result, _kept(case.options, case.world_size), case),
    "long_time": _long_time,
}

# -- all modules -----------------------------------------------------------------------------------

OPTIONS = set()
UNSAID = set()
INSTEAD = {**RING_INSTEAD}
CHECKS = {**RING_CHECKS}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that make it, or aren't known."""
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    return None


def check(case, function, rank, value, options):
    """Raise a verdict where what a supplied function gave back on a rank is not right."""
    return ring_check(case, function, rank, value, options)
