"""The class report as a page: what stands in it, how large it is, and how a browser shows it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from autograder.course import assignment as plans
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.course.late import Late
from autograder.grade.outcome import Outcome
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.gradebook.report import page as report_page
from autograder.gradebook.report import similarity, summary
from tests.autograder.conftest import KIT
from tests.browser import CHROMIUM, Browser

REAL = Course(kit=KIT, root=KIT)
EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
PAYLOADS = (
    EVIL,
    "'\"></title><svg/onload=\"document.title='owned'\">",
    "javascript:document.title='owned'",
    "</style><style>*{display:none}</style>",
    "{{ 7 * 7 }}{% for x in y %}",
    "ada\u202eevil\x1b[31m",
)


def row_of(name: str, earned: float, message: str) -> TestResult:
    detail = message and f"{EVIL}\n  ring.py:3 in f"
    return TestResult(f"test_{name}", "values", 50.0, earned, message, detail, seconds=0.1)


def a_class(plan: Assignment, number: int, hostile: Sequence[str] = PAYLOADS) -> list[Outcome]:
    """Students of every sort: a third makes the same mistake, with numbers of their own."""
    found = []
    for at in range(number):
        says = f"all_reduce on 3 ranks, n = {at}: rank {at % 3} sent -{at}.5 bytes; at most 8."
        parts = {}
        for module in plan.modules:
            bad = at % 3 == 0
            tests = [row_of(f"bytes_{k}", 0.0 if bad else 50.0, says * bad) for k in range(2)]
            parts[module.name] = ModuleResult(module.name, tests, sandbox="bubblewrap with rlimits")
        found.append(
            Outcome(
                f"student{at:03}",
                "graded",
                results=parts,
                modules={m.name: "x" for m in plan.modules if at % 5 or m.name != "cost"},
                untouched=("star",) if at % 7 == 0 else (),
                graded_at=1.8e9 + at,
            )
        )
    found[1] = Outcome("rita", "rejected", message=f"not valid JSON {EVIL}")
    found[2] = Outcome("greta", "grader_error", message="The grader failed. ring: no space")
    for outcome, payload in zip(found[4:], hostile, strict=False):
        outcome.student, outcome.notes = payload, [payload]
        ring = outcome.results["ring"]
        ring.flags = [f"declared {payload}"]
        ring.tests = [row_of(payload, 0.0, payload), row_of("bytes_1", 50.0, "")]
    return found


@pytest.fixture(scope="module")
def plan() -> Assignment:
    return plans.load("a03_allreduce", REAL)


def summarised(plan: Assignment, number: int) -> summary.Summary:
    late = {
        "student000": Late(plan.name, 2e5, 3, 2, 3, 10.0),
        "nobody": Late(plan.name, 1.0, 1, 1, 1, 0.0),
    }
    groups = [similarity.Lookalikes("ring", ("(shipped solution)", "student003", EVIL), 0.93)]
    return summary.summarise(plan, a_class(plan, number), groups, late)


def test_a_class_is_summed_up(plan: Assignment) -> None:
    found = summarised(plan, 60)
    assert len(found.graded) == 58 and len(found.flagged) == len(PAYLOADS)
    assert found.spread is not None and sum(found.spread.bins) == found.spread.number == 58
    assert set(found.late) == {"student000"}  # who handed nothing in is left out
    ring = next(row for row in found.modules if row.module.name == "ring")
    assert ring.spread is not None and (ring.full, ring.none, ring.untouched) == (34, 18, 0)
    star = next(row for row in found.modules if row.module.name == "star")
    assert star.untouched == 9
    (cluster,) = found.clusters["recursive"]
    assert len(cluster.students) == 20  # one mistake, whatever its numbers are
    assert cluster.tests == ("bytes 0", "bytes 1")
    hard = next(test for test in found.tests if test.module == "hierarchical")
    assert (hard.failed, hard.of, [told.students for told in hard.told]) == (20, 58, [20])


def test_quartiles_and_bins_of_percentages() -> None:
    found = summary.spread([0, 50, 100, 120, 99.9])
    assert (found.low, found.median, found.high) == (0, 99.9, 120)
    assert (found.bins[0], found.bins[10], found.bins[-1]) == (1, 1, 3)
    assert summary.spread([40]).third == 40


def test_300_students_fit_into_one_page_without_scripts(plan: Assignment, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report_page.write(path, summarised(plan, 300))
    page = path.read_text()
    assert len(page.encode()) < 3_000_000
    assert "default-src 'none'" in page
    assert not re.search(r"<(script|img|iframe|object|embed|link|base|form)\b", page, re.I)
    assert re.findall(r'\b(?:href|src)="([^#"][^"]*)', page) == []  # links lead within the page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) and set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert "bubblewrap with rlimits" in page and "2027-01-15 08:00 UTC" in page
    assert "2 days of grace spent, 3 left; 1 day charged: 10 % of the score." in page
    assert "{{ 7 * 7 }}" in page and "\x1b" not in page and "\u202e" not in page


def test_a_class_of_nobody_graded_is_a_page_too(plan: Assignment) -> None:
    nobody = dataclasses.replace(plan, modules=plan.modules[:1])
    page = report_page.render(summary.summarise(nobody, [Outcome("ada", "rejected", message="?")]))
    assert "Nothing is graded yet." in page and "No two students fail" in page


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_shows_it_narrow_and_wide_and_runs_nothing(
    plan: Assignment, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    report_page.write(path, summarised(plan, 60))
    with Browser() as browser:
        for width in (390, 1280):
            browser.open(path.as_uri(), width=width)
            assert browser.ask("document.documentElement.scrollWidth") == width
            assert browser.ask("document.title") == f"{plan.title} · class report"
            assert browser.errors == []
            assert [url for url in browser.requested() if not url.startswith("file:")] == []
        counted = browser.ask(
            "[document.querySelectorAll('script, img, [onload], [onerror]').length,"
            " document.querySelectorAll('style').length,"
            " document.querySelectorAll('.class tbody tr').length,"
            " [...document.querySelectorAll('a')].filter(a => a.protocol != 'file:').length]"
        )
        assert counted == [0, 1, 60, 0]
        inside = "document.querySelector('#s4')"
        assert browser.ask(f"{inside}.closest('details').open") is False
        browser.ask("document.querySelector('.class a[href=\"#s4\"]').click()")
        assert browser.wait(f"{inside}.closest('details').open")  # the link unfolds the student
        assert "rank 0 sent -3.5 bytes" in browser.ask(f"{inside}.innerText")


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_no_payload_does_anything_in_the_instructors_browser(plan: Assignment) -> None:
    hostile = pytest.importorskip("tests.autograder.payloads")
    with hostile.Trap() as trap, Browser() as browser:
        trap.arm(browser)
        texts = [each.text for each in hostile.payloads(trap.outside)]
        pages = {}
        for name, words in (("harmless", ["ada"] * len(texts)), ("hostile", texts)):
            outcomes = a_class(plan, len(texts) + 4, words)
            for number, outcome in enumerate(outcomes):
                outcome.student += f" {number}" if name == "harmless" else ""
            groups = [similarity.Lookalikes("ring", tuple(words), 0.9)]
            found = summary.summarise(plan, outcomes, groups)
            pages[name] = report_page.render(found)
        seen = trap.visit(browser, pages)
        assert seen["hostile"].harm == [] and "?" not in seen
        assert seen["hostile"].kinds <= seen["harmless"].kinds | {"a[href]", "span[class]"}
