"""The suites themselves, tested: what `autograder verify` promises, for every assignment."""

from __future__ import annotations

import json

import pytest

from autograder.course import assignment as assignments


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize("name", assignments.known())
def test_suite_tells_right_from_wrong(name, verifications, capsys: pytest.CaptureFixture[str]):
    """References and right ones full, stubs zero, each wrong one caught by the test it names.

    It is a share, which rotates with the commit; `make verify` takes all of them. The red team has
    tests of its own, in test_redteam.py.
    """
    verified = verifications[name].result()
    with capsys.disabled():
        print(f"\n{verified.output}")
    assert verified.status == 0, verified.output
    (report,) = json.loads(verified.record.read_text())
    kinds = [finding["kind"] for finding in report["findings"]]
    assert kinds.count("wrong") >= 30 and kinds.count("right") >= 3
    wrong = [finding for finding in report["findings"] if finding["kind"] == "wrong"]
    by_values = sum(finding["killed_by_values"] for finding in wrong)
    assert 0 < by_values < len(wrong), "a suite of values alone would do as well"
