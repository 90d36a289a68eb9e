"""mpi4py's own test suite on Ringside's network: what passes, what fails, what is out of scope.

    python benchmarks/conformance_mpi4py.py [--ranks 1 2 3 5] [--only test_p2p_buf ...]

The suite comes with the source distribution of the installed release, which pip fetches into
build/conformance. Every case runs on 1, 2, 3 and 5 simulated ranks and counts once for each.

A case is out of scope only if it asks for a name that our front end says is not offered, and that
name belongs to a feature listed in ``FEATURES``. Everything else that doesn't pass is failed. What
the suite skips by itself (for GPU arrays, for one rank, ...) is listed with the suite's own reason.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringside import Session
from ringside.network.peers import Limits

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "benchmarks" / "conformance" / "mpi4py_cases.py"
COLUMNS = ("passed", "failed", "out of scope", "skipped")
CACHE = ROOT / "build" / "conformance"
RANKS = (1, 2, 3, 5)
MODULE_S = 600.0  # a module's deadline, at one number of ranks
CALL_S = 150.0  # of a call, which runs cases up to the first that isn't passed

# Point-to-point, collectives, communicators, groups, requests, statuses, topologies, and what they
# stand on: datatypes, operations, buffers and their specifications, errors, attributes, pickles.
MODULES = [
    "test_p2p_buf", "test_p2p_obj", "test_p2p_buf_matched", "test_p2p_obj_matched",
    "test_p2p_buf_part", "test_cco_buf", "test_cco_obj", "test_cco_vec", "test_cco_nb_buf",
    "test_cco_nb_vec", "test_cco_pr_buf", "test_cco_pr_vec", "test_cco_ngh_buf",
    "test_cco_ngh_obj", "test_cco_pr_ngh_buf", "test_cco_buf_inter", "test_cco_obj_inter",
    "test_cco_vec_inter", "test_comm", "test_comm_inter", "test_comm_topo", "test_group",
    "test_request", "test_grequest", "test_status", "test_op", "test_msgzero", "test_msgspec",
    "test_datatype", "test_pack", "test_address", "test_buffer", "test_mpimem",
    "test_attributes", "test_info", "test_errhandler", "test_errorcode", "test_exceptions",
    "test_environ", "test_objmodel", "test_subclass", "test_pickle", "test_handle",
    "test_win", "test_rma", "test_rma_nb",
]  # fmt: skip

OTHER_SUBJECTS = {
    "files": "test_file test_io",
    "processes that start or meet at run time": "test_spawn test_dynproc test_session",
    "fault tolerance": "test_ulfm",
    "threads that communicate": "test_threads",
    "packages beside MPI (mpi4py.util, futures)": (
        "test_util_dtlib test_util_pkl5 test_util_pool test_util_sync"
    ),
    "the C interface and the binary's make": (
        "test_cffi test_ctypes test_mpiabi test_mpiapi test_package test_toplevel test_doc"
    ),
}

# What our front end says is not offered, by feature; a pattern covers the whole name.
_ANY = "(Comm|Request|Group|Op|Datatype|Status|Message|Info|Errhandler|Win)"
FEATURES = {
    "intercommunicators": r"Intercomm|Intracomm\.(Create_intercomm|Accept|Connect)"
    r"|Comm\.(Get_parent|Join)",
    "windows of shared or attached memory": r"Win\.(Allocate_shared|Shared_query|Create_dynamic"
    r"|Attach|Detach)",
    "files": r"File|FILE_NULL|MODE_\w+|writing a file",
    "sessions": r"Session|SESSION_NULL|Intracomm\.Create_from_group",
    "cancelling what is in flight": r"Request\.[Cc]ancel",
    "requests that the program completes itself": r"Grequest",
    "messages in partitions": r"Comm\.(Psend|Precv)_init",
    "arrays on a GPU": r"an array on a GPU",
    "handles of C and Fortran": _ANY + r"\.(handle|fromhandle|fromint|f2py)|Status\.(py2f|tomemory)"
    r"|F_\w+|_addressof|_handleof|_sizeof",
    "mpi4py's own memory object": r"buffer|memory",
    "mpi4py's own locks": r"_comm_lock(_table)?",
    "absolute addresses": r"BOTTOM with absolute addresses",
    "datatypes that describe themselves": r"Datatype\.(Get_envelope|Get_contents|envelope|contents"
    r"|combiner|decode|Get_value_index|Match_size)|pickling a derived Datatype|TYPECLASS_\w+"
    r"|COMBINER_\w+",
    "distributed arrays and Fortran's parametrised types as datatypes": r"DISTRIBUTE_\w+"
    r"|Datatype\.(Create_darray|Create_f90_\w+)",
    "packing by hand": r"Datatype\.(Pack|Unpack)\w*",
    "error handlers other than exceptions": r"ERRORS_(ARE_FATAL|ABORT)"
    r"|(Comm|Win)\.(Create|Call)_errhandler",
    "error classes of the program's own": r"(Add|Remove)_error_\w+",
    "a communicator's own buffer for Bsend": r"Comm\.(Attach|Detach|I?[Ff]lush)_buffer"
    r"|BUFFER_AUTOMATIC",
    "the machine's hardware": r"Get_hw_resource_info|COMM_TYPE_(HW|RESOURCE)_\w+",
}


@dataclass(frozen=True)
class Case:
    """One case at one number of ranks; ``reason`` says why it didn't pass."""

    module: str
    name: str
    ranks: int
    outcome: str  # passed, failed, out of scope, skipped
    reason: str = ""


def fetch(cache: Path) -> Path:
    """Return the folder of the installed release's test suite."""
    release = importlib.metadata.version("mpi4py")
    suite = cache / f"mpi4py-{release}" / "test"
    if suite.exists():
        return suite
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--no-binary", "mpi4py", "--dest", scratch]
        subprocess.run([*command, f"mpi4py=={release}"], check=True, stdin=subprocess.DEVNULL)
        (archive,) = Path(scratch).glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(scratch, filter="data")
        (Path(scratch) / f"mpi4py-{release}").rename(suite.parent)
    return suite


def run_module(session: Session, module: str, ranks: int) -> Iterator[Case]:
    """Run a module's cases; after one that didn't pass a new call goes on with the next."""
    first, until = 0, time.monotonic() + MODULE_S
    while True:
        left = until - time.monotonic()
        if left <= 0:
            yield Case(module, f"(from case {first} on)", ranks, "failed", f"over {MODULE_S:g} s")
            return
        result = session.call(
            "mpi4py_cases.py:run", ranks, (module, first), timeout_s=min(left, CALL_S)
        )
        records = [_records(text) for text in result.output]
        cases, total, last = _merged(module, ranks, records, str(result.error or ""))
        yield from cases
        if last is None or last + 1 >= total:
            return
        first = last + 1


def _records(output: str) -> list[dict[str, Any]]:
    return [json.loads(line[2:]) for line in output.splitlines() if line.startswith("@@")]


def _merged(
    module: str, ranks: int, records: list[list[dict[str, Any]]], error: str
) -> tuple[list[Case], int, int | None]:
    """The cases that all ranks say of, the module's number of cases, and the last one's number."""
    names: dict[int, str] = {}
    outcomes: dict[int, list[tuple[str, str]]] = {}
    total = 0
    for record in (record for rank in records for record in rank):
        total = record.get("cases", total)
        if "name" in record:
            names[record["case"]] = record["name"]
            outcomes.setdefault(record["case"], [])
        elif "outcome" in record:
            outcomes[record["case"]].append((record["outcome"], record["detail"]))
    cases = []
    for number, said in sorted(outcomes.items()):
        if len(said) < ranks and not any(outcome == "not offered" for outcome, _ in said):
            said.append(("failed", _first_line(error) or "a rank didn't end it"))
        cases.append(Case(module, names[number], ranks, *_verdict(said)))
    return cases, total, max(outcomes, default=None)


def _verdict(said: list[tuple[str, str]]) -> tuple[str, str]:
    """One outcome of all ranks': the worst, where a failure counts most."""
    for kind in ("failed", "not offered", "skipped"):
        details = [detail for outcome, detail in said if outcome == kind]
        if details:
            return _in_scope(kind, details[0])
    return "passed", ""


def _in_scope(kind: str, detail: str) -> tuple[str, str]:
    if kind != "not offered":
        return kind, detail
    name = detail.split(" is not offered")[0].removeprefix("MPI.")
    for feature, pattern in FEATURES.items():
        if re.fullmatch(pattern, name):
            return "out of scope", f"{feature}: {name}"
    return "failed", f"{name} is not offered and belongs to no feature that is out of scope"


def _first_line(text: str) -> str:
    return " ".join(text.split())[:300]


def row(name: str, cases: list[Case]) -> str:
    """A line of the table: cases by outcome, summed over the numbers of ranks."""
    counts = Counter(case.outcome for case in cases)
    return f"{name:24}" + "".join(f"{counts[column]:>14}" for column in COLUMNS)


def reasons(cases: list[Case], outcome: str) -> str:
    """Each reason of an outcome with the number of cases, most frequent first."""
    feature = (lambda reason: reason.split(": ")[0]) if outcome == "out of scope" else str
    counts = Counter(feature(case.reason) for case in cases if case.outcome == outcome)
    lines = []
    for reason, count in counts.most_common():
        lines.append(f"{count:6}  {reason}")
        if outcome == "out of scope":
            names = {c.reason.split(": ")[-1] for c in cases if feature(c.reason) == reason}
            lines.append(f"{'':8}{', '.join(sorted(names))}")
    return "\n".join(lines)


def report(cases: list[Case]) -> str:
    """What follows the table."""
    parts = []
    if any(case.outcome == "out of scope" for case in cases):
        parts.append("out of scope, because not offered\n" + reasons(cases, "out of scope"))
    if any(case.outcome == "skipped" for case in cases):
        parts.append("skipped by the suite itself\n" + reasons(cases, "skipped"))
    others = [f"{'':8}{subject}: {modules}" for subject, modules in OTHER_SUBJECTS.items()]
    others.append(f"{'':8}(and in every case, of the kinds of arrays those on a GPU)")
    parts.append("modules about other subjects, not run\n" + "\n".join(others))
    failed = [case for case in cases if case.outcome == "failed"]
    if failed:
        lines = [f"{c.module}.{c.name} on {c.ranks}: {c.reason}" for c in failed]
        parts.append("failed\n" + "\n".join(lines))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("--only", nargs="+", default=MODULES, metavar="MODULE")
    args = parser.parse_args()
    begin = time.monotonic()
    everything: list[Case] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "test"
        shutil.copytree(fetch(CACHE), folder)
        shutil.copy(CASES, folder)
        release = importlib.metadata.version("mpi4py")
        ranks = ", ".join(map(str, args.ranks))
        print(f"mpi4py {release}: its own test suite on Ringside's network, on {ranks} ranks\n")
        print(f"{'module':24}" + "".join(f"{column:>14}" for column in COLUMNS))
        with Session(folder, limits=Limits(output_bytes=1 << 22)) as session:
            for module in args.only:
                cases = [c for size in args.ranks for c in run_module(session, module, size)]
                print(row(module, cases), flush=True)
                everything += cases
    print(row("all", everything))
    print(f"\n{report(everything)}\n\n{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
