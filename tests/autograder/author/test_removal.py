"""A module goes from an assignment everywhere at once; a build finds what names a stranger."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from autograder.author import cuts
from autograder.commands import cli
from autograder.course import assignment as plans
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from autograder.grade import grading
from autograder.grade.suite import collected
from autograder.publish import consistency
from ringside import output_folder
from tests.autograder.conftest import KIT


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    """A fork with two of the kit's assignments in it."""
    for name in ("a03_allreduce", "a05_ddp"):
        ignored = shutil.ignore_patterns("__pycache__")
        place = tmp_path / "kit" / "solutions" / name
        shutil.copytree(KIT / "solutions" / name, place, ignore=ignored)
    shutil.copy(KIT / "nbgrader_config.py", tmp_path / "kit")
    monkeypatch.setenv("RINGSIDE_KIT", str(tmp_path / "kit"))
    monkeypatch.setenv("RINGSIDE_COURSE", str(tmp_path / "course"))
    (tmp_path / "course").mkdir()
    return Course.here()


@pytest.mark.parametrize(
    ("name", "module", "points", "left"),
    [
        ("a03_allreduce", "tree", (110, 8), "cost"),  # extra
        ("a05_ddp", "overlap", (75, 0), "buckets"),  # core; a run and a measurement are of it
    ],
)
def test_a_module_goes_from_all_places_and_what_goes_is_kept(
    kit: Course,
    name: str,
    module: str,
    points: tuple[float, float],
    left: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    solution = kit.solution(name)
    before = output_folder.contents(solution)
    assert cli.main(["remove", name, module, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "nothing is written yet" in said and output_folder.contents(solution) == before
    assert cli.main(["remove", name, module]) == 0
    assert f"moved    checks/test_{module}.py" in capsys.readouterr().out
    after = output_folder.contents(solution)
    kept = output_folder.contents(kit.build / "kept" / "removed" / f"{name}-{module}")
    changed = {file for file, digest in before.items() if after.get(file) != digest}
    assert kept == {file: before[file] for file in changed}
    assert not after.keys() - before.keys()

    plan = plans.load(name, kit)
    assert (plan.max_score, plan.extra_points) == points
    assert not [each for each in (*plan.runs, *plan.measured) if each.module == module]
    assert consistency.faults(plan, kit) == []
    assert {test.module for test in collected.of_assignment(plan, kit)} == {
        spec.name for spec in plan.modules
    }
    # The hidden run still knows the cases of the others.
    with grading.staged(plan, grading.sources_in(plan, solution)) as stage:
        result = grading.run_suite(plan, left, stage, secret="s", sandbox=False)
    assert (result.error, result.score) == (None, 100)
    assert cli.main(["build", name]) == 0
    notebook = (kit.release(name) / plan.notebook).read_text()
    assert f"{left}.py" in notebook and f"writefile {module}.py" not in notebook


def test_what_would_not_fit_together_changes_nothing_and_names_the_places(
    kit: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    before = output_folder.contents(kit.kit)
    assert cli.main(["remove", "a03_allreduce", "ring_torch"]) == 2  # it is imported
    said = capsys.readouterr().err
    assert "checks/inside_torch.py" in said
    assert cli.main(["remove", "a03_allreduce", "rnig"]) == 2
    assert output_folder.contents(kit.kit) == before


def test_a_build_refuses_what_names_a_module_that_is_not_there(
    kit: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = kit.solution("a03_allreduce") / "assignment.toml"
    toml.write_text(cuts.without_tables(toml.read_text(), "tree"))
    for command in ("build", "verify"):
        assert cli.main([command, "a03_allreduce"]) == 2
        said = capsys.readouterr().err
        for place in (
            "checks/test_tree.py", "verify/tree.diff",
            "# {{module tree}}", "# {{check tree}}", "`autograder remove ASSIGNMENT MODULE`",
        ):  # fmt: skip
            assert place in said
    solution = kit.solution("a03_allreduce")
    for path in (*solution.glob("checks/test_tree.py"), *solution.glob("*/tree*.*")):
        path.unlink(missing_ok=True)
    notebook = solution / "notebook.py"
    notebook.write_text(cuts.without_cells(notebook.read_text(), "tree", set()))
    assert cli.main(["build", "a03_allreduce"]) == 2
    said = capsys.readouterr().err
    assert "The tests of a03_allreduce can't be read" in said and "test_tree" in said
    assert not kit.release("a03_allreduce").exists()


def test_a_suite_that_is_not_worth_100_points_is_an_error(kit: Course) -> None:
    path = kit.solution("a03_allreduce") / "checks" / "requirements.toml"
    text = path.read_text()
    assert consistency.faults(plans.load("a03_allreduce", kit), kit) == []
    path.write_text(re.sub(r', (\d+), "', lambda found: f', {int(found[1]) + 5}, "', text, count=1))
    with pytest.raises(AssignmentError) as caught:
        consistency.check(plans.load("a03_allreduce", kit), kit)
    said = str(caught.value)
    assert f"{path}, [" in said and "are worth 105 points, not 100" in said
