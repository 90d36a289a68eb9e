"""Runs and checks that the tests of one module share.

Whatever a test is about, it asks for complete schedules, or for the gradient, of its own run
first, on two stages or more.
"""

from ringside.checking import (
    Verdict,
    assert_ran,
    buffered,
    one_line,
)
from ringside.checking.formulas import evaluated, plain
from ringside.factors import Factors
from solutions.a09_pipeline import replayed
from solutions.a09_pipeline.actions import parse, text
from solutions.a09_pipeline.cases import stage_call
from solutions.a09_pipeline.hidden import oracle
from solutions.a09_pipeline.hidden.oracle import examples
from solutions.a09_pipeline.model import random_parameters

KINDS = {
    "gpipe": "GPipe and 1F1B",
    "one_f_one_b": "GPipe and 1F1B",
    "zero_bubble": "backward passes in two halves",
    "interleaved": "several chunks",
}
WEIGHTS = {"GPipe and 1F1B": 3}


def typed(module, call):
    """The line that tries out a function that needs no ranks."""
    return f'python -c "from {module} import *; print({call})"'


def answers(ranks, through, target, calls):
    """Call a function inside one rank with a list of arguments: per call ``(result, error)``."""
    module, _, function = target.partition(":")

    def told(call):
        words = shown(function, call)
        return words, typed(module, words)

    found = evaluated(ranks, f"callers:{through}", target, calls, told)
    return [(plain(value), error) for value, error in found]


# -- schedules ---------------------------------------------------------------------------------


def asked(ranks, function, cases):
    """The student's schedules, complete and legal: per case ``(S, M[, v])`` all stages' lists."""
    calls, many = [], []
    for num_stages, num_microbatches, *chunks in cases:
        calls += [(num_stages, num_microbatches, stage, *chunks) for stage in range(num_stages)]
    found = iter(answers(ranks, "schedules", f"{module_of(function)}:{function}", calls))
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


def module_of(function):
    """Which file a schedule's function is in."""
    return "zero_bubble" if function.startswith("zb_") else "schedule"


def pieces_of(function, case):
    """Number of chunks, and how they are placed (``replayed``)."""
    if function == "zb_v":
        return 2, "v"
    return case[2] if len(case) > 2 else 1, "loop"


def read(function, call, words):
    """A stage's list, which came as text."""
    try:
        return parse(words)
    except (KeyError, ValueError, IndexError):
        raise wrong(function, call, f"is {one_line(words, 60)!r}, not actions.") from None


def shown(function, call):
    return f"{function}{call}" if len(call) > 1 else f"{function}({call[0]})"


def wrong(function, call, sentence, detail=""):
    line = typed(module_of(function), f"{function}{call}")
    return Verdict(f"{shown(function, call)} {sentence}", reproduce=line, detail=detail)


def of_all(function, case):
    """A case in words, and the line that shows all its lists."""
    num_stages, num_microbatches, *chunks = case
    more = "".join(f", {each}" for each in chunks)
    call = f"{function}({num_stages}, {num_microbatches}, stage{more})"
    return call, typed(
        module_of(function), f"*[{call} for stage in range({num_stages})], sep=chr(10)"
    )


def drawing(lists):
    """All stages' actions, for a verdict's detail."""
    lines = [f"stage {stage}: {text(actions)}" for stage, actions in enumerate(lists)]
    return "\n".join(line if len(line) <= 160 else f"{line[:157]}..." for line in lines[:8])


def check_legal(function, case, lists):
    """Every pass of every microbatch once, and nobody waits for ever."""
    call, line = of_all(function, case)
    try:
        return replayed.check(lists, case[1], *pieces_of(function, case))
    except replayed.ScheduleError as error:
        raise Verdict(f"{call}: {error}.", reproduce=line, detail=drawing(lists)) from None


def check_time(function, case, lists, bound_s, costs, beside="", full=examples.FULL, **options):
    """Replayed, the schedules take at most so many times the bound; half the points to 1.5."""
    num_chunks, placement = pieces_of(function, case)
    timeline = replayed.timeline(lists, num_chunks, *costs, placement=placement, **options)
    call, line = of_all(function, case)
    examples.check_ratio(
        timeline.makespan_s,
        bound_s,
        call,
        line,
        f"on machine {timeline.machine_name!r}",
        beside,
        full,
    )


# -- stages ------------------------------------------------------------------------------------


def lists_of(function, num_stages, num_microbatches, *chunks):
    """One of our schedules, for all stages."""
    return [function(num_stages, num_microbatches, stage, *chunks) for stage in range(num_stages)]


def by_schedule(case):
    """The kind of a case by its schedule, whose name is the first in it (``check_kinds``)."""
    return KINDS.get(case[0], "orders that no schedule has")


def stepped(ranks, rng, name, lists, batch_sizes, num_chunks=1, dtype="float64", **options):
    """One step, compared with the whole batch at once; returns case and result.

    Args:
        options: ``widths`` (in, hidden and out of a piece; what pieces hand on takes turns),
            ``costs``, ``through`` (a function of ``callers.py``), ``ordered`` (must the passes
            follow the lists; then what ``run`` returns is another test's matter), ``observed``
            (it is the network that says in which order they were), ``valued`` (False: nothing but
            the run's end is checked), and those of ``ranks.call``.
    """
    num_stages = len(lists)
    case = stage_call(name, [text(each) for each in lists], batch_sizes, num_chunks, dtype)
    ends, hidden = options.pop("widths", ((5, 4), 7))
    ordered, valued = options.pop("ordered", True), options.pop("valued", True)
    if options.pop("observed", False):
        options["factors"] = Factors.drawn(rng)
    through, costs = options.pop("through", "stepped"), options.pop("costs", (1e-6, 2e-6))
    case = case.second() if through == "second_step" else case
    if (ends, hidden) != ((5, 4), 7):
        case = case.with_options(widths=f"{ends[0]},{hidden},{ends[1]}")
    if costs != (1e-6, 2e-6):
        case = case.with_options(costs=f"{costs[0]},{costs[1]}")
    case = case.with_options(memory=1) if through == "step_memory" else case
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
    options.setdefault("machine", buffered())
    if options["machine"] is None:  # real ranks have none
        del options["machine"]
    result = ranks.call(f"callers:{through}", world_size, arguments, **options)
    assert_ran(result, case)
    if not valued:
        return case, result
    case_there = case.seen_in(result)
    right = oracle.serial(params, inputs, targets)
    if "factors" in options:
        right = examples.observed.of_stage(params, inputs, targets, lists, result.factors)
    for stage, value in enumerate(result.values):
        oracle.examples.check_values(value, stage, right, case_there, returned=not ordered)
    if ordered:
        oracle.examples.assert_order(result, lists, case)
    return case, result
