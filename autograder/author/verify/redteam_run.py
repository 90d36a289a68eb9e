"""Hand in every attack of ``tests/redteam/`` and see that nothing comes of it.

    redteam/05_read_memory/attack.toml     what it would gain, and what is expected instead
    redteam/05_read_memory/ring.py         the submission; or make.py, which makes it

Expected is one of

    no_points    graded, and the attacked module earns nothing (or ``max_percent`` at most)
    limited      no effect: graded, at most ``max_percent``, and the tests of ``must_fail`` earn
                 nothing; or at least ``min_percent``, where a right submission carries the attack
    flagged      as limited, and the instructor is told: only figures that the rank itself gives
                 could show it
    rejected     not read at all

and of every attack that nothing outside has changed, that no secret is in what comes back, that
no cell of the CSV is a formula and the terminal gets no control characters, that nobody called at
a port outside, and that no process is left. In a submission's text ``@OUTSIDE@``
stands for a folder that anybody may write, ``@COURSE@`` for the course, ``@HOST@`` and ``@PORT@``
for a listening socket: an attacker knows all that.

``python -m autograder.author.verify.redteam_run [NAME...]`` runs them from the shell, ``--json``
for programs.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import ctypes
import io
import json
import os
import runpy
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from autograder.author.verify import redteam_table
from autograder.author.verify.attacks import Attack, AttackOutcome, load_attacks
from autograder.author.verify.redteam_outside import Outside
from autograder.collect import submissions
from autograder.course import assignment as assignments
from autograder.course.course import Course
from autograder.course.secret import PUBLIC_SECRET
from autograder.grade import pipeline, scores_csv
from autograder.grade.cache import Store
from autograder.grade.outcome import Outcome
from autograder.grade.suite import nursery as suite_nursery
from autograder.gradebook.report import rendering, report
from autograder.sandbox.watchdog import ProcessId, descendants

EXPECTED = ("no_points", "limited", "flagged", "rejected")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PR_SET_CHILD_SUBREAPER = 36


def run_attacks(
    grade: Callable[[Path], dict[str, Any]],
    *,
    attacks: Iterable[Attack] | None = None,
    progress: Callable[[AttackOutcome], None] | None = None,
) -> list[AttackOutcome]:
    """Hand in the attacks one after another.

    Args:
        grade: grades one path and returns the submission's entry of ``autograder grade --json``;
            a text under ``"feedback"``, the page, is searched too.
        progress: called after each attack.
    """
    outcomes = []
    for attack in load_attacks() if attacks is None else attacks:
        outcomes.append(run_attack(attack, grade))
        if progress is not None:
            progress(outcomes[-1])
    return outcomes


def run_attack(attack: Attack, grade: Callable[[Path], dict[str, Any]]) -> AttackOutcome:
    """Hand in one attack and look at everything that it might have done."""
    course = Course.here()
    own_process = ProcessId.of(os.getpid())
    _adopt_orphans()
    before = set(descendants(own_process))
    with (
        Outside.laid_out(course.kit) as outside,
        tempfile.TemporaryDirectory(prefix="ringside-redteam-") as scratch,
    ):
        path = _handed_in(attack, outside, Path(scratch), course.release(attack.assignment))
        started = time.monotonic()
        result = grade(path)
        seconds = time.monotonic() - started
        faults = _faults_of_result(attack, result)
        faults += _leaks(attack, outside, result)
        faults += outside.disturbances()
        faults += _left_behind(own_process, before)
    percent = _module(attack, result).get("score", 0.0)
    return AttackOutcome(attack, result["status"], percent, seconds, tuple(faults))


def full_grader(assignment: str) -> Callable[[Path], dict[str, Any]]:
    """The whole path, from quarantine to the feedback page.

    Results are stored for this grader only: stubs that several attacks leave as they are.
    """
    course = replace(Course.here(), given_secret=PUBLIC_SECRET)
    plan = assignments.load(assignment)
    stored = Path(tempfile.mkdtemp(prefix="ringside-store-"))

    def grade(path: Path) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="ringside-results-") as results:
            session = pipeline.GradingSession(plan, course, pipeline.suite_grader(course), jobs=1)
            session.store = Store(stored)
            try:
                outcomes = session.grade(submissions.find(plan, [path], "submission"))
            finally:
                suite_nursery.close()  # what is still there afterwards is the attacker's
            pages = rendering.write_pages(Path(results) / "pages", plan, outcomes)
            text = "".join(page.read_text(encoding="utf-8") for page in pages)
            table = Path(results) / "grades.csv"
            scores_csv.write(table, plan, outcomes)
            screen = Console(file=io.StringIO(), width=140)
            screen.print(report.scores_table(plan, outcomes))
            json.dumps(outcomes[0].as_json(plan), allow_nan=False)
            return {
                **outcomes[0].as_json(plan),
                "flags": _flags_of(outcomes[0]),
                "feedback": text,
                "csv": table.read_text(encoding="utf-8"),
                "terminal": screen.file.getvalue(),  # type: ignore[attr-defined]
            }

    weakref.finalize(grade, shutil.rmtree, stored, True)
    return grade


def _flags_of(outcome: Outcome) -> list[str]:
    """What the instructor is told besides the score."""
    return [flag for result in outcome.results.values() for flag in result.flags]


def _handed_in(attack: Attack, outside: Outside, scratch: Path, release: Path) -> Path:
    """The submission, made or copied, with what the attacker knows filled in."""
    target = scratch / attack.student
    script = attack.folder / "make.py"
    if script.exists():
        submission = runpy.run_path(str(script))["make"](target, release, outside.folder)
    else:
        shutil.copytree(
            attack.folder, target, ignore=shutil.ignore_patterns("__pycache__", "*.toml")
        )
        submission = None
    for path in target.rglob("*"):
        small = path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20
        if small and path.suffix in (".py", ".ipynb", ".txt"):
            path.write_text(outside.filled_in(path.read_text(encoding="utf-8")), encoding="utf-8")
    return submission or target


def _module(attack: Attack, result: dict[str, Any]) -> dict[str, Any]:
    module: dict[str, Any] = result.get("modules", {}).get(attack.module, {})
    return module


def _faults_of_result(attack: Attack, result: dict[str, Any]) -> list[str]:
    status = "rejected" if attack.expected == "rejected" else "graded"
    if result["status"] != status:
        return [f"{result['status']}, not {status}: {result.get('message', '')}"]
    faults = []
    module = _module(attack, result)
    percent = module.get("score", 0.0)
    if percent > max(attack.max_percent, attack.min_percent):
        faults.append(f"{attack.module} has {percent:g} %, at most {attack.max_percent:g} expected")
    if percent < attack.min_percent:
        faults.append(f"{attack.module} has {percent:g} %, not {attack.min_percent:g}")
    if attack.expected == "flagged" and not result.get("flags"):
        faults.append("the instructor is not told")
    if attack.expected == "no_points" and result["score"] > 0:
        faults.append(f"the submission has {result['score']:g} points")
    for test in module.get("tests", []):
        if test["name"] in attack.must_fail and test["earned"] > 0:
            faults.append(f"{test['name']} earned {test['earned']:g}")
    missing = set(attack.must_fail) - {test["name"] for test in module.get("tests", [])}
    faults += [f"there is no test {name}" for name in sorted(missing)]
    if result.get("late_seconds"):
        faults.append("a timestamp of the student's was believed")
    return faults


def _leaks(attack: Attack, outside: Outside, result: dict[str, Any]) -> list[str]:
    text = json.dumps(result)
    forbidden = [outside.token, *map(outside.filled_in, attack.forbidden)]
    faults = [f"{phrase!r} is in what came back" for phrase in forbidden if phrase in text]
    page = result.get("feedback", "")
    for row in csv.reader(io.StringIO(result.get("csv", ""))):
        faults += [f"{cell!r} in the CSV is a formula" for cell in row if cell[:1] in FORMULA]
    if controls := {char for char in result.get("terminal", "") if _obeyed(char)}:
        faults.append(f"the terminal gets {sorted(controls)!r}")
    faults += [
        f"{phrase!r} is in the page" for phrase in attack.forbidden_in_page if phrase in page
    ]
    if len(text) > 4 << 20:
        faults.append(f"what came back has {len(text) >> 20} MiB")
    return faults


def _obeyed(character: str) -> bool:
    """Whether a terminal might do something in place of showing it."""
    return character != "\n" and not character.isprintable()


def _left_behind(own: ProcessId, before: set[ProcessId]) -> list[str]:
    """Processes that the grading has left; they would be our children now."""
    end = time.monotonic() + 5.0
    while processes := [process for process in descendants(own) if process not in before]:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        processes = [process for process in processes if process.alive()]
        if not processes or time.monotonic() > end:
            break
        time.sleep(0.02)
    return [f"process {process.pid} is left" for process in processes]


def _adopt_orphans() -> None:
    """Become the parent of every process below whose own parent ends."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def main(arguments: list[str] | None = None) -> int:
    """Run attacks from the shell; 0 if all came to nothing, 1 if one did not."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args(arguments)
    attacks = load_attacks(names=options.names or None)
    outcomes = []
    graders = {name: full_grader(name) for name in {attack.assignment for attack in attacks}}
    with redteam_table.progress(len(attacks), hidden=options.json) as step:
        for attack in attacks:
            step(attack.name)
            outcomes.append(run_attack(attack, graders[attack.assignment]))
            if options.json:
                print(json.dumps(_fields(outcomes[-1])), flush=True)
    if not options.json:
        redteam_table.show(outcomes)
    return 0 if outcomes and all(outcome.ok for outcome in outcomes) else 1


def _fields(outcome: AttackOutcome) -> dict[str, Any]:
    """An outcome as programs read it."""
    return {
        "attack": outcome.attack.name,
        "title": outcome.attack.title,
        "expected": outcome.attack.expected,
        "ok": outcome.ok,
        "status": outcome.status,
        "percent": outcome.percent,
        "seconds": round(outcome.seconds, 2),
        "faults": list(outcome.faults),
    }


if __name__ == "__main__":
    sys.exit(main())
