"""Measured speedup: the student's function against the reference's, on real ranks, in turns.

One measurement is one place, one time, the same cores::

    world of the student    A     A   A A     A       (who goes first changes as in Thue's sequence,
    world of the reference    R R   R     R R   R      so that no drift and no cache favours either)

Both get the same arguments, fresh for each pair, and the results must agree before anything is
said about time. What is reported is the median of the pairs' ratios, student over reference, with
an interval (``autograder.intervals``). The time of what surrounds a call (order, arguments, result,
reply) is measured on the reference's ranks alone and taken off. ``autograder.measured_world`` says
why a submission can neither slow the reference down nor bend the clock.

Nothing is measured where there are fewer cores than ranks, where the reference against itself is
too uneven, or where the call is too short. Modelled time is always graded, whatever comes of this.
"""

from __future__ import annotations

import secrets
import socket
import statistics
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.assignment import Assignment, MeasuredSpec
from autograder.grading import staged
from autograder.intervals import credit, median_interval
from autograder.measured_world import CallFailed, Disturbed, Unavailable, World, cores, room
from ringside import inputs

__all__ = ["Record", "Refused", "judge", "measure"]

CONFIDENCE = 0.95  # of the ratio; the control has half as many pairs, and CONTROL_CONFIDENCE
CONTROL_CONFIDENCE = 0.9
WARM_UP = 2  # pairs
AROUND = 3  # times before the pairs, and after
START_S = 90.0  # until ranks are there, or the reference returns: torch imports for seconds
PATIENCE_S = 10.0  # for one call of the student's, or 5 times what the reference took
MOST_SHARE = 0.5  # of a call's window that may be order and reply


class Refused(RuntimeError):
    """Here and now a measurement would say nothing; the message says why."""


@dataclass
class Record:
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
    student: Path,
    reference: Path,
    *,
    trusted: bool = False,
    ranks: int | None = None,
    patience_s: float = PATIENCE_S,
) -> Record:
    """Measure one function of one submission, here.

    Args:
        student, reference: folders with the modules of each.
        trusted: go on where no sandbox works.
        ranks: in place of the number that the assignment says.
    """
    spec_ranks = ranks or spec.ranks
    record = Record(spec.module, spec.function, spec_ranks, spec.n, spec.points)
    record.host = socket.gethostname()
    try:
        _refuse_few_cores(spec_ranks)
        with ExitStack() as stack:
            folders = [stack.enter_context(staged(plan, each)) for each in (student, reference)]
            pair = _Pair(spec, spec_ranks, *folders, trusted=trusted, patience_s=patience_s)
            stack.callback(pair.close)
            pair.start(record)
            _take_turns(pair, spec, record)
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


def _refuse_few_cores(ranks: int) -> None:
    available = len(cores())
    if available < ranks:
        raise Refused(
            f"{socket.gethostname()} gives this job {available} cores and {ranks} ranks want one "
            "each: ranks that take turns on a core would measure the turns."
        )


class _Pair:
    """The student's world and the reference's."""

    def __init__(
        self,
        spec: MeasuredSpec,
        ranks: int,
        student: Path,
        reference: Path,
        *,
        trusted: bool,
        patience_s: float,
    ) -> None:
        self.spec, self.ranks, self.patience_s = spec, ranks, patience_s
        self.path = reference / spec.file
        self.launcher = "gloo" if inputs.takes_group(self.path, spec.function) else "mpiexec"
        target = f"{Path(spec.file).stem}:{spec.function}"
        options: Mapping[str, Any] = {
            "launcher": self.launcher,
            "room": room(self.arguments()),
            "trust_submissions": trusted,
        }
        self.reference = World(reference, target, ranks, **options)
        try:
            self.student = World(student, target, ranks, **options)
        except BaseException:
            self.reference.close()
            raise

    def start(self, record: Record) -> None:
        """Both worlds up and stopped."""
        record.launcher, record.sandbox = self.launcher, self.reference.tier
        self.reference.begin(START_S)
        try:
            self.student.begin(START_S)
        except CallFailed as failed:
            raise _Failed(f"{self.spec.file} on real ranks: {failed}.") from None

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
        if student_first:
            theirs = self._students(arguments)
        ours = self.reference.call(arguments, START_S)
        self.patience_s = max(self.patience_s, 5 * ours.seconds)
        if not student_first:
            theirs = self._students(arguments)
        self.student.check_still()
        for rank, (value, wanted) in enumerate(zip(theirs.values, ours.values, strict=True)):
            if not inputs.matches((value,), (wanted,)):
                raise _Wrong(
                    f"{self.spec.function} on {self.ranks} real ranks, n = {self.spec.n}: rank "
                    f"{rank}'s result is not the reference's, so its time says nothing."
                )
        return theirs.seconds, ours.seconds

    def _students(self, arguments: list[tuple[Any, ...]]) -> Any:
        try:
            return self.student.call(arguments, self.patience_s)
        except CallFailed as failed:
            raise _Failed(
                f"{self.spec.function} on {self.ranks} real ranks, n = {self.spec.n}: {failed}."
            ) from None

    def around(self) -> float:
        """Seconds that order, arguments, result and reply take, without the call."""
        return self.reference.echo(self.arguments(), START_S)

    def close(self) -> None:
        self.student.close()
        self.reference.close()


def _take_turns(pair: _Pair, spec: MeasuredSpec, record: Record) -> None:
    """Warm up, then student and reference in pairs, and what surrounds a call before and after."""
    for number in range(WARM_UP):
        pair.turn(student_first=bool(number % 2))
    around = [pair.around() for _ in range(AROUND)]
    for number in range(spec.pairs):
        theirs, ours = pair.turn(student_first=number.bit_count() % 2 == 0)
        record.student_s.append(theirs)
        record.reference_s.append(ours)
    around += [pair.around() for _ in range(AROUND)]
    record.around_s = statistics.median(around)


def judge(spec: MeasuredSpec, record: Record) -> None:
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
        [max(seconds - around, 1e-9) for seconds in each]
        for each in (record.student_s, record.reference_s)
    )
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
    found = median_interval([s / r for s, r in zip(theirs, ours, strict=True)], CONFIDENCE)
    record.ratio, record.low, record.high = found.median, found.low, found.high
    record.confidence = found.confidence
    record.credit, doubt = credit(found, spec.bands)
    record.points = round(record.credit * spec.points, 4)
    record.status = "measured"
    record.message = (
        f"{found.median:.3g} times the reference's time ({found.low:.3g} to {found.high:.3g} with "
        f"{found.confidence:.0%} confidence, {len(ours)} pairs on {record.ranks} ranks of "
        f"{record.host}): {record.credit:.0%} credit.{' ' + doubt if doubt else ''}"
    )
