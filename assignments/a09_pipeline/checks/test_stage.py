"""stage.py: one interpreter runs every schedule, written here as text."""

from given import replayed

from checks.cases import FREE
from checks.cases_stage import (
    CHUNKS,
    FLUSH,
    GPIPE,
    HALVES,
    IN_HALVES,
    LONG,
    NEWEST_FIRST,
    OTHERS,
    SEVERAL,
    STRANGE,
    SWAPPED,
    UNEQUAL,
    USUAL,
    Step,
    assert_passed_on,
    assert_traffic,
    assert_work,
)
from ringside.checking import assert_makespan, assert_own_messages, assert_peers
from ringside.checking.suite import Suite, group

suite = Suite("stage")


# -- any schedule, any lengths ---------------------------------------------------------------------


@suite.test("passed_on", "communication", Step(3, GPIPE, (8,), ordered=True), checked=False)
def test_stages_compute_their_pieces_and_pass_arrays_on(case, run):
    assert_passed_on(run, case)


@suite.test("unequal", "values", Step(3, FLUSH, UNEQUAL), Step(3, GPIPE, UNEQUAL))
def test_microbatches_of_unequal_lengths(case, run):
    """The gradient of the mean over all samples."""


@suite.test(
    "any_schedule", "values",
    group("whole passes through one chunk", Step(2, SWAPPED), Step(2, NEWEST_FIRST)),
    group("chunks and halves", Step(2, STRANGE, (3,))),
)  # fmt: skip
def test_schedules_that_nobody_teaches(case, run):
    """Two stages may take microbatches in different orders."""


@suite.test("halves", "values", Step(2, HALVES, (3,)), Step(3, ("F0 F1 I0 I1 W1 W0",)))
def test_backward_passes_in_two_halves(case, run):
    """The second half comes any time later."""


@suite.test("chunks", "values", Step(2, CHUNKS, (3,)), Step(1, CHUNKS[:1], (3,)))
def test_interleaved_chunks(case, run):
    """The last stage passes activations on to the first one."""


# -- values ----------------------------------------------------------------------------------------


@suite.test("gradient", "values", Step(3, FLUSH), Step(2, GPIPE), weight=3)
def test_gradient_on_2_to_5_stages(case, run):
    """That of the whole batch."""


@suite.test("float32", "values", Step(3, FLUSH, (3,), dtype="float32"))
def test_gradient_in_float32(case, run):
    """Arrays that travel have the pieces' dtype."""


@suite.test(
    "gradient", "values", group("fewer microbatches than stages", Step(3, ("F0 B0",), (3,))),
    group("one stage", Step(1, ("F0 F1 B0 B1",), (3,)), Step(1, ("F0 F1 I0 I1 W1 W0",))), weight=2,
)  # fmt: skip
def test_fewer_microbatches_than_stages_and_one_stage(case, run):
    """A stage alone is the first and the last one."""


test_real_mpi = suite.real_ranks("gradient", Step(3, FLUSH), weight=2)


@suite.test(
    "loss", "values", group(USUAL, Step(3, FLUSH), weight=3),
    group("one stage", Step(1, ("F0 F1 B0 B1",), (3,))),
    group("microbatches of unequal lengths", Step(3, GPIPE, UNEQUAL)),
)  # fmt: skip
def test_loss_of_the_whole_batch(case, run):
    """On the last stage."""
    case.check_losses(run)


@suite.test("second_step", "values", Step(2, ("F0 F1 F2 B0 B1 B2",), (3,), before=True))
def test_second_step_is_independent(case, run):
    """Of one with other numbers and other lengths; and what was given stays as it was."""
    case.check_losses(run)
    case.check_kept(run)


# -- what is sent, and when: gradients are other tests' matter -------------------------------------


@suite.test(
    "messages", "communication",
    group(USUAL, Step(3, FLUSH, **LONG), Step(2, GPIPE, **LONG, dtype="float32"), weight=3),
    group(IN_HALVES, Step(2, HALVES, **LONG)), group(SEVERAL, Step(2, CHUNKS, **LONG)),
    checked=False, weight=3,
)  # fmt: skip
def test_one_message_for_each_activation_and_gradient(case, run, ranks):
    case.check_order(run)
    messages, nbytes = case.traffic
    ranks.record(case, run, {"messages": messages, "bytes": nbytes})
    assert_traffic(run, case)


@suite.test(
    "messages", "communication", group(USUAL, Step(3, GPIPE, ordered=True), weight=3),
    group(SEVERAL, Step(2, CHUNKS, ordered=True)), checked=False, weight=2,
)  # fmt: skip
def test_messages_go_to_neighbours(case, run):
    case.check_order(run)
    assert_own_messages(run, case)
    if run.comm_calls:
        raise case.fail("communicators were made; none is allowed.")
    rule = "pieces pass arrays to the piece after and before alone"
    assert_peers(run, case.neighbours, case, rule)


test_given_communicator_is_used = suite.given_communicator(
    "communicator", Step(3, FLUSH, ordered=True)
)


@suite.test(
    "order", "schedule", group(USUAL, Step(3, FLUSH, announced=True), weight=3),
    group(IN_HALVES, Step(2, HALVES, announced=True)),
    group(SEVERAL, Step(2, CHUNKS, announced=True)),
    group(OTHERS, Step(2, SWAPPED, announced=True)),
)  # fmt: skip
def test_passes_follow_the_list(case, run):
    """``case`` compares what the layers computed with the lists."""


# -- memory ----------------------------------------------------------------------------------------

LARGE = {"sizes": (96,), "widths": (8, 512, 8), "ordered": True, "watched": True}


@suite.test(
    "memory", "memory", group(USUAL, Step(3, FLUSH, **LARGE), weight=3),
    group(IN_HALVES, Step(2, HALVES, **LARGE)), group(SEVERAL, Step(2, CHUNKS, **LARGE)),
    checked=False,
)  # fmt: skip
def test_activations_are_let_go(case, run):
    case.check_order(run)
    d_in, hidden, d_out = case.widths
    saved = 8 * case.sizes[0] * sum(case.widths)  # input, hidden and output, each once
    params = 8 * case.chunks * (d_in * hidden + hidden + hidden * d_out + d_out)
    traffic = 4 * case.chunks * sum(case.batch_sizes) * 8 * d_in  # sent and received, both ways
    # A half-done backward pass keeps a gradient beside each layer's input.
    kept = 2 * saved if "I" in case.lists[0] else saved
    for stage, actions in enumerate(case.actions):
        most = replayed.most_in_flight(actions)
        bound = most * kept + 3 * saved + 2 * params + traffic + (1 << 16)
        peak = run.values[stage]["peak"]
        if peak > bound:
            raise case.fail(
                f"stage {stage} held {peak} bytes at one time; {bound} are allowed with {most} "
                f"microbatches in flight, of {saved} bytes each."
            )


# -- safety and speed ------------------------------------------------------------------------------

test_every_send_may_wait_for_its_receive = suite.slow_messages(
    "waits", group(USUAL, Step(3, FLUSH, ordered=True), weight=3),
    group(OTHERS, Step(2, SWAPPED, ordered=True)),
)  # fmt: skip

WIRE = {"sizes": (1,), "widths": (16, 4, 16), "costs": (4e-6, 8e-6), "announced": True}


@suite.test(
    "time", "speed",
    group(
        USUAL, Step(3, GPIPE, **WIRE, machine=FREE), Step(3, FLUSH, **WIRE, machine="long wire"),
        weight=3,
    ),
    group(IN_HALVES, Step(2, HALVES, **WIRE, machine="long wire")),
    group(SEVERAL, Step(2, CHUNKS, **WIRE, machine="long wire")), checked=False,
)  # fmt: skip
def test_time_with_free_messages_and_on_a_slow_wire(case, run):
    """On the wire a message takes more than half of a forward pass."""
    case.check_order(run)
    assert_work(run, case)
    assert_makespan(run, case.step_s, case, full=1.02)
