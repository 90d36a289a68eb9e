"""compress_torch.py: two thin all-reduces for a matrix, and a residual that loses nothing."""

from checks.cases import assert_equal_copies
from checks.cases_torch import Compress, CompressInTurns, RefusedCompress, ops_of_ranks, ring_s
from ringside.checking import assert_makespan, assert_moved
from ringside.checking.cases import machine_of
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

suite = Suite("compress_torch")
SLOW = "name=slow wire,alpha_s=0.0001,beta_s_per_byte=1e-06"
LARGE, SMALL = "a large matrix", "a small matrix"


def one_call(p, shape, approx_rank, **fields):
    """A call of which only the mean is compared."""
    return Compress(p, shape, approx_rank, means_only=True, **fields)


@suite.test("thin", "communication", one_call(4, (12, 16), 1), checked=False)
def test_thin_matrices_travel(case, run):
    """Something travels between ranks, and it is less than half of the gradients."""
    nbytes = case.shape[0] * case.shape[1] * case.itemsize
    for rank, ops in enumerate(run.trace.ops):
        sent = sum(op.nbytes for op in ops if op.kind in (Kind.COLLECTIVE, Kind.ISEND))
        if not 0 < sent < nbytes / 2:
            raise case.fail(
                f"rank {rank} handed over {sent} bytes to be summed; the gradients are {nbytes} "
                "bytes, and two thin matrices travel instead of them."
            )


@suite.test("mean", "values", one_call(2, (6, 9), 1), one_call(3, (9, 5), 2), weight=3)
def test_first_call_on_2_to_5_ranks(case, run):
    """The mean in low rank."""


@suite.test("residual", "values", Compress(2, (5, 8), 2, 4))
def test_what_was_left_out_is_sent_later(case, run):
    """The means and residuals of some calls."""


@suite.test("residual", "values", CompressInTurns(2, (6, 9), 2))
def test_state_and_results_belong_to_one_gradient(case, run):
    """Two gradients of the same shape in turns."""


@suite.test(
    "mean", "values", Compress(2, (7,), 2, 2), Compress(2, (9, 2), 2, 2),
    Compress(2, (3, 8), 4, 2), Compress(2, (), 1, 2), Compress(2, (0, 5), 1, 2),
)  # fmt: skip
def test_vectors_and_small_sides_go_uncompressed(case, run):
    """Nothing is left out of them."""


@suite.test(
    "residual", "values", Compress(2, (4, 3, 3), 2, 2), Compress(2, (6, 8), 2, 3, dtype="float32"),
    weight=1.3,
)  # fmt: skip
def test_more_dimensions_and_float32(case, run):
    """The first dimension against all others."""


@suite.test("zeros", "values", Compress(2, (6, 7), 2, 3, "zeros"))
def test_zeros_lose_nothing(case, run):
    """P has orthonormal columns all the same."""


@suite.test(
    "refused", "values", RefusedCompress(2, 0), RefusedCompress(2, residual_shape=(6, 4)),
)  # fmt: skip
def test_wrong_arguments_are_refused(case, run):
    """Before any message."""


test_real_gloo = suite.real_ranks("group", one_call(2, (6, 9), 2), weight=2)


@suite.test(
    "cost", "communication", one_call(2, (9, 14), 2), one_call(3, (12, 7), 1, dtype="float32"),
    one_call(3, (6, 9), 2, num_calls=3), checked=False,
)  # fmt: skip
def test_bytes_in_low_rank(case, run, ranks):
    """All-reduces of at most r (n + m) elements a call, or of the gradient where it goes whole."""
    allowed = case.num_calls * sum(case.lengths) * case.itemsize
    for rank, ops in enumerate(ops_of_ranks(run, case)):
        nbytes = sum(op.nbytes for op in ops if op.kind == Kind.COLLECTIVE)
        if nbytes > allowed:
            raise case.fail(
                f"rank {rank} all-reduced {nbytes} bytes in all calls; at most {allowed} are "
                "asked for."
            )
    bound = 2 * (case.p - 1) / case.p * allowed
    ranks.record(case, run, {"sent_bytes": [round(bound)] * case.p})
    assert_moved(run, bound, case)


@suite.test("copies", "communication", one_call(3, (7, 9), 2), checked=False)
def test_means_are_equal_bit_for_bit(case, run):
    means = [[mean for mean, _ in value] for value in run.values]
    assert_equal_copies(case, means, "mean")


test_given_group_is_used = suite.given_communicator(
    "group", one_call(3, (6, 9), 2), comm="the group", weight=2
)
test_messages_may_be_slow_and_are_completed = suite.slow_messages(
    "group", one_call(3, (6, 9), 2), kinds=[Kind.COLLECTIVE]
)


@suite.test(
    "cost", "speed", group(LARGE, one_call(8, (24, 16), 2, machine=SLOW)),
    group(SMALL, one_call(8, (8, 10), 2, machine=SLOW)), checked=False,
)  # fmt: skip
def test_time_of_a_large_and_a_small_matrix(case, run):
    machine = machine_of(case)
    assert_makespan(run, sum(ring_s(n, case.p, machine, case.itemsize) for n in case.lengths), case)
