"""Run the hidden suite of one module, in a pytest process of its own.

It is trusted, and runs outside the sandbox; a module that breaks its process, or makes it time
out, takes nothing from the others::

    sources {ring: text, ...}  ->  stage/ring.py, ... + supplied files  ->  pytest test_ring.py
                               ->  record.json  ->  ModuleResult
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from autograder import scratch
from autograder.course import assignment as assignments
from autograder.course.assignment import CHECKS, Assignment
from autograder.course.course import Course
from autograder.course.limits import Limits
from autograder.grade.suite import nursery as suite_nursery
from autograder.grade.suite.job import SuiteJob
from autograder.grade.suite.result import ModuleResult
from autograder.imports import imported
from autograder.sandbox.warm_sandbox import kinds_of

PYTEST_INI = Path(__file__).resolve().parent / "suite" / "pytest.ini"


def grade_module(
    assignment: str,
    sources: Mapping[str, str],
    module: str,
    *,
    secret: str,
    sandbox: bool = True,
    limits: Limits | None = None,
) -> ModuleResult:
    """Run the hidden suite of one module.

    Args:
        assignment: its name, like ``"a03_allreduce"``.
        sources: name -> text of the modules that were handed in; see ``sources_in`` for a folder.
        module: which of them is graded; where it isn't there, its result says so.
        secret: the course's; hidden inputs are drawn from it.
        sandbox: False runs submissions with the rights of this account.
        limits: what it may use; None for the assignment's.
    """
    if module not in sources:
        return ModuleResult.missing(module)
    plan = assignments.load(assignment)
    with staged(plan, sources) as stage:
        result = run_suite(plan, module, stage, secret=secret, sandbox=sandbox, limits=limits)
    if result.error:
        result.error = f"{plan.name}/{module}: {result.error}"
    return result


@contextlib.contextmanager
def staged(plan: Assignment, sources: Mapping[str, str]) -> Iterator[Path]:
    """A fresh folder with these modules, as far as they are planned, and our supplied files.

    The suite reads modules here, and nowhere else are they written: a sandbox takes its copy from
    here, since another user reads that, and since ranks must not see the folder of the suite.
    """
    with scratch.fresh("suite-") as outer:
        stage = outer / "modules"
        stage.mkdir()
        for spec in plan.modules:
            if spec.name in sources:
                (stage / spec.filename).write_text(sources[spec.name], encoding="utf-8")
        # Last: a module doesn't take the place of what is supplied.
        scratch.lay(plan.in_ranks, Course.here().solution(plan.name), stage)
        yield stage


def sources_in(plan: Assignment, folder: Path) -> dict[str, str]:
    """The planned modules in a folder that is trusted; regular files only, no links."""
    paths = {spec.name: folder / spec.filename for spec in plan.modules}
    return {
        name: path.read_bytes().decode()
        for name, path in paths.items()
        if path.is_file() and not path.is_symlink()
    }


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
) -> ModuleResult:
    """What the suite says of one module in a stage; where it leaves no record, the error is ours.

    Args:
        stage: a folder as ``staged`` makes it.
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
            content = json.loads(Path(job.record).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            error = f"{module}: the suite left no record.\n{output[-1500:]}"
            return ModuleResult(module, error=error)
    return ModuleResult.from_json(content)


def _sources(plan: Assignment, module: str, stage: Path) -> dict[str, bytes]:
    """The module, and its author's modules that it imports."""
    paths = {spec.name: stage / spec.filename for spec in plan.modules}
    texts = {name: path.read_bytes() for name, path in paths.items() if path.is_file()}
    names = imported(module, {name: text.decode("latin-1") for name, text in texts.items()})
    return {name: texts[name] for name in names}


def _hash(module: str, sources: dict[str, bytes]) -> str:
    """What hidden inputs are drawn from: the module, and its author's modules that it imports.

    By its own text alone, its inputs would stay where another module is changed: what the first
    one tells of them in an error, the other could know the next time.
    """
    digest = hashlib.sha256(sources[module])
    for name in sorted(sources.keys() - {module}):
        digest.update(hashlib.sha256(sources[name]).digest())
    return digest.hexdigest()


def suite_of(course: Course, assignment: str, module: str) -> Path:
    """The file that has a module's tests."""
    return course.solution(assignment) / CHECKS / f"test_{module}.py"


def _run_pytest(assignment: str, job: SuiteJob, outer: Path) -> str:
    suite = suite_of(Course.here(), assignment, job.module)
    job_path = outer / "job.json"
    job_path.touch(mode=0o600)  # it holds the course's secret
    job_path.write_text(json.dumps(asdict(job)), encoding="utf-8")
    arguments = ["--job", str(job_path), "-c", str(PYTEST_INI), str(suite)]
    return suite_nursery.run(arguments, outer, job.bounds.suite_s, job.nurseries)
