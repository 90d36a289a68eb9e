"""The cases of the hidden run: other sizes, worlds and dtypes. Their values come from the secret of
the course."""

from checks import test_prefix_torch as tests
from checks.cases import PrefixSum

from ringside.checking.suite import hidden

# Of one dtype and plain lengths: what is asked of them shall not fail for another reason.
PLAIN = [PrefixSum(p, n) for p, n in ((2, 9), (3, 16), (5, 53), (8, 24))]

hidden(
    tests.test_sums_on_1_2_and_4_ranks,
    *(PrefixSum(p, n) for p, n in ((2, 0), (2, 17), (4, 1), (4, 1003), (1, 5))),
)
hidden(
    tests.test_sums_on_3_5_and_8_ranks, *(PrefixSum(p, n) for p, n in ((3, 2), (5, 203), (8, 8)))
)
hidden(
    tests.test_dtype_is_kept_and_integers_are_exact,
    *(PrefixSum(p, 13, dtype) for dtype in ("float32", "int64") for p in (1, 3, 4)),
)
hidden(tests.test_second_call_is_independent, PrefixSum(2, 9), PrefixSum(5, 9))
hidden(tests.test_real_gloo, *(PrefixSum(p, n) for p in (4, 3) for n in (1, 503)))
hidden(tests.test_bytes_per_rank, *PLAIN)
hidden(tests.test_given_group_is_used, PrefixSum(3, 10), PrefixSum(4, 6))
hidden(tests.test_only_point_to_point_calls, PrefixSum(5, 53))
hidden(tests.test_sends_may_wait_for_their_receives, *PLAIN)
hidden(tests.test_messages_may_arrive_in_any_order, PrefixSum(4, 21), PrefixSum(5, 3))
hidden(
    tests.test_time_with_long_vectors,
    *(PrefixSum(p, n, machine="long wire") for p, n in ((4, 1300), (7, 1250))),
)
