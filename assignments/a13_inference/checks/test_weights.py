"""weights.py: each piece once, from one that has it to one that needs it."""

import numpy as np

from checks.cases_weights import Plan, Sync
from ringside.checking import assert_makespan, assert_messages, assert_own_messages, assert_pairs
from ringside.checking.suite import Suite, group

suite = Suite("weights")
COLUMNS, ROWS = {"samplers": (1, 2, 1)}, {"trainers": (1, 2, 1), "samplers": (3, 1, 1)}
BOTH = {"trainers": (2, 2, 1), "samplers": (3, 1, 1)}
ENGINES, COPIES = "copies of the samplers' blocks", "copies of the trainers' blocks"
UNEVEN, EMPTY = "blocks of different sizes", "empty blocks"


@suite.test("straight", "communication", Sync(8, shape=(64, 40)), checked=False)
def test_pieces_travel(case, run):
    """Whatever the values are, samplers get something, and no rank half of the matrix."""
    if any(each.name != "barrier" for each in run.collectives):
        assert_own_messages(run, case)
    whole, received = case.itemsize * 64 * 40, run.received_bytes()
    for did, counted in (("sent", run.sent_bytes()), ("received", received)):
        if max(counted) > whole / 2:
            rank = counted.index(max(counted))
            raise case.fail(
                f"rank {rank} {did} {counted[rank]} bytes, and the matrix has {whole}. Send each "
                "sampler what it needs, straight from those that have it."
            )
    for rank in case.layouts[1]:
        if not received[rank]:
            raise case.fail(f"rank {rank} received nothing; it needs new weights.")


@suite.test("rows_and_columns", "values", Sync(6, **COLUMNS), Sync(5, **ROWS))
def test_rows_and_columns(case, run):
    """From rows to columns, and from columns to rows."""


@suite.test("both_ways", "values", Sync(7, **BOTH), Sync(10, (2, 2, 1), (2, 3, 1), mixed=True))
def test_cut_in_both_directions(case, run):
    """A piece begins anywhere in both blocks; ranks may stand in any order."""


@suite.test(
    "uneven", "values", group(UNEVEN, Sync(7, (4, 1, 1), (1, 3, 1), (7, 5))),
    group(EMPTY, Sync(7, (4, 1, 1), (1, 3, 1), (3, 4))),
)  # fmt: skip
def test_uneven_and_empty_blocks(case, run):
    """The last block is smaller, or there is nothing in it."""


@suite.test("plan", "values", Plan(**COLUMNS), Plan(**ROWS), Plan((4, 1, 1), (2, 2, 1)))
def test_plan(case, run):
    """Each element that a sampler needs comes once, from a rank that has it."""


@suite.test(
    "plan", "values", group(ENGINES, Plan((2, 1, 1), (1, 2, 2))),
    group(COPIES, Plan((2, 1, 2), (1, 3, 1))), weight=2,
)  # fmt: skip
def test_plan_with_copies(case, run):
    """One source for each piece, although two have it."""


@suite.test("result", "values", Sync(5, **ROWS, dtype="float32"), weight=2)
def test_trainers_return_none(case, run):
    """And samplers a block of their dtype."""
    case.check_trainers(run)


test_real_mpi = suite.real_ranks("result", Sync(5, **ROWS))


@suite.test(
    "bytes", "communication", Sync(8), Sync(7, **BOTH, dtype="float32"),
    group(ENGINES, Sync(6, (2, 1, 1), (1, 2, 2))), checked=False,
)  # fmt: skip
def test_bytes_and_messages_of_each_pair(case, run):
    assert_own_messages(run, case)
    allowed = case.pair_nbytes()
    assert_pairs(run, allowed, case)
    assert_messages(run, np.count_nonzero(allowed, axis=1), case)


@suite.test(
    "copies", "communication", Sync(7, (2, 1, 2), (1, 3, 1)), Sync(7, (1, 1, 3), (1, 2, 2)),
    checked=False,
)  # fmt: skip
def test_copies_share_the_work(case, run):
    """No copy sends to more samplers than its share."""
    sends = np.asarray(run.bytes_matrix()) > 0
    for holders, pieces in case.needs():
        most = -(-len(pieces) // len(holders))
        for rank in holders:
            if (count := int(sends[rank].sum())) > most:
                raise case.fail(
                    f"rank {rank} sends to {count} samplers. Ranks {holders} have the same block, "
                    f"and {len(pieces)} samplers need some of it: let each send to at most {most}."
                )


test_given_communicator_is_used = suite.given_communicator("communicator", Sync(6, **COLUMNS))
test_messages_may_wait_and_come_in_any_order = suite.slow_messages(
    "waits", Sync(8), Sync(7, (2, 1, 2), (1, 3, 1))
)
test_inputs_stay_and_a_second_call_is_right = suite.second_call(
    "old_block", Sync(6, **COLUMNS), inputs_kept=True
)


@suite.test("time", "speed", Sync(8, shape=(400, 400), machine="long wire"), checked=False)
def test_time(case, run):
    """Pieces are under way at the same time."""
    assert_makespan(run, case.time_s, case)
