"""Attacks of ``tests/redteam/`` as their attack.toml tells, and what came of each."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ringside import kit

ATTACKS = kit.ROOT / "tests" / "redteam"


@dataclass(frozen=True)
class Attack:
    """One attacking submission, as its attack.toml tells."""

    number: int
    title: str
    assignment: str
    module: str
    gain: str
    expected: str
    proof: str
    folder: Path
    student: str = "mallory"  # the submission's name
    max_percent: float = 0.0
    min_percent: float = 0.0
    must_fail: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    forbidden_in_page: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.folder.name

    @classmethod
    def load(cls, folder: Path) -> Attack:
        table = tomllib.loads((folder / "attack.toml").read_text(encoding="utf-8"))
        lists = {key: tuple(value) for key, value in table.items() if isinstance(value, list)}
        return cls(folder=folder, **{**table, **lists})


@dataclass(frozen=True)
class AttackOutcome:
    """What came of one attack; ``faults`` is empty where all is as expected."""

    attack: Attack
    status: str
    percent: float
    seconds: float
    faults: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.faults


def load_attacks(assignment: str | None = None, names: Iterable[str] | None = None) -> list[Attack]:
    """The attacks in order, all or those on one assignment or of these names."""
    name_set = None if names is None else set(names)
    attacks = [Attack.load(path.parent) for path in sorted(ATTACKS.glob("*/attack.toml"))]
    return [
        attack
        for attack in attacks
        if assignment in (None, attack.assignment) and (name_set is None or attack.name in name_set)
    ]
