"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:server_training --ranks 3 -- --steps '[3, 2]' --paces '[1, 4]' \
        --staleness 1
    ringside run server.py:measured_training --ranks 4 -- --n 256 --staleness None --slow 4
    ringside run callers.py:local_sgd_trained --ranks 3 -- --num-steps 8 --period 3
    ringside run callers_torch.py:diloco_trained --ranks 3 -- --num-steps 8 --period 4
    ringside run callers_torch.py:compressed --ranks 4 -- --shape '[8, 12]' --approx-rank 2
    ringside run gossip.py:average --ranks 5 -- --graph wheel --num-rounds 4 --shape '[100]'

Losses, graphs and values are drawn from ``--seed``.
"""

import cases_torch
import numpy as np
import wire
from callers import server_answers
from cases import gossip_inputs, local_sgd_inputs, mixing_matrix, ring
from server_problem import Problem, trained

from ringside import Machine
from ringside.checking import assert_array, assert_own_messages, assert_peers
from ringside.checking.ring_bytes import received_as_ring, sent_as_ring
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
        return others["steps"], options.n, options.seed
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


def check_weights(value, right, case):
    """What ``server_side`` returned on rank 0."""
    assert_near(value["weights"], right.weights, case, "what serve returned")
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
        assert_near(
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
            assert_near(array, right[2], case, f"the gradient that {what} pushed")


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
                whom = "itself" if rank == 0 else "another worker"
                raise case.fail(
                    f"rank {rank} sent a message to {whom}; workers exchange messages with rank 0 "
                    "only."
                )
            worker = rank or members.index(op.peer)
            count, nbytes = counted.get((worker, op.tag), (0, 0))
            counted[worker, op.tag] = (count + 1, nbytes + op.nbytes)
            if (op.tag == wire.STATE) != (rank == 0):
                raise case.fail(
                    f"rank {rank} sent a message with tag {op.tag}; rank 0 sends STATE "
                    f"({wire.STATE}), and workers send the other tags of wire.py."
                )
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
        worker, tag = min(counted)
        raise case.fail(f"rank {worker} sent a message with tag {tag}, which wire.py doesn't have.")


def assert_pushes_travel(result, case):
    """Each worker's gradients went to rank 0 as messages, and the weights came back at least once.

    How many messages there are, and which versions they hold, is not looked at.
    """
    case = cases_torch.of_the_scheme(case)
    assert_own_messages(result, case)
    case = case.seen_in(result).asking("pushes")
    counted = messages_by_tag(result, case)
    for worker, count in enumerate(case.options["steps"], 1):
        for name, right in (("PUSH", 8 * case.n * count), ("STATE", 8 * case.n)):
            _, nbytes = counted.get((worker, getattr(wire, name)), (0, 0))
            if nbytes < right:
                raise case.fail(
                    f"{name} messages of {nbytes} bytes in all were exchanged with rank {worker}; "
                    f"{count} steps take at least {right}."
                )


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


# -- local_sgd -------------------------------------------------------------------------------------

LOCAL_SGD_OPTIONS = {"shapes", "num_steps", "period", "nan_of"}
LOCAL_SGD_INSTEAD = {  # gradients are made on the ranks
    "local_sgd.py:train": "callers.py:local_sgd_trained -- --num-steps 8 --period 3",
}


def local_sgd_arguments(function, world_size, rank, options):
    """What the functions of ``callers.py`` get after ``comm``."""
    numbers = int(options.others.get("num_steps", 8)), int(options.others.get("period", 3))
    if function == "local_sgd_refused":
        return numbers
    if function not in ("local_sgd_trained", "local_sgd_looked_at"):
        return None
    params, losses, lr = _local_sgd_inputs(world_size, options)
    return params, *losses[rank], *numbers, lr


def _local_sgd_inputs(world_size, options):
    shapes = [tuple(shape) for shape in options.others.get("shapes", [[3, 4], [4]])]
    of = options.seed, options.dtype, options.others.get("nan_of")
    return local_sgd_inputs(world_size, shapes, *of)


def local_sgd_expected(function, world_size, rank, options):
    """What every rank gets of ``local_sgd_trained``, where that is numbers."""
    if function != "local_sgd_trained" or "nan_of" in options.others:
        return None
    return _local_sgd_wanted(function, world_size, rank, options)


def _local_sgd_wanted(function, world_size, rank, options):
    *_, num_steps, period, _ = local_sgd_arguments(function, world_size, rank, options)
    return local_sgd_serial(*_local_sgd_inputs(world_size, options), num_steps, period)


def local_sgd_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function == "local_sgd_refused":
        assert_local_sgd_refused(value, rank, case)
        return True
    if function not in ("local_sgd_trained", "local_sgd_looked_at"):
        return False
    wanted = _local_sgd_wanted(function, case.world_size, rank, options)
    if function == "local_sgd_looked_at":
        assert_looked_at(value, wanted, assert_params, case, rank, "parameter")
    else:
        assert_params(value, wanted, case, f"rank {rank}'s parameter")
    return True


def assert_local_sgd_refused(value, rank, case):
    """What ``local_sgd_refused`` gave back: ValueError, before any gradient."""
    error, called = value
    if error != "ValueError":
        raise case.fail(
            f"rank {rank} raised {error or 'nothing'}; it must be ValueError, on all ranks."
        )
    if called:
        raise case.fail(f"rank {rank} computed {called} gradients before it raised ValueError.")


def local_sgd_serial(params, losses, lr, num_steps, period):
    """Local SGD of all ranks on one: the parameters at the end, computed in float64."""
    dtype = params[0].dtype
    mean = [np.asarray(param, "float64") for param in params]
    for first in range(0, num_steps, period):
        ends = []
        for curvatures, samples in losses:
            own = mean
            for step in range(first, min(first + period, num_steps)):
                targets = samples[step % len(samples)]
                own = [
                    w - lr * a * (w - c) for w, a, c in zip(own, curvatures, targets, strict=True)
                ]
            ends.append(own)
        mean = [np.mean(column, axis=0) for column in zip(*ends, strict=True)]
    return [np.asarray(each).astype(dtype) for each in mean]


def assert_params(value, wanted, case, what):
    """A list of arrays is as it must be."""
    if not isinstance(value, list | tuple) or len(value) != len(wanted):
        raise case.fail(f"{what}s must be a list of {len(wanted)} arrays.")
    for number, (array, right) in enumerate(zip(value, wanted, strict=True)):
        assert_near(array, right, case, f"{what} {number}")


def assert_equal_copies(result, case):
    """All ranks have the same parameters, bit for bit."""
    for rank, value in enumerate(result.values):
        for number, (array, first) in enumerate(zip(value, result.values[0], strict=True)):
            if not np.array_equal(array, first, equal_nan=True):
                case = case.seen_in(result).asking("equal_copies")
                raise case.fail(
                    f"rank {rank}'s parameter {number} is not rank 0's bit for bit: copies that "
                    "differ drift apart."
                )


def assert_meets(result, case):
    """Every rank takes its steps, and data move at most once a period, but not never.

    How many bytes they are, and after which step, is not looked at.
    """
    case = cases_torch.of_the_scheme(case).seen_in(result)
    case = case.asking(f"meets={case.num_steps}:{case.rounds}:{case.nbytes}")
    check_meets(result, case, case.num_steps, case.rounds, case.nbytes)


def check_meets(result, case, num_steps, rounds, nbytes):
    """``assert_meets``, of these numbers."""
    moved = {}  # bytes of all ranks, by how many gradients a rank had computed
    for rank, member in enumerate(result.members or range(case.world_size)):
        computed = 0
        for op in result.trace.ops[member]:
            if op.kind == Kind.COMPUTE and str(op.detail[3]).startswith("gradient"):
                computed += 1
            elif op.kind in (Kind.ISEND, Kind.COLLECTIVE):
                moved[computed] = moved.get(computed, 0) + op.nbytes
        if computed < num_steps // 2:
            raise case.fail(f"rank {rank} computed {computed} gradients; it takes {num_steps}.")
    times = sum(each >= nbytes for each in moved.values())
    if not 1 <= times <= rounds:
        found = "never" if times == 0 else f"after {times} of {num_steps} steps"
        raise case.fail(
            f"the ranks averaged {found}; {rounds} averages are asked for, one after each period."
        )


def assert_averages(result, case, rounds, bound):
    """Each rank sent and received at most ``bound`` bytes, as a ring: for so many averages."""
    case = case.seen_in(result).asking(f"averages={rounds}:{bound}")
    members = result.members or range(case.world_size)
    for did, counted in (("sent", sent_as_ring(result)), ("received", received_as_ring(result))):
        for rank, member in enumerate(members):
            if counted[member] > bound + 1e-6:
                raise case.fail(
                    f"rank {rank} {did} {counted[member]:.0f} bytes, collectives counted as a "
                    f"ring's; {rounds} averages may take {bound}."
                )


# -- gossip ----------------------------------------------------------------------------------------

GOSSIP_OPTIONS = {"graph", "shape", "num_rounds", "nan_of", "neighbours", "weights"}


def gossip_arguments(function, world_size, rank, options):
    """What ``average`` and the functions of ``callers.py`` get after ``comm``."""
    num_rounds = int(options.others.get("num_rounds", 3))
    if function == "gossip_refused":
        return options.others["neighbours"], options.others["weights"], num_rounds
    if function not in ("average", "gossip_looked_at"):
        return None
    rows = list(zip(*_gossip_inputs(world_size, options), strict=True))
    return *rows[rank], num_rounds


def _gossip_inputs(world_size, options):
    shape = options.others.get("shape", [options.n])
    graph = str(options.others.get("graph", "ring"))
    of = options.seed, options.dtype, options.others.get("nan_of")
    return gossip_inputs(world_size, graph, tuple(shape), *of)


def gossip_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function == "gossip_refused":
        assert_gossip_refused(value, rank, case)
        return True
    if function not in ("average", "gossip_looked_at"):
        return False
    *_, num_rounds = gossip_arguments(function, case.world_size, rank, options)
    wanted = gossip_serial(*_gossip_inputs(case.world_size, options), num_rounds)[rank]
    if function == "gossip_looked_at":
        assert_looked_at(value, wanted, assert_near, case, rank, "result")
    else:
        assert_near(value, wanted, case, f"rank {rank}'s result")
    return True


def assert_gossip_refused(value, rank, case):
    """What ``gossip_refused`` gave back: ValueError."""
    if value != "ValueError":
        raise case.fail(f"rank {rank} raised {value or 'nothing'}; it must be ValueError.")


def gossip_serial(x, neighbours, weights, num_rounds):
    """Each rank's x after so many rounds: W^num_rounds times all of them, in float64.

    A number that is none reaches whom it can reach in so many rounds, and nobody else.
    """
    power = np.linalg.matrix_power(mixing_matrix(neighbours, weights), num_rounds)
    stacked = np.array([np.ravel(each) for each in x], dtype="float64")
    mixed = power @ np.nan_to_num(stacked)
    mixed[(power != 0) @ np.isnan(stacked)] = np.nan
    return [row.reshape(x[0].shape).astype(x[0].dtype) for row in mixed]


def assert_gossip(result, case, neighbours):
    """Messages went to neighbours only, and none through a library collective."""
    assert_own_messages(result, case)
    world = list(result.members or range(case.world_size))
    allowed = [set() for _ in range(result.world_size)]
    for rank, own in enumerate(neighbours):
        allowed[world[rank]] = {world[j] for j in own}
    assert_peers(result, allowed, case, "messages go to neighbours only")


def assert_values_travel(result, case):
    """On a ring each rank sent its values to its neighbours, at least once, and to nobody else."""
    case = cases_torch.of_the_scheme(case)
    assert_gossip(result, case, case.neighbours)
    check_values_travel(result, case.seen_in(result).asking(f"travel={case.nbytes}"), case.nbytes)


def check_values_travel(result, case, nbytes):
    """``assert_values_travel``, of so many bytes."""
    for rank, neighbours in enumerate(ring(case.world_size)):
        for j in neighbours:
            sent = [
                op.nbytes for op in result.trace.ops[rank] if (op.kind, op.peer) == (Kind.ISEND, j)
            ]
            if sum(sent) < nbytes:
                raise case.fail(
                    f"rank {rank} sent its neighbour {j} {sum(sent)} bytes; its own values are "
                    f"{nbytes} bytes."
                )


# -- what several modules need ---------------------------------------------------------------------


def assert_looked_at(value, wanted, compare, case, rank, what):
    """What a function ``..._looked_at`` of ``callers.py`` gave back on a rank is right."""
    first, second, changed, shared = value
    compare(first, wanted, case, f"rank {rank}'s {what}")
    compare(second, wanted, case, f"in a second call, rank {rank}'s {what}")
    if changed:
        raise case.fail(f"rank {rank} changed what it was given; it must stay as it was.")
    if shared:
        raise case.fail(
            f"rank {rank} returned an array that shares memory with what it was given, or with "
            "the result of another call; results must be new arrays."
        )


def assert_near(value, wanted, case, what):
    """One array, to 1e-12 (1e-5 in float32) of its largest element."""
    wanted = np.asarray(wanted)
    if isinstance(value, np.ndarray) and value.shape == wanted.shape:
        value, wanted = value.reshape(-1), wanted.reshape(-1)
    tolerance = 1e-12 if wanted.dtype == np.float64 else 1e-5
    allowed = tolerance / (2 * (case.world_size + 1) * np.finfo(wanted.dtype).eps)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = np.full(wanted.shape, allowed * (1 + finite.max(initial=0)))
    assert_array(value, wanted, scale, case, what)


# -- diloco_torch ----------------------------------------------------------------------------------

DILOCO_OPTIONS = {
    "num_steps", "period", "num_fragments", "outer_lr", "outer_momentum", "inner", "widths",
    "frozen", "step_s", "compare",
}  # fmt: skip
DILOCO_INSTEAD = {  # models are made on the ranks
    "diloco_torch.py:train": "callers_torch.py:diloco_trained -- --num-steps 8 --period 4",
}


def diloco_case(world_size, options):
    """The case that the options describe."""
    others = options.others
    d, h, o = widths = tuple(others.get("widths", (3, 4, 2)))
    frozen = str(others.get("frozen", False)) == "True"
    return cases_torch.DilocoCase(
        "diloco_torch:train", world_size, h * d + h * (not frozen) + o * h + o, options.dtype,
        num_steps=int(others.get("num_steps", 8)), period=int(others.get("period", 4)),
        num_fragments=int(others.get("num_fragments", 1)),
        outer_lr=float(others.get("outer_lr", 1.0)),
        outer_momentum=float(others.get("outer_momentum", 0.0)),
        inner=str(others.get("inner", "sgd")), widths=widths, frozen=frozen,
        step_s=float(others.get("step_s", 0.0)), seed=options.seed,
    )  # fmt: skip


def diloco_arguments(function, world_size, rank, options):
    """What the functions of ``callers_torch.py`` get after ``group``."""
    if function == "diloco_refused":
        return diloco_case(world_size, options).numbers()
    if function != "diloco_trained":
        return None
    return diloco_case(world_size, options).arguments_of_ranks()[rank]


def diloco_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function == "diloco_refused":
        assert_refused(value, rank, case)
    elif function == "diloco_trained" and options.others.get("compare") == "turns":
        pass  # --check turns=... looks at them
    elif function == "diloco_trained":
        factors = getattr(case, "factors", None)
        wanted = cases_torch.diloco_serial(diloco_case(case.world_size, options), factors)
        cases_torch.assert_diloco_params(value, rank, wanted, case)
    else:
        return False
    return True


def assert_refused(value, rank, case):
    """ValueError, before any loss."""
    error, called = value
    if error != "ValueError":
        raise case.fail(
            f"rank {rank} raised {error or 'nothing'}; it must be ValueError, on all ranks."
        )
    if called:
        raise case.fail(f"rank {rank} computed {called} losses before it raised ValueError.")


# -- compress_torch --------------------------------------------------------------------------------

COMPRESS_OPTIONS = {
    "shape", "approx_rank", "num_calls", "kind", "residual_shape", "other_shape", "num_steps",
    "compare",
}  # fmt: skip
COMPRESS_INSTEAD = {  # residuals and states are made on the ranks
    "compress_torch.py:all_reduce": (
        "callers_torch.py:compressed -- --shape '[8, 12]' --approx-rank 2"
    ),
}


def compress_case(world_size, options):
    """The case that the options describe."""
    others = options.others
    shape = tuple(others.get("shape", (8, 12)))
    return cases_torch.CompressCase(
        "compress_torch:all_reduce", world_size, int(np.prod(shape)), options.dtype,
        shape=shape, approx_rank=int(others.get("approx_rank", 2)),
        num_calls=int(others.get("num_calls", 3)), kind=str(others.get("kind", "random")),
        compare=str(others.get("compare", "all")), seed=options.seed,
    )  # fmt: skip


def compress_arguments(function, world_size, rank, options):
    """What the functions of ``callers_torch.py`` get after ``group``."""
    if function == "compress_refused":
        shape = [int(each) for each in options.others.get("residual_shape", (4, 6))]
        return int(options.others.get("approx_rank", 2)), shape
    case = compress_case(world_size, options)
    if function == "compressed":
        return case.arguments_of_ranks()[rank]
    if function == "compressed_in_turns":
        return cases_torch.turns_arguments(case)[rank]
    if function == "compress_trained":
        return cases_torch.least_squares(case, int(options.others.get("num_steps", 60)))[0][rank]
    return None


def compress_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function == "compress_refused":
        if value != "ValueError":
            raise case.fail(f"rank {rank} raised {value or 'nothing'}; it must be ValueError.")
        return True
    mine = compress_case(case.world_size, options)
    gradients = mine.inputs()
    if function == "compressed" and mine.kind == "zeros":
        cases_torch.assert_zeros_values(value, rank, mine.approx_rank, gradients[rank], case)
    elif function == "compressed":
        wanted = cases_torch.compress_serial(gradients, mine.approx_rank, mine.seed)
        cases_torch.assert_compressed_values(value, rank, wanted, gradients, case, mine.compare)
    elif function == "compressed_in_turns":
        cases_torch.assert_in_turns(value, rank, mine, case)
    elif function == "compress_trained":
        _, best = cases_torch.least_squares(mine, int(options.others.get("num_steps", 60)))
        cases_torch.assert_converged(value, rank, best, case)
    else:
        return False
    return True


# -- all modules -----------------------------------------------------------------------------------

OPTIONS = {
    *SERVER_OPTIONS, *LOCAL_SGD_OPTIONS, *DILOCO_OPTIONS, *COMPRESS_OPTIONS, *GOSSIP_OPTIONS,
}  # fmt: skip
INSTEAD = {**SERVER_INSTEAD, **LOCAL_SGD_INSTEAD, **DILOCO_INSTEAD, **COMPRESS_INSTEAD}
CHECKS = {
    "travel": lambda result, case, value: check_values_travel(result, case, int(value)),
    "pushes": lambda result, case, _: assert_pushes_travel(result, case),
    "protocol": lambda result, case, _: assert_protocol(result, case),
    "ahead": lambda result, case, value: assert_ahead(result, int(value), case),
    "equal_copies": lambda result, case, _: assert_equal_copies(result, case),
    "meets": lambda result, case, value: check_meets(result, case, *map(int, value.split(":"))),
    "meets_torch": lambda result, case, value: cases_torch.check_meets(
        result, case, *map(int, value.split(":"))
    ),
    "thin": lambda result, case, value: cases_torch.check_thin(result, case, int(value)),
    "averages": lambda result, case, value: assert_averages(
        result, case, *map(int, value.split(":"))
    ),
    "equal_params": lambda result, case, _: cases_torch.assert_equal_params(result, case),
    "equal_means": lambda result, case, _: cases_torch.assert_equal_means(result, case),
    "turns": lambda result, case, value: cases_torch.assert_diloco_turns(
        result, case, tuple(map(int, value.split(":")))
    ),
    "compressed": lambda result, case, value: cases_torch.assert_compressed_bytes(
        result, case, int(value)
    ),
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm`` or ``group``; None for functions not known here."""
    for known in (
        server_arguments, local_sgd_arguments, diloco_arguments, compress_arguments,
        gossip_arguments,
    ):  # fmt: skip
        given = known(function, world_size, rank, options)
        if given is not None:
            return given
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    for known in (server_expected, local_sgd_expected):
        wanted = known(function, world_size, rank, options)
        if wanted is not None:
            return wanted
    return None


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if options.others.get("compare") == "scheme":
        return True  # a --check looks at what was sent
    modules = (server_check, local_sgd_check, diloco_check, compress_check, gossip_check)
    return any(known(case, function, rank, value, options) for known in modules)
