"""What runs beside the tests, which leave one core idle: a share of the verification, and attacks.

tests/cluster        first: they wait for Slurm, while the verification keeps both cores busy
all the others
tests/autograder/verify   last: by then most of what they ask about has ended
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from autograder.author.verify.attacks import Attack, load_attacks
from autograder.course.secret import PUBLIC_SECRET, VARIABLE
from autograder.sandbox import sandbox
from tests.leftovers import pytest_sessionfinish, pytest_terminal_summary

__all__ = ["pytest_sessionfinish", "pytest_terminal_summary"]  # hooks: pytest finds them here

# Tests grade with what everybody knows: without it they would draw a secret into the kit.
os.environ[VARIABLE] = PUBLIC_SECRET

KIT = Path(__file__).resolve().parent.parent
VERIFYING = "test_suite_tells_right_from_wrong"
SLOWEST = {17, 80}  # attacks that use up all that a submission may use
NOTEBOOKS = {13, 15, 25, 26, 27, 65}  # together: the modules left as they are, are graded once
TOGETHER = 6  # attacks in one process: the libraries are imported once for all


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first the tests that wait, and last those that are waited for."""

    def turn(item: pytest.Item) -> int:
        below = item.path.relative_to(KIT / "tests").parts if KIT in item.path.parents else ()
        return {("cluster",): 0, ("autograder", "author"): 2}.get(below[:-1], 1)

    items.sort(key=turn)


def commit_number() -> int:
    """A number of the commit that is tested, so that each commit verifies another share."""
    asked = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"], cwd=KIT, capture_output=True, text=True
    )
    return int(asked.stdout, 16) if asked.returncode == 0 else 0  # a tree without its history


def share(items: Sequence[Any]) -> list[Any]:
    """A third of what takes long: which one, the commit's number says."""
    return list(items)[commit_number() % 3 :: 3]


class Verified(NamedTuple):
    """How one `autograder verify` ended."""

    status: int
    output: str
    record: Path


@pytest.fixture(scope="session", autouse=True)
def verifications(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Verified]]]:
    """`autograder verify` of every assignment that a selected test asks about.

    It keeps both cores busy for many minutes, and most other tests leave one of them idle. So it
    begins with the first of them; whoever asks waits for the rest of it.
    """
    names = [
        item.callspec.params["name"]
        for item in request.session.items
        if getattr(item, "originalname", "") == VERIFYING
    ]
    folder = tmp_path_factory.mktemp("verify")
    environment, umask = dict(os.environ), os.umask(0o022)  # before tests change theirs
    os.umask(umask)
    running: list[subprocess.Popen[str]] = []

    def verify(name: str) -> Verified:
        record = folder / f"{name}.json"
        words = ["verify", name, "--no-red-team", "--json", str(record)]
        words += ["--share", str(commit_number())]
        process = subprocess.Popen(
            [sys.executable, "-m", "autograder", *words],
            cwd=KIT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env=environment, umask=umask,
        )  # fmt: skip
        running.append(process)
        output, _ = process.communicate()
        return Verified(process.returncode, output, record)

    with ThreadPoolExecutor(max_workers=1) as pool:
        yield {name: pool.submit(verify, name) for name in names}
        pool.shutdown(wait=False, cancel_futures=True)  # the session may end before they do
        for process in running:
            process.terminate()


@pytest.fixture(scope="session", autouse=True)
def attacked(
    request: pytest.FixtureRequest, verifications: dict[str, Future[Verified]]
) -> Iterator[dict[str, Future[dict[str, dict]]]]:
    """The outcomes of the selected attacks, two at a time; they begin when all is verified."""
    names = {
        item.callspec.params["attack"].name
        for item in request.session.items
        if "attack" in getattr(getattr(item, "callspec", None), "params", {})
    }
    if sandbox._bubblewrap_fails() is not None:
        names = set()  # they are skipped, and say so
    attacks = [attack for attack in load_attacks() if attack.name in names]
    attacks.sort(key=lambda a: (a.number not in NOTEBOOKS, a.number not in SLOWEST))
    groups = [attacks[at : at + TOGETHER] for at in range(0, len(attacks), TOGETHER)]
    environment = dict(os.environ)
    running: list[subprocess.Popen[str]] = []

    def attack_apart(group: Sequence[Attack]) -> dict[str, dict]:
        """Run attacks in a process of their own, which would inherit what they leave behind."""
        wait(verifications.values())
        names = [attack.name for attack in group]
        process = subprocess.Popen(
            [sys.executable, "-m", "autograder.author.verify.redteam_run", *names, "--json"],
            cwd=KIT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=environment,
        )  # fmt: skip
        running.append(process)
        output, errors = process.communicate()
        outcomes = [json.loads(line) for line in output.splitlines()]
        lost = {"faults": [f"there is no outcome: {errors[-2000:]}"]}
        return dict.fromkeys(names, lost) | {each["attack"]: each for each in outcomes}

    with ThreadPoolExecutor(max_workers=2) as pool:
        outcomes: dict[str, Future[dict[str, dict]]] = {}
        for group in groups:
            outcomes |= dict.fromkeys((a.name for a in group), pool.submit(attack_apart, group))
        yield outcomes
        pool.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.terminate()
