"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:stash_trained --ranks 3 -- --batch-sizes '[2, 2, 2, 2]'
    ringside run callers.py:stash_trained --ranks 3 -- --batch-sizes '[2, 2]' --vertical-sync True
    ringside run stash.py:measured_training --ranks 4 -- --n 256 --minibatches 16

Parameters and data are drawn from ``--seed``.
"""

from dataclasses import replace
from types import SimpleNamespace

import cases
import numpy as np
from model import random_parameters
from recursion import delayed_descent, lags

from ringside.checking import announced, assert_array, assert_declared_at_once, one_line
from ringside.trace import Kind

# -- stash -----------------------------------------------------------------------------------------

STASH_SAMPLES = 32  # of a minibatch in the measured training
STASH_ENVELOPE = 1024  # bytes of a message that are free
STASH_OPTIONS = {
    "batch_sizes", "vertical_sync", "width", "hidden", "alike", "costs", "calls", "memory",
    "minibatches",
}  # fmt: skip
STASH_INSTEAD = {"stash.py:train": "callers.py:stash_trained -- --batch-sizes '[2, 2, 2, 2]'"}


def stash_arguments(function, world_size, rank, options):
    """What ``measured_training`` and ``callers.stash_trained`` get after ``comm``."""
    if function == "measured_training":
        params, inputs, targets = _stash_measured(world_size, options)
        last = rank == world_size - 1
        sizes = [STASH_SAMPLES] * len(inputs)
        return params[rank], sizes, 0.1, inputs if rank == 0 else None, targets if last else None
    if function == "stash_trained":
        return stash_of(world_size, options).arguments_of_ranks()[rank]
    return None


def stash_expected(function, world_size, rank, options):
    """The parameters of rank ``rank`` after ``measured_training``, in one vector."""
    if function != "measured_training":
        return None
    trained, _ = delayed_descent(*_stash_measured(world_size, options), 0.1, lags(world_size))
    return np.concatenate([each.reshape(-1) for each in trained[rank]]).astype(options.dtype)


def stash_check(case, function, rank, value, options):
    """Raise a verdict where what ``stash_trained`` gave back on a stage is not right."""
    if function != "stash_trained":
        return False
    right = stash_of(case.world_size, options).right(case.factors)
    stash_check_values(value, rank, right, replace(case, dtype=options.dtype))
    stash_check_kept(value, rank, case)
    return True


def stash_of(world_size, options):
    """The case that a line's words name."""
    others = options.others
    names = ("vertical_sync", "width", "hidden", "alike", "costs", "calls", "memory")
    fields = {name: others[name] for name in names if name in others}
    sizes = tuple(others.get("batch_sizes", (2, 2, 2, 2)))
    return cases.StashCase(
        "stash:train", world_size, sum(sizes), options.dtype,
        batch_sizes=sizes, seed=options.seed, **fields,
    )  # fmt: skip


def _stash_measured(world_size, options):
    """Parameters per stage, inputs and targets: each stage has two layers n -> n -> n."""
    rng = np.random.default_rng(options.seed)
    params = [random_parameters([options.n] * 3, rng, options.dtype) for _ in range(world_size)]
    shape = (2, int(options.others.get("minibatches", 8)), STASH_SAMPLES, options.n)
    inputs, targets = rng.standard_normal(shape).astype(options.dtype)
    return params, list(inputs), list(targets)


def stash_check_values(value, stage, right, case):
    """A stage's parameters at the end, and on the last one the losses."""
    trained, losses = right
    tolerance = 1e-12 if case.dtype == "float64" else 1e-5
    told, wanted = value["params"], trained[stage]
    if not isinstance(told, list | tuple) or len(told) != len(wanted):
        kind = (
            f"{len(told)} arrays" if isinstance(told, list | tuple) else f"a {type(told).__name__}"
        )
        raise case.fail(
            f"stage {stage} returned {kind}; it must return (params, losses), with {len(wanted)} "
            "arrays as params."
        )
    eps = 2 * (case.world_size + 1) * np.finfo(case.dtype).eps
    for number, (mine, exact) in enumerate(zip(told, wanted, strict=True)):
        exact = exact.astype(case.dtype)
        scale = np.full(exact.shape, tolerance / eps * (1 + np.abs(exact).max()))
        assert_array(mine, exact, scale, case, f"stage {stage}'s parameter {number}")
    _stash_check_losses(value["losses"], losses, stage, tolerance, case)


def _stash_check_losses(told, losses, stage, tolerance, case):
    """The last stage's numbers; None from the others."""
    if stage < case.world_size - 1:
        if told is not None:
            raise case.fail(
                f"stage {stage} returned {one_line(repr(told), 60)} as losses, not None."
            )
        return
    if not isinstance(told, list | tuple) or not all(isinstance(each, float) for each in told):
        raise case.fail(
            f"the last stage's losses are {one_line(repr(told), 60)}; they must be a list of "
            "floats, one a minibatch."
        )
    if len(told) != len(losses):
        raise case.fail(f"the last stage returned {len(told)} losses of {len(losses)} minibatches.")
    for minibatch, (mine, exact) in enumerate(zip(told, losses, strict=True)):
        if not abs(mine - exact) <= tolerance * (1 + abs(exact)):
            raise case.fail(f"the loss of minibatch {minibatch} is {mine:.12g}, not {exact:.12g}.")


def stash_check_kept(value, stage, case):
    """All that was given is as it was, and results are new."""
    if not value["kept"]:
        raise case.fail(f"stage {stage} changed its parameters, inputs or targets, or their lists.")
    if value["shared"]:
        raise case.fail(f"stage {stage} returned an array that it was given; it must be a new one.")


# -- stash: what the network saw -------------------------------------------------------------------


def stash_passes(num_stages, num_minibatches, stage):
    """The passes of a stage, in the order that the docstring asks for: ``["F0", "F1", "B0", ...]``.

    Forward passes as long as fewer than ``S - s`` are in flight, else the oldest backward pass.
    """
    forward = backward = 0
    words = []
    while backward < num_minibatches:
        if forward < num_minibatches and forward - backward < num_stages - stage:
            words.append(f"F{forward}")
            forward += 1
        else:
            words.append(f"B{backward}")
            backward += 1
    return words


def stash_assert_order(result, case):
    """Each stage began its passes in the docstring's order, each when what it needs had come."""
    count = len(_stash_asked(case).batch_sizes)
    for stage in range(case.world_size):
        ops = result.trace.ops[result.members[stage] if result.members else stage]
        done = [phase.partition(" of piece ")[0] for _, phase, _ in announced(ops)]
        wanted = stash_passes(case.world_size, count, stage)
        if done != wanted:
            pairs = zip(done, wanted, strict=False)
            at = next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(done), len(wanted)))
            did, should = (each[at] if at < len(each) else "nothing" for each in (done, wanted))
            raise (
                case.seen_in(result)
                .asking("stash_order")
                .fail(
                    f"stage {stage} computed {did} as pass {at}; it must be {should}, with at most "
                    f"{min(case.world_size - stage, count)} minibatches in flight."
                )
            )
    assert_declared_at_once(result, case.seen_in(result).asking("stash_order"))


def stash_assert_work(result, case, asked_s=None):
    """Each stage's passes took the time that its piece was made to take, where they began."""
    if asked_s is None:
        asked_s = len(case.batch_sizes) * sum(case.costs)
    assert_declared_at_once(result, case.seen_in(result).asking(f"stash_work={asked_s:.9g}"))
    for stage in range(case.world_size):
        ops = result.trace.ops[result.members[stage] if result.members else stage]
        spent_ps = sum(max(0, op.detail[2]) for op in ops if op.kind == Kind.COMPUTE)
        if spent_ps < asked_s * 1e12 * (1 - 1e-6):
            raise (
                case.seen_in(result)
                .asking(f"stash_work={asked_s:.9g}")
                .fail(
                    f"stage {stage}'s passes took {spent_ps / 1e12:.6g} s of virtual time; those "
                    f"of its piece take {asked_s:.6g} s."
                )
            )


def stash_allowed(case):
    """Per stage, how many messages it may send, and their bytes without envelopes."""
    samples, count = sum(case.batch_sizes), len(case.batch_sizes)
    itemsize, widths, last = np.dtype(case.dtype).itemsize, case.widths, case.world_size - 1
    counts, nbytes = [], []
    for stage in range(case.world_size):
        goes = [widths[stage]] * (stage > 0) + [widths[stage + 1]] * (stage < last)
        counts.append(count * len(goes))
        nbytes.append(samples * itemsize * sum(goes))
    return counts, nbytes


def stash_assert_sent(result, case):
    """Each stage sent a message for each activation and gradient, and nothing else."""
    for stage, (count, bound) in enumerate(zip(*stash_allowed(_stash_asked(case)), strict=True)):
        rank = result.members[stage] if result.members else stage
        sent, messages = result.sent_bytes()[rank], result.sent_messages()[rank]
        seen = case.seen_in(result).asking("stash_sent")
        if messages > count:
            raise seen.fail(f"stage {stage} sent {messages} messages; at most {count} are allowed.")
        if sent > bound + STASH_ENVELOPE * count:
            raise seen.fail(
                f"stage {stage} sent {sent} bytes; its activations and gradients have {bound}."
            )


def stash_assert_held(result, case):
    """Each stage held at most its versions, what was saved, and what the docstring adds."""
    asked = _stash_asked(case)
    params, sizes = asked.inputs()[0], asked.batch_sizes
    itemsize, num_stages = np.dtype(case.dtype).itemsize, case.world_size
    for stage, value in enumerate(result.values):
        version = sum(each.nbytes for each in params[stage])
        most = num_stages if asked.vertical_sync else num_stages - stage
        elements = 2 * params[stage][0].shape[0] + 2 * sum(
            len(each) for each in params[stage][1::2]
        )
        saved = max(sizes) * itemsize * elements
        free = 2 * sum(sizes) * itemsize * 4 * max(asked.widths) + (1 << 16)
        bound = (most + 3) * version + (num_stages - stage) * saved + free
        if value["peak"] > bound:
            raise (
                case.seen_in(result)
                .asking("stash_held")
                .fail(
                    f"stage {stage} held {value['peak']} bytes at one time; {bound} are allowed "
                    f"with {most} {'versions' if most > 1 else 'version'} of {version} bytes each."
                )
            )


def _stash_asked(case):
    """What is asked of a case that a test made, or of one that a line names."""
    if isinstance(case, cases.StashCase):
        return case
    others = {name: value for name, value in case.options.items() if name != "costs"}
    return stash_of(case.world_size, SimpleNamespace(others=others, dtype=case.dtype, seed=0))


STASH_CHECKS = {
    "stash_order": lambda result, case, _: stash_assert_order(result, case),
    "stash_work": lambda result, case, value: stash_assert_work(result, case, float(value)),
    "stash_sent": lambda result, case, _: stash_assert_sent(result, case),
    "stash_held": lambda result, case, _: stash_assert_held(result, case),
}

# -- all modules -----------------------------------------------------------------------------------

OPTIONS = {*STASH_OPTIONS}
INSTEAD = {**STASH_INSTEAD}
CHECKS = {**STASH_CHECKS}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm`` or ``group``; None for functions not known here."""
    for known in (stash_arguments,):
        given = known(function, world_size, rank, options)
        if given is not None:
            return given
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    for known in (stash_expected,):
        wanted = known(function, world_size, rank, options)
        if wanted is not None:
            return wanted
    return None


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    return any(known(case, function, rank, value, options) for known in (stash_check,))
