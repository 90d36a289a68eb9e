"""The repository for GitHub: its workflow as GitHub documents it, and its steps run in order."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml

from autograder.authoring import bundle
from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.platforms import github

NAME = "a01_first_ranks"
# docs.github.com, "Workflow syntax for GitHub Actions": the keys of each level that we may use.
TOP = {"name", "run-name", "on", "permissions", "env", "defaults", "concurrency", "jobs"}
JOB = {
    *("name", "permissions", "needs", "if", "runs-on", "environment", "concurrency", "outputs"),
    *("env", "defaults", "steps", "timeout-minutes", "strategy", "continue-on-error", "container"),
    *("services", "uses", "with", "secrets"),
}
STEP = {
    *("id", "if", "name", "uses", "run", "working-directory", "shell", "with", "env"),
    *("continue-on-error", "timeout-minutes"),
}
CLASSROOM = {"name", "setup", "run", "input", "output", "comparison", "timeout", "points"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("github") / NAME
    return github.make(plans.load(NAME), Course.here(), folder)


@pytest.fixture(scope="module")
def workflow(repository: Path) -> dict[str, Any]:
    [path] = (repository / ".github" / "workflows").iterdir()
    assert path.name == f"{NAME}.yml"
    return yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # where `on` is a word


def test_the_workflow_has_the_keys_that_github_documents(workflow: dict[str, Any]) -> None:
    assert workflow.keys() <= TOP
    assert {"push", "workflow_dispatch"} == workflow["on"].keys()
    assert workflow["permissions"] == {"contents": "read"}  # it writes nothing anywhere
    [job] = workflow["jobs"].values()
    assert job.keys() <= JOB
    assert job["runs-on"] == "ubuntu-latest"
    assert int(job["timeout-minutes"]) <= 360
    for step in job["steps"]:
        assert step.keys() <= STEP
        assert ("uses" in step) != ("run" in step)
        assert "@" in step.get("uses", "@")


def test_nothing_of_the_hidden_suite_is_in_the_repository(repository: Path) -> None:
    assert not bundle.leaks(Course.here(), repository)
    assert not (repository / "solutions").exists()
    assert not (repository / "autograder").exists()


def test_autograding_json_is_as_github_classroom_reads_it(repository: Path) -> None:
    text = (repository / ".github" / "classroom" / "autograding.json").read_text()
    tests = json.loads(text)["tests"]
    plan = plans.load(NAME)
    assert [test["points"] for test in tests] == [m.weight for m in plan.modules if not m.extra]
    for test in tests:
        assert test.keys() == CLASSROOM
        assert test["comparison"] in ("included", "exact", "regex")
        assert isinstance(test["points"], int) and test["timeout"] > 0


def runner(folder: Path) -> dict[str, str]:
    """A fresh Python with pip and the libraries, and the environment that a step begins with."""
    venv.create(folder / "python", with_pip=True)
    inside = sysconfig.get_path("purelib", vars={"base": str(folder / "python")})
    # The libraries come from the tests' own environment, and not the kit.
    (Path(inside) / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for file in importlib.metadata.files("mpich") or ():  # it has its place beside the packages
        own = Path(os.path.normpath(file.locate()))
        other = folder / "python" / own.relative_to(sys.prefix)
        if not other.exists() and own.is_file() and "site-packages" not in own.parts:
            other.parent.mkdir(parents=True, exist_ok=True)
            other.symlink_to(own)
    home = folder / "home"
    home.mkdir()
    return {
        "PATH": f"{folder / 'python' / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        **{name: os.environ[name] for name in os.environ if name.startswith("PIP_")},
    }


def run_steps(job: dict[str, Any], checkout: Path, env: dict[str, str]) -> list[tuple[str, int]]:
    """The run lines in order, as the runner runs them; after a failure only `if: always()`."""
    ended: list[tuple[str, int]] = []
    for step in job["steps"]:
        failed = any(status for _, status in ended)
        if "run" not in step or (failed and step.get("if") != "always()"):
            continue
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=checkout / step.get("working-directory", "."),
            env=env | step.get("env", {}),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
        )  # fmt: skip
        print(step["name"], done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        ended.append((step["name"], done.returncode))
    return ended


@pytest.mark.slow
def test_the_steps_run_and_tell_a_solution_from_a_stub(
    repository: Path, workflow: dict[str, Any], tmp_path: Path
) -> None:
    [job] = workflow["jobs"].values()
    assert workflow["defaults"] == {"run": {"shell": "bash"}}
    checkout = tmp_path / "checkout"
    shutil.copytree(repository, checkout, symlinks=True)
    env = runner(tmp_path)
    stub = run_steps(job, checkout, env)
    assert [name for name, _ in stub] == [
        "Install the kit", "Public tests", "Show them on the run's page",
    ]  # fmt: skip
    assert [status for _, status in stub] == [0, 1, 0]
    summary = tmp_path / "summary.md"
    assert "ping" in summary.read_text()
    summary.unlink()
    own = checkout / "assignments" / NAME
    for module in plans.load(NAME).modules:
        shutil.copy(Course.here().solution(NAME) / module.filename, own)
    told = run_steps(job, checkout, env)
    assert [status for _, status in told] == [0, 0, 0]  # the notebook is still as released
    assert "ping: 100 of 100 public points" in summary.read_text()
    (own / f"{NAME}.ipynb").unlink()  # who works in files alone
    tests = job | {"steps": [each for each in job["steps"] if each.get("name") == "Public tests"]}
    assert run_steps(tests, checkout, env) == [("Public tests", 0)]
    assert "ping: 100 of 100 public points" in (own / "check.txt").read_text()
    [first, *_] = json.loads((checkout / ".github/classroom/autograding.json").read_text())["tests"]
    done = subprocess.run(["bash", "-c", first["run"]], cwd=checkout, env=env)
    assert done.returncode == 0
