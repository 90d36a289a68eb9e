"""Nothing comes of the attacks: no points, no harm, no process left."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from autograder.author.verify import redteam_apart, redteam_table
from autograder.author.verify.attacks import ATTACKS, AttackOutcome, load_attacks
from autograder.author.verify.redteam_outside import Outside
from autograder.author.verify.redteam_run import EXPECTED, _leaks, run_attack
from autograder.sandbox import sandbox

KIT = Path(__file__).resolve().parents[3]
MET = range(1, 45)  # of the list of attacks that graders have met

needs_sandbox = pytest.mark.skipif(
    sandbox._bubblewrap_fails() is not None,
    reason=f"bubblewrap does not work here: {sandbox._bubblewrap_fails()}",
)


# One attack of each kind, by what it attacks; `make verify` runs all of them.
SAMPLE = {
    "60_poisoned_import": "interpreter",
    "05_read_memory": "memory of other processes",
    "12_gradebook": "file system",
    "32_network": "network",
    "20_memory": "memory of the machine",
    "19_fork_bomb": "processors",
    "26_flipped_cells": "notebook",
    "24_zip_slip_and_bomb": "archive",
    "43_formulas": "page, table and terminal",
    "45_malformed_frames": "simulated network",
    "67_torch_ways_out": "torch",
    "72_gone_from_mpiexec": "real mpiexec",
    "85_schedule_declared_at_the_end": "declared schedule",
}
TOGETHER = 5  # in one process: the libraries are imported once for all


@needs_sandbox
@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(SAMPLE), TOGETHER))
def test_nothing_comes_of_attacks_of_each_kind(first: int) -> None:
    names = [*SAMPLE][first : first + TOGETHER]
    outcomes = redteam_apart.run(load_attacks(names=names))
    assert sorted(outcomes) == sorted(names)
    assert redteam_apart.faults(outcomes) == []


def test_an_attack_that_ends_its_process_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    attacks = load_attacks(names=["01_patched_assertions", "12_gradebook"])
    monkeypatch.setattr(sys, "executable", "/bin/false")
    outcomes = redteam_apart.run_all(attacks, jobs=1, deadline_s=60)
    assert [*outcomes] == [attack.name for attack in attacks]
    assert all(
        fault.endswith(": there is no outcome: ") for fault in redteam_apart.faults(outcomes)
    )
    late = redteam_apart.run_all(attacks, jobs=1, deadline_s=-1)
    assert redteam_apart.faults(late)[0] == "redteam/01_patched_assertions: not run in -1 s"
    assert redteam_apart.summary("a03", late).startswith("a03: 0 of 2 attacks gain what they may")


def test_every_attack_of_the_list_is_there():
    numbers = [attack.number for attack in load_attacks()]
    assert sorted(set(numbers)) == numbers
    assert numbers[: len(MET)] == [*MET]
    for attack in load_attacks():
        assert attack.name.startswith(f"{attack.number:02d}_")
        assert attack.expected in EXPECTED
        assert attack.title and attack.gain and attack.proof
        module = attack.folder / f"{attack.module}.py"
        assert module.exists() != (attack.folder / "make.py").exists()
    assert len(list(ATTACKS.iterdir())) == len(numbers)


def test_points_that_an_attack_should_not_have_are_a_fault():
    attack = load_attacks(names=["01_patched_assertions"])[0]

    def grade(path: Path) -> dict:
        assert "@OUTSIDE@" not in (path / "ring.py").read_text()
        return {"status": "graded", "score": 35.0, "modules": {"ring": {"score": 100.0}}}

    outcome = run_attack(attack, grade)
    assert outcome.faults == (
        "ring has 100 %, at most 0 expected",
        "the submission has 35 points",
    )


def test_what_an_attack_leaves_outside_is_a_fault():
    attack = load_attacks(names=["12_gradebook"])[0]

    def grade(path: Path) -> dict:
        place = (path / "ring.py").read_text().partition('PLACES = ["')[2].partition('"')[0]
        Path(place).write_bytes(b"all grades are mine")
        (Path(place).parent / "note").touch()
        subprocess.Popen(["setsid", "-f", "sleep", "30"]).wait()
        return {"status": "graded", "score": 0, "modules": {}}

    outcome = run_attack(attack, grade)
    assert outcome.faults[:2] == ("note has appeared outside", "gradebook.db outside was changed")
    assert outcome.faults[2].endswith("is left")
    subprocess.run(["kill", outcome.faults[2].split()[1]], check=True)


def test_a_secret_that_comes_back_is_a_fault():
    attack = load_attacks(names=["30_script_in_feedback"])[0]
    with Outside.laid_out(KIT) as outside:
        result = {"message": f"seen: {outside.token}", "feedback": "<script>alert(1)</script>"}
        faults = _leaks(attack, outside, result)
    assert faults[0] == f"{outside.token!r} is in what came back"
    assert faults[1] == "'<script>alert' is in the page"


def test_an_instructor_who_is_not_told_is_a_fault():
    attack = load_attacks(names=["61_patched_supplied_files"])[0]
    result = {"status": "graded", "score": 0.0, "modules": {}}
    assert run_attack(attack, lambda path: result).faults == ("the instructor is not told",)
    assert run_attack(attack, lambda path: result | {"flags": ["told"]}).ok


def test_formulas_and_what_terminals_obey_are_faults():
    attack = load_attacks(names=["43_formulas"])[0]
    result = {"csv": "student,score\r\n=1+1,0\r\n'-2,0\r\n", "terminal": "mallory\x1b[2J\n"}
    with Outside.laid_out(KIT) as outside:
        faults = _leaks(attack, outside, result)
    assert faults == ["'=1+1' in the CSV is a formula", "the terminal gets ['\\x1b']"]


def test_the_table_shows_every_attack_with_its_outcome():
    good, bad = load_attacks(names=["01_patched_assertions", "28_huge_notebook"])
    outcomes = [
        AttackOutcome(good, "graded", 0.0, 1.5),
        AttackOutcome(bad, "graded", 35.0, 2.0, ("graded, not rejected: ",)),
    ]
    screen = Console(file=io.StringIO(), width=120)
    redteam_table.show(outcomes, screen)
    text = screen.file.getvalue()
    assert "scored zero" in text and "FAULT" in text and "1 of 2 attacks came to nothing" in text
    assert "28_huge_notebook: graded, not rejected" in text
