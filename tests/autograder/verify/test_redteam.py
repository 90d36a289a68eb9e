"""Nothing comes of the attacks: no points, no harm, no process left."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console

from autograder.sandbox import sandbox
from autograder.verify import redteam_table
from autograder.verify.attacks import ATTACKS, Attack, AttackOutcome, load_attacks
from autograder.verify.redteam_outside import Outside
from autograder.verify.redteam_run import EXPECTED, _leaks, run_attack

KIT = Path(__file__).resolve().parents[3]
MET = range(1, 45)  # of the list of attacks that graders have met
SLOWEST = {17, 80, 81}  # use up all that a submission may use
NOTEBOOKS = {13, 15, 25, 26, 27, 65}  # together: the modules left as they are, are graded once
TOGETHER = 6  # attacks in one process: the libraries are imported once for all

needs_sandbox = pytest.mark.skipif(
    sandbox._bubblewrap_fails() is not None,
    reason=f"bubblewrap does not work here: {sandbox._bubblewrap_fails()}",
)


def attack_apart(attacks: Sequence[Attack]) -> dict[str, dict]:
    """Run attacks in a process of their own, which would inherit what they leave behind."""
    names = [attack.name for attack in attacks]
    process = subprocess.run(
        [sys.executable, "-m", "autograder.verify.redteam_run", *names, "--json"],
        cwd=KIT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    outcomes = [json.loads(line) for line in process.stdout.splitlines()]
    lost = {"faults": [f"there is no outcome: {process.stderr[-2000:]}"]}
    return dict.fromkeys(names, lost) | {each["attack"]: each for each in outcomes}


@pytest.fixture(scope="module")
def handed_in(request) -> Iterator[dict[str, Future]]:
    """The selected attacks, two at a time, first those that take longest."""
    names = {
        item.callspec.params["attack"].name
        for item in request.session.items
        if "attack" in getattr(getattr(item, "callspec", None), "params", {})
    }
    attacks = [attack for attack in load_attacks() if attack.name in names]
    attacks.sort(key=lambda a: (a.number not in NOTEBOOKS, a.number not in SLOWEST))
    groups = [attacks[at : at + TOGETHER] for at in range(0, len(attacks), TOGETHER)]
    with ThreadPoolExecutor(max_workers=2) as pool:
        running: dict[str, Future] = {}
        for group in groups:
            running |= dict.fromkeys(
                (attack.name for attack in group), pool.submit(attack_apart, group)
            )
        yield running
        for future in running.values():
            future.cancel()


@needs_sandbox
@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("attack", load_attacks(), ids=lambda attack: attack.name)
def test_nothing_comes_of_the_attack(attack, handed_in):
    outcome = handed_in[attack.name].result()[attack.name]
    assert outcome["faults"] == []


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
