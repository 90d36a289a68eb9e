"""The course's pages, made by Sphinx from what is executed and written already.

    lectures/*.ipynb, assignments/*/*.ipynb             BUILD/site/index.html
    docs/*.md, lectures/*.md, CONTRIBUTING.md  -> pages ->  BUILD/site/slides/*.html

The pages search, switch to dark, fit a phone, and ask the internet for nothing. A warning is an
error: a link that leads nowhere, a heading out of order, mathematics that can't be read.
"""

from __future__ import annotations

import datetime
import io
import posixpath
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from ringside import output_folder
from ringside.course.handout.listing import listing
from ringside.course.lectures import decks, term_calendar, terms
from ringside.course.lectures.assets import MATHJAX_SETTINGS, copy_mathjax, installed
from ringside.course.lectures.build import COLOURS, Notebook, untyped
from ringside.course.lectures.front_page import front, place
from ringside.course.lectures.handout import Handout
from ringside.course.lectures.lecture import LectureError
from ringside.course.lectures.slides import TEMPLATES, slides
from ringside.course.lectures.term_calendar import ICS, PAGE
from ringside.course.predictions.in_notebook import (
    CHECKED,
    folded,
    guessed_in,
    has_tag,
    is_notes,
    show_prompts,
)
from ringside.course.predictions.students import cleared
from ringside.course.term import Term

COMMAND = "python -m ringside.course.lectures site"
# Texts of the tree that become pages: where they stand, and where their page is.
TEXTS = {
    "docs/student.md": "kit/student.md",
    "docs/install.md": "kit/install.md",
    "docs/colab.md": "kit/colab.md",
    "docs/ways_to_run.md": "kit/ways_to_run.md",
    "docs/programs.md": "kit/programs.md",
    "docs/glossary.md": "kit/glossary.md",
    "docs/contract.md": "kit/contract.md",
    "docs/course.md": "kit/course.md",
    "lectures/paths.md": "kit/paths.md",
    "lectures/stack.md": "kit/stack.md",
    "lectures/jax.md": "kit/jax.md",
    "lectures/half_day.md": "kit/half_day.md",
    "lectures/systems.md": "kit/systems.md",
    "lectures/corrections.md": "kit/corrections.md",
    "docs/attendee.md": "kit/attendee.md",
    "docs/cluster.md": "kit/cluster.md",
    "docs/containers.md": "kit/containers.md",
    "docs/instructor.md": "kit/instructor.md",
    "docs/hub.md": "kit/hub.md",
    "docs/policies.md": "kit/policies.md",
    "docs/platforms.md": "kit/platforms.md",
    "docs/api.md": "kit/api.md",
    "docs/architecture.md": "kit/architecture.md",
    "docs/changing.md": "kit/changing.md",
    "docs/testing.md": "kit/testing.md",
    "CONTRIBUTING.md": "kit/contributing.md",
    "lectures/validation.md": "kit/validation.md",
    "lectures/predicted.md": "kit/predicted.md",
    "lectures/on_a_gpu.md": "kit/on_a_gpu.md",
    "lectures/tutorial/tutorial.md": "kit/tutorial.md",
    "lectures/tutorial/instructor.md": "kit/tutorial_instructor.md",
    "CHANGELOG.md": "kit/changelog.md",
}
PICTURES = "docs/*.svg"  # of these texts, copied beside their pages
DOWNLOADS = "notebooks"  # as they are to be run, beside the pages made of them
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?[^)]*\)")
SETTINGS: dict[str, Any] = {
    "project": "Ringside",
    "extensions": ["myst_nb", "sphinx.ext.mathjax"],
    "exclude_patterns": [f"{DOWNLOADS}/*"],
    "nb_execution_mode": "off",
    "nb_merge_streams": True,
    "nb_code_prompt_show": "Show the code",
    "nb_code_prompt_hide": "Hide the code",
    "myst_enable_extensions": ["dollarmath"],
    "myst_heading_anchors": 3,
    "myst_update_mathjax": False,
    "mathjax_path": "mathjax.js",
    "mathjax3_config": MATHJAX_SETTINGS
    | {"options": {"enableMenu": False, "ignoreHtmlClass": ".*", "processHtmlClass": "math"}},
    "html_theme": "pydata_sphinx_theme",
    "html_title": "Ringside",
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
    "html_css_files": ["site.css"],
    "html_context": {"default_mode": "auto"},
    "html_sidebars": {"index": [], PAGE: []},
    "html_theme_options": {
        "navbar_end": ["theme-switcher"],
        "footer_start": [],
        "footer_end": [],
        "navigation_with_keys": False,
        "pygments_light_style": "a11y-high-contrast-light",
        "pygments_dark_style": "a11y-high-contrast-dark",
    },
}


def site(
    tree: Path,
    lectures: Sequence[Path],
    folder: Path,
    term: Term | None = None,
    *,
    also_future: bool = False,
) -> Path:
    """Make the pages and the slides of a tree; return the first page.

    Args:
        tree: holds ``assignments/`` and the texts.
        lectures: executed notebooks.
        folder: the site will be in ``site`` in it, made anew.
        term: a course's dates and policies, which become a page and a calendar file.
        also_future: assignments that the term lists for later have a page, too.

    Raises:
        LectureError: a lecture has not been executed, a package is missing, or Sphinx warned.
        FolderError: ``site`` holds something else than a site that was made so.
    """
    installed("myst_nb", "")
    installed("pydata_sphinx_theme", "")
    talks = [Handout(path, is_lecture=True) for path in lectures]
    tasks = tasks_of(tree, term, also_future=also_future)
    with (
        output_folder.made_anew(folder / "site", COMMAND, protected=[tree]) as out,
        tempfile.TemporaryDirectory(prefix="ringside-pages-") as scratch,
    ):
        pages = Path(scratch).resolve()
        handouts = [*talks, *(Handout(path, is_lecture=False) for path in tasks)]
        put_together(tree, handouts, pages, term)
        sphinx(pages, out)
        if term is not None:
            write_calendar(tree, term, out / ICS)
        slides(talks, out / "slides")
    return folder.resolve() / "site" / "index.html"


def tasks_of(tree: Path, term: Term | None, *, also_future: bool = False) -> list[Path]:
    """The notebooks of the assignments that are handed out, in order."""
    tasks = {path.stem: path for path in tree.glob("assignments/a??_*/a??_*.ipynb")}
    return [tasks[name] for name in listing(tasks, term, tree, also_future=also_future).given]


def put_together(
    tree: Path, handouts: Sequence[Handout], pages: Path, term: Term | None = None
) -> None:
    """Write what Sphinx reads."""
    for name in ("_static", "lectures", "assignments", "kit"):
        (pages / name).mkdir(parents=True)
    for name in ("site.css", "favicon.svg"):
        shutil.copy(TEMPLATES / name, pages / "_static")
    copy_mathjax(pages / "_static")
    texts = [(source, name) for source, name in TEXTS.items() if (tree / source).is_file()]
    for handout in handouts:
        page(handout, pages / place(handout), dict(texts))
    for source, name in texts:
        text = (tree / source).read_text(encoding="utf-8")
        (pages / name).write_text(within(text, source, dict(texts)), encoding="utf-8")
    if terms.GLOSSARY in dict(texts):
        glossary = (tree / terms.GLOSSARY).read_text(encoding="utf-8")
        talks = [one for one in handouts if one.is_lecture]
        write(pages / terms.PAGE, *terms.page(glossary, talks))
        texts.append((terms.PAGE, terms.PAGE))
    for picture in tree.glob(PICTURES):
        shutil.copy(picture, pages / "kit")
    sections = {
        "lectures": ("Lectures", [one for one in handouts if one.is_lecture]),
        "assignments": ("Assignments", [one for one in handouts if not one.is_lecture]),
    }
    for name, (title, members) in sections.items():
        names = [Path(place(one)).name for one in members]
        write(pages / name / "index.md", f"# {title}", "", *contents(names, hidden=False))
    names = [Path(name).stem for _, name in texts]
    write(pages / "kit" / "index.md", "# The kit", "", *contents(names, hidden=False))
    first = [f"{name}/index" for name in (*sections, "kit")]
    if term is not None:
        there = term_calendar.handouts(tree)
        targets = {one.path.name: place(one) for one in handouts}
        links = {n: targets[one.path.name] for n, one in there.items() if one.path.name in targets}
        write(pages / f"{PAGE}.md", *term_calendar.page(term, term_calendar.titles(tree), links))
        first = [PAGE, *first]
    lines = front(tree, handouts, dict(texts), term)
    write(pages / "index.md", *lines, *contents(first, hidden=True))


def write_calendar(tree: Path, term: Term, path: Path) -> None:
    """Write a term's dates for calendar programs, dated as the file that they stand in."""
    stamp = datetime.datetime.fromtimestamp(int(term.path.stat().st_mtime), datetime.UTC)
    text = term_calendar.icalendar(term, term_calendar.titles(tree), stamp)
    path.write_text(text, encoding="utf-8", newline="")


def write(path: Path, *lines: str) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def contents(names: Sequence[str], *, hidden: bool) -> Iterator[str]:
    """Yield a table of contents, which also says what belongs under what."""
    yield from (
        "```{toctree}",
        *([":hidden:"] if hidden else []),
        ":maxdepth: 1",
        "",
        *names,
        "```",
    )


def page(handout: Handout, path: Path, texts: Mapping[str, str]) -> None:
    """Copy a notebook, with links to itself and its slides, and with its pictures' descriptions.

    What would give away the answer to a prompt is folded. The copy to download is a student's.

    Args:
        texts: the texts that become pages, and where their page is; links to them lead there.
    """
    notebook = handout.read()
    hidden = folded(notebook.cells) if handout.is_lecture else [False] * len(notebook.cells)
    download(handout, path.parent.parent / DOWNLOADS / path.name)
    show_prompts(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = to_pages(cell.source, place(handout), texts)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            details = output.get("metadata", {}).get("image/png")
            if details:  # MyST-NB looks for it at the cell
                image = {"alt": details["alt"], "width": f"{details['width']}px"}
                cell.metadata["mystnb"] = {"image": image}
    notebook.cells = list(foldable(notebook.cells, hidden))
    links = [f"{{download}}`notebook </{DOWNLOADS}/{path.name}>`"]
    if handout.is_lecture:
        has_deck = decks.source_of(handout.path).is_file()
        kind = "slides" if has_deck else "slides (the notebook, projected)"
        links.append(f'<a href="../slides/{handout.name}.html">{kind}</a>')
    title, _, rest = notebook.cells[0].source.partition("\n")
    notebook.cells[0].source = f"{title}\n\n{' · '.join(links)}\n{rest}"
    untyped("nbformat").write(notebook, path)


def download(handout: Handout, path: Path) -> None:
    """Copy a notebook for whoever runs it, as students get it."""
    notebook = untyped("nbformat").read(handout.path, as_version=4)
    if handout.is_lecture:
        mine, _ = cleared(notebook)
        notebook = untyped("nbformat").from_dict(mine)
    path.parent.mkdir(exist_ok=True)
    untyped("nbformat").write(notebook, path)


def foldable(cells: Sequence[Notebook], hidden: Sequence[bool]) -> Iterator[Notebook]:
    """Yield the cells with details around those that are folded, which no script opens."""
    markdown = untyped("nbformat").v4.new_markdown_cell
    summaries = [summary_of(*pair) for pair in zip(cells, hidden, strict=True)]
    for summary, run in groupby(zip(summaries, cells, strict=True), key=itemgetter(0)):
        if summary:
            kind = f"ringside-{summary.split()[-1].lower()}"
            yield markdown(f'<details class="{kind}"><summary>{summary}</summary>')
        for _, cell in run:
            if guessed_in(cell):
                cell.metadata["tags"] = [*cell.metadata.get("tags", []), "remove-input"]
            yield cell
        if summary:
            yield markdown("</details>")


def summary_of(cell: Notebook, is_hidden: bool) -> str:
    """What opens a cell that is folded; nothing where it is open."""
    if is_notes(cell):
        return "For teachers"
    if has_tag(cell, CHECKED):
        return "Checked"
    return "Reveal" if is_hidden else ""


def within(text: str, source: str, texts: Mapping[str, str]) -> str:
    """Return a text whose links lead to pages; of links to other files only the words stay.

    Args:
        source: where the text stands in the tree.
        texts: the texts that become pages, and where their page is.
    """

    def lead(link: re.Match[str]) -> str:
        label, target, anchor = link.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in ("lectures", "assignments"):
            return f"[{label}](../{path}/index.md)"
        return f"[{label}](../{texts[path]}{anchor or ''})" if path in texts else label

    return LINK.sub(lead, text)


def to_pages(text: str, source: str, texts: Mapping[str, str]) -> str:
    """Return a text whose links to texts of the tree lead to their pages; others stay."""

    def lead(link: re.Match[str]) -> str:
        label, target, anchor = link.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        return f"[{label}](../{texts[path]}{anchor or ''})" if path in texts else link[0]

    return LINK.sub(lead, text)


def sphinx(pages: Path, out: Path) -> None:
    """Let Sphinx make the pages; a warning is an error."""
    static = pages / "_static"
    paths = {"html_static_path": [str(static)], "html_favicon": str(static / "favicon.svg")}
    warnings = io.StringIO()
    docutils = untyped("sphinx.util.docutils")
    with docutils.patch_docutils(), docutils.docutils_namespace():
        untyped("sphinx.application").Sphinx(
            srcdir=pages,
            confdir=None,
            outdir=out,
            doctreedir=pages / "_doctrees",
            buildername="html",
            confoverrides=SETTINGS | paths,
            status=None,
            warning=warnings,
            freshenv=True,
        ).build()
    if messages := COLOURS.sub("", warnings.getvalue()).strip():
        raise LectureError(f"Sphinx warned:\n{messages}")
