"""Hand an assignment in: by nbgrader's exchange if one is configured, else as a zip for the LMS."""

from __future__ import annotations

import ast
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ringside.checking import notebook
from ringside.checking.public_tests import TIMELINES
from ringside.course.handin import hints_taken
from ringside.course.handin import notebook_points as worth
from ringside.course.predictions import kept
from ringside.course.predictions.prompt import GuessError
from ringside.course.term import due_said
from ringside.errors import RingsideError
from ringside.files import keep, write_atomically

REQUEST = "regrade.txt"  # what a student wants to be looked at again, and why
MOST_REQUEST_BYTES = 4_000  # of UTF-8; a page
BESIDE = (
    "run.json",
    "run.trace.gz",
    kept.NAME,
    hints_taken.NAME,
    REQUEST,
)  # beside the notebook and its modules
MOST_BYTES = 64 << 20  # as submission_mib of the grader's limits.toml


class HandinError(RingsideError):
    """An assignment that can't be handed in as it is."""


@dataclass(frozen=True)
class Receipt:
    """What was handed in, how, and what was noticed."""

    assignment: str
    way: str  # "exchange" | "zip" | "nothing, as asked"
    files: list[str]
    where: str = ""
    notices: list[str] = field(default_factory=list)
    worth: str = ""  # the assignment's points, and what they are made of
    due: str = ""  # by the notebook; the course may have moved the date since

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "assignment": self.assignment,
            "way": self.way,
            "where": self.where,
            "files": self.files,
            "notices": self.notices,
            "worth": self.worth,
            "due": self.due,
        }

    def text(self) -> str:
        """What a person reads."""
        lines = [f"notice: {notice}" for notice in self.notices]
        lines.append(f"{self.assignment}: {', '.join(self.files)}")
        lines += [self.worth] if self.worth else []
        lines += [f"Due {self.due}, unless the course has moved it since."] * bool(self.due)
        if self.way == "zip":
            lines.append(f"Upload this file: {self.where}")
        elif self.way == "exchange":
            lines.append(f"Submitted to the course's exchange. {self.where}")
        else:
            lines.append("Valid; nothing was handed in.")
        return "\n".join(lines)


def hand_in(
    folder: Path, *, force_zip: bool = False, dry_run: bool = False, regrade: str = ""
) -> Receipt:
    """Validate a folder's assignment and hand it in.

    Args:
        regrade: what is to be looked at again, and why; it is kept in regrade.txt.

    Raises:
        HandinError: no notebook with modules, a module that is no Python, too much data.
    """
    folder = folder.resolve()
    books = notebook.notebooks(folder)
    if not books:
        raise HandinError(f"{folder} holds no notebook with %%module cells.")
    request = f"{regrade.strip()}\n".encode() if regrade.strip() else b""
    if len(request) > MOST_REQUEST_BYTES:
        raise HandinError(
            f"the request has {len(request)} bytes, at most {MOST_REQUEST_BYTES} are "
            "read: say which module, and why."
        )
    texts = notebook.handed_in(folder)
    cells = [
        replace(cell, source=texts.get(cell, cell.source))
        for book in books
        for cell in notebook.module_cells(book)
    ]
    notices = [*_about_cells(folder), *_validate(folder, cells)]
    points = worth.of_notebooks(books)
    notices += [text.notice for text in points.texts if not text.written]
    predicted = _about_predictions(folder, books)
    notices += predicted
    due = next(filter(None, (due_said(_first_text(book)) for book in books)), "")
    sentence = points.sentence(has_run=(folder / "run.json").is_file())
    modules = dict.fromkeys(cell.module for cell in cells)
    listed = [*(book.name for book in books), *modules, *BESIDE]
    if predicted:  # nothing to hand in, or nothing that can be read
        listed.remove(kept.NAME)
    files = [name for name in listed if (folder / name).is_file()]
    names = [name for name in listed if name in files or (request and name == REQUEST)]
    total = sum((folder / name).stat().st_size for name in files)
    if total > MOST_BYTES:
        raise HandinError(
            f"the files hold {total >> 20} MiB, at most {MOST_BYTES >> 20} are taken: "
            "clear the notebook's outputs."
        )
    if dry_run:
        return Receipt(folder.name, "nothing, as asked", names, "", notices, sentence, due)
    if request:
        _write_request(folder / REQUEST, request)
    if not force_zip and _exchange_is_configured():
        where = _submit(folder, _notebooks(texts))
        return Receipt(folder.name, "exchange", names, where, notices, sentence, due)
    where = str(_zip(folder, names, _notebooks(texts)))
    return Receipt(folder.name, "zip", names, where, notices, sentence, due)


def _write_request(path: Path, request: bytes) -> None:
    if path.is_file() and path.read_bytes().strip() != request.strip():
        keep(path, "handin")
    write_atomically(path, request)


def _about_cells(folder: Path) -> list[str]:
    """Which files are handed in instead of cells, and which cells were split."""
    names = dict.fromkeys(difference.cell.module for difference in notebook.giving_way(folder))
    *others, last = names or [""]
    listed = f"{', '.join(others)} and {last}" if others else last
    cells = "The cells of {} are as released, so the files were" if others else (
        "The cell of {} is as released, so the file was"
    )  # fmt: skip
    notices = [f"{cells.format(listed)} taken; your notebook stays as it is."] if names else []
    return notices + [notebook.split_sentence(cell) for cell in notebook.split(folder)]


def _notebooks(texts: Mapping[notebook.ModuleCell, str]) -> dict[str, bytes]:
    """The notebooks as they are handed in, where that isn't as they lie there."""
    return {
        book.name: notebook.with_texts(
            book, {cell: text for cell, text in texts.items() if cell.notebook == book}
        )
        for book in {cell.notebook for cell in texts}
    }


def _validate(folder: Path, cells: list[notebook.ModuleCell]) -> list[str]:
    notices = []
    for cell in cells:
        try:
            tree = ast.parse(cell.source)
        except (SyntaxError, ValueError) as error:
            line, reason = getattr(error, "lineno", None), getattr(error, "msg", None) or error
            raise HandinError(f"{cell.module}:{line or '?'} is not Python: {reason}.") from None
        if any(
            isinstance(node, ast.Name) and node.id == "NotImplementedError"
            for node in ast.walk(tree)
        ):
            notices.append(f"{cell.module} still raises NotImplementedError: a part isn't written.")
    return notices + _about_the_run(folder, cells)


def _about_the_run(folder: Path, cells: list[notebook.ModuleCell]) -> list[str]:
    path = folder / "run.json"
    if not path.is_file():
        return [
            "there is no run.json: `ringside launch` leaves one, for the points of the real run."
        ]
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        name, digest = f"{record['module']}.py", record["module_sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return ["run.json is damaged: `ringside launch` writes a new one."]
    sources = {cell.module: cell.source for cell in cells}
    if name in sources and notebook.module_sha256(sources[name].encode()) != digest:
        return [f"run.json is of another version of {name}: launch it again."]
    return []


def _about_predictions(folder: Path, books: Sequence[Path]) -> list[str]:
    """What is to be said of the predictions, which are handed in and never graded."""
    if not any(_asks(cell) for book in books for cell in notebook.read(book)["cells"]):
        return []
    try:
        predictions = kept.read(folder / kept.NAME)
    except GuessError as error:
        return [f"{error} Predictions are never graded."]
    if predictions:
        return []
    return [f"there is no {kept.NAME}: you predicted nothing. Predictions are never graded."]


def _asks(cell: Any) -> bool:
    """Whether a cell asks for a prediction."""
    source = cell.get("source", "") if isinstance(cell, dict) else ""
    text = "".join(source) if isinstance(source, list) else str(source)
    return text.lstrip().startswith("guess(")


def _first_text(book: Path) -> str:
    """The text of a notebook's first cell."""
    cells = notebook.read(book)["cells"]
    source = cells[0].get("source", "") if cells and isinstance(cells[0], dict) else ""
    return "".join(source) if isinstance(source, list) else str(source)


def _exchange_is_configured() -> bool:
    """Whether nbgrader knows a course and an exchange: a folder that we can write, or ngshare."""
    try:
        app = _nbgrader()
    except ImportError:
        return False
    if not app.config.CourseDirectory.get("course_id"):
        return False
    if app.config.ExchangeFactory.get("submit"):  # not nbgrader's own, which needs a folder
        return True
    root = app.config.Exchange.get("root")
    return bool(root) and os.access(str(root), os.W_OK | os.X_OK)


def _nbgrader() -> Any:
    """nbgrader's settings for this user and folder."""
    from nbgrader.apps.baseapp import NbGrader

    app = NbGrader(log_level=logging.ERROR)  # no configuration is no reason to warn: then a zip
    app.load_config_file()
    return app


def _submit(folder: Path, notebooks: Mapping[str, bytes]) -> str:
    """Call ``nbgrader submit``; return its last line.

    It submits a whole folder: where notebooks go as they don't lie there, a copy of the folder.
    """
    if not notebooks:
        return _submit_folder(folder)
    with tempfile.TemporaryDirectory(prefix="ringside-handin-") as scratch:
        copied = Path(scratch) / folder.name
        patterns = shutil.ignore_patterns(*notebook.KEPT, TIMELINES, ".ipynb_checkpoints")
        shutil.copytree(folder, copied, ignore=patterns, ignore_dangling_symlinks=True)
        for name, data in notebooks.items():
            (copied / name).write_bytes(data)
        return _submit_folder(folder, f"--Exchange.assignment_dir={scratch}")


def _submit_folder(folder: Path, *places: str) -> str:
    from nbgrader.coursedir import CourseDirectory

    # It submits the whole folder, so it is told what of it is no part of the assignment.
    ignored = [*CourseDirectory(parent=_nbgrader()).ignore, *notebook.KEPT, TIMELINES]
    options = [*places, *(f"--CourseDirectory.ignore={pattern}" for pattern in ignored)]
    result = subprocess.run(
        [sys.executable, "-m", "nbgrader", "submit", folder.name, *options],
        cwd=folder.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    if result.returncode:
        tail = "\n".join(lines[-5:])
        raise HandinError(
            f"nbgrader submit failed; `ringside handin --zip` makes a zip instead.\n{tail}"
        )
    return lines[-1] if lines else ""


def _zip(folder: Path, names: list[str], notebooks: Mapping[str, bytes]) -> Path:
    path = folder / f"{folder.name}.zip"
    if path.exists() and not _packed_here(path, names):
        keep(path, "handin")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in names:
            if name in notebooks:
                packed.writestr(name, notebooks[name])
            else:
                packed.write(folder / name, name)
    write_atomically(path, content.getvalue())
    return path


def _packed_here(path: Path, names: list[str]) -> bool:
    """Whether a zip holds nothing else than what is handed in: an earlier hand-in."""
    try:
        with zipfile.ZipFile(path) as packed:
            return set(packed.namelist()) <= {*names, *BESIDE}
    except (OSError, zipfile.BadZipFile):
        return False
