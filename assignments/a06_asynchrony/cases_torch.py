"""Calls of the torch modules, as the tests make them: supplied, nothing to write.

A case is what a verdict is about: its words, its inputs, and the line that runs the same thing.
Beside them stands what must come out: the same computation of all ranks, in NumPy on one.
"""

import contextlib
import itertools
from dataclasses import dataclass, replace

import numpy as np

import ringside
from ringside import checking
from ringside.checking import announced, assert_array
from ringside.trace import Kind

# -- diloco_torch ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DilocoCase(checking.Call):
    """A call of ``diloco_torch.train``; its inputs come from ``seed``.

    ``n`` counts the elements of the parameters that learn.
    """

    num_steps: int = 0
    period: int = 1
    num_fragments: int = 1
    outer_lr: float = 1.0
    outer_momentum: float = 0.0
    inner: str = "sgd"
    widths: tuple = (3, 4, 2)
    frozen: bool = False
    step_s: float = 0.0
    seed: int = 0

    def inputs(self):
        """Initial parameters, and each rank's batches."""
        return diloco_inputs(self.world_size, self.widths, self.seed, self.dtype)

    def numbers(self):
        """What ``train`` gets after ``inner``."""
        outer = self.outer_lr, self.outer_momentum
        return (*outer, self.num_steps, self.period, self.num_fragments)

    def arguments_of_ranks(self):
        """What ``callers_torch.diloco_trained`` gets on each rank, after ``group``."""
        params, batches = self.inputs()
        how = self.inner, self.frozen, self.step_s, self.numbers()
        return [(params, own, *how) for own in batches]

    @property
    def fragments(self):
        """Bytes of each fragment."""
        itemsize = np.dtype(self.dtype).itemsize
        ends = fragment_ends(self.n, self.num_fragments)
        return [itemsize * (hi - lo) for lo, hi in itertools.pairwise(ends)]

    @property
    def averages(self):
        """The lengths in elements of all all-reduces."""
        itemsize = np.dtype(self.dtype).itemsize
        return [
            self.fragments[f] // itemsize
            for taken in range(1, self.num_steps + 1)
            for f in fragments_at(taken, self.num_steps, self.period, self.num_fragments)
            if self.fragments[f]
        ]


def diloco_case(
    world_size, num_steps, period, num_fragments, rng, *, outer=(1.0, 0.0), inner="sgd",
    widths=(3, 4, 2), frozen=False, step_s=0.0, dtype="float64",
):  # fmt: skip
    """``diloco_torch.train`` on data that are drawn; ``rng`` gives the seed."""
    seed = int(rng.integers(2**31))
    words = f"--num-steps {num_steps} --period {period} --num-fragments {num_fragments}"
    words += f" --outer-lr {outer[0]} --outer-momentum {outer[1]} --inner {inner}"
    words += f" --widths '{list(widths)}' --frozen {frozen} --step-s {step_s}"
    d, h, o = widths
    return DilocoCase(
        "diloco_torch:train", world_size, h * d + h * (not frozen) + o * h + o, dtype,
        about=f"num_steps = {num_steps}, period = {period}, num_fragments = {num_fragments}, "
        f"outer rate {outer[0]}, outer momentum {outer[1]}, {inner}, widths {d}, {h}, {o}"
        f"{', b1 frozen' if frozen else ''}, {dtype}",
        line=f"ringside run callers_torch.py:diloco_trained --ranks {world_size} -- {words} "
        f"--seed {seed} --dtype {dtype}",
        num_steps=num_steps, period=period, num_fragments=num_fragments,
        outer_lr=outer[0], outer_momentum=outer[1], inner=inner, widths=tuple(widths),
        frozen=frozen, step_s=step_s, seed=seed,
    )  # fmt: skip


EVEN = (7, 4, 8)  # widths of 72 parameters: 2, 3, 4, 6 and 8 fragments are equally long

DILOCO_REFUSALS = (  # outer_lr, outer_momentum, num_steps, period, num_fragments
    (1.0, 0.0, -1, 2, 1),
    (1.0, 0.0, 4, 0, 1),
    (1.0, 0.0, 4, 2, 0),
    (1.0, 0.0, 4, 2, 3),
    (1.0, 1.0, 4, 2, 1),
    (1.0, -0.1, 4, 2, 1),
)


def diloco_refusal(numbers):
    """``diloco_torch.train`` with numbers that can't be right, on two ranks."""
    names = ("outer_lr", "outer_momentum", "num_steps", "period", "num_fragments")
    words = " ".join(
        f"--{name.replace('_', '-')} {value}" for name, value in zip(names, numbers, strict=True)
    )
    return checking.Call(
        "diloco_torch:train", 2, 0,
        about=", ".join(f"{name} = {value}" for name, value in zip(names, numbers, strict=True)),
        line=f"ringside run callers_torch.py:diloco_refused --ranks 2 -- {words}",
    )  # fmt: skip


def diloco_inputs(world_size, widths, seed, dtype="float64"):
    """Initial parameters, and each rank's five batches of three samples."""
    rng = np.random.default_rng(seed)
    d, h, o = widths
    shapes = (h, d), (h,), (o, h), (o,)
    params = [(rng.standard_normal(shape) / np.sqrt(d)).astype(dtype) for shape in shapes]
    batches = [
        [
            (
                rng.standard_normal((3, d)).astype(dtype),
                (rank + rng.standard_normal((3, o))).astype(dtype),
            )
            for _ in range(5)
        ]
        for rank in range(world_size)
    ]
    return params, batches


def fragment_ends(n, num_fragments):
    """Where fragments end in a vector of n elements, 0 first.

    >>> fragment_ends(10, 4)
    [0, 2, 5, 7, 10]
    """
    return [f * n // num_fragments for f in range(num_fragments + 1)]


def fragments_at(taken, num_steps, period, num_fragments):
    """The fragments that are averaged after ``taken`` steps.

    >>> [fragments_at(taken, 10, 4, 3) for taken in (1, 4, 5, 6, 7, 8, 9, 10)]
    [[], [0], [1], [2], [], [0], [1], [0, 1, 2]]
    """
    every = range(num_fragments)
    if taken == num_steps:
        return list(every)
    return [f for f in every if taken >= period and taken % period == f * period // num_fragments]


def diloco_serial(case, factors=None):
    """Every rank's parameters at the end, computed in float64: W1, b1, W2, b2.

    Args:
        factors: of the steps, in a test of order.
    """
    params, batches = case.inputs()
    learning = [0, 2, 3] if case.frozen else [0, 1, 2, 3]
    params = [np.asarray(each, "float64") for each in params]
    flat = np.concatenate([params[k].ravel() for k in learning])
    own = [flat.copy() for _ in batches]
    movers = [_Inner(case.inner, len(flat)) for _ in batches]
    anchor, velocity = flat.copy(), np.zeros(len(flat))
    ends = fragment_ends(len(flat), case.num_fragments)
    for step in range(case.num_steps):
        for rank, of_rank in enumerate(batches):
            x, target = (np.asarray(each, "float64") for each in of_rank[step % len(of_rank)])
            with contextlib.nullcontext() if factors is None else factors.of_rank(rank):
                x = ringside.announce("step", x, step)
            gradients = _gradients(_whole(params, own[rank], learning), x, target)
            gradient = np.concatenate([gradients[k].ravel() for k in learning])
            own[rank] = movers[rank].moved(own[rank], gradient)
        for f in fragments_at(step + 1, case.num_steps, case.period, case.num_fragments):
            part = slice(ends[f], ends[f + 1])
            delta = anchor[part] - np.mean([each[part] for each in own], axis=0)
            velocity[part] = case.outer_momentum * velocity[part] + delta
            anchor[part] -= case.outer_lr * (delta + case.outer_momentum * velocity[part])
            for each in own:
                each[part] = anchor[part]
    return [each.astype(case.dtype) for each in _whole(params, anchor, learning)]


class _Inner:
    """The inner optimizers of ``local_problem_torch.optimizer_of``, as formulas."""

    def __init__(self, name, n):
        self.name, self.steps, self.first, self.second = name, 0, np.zeros(n), np.zeros(n)

    def moved(self, w, gradient):
        """The parameters after a step."""
        if self.name != "adamw":
            self.first = (0.8 if self.name == "momentum" else 0.0) * self.first + gradient
            return w - 0.1 * self.first
        self.steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        mean = self.first / (1 - 0.9**self.steps)
        root = np.sqrt(self.second / (1 - 0.999**self.steps))
        return w * (1 - 0.02 * 0.1) - 0.02 * mean / (root + 1e-4)


def _whole(params, flat, learning):
    """All parameters, those that learn out of a vector."""
    whole, at = list(params), 0
    for k in learning:
        whole[k] = flat[at : at + params[k].size].reshape(params[k].shape)
        at += params[k].size
    return whole


def _gradients(params, x, target):
    w1, b1, w2, b2 = params
    hidden = np.tanh(x @ w1.T + b1)
    dy = (hidden @ w2.T + b2 - target) / len(x)
    dz = dy @ w2 * (1 - hidden**2)
    return [dz.T @ x, dz.sum(axis=0), dy.T @ hidden, dy.sum(axis=0)]


def assert_diloco(result, case, turns=False):
    """The right parameters at the end.

    Args:
        turns: also, after each step at most the fragments were all-reduced whose turn it was. This
            comes first: who sends at the wrong time has wrong parameters, too, but reads why.
    """
    if turns:
        assert_diloco_turns(result, replace(case, line=f"{case.line} --compare turns"))
    seen = case.seen_in(result)
    wanted = diloco_serial(case, getattr(result, "factors", None))
    for rank, value in enumerate(result.values):
        assert_diloco_params(value, rank, wanted, seen)


def assert_diloco_params(value, rank, wanted, case):
    """What ``diloco_trained`` gave back on a rank."""
    returned, params = value
    if returned is not True:
        raise case.fail(f"rank {rank}: train returned something; it must return None.")
    for number, (array, right) in enumerate(zip(params, wanted, strict=True)):
        assert_close(array, right, case, f"rank {rank}'s parameter {number}")


def assert_diloco_turns(result, case, numbers=None):
    """After each step at most those fragments were all-reduced whose turn it was.

    Args:
        numbers: T, H, F, and the bytes of all parameters and of an element; None: the case's.
    """
    if numbers is None:
        itemsize = np.dtype(case.dtype).itemsize
        numbers = case.num_steps, case.period, case.num_fragments, case.n * itemsize, itemsize
    num_steps, period, num_fragments, nbytes, itemsize = numbers
    ends = fragment_ends(nbytes // itemsize, num_fragments)
    case = case.seen_in(result).asking(f"turns={':'.join(map(str, numbers))}")
    for rank, ops in enumerate(ops_of_ranks(result, case)):
        for taken, reduced in enumerate(reduced_after_steps(ops, num_steps)):
            turns = fragments_at(taken, num_steps, period, num_fragments) if taken else []
            allowed = itemsize * sum(ends[f + 1] - ends[f] for f in turns)
            if reduced > allowed:
                steps = "1 step" if taken == 1 else f"{taken} steps"
                whose = f"it is the turn of fragments {turns}" if turns else "it is nobody's turn"
                raise case.fail(
                    f"rank {rank} all-reduced {reduced} bytes after {steps}, when {whose}; "
                    f"at most {allowed} bytes are asked for."
                )


def reduced_after_steps(ops, num_steps):
    """Bytes of the all-reduces before the first step, after it, after the second, and so on."""
    found, taken = [0] * (num_steps + 1), 0
    begun = {place for place, phase, _ in announced(ops) if phase == "step"}
    if not begun:
        begun = {
            place
            for place, op in enumerate(ops)
            if op.kind == Kind.COMPUTE and str(op.detail[3]).startswith("step ")
        }
    for place, op in enumerate(ops):
        if place in begun:
            taken = min(taken + 1, num_steps)
        elif op.kind in (Kind.COLLECTIVE, Kind.ISEND):
            found[taken] += op.nbytes
    return found


def assert_meets(result, case):
    """Ranks train, and parameters travel after as many steps as there are averages at most.

    How many bytes they are, and after which steps, is not looked at.
    """
    rounds, nbytes = -(-case.num_steps // case.period), case.n * np.dtype(case.dtype).itemsize
    case = (
        of_the_scheme(case)
        .seen_in(result)
        .asking(f"meets_torch={case.num_steps}:{rounds}:{nbytes}")
    )
    check_meets(result, case, case.num_steps, rounds, nbytes)


def check_meets(result, case, num_steps, rounds, nbytes):
    """``assert_meets``, of these numbers."""
    moved = np.zeros(num_steps + 1)
    for rank, member in enumerate(result.members or range(case.world_size)):
        ops = result.trace.ops[member]
        if not any(op.kind == Kind.COMPUTE for op in ops):
            raise case.fail(f"rank {rank} computed no loss; it takes {num_steps} steps.")
        moved += reduced_after_steps(ops, num_steps)
    times = int((moved >= nbytes).sum())
    if not 1 <= times <= rounds:
        found = "never averaged" if times == 0 else f"sent parameters after {times} steps"
        raise case.fail(f"the ranks {found}; {rounds} averages are asked for in {num_steps} steps.")


# -- compress_torch --------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompressCase(checking.Call):
    """Calls of ``compress_torch.all_reduce``, one after another; inputs come from ``seed``.

    ``kind`` says what gradients are: "random", "steady" (nearly the same in each call), or "zeros"
    (in the first call). ``compare`` says what is looked at: "all", or "means" without residuals.
    """

    shape: tuple = ()
    approx_rank: int = 1
    num_calls: int = 1
    kind: str = "random"
    compare: str = "all"
    seed: int = 0

    def inputs(self):
        """Each rank's gradients, one for each call."""
        of = self.num_calls, self.kind, self.seed, self.dtype
        return compress_inputs(self.world_size, self.shape, *of)

    def arguments_of_ranks(self):
        """What ``callers_torch.compressed`` gets on each rank, after ``group``."""
        return [(own, self.approx_rank, self.seed) for own in self.inputs()]

    @property
    def lengths(self):
        """Elements of the all-reduces of one call."""
        return compress_lengths(self.shape, self.approx_rank)


def compress_case(
    world_size, shape, approx_rank, rng, *, num_calls=3, kind="random", compare="all",
    dtype="float64",
):  # fmt: skip
    """Calls of ``compress_torch.all_reduce`` on gradients that are drawn."""
    seed = int(rng.integers(2**31))
    words = f"--shape '{list(shape)}' --approx-rank {approx_rank} --num-calls {num_calls}"
    words += f" --kind {kind}" + (" --compare means" if compare == "means" else "")
    calls = "1 call" if num_calls == 1 else f"{num_calls} calls"
    return CompressCase(
        "compress_torch:all_reduce", world_size, int(np.prod(shape)), dtype,
        about=f"gradients of shape {tuple(shape)}, approx_rank = {approx_rank}, "
        f"{calls}, {kind}, {dtype}",
        line=f"ringside run callers_torch.py:compressed --ranks {world_size} -- {words} "
        f"--seed {seed} --dtype {dtype}",
        shape=tuple(shape), approx_rank=approx_rank, num_calls=num_calls, kind=kind,
        compare=compare, seed=seed,
    )  # fmt: skip


def one_call_case(world_size, shape, approx_rank, rng, **options):
    """One call of ``compress_torch.all_reduce``, of which only the mean is compared."""
    options = {"num_calls": 1, "compare": "means", **options}
    return compress_case(world_size, shape, approx_rank, rng, **options)


def compress_refusal(approx_rank, residual_shape):
    """``compress_torch.all_reduce`` with arguments that can't be right, on two ranks."""
    words = f"--approx-rank {approx_rank} --residual-shape '{list(residual_shape)}'"
    return checking.Call(
        "compress_torch:all_reduce", 2, 24,
        about=f"a gradient of shape (4, 6), a residual of shape {tuple(residual_shape)}, "
        f"approx_rank = {approx_rank}",
        line=f"ringside run callers_torch.py:compress_refused --ranks 2 -- {words}",
    )  # fmt: skip


COMPRESS_REFUSALS = ((0, (4, 6)), (-1, (4, 6)), (2, (6, 4)), (2, (24,)))


def compress_inputs(world_size, shape, num_calls, kind, seed, dtype="float64"):
    """Each rank's gradients, one for each call."""
    rng = np.random.default_rng([seed, 1])
    steady = rng.standard_normal((world_size, *shape))
    gradients = [
        [
            (0.05 if kind == "steady" else 1.0) * rng.standard_normal(shape)
            + (steady[rank] if kind == "steady" else 0.0)
            for _ in range(num_calls)
        ]
        for rank in range(world_size)
    ]
    if kind == "zeros":
        gradients = [[np.zeros(shape), *own[1:]] for own in gradients]
    return [[np.asarray(each).astype(dtype) for each in own] for own in gradients]


def compress_lengths(shape, approx_rank):
    """Elements of the all-reduces of one call.

    >>> compress_lengths((8, 4, 3), 2), compress_lengths((8, 2), 2), compress_lengths((8,), 2)
    ([16, 24], [16], [8])
    """
    n, m = (shape[0], int(np.prod(shape[1:]))) if len(shape) > 1 else (0, 0)
    if min(n, m) <= approx_rank:
        return [int(np.prod(shape))]
    return [n * approx_rank, m * approx_rank]


def compress_serial(gradients, approx_rank, seed):
    """What all calls return, per call and rank: the mean, and the residual.

    Args:
        gradients: per rank one for each call.
    """
    shape, dtype = gradients[0][0].shape, gradients[0][0].dtype
    whole = len(compress_lengths(shape, approx_rank)) == 1
    residuals = [np.zeros(shape) for _ in gradients]
    q, answers = None, []
    for call in zip(*gradients, strict=True):
        matrices = [g.astype("float64") + e for g, e in zip(call, residuals, strict=True)]
        if whole:
            mean = np.mean(matrices, axis=0)
            residuals = [np.zeros(shape) for _ in gradients]
        else:
            matrices = [each.reshape(shape[0], -1) for each in matrices]
            if q is None:
                rng = np.random.default_rng(seed)
                q = rng.standard_normal((matrices[0].shape[1], approx_rank)).astype(dtype)
            p, _ = np.linalg.qr(np.mean([each @ q for each in matrices], axis=0))
            own = [each.T @ p for each in matrices]
            q = np.mean(own, axis=0)
            mean = (p @ q.T).reshape(shape)
            residuals = [
                (each - p @ part.T).reshape(shape) for each, part in zip(matrices, own, strict=True)
            ]
        answers.append([(mean.astype(dtype), each.astype(dtype)) for each in residuals])
    return answers


def assert_compressed(result, case):
    """Every call's mean is right, and its residual where the case compares it."""
    wanted, gradients = compress_serial(case.inputs(), case.approx_rank, case.seed), case.inputs()
    seen = case.seen_in(result)
    for rank, value in enumerate(result.values):
        assert_compressed_values(value, rank, wanted, gradients, seen, case.compare)


def assert_compressed_values(value, rank, wanted, gradients, case, compare="all"):
    """What ``compressed`` gave back on a rank: per call the mean and the residual.

    Args:
        compare: "means" leaves residuals out.
    """
    before = np.zeros(gradients[rank][0].shape)
    for call, (mean, residual) in enumerate(value):
        right_mean, right_residual = wanted[call][rank]
        where = f"in the {nth(call)} call, rank {rank}'s"
        assert_close(mean, right_mean, case, f"{where} mean", 1e-10, 1e-3)
        if compare == "means":
            continue
        if isinstance(residual, np.ndarray) and len(wanted[0]) == 1:
            lost = np.abs(gradients[rank][call] + before - mean - residual).max(initial=0)
            if lost > 1e-3:
                raise case.fail(f"{where} mean and residual lack {lost:.2g} of what was given.")
        assert_close(residual, right_residual, case, f"{where} residual", 1e-10, 1e-3)
        before = residual


def assert_compressed_bytes(result, case, allowed=None):
    """All-reduces of at most r (n + m) elements a call, or of the gradient where it goes whole.

    Args:
        allowed: bytes of all calls; None: the case's.
    """
    if allowed is None:
        allowed = case.num_calls * sum(case.lengths) * np.dtype(case.dtype).itemsize
    case = case.seen_in(result).asking(f"compressed={allowed}")
    for rank, ops in enumerate(ops_of_ranks(result, case)):
        nbytes = sum(op.nbytes for op in ops if op.kind == Kind.COLLECTIVE)
        if nbytes > allowed:
            raise case.fail(
                f"rank {rank} all-reduced {nbytes} bytes in all calls; at most {allowed} are "
                "asked for."
            )


def assert_thin(result, case):
    """Something travels between ranks, and it is less than half of the gradients."""
    nbytes = case.num_calls * case.n * np.dtype(case.dtype).itemsize
    check_thin(result, of_the_scheme(case).seen_in(result).asking(f"thin={nbytes}"), nbytes)


def check_thin(result, case, nbytes):
    """``assert_thin``, of gradients of so many bytes."""
    for rank, member in enumerate(result.members or range(case.world_size)):
        ops = result.trace.ops[member]
        sent = sum(op.nbytes for op in ops if op.kind in (Kind.COLLECTIVE, Kind.ISEND))
        if not 0 < sent < nbytes / 2:
            raise case.fail(
                f"rank {rank} handed over {sent} bytes to be summed; the gradients are {nbytes} "
                "bytes, and two thin matrices travel instead of them."
            )


def assert_zeros(result, case):
    """A first gradient of zeros: afterwards nothing is lost, and the mean is a part of M in rank r.

    Which columns complete P is the rank's choice, so the values are not compared one by one.
    """
    seen, given = case.seen_in(result), case.inputs()
    for rank, value in enumerate(result.values):
        assert_zeros_values(value, rank, case.approx_rank, given[rank], seen)
    residuals = np.zeros(case.shape)
    for call in range(case.num_calls):
        matrix = np.mean([own[call] for own in given], axis=0) + residuals
        mean = result.values[0][call][0]
        residuals = np.mean([value[call][1] for value in result.values], axis=0)
        if not np.allclose(mean + residuals, matrix, rtol=0, atol=1e-10):
            raise seen.fail(f"in the {nth(call)} call a part of the gradients is lost after zeros.")
        if abs(np.sum(mean * residuals)) > 1e-9 or (call and not mean.any()):
            raise seen.fail(f"in the {nth(call)} call P has no orthonormal columns after zeros.")


def assert_zeros_values(value, rank, approx_rank, gradients, case):
    """Per call a mean of that rank, and finite numbers; zeros in the first call."""
    for call, pair in enumerate(value):
        for what, array in zip(("mean", "residual"), pair, strict=True):
            name = f"in the {nth(call)} call, rank {rank}'s {what}"
            if not isinstance(array, np.ndarray) or array.shape != gradients[0].shape:
                raise case.fail(f"{name} must have shape {gradients[0].shape}.")
            if not np.all(np.isfinite(array)):
                raise case.fail(f"{name} is not finite, although all gradients are.")
            if call == 0:
                assert_close(array, np.zeros_like(array), case, name)
        if np.linalg.matrix_rank(pair[0]) > approx_rank:
            raise case.fail(
                f"in the {nth(call)} call, rank {rank}'s mean has a rank above {approx_rank}."
            )


def in_turns_case(case):
    """The same calls in turns with others, whose gradients are transposed, and looked at."""
    line = case.line.replace(":compressed ", ":compressed_in_turns ", 1)
    return replace(case, line=line, about=f"{case.about}, in turns with gradients of another shape")


def turns_arguments(case):
    """What ``callers_torch.compressed_in_turns`` gets on each rank, after ``group``."""
    rest = case.approx_rank, case.seed, case.seed + 1
    return [(*pair, *rest) for pair in zip(case.inputs(), _others(case), strict=True)]


def _others(case):
    of = case.num_calls, case.kind, case.seed + 1, case.dtype
    return compress_inputs(case.world_size, case.shape[::-1], *of)


def assert_in_turns(value, rank, case, seen):
    """What ``compressed_in_turns`` gave back on a rank."""
    *both, changed, shared = value
    for found, gradients, seed in zip(
        both, (case.inputs(), _others(case)), (case.seed, case.seed + 1), strict=True
    ):
        wanted = compress_serial(gradients, case.approx_rank, seed)
        assert_compressed_values(found, rank, wanted, gradients, seen)
    if changed:
        raise seen.fail(f"rank {rank} changed its gradient, its residual, or the seed in state.")
    if shared:
        raise seen.fail(
            f"rank {rank} returned a tensor that shares memory with an argument or with the other "
            "result; results must be new."
        )


def least_squares_case(case, num_steps):
    """Least squares with a weight of the case's shape, by so many compressed gradients."""
    line = case.line.replace(":compressed ", ":compress_trained ", 1)
    line = line.replace(f"--num-calls {case.num_calls}", f"--num-steps {num_steps}", 1)
    about = f"least squares, weights of shape {case.shape}, approx_rank = {case.approx_rank}, "
    about += f"{num_steps} steps"
    return replace(case, line=line, about=about, num_calls=num_steps)


def least_squares(case, num_steps):
    """What ``callers_torch.compress_trained`` gets on each rank, and the best weights."""
    rng = np.random.default_rng(case.seed)
    n, m = case.shape
    p = case.world_size
    x = np.sqrt(n) * np.linalg.qr(rng.standard_normal((p * n, n)))[0].reshape(p, n, n) * np.sqrt(p)
    y = rng.standard_normal((p, n, m))
    best = np.linalg.lstsq(x.reshape(-1, n), y.reshape(-1, m), rcond=None)[0]
    rest = case.approx_rank, num_steps, LEAST_SQUARES_LR, case.seed
    return [(x[rank], y[rank], *rest) for rank in range(p)], best


LEAST_SQUARES_LR = 0.2


def assert_converged(weight, rank, best, case):
    """The weights are within one percent of the best ones."""
    if not isinstance(weight, np.ndarray) or weight.shape != best.shape:
        raise case.fail(f"rank {rank} has no weights of shape {best.shape}.")
    off = float(np.linalg.norm(weight - best) / np.linalg.norm(best))
    if not off < 0.01:
        raise case.fail(
            f"rank {rank}'s weights are {off:.2g} of their size away from the best ones; with "
            "what is left out kept for the next step, it is less than 0.01."
        )


# -- what several of them need ---------------------------------------------------------------------


def of_the_scheme(case):
    """The case where a line looks at what was sent, and not at values."""
    if not hasattr(case, "line"):
        return case  # of a line that is typed
    return replace(case, line=f"{case.line} --compare scheme")


def ops_of_ranks(result, case):
    """Each rank's operations; nothing but all-reduces of the whole group is among what was sent."""
    if result.comm_calls or sum(result.sent_messages()):
        raise case.fail("only all-reduces on the given group are allowed.")
    members = list(result.members or range(case.world_size))
    for record in result.collectives:
        if record.name != "allreduce":
            raise case.fail(f"the library's {record.name} was called; only all-reduces may be.")
    return [result.trace.ops[member] for member in members]


def assert_equal_params(result, case):
    """All ranks have the same parameters after ``diloco_torch.train``, bit for bit."""
    case = case.seen_in(result).asking("equal_params")
    params = [params for _, params in result.values]
    _assert_equal_bits(params, lambda number: f"parameter {number}", case)


def assert_equal_means(result, case):
    """All ranks got the same means of ``compress_torch.all_reduce``, bit for bit."""
    case = case.seen_in(result).asking("equal_means")
    means = [[mean for mean, _ in value] for value in result.values]
    _assert_equal_bits(means, lambda call: f"mean in the {nth(call)} call", case)


def _assert_equal_bits(of_ranks, name_of, case):
    for rank, own in enumerate(of_ranks):
        for number, (array, other) in enumerate(zip(own, of_ranks[0], strict=True)):
            if not np.array_equal(array, other, equal_nan=True):
                raise case.fail(
                    f"rank {rank}'s {name_of(number)} is not rank 0's bit for bit: copies that "
                    "differ drift apart."
                )


def nth(call):
    """A call in words; the first one is 0.

    >>> nth(0), nth(1), nth(11), nth(21)
    ('first', 'second', '12th', '22nd')
    """
    words = "first", "second", "third", "fourth", "fifth", "sixth"
    if call < len(words):
        return words[call]
    number = call + 1
    last = number % 10 if number // 10 % 10 != 1 else 0  # 11, 12 and 13 end in th
    ending = {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
    return f"{number}{ending}"


def ring_all_reduce_s(elements, world_size, machine, itemsize=8):
    """A ring's all-reduce: the closed form that the docstrings state."""
    shard = -(-elements // world_size) * itemsize
    return 2 * (world_size - 1) * (machine.alpha_s + shard * machine.beta_s_per_byte)


def assert_close(value, wanted, case, what, double=1e-12, single=1e-5):
    """One array, to so much of its largest element."""
    wanted = np.asarray(wanted)
    if isinstance(value, np.ndarray) and value.shape == wanted.shape:
        value, wanted = value.reshape(-1), wanted.reshape(-1)
    tolerance = double if wanted.dtype == np.float64 else single
    allowed = tolerance / (2 * (case.world_size + 1) * np.finfo(wanted.dtype).eps)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = np.full(wanted.shape, allowed * (1 + finite.max(initial=0)))
    assert_array(value, wanted, scale, case, what)
