"""The tutorial, section by section: its own commands, from the students' tree, on real Slurm.

What differs from Zaratan is what the tutorial itself calls different: the variables of setup.sh,
and ranks on cores, `--set ranks_per_node=2`, where there is no `--gpus-per-node 2`. The staged
environment is this one.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autograder.course.course import Course
from autograder.publish import bundle

pytestmark = [pytest.mark.release, pytest.mark.slurm, pytest.mark.slow]

# Needs the internet, or is done already by this environment and by the bundle.
DONE = ("export TUTORIAL=", "module ", "unzip ", "python3 -m venv ", "pip ")
ACTIVATE = """export VIRTUAL_ENV={env} PYTHONPATH={tree} OMP_NUM_THREADS=1
export PATH={env}/bin:{bin}:$PATH
"""


@dataclass
class Tutorial:
    """What the attendee saw in each section, and the folder that they worked in."""

    said: dict[int, str]
    work: Path

    def record(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.work / "measured" / f"{name}.json").read_text())
        return found

    def run(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.work / "runs" / name / "run.json").read_text())
        return found


def commands(text: str) -> list[str]:
    """The blocks of shell commands of a text, in order."""
    return re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def sections(text: str) -> dict[int, str]:
    """The commands of each section."""
    parts = re.split(r"^## (\d+)\. .*$", text, flags=re.MULTILINE)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {int(number): "".join(commands(body)) for number, body in pairs if commands(body)}


def stage(slurm: Any, folder: Path) -> Path:
    """Do what the instructor's page says, with this environment; return the staged folder."""
    staged = folder / "shared"
    tree = bundle.make(Course.here(), staged / "ringside-students")
    (staged / "env" / "bin").mkdir(parents=True)
    places = {"env": staged / "env", "tree": tree, "bin": Path(sys.executable).parent}
    (staged / "env" / "bin" / "activate").write_text(ACTIVATE.format(**places))
    program = staged / "env" / "bin" / "ringside"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ringside "$@"\n')
    program.chmod(0o755)
    page = (tree / "lectures" / "tutorial" / "instructor.md").read_text()
    block = commands(page)[0].replace("unset PYTHONPATH", "")
    lines = [line for line in block.splitlines() if not line.startswith(DONE)]
    script = "\n".join([f"export TUTORIAL={staged}", *lines])
    result = slurm.run(["bash", "-ec", script])
    assert result.returncode == 0, result.stdout + result.stderr
    return staged


@pytest.fixture(scope="module")
def tutorial(slurm: Any) -> Iterator[Tutorial]:
    folder = Path(tempfile.mkdtemp(prefix="ringside-tutorial-", dir="/var/tmp"))
    try:
        staged = stage(slurm, folder)
        text = (staged / "ringside-students" / "lectures" / "tutorial" / "tutorial.md").read_text()
        site = {"TUTORIAL": staged, "WORK": folder / "work", "GPUS": "1 2", "MACHINE": "laptop"}
        site["SITE"] = "zaratan"
        site |= {"RINGSIDE_MEMORY_PER_CPU": "1G", "RINGSIDE_TIME": "00:05:00"}
        tree = staged / "ringside-students"
        site["RINGSIDE_EXPORTS"] = f"PYTHONPATH={tree}"  # for `pip install -e`
        first = [f"export {name}={str(value)!r}" for name, value in site.items()]
        first.append(f"source {staged}/setup.sh")
        said = {}
        for number, script in sections(text).items():
            script = re.sub(r"--gpus-per-node (\S+)", r"--set ranks_per_node=\1", script)
            result = slurm.run(["bash", "-ec", "\n".join([*first, script])], timeout_s=600.0)
            said[number] = result.stdout + result.stderr
            assert result.returncode == 0, f"section {number}:\n{said[number]}\n{slurm.logs()}"
        yield Tutorial(said, folder / "work")
    finally:
        shutil.rmtree(folder)


def test_every_section_but_the_reading_has_commands(tutorial: Tutorial) -> None:
    assert sorted(tutorial.said) == [1, 2, 3, 4, 5, 6, 7]


def test_the_first_job_shows_its_script_and_both_nodes(tutorial: Tutorial) -> None:
    said = tutorial.said[2]
    assert "#SBATCH --nodes=2" in said
    assert "MASTER_ADDR" in said
    for rank, node in enumerate(("node1", "node2")):
        assert re.search(
            rf"rank {rank} of 2 on {node}, .* computes on cpu .* 2 ranks answered", said
        )
    assert tutorial.run("hello")["hosts"] == ["node1", "node2"]


def test_training_learns_the_same_on_every_number_of_ranks(tutorial: Tutorial) -> None:
    one, two = tutorial.record("train-ddp-1"), tutorial.record("train-ddp-2")
    assert one["losses"][0] == pytest.approx(math.log(256), abs=1e-4)
    assert one["losses"][-1] < 3.5
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-4)


@pytest.mark.parametrize("name", ["train-1", "train-2", "fsdp-4", "resumed", "last", "generate-2"])
def test_every_launch_leaves_a_record_a_trace_and_a_timeline(tutorial: Tutorial, name: str) -> None:
    record = tutorial.run(name)
    world_size = {"train-1": 1, "last": 1, "fsdp-4": 4}.get(name, 2)
    assert (record["kind"], record["world_size"]) == ("gloo", world_size)
    folder = tutorial.work / "runs" / name
    assert (folder / record["trace"]).stat().st_size > 0
    assert "<svg" in (folder / "run.svg").read_text()


@pytest.mark.parametrize("program", ["train", "finetune", "generate"])
def test_every_program_ends_in_a_plot_against_the_model(tutorial: Tutorial, program: str) -> None:
    assert "<svg" in (tutorial.work / f"{program}.svg").read_text()
    section = {"train": 4, "finetune": 6, "generate": 7}[program]
    rows = re.findall(rf"^{program}\S* +(\d) .* to ", tutorial.said[section], re.MULTILINE)
    assert {"1", "2"} <= set(rows)


def test_the_replay_of_a_step_is_compared_with_its_measured_times(tutorial: Tutorial) -> None:
    row = r"^  all_reduce +[\d.]+ [nµm]?s +[\d.]+ [nµm]?s"
    assert re.search(row, tutorial.said[3], re.MULTILINE)


def test_fsdp_holds_a_quarter_on_four_ranks(tutorial: Tutorial) -> None:
    whole, shard = tutorial.record("train-ddp-1"), tutorial.record("train-fsdp-4")
    assert shard["state_bytes"] / whole["state_bytes"] == pytest.approx(1 / 4, rel=1e-2)
    assert shard["losses"] == pytest.approx(whole["losses"], rel=1e-4)


def test_a_paused_run_goes_on_as_if_it_had_never_stopped(tutorial: Tutorial) -> None:
    whole, resumed = tutorial.record("train-ddp-2"), tutorial.record("train-fsdp-2")
    assert resumed["began_at"] == 20
    assert resumed["losses"] == pytest.approx(whole["losses"], rel=1e-4)
    assert "unfinished.pt" in tutorial.said[5]
    assert not (tutorial.work / "unfinished.pt").exists()


def test_fine_tuning_starts_lower_than_from_nothing_and_learns(tutorial: Tutorial) -> None:
    tuned, last = tutorial.record("finetune-all-1"), tutorial.record("finetune-last1-1")
    for record in (tuned, last):
        assert record["before"]["new"] < math.log(256) - 1
        assert record["after"]["new"] < record["before"]["new"]
    assert last["state_bytes"] < tuned["state_bytes"]
    assert last["bytes"] < tuned["bytes"]
    both = tutorial.record("finetune-all-2")
    assert both["losses"] == pytest.approx(tuned["losses"], rel=1e-4)


def test_tensor_parallel_ranks_write_what_one_rank_writes(tutorial: Tutorial) -> None:
    alone, both = tutorial.record("generate-1"), tutorial.record("generate-2")
    assert len(alone["texts"]) == 4
    assert all(text.startswith("The ring ") and len(text) > 50 for text in alone["texts"])
    assert both["texts"] == alone["texts"]
    assert both["state_bytes"] < 0.7 * alone["state_bytes"]
    assert alone["texts"][0].splitlines()[0] in tutorial.said[7]
