"""What a whole verification saw, under version control: ``tests/verified/a03_allreduce.json``.

    suites     every wrong and right submission, reference and stub, and every failure's line
    attacks    every attack on the assignment

Each part says by its digest what it belongs to. It fits as long as the digest is that of the tree
as it is: of all that grading depends on, and of what was graded. Where it doesn't fit, the part is
stale. A row is a name and a result, so that a change is a difference which a person can read.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import digests, storage
from autograder.author.verify import verify
from autograder.author.verify.attacks import load_attacks
from autograder.course.assignment import Assignment, AssignmentError
from ringside import kit

RECORDS = kit.ROOT / "tests" / "verified"
PARTS = ("suites", "attacks")
HERE = Path(__file__).parent
# What `unit_digest` leaves out: how edits are applied, and how lines are typed and run.
OF_SUITES = (
    *(kit.ROOT / "autograder/course/edits.py", HERE / "reproduce.py"),
    *(kit.PACKAGE / "commands" / "run.py", kit.PACKAGE / "commands" / "check.py"),
)
# What only attacks meet: the whole way of a submission, and who looks at what came of it.
OF_ATTACKS = (
    *(HERE.parents[1] / name for name in ("collect", "grade", "gradebook/report", "notebooks.py")),
    *(HERE / "redteam_outside.py", HERE / "redteam_run.py"),
)
Rows = dict[str, dict[str, Any]]  # by module (or "redteam"), then by name: the result
_SECONDS_PER_SUBMISSION = 4.0  # on two idle cores; only where nothing is recorded


@dataclass(frozen=True)
class Part:
    """One part of an assignment's verification."""

    plan: Assignment
    kind: str  # of PARTS

    @property
    def name(self) -> str:
        """What a person reads."""
        return self.plan.name if self.kind == "suites" else f"{self.plan.name}, attacks"

    @property
    def digest(self) -> str:
        """A hash of what this part is about, and of all that its results depend on."""
        content = hashlib.sha256(digests.unit_digest(kit.ROOT, self.plan.name).encode())
        for path in self._files():
            text = digests.content_of(path.suffix, path.read_bytes())
            for part in (f"{path.parent.name}/{path.name}".encode(), text):
                content.update(hashlib.sha256(part).digest())
        return content.hexdigest()

    def _files(self) -> list[Path]:
        """What is hashed beside the unit."""
        if self.kind == "suites":
            return list(OF_SUITES)
        attacks = [attack.folder for attack in load_attacks(self.plan.name)]
        paths = [
            path for root in (*OF_ATTACKS, *attacks) for path in sorted(digests.files_below([root]))
        ]
        return [path for path in paths if path.suffix not in (".pyc", ".css")]

    def read(self) -> dict[str, Any]:
        """What is recorded of it: ``digest``, ``kit``, ``minutes``, ``seen``; or nothing."""
        recorded: dict[str, Any] = _read(self.plan.name).get(self.kind, {})
        return recorded

    def fits(self) -> bool:
        """Whether what is recorded was seen of the tree as it is."""
        return bool(self.read().get("digest") == self.digest)

    @property
    def minutes(self) -> int:
        """What it cost when it was recorded, or an estimate, on two idle cores."""
        if "minutes" in self.read():
            return int(self.read()["minutes"])
        whole = verify.subjects if self.kind == "suites" else lambda plan: load_attacks(plan.name)
        return max(1, round(len(whole(self.plan)) * _SECONDS_PER_SUBMISSION / 60))

    def write(self, rows: Rows, minutes: float) -> Path:
        """Record what was seen; the file's other part stays as it is."""
        entry = {
            "digest": self.digest,
            "kit": kit.VERSION,
            "minutes": _steady(self.read().get("minutes"), minutes),
            "seen": rows,
        }
        content = _read(self.plan.name) | {self.kind: entry}
        ordered = {kind: content[kind] for kind in PARTS if kind in content}
        path = _path(self.plan.name)
        path.parent.mkdir(exist_ok=True)
        storage.write(path, (json.dumps(ordered, indent=1, ensure_ascii=False) + "\n").encode())
        return path


def parts(plan: Assignment) -> list[Part]:
    """What there is to verify of an assignment: its suites, and the attacks if there are any."""
    return [Part(plan, kind) for kind in PARTS if kind == "suites" or load_attacks(plan.name)]


def differences(recorded: Rows, seen: Rows) -> list[str]:
    """A line for each row that is not as it is recorded."""
    before, after = (
        {f"{module}: {name}": row for module, some in rows.items() for name, row in some.items()}
        for rows in (recorded, seen)
    )
    return [
        f"{name}: {before.get(name, 'not recorded')} -> {after.get(name, 'not seen')}"
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]


def _path(assignment: str) -> Path:
    return RECORDS / f"{assignment}.json"


def _read(assignment: str) -> dict[str, Any]:
    path = _path(assignment)
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise AssignmentError(
            f"{path} is no JSON: {error}. Delete it, and `make verify UNITS={assignment}` "
            "writes it anew."
        ) from None
    return content if isinstance(content, dict) else {}


def _steady(before: int | None, minutes: float) -> int:
    """Whole minutes; a third more or less is the machine's noise, and no change."""
    if before is not None and abs(minutes - before) <= max(1.0, before / 3):
        return before
    return max(1, round(minutes))
