"""The calls of elastic.py that the tests make, what must come of them, and who dies when."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from given.model import gradient

from ringside import Machine
from ringside.checking import assert_ran
from ringside.checking.cases import Case
from ringside.checking.kills import every_kill, killed_cases, line_of, some
from ringside.checking.suite import right_run
from ringside.errors import RankError
from ringside.trace import Kind

LR = 0.1
MOMENTS = 12  # of a second death
SLOW_CORES = Machine(  # a sample with n = 11 takes 4.4 ms, an all-reduce some microseconds
    "slow cores", alpha_s=1e-6, beta_s_per_byte=1e-9, flop_per_s=1e4,
)  # fmt: skip


@dataclass(frozen=True)
class Elastic(Case):
    """A training run; in its tests, passes have factors.

    Attributes:
        n: parameters.
        batch: samples of a step.
    """

    target = "elastic:train"
    what = "parameters"
    passes_of_anyone = True
    declared_like = "step "
    machines: ClassVar = {"slow_cores": SLOW_CORES}
    n: int = 11
    batch: int = 12
    num_steps: int = 3
    announced: bool = field(default=True, kw_only=True)

    @property
    def samples(self):
        """Those of all steps, and in the last column their targets."""
        return self.rng().standard_normal((self.num_steps * self.batch, self.n + 1))

    @property
    def params(self):
        """The initial parameters."""
        return self.rng(0).standard_normal(self.n)

    def inputs(self, rank):
        return self.params, self.samples, self.batch, self.num_steps, LR

    def serial(self, missing=frozenset(), since=0, rest=False):
        """What one rank gets.

        Args:
            missing: places of a batch whose samples are left out.
            since: from this step on.
            rest: the mean is over the other samples alone.
        """
        params, samples = self.params, self.samples
        with self.passes_of(0):
            for step in range(self.num_steps):
                left_out = missing if step >= since else frozenset()
                places = [place for place in range(self.batch) if place not in left_out]
                total = np.zeros(self.n)
                for place in places:
                    x = samples[step * self.batch + place]
                    total += gradient(params, x[None], step, place)
                count = max(1, len(places)) if rest else self.batch
                params = params - LR * total / count
        return params

    def right(self):
        return [self.serial()] * self.p

    def wrong(self):
        dead = {rank for word in self.kill.split(",") if (rank := _rank(word)) is not None}
        if not dead:
            return {}
        missing = frozenset(place for rank in dead for place in self.share(rank))
        each = [(since, rest) for since in range(self.num_steps) for rest in (False, True)]
        return {
            f"From step {since} on the samples of the dead are missing"
            f"{', and the mean is over the others' if rest else ''}; each step has the same "
            f"{self.batch} samples.": [self.serial(missing, since, rest)] * self.p
            for since, rest in each
        }

    def share(self, rank):
        """The places of a batch that a rank has, where all are alive and have their turns."""
        return range(self.batch * rank // self.p, self.batch * (rank + 1) // self.p)

    # What the docstring allows

    def samples_each(self, num_dead):
        """Samples of a rank in one attempt at a step."""
        return math.ceil(self.batch / max(1, self.p - num_dead))

    def nbytes(self, num_dead):
        """Bytes of a rank in all, if so many die one after the other, at whatever steps."""
        sizes = (
            16 * (p - 1) * math.ceil(self.n / p) + 16 for p in range(self.p - num_dead, self.p + 1)
        )
        return (self.num_steps + num_dead) * max(sizes)

    def time_s(self, machine, deaths):
        """Of a run in which one rank dies in each of these steps."""
        alpha_s, beta_s = machine.alpha_s, machine.beta_s_per_byte
        total_s, left = 0.0, self.p
        for step in range(self.num_steps):
            attempts = [left] * deaths.count(step)
            left -= len(attempts)
            for p in [*attempts, left]:
                ring_s = 2 * (p - 1) * (alpha_s + 8 * math.ceil(self.n / p) * beta_s)
                work_s = math.ceil(self.batch / p) * 4 * self.n / machine.flop_per_s
                total_s += work_s + ring_s + 2 * _rounds(p) * alpha_s
            total_s += len(attempts) * (machine.failure_detect_s + 4 * _rounds(self.p) * alpha_s)
        return total_s


def _rank(kill):
    """The rank of a kill; None: it has none."""
    word = kill.partition("@")[0]
    return int(word) if word.isdecimal() else None


def _rounds(p):
    return math.ceil(math.log2(p))


@dataclass(frozen=True)
class Faulty(Elastic):
    """The same with a fault in the model: rank 1 meets it three times.

    Attributes:
        error: what it raises: "ValueError", or "MPI" for an ``MPI.Exception`` of another class.
    """

    through = "checks/inside.py:faulty"
    error: str = "ValueError"

    def inputs(self, rank):
        return self.error, *super().inputs(rank)

    def check(self, run):
        if run.error is None:
            what = "a ValueError" if self.error == "ValueError" else "MPI.ERR_ARG"
            raise self.fail(
                f"the model raised {what} on rank 1, and train returned: catch "
                "MPI.ERR_PROC_FAILED and MPI.ERR_REVOKED alone, and let all else out."
            )
        if not isinstance(run.error, RankError) or "spoilt sample" not in run.error.message:
            assert_ran(run, self)


@dataclass(frozen=True)
class Anywhere(Elastic):
    """One in which a rank dies at any operation.

    Attributes:
        moments: so many are drawn; 0: all.
    """

    moments: int = 0


# -- who dies when ---------------------------------------------------------------------------------


def passes(ops, step):
    """Where a rank's passes of a step lie among its operations."""
    return [
        index
        for index, op in enumerate(ops)
        if op.kind == Kind.PASS and op.detail[0] == f"step {step}"
    ]


def between(case, *dying, steps=None):
    """Ranks die together when they begin a step, before they give anything to it."""

    def choose(run):
        for step in range(case.num_steps) if steps is None else steps:
            begins = [(rank, passes(run.trace.ops[rank], step)) for rank in dying]
            # A rank without samples in the step dies at once.
            yield ",".join(f"{rank}@op{found[0] + 1 if found else 1}" for rank, found in begins)

    return choose


def in_the_sum(rank):
    """A rank dies at each operation that isn't one of its samples."""

    def choose(run):
        kinds = [op.kind for op in run.trace.ops[rank]]
        kills = zip(kinds, every_kill(run, rank), strict=False)
        return [kill for kind, kill in kills if kind not in (Kind.PASS, Kind.COMPUTE)]

    return choose


def anywhere(case, *dying):
    """One of these ranks dies at one of its operations: at each, or at some that are drawn."""

    def choose(run):
        kills = [kill for rank in dying for kill in every_kill(run, rank)]
        return some(kills, case.moments, case.seed)

    return choose


def in_recovery(ranks, case, first, second):
    """A rank dies when it begins step 1; another one in the sum, in recovery, in the next sum."""
    if case.kill:
        yield case
        return
    for once in killed_cases(ranks, case, between(case, first, steps=[1])):
        with line_of(once):
            run = right_run(ranks, once)
        begin, later = (passes(run.trace.ops[second], step) for step in (1, 2))
        end = later[0] if later else len(run.trace.ops[second])
        span = range(begin[0], end)
        kills = [
            kill for kill in in_the_sum(second)(run) if int(kill.partition("op")[2]) - 1 in span
        ]
        if not kills:
            raise once.fail(
                f"rank {second} does nothing but compute after the death, so it can't know of it."
            )
        for kill in kills[:: math.ceil(len(kills) / MOMENTS)]:
            yield once.with_(kill=f"{once.kill},{kill}")


def assert_survived(ranks, cases):
    """Whoever is left has the right parameters."""
    for case in cases:
        with line_of(case):
            right_run(ranks, case)


def assert_split(run, case):
    """Where nobody dies, no rank has much more than its share of the samples."""
    for rank in range(case.p):
        for step in range(case.num_steps):
            count, share = len(passes(run.trace.ops[rank], step)), case.samples_each(0)
            if 2 * count > 3 * share:
                raise case.fail(
                    f"rank {rank} computed {count} of the {case.batch} samples of step {step}; its "
                    f"share is {share}. The ranks must share out the samples."
                )


def assert_equal(run, case):
    """All ranks that are left have the same bits."""
    first, *others = case.survivors(run)
    for rank in others:
        if run.values[rank].tobytes() != run.values[first].tobytes():
            most = float(np.abs(run.values[rank] - run.values[first]).max())
            raise case.fail(
                f"the parameters of rank {rank} differ from rank {first}'s by up to {most:.1e}; "
                "they must be equal bit for bit, or they drift apart."
            )


def assert_shares(run, case, deaths):
    """No rank computed more samples than its share of each attempt.

    Args:
        deaths: the steps in which a rank died.
    """
    for rank in case.survivors(run):
        counts = [len(passes(run.trace.ops[rank], step)) for step in range(case.num_steps)]
        for step, count in enumerate(counts):
            before = sum(of < step for of in deaths)
            tries = [before + k for k in range(deaths.count(step) + 1)]
            allowed = sum(case.samples_each(num_dead) for num_dead in tries)
            if count > allowed:
                raise case.fail(
                    f"rank {rank} computed {count} samples of step {step}; at most {allowed} are "
                    f"its share{_again(deaths.count(step))}."
                )


def _again(num_deaths):
    return " (the step was begun anew once)" if num_deaths else " (nobody died in it)"
