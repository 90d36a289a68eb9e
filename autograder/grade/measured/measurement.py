"""Measured speedup: the student's function against the reference's, on real ranks, in turns.

One measurement is one place, one time, the same cores::

    world of the student    A     A   A A     A       (who goes first changes as in Thue's sequence,
    world of the reference    R R   R     R R   R      so that no drift and no cache favours either)

Both get the same arguments, fresh for each pair, and the results must agree before anything is said
about time. What is reported is the median of the pairs' ratios, student over reference, with an
interval (``autograder.grade.measured.intervals``). The time of what surrounds a call (order,
arguments, result, reply) is measured on the reference's ranks alone and taken off.
``autograder.grade.measured.world`` says why a submission can neither slow the reference down nor
bend the clock.

Nothing is measured where there are fewer cores than ranks, where the reference against itself is
too uneven, or where the call is too short. Modelled time is always graded, whatever comes of this.
"""

from __future__ import annotations

import secrets
import socket
import statistics
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.course.assignment import Assignment, MeasuredSpec
from autograder.grade.grading import sources_in, staged
from autograder.grade.measured.hardware import cores, num_gpus
from autograder.grade.measured.intervals import credit, median_interval
from autograder.grade.measured.world import CallFailed, Disturbed, Unavailable, Window, World, room
from ringside.checking import inputs

__all__ = ["Pair", "Measurement", "Refused", "judge", "measure"]

CONFIDENCE = 0.95  # of the ratio; the control has half as many pairs, and CONTROL_CONFIDENCE
CONTROL_CONFIDENCE = 0.9
WARM_UP = 2  # pairs
AROUND = 2  # times before every fourth pair
START_S = 90.0  # until ranks are there, or the reference returns: torch imports for seconds
PATIENCE_S = 10.0  # for one call of the student's, or 5 times what the reference took
MOST_SHARE = 0.5  # of a call's window that may be order and reply


class Refused(RuntimeError):
    """Here and now a measurement would say nothing; the message says why."""


@dataclass
class Measurement:
    """What came of one measurement, as it is stored and shown.

    Attributes:
        status: "measured"; "wrong values" or "failed", the student's; "disturbed", when the
            student's ranks were active out of turn; "refused" or "not measured", ours.
        ratio, low, high: student's time over the reference's, and its interval.
        control: the interval of the reference over itself.
        credit: 0 to 1, by the bands.
    """

    module: str
    function: str
    ranks: int
    n: int
    max_points: float
    status: str = "not measured"
    message: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    control: tuple[float, float] | None = None
    credit: float = 0.0
    points: float = 0.0
    student_s: list[float] = field(default_factory=list)
    reference_s: list[float] = field(default_factory=list)
    around_s: float | None = None
    launcher: str = ""
    host: str = ""
    sandbox: str = ""


def measure(
    plan: Assignment,
    spec: MeasuredSpec,
    student: Mapping[str, str],
    reference: Path,
    *,
    trusted: bool = False,
    ranks: int | None = None,
    gpus: bool = False,
    alone: bool = False,
    patience_s: float = PATIENCE_S,
) -> Measurement:
    """Measure one function of one submission, here.

    Args:
        student: name -> text of the modules that were handed in.
        reference: the folder of the solution.
        trusted: go on where no sandbox works.
        ranks: in place of the number that the assignment says.
        gpus: functions of torch.distributed on NCCL, a GPU a rank.
        alone: make each world for its turn; always so with GPUs.
    """
    spec_ranks = ranks or spec.ranks
    record = Measurement(spec.module, spec.function, spec_ranks, spec.n, spec.points)
    record.host = socket.gethostname()
    try:
        _refuse_few("cores", len(cores()), spec_ranks)
        torch = inputs.takes_group(reference / spec.file, spec.function)
        record.launcher = ("nccl" if gpus else "gloo") if torch else "mpiexec"
        if record.launcher == "nccl":
            _refuse_few("GPUs", num_gpus(), spec_ranks)
        with ExitStack() as stack:
            both = (student, sources_in(plan, reference))
            folders = [stack.enter_context(staged(plan, sources)) for sources in both]
            pair = Pair(
                spec,
                spec_ranks,
                *folders,
                trusted=trusted,
                patience_s=patience_s,
                launcher=record.launcher,
                alone=alone or record.launcher == "nccl",
            )
            stack.callback(pair.close)
            pair.start()
            record.sandbox = pair.tier
            _take_turns(pair, spec, record)
            record.sandbox = pair.tier
        judge(spec, record)
    except _Wrong as wrong:
        record.status, record.message = "wrong values", str(wrong)
    except _Failed as failed:
        record.status, record.message = "failed", str(failed)
    except Disturbed as disturbed:
        record.status = "disturbed"
        record.message = f"{disturbed}: nothing may go on there, so this measurement doesn't count."
    except Refused as refused:
        record.status, record.message = "refused", str(refused)
    except (Unavailable, CallFailed, OSError) as error:
        record.message = f"{type(error).__name__}: {error}"
    return record


class _Wrong(RuntimeError):
    pass


class _Failed(RuntimeError):
    pass


def _refuse_few(what: str, available: int, ranks: int) -> None:
    if available < ranks:
        raise Refused(
            f"{socket.gethostname()} gives this job {available} {what} and {ranks} ranks want one "
            f"each: ranks that share would measure how they share."
        )


class Pair:
    """The student's world and the reference's.

    Both wait beside each other, stopped; or, ``alone``, each is made for its turn and ended after
    it, since what a GPU has been given goes on when its process is stopped.
    """

    def __init__(
        self,
        spec: MeasuredSpec,
        ranks: int,
        student: Path,
        reference: Path,
        *,
        trusted: bool,
        patience_s: float,
        launcher: str,
        alone: bool,
    ) -> None:
        self.spec, self.ranks, self.patience_s, self.alone = spec, ranks, patience_s, alone
        self.path = reference / spec.file
        self._folders = {"student": student, "reference": reference}
        self._options: Mapping[str, Any] = {
            "launcher": launcher,
            "room": room(self.arguments()),
            "trust_submissions": trusted,
        }
        self.worlds: dict[str, World] = {}
        self.tier = ""

    def _world(self, who: str) -> World:
        target = f"{self.spec.file}:{self.spec.function}"
        world = World(self._folders[who], target, self.ranks, **self._options)
        self.tier = world.tier
        try:
            world.begin(START_S)
        except BaseException:
            world.close()
            raise
        return world

    def start(self) -> None:
        """Both worlds up and stopped, where they may be there at once."""
        for who in () if self.alone else ("reference", "student"):
            with self._blamed(who):
                self.worlds[who] = self._world(who)

    def arguments(self) -> list[tuple[Any, ...]]:
        """Each rank's arguments, of a seed that nobody has seen."""
        options = inputs.Options(
            self.spec.n, self.spec.dtype, secrets.randbits(62), self.spec.options
        )
        return inputs.arguments(self.path, self.spec.function, self.ranks, options)

    def turn(self, student_first: bool) -> tuple[float, float]:
        """One pair: seconds of the student and of the reference on the same arguments.

        Raises:
            _Wrong, _Failed, Disturbed: of the student's.
            CallFailed: the reference's.
        """
        arguments = self.arguments()
        windows: dict[str, Window] = {}
        for who in ("student", "reference") if student_first else ("reference", "student"):
            windows[who] = self._call(who, arguments)
        if not self.alone:
            # After the reference's turn, which it would have slowed down, had it run meanwhile.
            self.worlds["student"].check_still()
        theirs, ours = windows["student"], windows["reference"]
        for rank, (value, reference) in enumerate(zip(theirs.values, ours.values, strict=True)):
            if not _same(value, reference):
                raise _Wrong(
                    f"{self._where}: rank {rank}'s result is not the reference's, so its time "
                    "says nothing."
                )
        return theirs.seconds, ours.seconds

    def _call(self, who: str, arguments: list[tuple[Any, ...]]) -> Window:
        patience_s = START_S if who == "reference" else self.patience_s
        with self._blamed(who):
            if self.alone:
                with self._world(who) as world:
                    world.call(self.arguments(), START_S)  # to warm up
                    window = world.call(arguments, patience_s)
            else:
                window = self.worlds[who].call(arguments, patience_s)
        if who == "reference":
            # What is too slow still gets a ratio; only what is very much slower is ended.
            self.patience_s = max(self.patience_s, 5 * window.seconds)
        return window

    def around(self) -> float:
        """Seconds that order, arguments, result and reply take, without the call."""
        with self._blamed("reference"):
            if not self.alone:
                return self.worlds["reference"].echo(self.arguments(), START_S)
            with self._world("reference") as world:
                world.call(self.arguments(), START_S)
                return world.echo(self.arguments(), START_S)

    @contextmanager
    def _blamed(self, who: str) -> Iterator[None]:
        """What goes wrong is the student's, or ours."""
        try:
            yield
        except CallFailed as failed:
            if who == "student":
                raise _Failed(f"{self._where}: {failed}.") from None
            raise
        except Disturbed as disturbed:
            if who == "student":
                raise
            raise CallFailed(f"the reference: {disturbed}") from None

    @property
    def _where(self) -> str:
        return f"{self.spec.function} on {self.ranks} real ranks, n = {self.spec.n}"

    def close(self) -> None:
        for world in self.worlds.values():
            world.close()


def _same(value: Any, wanted: Any) -> bool:
    try:
        return inputs.matches((value,), (wanted,))
    except (TypeError, ValueError):  # of kinds that can't be compared
        return False


def _take_turns(pair: Pair, spec: MeasuredSpec, record: Measurement) -> None:
    """Warm up, then student and reference in pairs, and at times what surrounds a call."""
    for number in range(WARM_UP):
        pair.turn(student_first=bool(number % 2))
    around = []
    for number in range(spec.pairs):
        if number % 4 == 0:
            around += [pair.around() for _ in range(AROUND)]
        # Thue's sequence: whether a number's ones are even.
        theirs, ours = pair.turn(student_first=number.bit_count() % 2 == 0)
        record.student_s.append(theirs)
        record.reference_s.append(ours)
    record.around_s = statistics.median(around)


def judge(spec: MeasuredSpec, record: Measurement) -> None:
    """Ratio, control and credit from the times."""
    assert record.around_s is not None
    around, typical = record.around_s, statistics.median(record.reference_s)
    if around > MOST_SHARE * typical:
        raise Refused(
            f"A call of the reference takes {(typical - around) * 1e3:.3g} ms beside "
            f"{around * 1e3:.3g} ms of handing arguments over: too short to measure. A larger n "
            "takes longer."
        )
    theirs, ours = (
        # A short call may take less than `around`, a median: a ratio needs positive times.
        [max(seconds - around, 1e-9) for seconds in times]
        for times in (record.student_s, record.reference_s)
    )
    # Neighbours, as in a pair: so a slow drift of the machine counts in neither ratio.
    control = median_interval(
        [second / first for first, second in zip(ours[::2], ours[1::2], strict=True)],
        CONTROL_CONFIDENCE,
    )
    record.control = (control.low, control.high)
    if control.high > spec.noise * control.low:
        raise Refused(
            f"The reference against itself lies between {control.low:.3g} and {control.high:.3g}: "
            "this machine is too busy to compare anything on it. Measure again later."
        )
    ratio = median_interval([s / r for s, r in zip(theirs, ours, strict=True)], CONFIDENCE)
    record.ratio, record.low, record.high = ratio.median, ratio.low, ratio.high
    record.confidence = ratio.confidence
    record.credit, doubt = credit(ratio, spec.bands)
    record.points = round(record.credit * spec.points, 4)
    record.status = "measured"
    record.message = (
        f"{ratio.median:.3g} times the reference's time ({ratio.low:.3g} to {ratio.high:.3g} with "
        f"{ratio.confidence:.0%} confidence, {len(ours)} pairs on {record.ranks} ranks of "
        f"{record.host}): {record.credit:.0%} credit.{' ' + doubt if doubt else ''}"
    )
