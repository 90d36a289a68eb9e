"""Jobs at the end of their wall time, which is a real minute; they run beside the other tests."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def test_a_job_past_its_wall_time_is_a_timeout(slow_jobs: Any) -> None:
    said, _ = slow_jobs["hangs"].communicate(timeout=240)
    assert slow_jobs["hangs"].returncode == 1, said
    assert "TIMEOUT" in said
    outcome = json.loads(said[said.index("{") :])
    assert outcome["status"] == "timeout"
    assert "it reached its wall time of 00:01:00" in outcome["message"]
    assert "--set time=HH:MM:SS" in outcome["message"]


def test_ranks_told_before_the_end_write_a_checkpoint_and_go_on_from_it(slow_jobs: Any) -> None:
    said, _ = slow_jobs["resumes"].communicate(timeout=240)
    assert slow_jobs["resumes"].returncode == 0, said
    stops = re.findall(r"rank (\d) stops after step (\d+)", said)
    assert sorted(rank for rank, _ in stops) == ["0", "1"]
    [step] = {int(step) for _, step in stops}
    assert "is queued again, to go on from its checkpoint" in said
    assert "goes back to the queue" in said
    for rank in (0, 1):
        assert f"rank {rank} goes on from step 0" in said
        assert f"rank {rank} goes on from step {step + 1}" in said
        assert f"rank {rank} has done all {step + 4} steps" in said
    assert json.loads(said[said.index("\n{") :])["status"] == "complete"


def test_a_grading_task_whose_time_is_over_is_tried_again_with_twice_the_time(
    slow_grading: Any, slurm: Any, grade_command: Any
) -> None:
    said, _ = slow_grading.communicate(timeout=180)
    assert slow_grading.returncode == 0, said + slurm.logs()
    assert re.search(r"ben: task 1 of job \d+ on node\d: timeout \(TIMEOUT", said), said
    assert "2 of 2 have their results." in said
    course = grade_command.folder / "slow"
    script = course / "build" / "array" / "a99_toy" / "2" / "grade.sbatch"
    assert "--time=00:02:00\n" in script.read_text()
    submissions = json.loads((course / "out.json").read_text())["submissions"]
    assert [each["score"] for each in submissions] == [50, 100]
