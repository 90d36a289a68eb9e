"""What one submission may use: one file of numbers, which a course and an assignment may change.

    autograder/course/limits.toml  <  [limits] of assignment.toml  <  limits.toml of the course
                                                            <  its table named after the assignment

A key ends with its unit; ``memory_mib = 1024`` is ``Limits.memory_bytes == 1 << 30``.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.course.course import Course
from autograder.tables import meant

__all__ = ["FILE", "Limits", "LimitsError", "load", "read"]

FILE = Path(__file__).parent / "limits.toml"
_UNITS = {"_kib": 1 << 10, "_mib": 1 << 20}
# No value may be larger: past it, numbers no longer fit where the kernel keeps them.
_MOST = 1 << 40


class LimitsError(ValueError):
    """A limit that is none; the message names file, key, value and cure."""


def _field(key: str) -> str:
    """The attribute that a key sets."""
    suffix = key[-4:]
    return key.removesuffix(suffix) + "_bytes" if suffix in _UNITS else key


_KIT: dict[str, Any] = tomllib.loads(FILE.read_text(encoding="utf-8"))
_KEYS = {_field(key): key for key in _KIT}
_START = {_field(key): value * _UNITS.get(key[-4:], 1) for key, value in _KIT.items()}


@dataclass(frozen=True)
class Limits:
    """What one submission may use; ``limits.toml`` says what each is for."""

    cpu_s: float = _START["cpu_s"]
    sleep_s: float = _START["sleep_s"]
    clock_s: float = _START["clock_s"]
    calls_operations: int = _START["calls_operations"]
    calls_result_bytes: int = _START["calls_result_bytes"]
    memory_bytes: int = _START["memory_bytes"]
    memory_torch_bytes: int = _START["memory_torch_bytes"]
    address_space_bytes: int = _START["address_space_bytes"]
    processes: int = _START["processes"]
    open_files: int = _START["open_files"]
    cpu_cores: int = _START["cpu_cores"]
    tmp_bytes: int = _START["tmp_bytes"]
    shm_bytes: int = _START["shm_bytes"]
    written_file_bytes: int = _START["written_file_bytes"]
    output_bytes: int = _START["output_bytes"]
    result_bytes: int = _START["result_bytes"]
    submission_files: int = _START["submission_files"]
    submission_depth: int = _START["submission_depth"]
    submission_bytes: int = _START["submission_bytes"]
    notebook_bytes: int = _START["notebook_bytes"]
    notebook_cells: int = _START["notebook_cells"]
    module_bytes: int = _START["module_bytes"]
    submission_file_bytes: int = _START["submission_file_bytes"]
    zip_bytes: int = _START["zip_bytes"]
    zip_ratio: int = _START["zip_ratio"]

    @property
    def process_cpu_s(self) -> int:
        """What the kernel itself allows one process, should nobody look at all of them."""
        return 2 * math.ceil(self.cpu_s)

    @property
    def of_real_ranks(self) -> Limits:
        """Those of a module's calls on real ranks: a third of the CPU time."""
        return dataclasses.replace(self, cpu_s=self.cpu_s / 3)

    @property
    def soon(self) -> Limits:
        """A small part of these, within which real ranks nearly always end."""
        return dataclasses.replace(self, cpu_s=self.cpu_s / 4, sleep_s=self.sleep_s / 8)

    @property
    def suite_s(self) -> float:
        """What a module's whole suite has on the wall; past it the fault counts as ours."""
        return 2 * self.clock_s + 600

    def for_module(self, module: str) -> Limits:
        """These limits, with the memory that this module may use."""
        torch = module.endswith("_torch")
        return dataclasses.replace(self, memory_bytes=self.memory_torch_bytes) if torch else self


_TYPES = {field.name: type(field.default) for field in dataclasses.fields(Limits)}
assert _TYPES.keys() == _KEYS.keys(), "limits.toml and Limits name the same"


def load(assignment: str, course: Course | None = None) -> Limits:
    """The limits of an assignment in a course.

    Raises:
        LimitsError: a file sets something that is no limit.
    """
    course = course or Course.here()
    of_assignment = course.solution(assignment) / "assignment.toml"
    of_course = course.root / "limits.toml"
    values = dict(_changes(of_assignment, read(of_assignment).get("limits", {})))
    table = read(of_course)
    common = {key: value for key, value in table.items() if not isinstance(value, dict)}
    values |= _changes(of_course, common)
    for name in table.keys() - common.keys():
        if not (course.solution(name) / "assignment.toml").is_file():
            plans = (course.kit / "solutions").glob("*/assignment.toml")
            near = meant(name, (plan.parent.name for plan in plans))
            raise LimitsError(f"{of_course}: [{name}]: there is no such assignment; {near}")
    values |= _changes(of_course, table.get(assignment, {}))
    limits = Limits(**values)
    if limits.clock_s < 2 * (limits.cpu_s + limits.sleep_s):
        raise LimitsError(
            f"{assignment}: clock_s = {limits.clock_s:g} may end what has used up neither cpu_s = "
            f"{limits.cpu_s:g} nor sleep_s = {limits.sleep_s:g}; make it ten times both together."
        )
    return limits


def read(path: Path) -> dict[str, Any]:
    """A file's tables; nothing where there is none.

    Raises:
        LimitsError: it is no TOML.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return {}
    return _parsed(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=64)
def _parsed(path: Path, _modified: int, _size: int) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LimitsError(f"{path}: {error}. It must be TOML, as {FILE.name} of the kit.") from None


def _changes(path: Path, table: object) -> Mapping[str, Any]:
    """The attributes that a table sets, each looked at."""
    if not isinstance(table, dict):
        raise LimitsError(f"{path}: limits = {table!r}: a table [limits] is wanted.")
    return {_checked(path, key): _value(path, key, value) for key, value in table.items()}


def _checked(path: Path, key: str) -> str:
    if key in _KIT:
        return _field(key)
    near = difflib.get_close_matches(key, _KIT, n=1, cutoff=0.5)
    hint = f"perhaps {near[0]} is meant" if near else f"{FILE.name} of the kit lists them"
    raise LimitsError(f"{path}: {key}: there is no such limit; {hint}.")


def _value(path: Path, key: str, value: object) -> int | float:
    whole = _TYPES[_field(key)] is int
    kinds = (int,) if whole else (int, float)
    rule = f"{'a whole number' if whole else 'a number'} above 0"
    where = f"{path}: {key} = {value!r}"
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise LimitsError(f"{where}: {rule} is wanted, as {key} = {_KIT[key]!r}.")
    assert isinstance(value, int | float)
    size = value * _UNITS.get(key[-4:], 1)
    if not math.isfinite(size) or not 0 < size <= _MOST:
        raise LimitsError(f"{where}: {rule} is wanted, as {key} = {_KIT[key]!r}.")
    return size if whole else float(size)
