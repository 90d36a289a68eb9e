"""Cases: one class for each function that students write, one object for each call of it.

    @dataclass(frozen=True)
    class AllReduce(Case):
        target = "ring:all_reduce"
        n: int = 11
        dtype: str = "float64"

        def inputs(self, rank):
            return (self.rng(rank).standard_normal(self.n).astype(self.dtype),)

        def right(self):
            return [sum(self.inputs(rank)[0] for rank in range(self.p))] * self.p

    AllReduce(p=5, n=7, seed=3).text    "p=5 n=7 seed=3"

A case knows its inputs, what must come out, and how the two are compared; it says itself in a line
(`ringside check ring --case "p=5 n=7 seed=3"`), which makes the same case again. Everything in it
comes from its fields: inputs are drawn from ``seed``, which the grader draws from the course's
secret for a hidden run, and which is 0 for a public one.

What can be said of any call is in the fields of ``Case`` itself: which ranks of a larger world
``comm`` has, the machine, permuted latencies, whether the passes are announced, and who dies.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ringside.arrays import Array
from ringside.checking.assertions import (
    Verdict,
    assert_array,
    assert_ran,
    buffered,
    long_wire,
    magnitude,
    one_line,
    rendezvous,
    short_wire,
    total,
)
from ringside.errors import MachineError, TargetError
from ringside.factors import Factors
from ringside.failures import Failures, Flip, Kill
from ringside.timing.machine import Machine
from ringside.units import format_count

if TYPE_CHECKING:
    from ringside.session.session import Result

Self = TypeVar("Self", bound="Case")

CHECKS = "checks"  # the folder of an assignment's cases and tests

# Machines of the tests' own, by the names that cases have for them.
MACHINES: Mapping[str, Callable[[], Machine]] = {
    "buffered": buffered,
    "rendezvous": rendezvous,
    "long wire": long_wire,
    "short wire": short_wire,
}

_FACTORS, _MEMBERS = 1 << 20, 1 << 21  # what is drawn from a seed beside the ranks' inputs
_TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2, "complex64": 1e-5}


@dataclass(frozen=True)
class Case:
    """One call of a student's function on p ranks.

    Attributes:
        target: what is called, such as ``"ring:all_reduce"``.
        through: a supplied function that calls it inside each rank, such as
            ``"checks/inside.py:averaged"``, where more is to be seen than what it returns. It gets
            the same arguments.
        what: what sentences call a rank's value: "rank 3's result".
        unsaid: fields that no line gives.
        machines: what ``machine`` may name beside those of ``ringside run``.
        declared_like: how the names of passes begin whose work is declared, where they are
            announced.
        exact: whether ``check`` is asked by ``check_exactly``, in a test of values. Elsewhere a
            class may allow more, so that low precision costs its points once.
        passes_of_anyone: any rank may compute an announced pass, which has the same factors on
            each.
        stored: its ranks have a ``ringside.Store``, which begins empty, or as the calls of
            ``earlier`` leave it.
        p: ranks of ``comm``.
        seed: what inputs are drawn from.
        members: ranks of a world of ``world`` ranks that make up ``comm``; (): the whole world.
        machine: as ``ringside run --machine`` takes it, or one of ``MACHINES``, with numbers behind
            it, too: "rendezvous,ranks_per_node=2".
        latencies: seed of permuted latencies; 0: as the machine has them.
        announced: the passes of supplied layers are announced, and have factors
            (``ringside.factors``).
        kill: which ranks of ``comm`` die, and when, by comma: "2@op17,0@1.2ms".
        lost: what they have sent and what hasn't arrived never does.
        flip: bits of messages that are flipped, by comma: "2#5:bit62".
        collectives: who gets the result of a collective that breaks (``ringside.Failures``).
    """

    target: ClassVar[str] = ""
    through: ClassVar[str] = ""
    what: ClassVar[str] = "result"
    declared_like: ClassVar[str] = ""
    exact: ClassVar[bool] = False
    passes_of_anyone: ClassVar[bool] = False
    stored: ClassVar[bool] = False
    unsaid: ClassVar[tuple[str, ...]] = ()
    machines: ClassVar[Mapping[str, Machine]] = {}

    p: int = 2
    _: dataclasses.KW_ONLY
    seed: int = 0
    members: tuple[int, ...] = ()
    world: int = 0
    machine: str = "textbook"
    latencies: int = 0
    announced: bool = False
    kill: str = ""
    lost: bool = False
    flip: str = ""
    collectives: str = "split"

    # What a class of cases says

    def inputs(self, rank: int) -> tuple[Any, ...]:
        """What the rank's call gets after ``comm``."""
        raise NotImplementedError

    def right(self) -> Sequence[Any]:
        """What each rank must return, by a serial computation."""
        raise NotImplementedError

    def earlier(self) -> Sequence[Case]:
        """The calls before it, each on ranks of its own, which fill its store."""
        return ()

    def wrong(self) -> Mapping[str, Any]:
        """What usual mistakes give in the place of ``right``, by the sentence that names each.

        A sentence says what was computed and what is asked for: "This is the sum of the ranks'
        gradients; the mean is asked for."
        """
        return {}

    def compare(self, run: Result) -> None:
        """``check``, whose verdict names the usual mistake that gives these values, if one does."""
        try:
            self.check(run)
        except Verdict as verdict:
            for sentence, values in self.wrong().items():
                if self._would_pass(run, values):
                    verdict.sentence += f" {sentence}"
                    break
            raise

    def check_exactly(self, run: Result) -> None:
        """``compare``, with all that a test of values asks."""
        self._but("exact", True).compare(run)

    def _would_pass(self, run: Result, values: Any) -> bool:
        """Whether a run would be right if these values were."""
        mistaken = self._but("right", lambda: values)
        try:
            mistaken.check(run)
        except Verdict:
            return False
        return True

    @property
    def silent(self) -> bool:
        """Whether a right program may send nothing."""
        return self.p == 1

    def _but(self: Self, name: str, value: Any) -> Self:
        """The same with another attribute, which is no field."""
        other = copy.copy(self)
        object.__setattr__(other, name, value)
        return other

    def check(self, run: Result) -> None:
        """Raise a verdict unless every rank that is alive returned what it must."""
        assert_ran(run, self)
        pairs = list(zip(run.values, self.right(), strict=True))
        for rank in self.survivors(run):
            assert_like(*pairs[rank], self, f"rank {rank}'s {self.what}")

    @property
    def told(self) -> str:
        """Its own fields, as a sentence says them."""
        return ", ".join(_said(name, value) for name, value in self._own())

    # What follows from it

    def rng(self, rank: int | None = None) -> np.random.Generator:
        """Random numbers of the case: a rank's own, or those that all ranks share."""
        return np.random.default_rng([self.seed, 0 if rank is None else rank + 1])

    def with_(self: Self, **changes: Any) -> Self:
        """The same with other values of some fields."""
        return dataclasses.replace(self, **changes)

    @property
    def function(self) -> str:
        """The name of what is called, without its module."""
        return self.target.partition(":")[2]

    @property
    def module(self) -> str:
        """The module that it is of."""
        return self.target.partition(":")[0]

    @functools.cached_property
    def factors(self) -> Factors | None:
        """Those of its passes, where they are announced; they number a rank's passes."""
        if not self.announced:
            return None
        rng = np.random.default_rng([self.seed, _FACTORS])
        factors = Factors.drawn(rng, alike=self.passes_of_anyone)
        return factors.among(self.members) if self.members else factors

    @property
    def failures(self) -> Failures | None:
        """What goes wrong in its run; None: nothing.

        Raises:
            TargetError: ``kill`` or ``flip`` names nobody, or is no list.
        """
        if not self.kill and not self.flip:
            return None
        kills = [Kill.parse(word) for word in self.kill.split(",") if word]
        if any(kill.node < 0 and kill.rank >= self.p for kill in kills):
            raise TargetError(f"kill {self.kill}: there is no such rank among {self.p}.")
        flips = [Flip.parse(word) for word in self.flip.split(",") if word]
        if any(flip.rank >= self.p for flip in flips):
            raise TargetError(f"flip {self.flip}: there is no such rank among {self.p}.")
        if self.members:
            kills = [
                dataclasses.replace(kill, rank=self.members[kill.rank]) if kill.node < 0 else kill
                for kill in kills
            ]
            flips = [dataclasses.replace(flip, rank=self.members[flip.rank]) for flip in flips]
        in_flight = "lost" if self.lost else "delivered"
        return Failures(
            *kills, *flips, in_flight=in_flight, collectives=self.collectives, seed=self.seed
        )

    def survivors(self, run: Result) -> list[int]:
        """The ranks of ``comm`` that are alive at the end of a run."""
        dead = {death.rank for death in getattr(run, "deaths", ())}  # real ranks have none
        return [rank for rank, of in enumerate(self.members or range(self.p)) if of not in dead]

    @contextlib.contextmanager
    def passes_of(self, rank: int) -> Iterator[None]:
        """In here supplied layers have the factors of a rank: for ``right``."""
        factors = self.factors
        with contextlib.nullcontext() if factors is None else factors.of_rank(rank):
            yield

    def on_sends(self: Self, machine: str) -> Self:
        """The same on "rendezvous" or "buffered", with the numbers that its machine has."""
        numbers = [word for word in self.machine.split(",") if "=" in word]
        return self.with_(machine=",".join([machine, *numbers]))

    def in_part(self: Self) -> Self:
        """The same on ranks of a larger world, in an order of their own; rank 0 isn't of them."""
        rng = np.random.default_rng([self.seed, _MEMBERS])
        members = [int(rank) + 1 for rank in rng.permutation(self.p + 1)[: self.p]]
        if members == sorted(members):
            members.reverse()
        return self.with_(members=tuple(members), world=self.p + 2)

    @classmethod
    def names(cls) -> list[str]:
        """The fields that a line may give."""
        return [item.name for item in dataclasses.fields(cls) if item.name not in cls.unsaid]

    @property
    def text(self) -> str:
        """The case as ``--case`` reads it: its fields that aren't as they usually are."""
        fields = [item for item in dataclasses.fields(self) if item.name not in self.unsaid]
        fields.sort(key=lambda item: item.name == "gives")  # last
        said = [
            item
            for item in fields
            if item.name == "p" or not _usual(item, getattr(self, item.name))
        ]
        words = said or fields[-1:]  # an empty line names no case
        return " ".join(f"{item.name}={_spelled(getattr(self, item.name))}" for item in words)

    def __str__(self) -> str:
        announced = "passes announced" if self.announced else ""
        lost = ", what is on its way lost" if self.lost else ""
        killed = f"kill {self.kill}{lost}" if self.kill else ""
        flipped = f"flip {self.flip}" if self.flip else ""
        told = ", ".join(filter(None, [self.told, announced, killed, flipped]))
        ranks = f"{self.function} on {format_count(self.p, 'rank')}"
        return f"{ranks}, {told}" if told else ranks

    def fail(self, sentence: str, detail: str = "") -> Verdict:
        """A verdict on this case; who runs the test adds the line."""
        return Verdict(f"{self}: {sentence}", detail=detail)

    def _own(self) -> list[tuple[str, Any]]:
        base = {item.name for item in dataclasses.fields(Case)}
        return [
            (item.name, getattr(self, item.name))
            for item in dataclasses.fields(self)
            if item.name not in base
            and (item.name in ("n", "dtype") or not _usual(item, getattr(self, item.name)))
        ]


@dataclass(frozen=True)
class Vectors(Case):
    """A call that gives each rank a vector of its own, and to each rank a sum of some of them.

    Short messages are buffered, as real libraries do it, unless a case says another machine.
    """

    n: int = 11
    dtype: str = "float64"
    machine: str = dataclasses.field(default="buffered", kw_only=True)

    def vector(self, rank: int) -> Array:
        """A rank's vector: integers whose sum fits, or floats of a scale of the rank's own."""
        rng = self.rng(rank)
        if np.dtype(self.dtype).kind == "i":
            limit = int(np.iinfo(self.dtype).max) // (2 * max(1, self.p))  # twice the sum fits
            return rng.integers(-limit, limit, size=self.n, dtype=self.dtype)
        return (rng.standard_normal(self.n) * (1 + int(rng.integers(0, 9)))).astype(self.dtype)

    def inputs(self, rank: int) -> tuple[Any, ...]:
        return (self.vector(rank),)

    def summands(self, rank: int) -> Sequence[Array]:
        """What the rank's result is the sum of."""
        return [self.vector(each) for each in range(self.p)]

    def right(self) -> Sequence[Any]:
        return [total(self.summands(rank)) for rank in range(self.p)]

    def check(self, run: Result) -> None:
        assert_ran(run, self)
        for rank, value in enumerate(run.values):
            parts = self.summands(rank)
            what = f"rank {rank}'s {self.what}"
            assert_array(value, total(parts), magnitude(parts), self, what, parts)

    @property
    def nbytes(self) -> int:
        """Bytes of a whole vector."""
        return self.n * np.dtype(self.dtype).itemsize

    @property
    def shard_nbytes(self) -> int:
        """Bytes of the longest shard: ceil(n / p) elements."""
        return -(-self.n // self.p) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Formula(Case):
    """A call of a function that needs no ranks: its own fields are the arguments, in order.

    ``right`` says the value that must come out. Where working it out is the exercise, the class has
    no ``right`` of its own: each public case carries its value, ``gives``, as a worked example, and
    an ``oracle`` in ``hidden/`` works out those of the hidden cases. A case without a value is
    called and not compared.

    ``raises`` names the exception that must come in a value's place. An argument must stay as it
    was unless it ``may_change``: where one test asks that for all. ``caller`` makes several calls,
    and answers as ``ringside.checking.inside.several`` does: for arguments or results that aren't
    plain values.
    """

    caller: ClassVar[str] = ""
    worked_out: ClassVar[Callable[[Any], Any] | None] = None  # an ``oracle``, in the hidden run

    p: int = dataclasses.field(default=1, kw_only=True)
    gives: Any = dataclasses.field(default=None, kw_only=True)
    raises: str = dataclasses.field(default="", kw_only=True)
    may_change: bool = dataclasses.field(default=False, kw_only=True)

    unsaid: ClassVar[tuple[str, ...]] = (
        "p", "seed", "members", "world", "machine", "latencies", "announced",
        "kill", "lost", "flip", "collectives",
    )  # fmt: skip

    def arguments(self) -> tuple[Any, ...]:
        """What the function gets."""
        base = {item.name for item in dataclasses.fields(Formula)}
        names = [item.name for item in dataclasses.fields(self) if item.name not in base]
        return tuple(getattr(self, name) for name in names)

    def right(self) -> Any:
        worked_out = type(self).worked_out
        return self.gives if self.gives is not None or not worked_out else worked_out(self)

    def check_answer(self, value: Any, error: str) -> None:
        """Raise a verdict unless this is what must come out.

        Args:
            error: the name of the exception that came in the place of a value; empty: none.
        """
        if error != self.raises:
            raise Verdict(
                f"{self} raised {error or 'nothing'}; it must raise {self.raises}."
                if self.raises
                else f"{self} raised {error}."
            )
        if not self.raises:
            self.check_value(value)

    def check_value(self, value: Any) -> None:
        """Raise a verdict unless it is the right value."""
        right = self.right()
        if right is not None and not alike(value, right):
            named = (says for says, other in self.wrong().items() if alike(value, other))
            says = next((f" {says}" for says in named), "")
            raise Verdict(f"{self} is {brief(value)}; it must be {brief(right)}.{says}")

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(brief, self.arguments()))})"


def _usual(item: dataclasses.Field[Any], value: Any) -> bool:
    if item.default_factory is not dataclasses.MISSING:
        return bool(value == item.default_factory())
    return (
        item.default is not dataclasses.MISSING
        and type(value) is type(item.default)
        and bool(value == item.default)
    )


def _said(name: str, value: Any) -> str:
    words = name.replace("_", " ")
    if name == "dtype":
        return str(value)
    if value is True:
        return words
    sign = " = " if len(name) == 1 else " "
    return f"{words}{sign}{one_line(str(value), 60)}"


def _spelled(value: Any) -> str:
    """A value as it stands in a line: without blanks, or in quotes."""
    if isinstance(value, str):
        bare = value and all(char.isalnum() or char in "_.,:+-=/@#" for char in value)
        return value if bare and _literal(value) == value else f"'{value}'"
    return repr(value).replace(", ", ",").replace(": ", ":")


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(_INF.sub("1e999", text))
    except (ValueError, SyntaxError):
        return math.nan if text == "nan" else text


_INF = re.compile(r"\binf\b")  # that Python has no literal for


def parse(text: str, classes: Sequence[type[Case]]) -> Case:
    """The case that a line names, of the first of these classes that has all its fields.

    Args:
        text: such as ``"p=5 n=11 dtype=float32"``; a function's name before it chooses among
            classes.

    Raises:
        TargetError: no class has these fields, or a word is no ``NAME=VALUE``.
    """
    words = _words(text)
    asked = words.pop(0) if words and "=" not in words[0] else ""
    values: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign:
            raise TargetError(f"--case: {word!r} is not of the form NAME=VALUE, such as p=5.")
        values[name] = value[1:-1] if value[:1] == value[-1:] == "'" else _literal(value)
    for kind in classes:
        names = (kind.__name__, kind.target.partition(":")[2], "")
        if asked in names and values.keys() <= set(kind.names()):
            return _checked(kind, values)
    known = "; ".join(f"{kind.__name__}: {' '.join(kind.names())}" for kind in classes)
    raise TargetError(f"--case {text!r} fits none of the cases here. Their fields: {known}.")


def _checked(kind: type[Case], values: Mapping[str, Any]) -> Case:
    for item in dataclasses.fields(kind):
        wanted, value = type(item.default), values.get(item.name, item.default)
        if wanted in (int, str, bool) and type(value) is not wanted:
            raise TargetError(f"--case: {item.name}={value!r} must be of type {wanted.__name__}.")
    if not 1 <= values.get("p", 1) <= 1024:
        raise TargetError(f"--case: p={values['p']} must be between 1 and 1024.")
    try:
        return kind(**values)
    except TypeError as error:  # a field that has no usual value
        raise TargetError(f"--case: {error}.") from None


_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")


def _words(text: str) -> list[str]:
    """The words of a case: a blank in quotes or brackets ends none."""
    words, depth = list[str](), 0
    for word in _WORD.findall(text):
        if depth:
            words[-1] += word
        else:
            words.append(word)
        depth += sum(map(word.count, "([{")) - sum(map(word.count, ")]}"))
    return words


def machine_of(case: Case) -> Machine:
    """The machine that a case names.

    Raises:
        MachineError: there is none of that name.
    """
    if case.machine in case.machines:
        return case.machines[case.machine]
    first, _, numbers = case.machine.partition(",")
    if first not in MACHINES:
        try:
            return Machine.load(case.machine)
        except MachineError as error:
            own = ", ".join(repr(name) for name in (*MACHINES, *case.machines))
            raise MachineError(f"{error} A case may also name {own}.") from None
    machine = MACHINES[first]()
    if not numbers:
        return machine
    return Machine.load(f"{machine.spelled()},{numbers}").with_(name=case.machine)


# Comparing


def assert_like(
    value: Any, right: Any, case: Case, what: str, tolerance: float | None = None
) -> None:
    """What came back is what must, in lists, tuples and dicts at any depth.

    Arrays have the same dtype and shape, and floats agree to 1e-12 of the largest element (1e-5 in
    float32). ``right`` may have a float64 array where a float32 one must come: then it is rounded
    by the author, with ``cast``.

    Args:
        what: what the sentence calls it, such as "rank 3's gradient".
        tolerance: relative to the largest element; 0: to the bit.
    """
    if isinstance(right, np.ndarray | np.generic):
        right = np.asarray(right)
        if isinstance(value, int | float | complex) and not right.ndim:
            value = np.asarray(value, right.dtype)
        assert_array(value, right, _scale(right, case, tolerance), case, what)
    elif isinstance(right, dict):
        if not isinstance(value, dict) or value.keys() != right.keys():
            raise case.fail(f"{what} is {brief(value)}; it must have {', '.join(map(str, right))}.")
        for name, item in right.items():
            assert_like(value[name], item, case, f"{what}, {name}", tolerance)
    elif isinstance(right, list | tuple):
        if not isinstance(value, list | tuple) or len(value) != len(right):
            raise case.fail(f"{what} is {brief(value)}; it must be {brief(right)}.")
        for number, (one, other) in enumerate(zip(value, right, strict=True)):
            assert_like(one, other, case, f"{what} {number}", tolerance)
    elif not alike(value, right):
        raise case.fail(f"{what} is {brief(value)}; it must be {brief(right)}.")


def _scale(right: Array, case: Case, tolerance: float | None) -> Array | None:
    if right.dtype.kind not in "fc":
        return None
    if tolerance is None:
        tolerance = _TOLERANCES.get(str(right.dtype), 1e-12)
    # `assert_array` allows 2 (p + 1) eps of the scale.
    eps = np.finfo(right.dtype).eps if right.dtype.kind == "f" else np.finfo("float32").eps
    finite = np.abs(right[np.isfinite(right)]) if right.size else np.zeros(0)
    largest = float(np.max(finite, initial=0.0))
    allowed = tolerance * (1 + largest if tolerance else 0.0)
    return np.full(right.shape, allowed / (2 * (case.p + 1) * float(eps)))


def alike(value: Any, right: Any) -> bool:
    """Whether plain values are equal, floats to 1e-9, in lists and tuples at any depth."""
    if (isinstance(value, np.ndarray) and not value.ndim) or isinstance(value, np.generic):
        value = value.item()
    if isinstance(right, np.generic):
        right = right.item()
    if isinstance(right, list | tuple) or isinstance(value, list | tuple):
        return (
            isinstance(value, list | tuple)
            and isinstance(right, list | tuple)
            and len(value) == len(right)
            and all(map(alike, value, right))
        )
    if isinstance(right, np.ndarray) or isinstance(value, np.ndarray):
        return (
            isinstance(value, np.ndarray)
            and np.shape(value) == np.shape(right)
            and bool(np.allclose(value, right, rtol=1e-9, atol=0, equal_nan=True))
        )
    if isinstance(right, bool) or not isinstance(right, int | float):
        return type(value) is type(right) and bool(value == right)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(right, int):
        return value == right
    return math.isclose(value, right, rel_tol=1e-9) or (math.isnan(value) and math.isnan(right))


def cast(value: Any, dtype: str) -> Any:
    """Arrays of floats in this dtype, in lists, tuples and dicts at any depth."""
    if isinstance(value, dict):
        return {name: cast(item, dtype) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [cast(item, dtype) for item in value]
    is_float = isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "f"
    return np.asarray(value).astype(dtype) if is_float else value


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, in lists and tuples at any depth."""
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    if isinstance(value, np.ndarray) and not value.ndim and value.dtype.kind in "iufb":
        return value.item()
    return value


def brief(value: Any) -> str:
    """A value for a sentence: short."""
    if isinstance(value, np.ndarray):
        value = value.item() if not value.ndim else value
    if isinstance(value, np.ndarray):
        return (
            f"an array of shape {value.shape}"
            if value.size > 12
            else one_line(str(value.tolist()), 120)
        )
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(brief, value))
        inner += "," if isinstance(value, tuple) and len(value) == 1 else ""
        text = f"[{inner}]" if isinstance(value, list) else f"({inner})"
        return one_line(text, 160)
    return one_line(repr(value), 160)
