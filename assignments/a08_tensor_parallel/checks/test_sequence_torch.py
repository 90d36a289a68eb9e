"""sequence_torch.py: all-gather and reduce-scatter for f and g, and a block of both."""

from checks.cases_sequence import Block, Gather, KeptForBackward, Scatter
from checks.cases_torch import Operator, ring_s
from checks.network import (
    EVERYTHING,
    assert_alike,
    assert_all_work,
    assert_bytes,
    assert_cut,
    assert_held,
    assert_unchanged,
)
from ringside.checking import assert_makespan
from ringside.checking.cases import machine_of
from ringside.checking.suite import Suite, group

suite = Suite("sequence_torch")


def both(p, own, *rest, **fields):
    """Both operators on ``own`` positions of each rank."""
    return Gather(p, (own, *rest), **fields), Scatter(p, (p * own, *rest), **fields)


@suite.test(
    "operators",
    "values",
    group("gather_sequence", Gather(3, (2, 4)), Gather(2, (3,), "float32")),
    group("reduce_scatter_sequence", Scatter(3, (6, 4)), Scatter(2, (6,), "float32")),
    group("tensors with gaps", *both(3, 2, 4, how="gaps"), *both(3, 2, 4, how="sum")),
    weight=6,
)
def test_gather_and_reduce_scatter_and_their_gradients(case, run):
    """Results and vector-Jacobian products; of plain tensors to the last digit."""
    if not case.how:
        case.check_exactly(run)


@suite.test(
    "incoming",
    "safety",
    group("operators", *both(2, 3, 4, how="shared"), weight=3),
    group("blocks", Block(2, 4)),
    weight=8,
)
def test_incoming_gradients_and_inputs_stay(case, run):
    if isinstance(case, Block):
        assert_unchanged(run, case)


@suite.test(
    "values", "values", Block(2, 6, (4, 12)), Block(3, 6, (4, 12), dtype="float32"), weight=3
)
def test_block_equals_serial(case, run):
    """Gradients of replicated parameters are another test's."""
    case.check_exactly(run)


@suite.test(
    "dropout",
    "values",
    Block(3, 6, (4, 12), 0.3),
    Block(2, 4, (4, 6), 0.3, training=False),
    weight=7,
)
def test_dropout_by_position(case, run):
    """A position has its mask, whoever has it; in evaluation mode there is none."""


@suite.test("finish", "values", Block(3, 6, (4, 12), steps=2, finished=True), weight=16)
def test_gradients_of_replicated_parameters(case, run):
    assert_alike(run, case)


@suite.test(
    "several",
    "values",
    Block(2, 4, steps=2, finished=True),
    Block(2, 4, steps=2, finished=True, how="together"),
    Block(2, 4, before=1, finished=True),
    weight=8,
)
def test_gradients_add_up(case, run):
    """Together: all forward passes, then the backward passes, the last one first."""
    case.check_exactly(run)


@suite.test("seeds", "values", Block(2, 4, rate=0.2, steps=2), weight=7)
def test_each_step_has_its_mask(case, run):
    """Two steps with other seeds."""


test_real_gloo = suite.real_ranks("values", Block(2, 6, steps=2, finished=True), weight=1)


@suite.test("cut", "communication", Block(4, 4, (16, 400)), checked=False)
def test_the_layers_are_cut(case, run):
    assert_cut(run, case)


@suite.test(
    "bytes",
    "communication",
    group("gather_sequence and reduce_scatter_sequence", *both(3, 3, 8), weight=3),
    group("blocks", Block(3, 12, (20, 12), forward=True), Block(3, 12, (20, 12)), weight=3),
    group("float32", Block(2, 12, (20, 12), dtype="float32"), weight=2),
)
def test_bytes_of_operators_and_blocks(case, run, ranks):
    if isinstance(case, Operator):
        what = "all positions once in the forward pass, once in the backward pass"
        assert_bytes(run, case, ranks, what)
        return
    what = "a gather and a reduce-scatter"
    if not case.forward:
        what = "two gathers or reduce-scatters forward, three backward, and three vectors"
    assert_bytes(run, case, ranks, what)


test_given_group_is_used = suite.given_communicator(
    "group", Block(3, 6, rate=0.3, finished=True), comm="the group", weight=8
)


@suite.test(
    "activations", "memory", KeptForBackward(8, 256, (64, 32), 0.1), checked=False, weight=16
)
def test_activations_of_norm_and_dropout_are_cut(case, run):
    assert_all_work(run, case, 0.33)  # the forward pass has a third of the products
    own, (d, h) = case.n // case.p, case.widths
    allowed = 8 * (case.n * d + own * (6 * d + 4 * h)) + (1 << 14)
    for rank in range(case.p):
        live = run.memory[rank]["live"]
        kept = live["activations"] + live["communication"]
        if kept > allowed:
            raise case.fail(
                f"rank {rank} keeps {kept} bytes of activations for the backward pass; at most "
                f"{allowed} are allowed: {case.n} positions as w1's input, {own} of all else."
            )


@suite.test("memory", "memory", Block(4, 4, (24, 80), measure=True), checked=False, weight=4)
def test_a_block_keeps_its_parts(case, run):
    assert_all_work(run, case)
    assert_held(run, case, "the block")


test_any_order_and_everything_waited_for = suite.slow_messages(
    "messages", Block(3, 6), kinds=EVERYTHING, weight=6
)


@suite.test("time", "speed", Block(4, 32, (32, 128), machine="slow cores"))
def test_time_on_8_ranks(case, run):
    assert_all_work(run, case)
    machine, p, (d, _) = machine_of(case), case.p, case.widths
    gather_s = ring_s(machine, p, case.n * d * 8, rounds=1)
    bound_s = case.flops / p / machine.flop_per_s + 5 * gather_s + 3 * ring_s(machine, p, d * 8)
    assert_makespan(run, bound_s, case)
