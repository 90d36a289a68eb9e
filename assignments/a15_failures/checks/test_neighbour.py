"""neighbour.py: whoever dies, its state is on another node."""

from checks.cases_neighbour import (
    Copies,
    Recovery,
    assert_travelled,
    assert_two_losses,
    at_each_operation,
    in_step,
)
from ringside.arrays import arrays_in
from ringside.checking import assert_makespan, assert_moved
from ringside.checking.kills import killed_cases, line_of
from ringside.checking.ring_bytes import received_as_ring, sent_as_ring
from ringside.checking.suite import Suite, group, right_run

suite = Suite("neighbour")


@suite.test("place", "values", Copies(4))
def test_copies_lie_on_another_node(case, run):
    """Each rank keeps the state of the rank at its place of the other node."""


@suite.test(
    "pairs", "values", group("pairs", Copies(4, 1)),
    group("an odd number of nodes", Copies(3, 1), Copies(5, 1)),
)  # fmt: skip
def test_pairs_of_nodes(case, run):
    """Each node has the copies of the right one."""


@suite.test("changed", "values", Copies(4, in_place=True), weight=2)
def test_the_next_step_changes_the_state(case, run):
    """Copies are of the state when start was called."""


@suite.test("changed", "values", Recovery(4, in_place=True))
def test_the_next_step_changes_what_came_back(case, run):
    case.check_memory(run)


@suite.test(
    "inside", "values", group("a rank", Copies(4)),
    group("a node", Copies(4, num_steps=2, dying=(2, 3))),
)  # fmt: skip
def test_a_death_anywhere(case, ranks):
    for killed in killed_cases(ranks, case, at_each_operation(case)):
        with line_of(killed):
            right_run(ranks, killed)


@suite.test("newest", "values", Recovery(4), Recovery(4, new=(1,), ahead=()), weight=3)
def test_all_get_the_newest_step(case, run):
    """Step and state are those that everybody can be given."""


@suite.test("newest", "values", Recovery(4, new=(0, 2)))
def test_a_state_that_nobody_has(case, run):
    """All raise an error."""


@suite.test("renewed", "values", Recovery(4), Recovery(2, 1, new=(0,), ahead=()))
def test_copies_are_renewed(case, run):
    case.check_memory(run)


@suite.test("renewed", "values", Copies(4, dying=(1, 3)))
def test_a_second_loss(case, ranks):
    for killed in killed_cases(ranks, case, in_step(case, 2)):
        with line_of(killed):
            assert_two_losses(ranks, killed)


test_sends_may_wait_and_come_in_any_order = suite.slow_messages("waits", Copies(4), Recovery(4))
test_given_communicator_is_used = suite.given_communicator("calls", Copies(4), Recovery(4))
test_second_call_and_inputs = suite.second_call(
    "calls", Recovery(4), Copies(4, announced=False), inputs_kept=True
)
test_under_real_mpi = suite.real_ranks("calls", Copies(2, 1, announced=False), Recovery(4))


@suite.test("cost", "communication", Copies(4, n=100), checked=False)
def test_bytes_of_a_copy(case, run, ranks):
    all_reduce = 16 * (case.p - 1)
    allowed = case.num_steps * (8 * case.n + all_reduce)
    ranks.record(case, run, {"sent_bytes": [allowed] * case.p})
    rule = "one state in each step, and an all-reduce of one number"
    assert_moved(run, allowed, case, rule)


@suite.test("cost", "memory", Copies(4, num_steps=5))
def test_memory_has_two_steps(case, run):
    for rank, memory in enumerate(run.values):
        nbytes = sum(array.nbytes for array in arrays_in(memory))
        if len(memory) > 2 or nbytes > 4 * 8 * case.n:
            raise case.fail(
                f"rank {rank}'s memory has {len(memory)} steps, {nbytes} bytes; two steps are "
                f"enough, {4 * 8 * case.n} bytes."
            )


@suite.test("lean", "communication", Recovery(4, n=100))
def test_bytes_of_recovery(case, run):
    counted = sent_as_ring(run), received_as_ring(run)
    for rank in range(case.p):
        for did, number, nbytes in zip(
            ("sent", "received"), case.num_states(rank), (each[rank] for each in counted),
            strict=True,
        ):  # fmt: skip
            allowed = number * 8 * case.n + 64 * case.p
            if nbytes > allowed:
                raise case.fail(
                    f"rank {rank} {did} {nbytes:.0f} bytes, collectives counted as a ring's; at "
                    f"most {allowed} are allowed: {number} states, and 64 p bytes."
                )


@suite.test(
    "cost", "speed", Copies(4, n=1000, num_steps=1, num_flops=80_000_000, machine="long wire"),
    weight=3, checked=False,
)  # fmt: skip
def test_copies_hide_behind_the_step(case, run):
    assert_travelled(run, case)
    machine = run.machine
    work_s = case.num_flops / machine.flop_per_s
    copy_s = machine.alpha_s + 8 * case.n * machine.beta_s_per_byte
    assert_makespan(run, max(work_s, copy_s), case)
