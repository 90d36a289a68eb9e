"""Lines that reproduce: typed, they say the sentence that the test said."""

from __future__ import annotations

import pytest

from autograder.author.verify import reproduce, verify


@pytest.mark.parametrize(
    ("line", "output", "status", "outcome"),
    [
        ("ringside check", "x: rank 3 sent 880 bytes; at most\n 192 are allowed.", 1, "same"),
        ("ringside check", "x: rank 0 sent 8 bytes; at most 1 are allowed.", 1, "numbers"),
        ("ringside check", "y on 2: rank 0 sent 8 bytes; at most 1 are allowed.", 1, "fails"),
        ("ringside check", "values: right", 0, "silent"),
        ("ringside check", "no such file", 2, "broken"),
        ("", "", 0, "no line"),
    ],
)
def test_what_a_line_shows_is_judged(line: str, output: str, status: int, outcome: str) -> None:
    sentence = "x: rank 3 sent 880 bytes; at most 192 are allowed. The star sends 9."
    assert reproduce.judge(sentence, line, output, status) == outcome


def test_the_line_of_a_hidden_failure_is_its_test_with_that_case() -> None:
    plan = verify.assignment_named("a04_data_parallel")
    subject = next(
        s for s in verify.subjects(plan) if s.kind == "wrong" and s.module == plan.modules[0].name
    )
    typed = reproduce.typed_line(plan, subject)
    assert typed is not None and typed.shows, typed
    test = subject.fails.removeprefix("test_")
    assert typed.line.startswith(f"ringside check {subject.module} --test {test} --case ")
    assert reproduce.table([typed]).splitlines()[-1].split()[:2] == ["all", "1"]
