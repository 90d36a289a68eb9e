"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:stash_trained --ranks 3 -- --batch-sizes '[2, 2, 2, 2]'
    ringside run callers.py:stash_trained --ranks 3 -- --batch-sizes '[2, 2]' --vertical-sync True
    ringside run stash.py:measured_training --ranks 4 -- --n 256 --minibatches 16
    ringside run callers_torch.py:stash_torch_trained --ranks 3 -- --batch-sizes '[2, 2, 2, 2, 2]'
    ringside run callers.py:axonn_step --ranks 4 -- --batch-sizes '[2, 1, 3, 2]' --limit 8

Parameters and data are drawn from ``--seed``.
"""

from dataclasses import replace
from types import SimpleNamespace

import cases
import cases_torch
import numpy as np
from axonn_cases import AxonnCase, axonn_case, axonn_serial
from model import random_parameters
from recursion import delayed_descent, lags

from ringside.checking import Verdict, announced, assert_array, assert_declared_at_once, one_line
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
    typed = replace(case, dtype=options.dtype)
    stash_check_values(value, rank, right, typed)
    stash_check_losses(value, rank, right, typed)
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
    """A stage's parameters at the end."""
    tolerance = 1e-10 if case.dtype == "float64" else 1e-5
    told, wanted = value["params"], right[0][stage]
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


def stash_check_losses(value, stage, right, case):
    """The last stage's numbers; None from the others."""
    tolerance = 1e-10 if case.dtype == "float64" else 1e-5
    told, losses = value["losses"], right[1]
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
    """The passes of a stage in the order that is asked for: ``["F0", "F1", "B0", ...]``."""
    order = cases_torch.one_f_one_b(num_stages, num_minibatches, stage)
    return [f"{kind}{number}" for kind, number in order]


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


def stash_assert_passed_on(result, case):
    """Each stage computed passes, and sent each neighbour half of what is due there, or more."""
    sent, last = result.bytes_matrix(), case.world_size - 1
    asked, case = _stash_asked(case), case.seen_in(result).asking("stash_passed_on")
    itemsize, samples = np.dtype(case.dtype).itemsize, sum(asked.batch_sizes)
    for stage in range(case.world_size):
        if not any(op.kind == Kind.COMPUTE and op.detail[2] for op in result.trace.ops[stage]):
            raise case.fail(f"stage {stage} computed no pass of its piece.")
        for other in {stage - 1, stage + 1} & set(range(last + 1)):
            due = itemsize * samples * asked.widths[max(stage, other)]
            if sent[stage, other] < due / 2:
                what = "activations" if other > stage else "gradients"
                raise case.fail(
                    f"stage {stage} sent {sent[stage, other]} bytes to stage {other} in messages "
                    f"of its own; the {what} have {due}."
                )


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
    "stash_passed_on": lambda result, case, _: stash_assert_passed_on(result, case),
    "stash_held": lambda result, case, _: stash_assert_held(result, case),
}

# -- stash_torch -----------------------------------------------------------------------------------
STASH_TORCH = ("stash_torch_trained", "stash_torch_memory")
STASH_TORCH_OPTIONS = {
    "batch_sizes", "vertical_sync", "optimizer", "num_calls", "ends", "hidden", "costs", "data",
}  # fmt: skip
STASH_TORCH_INSTEAD = {  # a module and its optimizer are made on the ranks
    "stash_torch.py:train": "callers_torch.py:stash_torch_trained -- --batch-sizes '[2, 2, 2, 2]'",
}


def stash_torch_case(num_stages, others):
    """The case that a line's options describe."""
    sizes = others.get("batch_sizes", (2,) * 5)
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return cases_torch.StashTorchCase(
        "stash_torch:train", num_stages, len(sizes), "float64", batch_sizes=sizes,
        vertical_sync=str(others.get("vertical_sync", False)) == "True",
        optimizer=str(others.get("optimizer", "sgd")), num_calls=int(others.get("num_calls", 1)),
        ends=tuple(others.get("ends", (5, 4))), hidden=int(others.get("hidden", 6)),
        costs=tuple(others.get("costs", (1e-6, 2e-6))), seed=int(others.get("data", 0)),
    )  # fmt: skip


def stash_torch_arguments(function, world_size, rank, options):
    """What the functions of ``callers_torch.py`` get after ``group``."""
    if function not in STASH_TORCH:
        return None
    return stash_torch_case(world_size, options.others).arguments_of_ranks()[rank]


def stash_torch_check(case, function, rank, value, options):
    """Raise a verdict where the parameters of a stage are not right; True: they were compared."""
    if function not in STASH_TORCH:
        return False
    mine = stash_torch_case(case.world_size, options.others)
    newest, _ = cases_torch.stash_torch_serial(mine, getattr(case, "factors", None))
    cases_torch.assert_stash_torch_params(value, rank, newest[rank], case)
    return True


def _stash_torch_seen(check):
    """A check of a whole run, which needs to know the call."""

    def made(result, case, _):
        check(result, stash_torch_case(case.world_size, case.options), case)

    return made


STASH_TORCH_CHECKS = {
    "torch_losses": _stash_torch_seen(cases_torch.assert_stash_torch_losses),
    "torch_kept": _stash_torch_seen(cases_torch.assert_stash_torch_kept),
    "torch_sent": _stash_torch_seen(cases_torch.assert_stash_torch_sent),
    "torch_passed_on": _stash_torch_seen(cases_torch.assert_stash_torch_passed_on),
    "torch_order": _stash_torch_seen(cases_torch.assert_stash_torch_order),
    "torch_memory": _stash_torch_seen(cases_torch.assert_stash_torch_memory),
}

# -- axonn -----------------------------------------------------------------------------------------
AXONN_OPTIONS = {"batch_sizes", "limit", "widths"}
AXONN_INSTEAD = {  # its piece is made on the rank
    "axonn.py:run": "callers.py:axonn_step -- --batch-sizes '[2, 1, 3, 2]' --limit 8",
}
AXONN_MADE = axonn_case  # for the suites, which read this file alone
AXONN_CALLERS = ("axonn_step", "axonn_second_step")
AXONN_LATE_S = 20e-6  # what arrives so shortly before a pass may be missed


def axonn_arguments(function, world_size, rank, options):
    """What the functions of ``callers.py`` get after ``comm``."""
    if function not in AXONN_CALLERS:
        return None
    return axonn_case_of(world_size, options).arguments_of_ranks()[rank]


def axonn_case_of(world_size, options):
    """The call that a line's options name."""
    sizes = tuple(options.others.get("batch_sizes", (2, 1, 3, 2)))
    limit = int(options.others.get("limit", 2 * world_size))
    widths = tuple(options.others.get("widths", AxonnCase.widths))
    return AxonnCase(
        "axonn:run", world_size, sum(sizes), options.dtype,
        batch_sizes=sizes, limit=limit, seed=options.seed, widths=widths,
    )  # fmt: skip


def axonn_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function not in AXONN_CALLERS:
        return False
    right = axonn_serial(axonn_case_of(case.world_size, options), case.factors)
    axonn_check_values(value, rank, right, case)
    axonn_check_loss(value, rank, right, case)
    axonn_check_kept(value, rank, case)
    return True


def axonn_check_loss(value, stage, right, case):
    """The last stage's number; None from the others."""
    loss = right[0]
    tolerance = 1e-10 if case.dtype == "float64" else 1e-5
    if stage < case.world_size - 1:
        if value["loss"] is not None:
            said = one_line(repr(value["loss"]), 60)
            raise case.fail(f"stage {stage}'s loss is {said}; it must be None.")
    elif not isinstance(value["loss"], float):
        raise case.fail(f"the loss is of type {type(value['loss']).__name__}; it must be a float.")
    elif not abs(value["loss"] - loss) <= tolerance * (1 + abs(loss)):
        raise case.fail(f"the loss is {value['loss']:.12g}; it must be {loss:.12g}.")


def axonn_check_values(value, stage, right, case):
    """The gradients that ``axonn.run`` returned on a stage."""
    grads = right[1][stage]
    tolerance = 1e-10 if case.dtype == "float64" else 1e-5
    if len(value["grads"]) != len(grads):
        raise case.fail(
            f"stage {stage} returned {len(value['grads'])} gradients; it must return {len(grads)}."
        )
    eps = 2 * (case.world_size + 1) * np.finfo(case.dtype).eps
    for number, (grad, wanted) in enumerate(zip(value["grads"], grads, strict=True)):
        wanted = wanted.astype(case.dtype)
        scale = np.full(wanted.shape, tolerance / eps * (1 + np.abs(wanted).max()))
        what = f"stage {stage}'s gradient {number}"
        same = isinstance(grad, np.ndarray) and grad.shape == wanted.shape
        flat = grad.reshape(-1) if same else grad
        assert_array(flat, wanted.reshape(-1), scale.reshape(-1), case, what)


def axonn_check_kept(value, stage, case):
    """All that was given is as it was."""
    if not value["kept"]:
        raise case.fail(f"stage {stage} changed its parameters, inputs or targets, or a list.")


def axonn_passes(result, num_stages, count):
    """When each pass began and ended: per stage ``{("F", 3): (begin_s, end_s)}``."""
    found = []
    for stage in range(num_stages):
        rank = result.members[stage] if result.members else stage
        names = {f"{kind}{m} of piece {stage}": (kind, m) for kind in "FB" for m in range(count)}
        spans = [span for span in result.timeline.spans[rank] if span.label in names]
        found.append({names[span.label]: (span.start_s, span.end_s) for span in spans})
    return found


def axonn_there(passes, stage, kind, m):
    """When what a pass needs was made: by a neighbour, or by the last stage itself."""
    maker, needed = (stage - 1, ("F", m)) if kind == "F" else (stage + 1, ("B", m))
    if kind == "B" and stage == len(passes) - 1:
        maker, needed = stage, ("F", m)
    return passes[maker][needed][1]


def axonn_assert_each_once(result, case, count):
    """Each stage announced each pass once, and declared its work there."""
    assert_declared_at_once(result, case)
    for stage in range(case.world_size):
        ops = result.trace.ops[result.members[stage] if result.members else stage]
        did = sorted(phase for _, phase, _ in announced(ops))
        wanted = sorted(f"{kind}{m} of piece {stage}" for kind in "FB" for m in range(count))
        if did != wanted:
            raise case.seen_in(result).fail(
                f"stage {stage} announced {len(did)} passes; it must make a forward and a backward "
                f"pass of each of {count} microbatches."
            )


def axonn_assert_driven(result, case, count, limit):
    """No stage waits while a pass is possible."""
    axonn_assert_each_once(result, case, count)
    passes = axonn_passes(result, case.world_size, count)
    for stage, own in enumerate(passes):
        order = sorted(own, key=own.get)
        before = 0.0
        for place, each in enumerate(order):
            begin, end = own[each]
            left, in_flight = order[place:], _in_flight(order[:place])
            for kind, m in left if begin > before + AXONN_LATE_S else ():
                if kind == "F" and stage == 0:
                    since = before if in_flight < limit else begin
                else:
                    since = max(before, axonn_there(passes, stage, kind, m))
                if begin > since + AXONN_LATE_S:
                    seen = case.seen_in(result).asking(f"driven={count}:{limit}")
                    raise seen.fail(
                        f"stage {stage} waited from {since * 1e3:.3f} to {begin * 1e3:.3f} ms, "
                        f"until {each[0]}{each[1]} began, although what {kind}{m} needs was made."
                    )
            before = end


def _in_flight(order):
    return sum(1 if kind == "F" else -1 for kind, _ in order)


def axonn_assert_backward_first(result, case, count):
    """No forward pass began while a backward pass was possible."""
    axonn_assert_each_once(result, case, count)
    passes = axonn_passes(result, case.world_size, count)
    for stage, own in enumerate(passes):
        for (kind, m), (begin, _) in sorted(own.items(), key=lambda item: item[1]):
            for other in range(count) if kind == "F" else ():
                there = axonn_there(passes, stage, "B", other)
                if there + AXONN_LATE_S < begin < own["B", other][0]:
                    seen = case.seen_in(result).asking(f"backward_first={count}")
                    raise seen.fail(
                        f"stage {stage} began F{m} at {begin * 1e3:.3f} ms, although the gradient "
                        f"for B{other} was made at {there * 1e3:.3f} ms."
                    )


def axonn_assert_in_flight(result, case, count, limit):
    """Stage 0 never has more than ``limit`` microbatches in flight, as the network saw it."""
    axonn_assert_each_once(result, case, count)
    ops = result.trace.ops[result.members[0] if result.members else 0]
    held = 0
    for _, phase, _ in announced(ops):
        held += 1 if phase.startswith("F") else -1
        if held > limit:
            seen = case.seen_in(result).asking(f"in_flight={count}:{limit}")
            raise seen.fail(
                f"stage 0 began {phase.split()[0]} with {held - 1} microbatches in flight; at most "
                f"{limit} may be in flight."
            )


def axonn_assert_sent(result, case, count, stage, bound):
    """A stage sent at most so many messages, and so many bytes."""
    rank = result.members[stage] if result.members else stage
    seen = case.seen_in(result).asking(f"sent={count}:{stage}:{bound}")
    messages, nbytes = result.sent_messages()[rank], result.sent_bytes()[rank]
    if messages > count:
        raise seen.fail(f"stage {stage} sent {messages} messages; at most {count} are allowed.")
    if nbytes > bound + 1024 * count:
        raise seen.fail(
            f"stage {stage} sent {nbytes} bytes; its activations and gradients have {bound}."
        )


def axonn_assert_fast(steps):
    """Steps take at most 1.05 times as long as by the rule; half the points below 1F1B.

    Args:
        steps: ``(result, case, by_rule_s, fixed_s)`` of each. The verdict names the worst.
    """
    taken_s, by_rule_s, fixed_s = (
        sum(each) for each in zip(*((r.makespan_s, *rest) for r, _, *rest in steps), strict=True)
    )
    if taken_s <= 1.05 * by_rule_s:
        return
    result, case, rule_s, list_s = max(steps, key=lambda step: step[0].makespan_s / step[2])
    seen = case.seen_in(result).asking(f"fast={rule_s:.9g}:{list_s:.9g}")
    verdict = seen.fail(
        f"takes {result.makespan_s * 1e3:.6g} ms; message-driven it takes {rule_s * 1e3:.6g} ms, "
        f"and by 1F1B {list_s * 1e3:.6g} ms. All steps together may take 1.05 times as long as "
        "message-driven ones. Half of the points go to less than 1F1B."
    )
    fraction = 0.5 if taken_s < fixed_s else 0.0
    raise Verdict(verdict.sentence, reproduce=verdict.reproduce, fraction=fraction)


# -- all modules -----------------------------------------------------------------------------------


def _numbers(assertion):
    return lambda result, case, value: assertion(result, case, *map(int, value.split(":")))


# -- all modules -----------------------------------------------------------------------------------

OPTIONS = {*STASH_OPTIONS, *STASH_TORCH_OPTIONS, *AXONN_OPTIONS}
INSTEAD = {**STASH_INSTEAD, **STASH_TORCH_INSTEAD, **AXONN_INSTEAD}
CHECKS = {
    **STASH_CHECKS,
    **STASH_TORCH_CHECKS,
    "driven": _numbers(axonn_assert_driven),
    "backward_first": _numbers(axonn_assert_backward_first),
    "in_flight": _numbers(axonn_assert_in_flight),
    "sent": _numbers(axonn_assert_sent),
    "fast": lambda result, case, value: axonn_assert_fast(
        [(result, case, *map(float, value.split(":")))]
    ),
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm`` or ``group``; None for functions not known here."""
    for known in (stash_arguments, stash_torch_arguments, axonn_arguments):
        given = known(function, world_size, rank, options)
        if given is not None:
            return given
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    return stash_expected(function, world_size, rank, options)


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    modules = (stash_check, stash_torch_check, axonn_check)
    return any(known(case, function, rank, value, options) for known in modules)
