"""Decks of lectures: what is borrowed, what doesn't fit, and each slide in a browser."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ringside.course import lectures
from ringside.course.lectures import decks
from ringside.course.lectures.handout import Handout
from ringside.course.lectures.lecture import LectureError
from ringside.course.lectures.slides import prepared, slides
from tests.browser import CHROMIUM, Browser

ROOT = Path(__file__).resolve().parents[3]
DECKS = sorted((ROOT / "lectures" / "decks").glob("*.md"))
new = nbformat.v4

# For each slide: its place, by how much it is too large, and the smallest picture's scale.
MEASURE = """Reveal.getSlides().map(one => {
  const at = Reveal.getIndices(one);
  Reveal.slide(at.h, at.v, 99);
  const deck = one.querySelector('.deck');
  const right = one.getBoundingClientRect().right, bottom = one.getBoundingClientRect().top + 800;
  const parts = 'h2, p, li, table, pre, img, svg, .ringside-guess, .ringside-explore';
  const boxes = [...deck.querySelectorAll(parts)]
    .map(part => part.getBoundingClientRect());
  const over = Math.max(...boxes.map(box => Math.max(box.right - right, box.bottom - bottom)),
    ...[...deck.querySelectorAll('pre')].map(pre => pre.scrollWidth - pre.clientWidth));
  const scales = [...deck.querySelectorAll('.deck-shown > img, .deck-shown > svg')].map(shown => {
    const box = shown.getBoundingClientRect();
    const [w, h] = shown.viewBox ? [shown.viewBox.baseVal.width, shown.viewBox.baseVal.height]
      : [+shown.getAttribute('width'),
         +shown.getAttribute('width') * shown.naturalHeight / shown.naturalWidth];
    return Math.min(box.width / w, box.height / h);
  });
  return [`${at.h}/${at.v || 0}`, Math.round(over), Math.min(9, ...scales)];
})"""
SMALLEST = 0.75  # of a picture's size on a page


def notebook(*sources: str) -> Any:
    """A lecture of one section; what begins with % is code."""
    cells = [new.new_markdown_cell("# Lecture 7: Shards")]
    cells.append(new.new_markdown_cell("## 1. Halves", metadata={"meeting": 1, "minutes": 3}))
    for source in sources:
        make = new.new_code_cell if source.startswith("%") else new.new_markdown_cell
        cells.append(make(source.lstrip("%") if "writefile" not in source else source))
    return new.new_notebook(cells=cells)


def faults(text: str, *sources: str, tmp_path: Path) -> list[str]:
    path = tmp_path / "07.md"
    path.write_text(f"# Meeting 1\n\n{text}", encoding="utf-8")
    return list(decks.wrong(decks.read(path), notebook(*sources)))


def test_a_program_is_borrowed_by_its_words(tmp_path: Path) -> None:
    path = tmp_path / "07.md"
    text = '# Meeting 1\n\n## Halves\n{code halves.py "def" 2}\nNote: ask\nmore\n'
    path.write_text(text, encoding="utf-8")
    source = (
        "%%writefile halves.py\nimport this\n\nif True:\n    def halve(x):\n        return x / 2"
    )
    deck = decks.read(path)
    assert list(decks.wrong(deck, notebook(source))) == []
    opening, slide, notes = decks.cells(deck, notebook(source))
    assert "1. Halves | 3" in opening.source and "halve" in slide.source
    assert "import" not in slide.source and notes.source == "ask\nmore"


@pytest.mark.parametrize(
    ("slide", "fault"),
    [
        (f"## Halves\n{'word ' * 26}\nNote: ask", "has 26 words; at most 25"),
        ("## It takes 55 µs\nNote: ask", "says 55; the lecture has no such number"),
        ("## Halves\n{figure 3}\nNote: ask", "the lecture has no caption '*Figure 3.'"),
        ('## Halves\n{code a.py "y" 1}\nNote: ask', "'y' of a.py; the lecture's has no such"),
        ('## Halves\n{output "y ="}\nNote: ask', "no cell that shows has it"),
        ('## Halves\n{output "z = {"}\nNote: ask', "which borrows nothing"),
        ("## {prompt nothing}", "the lecture has no such prompt"),
        ("## Halves", "has no note for the speaker"),
        (f"## {'Halves ' * 13}\nNote: ask", "has a title of 91 letters"),
        ("## A\nNote: a\n## B\nNote: b", "meeting 1 has 2 slides; its 3 minutes take 1 to 1"),
    ],
)
def test_what_doesnt_fit_or_isnt_the_lectures_is_named(
    slide: str, fault: str, tmp_path: Path
) -> None:
    found = faults(slide, "The ring takes 54 µs.", "%%writefile a.py\nx = 1", tmp_path=tmp_path)
    assert len(found) == 1 and fault in found[0]


def printing(columns: int) -> Any:
    """A lecture whose one output is a line so wide."""
    lecture = notebook("%print(line)")
    lecture.cells[-1].outputs = [new.new_output("stream", text="x" * columns + "\n")]
    return lecture


@pytest.mark.parametrize(
    ("columns", "kind", "fault"),
    [
        (42, '<pre class="deck-narrow">', ""),
        (43, "<pre>", ""),
        (64, "<pre>", ""),
        (65, '<pre class="deck-wide">', ""),
        (85, '<pre class="deck-widest">', ""),
        (93, "<pre", "at most 92 fit"),
    ],
)
def test_output_gets_the_letters_that_fit(
    columns: int, kind: str, fault: str, tmp_path: Path
) -> None:
    path = tmp_path / "07.md"
    path.write_text('# Meeting 1\n\n## Halves\n{output "line"}\nNote: ask\n', encoding="utf-8")
    deck = decks.read(path)
    assert kind in decks.cells(deck, printing(columns))[1].source
    found = list(decks.wrong(deck, printing(columns)))
    assert len(found) == bool(fault) and fault in "".join(found)


@pytest.mark.parametrize(("columns", "kind"), [(64, "<div>"), (65, '<div class="deck-wide">')])
def test_a_wide_program_gets_smaller_letters(columns: int, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "07.md"
    path.write_text('# Meeting 1\n\n## Halves\n{code a.py "x" 1}\nNote: ask\n', encoding="utf-8")
    source = f"%%writefile a.py\n{'x' * columns}"
    assert f"{kind}<div" in decks.cells(decks.read(path), notebook(source))[1].source


@pytest.mark.parametrize(("columns", "larger"), [(42, True), (43, False)])
def test_two_narrow_programs_get_the_same_larger_letters(
    columns: int, larger: bool, tmp_path: Path
) -> None:
    path = tmp_path / "07.md"
    text = '# Meeting 1\n\n## Halves\n{code a.py "x" 1}\n{code a.py "y" 1}\nNote: ask\n'
    path.write_text(text, encoding="utf-8")
    source = f"%%writefile a.py\n{'x' * columns}\ny"
    row = decks.cells(decks.read(path), notebook(source))[1].source
    assert ('class="deck-row deck-two deck-larger"' in row) == larger


def test_a_number_of_the_lecture_may_be_said(tmp_path: Path) -> None:
    assert faults("## It takes 10,617 tokens\nNote: ask", "10617 of them", tmp_path=tmp_path) == []


def test_a_deck_must_have_the_lectures_meetings(tmp_path: Path) -> None:
    path = tmp_path / "07.md"
    path.write_text("# Meeting 2\n\n## Halves\nNote: ask\n", encoding="utf-8")
    (fault, *_) = decks.wrong(decks.read(path), notebook())
    assert fault == "its meetings are [2]; the lecture's are [1]."


def test_a_line_before_the_first_slide_is_named(tmp_path: Path) -> None:
    path = tmp_path / "07.md"
    path.write_text("# Meeting 1\nHalves\n", encoding="utf-8")
    with pytest.raises(LectureError, match=r"07\.md:2: 'Halves' is on no slide"):
        decks.read(path)


@pytest.mark.parametrize("path", DECKS, ids=lambda path: path.stem)
def test_a_deck_borrows_from_its_lecture_and_fits(path: Path) -> None:
    (lecture,) = lectures.find(ROOT / "lectures", [path.stem])
    talk = Handout(lecture.notebook, is_lecture=True)
    assert list(decks.wrong(decks.read(path), talk.read())) == []
    told = prepared(talk).cells
    assert sum(cell.metadata["slideshow"]["slide_type"] == "slide" for cell in told) == len(
        decks.read(path)
    )


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("mathjax", "sphinx_revealjs"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f'{package} is not installed; see "site"')
    out = tmp_path_factory.mktemp("decks")
    found = [lectures.find(ROOT / "lectures", [path.stem])[0].notebook for path in DECKS]
    slides([Handout(one, is_lecture=True) for one in found], out)
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("path", DECKS, ids=lambda path: path.stem)
def test_every_slide_fits_the_screen_unscaled(path: Path, shown: Path, browser: Browser) -> None:
    browser.open((shown / f"{path.stem}.html").as_uri(), width=1280, height=850)
    browser.wait("Reveal.isReady()")
    browser.ask("MathJax.startup.promise.then(() => true)")
    measured = browser.ask(MEASURE)
    assert len(measured) > 10
    assert [(at, over) for at, over, _ in measured if over > 0] == []
    assert [(at, scale) for at, _, scale in measured if scale < SMALLEST] == []
    assert browser.errors == []
