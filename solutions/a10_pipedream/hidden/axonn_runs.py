"""Runs of ``axonn.run`` that its tests look at. Each checks the values of its own run first."""

from pathlib import Path

from ringside.checking import assert_ran, buffered
from ringside.checking.examples import beside
from ringside.factors import Factors

examples = beside(Path(__file__).resolve().parents[1] / "axonn.py")
axonn_case, axonn_serial = examples.AXONN_MADE, examples.axonn_serial


def called(ranks, rng, num_stages, batch_sizes, limit=None, **options):
    """One step that ended; returns case and result.

    Args:
        limit: None: 2 S.
        options: ``dtype``, ``widths``; ``observed``: False: passes aren't announced; ``second``:
            as a second step; and those of ``ranks.call``.
    """
    given = {name: options.pop(name) for name in ("dtype", "widths") if name in options}
    case = axonn_case(num_stages, batch_sizes, limit or 2 * num_stages, rng, **given)
    through = "axonn_step"
    if options.pop("second", False):
        case, through = case.second(), "axonn_second_step"
    if options.pop("observed", True):
        options["factors"] = Factors.drawn(rng)
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", num_stages)
    arguments = case.arguments_of_ranks()
    result = ranks.call(f"callers:{through}", world_size, arguments, **options)
    assert_ran(result, case)
    return case, result


def stepped(*arguments, **options):
    """``called``, with right gradients, which were passed on without collectives."""
    case, result = called(*arguments, **options)
    seen = case.seen_in(result)
    right = axonn_serial(case, result.factors)
    for stage, value in enumerate(result.values):
        examples.axonn_check_values(value, stage, right, seen)
    moved = sum(record.nbytes for record in result.collectives)
    if moved > 64 * (1 + len(case.batch_sizes)):
        raise seen.asking("own").fail(
            f"{moved} bytes went through the library's collectives; stages must send their "
            "activations and gradients themselves."
        )
    return case, result


def driven(*arguments, **options):
    """``stepped``, and no stage waited while there was work.

    Whether stage 0 uses its limit is one test's matter: ``to_the_limit``.
    """
    to_the_limit = options.pop("to_the_limit", False)
    case, result = stepped(*arguments, **options)
    limit = case.limit if to_the_limit else 1
    examples.axonn_assert_driven(result, case, len(case.batch_sizes), limit)
    return case, result
