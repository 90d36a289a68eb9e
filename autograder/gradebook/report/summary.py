"""What an instructor wants to know of a graded class, as numbers: no layout, no colours.

scores       median, quartiles, a histogram; the same for each module
tests        which cost the most submissions points, and the sentences that students saw
clusters     students whose module fails for the same reason: one mistake, or one source
similar      submissions of one shape, and shapes of what is shipped
attention    late by our receipt, flagged, rejected, failed by the grader
by hand      texts, runs and requests for a regrade that wait for a person
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autograder.course.assignment import Assignment, ModuleSpec
from autograder.grade.outcome import Outcome
from autograder.grade.points import Account
from autograder.gradebook.report import class_predictions as predicted
from autograder.gradebook.report import feedback, similarity
from autograder.gradebook.report.by_hand import ByHand
from autograder.gradebook.report.class_predictions import Predicted
from ringside.checking.reasons import reason
from ringside.course.predictions.prompt import Prompt
from ringside.units import format_count

if TYPE_CHECKING:
    from autograder.course.late import Late

MAX_TESTS = 12
MAX_CLUSTERS = 6  # of a module
MAX_GROUPS = 40
BINS = 20


@dataclass(frozen=True)
class Told:
    """A sentence that students saw, and how many of them (but for the numbers in it)."""

    sentence: str
    students: int


@dataclass(frozen=True)
class HardTest:
    """A test, and how many of the submissions that have its module lose points in it."""

    module: str
    name: str
    points: float  # of 100
    failed: int
    of: int
    told: tuple[Told, ...]  # the most frequent first

    @property
    def share(self) -> float:
        return self.failed / self.of


@dataclass(frozen=True)
class SameMistake:
    """Students whose module fails for one reason."""

    module: str
    sentence: str  # as one of them saw it
    tests: tuple[str, ...]
    students: tuple[str, ...]


@dataclass(frozen=True)
class Spread:
    """How percentages of what is graded lie: quartiles, and how many in each of `BINS` equal bins.

    More than 100 % (extra credit) counts in the last bin.
    """

    number: int
    low: float
    first: float
    median: float
    third: float
    high: float
    mean: float
    bins: tuple[int, ...]


@dataclass(frozen=True)
class ModuleSpread:
    """One module in the class; `spread` is of those who began it."""

    module: ModuleSpec
    spread: Spread | None
    full: int
    none: int
    untouched: int
    hints: int  # taken, as the students' own files say; a team is one
    took_hints: int  # how many took one

    @property
    def hints_taken(self) -> str:
        """How many, by how many; empty where no hand-in tells of one."""
        return f"{self.hints} by {self.took_hints}" if self.hints else ""


@dataclass(frozen=True)
class Summary:
    """A class, graded."""

    plan: Assignment
    outcomes: tuple[Outcome, ...]
    graded: tuple[Outcome, ...]
    spread: Spread | None
    modules: tuple[ModuleSpread, ...]
    tests: tuple[HardTest, ...]
    clusters: Mapping[str, tuple[SameMistake, ...]]  # by module
    similar: tuple[similarity.Lookalikes, ...]
    late: Mapping[str, Late]
    sandboxes: tuple[str, ...]
    predicted: tuple[Predicted, ...] = ()
    by_hand: ByHand = field(default_factory=ByHand)
    excused: tuple[str, ...] = ()  # students; who handed in nothing is one of them, too

    def with_status(self, status: str) -> list[Outcome]:
        """The submissions that are `rejected`, or of which the grader failed."""
        return [outcome for outcome in self.outcomes if outcome.status == status]

    @property
    def scores(self) -> list[float]:
        """The scores of those who are graded, in points."""
        return [outcome.score(self.plan) for outcome in self.graded]

    @property
    def median_score(self) -> float:
        return statistics.median(self.scores)

    @property
    def mean_score(self) -> float:
        return statistics.fmean(self.scores)

    @property
    def of_which(self) -> str:
        """What the total is made of, and what of it is not in the scores yet."""
        plan = self.plan
        waits = sum(outcome.account(plan).by_hand > 0 for outcome in self.graded)
        sentence = f"{plan.max_score:g} points: modules {plan.module_points:g}"
        sentence += "".join(f", run {run.points:g}" for run in plan.runs)
        texts = "texts" if len(plan.paragraphs) > 1 else "text"
        sentence += f", {texts} {plan.text_points:g}" if plan.text_points else ""
        sentence += (
            f"; extra credit up to {plan.extra_points:g} on top" if plan.extra_points else ""
        )
        if waits:
            are = "are" if len(plan.paragraphs) > 1 else "is"
            sentence += (
                f". The {texts} of {waits} of {format_count(len(self.graded), 'submission')} {are} "
                "still to be graded by hand, and not in the scores"
            )
        return sentence + "."

    @property
    def flagged(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.flags]


def summarise(
    plan: Assignment,
    outcomes: Sequence[Outcome],
    similar: Sequence[similarity.Lookalikes] = (),
    late: Mapping[str, Late] | None = None,
    prompts: Sequence[Prompt] = (),
    by_hand: ByHand | None = None,
    excused: Collection[str] = (),
) -> Summary:
    """Everything about the class; what isn't in the outcomes is found elsewhere."""
    graded = [each for each in outcomes if each.status == "graded" and not each.excused]
    percents = [percent_so_far(outcome.account(plan)) for outcome in graded]
    present = {outcome.student for outcome in outcomes}
    return Summary(
        plan=plan,
        outcomes=tuple(outcomes),
        graded=tuple(graded),
        spread=spread(percents) if percents and plan.machine_points else None,
        modules=tuple(_module(module, graded) for module in plan.modules),
        tests=tuple(hard_tests(plan, graded)),
        clusters={module.name: tuple(clusters(module, graded)) for module in plan.modules},
        similar=tuple(similar)[:MAX_GROUPS],
        late={name: each for name, each in (late or {}).items() if name in present},
        sandboxes=tuple(sorted({outcome.sandbox for outcome in graded if outcome.sandbox})),
        predicted=tuple(predicted.of_class(prompts, [each.guesses for each in outcomes])),
        by_hand=by_hand or ByHand(),
        excused=tuple(sorted(excused)),
    )


def percent_so_far(account: Account) -> float:
    """The score in percent of what is graded: a text that waits for a person costs nobody any."""
    graded = account.max_score - account.by_hand
    return 100 * account.score / graded if graded else 0.0


def spread(percents: Sequence[float]) -> Spread:
    """Quartiles and bins of at least one percentage."""
    bins = [0] * BINS
    for percent in percents:
        bins[min(BINS - 1, int(percent * BINS / 100))] += 1
    ordered = sorted(percents)
    if len(ordered) > 1:
        first, median, third = statistics.quantiles(ordered, n=4, method="inclusive")
    else:
        first = median = third = ordered[0]
    return Spread(
        number=len(ordered),
        low=ordered[0],
        first=first,
        median=median,
        third=third,
        high=ordered[-1],
        mean=statistics.fmean(ordered),
        bins=tuple(bins),
    )


def _module(module: ModuleSpec, graded: Sequence[Outcome]) -> ModuleSpread:
    begun = [outcome for outcome in graded if _begun(module.name, outcome)]
    percents = [outcome.percent(module.name) for outcome in begun]
    hints = {each.author: each.hints[module.name] for each in graded if module.name in each.hints}
    return ModuleSpread(
        module=module,
        spread=spread(percents) if percents else None,
        full=sum(percent >= 100 - 1e-9 for percent in percents),
        none=sum(percent <= 0 for percent in percents),
        untouched=len(graded) - len(begun),
        hints=sum(hints.values()),
        took_hints=len(hints),
    )


def _begun(module: str, outcome: Outcome) -> bool:
    return module in outcome.modules and module not in outcome.untouched


def hard_tests(
    plan: Assignment, graded: Sequence[Outcome], most: int = MAX_TESTS
) -> list[HardTest]:
    """The tests that cost the most submissions points, untouched modules left out."""
    tests = []
    for module in plan.modules:
        rows: dict[str, list[feedback.TestRow]] = {}
        for outcome in graded:
            if _begun(module.name, outcome):
                for row in feedback.test_rows(outcome, module):
                    rows.setdefault(row.name, []).append(row)
        for name, results in rows.items():
            failed = [row for row in results if row.state != "full"]
            if failed:
                sentences = tuple(_told(failed))
                test = HardTest(
                    module.name, name, results[0].points, len(failed), len(results), sentences
                )
                tests.append(test)
    return sorted(tests, key=lambda test: (-test.share, -test.failed, test.module, test.name))[
        :most
    ]


def _told(failed: Sequence[feedback.TestRow], most: int = 3) -> list[Told]:
    """The sentences of a test; those that differ in their case and numbers alone are one."""
    by_reason: dict[str, collections.Counter[str]] = {}
    for row in failed:
        if row.message:
            tally = by_reason.setdefault(reason(row.message), collections.Counter())
            tally[row.message] += 1
    sentences = [Told(tally.most_common(1)[0][0], tally.total()) for tally in by_reason.values()]
    return sorted(sentences, key=lambda each: (-each.students, each.sentence))[:most]


def clusters(
    module: ModuleSpec, graded: Sequence[Outcome], most: int = MAX_CLUSTERS
) -> list[SameMistake]:
    """Reasons for which a module fails, and whose: at least two students each, the most first."""
    by_reason: dict[str, list[tuple[str, feedback.TestRow]]] = {}
    authors = {outcome.student: outcome.author for outcome in graded}
    for outcome in graded:
        if not _begun(module.name, outcome):
            continue
        for failure in feedback.failures(feedback.test_rows(outcome, module)):
            for row in (failure.test, *failure.others):
                if row.message:
                    by_reason.setdefault(reason(row.message), []).append((outcome.student, row))
    by_students: dict[tuple[str, ...], list[tuple[str, feedback.TestRow]]] = {}
    for cases in by_reason.values():  # what the same students see is one mistake
        students = tuple(sorted({student for student, _ in cases}))
        by_students.setdefault(students, []).extend(cases)
    listed = []
    for students, cases in by_students.items():
        if len({authors[student] for student in students}) > 1:  # a team is one
            tests = collections.Counter(row.name for _, row in cases)
            sentence = collections.Counter(row.message for _, row in cases).most_common(1)[0][0]
            names = tuple(name for name, _ in tests.most_common())
            listed.append(SameMistake(module.name, sentence, names, students))
    listed.sort(key=lambda cluster: (-len(cluster.students), cluster.sentence))
    return listed[:most]
