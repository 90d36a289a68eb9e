"""Runs and checks that the tests of one module share.

Whatever a test is about, it asks for complete schedules, or for the gradient, of its own run
first, on two stages or more.
"""

import numpy as np

from autograder.suites.a09_pipeline import oracle
from ringside.checking import (
    Verdict,
    assert_array,
    assert_ran,
    award,
    one_line,
)
from ringside.formulas import evaluated, plain
from ringside.trace import Kind
from solutions.a09_pipeline import replayed
from solutions.a09_pipeline.actions import Backward, Forward, parse, text
from solutions.a09_pipeline.cases import stage_call
from solutions.a09_pipeline.model import random_parameters

FULL, HALF = 1.02, 1.5


def typed(module, call):
    """The line that tries out a function that needs no ranks."""
    return f'python -c "from {module} import *; print({call})"'


def answers(ranks, through, target, calls):
    """Call a function inside one rank with a list of arguments: per call ``(result, error)``."""
    module, _, function = target.partition(":")

    def told(call):
        words = shown(function, call)
        return words, typed(module, words)

    found = evaluated(ranks, f"trials:{through}", target, calls, told)
    return [(plain(value), error) for value, error in found]


# -- schedules ---------------------------------------------------------------------------------


def asked(ranks, function, cases):
    """The student's schedules, complete and legal: per case ``(S, M[, v])`` all stages' lists."""
    calls, many = [], []
    for num_stages, num_microbatches, *chunks in cases:
        calls += [(num_stages, num_microbatches, stage, *chunks) for stage in range(num_stages)]
    found = iter(answers(ranks, "schedules", f"schedule:{function}", calls))
    for num_stages, num_microbatches, *chunks in cases:
        lists = []
        for stage in range(num_stages):
            words, error = next(found)
            call = (num_stages, num_microbatches, stage, *chunks)
            if not isinstance(words, str):
                said = one_line(str(error), 120)
                what = f"raised {said}" if said.isidentifier() else f"is {said}"
                raise wrong(function, call, f"{what}.")
            lists.append(read(function, call, words))
        check_legal(function, (num_stages, num_microbatches, *chunks), lists)
        many.append(lists)
    return many


def read(function, call, words):
    """A stage's list, which came as text."""
    try:
        return parse(words)
    except (KeyError, ValueError, IndexError):
        raise wrong(function, call, f"is {one_line(words, 60)!r}, not actions.") from None


def shown(function, call):
    return f"{function}{call}" if len(call) > 1 else f"{function}({call[0]})"


def wrong(function, call, sentence, detail=""):
    line = typed("schedule", f"{function}{call}")
    return Verdict(f"{shown(function, call)} {sentence}", reproduce=line, detail=detail)


def of_all(function, case):
    """A case in words, and the line that shows all its lists."""
    num_stages, num_microbatches, *chunks = case
    more = "".join(f", {each}" for each in chunks)
    call = f"{function}({num_stages}, {num_microbatches}, stage{more})"
    return call, typed("schedule", f"*[{call} for stage in range({num_stages})], sep=chr(10)")


def drawing(lists):
    """All stages' actions, for a verdict's detail."""
    lines = [f"stage {stage}: {text(actions)}" for stage, actions in enumerate(lists)]
    return "\n".join(line if len(line) <= 160 else f"{line[:157]}..." for line in lines[:8])


def check_legal(function, case, lists):
    """Every pass of every microbatch once, and nobody waits for ever."""
    _, num_microbatches, *chunks = case
    num_chunks = chunks[0] if chunks else 1
    call, line = of_all(function, case)
    try:
        return replayed.check(lists, num_microbatches, num_chunks)
    except replayed.ScheduleError as error:
        raise Verdict(f"{call}: {error}.", reproduce=line, detail=drawing(lists)) from None


def check_time(function, case, lists, bound_s, costs, beside="", full=FULL, **options):
    """Replayed, the schedules take at most so many times the bound; half the points to 1.5."""
    num_chunks = case[2] if len(case) > 2 else 1
    timeline = replayed.timeline(lists, num_chunks, *costs, **options)
    call, line = of_all(function, case)
    check_ratio(
        timeline.makespan_s,
        bound_s,
        call,
        line,
        f"on machine {timeline.machine_name!r}",
        beside,
        full,
    )


def check_ratio(taken_s, bound_s, what, line, where, beside="", full=FULL):
    ratio = taken_s / bound_s
    half = " (half the points)" if full < ratio <= HALF else ""
    most = "that" if full == 1 else f"{full:g} times that"
    award(
        1.0 if ratio <= full + 1e-9 else 0.5 if ratio <= HALF + 1e-9 else 0.0,
        f"{what}: takes {taken_s:.6g} s {where}, {ratio:.3f} times {bound_s:.6g} s; at most {most} "
        f"is asked for{half}.{beside}",
        reproduce=line,
    )


# -- stages ------------------------------------------------------------------------------------


def lists_of(function, num_stages, num_microbatches, *chunks):
    """One of our schedules, for all stages."""
    return [function(num_stages, num_microbatches, stage, *chunks) for stage in range(num_stages)]


def stepped(ranks, rng, name, lists, batch_sizes, num_chunks=1, dtype="float64", **options):
    """One step, compared with the whole batch at once; returns case and result.

    Args:
        options: ``widths`` (in, hidden and out of a piece; what pieces hand on takes turns),
            ``costs``, ``through`` (of ``trials``), ``ordered`` (must the passes follow the lists;
            then what ``run`` returns is another test's matter), and those of ``ranks.call``.
    """
    num_stages = len(lists)
    case = stage_call(name, [text(each) for each in lists], batch_sizes, num_chunks, dtype)
    ends, hidden = options.pop("widths", ((5, 4), 7))
    ordered = options.pop("ordered", True)
    through, costs = options.pop("through", "stepped"), options.pop("costs", (1e-6, 2e-6))
    case = case.second() if through == "second_step" else case
    pieces = num_stages * num_chunks
    handed = [ends[piece % 2] for piece in range(pieces + 1)]
    params = [
        random_parameters((handed[k], hidden, handed[k + 1]), rng, dtype) for k in range(pieces)
    ]
    inputs = [rng.standard_normal((size, handed[0])).astype(dtype) for size in batch_sizes]
    targets = [rng.standard_normal((size, handed[-1])).astype(dtype) for size in batch_sizes]
    arguments = []
    for stage, actions in enumerate(lists):
        own = [params[chunk * num_stages + stage] for chunk in range(num_chunks)]
        given = [text(actions), list(batch_sizes)]
        given += [inputs if stage == 0 else None, targets if stage == num_stages - 1 else None]
        arguments.append((own, *given, *([costs] if through == "stepped" else [])))
    world_size = options.pop("world_size", num_stages)
    result = ranks.call(f"trials:{through}", world_size, arguments, **options)
    assert_ran(result, case)
    check_values(result, params, inputs, targets, case, returned=not ordered)
    if ordered:
        check_order(result, lists, case, options.get("members"))
    return case, result


def check_values(result, params, inputs, targets, case, returned=True):
    """What ``run`` returned, every piece's gradients, and all that was given as it was."""
    loss, gradients = oracle.serial(params, inputs, targets)
    tolerance = 1e-12 if case.dtype == "float64" else 1e-5
    eps = 2 * (case.world_size + 1) * np.finfo(case.dtype).eps
    for stage, value in enumerate(result.values):
        if returned:
            check_loss(value["loss"], loss, stage, tolerance, case)
        for chunk, own in enumerate(value["grads"]):
            for number, grad in enumerate(own):
                right = gradients[chunk * case.world_size + stage][number].astype(case.dtype)
                scale = np.full(right.shape, tolerance / eps * (1 + np.abs(right).max()))
                what = f"stage {stage}'s gradient {number}"
                what += f" of chunk {chunk}" if len(value["grads"]) > 1 else ""
                grad, right, scale = flat(grad, right), right.reshape(-1), scale.reshape(-1)
                assert_array(grad, right, scale, case, what)
        if value.get("kept") is False:
            raise case.fail(
                f"stage {stage} changed its parameters, inputs or targets, or a list of them."
            )


def check_loss(told, loss, stage, tolerance, case):
    """The last stage's number; None from the others."""
    if stage < case.world_size - 1:
        if told is not None:
            raise case.fail(f"stage {stage} returned {one_line(repr(told), 60)}, not None.")
    elif not isinstance(told, float | int):
        kind = (
            "an array or a tensor" if isinstance(told, np.ndarray) else f"a {type(told).__name__}"
        )
        raise case.fail(f"the last stage's loss is {kind}; it must be a float.")
    elif not abs(told - loss) <= tolerance * (1 + abs(loss)):
        raise case.fail(f"the loss is {told:.12g}; of the whole batch it is {loss:.12g}.")


def flat(value, right):
    same = isinstance(value, np.ndarray) and value.shape == right.shape
    return value.reshape(-1) if same else value


def passes(result, rank, num_stages):
    """What the layers of a rank computed: "F0" of chunk 0 as ``("F0", 0)``."""
    found = []
    for op in result.trace.ops[rank]:
        words = str(op.detail[3]).split() if op.kind == Kind.COMPUTE else []
        if len(words) == 4 and words[1:3] == ["of", "piece"] and words[3].isdigit():
            found.append((words[0], int(words[3]) // num_stages))
    return found


def check_order(result, lists, case, members=None):
    """Each stage computed the passes of its list, in order, each once."""
    for stage, actions in enumerate(lists):
        rank = stage if members is None else members[stage]
        wanted = [(text([each]).partition(".")[0], each.chunk) for each in actions]
        done = passes(result, rank, len(lists))
        if done == wanted:
            continue
        pairs = zip(done, wanted, strict=False)
        at = next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(done), len(wanted)))
        did, should = (
            f"{each[at][0]} of chunk {each[at][1]}" if at < len(each) else "nothing"
            for each in (done, wanted)
        )
        raise case.fail(f"stage {stage} computed {did} as pass {at}; its list has {should} there.")


def check_work(result, lists, costs, case):
    """Each stage's passes took the time that the pieces were made to take."""
    seconds = {Forward: costs[0], Backward: costs[1]}
    for stage, actions in enumerate(lists):
        asked_s = sum(seconds.get(type(each), costs[1] / 2) for each in actions)
        ops = result.trace.ops[stage]
        spent_ps = sum(max(0, op.detail[2]) for op in ops if op.kind == Kind.COMPUTE)
        if spent_ps < asked_s * 1e12 * (1 - 1e-6):
            raise case.fail(
                f"stage {stage}'s passes took {spent_ps / 1e12:.6g} s of virtual time; the pieces "
                f"that it was given take {asked_s:.6g} s."
            )
