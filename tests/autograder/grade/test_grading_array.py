"""A class graded as an array: where there is no Slurm, the same tasks run one after another."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.collect import submissions
from autograder.commands import array_task as command
from autograder.commands import cli
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import pipeline
from autograder.grade.cluster import grading_array
from autograder.grade.cluster import node_facts as array_node
from autograder.grade.cluster import task as array_task
from autograder.grade.cluster import task_ends as cluster_ends
from autograder.grade.cluster.cluster_class import ClusterClass
from autograder.grade.cluster.grading_array import ArrayError, GradingArray
from autograder.grade.cluster.progress import ArrayProgress
from autograder.grade.cluster.task import TaskOptions
from autograder.grade.pipeline import GradingSession
from autograder.sandbox import files as sandbox_files
from autograder.sandbox import sandbox
from ringside.jobs.launch import slurm, slurm_array
from ringside.jobs.launch.endings import Look
from ringside.jobs.launch.sites import Site
from ringside.jobs.launch.slurm import SlurmError
from ringside.jobs.launch.slurm_array import TaskEnd

NAME = "a99_toy"
RIGHT = {name: f"# {name} is solved\n" for name in ("one", "two", "more")}


@pytest.fixture(autouse=True)
def umask_of_before() -> Iterator[None]:
    """A task closes its umask, which is this process's here, and that of all tests after it."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


def array(folder: Path, site: str = "generic", students: int = 3, **other: Any) -> GradingArray:
    loaded = Site.load(site)
    paths = [folder / f"a student's {k}" for k in range(students)]
    return GradingArray(
        loaded, loaded.settings([], {}), NAME, paths, folder, folder / "array", **other
    )


def hand_in(folder: Path, student: str, **texts: str) -> Path:
    place = folder / "class" / student
    place.mkdir(parents=True, exist_ok=True)
    for name, text in (RIGHT | texts).items():
        (place / f"{name}.py").write_text(text)
    return place


class PretendedCluster:
    """Runs tasks here when an array is followed; what becomes of a task can be told before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrays: list[GradingArray] = []
        self.refusals: list[str] = []
        self.fates: dict[str, list[str]] = {}  # student -> Slurm's states of its task
        monkeypatch.setattr(GradingArray, "submit", lambda array: self.submit(array))
        monkeypatch.setattr(GradingArray, "follow", lambda array, *_: self.follow(array))
        monkeypatch.setattr(GradingArray, "check", lambda array: None)
        monkeypatch.setattr("autograder.grade.cluster.cluster_class.most_tasks", lambda: 1001)
        monkeypatch.setattr("autograder.grade.cluster.cluster_class.SEEN_AFTER_S", 0.0)

    def submit(self, array: GradingArray) -> str:
        if self.refusals:
            raise SlurmError(self.refusals.pop(0))
        array.write()
        self.arrays.append(array)
        return str(len(self.arrays))

    def follow(self, array: GradingArray) -> dict[int, TaskEnd]:
        ends = {}
        for task, numbers in enumerate(array.task_numbers):
            fates = self.fates.get(array.submissions[numbers[0]].name, [])
            fate = fates.pop(0) if fates else "COMPLETED"
            if fate == "COMPLETED":
                array_task.run(array.folder, [task], TaskOptions(jobs=1, trusted=True))
            end, _ = slurm_array.endings._explain(Look(fate, exit_code="0:9"), "")
            ends[task] = TaskEnd(Look(fate, nodes="node7", memory_per_cpu="500M"), end)
        return ends

    @property
    def tasks(self) -> list[list[list[str]]]:
        """Who was in which task, of each array."""
        return [
            [[array.submissions[n].name for n in task] for task in array.task_numbers]
            for array in self.arrays
        ]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> PretendedCluster:
    return PretendedCluster(monkeypatch)


Grade = Callable[..., dict[str, str]]


@pytest.fixture
def grade(course: Course, plan: Assignment) -> Grade:
    """Grade these on the pretended cluster; gives who has no result, and why."""

    def graded(
        *paths: Path, site: str = "generic", changes: tuple[str, ...] = ()
    ) -> dict[str, str]:
        session = GradingSession(plan, course, pipeline.suite_grader(course), trusted=True)
        loaded, found = Site.load(site), submissions.find(plan, paths)
        settings = loaded.settings(changes, {})
        return ClusterClass(course, loaded, settings, session, found, print).run()

    return graded


@pytest.mark.parametrize(
    ("count", "changes", "most", "each"),
    [
        (300, [], 1001, 5),  # four tasks for each of eight would be ten, of a minute each
        (300, ["time=01:00:00"], 1001, 10),
        (20, [], 1001, 1),
        (300, ["array_chunk=2"], 1001, 2),
        (300, ["array_chunk=1"], 100, 3),  # the cluster allows no more
        (1, ["time=00:01:00"], 1001, 1),
    ],
)
def test_submissions_share_a_task_by_a_rule(
    count: int, changes: list[str], most: int, each: int
) -> None:
    settings = Site.load("generic").settings(changes, {})
    assert grading_array.submissions_per_task(count, settings, most) == each


def test_the_largest_array_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "MaxArraySize            = 75\nMaxJobCount = 10000\n"
    monkeypatch.setattr(slurm, "ask", lambda _: slurm.subprocess.CompletedProcess([], 0, answer))
    assert grading_array.most_tasks() == 75
    monkeypatch.setattr(slurm, "ask", lambda _: slurm.subprocess.CompletedProcess([], 1, ""))
    assert grading_array.most_tasks() == 1001


def test_a_task_grades_its_submissions_and_leaves_out_what_it_has_graded(
    tmp_path: Path, course: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [hand_in(tmp_path, name, one=f"half # {name}") for name in ("anna", "ben", "cleo")]
    paths[2] = hand_in(tmp_path, "cleo", one="crash the grader")
    made = replace(array(tmp_path), submissions=paths, tasks=[[0], [1, 2]])
    made.write()
    words = ["--", "--trust-submissions", "--jobs", "1"]
    assert command.main([str(made.folder), "1", *words]) == 2
    assert made.records() == [1, 2] or made.records() == [2, 1]
    assert cluster_ends.graded(made, 1)
    record = cluster_ends.record(made, 2)
    assert record is not None and record["status"] == "grader_error"
    note = json.loads((made.folder / "nodes" / "1.json").read_text())
    assert note["began"] == 2
    assert note["sandbox"] and note["versions"]["numpy"]
    assert "cleo': status 2 after" in capsys.readouterr().out
    before = made.record(1).stat().st_mtime_ns
    assert command.main([str(made.folder), *words]) == 0  # all tasks; two have their records
    assert sorted(made.records()) == [0, 1, 2]
    assert made.record(1).stat().st_mtime_ns == before
    assert stat.S_IMODE(made.record(0).stat().st_mode) == 0o600
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700


def test_a_node_without_a_sandbox_grades_nothing_and_says_so(
    tmp_path: Path,
    course: Course,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def none(*, trust_submissions: bool = False) -> str:
        raise sandbox.SandboxUnavailable("no sandbox works on this machine.")

    monkeypatch.setattr(array_node, "best_tier", none)
    made = replace(array(tmp_path), submissions=[hand_in(tmp_path, "anna")])
    made.write()
    assert command.main([str(made.folder), "0", "--", "--jobs", "1"]) == array_task.NO_SANDBOX
    assert made.records() == []
    judge = cluster_ends.Judge(made, "7", course, {0: TaskEnd(Look("FAILED"), "failed")})
    assert judge.unfit == {array_node.socket.gethostname()}
    assert "has no sandbox: no sandbox works" in judge.next_step(0).reason
    assert "can't grade: no sandbox works on this machine." in capsys.readouterr().err


def test_equal_submissions_and_graded_ones_and_rejected_ones_are_not_submitted(
    tmp_path: Path, cluster: PretendedCluster, grade: Grade
) -> None:
    students = [hand_in(tmp_path, name) for name in ("anna", "ben")]
    students.append(hand_in(tmp_path, "cleo", two="half"))
    bad = tmp_path / "dan.zip"
    bad.write_bytes(b"no archive")
    assert grade(*students, bad) == {}
    assert cluster.tasks == [[["anna"], ["cleo"]]]
    assert grade(*students, bad) == {}
    students[1] = hand_in(tmp_path, "ben", two="nothing yet")
    assert grade(*students) == {}
    assert cluster.tasks[1:] == [[["ben"]]]


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED", "BOOT_FAIL"])
def test_what_the_cluster_lost_is_submitted_again(
    tmp_path: Path, cluster: PretendedCluster, grade: Grade, state: str
) -> None:
    cluster.fates["anna"] = [state] * 3
    assert grade(hand_in(tmp_path, "anna")) == {}
    assert len(cluster.arrays) == 4
    assert {made.settings["time"] for made in cluster.arrays} == {"00:10:00"}


def test_a_cluster_that_loses_everything_is_not_asked_for_ever(
    tmp_path: Path, cluster: PretendedCluster, grade: Grade
) -> None:
    cluster.fates["anna"] = ["NODE_FAIL"] * 99
    lost = grade(hand_in(tmp_path, "anna"))
    assert lost == {"anna": "task 0 of job 5 on node7: node failure (NODE_FAIL)."}
    assert len(cluster.arrays) == 5


@pytest.mark.parametrize("state", ["TIMEOUT", "OUT_OF_MEMORY", "FAILED"])
def test_a_task_that_failed_is_tried_once_more_with_twice_the_limits(
    tmp_path: Path, cluster: PretendedCluster, grade: Grade, state: str
) -> None:
    students = [hand_in(tmp_path, name, one=name) for name in ("anna", "ben", "cleo")]
    students.append(hand_in(tmp_path, "dan", one="anna"))  # as anna's
    cluster.fates |= {"anna": [state, state], "cleo": [state]}
    changes = ("array_chunk=2", "memory_per_cpu=1G")
    lost = grade(*students, changes=changes)
    assert cluster.tasks == [[["anna", "ben"], ["cleo"]], [["anna"], ["ben"], ["cleo"]]]
    again = cluster.arrays[1].settings
    assert (again["time"], again["memory_per_cpu"]) == ("00:20:00", "2G")
    assert set(lost) == {"anna", "dan"}
    assert lost["dan"] == lost["anna"]
    assert f"({state})" in lost["anna"]


def test_memory_that_slurm_chose_is_doubled_too(
    tmp_path: Path, cluster: PretendedCluster, grade: Grade
) -> None:
    cluster.fates["anna"] = ["OUT_OF_MEMORY"]
    assert grade(hand_in(tmp_path, "anna")) == {}
    assert [made.settings["memory_per_cpu"] for made in cluster.arrays] == ["", "1000M"]


def test_progress_names_what_is_done_left_and_why_tasks_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, said = [0.0], list[str]()
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    made = array(tmp_path)
    made.write()
    progress = ArrayProgress(made, "7", said.append)
    progress.heard(dict.fromkeys(range(3), Look("PENDING", "Priority")))
    now_s[0] = 30.0
    made.record(0).write_text("{}")
    progress.heard({0: Look("COMPLETED"), 1: Look("RUNNING"), 2: Look("PENDING", "Resources")})
    now_s[0] = 45.0
    progress.heard({0: Look("COMPLETED"), 1: Look("RUNNING"), 2: Look("PENDING", "Resources")})
    made.record(1).write_text("{}")
    progress.heard({0: Look("COMPLETED"), 1: Look("COMPLETED"), 2: Look("FAILED")})
    assert said == [
        "job 7: 0 of 3 done; tasks: 3 wait (other jobs go first)",
        "job 7: 1 of 3 done; tasks: 1 run, 1 wait (it waits for free nodes); 2 a minute, 60 s left",
        "job 7: 2 of 3 done; tasks: 1 failed",
    ]


def test_a_site_that_allows_no_more_time_gets_the_same_again(
    tmp_path: Path, cluster: PretendedCluster, grade: Grade, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fates["anna"] = ["TIMEOUT"]
    real, said = cluster.submit, ["", "sbatch refused the job: Requested time limit is invalid"]

    def submit(made: GradingArray) -> str:
        cluster.refusals = [said.pop(0)] if said else []
        cluster.refusals = [words for words in cluster.refusals if words]
        return real(made)

    monkeypatch.setattr(GradingArray, "submit", submit)
    assert grade(hand_in(tmp_path, "anna")) == {}
    assert [made.settings["time"] for made in cluster.arrays] == ["00:10:00", "00:10:00"]


def test_a_site_that_allows_fewer_tasks_gets_fewer(
    tmp_path: Path, cluster: PretendedCluster, grade: Grade
) -> None:
    cluster.refusals = ["Job violates accounting/QOS policy (job submit limit, ...)"] * 2
    students = [hand_in(tmp_path, name, one=name) for name in ("anna", "ben", "cleo")]
    assert grade(*students) == {}
    assert cluster.tasks == [[["anna", "ben", "cleo"]]]


def test_an_array_that_is_refused_is_nobodys_result(
    tmp_path: Path, cluster: PretendedCluster, grade: Grade, course: Course
) -> None:
    cluster.refusals = ["sbatch refused the job: Invalid account"] * 9
    with pytest.raises(SlurmError, match="Invalid account"):
        grade(hand_in(tmp_path, "anna"))
    assert not (course.build / "array" / NAME / "state.json").exists()


def test_results_of_another_kit_do_not_count_and_the_node_is_named(
    tmp_path: Path, cluster: PretendedCluster, grade: Grade, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = array_task.run

    def elsewhere(*what: Any) -> int:
        with monkeypatch.context() as there:
            there.setenv("RINGSIDE_COURSE_SECRET", "the nodes' own")
            return real(*what)

    monkeypatch.setattr(array_task, "run", elsewhere)
    (reason,) = grade(hand_in(tmp_path, "anna")).values()
    assert "has another kit or another course secret" in reason
    assert len(cluster.arrays) == 1


def test_other_versions_and_sandboxes_of_nodes_are_named(tmp_path: Path, course: Course) -> None:
    made = array(tmp_path)
    made.write()
    other = {**array_node.versions(), "torch": "1.0"}
    note = {"host": "node7", "versions": other, "sandbox": "landlock"}
    (made.folder / "nodes" / "0.json").write_text(json.dumps(note))
    lines = list(cluster_ends.Judge(made, "7", course, {}).differences())
    assert "node7 has torch 1.0, this machine" in lines[1]
    assert "node7 graded in another sandbox than this machine has: landlock" in lines[0]


def test_where_there_is_no_scheduler_bash_runs_the_same_tasks(
    tmp_path: Path, course: Course, grade: Grade, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(grading_array.subprocess, "run", lambda command, **_: ran.append(command))
    lost = grade(hand_in(tmp_path, "anna"), site="local")
    assert lost == {"anna": "task 0 left no record."}
    ((_, script),) = ran
    text = Path(script).read_text()
    assert f"-m autograder.commands.array_task {course.build}/array/{NAME}/1 -- \\\n" in text
    assert "    --jobs 2 --trust-submissions\n" in text


def test_a_courses_secret_is_not_written_into_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RINGSIDE_COURSE_SECRET", "hush")
    monkeypatch.setenv("RINGSIDE_COURSE", str(tmp_path))
    monkeypatch.setenv("RINGSIDE_RESULTS", str(tmp_path / "results"))
    assert Course.here().results == tmp_path / "results"
    made = array(tmp_path)
    with pytest.raises(ArrayError, match=r"write it into course_secret\.txt"):
        made.run(print)
    assert "hush" not in made.script()
    assert f"export RINGSIDE_COURSE={tmp_path}\n" in made.script()
    assert f"export RINGSIDE_RESULTS={tmp_path}/results\n" in made.script()
    assert "--array=0-2%8\n" in made.script()
    monkeypatch.delenv("RINGSIDE_COURSE_SECRET")
    with pytest.raises(ArrayError, match="every node has a /tmp of its own"):
        replace(made, folder=Path("/tmp/array")).run(print)


def test_a_site_may_forbid_that_jobs_are_queued_again(tmp_path: Path) -> None:
    assert "#SBATCH --requeue\n" in array(tmp_path).script()
    once = array(tmp_path, directives=["--no-requeue"]).script()
    assert "#SBATCH --no-requeue\n" in once and "#SBATCH --requeue\n" not in once


def test_a_sandboxs_files_can_be_read_whatever_the_umask(tmp_path: Path) -> None:
    # sbatch hands the umask of whoever submits on to the job; else all would score nothing.
    place, before = hand_in(tmp_path, "anna"), os.umask(0o077)
    try:
        sandbox_files.copy_modules(place, tmp_path / "modules", None)
        sandbox_files.write_all(tmp_path / "job", {"job.json": b"{}"})
    finally:
        os.umask(before)
    for path in (tmp_path / "modules", tmp_path / "job"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o644}


def test_the_command_line_asks_for_a_site(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["grade", "a04_data_parallel", "solutions/a04_data_parallel", "--executor", "slurm"]
    assert cli.main(line) == 2
    assert "--executor slurm needs --site" in capsys.readouterr().err
    assert cli.main([*line, "--site", "nowhere"]) == 2
    assert "there are" in capsys.readouterr().err
