"""One hidden test on one submission of the kit, as plain pytest."""

from __future__ import annotations

import pytest

from autograder.author.verify import one_test

BARRIER = "wrong/ring__barrier_in_each_step"


def test_one_hidden_test_fails_on_one_edit_with_its_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert one_test.main(["a03", BARRIER]) == 1
    screen = capfd.readouterr().out
    assert "test_only_point_to_point_calls" in screen and "1 failed" in screen
    assert "def assert_own_messages(" in screen, "the check's own lines are shown"
    assert "the library's barrier was called" in screen


def test_a_submission_that_there_is_not_is_named_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, sentence in (
        ("wrong/ring__barier", "no submission 'wrong/ring__barier': write KIND/NAME in full"),
        ("wrong/ring", "several submissions 'wrong/ring': write KIND/NAME in full"),
    ):
        assert one_test.main(["a03_allreduce", name]) == 2
        assert sentence in capsys.readouterr().err
