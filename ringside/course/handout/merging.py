"""A student's notebook and a newer one from the kit, made one: no line of the student's is lost.

    cell of a module or a text     what the student wrote stands in the newer notebook's cell of
                                   the same id; where nothing was written, the newer stub stands
    docstring or signature of a    the newer one, where the student left it as it was handed out
    module that was written        (`three_way`)
    the same module twice          the last one that was written; the others follow it
    a module's cell, split         one cell again
    any other cell, as handed out  the newer notebook's cells take its place
    any other cell, changed        stands where the newer notebook still has the cell as it was;
                                   else it follows the cell that it followed before
    a cell that the student added  follows the cell that it followed before

A cell that follows loses nbgrader's marks, since two cells of one id are an error there.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ringside.checking import cell_text
from ringside.checking.notebook import NotebookError
from ringside.course.handout.manifest import source_of, text_digest
from ringside.course.handout.three_way import three_way

__all__ = ["Merged", "docstrings_changed", "merge", "module_texts", "parse"]

Cell = dict[str, Any]


@dataclass
class Merged:
    """The newer notebook with the student's work in it."""

    content: dict[str, Any]
    filled: list[str] = field(default_factory=list)  # modules and texts that the student wrote
    edited: int = 0  # other cells of the kit's that stand as the student changed them
    followed: int = 0  # cells of the student's that stand beside the kit's
    unsure: int = 0  # cells that may be the student's: it isn't known what was handed out
    new_stubs: dict[str, str] = field(default_factory=dict)  # module -> the kit's newer text
    renewed: list[str] = field(default_factory=list)  # modules with the student's and kit's lines
    redocumented: dict[str, list[str]] = field(default_factory=dict)  # module -> functions

    @property
    def has_work(self) -> bool:
        """Whether it holds anything of the student's."""
        return bool(self.filled or self.edited or self.followed)


def parse(data: bytes, name: str) -> dict[str, Any]:
    """Read a notebook.

    Raises:
        NotebookError: it is none.
    """
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise NotebookError(f"{name} can't be read as a notebook: {error}") from None
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list) or not all(map(_is_cell, cells)):
        raise NotebookError(f"{name} is no notebook of format 4: its cells are damaged.")
    return dict(content)


def _is_cell(cell: Any) -> bool:
    source = cell.get("source", "") if isinstance(cell, dict) else None
    lines = source if isinstance(source, list) else [source]
    return isinstance(cell, dict) and all(isinstance(line, str) for line in lines)


def merge(
    mine: Mapping[str, Any],
    newer: Mapping[str, Any],
    given: Mapping[str, str] | None,
    stubs: Mapping[str, str] | None = None,
) -> Merged:
    """Make one notebook of the student's and the kit's newer one.

    Args:
        mine: as the student has it.
        newer: as the newer handout has it.
        given: the digest of each cell that was handed out, by its id; None: not known.
        stubs: the text of each cell to be written, as it was handed out, where that is known.
    """
    return _Merge(mine, newer, given, stubs or {}).merged


class _Merge:
    def __init__(
        self,
        mine: Mapping[str, Any],
        newer: Mapping[str, Any],
        given: Mapping[str, str] | None,
        old_stubs: Mapping[str, str],
    ) -> None:
        self.merged = Merged(copy.deepcopy(dict(newer)))
        self.given, self.old_stubs = given, old_stubs
        self.whole: set[int] = set()  # slots whose written module has all that the kit changed
        self.cells: list[Cell] = self.merged.content["cells"]
        self.stubs = [source_of(cell) for cell in self.cells]
        self.texts = [text_digest(source_of(cell)) for cell in self.cells]
        self.slots = {_key(cell): k for k, cell in enumerate(self.cells) if _is_slot(cell)}
        self.written: dict[int, list[Cell]] = {}
        self.following: dict[int, list[Cell]] = {}  # behind which cell; -1: before the first
        self.taken: set[int] = set()
        at = -1
        mine_cells = _whole(mine["cells"])
        for cell in mine_cells:
            at = self._place(cell, at)
        self._fill()
        self._compare(mine_cells)
        self._insert()

    def _place(self, cell: Cell, at: int) -> int:
        """Find a cell's place; returns the newer notebook's cell that the next one may follow."""
        text = text_digest(source_of(cell))
        slot = self.slots.get(_key(cell)) if _key(cell) else None
        if slot is not None:
            if not self._as_handed_out(cell, text) and text != self.texts[slot]:
                self.written.setdefault(slot, []).append(cell)
            elif text == self.texts[slot]:
                self.taken.add(slot)
            return slot
        if text in self.texts:
            # Several cells may have one text: the next one counts, so that places only go down the
            # page.
            later = [k for k, other in enumerate(self.texts) if other == text and k > at]
            return later[0] if later else at
        if not source_of(cell).strip() or self._as_handed_out(cell, text):
            return at
        if self.given is None and not _is_slot(cell):
            self.merged.unsure += 1
            return at
        was = (self.given or {}).get(str(cell.get("id")))
        unchanged = [
            k
            for k, other in enumerate(self.texts)
            if other == was and k not in self.taken and self._may_stand_in(cell, k)
        ]
        if unchanged:
            k = unchanged[0]
            self.taken.add(k)
            self._write(k, cell)
            self.merged.edited += 1
            return k
        name = _marks(cell).get("grade_id")  # of a cell that is locked, and was changed
        same = [
            k
            for k, other in enumerate(self.cells)
            if name and _marks(other).get("grade_id") == name
        ]
        at = same[0] if same else at
        self.following.setdefault(at, []).append(cell)
        return at

    def _as_handed_out(self, cell: Cell, text: str) -> bool:
        """Whether nobody wrote in a cell since it was handed out."""
        if self.given is not None:
            return text in self.given.values()
        return _bears_its_checksum(cell)

    def _may_stand_in(self, cell: Cell, k: int) -> bool:
        same = cell.get("cell_type") == self.cells[k].get("cell_type")
        return same and not _marks(self.cells[k])

    def _write(self, k: int, cell: Cell) -> None:
        self.cells[k]["source"] = copy.deepcopy(cell.get("source", ""))
        if "attachments" in cell:
            self.cells[k]["attachments"] = copy.deepcopy(cell["attachments"])

    def _fill(self) -> None:
        for slot, cells in self.written.items():
            *others, last = cells
            last_digest = text_digest(source_of(last))
            if last.get("cell_type") != self.cells[slot].get("cell_type"):
                self.cells[slot].pop("attachments", None)
            self._write(slot, self._renewed(slot, last))
            self.merged.filled.append(_key(self.cells[slot]))
            rest = [cell for cell in others if text_digest(source_of(cell)) != last_digest]
            self.following[slot] = [*rest, *self.following.get(slot, [])]

    def _renewed(self, slot: int, cell: Cell) -> Cell:
        """A module that the student wrote, with what the kit changed in its stub."""
        stub, text = self.stubs[slot], source_of(cell)
        module = _module(stub)
        if not module or module != _module(text) or cell.get("cell_type") != "code":
            return cell
        old = self.old_stubs.get(_key(self.cells[slot]))
        both = three_way(_body(old), _body(text), _body(stub)) if old else None
        if both and both.whole:
            self.whole.add(slot)
        if both and both.text != _body(text):
            self.merged.renewed.append(module)
        body = both.text if both else _body(text)
        return cell | {"source": f"{_head(stub, text)}\n{body}"}

    def _compare(self, mine: list[Cell]) -> None:
        """Say which stubs differ from what the student was given."""
        before = {_key(cell): cell for cell in mine if _key(cell)}
        for key, slot in self.slots.items():
            if key not in before or self.cells[slot].get("cell_type") != "code":
                continue
            old, stub = before[key], self.stubs[slot]
            if self._is_given(self.cells[slot], old, stub):
                continue
            module, body = _module(stub) or key, _body(stub)
            self.merged.redocumented[module] = docstrings_changed(_body(source_of(old)), body)
            if slot in self.written and slot not in self.whole:
                self.merged.new_stubs[module] = body

    def _is_given(self, cell: Cell, old: Cell, stub: str) -> bool:
        """Whether the student was given this stub already, be it below an older first line."""
        if text_digest(_body(stub)) == text_digest(_body(source_of(old))):
            return True
        older = f"%%writefile {_module(stub)}.py\n{_body(stub)}"
        if self.given is not None:
            return not {text_digest(stub), text_digest(older)}.isdisjoint(self.given.values())
        marks, released_as = _marks(cell), _marks(old).get("checksum")
        return released_as == marks.get("checksum") or cell_text.released(
            _body(stub), f"{_module(stub)}.py", marks.get("grade_id"), released_as
        )

    def _insert(self) -> None:
        ids = {str(cell.get("id")) for cell in self.cells}
        out: list[Cell] = []
        for k in range(-1, len(self.cells)):
            if k >= 0:
                out.append(self.cells[k])
            for cell in self.following.get(k, []):
                out.append(_plain(cell, ids))
                self.merged.followed += 1
        self.merged.content["cells"] = out


def _marks(cell: Mapping[str, Any]) -> dict[str, Any]:
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return marks if isinstance(marks, dict) else {}


def _is_slot(cell: Mapping[str, Any]) -> bool:
    """Whether students fill in the cell."""
    return bool(_marks(cell).get("solution")) and bool(_marks(cell).get("grade_id"))


def _whole(cells: Sequence[Cell]) -> list[Cell]:
    """A student's cells; those that were one module's cell before it was split are one again."""
    texts = [
        cell_text.Cell(
            source_of(cell), _marks(cell).get("grade_id"), cell.get("cell_type") == "code"
        )
        for cell in cells
    ]
    out, k = [], 0
    while k < len(cells):
        count = cell_text.num_parts(texts, k) if _module(texts[k].source) else 1
        source = cell_text.joined([text.source for text in texts[k : k + count]])
        out.append(cells[k] if count == 1 else {**cells[k], "source": source})
        k += count
    return out


def _module(text: str) -> str:
    return cell_text.module_of(text).removesuffix(".py")


def _key(cell: Mapping[str, Any]) -> str:
    """What a cell to be filled in is called; one that has lost its marks is known by its file."""
    if _is_slot(cell):
        return str(_marks(cell)["grade_id"])
    if cell.get("cell_type") != "code" or _marks(cell):
        return ""
    return _module(source_of(cell))


def module_texts(content: Mapping[str, Any]) -> dict[str, str]:
    """What a notebook's cells would write, by the module's name."""
    sources = [source_of(cell) for cell in content["cells"] if cell.get("cell_type") == "code"]
    return {_module(source): _body(source) for source in sources if _module(source)}


def _head(stub: str, source: str) -> str:
    """The line that writes the file: the kit's, unless the student's does more."""
    line, kits = source.partition("\n")[0], stub.partition("\n")[0]
    return line if " -a " in line else kits


def _body(source: str) -> str:
    return cell_text.body_of(source) if _module(source) else source


def _bears_its_checksum(cell: Mapping[str, Any]) -> bool:
    """Whether nbgrader's checksum of a cell is that of its text."""
    marks, source = _marks(cell), source_of(cell)
    grade, solution = bool(marks.get("grade")), bool(marks.get("solution"))
    locked = not solution and (grade or bool(marks.get("locked")))
    # As nbgrader.utils.compute_checksum.
    parts = [cell.get("cell_type"), grade, solution, locked, marks.get("grade_id")]
    points = marks.get("points")
    if grade and isinstance(points, int | float):
        parts.append(float(points))
    rest = "".join(map(str, parts))
    return any(
        hashlib.md5(
            f"{text}{rest}".encode("utf-8", "surrogatepass"), usedforsecurity=False
        ).hexdigest()
        == marks.get("checksum")
        for text in (source, source.rstrip())
    )


def _plain(cell: Cell, ids: set[str]) -> Cell:
    """A cell of the student's without marks, under an id that nobody else has."""
    plain = copy.deepcopy(cell)
    metadata = plain.get("metadata")
    plain["metadata"] = dict(metadata) if isinstance(metadata, dict) else {}
    plain["metadata"].pop("nbgrader", None)
    cell_id = base = str(plain.get("id") or "yours")
    number = 1
    while cell_id in ids:
        number += 1
        cell_id = f"{base[:50]}-{number}"
    plain["id"] = cell_id
    ids.add(cell_id)
    return plain


def docstrings_changed(before: str, after: str) -> list[str]:
    """The functions and classes whose docstrings differ; "" is the module's own."""
    try:
        old, new = _docstrings(before), _docstrings(after)
    except (SyntaxError, ValueError):
        return []
    return [name for name, text in new.items() if old.get(name) != text]


def _docstrings(source: str) -> dict[str, str | None]:
    tree = ast.parse(source)
    docstrings = {"": ast.get_docstring(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            docstrings[node.name] = ast.get_docstring(node)
    return docstrings
