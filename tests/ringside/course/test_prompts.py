"""Prompts of a lecture: well made, honest, and folded on pages and slides."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ringside.course import lectures
from ringside.course.lectures import spoilers, tagged_parts
from ringside.course.predictions import in_notebook
from tests.browser import CHROMIUM, Browser
from tests.ringside.course import test_lectures as rules

ROOT = Path(__file__).resolve().parents[3]
missing = [
    name
    for name in ("mathjax", "myst_nb", "pydata_sphinx_theme", "sphinx_revealjs")
    if importlib.util.find_spec(name) is None
]
needs_sphinx = pytest.mark.skipif(bool(missing), reason=f'not installed: {missing}; see "site"')
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

SMALL = """# %% [markdown] slideshow={"slide_type": "slide"}
# # Lecture 0: Tiny
#
# One number.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
from ringside import guess, reveal

sides = 224, 224

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. A layer
#
# It takes 256 pictures.

# %% slideshow={"slide_type": "-"} tags=["predict"]
guess("00/layer", "How many times larger is what comes out of `conv`?", unit="times")

# %% slideshow={"slide_type": "-"} tags=["predict"]
guess("00/which", "What sends less?", choices=["data parallelism", "model parallelism"])

# %% [markdown] slideshow={"slide_type": "-"}
# The program BETWEEN multiplies.

# %% slideshow={"slide_type": "-"}
weights = 3 * 64 * 9
print("PRINTED")

# %% slideshow={"slide_type": "-"}
pictures = 256
outputs = pictures * 64 * sides[0] * sides[1]  # CODE
print(f"it is {outputs / weights:.0f}")
reveal("00/layer", outputs / weights)
reveal("00/which", "data parallelism")

# %% [markdown] slideshow={"slide_type": "-"}
# It is 475,743 times larger, which the weights of 1728 numbers explain.

# %% slideshow={"slide_type": "-"} tags=["checked"]
assert round(outputs / weights) == 475_743 and weights == 1728
assert pictures == 256

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for the order first; 5 minutes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. The end
#
# That is all.
"""


def tree_of(folder: Path, text: str) -> lectures.Lecture:
    lecture = lectures.Lecture(folder / "lectures" / "00_tiny.py")
    lecture.source.parent.mkdir(parents=True, exist_ok=True)
    lecture.source.write_text(text)
    (folder / "ringside").symlink_to(ROOT / "ringside")
    return lecture


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> lectures.Lecture:
    """A small lecture, executed."""
    lecture = tree_of(tmp_path_factory.mktemp("small"), SMALL)
    lectures.build(lecture)
    return lecture


def executed(small: lectures.Lecture) -> list[Any]:
    return list(nbformat.read(small.notebook, as_version=4).cells)


def text_of(folder: Path, text: str) -> list[Any]:
    """The cells of a lecture that has not been executed."""
    return list(lectures.read(tree_of(folder, text)).cells)


# Well made


def test_an_executed_notebook_keeps_what_was_revealed_and_shows_nothing_of_it(
    small: lectures.Lecture,
) -> None:
    [cell] = [cell for cell in executed(small) if "revealed" in cell.metadata]
    assert cell.metadata["revealed"] == {
        "00/layer": pytest.approx(475742.8148),
        "00/which": "data parallelism",
    }
    assert [output.output_type for output in cell.outputs] == ["stream"]
    box = next(cell for cell in executed(small) if in_notebook.guessed_in(cell)).outputs
    assert "How many times" in box[0].data["text/html"] and len(box) == 1


def test_readers_own_predictions_change_nothing_in_what_is_built(
    small: lectures.Lecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = small.notebook.read_bytes()
    own = small.source.parent / "guesses.json"
    own.write_text("damaged")
    assert lectures.build(small, force=True)
    assert small.notebook.read_bytes() == before and own.read_text() == "damaged"
    own.unlink()


def test_the_small_lectures_prompts_are_well_made_and_honest(small: lectures.Lecture) -> None:
    assert list(in_notebook.wrong_prompts(executed(small))) == []
    assert list(spoilers.given_away(executed(small))) == []
    assert list(rules.unchecked(lectures.read(small).cells)) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('reveal("00/layer"', 'reveal("00/other"', "reveals '00/other', which no cell above"),
        ('reveal("00/layer", outputs / weights)\n', "", "'00/layer', which is never revealed"),
        ('guess("00/which"', 'guess("00/layer"', "cell 4 asks for '00/layer' again"),
        (' tags=["predict"]', "", "cell 3: the tag 'predict' and a call of guess belong"),
        ('"How many', 'f"How many', "a prompt is one cell with one call"),
        ('guess("00/layer"', '1 + 1\nguess("00/layer"', "a prompt is one cell with one call"),
        ('["data parallelism", ', "[", "choices are 2 to 12 different texts"),
        ("# The program", "# ## 2. A program", "cell 5 opens a section before '00/layer'"),
    ],
)
def test_a_prompt_that_is_not_well_made_is_named(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in SMALL
    found = list(in_notebook.wrong_prompts(text_of(tmp_path, SMALL.replace(old, new))))
    assert any(words in one for one in found), found


def test_teachers_notes_open_no_section(tmp_path: Path) -> None:
    assert list(tagged_parts.notes(text_of(tmp_path / "whole", SMALL))) == []
    found = tagged_parts.notes(text_of(tmp_path, SMALL.replace("# Ask for", "# ## Ask for")))
    assert list(found) == ["cell 10 (notes) is not prose without a heading."]


# Honest


def changed(cells: list[Any], old: str, new: str) -> list[Any]:
    """The executed cells with something else in their text and outputs."""
    for cell in cells:
        cell.source = cell.source.replace(old, new)
        for output in cell.get("outputs", []):
            if "text" in output:
                output.text = output.text.replace(old, new)
    return cells


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("How many times", "Is it 475,743 times, or how many times", "cell 3 .* in its question"),
        ("BETWEEN", "of 475,743", "cell 5 .* in its prose"),
        ("BETWEEN", "of about 476 thousand", "cell 5 .* in its prose"),
        ("PRINTED", "475743", "cell 6 .* in its code"),
        ("CODE", "475_743 times", "cell 7 .* in its code"),
        ("# CODE", "\nassert round(outputs / 1728) == 475_743", "cell 7 .* in its code"),
        ("weights)\nreveal", "weights)\nassert 4.757e5\nreveal", "cell 7 .* in its code"),
    ],
)
def test_an_answer_that_is_given_away_is_named(
    small: lectures.Lecture, old: str, new: str, words: str
) -> None:
    cells = changed(executed(small), old, new)
    found = list(spoilers.given_away(cells))
    assert any(re.search(words, one) for one in found), found


@pytest.mark.parametrize(
    "output",
    [
        nbformat.v4.new_output("stream", text="it is 475,743"),
        nbformat.v4.new_output("display_data", {"text/plain": "475742.8"}),
        nbformat.v4.new_output("display_data", {"text/html": "<b>47</b> <i>475743</i>"}),
        nbformat.v4.new_output("display_data", {"text/html": '<svg aria-label="475,743 times">'}),
    ],
)
def test_an_output_before_the_reveal_gives_away_and_its_own_does_not(
    small: lectures.Lecture, output: Any
) -> None:
    cells = executed(small)
    cells[7].outputs = [output]
    assert list(spoilers.given_away(cells)) == []
    cells[6].outputs = [output]
    assert any("cell 6" in one and "output" in one for one in spoilers.given_away(cells))


def test_an_answer_that_was_never_revealed_is_no_answer(small: lectures.Lecture) -> None:
    cells = executed(small)
    del cells[7].metadata["revealed"]["00/layer"]
    assert list(spoilers.given_away(cells)) == [
        "cell 7 has not revealed '00/layer': build the lecture again."
    ]
    cells[7].metadata["revealed"] = {"00/layer": 4.0, "00/which": "pipeline"}
    assert any("'pipeline' is none of" in one for one in spoilers.given_away(cells))


def test_of_a_small_number_only_an_assertion_counts(small: lectures.Lecture) -> None:
    cells = changed(executed(small), "BETWEEN", "of 4 ranks")
    cells[7].metadata["revealed"]["00/layer"] = 4.0
    cells[6].source = "ranks = 4"
    assert list(spoilers.given_away(cells)) == []
    cells[6].source = "assert len(ranks) == 4"
    assert any("cell 6" in one and "assertion" in one for one in spoilers.given_away(cells))


@pytest.mark.parametrize(
    ("text", "answer", "there"),
    [
        ("0.153", 0.1533, True),
        ("15.3 %", 0.1533, True),
        ("0.15", 0.1533, True),
        ("0.2", 0.1533, False),
        ("1,500 bytes", 1500.0, True),
        ("15,000 bytes", 1500.0, False),
        ("1.53 kB", 1530.0, True),
        ("12345", 2345.0, False),
        ("v1500", 1500.0, False),
        ("1999", 2000.0, False),
        ("-42.5", -42.5, True),
        ("", 3.0, False),
    ],
)
def test_numbers_are_compared_to_the_digits_that_they_have(
    text: str, answer: float, there: bool
) -> None:
    assert spoilers.holds(text, answer) == there


# Checked below


@pytest.mark.parametrize(
    ("old", "new", "number"),
    [
        ('tags=["checked"]', 'tags=["other"]', "1728"),
        ("and weights == 1728", "", "1728"),
        ("It takes 256 pictures.", "It takes 256 pictures of 150,528 points.", "150,528"),
    ],
)
def test_a_number_that_no_checked_cell_below_asserts_is_named(
    tmp_path: Path, old: str, new: str, number: str
) -> None:
    assert old in SMALL
    found = [one for one, _ in rules.unchecked(text_of(tmp_path, SMALL.replace(old, new)))]
    assert number in found


def test_a_number_that_is_quoted_again_has_been_checked(tmp_path: Path) -> None:
    again = SMALL.replace("That is all.", "That is all: 475,743 times, of 256 pictures.")
    assert list(rules.unchecked(text_of(tmp_path, again))) == []
    first = SMALL.replace("That is all.", "That is all: 1984.5 of them.")
    folder = tmp_path / "first"
    assert [one for one, _ in rules.unchecked(text_of(folder, first))] == ["1984.5"]


def test_a_literal_that_is_asserted_against_itself_is_found() -> None:
    assert list(rules.compares_nothing("assert 0.06 == 0.06\nassert x == 1")) == [
        "assert 0.06 == 0.06"
    ]


# On pages and slides


@pytest.fixture(scope="module")
def built(small: lectures.Lecture, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    words = [sys.executable, "-m", "ringside.course.lectures", "site", "--out", str(out)]
    done = subprocess.run(words, cwd=small.tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out / "site"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as one:
        yield one


@needs_sphinx
def test_the_notebook_to_download_is_a_students(built: Path) -> None:
    [path] = built.rglob("_downloads/*/00_tiny.ipynb")
    cells = nbformat.read(path, as_version=4).cells
    assert [cell.id for cell in cells] == [f"cell-{n:03d}" for n in (0, 1, 2, 3, 4, 5, 6, 7, 11)]
    assert not any(cell.get("outputs") for cell in cells)


SEEN = """
(words => [...document.querySelectorAll('article p, article pre, article .ringside-guess')]
  .some(one => one.checkVisibility() && one.textContent.includes(words)))
"""


@pytest.mark.browser
@needs_sphinx
@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
def test_on_a_page_what_is_behind_a_prompt_is_folded_until_it_is_revealed(
    width: int, built: Path, browser: Browser
) -> None:
    browser.open((built / "lectures" / "00_tiny.html").as_uri(), width=width, height=900)

    def seen(words: str) -> bool:
        return bool(browser.ask(f"{SEEN}({words!r})"))

    assert seen("How many times larger") and seen("data parallelism")
    assert not seen("guess(")
    behind = ("multiplies", "PRINTED", "reveal(", "it is 475743")
    behind += ("475,743 times larger",)
    assert not any(seen(words) for words in behind)
    assert not seen("assert round") and not seen("5 minutes") and seen("That is all")
    summaries = browser.ask(
        "[...document.querySelectorAll('article details.ringside-reveal > summary,"
        "details.ringside-checked > summary, details.ringside-teachers > summary')]"
        ".map(one => one.textContent)"
    )
    assert summaries == ["Reveal", "Checked", "For teachers"]
    browser.click("details.ringside-reveal > summary")
    assert all(seen(words) for words in behind) and not seen("assert round")
    browser.click("details.ringside-checked > summary")
    assert seen("assert round")
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("document.querySelectorAll('details h2, details section').length") == 0
    assert browser.errors == []


@pytest.mark.browser
@needs_sphinx
@needs_chromium
def test_on_a_slide_what_is_behind_a_prompt_comes_with_the_next_key(
    built: Path, browser: Browser
) -> None:
    browser.open((built / "slides" / "00_tiny.html").as_uri(), width=1280, height=800)
    browser.wait("Reveal.isReady()")
    browser.ask("Reveal.slide(1, 0)")
    shown = (
        "(words => [...Reveal.getCurrentSlide().querySelectorAll('p, pre, .ringside-guess')]"
        ".some(one => one.checkVisibility({visibilityProperty: true, opacityProperty: true})"
        " && one.textContent.includes(words)))"
    )

    def seen(words: str) -> bool:
        return bool(browser.ask(f"{shown}({words!r})"))

    assert seen("How many times larger") and seen("model parallelism")
    behind = ("multiplies", "PRINTED", "it is 475743", "475,743 times larger")
    assert not any(seen(words) for words in behind)
    top_of = "(css => Reveal.getCurrentSlide().querySelector(css).getBoundingClientRect().top)"
    question, choices = "'.ringside-guess:has(ul) span'", "'.ringside-guess ul'"
    assert browser.ask(f"{top_of}({choices}) > {top_of}({question}) + 10"), "they stand below it"
    browser.ask("Reveal.next()")
    assert browser.wait(f"{shown}('it is 475743')") and seen("multiplies")
    # On a slide that is longer than the screen it comes into sight.
    browser.ask("Reveal.prev()")
    browser.ask("Reveal.getCurrentSlide().firstElementChild.style.paddingTop = '3000px'")
    assert browser.ask(f"{top_of}('.fragment')") > 800
    browser.ask("Reveal.next()")
    assert 0 < browser.wait(f"{top_of}('.fragment')") < 780
    text = (built / "slides" / "00_tiny.html").read_text()
    assert "assert round" not in text and "guess(" not in text and "5 minutes" in text
    assert browser.errors == []


def test_a_page_of_an_assignment_shows_the_boxes_of_its_prompts_and_folds_nothing(
    tmp_path: Path,
) -> None:
    from ringside.course.lectures.handout import Handout
    from ringside.course.lectures.site import page

    cells = text_of(tmp_path, SMALL)
    path = tmp_path / "a00.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    (tmp_path / "pages" / "assignments").mkdir(parents=True)
    page(Handout(path, is_lecture=False), tmp_path / "pages" / "assignments" / "a00.ipynb", {})
    made = nbformat.read(tmp_path / "pages" / "assignments" / "a00.ipynb", as_version=4)
    boxes = [cell.outputs for cell in made.cells if in_notebook.guessed_in(cell)]
    assert all("ringside-guess" in box[0].data["text/html"] for box in boxes)
    assert not any("Reveal" in cell.source for cell in made.cells)
