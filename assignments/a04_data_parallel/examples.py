"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run step.py:train_step --ranks 3 -- --n 11 --sizes 4,0,7 --widths 64,32,10

``n`` samples in all; ``sizes`` says how many each rank has, else they are dealt out evenly.
For ``accumulated_step`` each rank's samples are cut into ``microbatches`` pieces.
"""

import numpy as np
from model import init_params, loss_and_gradients

from ringside.checking.ring_bytes import received_as_ring
from ringside.trace import Kind

WIDTHS = (64, 128, 64, 10)
LR, MOMENTUM = 0.1, 0.9
STEPS = ("train_step", "accumulated_step")
# Functions of callers.py, and of callers_torch.py.
CALLERS = ("steps", "steps_of_another", "looked_at", "twice")
OPTIONS = {
    "sizes", "widths", "microbatches", "target", "shares", "frozen", "stale", "second_shares",
    "second_widths", "inside",
}  # fmt: skip
UNSAID = OPTIONS - {"sizes", "widths", "microbatches", "target"}
INSTEAD = {  # models and optimizers are made on the ranks
    f"step_torch.py:{name}": f"callers_torch.py:{name}"
    for name in ("train_step", "broadcast_parameters")
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    target = str(options.others.get("target", ""))
    if function in CALLERS and target.endswith(":broadcast_parameters"):
        return target, _starts(world_size, options)[rank]
    if function in CALLERS:
        return _arguments_of_caller(function, target, rank, options)
    if function == "broadcast_parameters" and "frozen" in options.others:
        inside = bool(options.others.get("inside"))
        return _starts(world_size, options)[rank], options.others["frozen"], inside
    if function == "broadcast_parameters":
        return (_starts(world_size, options)[rank],)
    if function not in STEPS:
        return None
    params, velocity = _state(options)
    x, y = _samples(world_size, options)[rank]
    if function == "train_step":
        return params, velocity, x, y, LR, MOMENTUM
    pieces = int(options.others.get("microbatches", 3))
    microbatches = list(zip(np.array_split(x, pieces), np.array_split(y, pieces), strict=True))
    return params, velocity, microbatches, LR, MOMENTUM


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None for functions that aren't known here."""
    if function == "broadcast_parameters":
        return _starts(world_size, options)[0]
    if function not in STEPS:
        return None
    params, velocity = _state(options)
    parts = _samples(world_size, options)
    x, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    loss, gradients = loss_and_gradients(params, x, y)
    velocity = [MOMENTUM * v + g for v, g in zip(velocity, gradients, strict=True)]
    return [p - LR * v for p, v in zip(params, velocity, strict=True)], velocity, loss


def _widths(options):
    return tuple(options.others.get("widths", WIDTHS))


def _starts(world_size, options):
    """Every rank's own parameters, before rank 0's are broadcast."""
    if options.drawn:
        return starts(world_size, _widths(options), options.dtype, options.drawn[0])
    return [
        init_params(_widths(options), [options.seed, rank], options.dtype)
        for rank in range(world_size)
    ]


def _arguments_of_caller(function, target, rank, options):
    training = _drawn(target, options)
    if function in ("steps", "steps_of_another"):
        batches = [training.batch(step, rank) for step in range(len(training.lrs))]
        given = (training.params, training.velocity, batches, training.lrs, training.momentum)
        if function == "steps_of_another":
            return given
        if "_torch:" in target:  # callers_torch.py calls no other module
            return (*given, training.frozen, bool(options.others.get("stale")))
        return (target, *given)
    if function == "looked_at":
        return target, *training.first(rank)
    return target, training.first(rank), _drawn(target, options, 1).first(rank)


def _state(options):
    """Parameters and velocity, the same on all ranks."""
    params = init_params(_widths(options), options.seed, options.dtype)
    velocity = init_params(_widths(options), options.seed + 1, options.dtype)
    return params, [0.1 * v for v in velocity]


def _samples(world_size, options):
    """Every rank's ``(x, y)``."""
    widths = _widths(options)
    sizes = options.others.get("sizes")
    if sizes is None:
        sizes = [len(part) for part in np.array_split(np.arange(options.n), world_size)]
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    if len(sizes) != world_size:
        raise ValueError(f"--sizes names {len(sizes)} ranks, and there are {world_size}.")
    rng = np.random.default_rng([options.seed, 7])
    parts = []
    for size in sizes:
        x = rng.standard_normal((size, widths[0])).astype(options.dtype)
        parts.append((x, rng.integers(widths[-1], size=size)))
    return parts


# -- trainings as the tests draw them --------------------------------------------------------------


TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
ACCUMULATED = ":accumulated_step"


class Training:
    """Some steps on all ranks: what each is given, and what one rank with all samples gets.

    Args:
        shares: ``[step][rank]``: a number of samples, or the sizes of a rank's microbatches.
        frozen: indices of parameters that don't learn.
    """

    def __init__(self, target, shares, widths, dtype, seed, frozen=()):
        rng = np.random.default_rng(seed)
        self.target, self.frozen = target, frozen
        self.params = init_params(widths, int(rng.integers(2**31)), dtype)
        self.velocity = [(0.1 * rng.standard_normal(p.shape)).astype(dtype) for p in self.params]
        self.batches = [
            [[_batch(rng, b, widths, dtype) for b in pieces_of(share)] for share in ranks]
            for ranks in shares
        ]
        self.lrs = [float(lr) for lr in rng.uniform(0.05, 0.5, size=len(shares))]
        self.momentum = float(rng.uniform(0.5, 0.95))

    def batch(self, step, rank):
        """What a rank's function gets as its samples in a step."""
        pieces = self.batches[step][rank]
        return (pieces,) if self.target.endswith(ACCUMULATED) else pieces[0]

    def first(self, rank):
        """What a rank's function gets in the first step, after ``comm``."""
        return (self.params, self.velocity, *self.batch(0, rank), self.lrs[0], self.momentum)

    def whole(self):
        """All ranks' samples, a batch a step."""
        whole = []
        for ranks in self.batches:
            pieces = [piece for rank in ranks for piece in rank]
            whole.append(tuple(np.concatenate(each) for each in zip(*pieces, strict=True)))
        return whole

    def serial(self, num_steps=None):
        """What one rank with all samples gets: parameters, velocity, the loss of each step."""
        whole = self.whole()[:num_steps]
        return serial_steps(
            self.params, self.velocity, whole, self.lrs[:num_steps], self.momentum, self.frozen
        )


def pieces_of(share):
    """The sizes of a rank's microbatches."""
    return (share,) if isinstance(share, int) else share


def _batch(rng, b, widths, dtype):
    x = rng.standard_normal((b, widths[0])).astype(dtype)
    return x, rng.integers(widths[-1], size=b)


def starts(world_size, widths, dtype, seed):
    """Different parameters for every rank."""
    seeds = np.random.default_rng(seed).integers(2**31, size=world_size)
    return [init_params(widths, int(each), dtype) for each in seeds]


def serial_steps(params, velocity, batches, lrs, momentum, frozen=()):
    """The same steps on one rank that has all samples; ``frozen`` arrays stay as they are."""
    losses = []
    for (x, y), lr in zip(batches, lrs, strict=True):
        loss, gradients = loss_and_gradients(params, x, y)
        moved = [momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
        velocity = [old if k in frozen else moved[k] for k, old in enumerate(velocity)]
        params = [p if k in frozen else p - lr * velocity[k] for k, p in enumerate(params)]
        losses.append(loss)
    return params, velocity, losses


def _drawn(target, options, which=0):
    others = options.others
    shares, widths = others["shares"], _widths(options)
    if which:
        shares, widths = others.get("second_shares", shares), others.get("second_widths", widths)
    seed = options.drawn[which] if options.drawn else options.seed + which
    frozen = tuple(others.get("frozen", ()))
    return Training(target, shares, tuple(widths), options.dtype, seed, frozen)


# -- what came back --------------------------------------------------------------------------------


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not as it must be."""
    target = str(options.others.get("target", ""))
    if function in CALLERS and target.endswith(":broadcast_parameters"):
        check_broadcast(case, rank, value)
        return True
    if function == "broadcast_parameters":
        assert_start(case, rank, value, _starts(case.world_size, options)[0])
        return True
    if function not in CALLERS:
        return False
    training = _drawn(target, options)
    if function in ("steps", "steps_of_another"):
        assert_steps(case, rank, value, training.serial())
        assert_losses(value[2], training.serial()[2], case, rank)
        assert_frozen(case, rank, value, training)
    elif function == "looked_at":
        check_looked_at(case, rank, value, training)
    else:
        check_twice(case, rank, value, training, _drawn(target, options, 1))
    return True


def assert_steps(case, rank, value, serial):
    """A rank has the parameters and the velocity of one rank with all samples."""
    assert_arrays(value[0], serial[0], case, f"rank {rank}'s parameter")
    assert_arrays(value[1], serial[1], case, f"rank {rank}'s velocity")


def assert_arrays(got, wanted, case, what):
    """A list of arrays: how many, dtype, shapes and values."""
    if not isinstance(got, list | tuple) or len(got) != len(wanted):
        count = len(got) if isinstance(got, list | tuple) else f"a {type(got).__name__}, not"
        raise case.fail(f"{what}s: {count} arrays; there must be a list of {len(wanted)}.")
    for index, (array, right) in enumerate(zip(got, wanted, strict=True)):
        name = f"{what} array {index}"
        if not isinstance(array, np.ndarray):
            raise case.fail(f"{name} is of type {type(array).__name__}; it must be an array.")
        if array.dtype != right.dtype or array.shape != right.shape:
            raise case.fail(
                f"{name} has dtype {array.dtype} and shape {array.shape}; "
                f"it must have {right.dtype} and {right.shape}."
            )
        off = np.abs(array.astype("float64") - right.astype("float64"))
        allowed = TOLERANCE[str(right.dtype)] * max(1.0, float(np.abs(right).max(initial=0)))
        if not (off <= allowed).all():  # a NaN is wrong too
            at = tuple(int(i) for i in np.argwhere(~(off <= allowed))[0])
            raise case.fail(
                f"{name} is wrong in {int((~(off <= allowed)).sum())} of {off.size} elements: "
                f"element {at} is {array[at]:.12g}; it must be {right[at]:.12g}, as on one rank "
                "that has all samples."
            )


def assert_losses(got, wanted, case, rank):
    """One number a step."""
    for step, (loss, right) in enumerate(zip(got, wanted, strict=True)):
        number = loss.item() if isinstance(loss, np.ndarray) and loss.ndim == 0 else loss
        if type(number) not in (int, float):
            raise case.fail(f"rank {rank}'s loss is of type {type(loss).__name__}, not a number.")
        if not abs(number - right) <= TOLERANCE[case.dtype] * max(1.0, abs(right)):
            raise case.fail(
                f"rank {rank}'s loss in step {step} is {number:.12g}; "
                f"the mean over all ranks' samples is {right:.12g}."
            )


def assert_start(case, rank, value, params):
    """A rank has rank 0's parameters, bit for bit."""
    assert_arrays(value, params, case, f"rank {rank}'s parameter")
    for index, (array, right) in enumerate(zip(value, params, strict=True)):
        if not np.array_equal(array, right):
            raise case.fail(f"rank {rank}'s array {index} is not rank 0's, bit for bit.")


def check_broadcast(case, rank, value):
    """What ``callers.looked_at`` gave back on a rank for a broadcast."""
    _, changed, shared, fixed = value
    if changed or shared or fixed:
        raise case.fail(
            f"rank {rank} must leave its own parameters alone, and return new arrays that "
            "its caller may write to."
        )


def check_looked_at(case, rank, value, training):
    """What ``callers.looked_at`` gave back on a rank for a step."""
    result, changed, shared, fixed = value
    assert_steps(case, rank, result, training.serial(1))
    if changed:
        raise case.fail(f"rank {rank} changed what it was given; it must stay as it was.")
    if shared:
        raise case.fail(f"rank {rank} returned an array that it was given, not a new one.")
    if fixed:
        raise case.fail(f"rank {rank} returned an array that its caller can't write to.")


def check_twice(case, rank, value, first, second):
    """What ``callers.twice`` gave back on a rank."""
    then, now, late = value
    for what, got, training in (
        (f"rank {rank}'s first", then, first),
        (f"rank {rank}'s first, looked at after a second call,", now, first),
        (f"rank {rank}'s second", late, second),
    ):
        params, velocity, _ = training.serial(1)
        assert_arrays(got[0], params, case, f"{what} parameter")
        assert_arrays(got[1], velocity, case, f"{what} velocity")


# -- what the network saw --------------------------------------------------------------------------


def assert_equal_replicas(result, case):
    """Parameters and velocity have the same bits on every rank."""
    case = case.seen_in(result).asking("replicas")
    for kind, which in (("parameter", 0), ("velocity", 1)):
        for rank, value in enumerate(result.values):
            pairs = zip(value[which], result.values[0][which], strict=True)
            for index, (array, first) in enumerate(pairs):
                if not np.array_equal(array, first):
                    most = float(np.abs(array - first).max())
                    raise case.fail(
                        f"{kind} array {index} of rank {rank} differs from rank 0's by up to "
                        f"{most:.1e}; copies must be equal bit for bit, or they drift apart."
                    )


def assert_frozen(case, rank, value, training):
    """Frozen parameters and their velocity stay as they were."""
    for k in training.frozen:
        kept = np.array_equal(value[0][k], training.params[k])
        if not (kept and np.array_equal(value[1][k], training.velocity[k])):
            raise case.fail(
                f"rank {rank}'s array {k} is frozen, and must stay as it is, bit for bit."
            )


def assert_work(result, case, rank, own, right):
    """A rank's own samples went through the network once."""
    ops = [op for op in result.trace.ops[rank] if op.kind == Kind.COMPUTE]
    done = sum(op.detail[0] for op in ops)
    if not abs(done - right) <= 1e-9 * max(right, 1):
        raise (
            case.seen_in(result)
            .asking(f"work={rank}:{own}:{right:.12g}")
            .fail(
                f"rank {rank} put {done:.6g} floating-point operations into the network; its "
                f"own {own} samples take {right:.6g}, each once."
            )
        )


def assert_split(result, case, own, right, nbytes):
    """No rank has all the work, and the ranks tell each other what they found.

    Args:
        own: samples of each rank.
        right: floating-point operations that they take.
        nbytes: of the gradient.
    """
    case = case.seen_in(result).asking(f"split={own}:{right:.12g}:{nbytes}")
    received = received_as_ring(result)
    for rank in range(case.world_size):
        ops = result.trace.ops[rank]
        done = sum(op.detail[0] for op in ops if op.kind == Kind.COMPUTE)
        if done > 3 * right:
            raise case.fail(
                f"rank {rank} put {done:.6g} floating-point operations into the network; its own "
                f"{own} samples take {right:.6g}. Each rank works on its own samples."
            )
        if 2 * received[rank] < nbytes:
            raise case.fail(
                f"rank {rank} received {received[rank]:.0f} bytes; the gradient has {nbytes}. "
                "The ranks must add up their gradients."
            )


def assert_all_work(result, case, right):
    """All ranks together put the samples through the network."""
    done = sum(op.detail[0] for own in result.trace.ops for op in own if op.kind == Kind.COMPUTE)
    if done < right * (1 - 1e-9):
        raise (
            case.seen_in(result)
            .asking(f"all_work={right:.12g}")
            .fail(
                f"all ranks together put {done:.6g} floating-point operations into the network; "
                f"the samples take {right:.6g}."
            )
        )


def assert_at_once(result, case, rank, longest, size):
    """A rank put no more than its longest microbatch into the network at once."""
    ops = [op for op in result.trace.ops[rank] if op.kind == Kind.COMPUTE]
    done = max((op.detail[0] for op in ops if op.detail[3] == "forward 1"), default=0.0)
    if done > 2 * longest * size * (1 + 1e-9):
        raise (
            case.seen_in(result)
            .asking(f"at_once={rank}:{longest}:{size}")
            .fail(
                f"rank {rank} put {done / 2 / size:.0f} samples into the network at once; its "
                f"longest microbatch has {longest}."
            )
        )


CHECKS = {
    "replicas": lambda result, case, _: assert_equal_replicas(result, case),
    "work": lambda result, case, value: assert_work(
        result, case, *map(int, value.split(":")[:2]), float(value.split(":")[2])
    ),
    "split": lambda result, case, value: assert_split(
        result,
        case,
        int(value.split(":")[0]),
        float(value.split(":")[1]),
        int(value.split(":")[2]),
    ),
    "all_work": lambda result, case, value: assert_all_work(result, case, float(value)),
    "at_once": lambda result, case, value: assert_at_once(
        result, case, *map(int, value.split(":"))
    ),
}
