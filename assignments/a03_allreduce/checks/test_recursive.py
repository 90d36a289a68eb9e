"""recursive.py: log2(p) steps, whole vectors or ever smaller parts."""

from checks.cases import Doubling, Halving
from checks.network import assert_own_data, assert_time, exchanged
from checks.sums import Sums, shares
from ringside.checking import assert_bytes, assert_messages
from ringside.checking.suite import group

suite = Sums("recursive", Doubling, Halving)


def assert_scheme(case, run):
    """log2(p) partners, where p is a power of two; and the parts of halving become shorter."""
    for rank, row in enumerate(exchanged(run, case)):
        partners = int((row >= case.shard_nbytes).sum())
        if partners != case.steps:
            raise case.fail(
                f"rank {rank} exchanged data with {partners} other ranks; in log2(p) steps it has "
                f"{case.steps} partners."
            )
        parts = sorted(int(nbytes) for nbytes in row)[-case.steps :]
        if isinstance(case, Doubling) and parts[0] < 2 * case.nbytes:
            raise case.fail(
                f"rank {rank} exchanged {parts[0]} bytes with a partner; in recursive doubling a "
                f"vector of {case.nbytes} bytes goes each way."
            )
        if isinstance(case, Halving) and parts[-1] < 2 * parts[0]:
            raise case.fail(
                f"rank {rank} exchanged {parts[0]} to {parts[-1]} bytes with its partners; in "
                "halving, each exchange is half as long as the one before."
            )


def assert_scheme_at_8(case, run):
    """One function can't stand for the other: it is the scheme, beside the sum."""
    case.check_exactly(run)
    if case.p == 8 and case.n >= 24:
        assert_scheme(case, run)


@suite.test(
    "partners", "communication", group("recursive_doubling", Doubling(8, 24)),
    group("halving_doubling", Halving(8, 24)), checked=False,
)  # fmt: skip
def test_each_rank_has_log2_p_partners(case, run):
    assert_scheme(case, run)


test_recursive_doubling_on_2_4_and_8_ranks = suite.powers_of_two(
    "doubling", Doubling, assert_scheme_at_8, weight=7
)
test_recursive_doubling_on_3_5_6_and_7_ranks = suite.other_sizes("doubling", Doubling, weight=6)
test_halving_doubling_on_2_4_and_8_ranks = suite.powers_of_two(
    "halving", Halving, assert_scheme_at_8, weight=7
)
test_halving_doubling_on_3_5_6_and_7_ranks = suite.other_sizes("halving", Halving, weight=5)
test_dtype_is_kept_and_integers_are_exact = suite.dtypes("dtype")
test_inputs_may_have_gaps_and_stay_as_they_were = suite.inputs("own_arrays", weight=4)
test_second_call_is_independent = suite.again("own_arrays", weight=12)
test_real_mpi = suite.real("own_arrays", weight=2)


@suite.test(
    "doubling", "communication", *shares(Doubling(4, 12), Doubling(5, 12, "float32")), weight=5
)
def test_recursive_doubling_bytes_and_messages(case, run, ranks):
    """log2 of the power of two, and the fold."""
    assert_own_data(run, case)
    ranks.record(case, run, {"sent_bytes": [case.most_nbytes] * case.p})
    assert_bytes(run, [case.most_nbytes] * case.p, case)
    assert_messages(run, [case.steps + case.fold] * case.p, case)


@suite.test(
    "halving", "communication", *shares(Halving(4, 12), Halving(5, 12, "float32")), weight=7
)
def test_halving_doubling_bytes(case, run, ranks):
    assert_own_data(run, case)
    ranks.record(case, run, {"sent_bytes": [case.most_nbytes] * case.p})
    assert_bytes(run, [case.most_nbytes] * case.p, case)


test_given_communicator_is_used = suite.in_part("communicator")
test_only_point_to_point_calls = suite.point_to_point("messages")
test_sends_may_wait_for_their_receives = suite.waiting("any_timing", weight=5)
test_messages_may_arrive_in_any_order = suite.any_order("any_timing", weight=10)


def assert_time_of(case, run):
    """Long vectors and short ones share the points."""
    limits = {"full": 2.5, "half": 4} if case.machine == "short wire" else {}
    assert_time(run, case, **limits)


@suite.test(
    "time", "speed",
    group("long vectors", Doubling(8, 10_000, machine="long wire"), weight=2),
    group("short vectors", Doubling(8, 16, machine="short wire")),
)  # fmt: skip
def test_recursive_doubling_time(case, run):
    assert_time_of(case, run)


@suite.test(
    "time", "speed",
    group("long vectors", Halving(8, 10_000, machine="long wire"), weight=2),
    group("short vectors", Halving(8, 16, machine="short wire")),
)  # fmt: skip
def test_halving_doubling_time(case, run):
    assert_time_of(case, run)
