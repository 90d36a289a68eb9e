"""Nothing comes of the attacks: no points, no harm, no process left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from autograder import sandbox
from autograder.redteam_outside import Outside
from autograder.redteam_run import ATTACKS, EXPECTED, Attack, _leaks, load_attacks, run_attack

KIT = Path(__file__).resolve().parent.parent
NUMBERS = [*range(1, 38), 44]  # of the list of attacks that graders have met

needs_sandbox = pytest.mark.skipif(
    sandbox._bubblewrap_fails() is not None,
    reason=f"bubblewrap does not work here: {sandbox._bubblewrap_fails()}",
)


def attack_apart(attack: Attack) -> dict:
    """Run one attack in a process of its own, which would inherit what it leaves behind."""
    process = subprocess.run(
        [sys.executable, "-m", "autograder.redteam_run", attack.name, "--json"],
        cwd=KIT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert process.stdout, process.stderr
    return json.loads(process.stdout)


@pytest.fixture(scope="module")
def handed_in(request) -> Iterator[dict[str, Future]]:
    """The selected attacks, two at a time, first the one that waits for two time-outs."""
    names = {
        item.callspec.params["attack"].name
        for item in request.session.items
        if "attack" in getattr(getattr(item, "callspec", None), "params", {})
    }
    attacks = sorted(load_attacks(), key=lambda attack: attack.number != 17)
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = {a.name: pool.submit(attack_apart, a) for a in attacks if a.name in names}
        yield running
        for future in running.values():
            future.cancel()


@needs_sandbox
@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("attack", load_attacks(), ids=lambda attack: attack.name)
def test_nothing_comes_of_the_attack(attack, handed_in):
    outcome = handed_in[attack.name].result()
    assert outcome["faults"] == []


def test_every_attack_of_the_list_is_there():
    assert [attack.number for attack in load_attacks()] == NUMBERS
    for attack in load_attacks():
        assert attack.name.startswith(f"{attack.number:02d}_")
        assert attack.expected in EXPECTED
        assert attack.title and attack.gain and attack.proof
        assert (attack.folder / "ring.py").exists() != (attack.folder / "make.py").exists()
    assert len(list(ATTACKS.iterdir())) == len(NUMBERS)


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
