"""One session for all tests of the torch front end: its zygote imports torch once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ringside import Session

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    """A session in the folder of programs, its ranks confined as in grading."""
    with Session(PROGRAMS, strict=True) as made:
        yield made
