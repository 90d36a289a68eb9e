"""The calls of schedule.py, zero_bubble.py, dualpipev.py and bubble.py that the tests make."""

from dataclasses import dataclass, field

from given import replayed
from given.actions import BackwardInput, BackwardWeight, Forward, Pair, parse, text

from ringside.checking import Verdict, award
from ringside.checking.cases import Formula, machine_of

FULL, HALF = 1.02, 1.5
FREE = "name=free,alpha_s=0,beta_s_per_byte=0"


# -- schedule, zero_bubble and dualpipev -----------------------------------------------------------


@dataclass(frozen=True)
class Lists(Formula):
    """The lists of all stages: each pass of each microbatch once, and nobody waits for ever.

    Attributes:
        stages, microbatches: S and M.
        costs: seconds of a whole stage's forward and backward pass.
        machine, nbytes: where the lists are replayed, and the bytes of a message.
        within_s: the time of the published schedule there.
    """

    caller = "checks/inside.py:lists"
    placement = "loop"
    in_halves = False
    in_pairs = False
    exchange_s = 0.0
    unsaid = tuple(name for name in Formula.unsaid if name != "machine")
    stages: int = 2
    microbatches: int = 4
    costs: tuple = field(default=(1.0, 2.0), kw_only=True)
    machine: str = field(default=FREE, kw_only=True)
    nbytes: int = field(default=0, kw_only=True)
    within_s: float = field(default=0.0, kw_only=True)

    @property
    def num_chunks(self):
        return 1

    def arguments(self):
        return self.stages, self.microbatches

    def call(self, stage):
        """A stage's call, in words."""
        first, second, *more = self.arguments()
        return f"{self.function}{(first, second, stage, *more)}"

    def __str__(self):
        return self.call("stage").replace("'", "")

    def check_answer(self, value, error):
        for stage, (_, wrong) in enumerate(value):
            if self.raises:
                if wrong != f"raised {self.raises}":
                    raise Verdict(f"{self.call(stage)} must raise {self.raises}.")
            elif wrong:
                raise Verdict(f"{self.call(stage)} {wrong}.")
        if not self.raises:
            self.check_value(value)

    def check_value(self, value):
        self.assert_complete(value)

    def assert_complete(self, value):
        """Each pass once, of the kinds that are asked for, and the lists can be run."""
        lists = self.told_lists(value)
        for stage, actions in enumerate(lists):
            if self.in_halves and any(replayed.kind(each) == replayed.WHOLE for each in actions):
                raise Verdict(
                    f"{self.call(stage)} has a whole Backward; BackwardInput and BackwardWeight "
                    "are asked for."
                )
            pairs = [each for each in actions if replayed.kind(each) == replayed.PAIR]
            if pairs and not self.in_pairs:
                raise Verdict(f"{self.call(stage)} has a Pair; single passes are asked for.")
            if any(replayed.kind(each.forward) != replayed.FORWARD for each in pairs):
                raise Verdict(
                    f"{self.call(stage)} has a Pair that begins with its backward pass; it is "
                    "Pair(forward, backward)."
                )
        self.assert_runs(lists)

    def assert_runs(self, lists):
        """Each pass once, and nobody waits for ever."""
        try:
            replayed.check(lists, self.microbatches, self.num_chunks, self.placement)
        except replayed.ScheduleError as error:
            raise Verdict(f"{self}: {error}.", detail=drawing(lists)) from None

    def told_lists(self, value):
        """All stages' actions, of what came back."""
        return [parse(words) for words, _ in value]

    def read(self, value):
        """All stages' actions, as memory and time are judged by."""
        return self.told_lists(value)

    def assert_few_in_flight(self, value, allowed, what):
        """At most so many microbatches at one time on each stage: ``allowed(stage)``."""
        for stage, actions in enumerate(self.read(value)):
            most = replayed.most_in_flight(actions)
            if most > allowed(stage):
                sentence = f"{self.call(stage)} {what.format(most)}"
                raise Verdict(
                    f"{sentence} at one time; at most {allowed(stage)} are allowed.",
                    detail=text(actions),
                )

    def timeline(self, value, costs=None, weight_s=None):
        """A replay of the lists; ``costs`` as the field."""
        forward_s, backward_s = (each / self.num_chunks for each in costs or self.costs)
        return replayed.timeline(
            self.read(value), self.num_chunks, forward_s, backward_s, self.nbytes,
            machine_of(self), weight_s and weight_s / self.num_chunks, self.placement,
            self.exchange_s,
        )  # fmt: skip


@dataclass(frozen=True)
class Gpipe(Lists):
    target = "schedule:gpipe"


@dataclass(frozen=True)
class OneFOneB(Lists):
    target = "schedule:one_f_one_b"


@dataclass(frozen=True)
class Interleaved(Lists):
    """With several chunks a stage."""

    target = "schedule:interleaved"
    chunks: int = 2

    @property
    def num_chunks(self):
        return self.chunks

    def arguments(self):
        return self.stages, self.microbatches, self.chunks


class InHalves(Lists):
    """A schedule whose backward passes come in two halves.

    A second half that a list forgets costs the points of completeness alone: memory and time are
    judged as if it stood at the end. So does a whole backward pass.
    """

    in_halves = True

    def check_value(self, value):
        self.assert_runs(self.read(value))

    def read(self, value):
        return [with_all_halves(actions) for actions in self.told_lists(value)]


def with_all_halves(actions):
    """The list, and at its end the second halves that it forgets."""
    done = {(each.microbatch, each.chunk) for each in actions if isinstance(each, BackwardWeight)}
    begun = [each for each in actions if isinstance(each, BackwardInput)]
    keys = [(each.microbatch, each.chunk) for each in begun]
    return [*actions, *(BackwardWeight(*key) for key in keys if key not in done)]


@dataclass(frozen=True)
class ZbH1(InHalves):
    target = "zero_bubble:zb_h1"


@dataclass(frozen=True)
class ZbH2(InHalves):
    target = "zero_bubble:zb_h2"


@dataclass(frozen=True)
class ZbV(InHalves):
    target = "zero_bubble:zb_v"
    placement = "v"

    @property
    def num_chunks(self):
        return 2


@dataclass(frozen=True)
class DualPipeV(Lists):
    """F, I and W of a chunk take 1 s each.

    Attributes:
        exchange_s: what a pass waits for messages inside its stage.
    """

    target = "dualpipev:dualpipev"
    in_pairs = True
    placement = "v"
    costs: tuple = field(default=(2.0, 4.0), kw_only=True)
    exchange_s: float = field(default=0.0, kw_only=True)

    def check_value(self, value):
        """Nothing: pairs, and what is held, are looked at in lists that can't be run, too."""

    def read(self, value):
        """A pair whose passes are swapped costs the points of completeness alone."""
        return [[*map(forward_first, actions)] for actions in self.told_lists(value)]

    @property
    def num_chunks(self):
        return 2


def forward_first(action):
    """A pair with its forward pass first, or another action as it is."""
    if isinstance(action, Pair) and isinstance(action.backward, Forward):
        return Pair(action.backward, action.forward)
    return action


def drawing(lists):
    """All stages' actions, for a verdict's detail."""
    lines = [f"stage {stage}: {text(actions)}" for stage, actions in enumerate(lists)]
    return "\n".join(line if len(line) <= 160 else f"{line[:157]}..." for line in lines[:8])


def assert_time(case, taken_s, bound_s, where, full=FULL):
    """At most so many times the bound; half the points to 1.5.

    Args:
        where: what the sentence says behind "takes 3 s".
    """
    ratio = taken_s / bound_s
    half = " (half the points)" if full < ratio <= HALF else ""
    most = "that" if full == 1 else f"{full:g} times that"
    award(
        1.0 if ratio <= full + 1e-9 else 0.5 if ratio <= HALF + 1e-9 else 0.0,
        f"{case}: takes {taken_s:.6g} s {where}, {ratio:.3f} times {bound_s:.6g} s; at most {most} "
        f"is asked for{half}.",
    )


# -- bubble: each case carries its number, ``gives`` -----------------------------------------------


@dataclass(frozen=True)
class Number(Formula):
    """A closed form, whose last argument is given unless it is None."""

    def arguments(self):
        values = super().arguments()
        return values[:-1] if values[-1] is None else values


@dataclass(frozen=True)
class MakespanS(Number):
    target = "bubble:makespan_s"
    stages: int = 1
    microbatches: int = 1
    forward_s: float = 1.0
    backward_s: float = 2.0
    chunks: int | None = None


@dataclass(frozen=True)
class BubbleFraction(Number):
    target = "bubble:bubble_fraction"
    stages: int = 1
    microbatches: int = 1
    chunks: int | None = None


@dataclass(frozen=True)
class FewestMicrobatches(Formula):
    target = "bubble:fewest_microbatches"
    stages: int = 1
    most_bubble: float = 0.5
    chunks: int = 1


@dataclass(frozen=True)
class GpipeS(Number):
    target = "bubble:gpipe_s"
    stages: int = 1
    microbatches: int = 1
    forward_s: float = 1.0
    backward_s: float = 2.0
    latency_s: float = 0.0


@dataclass(frozen=True)
class NumMessages(Number):
    target = "bubble:num_messages"
    stages: int = 1
    microbatches: int = 1
    chunks: int | None = None


@dataclass(frozen=True)
class InFlight(Formula):
    target = "bubble:in_flight"
    schedule: str = "gpipe"
    stages: int = 1
    microbatches: int = 1
    stage: int = 0
    chunks: int = 1


@dataclass(frozen=True)
class ActivationBytes(Number):
    target = "bubble:activation_bytes"
    schedule: str = "gpipe"
    stages: int = 1
    microbatches: int = 1
    stage: int = 0
    saved_bytes: int = 1000
    input_bytes: int = 50
    recompute: bool | None = None
