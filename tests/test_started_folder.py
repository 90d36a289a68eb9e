"""What a student gets, by zip or by `ringside start`: nothing is named there that isn't there."""

from __future__ import annotations

import argparse
import json
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import setuptools

from autograder.course.course import Course
from autograder.publish import bundle
from ringside import kit
from ringside.commands import cli
from ringside.course.handout import laying
from ringside.course.handout.manifest import NAME, Handout

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
COMMAND = re.compile(
    r"(?:^|`|\$ |&& |!)((?:ringside|autograder|make|python3? -m ringside)\b[^`\n]*)"
)


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle.make(Course(kit=ROOT, root=ROOT), tmp_path_factory.mktemp("bundle") / "students")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As from a wheel of this kit."""
    place = tmp_path_factory.mktemp("started")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", lambda **_: None)
        runpy.run_path(str(ROOT / "setup.py"))["lay_handout"](place / "package")
        patch.setattr(kit, "handout_folder", lambda: place / "package")
        return laying.lay(place / "course")


@pytest.fixture(params=["bundled", "started"])
def tree(request: pytest.FixtureRequest) -> Path:
    place: Path = request.getfixturevalue(request.param)
    return place


def texts(tree: Path) -> Iterator[tuple[Path, str]]:
    """Every document's prose: pages, and the text cells of notebooks."""
    for path in sorted(tree.rglob("*.md")):
        yield path, path.read_text()
    for path in sorted(tree.rglob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        yield path, "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def test_every_link_leads_somewhere(tree: Path) -> None:
    broken = []
    for path, text in texts(tree):
        for link in LINK.findall(without_code(text)):
            file, _, anchor = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            known = target.is_relative_to(tree.resolve()) and target.exists()
            if not known or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                broken.append(f"{path.relative_to(tree)}: {link}")
    assert broken == []


def commands_of(parser: argparse.ArgumentParser) -> dict[str, set[str]]:
    """The commands of `ringside` with their options, those of `ringside site list` among them."""
    found: dict[str, set[str]] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                found[name] = {o for a in below._actions for o in a.option_strings}
                for deeper, options in commands_of(below).items():
                    found[f"{name} {deeper}"] = options
                    found[name] |= options
    return found


def test_every_command_is_there_with_its_options(tree: Path) -> None:
    known = commands_of(cli.build_parser())
    makefile = tree / "Makefile"
    targets = re.findall(r"^([a-z]+):", makefile.read_text() if makefile.is_file() else "", re.M)
    broken, seen = [], 0
    for path, text in texts(tree):
        if path.name == "CHANGELOG.md":  # it tells of instructors' commands too
            continue
        for command in COMMAND.findall(re.sub(r"(?m)^( *)\$ ", r"\1", text)):
            words = command.split(" -- ")[0].split("#")[0].split()
            seen += 1
            if words[0] == "make":
                wrong = words[1:2] and words[1].isalpha() and words[1] not in targets
            elif words[0] == "autograder":
                wrong = words[1:2] and re.fullmatch("[a-z-]+", words[1])
            else:
                words = words[words.index("ringside") + 1 :] if "ringside" in words else []
                name = words[0] if words else ""
                options = {w.partition("=")[0] for w in words if w.startswith("--")}
                unknown = options - known.get(name, set()) - {"--help", "--"}
                wrong = re.fullmatch(r"[a-z]+", name) and (name not in known or unknown)
            if wrong:
                broken.append(f"{path.relative_to(tree)}: {command}")
    assert broken == [] and seen > 40


def test_the_first_page_is_short_and_its_first_step_leads_to_a_module(tree: Path) -> None:
    page = (tree / "README.md").read_text()
    assert page.startswith("# Start here\n") and len(page.split()) <= 400
    assert "{{" not in page
    assert page.split("\n## ")[1].startswith("Your next step\n")
    [(folder, notebook)] = re.findall(r"cd (assignments/\S+)\njupyter lab (\S+)", page)
    [module] = re.findall(r"The first one is `(\w+)\.py`", page)
    assert f"{module}.py\\n" in (tree / folder / notebook).read_text()
    assert f"ringside check {module} " in page
    if (tree / "Makefile").is_file():
        targets = set(re.findall(r"^([a-z]+):", (tree / "Makefile").read_text(), re.MULTILINE))
        for target in targets:
            command = ["make", "--dry-run", target]
            done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


def test_no_long_list_is_in_view_and_the_tree_still_knows_what_was_handed_out(tree: Path) -> None:
    assert (tree / NAME).is_file()
    listed = Handout.read(tree)
    assert listed == Handout.of(tree)
    assert {".vscode/settings.json", "README.md"} <= listed.files.keys()
    assert len(listed.stubs) == len(list((tree / "assignments").glob("*/*.ipynb")))


def test_vs_code_finds_its_settings_and_the_task_checks_the_folder_of_the_open_file(
    tree: Path,
) -> None:
    def read(name: str) -> dict[str, object]:
        content: dict[str, object] = json.loads((tree / ".vscode" / f"{name}.json").read_text())
        return content

    assert set(read("extensions")["recommendations"]) == {"ms-python.python", "ms-toolsai.jupyter"}
    assert read("settings")["jupyter.notebookFileRoot"] == "${fileDirname}"
    page = next((tree / "assignments").glob("*/checks"))
    values = {
        "${command:python.interpreterPath}": sys.executable,
        "${fileDirname}": str(page.parent),
        "${fileBasenameNoExtension}": "ring",
    }
    tasks = read("tasks")["tasks"]
    assert [task["label"].partition(":")[0] for task in tasks] == ["ringside check"] * 2
    for task in tasks:
        text = json.dumps(task)
        for name, value in values.items():
            text = text.replace(name, value)
        assert "${" not in text
        filled = json.loads(text)
        words = [filled["command"], *filled["args"]]
        assert words[:3] == [sys.executable, "-m", "ringside"]
        asked = cli.build_parser().parse_args(words[3:])
        assert asked.command == "check" and Path(filled["options"]["cwd"]).is_dir()
        assert shlex.join(asked.modules) == ("ring" if asked.watch else "")
