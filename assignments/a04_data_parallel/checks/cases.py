"""The calls of the modules that the tests make, and what must come of them."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from given import digits
from given.model import init_params, loss_and_gradients, num_flops

from ringside import Machine
from ringside.checking import Verdict, assert_ran
from ringside.checking.cases import Case, Formula, alike, assert_like, brief, cast
from ringside.checking.suite import plain
from ringside.errors import TargetError

SMALL, DEEP, FLAT, WIDE = (12, 9, 5), (7, 11, 6, 8, 4), (10, 3), (250, 240, 10)
SLOW_CORES = Machine(  # slow enough that a small network keeps them busy
    "slow cores", alpha_s=5e-8, beta_s_per_byte=1e-9, flop_per_s=1e9,
    collectives={"allreduce": "halving_doubling"},
)  # fmt: skip


# -- shard -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shard(Case):
    """Every rank's shard, for some numbers of samples and epochs.

    Attributes:
        sizes: numbers of samples.
        seeds: of training runs; (): the case's own.
        overwritten: before the same calls are made again, the caller writes to what it got.
    """

    target = "shard:shard"
    through = "checks/inside.py:shards"
    sizes: tuple = (10,)
    epochs: tuple = (0,)
    seeds: tuple = ()
    overwritten: bool = False

    @property
    def calls(self):
        """All ``(n, epoch, seed)``."""
        seeds = self.seeds or (self.seed,)
        return [(n, epoch, seed) for n in self.sizes for seed in seeds for epoch in self.epochs]

    def inputs(self, rank):
        return self.calls, self.overwritten

    def parts(self, run, what="shards"):
        """Per call, every rank's shard."""
        return list(zip(*(value[what] for value in run.values), strict=True))

    def fault(self, call, sentence, rank="rank", p=None):
        """A verdict on one of the calls."""
        n, epoch, seed = call
        return Verdict(f"shard({n}, {p or self.p}, {rank}, {epoch}, {seed}): {sentence}")

    def check(self, run):
        assert_ran(run, self)
        for call, parts in zip(self.calls, self.parts(run), strict=True):
            self.check_cover(call, parts)

    def check_cover(self, call, parts):
        """The shards of all ranks are arrays that hold every sample once."""
        n, p = call[0], len(parts)
        for rank, part in enumerate(parts):
            if not isinstance(part, np.ndarray) or part.ndim != 1:
                raise self.fault(
                    call, f"the result is of type {type(part).__name__}; it must be an array of "
                    "one dimension.", rank, p,
                )  # fmt: skip
            if part.dtype != np.int64:
                raise self.fault(
                    call, f"the result has dtype {part.dtype}; it must be int64.", rank, p
                )
            if strange := [int(i) for i in part if not 0 <= i < n]:
                raise self.fault(call, f"{strange[0]} is no index.", rank, p)
        counts = np.bincount(np.concatenate(parts), minlength=n)
        for what, wrong in (("no rank takes", counts == 0), ("twice or more stands", counts > 1)):
            if wrong.any():
                alike = " Is the order the same on all ranks?" if counts.sum() == n else ""
                raise self.fault(
                    call, f"of {n} samples the shards of all {p} ranks hold {counts.sum()}; {what} "
                    f"sample {int(np.argmax(wrong))}.{alike}", "rank", p,
                )  # fmt: skip


@dataclass(frozen=True)
class Order(Shard):
    """Shards, and the order that one rank alone would have.

    Attributes:
        round_numbers: epochs of seed 0, and seeds of epoch 0, that one number made of both would
            mistake for others, as ``100 * seed + epoch`` does.
    """

    round_numbers: bool = False

    @property
    def calls(self):
        if not self.round_numbers:
            return super().calls
        n = self.sizes[0]
        many = (*range(1, 300), 997, 1009)
        many += (*(10**k for k in range(3, 8)), *(2**k for k in range(9, 21)))
        return [(n, 0, 0), *((n, k, 0) for k in many), *((n, 0, k) for k in many)]

    def inputs(self, rank):
        return *super().inputs(rank), True

    def orders(self, run):
        """Per call, the order on one rank."""
        return list(run.values[0]["orders"])

    def check(self, run):
        super().check(run)
        for call, order in zip(self.calls, self.orders(run), strict=True):
            self.check_cover(call, [order])


# -- step and accumulate ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Broadcast(Case):
    """``broadcast_parameters``: every rank has parameters of its own."""

    target = "step:broadcast_parameters"
    through = "checks/inside.py:broadcast"
    widths: tuple = SMALL
    dtype: str = "float64"
    machine: str = field(default="buffered", kw_only=True)

    def params(self, rank):
        return init_params(self.widths, [self.seed, rank], self.dtype)

    @property
    def nbytes(self):
        """Bytes of the parameters."""
        return sum(param.nbytes for param in self.params(0))

    def inputs(self, rank):
        return (self.params(rank),)

    def check(self, run):
        assert_ran(run, self)
        for rank, value in enumerate(run.values):
            what = f"rank {rank}'s parameter"
            assert_like(value["params"], self.params(0), self, what, tolerance=0)


@dataclass(frozen=True)
class Step(Case):
    """One step, for runs and jobs.

    Attributes:
        n: samples of all ranks together.
        sizes: how many each rank has; (): they are dealt out evenly.
        widths: of the layers.
    """

    target = "step:train_step"
    machines: ClassVar = {"slow_cores": SLOW_CORES}
    n: int = 16
    sizes: tuple = ()
    widths: tuple = (64, 128, 64, 10)
    dtype: str = "float64"

    steps = 1
    digits = False
    frozen = ()

    def __post_init__(self):
        if not self.sizes:
            return
        sizes = self.sizes if isinstance(self.sizes, tuple | list) else (self.sizes,)
        if len(sizes) != self.p:
            raise TargetError(f"sizes names {len(sizes)} ranks, and there are {self.p}.")
        object.__setattr__(self, "sizes", tuple(sizes))
        object.__setattr__(self, "n", int(sum(map(np.sum, sizes))))

    def pieces(self, step, rank):
        """How many samples a rank has in a step, microbatch by microbatch.

        From step to step, the sizes move on by one rank.
        """
        rank = (rank + step) % self.p
        size = self.sizes[rank] if self.sizes else len(np.arange(self.n)[rank :: self.p])
        return tuple(size) if isinstance(size, tuple | list) else self.cut(size)

    def cut(self, size):
        """The sizes of the microbatches of a rank with so many samples."""
        return (size,)

    def samples(self, rank):
        """Per step a list of microbatches ``(x, y)``."""
        rng = self.rng(rank)
        return [
            [self._drawn(rng, size) for size in self.pieces(step, rank)]
            for step in range(self.steps)
        ]

    def _drawn(self, rng, size):
        if self.digits:
            x, y = digits.load(self.dtype)[0]
            some = rng.integers(len(x), size=size)
            return x[some], y[some]
        x = rng.standard_normal((size, self.widths[0])).astype(self.dtype)
        return x, rng.integers(self.widths[-1], size=size)

    @property
    def state(self):
        """Parameters, velocity, a learning rate for each step, momentum."""
        rng = self.rng()
        params = init_params(self.widths, int(rng.integers(2**31)), self.dtype)
        velocity = [(0.1 * rng.standard_normal(p.shape)).astype(self.dtype) for p in params]
        lrs = [float(lr) for lr in rng.uniform(0.05, 0.5, size=self.steps)]
        return params, velocity, lrs, float(rng.uniform(0.5, 0.95))

    @property
    def learning(self):
        """The parameters whose gradient is needed."""
        return [param for k, param in enumerate(self.state[0]) if k not in self.frozen]

    def batch(self, microbatches):
        """What the function gets of a rank's samples in a step."""
        return microbatches[0]

    def inputs(self, rank):
        params, velocity, (lr,), momentum = self.state
        return params, velocity, *self.batch(self.samples(rank)[0]), lr, momentum

    def serial(self, weigh=lambda rank, size, count, total: size / total):
        """What one rank with all samples gets: parameters, velocity, the loss of each step.

        Args:
            weigh: the weight of the mean over ``size`` samples of a rank that has ``count`` pieces,
                in a step of ``total`` samples.
        """
        params, velocity, lrs, momentum = self.state
        params, velocity = (cast(arrays, "float64") for arrays in (params, velocity))
        losses = []
        for lr, *ranks in zip(lrs, *map(self.samples, range(self.p)), strict=True):
            total = sum(len(x) for pieces in ranks for x, _ in pieces)
            mean_loss, mean = 0.0, [np.zeros_like(param) for param in params]
            for rank, pieces in enumerate(ranks):
                for x, y in pieces:
                    weight = weigh(rank, len(x), len(pieces), total)
                    loss, gradients = loss_and_gradients(params, x.astype("float64"), y)
                    mean_loss += weight * loss
                    for sums, gradient in zip(mean, gradients, strict=True):
                        sums += weight * gradient
            losses.append(mean_loss)
            for k, gradient in enumerate(mean):
                if k not in self.frozen:
                    velocity[k] = momentum * velocity[k] + gradient
                    params[k] = params[k] - lr * velocity[k]
        return cast(params, self.dtype), cast(velocity, self.dtype), losses

    def right(self):
        params, velocity, (loss,) = self.serial()
        return [(params, velocity, loss)] * self.p

    def wrong(self):
        """In the form of ``right``, but that losses always are a list."""
        means = self.serial(lambda rank, size, count, total: 1 / (self.p * count))
        sums = self.serial(lambda rank, size, count, total: 1 / count)
        pieces = self.serial(lambda rank, size, count, total: 1.0)
        alone = [
            self.serial(lambda rank, size, *_, own=own: size * (rank == own) / self.own(own))
            for own in range(self.p)
        ]
        return {
            "That is what a rank's own samples give; the mean over all ranks' samples is asked "
            "for.": alone,
            "That is what the mean of the ranks' means gives; every sample must count alike.": (
                [means] * self.p
            ),
            "That is what the sum of the ranks' means gives; the mean over all samples is asked "
            "for.": [sums] * self.p,
            "That is what the sum of the microbatches' means gives; the mean over all samples is "
            "asked for.": [pieces] * self.p,
        }

    def own(self, rank):
        """How many samples a rank has in the first step, at least 1."""
        return max(1, sum(self.pieces(0, rank)))

    def check(self, run):
        assert_ran(run, self)
        names = ("params", "velocity", "losses")
        values = []
        for rank, value in enumerate(run.values):
            if not isinstance(value, tuple | list) or len(value) != 3:
                raise self.fail(f"rank {rank} must return parameters, velocity and loss.")
            values.append(dict(zip(names, (*value[:2], [value[2]]), strict=True)))
        self.check_state(values)
        self.check_losses(values)

    def check_state(self, values, velocity=True):
        """Every rank has the parameters, and the velocity, of one rank with all samples."""
        for rank, (value, right) in enumerate(zip(values, self.right(), strict=True)):
            assert_like(value["params"], right[0], self, f"rank {rank}'s parameter")
            if velocity:
                assert_like(value["velocity"], right[1], self, f"rank {rank}'s velocity")

    def check_losses(self, values):
        """Every rank has the mean loss of all samples, in each step."""
        allowed = {"float64": 1e-12, "float32": 1e-5}[self.dtype]
        for rank, value in enumerate(values):
            for step, (loss, right) in enumerate(
                zip(value["losses"], self.serial()[2], strict=True)
            ):
                loss = plain(loss)
                if type(loss) not in (int, float):
                    raise self.fail(
                        f"rank {rank}'s loss is of type {type(loss).__name__}, not a number."
                    )
                if not abs(loss - right) <= allowed * max(1.0, abs(right)):
                    mistakes = self.wrong().items()
                    named = (f" {says}" for says, of in mistakes if alike(loss, of[rank][2][step]))
                    raise self.fail(
                        f"rank {rank}'s loss in step {step} is {loss:.12g}; the mean over all "
                        f"ranks' samples is {right:.12g}.{next(named, '')}"
                    )

    # What the docstrings allow

    @property
    def nbytes(self):
        """Bytes that each rank may send, and receive."""
        shares = sum(-(-param.size // self.p) for param in self.learning)
        unit = np.dtype(self.dtype).itemsize
        return self.steps * (self.p - 1) * (2 * shares * unit + 64)

    def flops(self, rank=None):
        """Operations that a rank's samples take in the first step; None: those of all ranks."""
        ranks = range(self.p) if rank is None else [rank]
        return num_flops(self.state[0], sum(sum(self.pieces(0, each)) for each in ranks))

    def time_s(self, machine):
        """The longest work of a rank, and one all-reduce by halving and doubling."""
        unit = np.dtype(self.dtype).itemsize
        nbytes = (sum(param.size for param in self.state[0]) + 8) * unit
        moved = 2 * (self.p - 1) / self.p * nbytes
        latency_s = 2 * (self.p.bit_length() - 1) * machine.alpha_s
        longest_s = max(map(self.flops, range(self.p))) / machine.flop_per_s
        return longest_s + latency_s + moved * machine.beta_s_per_byte


@dataclass(frozen=True)
class Steps(Step):
    """Some steps, each on what the last one returned, for the tests.

    Attributes:
        digits: samples are real digits.
        between_others: a step of another network is made before, and once more afterwards.
        stretched: the ranks to which the trace of a run is stretched that is timed.
    """

    through = "checks/inside.py:steps"
    widths: tuple = SMALL
    machine: str = field(default="buffered", kw_only=True)
    steps: int = 1
    digits: bool = False
    between_others: bool = False
    stretched: int = 0

    def inputs(self, rank):
        others = []
        if self.between_others:
            # One with the same shapes, and one with as many elements in others.
            plain_step = self.with_(steps=1, between_others=False, seed=self.seed + 1)
            others = [plain_step, plain_step.with_(widths=(21, 6, 5), seed=self.seed + 2)]
        return self.target, *self.given(rank), [other.first(rank) for other in others]

    def given(self, rank):
        params, velocity, lrs, momentum = self.state
        return params, velocity, list(map(self.batch, self.samples(rank))), lrs, momentum

    def first(self, rank):
        """What the function itself gets in the first step."""
        params, velocity, (batch, *_), (lr, *_), momentum = self.given(rank)
        return params, velocity, *batch, lr, momentum

    def right(self):
        """Losses are a list, one for each step."""
        return [self.serial()] * self.p

    def check(self, run):
        """The loss has a test of its own, so that a wrong one costs its points and no others.

        So the velocity is looked at after several steps.
        """
        assert_ran(run, self)
        self.check_state(run.values, velocity=self.steps > 1)


@dataclass(frozen=True)
class Accumulated(Steps):
    """Steps of several microbatches.

    Attributes:
        sizes: of each rank's microbatches, such as ``((5, 2), (1, 3))``.
        microbatches: of each rank, where samples are dealt out evenly.
    """

    target = "accumulate:accumulated_step"
    microbatches: int = 3

    def cut(self, size):
        return tuple(len(part) for part in np.array_split(np.arange(size), self.microbatches))

    def batch(self, microbatches):
        return (microbatches,)


# -- warmup ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale(Formula):
    """The factor of the linear scaling rule."""

    target = "warmup:scale"
    local_batch_size: int = 32
    world_size: int = 8
    base_batch_size: int = 256


@dataclass(frozen=True)
class LrAt(Formula):
    """The learning rate of one step."""

    target = "warmup:lr_at"
    step: int = 0
    base_lr: float = 0.1
    k: float = 5.0
    warmup_steps: int = 4
    milestones: tuple = ()
    decay: float = 0.1


@dataclass(frozen=True)
class Schedule(Formula):
    """The learning rates of all steps."""

    target = "warmup:schedule"
    n: int = 10
    num_epochs: int = 3
    local_batch_size: int = 2
    world_size: int = 2
    base_lr: float = 0.1
    base_batch_size: int = 2
    warmup_epochs: int = 5
    milestone_epochs: tuple = ()
    decay: float = 0.1

    def check_value(self, value):
        rates = value.tolist() if isinstance(value, np.ndarray) else value
        right = self.right()
        if not isinstance(rates, list | tuple):
            raise Verdict(f"{self} must be a list, not {type(value).__name__}.")
        if right is None:  # a case of a reader's own
            return
        if len(rates) != len(right):
            raise Verdict(f"{self} has {len(rates)} steps; it must have {len(right)}.")
        for step, (rate, wanted) in enumerate(zip(rates, right, strict=True)):
            if not alike(rate, wanted):
                raise Verdict(f"{self}: step {step} has {brief(rate)}; it must have {wanted:.10g}.")
