"""The cases of the hidden run: other worlds and sizes, and deaths at other moments."""

import math

from checks import test_checked as checked
from checks import test_checkpoint as checkpoint
from checks import test_elastic as elastic
from checks import test_heal_torch as heal
from checks import test_interval as interval
from checks import test_neighbour as neighbour
from checks.cases import Anywhere, Elastic, Faulty
from checks.cases_checked import Products, Sum
from checks.cases_checkpoint import Both, Load, Save
from checks.cases_heal_torch import Healing
from checks.cases_interval import BestInterval, LostShare, Walk
from checks.cases_neighbour import Copies, Recovery
from hidden import recorder_cases  # noqa: F401 - gives the tests of recorder.py their cases

from ringside.checking.suite import group, hidden, oracle

# -- elastic ---------------------------------------------------------------------------------------

hidden(elastic.test_nobody_dies, Elastic(2), Elastic(1), Elastic(6, n=40), Elastic(12, n=5))
hidden(elastic.test_second_call_and_inputs, Elastic(4, n=6, batch=8, announced=False))
hidden(elastic.test_under_real_mpi, Elastic(3, n=8, batch=8, announced=False))
hidden(
    elastic.test_other_errors_come_out,
    group("ValueError", Faulty(4, num_steps=2)),
    group("MPI", Faulty(2, error="MPI")),
)
hidden(
    elastic.test_a_death_between_two_steps,
    group("2 ranks", Elastic(2, n=5, batch=6)),
    group("more", Elastic(3), Elastic(5, n=8, batch=20, num_steps=2)),
)
hidden(
    elastic.test_a_death_in_the_sum, Elastic(5, batch=20, num_steps=2), Elastic(3, n=4, num_steps=2)
)
hidden(elastic.test_a_death_anywhere, Anywhere(3, n=3, batch=6, num_steps=2))
hidden(elastic.test_several_die_at_once, Elastic(4, n=6, num_steps=2), Elastic(6, n=3, num_steps=2))
hidden(elastic.test_a_death_while_the_others_recover, Elastic(4, n=6, num_steps=2))
hidden(elastic.test_batches_that_p_does_not_divide, Elastic(4, batch=9), Elastic(7, batch=5))
hidden(elastic.test_copies_have_the_same_bits, Elastic(5, n=13, batch=20), Elastic(3, n=9))
hidden(elastic.test_samples_of_each_rank, Elastic(5, num_steps=3, batch=20))
hidden(elastic.test_bytes_per_rank, Elastic(3, n=100), Elastic(10, n=41), Elastic(17, n=20))
hidden(elastic.test_time, Elastic(6, num_steps=3, batch=30, machine="slow_cores"))
hidden(
    elastic.test_given_communicator_is_used,
    group("nobody dies", Elastic(4, n=5)),
    group("rank 1 dies", Elastic(4, kill="1@op2")),
)
hidden(elastic.test_sends_may_wait_and_come_in_any_order, Elastic(3, batch=6), Elastic(5, batch=10))

# -- checkpoint ------------------------------------------------------------------------------------

hidden(
    checkpoint.test_load_on_any_number_of_ranks,
    group("as many ranks", Load(3, length=24, writers=3)),
    group("fewer ranks", Load(2, length=40, writers=5), Load(4, length=9, writers=9)),
    group("more ranks", Load(7, length=30, writers=3), Load(17, length=40)),
)
hidden(
    checkpoint.test_short_and_empty_shards,
    Load(5, length=3, writers=3),
    Load(2, length=1, writers=5),
    Load(7, length=17, writers=5),
    Load(2, length=0, writers=3),
)
hidden(
    checkpoint.test_dtypes,
    Load(5, length=3, dtype="float32", writers=2),
    Load(3, length=10, dtype="int64"),
)
hidden(
    checkpoint.test_the_newest_step,
    Load(2, steps=(99, 100), writers=3),
    Load(3, steps=(0, 7, 10), writers=2),
)
hidden(checkpoint.test_an_empty_store, Load(3, steps=()))
hidden(
    checkpoint.test_each_rank_writes_its_shard,
    Save(5, length=1003),
    Save(16, length=1000, dtype="float32", before=(4,)),
)
hidden(
    checkpoint.test_each_rank_reads_its_shard,
    Load(2, length=1003, writers=5),
    Load(9, length=3000, dtype="float32"),
)
hidden(checkpoint.test_messages_of_save, Save(5, length=1000), Save(17, length=1000))
hidden(
    checkpoint.test_a_death_in_save,
    Load(2, length=7, writers=3),
    Load(4, length=40, writers=5, moments=10),
)
hidden(
    checkpoint.test_a_death_in_the_first_save,
    Load(3, length=9, writers=2, steps=(5,)),
    Load(2, steps=(10,), moments=8),
)
hidden(checkpoint.test_training_goes_on_after_a_death, Load(3, writers=4, moments=8))
hidden(
    checkpoint.test_what_a_failed_save_has_left_does_not_count,
    Load(4, writers=2),
    Load(3, length=40, writers=4),
)
hidden(checkpoint.test_leftovers_of_a_death_are_removed, Load(3, length=1100, writers=4, moments=3))
hidden(
    checkpoint.test_two_checkpoints_are_left, Save(4, step=32, before=(2, 8, 16, 24), length=900)
)
hidden(
    checkpoint.test_time_of_save,
    Save(6, length=60_000, dtype="float32", machine="slow_store"),
    Save(3, length=20_000, machine="slow_store"),
)
hidden(checkpoint.test_given_communicator_is_used, Both(5, length=14, readers=3))
hidden(checkpoint.test_sends_may_wait_and_come_in_any_order, Both(5, length=8, steps=(1, 2, 3)))
hidden(checkpoint.test_under_real_mpi, Both(4, length=9), Both(3, length=7, dtype="float32"))
# -- neighbour -------------------------------------------------------------------------------------

hidden(neighbour.test_copies_lie_on_another_node, Copies(6, 3), Copies(2, 1, n=1))
hidden(
    neighbour.test_pairs_of_nodes,
    group("pairs", Copies(8, 2), Copies(6, 1)),
    group("an odd number of nodes", Copies(5, 1), Copies(6, 2), Copies(7, 1)),
)
hidden(neighbour.test_the_next_step_changes_the_state, Copies(2, 1, n=40, in_place=True))
hidden(
    neighbour.test_the_next_step_changes_what_came_back, Recovery(6, 3, in_place=True, new=(1, 5))
)
hidden(
    neighbour.test_a_death_anywhere,
    group("a rank", Copies(4, dying=(1,)), Copies(2, 1, num_steps=4, dying=(0,))),
    group("a node", Copies(6, 3, num_steps=2, dying=(0, 1, 2))),
)
hidden(
    neighbour.test_all_get_the_newest_step,
    Recovery(4, new=(0,), ahead=(1, 3)),
    Recovery(6, 3, new=(3, 4, 5), ahead=(1, 2), step=1),
    Recovery(4, new=(0, 1), ahead=(3,)),
    Recovery(4, new=(), ahead=(0, 1, 3)),
    Recovery(4, new=(2,), ahead=()),
)
hidden(
    neighbour.test_a_state_that_nobody_has,
    Recovery(4, new=(1, 3), ahead=()),
    Recovery(2, 1, new=(0, 1), ahead=()),
)
hidden(neighbour.test_copies_are_renewed, Recovery(4, new=(0, 3), ahead=(2,)), Recovery(6, 3))
hidden(neighbour.test_a_second_loss, Copies(4, dying=(2, 0)))
hidden(
    neighbour.test_sends_may_wait_and_come_in_any_order,
    Copies(6, 3), Recovery(4, new=(0, 1), ahead=(3,)),
)  # fmt: skip
hidden(neighbour.test_given_communicator_is_used, Copies(4, n=5), Recovery(4, new=(1,)))
hidden(
    neighbour.test_second_call_and_inputs,
    Recovery(4, new=(3,)), Copies(2, 1, n=5, announced=False),
)  # fmt: skip
hidden(neighbour.test_under_real_mpi, Copies(4, announced=False), Recovery(4, new=(0,), ahead=(1,)))
hidden(neighbour.test_bytes_of_a_copy, Copies(6, 3, n=200), Copies(10, 5, n=40), Copies(18, 9, n=9))
hidden(neighbour.test_memory_has_two_steps, Copies(2, 1, num_steps=4))
hidden(neighbour.test_bytes_of_recovery, Recovery(4, n=300, new=(1,)), Recovery(6, 3, n=100))
hidden(
    neighbour.test_copies_hide_behind_the_step,
    Copies(4, n=2000, num_steps=1, num_flops=120_000_000, machine="long wire"),
)

# -- interval --------------------------------------------------------------------------------------


@oracle(LostShare)
def lost_share(case):
    """From the chance that an attempt succeeds, in work and writing, and in restarts."""

    def mean_s(attempt_s, after_stop_s):
        fails = -math.expm1(-attempt_s / case.between_s)
        if fails == 1:
            return math.inf
        return fails / (1 - fails) * (case.between_s + after_stop_s)

    return 1 - case.tau_s / mean_s(case.tau_s + case.write_s, mean_s(case.restart_s, 0.0))


@oracle(BestInterval)
def best_interval(case):
    """Newton's method on the derivative of E / tau, from above."""
    u, write = 1.0, case.write_s / case.between_s
    for _ in range(100):
        u -= (math.expm1(-u - write) + u) / -math.expm1(-u - write)
    return u * case.between_s


@oracle(Walk)
def walk(case):
    """Second by second."""
    useful_s = done_s = waits_s = 0.0
    for second in range(int(case.end_s)):
        if second in case.stops_s:
            done_s, waits_s = 0.0, case.restart_s
        if waits_s > 0:
            waits_s -= 1
            continue
        done_s += 1
        if done_s == case.tau_s + case.write_s:
            useful_s, done_s = useful_s + case.tau_s, 0.0
    return useful_s + min(done_s, case.tau_s)


def runs_drawn(rng, count=6):
    """Runs with stops at whole seconds."""
    return [
        Walk(
            float(rng.integers(10, 60)),
            float(rng.integers(1, 20)),
            float(rng.integers(0, 20)),
            tuple(sorted({float(each) for each in rng.integers(1, 900, size=rng.integers(2, 7))})),
            1000.0,
        )
        for _ in range(count)
    ]


hidden(
    interval.test_useful_seconds,
    group("no stop", Walk(60.0, 5.0, 10.0, (), 1000.0), Walk(60.0, 5.0, 10.0, (), 127.0)),
    group("stops in work", Walk(60.0, 5.0, 10.0, (100.0, 500.0), 1000.0), runs_drawn, weight=2),
    group("stops while it writes", Walk(60.0, 8.0, 10.0, (63.0, 135.0), 300.0)),
    group("stops when it has written", Walk(60.0, 5.0, 10.0, (130.0, 205.0), 300.0)),
)
hidden(
    interval.test_stops_in_restarts,
    Walk(60.0, 5.0, 40.0, (100.0, 120.0, 159.0), 400.0),
    Walk(60.0, 5.0, 90.0, (100.0, 150.0), 200.0),
)
hidden(
    interval.test_lost_share,
    LostShare(3600, 60, 600, 11_124),
    LostShare(1, 5, 0, 15),
    LostShare(30, 2, 20, 20),
)
hidden(
    interval.test_best_interval, BestInterval(30, 11_124), BestInterval(10, 20), BestInterval(1, 1)
)
hidden(
    interval.test_extremes,
    group("long writes", BestInterval(1000, 10)),
    group("short writes", BestInterval(2e-6, 1e6)),
    group("no end in sight", LostShare(1e6, 30, 0, 100)),
)

# -- checked ---------------------------------------------------------------------------------------

hidden(
    checked.test_sum_in_a_ring,
    Sum(2, n=6), Sum(5, n=5), Sum(9, n=36, special=True),
    group("lengths that p does not divide", Sum(5, n=3), Sum(9, n=40)),
)  # fmt: skip
hidden(
    checked.test_a_flipped_bit,
    group("any bit", Sum(5, n=10), Sum(2, n=30), weight=2),
    group("NaN and infinities", Sum(4, n=8, special=True)),
    group("lengths that p does not divide", Sum(3, n=1), Sum(4, n=15)),
    group(
        "small numbers beside large ones",
        Sum(3, n=30, uneven=True), Sum(5, n=20, uneven=True), weight=4,
    ),
)  # fmt: skip
hidden(checked.test_sender_of_a_wrong_bit, Sum(5, n=10), Sum(2, n=8))
hidden(
    checked.test_no_bit_was_flipped,
    group("numbers", Sum(5, n=200), Sum(2, n=1000)),
    group("NaN", Sum(4, n=8, special=True)),
)
hidden(checked.test_bytes_per_rank, Sum(5, n=100), Sum(17, n=34), Sum(10, n=10))
hidden(checked.test_bytes_with_a_wrong_bit, Sum(3, n=300))
hidden(checked.test_sends_may_wait_and_come_in_any_order, Sum(5, n=10))
hidden(checked.test_given_communicator_is_used, Sum(4, n=8))
hidden(checked.test_second_call_and_inputs, Sum(4, n=8, special=True))
hidden(checked.test_under_real_mpi, Sum(4, n=15), Sum(2, n=2))
hidden(
    checked.test_a_wrong_element,
    group("any bit", Products(4, count=20), Products(2, kind="small"), weight=2),
    group("bits that are just large enough", Products(4, wrong_bits="low")),
    group("large numbers, infinities and NaN", Products(4, wrong_bits="high"), weight=2),
)
hidden(
    checked.test_no_element_is_wrong,
    group("products", Products(4, count=30, wrong_bits="none")),
    group(
        "c is far smaller than a and b",
        Products(4, count=30, kind="cancels", wrong_bits="none"),
        weight=2,
    ),
    group("small and large numbers", Products(2, count=20, kind="small", wrong_bits="none")),
)

# -- heal_torch ------------------------------------------------------------------------------------

hidden(heal.test_a_new_replica_gets_its_state, Healing(4, 1, new=(2,)), Healing(6, new=(0,)))
hidden(
    heal.test_mean_over_those_that_computed,
    Healing(5, 1, new=(0, 3)),
    Healing(3, 1, new=()),
    Healing(8, n=5, new=(1, 2)),
)
hidden(
    heal.test_state_of_the_newest_step,
    Healing(4, 1, new=(2,), behind=(0, 3)),
    Healing(3, 1, new=(), behind=(0,)),
)
hidden(
    heal.test_a_death_in_the_sum,
    Healing(4, 1, new=(), num_steps=3, dying=(1,)),
    Healing(6, new=(), num_steps=1, dying=(1,)),
)
hidden(
    heal.test_a_death_anywhere,
    group("who gives its state", Healing(4, 1, new=(1, 3), dying=(2,)), weight=2),
    group("who gets it", Healing(3, 1, new=(2,), dying=(2,))),
    group("replicas of two ranks", Healing(6, dying=(0,))),
)
hidden(
    heal.test_other_errors_come_out, Healing(3, 1, new=(), error="Connection strings are wrong.")
)
hidden(
    heal.test_bytes_and_donors,
    Healing(5, 1, n=200, new=(0, 1)),
    Healing(9, 1, n=100, new=(0, 1, 4, 5)),
    Healing(4, 1, n=300, new=(0, 1, 2)),
)
hidden(
    heal.test_the_copy_hides_behind_the_gradient,
    Healing(4, 1, n=3000, num_steps=1, num_flops=800_000_000, new=(1, 2), machine="long wire"),
)
hidden(heal.test_sends_may_wait_and_come_in_any_order, Healing(6, n=5))
hidden(heal.test_given_group_is_used, Healing(3, 1))
hidden(heal.test_under_real_gloo, Healing(4, 1, new=(0, 2), announced=False))
