"""Public tests that run again whenever a module changes: `ringside check --watch`.

    a module's file was saved          that module is checked again
    another file of Python was saved   all are: tests and supplied files are everybody's
    a notebook was saved               what its cells and the files differ in is told;
                                       with --from-notebook the files are written first

Looked at are the names, times and sizes of the files in the assignment's own folder, five times a
second. A file that was saved without a change starts nothing.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ringside.checking import notebook, public_tests
from ringside.checking.public_tests import ModuleReport, Report
from ringside.errors import RingsideError

__all__ = ["Shown", "changes", "watch"]

POLL_S = 0.2
_KINDS = (".py", ".ipynb")


@dataclass(frozen=True)
class Shown:
    """What the reader sees after a change."""

    report: Report | None  # of the modules that were checked again
    told: tuple[str, ...] = ()  # what went wrong, and where notebook and files differ
    others: tuple[ModuleReport, ...] = ()  # as they were checked before
    checked: tuple[str, ...] = ()

    def text(self) -> str:
        """What a person reads."""
        lines = [public_tests.text(self.report)] if self.report else []
        lines += self.told
        if self.others:
            points = (f"{entry.name} {entry.earned:g}/{entry.points:g}" for entry in self.others)
            lines.append(f"before: {', '.join(points)}")
        return "\n".join(lines)


def changes(
    folder: Path, poll_s: float = POLL_S, sleep: Callable[[float], None] = time.sleep
) -> Iterator[frozenset[str]]:
    """Give the names of the files of a folder that changed since this call, each time some did."""
    # No generator itself: the first look is now, not when the first change is asked for.
    return _changes(folder, _stamps(folder), _digests(folder), poll_s, sleep)


def _changes(
    folder: Path,
    stamps: dict[str, tuple[int, int]],
    digests: dict[str, str],
    poll_s: float,
    sleep: Callable[[float], None],
) -> Iterator[frozenset[str]]:
    while True:
        sleep(poll_s)
        now = _stamps(folder)
        if now == stamps:
            continue
        stamps, before = now, digests
        digests = _digests(folder)
        changed = [name for name in before | digests if before.get(name) != digests.get(name)]
        if changed:
            yield frozenset(changed)


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.suffix in _KINDS and not path.name.startswith("."):
            yield path


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    stamps = {}
    for path in _files(folder):
        try:
            status = path.stat()
        except FileNotFoundError:  # an editor that saves by renaming was faster
            continue
        stamps[path.name] = (status.st_mtime_ns, status.st_size)
    return stamps


def _digests(folder: Path) -> dict[str, str]:
    digests = {}
    for path in _files(folder):
        try:
            digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            continue
    return digests


@dataclass
class _Watch:
    """The modules that are watched, and what they earned last."""

    folder: Path
    wanted: tuple[str, ...]  # empty: all
    timeout_s: float
    test: str
    from_notebook: bool
    last: dict[str, ModuleReport] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)  # digests of what was checked last

    def check(self, modules: Sequence[str]) -> Shown:
        """Check some modules (none: all that are watched); say what they earned."""
        errors: list[str] = []
        report = None
        # Before the tests run: what is saved meanwhile is checked again.
        now = {Path(name).stem: digest for name, digest in _digests(self.folder).items()
               if name.endswith(".py")}  # fmt: skip
        self.seen |= {stem: now[stem] for stem in modules or now if stem in now}
        try:
            report = public_tests.run(self.folder, modules, self.test, timeout_s=self.timeout_s)
        except RingsideError as error:
            errors.append(str(error))
        for module in report.modules if report else ():
            self.last[module.name] = module
        checked = tuple(result.name for result in report.modules) if report else tuple(modules)
        others = tuple(result for name, result in self.last.items() if name not in checked)
        return Shown(report, (*errors, *self.differences()), others, checked)

    def told(self) -> Shown:
        """Only where notebook and files differ."""
        try:
            lines = [f"{diff}." for diff in notebook.differences(self.folder, self.wanted)]
        except RingsideError as error:
            lines = [str(error)]
        return Shown(None, tuple(lines), tuple(self.last.values()))

    def differences(self) -> tuple[str, ...]:
        """A line about cells that differ from the files that were checked."""
        try:
            differences = notebook.differences(self.folder, self.wanted)
        except RingsideError as error:
            return (str(error),)
        names = ", ".join(dict.fromkeys(diff.cell.module for diff in differences))
        return (f"notice: the notebook's cells and the files differ: {names}.",) * bool(names)

    def take_cells(self) -> list[str]:
        """Write the files from cells that differ; return the names of those modules.

        A file is kept before it is overwritten, unless a cell wrote it.
        """
        differences = notebook.differences(self.folder, self.wanted)
        notebook.write_files(differences)
        return list(dict.fromkeys(Path(diff.cell.module).stem for diff in differences))

    def modules_of(self, changed: frozenset[str]) -> list[str] | None:
        """The modules to check after files changed; empty: all; None: nothing to check."""
        all_stems = {Path(cell.module).stem for book in notebook.notebooks(self.folder)
                 for cell in notebook.module_cells(book)} | self.last.keys()  # fmt: skip
        now = _digests(self.folder)
        names = sorted(name for name in changed if name.endswith(".py"))
        stems = [Path(name).stem for name in names
                 if now.get(name) != self.seen.get(Path(name).stem)]  # fmt: skip
        if any(stem not in all_stems for stem in stems):
            return list(self.wanted)
        return [stem for stem in stems if not self.wanted or stem in self.wanted] or None


def watch(
    folder: Path,
    modules: Sequence[str],
    test: str = "",
    *,
    timeout_s: float,
    from_notebook: bool = False,
    changed: Iterator[frozenset[str]] | None = None,
) -> Iterator[Shown]:
    """Check modules now, and again after each change, until the reader stops it.

    Args:
        modules: those to watch; empty: all.
        test: only the test of this name.
        from_notebook: write the files from the notebook's cells whenever it is saved.
        changed: gives the names of files that changed (default: `changes`).
    """
    # Before the first check: what is saved while it runs has changed.
    changed = changed or changes(folder)
    state = _Watch(folder, tuple(modules), timeout_s, test, from_notebook)
    if from_notebook:
        state.take_cells()
    yield state.check(modules)
    for names in changed:
        book_saved = any(name.endswith(".ipynb") for name in names)
        try:
            if from_notebook and book_saved:
                names |= {f"{name}.py" for name in state.take_cells()}
            again = state.modules_of(names)
        except RingsideError as error:  # such as a notebook that is being written
            yield Shown(None, (str(error),), tuple(state.last.values()))
            continue
        if again is not None:
            yield state.check(again)
        elif book_saved:
            yield state.told()
