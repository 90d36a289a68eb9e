"""Puts the handout into the package: what `ringside start` lays out. All else: pyproject.toml.

    ringside/course/handout/tree/    assignments/, lectures/, students' pages of docs/, and what
                                     stands in ringside/course/handout/start/: a first page,
                                     settings of VS Code

Lectures are cleared for students, as in `autograder bundle`, and their texts are left out.
An assignment's folder in which somebody wrote modules isn't packed: they may be solutions. Nor is
a draft: a folder whose assignment.toml, where the kit has them, doesn't say handed_out = true. A
course's own choice is packed from its students' tree, which `autograder bundle` makes.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys
import tomllib
import types
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
HANDOUT = (
    *("assignments", "lectures", "LICENSE", "LICENSE-teaching"),
    *("AGENTS.md", "calendar.ics"),  # of a course's own tree
    *(f"docs/{name}.md" for name in ("student", "contract", "attendee", "cluster", "api")),
    *("docs/ways_to_run.md", "docs/glossary.md", "docs/colab.md", "docs/programs.md"),
)
START = HERE / "ringside" / "course" / "handout" / "start"
LEFT = (
    *("__pycache__", "*.pyc", ".*", "build", "real", "*.before-*", "*.as-released"),
    *("run.json", "run.log", "run.sbatch", "run.trace.gz", "guesses.json", "hints.json"),
    "[0-9][0-9]_*.py",  # texts of lectures, with what students' notebooks don't hold
    "decks",  # talks, which say what prompts ask
    "[0-9][0-9]_*.toml",  # facts of lectures, for the instructor's map
)
FIRST_LINE = re.compile(r"%%(?:module|writefile)\s+(?:-a\s+)?['\"]?([\w./-]+\.py)")


def drafts() -> set[str]:
    """Assignments that nobody gets; none where the tree was made for students, or is an archive."""
    listed = {
        path.parent.name
        for path in (HERE / "solutions").glob("*/assignment.toml")
        if tomllib.loads(path.read_text(encoding="utf-8")).get("handed_out")
    }
    return {path.name for path in (HERE / "assignments").glob("*/")} - listed if listed else set()


def refuse_written_modules() -> None:
    """Stop if a module that students are to write lies in an assignment's folder."""
    for notebook in sorted((HERE / "assignments").glob("*/*.ipynb")):
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            match = FIRST_LINE.match("".join(cell["source"]))
            if match and (notebook.parent / match[1]).exists():
                path = (notebook.parent / match[1]).relative_to(HERE)
                raise SystemExit(f"{path} would be in the package: move it away, it may be solved.")


def clear_lectures(folder: Path) -> None:
    """Make lectures those that students get.

    The module that does it is the kit's, which imports packages that aren't here yet: so it is
    imported without the kit's own `__init__`.
    """
    package = types.ModuleType("ringside")
    package.__path__ = [str(HERE / "ringside")]
    sys.modules["ringside"] = package
    importlib.import_module("ringside.course.predictions.students").clear_folder(folder)
    del sys.modules["ringside"]


def lay_handout(target: Path) -> None:
    """Write the folder that `ringside start` copies."""
    for name in HANDOUT:
        source, place = HERE / name, target / name
        if source.is_dir():
            left = (*LEFT, *drafts()) if name == "assignments" else LEFT
            shutil.copytree(source, place, ignore=shutil.ignore_patterns(*left))
        elif source.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)
    clear_lectures(target / "lectures")
    shutil.copytree(START / "vscode", target / ".vscode")
    page = (START / "README.md.in").read_text(encoding="utf-8")
    notebooks = sorted((target / "assignments").glob("*/*.ipynb"))
    if notebooks:  # the first assignment, and its first module
        cells = json.loads(notebooks[0].read_text(encoding="utf-8"))["cells"]
        names = [match[1] for c in cells if (match := FIRST_LINE.match("".join(c["source"])))]
        page = page.replace("{{ assignment }}", notebooks[0].parent.name)
        page = page.replace("{{ module }}", names[0].removesuffix(".py"))
    (target / "README.md").write_text(page, encoding="utf-8")


class BuildWithHandout(build_py):
    """The package, and the handout in it."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return  # then the tree itself is there
        refuse_written_modules()
        target = Path(self.build_lib) / "ringside" / "course" / "handout" / "tree"
        shutil.rmtree(target, ignore_errors=True)
        lay_handout(target)


class SourcesWithoutSolutions(sdist):
    """The archive of sources; MANIFEST.in says what is in it."""

    def run(self) -> None:
        refuse_written_modules()
        super().run()

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        left = tuple(f"assignments/{name}/" for name in drafts())
        super().make_release_tree(base_dir, [file for file in files if not file.startswith(left)])


setup(cmdclass={"build_py": BuildWithHandout, "sdist": SourcesWithoutSolutions})
