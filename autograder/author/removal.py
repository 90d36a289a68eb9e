"""``autograder remove ASSIGNMENT MODULE``: a module goes, and the assignment still fits together.

    assignment.toml             its [[module]], and the [[run]] and [[measured]] of it
    notebook.py                 its section, or where others share that, its cells alone
    hidden/                     the cases of its tests
    checks/, given/             what nothing names any more
    MODULE.py, verify/          its files, and checks/test_MODULE.py

All of it is done in a scratch copy first, and compared there (`consistency`). What is changed or
moved is kept as it was, in build/kept. Other modules keep their weights: these are points.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autograder import scratch, storage
from autograder.author import cuts
from autograder.course import assignment as plans
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.publish import consistency
from ringside import output_folder

__all__ = ["Removal", "apply", "plan_of"]


@dataclass
class Removal:
    """What goes, and what stays for a person to read.

    Attributes:
        edits: the new text of each file that changes.
        moves: the files that go.
        mentions: places that still name the module, as file:line.
    """

    before: Assignment
    after: Assignment
    module: str
    edits: dict[str, str] = field(default_factory=dict)
    moves: list[str] = field(default_factory=list)
    mentions: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What a person reads."""
        runs = [run.name for run in self.before.runs if run.module == self.module]
        lines = [f"  changed  {name}" for name in self.edits]
        lines += [f"  moved    {name}" for name in self.moves]
        lines += [f"  its run {name} goes with it" for name in runs]
        now, was = _total(self.after), _total(self.before)
        lines.append(
            f"{self.before.name} is of {now} now, and was of {was}: the weights of other modules "
            "are points, and stay. Its share of the course is what [weights] says, as before."
        )
        if self.mentions:
            lines.append(f"Still named, see whether it makes sense: {', '.join(self.mentions)}.")
        return "\n".join(lines)


def _total(plan: Assignment) -> str:
    """What can be earned."""
    extra = f" and {plan.extra_points:g} extra" if plan.extra_points else ""
    return f"{plan.max_score:g}{extra} points"


def plan_of(plan: Assignment, module: str, course: Course) -> Removal:
    """Decide what goes, and try it out in a scratch copy.

    Raises:
        AssignmentError: there is no such module, it is the only one, or what would be left doesn't
            fit together: each place is named.
    """
    plan.module(module)
    solution = course.solution(plan.name)
    names = [f"{module}.py", *_own_files(solution, module)]
    removal = Removal(plan, plan, module, moves=[n for n in names if (solution / n).is_file()])
    if len(plan.modules) == 1:
        raise AssignmentError(f"{module} is all that {plan.name} has: remove the assignment.")
    if users := _importers(plan, module, solution):
        raise AssignmentError(
            f"{module} can't be removed: {', '.join(users)} imports it. Remove that first, or "
            "take the import out."
        )
    runs = {run.name for run in plan.runs if run.module == module}
    for path in _editable(solution):
        name = path.relative_to(solution).as_posix()
        before = path.read_text(encoding="utf-8")
        if name == "assignment.toml":
            after = cuts.without_tables(before, module)
        elif name == "hidden/cases.py":
            after = cuts.without_cases(before, module)
        else:
            after = cuts.without_cells(before, module, runs)
        if name not in removal.moves and after != before:
            removal.edits[name] = after
    _drop_the_idle(removal, plan, solution)
    with scratch.fresh("remove-") as folder:
        tried = Course(kit=folder, root=course.root)
        shutil.copytree(
            solution, tried.solution(plan.name), ignore=shutil.ignore_patterns("__pycache__")
        )
        _do(removal, tried.solution(plan.name))
        removal.after = plans.load(plan.name, tried)
        try:
            faults = consistency.faults(removal.after, tried)
        except AssignmentError as error:  # a test file looks something up that is gone
            faults = [str(error)]
        removal.mentions = list(_mentions(module, tried.solution(plan.name)))
    if faults:
        raise AssignmentError(
            f"Nothing is changed: without {module}, {plan.name} would not fit together. Change "
            "these places by hand first:\n  " + "\n  ".join(faults)
        )
    return removal


def apply(found: Removal, course: Course) -> Path:
    """Do it; gives the folder in which all is kept as it was.

    Raises:
        StorageError: it can't be written.
    """
    solution = course.solution(found.before.name)
    backup = output_folder.numbered(
        course.build / "kept" / "removed" / f"{found.before.name}-{found.module}"
    )
    with storage.making(
        backup, solution, otherwise=f"Or work in a copy of {course.kit} (`cp -r`)."
    ):
        for name in (*found.edits, *found.moves):
            (backup / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(solution / name, backup / name)
        _do(found, solution)
    return backup


def _drop_the_idle(found: Removal, plan: Assignment, solution: Path) -> None:
    """Drop what nothing names any more: helpers of the tests, callers, constants, imports."""
    before = {
        path.relative_to(solution).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in sorted((*solution.glob("*.*"), *solution.glob("*/*.*")))
    }
    texts = {name: text for name, text in before.items() if name not in found.moves} | found.edits
    word_counts = {name: cuts.words(text) for name, text in texts.items()}
    once = {name: cuts.words(text) for name, text in before.items()}

    def uses(counts: dict[str, Counter[str]], word: str) -> int:
        return sum(tally[word] for tally in counts.values())

    while True:
        idle = [
            (name, node, word)
            for name in plan.supplied
            if name in texts and name.endswith(".py")
            for node, word in cuts.defined(texts[name])
            if uses(word_counts, word) == 1 and uses(once, word) > 1
        ]
        if not idle:
            break
        name, node, word = idle[0]
        texts[name] = cuts.without_node(texts[name], node, word)
        word_counts[name] = cuts.words(texts[name])
        found.edits[name] = texts[name]


def _do(found: Removal, solution: Path) -> None:
    for name, text in found.edits.items():
        storage.write(solution / name, text.encode(), mode=0o644)
    for name in found.moves:
        (solution / name).unlink()


def _own_files(solution: Path, module: str) -> Iterator[str]:
    yield f"checks/test_{module}.py"
    for path in sorted((solution / "verify").glob("*.*")):
        if path.stem.partition("__")[0] == module:
            yield f"verify/{path.name}"


def _editable(solution: Path) -> list[Path]:
    names = ("assignment.toml", "notebook.py", "hidden/cases.py")
    return [path for path in (solution / name for name in names) if path.is_file()]


def _importers(plan: Assignment, module: str, solution: Path) -> list[str]:
    """Files that can't be imported without the module: modules and what is supplied beside them."""
    names = [spec.filename for spec in plan.modules if spec.name != module]
    names += [name for name in plan.supplied if name.endswith(".py")]
    line = re.compile(rf"(?m)^(?:from|import) +{module}\b")
    return [name for name in names if line.search((solution / name).read_text(encoding="utf-8"))]


def _mentions(module: str, solution: Path) -> Iterator[str]:
    """Places that name the module: its file, a call, an import, or its name in quotes."""
    word = re.compile(
        rf"\b{module}\.(?:py|\w+\()|[`\"']{module}[`\"':]|\b(?:import|from) {module}\b"
    )
    for path in sorted((*solution.glob("*.*"), *solution.glob("hidden/*.py"))):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        numbers = [str(number) for number, line in enumerate(lines, 1) if word.search(line)]
        if numbers:
            yield f"{path.relative_to(solution).as_posix()}:{','.join(numbers)}"
