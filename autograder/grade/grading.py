"""Run an assignment's hidden suite over a folder of modules.

One pytest process a module, trusted, outside the sandbox; a module that breaks its process, or
makes it time out, takes nothing from the others::

    folder/ring.py, star.py, ...  ->  stage/ + supplied files  ->  pytest test_ring.py  ->  record
                                                                   pytest test_star.py  ->  record
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autograder import scratch
from autograder.course import assignment as assignments
from autograder.course.assignment import SUITE_POINTS, Assignment
from autograder.course.course import Course
from autograder.course.limits import Limits
from autograder.grade.suite import nursery as suite_nursery
from autograder.grade.suite.job import SuiteJob
from autograder.imports import imported
from autograder.sandbox.warm_sandbox import kinds_of

PYTEST_INI = Path(__file__).resolve().parent / "suite" / "pytest.ini"


def grade_modules(
    assignment: str,
    folder: Path,
    *,
    secret: str,
    sandbox: bool = True,
    modules: Iterable[str] | None = None,
    jobs: int | None = None,
    limits: Limits | None = None,
) -> dict[str, Any]:
    """Run the suite on every planned module of a folder.

    Args:
        assignment: its name, like ``"a03_allreduce"``.
        folder: holds some of the modules; others score 0 and say so.
        secret: the course's; hidden inputs are drawn from it.
        sandbox: False runs submissions with the rights of this account.
        modules: only these, None for all.
        jobs: modules graded at once; None for as many as there are cores, 2 at most.
        limits: what it may use; None for the assignment's.

    Returns:
        ``{"modules": {name: {"score", "max_score", "tests", "timeline_svg", "flags"}}, "sandbox",
        "counts", "error"}``; an error is ours, and then no score counts. Flags are there where
        something doesn't fit; they are for the instructor, and change no score.
    """
    plan = assignments.load(assignment)
    wanted = [spec.name for spec in plan.modules if modules is None or spec.name in set(modules)]
    with staged(plan, folder) as stage:
        present = [name for name in wanted if (stage / f"{name}.py").is_file()]
        workers = jobs or min(2, len(os.sched_getaffinity(0)))
        with ThreadPoolExecutor(max_workers=workers) as pool:
            order = present[::-1]  # the plan's later modules take longest: begin with them
            records = pool.map(
                lambda name: run_suite(
                    plan, name, stage, secret=secret, sandbox=sandbox, limits=limits
                ),
                order,
            )
            by_name = dict(zip(order, records, strict=True))
    return _report(plan, wanted, by_name)


@contextlib.contextmanager
def staged(plan: Assignment, folder: Path) -> Iterator[Path]:
    """A fresh folder with the planned modules, regular files only, and our supplied files."""
    with scratch.fresh("suite-") as outer:
        stage = outer / "modules"
        stage.mkdir()
        for spec in plan.modules:
            path = folder / spec.filename
            if path.is_file() and not path.is_symlink():
                shutil.copyfile(path, stage / spec.filename)
        for name in plan.supplied:
            shutil.copyfile(Course.here().solution(plan.name) / name, stage / name)
        yield stage


def run_suite(
    plan: Assignment,
    module: str,
    stage: Path,
    *,
    secret: str,
    sandbox: bool,
    limits: Limits | None = None,
    about: str = "",
    warm: bool = True,
) -> dict[str, Any]:
    """One module's record; a record that is not there is an error of ours.

    Args:
        limits: what it may use; None for the assignment's.
        about: verification asks about one test; see ``SuiteJob``.
        warm: whether libraries may be imported before, once for all; see ``warm_sandbox``.
    """
    sources = _sources(plan, module, stage)
    with scratch.fresh("record-") as outer:
        job = SuiteJob(
            module=module,
            folder=str(stage),
            record=str(outer / "record.json"),
            secret=secret,
            module_hash=_hash(module, sources),
            sandbox=sandbox,
            limits=asdict(limits or plan.limits),
            about=about,
            nurseries=kinds_of(module, sources) if warm and sandbox else (),
        )
        output = _run_pytest(plan.name, job, outer)
        try:
            record: dict[str, Any] = json.loads(Path(job.record).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {"error": f"{module}: the suite left no record.\n{output[-1500:]}"}
        return record


def _sources(plan: Assignment, module: str, stage: Path) -> dict[str, bytes]:
    """The module, and its author's modules that it imports."""
    paths = {spec.name: stage / spec.filename for spec in plan.modules}
    texts = {name: path.read_bytes() for name, path in paths.items() if path.is_file()}
    found = imported(module, {name: text.decode("latin-1") for name, text in texts.items()})
    return {name: texts[name] for name in found}


def _hash(module: str, sources: dict[str, bytes]) -> str:
    """What hidden inputs are drawn from: the module, and its author's modules that it imports.

    By its own text alone, its inputs would stay where another module is changed: what the first
    one tells of them in an error, the other could know the next time.
    """
    digest = hashlib.sha256(sources[module])
    for name in sorted(sources.keys() - {module}):
        digest.update(hashlib.sha256(sources[name]).digest())
    return digest.hexdigest()


def _run_pytest(assignment: str, job: SuiteJob, outer: Path) -> str:
    suite = Course.here().hidden(assignment) / f"test_{job.module}.py"
    job_path = outer / "job.json"
    job_path.touch(mode=0o600)  # it holds the course's secret
    job_path.write_text(json.dumps(asdict(job)), encoding="utf-8")
    arguments = ["--job", str(job_path), "-c", str(PYTEST_INI), str(suite)]
    return suite_nursery.run(arguments, outer, job.bounds.suite_s, job.nurseries)


def _report(
    plan: Assignment, wanted: list[str], records: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    report: dict[str, Any] = {
        "modules": {},
        "sandbox": "",
        "counts": {},
        "error": None,
    }
    for name in wanted:
        record = records.get(name)
        if record is None:
            report["modules"][name] = _missing(name)
            continue
        tests = record.get("tests", [])
        earned = sum(test["earned"] for test in tests)
        report["modules"][name] = {
            "score": round(min(earned, SUITE_POINTS), 4),
            "max_score": SUITE_POINTS,
            "tests": tests,
            "timeline_svg": record.get("timeline_svg"),
            **({"flags": record["flags"]} if record.get("flags") else {}),
            **({"ended_by_clock": True} if record.get("ended_by_clock") else {}),
        }
        report["sandbox"] = record.get("sandbox") or report["sandbox"]
        report["counts"][name] = record.get("counts", [])
        if record.get("error") and not report["error"]:
            report["error"] = f"{plan.name}/{name}: {record['error']}"
    return report


def _missing(name: str) -> dict[str, Any]:
    sentence = f"{name}.py is not there: write the cell that begins with %%module {name}.py."
    test = {"name": "module_is_there", "kind": "values", "points": SUITE_POINTS, "earned": 0.0}
    test |= {"message": sentence, "detail": "", "seconds": 0.0, "reproduce": ""}
    return {"score": 0.0, "max_score": SUITE_POINTS, "tests": [test], "timeline_svg": None}
