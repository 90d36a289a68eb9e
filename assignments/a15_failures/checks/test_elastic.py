"""elastic.py: the same parameters, whoever dies."""

from checks.cases import (
    Anywhere,
    Elastic,
    Faulty,
    anywhere,
    assert_equal,
    assert_shares,
    assert_split,
    assert_survived,
    between,
    in_recovery,
    in_the_sum,
)
from ringside.checking import assert_makespan, assert_moved, assert_ran
from ringside.checking.kills import killed_cases, line_of
from ringside.checking.suite import Suite, called, group, right_run

suite = Suite("elastic")


@suite.test("same", "values", Elastic(4), weight=3)
def test_nobody_dies(case, run):
    """The parameters are those of one rank."""


test_second_call_and_inputs = suite.second_call(
    "same", Elastic(3, announced=False), inputs_kept=True, weight=2
)
test_under_real_mpi = suite.real_ranks("same", Elastic(3, batch=7, announced=False))


@suite.test(
    "errors", "safety", group("ValueError", Faulty(3)), group("MPI", Faulty(3, error="MPI"))
)
def test_other_errors_come_out(case, ranks):
    right_run(ranks, case)


@suite.test("between", "values", group("2 ranks", Elastic(2)), group("more", Elastic(4)))
def test_a_death_between_two_steps(case, ranks):
    if not case.kill:
        assert_split(right_run(ranks, case), case)
    assert_survived(ranks, killed_cases(ranks, case, between(case, 1)))


@suite.test("inside", "values", Elastic(4, num_steps=2), Elastic(3, num_steps=2))
def test_a_death_in_the_sum(case, ranks):
    assert_survived(ranks, killed_cases(ranks, case, in_the_sum(1)))


@suite.test("inside", "values", Anywhere(3, n=5, batch=6, num_steps=2, moments=10))
def test_a_death_anywhere(case, ranks):
    of_all = case.with_(moments=0)
    assert_survived(ranks, killed_cases(ranks, of_all, anywhere(case, 0, 2)))


@suite.test("recovery", "values", Elastic(5, batch=15, num_steps=2))
def test_several_die_at_once(case, ranks):
    assert_survived(ranks, killed_cases(ranks, case, between(case, 0, 3)))


@suite.test("recovery", "values", Elastic(4))
def test_a_death_while_the_others_recover(case, ranks):
    assert_survived(ranks, in_recovery(ranks, case, 1, 2))


@suite.test("uneven", "values", Elastic(3, batch=7), Elastic(5, batch=3))
def test_batches_that_p_does_not_divide(case, ranks):
    if not case.kill:
        right_run(ranks, case)
    assert_survived(ranks, killed_cases(ranks, case, between(case, 1, steps=[1])))


@suite.test("equal", "values", Elastic(4, n=7))
def test_copies_have_the_same_bits(case, ranks):
    if not case.kill:
        assert_equal(right_run(ranks, case), case)
    for killed in killed_cases(ranks, case, between(case, 2, steps=[1])):
        with line_of(killed):
            assert_equal(right_run(ranks, killed), killed)


@suite.test("samples", "schedule", Elastic(4, num_steps=4))
def test_samples_of_each_rank(case, ranks):
    last = case.num_steps - 1
    if not case.kill:
        assert_shares(right_run(ranks, case), case, [])
    for killed in killed_cases(ranks, case, between(case, 1, steps=[last])):
        with line_of(killed):
            assert_shares(right_run(ranks, killed), killed, [last])


@suite.test("cost", "communication", Elastic(4), checked=False)
def test_bytes_per_rank(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.nbytes(0)] * case.p})
    rule = "one all-reduce each time that a step is begun, and 16 bytes"
    if not case.kill:
        assert_moved(run, case.nbytes(0), case, rule)
    for killed in killed_cases(ranks, case, between(case, 1, steps=[1])):
        with line_of(killed):
            again = called(ranks, killed)
            assert_ran(again, killed)
            assert_moved(again, killed.nbytes(1), killed, rule)


@suite.test("cost", "speed", Elastic(4, num_steps=4, machine="slow_cores"))
def test_time(case, ranks):
    for killed in killed_cases(ranks, case, between(case, 1, steps=[2])):
        with line_of(killed):
            run = right_run(ranks, killed)
            assert_makespan(run, killed.time_s(run.machine, [2]), killed)


test_given_communicator_is_used = suite.given_communicator(
    "same", group("nobody dies", Elastic(3)), group("rank 1 dies", Elastic(3, kill="1@op3")),
    weight=6,
)  # fmt: skip
test_sends_may_wait_and_come_in_any_order = suite.slow_messages("same", Elastic(4))
