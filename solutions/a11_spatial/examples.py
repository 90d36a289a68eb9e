"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run ring_callers_torch.py:try_ring --ranks 3 -- --lengths '[4, 6, 5]' --causal True
    ringside run ring_callers_torch.py:try_zigzag --ranks 4 -- --heads 4 --kv-heads 2
    ringside run ring_callers_torch.py:try_orders --ranks 1 -- --positions 12 --num-ranks 3

The words after ``--`` are parameters of the function.
"""

from pathlib import Path

import numpy as np
import ring_cases_torch as ring_cases
import ring_observed_torch as ring_observed

import ringside

# -- ring_attention_torch, zigzag_torch ------------------------------------------------------------

RING_TRIES = ("try_ring", "try_zigzag")


def ring_check(case, function, rank, value, options):
    """Raise a verdict where what a function of ``ring_callers_torch.py`` gave back isn't right."""
    others = options.others
    if function in RING_TRIES:
        attention = _ring_attention(others, function == "try_zigzag", case.world_size)
        sample = ring_cases.sample_attention(np.random.default_rng(0), attention)
        wanted = [ring_cases.serial(attention, parts, case.factors) for parts in sample]
        ring_cases.check_attention(value, wanted, attention, case, rank)
        if value["changed"]:
            raise case.fail(f"rank {rank} changed a tensor that it was given.")
    elif function == "try_orders":
        x = np.arange(float(others.get("positions", 8))).reshape(1, 1, -1, 1)
        ring_cases.check_orders(value, x, others.get("num_ranks", 2), case)
    elif function == "try_kept":
        attention = _ring_kept(others, case.world_size)
        (parts,) = ring_cases.sample_attention(np.random.default_rng(0), attention)
        ring_cases.check_kept_result(value, parts, attention, case, rank)
    elif function == "try_refused":
        ring_cases.check_refused(value, case)
    else:
        return False
    return True


def _ring_attention(others, zigzag, world_size):
    """The settings of a line's options."""
    names = ("heads", "kv_heads", "width", "batch", "how", "spread")
    given = {name: others[name] for name in names if name in others}
    given["lengths"] = tuple(others.get("lengths") or (4,) * world_size)
    given["causal"] = zigzag or bool(others.get("causal", False))
    return ring_cases.Attention(**given, dtype=others.get("precision", "float64"), zigzag=zigzag)


def _ring_kept(others, world_size):
    lengths = (others.get("positions", 4),) * world_size
    return ring_cases.KEPT.given(lengths=lengths, width=others.get("width", 64))


def _ring_seen(check_of_run):
    def checked(result, case, _):
        zigzag = "zigzag" in case.target
        check_of_run(result, case, _ring_attention(case.options, zigzag, case.world_size))

    return checked


def _ring_long_time(_, case, value):
    folder = Path(__file__).parent

    def trace(target, *arguments, **options):
        return ringside.trace_torch(
            f"{folder}/{target.replace(':', '.py:')}", *arguments, **options
        )

    target = ring_cases.ZIGZAG if "zigzag" in case.target else ring_cases.RING
    ring_observed.assert_long_time(trace, case, target, int(value))


RING_INSTEAD = {
    "ring_attention_torch.py:ring_attention": "ring_callers_torch.py:try_ring -- --causal True",
    "zigzag_torch.py:zigzag_attention": "ring_callers_torch.py:try_zigzag -- --heads 4",
}
RING_CHECKS = {
    "ring_neighbours": lambda result, case, _: ring_observed.assert_ring(result, case),
    "ring_volume": _ring_seen(ring_observed.assert_volume),
    "ring_travelling": _ring_seen(ring_observed.assert_travelling),
    "ring_early": _ring_seen(ring_observed.assert_early),
    "ring_skipped": _ring_seen(ring_observed.assert_skipped),
    "zigzag_balanced": _ring_seen(ring_observed.assert_balanced),
    "ring_kept": lambda result, case, _: ring_cases.check_kept(
        result, _ring_kept(case.options, case.world_size), case
    ),
    "ring_long_time": _ring_long_time,
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
