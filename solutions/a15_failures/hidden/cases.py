"""The cases of the hidden run: other worlds and sizes, and deaths at other moments."""

from checks import test_checkpoint as checkpoint
from checks import test_elastic as elastic
from checks.cases import Anywhere, Elastic, Faulty
from checks.cases_checkpoint import Both, Load, Save

from ringside.checking.suite import group, hidden

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
