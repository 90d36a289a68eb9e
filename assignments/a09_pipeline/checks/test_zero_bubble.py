"""zero_bubble.py: lists of actions whose second halves fill the gaps."""

from given import replayed

from checks.cases import ZbH1, ZbH2, ZbV
from ringside.checking import award, verify
from ringside.checking.suite import Suite, group

suite = Suite("zero_bubble")
# F, I, W in seconds: equal; short W; W longer than F; all different
COSTS = ((1.0, 1.0, 1.0), (1.0, 1.5, 0.5), (1.0, 2.0, 1.5), (2.0, 3.0, 1.0))
SIZES = ((2, 4), (3, 5), (4, 8))
SHORT = ((3, 1), (4, 2), (1, 3))


def each(case, *sizes):
    """A case of each of these sizes."""
    return [case(*size) for size in sizes]


def replay(case, run, costs):
    """On free messages; ``costs`` are F, I and W of a whole stage."""
    forward_s, input_s, weight_s = costs
    return case.timeline(run, (forward_s, input_s + weight_s), weight_s)


def flush_s(case, costs):
    """The time of 1F1B with whole backward passes."""
    return (case.stages + case.microbatches - 1) * sum(costs)


def h1_bubble_s(num_stages, costs):
    """The bubble of ``zb_h1`` as its docstring has it."""
    forward_s, input_s, weight_s = costs
    return (num_stages - 1) * max(forward_s, input_s, forward_s + input_s - weight_s)


def judge(case, costs, found_s, what, full_s, half_s):
    """All points up to ``full_s``, half of them up to ``half_s``."""
    fraction = 1.0 if found_s <= full_s + 1e-9 else 0.5 if found_s <= half_s + 1e-9 else 0.0
    f, i, w = costs
    award(
        fraction,
        f"{case}, F = {f:g} s, I = {i:g} s, W = {w:g} s: {what} {found_s:.6g} s; at most "
        f"{full_s:.6g} s is asked for{' (half the points)' if fraction == 0.5 else ''}.",
    )


# -- every pass once, in halves, and it can be run -------------------------------------------------


@suite.test("complete", "values", *each(ZbH1, *SIZES, (10, 24)), weight=5)
def test_h1_is_complete_and_can_be_run(case, run):
    case.assert_complete(run)


@suite.test("complete", "values", *each(ZbH2, *SIZES, (10, 24)), weight=5)
def test_h2_is_complete_and_can_be_run(case, run):
    case.assert_complete(run)


@suite.test("complete", "values", *each(ZbV, *SIZES), weight=2)
def test_v_is_complete_and_can_be_run(case, run):
    """Down the stages and up again."""
    case.assert_complete(run)


def by_function(sizes):
    """A group of each function's cases."""
    kinds = ((ZbH1, 5), (ZbH2, 5), (ZbV, 2))
    return [group(kind.target[12:], *each(kind, *sizes), weight=w) for kind, w in kinds]


@suite.test("any_size", "values", *by_function(SHORT))
def test_fewer_microbatches_than_stages_and_one_stage(case, run):
    """The warm-up ends with the last microbatch, and a step is as fast as under 1F1B."""
    case.assert_complete(run)
    for costs in COSTS[: 1 if isinstance(case, ZbV) else None]:
        bound_s = flush_s(case, costs)
        judge(case, costs, replay(case, run, costs).makespan_s, "a step takes", bound_s, bound_s)


# -- what is held ----------------------------------------------------------------------------------


@suite.test("h1_held", "schedule", *each(ZbH1, *SIZES, (4, 9)))
def test_h1_holds_few_microbatches(case, run):
    case.assert_few_in_flight(run, lambda stage: case.stages, "holds {} microbatches")


@suite.test("h2_held", "schedule", *each(ZbH2, *SIZES, (4, 9)))
def test_h2_holds_few_microbatches(case, run):
    case.assert_few_in_flight(run, lambda stage: 2 * case.stages - 1, "holds {} microbatches")


@suite.test("zb_v", "schedule", *each(ZbV, *SIZES, (4, 9)), weight=3)
def test_v_holds_few_chunks(case, run):
    case.assert_few_in_flight(run, lambda stage: 2 * case.stages, "holds {} chunks' microbatches")


# -- time ------------------------------------------------------------------------------------------


@suite.test("h1_waits", "speed", ZbH1(3, 5), ZbH1(4, 8))
def test_h1_takes_less_time_than_1f1b(case, run):
    took_s, flush = replay(case, run, COSTS[0]).makespan_s, flush_s(case, COSTS[0])
    verify(
        took_s < flush * (1 - 1e-6),
        f"{case}, F = I = W = 1 s: a step takes {took_s:.6g} s, and 1F1B's takes {flush:.6g} s. "
        "Send after I, and do W while the stage would be idle.",
    )


@suite.test("h1_waits", "speed", *each(ZbH1, *SIZES[1:]), weight=3)
def test_bubble_of_h1(case, run):
    for costs in COSTS:
        work_s, at_once_s = case.microbatches * sum(costs), (case.stages - 1) * sum(costs[:2])
        full_s = work_s + h1_bubble_s(case.stages, costs)
        below_s = (work_s + at_once_s) * (1 - 1e-6)
        judge(case, costs, replay(case, run, costs).makespan_s, "a step takes", full_s, below_s)


@suite.test("h2_idle", "speed", *each(ZbH2, (2, 4), (3, 5), (4, 9)))
def test_h2_leaves_no_stage_idle(case, run):
    for costs in COSTS:
        line = replay(case, run, costs)
        idle_s = max(replayed.idle_inside_s(line, stage) for stage in range(case.stages))
        forward_s, input_s, weight_s = costs
        more_s = max(0.0, input_s - forward_s, forward_s + input_s - 2 * weight_s)
        what = "between its first and its last action a stage is idle for"
        full_s = (case.stages - 1) * more_s
        judge(case, costs, idle_s, what, full_s, 2 * full_s)


@suite.test("zb_v", "speed", *each(ZbV, (2, 3), *SIZES), weight=5)
def test_v_takes_no_longer_than_its_work(case, run):
    took_s = replay(case, run, COSTS[0]).makespan_s
    work, more = 6 * case.microbatches, case.stages - 1
    judge(case, COSTS[0], took_s, "a step takes", (work + more) / 2, (work + 2 * more) / 2)
