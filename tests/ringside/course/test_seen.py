"""Answers that nobody can see early: every page, slide and student's notebook is walked."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ringside.course import lectures
from ringside.course.lectures import page_spoilers
from ringside.course.lectures.handout import Handout
from ringside.course.lectures.site import page
from ringside.course.lectures.slides import prepared
from ringside.course.predictions import in_notebook, students
from tests.ringside.course.test_prompts import executed, small, text_of

__all__ = ["small"]  # a fixture

ROOT = Path(__file__).resolve().parents[3]
ALL = lectures.find(ROOT / "lectures")
each = pytest.mark.parametrize("lecture", ALL, ids=lambda one: one.name)


# What lies behind a prompt

ORDER = """# %% [markdown]
# ## 1. A section

# %% tags=["predict"]
guess("00/x", "How many?", unit="times")

# %%
computed = 4

# %% tags=["open"]
other_figure()

# %%
reveal("00/x", computed)

# %% tags=["checked"]
assert computed == 4

# %% [markdown]
# It is four times.

# %%
draw()

# %% [markdown]
# *Figure 1. A figure.* More.

# %% [markdown]
# The next step.
#
# ## 2. Another section
"""


def behind(folder: Path, text: str) -> list[int]:
    return [place for place, one in enumerate(in_notebook.folded(text_of(folder, text))) if one]


@pytest.mark.parametrize(
    ("old", "new", "places", "explanation"),
    [
        ("", "", [2, 4, 5, 6], (6,)),
        ("# %% [markdown]\n# It is", '# %% [markdown] tags=["open"]\n# It is', [2, 4], ()),
        (
            "# %% [markdown]\n# *Figure",
            '# %% [markdown] tags=["explanation"]\n# *Figure',
            [2, 4, 5, 6, 7, 8],
            (6, 8),
        ),
        ("# It is four", "# ## It is\n#\n# four", [2, 4], ()),
        ("draw()", 'guess("00/y", "More?")', [2, 4, 5, 6], (6,)),
        ("draw()", 'reveal("00/x", 4)', [2, 4, 5, 6, 7, 8], (8,)),
    ],
)
def test_all_from_a_prompt_to_the_end_of_its_explanation_is_behind_it(
    tmp_path: Path, old: str, new: str, places: list[int], explanation: tuple[int, ...]
) -> None:
    assert old in ORDER
    text = ORDER.replace(old, new) if old else ORDER
    assert behind(tmp_path / "a", text) == places
    assert in_notebook.stretches(text_of(tmp_path / "b", text))[0].explanation == explanation


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("# It is four", "# It is four\n#\n# ## It is\n#\n# four", "cell 6 explains what cell 4"),
        ("# The next", "# The next", ""),
        ('# %% tags=["open"]', '# %% tags=["explanation"]', "cell 3: the tag 'explanation'"),
    ],
)
def test_an_explanation_that_cannot_be_told_from_what_follows_is_named(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    found = list(in_notebook.wrong_prompts(text_of(tmp_path, ORDER.replace(old, new))))
    assert any(words in one for one in found) if words else found == []


# What students get


def test_a_students_notebook_holds_no_answer_and_the_data_hold_it(
    small: lectures.Lecture,
) -> None:
    mine, entries = students.cleared(nbformat.read(small.notebook, as_version=4))
    assert entries == {
        "00/layer": {"unit": "times"},
        "00/which": {
            "unit": "",
            "answer": "data parallelism",
            "text": "It is 475,743 times larger, which the weights of 1728 numbers explain.",
        },
    }
    text = json.dumps(mine)
    assert not any(words in text for words in ("475,743", "475_743", "475743", "5 minutes"))
    assert text.count("data parallelism") == 1, "among the choices"
    assert 'reveal(\\"00/which\\")' in text and "revealed" not in text
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in mine["cells"])
    before = [cell.source for cell in executed(small)]
    assert "data parallelism" in before[7], "the repository's own stays as it is"


def test_a_folder_is_cleared_once_and_keeps_its_explanations(
    small: lectures.Lecture, tmp_path: Path
) -> None:
    path = tmp_path / "00_tiny.ipynb"
    path.write_bytes(small.notebook.read_bytes())
    assert students.clear_folder(tmp_path) == [path]
    texts = path.read_bytes(), (tmp_path / students.NAME).read_bytes()
    nbformat.validate(nbformat.read(path, as_version=4))
    assert students.clear_folder(tmp_path) == []
    assert (path.read_bytes(), (tmp_path / students.NAME).read_bytes()) == texts
    assert "475,743" in json.loads(texts[1])["explanations"]["00/which"]["text"]


@pytest.mark.parametrize(
    ("source", "cut", "answers"),
    [
        ("reveal('a/b', \"µs, ring\")  # é", "reveal('a/b')  # é", {"a/b": "µs, ring"}),
        ('reveal(\n    "a/b",\n    2 * 400 / 4,\n)', 'reveal(\n    "a/b",\n)', {"a/b": 200.0}),
        ("%time x\nif x:\n    reveal('a/b', 4); reveal('a/c', x)",
         "%time x\nif x:\n    reveal('a/b'); reveal('a/c', x)", {"a/b": 4}),
        ("reveal('a/b')", "reveal('a/b')", {}),
    ],
)  # fmt: skip
def test_an_answer_that_is_written_out_is_cut_from_the_code(
    source: str, cut: str, answers: dict[str, Any]
) -> None:
    assert students.without_answers(source) == (cut, answers)


def test_a_cell_that_needs_a_checked_one_is_named(tmp_path: Path) -> None:
    text = ORDER.replace("assert computed == 4", "share = [k for k in (1, 2)]\nassert share")
    assert list(students.lacking(text_of(tmp_path / "a", text))) == []
    needs = text.replace("draw()", "def draw():\n    return [share for k in (3, 4)]")
    assert list(students.lacking(text_of(tmp_path / "b", needs))) == [
        "cell 7 uses 'share' of checked cell 5."
    ]


@each
def test_a_students_lecture_runs_without_its_checked_cells(lecture: lectures.Lecture) -> None:
    assert list(students.lacking(lectures.read(lecture).cells)) == []


# What tells an answer


def changed(cells: list[Any], place: int, **new: Any) -> list[Any]:
    """Cells of which one is another prose cell."""
    cells = copy.deepcopy(cells)
    cells.insert(place, nbformat.v4.new_markdown_cell(**new))
    return cells


@pytest.mark.parametrize(
    ("prose", "is_told"),
    [
        ("It is 475,743 times.", True),
        ("About 476 thousand.", True),
        ("It takes 256 pictures.", False),
        ("The answer is 475.743 kB", True),
        ("*Figure 1. After 475,743.*", True),
        ("See [475743].", False),
        ("<details><summary>Answer</summary>\n\n475,743\n\n</details>", False),
        ("So **data parallelism** sends less.", True),
        ("There is data parallelism and model parallelism.", False),
    ],
)
@pytest.mark.parametrize("place", [3, 9])
def test_prose_beside_a_prompt_that_tells_its_answer_is_named(
    small: lectures.Lecture, prose: str, is_told: bool, place: int
) -> None:
    # Place 9 is behind the explanation, 3 before the first prompt.
    cells = changed(executed(small), place, source=prose)
    found = list(page_spoilers.early(cells))
    assert bool(found) == is_told, found
    for key in ("00/layer", "00/which"):
        cells[place].metadata[page_spoilers.KNOWN] = {
            **cells[place].metadata.get(page_spoilers.KNOWN, {}), key: "the question gives it",
        }  # fmt: skip
    assert list(page_spoilers.early(cells)) == []


@pytest.mark.parametrize(
    ("answer", "unit", "prose", "is_told"),
    [
        (26.9, "days", "It takes 27 days.", True),
        (26.9, "days", "It takes 27 GPUs.", False),
        (26.9, "days", "It takes **27**.", True),
        (2.0, "times", "It is 2 times as fast.", True),
        (2.0, "times", "It is two times as fast.", True),
        (2.0, "times", "There are two ranks, 2 of them.", False),
        (6.25, "%", "which is 6.25\u202f%", True),
        (17.0, "µs", r"$17\,$µs", False),
        (17.0, "µs", "**17 µs**", True),
        (1530.0, "bytes", "1.53 kB", True),
    ],
)
def test_a_short_number_needs_its_unit_or_bold(
    answer: float, unit: str, prose: str, is_told: bool
) -> None:
    asked = page_spoilers.Answer(in_notebook.Prompt("00/x", "?", unit), answer)
    assert bool(asked.told_in(prose)) == is_told


def test_code_that_names_only_the_right_choice_is_named(small: lectures.Lecture) -> None:
    cells = executed(small)
    cells[7].source = cells[7].source.replace(
        '"data parallelism")', '"data parallelism" if weights else "none")'
    )
    assert [one for one in page_spoilers.early(cells) if "in its code" in one] == [
        "cell 7 tells the answer to '00/which' in its code: 'data parallelism'."
    ]


def test_a_figure_that_reveals_and_a_caption_without_its_figure_are_named(
    small: lectures.Lecture,
) -> None:
    cells = executed(small)
    cells[7].outputs = [nbformat.v4.new_output("display_data", {"text/html": "<svg/>"})]
    cells[8].source = "*Figure 1. What comes out.*"
    assert list(page_spoilers.misplaced(cells)) == [
        "cell 7 draws a figure and reveals '00/which': reveal it in a cell of its own."
    ]
    cells[8].metadata["tags"] = ["open"]
    assert (
        "the figure is behind a prompt, and its caption isn't"
        in list(page_spoilers.misplaced(cells))[1]
    )


def test_a_fold_that_ends_with_the_reveal_tells_the_answer(
    small: lectures.Lecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_notebook, "_explanation", lambda cells, reveal: ((), reveal))
    assert any("475,743" in one for one in page_spoilers.early(executed(small)))


# Every page, slide and student's notebook


def executed_of(lecture: lectures.Lecture) -> list[Any]:
    return list(nbformat.read(lecture.notebook, as_version=4).cells)


@each
def test_no_figure_is_cut_from_its_caption_or_holds_a_reveal(lecture: lectures.Lecture) -> None:
    assert list(page_spoilers.misplaced(executed_of(lecture))) == []


def details_show(cells: Sequence[Any]) -> page_spoilers.Visible:
    """What a page that is made shows before anything is opened, with its details as cells."""
    is_open, opened = [], True
    for cell in cells:
        opened = cell["source"] == "</details>" or (
            opened and not cell["source"].startswith('<details class="ringside')
        )
        is_open.append(opened)
    return lambda start: (index for index in page_spoilers.section(cells, start) if is_open[index])


@each
def test_no_page_tells_an_answer_before_it_is_opened(
    lecture: lectures.Lecture, tmp_path: Path
) -> None:
    (tmp_path / "lectures").mkdir()
    path = tmp_path / "lectures" / lecture.notebook.name
    page(Handout(lecture.notebook, is_lecture=True), path, {})
    cells = nbformat.read(path, as_version=4).cells
    asked = page_spoilers.answers(executed_of(lecture))
    assert list(page_spoilers.told(cells, asked, details_show(cells))) == []
    summaries = {text for cell in cells for text in re.findall("<summary>.*?<", cell.source)}
    assert not asked or "<summary>Reveal<" in summaries


def slide_shows(cells: Sequence[Any]) -> page_spoilers.Visible:
    """What a slide shows when its prompt appears, before the next key."""
    kinds = [cell["metadata"].get("slideshow", {}).get("slide_type", "-") for cell in cells]
    new = ("slide", "subslide")

    def visible(start: int) -> Iterator[int]:
        first = max((p for p in range(start + 1) if kinds[p] in new), default=0)
        after = range(start + 1, len(cells))
        end = next((p for p in after if kinds[p] in (*new, "fragment")), len(cells))
        return (p for p in range(first, end) if kinds[p] not in ("skip", "notes"))

    return visible


@each
def test_no_slide_tells_an_answer_beside_its_question(lecture: lectures.Lecture) -> None:
    cells = prepared(Handout(lecture.notebook, is_lecture=True)).cells
    asked = page_spoilers.answers(executed_of(lecture))
    assert list(page_spoilers.told(cells, asked, slide_shows(cells))) == []


@each
def test_no_students_lecture_tells_an_answer(lecture: lectures.Lecture) -> None:
    mine, entries = students.cleared(nbformat.read(lecture.notebook, as_version=4))
    cells, asked = mine["cells"], page_spoilers.answers(executed_of(lecture))
    assert list(page_spoilers.told(cells, asked, page_spoilers.notebook_shows(cells))) == []
    assert entries.keys() == asked.keys()
    assert list(page_spoilers.unexplained(cells, entries)) == []
