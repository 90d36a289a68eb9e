"""where.py: the place of every rank, on machines with nodes of several sizes."""

from ringside.checking import LATENCY_SEEDS, Verdict, assert_requests_complete, buffered, rendezvous
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from ringside.trace import Kind
from solutions.a01_first_ranks.cases import where_call
from solutions.a01_first_ranks.hidden import oracle, runs
from solutions.a01_first_ranks.hidden.runs import examples

UUIDS = "GPU-8f2a0b4c-1d2e-3f40-5a6b-7c8d9e0f1a2b,GPU-8f2a0b4c-1d2e-3f40-5a6b-7c8d9e0f1a2c"
LISTS = (None, "", "0,1,2,3", "3", "1,0", "GPU-8f2a,GPU-91c0,GPU-07", UUIDS, "0,1,2,3,4,5,6,7")
# Ranks, ranks of a node, and what they see; in the last one a table of all is longer than a kB.
SHAPES = ((4, 2), (9, 3), (3, 3), (6, 1), (18, 2, UUIDS))
CALLS, MESSAGES, NBYTES = 4, 4, 1000

points = points_of("where")


def nodes_of(ranks_per_node, machine=None):
    return (machine or rendezvous()).with_(ranks_per_node=ranks_per_node)


def asked(world_size, machine, visible=None):
    """The call, with the same visible GPUs on all ranks or a list of them."""
    each = visible if isinstance(visible, list) else [visible] * world_size
    return oracle.where(where_call(world_size, visible), each, machine)


def seen(ranks, world_size, ranks_per_node, visible="0,1,2,3"):
    """The run of a call that several tests look at, its values checked."""
    machine = nodes_of(ranks_per_node)
    call = asked(world_size, machine, visible)
    name = f"where, {world_size}, {ranks_per_node}, {visible}"

    def run(_):
        return ranks.call(call.case.target, world_size, call.arguments, machine=machine)

    result = ranks.once(name, run)
    case = call.case.on(machine)
    runs.assert_ran(result, case)
    call.check(result, case)
    return case, result


def by_nodes(shape):
    p, ranks_per_node = shape
    return "nodes of as many ranks each" if p % ranks_per_node == 0 else "a node of fewer ranks"


@points(20, "values")
def test_host_and_local_rank(ranks):
    shapes = ((2, 1), (4, 2), (6, 3), (5, 2), (8, 3), (3, 8), (7, 4), (11, 4))
    check_kinds(shapes, by_nodes, lambda shape: seen(ranks, *shape))
    machine = nodes_of(2)
    runs.run(ranks, asked(1, machine), machine=machine)


@points(15, "values")
def test_ranks_of_a_host_need_not_be_neighbours(ranks, rng):
    for ranks_per_node, p in ((2, 5), (3, 4)):
        machine = nodes_of(ranks_per_node)
        members = [int(rank) for rank in rng.permutation(6)[:p]]
        if members == sorted(members):
            members.reverse()
        call = asked(p, machine, "0,1,2")
        try:
            runs.run(ranks, call, machine=machine, members=members, world_size=6)
        except AssertionError as verdict:
            if verdict.sentence.startswith("not run"):
                raise
            raise Verdict(
                f"{verdict.sentence} Comm holds ranks {members} of the world here.",
                reproduce=verdict.reproduce,
                detail=verdict.detail,
            ) from None


@points(15, "values")
def test_gpu_of_each_rank(ranks, rng):
    for visible in LISTS:
        seen(ranks, 6, 3, visible)
    for _ in range(2):
        mixed = [LISTS[int(k)] for k in rng.integers(len(LISTS), size=6)]
        machine = nodes_of(3)
        runs.run(ranks, asked(6, machine, mixed), machine=machine)


@points(12, "values")
def test_rank_0_alone_prints(ranks):
    for p, ranks_per_node, visible in (
        (4, 2, "0,1,2,3"), (9, 3, "0,1,2,3"), (3, 3, None), (4, 4, "0"),
    ):  # fmt: skip
        case, result = seen(ranks, p, ranks_per_node, visible)
        examples.assert_printed(result, case, result.values[0])
        examples.assert_rank_0_prints(result, case)


@points(8, "reality")
def test_real_mpi(mpi):
    visible = ["0,1", None, "0,1"]
    call = oracle.where_on_one_host(where_call(3, visible), visible)
    runs.check_real_mpi(mpi, [call])


@points(10, "communication")
def test_few_calls(ranks):
    for shape in SHAPES:
        case, result = seen(ranks, *shape)
        examples.assert_few_calls(result, case, CALLS, MESSAGES)


@points(10, "communication")
def test_few_bytes(ranks):
    for shape in SHAPES:
        case, result = seen(ranks, *shape)
        examples.assert_few_bytes(result, case, NBYTES)


@points(5, "safety")
def test_messages_may_arrive_in_any_order(ranks):
    for seed in LATENCY_SEEDS:
        machine = nodes_of(2, buffered())
        call = asked(6, machine, ["0,1", "2,3", None, "5", "6,7", "8"])
        runs.run(ranks, call, machine=machine, seed=seed)
    machine = runs.RENDEZVOUS.with_(ranks_per_node=2)
    runs.check_in_a_row(ranks, [asked(4, machine, "0,1")], machine)


@points(5, "safety")
def test_what_is_started_ends(ranks):
    for p, ranks_per_node in ((4, 2), (6, 3), (8, 4)):
        case, result = seen(ranks, p, ranks_per_node)
        assert_requests_complete(result, case, (Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE))
