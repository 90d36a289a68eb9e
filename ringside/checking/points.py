"""The mark of a test: which requirement it shows, and of which kind it is.

    @shows("bytes", "communication", "ring")
    def test_bytes_per_rank(ranks, rng):
        ...

A test of a ``Suite`` has it already. Its points come from ``requirements.toml`` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from ringside.checking import requirements
from ringside.checking.requirements import Requirements, RequirementsError

MARK = "shows(requirement, kind, module, weight): the requirement that a test shows"
_WORTH = pytest.StashKey["Worth"]()


@dataclass(frozen=True)
class Worth:
    """What is known of a test: its mark, and its points of 100 for a module."""

    requirement: str
    kind: str
    module: str
    points: float


def shows(requirement: str, kind: str, module: str, *, weight: float = 1.0) -> pytest.MarkDecorator:
    """The mark of a test of ``module``.

    Args:
        requirement: its name in ``requirements.toml``.
        kind: how it looks: at "values", "communication", "schedule", "memory", "safety", "speed",
            or at "reality".
        weight: its part of the requirement's points, beside those of the other tests.
    """
    return pytest.mark.shows(requirement, kind=kind, module=module, weight=weight)


def worth_of(item: pytest.Item) -> Worth | None:
    """What a collected test is worth; None: it has no mark."""
    return item.stash.get(_WORTH, None)


def give_points(
    items: Sequence[pytest.Item], *, all_of_them: bool = False
) -> Mapping[str, Requirements]:
    """Give the collected tests of some modules their points; gives the modules' requirements.

    Args:
        all_of_them: whether a requirement that none of the tests shows is an error.

    Raises:
        RequirementsError: a test shows what isn't asked for, or a requirement is shown by none.
    """
    marks = [(item, mark) for item in items if (mark := item.get_closest_marker("shows"))]
    of_module: dict[str, Requirements] = {}
    for folder in dict.fromkeys(item.path.parent for item, _ in marks):
        path = folder / requirements.FILE
        asked = requirements.read(path)
        here = [(item, mark) for item, mark in marks if item.path.parent == folder]
        for module in dict.fromkeys(str(mark.kwargs["module"]) for _, mark in here):
            if module not in asked:
                raise RequirementsError(f"{path} has no [{module}], of which there are tests.")
            of_module[module] = asked[module]
            mine = [(item, mark) for item, mark in here if mark.kwargs["module"] == module]
            _share_out(f"{path}, [{module}]", asked[module], mine, all_of_them)
    return of_module


def _share_out(
    where: str,
    asked: Requirements,
    tests: Sequence[tuple[pytest.Item, pytest.Mark]],
    all_of_them: bool,
) -> None:
    weights: dict[str, float] = dict.fromkeys((each.name for each in asked.each), 0.0)
    for item, mark in tests:
        if mark.args[0] not in weights:
            raise RequirementsError(f"{where} has no {mark.args[0]!r}, which {item.name} shows.")
        weights[mark.args[0]] += mark.kwargs["weight"]
    for each in asked.each:
        if all_of_them and not weights[each.name]:
            raise RequirementsError(f"{where}: no test shows {each.name!r}.")
    points = {one.name: one.points / weights[one.name] for one in asked.each if weights[one.name]}
    for item, mark in tests:
        name, about = str(mark.args[0]), mark.kwargs
        item.stash[_WORTH] = Worth(
            name, about["kind"], about["module"], points[name] * about["weight"]
        )
