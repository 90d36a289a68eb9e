"""One session for all tests of the torch front end: its zygote imports torch once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringside import Session

PROGRAMS = Path(__file__).parent / "programs"
GPT = Path(__file__).parents[3] / "benchmarks" / "gpt.py"  # an example that ships with the kit


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session in a folder of programs, its ranks confined as in grading."""
    folder = tmp_path_factory.mktemp("programs")
    for program in (*PROGRAMS.glob("*.py"), GPT):
        shutil.copy(program, folder)
    with Session(folder, strict=True) as made:
        yield made
