"""The scripts that pages need in the browser, copied beside them so that no page asks the internet.

    reveal.js   from the wheel of sphinx-revealjs         slides
    MathJax 3   from the wheel of django-static-mathjax   equations, on slides and pages

MathJax draws pictures (SVG): browsers refuse its fonts to a page that was opened as a file.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

from ringside.course.lectures.lecture import LectureError

REVEAL = ("sphinx_revealjs", "_static/revealjs")
MATHJAX = ("mathjax", "static/mathjax/es5/tex-svg.js")
# Left out: what slides of notebooks don't load.
UNUSED = shutil.ignore_patterns(
    *("*.map", "*.esm.js", "*.eot", "*.ttf", "css", "highlight", "markdown", "math", "zoom")
)
MATHJAX_SETTINGS: dict[str, Any] = {
    "tex": {"inlineMath": [["$", "$"], ["\\(", "\\)"]], "processEscapes": True},
    "svg": {"matchFontHeight": False, "displayAlign": "left"},  # hidden slides can't be measured
    "options": {"enableMenu": False},
}


def installed(package: str, place: str) -> Path:
    """Return a file or folder inside an installed package, without importing it.

    Raises:
        LectureError: the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise LectureError(
            f"the package {package} is missing: slides and site need what pyproject.toml lists as "
            '"site"; run pip install -e ".[site]".'
        )
    return Path(spec.origin).parent / place


def copy_reveal(folder: Path) -> None:
    """Copy reveal.js to ``folder/reveal``."""
    shutil.copytree(installed(*REVEAL), folder / "reveal", ignore=UNUSED, dirs_exist_ok=True)


def copy_mathjax(folder: Path) -> None:
    """Copy MathJax to ``folder/mathjax.js``."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(installed(*MATHJAX), folder / "mathjax.js")
