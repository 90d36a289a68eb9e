"""checkpoint.py: whole or not at all, and read by any number of ranks."""

from checks.cases_checkpoint import (
    Both,
    Load,
    Save,
    assert_of_one_save,
    assert_read,
    assert_restarts,
    assert_written,
    goes_on,
)
from ringside.checking import assert_makespan, assert_moved
from ringside.checking.kills import line_of
from ringside.checking.suite import Suite, called, filled, group, right_run

suite = Suite("checkpoint")


@suite.test(
    "any",
    "values",
    group("as many ranks", Load(4)),
    group("fewer ranks", Load(3), Load(1)),
    group("more ranks", Load(5, writers=2), Load(3, writers=1)),
)
def test_load_on_any_number_of_ranks(case, run):
    """What was saved comes back."""


@suite.test("uneven", "values", Load(3, length=2), Load(4, length=9, writers=2), weight=2)
def test_short_and_empty_shards(case, run):
    """Lengths that the ranks don't divide."""


@suite.test("uneven", "values", Load(3, dtype="float32"), Load(3, length=2, dtype="int64"))
def test_dtypes(case, run):
    """Elements keep their type, where a shard is empty, too."""


@suite.test("newest", "values", Load(3, steps=(8, 12)), Load(2, steps=(9, 10)), weight=3)
def test_the_newest_step(case, run):
    """A step is a number."""


@suite.test("newest", "values", Load(2, steps=()))
def test_an_empty_store(case, run):
    """There is nothing to find."""


@suite.test("own", "communication", Save(4), Save(3, length=1000, dtype="float32"), weight=2)
def test_each_rank_writes_its_shard(case, run):
    assert_written(run, case)


@suite.test("reads", "communication", Load(3, length=1000), Load(5, length=2000))
def test_each_rank_reads_its_shard(case, run):
    assert_read(run, case)


@suite.test("own", "communication", Save(4, length=400))
def test_messages_of_save(case, run):
    assert_moved(run, 16 * (case.p - 1), case, "the shards go into the store")


@suite.test("death", "safety", Load(3))
def test_a_death_in_save(case, ranks):
    assert_restarts(ranks, case)


@suite.test("first", "safety", Load(2, writers=3, steps=(8,)))
def test_a_death_in_the_first_save(case, ranks):
    assert_restarts(ranks, case)


@suite.test("on", "safety", Load(2, writers=3))
def test_training_goes_on_after_a_death(case, ranks):
    for _ in goes_on(ranks, case):
        pass


@suite.test("again", "safety", Load(2, writers=3))
def test_what_a_failed_save_has_left_does_not_count(case, ranks):
    assert_of_one_save(ranks, case)


@suite.test("room", "memory", Save(3, step=16, before=(4, 8, 12), length=1000))
def test_two_checkpoints_are_left(case, ranks):
    stores = filled(ranks, case)
    case.compare(called(ranks, case, stores=stores))
    later = Load(case.p + 1, case.length, steps=(case.step,), seed=case.seed)
    later.compare(called(ranks, later, stores=stores))
    case.assert_room(stores)


@suite.test("room", "memory", Load(2, length=1000, writers=3, moments=3))
def test_leftovers_of_a_death_are_removed(case, ranks):
    for killed, stores in goes_on(ranks, case, skipped=True):
        with line_of(killed):
            killed.assert_room(stores)


@suite.test("time", "speed", Save(4, length=40_000, machine="slow_store"))
def test_time_of_save(case, ranks):
    run = right_run(ranks, case)
    assert_written(run, case)
    assert_makespan(run, case.time_s(run.machine), case)


test_given_communicator_is_used = suite.given_communicator("any", Both(4))
test_sends_may_wait_and_come_in_any_order = suite.slow_messages("any", Both(3), weight=0.3)
test_under_real_mpi = suite.real_ranks("any", Both(3))
