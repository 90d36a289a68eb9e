"""A module's result: the suite writes it, the store keeps it, and all pages read it.

    suite  ->  record.json  ->  store  ->  waivers  ->  Outcome  ->  report, feedback, exports

It is the same type all the way. Its JSON is that of its fields; the score isn't among them, since
the tests give it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from ringside.checking import requirements
from ringside.checking.requirements import ALL_POINTS, Requirements

__all__ = ["InvalidResult", "ModuleResult", "TestResult"]


class InvalidResult(ValueError):
    """This is no result of a module: a field is missing, or a number is no score."""


@dataclass
class TestResult:
    """One test's result; ``message`` holds author's sentences only."""

    __test__ = False  # for pytest, which looks for classes named Test...

    name: str
    kind: str
    points: float
    earned: float = 0.0
    message: str = ""
    detail: str = ""
    reproduce: str = ""
    seconds: float = 0.0
    world_sizes: list[int] = field(default_factory=list)  # of its runs
    waived: str = ""  # why the course gave its points to all
    requirement: str = ""  # which it shows

    @property
    def is_full(self) -> bool:
        """Whether it earned all its points."""
        return self.earned >= self.points


@dataclass
class ModuleResult:
    """What the suite says about one module.

    Where `error` is set, the fault is ours and no test counts. Flags are for the instructor, and
    change no score.
    """

    module: str
    tests: list[TestResult] = field(default_factory=list)
    requirements: Requirements | None = None
    counts: list[dict[str, Any]] = field(default_factory=list)
    timeline_svg: str | None = None
    timeline_of: str = ""  # the failed test of order or time whose run it shows
    sandbox: str = ""
    flags: list[str] = field(default_factory=list)
    ended_by_clock: bool = False  # on a machine that was busy: it tells nothing of the module
    error: str | None = None

    @classmethod
    def missing(cls, module: str) -> ModuleResult:
        """The result of a module that was not handed in."""
        sentence = (
            f"{module}.py is not there: write the cell that begins with %%module {module}.py."
        )
        return cls(module, [TestResult("module_is_there", "values", ALL_POINTS, 0.0, sentence)])

    @classmethod
    def from_json(cls, content: object) -> ModuleResult:
        """The result that was written as JSON; fields that an earlier kit wrote are left out.

        Raises:
            InvalidResult: it is none.
        """
        try:
            result = cls(**_known(cls, content))
            result.tests = [TestResult(**_known(TestResult, test)) for test in result.tests]
            if result.requirements is not None:
                result.requirements = Requirements.from_json(result.requirements)  # type: ignore[arg-type]
        except (KeyError, TypeError) as error:
            raise InvalidResult(f"{error}: {str(content)[:200]}") from None
        result.check()
        return result

    def check(self) -> None:
        """Nothing, where its numbers are scores or an error says why not.

        Raises:
            InvalidResult: they aren't.
        """
        if self.error:
            return
        if not self.tests:
            raise InvalidResult(f"{self.module} has no tests")
        for test in self.tests:
            if not (
                isinstance(test.name, str)
                and _is_number(test.points, ALL_POINTS)
                and _is_number(test.earned, test.points)
            ):
                raise InvalidResult(f"{self.module}: {str(test)[:200]}")

    @property
    def score(self) -> float:
        """What its tests earned, of 100."""
        return min(requirements.score(self.requirements, self.tests), ALL_POINTS)


def _known(kind: type[ModuleResult | TestResult], content: object) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise InvalidResult(f"not an object: {str(content)[:200]}")
    names = {item.name for item in fields(kind)}
    return {name: value for name, value in content.items() if name in names}


def _is_number(value: object, most: float) -> bool:
    real = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return real and -1e-9 <= value <= most + 1e-9  # type: ignore[operator]
