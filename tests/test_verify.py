"""The suites themselves, tested: what `autograder verify` promises, for every assignment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autograder import assignment as assignments
from autograder import verify


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize("name", assignments.known())
def test_suite_tells_right_from_wrong(name, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Reference and alternatives full, stub zero, each mutant caught by the test it names.

    The red team has tests of its own, in test_redteam.py.
    """
    record = tmp_path / "verify.json"
    status = verify.main([name, "--no-red-team", "--json", str(record)])
    table = capsys.readouterr().out
    with capsys.disabled():
        print(f"\n{table}")
    assert status == 0, table
    (report,) = json.loads(record.read_text())
    kinds = [finding["kind"] for finding in report["findings"]]
    assert kinds.count("wrong") >= 30 and kinds.count("right") >= 12
    wrong = [finding for finding in report["findings"] if finding["kind"] == "wrong"]
    by_values = sum(finding["killed_by_values"] for finding in wrong)
    assert by_values < len(wrong), "a suite of values alone would do as well"
