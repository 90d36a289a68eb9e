"""What begins with the session: a share of the verification, beside tests that mostly wait."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from autograder.course.secret import PUBLIC_SECRET, VARIABLE

# Tests grade with what everybody knows: without it they would draw a secret into the kit.
os.environ[VARIABLE] = PUBLIC_SECRET

KIT = Path(__file__).resolve().parent.parent
VERIFYING = "test_suite_tells_right_from_wrong"


def commit_number() -> int:
    """A number of the commit that is tested, so that each commit verifies another share."""
    asked = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"], cwd=KIT, capture_output=True, text=True
    )
    return int(asked.stdout, 16) if asked.returncode == 0 else 0  # a tree without its history


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
