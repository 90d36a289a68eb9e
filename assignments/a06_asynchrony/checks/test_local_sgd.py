"""local_sgd.py: steps alone, an average after each period, and no bytes between."""

from checks.cases import (
    LocalSgd,
    LocalSgdTwice,
    RefusedLocalSgd,
    assert_averages,
    assert_equal_copies,
)
from ringside.checking import assert_makespan
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

suite = Suite("local_sgd")
EVEN, ODD = "lengths that p divides", "lengths that p does not divide"
SHAPES = ((5, 6), (6,), (6, 3), (6,))  # 60 elements, which 2, 3, 4, 5 and 12 divide
CORNERS = ((3, 2), (), (0, 2), (1,))
SLOW_RANKS = "textbook,flop_per_s=8e8"  # a gradient takes time
SLOWER_RANKS = "textbook,flop_per_s=1e7"  # so does that of a few hundred elements


@suite.test("local_steps", "communication", LocalSgd(4, 4, 2, ((4, 5),)), checked=False)
def test_ranks_meet_once_a_period(case, run):
    """How many bytes are sent, and after which step, is not looked at."""
    moved = {}  # bytes of all ranks, by how many gradients a rank had computed
    for rank, ops in enumerate(run.trace.ops):
        computed = 0
        for op in ops:
            if op.kind == Kind.COMPUTE and str(op.detail[3]).startswith("gradient"):
                computed += 1
            elif op.kind in (Kind.ISEND, Kind.COLLECTIVE):
                moved[computed] = moved.get(computed, 0) + op.nbytes
        if computed < case.num_steps // 2:
            raise case.fail(
                f"rank {rank} computed {computed} gradients; it takes {case.num_steps}."
            )
    times = sum(nbytes >= case.nbytes for nbytes in moved.values())
    if not 1 <= times <= case.rounds:
        found = "never" if times == 0 else f"after {times} of {case.num_steps} steps"
        raise case.fail(
            f"the ranks averaged {found}; {case.rounds} averages are asked for, one after each "
            "period."
        )


@suite.test(
    "average", "values", group(EVEN, LocalSgd(2, 6, 3), LocalSgd(3, 8, 2), weight=4),
    group(ODD, LocalSgd(4, 4, 2), weight=8), weight=11,
)  # fmt: skip
def test_serial_recursion_on_2_to_5_ranks(case, run):
    """The number of steps is a multiple of the period."""


@suite.test("last_period", "values", LocalSgd(2, 8, 3), LocalSgd(3, 3, 2), LocalSgd(3, 2, 5))
def test_last_partial_period_is_averaged(case, run):
    """It isn't a multiple."""


@suite.test("average", "values", LocalSgd(3, 4, 1), weight=9)
def test_period_1_is_data_parallelism(case, run):
    """The mean of the steps is a step along the mean of the gradients."""


@suite.test(
    "arrays", "values", LocalSgd(2, 0, 2), LocalSgd(1, 4, 2), RefusedLocalSgd(3, 5, 0),
    RefusedLocalSgd(3, -1, 2),
)  # fmt: skip
def test_no_steps_one_rank_and_wrong_numbers(case, run):
    """Without a step there is no average."""


@suite.test(
    "arrays", "values", LocalSgd(2, 4, 2, CORNERS, "float32"), LocalSgd(3, 4, 2, CORNERS),
    LocalSgd(3, 4, 2, nan_of=1), weight=2,
)  # fmt: skip
def test_any_arrays(case, run):
    """Also without dimensions, without elements, in float32 and with NaN."""


@suite.test("calls", "values", LocalSgdTwice(2, 4, 2), LocalSgdTwice(2, 0, 2), weight=7)
def test_params_stay_and_results_are_new(case, run):
    """Nothing is kept from one call to the next."""


test_real_mpi = suite.real_ranks("calls", LocalSgd(3, 4, 2), LocalSgd(3, 3, 3), weight=4)


@suite.test(
    "bytes", "communication", group(EVEN, LocalSgd(2, 6, 3), LocalSgd(3, 4, 2)),
    group(ODD, LocalSgd(4, 2, 1)), group("float32", LocalSgd(2, 4, 2, dtype="float32"), weight=3),
    checked=False,
)  # fmt: skip
def test_bytes_of_one_all_reduce_a_period(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.ring_nbytes] * case.p})
    assert_averages(run, case, case.ring_nbytes)


@suite.test("copies", "communication", LocalSgd(3, 4, 2), LocalSgd(4, 5, 2), checked=False)
def test_copies_are_equal_bit_for_bit(case, run):
    """Whatever their values are."""
    assert_equal_copies(case, run.values, "parameter")


test_given_communicator_is_used = suite.given_communicator("calls", LocalSgd(3, 4, 2), weight=5)
test_sends_may_wait_and_messages_may_be_slow = suite.slow_messages(
    "time", LocalSgd(3, 4, 2), kinds=[Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE], weight=5
)


@suite.test(
    "time", "speed", LocalSgd(8, 6, 2, ((90, 100),), "float32", machine=SLOW_RANKS), weight=6
)
def test_time_on_16_ranks(case, run):
    assert_makespan(run, case.time_s, case)


@suite.test("time", "speed", LocalSgd(8, 6, 2, ((5, 4), (4,)) * 8, machine=SLOWER_RANKS), weight=8)
def test_small_arrays_travel_together(case, run):
    assert_makespan(run, case.time_s, case)
