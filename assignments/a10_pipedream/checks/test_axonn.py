"""axonn.py: what arrives is computed, backward passes first, and the gradient is the batch's."""

from given.axonn_times import message_driven, one_f_one_b

from checks.cases import assert_neighbours, assert_sent
from checks.cases_axonn import (
    Step,
    assert_backward_first,
    assert_driven,
    assert_each_once,
    assert_in_flight,
    assert_loss,
)
from ringside.checking import Verdict
from ringside.checking.suite import Suite, group, plain, right_run

suite = Suite("axonn")
ONE, TWO = (1,), (2,)  # samples of a microbatch
ALIKE, OVERTAKE = "messages that are equally fast", "messages that overtake"
ALONE, FEW = "one stage", "fewer microbatches than stages"
LOSS, GIVEN = "the loss", "what is given"
WORLD, PART = "the whole world", "communicators of a part of the world"
STEPS = 3  # that are timed together
WIRE = "buffered,alpha_s=0.0003"  # a message takes a good part of a pass


@suite.test(
    "gradient", "values",
    group(ALIKE, *(Step(p, TWO * 7, digits=10, announced=True) for p in (2, 3, 4))),
    group(OVERTAKE, *(Step(3, TWO * 6, latencies=seed, announced=True) for seed in (1, 2))),
    weight=5,
)  # fmt: skip
def test_gradient_on_2_to_5_stages_in_any_order_of_arrival(case, run):
    """Where passes are announced, a rank that computes another stage's has other values."""


@suite.test("sizes", "values", Step(3, (3, 1, 2, 4, 1), announced=True))
def test_gradient_of_microbatches_of_different_sizes(case, run):
    """Each counts by its samples."""


@suite.test(
    "gradient", "values", group(FEW, Step(4, TWO * 2, announced=True)),
    group(ALONE, Step(1, TWO * 3, announced=True)), weight=4,
)  # fmt: skip
def test_one_stage_and_fewer_microbatches_than_stages(case, run):
    assert_driven(run, case)


@suite.test(
    "limit", "values", *(Step(3, TWO * 5, limit=limit, announced=True) for limit in (1, 2)),
)  # fmt: skip
def test_limits_from_one_on(case, run):
    assert_driven(run, case, case.most)


@suite.test(
    "loss", "values", group(LOSS, Step(3, (3, 1, 2), announced=True)),
    group(GIVEN, Step(2, announced=True)),
)  # fmt: skip
def test_loss_of_the_whole_batch_and_all_that_is_given_stays(case, run):
    """Of microbatches that differ the loss is looked at, of others what is given."""
    if len(set(case.batch_sizes)) > 1:
        assert_loss(plain([value["loss"] for value in run.values]), case)
        return
    for stage, value in enumerate(run.values):
        if not value["kept"]:
            raise case.fail(f"stage {stage} changed its parameters, inputs or targets, or a list.")


@suite.test(
    "steps", "values", group("float32", Step(2, dtype="float32")),
    group("a second step", Step(2, before=True), weight=2),
)  # fmt: skip
def test_float32_and_a_second_step(case, run):
    """Gradients have the dtype of the parameters; nothing is kept from step to step."""


test_real_mpi = suite.real_ranks("gradient", Step(3, TWO * 4, digits=10))


@suite.test(
    "messages", "communication", group("float64", Step(3, (50,) * 4, announced=True)),
    group("float32", Step(3, (50,) * 4, dtype="float32", widths=(40, 3, 30), announced=True)),
    checked=False, weight=3,
)  # fmt: skip
def test_one_message_for_each_activation_and_gradient(case, run, ranks):
    ranks.record(case, run, {"messages of stage 0": len(case.batch_sizes)})
    assert_sent(run, case)


@suite.test(
    "messages", "communication", group(WORLD, Step(4, announced=True)),
    group(PART, Step(3).in_part(), weight=2), weight=2,
)  # fmt: skip
def test_messages_go_to_neighbours_in_the_given_communicator(case, run):
    assert_neighbours(run, case)


@suite.test("driven", "schedule", Step(4, TWO * 8, announced=True), checked=False)
def test_no_stage_waits_while_there_is_work(case, run):
    assert_driven(run, case)


@suite.test(
    "limit", "schedule", *(Step(3, TWO * 8, limit=limit, announced=True) for limit in (2, 3)),
    checked=False,
)  # fmt: skip
def test_as_many_in_flight_as_asked(case, run):
    assert_in_flight(run, case)


@suite.test(
    "backward_first", "schedule", *(Step(p, TWO * 12, announced=True) for p in (2, 3)),
    checked=False,
)  # fmt: skip
def test_backward_before_forward(case, run):
    assert_backward_first(run, case)


@suite.test("sends", "safety", Step(2, TWO * 8, machine="rendezvous", announced=True))
def test_neighbours_send_to_each_other(case, run):
    """Each send waits for its receive here."""


test_every_send_may_wait_for_its_receive = suite.slow_messages(
    "under_way", Step(3, TWO * 6, announced=True), weight=3
)


@suite.test("under_way", "speed", Step(4, ONE * 20, machine=WIRE, announced=True), weight=5)
def test_faster_than_1f1b_where_times_vary(case, ranks):
    """Steps of several seeds together: a rule that is good in the mean needn't be in each."""
    rows = []
    for number in range(STEPS):
        step = case.with_(seed=case.seed + number)
        run = right_run(ranks, step)
        assert_each_once(run, step)
        message_s = run.machine.alpha_s
        rows.append(
            (
                run.makespan_s,
                message_driven(*step.times_s, step.most, message_s),
                one_f_one_b(*step.times_s, message_s),
            )
        )
    taken_s, rule_s, fixed_s = map(sum, zip(*rows, strict=True))
    if taken_s > 1.05 * rule_s:
        sentence = (
            f"{case}: {STEPS} steps take {taken_s * 1e3:.6g} ms; message-driven they take "
            f"{rule_s * 1e3:.6g} ms, and by 1F1B {fixed_s * 1e3:.6g} ms. 1.05 times as long as "
            "message-driven is allowed, and half of the points go to less than 1F1B."
        )
        raise Verdict(sentence, fraction=0.5 if taken_s < fixed_s else 0.0)
