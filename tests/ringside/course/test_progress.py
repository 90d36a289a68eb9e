"""The picture of how a reader's predictions come nearer to the results."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import ringside
from ringside.commands.cli import main
from ringside.course.predictions import kept, progress
from ringside.course.predictions.prompt import Prompt


def one(key: str, guess: float | str, result: float | str, minute: int) -> kept.Kept:
    choices = ("ring", "tree") if isinstance(guess, str) else ()
    at = f"2026-03-02T10:{minute:02}:00+00:00"
    return kept.Kept(Prompt(key, "How <many>?", "", choices), guess, at, result, at)


def put(path: Path, *entries: kept.Kept) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"format": kept.FORMAT, "guesses": {e.prompt.key: e.as_json() for e in entries}}
    path.write_text(json.dumps(whole))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    put(
        tmp_path / "lectures" / "guesses.json",
        *(one(f"03/n{n}", 2.0 ** (20 - n), 1.0, n) for n in range(1, 21)),
        one("03/which", "ring", "ring", 21),
        kept.Kept(Prompt("03/open", "?"), 1.0, "2026-03-02T11:00:00+00:00"),
    )
    put(
        tmp_path / "assignments" / "a01" / "guesses.json",
        one("a01/none", 0.0, 7.0, 0),
        one("a01/which", "tree", "ring", 30),
        one("03/n1", 5.0, 1.0, 59),
    )
    return tmp_path


def test_predictions_are_gathered_from_the_course_in_the_order_of_their_making(
    tree: Path,
) -> None:
    found = ringside.guesses(tree / "assignments" / "a01")
    keys = [entry.prompt.key for entry in found.made]
    assert keys == ["a01/none", *(f"03/n{n}" for n in range(1, 21)), "03/which", "a01/which"]
    assert found.made[1].guess == 2.0**19  # the one that was made first
    assert found.open == 1 and found.choices == (1, 2)
    assert found.summary() == (
        "23 predictions. Half of the first 8 numbers were within a factor of 49152, "
        "of the last 8 within 12. 1 of 2 choices right."
    )


def test_the_picture_has_a_dot_for_each_and_says_in_words_what_it_shows(tree: Path) -> None:
    found = ringside.guesses(tree)
    picture = ET.fromstring(found.svg())
    dots = list(picture.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(dots) == 23
    assert found.summary() in picture.attrib["aria-label"]
    heights = [float(dot.attrib["cy"]) for dot in dots[1:21]]
    assert heights == sorted(heights) and heights[0] < heights[-1]  # from too high down to right
    assert heights[-1] == progress._y(1.0)
    words = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"right", "100 times too high", "choices (filled: right)", "03", "a01"} <= set(words)
    assert found._repr_html_() == found.svg()


def test_who_predicted_nothing_is_told_so(tmp_path: Path) -> None:
    found = ringside.guesses(tmp_path)
    assert str(found) == "No prediction has met its result yet."
    ET.fromstring(found.svg())
    put(tmp_path / "guesses.json", one("a/b", 3.0, 1.0, 1))
    assert "The one number was within a factor of 3." in str(ringside.guesses(tmp_path))


def test_the_command_lists_and_draws(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["guesses", str(tree), "--svg", str(tmp_path / "it.svg")]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^  03/n17 +8; result 1; 8 times too high$", told, re.M)
    assert (tmp_path / "it.svg").read_text().startswith("<svg")
    assert main(["guesses", str(tree), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["off_by"] for entry in listed if entry["key"] == "03/n17"] == [8]


def test_a_damaged_file_is_our_error_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "guesses.json").write_text("{")
    assert main(["guesses", str(tmp_path)]) == 2
    assert "guesses.json is damaged" in capsys.readouterr().err


def test_the_band_is_named_where_there_is_one(tmp_path: Path) -> None:
    def drawn(count: int) -> str:
        path = tmp_path / f"{count}" / kept.NAME
        put(path, *(one(f"01/q{at}", 10.0 + at, 20.0, at) for at in range(count)))
        return progress.progress([path]).svg()

    assert "grey band" in drawn(6) and "grey band" not in drawn(2)
