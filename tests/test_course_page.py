"""docs/course.md: every idea of the decks has two of lecture, module and published number.

lectures/systems.md and lectures/corrections.md: their links lead somewhere, too.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ringside.course.handout.listing import listing

ROOT = Path(__file__).resolve().parent.parent
UNITS = sorted((ROOT / "solutions").glob("a*/assignment.toml"))
PAGE = ROOT / "docs" / "course.md"
SHARED = [ROOT / "lectures" / "systems.md", ROOT / "lectures" / "corrections.md"]
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def rows() -> list[tuple[str, list[str]]]:
    """Each row's name and its three cells."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and cells[0] and not cells[0].startswith("---"):
            found.append((cells[0], cells[1:]))
    return found


def test_the_page_has_rows_of_every_unit() -> None:
    assert len(rows()) >= 60
    text = PAGE.read_text(encoding="utf-8")
    names = [path.name for path in ROOT.glob("solutions/a[0-9][0-9]_*")]
    for name in listing(names, None, ROOT).given:  # a draft may wait
        assert f"[{name[:3]} " in text, f"{PAGE.name} names no module of {name}"


@pytest.mark.parametrize(
    ("name", "cells"), rows(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_row_has_two_of_three_and_its_links_lead_somewhere(name: str, cells: list[str]) -> None:
    assert sum(bool(cell) for cell in cells) >= 2, f"{name}: {cells}"
    for words, target in LINK.findall(" ".join(cells)):
        path, _, anchor = target.partition("#")
        there = (PAGE.parent / path).resolve()
        assert there.exists(), f"{name}: {target}"
        if there.suffix == ".ipynb":
            unit, _, section = words.partition(".")
            check_section(name, unit, rf"{section}\. ", there)
        elif there.suffix == ".md":
            assert anchor in anchors(there), f"{name}: {target}"
        else:
            check_module(name, words)


@pytest.mark.parametrize("page", SHARED, ids=lambda page: page.name)
def test_the_links_of_a_shared_page_lead_somewhere(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert len(links) > 20
    for words, target in links:
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve()
        assert there.exists(), target
        if there.suffix == ".md":
            assert not anchor or anchor in anchors(there), target
        elif there.is_dir():
            check_module(page.name, words)
        elif words.lower().startswith("lecture "):
            assert there.name.startswith(f"{int(words.split()[1]):02}_"), f"{words}: {target}"
        else:  # 02: Four workers: sum or mean?
            unit, _, title = words.partition(": ")
            check_section(page.name, unit, rf"\d+\. {re.escape(title)}", there)


def test_rows_lead_to_every_group_of_systems() -> None:
    text = PAGE.read_text(encoding="utf-8")
    systems, corrections = SHARED
    linked = set(re.findall(rf"{systems.name}#([\w-]+)", text))
    assert anchors(systems) - {"systems-of-2012-to-2022", "references"} <= linked
    assert f"(../lectures/{corrections.name})" in text


def check_section(name: str, unit: str, title: str, notebook: Path) -> None:
    """The lecture of that unit has a section whose number and title match."""
    text = notebook.with_suffix(".py").read_text(encoding="utf-8")
    assert notebook.name.startswith(unit), f"{name}: {unit} is not {notebook.name}"
    assert re.search(rf"(?m)^# ## {title}", text), f"{name}: {notebook.name} has no {title}"


def check_module(name: str, words: str) -> None:
    """The assignment has that module."""
    unit, module = words.split()
    (file,) = (ROOT / "solutions").glob(f"{unit}_*/assignment.toml")
    plan = tomllib.loads(file.read_text(encoding="utf-8"))
    assert module in [each["name"] for each in plan["module"]], f"{name}: {words}"


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    heads = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.parent.name)
def test_extra_modules_add_up_to_a_fifth_at_most(file: Path) -> None:
    modules = tomllib.loads(file.read_text(encoding="utf-8"))["module"]
    assert sum(module["weight"] for module in modules if module.get("extra")) <= 20
