"""hsdp_torch.py: gathers inside a replica, gradients on two levels."""

from checks.cases_torch import Gather, Refused, StepOf, Synchronise
from ringside.checking import assert_makespan
from ringside.checking.suite import Suite, called, group
from ringside.trace import Kind

suite = Suite("hsdp_torch")
SEVERAL, ONE = "several shards and replicas", "one shard, or one replica"
EVEN = (
    "name=even links,alpha_s=2.7e-06,beta_s_per_byte=8e-11,intra_alpha_s=6e-07,"
    "intra_beta_s_per_byte=8e-11,ranks_per_node=4,gpus_per_nic=4,memory_bytes_per_s=1e18,"
    "flop_per_s=1e18"
)
ZARATAN = "zaratan,kernel_overhead_s=0,memory_bytes_per_s=1e18"
AT_ONCE = Synchronise(8, 2, parts=(40_000,) * 6, dtype="float32", machine=EVEN)


@suite.test("gather", "values", group(SEVERAL, Gather(4), weight=3), group(ONE, Gather(3, 1)))
def test_gather(case, run):
    """Whole layers, the same on all ranks."""


@suite.test(
    "mean", "values", group(SEVERAL, Synchronise(4), Synchronise(4, dtype="float32"), weight=3),
    group(ONE, Synchronise(3, 3)),
)  # fmt: skip
def test_mean_of_gradients(case, run):
    """Each rank's part of the mean over all ranks."""


@suite.test(
    "rules", "values", group("gather", Gather(4, parts=()), Gather(4)),
    group("synchronise", Synchronise(4, parts=()), Synchronise(4)),
    group("what can't be cut", Refused(4)), weight=6,
)  # fmt: skip
def test_inputs_stay_and_other_lengths(case, run):
    for rank, value in enumerate(run.values):
        if not isinstance(case, Refused) and value[1]:
            raise case.fail(f"rank {rank} changed its input.")


test_real_gloo = suite.real_ranks("rules", Gather(2, 1), Synchronise(2, 2), weight=2)


def moved(run, case, between):
    """Bytes that each rank sent between replicas, or inside of them.

    Raises:
        Verdict: a collective of that kind went another way, or messages were sent.
    """
    ranks, size = list(range(case.p)), case.shard_size
    inside = [tuple(ranks[k : k + size]) for k in range(0, case.p, size)]
    ways = {"allreduce": [tuple(ranks[k::size]) for k in range(size)]}
    ways |= dict.fromkeys(("allgather", "reduce_scatter"), inside)
    nbytes = [0.0] * case.p
    if sum(run.sent_messages()):
        raise case.fail("messages were sent point to point; only collectives may be called.")
    for each in run.collectives:
        count, members = len(each.members), tuple(each.members)
        crosses = not any(set(members) <= set(replica) for replica in inside)
        if count == 1 or each.name == "barrier" or crosses != between:
            continue
        if members not in ways.get(each.name, ()):
            raise case.fail(
                f"the ranks {list(members)} took part in a collective that the network knows as "
                f"{each.name}; all-gathers and reduce-scatters go inside, all-reduces between."
            )
        for rank in members:
            nbytes[rank] += (1 + between) * each.nbytes * (count - 1) / count
    return nbytes


def assert_within(nbytes, allowed, case, where):
    for rank, sent in enumerate(nbytes):
        if sent > allowed + 1e-6:
            raise case.fail(
                f"rank {rank} sent {sent:.0f} bytes {where}; at most {allowed:.0f} are allowed."
            )


@suite.test(
    "inside", "communication", group("gather", Gather(6, parts=(8, 4))),
    group("synchronise", Synchronise(6, parts=(8, 4)),
          Synchronise(6, parts=(8, 4), dtype="float32"), weight=3), checked=False,
)  # fmt: skip
def test_bytes_inside(case, run, ranks):
    size = case.shard_size
    ranks.record(case, run, {})
    allowed = case.nbytes * (size - 1) / size
    assert_within(moved(run, case, between=False), allowed, case, "inside")


@suite.test(
    "levels", "communication",
    *(Synchronise(p, r, parts=(8, 4)) for p, r in ((4, 2), (6, 2), (6, 3))), checked=False,
)  # fmt: skip
def test_bytes_between(case, run, ranks):
    """Whatever the values are, there are two levels, and only parts cross."""
    assert_two_levels(run, case)
    ranks.record(case, run, {})
    part_nbytes = case.nbytes / case.shard_size
    allowed = 2 * part_nbytes * (case.replicas - 1) / case.replicas
    assert_within(moved(run, case, between=True), allowed, case, "between")


def assert_two_levels(run, case):
    """Some collectives stay inside a replica; what crosses goes by places.

    That is hybrid sharding at all, whatever else is wrong: no collective has more ranks of a
    replica than one, and some ranks of another.
    """
    levels = set()
    for each in run.collectives:
        if len(each.members) == 1 or each.name == "barrier":
            continue
        crossed = len({rank // case.shard_size for rank in each.members})
        if 1 < crossed < len(each.members):
            raise case.fail(
                f"the ranks {list(each.members)} of several replicas took part in one {each.name}; "
                "the ranks of a replica reduce among themselves first."
            )
        levels.add(crossed > 1)
    if len(levels) < 2:
        where = "between replicas" if levels == {False} else "inside a replica"
        raise case.fail(f"no collective was called {where}; gradients are reduced on both levels.")


test_given_groups_are_used = suite.given_communicator(
    "groups", group("gather", Gather(4)), group("synchronise", Synchronise(4), weight=3),
    comm="the groups",
)  # fmt: skip
test_everything_is_waited_for = suite.slow_messages(
    "waited", group("gather", Gather(4)), group("synchronise", Synchronise(4)),
    kinds=[Kind.COLLECTIVE],
)  # fmt: skip


@suite.test("time", "speed", AT_ONCE, weight=9)
def test_both_levels_work_at_once(case, run):
    assert_makespan(run, case.time_s, case, half=1.3)


@suite.test("time", "speed", StepOf(8, machine=ZARATAN), weight=5)
def test_a_step_beats_plain_sharding_over_slow_links(case, run, ranks):
    plain = called(ranks, case, "checks/inside_torch.py:flat_step", [(case.lengths,)] * case.p)
    if run.makespan_s > 0.6 * plain.raise_for_error().makespan_s:
        raise case.fail(
            f"a step takes {run.makespan_s * 1e6:.0f} µs on two nodes of zaratan; plain sharding "
            f"takes {plain.makespan_s * 1e6:.0f} µs. At most 0.6 times that is asked for; this is "
            f"{run.makespan_s / plain.makespan_s:.3f} times."
        )
