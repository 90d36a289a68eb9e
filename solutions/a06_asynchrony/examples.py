"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:local_sgd_trained --ranks 3 -- --num-steps 8 --period 3
    ringside run gossip.py:average --ranks 5 -- --graph wheel --num-rounds 4 --shape '[100]'

Losses, graphs and values are drawn from ``--seed``.
"""

import numpy as np
from cases import gossip_inputs, local_sgd_inputs, mixing_matrix

from ringside.checking import assert_array, assert_own_messages, assert_peers
from ringside.checking.ring_bytes import received_as_ring, sent_as_ring

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


# -- what local_sgd and gossip need ----------------------------------------------------------------


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


# -- all modules -----------------------------------------------------------------------------------

OPTIONS = {*LOCAL_SGD_OPTIONS, *GOSSIP_OPTIONS}
INSTEAD = {**LOCAL_SGD_INSTEAD}
CHECKS = {
    "equal_copies": lambda result, case, _: assert_equal_copies(result, case),
    "averages": lambda result, case, value: assert_averages(
        result, case, *map(int, value.split(":"))
    ),
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    given = local_sgd_arguments(function, world_size, rank, options)
    return gossip_arguments(function, world_size, rank, options) if given is None else given


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known."""
    return local_sgd_expected(function, world_size, rank, options)


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    known = local_sgd_check(case, function, rank, value, options)
    return known or gossip_check(case, function, rank, value, options)
