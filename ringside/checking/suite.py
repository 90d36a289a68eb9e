"""Tests that are written once: a table of cases, and what is asked of each case's run.

    suite = Suite("ring")

    @suite.test("bytes", "communication", AllReduce(4, n=11), AllReduce(3, n=100))
    def test_bytes_per_rank(case, run):
        assert_bytes(run, [2 * 3 * case.shard_nbytes] * case.p, case)

    test_given_communicator_is_used = suite.given_communicator("group", AllReduce(3))

Such a test is an ordinary one of pytest. For each of its cases it makes the call, compares the
values (``case.check``), and then asks what its body asks; so whatever a test is about, the values
of its own run must be right. The cases that stand at a test are public. A file of the instructor's
has those of the hidden run, for the same tests::

    hidden(tests.test_bytes_per_rank, AllReduce(5, n=13), AllReduce(16, n=64))

A case that fails costs the points of its group; a table without groups is one. The line of a
failure is the test with that case, `ringside check ring --test bytes_per_rank --case "p=4 n=11"`.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import inspect
import itertools
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ringside.checking.assertions import (
    EAGER_BYTES,
    IN_A_GROUP,
    IN_A_PART,
    LATENCY_SEEDS,
    Verdict,
    assert_inputs_kept,
    assert_ran,
    assert_requests_complete,
    assert_strangers_idle,
)
from ringside.checking.cases import Case, Formula, machine_of, parse, plain
from ringside.checking.order import assert_declared_at_once
from ringside.checking.points import shows
from ringside.checking.real_calls import WAIT_ONCE, NotRun
from ringside.checking.ring_bytes import sent_as_ring
from ringside.checking.shares import check_shares
from ringside.errors import RankError, TargetError
from ringside.network.storage import Stores
from ringside.session.session import Result
from ringside.trace import Kind

SEVERAL = "ringside.checking.inside:several"
TWICE = "ringside.checking.inside{}:twice"
Right = TypeVar("Right", bound=Callable[..., Any])
Drawn = Callable[[np.random.Generator], Sequence[Case]]
Ask = Callable[[Case, Any, dict[str, Any]], object]  # of a case, the fixture `ranks`, and others


@dataclass(frozen=True)
class Group:
    """Cases that earn a share of a test's points together.

    Attributes:
        name: as a sentence can end: "lengths that p does not divide".
        table: cases, and functions that draw some: ``lambda rng: [...]``.
        weight: its part of the points, beside those of the other groups.
    """

    name: str
    table: tuple[Case | Drawn, ...]
    weight: float = 1.0


def group(name: str, *table: Case | Drawn, weight: float = 1.0) -> Group:
    """Cases that earn a share of a test's points together."""
    return Group(name, table, weight)


Row = Case | Drawn | Group


@dataclass(frozen=True)
class Share:
    """The cases of a group, drawn."""

    name: str
    cases: tuple[Case, ...]
    weight: float = 1.0


@dataclass
class Test:
    """One test of a module: what is asked of each case of a table."""

    __test__ = False  # for pytest, which looks for classes named Test...

    module: str
    public: tuple[Row, ...]
    ask: Ask
    hidden: tuple[Row, ...] = ()
    name: str = ""  # without its test_; known when pytest has collected it

    @functools.cached_property
    def classes(self) -> list[type[Case]]:
        """The classes of its public cases."""
        rng = np.random.default_rng(0)
        return list(
            dict.fromkeys(type(case) for each in drawn(self.public, rng) for case in each.cases)
        )

    def line(self, case: Case) -> str:
        """What makes this test with this case alone."""
        if isinstance(case, Formula) and case.worked_out and not case.raises:
            case = case.with_(gives=rounded(case.right()))
        text = case.text
        if len(self.classes) > 1:
            text = f"{type(case).__name__} {text}"
        return f"ringside check {self.module} --test {self.name} --case {_quoted(text)}"

    def run(self, ranks: Any, fixtures: dict[str, Any]) -> None:
        """Ask for each case of the table that `ranks` has for it."""
        groups = ranks.table(self)
        check_shares(
            [(each.name, block) for each in groups for block in _blocks(each.cases)],
            lambda block: self._block(block, ranks, fixtures),
            {each.name: each.weight for each in groups},
            [each.name for each in groups if all(map(shows_nothing, each.cases))],
        )

    def _block(self, cases: Sequence[Case], ranks: Any, fixtures: dict[str, Any]) -> None:
        if isinstance(cases[0], Formula):
            self._formulas(cases, ranks, fixtures)  # type: ignore[arg-type]
            return
        (case,) = cases
        with self.about(case):
            self.ask(case, ranks, fixtures)

    def _formulas(self, cases: Sequence[Formula], ranks: Any, fixtures: dict[str, Any]) -> None:
        for case, (value, error, changed) in zip(
            cases, answers(ranks, cases, self.about), strict=True
        ):
            with self.about(case):
                value = plain(value)
                case.check_answer(value, error)
                if changed and not case.may_change:
                    raise Verdict(f"{case} changed an argument; all must stay as they were.")
                self.ask(case, ranks, {**fixtures, "run": value})

    @contextlib.contextmanager
    def about(self, case: Case) -> Iterator[None]:
        """A verdict in here has the line of this case."""
        try:
            yield
        except Verdict as verdict:
            verdict.reproduce = self.line(verdict.case if isinstance(verdict.case, Case) else case)
            raise


class RealTest(Test):
    """A test on real ranks: all calls are made in one go, since starting takes longest."""

    @property
    def launcher(self) -> str:
        """What starts its ranks."""
        return "gloo" if self.module.endswith("_torch") else "mpiexec"

    def run(self, ranks: Any, fixtures: dict[str, Any]) -> None:
        (real,) = fixtures.values()
        groups = ranks.table(self)
        cases = [case for each in groups for case in each.cases]
        cases.append(cases[0])  # once more: what is kept of a call shows in a later one
        calls = [(called_by(case), case.p, arguments(case)) for case in cases]
        try:
            with self.about(cases[0]):
                runs = real.call_all(calls)
        except NotRun as verdict:
            pairs = zip(cases, calls, strict=True)
            verdict.reproduce = self.line(next(case for case, c in pairs if c is verdict.call))
            raise
        for case, run in zip(cases, runs, strict=True):
            with self.about(case):
                try:
                    self.ask(case, ranks, {"run": run})
                except Verdict as verdict:
                    where = "on gloo" if self.launcher == "gloo" else "under mpiexec"
                    sentence = f"{where}: {verdict.sentence}"
                    if "Timed out waiting" in sentence:
                        sentence = f"{sentence.rstrip('.')}. {WAIT_ONCE}"
                    raise Verdict(sentence, detail=verdict.detail, on_real_ranks=True) from None


def shows_nothing(case: Case) -> bool:
    """Whether whoever returns what it was given is right: on one rank, or without elements."""
    if isinstance(case, Formula):
        return False
    return case.p == 1 or getattr(case, "n", None) == 0


def drawn(table: Sequence[Row], rng: np.random.Generator) -> list[Share]:
    """The groups of a table with their cases; what stands in none is a group."""
    shares: list[Share] = []
    for row in table:
        each = row if isinstance(row, Group) else Group("the others", (row,))
        cases = tuple(
            case
            for entry in each.table
            for case in ([entry] if isinstance(entry, Case) else entry(rng))
        )
        if shares and shares[-1].name == each.name:
            cases = shares.pop().cases + cases
        shares.append(Share(each.name, cases, each.weight))
    return shares


def hidden(test: Callable[..., None], *table: Row) -> None:
    """Give a test the cases of the hidden run."""
    test.suite_test.hidden = table  # type: ignore[attr-defined]


def oracle(kind: type[Formula]) -> Callable[[Right], Right]:
    """Give a class its ``right`` in `hidden/`: it is the solution, so `checks/` can't hold it.

        @oracle(LrAt)
        def lr_at(case):
            return ...

    The line of a hidden case that fails gives the value, too.
    """

    def give(right: Right) -> Right:
        kind.worked_out = staticmethod(right)
        return right

    return give


def test_of(item: Any) -> Test | None:
    """What is known here of a test that pytest has collected."""
    test: Test | None = getattr(getattr(item, "function", None), "suite_test", None)
    return test


test_of.__test__ = False  # type: ignore[attr-defined]  # for pytest, which looks for test...


def name_tests(items: Iterable[Any]) -> None:
    """Tell tests the names that pytest has for them: one can be given to a variable."""
    for item in items:
        if test := test_of(item):
            test.name = item.name.removeprefix("test_")


def asked(test: Test, text: str) -> list[Share]:
    """The table of the case that a line names.

    Raises:
        TargetError: the test has no such cases.
    """
    return [Share("the others", (parse(text, test.classes),))]


def _blocks(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Formulas of one class together, since they need no ranks of their own; others alone."""
    block: list[Case] = []
    for case in cases:
        if block and not (isinstance(case, Formula) and type(case) is type(block[0])):
            yield block
            block = []
        block.append(case)
    if block:
        yield block


def _quoted(text: str) -> str:
    return f'"{text}"' if not set(text) & set('"$`\\!') else shlex.quote(text)


def rounded(value: Any) -> Any:
    """Floats to twelve digits, in lists and tuples at any depth: values for a line."""
    if isinstance(value, list | tuple):
        return type(value)(map(rounded, value))
    return float(f"{value:.12g}") if isinstance(value, float) else value


# Runs of a case


def arguments(case: Case) -> list[tuple[Any, ...]]:
    """What each rank's call gets after ``comm``."""
    return [case.inputs(rank) for rank in range(case.p)]


def called_by(case: Case) -> str:
    """What the ranks call: the function itself, or what is supplied to call it."""
    return case.through or case.target


def called(
    ranks: Any, case: Case, target: str = "", args: Any = None, stores: Stores | None = None
) -> Result:
    """The case's call, or another one, with all that the case says of machine and members.

    Args:
        stores: what its ranks' stores hold; None: what the case's earlier calls leave there.

    Raises:
        Verdict: who should die has returned before, or isn't there; or an earlier call in which
            nobody dies has failed.
    """
    try:
        more: dict[str, Any] = {"failures": case.failures} if case.kill or case.flip else {}
        if case.stored:
            more["stores"] = filled(ranks, case) if stores is None else stores
        result: Result = ranks.call(
            target or called_by(case),
            case.world or case.p,
            arguments(case) if args is None else args,
            members=list(case.members) or None,
            machine=machine_of(case),
            seed=case.latencies or None,
            factors=case.factors,
            **more,
        )
    except TargetError as error:
        if not case.kill and not case.flip:
            raise
        raise case.fail(str(error)) from None
    return result


def filled(ranks: Any, case: Case) -> Stores:
    """What the case's earlier calls leave in the stores of its ranks."""
    stores = Stores()
    for before in case.earlier():
        run = called(ranks, before, stores=stores)
        if not before.kill:
            assert_ran(run, before)
    return stores


def answers(
    ranks: Any,
    cases: Sequence[Formula],
    about: Callable[[Case], AbstractContextManager[None]] = lambda case: contextlib.nullcontext(),
) -> list[Any]:
    """What one rank answers to these calls; on fresh ranks each call has a rank of its own.

    Args:
        about: gives the context in which a verdict on a case is raised.

    Returns:
        Per case ``(value, error, changed)``, as ``ringside.checking.inside.several`` gives them.
    """
    if getattr(ranks, "apart", False) and len(cases) > 1:
        return [answer for case in cases for answer in answers(ranks, [case], about)]

    def run(count: int) -> Result:
        calls = [case.arguments() for case in cases[:count]]
        made = [(called_by(cases[0]), calls)]
        result: Result = ranks.call(cases[0].caller or SEVERAL, 1, made)
        return result

    result, first = run(len(cases)), 0
    if isinstance(result.error, RankError):
        # The last call of the shortest list that raises, found in a few runs.
        first = bisect.bisect_left(
            range(1, len(cases)), True, key=lambda count: run(count).error is not None
        )
    with about(cases[first]):
        assert_ran(result, cases[first])
        found = result.values[0]
        if not isinstance(found, list) or len(found) != len(cases):
            raise cases[first].fail(f"not all of {len(cases)} calls were answered.")
    return found


def right_run(ranks: Any, case: Case, checked: bool = True) -> Result:
    """The case's run, whose values are right; not ``checked``: whatever they are.

    Raises:
        Verdict: they aren't, or it didn't end.
    """
    run = called(ranks, case)
    if checked:
        case.compare(run)
    else:
        assert_ran(run, case)
    if case.announced:
        assert_declared_at_once(run, case, case.declared_like)
    return run


def _assert_sent(run: Result, case: Case) -> None:
    """Not a program that computes nothing: on several ranks somebody sends something."""
    if not case.silent and not run.collectives and not any(run.sent_messages()):
        raise case.fail("no rank sent anything, so what this test looks at is not there.")


def right_twice(ranks: Any, case: Case, *, inputs_kept: bool = False) -> None:
    """Two calls in a row are both right, and the second leaves the first one's result alone.

    Args:
        inputs_kept: whether a call must leave what it was given, too.

    Raises:
        Verdict: they aren't.
    """
    second = case.with_(seed=case.seed + 1)
    first = right_run(ranks, case)
    if inputs_kept:
        assert_inputs_kept(first, case)
    target = TWICE.format("_torch" if case.module.endswith("_torch") else "")
    both = zip(arguments(case), arguments(second), strict=True)
    run = called(ranks, case, target, [(called_by(case), *pair) for pair in both])
    assert_ran(run, case)
    for number, (of, words) in enumerate(
        (
            (case, "the first of two calls in a row:"),
            (case, "what the first call returned, after a second one:"),
            (second, "the second of two calls in a row:"),
        )
    ):
        check_other_values(case, of, run, [value[number] for value in run.values], words)


def check_other_values(case: Case, of: Case, run: Result, values: list[Any], words: str) -> None:
    """Raise a verdict unless a run of one case has these values, which another one says are right.

    Args:
        of: the case whose values they must be.
        words: how the sentence begins, before what is wrong.
    """
    try:
        of.compare(dataclasses.replace(run, values=values))
    except Verdict as verdict:
        sentence = verdict.sentence.removeprefix(f"{of}: ")
        raise case.fail(f"{words} {sentence}", verdict.detail) from None


def contrasted(
    there: Callable[[], Result], here: Callable[[], Result], case: Case, words: str
) -> Result:
    """What ``there()`` gives, or a verdict that it is wrong there where ``here()`` is right.

    What is wrong in both is told as ``here()`` tells it: that is another test's matter.
    """
    try:
        return there()
    except Verdict as verdict:
        if verdict.sentence.startswith("not run"):  # what didn't end is not called again
            raise
        try:
            here()
        except Verdict as other:
            raise verdict if other.sentence.startswith("not run") else other from None
        sentence = verdict.sentence.removeprefix(f"{case}: ")
        raise case.fail(f"{words} {sentence}", verdict.detail) from None


class Suite:
    """The tests of one module: those that it writes, and those that every module is asked.

    The latter are methods that give a test of the requirement that they name.
    """

    def __init__(self, module: str) -> None:
        self.module = module

    def test(
        self, requirement: str, kind: str, *table: Row, weight: float = 1.0, checked: bool = True
    ) -> Callable[[Callable[..., object]], Callable[..., None]]:
        """Make a test of ``body(case, run, ...)``; further parameters are fixtures of pytest.

        Of a ``Formula`` the run is the value that came back. A body that takes no ``run`` makes its
        own, with ``right_run(ranks, case)``.

        Args:
            requirement: what it shows, by its name in ``requirements.toml``.
            kind: how it looks (``ringside.checking.points``).
            table: its public cases, or groups of them.
            weight: its part of the requirement's points, beside those of the other tests.
            checked: whether the values are compared before the body asks. Where they aren't, one
                mistake costs once; but ranks that send nothing show nothing of bytes or order.
        """

        def decorate(body: Callable[..., object]) -> Callable[..., None]:
            names = list(inspect.signature(body).parameters)

            def ask(case: Case, ranks: Any, fixtures: dict[str, Any]) -> None:
                known = {"case": case, "ranks": ranks, **fixtures}
                if "run" in names and "run" not in known:
                    known["run"] = right_run(ranks, case, checked)
                    if not checked and kind != "values":
                        _assert_sent(known["run"], case)
                try:
                    body(**{name: known[name] for name in names})
                except Verdict as verdict:
                    verdict.run = known.get("run")
                    raise

            made = _made(Test(self.module, table, ask), requirement, kind, weight, names)
            made.__module__ = body.__module__
            return made

        return decorate

    def given_communicator(
        self,
        requirement: str,
        *table: Row,
        weight: float = 1.0,
        kind: str = "communication",
        comm: str = "comm",
    ) -> Callable[..., None]:
        """On ranks of a larger world, in another order: right, and the other ranks have peace.

        Args:
            comm: what sentences call it; ``"the group"`` is one of torch.
        """
        words = IN_A_PART if comm == "comm" else IN_A_GROUP

        def ask(case: Case, ranks: Any, fixtures: dict[str, Any]) -> None:
            part, whole = case.in_part(), case
            there = words.format(members=list(part.members))
            run = contrasted(
                lambda: right_run(ranks, part), lambda: right_run(ranks, whole), case, there
            )
            if part.members:
                assert_strangers_idle(run, part.members, case, comm)
            most, here = (max(sent_as_ring(each)) for each in (run, right_run(ranks, whole)))
            if most > 1.1 * here + 64:
                raise case.fail(
                    f"{there} a rank sent {most:.0f} bytes; where {comm} is the whole world, none "
                    f"sent more than {here:.0f}."
                )

        return _made(Test(self.module, table, ask), requirement, kind, weight)

    def slow_messages(
        self,
        requirement: str,
        *table: Row,
        weight: float = 1.0,
        kind: str = "safety",
        kinds: Sequence[int] = (),
        sends: Sequence[str] = ("rendezvous",),
    ) -> Callable[..., None]:
        """Right whatever comes first, where sends wait; and everything that began is completed.

        What is right only where short sends are buffered is told so, as by ``waiting_sends``.

        Args:
            kinds: what must be completed, beside sends and receives; ``Kind.COLLECTIVE``.
            sends: machines to try; on "buffered" short sends don't wait, and ranks run ahead.
        """

        def ask(case: Case, ranks: Any, fixtures: dict[str, Any]) -> None:
            _where_sends_wait(case, ranks)
            for machine, seed in itertools.product(sends, LATENCY_SEEDS):
                slow = case.on_sends(machine).with_(latencies=seed)
                run = right_run(ranks, slow)
                assert_requests_complete(run, slow, kinds or _MESSAGES)

        return _made(Test(self.module, table, ask), requirement, kind, weight)

    def waiting_sends(
        self, requirement: str, *table: Row, weight: float = 1.0, kind: str = "safety"
    ) -> Callable[..., None]:
        """Right where every send waits for its receive, not only where short ones are buffered."""

        def ask(case: Case, ranks: Any, fixtures: dict[str, Any]) -> None:
            assert_requests_complete(_where_sends_wait(case, ranks), case)

        return _made(Test(self.module, table, ask), requirement, kind, weight)

    def second_call(
        self,
        requirement: str,
        *table: Row,
        weight: float = 1.0,
        kind: str = "values",
        inputs_kept: bool = False,
    ) -> Callable[..., None]:
        """Two calls in a row are both right, and the second leaves the first one's result alone.

        Args:
            inputs_kept: whether a call must leave what it was given, too.
        """

        def ask(case: Case, ranks: Any, fixtures: dict[str, Any]) -> None:
            right_twice(ranks, case, inputs_kept=inputs_kept)

        return _made(Test(self.module, table, ask), requirement, kind, weight)

    def inputs_kept(
        self, requirement: str, *table: Row, weight: float = 1.0, kind: str = "values"
    ) -> Callable[..., None]:
        """No rank changes what it was given."""

        def ask(case: Case, ranks: Any, fixtures: dict[str, Any]) -> None:
            assert_inputs_kept(right_run(ranks, case), case)

        return _made(Test(self.module, table, ask), requirement, kind, weight)

    def real_ranks(
        self, requirement: str, *table: Row, weight: float = 1.0, kind: str = "reality"
    ) -> Callable[..., None]:
        """The same values under a real ``mpiexec``, or on torch's gloo."""

        def ask(case: Case, ranks: Any, fixtures: dict[str, Any]) -> None:
            case.compare(fixtures["run"])

        test = RealTest(self.module, table, ask)
        fixture = "gloo" if test.launcher == "gloo" else "mpi"
        return _made(test, requirement, kind, weight, [fixture])


_MESSAGES = (Kind.ISEND, Kind.IRECV)


def _where_sends_wait(case: Case, ranks: Any) -> Result:
    """The run in which each send waits for its receive; values are right there."""
    return contrasted(
        lambda: right_run(ranks, case.on_sends("rendezvous")),
        lambda: right_run(ranks, case.on_sends("buffered")),
        case,
        f"works only while messages stay below {EAGER_BYTES} bytes, where a send does not wait for "
        "its receive. Above:",
    )


def _made(
    test: Test, requirement: str, kind: str, weight: float, names: Iterable[str] = ()
) -> Callable[..., None]:
    """A function that pytest takes for a test, with the fixtures that the body names."""
    more = [name for name in names if name not in ("case", "run", "ranks")]

    def run(**fixtures: Any) -> None:
        test.run(fixtures.pop("ranks"), fixtures)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, keyword) for name in ("ranks", *more)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.suite_test = test  # type: ignore[attr-defined]
    marked: Callable[..., None] = shows(requirement, kind, test.module, weight=weight)(run)
    return marked
