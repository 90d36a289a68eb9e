"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run stage.py:measured_step --ranks 4 -- --n 256 --schedule gpipe --microbatches 16
    ringside run callers_torch.py:measured_pipeline --ranks 4 -- --n 256 --microbatches 16

Each stage has two layers n -> n -> n, each microbatch 32 samples; the actions are those of your
``schedule.py``.
"""

from dataclasses import replace

import callers
import numpy as np
import observed
from actions import parse, text
from model import Piece, loss_gradient, random_parameters

from ringside.checking import (
    announced,
    assert_array,
    assert_declared_at_once,
    award,
    one_line,
)
from ringside.trace import Kind

try:
    import schedule
except ModuleNotFoundError:  # most lines name their actions, and do without it
    schedule = None

SAMPLES = 32
MEASURED = ("measured_step", "measured_pipeline")
OPTIONS = {"schedule", "microbatches"}
INSTEAD = {
    "stage.py:run": "stage.py:measured_step",
    "pipeline_torch.py:run": "callers_torch.py:measured_pipeline",
}


def _schedule(name):
    """The student's schedule of this name."""
    if schedule is None:
        raise ValueError(
            f"{name} is a function of schedule.py, which isn't here yet: write it first"
        )
    return getattr(schedule, name)


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    if function not in MEASURED:
        return None
    options = _in_float64(function, options)
    name = str(options.others.get("schedule", "one_f_one_b"))
    count = int(options.others.get("microbatches", 8))
    actions = _schedule(name)(world_size, count, rank)
    inputs, targets = _batch(count, options)
    return (
        _params(rank, options),
        text(actions),
        [SAMPLES] * count,
        inputs if rank == 0 else None,
        targets if rank == world_size - 1 else None,
    )


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get: its gradients of the whole batch."""
    if function not in MEASURED:
        return None
    options = _in_float64(function, options)
    inputs, targets = _batch(int(options.others.get("microbatches", 8)), options)
    x, target = np.concatenate(inputs), np.concatenate(targets)
    pieces = [Piece(_params(stage, options)) for stage in range(world_size)]
    kept = []
    for piece in pieces:
        x, saved = piece.forward(0, x)
        kept.append(saved)
    grad = loss_gradient(x, target, len(x))
    for piece, saved in zip(reversed(pieces), reversed(kept), strict=True):
        grad = piece.backward(0, saved, grad)
    return pieces[rank].grads


def _in_float64(function, options):
    """The torch pipeline computes in float64, whatever was asked for."""
    return replace(options, dtype="float64") if function == "measured_pipeline" else options


def _params(stage, options):
    rng = np.random.default_rng([options.seed, stage])
    return random_parameters([options.n] * 3, rng, options.dtype)


def _batch(count, options):
    rng = np.random.default_rng([options.seed, 10**6])
    drawn = rng.standard_normal((2, count, SAMPLES, options.n)).astype(options.dtype)
    return list(drawn[0]), list(drawn[1])


# -- what came back --------------------------------------------------------------------------------

FULL, HALF = 1.02, 1.5


def check(case, function, rank, value, options):
    """Raise a verdict where what ``callers.try_stage`` gave back on a stage is not right."""
    if function != "try_stage":
        return False
    others = options.others
    dtype, chunks = others.get("precision", "float64"), others.get("chunks", 1)
    drawn = callers.sample(
        case.world_size * chunks, others["batch_sizes"], dtype, others.get("widths", (5, 7, 4))
    )
    right = serial(*drawn)
    if case.factors is not None:
        right = observed.of_stage(*drawn, _lists(case), case.factors)
    check_values(value, rank, right, replace(case, dtype=dtype))
    return True


def serial(params, inputs, targets):
    """Loss and gradients, in double precision.

    Args:
        params: per piece of the model, weights and biases in turn.
        inputs, targets: one array a microbatch.

    Returns:
        ``(loss, gradients)``, the latter as ``params``.
    """
    exact = [[np.asarray(each, "float64") for each in own] for own in params]
    x = np.concatenate(inputs).astype("float64")
    target = np.concatenate(targets).astype("float64")
    flat = [each for own in exact for each in own]
    outputs = [x]
    for weight, bias in zip(flat[::2], flat[1::2], strict=True):
        outputs.append(np.tanh(outputs[-1] @ weight + bias))
    error = outputs[-1] - target
    grad, found = error / len(x), []
    for layer in range(len(flat) // 2 - 1, -1, -1):
        grad = grad * (1 - outputs[layer + 1] ** 2)
        found += [grad.sum(axis=0), outputs[layer].T @ grad]
        grad = grad @ flat[2 * layer].T
    found.reverse()
    gradients = []
    for own in exact:
        gradients.append(found[: len(own)])
        found = found[len(own) :]
    return float((error**2).sum() / 2 / len(x)), gradients


def check_values(value, stage, right, case, returned=True):
    """What ``run`` returned on a stage, its pieces' gradients, and all that was given as it was."""
    loss, gradients = right
    tolerance = 1e-12 if case.dtype == "float64" else 1e-5
    eps = 2 * (case.world_size + 1) * np.finfo(case.dtype).eps
    if returned:
        check_loss(value["loss"], loss, stage, tolerance, case)
    for chunk, own in enumerate(value["grads"]):
        for number, grad in enumerate(own):
            right = gradients[chunk * case.world_size + stage][number].astype(case.dtype)
            scale = np.full(right.shape, tolerance / eps * (1 + np.abs(right).max()))
            what = f"stage {stage}'s gradient {number}"
            what += f" of chunk {chunk}" if len(value["grads"]) > 1 else ""
            grad, right, scale = flat(grad, right), right.reshape(-1), scale.reshape(-1)
            assert_array(grad, right, scale, case, what)
    if value.get("kept") is False:
        raise case.fail(
            f"stage {stage} changed its parameters, inputs or targets, or a list of them."
        )


def check_loss(told, loss, stage, tolerance, case):
    """The last stage's number; None from the others."""
    if stage < case.world_size - 1:
        if told is not None:
            raise case.fail(f"stage {stage} returned {one_line(repr(told), 60)}, not None.")
    elif not isinstance(told, float | int):
        kind = (
            "an array or a tensor" if isinstance(told, np.ndarray) else f"a {type(told).__name__}"
        )
        raise case.fail(f"the last stage's loss is {kind}; it must be a float.")
    elif not abs(told - loss) <= tolerance * (1 + abs(loss)):
        raise case.fail(f"the loss is {told:.12g}; of the whole batch it is {loss:.12g}.")


def flat(value, right):
    same = isinstance(value, np.ndarray) and value.shape == right.shape
    return value.reshape(-1) if same else value


# -- what the network saw --------------------------------------------------------------------------


def passes(result, rank, num_stages):
    """What the layers of a rank computed: "F0" of chunk 0 as ``("F0", 0)``.

    In a test of order it is the network that says in which order they began.
    """
    found, ops = [], result.trace.ops[rank]
    phases = [phase for _, phase, _ in announced(ops)]
    if result.factors is None:
        phases = [str(op.detail[3]) for op in ops if op.kind == Kind.COMPUTE]
    for phase in phases:
        words = phase.split()
        if len(words) == 4 and words[1:3] == ["of", "piece"] and words[3].isdigit():
            found.append((words[0], int(words[3]) // num_stages))
    return found


def assert_order(result, lists, case):
    """Each stage computed the passes of its list, in order, each once."""
    for stage, actions in enumerate(lists):
        rank = result.members[stage] if result.members else stage
        wanted = [(text([each]).partition(".")[0], each.chunk) for each in actions]
        done = passes(result, rank, len(lists))
        if done == wanted:
            continue
        pairs = zip(done, wanted, strict=False)
        at = next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(done), len(wanted)))
        did, should = (
            f"{each[at][0]} of chunk {each[at][1]}" if at < len(each) else "nothing"
            for each in (done, wanted)
        )
        raise (
            case.seen_in(result)
            .asking("order")
            .fail(f"stage {stage} computed {did} as pass {at}; its list has {should} there.")
        )
    if result.factors is not None:
        assert_declared_at_once(result, case)
        observed.assert_received(result, lists, case)


def assert_work(result, lists, costs, case):
    """Each stage's passes took the time that the pieces were made to take."""
    seconds = {"F": costs[0], "B": costs[1]}
    for stage, actions in enumerate(lists):
        asked_s = sum(seconds.get(observed.letter(each), costs[1] / 2) for each in actions)
        ops = result.trace.ops[stage]
        spent_ps = sum(max(0, op.detail[2]) for op in ops if op.kind == Kind.COMPUTE)
        if spent_ps < asked_s * 1e12 * (1 - 1e-6):
            words = f"work={costs[0]}:{costs[1]}"
            raise (
                case.seen_in(result)
                .asking(words)
                .fail(
                    f"stage {stage}'s passes took {spent_ps / 1e12:.6g} s of virtual time; the "
                    f"pieces that it was given take {asked_s:.6g} s."
                )
            )


def check_ratio(taken_s, bound_s, what, line, where, beside="", full=FULL):
    ratio = taken_s / bound_s
    half = " (half the points)" if full < ratio <= HALF else ""
    most = "that" if full == 1 else f"{full:g} times that"
    award(
        1.0 if ratio <= full + 1e-9 else 0.5 if ratio <= HALF + 1e-9 else 0.0,
        f"{what}: takes {taken_s:.6g} s {where}, {ratio:.3f} times {bound_s:.6g} s; at most {most} "
        f"is asked for{half}.{beside}",
        reproduce=line,
    )


def assert_ratio(result, bound_s, case, where, beside=""):
    """``check_ratio`` of a run."""
    seen = case.on(result.machine, named=True).asking(f"ratio={bound_s:.9g}:{where}")
    check_ratio(result.makespan_s, bound_s, str(case), seen.reproduce, where, beside)


def assert_held(result, case, stage, bound, most, saved):
    """A stage held at most so many bytes at one time."""
    peak = result.values[stage]["peak"]
    if peak > bound:
        seen = case.seen_in(result).asking(f"held={stage}:{bound}:{most}:{saved}")
        raise seen.fail(
            f"stage {stage} held {peak} bytes at one time; {bound} are allowed with {most} "
            f"microbatches in flight, of {saved} bytes each."
        )


def assert_passed_on(result, nbytes, case):
    """Each stage computed passes, and sent its neighbours half of ``nbytes`` or more each."""
    sent, num_stages = result.bytes_matrix(), case.world_size
    case = case.seen_in(result).asking(f"passed_on={nbytes}")
    for stage in range(num_stages):
        if not passes(result, stage, num_stages):
            raise case.fail(f"stage {stage} computed no pass of its piece.")
        for other in {stage - 1, stage + 1} & set(range(num_stages)):
            if sent[stage, other] < nbytes / 2:
                what = "activations" if other > stage else "gradients"
                raise case.fail(
                    f"stage {stage} sent {sent[stage, other]} bytes to stage {other} in messages "
                    f"of its own; the {what} have {nbytes} or more."
                )


def assert_sent(result, case, stage, bound, envelope):
    """A stage sent no more than its activations and gradients, and an envelope."""
    sent = result.sent_bytes()[result.members[stage] if result.members else stage]
    if sent > bound + envelope:
        seen = case.seen_in(result).asking(f"sent={stage}:{bound}:{envelope}")
        raise seen.fail(
            f"stage {stage} sent {sent} bytes; its activations and gradients have {bound}."
        )


def _lists(case):
    """The actions that the line names."""
    others, stages = case.options, range(case.world_size)
    words = others["schedules"]
    if not isinstance(words, str):
        return [parse(each) for each in words]
    more = (others.get("chunks", 1),) if words == "interleaved" else ()
    count = len(others["batch_sizes"])
    function = _schedule(words)
    return [function(case.world_size, count, stage, *more) for stage in stages]


def _numbers(check):
    return lambda result, case, value: check(result, case, *map(int, value.split(":")))


CHECKS = {
    "order": lambda result, case, _: assert_order(result, _lists(case), case),
    "work": lambda result, case, value: assert_work(
        result, _lists(case), tuple(map(float, value.split(":"))), case
    ),
    "ratio": lambda result, case, value: assert_ratio(
        result, float(value.partition(":")[0]), case, value.partition(":")[2]
    ),
    "held": _numbers(assert_held),
    "sent": _numbers(assert_sent),
    "passed_on": lambda result, case, value: assert_passed_on(result, int(value), case),
}
