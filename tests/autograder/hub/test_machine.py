"""The machine in which the hub's tests are, by itself."""

from __future__ import annotations

import shlex

import pytest

from tests.autograder.conftest import KIT
from tests.autograder.hub import machine


@pytest.mark.place
@pytest.mark.skipif(machine.why_not() is not None, reason=str(machine.why_not()))
def test_it_has_its_environments_and_not_the_tree_wherever_that_lies() -> None:
    made = machine.Machine()
    try:
        made.run("root", "useradd --create-home ada")
        for place in machine.ENVIRONMENTS:
            code = "import numpy, sys; print(sys.prefix)"
            done = made.run("ada", f"{place}/.venv/bin/python -c {shlex.quote(code)}")
            assert done.stdout == f"{place}/.venv\n"
        hidden = made.run("root", f"cat {shlex.quote(str(KIT / 'pyproject.toml'))}", check=False)
        assert "No such file or directory" in hidden.stdout
    finally:
        made.close()
