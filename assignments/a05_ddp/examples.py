"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run overlap.py:measured_step --ranks 4 -- --n 256 --bucket-bytes 600000
    ringside run callers_torch.py:measured_ddp --ranks 4 -- --n 256 --bucket-bytes 600000

Layers of widths n -> n -> n -> n -> n; each rank has another batch of 16 samples.
"""

import contextlib

import callers
import numpy as np
from cases import greedy
from model import Model, loss_gradient, random_parameters

from ringside.checking import announced, assert_array, one_line
from ringside.trace import Kind

LAYERS, BATCH = 4, 16
MEASURED = ("measured_step", "measured_ddp")
OPTIONS = {"bucket_bytes"}
INSTEAD = {  # these make gradients and a model, and try the function on them
    "buckets.py:average": "callers.py:try_average -- --lengths '[3, 5]' --buckets '[[1], [0]]'",
    "buckets.py:fusion_cycle": "callers.py:try_fusion -- --lengths '[3, 5]' --threshold-bytes 64",
    "overlap.py:backward": "callers.py:try_step -- --widths '[4, 6, 3]' --buckets '[[3, 2, 1, 0]]'",
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    if function not in MEASURED:
        return None
    params = _params(options)
    bucket_bytes = int(options.others.get("bucket_bytes", 25 * 2**20))
    if function == "measured_ddp":
        return params, *_batch(rank, options), bucket_bytes
    return params, *_batch(rank, options), greedy([each.nbytes for each in params], bucket_bytes)


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get: the gradients of all ranks' batches in one."""
    if function not in MEASURED:
        return None
    model = Model(_params(options))
    parts = [_batch(each, options) for each in range(world_size)]
    x, target = (np.concatenate(each) for each in zip(*parts, strict=True))
    model.backward(loss_gradient(model.forward(x), target))
    return model.gradients()


def _params(options):
    widths = [options.n] * (LAYERS + 1)
    return random_parameters(widths, np.random.default_rng(options.seed), options.dtype)


def _batch(rank, options):
    rng = np.random.default_rng([options.seed, rank])
    drawn = rng.standard_normal((2, BATCH, options.n)).astype(options.dtype)
    return drawn[0], drawn[1]


# -- what came back --------------------------------------------------------------------------------


def check(case, function, rank, value, options):
    """Raise a verdict where what a function of ``callers.py`` gave back on a rank is not right."""
    others, p = options.others, case.world_size
    if function == "try_average":
        inside = {index for bucket in others["buckets"] for index in bucket}
        assert_means(value, rank, _samples(p, options), inside, case)
    elif function == "try_fusion":
        agreed, gradients = value
        n = len(others["lengths"])
        assert_agreed(agreed, rank, list(range(n))[::-1][: max(n - 1, 0)], case)
        assert_means(gradients, rank, _samples(p, options), set(agreed), case)
    elif function == "try_step":
        params, batches = callers.sample_step(others["widths"], p, options.dtype)
        right = trained(params, batches, case.factors)
        compare(value, right, options.dtype, case, f"rank {rank}'s gradient")
    else:
        return False
    return True


def _samples(world_size, options):
    return [
        callers.sample(rank, options.others["lengths"], options.dtype) for rank in range(world_size)
    ]


def trained(params, batches, factors=None):
    """The mean gradients of all ranks' batches."""
    return training(params, [[each] for each in batches], None, factors)["gradients"]


def training(params, per_rank, lr, factors=None):
    """Serial training on all ranks' batches.

    Args:
        per_rank: per rank a list of ``(x, target)``, one a step, of equal lengths.
        lr: learning rate; None: no update.
        factors: of the passes, in a test of order; then each rank's batch has its own.

    Returns:
        ``params`` and ``gradients`` at the end, and ``inputs``: per rank and step the gradient
        with respect to x of this rank's own loss.
    """
    params = [np.array(each, "float64") for each in params]
    models = [Model(params) for _ in per_rank]  # which share the parameters
    inputs = [[] for _ in per_rank]
    for batches in zip(*per_rank, strict=True):
        for rank, (x, target) in enumerate(batches):
            with contextlib.nullcontext() if factors is None else factors.of_rank(rank):
                output = models[rank].forward(np.asarray(x, "float64"))
                inputs[rank].append(models[rank].backward(loss_gradient(output, target)))
        gradients = mean([model.gradients() for model in models])
        if lr is not None:
            for param, gradient in zip(params, gradients, strict=True):
                param -= lr * gradient
    return {"params": params, "gradients": gradients, "inputs": inputs}


def mean(contributions):
    """The mean of all ranks' lists of arrays, added in double precision."""
    ranks = len(contributions)
    columns = zip(*contributions, strict=True)
    return [
        (np.sum([np.asarray(a, "float64") for a in arrays], axis=0) / ranks).astype(arrays[0].dtype)
        for arrays in columns
    ]


def assert_means(gradients, rank, contributions, inside, case):
    """A rank's gradients in ``inside`` are means, the others as they were."""
    means, own = mean(contributions), contributions[rank]
    expected = [means[i] if i in inside else own[i] for i in range(len(own))]
    scales = [
        np.mean([abs(np.asarray(each[i], "float64")) for each in contributions], axis=0)
        for i in range(len(own))
    ]
    check_arrays(gradients, expected, scales, case, f"rank {rank}'s gradient")


def assert_agreed(returned, rank, agreed, case):
    """``fusion_cycle`` returned what is ready on all ranks."""
    if returned != agreed:
        raise case.fail(
            f"rank {rank} returned {returned}; ready on all ranks are {agreed}, from high to low."
        )


def check_arrays(values, expected, scales, case, what):
    """A list of arrays is as it must be."""
    if not isinstance(values, list) or len(values) != len(expected):
        raise case.fail(f"{what}: not all of {len(expected)} arrays came back.")
    for number, (value, wanted, scale) in enumerate(zip(values, expected, scales, strict=True)):
        if isinstance(value, np.ndarray) and value.shape == np.shape(wanted):
            value, wanted, scale = value.reshape(-1), np.ravel(wanted), np.ravel(scale)
        assert_array(value, wanted, scale, case, f"{what} {number}")


def compare(values, expected, dtype, case, what):
    """Arrays, within rounding of a few layers' sums."""
    expected = [np.asarray(each).astype(dtype) for each in expected]
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    eps = 2 * (case.world_size + 1) * np.finfo(dtype).eps
    scales = [
        np.full(each.shape, tolerance / eps * (1 + abs(each).max(initial=0))) for each in expected
    ]
    check_arrays(values, expected, scales, case, what)


# -- what the network saw --------------------------------------------------------------------------


def collectives(result, rank):
    """A rank's library collectives, as the network counted them."""
    return [op for op in result.trace.ops[rank] if op.kind == Kind.COLLECTIVE]


def assert_all_reduces(result, wanted, case, free=()):
    """Each rank took part in all-reduces of so many bytes, in this order, and sent nothing else.

    Args:
        free: bounds of all-reduces that come before those of ``wanted``.
    """
    members = result.members or None
    case = case.seen_in(result).asking(f"all_reduces={_listed(free)};{_listed(wanted)}")
    if result.comm_calls:
        raise case.fail("communicators were made; none is allowed.")
    if sum(result.sent_messages()):
        raise case.fail("messages were sent point to point; only all-reduces are allowed.")
    for place in range(case.world_size):
        rank = place if members is None else members[place]
        ops = collectives(result, rank)
        for op in ops:
            if op.detail[0] != "allreduce":
                name = one_line(str(op.detail[0]), 40)
                raise case.fail(f"the library's {name} was called; only all-reduces are allowed.")
            call = result.trace.sites[op.site].call if op.site >= 0 else ""
            if call.startswith(("allreduce(", "iallreduce(")):
                raise case.fail(
                    f"rank {place} called {call.partition('(')[0]}, which pickles what it sends; "
                    "Allreduce and Iallreduce are allowed."
                )
        counted = [op.nbytes for op in ops]
        expected = [*free, *wanted]
        if len(counted) != len(expected):
            raise case.fail(
                f"rank {place} took part in {len(counted)} all-reduces; "
                f"{len(expected)} are asked for: one a bucket"
                f"{' and one to agree' if free else ''}."
            )
        for number, (nbytes, bound) in enumerate(zip(counted, expected, strict=True)):
            exact = number >= len(free)
            if nbytes > bound or (exact and nbytes != bound):
                raise case.fail(
                    f"rank {place}'s all-reduce number {number} has {nbytes} bytes; "
                    f"{'' if exact else 'at most '}{bound} are asked for."
                )


def backward_phases(ops):
    """Places of the layers' backward passes among a rank's operations, and their numbers.

    In a test of order it is the network that says where they are: where each was announced first.
    """
    named = [(place, phase) for place, phase, _ in announced(ops)]
    if not named:
        named = [(k, str(op.detail[3])) for k, op in enumerate(ops) if op.kind == Kind.COMPUTE]
    return [
        (place, int(phase.rpartition(" ")[2]))
        for place, phase in named
        if phase.startswith("backward layer ")
    ]


def assert_launches(result, case, widths, buckets):
    """Each all-reduce begins before the backward pass that follows its last gradient."""
    case = case.seen_in(result).asking("launches")
    last_layers = []  # per bucket, the lowest layer among its parameters and those before it
    lowest = len(widths)
    for bucket in buckets:
        lowest = min(lowest, min(index // 2 for index in bucket))
        last_layers.append(lowest)
    for rank, member in enumerate(result.members or range(result.world_size)):
        ops = result.trace.ops[member]
        phases = {number: place for place, number in backward_phases(ops)}
        places = [place for place, op in enumerate(ops) if op.kind == Kind.COLLECTIVE]
        for number, (place, layer) in enumerate(zip(places, last_layers, strict=True)):
            if layer > 0 and place > phases[layer - 1]:
                raise case.fail(
                    f"rank {rank} began the all-reduce of bucket {number} after the backward "
                    f"pass of layer {layer - 1}; its last gradient was ready after layer {layer}."
                )
            if place < phases[layer]:
                raise case.fail(
                    f"rank {rank} began the all-reduce of bucket {number} before layer {layer}'s "
                    "gradients were there."
                )


def assert_overlaps(result, case, waited=True):
    """On each rank, gradients are under way while a layer's backward pass computes.

    Args:
        waited: what began must not be complete before; else it is enough that it began.
    """
    case = case.seen_in(result).asking("overlaps" if waited else "begins")
    for rank in range(case.world_size):
        ops = result.trace.ops[rank]
        passes = [place for place, _ in backward_phases(ops)] or [len(ops)]
        done = {each: k for k, op in enumerate(ops) if op.kind == Kind.WAIT for each in op.detail}
        begun = [
            (place, done.get(op.request, len(ops)) if waited else len(ops))
            for place, op in enumerate(ops)
            if op.kind in (Kind.COLLECTIVE, Kind.ISEND) and place > passes[0]
        ]
        if not any(start < at < end for start, end in begun for at in passes):
            what = "was under way" if waited else "had begun"
            raise case.fail(
                f"no all-reduce of rank {rank} {what} while a layer's backward pass computed."
            )


def _listed(numbers):
    return ",".join(map(str, numbers))


def _numbers(text):
    return [int(word) for word in text.split(",") if word]


def _all_reduces(result, case, value):
    free, wanted = map(_numbers, value.split(";"))
    assert_all_reduces(result, wanted, case, free)


CHECKS = {
    "all_reduces": _all_reduces,
    "overlaps": lambda result, case, _: assert_overlaps(result, case),
    "begins": lambda result, case, _: assert_overlaps(result, case, waited=False),
    "launches": lambda result, case, _: assert_launches(
        result, case, case.options["widths"], case.options["buckets"]
    ),
}
