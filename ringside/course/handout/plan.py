"""What an update would do to a tree, decided before anything is written.

    in the tree        in the newer handout    then
    as handed out      differs                 the newer one takes its place
    as handed out      gone                    it goes (a whole assignment that is gone stays)
    changed by you     as handed out           yours stays
    changed by you     differs                 both stay: the newer one, and yours beside it
    changed by you     gone                    yours stays
    deleted by you     there                   it is put back
    yours alone        not there               it stays

Notebooks are merged cell by cell (`merging`). Where a tree doesn't tell what was handed out, every
file that differs may have been changed: it is replaced, and kept with all others in the backup.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringside import kit
from ringside.checking.notebook import NotebookError
from ringside.course.handout import merging
from ringside.course.handout.manifest import (
    NAME,
    Handout,
    HandoutError,
    digest,
    files_of,
    text_digest,
)
from ringside.course.handout.three_way import three_way
from ringside.units import format_count

__all__ = ["Plan", "Step", "make"]

ASSIGNMENTS = "assignments"
BESIDE = "before-update"  # shards.py.before-update-1: a file that both sides changed
STUB = "as-released"  # ring.py.as-released: a newer stub that isn't whole in the student's module
_INSTALL = ("pyproject.toml", "constraints.txt", "setup.py")


@dataclass(frozen=True)
class Step:
    """One file that is written or removed."""

    name: str  # in the tree
    data: bytes | None  # None: it is removed

    @property
    def digest(self) -> str | None:
        return None if self.data is None else digest(self.data)


@dataclass
class Plan:
    """What an update does, and what is told of it."""

    tree: Path
    before: str  # version of the kit; "" where it isn't known
    after: str
    steps: list[Step] = field(default_factory=list)
    told: dict[str, list[str]] = field(default_factory=dict)  # where -> sentences
    counts: dict[str, dict[str, int]] = field(default_factory=dict)  # where -> what -> files
    install_again: bool = False
    sure: bool = True  # whether it is known what was handed out

    def tell(self, name: str, sentence: str) -> None:
        """A sentence about a file of the tree."""
        self.told.setdefault(_where(name), []).append(sentence)

    def count(self, name: str, what: str) -> None:
        """One more file that is replaced, new, removed, ... without a sentence of its own."""
        counts = self.counts.setdefault(_where(name), {})
        counts[what] = counts.get(what, 0) + 1

    @property
    def changes(self) -> bool:
        """Whether anything but the list of files differs."""
        return any(step.name != NAME for step in self.steps)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "tree": str(self.tree),
            "before": self.before,
            "after": self.after,
            "written": [s.name for s in self.steps if s.data is not None],
            "removed": [s.name for s in self.steps if s.data is None],
            "told": self.told,
            "install_again": self.install_again,
        }

    def text(self) -> str:
        """What a person reads."""
        if not self.changes:
            return f"{self.tree} is up to date: {self.after}."
        lines = [f"{self.tree}: from {self.before or 'an unknown version'} to {self.after}"]
        if not self.sure:
            lines.append(
                f"The tree has no {NAME}, so what you changed is found by comparison alone: all "
                "that is replaced is kept in the backup."
            )
        for where in sorted(self.counts.keys() | self.told.keys()):
            summary = ", ".join(f"{n} {what}" for what, n in self.counts.get(where, {}).items())
            lines.append(f"{where}: {summary}" if summary else f"{where}:")
            lines += [f"  {sentence}" for sentence in self.told.get(where, [])]
        return "\n".join(lines)


def _where(name: str) -> str:
    parts = name.split("/")
    if len(parts) > 1:
        return "/".join(parts[:2]) if parts[0] == ASSIGNMENTS and len(parts) > 2 else parts[0]
    return "files of the tree's root"


def make(tree: Path, newer: Path) -> Plan:
    """Decide what bringing a tree up to date would do.

    Args:
        tree: the student's.
        newer: the newer handout's folder.

    Raises:
        HandoutError: it can't be done, and why.
    """
    if tree.resolve() == newer.resolve():
        raise HandoutError(f"{newer} is the tree itself: name the newer handout.")
    before, listed = Handout.read(tree), Handout.read(newer)
    after = Handout.of(newer, listed.version if listed else kit.VERSION)
    plan = Plan(tree, before.version if before else "", after.version, sure=before is not None)
    planner = _Planner(plan, tree, before, after, dict(files_of(newer)))
    names = {*after.files, *(before.files if before else ())}
    for name in sorted(names):
        planner.decide(name)
    if plan.steps or before != after:
        plan.steps.append(Step(NAME, after.as_bytes()))  # the last: what was handed out
    _look_at_places(tree, plan.steps)
    return plan


@dataclass
class _Planner:
    plan: Plan
    tree: Path
    given: Handout | None
    after: Handout
    sources: dict[str, Path]

    def decide(self, name: str) -> None:
        """What becomes of one file."""
        path = self.tree / name
        there = path.read_bytes() if path.is_file() else None
        now = None if there is None else digest(there)
        new = self.after.files.get(name)
        was = self.given.files.get(name) if self.given else None
        if now == new or (now is None and new is None):
            return
        if new is None:
            self._is_gone(name, changed=now != was)
        elif there is None:
            self._write(name, self.sources[name].read_bytes())
            self.plan.count(name, "put back" if was else "new")
        elif self.given and now == was:
            self._replace(name, there)
        elif self.given and new == was:
            return  # changed by the student alone
        elif name.endswith(".ipynb"):
            self._merge(name, there)
        elif self.given:
            self._keep_both(name, there)
        else:
            self._replace(name, there)

    def _write(self, name: str, data: bytes) -> None:
        self.plan.steps.append(Step(name, data))
        if name in _INSTALL:
            self.plan.install_again = True

    def _is_gone(self, name: str, *, changed: bool) -> None:
        folder = name.split("/")[:2]
        whole = folder[0] == ASSIGNMENTS and not any(
            path.split("/")[:2] == folder for path in self.after.files
        )
        if whole:
            if name.endswith(".ipynb"):
                self.plan.tell(name, "is no longer handed out; all of it stays as it is.")
        elif changed:
            self.plan.tell(
                name, f"{_base(name)} is no longer handed out; you changed it: it stays."
            )
        else:
            self.plan.steps.append(Step(name, None))
            self.plan.count(name, "removed")

    def _replace(self, name: str, there: bytes) -> None:
        data = self.sources[name].read_bytes()
        if name.endswith(".ipynb") and name.startswith(f"{ASSIGNMENTS}/"):
            self._merge(name, there)
            return
        self._write(name, data)
        self.plan.count(name, "replaced")
        if _base(name).startswith("test_") and name.endswith(".py"):
            self._tell_tests(name, there, data)
        elif name.startswith(f"{ASSIGNMENTS}/"):
            self.plan.tell(name, f"{_base(name)} is replaced.")

    def _tell_tests(self, name: str, before: bytes, after: bytes) -> None:
        changed = {what: ", ".join(tests) for what, tests in _tests(before, after).items() if tests}
        details = "; ".join(f"{what}: {tests}" for what, tests in changed.items())
        self.plan.tell(name, f"{_base(name)} is replaced{'; ' if details else '.'}{details}")

    def _keep_both(self, name: str, there: bytes) -> None:
        beside = self._free(f"{name}.{BESIDE}")
        self._write(name, self.sources[name].read_bytes())
        self.plan.steps.append(Step(beside, there))
        self.plan.tell(
            name, f"{_base(name)}: you changed it, and so did the kit: yours is {_base(beside)}."
        )

    def _free(self, name: str) -> str:
        number = 1
        while (self.tree / f"{name}-{number}").exists():
            number += 1
        return f"{name}-{number}"

    def _merge(self, name: str, there: bytes) -> None:
        data = self.sources[name].read_bytes()
        cells = self.given.cells.get(name, {}) if self.given else None
        newer = merging.parse(data, name)
        try:
            mine = merging.parse(there, name)
        except NotebookError as error:
            self._keep_both(name, there)
            self.plan.tell(name, f"{error} The files of your modules stay as they are.")
            return
        stubs = self.given.stubs.get(name, {}) if self.given else {}
        merged = merging.merge(mine, newer, cells, stubs)
        self._renew_files(name, mine, newer, merged)
        self._tell_merged(name, merged)
        if merged.unsure and _is_work(name):
            beside = self._free(f"{name}.{BESIDE}")
            self.plan.steps.append(Step(beside, there))
            self.plan.tell(
                name,
                f"{merged.unsure} cells may be yours; the notebook is kept as {_base(beside)}.",
            )
        if merged.has_work:
            data = (json.dumps(merged.content, indent=1, ensure_ascii=False) + "\n").encode(
                "utf-8", "surrogatepass"
            )
        else:
            self.plan.count(name, "replaced")
        if digest(data) != digest(there):
            self._write(name, data)

    def _tell_merged(self, name: str, merged: merging.Merged) -> None:
        parts = [f"what you wrote in {', '.join(merged.filled)}"] if merged.filled else []
        if merged.edited:
            parts.append(f"{format_count(merged.edited, 'cell')} that you changed")
        if merged.followed:
            parts.append(f"{format_count(merged.followed, 'cell')} of your own")
        if parts:
            self.plan.tell(name, f"{_base(name)} is the newer one, with {', '.join(parts)}.")
        for module, functions in merged.redocumented.items():
            if functions:
                which = ", ".join(function or "the module" for function in functions)
                kits = f"the kit's newer docstring of {which}"
            else:
                kits = "the kit's newer stub"
            beside = f"the newer stub is {module}.py.{STUB}"
            if module not in merged.new_stubs:
                verb = "is in yours" if module in merged.renewed else "differs"
                self.plan.tell(name, f"{module}.py: {kits} {verb}.")
            elif module in merged.renewed:
                self.plan.tell(name, f"{module}.py: {kits} is in yours, but for lines that you "
                                     f"changed too; {beside}.")  # fmt: skip
            else:
                self.plan.tell(name, f"{module}.py: {kits} differs; yours is kept, and {beside}.")

    def _renew_files(
        self, name: str, mine: dict[str, Any], newer: dict[str, Any], merged: merging.Merged
    ) -> None:
        """The files that cells wrote follow the merged notebook; a file with work in it is merged.

        A file may hold what its cell doesn't: somebody writes in an editor.
        """
        folder = name.rpartition("/")[0]
        old, new = merging.module_texts(mine), merging.module_texts(newer)
        now = merging.module_texts({"cells": merged.content["cells"][::-1]})  # the first of a name
        stub_texts = self.given.stubs.get(name, {}) if self.given else {}
        stubs = merging.module_texts({"cells": [{"cell_type": "code", "source": text}
                                                for text in stub_texts.values()]})  # fmt: skip
        for module in old.keys() & new.keys():
            path = self.tree / folder / f"{module}.py"
            if not path.is_file() or module not in merged.redocumented:
                continue
            data = path.read_bytes()
            text = data.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
            if text_digest(text) == text_digest(old[module]):
                renewed = now[module].rstrip() + "\n"
            else:
                both = three_way(stubs[module], text, new[module]) if module in stubs else None
                renewed = both.text if both else text
                if both is None or not both.whole:
                    merged.new_stubs.setdefault(module, new[module])
                if renewed != text and module not in merged.renewed:
                    merged.renewed.append(module)
            if text_digest(renewed) != text_digest(text):
                end = "\r\n" if b"\r\n" in data else "\n"
                data = renewed.replace("\n", end).encode("utf-8", "surrogateescape")
                self._write(f"{folder}/{module}.py", data)
        for module, text in merged.new_stubs.items():
            self._write(f"{folder}/{module}.py.{STUB}", (text.rstrip() + "\n").encode())


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _is_work(name: str) -> bool:
    return name.startswith(f"{ASSIGNMENTS}/")


def _tests(before: bytes, after: bytes) -> dict[str, list[str]]:
    """The public tests that are new, changed and gone, by name."""
    try:
        old, new = (
            {node.name: ast.dump(node) for node in ast.parse(data).body
             if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
            for data in (before, after)
        )  # fmt: skip
    except (SyntaxError, ValueError):
        return {}
    return {
        "new tests": [name for name in new if name not in old],
        "changed tests": [name for name in new if name in old and new[name] != old[name]],
        "tests that are gone": [name for name in old if name not in new],
    }


def _look_at_places(tree: Path, steps: list[Step]) -> None:
    """Refuse what can't be written, before anything is."""
    for step in steps:
        path = tree / step.name
        if step.data is not None and path.is_dir():
            raise HandoutError(f"{path} is a folder of yours, and the handout has a file of that "
                               "name: rename your folder.")  # fmt: skip
        for parent in _parents(tree, step.name):
            if parent.exists() and not parent.is_dir():
                raise HandoutError(f"{parent} is a file of yours, and the handout has a folder of "
                                   "that name: rename your file.")  # fmt: skip


def _parents(tree: Path, name: str) -> Iterator[Path]:
    parts = name.split("/")[:-1]
    for k in range(1, len(parts) + 1):
        yield tree.joinpath(*parts[:k])
