"""`autograder platform`, and what its autograders know before anything is graded."""

from __future__ import annotations

import datetime
import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.collect.submissions import PathError
from autograder.commands.cli import main
from autograder.course import assignment as plans
from autograder.course import limits
from autograder.course.assignment import Need
from autograder.course.course import Course
from autograder.grade.outcome import Outcome
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.platforms import container, reality_points, sizes
from autograder.platforms.gradescope import metadata
from autograder.platforms.settings import Settings
from tests.autograder.platforms import places
from tests.autograder.platforms.measure import with_need

UTC = datetime.UTC


def test_each_assignment_is_measured_and_told_what_to_choose() -> None:
    for plan in map(plans.load, plans.known()):
        advice = sizes.advice(plan)
        assert plan.container is not None, f"{plan.name}: nobody has measured it"
        assert advice.container in sizes.CONTAINERS
        assert advice.container.memory_mb > plan.container.memory_mb > 100
        assert 10 <= advice.minutes <= 40
        assert plan.container.cpu_s / min(advice.container.cpus, 1) < 60 * advice.minutes


def test_the_page_has_the_table_of_sizes() -> None:
    page = (Course.here().kit / "docs" / "platforms.md").read_text()
    assert sizes.table(map(plans.load, plans.known())) in page


def test_the_advice_names_the_default_where_that_is_enough() -> None:
    def advice(need: Need | None) -> str:
        return str(sizes.advice(replace(plans.load("a03_allreduce"), name="it", container=need)))

    assert advice(Need(512, 40.0)) == (
        "it: 512 MB, 40 s of CPU time: the default container is enough "
        "(0.5 CPU, 768 MB, 10 minutes)"
    )
    assert advice(Need(900, 40.0)).endswith("choose 1 CPU, 1.5 GB, 10 minutes")
    assert advice(Need(512, 200.0)).endswith("choose 0.5 CPU, 768 MB, 20 minutes")
    assert advice(None).startswith("it: nobody has measured it; choose 4 CPU, 6 GB")


def test_what_is_measured_is_written_into_the_unit_and_nothing_else_is_changed() -> None:
    text = (Course.here().solution("a03_allreduce") / "assignment.toml").read_text()
    other = with_need(text, Need(1264, 77.4))
    assert tomllib.loads(other)["container"] == {"memory_mb": 1264, "cpu_s": 77}
    before, after = tomllib.loads(text), tomllib.loads(other)
    assert before.pop("container") != after.pop("container") and before == after
    assert with_need(other, Need(**tomllib.loads(text)["container"])) == text
    never = 'title = "It"\n\n[[module]]\nname = "one"\n'
    assert with_need(never, Need(512, 3)) == (
        'title = "It"\n\n[container]\nmemory_mb = 512\ncpu_s = 3\n\n[[module]]\nname = "one"\n'
    )


def test_points_of_real_ranks_are_those_that_the_suites_give() -> None:
    plan = plans.load("a03_allreduce")
    found = reality_points.of_assignment(plan, Course.here())
    assert list(found) == [module.name for module in plan.modules] and found["cost"] == 0
    assert all(1 < points < 10 for name, points in found.items() if name != "cost")


def test_points_of_real_ranks_leave_the_maximum_also_of_a_module_that_is_missing(
    monkeypatch,
) -> None:
    monkeypatch.setattr(container, "best_tier", lambda: "Landlock")
    plan = plans.load("a03_allreduce")
    tests = [
        TestResult("test_sum", "values", 96.0, 90.0),
        TestResult("test_real_mpi", "reality", 4.0, 4.0),
    ]
    results = {"ring": ModuleResult("ring", tests), "star": ModuleResult.missing("star")}
    outcome = Outcome("ada", "graded", results=results)
    assert results["ring"].score == 94.0
    settings = Settings("a03_allreduce", 10, 512, {"ring": 4.0, "star": 4.0})
    assert container.without_reality(plan, outcome, settings) == 0.04 * (35 + 10)
    assert results["ring"].score == 90.0
    assert (tests[1].points, tests[1].earned) == (0.0, 0.0)
    assert results["star"].tests[0].points == 96.0


def test_a_submission_gets_the_memory_that_the_container_has_beside_the_grader(
    tmp_path: Path, monkeypatch
) -> None:
    course = Course(kit=Course.here().kit, root=tmp_path, given_secret="s")
    (tmp_path / "limits.toml").write_text("cpu_s = 90.0\n[a03_allreduce]\nprocesses = 99\n")
    settings = Settings("a03_allreduce", 10, 700, {})
    monkeypatch.setattr(container, "memory_bytes", lambda: 768 << 20)
    container.leave_memory(settings, course)
    now = limits.load("a03_allreduce", course)
    assert (now.cpu_s, now.processes) == (90.0, 99)
    assert now.memory_bytes >> 20 == 768 - container.GRADER_MB["memory_mib"]
    assert now.memory_torch_bytes >> 20 == 768 - container.GRADER_MB["memory_torch_mib"]
    monkeypatch.setattr(container, "memory_bytes", lambda: 699 << 20)
    with pytest.raises(container.NoGrade, match=r"has 699 MB, and the reference .* takes 700 MB"):
        container.leave_memory(settings, course)


def test_the_date_that_counts_is_the_latest_of_the_authors() -> None:
    told = places.metadata(
        created_at="2026-03-04T00:59:00+01:00",
        ada="2026-03-01T23:59:00.000000+01:00",
        bob="2026-03-02T23:59:00.000000+01:00",
    )
    handed = metadata.of_json(json.dumps(told).encode(), "metadata")
    assert [author.student for author in handed.authors] == ["ada@uni.example", "bob@uni.example"]
    assert handed.due == datetime.datetime(2026, 3, 2, 22, 59, tzinfo=UTC)
    assert handed.received == datetime.datetime(2026, 3, 3, 23, 59, tzinfo=UTC)
    for user in told["users"]:
        del user["assignment"]  # as older containers have it
    handed = metadata.of_json(json.dumps(told).encode(), "metadata")
    assert handed.due == datetime.datetime(2026, 3, 1, 22, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"{", "metadata can't be read"),
        (b'{"users": []}', "names nobody who handed in"),
        (b'{"users": [{"email": "a@b"}], "created_at": "soon"}', "created_at is 'soon'"),
    ],
)
def test_metadata_that_are_damaged_are_named(text: bytes, says: str) -> None:
    with pytest.raises(PathError, match=says):
        metadata.of_json(text, "metadata")


def test_prairielearn_wants_an_image(capsys) -> None:
    assert main(["platform", "prairielearn", "a03_allreduce"]) == 2
    assert "--image, as NAME/ringside:VERSION" in capsys.readouterr().err


def test_the_command_prints_the_maximum_and_the_container(tmp_path: Path, capsys) -> None:
    path = tmp_path / "autograder.zip"
    assert main(["platform", "gradescope", "a01_first_ranks", "--to", str(path)]) == 0
    said = capsys.readouterr().out.splitlines()
    plan = plans.load("a01_first_ranks")
    real = reality_points.of_assignment(plan, Course.here())  # of each module's 100
    lacks = round(sum(module.weight * real[module.name] for module in plan.modules) / 100, 4)
    assert said[0].endswith(str(path))
    assert said[1].startswith(
        f"The maximum there is {105 - lacks:g} points: the {lacks:g} of tests"
    )
    assert said[2] == str(sizes.advice(plan))
    assert path.is_file()
