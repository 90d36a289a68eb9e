"""The calls of stash.py that the tests make, what must come of them, and what pipelines share."""

import functools
import itertools
from dataclasses import dataclass, field

import numpy as np
from given.model import random_parameters
from given.recursion import delayed_descent, lags

from ringside import Machine
from ringside.checking import (
    assert_own_messages,
    assert_peers,
    assert_ran,
    assert_strangers_idle,
    one_line,
)
from ringside.checking.cases import Case, assert_like, cast, machine_of
from ringside.trace import Kind

LR = 0.2
SAMPLES = 32  # of a minibatch in the measured training
WIRES = {
    "free": Machine("free", alpha_s=0.0, beta_s_per_byte=0.0),
    "slow wire": Machine("slow wire", alpha_s=1e-3, beta_s_per_byte=3e-5),
    "wire": Machine("wire", alpha_s=2.5e-6, beta_s_per_byte=0.0),
}


# -- pipelines -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pipeline(Case):
    """A training on a chain of stages, one on each rank; rank s has stage s.

    Attributes:
        compared: what of a rank's value is compared, and what sentences call an entry of it.
        envelope: bytes of a message that are free.
        batch_sizes: samples of each minibatch.
    """

    compared = "params"
    what = "parameter"
    envelope = 1024
    machines = WIRES
    batch_sizes: tuple = (2, 2, 2, 2)
    dtype: str = "float64"
    machine: str = field(default="buffered", kw_only=True)

    # What a class of them says

    calls = 1  # of the function, one after another

    @property
    def serial(self):
        """``(parameters or gradients of each stage, losses)``, on one process."""
        raise NotImplementedError

    def delayed(self, delays):
        """The same where stages have these lags: for classes with versions of parameters."""
        raise NotImplementedError

    def wrong_versions(self):
        """What a training with other versions gives, by the sentence that says which."""
        straight = self.delayed([0] * self.p)
        found = {
            "These are the parameters of training without delays, in which each minibatch waits "
            "for the one before it.": straight,
        }
        if self.vertical_sync:
            found["These are the parameters without vertical sync."] = self.delayed(lags(self.p))
        else:
            found["These are the parameters with vertical sync."] = self.delayed(
                lags(self.p, vertical_sync=True)
            )
        return {says: params for says, (params, _) in found.items()}

    def width_at(self, boundary):
        """Elements of a sample at a boundary: 0 is the input, p the output."""
        raise NotImplementedError

    def phase(self, kind, minibatch, stage):
        """Name and number of a pass, as the supplied piece announces it."""
        return f"{kind}{minibatch} of piece {stage}", 0

    # What follows

    @property
    def told(self):
        part = f"comm has the ranks {list(self.members)} of {self.world}" if self.members else ""
        return ", ".join(filter(None, [super().told, part]))

    @property
    def tolerance(self):
        return 1e-10 if self.dtype == "float64" else 1e-5

    @property
    def ranks(self):
        """Ranks of the world, by stages."""
        return self.members or tuple(range(self.p))

    def pass_input(self, kind, minibatch, stage, array):
        """The input of a pass, scaled where passes are announced."""
        if self.factors is None:
            return array
        return self.factors.scaled(stage, *self.phase(kind, minibatch, stage), array)

    def right(self):
        return self.serial[0]

    def check(self, run):
        """What each stage has, and that no library collective carried activations or gradients."""
        assert_ran(run, self)
        for stage, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            right = cast(right, self.dtype)
            what = f"stage {stage}'s {self.what}"
            assert_like(value[self.compared], right, self, what, self.tolerance)
        moved = sum(record.nbytes for record in getattr(run, "collectives", ()))
        if moved > 64 * (1 + len(self.batch_sizes)):
            raise self.fail(
                f"{moved} bytes went through the library's collectives; stages must send their "
                "activations and gradients themselves."
            )

    def nbytes_at(self, boundary, minibatch):
        """Bytes of a minibatch's activation, or of its gradient, at a boundary."""
        unit = np.dtype(self.dtype).itemsize
        return unit * self.batch_sizes[minibatch] * self.width_at(boundary)

    def crossing(self, boundary):
        """Bytes of all activations, or of all gradients, that cross a boundary."""
        minibatches = range(len(self.batch_sizes))
        return self.calls * sum(self.nbytes_at(boundary, m) for m in minibatches)

    def allowed(self, stage):
        """Messages that a stage may send, and their bytes without envelopes."""
        boundaries = {stage, stage + 1} - {0, self.p}
        messages = self.calls * len(self.batch_sizes) * len(boundaries)
        return messages, sum(map(self.crossing, boundaries))


def one_f_one_b(num_stages, num_minibatches, stage):
    """The passes of a stage in 1F1B order, without a flush: kind and minibatch.

    >>> one_f_one_b(2, 3, 0)
    [('F', 0), ('F', 1), ('B', 0), ('F', 2), ('B', 1), ('B', 2)]
    """
    in_flight = num_stages - stage
    order = [("F", m) for m in range(min(in_flight, num_minibatches))]
    for m in range(num_minibatches):
        order.append(("B", m))
        if m + in_flight < num_minibatches:
            order.append(("F", m + in_flight))
    return order


def pipeline_s(case):
    """How long 1F1B takes where receives are posted one pass ahead, and sends wait at the end.

    A message of n bytes takes ``alpha + n beta`` from when it is sent and its receive is posted.
    """
    machine, count = machine_of(case), len(case.batch_sizes)
    takes_s = dict(zip("FB", case.costs, strict=True))
    lists = [one_f_one_b(case.p, count, stage) for stage in range(case.p)]
    sent, free_s, done = {}, [0.0] * case.p, [0] * case.p
    posted = {(stage, *own[0]): 0.0 for stage, own in enumerate(lists)}
    while any(k < len(own) for k, own in zip(done, lists, strict=True)):
        for stage, own in enumerate(lists):
            if done[stage] == len(own):
                continue
            kind, m = own[done[stage]]
            source = stage + (-1 if kind == "F" else 1)
            start_s = free_s[stage]
            if 0 <= source < case.p:
                if (kind, source, m) not in sent:
                    continue
                nbytes = case.nbytes_at(max(stage, source), m)
                begun_s = max(sent[kind, source, m], posted[stage, kind, m])
                arrival_s = begun_s + machine.alpha_s + nbytes * machine.beta_s_per_byte
                start_s = max(start_s, arrival_s)
            done[stage] += 1
            if done[stage] < len(own):
                posted[(stage, *own[done[stage]])] = start_s
            free_s[stage] = sent[kind, stage, m] = start_s + takes_s[kind]
    return max(free_s)


# -- stash -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Train(Pipeline):
    """One training.

    Attributes:
        width: elements of a sample between stages; one or two more at some boundaries, unless
            stages are ``alike``.
        hidden: of the layers inside a stage.
        costs: seconds of a stage's forward and backward pass.
        before: another call comes first, with other parameters and the minibatches turned round.
        watched: memory is looked at.
    """

    target = "stash:train"
    through = "checks/inside.py:trained"
    vertical_sync: bool = False
    width: int = 3
    hidden: int = 4
    alike: bool = False
    costs: tuple = (1e-6, 2e-6)
    before: bool = False
    watched: bool = False

    def width_at(self, boundary):
        inner = self.width + (0 if self.alike else boundary % 3)
        return inner + (boundary == 0) + 2 * (boundary == self.p)

    @functools.cached_property
    def drawn(self):
        """Parameters of each stage, inputs and targets.

        Stages take turns in having two layers and three. Weights and rate are so small that
        rounding errors don't grow.
        """
        rng, params = self.rng(), []
        for stage in range(self.p):
            inside = [self.hidden] * (1 + stage % 2)
            widths = [self.width_at(stage), *inside, self.width_at(stage + 1)]
            own = random_parameters(widths, rng)
            params.append([(0.8 * param).astype(self.dtype) for param in own])
        inputs, targets = (
            [rng.standard_normal((size, width)).astype(self.dtype) for size in self.batch_sizes]
            for width in (self.width_at(0), self.width_at(self.p))
        )
        return params, inputs, targets

    def inputs(self, rank):
        params, inputs, targets = self.drawn
        data = inputs if rank == 0 else None, targets if rank == self.p - 1 else None
        call = params[rank], list(self.batch_sizes), LR, *data
        return *call, self.vertical_sync, self.costs, self.before, self.watched

    @functools.cached_property
    def serial(self):
        return self.delayed(lags(self.p, self.vertical_sync))

    def delayed(self, delays):
        return delayed_descent(*self.drawn, LR, delays, self.pass_input)

    def wrong(self):
        return self.wrong_versions()

    def held_bytes(self, stage):
        """Bytes that a stage may hold, and the versions among them: how many, and their bytes."""
        params, unit = self.drawn[0][stage], np.dtype(self.dtype).itemsize
        version = sum(param.nbytes for param in params)
        most = self.p if self.vertical_sync else self.p - stage
        elements = 2 * len(params[0]) + 2 * sum(map(len, params[1::2]))
        saved = (self.p - stage) * max(self.batch_sizes) * unit * elements
        widest = max(map(self.width_at, range(self.p + 1)))
        messages = 2 * sum(self.batch_sizes) * unit * 4 * widest + (1 << 16)
        return (most + 3) * version + saved + messages, most, version


@dataclass(frozen=True)
class MeasuredTraining(Case):
    """``measured_training`` of stages with two layers n -> n -> n, for runs and jobs."""

    target = "stash:measured_training"
    n: int = 16
    dtype: str = "float64"
    minibatches: int = 8

    @functools.cached_property
    def drawn(self):
        """Parameters of each stage, inputs and targets."""
        rng = self.rng()
        params = [random_parameters([self.n] * 3, rng, self.dtype) for _ in range(self.p)]
        shape = 2, self.minibatches, SAMPLES, self.n
        return params, *map(list, rng.standard_normal(shape).astype(self.dtype))

    def inputs(self, rank):
        params, inputs, targets = self.drawn
        data = inputs if rank == 0 else None, targets if rank == self.p - 1 else None
        return params[rank], [SAMPLES] * self.minibatches, 0.1, *data

    def right(self):
        trained, _ = delayed_descent(*self.drawn, 0.1, lags(self.p))
        flat = [np.concatenate([param.reshape(-1) for param in own]) for own in trained]
        return cast(flat, self.dtype)


# -- what is looked at -----------------------------------------------------------------------------


def assert_losses(values, right, case):
    """A float a minibatch from the last stage, None from the others."""
    for stage, losses in enumerate(values[:-1]):
        if losses is not None:
            text = one_line(repr(losses), 60)
            raise case.fail(f"stage {stage} returned {text} as losses, not None.")
    losses = values[-1]
    is_list = isinstance(losses, list | tuple) and len(losses) == len(right)
    if not is_list or not all(isinstance(loss, float) for loss in losses):
        raise case.fail(
            f"the last stage's losses are {one_line(repr(losses), 60)}; they must be a list of "
            f"{len(right)} floats, one a minibatch."
        )
    for minibatch, (loss, exact) in enumerate(zip(losses, right, strict=True)):
        if not abs(loss - exact) <= case.tolerance * (1 + abs(exact)):
            raise case.fail(f"the loss of minibatch {minibatch} is {loss:.12g}, not {exact:.12g}.")


def assert_passed_on(run, case):
    """Each stage computed passes, and sent each neighbour half of what is due there, or more."""
    sent = run.bytes_matrix()
    for stage in range(case.p):
        if not any(op.kind == Kind.COMPUTE and op.detail[2] for op in run.trace.ops[stage]):
            raise case.fail(f"stage {stage} computed no pass of its piece.")
        for other in {stage - 1, stage + 1} & set(range(case.p)):
            due = case.crossing(max(stage, other))
            if sent[stage, other] < due / 2:
                what = "activations" if other > stage else "gradients"
                raise case.fail(
                    f"stage {stage} sent {sent[stage, other]} bytes to stage {other} in messages "
                    f"of its own; the {what} have {due}."
                )


def assert_sent(run, case):
    """Each stage sent a message for each activation and gradient, and nothing else."""
    for stage in range(case.p):
        most, nbytes = case.allowed(stage)
        messages, sent = run.sent_messages()[stage], run.sent_bytes()[stage]
        if messages > most:
            raise case.fail(f"stage {stage} sent {messages} messages; at most {most} are allowed.")
        if sent > nbytes + case.envelope * most:
            raise case.fail(
                f"stage {stage} sent {sent} bytes; its activations and gradients have {nbytes}."
            )


def assert_neighbours(run, case):
    """Messages go to the stage before and the one after alone, within comm."""
    assert_own_messages(run, case)
    if case.members:
        assert_strangers_idle(run, case.members, case)
    allowed = [set() for _ in range(case.world or case.p)]
    for rank, after in itertools.pairwise(case.ranks):
        allowed[rank].add(after)
        allowed[after].add(rank)
    assert_peers(run, allowed, case, "a stage talks to the one before and the one after")


def announced_passes(run, case, stage):
    """A stage's passes, as it announced them: ["F0", "F1", "B0", ...]."""
    passes = []
    for op in run.trace.ops[case.ranks[stage]]:
        if op.kind == Kind.PASS:
            name, number = str(op.detail[0]).partition(" ")[0], op.detail[1]
            passes.append(name if len(name) > 1 else f"{name}{number}")
    return passes


def assert_order(run, case):
    """Each stage announced its passes in the order of 1F1B."""
    count = len(case.batch_sizes)
    for stage in range(case.p):
        passes = announced_passes(run, case, stage)
        right = [f"{kind}{m}" for kind, m in one_f_one_b(case.p, count, stage)]
        for number, (one, other) in enumerate(
            itertools.zip_longest(passes, right, fillvalue="nothing")
        ):
            if one != other:
                raise case.fail(
                    f"stage {stage} computed {one} as pass {number}; it must be {other}, with at "
                    f"most {min(case.p - stage, count)} minibatches in flight.",
                    f"computed:  {' '.join(passes)}\nasked for: {' '.join(right)}",
                )


def assert_work(run, case):
    """Each stage's passes took the time that its piece was made to take."""
    asked_s = case.calls * len(case.batch_sizes) * sum(case.costs)
    for stage, rank in enumerate(case.ranks):
        ops = run.trace.ops[rank]
        spent_ps = sum(max(0, op.detail[2]) for op in ops if op.kind == Kind.COMPUTE)
        if spent_ps < asked_s * 1e12 * (1 - 1e-6):
            raise case.fail(
                f"stage {stage}'s passes took {spent_ps / 1e12:.6g} s of virtual time; those "
                f"of its piece take {asked_s:.6g} s."
            )
