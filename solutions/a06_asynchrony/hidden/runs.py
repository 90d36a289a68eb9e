"""Runs that several tests look at. Each checks the values of its own run first."""

from ringside import Machine
from ringside.checking import assert_inputs_kept, assert_ran, buffered
from ringside.factors import Factors
from solutions.a06_asynchrony.cases import server_call
from solutions.a06_asynchrony.hidden import oracle
from solutions.a06_asynchrony.server_problem import Problem, seed_apart, trained

# -- server ----------------------------------------------------------------------------------------

TEXTBOOK = Machine.load("textbook")
examples = oracle.examples


def served(ranks, rng, steps, staleness, paces=None, n=4, through="server_training", **options):
    """Train, and compare weights and versions with training in one process.

    Args:
        steps: per worker.
        paces: per worker, ms a step; None: worker k takes about k + 2 ms.
        through: who speaks at the other end; see ``callers.py``.
        observed: gradients are announced, and their inputs scaled.
        fixed: gradients don't depend on the weights; versions aren't compared then.
        late: how many ms after its last step a scripted worker's END comes.

    Returns:
        Case, result, and what is right.
    """
    paces = [worker + 2 for worker in range(len(steps))] if paces is None else paces
    fixed, late = options.pop("fixed", False), options.pop("late", 0)
    if fixed or through == "scripted_server" or len(steps) < 2:
        seed = int(rng.integers(2**31))
    else:
        seed = seed_apart(rng, n, steps, paces, staleness, TEXTBOOK, late)
    case = server_call(steps, paces, staleness, n, seed, fixed, through, late)
    if options.pop("observed", False):
        options["factors"] = Factors.drawn(rng)
    given = (steps, paces, staleness, n, seed)
    given = (steps, n, seed) if through == "scripted_server" else given
    given = (*given, fixed or late) if fixed or late else given
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(f"callers:{through}", world_size, given, **options)
    assert_ran(result, case)
    assert_inputs_kept(result, case)
    seen = case.seen_in(result)
    problem = Problem(n, steps, paces, seed, fixed)
    if through == "scripted_server":
        examples.check_replies(result.values[0], 0, problem, seed, seen)
        for rank in range(1, case.world_size):
            examples.check_given_versions(result.values[rank], rank, problem, seed, seen)
        return case, result, None
    right = trained(problem, staleness, TEXTBOOK, result.factors, late)
    examples.check_weights(result.values[0], right, seen)
    for rank in range(1, case.world_size):
        if through == "scripted_workers":
            examples.check_answers(result.values[rank], rank, right, seen)
        elif not fixed:
            examples.check_versions(result.values[rank], rank, right.versions[rank - 1], seen)
    return case, result, right


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
