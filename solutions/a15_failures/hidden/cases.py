"""The cases of the hidden run: other worlds and sizes, and deaths at other moments."""

from checks import test_elastic as elastic
from checks import test_neighbour as neighbour
from checks.cases import Anywhere, Elastic, Faulty
from checks.cases_neighbour import Copies, Recovery

from ringside.checking.suite import group, hidden

hidden(elastic.test_nobody_dies, Elastic(2), Elastic(1), Elastic(6, n=40), Elastic(12, n=5))
hidden(elastic.test_second_call_and_inputs, Elastic(4, n=6, batch=8, announced=False))
hidden(elastic.test_under_real_mpi, Elastic(3, n=8, batch=8, announced=False))
hidden(
    elastic.test_other_errors_come_out,
    group("ValueError", Faulty(4, num_steps=2)),
    group("MPI", Faulty(2, error="MPI")),
)
hidden(elastic.test_a_death_between_two_steps, Elastic(3), Elastic(5, n=8, batch=20, num_steps=2))
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
hidden(neighbour.test_second_call_and_inputs, Recovery(4, new=(3,)))
hidden(neighbour.test_under_real_mpi, Copies(4, announced=False), Recovery(4, new=(0,), ahead=(1,)))
hidden(neighbour.test_bytes_of_a_copy, Copies(6, 3, n=200), Copies(10, 5, n=40), Copies(18, 9, n=9))
hidden(neighbour.test_memory_has_two_steps, Copies(2, 1, num_steps=4))
hidden(neighbour.test_bytes_of_recovery, Recovery(4, n=300, new=(1,)), Recovery(6, 3, n=100))
hidden(
    neighbour.test_copies_hide_behind_the_step,
    Copies(4, n=2000, num_steps=1, num_flops=120_000_000, machine="long wire"),
)
