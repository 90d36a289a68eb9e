"""An assignment's whole way in a real browser: JupyterLab, exchange, formgrader, feedback.

The student types one right module, one with a mistake, and her paragraph; the others stay as
they were released. Each step is a fixture that does what a person does, by clicks and keys, and
gives what the page then showed. With RINGSIDE_SCREENSHOTS=FOLDER each leaves a picture there.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import nbformat
import pytest

from autograder.course import database
from autograder.gradebook.nbgrader import grades
from autograder.sandbox.sandbox import SandboxUnavailable, best_tier
from tests.autograder import jupyter_course
from tests.autograder.conftest import KIT
from tests.autograder.jupyter_course import STUDENT, JupyterCourse, JupyterWalk
from tests.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
NAME = "a01_first_ranks"
MISTAKE = ("gpus[local_rank % len(gpus)]", "gpus[local_rank]")  # fewer GPUs than ranks: IndexError
PARAGRAPH = "Measured on two nodes: latency is 1.9 times what alpha says, bandwidth is right."
COMMENT = "Which measurement would tell latency from contention?"
SENT = "#submitted_assignments_list"


def solutions(module: str) -> list[str]:
    """What stands between the markers of a reference module, without the first indentation."""
    text = (KIT / "solutions" / NAME / f"{module}.py").read_text()
    parts = text.split("    ### BEGIN SOLUTION\n")[1:]
    return [part.split("    ### END SOLUTION")[0].strip() for part in parts]


class Walk(JupyterWalk):
    """A student or an instructor in a browser, and what one does in it."""

    def open_lab(self, address: str) -> None:
        self.browser.open(address % "/lab" + "&reset", height=900)
        self.browser.wait("!document.querySelector('#jupyterlab-splash, .jp-mod-loading')")

    def cell(self, grade_id: str) -> str:
        """The selector of a cell of the notebook that is open."""
        return f'.jp-Cell[data-windowed-list-index="{INDEX[grade_id]}"]'

    def run(self, cell: str, *, shows: str, at: str = ".jp-Cell-outputWrapper") -> str:
        """Press Shift-Enter in the cell where the cursor is; gives its output."""
        self.browser.press("Enter", shift=True)
        return self.browser.sees(f"{cell} {at}", shows)

    def write_solution(self, module: str, parts: list[str]) -> None:
        """Write a module's cell anew, with `parts` where it raised NotImplementedError."""
        source = "".join(RELEASE["cells"][INDEX[module]]["source"])
        for part in parts:
            source = source.replace("raise NotImplementedError", part, 1)
        source += f"\n# {secrets.token_hex(8)}"  # so that no earlier run has graded it
        self.browser.click(f"{self.cell(module)} .cm-line")
        self.write(self.cell(module), source)

    def write(self, cell: str, text: str) -> None:
        """Put text in the place of what stands in the cell that was clicked."""
        self.browser.wait(f"!!document.activeElement.closest('{cell} .cm-content')")
        self.browser.press("a", ctrl=True)
        self.browser.write(text)


RELEASE = json.loads((KIT / "assignments" / NAME / f"{NAME}.ipynb").read_text())
INDEX = {
    cell["metadata"]["nbgrader"]["grade_id"]: index
    for index, cell in enumerate(RELEASE["cells"])
    if "nbgrader" in cell["metadata"]
}

FIRST_CODE = next(
    index for index, cell in enumerate(RELEASE["cells"]) if cell["cell_type"] == "code"
)


@pytest.fixture(scope="module")
def class_(tmp_path_factory: pytest.TempPathFactory) -> JupyterCourse:
    """The course, with the assignment released."""
    try:
        best_tier()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    made = jupyter_course.make(tmp_path_factory.mktemp("class"))
    made.nbgrader("release_assignment", NAME)
    return made


@pytest.fixture(scope="module")
def walk() -> Iterator[Walk]:
    with Browser() as browser:
        yield Walk(browser)


@pytest.fixture(scope="module")
def lab(class_: JupyterCourse) -> Iterator[str]:
    """The student's JupyterLab."""
    with class_.lab(student=True) as address:
        yield address


@pytest.fixture(scope="module")
def fetched(walk: Walk, lab: str) -> dict[str, str]:
    page = walk.browser
    walk.open_lab(lab)
    page.click(".lm-MenuBar-item", "Nbgrader")
    menu = page.sees(".lm-Menu-content", "Assignment List")
    page.press("Escape")
    walk.open_list()
    offered = page.sees("#released_assignments_list", NAME)
    walk.picture("released")
    page.click("#released_assignments_list button", "Fetch")
    page.sees("#fetched_assignments_list", NAME)
    page.rests()
    page.click("#fetched_assignments_list .assignment-notebooks-link", NAME)
    mine = page.sees("#fetched_assignments_list", "Validate")
    walk.picture("fetched")
    assert page.errors == []
    return {"menu": menu, "offered": offered, "mine": mine}


@pytest.fixture(scope="module")
def solved(walk: Walk, class_: JupyterCourse, fetched: dict[str, str]) -> dict[str, str]:
    page = walk.browser
    page.click(".assignment-notebooks .item_name a", NAME)
    page.sees(".jp-Notebook", "First ranks")
    page.sees(".jp-NotebookPanel-toolbar", "Python 3")
    # A cell that is run before the kernel answers may be lost.
    page.wait("!!document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]')")
    walk.picture("notebook")
    first = f'.jp-Cell[data-windowed-list-index="{FIRST_CODE}"]'
    page.click(f"{first} .cm-line")
    walk.run(first, at=".jp-InputPrompt", shows="[1]:")  # it makes %%module known
    shown = {}
    mine = class_.home / NAME / "ping.py"  # written in an editor; the cell is as released
    mine.write_text("mine = 1\n")
    page.click(f"{walk.cell('ping')} .cm-line")
    shown["ping"] = walk.run(walk.cell("ping"), shows="ping.py")
    walk.picture("gives_way")
    shown["ping.py"] = mine.read_text()
    mine.unlink()
    for module, change in (("fit", ("", "")), ("where", MISTAKE)):
        walk.write_solution(module, [part.replace(*change) for part in solutions(module)])
        walk.picture(f"{module}_typed")
        walk.run(walk.cell(module), shows=f"{module}.py")
        check = walk.cell(f"check_{module}")
        page.click(f"{check} .cm-line", f'check("{module}")')
        shown[module] = walk.run(check, shows="public points")
        walk.picture(f"{module}_checked")
    paragraph = walk.cell("cluster_report")
    page.click(f"{paragraph} .jp-MarkdownOutput", "Your text here.")
    page.press("Enter")
    walk.write(paragraph, PARAGRAPH)
    page.press("Enter", shift=True)
    page.sees(f"{paragraph} .jp-MarkdownOutput", PARAGRAPH)
    walk.picture("paragraph")
    assert page.errors == []
    return shown


@pytest.fixture(scope="module")
def validated(walk: Walk, solved: dict[str, str]) -> str:
    page = walk.browser
    page.click(".jp-NotebookPanel-toolbar jp-button", "Validate")
    told = page.sees(".jp-Dialog", "Validation Results")
    walk.picture("validated")
    page.click(".jp-Dialog button", "Ok")
    assert page.errors == []
    return told


@pytest.fixture(scope="module")
def submitted(
    walk: Walk, validated: str, class_: JupyterCourse
) -> tuple[list[dict[str, bytes]], str]:
    """What `ringside handin` sends and what the button sends, and what the list then shows."""
    page = walk.browser
    said = class_.ringside("handin", cwd=class_.home / NAME)
    assert "Submitted to the course's exchange." in said
    page.click(".lm-TabBar-tabLabel", "Assignments")
    page.click("#fetched_assignments_list button", "Submit")
    receipt = page.sees(SENT, "UTC")
    page.wait(f"document.querySelectorAll('{SENT} .nested_list_item').length === 2")
    walk.picture("submitted")
    assert page.errors == []
    sent = [
        {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name not in ("timestamp.txt", "submission_secret.txt")
        }
        for folder in sorted(class_.inbound.glob(f"{STUDENT}+{NAME}+*"))
    ]
    return sent, receipt


@pytest.fixture(scope="module")
def graded(submitted: object, class_: JupyterCourse) -> dict[str, float]:
    """The points in the gradebook, after collecting and autograding."""
    class_.nbgrader("collect", NAME)
    class_.nbgrader("autograde", NAME)
    with database.open_gradebook(class_.course) as book:
        return grades.cell_scores(book, NAME, STUDENT)


@pytest.fixture(scope="module")
def read(walk: Walk, graded: object, class_: JupyterCourse) -> dict[str, str]:
    """The instructor in the formgrader: looks, gives points and a comment."""
    page = walk.browser
    shown = {}
    with class_.lab(student=False) as address:
        page.open(address % "/formgrader/manage_assignments", height=900)
        shown["assignments"] = page.sees("tbody", NAME)
        walk.picture("formgrader")
        assert page.errors == []
        page.open(address % f"/formgrader/gradebook/{NAME}/{NAME}", height=900)
        shown["submissions"] = page.sees("tbody", "Submission #1")
        walk.picture("formgrader_submissions")
        assert page.errors == []
        page.click("tbody a", "Submission #1")
        page.wait("!!document.querySelector('input#check_fit[placeholder]')")
        for module in ("fit", "where", "mend"):
            page.ask(f"document.querySelector('#check_{module}').scrollIntoView()")
            shown[module] = page.sees(".tex2jax_ignore", f"{module}.py:")
            shown[f"points_{module}"] = page.wait(f"check_{module}.placeholder")
            walk.picture(f"formgrader_{module}")
        page.click("#cluster_report")
        page.write("4")
        page.click("#cluster_report-comment")
        page.write(COMMENT)
        page.click("#cluster_report")
        walk.picture("formgrader_comment")
        shown["paragraph"] = page.sees("body", PARAGRAPH)
        page.wait(f"({KEPT})('cluster_report', 4, {json.dumps(COMMENT)})")
        # Equations come from a CDN, which nobody reaches here; the rest works.
        foreign = ("cdnjs.cloudflare.com", "MathJax is not defined", "ERR_NAME_NOT_RESOLVED")
        assert [e for e in page.errors if not any(word in e for word in foreign)] == []
    return shown


# What the server says that it has kept of a cell's points and comment.
KEPT = """async (cell, points, comment) => {
  const ask = what => fetch(`${base_url}/api/${what}?submission_id=${submission_id}`)
    .then(answer => answer.json());
  const [grades, comments] = [await ask('grades'), await ask('comments')];
  return grades.some(one => one.name === cell && one.manual_score === points)
    && comments.some(one => one.name === cell && one.manual_comment === comment);
}"""


@pytest.fixture(scope="module")
def feedback(walk: Walk, read: object, class_: JupyterCourse, lab: str) -> str:
    """What the page says that the student opens."""
    class_.nbgrader("generate_feedback", NAME)
    class_.nbgrader("release_feedback", NAME)
    page = walk.browser
    walk.open_lab(lab)
    walk.open_list()
    page.click(f"{SENT} button", "Fetch Feedback")
    page.click(f"{SENT} a", "(view feedback)")
    walk.picture("feedback_fetched")
    page.click(".jp-DirListing-itemText", f"{NAME}.html", times=2)
    inside = "document.querySelector('.jp-HTMLViewer iframe, iframe')?.contentDocument?.body"
    text = str(page.wait(f"{inside}?.innerText.includes('points') && {inside}.innerText"))
    walk.picture("feedback")
    for module in ("fit", "where"):
        page.ask(f"{inside}.querySelector('#{module}').scrollIntoView()")
        walk.picture(f"feedback_{module}")
    assert page.errors == []
    return text


def test_students_fetch_what_was_released(fetched: dict[str, str], class_: JupyterCourse) -> None:
    assert "ringside" in fetched["offered"] and "Submit" in fetched["mine"]
    assert "Formgrader" not in fetched["menu"] and "Create" not in fetched["menu"]
    released = KIT / "assignments" / NAME
    for path in released.rglob("*"):
        if path.is_file() and path.suffix != ".ipynb":  # the notebook is at work by now
            mine = class_.home / NAME / path.relative_to(released)
            assert mine.read_bytes() == path.read_bytes()


def test_shift_enter_in_an_untouched_cell_leaves_the_file_as_it_is(
    solved: dict[str, str],
) -> None:
    assert "ping.py stays as it is: this cell is as it was handed out" in solved["ping"]
    assert solved["ping.py"] == "mine = 1\n"


def test_a_typed_solution_is_checked_in_the_real_kernel(
    solved: dict[str, str], class_: JupyterCourse
) -> None:
    assert "fit: 100 of 100 public points" in solved["fit"] and "FAIL" not in solved["fit"]
    assert "  FAIL  " in solved["where"] and "gpu of each rank: " in solved["where"]
    assert (
        "IndexError" in solved["where"]
        and "try: ringside check where --test gpu_of_each_rank" in solved["where"]
    )
    assert MISTAKE[1] in (class_.home / NAME / "where.py").read_text()


def test_validate_names_what_fails_in_the_words_of_the_check_cell(validated: str) -> None:
    assert "gpu of each rank: " in validated and "IndexError" in validated
    assert validated.count("not written yet") == 2  # ping, mend
    assert 'check("fit")' not in validated and "You did not provide a response" not in validated


def test_the_button_submits_what_handin_submits(
    submitted: tuple[list[dict[str, bytes]], str],
) -> None:
    (by_command, by_button), receipt = submitted
    assert by_command == by_button
    assert MISTAKE[1].encode() in by_button["where.py"]
    notebook = nbformat.reads(by_button[f"{NAME}.ipynb"].decode(), as_version=4)
    assert notebook.cells[INDEX["cluster_report"]].source == PARAGRAPH
    assert NAME in receipt and "Fetch Feedback" in receipt


def test_the_gradebook_holds_what_the_formgrader_shows(
    graded: dict[str, float], read: dict[str, str], class_: JupyterCourse
) -> None:
    assert graded["check_fit"] == 25 and graded["check_ping"] == graded["check_mend"] == 0
    assert 0 < graded["check_where"] < 15 and graded["cluster_report"] == 0
    assert NAME in read["assignments"] and "released" in read["assignments"]
    code = graded["check_fit"] + graded["check_where"]
    assert f"{round(code, 2):g} / 105" in read["submissions"] and "0 / 5" in read["submissions"]
    for module in ("fit", "where", "mend"):
        assert float(read[f"points_{module}"]) == graded[f"check_{module}"]
    assert "fit.py: 25 of 25 points" in read["fit"]
    assert "IndexError" in read["where"]
    with database.open_gradebook(class_.course) as book:
        after = grades.cell_scores(book, NAME, STUDENT)
    assert after == graded | {"cluster_report": 4}


def test_the_feedback_page_says_points_reasons_and_the_comment(
    feedback: str, graded: dict[str, float]
) -> None:
    assert STUDENT in feedback and COMMENT in feedback and PARAGRAPH in feedback
    total = sum(graded.values()) + 4
    assert f"{round(total, 2):g} of 110 points" in " ".join(feedback.split())
    assert "IndexError" in feedback and "ringside check where --test" in feedback
    assert "4 of 5" in feedback
