"""Functions that call yours inside a rank, for the tests: nothing to write.

The tests run outside and see messages and results only. What must be made or looked at inside a
rank, they ask for here.
"""

from copy import deepcopy

import numpy as np
from given.local_loss import LocalLoss
from given.server_problem import Problem
from given.wire import END, PULL, PUSH, STATE, receive, send

import ringside
from ringside.checking.callers import error_of, find, overlapping

# -- server ----------------------------------------------------------------------------------------


def server_training(comm, steps, paces, staleness, n=4, seed=0, fixed=False):
    """``serve`` and ``work`` train together; see ``given.server_problem.Problem``.

    Returns:
        On rank 0 a dict: ``weights``; ``kept`` (are those that ``serve`` was given as they were?);
        ``shared`` (is the result the same memory?). On others the versions.
    """
    problem = of_ranks(comm, Problem(n, steps, paces, seed, fixed))
    if comm.Get_rank() == 0:
        return server_side(comm, problem, staleness)
    worker = comm.Get_rank() - 1
    return find("server:work")(comm, problem.gradient(worker), problem.steps[worker])


def server_twice(comm, steps, paces, staleness, n=4, seed=0, fixed=False):
    """The same training twice; what it gave the first time and the second time."""
    arguments = steps, paces, staleness, n, seed, fixed
    first = deepcopy(server_training(comm, *arguments))
    comm.Barrier()
    return first, server_training(comm, *arguments)


def of_ranks(comm, problem):
    """The problem, if it has as many workers as there are."""
    if len(problem.steps) != comm.Get_size() - 1:
        raise ValueError(
            f"steps are given for {len(problem.steps)} workers on {comm.Get_size()} ranks; rank 0 "
            "is the server, and each other rank is a worker."
        )
    return problem


def server_side(comm, problem, staleness):
    """``serve``, and a look at its arguments."""
    given = problem.weights.copy()
    weights = find("server:serve")(comm, given, problem.update, staleness)
    kept = np.array_equal(given, problem.weights)
    shared = isinstance(weights, np.ndarray) and np.shares_memory(weights, given)
    return {"weights": weights, "kept": bool(kept), "shared": bool(shared)}


def scripted_workers(comm, steps, paces, staleness, n, seed, late):
    """``serve`` on rank 0; on the other ranks not your ``work``, but a list of messages.

    Args:
        late: how many ms after its last step a worker sends its END.

    Returns:
        On rank 0 as ``server_training``; on others what came: ``(source, tag, version, weights)``.
    """
    problem = of_ranks(comm, Problem(n, steps, paces, seed))
    if comm.Get_rank() == 0:
        return server_side(comm, problem, staleness)
    worker = comm.Get_rank() - 1
    script = []
    for step in range(problem.steps[worker]):
        script += [("send", 0, PULL), ("receive", 0), ("compute", step), ("reply", 0, PUSH)]
    script += [("sleep", late * 1e-3)] if late else []
    return play(comm, [*script, ("send", 0, END)], problem.gradient(worker))


def scripted_server(comm, steps, n, seed, answers):
    """``work`` on all ranks but 0; on rank 0 not your ``serve``, but a list of messages.

    Args:
        answers: in the order of the messages, ``(worker, version, weights)``.

    Returns:
        On rank 0 what came: ``(source, tag, version, array)``; on others the versions.
    """
    problem = of_ranks(comm, Problem(n, steps, [0.1] * len(steps), seed))
    if comm.Get_rank() > 0:
        worker = comm.Get_rank() - 1
        return find("server:work")(comm, problem.gradient(worker), problem.steps[worker])
    script = []
    for worker, version, weights in answers:
        script += [("receive", worker + 1), ("send", worker + 1, STATE, version, weights)]
        script += [("receive", worker + 1)]
    script += [("receive", worker + 1) for worker in range(len(steps))]
    return play(comm, script)


def play(comm, script, gradient=None):
    """Send and receive what a list of actions says; returns all messages that came.

    ``("send", dest, tag, version, array)``, ``("receive", source)``, ``("compute", step)`` from
    the weights that came last, ``("reply", dest, tag)`` with the version that came last, and
    ``("sleep", seconds)`` of virtual time.
    """
    came, computed = [], None
    for action, *words in script:
        if action == "send":
            send(comm, *words)
        elif action == "receive":
            came.append(receive(comm, *words))
        elif action == "compute":
            computed = gradient(came[-1][3], *words)
        elif action == "reply":
            send(comm, *words, came[-1][2], computed)
        elif action == "sleep":
            ringside.compute(seconds=words[0], phase="late")
    return came


def server_refusals(comm, staleness, num_steps):
    """What ``serve`` and ``work`` raise with such arguments, and gradients computed."""
    called = []
    if comm.Get_rank() == 0:
        weights = np.zeros(2)
        return error_of("server:serve", comm, weights, lambda w, g: w, staleness), 0
    error = error_of("server:work", comm, lambda w, step: called.append(step), num_steps)
    return error, len(called)


# -- local_sgd -------------------------------------------------------------------------------------


def local_sgd_trained(comm, params, curvatures, samples, num_steps, period, lr):
    """``local_sgd.train`` on a rank's own loss; returns the parameters."""
    loss = LocalLoss(curvatures, samples)
    return find("local_sgd:train")(comm, params, loss.gradient, num_steps, period, lr)


def local_sgd_looked_at(comm, params, curvatures, samples, num_steps, period, lr):
    """Two calls of ``local_sgd.train``; the second one has the arrays in the reverse order.

    Returns:
        A dict: ``first`` and ``second``, both results after the second call; was ``params``
        ``changed``, and does a result ``share`` memory with it or with the other one?
    """
    given, before = list(params), [np.array(param) for param in params]
    first = list(local_sgd_trained(comm, given, curvatures, samples, num_steps, period, lr))
    kept = len(given) == len(params) and all(a is b for a, b in zip(given, params, strict=True))
    turned = curvatures[::-1], [targets[::-1] for targets in samples]
    second = list(local_sgd_trained(comm, params[::-1], *turned, num_steps, period, lr))
    changed = not kept or not all(map(np.array_equal, params, before))
    shared = overlapping([*params, *first, *second])
    return {"first": first, "second": second, "changed": changed, "shared": shared}


def local_sgd_refused(comm, num_steps, period):
    """``local_sgd.train`` with numbers that can't be right: its error, and gradients computed."""
    called = []

    def gradient(params, step):
        called.append(step)
        return [np.zeros_like(param) for param in params]

    error = error_of("local_sgd:train", comm, [np.ones(3)], gradient, num_steps, period, 0.1)
    return error, len(called)


# -- gossip ----------------------------------------------------------------------------------------


def gossip_looked_at(comm, x, neighbours, weights, num_rounds):
    """Two equal calls of ``gossip.average`` with an x that is not contiguous; ranks begin late.

    Returns:
        As ``local_sgd_looked_at``.
    """
    larger = np.full((*x.shape, 2), 77, x.dtype)
    given = larger[..., 0]
    given[...] = x
    lists = list(neighbours), list(weights)
    # Rank 0 may be in its second call before rank 1 has heard of rank 2.
    ringside.compute(seconds=1e-3 * comm.Get_rank(), phase="late")
    first, second = (find("gossip:average")(comm, given, *lists, num_rounds) for _ in range(2))
    spoilt = bool(np.any(larger[..., 1] != 77)) or not np.array_equal(given, x)
    changed = spoilt or lists != (list(neighbours), list(weights))
    shared = overlapping([larger, first, second])
    return {"first": first, "second": second, "changed": changed, "shared": shared}


def gossip_refused(comm, neighbours, weights, num_rounds):
    """``gossip.average`` on two ranks with a row that can't be right: its error.

    Args:
        neighbours: of words ``"me"`` and ``"you"``, which stand for the two ranks, and of numbers.
    """
    named = {"me": comm.Get_rank(), "you": 1 - comm.Get_rank()}
    row = [named.get(each, each) for each in neighbours]
    return error_of("gossip:average", comm, np.ones(3), row, list(weights), num_rounds), 0
