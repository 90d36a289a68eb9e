"""The calls of diloco_torch.py and compress_torch.py that the tests make: without torch."""

import itertools
from dataclasses import dataclass, replace

import numpy as np

import ringside
from checks.cases import Refused, assert_repeated, check_looked_at
from ringside.checking import announced, assert_ran
from ringside.checking.cases import Case, assert_like, cast
from ringside.trace import Kind

# -- diloco_torch ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Diloco(Case):
    """Training of a small network on batches of the ranks' own.

    Attributes:
        outer: rate and momentum.
        inner: "sgd", "momentum" or "adamw".
        widths: of the network: d, h and o.
        frozen: b1 doesn't learn, and there is a buffer.
        step_s: virtual time of a step.
    """

    target = "diloco_torch:train"
    through = "checks/inside_torch.py:diloco_trained"
    declared_like = "nothing"  # torch's operators are counted by themselves
    num_steps: int = 6
    period: int = 3
    num_fragments: int = 1
    outer: tuple = (0.7, 0.9)
    inner: str = "sgd"
    widths: tuple = (3, 4, 2)
    frozen: bool = False
    step_s: float = 0.0
    dtype: str = "float64"

    @property
    def told(self):
        numbers = f"num_steps {self.num_steps}, period {self.period}"
        outer = f"num_fragments {self.num_fragments}, outer {self.outer}, {self.inner}"
        frozen = ", b1 frozen" * self.frozen
        return f"{numbers}, {outer}, widths {self.widths}{frozen}, {self.dtype}"

    @property
    def params(self):
        """The initial W1, b1, W2 and b2."""
        (d, h, o), rng = self.widths, self.rng()
        shapes = (h, d), (h,), (o, h), (o,)
        return [(rng.standard_normal(each) / np.sqrt(d)).astype(self.dtype) for each in shapes]

    def batches(self, rank):
        """A rank's five batches of three samples; its targets lie around its number."""
        (d, _, o), rng = self.widths, self.rng(rank)
        return [
            (
                rng.standard_normal((3, d)).astype(self.dtype),
                (rank + rng.standard_normal((3, o))).astype(self.dtype),
            )
            for _ in range(5)
        ]

    def inputs(self, rank):
        numbers = (*self.outer, self.num_steps, self.period, self.num_fragments)
        how = self.inner, self.frozen, self.step_s, numbers
        return self.params, self.batches(rank), *how

    def right(self):
        return self.trained()

    def wrong(self):
        if not self.outer[1]:
            return {}
        says = "The anchor moved along v alone; Nesterov's momentum moves it by d + momentum * v."
        return {says: self.trained(nesterov=False)}

    def trained(self, nesterov=True):
        """Whether None is returned; and W1, b1, W2 and b2 at the end, of all ranks on one."""
        params = [np.asarray(each, "float64") for each in self.params]
        learning = [0, 2, 3] if self.frozen else [0, 1, 2, 3]
        anchor = np.concatenate([params[k].ravel() for k in learning])
        own = [anchor.copy() for _ in range(self.p)]
        movers = [_Inner(self.inner, len(anchor)) for _ in own]
        batches = [self.batches(rank) for rank in range(self.p)]
        velocity, (outer_lr, outer_momentum) = np.zeros(len(anchor)), self.outer
        for step in range(self.num_steps):
            for rank, of_rank in enumerate(batches):
                x, target = (np.asarray(each, "float64") for each in of_rank[step % len(of_rank)])
                with self.passes_of(rank):
                    x = ringside.announce("step", x, step)
                gradients = _gradients(_whole(params, own[rank], learning), x, target)
                gradient = np.concatenate([gradients[k].ravel() for k in learning])
                own[rank] = movers[rank].moved(own[rank], gradient)
            for f in self.turns(step + 1):
                part = slice(self.ends[f], self.ends[f + 1])
                delta = anchor[part] - np.mean([each[part] for each in own], axis=0)
                velocity[part] = outer_momentum * velocity[part] + delta
                ahead = delta + outer_momentum * velocity[part] if nesterov else velocity[part]
                anchor[part] -= outer_lr * ahead
                for each in own:
                    each[part] = anchor[part]
        return [(True, cast(_whole(params, anchor, learning), self.dtype))] * self.p

    def check(self, run):
        assert_ran(run, self)
        ((_, right), *_) = self.right()
        for rank, (returned_none, params) in enumerate(run.values):
            if returned_none is not True:
                raise self.fail(f"rank {rank}: train returned something; it must return None.")
            assert_like(params, right, self, f"rank {rank}'s parameter")

    @property
    def n(self):
        """Elements of the parameters that learn."""
        d, h, o = self.widths
        return h * d + h * (not self.frozen) + o * h + o

    @property
    def itemsize(self):
        return np.dtype(self.dtype).itemsize

    @property
    def ends(self):
        """Where fragments end in a vector of all parameters that learn, 0 first."""
        return [f * self.n // self.num_fragments for f in range(self.num_fragments + 1)]

    def turns(self, taken):
        """The fragments that are averaged after so many steps."""
        every = range(self.num_fragments)
        if taken == self.num_steps:
            return list(every)
        place = taken % self.period
        return [
            f
            for f in every
            if taken >= self.period and place == f * self.period // self.num_fragments
        ]

    @property
    def averages(self):
        """Elements of all all-reduces."""
        lengths = [hi - lo for lo, hi in itertools.pairwise(self.ends)]
        taken = range(1, self.num_steps + 1)
        return [lengths[f] for each in taken for f in self.turns(each) if lengths[f]]


@dataclass(frozen=True)
class DilocoTwice(Diloco):
    """The same training twice, of two models."""

    through = "checks/inside_torch.py:diloco_twice"

    def check(self, run):
        assert_ran(run, self)
        assert_repeated(self, run)
        super().check(replace(run, values=[second for _, second in run.values]))


@dataclass(frozen=True)
class MeasuredDiloco(Diloco):
    """The same, for runs and jobs."""

    target = "checks/inside_torch.py:diloco_trained"
    through = ""


@dataclass(frozen=True)
class RefusedDiloco(Refused):
    """``train`` with numbers that can't be right."""

    target = "diloco_torch:train"
    through = "checks/inside_torch.py:diloco_refused"
    num_steps: int = 4
    period: int = 2
    num_fragments: int = 1
    outer_momentum: float = 0.0

    def inputs(self, rank):
        return 1.0, self.outer_momentum, self.num_steps, self.period, self.num_fragments


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


# -- compress_torch --------------------------------------------------------------------------------

TOLERANCES = {"float64": 1e-10, "float32": 1e-3}


@dataclass(frozen=True)
class Compress(Case):
    """Calls of ``all_reduce``, one after another.

    Attributes:
        kind: gradients are "random", "steady" (nearly the same in each call), or "zeros" (in the
            first call).
        means_only: residuals are not compared.
    """

    target = "compress_torch:all_reduce"
    through = "checks/inside_torch.py:compressed"
    shape: tuple = (6, 9)
    approx_rank: int = 1
    num_calls: int = 1
    kind: str = "random"
    means_only: bool = False
    dtype: str = "float64"

    @property
    def told(self):
        calls = "1 call" if self.num_calls == 1 else f"{self.num_calls} calls"
        what = f"gradients of shape {self.shape}, approx_rank {self.approx_rank}"
        return f"{what}, {calls}, {self.kind}, {self.dtype}"

    def gradients(self, rank, seed=None):
        """A rank's, one for each call."""
        rng = np.random.default_rng([self.seed if seed is None else seed, rank, 1])
        scale, steady = 1.0, np.zeros(self.shape)
        if self.kind == "steady":
            scale, steady = 0.05, rng.standard_normal(self.shape)
        found = [scale * rng.standard_normal(self.shape) + steady for _ in range(self.num_calls)]
        if self.kind == "zeros":
            found[0] = np.zeros(self.shape)
        return [np.asarray(each).astype(self.dtype) for each in found]

    def inputs(self, rank):
        return self.gradients(rank), self.approx_rank, self.seed

    def right(self):
        return self.compressed(self.seed)

    def wrong(self):
        if self.num_calls == 1 or len(self.lengths) == 1:
            return {}
        anew = "Q began anew in a later call; there it is the Q of the call before."
        return {anew: self.compressed(self.seed, warm=False)}

    def compressed(self, seed, warm=True):
        """Per rank and call the mean and the residual.

        Args:
            warm: whether a call begins with the Q of the one before it.
        """
        shape = self.shape
        gradients = [self.gradients(rank, seed) for rank in range(self.p)]
        residuals = [np.zeros(shape) for _ in gradients]
        q, answers = None, [[] for _ in gradients]
        for call in zip(*gradients, strict=True):
            matrices = [g.astype("float64") + e for g, e in zip(call, residuals, strict=True)]
            if len(self.lengths) == 1:
                mean = np.mean(matrices, axis=0)
                residuals = [np.zeros(shape) for _ in gradients]
            else:
                matrices = [each.reshape(shape[0], -1) for each in matrices]
                if q is None or not warm:
                    size = matrices[0].shape[1], self.approx_rank
                    q = np.random.default_rng(seed).standard_normal(size).astype(self.dtype)
                p, _ = np.linalg.qr(np.mean([each @ q for each in matrices], axis=0))
                own = [each.T @ p for each in matrices]
                q = np.mean(own, axis=0)
                mean = (p @ q.T).reshape(shape)
                pairs = zip(matrices, own, strict=True)
                residuals = [(each - p @ part.T).reshape(shape) for each, part in pairs]
            for answer, residual in zip(answers, residuals, strict=True):
                answer.append(cast((mean, residual), self.dtype))
        return answers

    def check(self, run):
        assert_ran(run, self)
        if self.kind == "zeros":
            self.check_zeros(run.values)
            return
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            self.check_calls(rank, value, right, self.gradients(rank))

    def check_calls(self, rank, value, right, gradients, of=""):
        """Per call the mean and the residual of a rank; ``of`` which series they are."""
        before = np.zeros(self.shape)
        for call, (mean, residual) in enumerate(value):
            where = f"in call {call + 1} of {self.num_calls}{of}, rank {rank}'s"
            tolerance = TOLERANCES[self.dtype]
            assert_like(mean, right[call][0], self, f"{where} mean", tolerance)
            if self.means_only:
                continue
            if isinstance(residual, np.ndarray) and self.p == 1:
                lost = np.abs(gradients[call] + before - mean - residual).max(initial=0)
                if lost > 1e-3:
                    raise self.fail(f"{where} mean and residual lack {lost:.2g} of what was given.")
            assert_like(residual, right[call][1], self, f"{where} residual", tolerance)
            before = residual

    def check_zeros(self, values):
        """A first gradient of zeros: nothing is lost then, and the mean is a part of M in rank r.

        Which columns complete P is the ranks' choice, so that values aren't compared.
        """
        for rank, value in enumerate(values):
            for call, pair in enumerate(value):
                where = f"in call {call + 1} of {self.num_calls}, rank {rank}'s"
                for what, array in zip(("mean", "residual"), pair, strict=True):
                    if not isinstance(array, np.ndarray) or array.shape != self.shape:
                        raise self.fail(f"{where} {what} must have shape {self.shape}.")
                    if not np.all(np.isfinite(array)):
                        raise self.fail(f"{where} {what} is not finite, although gradients are.")
                    if call == 0:
                        assert_like(array, np.zeros_like(array), self, f"{where} {what}")
                if np.linalg.matrix_rank(pair[0]) > self.approx_rank:
                    raise self.fail(f"{where} mean has a rank above {self.approx_rank}.")
        given = [self.gradients(rank) for rank in range(self.p)]
        residuals = np.zeros(self.shape)
        for call in range(self.num_calls):
            matrix = np.mean([own[call] for own in given], axis=0) + residuals
            mean = values[0][call][0]
            residuals = np.mean([value[call][1] for value in values], axis=0)
            where = f"in call {call + 1} of {self.num_calls}, after zeros,"
            if not np.allclose(mean + residuals, matrix, rtol=0, atol=1e-10):
                raise self.fail(f"{where} a part of the gradients is lost.")
            if abs(np.sum(mean * residuals)) > 1e-9 or (call and not mean.any()):
                raise self.fail(f"{where} P has no orthonormal columns.")

    @property
    def lengths(self):
        """Elements of the all-reduces of one call."""
        n, m = (self.shape[0], int(np.prod(self.shape[1:]))) if len(self.shape) > 1 else (0, 0)
        if min(n, m) <= self.approx_rank:
            return [int(np.prod(self.shape))]
        return [n * self.approx_rank, m * self.approx_rank]

    @property
    def itemsize(self):
        return np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class CompressInTurns(Compress):
    """The same calls in turns with others of another seed, looked at from inside."""

    through = "checks/inside_torch.py:compressed_in_turns"
    num_calls: int = 3

    def inputs(self, rank):
        both = [self.gradients(rank, seed) for seed in self.seeds]
        return *both, self.approx_rank, *self.seeds

    @property
    def seeds(self):
        return self.seed, self.seed + 1

    def check(self, run):
        assert_ran(run, self)
        for number, seed in enumerate(self.seeds):
            for rank, (value, right) in enumerate(
                zip(run.values, self.compressed(seed), strict=True)
            ):
                gradients = self.gradients(rank, seed)
                of = f" for the {('first', 'second')[number]} of two gradients in turns"
                self.check_calls(rank, value["series"][number], right, gradients, of)
        for rank, value in enumerate(run.values):
            check_looked_at(self, rank, value)


@dataclass(frozen=True)
class MeasuredCompress(Compress):
    """The same, for runs and jobs."""

    target = "checks/inside_torch.py:compressed"
    through = ""


@dataclass(frozen=True)
class RefusedCompress(Refused):
    """A gradient of shape (4, 6), and what can't be right beside it."""

    target = "compress_torch:all_reduce"
    through = "checks/inside_torch.py:compress_refused"
    approx_rank: int = 2
    residual_shape: tuple = (4, 6)

    def inputs(self, rank):
        return self.approx_rank, self.residual_shape


# -- what both need --------------------------------------------------------------------------------


def ops_of_ranks(run, case):
    """Each rank's operations; nothing but all-reduces of the whole group is among what was sent."""
    if run.comm_calls or sum(run.sent_messages()):
        raise case.fail("only all-reduces on the given group are allowed.")
    for record in run.collectives:
        if record.name != "allreduce":
            raise case.fail(f"the library's {record.name} was called; only all-reduces may be.")
    return run.trace.ops


def ring_s(elements, p, machine, itemsize=8):
    """A ring's all-reduce: the closed form that the docstrings state."""
    shard = -(-elements // p) * itemsize
    return 2 * (p - 1) * (machine.alpha_s + shard * machine.beta_s_per_byte)
