"""In a real browser: a student's words stay words on every page that people open."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest

from autograder import cluster_run, feedback, svg
from autograder.assignment import Assignment
from autograder.outcome import Outcome
from tests.browser import CHROMIUM, Browser

from .payloads import Trap, payloads

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)"
    ),
]
NAMES = [payload.name for payload in payloads("")]
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')


@pytest.fixture(scope="module")
def trap() -> Iterator[Trap]:
    with Trap() as made:
        yield made


@pytest.fixture(scope="module")
def browser(trap: Trap) -> Iterator[Browser]:
    with Browser() as made:
        trap.arm(made)
        yield made


def page_full_of(plan: Assignment, text: str) -> str:
    """A feedback page on which a student's words stand wherever they can."""
    test: dict[str, Any] = {
        "name": text, "points": 60.0, "earned": 15.0, "kind": text, "message": text,
        "detail": text, "reproduce": text, "seconds": 0.1,
    }  # fmt: skip
    module = {
        "score": 15.0,
        "tests": [test, {**test, "earned": 60.0}],
        "counts": [{"case": text, "sent_bytes": [1], "allowed": {"sent_bytes": 0}}],
        "timeline_svg": '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">'
        f"<text>{html.escape(text)}</text></svg>",
        "timeline_caption": text,
    }
    measured = {
        "module": "one", "function": text, "ranks": 2, "n": 3, "status": text, "credit": 0.5,
        "message": text, "points": 1, "max_points": 2,
    }  # fmt: skip
    outcome = Outcome(
        text,
        "graded",
        message=text,
        result={"modules": {"one": module}, "sandbox": text},
        notes=[text, f"{text} is a symbolic link"],
        modules={"one": f'"""{text}"""\nx = 1  # {text}\n', "two": text},
        key=text,
        measured=[measured],
    )
    cells = [feedback.GradedCell("words", 1.0, 5.0, text, text)]
    cells.append(feedback.GradedCell(text, 1.0, 5.0, text, text))
    runs = {"one_cluster": cluster_run.RunCheck("one_cluster", "one", 0.0, 5.0, [(False, text)])}
    return feedback.render(feedback.page_of(plan, outcome, runs=runs, cells=cells))


def tables_full_of(plan: Assignment, text: str) -> str:
    """The tables that stand in nbgrader's notebooks, where no policy protects them."""
    test = {"name": text, "points": 60.0, "earned": 1.0, "message": text, "detail": text}
    outcome = Outcome("ada", "graded", message=text, result={"modules": {"one": {"tests": [test]}}})
    run = cluster_run.RunCheck("one_cluster", "one", 0.0, 5.0, [(False, text)])
    return feedback.module_table(plan.modules[0], outcome) + feedback.run_table(run)


def test_the_trap_snaps(trap: Trap, browser: Browser) -> None:
    """Most payloads work on a page that trusts them, and the trap tells of each that does."""
    pages = {
        each.name: f"<!DOCTYPE html><title>t</title><body><p>{each.text}</p></body>"
        for each in payloads(trap.outside)
    }
    found = trap.visit(browser, pages)
    snapped = {name for name in pages if found[name].harm}
    # Others want a renderer of markdown or mathematics, a sanitiser, or an older browser.
    assert len(snapped) >= 50, sorted(pages.keys() - snapped)
    assert snapped >= {"script", "img_onerror", "javascript_link", "meta_refresh", "form_action"}
    assert snapped >= {"iframe_srcdoc", "svg_onload", "style_url", "base", "noscript", "comment"}


def test_the_feedback_page_shows_every_payload_as_text(
    plan: Assignment, trap: Trap, browser: Browser
) -> None:
    """By escaping alone: the policy, which would hide a fault, is taken off."""
    pages = {"a_word": page_full_of(plan, "a word\nand another")}
    pages |= {each.name: page_full_of(plan, each.text) for each in payloads(trap.outside)}
    pages = {name: POLICY.sub("", page) for name, page in pages.items()}
    found = trap.visit(browser, pages, shown="page.querySelector('.text').textContent")
    usual = found["a_word"].kinds
    for each in payloads(trap.outside):
        assert found[each.name].harm == [], each.name
        assert found[each.name].kinds - usual == set(), each.name
        # Nothing is swallowed, and nothing escaped twice; control characters become signs.
        wanted = feedback.INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", each.text)
        assert str(found[each.name].shown).strip() == wanted.strip(), each.name


def test_the_pages_policy_alone_stops_every_script(
    plan: Assignment, trap: Trap, browser: Browser
) -> None:
    """Should escaping ever fail, nothing runs; a link or a refresh could still lead away."""
    page = page_full_of(plan, "WORDS")
    assert POLICY.search(page)
    pages = {each.name: page.replace("WORDS", each.text) for each in payloads(trap.outside)}
    for name, found in trap.visit(browser, pages).items():
        assert [each for each in found.harm if each.startswith("alarm")] == [], name


def test_tables_in_notebooks_show_every_payload_as_text(
    plan: Assignment, trap: Trap, browser: Browser
) -> None:
    head = "<!DOCTYPE html><title>t</title><body>"
    pages = {"a_word": head + tables_full_of(plan, "a word\nand another")}
    pages |= {each.name: head + tables_full_of(plan, each.text) for each in payloads(trap.outside)}
    found = trap.visit(browser, pages)
    for each in payloads(trap.outside):
        assert found[each.name].harm == [], each.name
        assert found[each.name].kinds - found["a_word"].kinds == set(), each.name


def test_a_drawing_with_a_payload_in_it_is_shapes_and_words_or_nothing(
    trap: Trap, browser: Browser
) -> None:
    pages = {}
    for each in payloads(trap.outside):
        drawing = f'<svg xmlns="{svg.SVG}"><text>{each.text}</text>{each.text}</svg>'
        pages[each.name] = f"<!DOCTYPE html><title>t</title><body>{svg.clean(drawing)}"
    for name, found in trap.visit(browser, pages).items():
        assert found.harm == [], name
        assert {kind.partition("[")[0] for kind in found.kinds} - svg.ELEMENTS <= {"body"}, name
