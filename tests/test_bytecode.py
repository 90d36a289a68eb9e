"""What ranks import is compiled once, and never taken for what the file says no longer."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

import ringside
from ringside.bytecode import keep_compiled

MODULE = """
from helper import factor
import os, helper as h
def f(comm):
    return factor * 10 + comm.rank
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "helper.py").write_text("import deeper\nfactor = deeper.factor\n")
    (tmp_path / "deeper.py").write_text("factor = 4\n")
    (tmp_path / "unused.py").write_text("raise SystemExit('imported')\n")
    module = tmp_path / "module.py"
    module.write_text(MODULE)
    return module


def cached(folder: Path) -> set[str]:
    return {path.name.split(".")[0] for path in (folder / "__pycache__").glob("*.pyc")}


def test_a_file_and_what_it_imports_from_its_folder_is_compiled(module: Path) -> None:
    keep_compiled(module)
    assert cached(module.parent) == {"module", "helper", "deeper"}
    flags = int.from_bytes(
        Path(importlib.util.cache_from_source(str(module))).read_bytes()[4:8], "little"
    )
    assert flags == 0b11  # by hash, which every import checks


def test_what_has_not_changed_is_not_written_again(module: Path) -> None:
    keep_compiled(module)
    cache = module.parent / "__pycache__"
    before = {path.name: path.stat().st_ino for path in cache.iterdir()}
    (module.parent / "deeper.py").write_text("factor = 5\n")
    keep_compiled(module)
    after = {path.name: path.stat().st_ino for path in cache.iterdir()}
    assert {name.split(".")[0] for name in before if before[name] != after[name]} == {"deeper"}


def test_a_change_within_the_same_second_is_seen(module: Path) -> None:
    assert ringside.run(f"{module}:f", 2).values == [40, 41]
    deeper = module.parent / "deeper.py"
    times = deeper.stat().st_atime_ns, deeper.stat().st_mtime_ns
    deeper.write_text("factor = 7\n")
    os.utime(deeper, ns=times)
    assert ringside.run(f"{module}:f", 2).values == [70, 71]
    deeper.write_text("factor = 8\n")  # behind the cache's back
    os.utime(deeper, ns=times)
    with ringside.Session(module.parent, strict=True) as session:
        assert session.call("module.py:f", 2).values == [80, 81]


def test_what_is_wrong_with_a_file_is_told_by_the_rank(module: Path, capfd) -> None:
    (module.parent / "deeper.py").write_text("factor = \n")
    with pytest.raises(ringside.RankError, match=r"deeper\.py"):
        ringside.run(f"{module}:f", 2)
    (module.parent / "deeper.py").write_text("factor = 4\nassert factor is 4\n")
    result = ringside.run(f"{module}:f", 2)
    assert all("SyntaxWarning" in text for text in result.output)
    assert "SyntaxWarning" not in capfd.readouterr().err
    assert "deeper" not in cached(module.parent)


def test_where_python_writes_no_cache_neither_do_we(module: Path, monkeypatch) -> None:
    with ringside.Session(module.parent, strict=True) as session:  # nor into others' folders
        assert session.call("module.py:f", 2).values == [40, 41]
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert ringside.run(f"{module}:f", 2).values == [40, 41]
    assert not (module.parent / "__pycache__").exists()


def test_a_cache_that_can_not_be_written_changes_nothing(module: Path) -> None:
    (module.parent / "__pycache__").write_text("not a folder")
    assert ringside.run(f"{module}:f", 2).values == [40, 41]
