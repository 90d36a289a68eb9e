"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:zero1_steps --ranks 4 -- --n 11 --steps 3 --decay 0.1 --clip 0.5
    ringside run zero1.py:measured_step --ranks 4 -- --n 1000000
    ringside run callers.py:zero2_backward --ranks 4 -- --n 3 --widths 4,6,2
    ringside run callers_torch.py:try_zero3 --ranks 4 -- --widths '[8, 8, 8, 8]' --steps 2

``n`` is the number of parameters, Psi; for ``zero2_backward`` it is a rank's number of samples.
The functions of ``memory.py`` and ``offload.py`` need no ranks: call them in Python.
"""

import contextlib

import numpy as np
from adam import FLOPS, adam
from cases_torch import check_zero3, options_of, sample_training, sharded
from layers import make_layers, random_params
from observed_torch import (
    assert_collectives,
    assert_one_ahead,
    assert_one_by_one,
    assert_reduced,
    assert_time,
    assert_two_levels,
    assert_ways,
)
from serial_torch import train

from ringside.checking import announced
from ringside.trace import Kind

ZERO1 = ("zero1_steps", "zero1_looked_at")
ZERO2 = ("zero2_backward", "zero2_memory")
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


def zero_arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    if function in ZERO1:
        return _training(world_size, options).arguments(rank)
    if function == "measured_step":
        return _measured(rank, options)
    if function in ZERO2:
        return _pass(world_size, options).arguments(rank)
    return None


def zero_expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None for functions that aren't known here."""
    if function == "measured_step":
        params, _ = _measured(0, options)
        g = sum(_measured(each, options)[1] for each in range(world_size)) / world_size
        norm = float(np.linalg.norm(g))
        g *= min(1.0, 1.0 / norm)
        return adam(params, g, np.zeros_like(g), np.zeros_like(g), 1, 0.01, 0.1)[0], norm
    return None


def zero_check(case, function, rank, value, options):
    """Raise a verdict where what a function of ``callers.py`` gave back on a rank is not right."""
    if function in ZERO1:
        training = _training(case.world_size, options)
        assert_trained(value, training, case, rank)
        assert_norms(value, training, case, rank)
        if function == "zero1_looked_at":
            assert_kept(value, case, rank)
    elif function in ZERO2:
        assert_shard(value, _pass(case.world_size, options), case, rank)
        if function == "zero2_memory":
            assert_held(value, _pass(case.world_size, options), case, rank)
    else:
        return False
    return True


def _seed(options):
    return options.drawn[-1] if options.drawn else options.seed


# -- zero1 -----------------------------------------------------------------------------------------


class Training:
    """Some steps of Adam: parameters, and a gradient for each rank and step.

    Args:
        n: number of parameters.
        steps: how many.
    """

    def __init__(self, world_size, n, dtype, seed, steps=1, decay=0.0, clip=None):
        rng = np.random.default_rng(seed)
        self.dtype, self.decay, self.clip = dtype, decay, clip
        self.params = rng.standard_normal(n).astype(dtype)
        scale = 10.0 ** rng.uniform(-1, 1, size=n)
        self.gradients = []
        for _ in range(steps):
            # Ranks agree in each element's sign: where the mean nearly vanishes, Adam would
            # divide rounding errors by almost nothing.
            signed = scale * rng.choice([-1, 1], size=n)
            parts = [rng.uniform(0.2, 2, size=n) for _ in range(world_size)]
            self.gradients.append([(signed * part).astype(dtype) for part in parts])
        self.lrs = [float(lr) for lr in rng.uniform(0.01, 0.1, size=steps)]

    def arguments(self, rank):
        """What ``zero1_steps`` gets on a rank after ``comm``."""
        own = [gradients[rank] for gradients in self.gradients]
        return self.params, own, self.lrs, self.decay, self.clip

    def serial(self):
        """One rank with the mean gradients: parameters, and the norm of each step."""
        w = self.params.astype("float64")
        m, v, norms = np.zeros_like(w), np.zeros_like(w), []
        for t, (gradients, lr) in enumerate(zip(self.gradients, self.lrs, strict=True), start=1):
            g = np.mean([each.astype("float64") for each in gradients], axis=0)
            norms.append(float(np.linalg.norm(g)))
            if self.clip is not None and norms[-1] > self.clip:
                g *= self.clip / norms[-1]
            w, m, v = adam(w, g, m, v, t, lr, self.decay)
        return w, norms


def _training(world_size, options):
    others = options.others
    decay, clip = float(others.get("decay", 0.0)), others.get("clip")
    steps = int(others.get("steps", 1))
    return Training(world_size, options.n, options.dtype, _seed(options), steps, decay, clip)


def _measured(rank, options):
    """Parameters, and a rank's gradient: no rank draws those of all ranks, which are long."""
    params = np.random.default_rng(_seed(options)).standard_normal(options.n)
    part = np.random.default_rng([_seed(options), rank]).uniform(0.2, 2, size=options.n)
    return params.astype(options.dtype), (np.sign(params) * part).astype(options.dtype)


def update_s(n, machine):
    """What the update of so many elements takes, in seconds."""
    return FLOPS * n / machine.flop_per_s


def state_nbytes(state):
    """Bytes of a state: its arrays, and 8 for each number."""
    if isinstance(state, dict):
        return sum(map(state_nbytes, [*state, *state.values()]))
    if isinstance(state, list | tuple | set):
        return sum(map(state_nbytes, state))
    if isinstance(state, np.ndarray):
        return state.nbytes
    return 8 if isinstance(state, int | float | complex) else 0


def state_bound(n, world_size, itemsize):
    """Two numbers for each element of a shard, and 64 bytes."""
    return 2 * -(-n // world_size) * itemsize + 64


def assert_trained(value, training, case, rank):
    """A rank has the parameters that one rank alone gets."""
    _assert_close(value[0], training.serial()[0], case, f"rank {rank}'s parameters")


def assert_state(result, case):
    """Each rank's state is that of a shard; half of the points where it is at most half of all."""
    case = case.seen_in(result).asking("state")
    itemsize = np.dtype(case.dtype).itemsize
    bound, whole = state_bound(case.n, case.world_size, itemsize), 2 * case.n * itemsize
    for rank, value in enumerate(result.values):
        nbytes = state_nbytes(value[1])
        if nbytes > bound:
            verdict = case.fail(
                f"rank {rank}'s state has {nbytes} bytes; m and v of a shard have "
                f"{bound - 64}, and 64 are allowed for numbers. All ranks' m and v have {whole}."
            )
            verdict.fraction = 0.5 if nbytes <= whole / 2 else 0.0
            raise verdict


def assert_norms(value, training, case, rank):
    """The norm of the whole mean gradient, in each step."""
    wanted, got = training.serial()[1], value[2]
    for step, (norm, right) in enumerate(zip(got, wanted, strict=True)):
        number = norm.item() if isinstance(norm, np.ndarray) and norm.ndim == 0 else norm
        if type(number) is not float:
            raise case.fail(f"rank {rank}'s norm is of type {type(norm).__name__}, not a float.")
        if not abs(number - right) <= TOLERANCE[case.dtype] * max(1.0, right):
            raise case.fail(
                f"rank {rank}'s norm in step {step} is {number:.12g}; that of the whole mean "
                f"gradient is {right:.12g}."
            )


def assert_kept(value, case, rank):
    """Arguments stayed as they were, and the result is the caller's."""
    if value[3]:
        raise case.fail(f"rank {rank} changed params, gradient or state; all stay as they were.")
    if value[4]:
        raise case.fail(f"rank {rank}'s new parameters are not a new array that can be written to.")


def assert_alike(result, case):
    """All ranks have the same parameters and norms, bit for bit."""
    case, first = case.seen_in(result).asking("alike"), result.values[0]
    for rank, value in enumerate(result.values):
        if not np.array_equal(value[0], first[0]):
            raise case.fail(f"rank {rank}'s parameters differ from rank 0's; no bit may.")
        if list(value[2]) != list(first[2]):
            raise case.fail(
                f"rank {rank}'s norms are {value[2]}; rank 0's are {first[2]}. No bit may differ."
            )


def _assert_close(array, right, case, what, other=""):
    """An array is as it must be, to the tolerance of its dtype."""
    if not isinstance(array, np.ndarray):
        raise case.fail(f"{what} are of type {type(array).__name__}; they must be an array.")
    if array.dtype != case.dtype or array.shape != right.shape:
        raise case.fail(
            f"{what} have dtype {array.dtype} and shape {array.shape}; they must have "
            f"{case.dtype} and {right.shape}."
        )
    off = np.abs(array.astype("float64") - right)
    allowed = TOLERANCE[case.dtype] * max(1.0, float(np.abs(right).max(initial=0)))
    if not (off <= allowed).all():  # a NaN is wrong too
        at = tuple(int(k) for k in np.argwhere(~(off <= allowed))[0])
        place = at[0] if len(at) == 1 else at
        raise case.fail(
            f"{what} are wrong in {int((~(off <= allowed)).sum())} of {off.size} elements: element "
            f"{place} is {array[at]:.12g}; it must be {right[at]:.12g}{other}."
        )


# -- zero2 -----------------------------------------------------------------------------------------


class Pass:
    """One backward pass: parameters of the layers, and each rank's samples.

    Args:
        n: samples of a rank.
    """

    def __init__(self, world_size, n, widths, dtype, seed):
        rng = np.random.default_rng(seed)
        self.params, self.dtype = random_params(widths, rng, dtype), dtype
        self.batches = [
            tuple(rng.standard_normal((n, d)).astype(dtype) for d in (widths[0], widths[-1]))
            for _ in range(world_size)
        ]
        self.sizes = [layer.size for layer in make_layers(self.params)]
        self.shard_size = -(-sum(self.sizes) // world_size)

    def arguments(self, rank):
        """What ``zero2_backward`` gets on a rank after ``comm``."""
        return self.params, *self.batches[rank]

    def serial(self, rank, factors=None):
        """A rank's gradient with respect to its input, and that of all parameters."""
        layers = make_layers([each.astype("float64") for each in self.params])
        x, grad = (each.astype("float64") for each in self.batches[rank])
        gradients = []
        with contextlib.nullcontext() if factors is None else factors.of_rank(rank):
            for layer in layers:
                x = layer.forward(x)
            for layer in reversed(layers):
                grad, gradient = layer.backward(grad)
                gradients.insert(0, gradient)
        return grad, np.concatenate(gradients)

    def shards(self, factors=None):
        """The mean gradient's shards, padded."""
        world_size = len(self.batches)
        padded = np.zeros(world_size * self.shard_size)
        total = np.sum([self.serial(rank, factors)[1] for rank in range(world_size)], axis=0)
        padded[: len(total)] = total / world_size
        return padded.reshape(world_size, -1)

    def not_owned(self, rank):
        """Per layer, how many elements of its gradient other ranks own."""
        lo, hi = rank * self.shard_size, (rank + 1) * self.shard_size
        ends = np.cumsum(self.sizes)
        return [
            int(size - max(0, min(end, hi) - max(end - size, lo)))
            for size, end in zip(self.sizes, ends, strict=True)
        ]


def _pass(world_size, options):
    widths = widths_of(options.others.get("widths", (4, 6, 2)))
    return Pass(world_size, options.n, widths, options.dtype, _seed(options))


def assert_shard(value, asked, case, rank):
    """A rank's gradient of its input, and its shard of the mean gradient."""
    shard = asked.shards(case.factors)[rank]
    _assert_close(value[1], shard, case, f"rank {rank}'s shard's elements")
    grad_input = asked.serial(rank, case.factors)[0]
    _assert_close(value[0], grad_input, case, f"rank {rank}'s elements of grad_input")


def assert_held(value, asked, case, rank):
    """What a rank held when a layer's pass began."""
    itemsize = np.dtype(case.dtype).itemsize
    bound = itemsize * (asked.shard_size + 3 * max(asked.sizes))
    if value[2] > bound + 20_000:  # Python's own objects are in it, too
        raise case.fail(
            f"rank {rank} held {value[2]} bytes when a layer's backward pass began; its shard and "
            f"the gradients of three layers have {bound} of {itemsize * sum(asked.sizes)}."
        )


def _posted(op):
    """Bytes that a rank gave a send or a collective."""
    if op.kind == Kind.COLLECTIVE and op.detail[0] == "reduce_scatter":
        return sum(op.detail[4])  # all ranks' parts
    return op.nbytes if op.kind in (Kind.ISEND, Kind.COLLECTIVE) else 0


def assert_sent_early(result, asked, case):
    """Before the first layer's pass, the last to come, half of all gradients are on their way."""
    case = case.seen_in(result).asking("early")
    itemsize = np.dtype(case.dtype).itemsize
    for rank, member in enumerate(result.members or range(result.world_size)):
        ops = result.trace.ops[member]
        last = max(
            (at for at, phase, _ in announced(ops) if phase == "backward layer 0"), default=0
        )
        sent, wanted = sum(map(_posted, ops[:last])), sum(asked.not_owned(rank)) * itemsize
        if sent < wanted / 2:
            raise case.fail(
                f"when layer 0's backward pass began, rank {rank} had sent {sent} bytes of "
                f"gradients; other ranks own {wanted}. ZeRO 2 sends them layer by layer."
            )


def assert_sent_at_once(result, asked, case):
    """Before the next layer's pass begins, a layer's gradient is on its way to its owners."""
    case = case.seen_in(result).asking("at_once")
    itemsize = np.dtype(case.dtype).itemsize
    for rank, member in enumerate(result.members or range(result.world_size)):
        ops = result.trace.ops[member]
        begun = [
            (place, int(phase.rpartition(" ")[2]))
            for place, phase, _ in announced(ops)
            if phase.startswith("backward layer ")
        ]
        order = [layer for _, layer in begun]
        if order != list(range(len(asked.sizes)))[::-1]:
            raise case.fail(f"rank {rank} called backward of layers {order}, last layer first.")
        ends = [place for place, _ in begun[1:]] + [len(ops)]
        for (place, layer), end in zip(begun, ends, strict=True):
            sent = sum(map(_posted, ops[place:end]))
            wanted = asked.not_owned(rank)[layer] * itemsize
            if sent < wanted:
                before = f"layer {layer - 1}'s pass begins" if layer else "the call returns"
                raise case.fail(
                    f"rank {rank} sends {sent} bytes after layer {layer}'s backward pass and "
                    f"before {before}; other ranks own {wanted} bytes of its gradient."
                )


def widths_of(value):
    """``4,6,2`` as numbers, however it came."""
    return tuple(map(int, value.split(","))) if isinstance(value, str) else tuple(value)


def _sent(check_of_run):
    def checked(result, case, _):
        widths = widths_of(case.options.get("widths", (4, 6, 2)))
        check_of_run(result, Pass(case.world_size, case.n, widths, case.dtype, 0), case)

    return checked


# -- zero3_torch and hsdp_torch --------------------------------------------------------------------


def zero3_check(case, function, rank, value, options):
    """Raise a verdict where what ``try_zero3`` gave back on a rank is not right."""
    if function != "try_zero3":
        return False
    spec, by_layer, plan = _zero3(options.others)
    given = options.others
    settings = options_of(given.get("optimizer", "sgd"), by_layer=by_layer)
    sample = sample_training(np.random.default_rng(0), spec, case.world_size, by_layer, **plan)
    wanted = train(sample["params"], sample["steps"], sample["evaluated"], settings, case.factors)
    check_zero3(value, wanted, rank, spec, by_layer, case)
    return True


def _zero3(others):
    """Network, sharding and plan of a line's options."""
    spec = {
        "widths": others.get("widths", (4, 6, 4)),
        "blocks": others.get("blocks"),
        "bias": others.get("bias", True),
        "dtype": others.get("precision", "float64"),
    }
    plan = {name: others.get(name, 1) for name in ("steps", "microbatches")}
    return spec, bool(others.get("by_layer")), plan | {"evaluate": bool(others.get("evaluate"))}


def _seen(check_of_run):
    def checked(result, case, _):
        spec, by_layer, _ = _zero3(case.options)
        check_of_run(result, case, sharded(spec, case.world_size, by_layer))

    return checked


def _time(result, case, value):
    layers = sharded(_zero3(case.options)[0], case.world_size)
    assert_time(result, case, layers, case.options.get("costs", (1e-6, 2e-6)), int(value))


def _ways(result, case, only):
    given = case.options
    lengths, size = given.get("lengths", (8, 4)), given.get("shard_size", 2)
    assert_ways(
        result, case, given.get("function", "synchronise"), size, lengths, case.dtype, str(only)
    )


def _two_levels(result, case, _):
    assert_two_levels(result, case, case.options.get("shard_size", 2))


# -- all modules -----------------------------------------------------------------------------------

OPTIONS = {"target", "steps", "decay", "clip", "widths"}
UNSAID = {"target"}
INSTEAD = {  # these make what a function needs, and try it
    "zero1.py:step": "callers.py:zero1_steps",
    "zero2.py:backward": "callers.py:zero2_backward",
    "hsdp_torch.py:gather": "callers_torch.py:try_hsdp -- --function gather",
    "hsdp_torch.py:synchronise": "callers_torch.py:try_hsdp -- --function synchronise",
}
CHECKS = {
    "state": lambda result, case, _: assert_state(result, case),
    "alike": lambda result, case, _: assert_alike(result, case),
    "at_once": _sent(assert_sent_at_once),
    "early": _sent(assert_sent_early),
    "ways": _ways,
    "two_levels": _two_levels,
    "collectives": lambda result, case, _: assert_collectives(result, case),
    "one_by_one": _seen(assert_one_by_one),
    "one_ahead": _seen(assert_one_ahead),
    "time_on": _time,
    "reduced": _seen(assert_reduced),
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that make it, or aren't known."""
    return zero_arguments(function, world_size, rank, options)


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    if function == "try_hsdp":
        return 0.0
    return zero_expected(function, world_size, rank, options)


def check(case, function, rank, value, options):
    """Raise a verdict where what a supplied function gave back on a rank is not right."""
    modules = (zero_check, zero3_check)
    return any(known(case, function, rank, value, options) for known in modules)
