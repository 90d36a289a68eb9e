"""stash.py: one update a minibatch, stashed versions, and an order that the network sees."""

from checks.cases import (
    Train,
    assert_losses,
    assert_neighbours,
    assert_order,
    assert_passed_on,
    assert_sent,
    assert_work,
    pipeline_s,
)
from ringside.checking import assert_makespan
from ringside.checking.suite import Suite, group, plain

suite = Suite("stash")
TWO = (2,)  # samples of a minibatch
FEW, ALONE = "fewer minibatches than stages", "one stage"
WORLD, PART = "the whole world", "communicators of a part of the world"
OWN, SYNC = "stages with versions of their own", "vertical sync"
FREE, SLOW = "free messages", "a slow wire"
WIDE = {"width": 64, "hidden": 256, "alike": True, "watched": True}


@suite.test(
    "stashed", "values", Train(2, announced=True), Train(3, TWO * 6, announced=True),
    Train(4, TWO * 7, announced=True),
)  # fmt: skip
def test_delayed_recursion_on_2_to_5_stages(case, run):
    """Where passes are announced, a rank that computes another stage's has other values."""


@suite.test(
    "vertical_sync", "values", Train(2, vertical_sync=True, announced=True),
    Train(3, TWO * 6, vertical_sync=True, announced=True),
)  # fmt: skip
def test_vertical_sync_on_2_to_5_stages(case, run):
    """All stages use the version of stage 0."""


@suite.test(
    "sizes", "values",
    group(FEW, Train(4, TWO * 2, announced=True), Train(3, TWO), Train(2, ())),
    group(ALONE, Train(1, TWO * 3, announced=True)), weight=6,
)  # fmt: skip
def test_fewer_minibatches_than_stages_and_one_stage(case, run):
    """The pipeline is never full; nobody is there to talk to."""


@suite.test(
    "sizes", "values", group("float32", Train(3, TWO * 5, "float32")),
    group("float64", Train(3, (1, 2, 4, 3), announced=True)), weight=8,
)  # fmt: skip
def test_minibatches_of_different_sizes_and_float32(case, run):
    """Parameters have the dtype that they had."""


@suite.test("returned", "values", Train(3, (2, 1, 4, 3, 2), announced=True), weight=4)
def test_losses_of_the_last_stage(case, run):
    values = plain([value["losses"] for value in run.values])
    assert_losses(values, case.serial[1], case)


@suite.test(
    "returned", "values", group("a second call", Train(2, (3, 4, 2, 2, 1), before=True)),
    group("a first call", Train(2, (3, 4, 2, 2, 1), announced=True)), weight=7,
)  # fmt: skip
def test_second_call_and_all_that_is_given_stays(case, run):
    for stage, value in enumerate([] if case.before else run.values):
        if not value["kept"]:
            raise case.fail(
                f"stage {stage} changed its parameters, inputs or targets, or their lists."
            )
        if value["shared"]:
            raise case.fail(
                f"stage {stage} returned an array that it was given; it must be a new one."
            )


test_real_mpi = suite.real_ranks("messages", Train(3))


@suite.test("pipeline", "communication", Train(3, TWO * 6), checked=False)
def test_stages_compute_their_pieces_and_pass_arrays_on(case, run):
    assert_passed_on(run, case)


@suite.test(
    "messages", "communication",
    group("float64", Train(4, TWO * 6, announced=True),
          Train(3, width=900, hidden=2)),  # far longer than the envelope that is free
    group("float32", Train(3, dtype="float32", width=900, hidden=2)), checked=False, weight=6,
)  # fmt: skip
def test_two_messages_for_each_minibatch_and_boundary(case, run, ranks):
    messages, nbytes = zip(*map(case.allowed, range(case.p)), strict=True)
    ranks.record(case, run, {"messages": list(messages), "bytes": list(nbytes)})
    assert_sent(run, case)


@suite.test(
    "messages", "communication", group(WORLD, Train(3, TWO * 5, announced=True)),
    group(PART, Train(3, TWO * 5).in_part(), weight=3), weight=4,
)  # fmt: skip
def test_messages_go_to_neighbours_in_the_given_communicator(case, run):
    assert_neighbours(run, case)
    if run.comm_calls:
        raise case.fail("communicators were made; none is allowed.")


@suite.test(
    "order", "schedule", Train(4, TWO * 7, announced=True), Train(3, TWO * 4, announced=True),
    checked=False,
)  # fmt: skip
def test_one_forward_one_backward_in_turn(case, run):
    assert_order(run, case)


@suite.test(
    "memory", "memory", group(OWN, Train(3, TWO * 14, **WIDE)),
    group(SYNC, Train(3, TWO * 14, vertical_sync=True, **WIDE), weight=0.5),
)  # fmt: skip
def test_versions_are_let_go(case, run):
    for stage, value in enumerate(run.values):
        bound, most, version = case.held_bytes(stage)
        if value["peak"] > bound:
            raise case.fail(
                f"stage {stage} held {value['peak']} bytes at one time; {bound} are allowed with "
                f"{most} {'versions' if most > 1 else 'version'} of {version} bytes each."
            )


@suite.test("sends", "safety", Train(3, TWO * 8, machine="rendezvous", announced=True))
def test_neighbours_send_to_each_other(case, run):
    """Each send waits for its receive here."""


test_sends_may_wait_for_their_receives = suite.slow_messages(
    "under_way", Train(3, TWO * 8, announced=True), weight=2
)


@suite.test(
    "under_way", "speed",
    group(FREE, Train(4, TWO * 8, costs=(1e-3, 2e-3), machine="free", announced=True)),
    group(SLOW, Train(4, TWO * 8, costs=(4e-6, 8e-6), machine="wire", announced=True), weight=3),
    checked=False, weight=3,
)  # fmt: skip
def test_time_with_free_messages_and_on_a_slow_wire(case, run):
    assert_work(run, case)
    assert_makespan(run, pipeline_s(case), case)
