"""What is told to the instructor alone: a sentence in the report that changes no score."""

from __future__ import annotations

import io
import json
from pathlib import Path
from unittest.mock import Mock

from rich.console import Console

from autograder.course import assignment as assignments
from autograder.grade.outcome import Outcome
from autograder.grade.suite.job import SuiteJob
from autograder.grade.suite.plugin import Recorder
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.gradebook.report.feedback import page_of
from autograder.gradebook.report.rendering import render
from autograder.gradebook.report.report import print_report
from autograder.gradebook.report.summary import summarise


def test_flag_reaches_the_report_and_not_the_student(tmp_path: Path) -> None:
    plan = assignments.load("a03_allreduce")
    job = SuiteJob("star", str(tmp_path), str(tmp_path / "record.json"), "s", "0", False)
    recorder = Recorder(job)
    recorder.record.ended_by_clock = True
    recorder.record.tests.append(TestResult("test_star", "values", 100.0, 100.0))
    recorder.pytest_sessionfinish(Mock(testscollected=1))
    result = ModuleResult.from_json(json.loads(Path(job.record).read_text()))
    (flag,) = result.flags
    outcome = Outcome("ann", "graded", results={"star": result}, modules={"star": ""})
    assert outcome.as_json(plan)["flags"] == [f"star: {flag}"] and "ended by the clock" in flag
    assert result.score == 100
    assert "ended by the clock" not in render(page_of(plan, outcome))
    screen = Console(file=io.StringIO(), width=400)
    print_report(screen, summarise(plan, [outcome], [], {}))
    assert "ann: flagged: star: It was ended by the clock" in screen.file.getvalue()
