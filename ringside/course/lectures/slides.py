"""Executed notebooks as reveal.js slides that need no internet: nbconvert with a template of ours.

    FOLDER/03_allreduce.html   open in a browser; S opens the speaker's view, ? the list of keys
    FOLDER/reveal, FOLDER/mathjax.js, FOLDER/slides.css, FOLDER/slides.js

A lecture with a deck (`decks`) has the deck's slides. Of the others the notebook is projected: what
a meeting teaches, no reading, no appendix, no puzzles; all of it where no meeting does. A cell with
the tag ``hide-input`` shows its outputs alone. A prompt shows its box; the cells behind it, up to
the end of what explains the answer, come with the next keys. Checked cells and those that only
reveal are left out.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from ringside import output_folder
from ringside.course.lectures import decks, meetings
from ringside.course.lectures.assets import MATHJAX_SETTINGS, copy_mathjax, copy_reveal
from ringside.course.lectures.build import Notebook, untyped
from ringside.course.lectures.exhibits import image
from ringside.course.lectures.handout import Handout
from ringside.course.lectures.lecture import LectureError
from ringside.course.predictions.in_notebook import (
    CHECKED,
    PREDICT,
    folded,
    has_tag,
    only_reveals,
    show_prompts,
)

COMMAND = "python -m ringside.course.lectures slides"
TEMPLATES = Path(__file__).with_name("templates")


def renew(lectures: Sequence[Handout], folder: Path, *, whole: bool) -> list[Path]:
    """As `slides`, in a folder that only slides are in; unless ``whole``, its others stay.

    Raises:
        LectureError: as `slides`.
        FolderError: the folder holds something else than slides that were made so.
    """
    with output_folder.made_anew(folder, COMMAND) as fresh:
        if folder.is_dir() and not whole:
            shutil.copytree(folder, fresh, dirs_exist_ok=True)
        paths = slides(lectures, fresh)
    return [folder / path.name for path in paths]


def slides(lectures: Sequence[Handout], folder: Path) -> list[Path]:
    """Write each lecture's slides, and what they load, into a folder; return the HTML files.

    Raises:
        LectureError: a lecture has not been executed, or a package is missing.
    """
    copy_reveal(folder)
    copy_mathjax(folder)
    for name in ("favicon.svg", "slides.css", "slides.js"):
        shutil.copy(TEMPLATES / name, folder)
    return [written(lecture, folder) for lecture in lectures]


def written(lecture: Handout, folder: Path) -> Path:
    """Write one lecture's slides; return the file."""
    exporter = untyped("nbconvert").SlidesExporter(
        template_file=str(TEMPLATES / "slides.html.j2"),
        reveal_url_prefix="reveal",
        reveal_theme="white",
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    hide = untyped("nbconvert.preprocessors").TagRemovePreprocessor(enabled=True)
    hide.remove_input_tags = {"hide-input", PREDICT}
    exporter.register_preprocessor(hide)
    notebook = prepared(lecture)
    settings = {"mathjax_settings": json.dumps(MATHJAX_SETTINGS)}
    body, _ = exporter.from_notebook_node(notebook, settings)
    path = folder / f"{lecture.name}.html"
    path.write_text(body, encoding="utf-8")
    return path


def prepared(lecture: Handout) -> Notebook:
    """A lecture's notebook as the exporter gets it: what slides show, and in which order.

    Raises:
        LectureError: its deck has a slide that can't be made, or doesn't fit.
    """
    notebook = lecture.read()
    notebook.metadata["title"] = lecture.title
    deck = decks.source_of(lecture.path)
    if deck.is_file():
        talk = decks.read(deck)
        if faults := list(decks.wrong(talk, notebook)):
            raise LectureError("\n".join(f"{deck}: {fault}" for fault in faults))
        notebook.cells = decks.cells(talk, notebook)
        return notebook
    taught = meetings.taught(notebook.cells)
    notebook.cells = [cell for cell, shown in zip(notebook.cells, taught, strict=True) if shown]
    describe(notebook)
    show_prompts(notebook)
    behind_prompts(notebook)
    return notebook


def behind_prompts(notebook: Notebook) -> None:
    """Let what is behind a prompt come as a fragment after it; leave out what shows nothing."""
    hidden = folded(notebook.cells)
    before = False  # whether the cell above is part of the same fragment
    cells = []
    for cell, is_hidden in zip(notebook.cells, hidden, strict=True):
        if has_tag(cell, CHECKED) or only_reveals(cell):
            continue
        cells.append(cell)
        settings = cell.metadata.setdefault("slideshow", {})
        kind = settings.get("slide_type", "-")
        if is_hidden and not before and kind == "-":
            settings["slide_type"] = "fragment"
        if kind not in ("skip", "notes"):
            before = is_hidden
    notebook.cells = cells


def describe(notebook: Notebook) -> None:
    """Turn pictures into HTML with their descriptions, which nbconvert leaves out."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            picture = output.get("data", {}).get("image/png")
            if picture:
                details = output.metadata["image/png"]
                html = image(picture, details["alt"], details["width"])
                output.data = {"text/html": html}
