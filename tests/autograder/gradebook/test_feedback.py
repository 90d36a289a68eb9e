"""The feedback page: what it says, and that a student's words stay words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from autograder import svg
from autograder.collect import cluster_run
from autograder.course.assignment import Assignment, RunSpec
from autograder.grade.outcome import Outcome, clamp
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.gradebook.report import cell_tables, feedback, rendering
from ringside.checking.notebook import module_sha256
from ringside.checking.requirements import Requirement, Requirements

EVIL = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u202egnp.exe\x1b[31m"


def outcome(message: str = "", detail: str = "", **more: Any) -> Outcome:
    test = TestResult("the answer is right", "values", 60.0, 15.0, message, detail, seconds=0.1)
    test.reproduce = "ringside run one.py:answer --ranks 3"
    results = {"one": ModuleResult("one", [test], **more)}
    source = "\n".join(f"line_{number}" for number in range(1, 9))
    return Outcome("ada", "graded", results=results, modules={"one": source})


def test_the_page_says_sentence_line_and_how_to_see_it_again(plan: Assignment) -> None:
    said = outcome(
        "rank 3 sent 880 bytes; at most 192 are allowed.", "KeyError: 4\n  one.py:3 in f"
    )
    page = rendering.render(feedback.page_of(plan, said))
    assert "rank 3 sent 880 bytes; at most 192 are allowed." in page
    assert "<code>ringside run one.py:answer --ranks 3</code>" in page
    assert '<span data-n="3" class="named">line_3</span>' in page
    assert '<span data-n="4">line_4</span>' in page
    assert "<strong>4.5</strong> of 30 points" in page
    assert "two.py was not handed in" in page


def test_page_and_table_show_each_requirement_with_its_points(plan: Assignment) -> None:
    each = (
        Requirement("mean", 60.0, "It gives the mean.", 30.0),
        Requirement("own", 40.0, "It sends its own messages."),
    )
    said = outcome("this is the sum.", requirements=Requirements("own", 20.0, each))
    said.results["one"].tests[0].requirement = "mean"
    own = TestResult("its own messages", "communication", 40.0, 40.0, requirement="own")
    said.results["one"].tests.append(own)
    page = rendering.render(feedback.page_of(plan, said))
    table = cell_tables.module_table(plan.modules[0], said)
    for text in (page, table):
        assert "It gives the mean." in text and "It sends its own messages." in text
        assert "55 points, of which 47.5 count: what weighs more than its points" in text
    assert "15 of 60" in page and "40 of 40" in page
    assert "without it at most 30 of 100" in page and "at most 20" not in page  # that is shown
    assert "15 / 60" in table and "this is the sum." in table
    row = said.as_json(plan)["modules"]["one"]["requirements"][0]
    assert row == {
        "name": "mean", "says": "It gives the mean.", "points": 60.0, "earned": 15.0,
        "is_the_point": False, "limit": 30.0,
    }  # fmt: skip
    assert said.percent("one") == 47.5


def test_long_texts_end_behind_a_word() -> None:
    assert feedback.shown("rank 1 received nothing from rank 0", 26) == "rank 1 received ..."
    assert feedback.shown("a\nb " * 9, 400, 2).splitlines()[1] == "... 8 lines ..."


def test_words_of_a_student_stay_words_everywhere(plan: Assignment) -> None:
    evil = outcome(
        EVIL, EVIL, counts=[{"case": EVIL, "sent_bytes": [1], "allowed": {"sent_bytes": 0}}]
    )
    evil.student, evil.notes, evil.message = EVIL, [EVIL], EVIL
    evil.modules["one"] = EVIL
    cell = feedback.GradedCell("words", 1.0, 5.0, EVIL, EVIL)
    run = cluster_run.RunCheck("one_cluster", "one", 0.0, 5.0, [(False, EVIL)])
    evil.runs = [run]
    page = rendering.render(feedback.page_of(plan, evil, cells=[cell]))
    tables = cell_tables.module_table(plan.modules[0], evil) + cell_tables.run_table(run)
    for text in (page, tables):
        assert "alert(1)" in text
        assert not re.search(r"<(script|img|iframe|object|link|a href=\"(?!#))", text)
        assert "\x1b" not in text
    assert "\u202e" not in page


def test_the_page_loads_and_runs_nothing(plan: Assignment) -> None:
    page = rendering.render(feedback.page_of(plan, outcome("no")))
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", page)
    assert "<script" not in page and "url(" not in page and "@import" not in page


@pytest.mark.parametrize(
    "drawing",
    [
        "",
        "<p>no drawing</p>",
        "<svg><g></svg>",
        "<!DOCTYPE x [<!ENTITY a 'b'>]><svg>&a;</svg>",
        "<svg>" + "x" * 5_000_000 + "</svg>",
    ],
)
def test_what_is_no_drawing_is_left_out(drawing: str) -> None:
    assert svg.clean(drawing) == ""


def test_a_drawing_keeps_shapes_and_words_and_loses_the_rest() -> None:
    drawing = svg.clean(
        '<div><svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        'viewBox="0 0 4 4" onload="x()"><script>x()</script><style>* {}</style>'
        '<foreignObject><p>x</p></foreignObject><a href="javascript:x()"><text>a</text></a>'
        '<rect width="3" style="background:url(http://x)" fill="url(http://x)"/>'
        '<use xlink:href="#here"/><use href="http://x/y"/><rect fill="url(#grad)"/>'
        '<path d="M0 0" marker-end="url(#tip)" onclick="x()"/>'
        "<text>rank 3 &lt;b&gt;<title>over</title></text><!-- note --></svg></div>"
    )
    assert drawing == (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:ns1="http://www.w3.org/1999/xlink" '
        'viewBox="0 0 4 4"><rect width="3" /><use ns1:href="#here" /><use />'
        '<rect fill="url(#grad)" /><path d="M0 0" marker-end="url(#tip)" />'
        "<text>rank 3 &lt;b&gt;<title>over</title></text></svg>"
    )


def test_long_text_is_cut_in_the_middle_and_counted() -> None:
    assert feedback.shown("a\n" * 100, 10_000, 6).split("\n")[3] == "... 95 lines ..."
    assert feedback.shown("x" * 50, 10) == "x" * 7 + "..."


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(3, 3), (-1, 0), (11, 10), ("7.5", 7.5), (float("nan"), 0), (float("inf"), 0), (None, 0),
     ("x", 0), ([], 0)],
)  # fmt: skip
def test_a_score_is_finite_and_within_its_bounds(value: object, wanted: float) -> None:
    assert clamp(value, 10.0) == wanted


@pytest.mark.parametrize(
    ("seconds", "wanted"), [(59, "0 min"), (7_200, "2 h 0 min"), (183_900, "2 days 3 h 5 min")]
)
def test_durations_are_said_as_people_say_them(seconds: float, wanted: str) -> None:
    assert feedback.duration(seconds) == wanted


@pytest.mark.parametrize(
    ("value", "unit", "wanted"),
    [(880, "B", "880 B"), (1536, "B", "1.5 KiB"), (3 << 20, "B", "3 MiB"), (0.0021, "s", "2.1 ms"),
     (12, "", "12")],
)  # fmt: skip
def test_quantities_have_units_that_fit(value: float, unit: str, wanted: str) -> None:
    assert feedback.quantity(value, unit) == wanted


SOURCE = "def all_reduce(comm, x): ...\n"
RUN = RunSpec("one_cluster", "one", 5.0)


def record(**changes: Any) -> dict[str, Any]:
    row = {"n": 9, "times_s": [1e-4], "median_s": 1e-4, "checksum": "ab", "values": "right"}
    return {
        "format": "ringside-run", "version": 1, "module_sha256": module_sha256(SOURCE.encode()),
        "world_size": 4, "hosts": ["a", "a", "b", "b"], "measurements": [row, row], **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "points", "sentence"),
    [
        (record(), 5.0, "It ran on 4 ranks on 2 hosts."),
        (record(module_sha256="0"), 0.0, "of another one.py"),
        (record(world_size=1, hosts=["a"]), 0.0, "2 ranks or more"),
        (record(hosts=["a"]), 0.0, "2 ranks or more"),
        (record(measurements=[]), 0.0, "Measurements are missing"),
        (
            record(measurements=[{"n": 1, "times_s": [float("nan")], "checksum": "x"}]),
            0.0,
            "missing",
        ),
        (record(measurements=[{"values": "wrong"}]), 0.0, "not right at each length"),
        (  # a number without a place among floats
            record(measurements=[{"n": 1, "times_s": [10**400], "checksum": "x"}]),
            0.0,
            "Measurements are missing",
        ),
        (record(format="other"), 0.0, "is not the run.json"),
        ([], 0.0, "does not hold a run"),
        (None, 0.0, "There is no run.json"),
        ("{", 0.0, "can't be read"),
    ],
)
def test_a_run_counts_if_it_is_whole_and_of_this_module(
    tmp_path: Path, content: Any, points: float, sentence: str
) -> None:
    if content is not None:
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / "run.json").write_text(text)
    found = cluster_run.check(RUN, tmp_path, SOURCE)
    assert found.points == points
    assert sentence in " ".join(said for _, said in found.findings)


def test_a_run_of_a_module_that_is_not_there_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(record()))
    assert cluster_run.check(RUN, tmp_path, None).points == 0


def row(name: str, message: str, earned: float = 0.0) -> feedback.TestRow:
    return feedback.TestRow(name, "values", 5.0, earned, message, "", "")


def test_one_reason_is_told_once() -> None:
    case = "all_reduce on {} ranks, n = 3, float64: "
    rows = (
        row("a", case.format(2) + "rank 0 raised KeyError: 4 at ring.py:3"),
        row("b", case.format(5) + "rank 1 raised KeyError: 2 at ring.py:3"),
        row("c", "", 5.0),
        row("d", case.format(5) + "rank 3 sent 8 bytes; at most 4 are allowed."),
        row("e", "", 0.0),
        row("f", "", 0.0),
        row("g", "half", 2.5),
        row("h", "half", 2.5),
    )
    found = [(each.test.name, [o.name for o in each.others]) for each in feedback.failures(rows)]
    assert found == [("a", ["b"]), ("d", []), ("e", []), ("f", []), ("g", []), ("h", [])]
    assert feedback.failures(rows)[0].lost == 5.0
