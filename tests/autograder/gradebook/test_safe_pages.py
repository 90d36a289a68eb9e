"""In a real browser: a student's words stay words on every page that people open."""

from __future__ import annotations

import contextlib
import html
import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from autograder import svg
from autograder.collect import cluster_run
from autograder.course import database, nbgrader_steps
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import pipeline
from autograder.grade.outcome import Outcome
from autograder.grade.pipeline import Sources
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.gradebook.nbgrader.release import register
from autograder.gradebook.report import cell_tables, feedback, rendering
from tests.autograder.conftest import KIT, NAME
from tests.autograder.payloads import Payload, Trap, as_notebook_outputs, payloads
from tests.browser import CHROMIUM, Browser

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
    test = TestResult(text, text, 60.0, 15.0, text, detail=text, reproduce=text, seconds=0.1)
    result = ModuleResult(
        "one",
        [test, replace(test, earned=60.0)],
        counts=[{"case": text, "sent_bytes": [1], "allowed": {"sent_bytes": 0}}],
        timeline_svg='<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">'
        f"<text>{html.escape(text)}</text></svg>",
        sandbox=text,
    )
    measured = {
        "module": "one", "function": text, "ranks": 2, "n": 3, "status": text, "credit": 0.5,
        "message": text, "points": 1, "max_points": 2,
    }  # fmt: skip
    outcome = Outcome(
        text,
        "graded",
        message=text,
        results={"one": result},
        notes=[text, f"{text} is a symbolic link"],
        modules={"one": f'"""{text}"""\nx = 1  # {text}\n', "two": text},
        key=text,
        measured=[measured],
    )
    cells = [feedback.GradedCell("words", 1.0, 5.0, text, text)]
    cells.append(feedback.GradedCell(text, 1.0, 5.0, text, text))
    outcome.runs = [cluster_run.RunCheck("one_cluster", "one", 0.0, 5.0, [(False, text)])]
    return rendering.render(feedback.page_of(plan, outcome, cells=cells))


def tables_full_of(plan: Assignment, text: str) -> str:
    """The tables that stand in nbgrader's notebooks, where no policy protects them."""
    result = ModuleResult("one", [TestResult(text, "", 60.0, 1.0, text, detail=text)])
    outcome = Outcome("ada", "graded", message=text, results={"one": result})
    run = cluster_run.RunCheck("one_cluster", "one", 0.0, 5.0, [(False, text)])
    return cell_tables.module_table(plan.modules[0], outcome) + cell_tables.run_table(run)


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


# -- nbgrader's own pages --------------------------------------------------------------------------

STUDENT = "<img src=x onerror=alert`student`>&amp;$\\href{javascript:x}{y}$"
# MathJax reads the page for formulas, but not in these.
READ_BY_MATHJAX = """[...document.querySelectorAll('#notebook *')].filter(one =>
  [...one.childNodes].some(each => each.nodeType === 3 && each.data.includes('\\\\href')) &&
  !one.closest('pre, code, .tex2jax_ignore, script, style, textarea')).map(one => one.outerHTML)"""


def submission_full_of(notebook: nbformat.NotebookNode, found: list[Payload]) -> bytes:
    """A notebook with payloads wherever a notebook has room, in text that a person reads too."""
    everything = "\n\n".join(payload.text for payload in found)
    notebook.metadata["title"] = everything
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": everything}
    notebook.metadata["kernelspec"]["display_name"] = everything
    for cell, payload in zip(notebook.cells, itertools.cycle(found), strict=False):
        cell.id = re.sub(r"\W", "-", payload.name)
        cell.metadata["tags"] = [payload.text]
        cell.metadata["name"] = everything
        if cell.cell_type == "code":
            cell.outputs = as_notebook_outputs(payload)
        else:
            cell.attachments = {payload.text: {"image/svg+xml": payload.text}}
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id in ("one", "two", "words"):
            cell.source = f"%%module {grade_id}.py\n" * (grade_id != "words") + everything
        elif grade_id is None:
            cell.source = everything
    return json.dumps(notebook).encode()


def grader_full_of(found: list[Payload]) -> pipeline.Grader:
    """A grader whose sentences repeat what students said."""

    def grade(assignment: str, sources: Sources, module: str) -> ModuleResult:
        points = 100 / len(found)
        texts = [payload.text for payload in found]
        return ModuleResult(
            module,
            [TestResult(t, "values", points, 0.0, t, detail=t, reproduce=t) for t in texts],
        )

    return grade


def essence(kind: str) -> str:
    """A kind of element without what nbgrader's own scripts set as they go: classes, styles."""
    tag, names, leads_to = re.fullmatch(r"([^[]*)\[([^]]*)\](.*)", kind, re.DOTALL).groups()  # type: ignore[union-attr]
    acts = ("on", "src", "href", "xlink", "action", "form", "http-equiv")
    return f"{tag} {[name for name in names.split() if name.startswith(acts)]} {leads_to}"


@contextlib.contextmanager
def formgrader(course: Course) -> Iterator[str]:
    """nbgrader's formgrader for a course: its address."""
    settings = (KIT / "nbgrader_config.py").read_text()
    (course.root / "nbgrader_config.py").write_text(settings)
    home = course.root / "home"
    ours = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        ours[name] = str(home / name)
    extensions = "{'nbgrader.server_extensions.formgrader': True}"
    words = ["--no-browser", "--allow-root", "--ServerApp.port=0", "--ServerApp.token="]
    words += [f"--ServerApp.jpserver_extensions={extensions}"]
    log = course.root / "server.log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter", "server", *words],
            cwd=course.root,
            env={**ours, "PYTHONPATH": str(KIT)},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + 120
        while not (told := re.search(r"http://[\w.]+:(\d+)/", log.read_text())):
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{told[1]}"
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_the_formgrader_shows_every_payload_as_text(
    plan: Assignment,
    course: Course,
    trap: Trap,
    browser: Browser,
    notebook: Callable[..., nbformat.NotebookNode],
    hand_in: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    course.source(NAME).parent.mkdir(parents=True)
    course.source(NAME).symlink_to(Course(kit=course.kit, root=course.kit).source(NAME))
    register(plan, course, tmp_path / "scratch")
    word = [Payload("word", "a word\n\nand another")]
    for student, found in (("ada", word), (STUDENT, payloads(trap.outside))):
        hand_in(student, submission_full_of(notebook(), found), README__md="x")
        monkeypatch.setattr(pipeline, "suite_grader", lambda _, f=found, **__: grader_full_of(f))
        nbgrader_steps.autograde(course, NAME, student)
    database.name_students(course, {STUDENT: (STUDENT, STUDENT)})
    with database.open_gradebook(course) as book:
        ids = {
            student: book.find_submission_notebook(NAME, NAME, student).id
            for student in ("ada", STUDENT)
        }
    with formgrader(course) as address:
        kinds = {}
        for student, number in ids.items():
            browser.open(f"{address}/formgrader/submissions/{number}/")
            browser.wait("document.querySelectorAll('.nbgrader_cell').length > 4")
            # nbgrader's page itself asks for MathJax.
            found = trap.try_page(browser, root="#notebook-container", allowed=address)
            kinds[student] = set(map(essence, found.kinds))
            assert [each for each in found.harm if "cdnjs.cloudflare.com" not in each] == []
            assert browser.ask(READ_BY_MATHJAX) == []
        assert kinds[STUDENT] - kinds["ada"] == set()
        shown = browser.ask("document.querySelector('#notebook-container').textContent")
        for name in ("script", "mutation_math", "markdown_image", "math_href"):
            assert f"alert`{name}`" in shown or f"{trap.outside}/{name}" in shown, name
        for page in (
            "manage_submissions/a99_toy", "manage_students", "gradebook/a99_toy/a99_toy",
        ):  # fmt: skip
            browser.open(f"{address}/formgrader/{page}")
            browser.wait("document.body.textContent.includes('onerror')")
            browser.ask("new Promise(done => setTimeout(done, 200))")
            assert trap.alarms(browser, address) == []
            assert browser.ask("document.querySelectorAll('[onerror], [onload]').length") == 0
