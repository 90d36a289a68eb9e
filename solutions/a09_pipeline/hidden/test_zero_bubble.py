"""zero_bubble.py: lists of actions whose second halves fill the gaps."""

from ringside.checking import award
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a09_pipeline import replayed
from solutions.a09_pipeline.hidden import runs

# F, I, W in seconds: equal; short W; W longer than F; all different
COSTS = ((1.0, 1.0, 1.0), (1.0, 1.5, 0.5), (1.0, 2.0, 1.5), (2.0, 3.0, 1.0))
USUAL = ((2, 4), (3, 6), (4, 8), (5, 11), (7, 14))
SHORT = ((2, 1), (3, 2), (4, 3), (6, 2), (1, 1), (1, 3))
LARGE = ((12, 30),)
NAMES = ("zb_h1", "zb_h2", "zb_v")

points = points_of("zero_bubble")


def drawn(rng, least):
    """Sizes that nobody can know; at least ``least(S)`` microbatches."""
    num_stages = int(rng.integers(2, 8))
    return num_stages, least(num_stages) + int(rng.integers(0, 6))


def in_halves(ranks, function, cases):
    """Complete and legal lists in which every backward pass is in two halves."""
    many = runs.asked(ranks, function, cases)
    for case, lists in zip(cases, many, strict=True):
        for stage, actions in enumerate(lists):
            if any(replayed.kind(each) == replayed.WHOLE for each in actions):
                raise runs.wrong(
                    function, (*case, stage),
                    "has a whole Backward; BackwardInput and BackwardWeight are asked for.",
                )  # fmt: skip
    return many


def replay(function, lists, costs):
    """On free messages; ``costs`` are those of a whole stage."""
    num_chunks, placement = runs.pieces_of(function, ())
    forward_s, input_s, weight_s = (each / num_chunks for each in costs)
    return replayed.timeline(
        lists, num_chunks, forward_s, input_s + weight_s, weight_s=weight_s, placement=placement
    )


def flush_s(case, costs):
    """The time of 1F1B with whole backward passes."""
    return (case[0] + case[1] - 1) * sum(costs)


def h1_bubble_s(num_stages, costs):
    """The bubble of ``zb_h1`` as its docstring has it."""
    forward_s, input_s, weight_s = costs
    return (num_stages - 1) * (input_s + max(0.0, forward_s - weight_s))


def judge(function, case, costs, found_s, what, full_s, half_s):
    """All points up to ``full_s``, half of them up to ``half_s``."""
    line = runs.of_all(function, case)[1]
    fraction = 1.0 if found_s <= full_s + 1e-9 else 0.5 if found_s <= half_s + 1e-9 else 0.0
    f, i, w = costs
    award(
        fraction,
        f"{function}, S = {case[0]}, M = {case[1]}, F = {f:g} s, I = {i:g} s, W = {w:g} s: {what} "
        f"{found_s:.6g} s; at most {full_s:.6g} s is asked for"
        f"{' (half the points)' if fraction == 0.5 else ''}.",
        reproduce=line,
    )


def check_held(ranks, function, cases, allowed):
    for case, lists in zip(cases, in_halves(ranks, function, cases), strict=True):
        for stage, actions in enumerate(lists):
            most = replayed.most_in_flight(actions)
            if most > allowed(case[0]):
                raise runs.wrong(
                    function, (*case, stage),
                    f"holds {most} microbatches at one time; at most {allowed(case[0])} are "
                    "allowed.", runs.drawing([actions]).partition(": ")[2],
                )  # fmt: skip


# -- values: every pass once, in halves, and it can be run -----------------------------------------


@points(14, "values")
def test_h1_is_complete_and_can_be_run(ranks, rng):
    in_halves(ranks, "zb_h1", [*USUAL, drawn(rng, lambda s: s)])


@points(12, "values")
def test_h2_is_complete_and_can_be_run(ranks, rng):
    in_halves(ranks, "zb_h2", [*USUAL, drawn(rng, lambda s: 2 * s - 1)])


@points(7, "values")
def test_v_is_complete_and_can_be_run(ranks, rng):
    in_halves(ranks, "zb_v", [*USUAL[:4], drawn(rng, lambda s: s)])


@points(5, "values")
def test_fewer_microbatches_than_stages_and_one_stage(ranks):
    check_kinds(NAMES, str, lambda function: in_halves(ranks, function, SHORT))


# -- what is held ----------------------------------------------------------------------------------


@points(10, "schedule")
def test_h1_holds_few_microbatches(ranks, rng):
    check_held(ranks, "zb_h1", [*USUAL, drawn(rng, lambda s: s), LARGE[0]], lambda s: s)


@points(8, "schedule")
def test_h2_holds_few_microbatches(ranks, rng):
    cases = [*USUAL, drawn(rng, lambda s: 2 * s - 1), LARGE[0]]
    check_held(ranks, "zb_h2", cases, lambda s: 2 * s - 1)


@points(4, "schedule")
def test_v_holds_few_chunks(ranks):
    check_held(ranks, "zb_v", USUAL[:4], lambda s: 2 * s)


# -- time ------------------------------------------------------------------------------------------


@points(17, "speed")
def test_bubble_of_h1(ranks, rng):
    cases = [*USUAL, drawn(rng, lambda s: s), LARGE[0]]
    for case, lists in zip(cases, in_halves(ranks, "zb_h1", cases), strict=True):
        for costs in COSTS:
            took_s = replay("zb_h1", lists, costs).makespan_s
            full_s = case[1] * sum(costs) + h1_bubble_s(case[0], costs)
            below_s = flush_s(case, costs) * (1 - 1e-6)
            judge("zb_h1", case, costs, took_s, "a step takes", full_s, below_s)


@points(14, "speed")
def test_h2_leaves_no_stage_idle(ranks, rng):
    cases = [(3, 5), (2, 5), (4, 8), (5, 11), (7, 14), drawn(rng, lambda s: 2 * s - 1), LARGE[0]]
    for case, lists in zip(cases, in_halves(ranks, "zb_h2", cases), strict=True):
        for costs in COSTS:
            line = replay("zb_h2", lists, costs)
            idle_s = max(replayed.idle_inside_s(line, stage) for stage in range(case[0]))
            forward_s, input_s, weight_s = costs
            more_s = max(0.0, input_s - forward_s, forward_s + input_s - 2 * weight_s)
            what = "between its first and its last action a stage is idle for"
            half_s = h1_bubble_s(case[0], costs)
            judge("zb_h2", case, costs, idle_s, what, (case[0] - 1) * more_s, half_s)


@points(5, "speed")
def test_v_takes_no_longer_than_its_work(ranks, rng):
    cases = [(2, 2), (3, 4), *USUAL[:4], drawn(rng, lambda s: s)]
    costs = (1.0, 1.0, 1.0)
    for case, lists in zip(cases, in_halves(ranks, "zb_v", cases), strict=True):
        num_stages, num_microbatches = case
        took_s = replay("zb_v", lists, costs).makespan_s
        full_s, half_s = ((6 * num_microbatches + more * (num_stages - 1)) / 2 for more in (1, 2))
        judge("zb_v", case, costs, took_s, "a step takes", full_s, half_s)


@points(4, "speed")
def test_few_microbatches_take_no_longer_than_under_1f1b(ranks):
    def check(function):
        for case, lists in zip(SHORT, in_halves(ranks, function, SHORT), strict=True):
            for costs in COSTS[: 1 if function == "zb_v" else None]:
                took_s = replay(function, lists, costs).makespan_s
                bound_s = flush_s(case, costs)
                judge(function, case, costs, took_s, "a step takes", bound_s, bound_s)

    check_kinds(NAMES, str, check)
