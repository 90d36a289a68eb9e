"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:axonn_step --ranks 4 -- --batch-sizes '[2, 1, 3, 2]' --limit 8 --seed 1

Parameters, inputs and the times of passes are drawn from ``--seed``.
"""

import numpy as np
from axonn_cases import AxonnCase, axonn_case, axonn_serial

from ringside.checking import Verdict, announced, assert_array, assert_declared_at_once, one_line

# -- axonn -----------------------------------------------------------------------------------------

AXONN_OPTIONS = {"batch_sizes", "limit", "widths"}
AXONN_INSTEAD = {  # its piece is made on the rank
    "axonn.py:run": "callers.py:axonn_step -- --batch-sizes '[2, 1, 3, 2]' --limit 8",
}
AXONN_MADE = axonn_case  # for the suites, which read this file alone
AXONN_CALLERS = ("axonn_step", "axonn_second_step")
AXONN_LATE_S = 20e-6  # what arrives so shortly before a pass may be missed


def axonn_arguments(function, world_size, rank, options):
    """What the functions of ``callers.py`` get after ``comm``."""
    if function not in AXONN_CALLERS:
        return None
    return axonn_case_of(world_size, options).arguments_of_ranks()[rank]


def axonn_case_of(world_size, options):
    """The call that a line's options name."""
    sizes = tuple(options.others.get("batch_sizes", (2, 1, 3, 2)))
    limit = int(options.others.get("limit", 2 * world_size))
    widths = tuple(options.others.get("widths", AxonnCase.widths))
    return AxonnCase(
        "axonn:run", world_size, sum(sizes), options.dtype,
        batch_sizes=sizes, limit=limit, seed=options.seed, widths=widths,
    )  # fmt: skip


def axonn_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function not in AXONN_CALLERS:
        return False
    right = axonn_serial(axonn_case_of(case.world_size, options), case.factors)
    axonn_check_values(value, rank, right, case)
    return True


def axonn_check_values(value, stage, right, case):
    """What ``axonn.run`` returned on a stage, and all that was given as it was."""
    loss, grads = right[0], right[1][stage]
    tolerance = 1e-12 if case.dtype == "float64" else 1e-5
    if stage < case.world_size - 1:
        if value["loss"] is not None:
            said = one_line(repr(value["loss"]), 60)
            raise case.fail(f"stage {stage}'s loss is {said}; it must be None.")
    elif not isinstance(value["loss"], float):
        raise case.fail(f"the loss is of type {type(value['loss']).__name__}; it must be a float.")
    elif not abs(value["loss"] - loss) <= tolerance * (1 + abs(loss)):
        raise case.fail(f"the loss is {value['loss']:.12g}; it must be {loss:.12g}.")
    if len(value["grads"]) != len(grads):
        raise case.fail(
            f"stage {stage} returned {len(value['grads'])} gradients; it must return {len(grads)}."
        )
    eps = 2 * (case.world_size + 1) * np.finfo(case.dtype).eps
    for number, (grad, wanted) in enumerate(zip(value["grads"], grads, strict=True)):
        wanted = wanted.astype(case.dtype)
        scale = np.full(wanted.shape, tolerance / eps * (1 + np.abs(wanted).max()))
        what = f"stage {stage}'s gradient {number}"
        same = isinstance(grad, np.ndarray) and grad.shape == wanted.shape
        flat = grad.reshape(-1) if same else grad
        assert_array(flat, wanted.reshape(-1), scale.reshape(-1), case, what)
    if not value["kept"]:
        raise case.fail(f"stage {stage} changed its parameters, inputs or targets, or a list.")


def axonn_passes(result, num_stages, count):
    """When each pass began and ended: per stage ``{("F", 3): (begin_s, end_s)}``."""
    found = []
    for stage in range(num_stages):
        rank = result.members[stage] if result.members else stage
        names = {f"{kind}{m} of piece {stage}": (kind, m) for kind in "FB" for m in range(count)}
        spans = [span for span in result.timeline.spans[rank] if span.label in names]
        found.append({names[span.label]: (span.start_s, span.end_s) for span in spans})
    return found


def axonn_there(passes, stage, kind, m):
    """When what a pass needs was made: by a neighbour, or by the last stage itself."""
    maker, needed = (stage - 1, ("F", m)) if kind == "F" else (stage + 1, ("B", m))
    if kind == "B" and stage == len(passes) - 1:
        maker, needed = stage, ("F", m)
    return passes[maker][needed][1]


def axonn_assert_each_once(result, case, count):
    """Each stage announced each pass once, and declared its work there."""
    assert_declared_at_once(result, case)
    for stage in range(case.world_size):
        ops = result.trace.ops[result.members[stage] if result.members else stage]
        did = sorted(phase for _, phase, _ in announced(ops))
        wanted = sorted(f"{kind}{m} of piece {stage}" for kind in "FB" for m in range(count))
        if did != wanted:
            raise case.seen_in(result).fail(
                f"stage {stage} announced {len(did)} passes; it must make a forward and a backward "
                f"pass of each of {count} microbatches."
            )


def axonn_assert_driven(result, case, count, limit):
    """No stage waits while a pass is possible."""
    axonn_assert_each_once(result, case, count)
    passes = axonn_passes(result, case.world_size, count)
    for stage, own in enumerate(passes):
        order = sorted(own, key=own.get)
        before = 0.0
        for place, each in enumerate(order):
            begin, end = own[each]
            left, in_flight = order[place:], _in_flight(order[:place])
            for kind, m in left if begin > before + AXONN_LATE_S else ():
                if kind == "F" and stage == 0:
                    since = before if in_flight < limit else begin
                else:
                    since = max(before, axonn_there(passes, stage, kind, m))
                if begin > since + AXONN_LATE_S:
                    seen = case.seen_in(result).asking(f"driven={count}:{limit}")
                    raise seen.fail(
                        f"stage {stage} waited from {since * 1e3:.3f} to {begin * 1e3:.3f} ms, "
                        f"until {each[0]}{each[1]} began, although what {kind}{m} needs was made."
                    )
            before = end


def _in_flight(order):
    return sum(1 if kind == "F" else -1 for kind, _ in order)


def axonn_assert_backward_first(result, case, count):
    """No forward pass began while a backward pass was possible."""
    axonn_assert_each_once(result, case, count)
    passes = axonn_passes(result, case.world_size, count)
    for stage, own in enumerate(passes):
        for (kind, m), (begin, _) in sorted(own.items(), key=lambda item: item[1]):
            for other in range(count) if kind == "F" else ():
                there = axonn_there(passes, stage, "B", other)
                if there + AXONN_LATE_S < begin < own["B", other][0]:
                    seen = case.seen_in(result).asking(f"backward_first={count}")
                    raise seen.fail(
                        f"stage {stage} began F{m} at {begin * 1e3:.3f} ms, although the gradient "
                        f"for B{other} was made at {there * 1e3:.3f} ms."
                    )


def axonn_assert_in_flight(result, case, count, limit):
    """Stage 0 never has more than ``limit`` microbatches in flight, as the network saw it."""
    axonn_assert_each_once(result, case, count)
    ops = result.trace.ops[result.members[0] if result.members else 0]
    held = 0
    for _, phase, _ in announced(ops):
        held += 1 if phase.startswith("F") else -1
        if held > limit:
            seen = case.seen_in(result).asking(f"in_flight={count}:{limit}")
            raise seen.fail(
                f"stage 0 began {phase.split()[0]} with {held - 1} microbatches in flight; at most "
                f"{limit} may be in flight."
            )


def axonn_assert_sent(result, case, count, stage, bound):
    """A stage sent at most so many messages, and so many bytes."""
    rank = result.members[stage] if result.members else stage
    seen = case.seen_in(result).asking(f"sent={count}:{stage}:{bound}")
    messages, nbytes = result.sent_messages()[rank], result.sent_bytes()[rank]
    if messages > count:
        raise seen.fail(f"stage {stage} sent {messages} messages; at most {count} are allowed.")
    if nbytes > bound + 1024 * count:
        raise seen.fail(
            f"stage {stage} sent {nbytes} bytes; its activations and gradients have {bound}."
        )


def axonn_assert_fast(steps):
    """Steps take at most 1.05 times as long as by the rule; half the points below 1F1B.

    Args:
        steps: ``(result, case, by_rule_s, fixed_s)`` of each. The verdict names the worst.
    """
    taken_s, by_rule_s, fixed_s = (
        sum(each) for each in zip(*((r.makespan_s, *rest) for r, _, *rest in steps), strict=True)
    )
    if taken_s <= 1.05 * by_rule_s:
        return
    result, case, rule_s, list_s = max(steps, key=lambda step: step[0].makespan_s / step[2])
    seen = case.seen_in(result).asking(f"fast={rule_s:.9g}:{list_s:.9g}")
    verdict = seen.fail(
        f"takes {result.makespan_s * 1e3:.6g} ms; message-driven it takes {rule_s * 1e3:.6g} ms, "
        f"and by 1F1B {list_s * 1e3:.6g} ms. All steps together may take 1.05 times as long as "
        "message-driven ones. Half of the points go to less than 1F1B."
    )
    fraction = 0.5 if taken_s < fixed_s else 0.0
    raise Verdict(verdict.sentence, reproduce=verdict.reproduce, fraction=fraction)


# -- all modules -----------------------------------------------------------------------------------


def _numbers(assertion):
    return lambda result, case, value: assertion(result, case, *map(int, value.split(":")))


OPTIONS = {*AXONN_OPTIONS}
INSTEAD = {**AXONN_INSTEAD}
CHECKS = {
    "driven": _numbers(axonn_assert_driven),
    "backward_first": _numbers(axonn_assert_backward_first),
    "in_flight": _numbers(axonn_assert_in_flight),
    "sent": _numbers(axonn_assert_sent),
    "fast": lambda result, case, value: axonn_assert_fast(
        [(result, case, *map(float, value.split(":")))]
    ),
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    return axonn_arguments(function, world_size, rank, options)


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    return None


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    return axonn_check(case, function, rank, value, options)
