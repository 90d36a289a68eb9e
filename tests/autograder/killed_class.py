"""Grade one real class under a rain of SIGKILLs; the report goes to stdout as JSON.

    python killed_class.py FOLDER SEED KILLS

A grader is a fork of this process: it grades the class with real suites in real sandboxes, and
writes nbgrader's gradebook. Each is killed in a phase that was chosen before, at a moment drawn
at random in it, alone or with all its processes, and the next one resumes::

    start      a sandbox is being set up: bubblewrap is there, no Python is in it yet
    suite      a suite is under way: its ranks run in a sandbox
    store      a result is being written: before its fsync, before and after its rename
    gradebook  before the n-th statement or commit of the gradebook
    any        after a time, whatever happens then

This process is a subreaper: whatever a dead grader leaves becomes its child. A class that comes
to its end is compared with one that was never killed, and the next kills fall on a fresh class.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from autograder import notebooks, scratch
from autograder.collect import submissions
from autograder.collect.rebuild import release_notebook, solution_cells
from autograder.course import assignment as plans
from autograder.course import database, edits, nbgrader_steps
from autograder.course.course import Course
from autograder.grade import pipeline
from autograder.grade.suite import nursery as suite_nursery
from autograder.gradebook.nbgrader import csv_export
from autograder.gradebook.nbgrader.release import register
from autograder.publish import build
from autograder.sandbox.watchdog import ProcessId, descendants
from ringside.network.processes import children

NAME = "a01_first_ranks"
WRONG = ("fit__swapped", "fit__weights_of_roots")
SHARES = {"start": 3, "suite": 3, "store": 3, "gradebook": 5, "any": 1}
PR_SET_CHILD_SUBREAPER = 36
TOGETHER_S = 30.0  # the longest that anything may live on after its grader


def text_of(course: Course, name: str) -> str:
    if "__" in name:
        return edits.one(course.solution(NAME), name).source
    lines = (course.solution(NAME) / f"{name}.py").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.strip().startswith("### "))


def make_class(course: Course) -> None:
    """Four students: one has what is cheap, two a wrong module, one nothing."""
    plan = plans.load(NAME, course)
    source = course.source(NAME)
    source.mkdir(parents=True)
    build.write_source(plan, course, source)
    with scratch.fresh("register-") as place:
        register(plan, course, place)
    scratch.leave()  # graders are forks, and have folders of their own
    release = release_notebook(plan, course.release(NAME))
    written = {"ada": ["fit", "where"], "zoe": []}
    written |= {f"student{k}": [name] for k, name in enumerate(WRONG)}
    for student, names in written.items():
        handed_in = release.copy()
        for cell in solution_cells(handed_in):
            for name in names:
                if notebooks.marks(cell)["grade_id"] == name.split("__")[0]:
                    first = cell.source.partition("\n")[0]
                    cell.source = f"{first}\n{text_of(course, name)}"
        folder = course.submitted(student, NAME)
        folder.mkdir(parents=True)
        (folder / plan.notebook).write_text(json.dumps(handed_in), encoding="utf-8")
        release = release_notebook(plan, course.release(NAME))


def grade(course: Course, mark: Callable[[], None] = lambda: None) -> None:
    """What an instructor does: grade, then let nbgrader write the gradebook."""
    plan = plans.load(NAME, course)
    session = pipeline.GradingSession(plan, course, pipeline.suite_grader(course), jobs=2)
    outcomes = session.grade(submissions.find(plan, [course.build / "submitted"]))
    assert [o.status for o in outcomes] == ["graded"] * 4, [o.message for o in outcomes]
    mark()
    nbgrader_steps.autograde(course, NAME)


def kill(everybody: bool, dice: random.Random, pid: int) -> None:
    """SIGKILL a grader, or all of its processes in any order."""
    victims = _all_stopped(pid) if everybody else [pid]
    dice.shuffle(victims)
    if pid == os.getpid():  # oneself last
        victims.sort(key=pid.__eq__)
    for victim in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)


def _all_stopped(pid: int) -> list[int]:
    """All processes of a grader, so that none of them starts another one that nobody kills.

    That one could be bubblewrap's child, which waits for its parent for ever until it is set up.
    """
    found: set[int] = set()
    while fresh := {each.pid for each in descendants(ProcessId.of(pid))} - found:
        found |= fresh
        for each in fresh - {os.getpid()}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGSTOP)
    return sorted(found)


class Instruments:
    """Inside a grader: counts what it does to the store and the gradebook; kills it there."""

    def __init__(self, phase: str, at: int, die: Callable[[], None]) -> None:
        self.phase, self.at, self.die = phase, at, die
        self.count = dict.fromkeys(("store", "gradebook"), 0)

    def hook(self) -> None:
        fsync, replace = os.fsync, os.replace

        def counted_fsync(fd: int) -> None:
            self.note("store")
            fsync(fd)

        def counted_replace(source: Any, target: Any) -> None:
            stored = "results" in Path(target).parts
            if stored:
                self.note("store")
            replace(source, target)
            if stored:
                self.note("store")

        os.fsync, os.replace = counted_fsync, counted_replace  # type: ignore[assignment]

    def watch_gradebook(self) -> None:
        for name in ("before_cursor_execute", "commit"):
            event.listen(Engine, name, lambda *_: self.note("gradebook"))

    def note(self, what: str) -> None:
        self.count[what] += 1
        if what == self.phase and self.count[what] == self.at:
            self.die()


def look(pid: int) -> dict[str, int]:
    """Sandboxes of a grader at this moment: being set up, and with ranks inside."""
    found = {"start": 0, "suite": 0}
    for process in descendants(ProcessId.of(pid)):
        with contextlib.suppress(OSError):
            if command(process.pid) == "bwrap" and command(parent(process.pid)) != "bwrap":
                inside = [command(each.pid) for each in descendants(process)]
                pythons = sum("python" in each for each in inside)
                found["start"] += pythons == 0
                found["suite"] += pythons >= 2  # one starts ranks, and ranks are there
    return found


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Rain:
    """The graders, their ends, and what each of them left."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.dice = random.Random(seed)
        self.temporary = root / "tmp"
        self.temporary.mkdir()
        self.kills: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        self.mounts = self._mounts()

    def course(self, name: str) -> Course:
        return Course(kit=Course.here().kit, root=self.root / name)

    def run(self, course: Course, phase: str, everybody: bool, span: dict[str, float]) -> bool:
        """Grade, and kill in a phase; whether the class came to its end before that."""
        at = self.dice.randint(1, int(span["gradebook"])) if phase == "gradebook" else 0
        if phase == "store":
            at = self.dice.randint(1, 6)
        started = time.monotonic()
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(read)
            self._be_grader(course, phase, everybody, at, write)
        os.close(write)
        if phase in ("start", "suite"):
            self._wait_and_kill(pid, phase, everybody, self.dice.randint(1, 3))
        elif phase == "any":
            time.sleep(self.dice.uniform(0.0, span["seconds"] / 2))
            kill(everybody, self.dice, pid)
        _, status = os.waitpid(pid, 0)
        ended = time.monotonic()
        with open(read, encoding="utf-8") as pipe:
            told = pipe.read()
        self._reap()
        entry = {
            "phase": phase,
            "everybody": everybody,
            "seconds": round(ended - started, 2),
            "lived_on_s": round(time.monotonic() - ended, 2),
            "left": sorted(path.name for path in self.temporary.iterdir()),
            "mounts": len(self._mounts() - self.mounts),
        }
        if status == signal.SIGKILL:
            self.kills.append(entry)
            return False
        assert status == 0, f"the grader ended with {status}: {told}"
        span |= {**json.loads(told), "seconds": ended - started}
        self.ends.append(entry)
        return True

    def _be_grader(self, course: Course, phase: str, everybody: bool, at: int, write: int) -> None:
        status = 1
        try:
            os.setsid()
            os.environ["RINGSIDE_RESULTS"] = str(course.build / "results")
            dice = random.Random(self.dice.random())
            instruments = Instruments(phase, at, lambda: kill(everybody, dice, os.getpid()))
            instruments.hook()
            grade(course, instruments.watch_gradebook)
            suite_nursery.close()
            scratch.leave()
            os.write(write, json.dumps(instruments.count).encode())
            status = 0
        except BaseException as error:
            os.write(write, repr(error).encode()[-2000:])
        finally:
            os._exit(status)

    def _wait_and_kill(self, pid: int, phase: str, everybody: bool, number: int) -> None:
        """Kill when the phase is met for the n-th time, a random moment into it."""
        met = before = 0
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            now = look(pid)[phase]
            met += max(0, now - before)
            before = now
            if met >= number:
                time.sleep(self.dice.uniform(0, 0.01 if phase == "start" else 0.3))
                if look(pid)[phase]:
                    return kill(everybody, self.dice, pid)
                met -= 1
            time.sleep(0.001)

    def _reap(self) -> None:
        """Wait for all that the grader has left: they are our children now."""
        deadline = time.monotonic() + TOGETHER_S
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                if time.monotonic() > deadline:
                    left = {child: command(child) for child in children(os.getpid())}
                    raise AssertionError(f"these live on after {TOGETHER_S} s: {left}")
                time.sleep(0.005)

    @staticmethod
    def _mounts() -> set[str]:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return {line for line in lines if "ringside" in line or "/results" in line}


def stored(course: Course) -> dict[str, tuple[int, int]]:
    """The store's finished entries: a second grading of one would be another file."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in (course.build / "results").glob("*/*.json")
        if not path.name.startswith(".")
    }


def book_of(course: Course) -> dict[str, Any]:
    """All that the gradebook says, by names."""
    with database.open_gradebook(course) as book:
        rows = {str(row["student"]): dict(row) for row in csv_export.rows(book, [NAME], [])}
        for student, row in rows.items():
            (notebook,) = book.find_submission(NAME, student).notebooks
            row["cells"] = sorted(
                (g.name, g.auto_score, g.manual_score, g.extra_credit, g.needs_manual_grade)
                for g in notebook.grades
            )
            row["comments"] = sorted((c.name, c.comment or "") for c in notebook.comments)
    return rows


def files_of(course: Course) -> list[str]:
    return sorted(str(path.relative_to(course.root)) for path in course.root.rglob("*"))


def plan_of(kills: int, dice: random.Random) -> Iterator[tuple[str, bool]]:
    """Which phase and how, in an order in which all phases are still ahead of the class."""
    phases = [phase for phase, share in SHARES.items() for _ in range(share)]
    early = [phase for phase in phases if phase != "gradebook"]
    dice.shuffle(early)
    for number, phase in enumerate([*early, *(SHARES["gradebook"] * ["gradebook"])][:kills]):
        yield phase, number % 3 == 2


def main(root: Path, seed: int, kills: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    rain = Rain(root, seed)
    template, reference = rain.course("template"), rain.course("reference")
    make_class(template)
    shutil.copytree(template.root, reference.root)
    os.environ["TMPDIR"] = str(rain.temporary)
    import tempfile

    tempfile.tempdir = None
    span: dict[str, float] = {}
    assert rain.run(reference, "none", False, span)
    wanted, files = book_of(reference), files_of(reference)
    names = sorted(stored(reference))
    planned = list(plan_of(kills, rain.dice))
    rounds = repeated = 0
    differences: list[str] = []
    while planned or rounds == 0:
        rounds += 1
        course = rain.course("class")
        shutil.copytree(template.root, course.root)
        done: dict[str, tuple[int, int]] = {}
        while True:
            phase, everybody = planned[0] if planned else ("none", False)
            finished = rain.run(course, phase, everybody, dict(span))
            now = stored(course)
            repeated += sum(now.get(name) != entry for name, entry in done.items())
            done = now
            if finished:
                break
            planned.pop(0)
        if book_of(course) != wanted:
            differences.append("the gradebook")
        if files_of(course) != files:
            differences += sorted(set(files_of(course)) ^ set(files))
        if sorted(done) != names:
            differences.append("the store")
        shutil.rmtree(course.root)
    return {
        "kills": rain.kills,
        "ends": rain.ends,
        "rounds": rounds,
        "repeated": repeated,
        "differences": differences,
        "span": span,
        "scores": {name: row["raw_score"] for name, row in wanted.items()},
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3]))))
