"""What a class predicted: read with distrust, counted, and never graded."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.collect import predictions
from autograder.course import assignment as plans
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade.outcome import Outcome
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.gradebook.report import class_predictions, page, report
from autograder.gradebook.report.summary import summarise
from autograder.terminal import console
from ringside.course.predictions import kept
from ringside.course.predictions.prompt import Prompt
from tests.autograder.conftest import KIT

NUMBER = Prompt("a03/bytes", "How many bytes?", "bytes")
CHOICE = Prompt("a03/which", "Which <b>one</b> of `p`?", "", ("ring", "tree", "`<i>`"))
PROMPTS = (NUMBER, CHOICE)
AT = "2026-03-02T10:15:00+00:00"


def file_of(folder: Path, *entries: kept.Kept) -> None:
    whole = {"format": kept.FORMAT, "guesses": {e.prompt.key: e.as_json() for e in entries}}
    (folder / kept.NAME).write_text(json.dumps(whole))


def test_prompts_are_those_of_the_released_notebook(tmp_path: Path) -> None:
    cells = [
        'guess("a03/bytes", "How many bytes?", unit="bytes")',
        'guess("a03/which", "Which <b>one</b> of `p`?", choices=["ring", "tree", "`<i>`"])',
        "print(3)",
    ]
    path = tmp_path / "a03.ipynb"
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(made, path)
    assert predictions.prompts_in(path) == PROMPTS
    assert predictions.prompts_in(tmp_path / "none.ipynb") == ()


def test_only_answers_to_the_released_prompts_are_taken(tmp_path: Path) -> None:
    file_of(
        tmp_path,
        kept.Kept(NUMBER, 12.0, AT, 98.0, AT),
        kept.Kept(Prompt("a03/which", "Which?", "", ("ring", "<script>")), "<script>", AT),
        kept.Kept(Prompt("a03/mine", "Mine?"), 1.0, AT),
    )
    assert predictions.handed_in(tmp_path, PROMPTS) == ({"a03/bytes": [12.0, 98.0]}, "")
    file_of(tmp_path, kept.Kept(Prompt("a03/bytes", "?", "MB"), 12.0, AT))
    assert predictions.handed_in(tmp_path, PROMPTS) == ({}, "")
    assert predictions.handed_in(tmp_path, ()) == ({}, "")
    assert predictions.handed_in(None, PROMPTS) == ({}, "")


@pytest.mark.parametrize("data", [b"{", b"\xff" * 10, b" " * (2 << 20), b"[" * 100_000, b"null"])
def test_a_broken_file_is_said_in_a_line_and_changes_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / kept.NAME).write_bytes(data)
    found, said = predictions.handed_in(tmp_path, PROMPTS)
    assert found == {} and said.startswith("guesses.json can't be read: ")
    assert said.endswith("It is no part of the grade.") and "\n" not in said and len(said) < 300


def test_a_link_and_a_folder_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    file_of(secret, kept.Kept(NUMBER, 12.0, AT))
    (tmp_path / kept.NAME).symlink_to(secret / kept.NAME)
    found, said = predictions.handed_in(tmp_path, PROMPTS)
    assert found == {} and "can't be read" in said
    (tmp_path / kept.NAME).unlink()
    (tmp_path / kept.NAME).mkdir()
    assert predictions.handed_in(tmp_path, PROMPTS)[0] == {}


def test_garbage_of_every_sort_is_read_without_a_crash(tmp_path: Path) -> None:
    rng = random.Random(4)
    whole = {
        "format": kept.FORMAT,
        "guesses": {"a03/bytes": kept.Kept(NUMBER, 12.0, AT, 98.0, AT).as_json()},
    }
    good = json.dumps(whole).encode()
    for _ in range(500):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        (tmp_path / kept.NAME).write_bytes(bytes(data[: rng.randint(0, len(data))]))
        found, said = predictions.handed_in(tmp_path, PROMPTS)
        assert said or set(found) <= {"a03/bytes"}


def the_class(*numbers: float) -> list[dict[str, list[Any]]]:
    return [{"a03/bytes": [each, 100.0]} for each in numbers]


def test_numbers_fall_into_bins_and_the_one_with_the_result_is_marked() -> None:
    [found] = class_predictions.of_class(PROMPTS, the_class(1, 10, 90, 110, 1000))
    assert found.number == 5 and sum(each.number for each in found.bins) == 5
    [right] = [each for each in found.bins if each.is_right]
    assert right.number >= 1 and found.result == "100 bytes"
    assert found.near == "half within 10 times"
    assert found.bins[0].label.startswith("1 to ") and found.bins[-1].label.endswith(" to 1,000")


@pytest.mark.parametrize(
    "numbers",
    [
        [5.0], [5.0, 5.0], [0.0, 1.0], [-1.0, 1.0], [1.0, 1.7e308], [-1.7e308, 1.7e308],
        [5e-324, 1.7e308], [5e-324, 1e-323], [1.0, 1.0 + 2**-52], [5.0] * 40 + [1e300, -1e300],
    ],
)  # fmt: skip
def test_absurd_numbers_break_no_histogram(numbers: list[float]) -> None:
    [found] = class_predictions.of_class(PROMPTS, the_class(*numbers))
    assert sum(each.number for each in found.bins) == len(numbers)


def test_one_absurd_number_widens_no_axis() -> None:
    [found] = class_predictions.of_class(PROMPTS, the_class(*range(90, 130), 1e300))
    assert found.bins[-1].label.endswith(("127", "128", "129"))


def test_choices_are_counted_with_those_that_nobody_took() -> None:
    answers = [{"a03/which": ["ring", "tree"]}] * 3 + [{"a03/which": ["ring", None]}]
    [found] = class_predictions.of_class(PROMPTS, answers)
    assert [(each.label, each.number, each.is_right) for each in found.bins] == [
        ("ring", 4, False),
        ("tree", 0, True),
        ("`<i>`", 0, False),
    ]
    assert found.near == "0 of 4 right"


@pytest.fixture(scope="module")
def plan() -> Assignment:
    return plans.load("a03_allreduce", Course(kit=KIT, root=KIT))


def test_the_report_shows_them_and_no_score_depends_on_them(
    plan: Assignment, tmp_path: Path
) -> None:
    half = [TestResult("half", "values", 100.0, 50.0)]
    results = {m.name: ModuleResult(m.name, half) for m in plan.modules}

    def of(guesses: dict[str, list[Any]]) -> Outcome:
        return Outcome("ada", "graded", results=results, guesses=guesses)

    with_them = of({"a03/bytes": [12.0, 98.0], "a03/which": ["ring", "ring"]})
    assert with_them.score(plan) == of({}).score(plan)
    html = page.render(summarise(plan, [with_them], prompts=PROMPTS))
    assert "a03/bytes" in html and "Which &lt;b&gt;one&lt;/b&gt; of <code>p</code>?" in html
    # Each choice with its number, also one that nobody took.
    assert re.findall(r'<span class="num">(\d)</span>.*small">(.+)</span></div>', html) == [
        ("1", "ring"), ("0", "tree"), ("0", "<code>&lt;i&gt;</code>"),
    ]  # fmt: skip
    assert 'aria-label="ring: 1 (right)' in html and "What the class predicted" in html
    assert "What the class predicted" not in page.render(summarise(plan, [of({})], prompts=PROMPTS))
    terminal = console()
    with terminal.capture() as captured:
        report.print_report(terminal, summarise(plan, [with_them], prompts=PROMPTS))
    assert "ring: 1 (right)" in captured.get()
