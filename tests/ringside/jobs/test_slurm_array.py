"""An array followed by what Slurm says of its tasks; the answers here are written down ones."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from ringside.jobs.launch import slurm, slurm_array
from ringside.jobs.launch.endings import Look
from ringside.jobs.launch.slurm import SlurmError
from ringside.jobs.launch.slurm_array import TaskEnd


def line(tasks: str, state: str, name: str = "grade", **more: object) -> str:
    words = {"ArrayJobId": 17, "ArrayTaskId": tasks, "JobName": name, "UserId": "a(1)"}
    words |= {"JobState": state, "Reason": "None", "Restarts": 0, "ExitCode": "0:0", **more}
    return "JobId=17 " + " ".join(f"{key}={value}" for key, value in words.items())


class Answers:
    """Slurm's commands, each with its answers one after another; the last one stays."""

    def __init__(self, **answers: Sequence[str]) -> None:
        self.answers = {name: list(texts) for name, texts in answers.items()}
        self.asked: list[str] = []

    def __call__(
        self, command: Sequence[str], folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        self.asked.append(" ".join(command))
        texts = self.answers.get(command[0], ["error: no such command here"])
        text = texts.pop(0) if len(texts) > 1 else texts[0]
        if "rror" in text:
            return subprocess.CompletedProcess(command, 1, "", text)
        return subprocess.CompletedProcess(command, 0, text, "")


Follow = Callable[..., dict[int, TaskEnd]]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: list[str]) -> Follow:
    def followed(tasks: int, answers: Answers, **more: float) -> dict[int, TaskEnd]:
        now_s = [0.0]

        def sleep(seconds: float) -> None:
            now_s[0] += seconds

        monkeypatch.setattr(slurm, "ask", answers)
        monkeypatch.setattr("time.sleep", sleep)
        monkeypatch.setattr("time.monotonic", lambda: now_s[0])
        heard: list[Mapping[int, Look]] = []
        ends = slurm_array.follow(
            "17", tasks, lambda task: tmp_path / f"{task}.log", said.append, heard.append, **more
        )
        assert heard
        return ends

    return followed


def test_each_task_has_an_end_of_its_own(follow: Follow, tmp_path: Path) -> None:
    (tmp_path / "2.log").write_text("x: line 4: module: command not found\n")
    last = [
        line("0", "COMPLETED"),
        line("1", "FAILED", ExitCode="0:9", NodeList="node3"),
        line("2", "FAILED", ExitCode="1:0"),
        line("3", "TIMEOUT", TimeLimit="00:10:00"),
    ]
    answers = Answers(
        scontrol=[
            line("0-3%2", "PENDING", Reason="Priority"),
            "\n".join([line("2-3%2", "PENDING"), line("0", "RUNNING"), line("1", "RUNNING")]),
            "\n".join(last),
        ]
    )
    ends = follow(4, answers)
    assert [ends[k].end for k in range(4)] == ["done", "out of memory", "failed", "timeout"]
    assert ends[1].look.nodes == "node3"
    assert "don't know `module`" in ends[2].meaning


def test_a_task_that_slurm_queues_again_has_not_ended(follow: Follow, said: list[str]) -> None:
    answers = Answers(
        scontrol=[
            line("0", "RUNNING"),
            line("0", "NODE_FAIL"),
            line("0", "PENDING", Restarts=1, Reason="BeginTime"),
            line("0", "COMPLETED", Restarts=1),
        ]
    )
    assert follow(1, answers)[0].end == "done"
    assert said == [
        "job 17: Slurm has queued task 0 again (a node failed, or a job with precedence took it); "
        "what was graded is kept."
    ]


def test_a_task_whose_node_failed_for_good_ends_so(follow: Follow) -> None:
    answers = Answers(scontrol=[line("0", "RUNNING"), line("0", "NODE_FAIL", NodeList="node2")])
    assert follow(1, answers)[0].end == "node failure"


def test_a_silent_slurm_is_asked_again_for_a_while(follow: Follow, said: list[str]) -> None:
    error = "slurm_load_jobs error: Unable to contact slurm controller"
    assert follow(1, Answers(scontrol=[error, error, line("0", "COMPLETED")]))[0].end == "done"
    assert said == [
        f"job 17: Slurm doesn't answer ({error}); still asking.",
        "job 17: Slurm answers again.",
    ]
    with pytest.raises(SlurmError, match="not answered for 10 minutes") as raised:
        follow(1, Answers(scontrol=[error]), patience_s=600)
    assert "the same command, given again, follows it" in str(raised.value)


@pytest.mark.parametrize(
    ("sacct", "ends"),
    [
        ("17_0|COMPLETED|0:0|node1|00:10:00\n17_[1]|CANCELLED by 7|0:0||", ["done", "cancelled"]),
        ("17_0|NODE_FAIL|1:0|n|\n17_0|COMPLETED|0:0|n|\n17_1|PREEMPTED|0:0|n|",
         ["done", "preempted"]),
        ("error: Slurm accounting storage is disabled", ["lost", "lost"]),
    ],
)  # fmt: skip
def test_what_slurmctld_has_forgotten_the_accounting_may_know(
    follow: Follow, sacct: str, ends: list[str]
) -> None:
    invalid = "slurm_load_jobs error: Invalid job id specified"
    found = follow(2, Answers(scontrol=[line("0-1", "RUNNING"), invalid], sacct=[sacct]))
    assert [found[k].end for k in range(2)] == ends


@pytest.mark.parametrize(
    ("look", "end"),
    [
        ({"Reason": "PartitionTimeLimit"}, "impossible"),
        ({"Reason": "InvalidAccount"}, "wrong account"),
        ({"Reason": "launch_failed_requeued_held"}, "node failure"),
        ({"Reason": "BeginTime", "Restarts": 6}, "restarted"),
    ],
)
def test_a_task_that_can_never_end_is_taken_out_of_the_queue(
    follow: Follow, look: dict[str, object], end: str
) -> None:
    answers = Answers(scontrol=[line("0", "PENDING", **look)], scancel=[""])
    found = follow(1, answers)[0]
    assert found.end == end
    assert found.meaning.endswith("It is cancelled.")
    assert "scancel 17_0" in answers.asked


def test_an_old_job_of_the_same_number_is_another_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "ask", Answers(scontrol=[line("0", "RUNNING", name="theirs")]))
    assert slurm_array.looks("17", "grade-a03") is None
    found = slurm_array.looks("17", "theirs")
    assert slurm_array.goes_on(found)
    assert slurm_array.goes_on("no word")
    assert not slurm_array.goes_on(None)
