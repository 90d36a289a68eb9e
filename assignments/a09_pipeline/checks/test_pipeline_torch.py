"""pipeline_torch.py: autograd on each stage, messages between them, and recomputation."""

import numpy as np
from given import replayed

from checks.cases import FREE
from checks.cases_stage import (
    CHUNKS,
    FLUSH,
    GPIPE,
    LONG,
    NEWEST_FIRST,
    OTHERS,
    SEVERAL,
    SWAPPED,
    UNEQUAL,
    USUAL,
    assert_passed_on,
    assert_traffic,
    assert_work,
)
from checks.cases_torch import StepTorch
from ringside.checking import (
    assert_makespan,
    assert_own_messages,
    assert_peers,
    assert_ran,
)
from ringside.checking.suite import Suite, called, group

suite = Suite("pipeline_torch")
AGAIN = "recomputation"
SLOW = "name=slow_wire,alpha_s=0.001,beta_s_per_byte=3e-05"


# -- any schedule, any lengths ---------------------------------------------------------------------


@suite.test("passed_on", "communication", StepTorch(3, GPIPE, (8,), ordered=True), checked=False)
def test_stages_compute_their_pieces_and_pass_tensors_on(case, run):
    assert_passed_on(run, case)


@suite.test("unequal", "values", StepTorch(3, FLUSH, UNEQUAL), StepTorch(3, GPIPE, UNEQUAL))
def test_microbatches_of_unequal_lengths(case, run):
    """The gradient of the mean over all samples."""


@suite.test("any_schedule", "values", StepTorch(2, SWAPPED), StepTorch(2, NEWEST_FIRST))
def test_schedules_that_nobody_teaches(case, run):
    """Two stages may take microbatches in different orders."""


@suite.test(
    "any_schedule", "values", StepTorch(2, SWAPPED, recompute=True),
    StepTorch(2, NEWEST_FIRST, recompute=True),
)  # fmt: skip
def test_the_same_with_recomputation(case, run):
    """Each input is kept for its own microbatch."""


@suite.test("chunks", "values", StepTorch(2, CHUNKS, (3,)), StepTorch(1, CHUNKS[:1], (3,)))
def test_chunks(case, run):
    """The last stage passes activations on to the first one."""


test_real_gloo = suite.real_ranks("gloo", StepTorch(2, ("F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2")))


# -- values ----------------------------------------------------------------------------------------


@suite.test("gradient", "values", StepTorch(3, FLUSH), StepTorch(2, GPIPE), weight=2)
def test_gradient_with_gpipe_and_1f1b(case, run):
    """That of the whole batch."""


@suite.test(
    "gradient", "values", group("fewer microbatches than stages", StepTorch(3, ("F0 B0",))),
    group("one stage", StepTorch(1, ("F0 F1 B0 B1",), (3,))),
)  # fmt: skip
def test_few_microbatches_and_one_stage(case, run):
    """A stage alone is the first and the last one."""


@suite.test(
    "loss", "values", group(USUAL, StepTorch(3, FLUSH), weight=2),
    group("one stage", StepTorch(1, ("F0 F1 B0 B1",), (3,))),
)  # fmt: skip
def test_loss_of_the_whole_batch(case, run):
    """On the last stage."""
    case.check_losses(run)


@suite.test(
    "second_step", "values",
    group(USUAL, StepTorch(2, ("F0 F1 F2 B0 B1 B2",), (3,), before=True), weight=3),
    group(AGAIN, StepTorch(2, ("F0 F1 F2 B0 B1 B2",), (3,), before=True, recompute=True)),
)  # fmt: skip
def test_second_step_is_independent(case, run):
    """Of one with other numbers and other lengths; and what was given stays as it was."""
    case.check_losses(run)
    case.check_kept(run)


@suite.test(
    "recompute", "values", group(USUAL, StepTorch(3, FLUSH, recompute=True), weight=3),
    group(SEVERAL, StepTorch(2, CHUNKS, recompute=True)),
)  # fmt: skip
def test_gradient_with_recomputation(case, run):
    """The same as without, and the same loss."""
    case.check_losses(run)


@suite.test(
    "recompute", "values", group(USUAL, StepTorch(3, FLUSH, recompute=True, dropout=0.4)),
    group(SEVERAL, StepTorch(2, CHUNKS, widths=(5, 20, 4), recompute=True, dropout=0.4), weight=2),
    weight=2,
)  # fmt: skip
def test_recomputation_draws_the_same_numbers_again(case, ranks):
    plain = case.with_(recompute=False)
    runs = [called(ranks, each) for each in (plain, case)]
    for run, each in zip(runs, (plain, case), strict=True):
        assert_ran(run, each)
    for stage, (first, second) in enumerate(zip(*(run.values for run in runs), strict=True)):
        grads = ([each for own in value["grads"] for each in own] for value in (first, second))
        for one, other in zip(*grads, strict=True):
            if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
                raise case.fail(f"stage {stage} has no gradient.")
            if not np.allclose(one, other, rtol=1e-10, atol=1e-12):
                raise case.fail(f"recomputation changes stage {stage}'s gradients.")
        if first["drawn"] != second["drawn"]:
            raise case.fail(f"recomputation leaves stage {stage}'s random generator elsewhere.")
        if first["drawn"] != first["alone"]:
            raise case.fail(
                f"without recomputation stage {stage}'s generator is not where its forward passes "
                "leave it: they are made in training mode, and nothing else seeds or uses it."
            )


# -- communication: gradients are other tests' matter ----------------------------------------------


@suite.test(
    "messages", "communication",
    group(USUAL, StepTorch(3, FLUSH, **LONG), StepTorch(2, GPIPE, **LONG), weight=3),
    group(AGAIN, StepTorch(3, FLUSH, **LONG, recompute=True)),
    group(SEVERAL, StepTorch(2, CHUNKS, **LONG)), checked=False, weight=2,
)  # fmt: skip
def test_one_message_for_each_activation_and_gradient(case, run, ranks):
    case.check_order(run)
    messages, nbytes = case.traffic
    ranks.record(case, run, {"messages": messages, "bytes": nbytes})
    assert_traffic(run, case)


@suite.test(
    "messages", "communication", group(USUAL, StepTorch(3, GPIPE, ordered=True), weight=3),
    group(SEVERAL, StepTorch(2, CHUNKS, ordered=True)), checked=False,
)  # fmt: skip
def test_messages_go_to_neighbours(case, run):
    case.check_order(run)
    assert_own_messages(run, case)
    rule = "pieces pass tensors to the piece after and before alone"
    assert_peers(run, case.neighbours, case, rule)


test_given_group_is_used = suite.given_communicator(
    "group", StepTorch(3, FLUSH, ordered=True), comm="the group"
)


# -- schedule, memory, safety, speed ---------------------------------------------------------------


@suite.test(
    "order", "schedule", group(USUAL, StepTorch(3, FLUSH, announced=True)),
    group(AGAIN, StepTorch(3, FLUSH, recompute=True, announced=True), weight=4),
    group(SEVERAL, StepTorch(2, CHUNKS, announced=True)),
)  # fmt: skip
def test_passes_follow_the_list(case, run):
    """``case`` compares what the modules computed with the lists."""


LARGE = {"sizes": (96,), "widths": (8, 512, 8), "ordered": True}


@suite.test(
    "memory", "memory", group(USUAL, StepTorch(3, FLUSH, **LARGE), weight=2),
    group(AGAIN, StepTorch(3, GPIPE, **LARGE, recompute=True), weight=3), checked=False,
)  # fmt: skip
def test_activations_are_let_go_and_recomputation_keeps_inputs_alone(case, run):
    """The peak of activations, as they were allocated."""
    if not case.recompute:  # the second forward passes are another test's matter
        case.check_order(run)
    saved = 8 * case.sizes[0] * sum(case.widths)
    given = 8 * case.sizes[0] * case.widths[0]
    for stage, actions in enumerate(case.actions):
        most = replayed.most_in_flight(actions)
        kept = most * given + saved if case.recompute else most * saved
        bound = kept + 4 * len(case.batch_sizes) * given + 3 * saved
        peak = run.memory[stage]["peak_by_kind"]["activations"]
        if peak > bound:
            raise case.fail(
                f"stage {stage} held {peak} bytes of activations at one time; {bound} are allowed "
                f"with {most} microbatches in flight, whose graphs hold {saved} bytes each."
            )


test_every_send_may_wait_for_its_receive = suite.slow_messages(
    "waits", group(USUAL, StepTorch(3, FLUSH, ordered=True)),
    group(OTHERS, StepTorch(2, SWAPPED, ordered=True)),
)  # fmt: skip

WIRE = {"sizes": (1,), "widths": (16, 4, 16), "costs": (1e-2, 2e-2), "announced": True}


@suite.test(
    "time", "speed",
    group(
        USUAL, StepTorch(3, GPIPE, **WIRE, machine=FREE), StepTorch(3, FLUSH, **WIRE, machine=SLOW),
        weight=3,
    ),
    group(AGAIN, StepTorch(3, FLUSH, **WIRE, machine=SLOW, recompute=True)),
    group(SEVERAL, StepTorch(2, CHUNKS, **WIRE, machine=SLOW)), checked=False,
)  # fmt: skip
def test_time_with_free_messages_and_on_a_slow_wire(case, run):
    case.check_order(run)
    assert_work(run, case)
    assert_makespan(run, case.step_s, case, full=1.02)
