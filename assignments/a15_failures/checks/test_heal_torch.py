"""heal_torch.py: replicas that come back get their state from a peer."""

from checks.cases_heal_torch import Healing, anywhere, in_the_sum
from ringside.checking import assert_makespan, assert_peers
from ringside.checking.kills import killed_cases, line_of
from ringside.checking.ring_bytes import received_as_ring, sent_as_ring
from ringside.checking.suite import Suite, group, right_run

suite = Suite("heal_torch")


@suite.test("joins", "values", Healing(6), Healing(2, 1, num_steps=1), checked=False)
def test_a_new_replica_gets_its_state(case, run):
    case.check_healed(run)
    shards = [{rank for rank in range(case.p) if rank % case.shards == shard}
              for shard in range(case.shards)]  # fmt: skip
    assert_peers(
        run, [shards[rank % case.shards] - {rank} for rank in range(case.p)], case,
        "a shard comes from a rank that has the same one",
    )  # fmt: skip
    if not any(sum(run.sent_messages()[rank] for rank in each) for each in shards):
        raise case.fail("no rank sent another one its state.")


@suite.test("mean", "values", Healing(4, 1), Healing(6, new=()), Healing(4, 1, new=(0, 2)))
def test_mean_over_those_that_computed(case, run):
    """Who joins adds zeros and isn't counted."""


@suite.test(
    "newest", "values", Healing(3, 1, behind=(0,)), Healing(3, 1, new=(), behind=(1, 2)),
    checked=False,
)  # fmt: skip
def test_state_of_the_newest_step(case, run):
    case.check_healed(run)


@suite.test("vote", "values", Healing(3, 1, new=(), num_steps=3), Healing(4, 1, new=(), dying=(3,)))
def test_a_death_in_the_sum(case, ranks):
    for killed in killed_cases(ranks, case, in_the_sum(case)):
        with line_of(killed):
            right_run(ranks, killed)


@suite.test(
    "again", "values", group("who gives its state", Healing(3, 1), weight=2),
    group("who gets it", Healing(3, 1, dying=(1,))),
    group("replicas of two ranks", Healing(6, dying=(2,))),
)  # fmt: skip
def test_a_death_anywhere(case, ranks):
    for killed in killed_cases(ranks, case, anywhere(case, 4 // case.shards)):
        with line_of(killed):
            right_run(ranks, killed)


@suite.test(
    "calls", "safety", Healing(2, 1, new=(), error="Connection strings are wrong."), weight=2
)
def test_other_errors_come_out(case, run):
    """A RuntimeError that no death has caused."""


@suite.test(
    "cost", "communication", Healing(5, 1, n=100, new=(1, 3)), Healing(6, n=100), checked=False
)
def test_bytes_and_donors(case, run):
    case.check_healed(run)
    sums = case.num_steps * (16 * case.n + 256 * case.p)
    most = -(-len(case.joining) // len(case.healthy))
    sent, received = sent_as_ring(run), received_as_ring(run)
    for rank in range(case.p):
        joins = rank // case.shards in case.joining
        for did, nbytes, copies in (
            ("sent", sent[rank], 0 if joins else most), ("received", received[rank], int(joins)),
        ):  # fmt: skip
            if nbytes > sums + copies * case.copy_nbytes:
                raise case.fail(
                    f"rank {rank} {did} {nbytes:.0f} bytes, collectives counted as a ring's; at "
                    f"most {sums + copies * case.copy_nbytes} are allowed: {copies} states of "
                    f"{case.copy_nbytes} bytes, sums and quorums."
                )


@suite.test(
    "time", "speed",
    Healing(3, 1, n=4000, num_steps=1, num_flops=1_000_000_000, machine="long wire"),
    checked=False,
)  # fmt: skip
def test_the_copy_hides_behind_the_gradient(case, run):
    case.check_healed(run)
    machine = run.machine
    work_s = case.num_flops / machine.flop_per_s
    copy_s = 4 * machine.alpha_s + case.copy_nbytes * machine.beta_s_per_byte
    sum_s = 16 * case.n * machine.beta_s_per_byte * (case.p - 1) / case.p
    assert_makespan(run, max(work_s, copy_s) + sum_s + 40 * machine.alpha_s, case)


test_sends_may_wait_and_come_in_any_order = suite.slow_messages("waits", Healing(4))
test_given_group_is_used = suite.given_communicator("calls", Healing(4), comm="the group")
test_under_real_gloo = suite.real_ranks("calls", Healing(4, announced=False))
