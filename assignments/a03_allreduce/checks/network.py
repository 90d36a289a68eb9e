"""What the network saw of a sum: who sent to whom, how much, and how long it took."""

import numpy as np

from ringside.checking import assert_makespan, assert_own_messages, assert_peers, assert_ran


def assert_own_data(run, case):
    """No library collective moved data; a barrier costs the points of another test."""
    if any(each.name != "barrier" for each in run.collectives):
        assert_own_messages(run, case)


def assert_time(run, case, **limits):
    """The virtual time is within ``limits`` times the docstring's bound."""
    assert_own_data(run, case)
    bound_s = case.bound_s(run.machine)
    assert_makespan(run, bound_s, case, beside=case.beside(run.machine), **limits)


def exchanged(run, case):
    """Bytes between each two ranks, in both directions; the ranks' own messages moved them.

    For a look at the scheme alone: no values are compared, and no bounds on bytes.
    """
    assert_ran(run, case)
    used = [each.name for each in run.collectives if each.name != "barrier"]
    if used:
        raise case.fail(f"the library's {used[0]} moved data; your own messages must carry it.")
    sent = np.asarray(run.bytes_matrix())
    both = sent + sent.T
    np.fill_diagonal(both, 0)
    return both


def pairs(p):
    """Each two ranks."""
    return [(a, b) for a in range(p) for b in range(a + 1, p)]


def assert_nobody_else(both, case, known):
    """Between other ranks than those that are known goes nothing that is as long as a shard."""
    known = {tuple(sorted(pair)) for pair in known}
    for a, b in pairs(case.p):
        if (a, b) not in known and both[a, b] >= case.shard_nbytes:
            raise case.fail(
                f"rank {a} and rank {b} exchanged {both[a, b]} bytes; in this scheme no data goes "
                "between them."
            )


def assert_round_a_ring(run, case):
    """Shards go between neighbours, and no whole vectors."""
    both = exchanged(run, case)
    steps = (case.p - 1) * (1 if case.half else 2)
    neighbours = [(rank, (rank + 1) % case.p) for rank in range(case.p)]
    for a, b in neighbours:
        if both[a, b] < case.shard_nbytes:
            raise case.fail(
                f"rank {a} and its neighbour {b} exchanged {both[a, b]} bytes; round a ring shards "
                f"go from each rank to the next, of {case.shard_nbytes} bytes here."
            )
        if both[a, b] > 3 * steps * case.shard_nbytes:
            raise case.fail(
                f"rank {a} and its neighbour {b} exchanged {both[a, b]} bytes in {steps} steps; in "
                f"each step one shard goes from a rank to the next, of {case.shard_nbytes} bytes."
            )
    assert_nobody_else(both, case, neighbours)


def assert_neighbours_only(run, case):
    """No message, however short, goes to anybody else."""
    assert_own_data(run, case)
    allowed = [{(rank - 1) % case.p, (rank + 1) % case.p} for rank in range(case.p)]
    assert_peers(run, allowed, case, "a rank talks to its two neighbours only")
