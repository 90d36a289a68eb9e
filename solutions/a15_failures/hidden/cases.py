"""The cases of the hidden run: other worlds and sizes, and deaths at other moments."""

from checks import test_elastic as elastic
from checks.cases import Anywhere, Elastic, Faulty
from hidden import recorder_cases  # noqa: F401 - gives the tests of recorder.py their cases

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
