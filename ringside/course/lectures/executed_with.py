"""What a lecture was executed with: the data that it read, and the kit.

    "ringside": {                                          in the notebook's metadata
      "data": {"lectures/data/gpus.csv": "5c1f0b9a2e77"},  a change of it makes the notebook stale
      "kit": {"version": "0.2.0", "code": "0fff16c3786a"}  this one is only a record
    }

The kernel notes each file that it opens, so nobody has to list what a lecture reads, also where a
function of the kit reads it: a machine, the ledger, published measurements. What only a rank or
another process opens isn't noted; no lecture does that with its data.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ringside import kit
from ringside.course.lectures.lecture import Lecture

Record = dict[str, dict[str, str]]
DATA = ("lectures", "cluster")  # folders of the tree whose files are data
DIGITS = 12

# Runs in the kernel before the first cell, in a namespace of its own, and imports nothing of the
# kit: a lecture that forgets an import must fail.
# The two lowest bits of the flags of an open are its access mode.
NOTE_READS = """\
import os, sys
notes = open({notes!r}, "a", encoding="utf-8", buffering=1)
def note(event, args):
    if event == "open" and isinstance(args[0], str) and args[2] & 3 == os.O_RDONLY:
        notes.write(os.path.abspath(args[0]) + "\\n")
sys.addaudithook(note)
"""


def noting_reads(notes: Path) -> str:
    """The argument of a kernel that notes in a file what it opens to read, a path a line."""
    code = NOTE_READS.format(notes=str(notes))
    return f"--IPKernelApp.exec_lines=exec({code!r}, {{}})"


def record(lecture: Lecture, notes: Path) -> Record:
    """What goes into the notebook: digests of the data noted as read, and the kit's."""
    tree = lecture.tree
    names = set()
    for line in notes.read_text(encoding="utf-8").splitlines():
        path = Path(line).resolve()  # ringside/cluster is a link to cluster/
        if path.is_relative_to(tree) and path.is_file():
            name = path.relative_to(tree)
            if name.parts[0] in DATA:
                names.add(name.as_posix())
    return {
        "data": {name: digest(tree / name) for name in sorted(names)},
        "kit": {"version": kit.VERSION, "code": kit_code(tree)},
    }


def digest(path: Path) -> str:
    """A short digest of a file's bytes; empty where there is no file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS] if path.is_file() else ""


def kit_code(tree: Path) -> str:
    """A short digest of all modules of a tree's kit."""
    code = hashlib.sha256()
    for path in sorted((tree / "ringside").rglob("*.py")):
        code.update(f"{path.relative_to(tree).as_posix()} {digest(path)}\n".encode())
    return code.hexdigest()[:DIGITS]


def changed_data(lecture: Lecture, executed: Any) -> list[str]:
    """The files that a notebook's outputs were made of and that have changed since."""
    data = executed.metadata["ringside"]["data"]
    return [name for name, before in data.items() if digest(lecture.tree / name) != before]


def has_record(executed: Any) -> bool:
    """Whether it is known what a notebook was executed with: of a cleared one, it isn't."""
    return isinstance(executed.metadata.get("ringside"), dict)


def kit_of(lecture: Lecture, executed: Any) -> str:
    """Words on the kit that executed a notebook, and on whether it is that of today."""
    before = executed.metadata["ringside"]["kit"]
    text = f"executed with kit {before['version']}, code {before['code']}"
    return text if before["code"] == kit_code(lecture.tree) else f"{text}, an earlier one"
