"""The trace file: whole or not there, and clear about what is wrong with it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ringside.errors import TraceError
from ringside.files import write_atomically
from ringside.trace import CallSite, Kind, Op, Trace


@pytest.fixture
def trace() -> Trace:
    ops = [
        [Op(Kind.ISEND, 1, 5, 80, "world", 1, 0, (0,), 0), Op(Kind.WAIT, detail=(1,), site=0)],
        [
            Op(Kind.IRECV, 0, 5, 80, "world/2.1", 1, 0, (0, 5), 1),
            Op(Kind.WAIT, detail=(1,), site=1),
            Op(Kind.COLLECTIVE, -1, 0, 8, "world", 2, -1, ("allreduce", 0, 0, (0, 1), (8,)), 1),
        ],
    ]
    return Trace(
        2, ops, [CallSite("Send(dest=1)", "a.py", 3), CallSite("Recv()", "a.py", 9)], "textbook"
    )


def test_file_holds_the_whole_trace_and_is_the_same_each_time(trace: Trace, tmp_path: Path) -> None:
    first = trace.save(tmp_path / "a.trace.gz").read_bytes()
    second = trace.save(tmp_path / "b.trace.gz").read_bytes()
    assert first == second
    assert Trace.load(tmp_path / "a.trace.gz") == trace


def test_missing_and_foreign_files_are_named(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such trace file"):
        Trace.load(tmp_path / "none.gz")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(TraceError, match="damaged"):
        Trace.load(tmp_path / "text")
    with gzip.open(tmp_path / "other.gz", "wt") as file:
        file.write(json.dumps({"format": "something"}) + "\n")
    with pytest.raises(TraceError, match="not a ringside-trace file"):
        Trace.load(tmp_path / "other.gz")


def test_other_versions_are_refused_with_both_numbers(trace: Trace, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "new.gz", "wt") as file:
        file.write(json.dumps({"format": "ringside-trace", "version": 9}) + "\n")
    with pytest.raises(TraceError, match="version 9 of the format; this kit reads 1"):
        Trace.load(tmp_path / "new.gz")


def test_damage_names_its_line(trace: Trace, tmp_path: Path) -> None:
    path = trace.save(tmp_path / "a.gz")
    lines = gzip.decompress(path.read_bytes()).splitlines()
    lines[2] = lines[2][:10]
    with gzip.open(tmp_path / "cut.gz", "wb") as file:
        file.write(b"\n".join(lines))
    with pytest.raises(TraceError, match="damaged at line 3"):
        Trace.load(tmp_path / "cut.gz")
    (tmp_path / "half.gz").write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TraceError, match="damaged"):
        Trace.load(tmp_path / "half.gz")


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "text")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
