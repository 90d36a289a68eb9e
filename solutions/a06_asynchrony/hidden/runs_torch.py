"""Runs that the tests of diloco_torch.py and of compress_torch.py look at.

Whatever a test is about, it asks for the values of its own run first, on two ranks or more.
"""

from ringside import Machine
from ringside.checking import Verdict, assert_ran
from solutions.a06_asynchrony import cases_torch

SLOW_WIRE = Machine("slow wire", alpha_s=1e-4, beta_s_per_byte=1e-6)


def diloco(ranks, case, *, turns=False, **options):
    """``diloco_torch.train``; checks parameters, and perhaps what was sent after each step."""
    world_size = options.pop("world_size", case.world_size)
    arguments = case.arguments_of_ranks()
    result = ranks.call("callers_torch:diloco_trained", world_size, arguments, **options)
    assert_ran(result, case)
    cases_torch.assert_diloco(result, case, turns)
    return result


def compressed(ranks, case, **options):
    """``compress_torch.all_reduce``, called several times; checks values."""
    world_size = options.pop("world_size", case.world_size)
    arguments = case.arguments_of_ranks()
    result = ranks.call("callers_torch:compressed", world_size, arguments, **options)
    assert_ran(result, case)
    check = cases_torch.assert_zeros if case.kind == "zeros" else cases_torch.assert_compressed
    check(result, case)
    return result


def refused(ranks, target, arguments, case, check):
    """A call on two ranks that must raise before any message.

    Args:
        check: of what came back on a rank: ``check(value, rank, case)``.
    """
    result = ranks.call(target, 2, arguments)
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        check(value, rank, case)
    if result.collectives or any(result.sent_messages()):
        raise case.fail("it must raise ValueError before any message.")


def on_gloo(check):
    """Run ``check``, and let its verdict say where it was."""
    try:
        check()
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None
