"""What a grade's key depends on: of each folder of the kit, and in the processes of a grading."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autograder import digests
from autograder.course import assignment as plans
from autograder.course.course import Course

KIT = Path(__file__).resolve().parents[2]

# The folders whose code a grade of a03's ring depends on, in whole or in part. Whoever adds a
# folder to the kit says here, by naming it or not, whether a change of it regrades every class.
DEPENDS = {
    "autograder",  # the package, imports, scratch, tables
    "autograder/course",  # assignment, course, limits
    "autograder/grade",  # grading
    "autograder/grade/real_ranks",
    "autograder/sandbox",
    "autograder/grade/suite",
    "cluster/machines",
    "ringside",  # errors, factors, trace, units, ...
    "ringside/checking",  # what suites assert, not what students' checks print
    "ringside/mpi",
    "ringside/mpi/rare",
    "ringside/network",
    "ringside/pytorch",
    "ringside/ranks",
    "ringside/scale",
    "ringside/session",
    "ringside/timing",
    "solutions/a03_allreduce",  # ring_torch.py, which checks/inside_torch.py imports
    "solutions/a03_allreduce/checks",
    "solutions/a03_allreduce/given",
    "solutions/a03_allreduce/hidden",
}
# What the run of a suite imports, and no grade depends on: `ringside` hands on its names, or what
# an instructor sets, whose value is in the key.
BESIDE = (
    *digests.APART,
    "ringside/checking/",
    "ringside/command_line.py",
    "ringside/commands/",
    "ringside/course/",
    "ringside/progress.py",
)
UNIT, MODULE = "a03_allreduce", "ring"
_LINES = "\n# A remark.\n"
_CODE = "\nMENDED = 1\n"


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the kit's code and data, with one unit."""
    root = tmp_path_factory.mktemp("kit")
    kinds = (".py", ".toml", ".ini", ".diff")
    for folder in ("ringside", "autograder", "cluster", f"solutions/{UNIT}"):
        for path in (KIT / folder).rglob("*"):
            if path.suffix in kinds and path.is_file():
                copy = root / path.relative_to(KIT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
    return root


def key(kit: Path) -> str:
    digests.forget()
    return digests.kit_digest(kit, UNIT, MODULE)


def test_a_comment_regrades_nobody_and_code_does_in_the_folders_of_a_run(kit: Path) -> None:
    before, unit = key(kit), digests.unit_digest(kit, UNIT)
    files: dict[str, list[Path]] = {}
    for path in sorted(kit.rglob("*")):
        if path.suffix in (".py", ".toml", ".diff") and path.name != "notebook.py":
            files.setdefault(path.parent.relative_to(kit).as_posix(), []).append(path)
    assert len(files) > 50 and files.keys() >= DEPENDS
    forms = kit / "solutions" / UNIT
    for path in (path for paths in files.values() for path in paths):
        if path.parent != forms / "verify":  # their remarks are instructions
            remark = f'"""{path}"""\n' if path.suffix == ".py" else ""
            path.write_text(path.read_text() + _LINES + remark)
    assert key(kit) == before
    assert digests.unit_digest(kit, UNIT) == unit
    for folder in sorted(DEPENDS):
        with mended(files[folder]):
            assert key(kit) != before, folder
            assert digests.unit_digest(kit, UNIT) != unit, folder
    with mended(path for folder in files.keys() - DEPENDS for path in files[folder]):
        assert key(kit) == before
        assert digests.unit_digest(kit, UNIT) != unit  # its right forms
    assert key(kit) == before


@contextmanager
def mended(paths: Iterable[Path]) -> Iterator[None]:
    """Change the code of files, for as long as the context lasts."""
    texts = {path: path.read_text() for path in paths}
    for path, text in texts.items():
        path.write_text(_CODE.lstrip() + text if path.suffix == ".toml" else text + _CODE)
    yield
    for path, text in texts.items():
        path.write_text(text)


def test_what_only_students_read_is_in_no_key() -> None:
    files = digests.run_files(KIT)
    for plan in (KIT / "solutions").glob("*/assignment.toml"):
        for test in plan.parent.glob("checks/test_*.py"):
            of_suite = digests.suite_files(KIT, plan.parent.name, test.stem.removeprefix("test_"))
            assert test in of_suite
            files |= of_suite
    names = {path.relative_to(KIT).as_posix() for path in files}
    for page in (
        "jobs/doctor/findings",
        "course/lectures/site",
        "checking/public_tests",
        "draw/svg",
    ):
        assert (KIT / "ringside" / f"{page}.py").is_file()
        assert f"ringside/{page}.py" not in names
    folders = {name.split("/")[1] for name in names if name.startswith("ringside/")}
    assert not folders & {"commands", "course", "draw", "jobs"}


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('name = "all-reduce"', 'name = "sums"', True),
        ('after = ["01"]', 'after = ["01", "02"]', True),
        ("memory_mb = 1248", "memory_mb = 1264", True),
        ("handed_out = true", "due = 2026-03-01T23:59:00Z", True),
        ("weight = 35", "weight = 30", False),
        ("n = 1_000_000", "n = 1_000", False),
        ('file = "checks/inside_torch.py"', 'file = "ring_torch.py"', False),
    ],
)
def test_facts_of_a_unit_regrade_nobody(old: str, new: str, same: bool) -> None:
    text = (KIT / "solutions" / "a03_allreduce" / "assignment.toml").read_text()
    assert old in text
    before = digests.content_of(".toml", text.encode())
    assert (digests.content_of(".toml", text.replace(old, new).encode()) == before) is same


def test_every_place_that_the_digests_name_is_there() -> None:
    # A folder that moves would else leave the key in silence.
    places = {*digests.RUN, *digests.APART, digests.FRONT, *digests.READ, *digests.READ.values()}
    assert not [place for place in places if not (KIT / place).exists()]


def test_no_docstring_is_read_where_a_grade_is_made() -> None:
    files = digests.run_files(KIT) | set(KIT.glob("solutions/*/hidden/*.py"))
    readers = re.compile(r"__doc__|getdoc\(|getsource|get_docstring\(")
    texts = {path.relative_to(KIT).as_posix(): path.read_text("utf-8") for path in files}
    readings = {name for name, text in texts.items() if readers.search(text)}
    assert readings == {"ringside/mpi/namespace.py"}  # what help(MPI) prints


def test_published_numbers_count_where_a_suite_reads_them() -> None:
    numbers = set((KIT / "cluster" / "validation").glob("*.toml"))
    assert numbers
    assert numbers <= digests.suite_files(KIT, "a01_first_ranks", "fit")
    assert numbers <= digests.suite_files(KIT, "a12_hybrid", "predict")
    assert not numbers & digests.suite_files(KIT, UNIT, MODULE)


def test_what_runs_of_the_front_page_is_in_every_key() -> None:
    """A supplied layer that calls `ringside.announce` imports the front page alone."""
    front = ast.parse((KIT / digests.FRONT).read_text("utf-8"))
    modules = {
        name.asname or name.name: f"{node.module.replace('.', '/')}.py"
        for node in ast.walk(front)
        if isinstance(node, ast.ImportFrom) and node.module
        for name in node.names
    }
    assert modules["announce"] == "ringside/checking/announce.py"
    in_key = {path.relative_to(KIT).as_posix() for path in digests.run_files(KIT)}
    for name in plans.known():
        plan = plans.load(name)
        files = [plan_file for plan_file in plan.supplied if plan_file.endswith(".py")]
        files += [f"hidden/{path.name}" for path in Course.here().hidden(name).glob("*.py")]
        for file in files:
            tree = ast.parse((Course.here().solution(name) / file).read_text("utf-8"))
            uses = {
                modules[node.attr]
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "ringside"
                and node.attr in modules
            }
            assert uses <= in_key, f"{name}/{file}"


# One test of the suite in this process, as the nursery of suites runs it; then simulated and real
# ranks tell what their processes have imported.
_GRADING = """
import json, sys
from dataclasses import asdict
from pathlib import Path
kit, folder = Path(sys.argv[1]), Path(sys.argv[2])
opened = set()
sys.addaudithook(lambda event, values: event == "open" and opened.add(str(values[0])))
import pytest
from autograder.course import assignment
from autograder.grade.grading import sources_in, staged
from autograder.grade.suite import plugin
from autograder.grade.suite.job import SuiteJob
from autograder.grade.suite.reality import RealCall, RealRanks
from ringside.session.session import Session

plan = assignment.load("a03_allreduce")
with staged(plan, sources_in(plan, kit / "solutions" / "a03_allreduce")) as stage:
    record = str(folder / "record.json")
    job = SuiteJob("ring", str(stage), record, "s", "h", False, asdict(plan.limits))
    (folder / "job.json").write_text(json.dumps(asdict(job)))
    suite = kit / "solutions/a03_allreduce/checks/test_ring.py"
    ini = Path(plugin.__file__).parent / "pytest.ini"
    one = ["-k", "test_all_gather_puts_shards_in_order"]
    options = ["--job", str(folder / "job.json"), "-c", str(ini), *one]
    pytest.main([*options, str(suite)], plugins=[plugin])
    seen = {"suite": list(sys.modules), "opened": sorted(opened)}
with Session(folder) as session:
    seen["simulated rank"] = session.call("probe.py:imported", 1).values[0]
run = RealRanks(folder, sandbox=False).call_all([RealCall("probe:imported", 1, [()])])[0]
seen["mpiexec"] = run.values[0]
(folder / "seen.json").write_text(json.dumps(seen))
"""
_PROBE = "import sys\ndef imported(comm): return list(sys.modules)\n"


def test_the_key_covers_what_the_processes_of_a_grading_import_and_read(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(_PROBE)
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(KIT)}
    command = [sys.executable, "-c", _GRADING, str(KIT), str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=KIT, capture_output=True, text=True)
    assert (tmp_path / "seen.json").is_file(), done.stdout[-2000:] + done.stderr[-2000:]
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["error"] is None and record["tests"], record
    seen = json.loads((tmp_path / "seen.json").read_text())
    files = digests.run_files(KIT) | digests.suite_files(KIT, UNIT, MODULE)
    names = {path.relative_to(KIT).as_posix() for path in files}
    data = [Path(name) for name in seen.pop("opened") if name.endswith((".toml", ".ini"))]
    # The unit's plan and limits are in a key by their values.
    plans = {f"solutions/{UNIT}/assignment.toml", "autograder/course/limits.toml"}
    data = [path.relative_to(KIT).as_posix() for path in data if path.is_relative_to(KIT)]
    assert "cluster/machines/textbook.toml" in data and set(data) <= names | plans
    used = {process: files_of(modules) for process, modules in seen.items()}
    for process, imported in used.items():
        missing = {name for name in imported - names if not name.startswith(BESIDE)}
        assert not missing, process
    assert {"autograder/grade/suite/plugin.py", "ringside/timing/replay.py"} <= used["suite"]
    assert "ringside/ranks/zygote.py" in used["simulated rank"]
    assert "ringside/network/codec.py" in used["mpiexec"]


def files_of(modules: list[str]) -> set[str]:
    """Where these modules lie in the kit; none for a library's."""
    bases = [module.replace(".", "/") for module in modules]
    names = {name for base in bases for name in (f"{base}.py", f"{base}/__init__.py")}
    return {name for name in names if (KIT / name).is_file()}


_TEXT = '''
"""A module."""
class Point:  # with a remark
    x: int = 0
    """An attribute."""

    @property
    def text(self, *, wide: bool = False) -> str:
        """A docstring."""
        match self.x:
            case None | 0:
                return f"{self.x!r:>{4}} and {'a'}" f"b{self.x=}" ""
            case {"a": 1, **rest} if (y := rest):
                return f"{{}}{y:.2f}\\N{BULLET}" + "\U0001fae8"
        async def inner(*a, **k): return [*a, {**k}, 1e-3, 2j, b"x", ...]
        raise ValueError("A message.") from None
'''
_DIGEST = "b9c25734241e86412a8422b8d5292b3a64d49ca1ea404d79241cf71c3ca6ab4b"


def test_all_pythons_spell_a_files_syntax_alike() -> None:
    # A stored grade and a record under version control outlive the Python that made them.
    assert digests.content_of(".py", _TEXT.encode()).hex() == _DIGEST


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("  # with a remark", "", True),
        ('"""A module."""', "", True),
        ('"""A docstring."""', '"""Another."""', True),
        ('"""An attribute."""', "", True),
        ("1e-3, 2j", "1e-3,  # small\n 2j", True),
        ("A message.", "Another.", False),
        ("= False", "= True", False),
        ("= False", "= None", False),
        ("= False", "= 0", False),
        ("bool = False", "bool", False),
        ("None | 0", "True | 0", False),
        ("[*a, ", "[a, ", False),
        ("!r", "!s", False),
        (">{4}", "<{4}", False),
        ('b"x"', '"x"', False),
        ("x: int = 0", "x: float = 0", False),
        ("@property", "@cached_property", False),
    ],
)
def test_what_counts_of_a_python_file(old: str, new: str, same: bool) -> None:
    assert _TEXT.count(old) == 1
    before = digests.content_of(".py", _TEXT.encode())
    assert (digests.content_of(".py", _TEXT.replace(old, new).encode()) == before) is same
