"""What ranks import is compiled once, and is what Python would have imported."""

from __future__ import annotations

import marshal
import os
from pathlib import Path
from types import CodeType

import pytest

import ringside
from ringside.ranks.bytecode import compiled
from ringside.session import session as session_module

MODULE = """
from helper import factor
import os, helper as h
def f(comm):
    return factor * 10 + comm.rank
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text("import deeper\nfactor = deeper.factor\n")
    (tmp_path / "deeper.py").write_text("factor = 4\n")
    (tmp_path / "unused.py").write_text("raise SystemExit('imported')\n")
    module = tmp_path / "module.py"
    module.write_text(MODULE)
    return module


def test_a_file_and_what_it_imports_from_its_folder_is_compiled(module: Path) -> None:
    code = compiled(module.parent, module.name)
    assert set(code) == {str(module.with_name(f"{n}.py")) for n in ("module", "helper", "deeper")}
    for path, text in code.items():
        unpacked = marshal.loads(text)
        assert isinstance(unpacked, CodeType) and unpacked.co_filename == path


def test_ranks_import_what_was_compiled_and_nothing_is_written(module: Path, monkeypatch) -> None:
    swapped = compile("factor = 6\n", str(module.with_name("deeper.py")), "exec")

    def with_other_code(folder: Path, file: str) -> dict[str, bytes]:
        return {**compiled(folder, file), swapped.co_filename: marshal.dumps(swapped)}

    monkeypatch.setattr(session_module, "compiled", with_other_code)
    before = set(module.parent.iterdir())
    assert ringside.run(f"{module}:f", 2).values == [60, 61]
    assert set(module.parent.iterdir()) == before


def test_nobody_elses_file_is_compiled_here(module: Path, monkeypatch) -> None:
    monkeypatch.setattr(session_module, "compiled", lambda *_: pytest.fail("it was compiled"))
    with ringside.Session(module.parent, strict=True) as session:
        assert session.call("module.py:f", 2).values == [40, 41]


def test_a_change_within_the_same_second_is_seen(module: Path) -> None:
    assert ringside.run(f"{module}:f", 2).values == [40, 41]
    deeper = module.parent / "deeper.py"
    times = deeper.stat().st_atime_ns, deeper.stat().st_mtime_ns
    deeper.write_text("factor = 7\n")
    os.utime(deeper, ns=times)
    assert ringside.run(f"{module}:f", 2).values == [70, 71]
    deeper.write_text("factor = 8\n")
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
    assert str(module.parent / "deeper.py") not in compiled(module.parent, module.name)


@pytest.mark.parametrize("strict", [False, True])
def test_modules_are_found_where_python_finds_them(tmp_path: Path, strict: bool) -> None:
    (tmp_path / "both").mkdir()
    (tmp_path / "both" / "__init__.py").write_text("name = 'package'\n")
    (tmp_path / "both.py").write_text("name = 'module'\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "late.py").write_text("name = 'other folder'\n")
    (tmp_path / "late.py").write_text("name = 'first folder'\n")
    (tmp_path / "math.py").write_text("name = 'hidden'\n")
    (tmp_path / "again.py").write_text("import os\nname = os.path.basename(__file__)\n")
    (tmp_path / "main.py").write_text(
        "import importlib, inspect, sys\n"
        "import both, math\n"
        "def f(comm, folder):\n"
        "    sys.path.insert(0, folder + '/other')\n"
        "    import late\n"
        "    del sys.path[0]\n"
        "    import again\n"
        "    first = again.name\n"
        "    again.name = 'changed'\n"
        "    importlib.invalidate_caches()\n"
        "    importlib.reload(again)\n"
        "    sys.path.clear()\n"
        "    try:\n"
        "        import nowhere\n"
        "    except ModuleNotFoundError:\n"
        "        pass\n"
        "    return (both.name, hasattr(math, 'name'), late.name, first, again.name,\n"
        "            inspect.getsource(f).splitlines()[2].strip(), again.__spec__.origin)\n"
    )
    with ringside.Session(tmp_path, strict=strict) as session:
        result = session.call("main:f", 2, (str(tmp_path),)).raise_for_error()
    assert result.values == 2 * [
        (
            "package",
            False,
            "other folder",
            "again.py",
            "again.py",
            "import late",
            str(tmp_path / "again.py"),
        )
    ]


def test_a_script_imports_what_lies_beside_it(module: Path) -> None:
    script = module.with_name("script.py")
    script.write_text("import helper\nprint(helper.factor, __name__)\n")
    assert ringside.run(script, 2).output == ["4 __main__\n"] * 2
