"""The steps of a pipeline that the tests make, and what must come of them."""

import contextlib
import itertools
import runpy
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from given import replayed
from given.actions import LETTERS, parse, text
from given.model import Piece, loss, loss_gradient, random_parameters

from ringside.checking import announced, assert_ran, one_line
from ringside.checking.cases import Case, assert_like, cast, machine_of
from ringside.errors import TargetError
from ringside.trace import Kind
from ringside.units import format_count

# Schedules, as text for each stage, and what they are called together.
GPIPE = ("F0 F1 F2 F3 B0 B1 B2 B3",)
FLUSH = ("F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3")
HALVES = ("F0 F1 I0 F2 W0 I1 W1 I2 W2", "F0 I0 W0 F1 I1 W1 F2 I2 W2")
CHUNKS = ("F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1", "F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1")
STRANGE = ("F2 F0 B0 F1 I2 B1 W2", "F0 B0 F2 B2 F1 I1 W1")
SWAPPED = ("F0 F1 B0 F2 B1 B2", "F0 B0 F2 F1 B1 B2")  # microbatch 2 overtakes 1
NEWEST_FIRST = ("F0 F1 F2 B2 B1 B0",)  # what was kept last is needed first
UNEQUAL = (3, 1, 2, 4)
USUAL, IN_HALVES = "GPipe and 1F1B", "backward passes in two halves"
SEVERAL, OTHERS = "several chunks", "orders that no schedule has"
LONG = {"sizes": (50,), "widths": (40, 7, 30), "ordered": True}  # far longer than an envelope


def letter(action):
    """F, B, I or W: see ``given/actions.py``."""
    return LETTERS[type(action).__name__]


@dataclass(frozen=True)
class Step(Case):
    """One training step.

    Attributes:
        lists: actions as text; those of stage s are ``lists[s % len(lists)]``.
        sizes: samples of a microbatch; microbatch m has ``sizes[m % len(sizes)]``.
        widths: input, hidden layer and output of piece 0; those of piece 1 are turned round, ...
        costs: seconds of a forward and of a backward pass through a piece.
        ordered: passes must follow the lists.
        before: another step is made first, with other numbers and twice as many samples.
        watched: look at the memory that is allocated meanwhile.
    """

    target = "stage:run"
    through = "checks/inside.py:stepped"
    lists: tuple = ("F0 F1 B0 B1",)
    sizes: tuple = (2,)
    widths: tuple = (5, 7, 4)
    dtype: str = "float64"
    costs: tuple = (1e-6, 2e-6)
    ordered: bool = False
    before: bool = False
    watched: bool = False
    machine: str = field(default="buffered", kw_only=True)

    # What it is made of

    @cached_property
    def actions(self):
        """Per stage the list of its actions."""
        return [parse(self.lists[stage % len(self.lists)]) for stage in range(self.p)]

    @property
    def chunks(self):
        """Pieces a stage."""
        return 1 + max(action.chunk for actions in self.actions for action in actions)

    @property
    def batch_sizes(self):
        count = 1 + max(action.microbatch for actions in self.actions for action in actions)
        return [self.sizes[m % len(self.sizes)] for m in range(count)]

    def ends(self, piece):
        """Width of a piece's input, and of its output."""
        return (self.widths[0], self.widths[2])[:: -1 if piece % 2 else 1]

    @cached_property
    def params(self):
        """Per piece of the model, weights and biases in turn."""
        rng = self.rng()
        wide = ((*self.ends(piece), self.widths[1]) for piece in range(self.p * self.chunks))
        return [random_parameters((d_in, d, d_out), rng, self.dtype) for d_in, d_out, d in wide]

    def batch(self, piece, end):
        """Per microbatch the input of piece 0 (``end`` 0), or the targets of the last piece."""
        rng, width = self.rng(end), self.ends(piece)[end]
        return [rng.standard_normal((n, width)).astype(self.dtype) for n in self.batch_sizes]

    @property
    def samples(self):
        return self.batch(0, 0)

    @property
    def targets(self):
        return self.batch(self.p * self.chunks - 1, 1)

    def inputs(self, rank):
        samples = self.samples if rank == 0 else None
        targets = self.targets if rank == self.p - 1 else None
        given = self.params[rank :: self.p], text(self.actions[rank]), self.batch_sizes
        return *given, samples, targets, self.costs, self.before, *self.more

    @property
    def more(self):
        """What the supplied function gets beside that."""
        return (self.watched,)

    @property
    def told(self):
        first = self.lists[0] if len(self.lists[0]) <= 40 else f"{self.lists[0][:37]}..."
        stages = "all stages" if len(self.lists) == 1 else "stage 0"
        *more, last = self.sizes
        sizes = "".join(f"{size}, " for size in more) + format_count(last, "sample")
        words = [f"{first} on {stages}", f"microbatches of {sizes}"]
        words += [self.dtype] if self.dtype != "float64" else []
        return ", ".join(words + ["after another step"] * self.before)

    # What must come of it

    def piece(self, number):
        """A piece of the model, in double precision."""
        return Piece(cast(self.params[number], "float64"), number)

    def right(self):
        return self.with_loss(lambda samples: sum(self.batch_sizes))

    def wrong(self):
        count = len(self.batch_sizes)
        return {
            "This is the mean of the microbatches' means; that over all samples is asked for.": (
                self.with_loss(lambda samples: samples * count)
            ),
            "This is the sum over all samples; the mean is asked for.": (
                self.with_loss(lambda samples: 1)
            ),
        }

    def with_loss(self, divisor):
        """Per stage the loss and its pieces' gradients, by one process.

        Args:
            divisor: of a microbatch's loss, by its samples.
        """
        pieces = [self.piece(number) for number in range(self.p * self.chunks)]
        halves = {
            (each.chunk * self.p + stage, each.microbatch)
            for stage, actions in enumerate(self.actions)
            for each in actions
            if letter(each) == "I"
        }
        total = 0.0
        for m, batch in enumerate(zip(self.samples, self.targets, strict=True)):
            x, target = (each.astype("float64") for each in batch)
            saved, batch_size = [], divisor(len(x))
            for piece in pieces:
                with self.passes_of(piece.number % self.p):
                    x, kept = piece.forward(m, x)
                saved.append(kept)
            total += loss(x, target, batch_size)
            grad = loss_gradient(x, target, batch_size)
            for piece in reversed(pieces):
                with self.passes_of(piece.number % self.p):
                    if (piece.number, m) in halves:
                        grad, pending = piece.backward_input(m, saved.pop(), grad)
                        piece.backward_weight(m, pending)
                    else:
                        grad = piece.backward(m, saved.pop(), grad)
        grads = [cast(piece.grads, self.dtype) for piece in pieces]
        return [(total, grads[stage :: self.p]) for stage in range(self.p)]

    def check(self, run):
        assert_ran(run, self)
        self.check_sent(run)
        for stage, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            what = f"stage {stage}'s gradient"
            for chunk, (grads, own) in enumerate(zip(value["grads"], right[1], strict=True)):
                beside = f"{what} in chunk {chunk}," if self.chunks > 1 else what
                assert_like(grads, own, self, beside)
        if self.ordered or self.announced:
            self.check_order(run)

    def check_sent(self, run):
        """Each stage sent its neighbours something: nobody has the whole model."""
        if not hasattr(run, "trace"):  # real ranks have none
            return
        sent = run.bytes_matrix()
        for stage in range(self.p):
            for other in sorted({stage - 1, stage + 1} & set(range(self.p))):
                if not sent[self.rank_of(stage), self.rank_of(other)]:
                    raise self.fail(
                        f"stage {stage} sent stage {other} no message of its own; each stage "
                        "computes its pieces alone, and passes on what they make."
                    )

    def check_losses(self, run):
        """Each stage returned the loss that it must."""
        for stage, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            self._check_loss(value["loss"], right[0], stage)

    def check_kept(self, run):
        """What was given is as it was."""
        for stage, value in enumerate(run.values):
            if not value["kept"]:
                raise self.fail(f"stage {stage} {self.changed}.")

    changed = "changed its parameters, inputs or targets, or a list of them"

    def _check_loss(self, value, right, stage):
        """The last stage's number; None from the others."""
        if stage < self.p - 1:
            if value is not None:
                raise self.fail(f"stage {stage} returned {one_line(repr(value), 60)}, not None.")
            return
        if not isinstance(value, float | int):
            kinds = {np.ndarray: "an array or a tensor"}
            kind = kinds.get(type(value), f"a {type(value).__name__}")
            raise self.fail(f"the last stage's loss is {kind}; it must be a float.")
        elif not abs(value - right) <= (1 + abs(right)) * (
            1e-12 if self.dtype == "float64" else 1e-5
        ):
            raise self.fail(f"the loss is {value:.12g}; of the whole batch it is {right:.12g}.")

    # What the network saw

    def rank_of(self, stage):
        """A stage's rank in the world."""
        return self.members[stage] if self.members else stage

    def passes(self, run, stage):
        """What a stage's pieces computed: "F0" of chunk 0 as ``("F0", 0)``.

        In a test of order it is the network that says in which order they began.
        """
        ops = run.trace.ops[self.rank_of(stage)]
        phases = [phase for _, phase, _ in announced(ops)]
        if not self.announced:
            phases = [str(op.detail[3]) for op in ops if op.kind == Kind.COMPUTE]
        words = [phase.split() for phase in phases]
        return [
            (each[0], int(each[3]) // self.p)
            for each in words
            if len(each) == 4 and each[1:3] == ["of", "piece"] and each[3].isdigit()
        ]

    def check_order(self, run):
        """Each stage computed the passes of its list, in order, each once."""
        for stage, actions in enumerate(self.actions):
            wanted = [(f"{letter(each)}{each.microbatch}", each.chunk) for each in actions]
            done = self.passes(run, stage)
            for at, (one, other) in enumerate(itertools.zip_longest(done, wanted)):
                if one != other:
                    did, must = (
                        "nothing" if each is None else f"{each[0]} of chunk {each[1]}"
                        for each in (one, other)
                    )
                    raise self.fail(
                        f"stage {stage} computed {did} as pass {at}; its list has {must} there."
                    )
        if self.announced:
            self.check_received(run)

    def check_received(self, run):
        """In a test of order, no pass began before what it needs from another stage had come."""
        last = self.p * self.chunks - 1
        for stage, actions in enumerate(self.actions):
            ops = run.trace.ops[self.rank_of(stage)]
            begun = {place for place, _, _ in announced(ops)}
            receives, left, needed, had = set(), iter(actions), 0, 0
            for place, op in enumerate(ops):
                if op.kind == Kind.IRECV:
                    receives.add(op.request)
                elif op.kind == Kind.WAIT:
                    had += len(receives.intersection(op.detail))
                elif place in begun and (action := next(left, None)) is not None:
                    piece = action.chunk * self.p + stage
                    alone = {"F": piece == 0, "W": True}.get(letter(action), piece == last)
                    needed += not alone and self.p > 1
                    if had < needed:
                        raise self.fail(
                            f"stage {stage} began {text([action])} when it had {had} messages; it "
                            f"and the passes before it need {needed}."
                        )

    # Bounds

    @property
    def traffic(self):
        """Per stage, how many messages it sends, and their bytes."""
        counts, nbytes = [0] * self.p, [0] * self.p
        last, unit = self.p * self.chunks - 1, np.dtype(self.dtype).itemsize
        for piece in range(last + 1) if self.p > 1 else ():
            for width, goes in zip(self.ends(piece), (piece > 0, piece < last), strict=True):
                counts[piece % self.p] += goes * len(self.batch_sizes)
                nbytes[piece % self.p] += goes * unit * width * sum(self.batch_sizes)
        return counts, nbytes

    @property
    def neighbours(self):
        """Per stage, those with which it exchanges messages."""
        beside = [{stage - 1, stage + 1} & set(range(self.p)) for stage in range(self.p)]
        if self.chunks > 1 and self.p > 1:
            beside[0].add(self.p - 1)
            beside[-1].add(0)
        return beside

    def spent(self, action):
        """Seconds of an action."""
        return {"F": self.costs[0], "B": self.costs[1]}.get(letter(action), self.costs[1] / 2)

    @property
    def step_s(self):
        """Time of an interpreter that posts the next action's receive before it computes."""
        forward_s, backward_s = self.spent(parse("F0")[0]), self.spent(parse("B0")[0])
        machine, nbytes = machine_of(self), 8 * self.batch_sizes[0] * self.widths[0]
        lists = self.actions
        return replayed.timeline(
            lists, self.chunks, forward_s, backward_s, nbytes, machine
        ).makespan_s


def assert_passed_on(run, case):
    """Each stage computed passes, and sent its neighbours half of its arrays' bytes or more."""
    nbytes = sum(case.batch_sizes) * 8 * min(case.widths[0], case.widths[2])
    sent = run.bytes_matrix()
    for stage in range(case.p):
        if not case.passes(run, stage):
            raise case.fail(f"stage {stage} computed no pass of its piece.")
        for other in sorted({stage - 1, stage + 1} & set(range(case.p))):
            if sent[stage, other] < nbytes / 2:
                what = "activations" if other > stage else "gradients"
                raise case.fail(
                    f"stage {stage} sent {sent[stage, other]} bytes to stage {other} in messages "
                    f"of its own; the {what} have {nbytes} or more."
                )


def assert_traffic(run, case):
    """A message for each activation and gradient, and nothing in it beside an envelope of 1 KiB."""
    for stage, (count, nbytes) in enumerate(zip(*case.traffic, strict=True)):
        messages, sent = run.sent_messages()[stage], run.sent_bytes()[stage]
        if messages > count:
            raise case.fail(f"stage {stage} sent {messages} messages; at most {count} are allowed.")
        if sent > nbytes + 1024 * count:
            raise case.fail(
                f"stage {stage} sent {sent} bytes; its activations and gradients have {nbytes}."
            )


def assert_work(run, case):
    """Each stage's passes took the time that the pieces were made to take."""
    for stage, actions in enumerate(case.actions):
        asked_s = sum(map(case.spent, actions))
        ops = run.trace.ops[stage]
        spent_s = sum(max(0, op.detail[2]) for op in ops if op.kind == Kind.COMPUTE) / 1e12
        if spent_s < asked_s * (1 - 1e-6):
            raise case.fail(
                f"stage {stage}'s passes took {spent_s:.6g} s of virtual time; the pieces that it "
                f"was given take {asked_s:.6g} s."
            )


# -- for runs and jobs -----------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasuredStep(Case):
    """``measured_step`` with layers n -> n -> n on each stage, by a schedule of your schedule.py.

    Attributes:
        schedule: the function's name.
    """

    target = "stage:measured_step"
    n: int = 16
    dtype: str = "float64"
    schedule: str = "one_f_one_b"
    microbatches: int = 8

    @property
    def step(self):
        """The step that it makes."""
        schedule = own_schedule(self.schedule)
        lists = tuple(text(schedule(self.p, self.microbatches, s)) for s in range(self.p))
        return Step(self.p, lists, (32,), (self.n,) * 3, self.dtype, seed=self.seed)

    def inputs(self, rank):
        params, *given = self.step.inputs(rank)[:5]
        return params[0], *given

    def right(self):
        return [grads[0] for _, grads in self.step.right()]


def own_schedule(name):
    """A function of the schedule.py beside this folder: yours, which the tests do without."""
    unit, before = Path(__file__).resolve().parents[1], set(sys.modules)
    sys.path.insert(0, str(unit))
    try:
        return runpy.run_path(str(unit / "schedule.py"))[name]
    except (FileNotFoundError, KeyError):
        raise TargetError(
            f"{name} is a function of schedule.py, which isn't here yet: write it first."
        ) from None
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(unit))
        for module in set(sys.modules) - before:
            if module.partition(".")[0] == "given":
                del sys.modules[module]
