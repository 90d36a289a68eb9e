"""What else reads bytes of a student's: the codec, results, traces, notebooks, archives, run.json.

Every reader gives a value, or the one error that it promises.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder import notebooks
from autograder.collect import cluster_run
from autograder.collect.quarantine import Rejected, extract_zip
from autograder.collect.rebuild import as_plain_text, plain_text, rebuild
from autograder.course import assignment as assignments
from autograder.course.limits import Limits
from autograder.grade.real_ranks.job import MpiOutcome
from autograder.grade.suite.reality import RealCall, RealityError, _frames, _read
from ringside.errors import CodecError, TraceError
from ringside.network import codec
from ringside.timing.replay import replay
from ringside.trace import Trace
from tests.fuzz import stage
from tests.fuzz.frames import HUGE, ODD, RAW, WHOLE
from tests.fuzz.test_protocol import FEW

PLAN = assignments.load("a03_allreduce")
Target = Callable[[Any], None]
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), WHOLE, st.floats(), st.text(max_size=5),
              st.sampled_from(["\ud800", "x" * 5000, "%%writefile ../../x.py\n1"])),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
VALUES = st.recursive(
    ODD.filter(lambda value: value is not HUGE) | st.text(max_size=9) | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple)
    | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


def _damaged(draw: Callable[..., Any], data: bytes) -> bytes:
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(RAW) + data[at + draw(st.integers(0, 9)) :]
    return data


def _codec(data: Any) -> None:
    value = data.draw(VALUES)
    encoded = codec.encode(value)
    assert codec.encode(codec.decode(encoded)) == encoded
    try:
        found = codec.decode(_damaged(data.draw, encoded))
    except CodecError:
        return _saw("refused")
    codec.encode(found)
    return _saw("read")


def _reality(data: Any) -> None:
    """What a real rank sends back."""
    values = data.draw(st.lists(st.tuples(st.sampled_from(["value", "error"]), VALUES), max_size=3))
    stream = b""
    for value in values:
        body = codec.encode(value)
        stream += struct.pack("<I", len(body)) + body
    streams = [_damaged(data.draw, stream), stream]
    for stream in streams:
        list(_frames(stream))
    calls = [RealCall("ring:f", 2, [(), ()])] * 2
    outcome = MpiOutcome("ok", [streams], "said \ud800", 0.1)
    try:
        runs = _read("mpiexec", outcome, streams, calls)
    except RealityError:
        return _saw("no answer")
    assert len(runs) == 2
    [str(run.error).encode("utf-8") for run in runs]
    return _saw("an error" if runs[0].error else "values")


def _trace(data: Any) -> None:
    draw = data.draw
    ops: list[list[Any]] = [
        [0, 1, 1, 0, 8, "world", 1, 0, [0], -1], [1, 2, 0, 0, 8, "world", 1, 0, [0, 0], -1],
        [0, 3, -1, 0, 0, "world", -1, -1, [1], -1], [1, 3, -1, 0, 0, "world", -1, -1, [1], -1],
        [0, 0, -1, 0, 0, "world", -1, -1, [1.0, 0.0, -1, "x"], 0],
        [0, 5, -1, 0, 8, "world", 9, -1, ["allreduce", 0, 0, [0, 1], [8]], 0],
        [1, 5, -1, 0, 8, "world", 9, -1, ["allreduce", 0, 0, [0, 1], [8]], 0],
        [0, 4, -1, 0, 0, "world", -1, -1, [5], -1],
    ]  # fmt: skip
    header: dict[str, Any] = {
        "format": "ringside-trace", "version": 1, "world_size": 2, "machine": "textbook",
        "sites": [["Send", "ring.py", 3]],
    }  # fmt: skip
    for _ in range(draw(st.integers(0, 3))):
        way = draw(st.integers(0, 3))
        if way == 0:
            header[draw(st.sampled_from(sorted(header)))] = draw(JSON)
        elif way == 1 and ops:
            ops.insert(draw(st.integers(0, len(ops))), draw(st.sampled_from(ops)))
        elif way == 2 and ops:
            del ops[draw(st.integers(0, len(ops) - 1))]
        elif ops:
            op = list(draw(st.sampled_from(ops)))
            at = draw(st.integers(0, 9))
            op[at] = draw(JSON | st.sampled_from([0, 1, 2, 3, 4, 5, 6]))
            ops[draw(st.integers(0, len(ops) - 1))] = op
    lines = "\n".join(json.dumps(line) for line in [header, *ops]) + "\n"
    packed = gzip.compress(lines.encode(), 1)
    if draw(st.integers(0, 4)) == 0:
        packed = _damaged(draw, packed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.trace"
        path.write_bytes(packed)
        try:
            timeline = replay(Trace.load(path), "textbook")
        except TraceError as error:
            str(error).encode("utf-8", "replace")
            return _saw("refused")
        timeline._repr_html_()
    return _saw("replayed")


def _notebook(data: Any) -> None:
    draw = data.draw
    release = notebooks.notebook([
        _cell("ring"), _cell("star"),
    ])  # fmt: skip
    cells: list[Any] = [dict(_cell(name)) for name in ("ring", "star", "ring")]
    document: Any = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    for _ in range(draw(st.integers(0, 4))):
        cell = cells[draw(st.integers(0, len(cells) - 1))] if cells else None
        if isinstance(cell, dict) and draw(st.booleans()):
            cell[draw(st.sampled_from(["source", "metadata", "cell_type", "id"]))] = draw(JSON)
        elif draw(st.integers(0, 3)) == 0:
            document[draw(st.sampled_from(["cells", "metadata", "nbformat"]))] = draw(JSON)
        else:
            cells.append(draw(JSON))
    text = json.dumps(document).encode()
    if draw(st.integers(0, 3)) == 0:
        deep = [b"[" * 100_000, b'{"cells":' * 50_000, b"\xff\xfe", b"1" * 6000]
        text = draw(st.sampled_from([*deep, _damaged(draw, text)]))
    try:
        rebuilt = rebuild(PLAN, release, text)
    except Rejected:
        return _saw("rejected")
    for source in rebuilt.modules.values():
        source.encode()
        assert plain_text(as_plain_text(source)) is not None
    " ".join(rebuilt.notes).encode("utf-8", "replace")
    json.dumps(rebuilt.notebook)
    return _saw("rebuilt")


def _cell(name: str) -> Any:
    from nbformat.v4 import new_code_cell

    marks = {"grade_id": name, "solution": True, "grade": False, "locked": False}
    return new_code_cell(f"%%writefile {name}.py\npass", metadata={"nbgrader": marks}, id=name)


def _zip(data: Any) -> None:
    draw = data.draw
    limits = Limits(submission_files=5, submission_bytes=1 << 16, zip_bytes=1 << 16)
    names = st.sampled_from(
        ["ring.py", "a/ring.py", "../x", "/x", "a/../x", "C:x", "a\\..\\x", "a/b/c/d/e", "x\0y",
         ".", "a", "a/b", "./x", "\ud7ff", "n" * 300, "a/", "__MACOSX/x", "a//b", "ring.py/x"]
    )  # fmt: skip
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", draw(st.sampled_from([0, 8]))) as archive:
        for name in draw(st.lists(names, max_size=7, unique=True)):
            archive.writestr(name, bytes(draw(st.sampled_from([0, 3, 2000, 70_000]))))
    with tempfile.TemporaryDirectory() as folder:
        path, into = Path(folder) / "x.zip", Path(folder) / "into" / "deep"
        path.write_bytes(_damaged(draw, packed.getvalue()))
        into.mkdir(parents=True)
        try:
            extract_zip(path, into, limits)
        except Rejected as rejected:
            str(rejected).encode("utf-8", "replace")
            _saw("rejected")
        else:
            _saw("unpacked")
        found = [each for each in Path(folder).rglob("*") if each.is_file() and each != path]
        assert all(each.is_relative_to(into) for each in found)
        assert sum(each.stat().st_size for each in found) <= limits.submission_bytes


def _run_json(data: Any) -> None:
    draw = data.draw
    record: dict[str, Any] = {
        "format": cluster_run.FORMAT, "version": cluster_run.VERSION, "world_size": 2,
        "hosts": ["a", "b"], "module_sha256": "x",
        "measurements": [{"n": 1, "times_s": [0.1], "checksum": "c", "values": "right"}],
    }  # fmt: skip
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            record[draw(st.sampled_from(sorted(record)))] = draw(JSON)
        elif (
            isinstance(rows := record["measurements"], list) and rows and isinstance(rows[0], dict)
        ):
            rows[0][draw(st.sampled_from(sorted(rows[0]) or ["n"]))] = draw(JSON)
    (run,) = PLAN.runs
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "run.json").write_bytes(_damaged(draw, json.dumps(record).encode()))
        checked = cluster_run.check(run, Path(folder), "pass\n")
    json.dumps([checked.points, checked.findings]).encode()
    _saw(f"{sum(ok for ok, _ in checked.findings)} of {len(checked.findings)}")


def _saw(outcome: str) -> None:
    stage.FIGURES.examples += 1
    stage.FIGURES.outcomes[outcome] += 1


TARGETS: dict[str, Target] = {
    "codec": _codec, "real ranks": _reality, "trace": _trace, "notebook": _notebook,
    "archive": _zip, "run.json": _run_json,
}  # fmt: skip


@pytest.mark.parametrize("name", TARGETS)
def test_readers_give_a_value_or_the_error_that_they_promise(name: str) -> None:
    settings(FEW, max_examples=80)(given(st.data())(TARGETS[name]))()
