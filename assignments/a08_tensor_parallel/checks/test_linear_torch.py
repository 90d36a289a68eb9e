"""linear_torch.py: the operators f and g, and the layers that they make."""

from checks.cases_torch import CopyToGroup, Pair, ReduceFromGroup, TwoGroups, ring_s
from checks.network import (
    EVERYTHING,
    assert_alike,
    assert_all_work,
    assert_bytes,
    assert_cut,
    assert_held,
    assert_unchanged,
    stretched,
)
from ringside.checking import assert_makespan
from ringside.checking.cases import machine_of
from ringside.checking.suite import Suite, group

suite = Suite("linear_torch")
SMALL, WIDE = (6, 8, 5), (40, 96, 24)
TIMED = (32, 128, 32)


def both(*forms, **fields):
    """Both operators, of ``(p, shape)`` each."""
    return [kind(*form, **fields) for form in forms for kind in (CopyToGroup, ReduceFromGroup)]


@suite.test(
    "operators",
    "values",
    group("f", CopyToGroup(3, (5, 2)), CopyToGroup(2, (2, 3, 4), "float32")),
    group("g", ReduceFromGroup(3, (5, 2)), ReduceFromGroup(2, (2, 3, 4), "float32")),
    group("tensors with gaps", *both((3, (5, 2)), how="gaps"), *both((3, (5, 2)), how="sum")),
)
def test_f_and_g_and_their_gradients(case, run):
    """Results and vector-Jacobian products; of plain tensors to the last digit."""
    if not case.how:
        case.check_exactly(run)


@suite.test(
    "incoming",
    "safety",
    group("operators", *both((2, (4, 3)), how="shared"), weight=3),
    group("layers", Pair(2, 4)),
    weight=14,
)
def test_incoming_gradients_and_inputs_stay(case, run):
    if isinstance(case, Pair):
        assert_unchanged(run, case)


@suite.test("values", "values", Pair(2, 4, (6, 12, 4)), Pair(4, 4, (6, 12, 4)), weight=3)
def test_layers_equal_serial_on_2_to_8_ranks(case, run):
    """Plain sizes: p divides the rows and what is cut. Only the next test has others."""
    case.check_exactly(run)


@suite.test(
    "parts",
    "values",
    group("parts of unequal length", Pair(3, 4, (3, 7, 2)), Pair(3, 4, (3, 2, 5)), weight=3),
    group(
        "other shapes and dtypes",
        Pair(3, 4, (3, 4, 5), biases=False),
        Pair(2, 4, (3, 4, 5), (2, 2), "float32", how="gaps"),
    ),
    group("frozen parameters", *(Pair(2, 4, (3, 4, 5), needs=needs) for needs in ("x", "biases"))),
)
def test_other_parts_shapes_and_frozen_parameters(case, run):
    """Parts may be empty, and a bias may be None."""
    case.check_exactly(run)


@suite.test(
    "several",
    "values",
    Pair(2, 4, steps=2),
    Pair(2, 4, steps=2, how="together"),
    weight=13,
)
def test_gradients_add_up(case, run):
    """Together: all forward passes, then the backward passes, the last one first."""
    case.check_exactly(run)


@suite.test("alike", "values", Pair(3, 6, (40, 96, 24)))
def test_replicas_are_equal_bit_for_bit(case, run):
    assert_alike(run, case)


test_real_gloo = suite.real_ranks("values", Pair(2, steps=2), weight=1)


@suite.test("cut", "communication", Pair(4, 4, (16, 400, 16)), checked=False)
def test_the_layers_are_cut(case, run):
    assert_cut(run, case)


@suite.test(
    "bytes",
    "communication",
    group("inputs that need a gradient", Pair(3, 6, WIDE), weight=3),
    group(
        "inputs that need none",
        Pair(2, 12, SMALL, needs="weights"),
        Pair(3, 6, WIDE, needs="none"),
        weight=3,
    ),
    group("float32", Pair(2, 6, WIDE, dtype="float32"), weight=2),
)
def test_bytes_of_a_pair(case, run, ranks):
    what = "an all-reduce of the result forward, one of the gradient of x backward"
    if case.needs in ("none", "weights"):
        what = "one all-reduce of the result"
    assert_bytes(run, case, ranks, what)


test_given_groups_are_used = suite.given_communicator(
    "group",
    group("some ranks of a larger world", Pair(3, 6, (5, 7, 4))),
    group("two groups in one graph", TwoGroups()),
    comm="the group",
    weight=6,
)


@suite.test("memory", "memory", Pair(4, 3, (40, 64, 40), measure=True), checked=False)
def test_a_layer_keeps_its_parts(case, run):
    assert_all_work(run, case)
    assert_held(run, case, "the column-parallel layer", "the row-parallel layer")


test_any_order_and_everything_waited_for = suite.slow_messages(
    "messages", Pair(3, 6, SMALL), kinds=EVERYTHING, weight=6
)


@suite.test("time", "speed", group("8 ranks", Pair(4, 32, TIMED, machine="slow cores")))
def test_time_on_8_and_64_ranks(case, run):
    """Hidden columns of a rank stay when ranks are added."""
    assert_all_work(run, case)
    machine = machine_of(case)
    taken, p = stretched(run, case.wide, machine)
    work_s = case.flops / case.p / machine.flop_per_s
    bound_s = work_s + sum(ring_s(machine, p, 8 * case.n * d) for d in case.widths[::2])
    wide = None if taken is run else p
    assert_makespan(taken, bound_s, case, beside=f" Stretched to {p} ranks." if wide else "")
