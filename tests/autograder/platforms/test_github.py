"""GitHub: the workflow as GitHub documents it, the autograder as Classroom 50 does, both run."""

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

from autograder.course import assignment as plans
from autograder.course import edits
from autograder.course.course import Course
from autograder.platforms import classroom50, github
from autograder.publish import bundle

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
# github.com/foundation50/classroom50, wiki/Advanced-Autograding.md and what its collect_scores.py
# refuses, read on 2026-11-28: texts that mustn't be empty, and whole numbers.
RESULT_TEXTS = {"schema", "classroom", "assignment", "submission", "commit", "release", "review"}
RESULT = {*RESULT_TEXTS, "datetime", "score", "max-score", "tests"}
RESULT_TEST = {"test-name", "passed", "score", "max-score"}
RUNTIME = {"runs-on", "container", "python", "node", "java", "go", "rust", "apt"}
RUNNER = {  # what its runner tells an autograder
    "CLASSROOM": "parallel",
    "ASSIGNMENT": "a01-first-ranks",
    "SUBMISSION_TAG": "submit/2026-11-28T10-00-00Z-a1b2c3d",
    "COMMIT_URL": "https://github.example/commit/a1b2c3d",
    "RELEASE_URL": "https://github.example/releases/tag/1",
    "REVIEW_URL": "",
}


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


def test_what_nothing_reads_any_more_is_not_made(repository: Path) -> None:
    """GitHub Classroom, which read autograding.json, ended on 2026-08-28."""
    assert not (repository / ".github" / "classroom").exists()


@pytest.fixture(scope="module")
def classroom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classroom50") / NAME
    return classroom50.make(plans.load(NAME), Course.here(), folder)


def test_classroom50_gets_a_template_without_a_second_workflow(classroom: Path) -> None:
    assert (classroom / "template" / "assignments" / NAME / "checks" / "test_ping.py").is_file()
    assert not (classroom / "template" / ".github").exists()
    assert not bundle.leaks(Course.here(), classroom)
    own = classroom / "autograders" / "a01-first-ranks"
    assert sorted(path.name for path in own.iterdir()) == [
        "autograder.py", "runtime.json", "settings.json",
    ]  # fmt: skip
    assert json.loads((own / "runtime.json").read_text()).keys() <= RUNTIME


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A fresh Python with pip and the libraries, and the environment that a step begins with."""
    folder = tmp_path_factory.mktemp("runner")
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
    repository: Path, workflow: dict[str, Any], runner: dict[str, str], tmp_path: Path
) -> None:
    [job] = workflow["jobs"].values()
    assert workflow["defaults"] == {"run": {"shell": "bash"}}
    checkout = tmp_path / "checkout"
    shutil.copytree(repository, checkout, symlinks=True)
    stub = run_steps(job, checkout, runner)
    assert [name for name, _ in stub] == [
        "Install the kit", "Public tests", "Show them on the run's page",
    ]  # fmt: skip
    assert [status for _, status in stub] == [0, 1, 0]
    summary = Path(runner["GITHUB_STEP_SUMMARY"])
    assert "ping" in summary.read_text()
    summary.unlink()
    own = checkout / "assignments" / NAME
    for module in plans.load(NAME).modules:
        shutil.copy(Course.here().solution(NAME) / module.filename, own)
    told = run_steps(job, checkout, runner)
    assert [status for _, status in told] == [0, 0, 0]  # the notebook is still as released
    assert "ping: 100 of 100 public points" in summary.read_text()
    (own / f"{NAME}.ipynb").unlink()  # who works in files alone
    tests = job | {"steps": [each for each in job["steps"] if each.get("name") == "Public tests"]}
    assert run_steps(tests, checkout, runner) == [("Public tests", 0)]
    assert "ping: 100 of 100 public points" in (own / "check.txt").read_text()


@pytest.mark.slow
def test_classroom50_gets_the_public_points_of_one_run(
    classroom: Path, runner: dict[str, str], tmp_path: Path
) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(classroom / "template", checkout, symlinks=True)
    own = checkout / "assignments" / NAME
    (own / f"{NAME}.ipynb").unlink()  # who works in files alone
    solution = Course.here().solution(NAME)
    shutil.copy(solution / "ping.py", own)
    wrong = next(each for each in edits.variants(solution, ["mend"]) if each.fails)
    (own / "mend.py").write_text(wrong.source)
    env = runner | RUNNER
    python = shutil.which("python", path=env["PATH"])
    autograder = classroom / "autograders" / "a01-first-ranks" / "autograder.py"
    done = subprocess.run(
        [str(python), str(autograder)], cwd=checkout, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((checkout / "result.json").read_text())
    assert done.stdout.count("Step 1 of 1: the kit") == 1
    check_result(result)
    weights = {module.name: module.weight for module in plans.load(NAME).modules}
    scores = {test["test-name"]: test for test in result["tests"]}
    assert {name: test["max-score"] for name, test in scores.items()} == weights
    assert (scores["ping"]["score"], scores["ping"]["passed"]) == (weights["ping"], True)
    assert 0 < scores["mend"]["score"] < weights["mend"] and not scores["mend"]["passed"]
    assert scores["where"]["score"] == 0
    page = (checkout / "release-body.md").read_text()
    assert page.startswith(f"### {result['score']} of {result['max-score']} public points\n")
    (checkout / "install.py").write_text("raise SystemExit(1)\n")
    broken = subprocess.run([str(python), str(autograder)], cwd=checkout, env=env, text=True,
                            capture_output=True)  # fmt: skip
    assert broken.returncode == 1  # its runner then reports an error, and no points
    assert "::error::The kit could not be installed" in broken.stdout


def check_result(result: dict[str, Any]) -> None:
    """What Classroom 50 refuses to collect."""
    assert result.keys() == RESULT
    assert result["schema"] == "classroom50/result/v1"
    assert result["submission"].startswith("submit/")
    assert all(isinstance(result[name], str) and result[name] for name in RESULT_TEXTS)
    for entry in (result, *result["tests"]):
        assert type(entry["score"]) is int and type(entry["max-score"]) is int
        assert 0 <= entry["score"] <= entry["max-score"]
    for test in result["tests"]:
        assert test.keys() == RESULT_TEST and type(test["passed"]) is bool
    assert result["score"] == sum(test["score"] for test in result["tests"])
