"""where.py: the place of every rank, on machines with nodes of several sizes."""

import re

from given.where_table import line

from checks.cases import Where, assert_none_elsewhere, right_in_a_row
from ringside.checking import LATENCY_SEEDS, assert_requests_complete
from ringside.checking.suite import Suite, group, right_run
from ringside.trace import Kind
from ringside.units import format_count

suite = Suite("where")
CALLS, MESSAGES, NBYTES = 4, 4, 1000
UUIDS = "GPU-8f2a0b4c-1d2e-3f40-5a6b-7c8d9e0f1a2b,GPU-8f2a0b4c-1d2e-3f40-5a6b-7c8d9e0f1a2c"
UNEVEN, IN_ANY = "a node of fewer ranks", "ranks in another order than their nodes"
MANY, FEWER, NONE = "GPUs for all", "fewer GPUs than ranks of a node", "no GPUs"


def on_nodes(p, ranks_per_node, visible="0,1,2,3", sends="rendezvous", **options):
    return Where(p, visible, machine=f"{sends},ranks_per_node={ranks_per_node}", **options)


@suite.test("table", "values", on_nodes(4, 2), on_nodes(1, 1, None))
def test_host_and_local_rank(case, run):
    """In order of ranks."""


@suite.test(
    "local", "values", group(UNEVEN, on_nodes(5, 3)),
    group(IN_ANY, on_nodes(4, 2, "0,1", members=(3, 0, 2, 1), world=5), weight=3),
)  # fmt: skip
def test_ranks_of_a_host_need_not_be_neighbours(case, run):
    """``comm`` has another order than the world, and not all of its ranks."""


@suite.test(
    "gpu", "values", group(MANY, on_nodes(4, 2, "GPU-8f2a,GPU-91c0")),
    group(FEWER, on_nodes(3, 3, "2,GPU-8f"), on_nodes(4, 2, ("7", None, "0,1", "6"))),
    group(NONE, on_nodes(2, 1, ""), on_nodes(2, 2, None)),
)  # fmt: skip
def test_gpu_of_each_rank(case, run):
    """Of those that a rank sees, beginning again where they are fewer than ranks."""


@suite.test("rank_0", "values", on_nodes(4, 2, "7,8"), on_nodes(3, 3, None))
def test_rank_0_alone_prints(case, run):
    first, rows = run.output[run.members[0]], case.rows(run)
    printed = [text for text in first.splitlines() if re.match(r"rank \d+:", text)]
    for row, text in zip(rows, printed, strict=False):
        if text.rstrip() != line(*row):
            raise case.fail(f"rank 0 printed {text[:100]!r} where {line(*row)!r} was due.")
    if len(printed) != len(rows):
        lines, due = format_count(len(printed), "line"), format_count(len(rows), "rank")
        raise case.fail(f"rank 0 printed {lines} like {line(*rows[0])!r} for {due}.")
    for rank in range(1, case.p):
        if run.output[rank].strip():
            raise case.fail(f"rank {rank} printed a line; only rank 0 prints.")
    assert_none_elsewhere(run.values, case)


test_real_mpi = suite.real_ranks("reality", Where(3, ("0,1", None, "0,1")))


@suite.test(
    "little", "communication", on_nodes(4, 2, None), on_nodes(6, 3), checked=False, weight=7
)
def test_few_calls(case, run):
    made = -(-len(run.comm_calls) // case.p)
    for rank in range(case.p):
        count = made + sum(rank in used.members for used in run.collectives)
        if count > CALLS:
            raise case.fail(
                f"rank {rank} took part in {count} collectives; at most {CALLS} are allowed."
            )
    for rank, sent in enumerate(run.sent_messages()):
        if rank and sent > MESSAGES:
            raise case.fail(f"rank {rank} sent {sent} messages; at most {MESSAGES} are allowed.")
    assert_told(case, run)


@suite.test(
    "little", "communication", on_nodes(4, 2, None), on_nodes(14, 4, UUIDS), checked=False, weight=5
)
def test_few_bytes(case, run):
    for rank in range(1, case.p):
        if (gave := given_by(run, rank)) > NBYTES:
            raise case.fail(f"rank {rank} gave {gave:.0f} bytes; at most {NBYTES} are allowed.")
    assert_told(case, run)


def given_by(run, rank):
    """Bytes of its own that a rank sent or gave to collectives."""
    shared = [used for used in run.collectives if rank in used.members]
    return run.sent_bytes()[rank] + sum(used.nbytes / len(used.members) for used in shared)


def assert_told(case, run):
    """Who says nothing says little; that earns nothing."""
    for rank in range(1, case.p):
        if not given_by(run, rank) and not run.sent_messages()[rank]:
            raise case.fail(f"rank {rank} told rank 0 nothing.")


@suite.test("any_order", "safety", on_nodes(4, 2, ("0,1", "2,3", None, "5,4")))
def test_messages_may_arrive_in_any_order(case, ranks):
    for seed in LATENCY_SEEDS:
        for machine in ("buffered", "rendezvous"):
            right_run(ranks, case.on_sends(machine).with_(latencies=seed))


@suite.test("next_call", "safety", on_nodes(4, 2, ("0,1", "2,3", None, "5,4")))
def test_next_call(case, ranks):
    """A message of it may come before the last one of this."""
    right_in_a_row(ranks, case)


@suite.test("ends", "safety", on_nodes(4, 2), on_nodes(3, 3), checked=False)
def test_what_is_started_ends(case, run):
    assert_requests_complete(run, case, (Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE))
    assert_told(case, run)
