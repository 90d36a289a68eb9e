"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:server_training --ranks 3 -- --steps '[3, 2]' --paces '[1, 4]' \
        --staleness 1
    ringside run server.py:measured_training --ranks 4 -- --n 256 --staleness None --slow 4
"""

import numpy as np
import wire
from callers import server_answers
from server_problem import Problem, trained

from ringside import Machine
from ringside.checking import assert_array
from ringside.trace import Kind

# -- server ----------------------------------------------------------------------------------------

SERVER_STEPS = 6  # of a worker in the measured training
SERVER_OPTIONS = {"steps", "paces", "staleness", "slow", "fixed", "late"}
SERVER_INSTEAD = {
    "server.py:serve": "callers.py:server_training -- --steps '[3, 2, 4]' --paces '[1, 4, 2]' "
    "--staleness 1",
    "server.py:work": "callers.py:scripted_server -- --steps '[3, 2, 4]'",
}


def server_arguments(function, world_size, rank, options):
    """What ``measured_training`` and the functions of ``callers.py`` get after ``comm``."""
    others = options.others
    steps = others.get("steps", SERVER_STEPS)
    staleness = others.get("staleness")
    if function == "measured_training":
        rng = np.random.default_rng([options.seed, rank])
        targets = rng.integers(-9, 10, size=(steps, options.n)).astype("float64")
        matrix = np.random.default_rng(options.seed).standard_normal((options.n, options.n))
        return matrix, targets, staleness, others.get("slow", 4)
    if function in ("server_training", "scripted_workers"):
        given = (steps, others["paces"], staleness, options.n, options.seed)
        more = ("fixed", False) if function == "server_training" else ("late", 0)
        return *given, others.get(*more)
    if function == "scripted_server":
        return steps, options.n, options.seed
    return None


def server_expected(function, world_size, rank, options):
    """What rank ``rank`` of ``measured_training`` gets: any order of pushes gives the same."""
    if function != "measured_training":
        return None
    targets = [
        server_arguments(function, world_size, each, options)[1] for each in range(1, world_size)
    ]
    if rank > 0:
        return len(targets[0])
    if not targets:
        return np.zeros(options.n)
    together = np.mean if options.others.get("staleness") == 0 else np.sum
    return -together(targets, axis=0).sum(axis=0)


def server_check(case, function, rank, value, options):
    """Raise a verdict where what a function of ``callers.py`` gave back on a rank is not right."""
    if function == "server_refusals":
        check_refusal(value, rank, case)
        return True
    if function not in ("server_training", "scripted_workers", "scripted_server"):
        return False
    given = server_arguments(function, case.world_size, rank, options)
    if function == "scripted_server":
        steps, n, seed = given
        problem = Problem(n, steps, [0.1] * len(steps), seed)
        (check_replies if rank == 0 else check_given_versions)(value, rank, problem, seed, case)
        return True
    steps, paces, staleness, n, seed, more = given
    fixed, late = (more, 0) if function == "server_training" else (False, more)
    problem = Problem(n, steps, paces, seed, fixed)
    right = trained(problem, staleness, Machine.load("textbook"), case.factors, late)
    if rank == 0:
        check_weights(value, right, case)
    elif function == "scripted_workers":
        check_answers(value, rank, right, case)
    elif not problem.fixed:
        check_versions(value, rank, right.versions[rank - 1], case)
    return True


def near(value, wanted, case, what):
    """One array of float64, to 1e-12 of its largest element."""
    eps = 2 * (case.world_size + 1) * np.finfo("float64").eps
    scale = np.full(wanted.shape, 1e-12 / eps * (1 + abs(wanted).max(initial=0)))
    assert_array(value, wanted, scale, case, what)


def check_weights(value, right, case):
    """What ``server_side`` returned on rank 0."""
    near(value["weights"], right.weights, case, "what serve returned")
    if not value["kept"]:
        raise case.fail("serve changed the weights that it was given; they must stay.")
    if value["shared"]:
        raise case.fail("serve returned the array that it was given; it must be a new one.")


def check_versions(value, rank, wanted, case):
    """What ``work`` returned."""
    if not isinstance(value, list) or value != wanted:
        raise case.fail(
            f"rank {rank}'s work returned {_short(value)}; its gradients must be computed on the "
            f"versions {_short(wanted)}."
        )


def check_answers(value, rank, right, case):
    """What a scripted worker received: versions first, then the weights of each."""
    answers = right.answers[rank - 1]
    tags = [tag for _, tag, _, _ in value]
    if any(tag != wire.STATE for tag in tags):
        raise case.fail(f"rank {rank} received messages of tags {_short(tags)}; only STATE is.")
    versions = [version for _, _, version, _ in value]
    wanted = [version for version, _ in answers]
    if versions != wanted:
        raise case.fail(
            f"the server answered rank {rank}'s pulls with the versions {_short(versions)}; "
            f"they must be {_short(wanted)}."
        )
    for step, ((_, _, version, weights), (_, exact)) in enumerate(zip(value, answers, strict=True)):
        near(
            weights, exact, case, f"the weights that rank {rank} got in step {step}, as {version},"
        )


def check_given_versions(value, rank, problem, seed, case):
    """What ``work`` returned to a scripted server's answers."""
    answers = server_answers(problem, seed)
    wanted = [each[rank - 1][0] for each in answers if rank - 1 in each]
    check_versions(value, rank, wanted, case)


def check_replies(value, rank, problem, seed, case):
    """What a scripted server received, in the order of its script."""
    wanted = []
    for step, answers in enumerate(server_answers(problem, seed)):
        for worker, (version, weights) in answers.items():
            gradient = problem.gradient(worker)(weights, step)
            wanted += [(worker, step, wire.PULL, None, None)]
            wanted += [(worker, step, wire.PUSH, version, gradient)]
    wanted += [(w, count, wire.END, None, None) for w, count in enumerate(problem.steps)]
    names = {wire.PULL: "PULL", wire.STATE: "STATE", wire.PUSH: "PUSH", wire.END: "END"}
    for (_, tag, version, array), (worker, step, *right) in zip(value, wanted, strict=True):
        what = f"rank {worker + 1} in step {step}"
        if tag != right[0]:
            raise case.fail(f"{what} sent {names.get(tag, tag)}; it must be {names[right[0]]}.")
        if version != right[1]:
            raise case.fail(
                f"{what} sent a {names[tag]} with version {version}; "
                + (f"it pulled version {right[1]}." if tag == wire.PUSH else "it is empty.")
            )
        if right[2] is not None:
            near(array, right[2], case, f"the gradient that {what} pushed")


def check_refusal(value, rank, case):
    """What ``server_refusals`` returned."""
    if value != "ValueError":
        raise case.fail(f"rank {rank} raised {value}; it must be ValueError, before any message.")


def messages_by_tag(result, case):
    """Per worker and tag, numbers of messages and their bytes, as the network counted them.

    Keys are ``(rank, tag)`` of workers, also for what rank 0 sent them.
    """
    members = list(result.members or range(result.world_size))
    counted = {}
    for rank, member in enumerate(members):
        for op in result.trace.ops[member]:
            if op.kind != Kind.ISEND:
                continue
            if (op.peer == members[0]) == (rank == 0):
                raise case.fail(f"rank {rank} sent a message to a rank other than its partners.")
            worker = rank or members.index(op.peer)
            count, nbytes = counted.get((worker, op.tag), (0, 0))
            counted[worker, op.tag] = (count + 1, nbytes + op.nbytes)
            if (op.tag == wire.STATE) != (rank == 0):
                raise case.fail(f"rank {rank} sent a message with tag {op.tag}.")
    return counted


def assert_protocol(result, case):
    """Each worker's pulls, answers, pushes and one END, with the bytes of their layout."""
    case = case.seen_in(result).asking("protocol")
    counted = messages_by_tag(result, case)
    nbytes = 8 * (case.n + 1)
    for worker, count in enumerate(case.options["steps"], 1):
        wanted = {
            "PULL": (count, 0),
            "STATE": (count, count * nbytes),
            "PUSH": (count, count * nbytes),
            "END": (1, 0),
        }
        for name, right in wanted.items():
            found = counted.pop((worker, getattr(wire, name)), (0, 0))
            if found != right:
                raise case.fail(
                    f"{found[0]} {name} messages of {found[1]} bytes in all were exchanged with "
                    f"rank {worker}; it must be {right[0]} of {right[1]} bytes."
                )
    if counted:
        raise case.fail(f"messages have tags {sorted(tag for _, tag in counted)}: {wire.__name__}.")


def answered_ahead(result):
    """How far ahead of the slowest each answered worker was, in the order of rank 0's record.

    A clock counts pushes that rank 0 has received; one that has sent END is not waited for.

    Returns:
        A list of ``(worker, clock, slowest clock)``.
    """
    members = list(result.members or range(result.world_size))
    clocks = dict.fromkeys(range(1, len(members)), 0)
    waits, ahead = {}, []
    for op in result.trace.ops[members[0]]:
        if op.kind == Kind.IRECV:
            waits[op.request] = op
        elif op.kind == Kind.WAIT:
            for received in (waits.pop(request, None) for request in op.detail):
                if received is not None and received.tag == wire.PUSH:
                    clocks[members.index(received.peer)] += 1
                elif received is not None and received.tag == wire.END:
                    clocks.pop(members.index(received.peer), None)
        elif op.kind == Kind.ISEND and op.tag == wire.STATE:
            worker = members.index(op.peer)
            ahead.append((worker, clocks.get(worker, 0), min(clocks.values(), default=0)))
    return ahead


def assert_ahead(result, staleness, case):
    """No worker was answered while it was more than ``staleness`` steps ahead."""
    case = case.seen_in(result).asking(f"ahead={staleness}")
    for worker, clock, slowest in answered_ahead(result):
        if clock - slowest > staleness:
            raise case.fail(
                f"rank {worker} was answered after {clock} pushes, when a worker that still works "
                f"had pushed {slowest}; it may be at most {staleness} ahead."
            )


def _short(value):
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# -- all modules -----------------------------------------------------------------------------------

OPTIONS = {*SERVER_OPTIONS}
INSTEAD = {**SERVER_INSTEAD}
CHECKS = {
    "protocol": lambda result, case, _: assert_protocol(result, case),
    "ahead": lambda result, case, value: assert_ahead(result, int(value), case),
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    return server_arguments(function, world_size, rank, options)


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known."""
    return server_expected(function, world_size, rank, options)


def check(case, function, rank, value, options):
    """Raise a verdict where what a function of ``callers.py`` gave back on a rank is not right."""
    return server_check(case, function, rank, value, options)
