"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see messages and results only. What must be made or looked at inside a
rank, they ask for here. A verdict names the same functions in its line.
"""

import numpy as np
from server_problem import Problem
from wire import END, PULL, PUSH, STATE, receive, send

import ringside
from ringside.checking import find

# -- server ----------------------------------------------------------------------------------------


def server_training(comm, steps, paces, staleness, n=4, seed=0, fixed=False):
    """``serve`` and ``work`` train together; see ``server_problem.Problem``.

    Returns:
        On rank 0 a dict: ``weights``; ``kept`` (are those that ``serve`` was given as they were?);
        ``shared`` (is the result the same memory?). On others the versions.
    """
    problem = of_ranks(comm, Problem(n, steps, paces, seed, fixed))
    if comm.Get_rank() == 0:
        return server_side(comm, problem, staleness)
    worker = comm.Get_rank() - 1
    return find("server:work")(comm, problem.gradient(worker), problem.steps[worker])


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


def scripted_workers(comm, steps, paces, staleness, n=4, seed=0, late=0):
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


def scripted_server(comm, steps, n=4, seed=0):
    """``work`` on all ranks but 0; on rank 0 not your ``serve``, but a list of messages.

    Returns:
        On rank 0 what came: ``(source, tag, version, array)``; on others the versions.
    """
    problem = of_ranks(comm, Problem(n, steps, [0.1] * len(steps), seed))
    if comm.Get_rank() > 0:
        worker = comm.Get_rank() - 1
        return find("server:work")(comm, problem.gradient(worker), problem.steps[worker])
    script = []
    for answers in server_answers(problem, seed):
        for worker, (version, weights) in answers.items():
            script += [("receive", worker + 1), ("send", worker + 1, STATE, version, weights)]
            script += [("receive", worker + 1)]
    script += [("receive", worker + 1) for worker in range(len(steps))]
    return play(comm, script)


def server_answers(problem, seed):
    """Per step and worker the version and weights that ``scripted_server`` answers."""
    rng = np.random.default_rng([seed, 1])
    answers = []
    for step in range(max(problem.steps, default=0)):
        workers = [worker for worker, count in enumerate(problem.steps) if count > step]
        answers.append(
            {w: (int(rng.integers(2**40)), rng.standard_normal(problem.n)) for w in workers}
        )
    return answers


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
    """What ``serve`` and ``work`` raise with such arguments: the exception's type, or None."""
    try:
        if comm.Get_rank() == 0:
            find("server:serve")(comm, np.zeros(2), lambda weights, gradient: weights, staleness)
        else:
            find("server:work")(comm, lambda weights, step: weights, num_steps)
    except Exception as error:
        return type(error).__name__
    return None
