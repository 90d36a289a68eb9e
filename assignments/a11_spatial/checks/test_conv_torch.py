"""conv_torch.py: rows of the whole convolution, halos between neighbours, and one sum."""

from checks.cases_torch import IMAGES, WEIGHTS, Conv2d, RefusedConv
from ringside.checking import assert_bytes, assert_makespan, assert_messages
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

SMALL, LARGE = "filters of one element", "larger filters"
DIFFER, LOW = "heights that differ", "parts as low as the halo"
REFUSED = "arguments that are refused"
SINGLE, HALF = "float32", "bfloat16"
GAPS, SUM = "tensors with gaps", "the gradient of a sum"
NO_BIAS, TWICE = "no bias", "two calls in one graph"
BOTH = "y and dx", "dw and db"
DATA, FROZEN, BIAS = "x is data", "frozen weights", "a bias alone"
WRONG = [RefusedConv(2, 2, 4), RefusedConv(2, 5, 1)]
FAR = "name=far,alpha_s=0.001,beta_s_per_byte=1e-09,flop_per_s=1e12"
SLOW = "name=slow cores,alpha_s=2e-06,beta_s_per_byte=2e-09,flop_per_s=1e9"
suite = Suite("conv_torch")


@suite.test(
    "values",
    "values",
    Conv2d(2, (4,), 2, parts=IMAGES),
    Conv2d(3, (3,), 2, (3, 1), parts=IMAGES),
    weight=1,
)
def test_rows_and_gradients_on_2_to_5_ranks(case, run):
    """y and dx alone."""


@suite.test(
    "gradients",
    "values",
    Conv2d(2, (4,), 2, parts=WEIGHTS),
    Conv2d(3, (3,), 2, (3, 1), parts=WEIGHTS),
    weight=1,
)
def test_gradients_of_weights_and_biases(case, run):
    """dw and db alone."""


@suite.test(
    "kernels", "values",
    group(SMALL, Conv2d(3, kernel=1)), group(LARGE, Conv2d(3, kernel=5), weight=2),
    checked=False, weight=1,
)  # fmt: skip
def test_kernels_of_1_and_5(case, run):
    case.check_each(run)
    if case.kernel == 1:
        case.check_moved(run)


@suite.test(
    "heights", "values", group(DIFFER, Conv2d(3, (4, 1, 6), parts=IMAGES), weight=2),
    group(LOW, Conv2d(2, (1,), parts=IMAGES), Conv2d(1, parts=IMAGES)),
    group(REFUSED, Conv2d(2, parts=IMAGES), *WRONG), weight=1,
)  # fmt: skip
def test_uneven_heights_and_low_parts(case, run):
    if isinstance(case, RefusedConv):
        assert_messages(run, [0] * case.p, case)


@suite.test(
    "dtypes", "values", group(SINGLE, Conv2d(3, dtype="float32")),
    group(HALF, Conv2d(3, dtype="bfloat16")), checked=False, weight=1,
)  # fmt: skip
def test_float32_and_bfloat16(case, run):
    case.check_each(run)


@suite.test(
    "graph", "values", group(GAPS, Conv2d(3, batch=2, how="gaps")),
    group(SUM, Conv2d(3, batch=2, how="sum")), group(NO_BIAS, Conv2d(2, bias=False)),
    group(TWICE, Conv2d(3, how="together"), weight=8), checked=False,
)  # fmt: skip
def test_gaps_sums_no_bias_and_two_calls(case, run):
    case.check_each(run)


test_real_gloo = suite.real_ranks("group", Conv2d(3), weight=6)


@suite.test("sparing", "communication", Conv2d(3, needs="none"), checked=False, weight=4)
def test_rows_go_from_neighbour_to_neighbour(case, run):
    case.check_collectives(run)
    case.check_peers(run, ends=True)


@suite.test(
    "sparing",
    "communication",
    Conv2d(2, needs="none"),
    Conv2d(5, channels=(3, 2), needs="none"),
    weight=5,
)
def test_bytes_of_the_halos_forward(case, run, ranks):
    bounds = [case.halo_bytes(rank, case.channels[0]) for rank in range(case.p)]
    ranks.record(case, run, {"sent_bytes": bounds})
    assert_bytes(run, bounds, case)
    case.check_peers(run)


@suite.test(
    "sparing",
    "communication",
    Conv2d(2),
    Conv2d(5, channels=(3, 2)),
    Conv2d(3, dtype="float32"),
    checked=False,
    weight=9,
)
def test_bytes_of_both_passes(case, run, ranks):
    case.check_each(run)
    ranks.record(case, run, {"sent_bytes": case.allowed_bytes})
    case.check_moved(run)


@suite.test(
    "sparing", "communication", group(DATA, Conv2d(3, needs="weights")),
    group(FROZEN, Conv2d(3, needs="x")), group(BIAS, Conv2d(3, needs="bias")), weight=9,
)  # fmt: skip
def test_gradients_that_nobody_asked_for_send_nothing(case, run):
    case.check_moved(run)


test_given_group_is_used = suite.given_communicator(
    "group", group(BOTH[0], Conv2d(3, (3,), parts=IMAGES)),
    group(BOTH[1], Conv2d(3, (3,), parts=WEIGHTS)), comm="the group", weight=9,
)  # fmt: skip
test_sends_may_wait_and_all_is_completed = suite.slow_messages(
    "waits",
    Conv2d(4, (3,), parts=IMAGES),
    kinds=[Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE],
)


@suite.test(
    "time", "speed", group("one halo", Conv2d(4, needs="none", machine=FAR)),
    group("both passes", Conv2d(4, channels=(8, 8), width=16, machine=SLOW)),
)  # fmt: skip
def test_time_of_a_halo_and_of_both_passes(case, run):
    done = sum(run.num_flops())
    if case.needs == "all" and done < 3 * case.num_flops * (1 - 1e-9):
        raise case.fail(
            f"all ranks together counted {done:.6g} floating-point operations; the convolution "
            f"and its gradients take {3 * case.num_flops:.6g}."
        )
    assert_makespan(run, case.takes_s(), case)
