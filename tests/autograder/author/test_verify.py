"""The suites themselves, tested: a sample of what `autograder verify` promises, of every unit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from autograder.author.verify.verify import sample, subjects
from autograder.course import assignment as plans
from tests.autograder.conftest import KIT

GROUPS = 5  # units that share a process, and so the libraries that it imports for all of them
# Where tests run in parallel already, one submission at a time keeps to the worker's core.
JOBS = "1" if "PYTEST_XDIST_WORKER" in os.environ else "2"


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize("first", range(GROUPS))
def test_the_suites_of_a_unit_tell_right_from_wrong(first: int, tmp_path: Path) -> None:
    """Reference and right form full, stub zero, the wrong one caught by the test that it names.

    `make verify` takes all wrong submissions and right forms, and keeps a record of them.
    """
    names = plans.known()[first::GROUPS]
    found = tmp_path / "findings.json"
    words = ["verify", *names, "--sample", "--no-red-team", "--jobs", JOBS, "--json", str(found)]
    done = subprocess.run(
        [sys.executable, "-m", "autograder", *words],
        cwd=KIT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    reports = json.loads(found.read_text())
    assert [report["assignment"] for report in reports] == names
    for report in reports:
        seen = Counter((finding["module"], finding["kind"]) for finding in report["findings"])
        modules = [module.name for module in plans.load(report["assignment"]).modules]
        expected = {(module, kind): 1 for module in modules for kind in ("reference", "wrong")}
        assert seen == expected | {(modules[0], kind): 1 for kind in ("stub", "right")}
        for finding in report["findings"]:
            if finding["kind"] == "wrong":
                assert finding["caught_by"] in finding["failed"]


def test_a_sample_is_the_first_of_a_kind() -> None:
    every = subjects(plans.load("a03_allreduce"))
    chosen = [(subject.module, subject.kind, subject.name) for subject in sample(every)]
    assert [(kind, name) for module, kind, name in chosen if module == "tree"] == [
        ("reference", "tree"), ("wrong", "tree__adds_in_the_input")
    ]  # fmt: skip
    assert [(kind, name) for module, kind, name in chosen if module == "star"] == [
        ("reference", "star"), ("stub", "star"),
        ("right", "star__any_source"), ("wrong", "star__barrier_at_the_end"),
    ]  # fmt: skip
