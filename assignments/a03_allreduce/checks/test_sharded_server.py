"""sharded_server.py: rank i serves shard i."""

import numpy as np
from given.shards import shard_bounds

from checks.cases import Server
from checks.network import assert_own_data, assert_time, exchanged, pairs
from checks.sums import Sums, shares
from ringside.checking import assert_pairs

suite = Sums("sharded_server", Server)


@suite.test("a_server_each", "communication", Server(8, 32), checked=False)
def test_every_two_ranks_exchange_shards(case, run):
    both = exchanged(run, case)
    for a, b in pairs(case.p):
        if both[a, b] < case.shard_nbytes:
            raise case.fail(
                f"rank {a} and rank {b} exchanged {both[a, b]} bytes; each rank serves a shard of "
                f"{case.shard_nbytes} bytes, so every two ranks exchange shards."
            )
        if both[a, b] > 1.5 * case.nbytes:
            raise case.fail(
                f"rank {a} and rank {b} exchanged {both[a, b]} bytes, as much as whole vectors; "
                f"each rank adds up its own shard only, of {case.shard_nbytes} bytes."
            )


test_sum_on_2_4_and_8_ranks = suite.powers_of_two("sum", weight=4)
test_sum_on_3_5_6_and_7_ranks = suite.other_sizes("sum", weight=9)
test_dtype_is_kept_and_integers_are_exact = suite.dtypes("sum", weight=4)
test_inputs_may_have_gaps_and_stay_as_they_were = suite.inputs("own_arrays", weight=5)
test_second_call_is_independent = suite.again("own_arrays", weight=15)
test_real_mpi = suite.real("own_arrays", weight=2)


@suite.test("bytes", "communication", *shares(Server(3, 4, "float32"), Server(4, 8)))
def test_bytes_between_each_pair(case, run, ranks):
    """Rank i sends rank j shard j to be added and shard i when it is."""
    assert_own_data(run, case)
    bounds = [shard_bounds(case.n, case.p, rank) for rank in range(case.p)]
    sizes = np.array([(hi - lo) * case.itemsize for lo, hi in bounds])
    allowed = sizes[:, None] + sizes[None, :]
    np.fill_diagonal(allowed, 0)
    ranks.record(case, run, {"sent_bytes": allowed.sum(axis=1).tolist()})
    assert_pairs(run, allowed, case)


test_given_communicator_is_used = suite.in_part("communicator")
test_only_point_to_point_calls = suite.point_to_point("messages")
test_sends_may_wait_for_their_receives = suite.waiting("any_timing", weight=5)
test_messages_may_arrive_in_any_order = suite.any_order("any_timing", weight=14)


@suite.test("time", "speed", Server(8, 10_000, machine="long wire"))
def test_time_with_long_vectors(case, run):
    assert_time(run, case, half=1.2)
