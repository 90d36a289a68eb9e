"""Runs that the tests of local_sgd.py and of gossip.py look at.

Whatever a test is about, it asks for the values of its own run first, on two ranks or more. And
values count only where the scheme is there, so each run looks at that, too.
"""

from ringside.checking import assert_ran, buffered
from solutions.a06_asynchrony.hidden import oracle

examples = oracle.examples

# -- local_sgd -------------------------------------------------------------------------------------


def locally_trained(ranks, case, **options):
    """``local_sgd.train``; checks the parameters, and that ranks met once a period.

    Bytes are bounded loosely here, so that an average which sends more than a ring loses the
    points for its bytes only.
    """
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    arguments = case.arguments_of_ranks()
    result = ranks.call("callers:local_sgd_trained", world_size, arguments, **options)
    assert_ran(result, case)
    check_locally_trained(result, case)
    p = case.world_size
    loosely = 2 * case.rounds * (p - 1) * (case.nbytes + 8 * len(case.shapes))
    examples.assert_averages(result, case, case.rounds, loosely)
    return result


def check_locally_trained(result, case):
    """Every rank has the parameters of the serial recursion."""
    params, losses, lr = case.inputs()
    wanted = examples.local_sgd_serial(params, losses, lr, case.num_steps, case.period)
    case = case.seen_in(result)
    for rank, value in enumerate(result.values):
        examples.assert_params(value, wanted, case, f"rank {rank}'s parameter")


# -- gossip ----------------------------------------------------------------------------------------


def gossiped(ranks, case, **options):
    """``gossip.average``; checks values, and that ranks talk to neighbours only."""
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call("gossip:average", world_size, case.arguments_of_ranks(), **options)
    assert_ran(result, case)
    check_gossiped(result, case)
    examples.assert_gossip(result, case, case.neighbours)
    return result


def check_gossiped(result, case):
    """Every rank has its row of W^num_rounds times all x."""
    wanted = examples.gossip_serial(*case.inputs(), case.num_rounds)
    case = case.seen_in(result)
    for rank, (value, right) in enumerate(zip(result.values, wanted, strict=True)):
        examples.assert_near(value, right, case, f"rank {rank}'s result")
