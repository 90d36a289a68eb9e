"""schedule.py: lists of actions, run by an interpreter of ours."""

from ringside import Machine
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a09_pipeline import replayed
from solutions.a09_pipeline.hidden import oracle, runs

COSTS = ((1.0, 2.0), (1.0, 1.0), (3.0, 2.0))
USUAL = ((2, 4), (2, 5), (3, 3), (3, 8), (4, 8), (5, 7))
SHORT = ((2, 1), (3, 1), (3, 2), (4, 3), (5, 2), (8, 5))
ONE_STAGE = ((1, 1), (1, 4))
CHUNKS = ((2, 4, 2), (3, 3, 2), (3, 6, 3), (4, 8, 2), (2, 2, 1), (5, 5, 2))
LARGE = ((12, 30), (16, 16))
NAMES = ("gpipe", "one_f_one_b")

points = points_of("schedule")


def drawn(rng, count=2):
    """Sizes that nobody can know."""
    return [(int(rng.integers(2, 9)), int(rng.integers(2, 14))) for _ in range(count)]


def free_s(num_stages, num_microbatches, forward_s, backward_s, num_chunks=1):
    """The bound of the docstrings."""
    return (num_microbatches + (num_stages - 1) / num_chunks) * (forward_s + backward_s)


def of_a_pass(costs, num_chunks):
    return tuple(each / num_chunks for each in costs)


# -- values: every pass once, and it can be run ----------------------------------------------------


@points(8, "values")
def test_gpipe_is_complete_and_can_be_run(ranks, rng):
    runs.asked(ranks, "gpipe", [*USUAL, *drawn(rng)])


@points(8, "values")
def test_1f1b_is_complete_and_can_be_run(ranks, rng):
    runs.asked(ranks, "one_f_one_b", [*USUAL, *drawn(rng)])


@points(8, "values")
def test_fewer_microbatches_than_stages_and_one_stage(ranks):
    def check(function):
        runs.asked(ranks, function, [*SHORT, *ONE_STAGE])

    check_kinds(NAMES, str, check)


@points(6, "values")
def test_interleaved_is_complete_and_can_be_run(ranks, rng):
    p, v = int(rng.integers(2, 6)), int(rng.integers(2, 4))
    runs.asked(ranks, "interleaved", [*CHUNKS, (p, 2 * p, v), (1, 3, 2)])


@points(2, "values")
def test_interleaved_refuses_other_numbers_of_microbatches(ranks):
    runs.asked(ranks, "interleaved", [(3, 3, 2)])
    calls = [(2, 3, 0, 2), (4, 2, 1, 2), (3, 7, 2, 1)]
    found = runs.answers(ranks, "schedules", "schedule:interleaved", calls)
    for call, (_, error) in zip(calls, found, strict=True):
        if error != "ValueError":
            raise runs.wrong("interleaved", call, "must raise ValueError: M is no multiple of S.")


# -- what is kept ----------------------------------------------------------------------------------


@points(6, "schedule")
def test_gpipes_forward_passes_come_first(ranks, rng):
    cases = [*USUAL, *SHORT, *drawn(rng)]
    for case, lists in zip(cases, runs.asked(ranks, "gpipe", cases), strict=True):
        for stage, actions in enumerate(lists):
            kinds = [replayed.kind(each) for each in actions]
            if "Forward" in kinds[case[1] :]:
                raise runs.wrong("gpipe", (*case, stage), "has a Forward after a backward action.")


def check_in_flight(ranks, function, cases, allowed):
    for case, lists in zip(cases, runs.asked(ranks, function, cases), strict=True):
        for stage, actions in enumerate(lists):
            most, bound = replayed.most_in_flight(actions), allowed(stage, *case)
            if most > bound:
                call = (*case[:2], stage, *case[2:])
                raise runs.wrong(
                    function, call,
                    f"has {most} microbatches in flight at one time; at most {bound} are allowed.",
                    runs.drawing([actions]).partition(": ")[2],
                )  # fmt: skip


@points(18, "schedule")
def test_1f1b_keeps_few_microbatches_in_flight(ranks, rng):
    cases = [*USUAL, *SHORT, *ONE_STAGE, *drawn(rng), *LARGE]
    check_in_flight(ranks, "one_f_one_b", cases, lambda stage, s, m: min(m, s - stage))


@points(7, "schedule")
def test_interleaved_keeps_few_chunks_in_flight(ranks):
    def allowed(stage, s, m, v):
        return min(v * m, 2 * (s - stage - 1) + (v - 1) * s + 1)

    check_in_flight(ranks, "interleaved", [*CHUNKS, (1, 4, 2)], allowed)


# -- time ------------------------------------------------------------------------------------------


def check_free(ranks, function, cases):
    """Messages that take no time."""
    for case, lists in zip(cases, runs.asked(ranks, function, cases), strict=True):
        num_stages, num_microbatches, *chunks = case
        num_chunks = chunks[0] if chunks else 1
        for costs in COSTS:
            bound_s = free_s(num_stages, num_microbatches, *costs, num_chunks)
            beside = f" (tf = {costs[0]:g} s, tb = {costs[1]:g} s)"
            runs.check_time(
                function, case, lists, bound_s, of_a_pass(costs, num_chunks), beside, full=1.0
            )


@points(8, "speed")
def test_time_of_gpipe_with_free_messages(ranks, rng):
    check_free(ranks, "gpipe", [*USUAL, *SHORT, *drawn(rng)])


@points(18, "speed")
def test_time_of_1f1b_with_free_messages(ranks, rng):
    check_free(ranks, "one_f_one_b", [*USUAL, *SHORT, *ONE_STAGE, *drawn(rng), LARGE[0]])


@points(5, "speed")
def test_time_of_interleaved_with_free_messages(ranks):
    check_free(ranks, "interleaved", [*CHUNKS, (8, 16, 2)])


def check_against_ours(ranks, function, case, costs, nbytes, machine, beside=""):
    """At most 1.02 times our own schedule, on a machine on which messages take time."""
    (lists,) = runs.asked(ranks, function, [case])
    num_chunks = case[2] if len(case) > 2 else 1
    ours = runs.lists_of(getattr(oracle, function), *case)
    costs = of_a_pass(costs, num_chunks)
    options = {"nbytes": nbytes, "machine": machine}
    bound_s = replayed.timeline(ours, num_chunks, *costs, **options).makespan_s
    runs.check_time(function, case, lists, bound_s, costs, beside, **options)


@points(6, "speed")
def test_time_with_messages_that_take_time(ranks, rng):
    slow = Machine("latency 0.5 s", alpha_s=0.5, beta_s_per_byte=0.0)
    machine = Machine.load("zaratan")
    sizes = [(4, 8), (3, 7), *drawn(rng, 1)]
    cases = [(name, size, (1.0, 2.0), 8, slow) for name in NAMES for size in sizes]
    cases.append(("interleaved", (4, 8, 2), (1.0, 2.0), 8, slow))
    gpt = oracle.Gpt(8, machine)
    costs = gpt.forward_s, gpt.backward_s
    cases += [(name, (8, 32), costs, gpt.nbytes, machine) for name in NAMES]
    check_kinds(cases, lambda case: case[0], lambda case: check_against_ours(ranks, *case))
