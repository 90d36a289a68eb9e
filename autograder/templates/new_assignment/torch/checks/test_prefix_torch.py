"""prefix_torch.py: sums of all ranks up to one's own.

The cases here are public; a hidden run asks the same of others.
"""

from checks.cases import PrefixSum
from ringside.checking import assert_bytes, assert_makespan, assert_own_messages
from ringside.checking.cases import machine_of
from ringside.checking.suite import Suite

suite = Suite("prefix_torch")


@suite.test("sums", "values", PrefixSum(4, 8), PrefixSum(1, 5), PrefixSum(4, 0), weight=4)
def test_sums_on_1_2_and_4_ranks(case, run):
    """The values have been compared: that is all."""


@suite.test("sums", "values", PrefixSum(3, 11), weight=2)
def test_sums_on_3_5_and_8_ranks(case, run):
    """As above."""


@suite.test("sums", "values", PrefixSum(3, 7, "float32"), PrefixSum(3, 7, "int64"))
def test_dtype_is_kept_and_integers_are_exact(case, run):
    """As above."""


test_second_call_is_independent = suite.second_call("sums", PrefixSum(3, 6))
test_real_gloo = suite.real_ranks("sums", PrefixSum(3, 6))


@suite.test("bytes", "communication", PrefixSum(4, 10))
def test_bytes_per_rank(case, run, ranks):
    allowed = [case.nbytes] * case.p
    ranks.record(case, run, {"sent_bytes": allowed})
    assert_bytes(run, allowed, case)


test_given_group_is_used = suite.given_communicator("group", PrefixSum(3, 5), comm="the group")


@suite.test("own_messages", "communication", PrefixSum(4, 10))
def test_only_point_to_point_calls(case, run):
    assert_own_messages(run, case)


test_sends_may_wait_for_their_receives = suite.waiting_sends("waits", PrefixSum(4, 9))
test_messages_may_arrive_in_any_order = suite.slow_messages("waits", PrefixSum(4, 9))


@suite.test("time", "speed", PrefixSum(5, 1250, machine="long wire"))
def test_time_with_long_vectors(case, run):
    assert_own_messages(run, case)
    machine = machine_of(case)
    wire_s = machine.alpha_s + case.nbytes * machine.beta_s_per_byte
    assert_makespan(run, (case.p - 1) * wire_s, case)
