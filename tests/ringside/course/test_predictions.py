"""Predictions: asked for before a cell runs, kept in a file, locked by the result."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ringside import GuessError, guess, kit, reveal
from ringside.course.predictions import ask, boxes, kept, prompt, students
from ringside.course.predictions.kept import NAME, parse, read

ROOT = Path(__file__).resolve().parents[3]
ASKED = "How many times larger is `x`?"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(ask.NOTES, raising=False)
    monkeypatch.setattr(ask, "_seen", set())
    monkeypatch.setattr(ask, "_asked", set())
    return tmp_path


def test_a_prediction_is_shown_beside_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    guess("08/x", ASKED, unit="times", value=12)
    told = capsys.readouterr().out
    assert told.startswith(f"Predict: {ASKED}\nYour prediction: 12 times.")
    reveal("08/x", np.float32(98))
    assert capsys.readouterr().out == (
        "your prediction: 12 times | result: 98 times | ratio: 0.12: 8.17 times too low\n"
    )


def test_the_unit_stands_behind_a_question_that_does_not_name_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    guess("08/x", "How long does it take?", unit="µs")
    guess("08/y", "How many bytes does it send?", unit="bytes")
    told = capsys.readouterr().out
    assert "take? (in µs)\n" in told and "send?\n" in told


def test_a_script_shows_the_result_without_a_prediction_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    guess("08/x", ASKED)
    capsys.readouterr()
    reveal("08/x", 98)
    assert capsys.readouterr().out == "Result: 98.\n"
    assert list(folder.iterdir()) == []


def explain(folder: Path, **entry: object) -> None:
    students.write(folder / students.NAME, {"08/x": {"unit": "times", **entry}})


def test_who_has_predicted_nothing_is_asked_once_and_then_sees_the_result(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "_in_jupyter", lambda: True)
    monkeypatch.setattr(ask, "_show", lambda html, text: print(text))
    monkeypatch.setattr(ask, "_show_markdown", lambda text: print(f"[{text}]"))
    explain(folder, text="It is **98 times** larger.")
    reveal("08/x", 98)
    assert capsys.readouterr().out == f"{ask.FIRST}\n"
    reveal("08/x", 98)
    assert capsys.readouterr().out == "Result: 98 times.\n[It is **98 times** larger.]\n"
    guess("08/x", ASKED, value=98)
    assert not (folder / NAME).exists(), "the result has been shown"


def test_who_is_asked_first_can_still_predict(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explain(folder, text="So it is.", answer=98)
    monkeypatch.setattr(ask, "_in_jupyter", lambda: True)
    reveal("08/x")
    monkeypatch.setattr(ask, "_in_jupyter", lambda: False)
    guess("08/x", ASKED, value=12)
    capsys.readouterr()
    reveal("08/x")
    assert capsys.readouterr().out == (
        "your prediction: 12 | result: 98 | ratio: 0.12: 8.17 times too low\nSo it is.\n"
    )


def test_where_lectures_are_executed_an_answer_that_is_written_down_is_noted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    explain(folder, text="So it is.", answer="ring")
    monkeypatch.setenv(ask.NOTES, str(folder / "noted"))
    reveal("08/x")
    assert json.loads((folder / "noted").read_text()) == {"reveal": "08/x", "value": "ring"}
    assert capsys.readouterr().out == ""


def test_an_explanation_that_is_missing_is_told_in_a_sentence(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reveal("08/x")
    assert "there is none beside this notebook: put it back" in capsys.readouterr().out
    guess("08/x", ASKED, value=12)
    monkeypatch.setattr(ask, "_in_jupyter", lambda: True)
    monkeypatch.setattr(ask, "_show", lambda html, text: print(text))
    reveal("08/x", 98)
    assert "result: 98" in (said := capsys.readouterr().out) and "put it back" in said
    (folder / "08_lecture.py").touch()  # the repository: the notebook itself explains
    reveal("08/x", 98)
    assert "put it back" not in capsys.readouterr().out
    (folder / students.NAME).write_text("{}")
    with pytest.raises(GuessError, match=r"explanations\.json is damaged"):
        reveal("08/x", 98)


def test_a_notebook_that_was_downloaded_alone_finds_the_installed_handout(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handout = folder / "handout"
    (handout / "lectures").mkdir(parents=True)
    explain(handout / "lectures", text="So it is.")
    monkeypatch.setattr(kit, "handout_folder", lambda: handout)
    reveal("08/x", 98)
    assert capsys.readouterr().out == "Result: 98 times.\nSo it is.\n"


def test_a_prediction_can_be_changed_until_the_result_is_shown(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    guess("08/x", ASKED, value=12)
    guess("08/x", ASKED, value=13)
    reveal("08/x", 98)
    capsys.readouterr()
    guess("08/x", ASKED, value=98)
    assert "Your prediction stays 13: it is locked" in capsys.readouterr().out
    guess("08/x", ASKED)
    assert "Your prediction: 13. It is locked" in capsys.readouterr().out
    one = read(folder / NAME)["08/x"]
    assert (one.guess, one.result) == (13, 98)


def test_a_cell_that_is_run_again_shows_its_new_result_beside_the_old_prediction(
    folder: Path,
) -> None:
    guess("08/x", ASKED, value=12)
    reveal("08/x", 98)
    first = read(folder / NAME)["08/x"].revealed
    reveal("08/x", 24)
    one = read(folder / NAME)["08/x"]
    assert (one.guess, one.result, one.revealed) == (12, 24, first)


def test_who_has_seen_the_result_no_longer_predicts(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    guess("08/x", ASKED)
    reveal("08/x", 98)
    guess("08/x", ASKED, value=98)
    assert "isn't kept as a prediction" in capsys.readouterr().out
    assert not (folder / NAME).exists()


def test_choices_are_right_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    guess("08/x", "Which?", choices=["ring", "tree"], value="tree")
    reveal("08/x", "ring")
    assert capsys.readouterr().out.endswith("your prediction: tree | result: ring | not right\n")
    with pytest.raises(GuessError, match="'star' is none of 'ring', 'tree'"):
        reveal("08/x", "star")


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        ("12", 12),
        (" 1,500 ", 1500),
        ("1 500 000", 1.5e6),
        ("0.5", 0.5),
        (".5", 0.5),
        ("3/4", 0.75),
        ("1e6", 1e6),
        ("-2", -2),
        ("12 µs", 12),
        ("12µs", 12),
        (np.int64(7), 7),
        (np.array(2.5), 2.5),
    ],
)
def test_numbers_are_read_as_people_write_them(typed: object, number: float) -> None:
    assert prompt.number(typed, "08/x", "µs") == number


@pytest.mark.parametrize(
    "typed",
    ["", "many", "1/0", "nan", "inf", "1e999", "0,5", "1,50", "--1", "1e", ".", True, None,
     np.bool_(True), float("nan"), [1], np.array([1.0]), 10**400, 1j],
)  # fmt: skip
def test_what_is_no_number_is_refused(typed: object) -> None:
    with pytest.raises(GuessError, match=r"08/x: .* is not a finite number"):
        prompt.number(typed, "08/x")


def test_a_decimal_comma_is_told_how_to_write_it() -> None:
    with pytest.raises(GuessError, match=r"Write it with a point, as in 0\.5\."):
        prompt.number("0,5", "08/x")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"key": "x"}, "must be a unit, a slash and words"),
        ({"key": "../x"}, "must be a unit, a slash and words"),
        ({"question": ""}, "a question is a text of 1 to 600"),
        ({"choices": ["one"]}, "choices are 2 to 12 different texts"),
        ({"choices": ["one", "one"]}, "choices are 2 to 12 different texts"),
        ({"choices": "yes"}, "must be a list of texts"),
        ({"choices": ["a", "b"], "unit": "µs"}, "a prompt with choices has no unit"),
        ({"unit": 3}, "units and choices are texts"),
    ],
)
def test_a_prompt_that_cannot_be_asked_is_refused(words: dict[str, object], said: str) -> None:
    given: dict[str, object] = {"key": "08/x", "question": "How many?"} | words
    with pytest.raises(GuessError, match=said):
        guess(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("guessed", "result", "ratio", "words", "off_by"),
    [
        (98.0, 98.0, 1.0, "exactly right", 1.0),
        (0.0, 0.0, 1.0, "exactly right", 1.0),
        (100.0, 98.0, 100 / 98, "right within 5 %", 100 / 98),
        (200.0, 98.0, 200 / 98, "2.04 times too high", 200 / 98),
        (1.0, 4.0, 0.25, "4 times too low", 4.0),
        (0.0, 4.0, None, "off by 4", None),
        (3.0, 0.0, None, "off by 3", None),
        (-1.0, 2.0, None, "off by 3", None),
        ("a", "a", None, "right", 1.0),
        ("a", "b", None, "not right", None),
    ],
)
def test_predictions_are_compared_by_their_ratio(
    guessed: float, result: float, ratio: float | None, words: str, off_by: float | None
) -> None:
    verdict = prompt.compare(guessed, result)
    assert (verdict.ratio, verdict.words, verdict.off_by) == (ratio, words, off_by)


# The file


def test_a_damaged_file_is_named_and_stays_as_it_is(folder: Path) -> None:
    damaged = '{"format": "ringside guesses 1",\n "guesses": {'
    (folder / NAME).write_text(damaged)
    said = r"guesses.json is damaged: line 2 is no JSON\. It stays as it is"
    with pytest.raises(GuessError, match=said):
        guess("08/x", ASKED, value=1)
    with pytest.raises(GuessError, match=said):
        guess("08/x", ASKED)
    with pytest.raises(GuessError, match=said):
        reveal("08/x", 1)
    assert (folder / NAME).read_text() == damaged


def test_a_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    (folder / NAME).mkdir()
    with pytest.raises(GuessError, match=r"guesses\.json can't be"):
        guess("08/x", ASKED, value=1)


def ENTRY(**changed: object) -> dict[str, object]:
    return {
        "question": "How many?", "unit": "", "choices": [],
        "guess": 1.0, "guessed": "2026-03-02T10:15:00+00:00",
    } | changed  # fmt: skip


def whole(entries: object) -> bytes:
    return json.dumps({"format": kept.FORMAT, "guesses": entries}).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfe", "it is no UTF-8"),
        (b"[" * 100_000, "it is nested too deeply|line 1 is no JSON"),
        (b"3", 'it has no "format"'),
        (b'{"format": "else", "guesses": {}}', 'it has no "format"'),
        (b" " * (kept.MOST_BYTES + 1), "it is larger than 1 MiB"),
        (b'{"format": "ringside guesses 1", "guesses": {"a/b": NaN}}', "NaN is no number"),
        (whole([]), '"guesses" is no object of at most 1000'),
        (whole({f"a/{n}": ENTRY() for n in range(1001)}), '"guesses" is no object'),
        (whole({"../../etc": ENTRY()}), "is no key"),
        (whole({"a/b\n": ENTRY()}), "is no key"),
        (whole({"a/" + "b" * 61: ENTRY()}), "is no key"),
        (whole({"a/b": 3}), "a/b is no object"),
        (whole({"a/b": ENTRY(question=3)}), "a question is a text"),
        (whole({"a/b": ENTRY(question="q" * 601)}), "a question is a text"),
        (whole({"a/b": ENTRY(unit=None)}), "units and choices are texts"),
        (whole({"a/b": ENTRY(choices="ab")}), "has no list of choices"),
        (whole({"a/b": ENTRY(choices=[{}, {}])}), "units and choices are texts"),
        (whole({"a/b": ENTRY(choices=["a"] * 3)}), "choices are 2 to 12"),
        (whole({"a/b": ENTRY(choices=["a", "b"], guess="c")}), "its guess is none of"),
        (whole({"a/b": ENTRY(choices=["a", "b"], guess=["a"])}), "its guess is none of"),
        (whole({"a/b": ENTRY(guess=True)}), "its guess is no finite number"),
        (whole({"a/b": ENTRY(guess="1")}), "its guess is no finite number"),
        (whole({"a/b": ENTRY(guess=10**400)}), "its guess is no finite number"),
        (b'{"format": "ringside guesses 1", "guesses": {"a/b": {"question": "?", "unit": "", '
         b'"choices": [], "guess": 1e999, "guessed": "2026-03-02T10:15:00+00:00"}}}',
         "its guess is no finite number"),
        (whole({"a/b": ENTRY(guessed="yesterday")}), "a/b has no time with a zone"),
        (whole({"a/b": ENTRY(guessed="2026-03-02T10:15:00")}), "a/b has no time with a zone"),
        (whole({"a/b": ENTRY(guessed=3)}), "a/b has no time with a zone"),
        (whole({"a/b": ENTRY(result=None)}), "its result is no finite number"),
        (whole({"a/b": ENTRY(result=1.0)}), "a/b has no time with a zone"),
    ],
)  # fmt: skip
def test_what_the_kit_does_not_write_it_does_not_read(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(data)


def test_what_is_kept_is_read_again(folder: Path) -> None:
    guess("08/x", ASKED, unit="times", value=12)
    guess("08/y", "Which?", choices=["ring", "tree"], value="tree")
    reveal("08/x", 98)
    text = (folder / NAME).read_text()
    entries = parse(text.encode())
    assert list(entries) == ["08/x", "08/y"]
    assert entries["08/x"].prompt == prompt.Prompt("08/x", ASKED, "times")
    assert entries["08/y"].prompt.choices == ("ring", "tree") and not entries["08/y"].locked
    assert '"guess": 12.0' in text and text.endswith("}\n")


def predict_many(folder: str, name: str) -> None:
    os.chdir(folder)
    for number in range(40):
        kept.keep(Path(NAME), prompt.Prompt(f"{name}/{number}", "How many?"), float(number))
        kept.lock(Path(NAME), f"{name}/{number}", 1.0)


def test_two_notebooks_at_once_lose_nothing(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=predict_many, args=(str(folder), name)) for name in ("a", "b", "c")
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    entries = read(folder / NAME)
    assert set(entries) == {f"{name}/{number}" for name in "abc" for number in range(40)}
    assert all(entry.locked for entry in entries.values())
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_where_lectures_are_executed_nobodys_predictions_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guess("08/x", ASKED, value=12)
    monkeypatch.setenv(ask.NOTES, str(folder / "noted"))
    capsys.readouterr()
    guess("08/x", ASKED)
    reveal("08/x", 98)
    assert capsys.readouterr().out == f"Predict: {ASKED}\n"
    notes = [json.loads(line) for line in (folder / "noted").read_text().splitlines()]
    assert notes == [
        {"guess": "08/x", "unit": "", "choices": []},
        {"reveal": "08/x", "value": 98.0},
    ]
    assert not read(folder / NAME)["08/x"].locked


# Jupyter


def test_the_input_keeps_what_is_entered_and_says_so(folder: Path) -> None:
    asked = prompt.Prompt("08/x", ASKED, "µs")
    live = ask.live_input(folder / NAME, asked)
    entered, said = live.children[0].children[0], live.children[1]
    entered.value = "lots"
    assert said.value == "08/x: 'lots' is not a finite number." and not (folder / NAME).exists()
    entered.value = "1,234,567"
    again = ask.live_input(folder / NAME, asked, read(folder / NAME)["08/x"])
    assert again.children[0].children[0].value == "1234567"
    entered.value = "1,500"
    assert said.value.startswith("Your prediction: 1,500 µs. You can change it")
    reveal("08/x", 20)
    entered.value = "20"
    assert said.value.startswith("Your prediction stays 1,500 µs: it is locked")
    assert entered.value == "1500" and entered.disabled
    assert read(folder / NAME)["08/x"].guess == 1500


def test_choices_are_buttons_of_which_none_is_pressed(folder: Path) -> None:
    asked = prompt.Prompt("08/x", "Which?", choices=("ring", "tree"))
    live = ask.live_input(folder / NAME, asked)
    entered, said = live.children
    assert entered.value is None and entered.options == ("ring", "tree")
    entered.value = "tree"
    assert said.value.startswith("Your prediction: tree.")
    again = ask.live_input(folder / NAME, asked, read(folder / NAME)["08/x"])
    assert again.children[0].value == "tree"
    reveal("08/x", "ring")
    again.children[0].value = "ring"
    assert again.children[0].value == "tree" and again.children[0].disabled
    assert again.children[1].value.startswith("Your prediction stays tree: it is locked")


def test_who_has_seen_the_result_enters_nothing(folder: Path) -> None:
    live = ask.live_input(folder / NAME, prompt.Prompt("08/x", "Which?", choices=("ring", "tree")))
    reveal("08/x", "ring")
    entered, said = live.children
    entered.value = "ring"
    assert said.value.startswith("This notebook has shown the result already")
    assert entered.value is None and entered.disabled and not (folder / NAME).exists()


def test_choices_are_listed_once() -> None:
    asked = prompt.Prompt("08/x", "Which?", choices=("ring", "tree"))
    assert "<li>tree</li>" in boxes.question_html(asked)
    above_buttons = boxes.question_html(asked, lists_choices=False)
    assert "Which?" in above_buttons and "tree" not in above_buttons


NOTEBOOK = """
import os, tempfile
from ringside import guess, reveal
os.chdir(tempfile.mkdtemp())
#
guess("08/x", "How <many>?", unit="times", value=VALUE)
#
reveal("08/x", 98)
#
reveal("08/x", 98)
"""


@pytest.mark.parametrize("value", ["12", "None"])
def test_in_jupyter_it_is_kept_beside_the_notebook(folder: Path, value: str) -> None:
    import nbformat
    from nbclient import NotebookClient

    explain(folder, text="It **is**.")
    cells = NOTEBOOK.replace("VALUE", value).split("#\n")
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(made, resources={"metadata": {"path": str(folder)}})
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    first, *more = made.cells[1].outputs
    assert "How &lt;many&gt;?" in first.data["text/html"]
    assert (folder / NAME).exists() == (value == "12")
    results, again = made.cells[2].outputs, made.cells[3].outputs
    assert again[-1].data == {"text/markdown": "It **is**.", "text/plain": "It **is**."}
    if value == "12":
        assert "8.17 times too low" in results[0].data["text/html"]
        assert "application/vnd.jupyter.widget-view+json" not in str(more)
    else:
        assert [one.text for one in results] == [f"{ask.FIRST}\n"]
        assert again[0].text == "Result: 98 times.\n"
        assert "application/vnd.jupyter.widget-view+json" in more[0].data


def test_importing_ringside_does_not_import_widgets() -> None:
    code = "import sys, ringside; assert not {'ipywidgets', 'IPython'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
