"""A class graded by job arrays on a real Slurm: what the cluster does to it, and what comes of it.

All graders are begun at once, and what they wait for happens to all of them, so that the waiting
costs its time once. The suite is pretended (`jobs/sitecustomize.py`), but for one test.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.release, pytest.mark.slurm]

# node1 is stopped, and its work goes on on node2; node4 belongs to the partition scavenger.
ON_NODE_1_OR_2 = "directives=--exclude=node[3-4]"
ON_NODE_3 = "directives=--exclude=node[1-2]"


class Scenes:
    """Courses of one Slurm: begun together, looked at one by one."""

    def __init__(self, slurm: Any, folder: Path, command: Callable[..., list[str]]) -> None:
        self.slurm = slurm
        self.folder = folder
        self.command = command
        self.running: dict[str, Any] = {}

    def begin(self, name: str, texts: dict[str, str], *words: str) -> Any:
        for student, text in texts.items():
            place = self.folder / name / "class" / student
            place.mkdir(parents=True, exist_ok=True)
            (place / "one.py").write_text(f"# of {student}, {name}\n{text}\n")
        return self.again(name, *words)

    def again(self, name: str, *words: str) -> Any:
        course = self.folder / name
        students = sorted((course / "class").iterdir())
        begun = self.slurm.begin(self.command(course, *map(str, students), *words), cwd=course)
        self.running[name] = begun
        return begun

    def wait_for(self, name: str, pattern: str) -> None:
        """Until a file of the course's arrays is there."""
        array = self.folder / name / "build" / "array" / "a99_toy"
        deadline = time.monotonic() + 240
        while not list(array.glob(pattern)):
            assert time.monotonic() < deadline, f"{name}: no {pattern}\n" + self.slurm.logs()
            time.sleep(0.1)

    def go(self, name: str) -> None:
        """What waits in this course for `go`, goes on."""
        (self.folder / name / "go").touch()

    def end(self, name: str, status: int = 0) -> tuple[str, dict[str, Any]]:
        """What a grader said to its end, and each student's outcome."""
        said, _ = self.running[name].communicate(timeout=240)
        assert self.running[name].returncode == status, said + self.slurm.logs()
        report = json.loads((self.folder / name / "out.json").read_text())
        return said, {each["student"]: each for each in report["submissions"]}


@pytest.fixture(scope="module")
def scenes(grading_slurm: Any, grade_command: Any, tmp_path_factory: Any) -> Iterator[Scenes]:
    slurm, folder = grading_slurm, grade_command.folder
    made = Scenes(slurm, folder, grade_command)
    waits = "# waits for go"
    made.begin("queued again", {"anna": waits, "ben": "# half"}, "--set", ON_NODE_1_OR_2)
    made.begin("submitted again", {"anna": waits}, "--set", f"{ON_NODE_1_OR_2},--no-requeue")
    made.begin(
        "pushed aside", {"anna": waits},
        "--set", "partition=scavenger", "--set", "directives=--no-requeue",
    )  # fmt: skip
    made.begin("killed", {"anna": waits, "ben": waits}, "--set", ON_NODE_3)
    (folder / "no sandbox").mkdir()
    (folder / "no sandbox" / "no_sandbox").write_text("node3")
    made.begin("no sandbox", {"anna": ""}, "--set", ON_NODE_3)
    made.begin(
        "faults",
        {"anna": "", "ben": "# dies once", "cleo": "# dies on nodes", "dan": "# half"},
        "--set", "array_chunk=2", "--set", ON_NODE_3,
    )  # fmt: skip
    made.begin(
        "no fallback", {"anna": "# dies on nodes", "ben": "# an error on nodes", "cleo": "# half"},
        "--no-fallback", "--set", "array_chunk=1", "--set", ON_NODE_3,
    )  # fmt: skip
    for name in ("queued again", "submitted again", "pushed aside", "killed"):
        made.wait_for(name, "1/nodes/0.json")
    yield made


def test_ctrl_c_and_a_kill_leave_the_array_and_the_next_grader_follows_it(scenes: Scenes) -> None:
    first = scenes.running["killed"]
    said = scenes.slurm.listen(first, "submitted to generic")
    job_id = re.findall(r"job (\d+): 2 submissions in \d tasks?", said)[0]
    scenes.slurm.interrupt(first)
    said, _ = first.communicate(timeout=120)
    assert f"job {job_id} goes on. The same command, given again, follows it" in said
    assert f"`scancel {job_id}` ends it" in said
    assert first.returncode == 130

    second = scenes.again("killed")
    said = scenes.slurm.listen(second, "goes on: it is followed to its end")
    beside = scenes.again("killed")
    said, _ = beside.communicate(timeout=120)
    assert beside.returncode == 2
    assert "another `autograder grade --executor slurm` waits for a99_toy already" in said
    scenes.slurm.kill(second, signal.SIGKILL)
    second.communicate(timeout=120)

    third = scenes.again("killed", "--set", ON_NODE_3)
    scenes.slurm.listen(third, f"job {job_id} of an earlier grading goes on")
    scenes.go("killed")
    said, students = scenes.end("killed")
    assert {name: each["score"] for name, each in students.items()} == {"anna": 100, "ben": 100}
    assert "submitted to" not in said  # by none of the later ones
    assert not (scenes.folder / "killed" / "build" / "array" / "a99_toy" / "state.json").exists()

    # A resubmission that changed: only its result is missing.
    changed = f"# changed in {scenes.folder.name}\n# half\n"
    (scenes.folder / "killed" / "class" / "ben" / "one.py").write_text(changed)
    scenes.again("killed")
    said, students = scenes.end("killed")
    assert "1 submission in 1 task, submitted" in said
    assert students["ben"]["score"] == 50


def test_a_task_killed_for_memory_or_in_error_is_tried_again_and_then_graded_here(
    scenes: Scenes,
) -> None:
    said, students = scenes.end("faults")
    assert "cleo: task 1 of job" in said
    assert "on node3: out of memory (FAILED 0:9). Its log ends: " in said
    assert "about to use too much memory" in said
    assert "dan: task 1" in said
    assert "It had not begun with this submission." in said
    assert re.search(r"job \d+: 3 submissions in 3 tasks", said)  # each alone
    assert "3 of 4 have their results." in said
    assert "1 are graded here." in said
    scores = {name: each["score"] for name, each in students.items()}
    assert scores == {"anna": 100, "ben": 100, "cleo": 100, "dan": 50}
    arrays = scenes.folder / "faults" / "build" / "array" / "a99_toy"
    first, second = ((arrays / k / "grade.sbatch").read_text() for k in ("1", "2"))
    assert "--time=00:10:00\n" in first and "--mem-per-cpu=100M\n" in first
    assert "--time=00:20:00\n" in second and "--mem-per-cpu=200M\n" in second


def test_without_fallback_a_loss_is_reported_and_is_no_zero(scenes: Scenes) -> None:
    said, students = scenes.end("no fallback", status=2)
    assert students["cleo"]["status"] == "graded"
    assert students["anna"]["status"] == students["ben"]["status"] == "grader_error"
    assert "out of memory (FAILED 0:9). Its log ends" in students["anna"]["message"]
    assert "on node3: The grader failed. one: OSError: No space" in students["ben"]["message"]
    assert "anna: grader_error: The cluster did not grade it: task" in said


def test_a_node_without_a_sandbox_is_named_and_left_out(scenes: Scenes) -> None:
    said, students = scenes.end("no sandbox")
    assert students["anna"]["score"] == 100
    assert "node3 has no sandbox: no sandbox works on this machine. bubblewrap: " in said
    assert "Install bubblewrap and allow user namespaces" in said
    folder = scenes.folder / "no sandbox" / "build" / "array" / "a99_toy"
    assert "#SBATCH --exclude=node3\n" in (folder / "2" / "grade.sbatch").read_text()
    assert json.loads((folder / "2" / "nodes" / "0.json").read_text())["host"] != "node3"


# After those above: a task that ends while nobody keeps Slurm's books may be told otherwise.
def test_a_slurmctld_that_is_restarted_is_waited_for(scenes: Scenes) -> None:
    graders = [scenes.running["queued again"], scenes.running["submitted again"]]
    scenes.slurm.run(["scontrol", "shutdown", "slurmctld"])
    for grader in graders:
        said = scenes.slurm.listen(grader, "Slurm doesn't answer")
        assert "still asking" in said
    scenes.slurm.run(["slurmctld"])
    for grader in graders:
        scenes.slurm.listen(grader, "Slurm answers again")
    scenes.slurm.stop_node(1)  # for the tests that follow
    scenes.slurm.begin(["srun", "--nodelist=node4", "--exclusive", "--mem=0", "true"])


def test_a_preempted_task_is_submitted_again(scenes: Scenes) -> None:
    scenes.wait_for("pushed aside", "2/nodes/0.json")
    scenes.go("pushed aside")
    said, students = scenes.end("pushed aside")
    assert re.search(r"anna: task 0 of job \d+ on node4: preempted \(PREEMPTED", said)
    assert students["anna"]["score"] == 100


def test_a_task_whose_node_is_stopped_goes_on_on_another(scenes: Scenes) -> None:
    scenes.wait_for("submitted again", "2/nodes/0.json")
    for name in ("queued again", "submitted again"):
        scenes.go(name)
    said, students = scenes.end("submitted again")
    assert re.search(r"anna: task 0 of job \d+ on node1: node failure \(NODE_FAIL", said)
    assert students["anna"]["score"] == 100

    said, students = scenes.end("queued again")
    assert "Slurm has queued task 0 again" in said or "queued 2 tasks again" in said
    assert {name: each["score"] for name, each in students.items()} == {"anna": 100, "ben": 50}
    folder = scenes.folder / "queued again" / "build" / "array" / "a99_toy"
    assert not (folder / "2").exists()  # Slurm did it by itself
    assert json.loads((folder / "1" / "nodes" / "0.json").read_text())["host"] == "node2"
    assert folder.stat().st_mode & 0o077 == 0
