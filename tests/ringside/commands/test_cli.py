"""The student's commands, from the words typed to the exit status."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ringside.checking import notebook
from ringside.commands import check, cli, handin
from ringside.course.handin import hints_taken
from ringside.jobs.launch import launch
from ringside.ranks import nursery
from ringside.timing.replay import replay
from ringside.trace import Trace
from tests.requirements import lay_requirements

ROOT = Path(__file__).resolve().parents[3]

RING = '''
import numpy as np


def all_reduce(comm, x):
    """Every rank's vector once round the ring."""
    total, travelling = x.copy(), x.copy()
    incoming = np.empty_like(x)
    next_rank, prev_rank = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for _ in range(comm.size - 1):
        comm.Sendrecv(travelling, next_rank, recvbuf=incoming, source=prev_rank)
        travelling, incoming = incoming, travelling
        total += travelling
    return total


def halving_doubling(comm, x):
    return x


def started(comm, x):
    comm.Isend(x, (comm.rank + 1) % comm.size)
    comm.Recv(np.empty_like(x), (comm.rank - 1) % comm.size)


def synchronous(comm, x):
    comm.Ssend(x, (comm.rank + 1) % comm.size)
    comm.Recv(np.empty_like(x), (comm.rank - 1) % comm.size)


def stop(comm, x):
    if comm.rank == 1:
        raise ValueError("no more")
    comm.Barrier()


def scaled(comm, x, factor):
    return x * factor


def without(x):
    return x
'''
TESTS = """
from dataclasses import dataclass

from ringside.checking import assert_bytes
from ringside.checking.cases import Vectors
from ringside.checking.suite import Suite

suite = Suite("ring")


@dataclass(frozen=True)
class AllReduce(Vectors):
    target = "ring:all_reduce"


@suite.test("sum", "values", AllReduce(4))
def test_four_ranks_get_the_sum(case, run):
    pass


@suite.test("bytes", "communication", AllReduce(4, n=12), checked=False)
def test_a_rank_sends_at_most_two_shards_a_step(case, run, ranks):
    allowed = [2 * 3 * 3 * 8] * 4
    ranks.record(case, run, {"bytes": allowed})
    assert_bytes(run, allowed, case)
"""
OF_STAR = """
from ringside.checking.points import shows


@shows("all", "values", "star")
def test_a_star_gets_the_sum(ranks, rng):
    raise AssertionError("there is no star.py")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An assignment's folder with one module, and the current one."""
    place = tmp_path / "a00_ring"
    place.mkdir()
    (place / "ring.py").write_text(RING)
    (place / "checks").mkdir()
    (place / "checks" / "test_ring.py").write_text(TESTS)
    (place / "checks" / "test_star.py").write_text(OF_STAR)
    lay_requirements(place / "checks", "star", all=100)
    lay_requirements(place / "checks", "ring", sum=60, bytes=40)
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def ringside(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command line; returns exit status, output and errors."""

    def run(line: str) -> tuple[int, str, str]:
        capfd.readouterr()
        status = cli.main(shlex.split(line))
        output, errors = capfd.readouterr()
        return status, output, errors

    return run


Run = Callable[[str], tuple[int, str, str]]


def book(*sources: str) -> dict[str, Any]:
    cells = [
        {"cell_type": "code", "id": f"c{k}", "metadata": {}, "outputs": [], "source": source}
        for k, source in enumerate(sources)
    ]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


# -- run ----------------------------------------------------------------------------------------


def test_run_compares_with_the_serial_computation_and_counts(folder: Path, ringside: Run) -> None:
    status, output, _ = ringside("run ring.py:all_reduce --ranks 5 --json -- --n 11")
    found = json.loads(output)
    assert status == 0
    assert found["values"] == "right"
    assert found["sent_bytes"] == [4 * 11 * 8] * 5
    assert found["sent_messages"] == [4] * 5
    # 4 steps of alpha + n beta on the textbook machine, whatever its numbers are.
    from ringside import Machine

    machine = Machine.load("textbook")
    step_s = machine.alpha_s + 11 * 8 * machine.beta_s_per_byte
    assert found["makespan_s"] == pytest.approx(4 * step_s, rel=1e-9)


def test_run_takes_some_ranks_of_the_world(folder: Path, ringside: Run) -> None:
    status, output, _ = ringside("run ring.py:all_reduce --ranks 6 --members 4,0,3 -- --n 11")
    assert status == 0
    assert "ring.py:all_reduce on ranks 4, 0, 3 of 6 of machine 'textbook', n = 11" in output
    assert "values: right, equal to the serial computation on every rank" in output
    sent = dict(re.findall(r"^ +(\d) +(\d+) B ", output, re.M))
    assert sent == {str(rank): str(2 * 11 * 8 * (rank in (0, 3, 4))) for rank in range(6)}
    _, output, _ = ringside("run ring.py:all_reduce --ranks 6 --members 4,0,3 --json -- --n 11")
    found = json.loads(output)
    assert (found["world_size"], found["members"]) == (6, [4, 0, 3])


def test_run_says_which_rank_returned_what_instead_of_what(folder: Path, ringside: Run) -> None:
    status, output, _ = ringside("run ring.py:halving_doubling --ranks 2 -- --n 3")
    assert status == 1
    assert re.search(
        r"values: wrong\. Rank 0 returned \[.*\] \(float64, shape \(3,\)\); it must be \[", output
    )


def test_run_says_what_was_started_and_not_waited_for(folder: Path, ringside: Run) -> None:
    _, output, _ = ringside("run ring.py:started --ranks 2")
    assert re.search(r"rank 0 returned before Isend\(.*\) at ring.py:\d+ was complete", output)


def test_run_tells_all_that_was_left_open_or_lying_in_a_line_for_ranks_that_are_alike(
    folder: Path, ringside: Run
) -> None:
    (folder / "left.py").write_text(
        "import numpy as np\n"
        "from mpi4py import MPI\n"
        "comm = MPI.COMM_WORLD\n"
        "if comm.rank:\n"
        "    comm.Irecv(np.empty(2), source=0)\n"
        "else:\n"
        "    for dest in (1, 1, 2):\n"
        "        comm.Isend(np.ones(2), dest=dest)\n"
        "    comm.Ibarrier()\n"
        "if comm.rank:\n"
        "    comm.Ibarrier()\n"
    )
    _, output, _ = ringside("run left.py --ranks 3")
    assert "sent and never received: rank 0 sent 16 bytes with tag 0 to rank 1\n" in output
    assert (
        "rank 0 returned before 4 requests (Isend at left.py:8 (3 times), Ibarrier at left.py:9) "
        "were complete"
    ) in output
    assert (
        "ranks 1, 2 returned before 2 requests (Irecv at left.py:5, Ibarrier at left.py:11) were"
    ) in output
    _, output, _ = ringside("run left.py --ranks 3 --json")
    assert len(json.loads(output)["unfinished"]) == 2


def test_run_does_not_call_a_sum_in_place_wrong(folder: Path, ringside: Run) -> None:
    (folder / "place.py").write_text(
        "import torch.distributed as dist\n"
        "def all_reduce(group, x):\n    dist.all_reduce(x, group=group)\n"
    )
    status, output, _ = ringside("run place.py:all_reduce --ranks 2 --json -- --n 3")
    assert status == 0
    assert json.loads(output)["values"] == "not compared"


def test_run_shows_a_deadlock_with_every_ranks_call_and_line(folder: Path, ringside: Run) -> None:
    status, output, _ = ringside("run ring.py:synchronous --ranks 3")
    line = RING.splitlines().index("    comm.Ssend(x, (comm.rank + 1) % comm.size)") + 1
    assert status == 1
    assert "DeadlockError" in output
    for rank in range(3):
        assert re.search(
            rf"rank {rank}  Ssend\(dest={(rank + 1) % 3}, tag=0\)\s+ring.py:{line}", output
        )


def test_run_shows_a_students_exception_with_rank_and_line(folder: Path, ringside: Run) -> None:
    status, output, _ = ringside("run ring.py:stop --ranks 3")
    line = next(k for k, text in enumerate(RING.splitlines(), 1) if "raise ValueError" in text)
    assert status == 1
    assert f"rank 1 raised ValueError at ring.py:{line}: no more" in output


def test_run_of_a_file_alone_is_a_script_with_its_words(folder: Path, ringside: Run) -> None:
    (folder / "hello.py").write_text(
        "import sys\nfrom mpi4py import MPI\n"
        "c = MPI.COMM_WORLD\nprint(c.allreduce(1), sys.argv[1:])\n"
    )
    status, output, _ = ringside("run hello.py --ranks 3 -- any words")
    assert status == 0
    for rank in range(3):
        assert f"[{rank}] 3 ['any', 'words']" in output


def test_run_of_a_module_as_a_script_says_that_nothing_was_called(
    folder: Path, ringside: Run
) -> None:
    status, output, _ = ringside("run ring.py --ranks 2")
    assert status == 0
    assert "`ringside run ring.py:FUNCTION` (functions of comm: all_reduce, " in output


def test_a_file_that_is_no_python_is_the_students_failure(folder: Path, ringside: Run) -> None:
    (folder / "bad.py").write_text("def all_reduce(comm, x)\n    return x\n")
    for line in ("run bad.py:all_reduce", "run bad.py", "launch bad.py:all_reduce"):
        status, output, errors = ringside(line)
        assert status == 1
        assert "bad.py:1: expected ':'" in output + errors
        assert "def all_reduce(comm, x)" in output + errors


def test_run_takes_a_machine_of_numbers(folder: Path, ringside: Run) -> None:
    line = "run ring.py:all_reduce --ranks 2 --json --machine alpha_s=0.5,beta_s_per_byte=0"
    assert json.loads(ringside(line)[1])["makespan_s"] == 0.5  # one step of the ring


def test_run_lets_ranks_hang_and_be_slow(folder: Path, ringside: Run) -> None:
    (folder / "steps.py").write_text(
        "import numpy as np, ringside\n"
        "def train(comm):\n"
        "    x = np.ones(4)\n"
        "    for _ in range(10):\n"
        "        ringside.compute(seconds=1e-3)\n"
        "        comm.Allreduce(np.ones(4), x)\n"
    )
    status, output, _ = ringside("run steps.py:train --ranks 3 --slow 1x1.34")
    assert status == 0
    assert "slow: rank 1 1.34 times as long in what it computes" in output
    assert "rank 1 comes last to 10 of its 10 collectives, typically by 340 µs" in output
    assert "comes last" not in ringside("run steps.py:train --ranks 3")[1]
    status, output, _ = ringside("run steps.py:train --ranks 3 --hang 2@op9 --json")
    found = json.loads(output)
    assert status == 1
    assert "rank 2 hangs" in found["error"]
    assert [hang["operation"] for hang in found["hangs"]] == [9]
    assert (found["slow"], found["straggler"]) == ({}, None)
    wrong = ("--hang 2", "--slow 2", "--slow 9x2", "--hang 9@op1", "--hang 0@op99")
    for words in (*wrong, "--flip 2", "--flip 9#1:bit0"):
        status, _, errors = ringside(f"run steps.py:train --ranks 3 {words}")
        assert status == 2
        assert errors.startswith("ringside: ") and len(errors.splitlines()) == 1


def test_messages_left_lying_are_not_called_received(folder: Path, ringside: Run) -> None:
    _, output, _ = ringside("run ring.py:synchronous --ranks 3")
    assert "sent to it" in output
    assert "received  " not in output


def test_run_says_where_files_are_and_what_opens_them(folder: Path, ringside: Run) -> None:
    files = "--trace t.gz --svg t.svg --perfetto p.json --simgrid replay"
    _, output, _ = ringside(f"run ring.py:all_reduce --ranks 3 {files}")
    assert output.splitlines()[-4:] == [
        "trace: t.gz (ringside.Trace.load reads it)",
        "timeline: p.json (open it at https://ui.perfetto.dev)",
        "picture: t.svg (open it in a browser)",
        "for SimGrid: replay (`cd replay && sh command` replays it)",
    ]
    assert (folder / "replay" / "command").is_file()
    _, output, _ = ringside("run ring.py:all_reduce --ranks 1 --json --svg t.svg")
    for option in ("svg", "perfetto", "trace"):
        status, _, errors = ringside(f"run ring.py:all_reduce --ranks 1 --{option} ring.py")
        assert status == 2 and "ring.py is there and holds something else" in errors
    assert (folder / "ring.py").read_text() == RING
    assert json.loads(output)["world_size"] == 1


def test_run_names_a_length_only_where_inputs_have_one(folder: Path, ringside: Run) -> None:
    with (folder / "ring.py").open("a") as file:
        file.write("\n\ndef plain(comm, factor=2):\n    return factor\n")
    assert "machine 'textbook'\n" in ringside("run ring.py:plain --ranks 1")[1]
    _, output, _ = ringside("run ring.py:all_reduce --ranks 1 -- --n 3")
    assert "ring.py:all_reduce on 1 rank of machine 'textbook', n = 3, float64\n" in output


def test_run_saves_trace_timeline_and_perfetto(folder: Path, ringside: Run) -> None:
    line = "run ring.py:all_reduce --ranks 3 --trace t.gz --svg t.svg --perfetto p.json --json"
    status, output, _ = ringside(line)
    assert status == 0
    again = replay(Trace.load(folder / "t.gz"), "textbook")
    assert again.makespan_s == json.loads(output)["makespan_s"]
    assert (folder / "t.svg").read_text().lstrip().startswith("<svg")
    names = {
        event.get("name") for event in json.loads((folder / "p.json").read_text())["traceEvents"]
    }
    assert any("Sendrecv" in str(name) for name in names)


@pytest.mark.parametrize(
    ("line", "cure"),
    [
        ("run ring.py:all_gather", "has no function 'all_gather'; it has all_reduce"),
        ("run star.py:all_reduce", "star.py"),
        ("run ring.py:without", "its first parameter must be comm"),
        ("run ring.py:scaled", "add `-- --factor VALUE`"),
        ("run ring.py:scaled -- --facto 3", "has no parameter 'facto'"),
        ("run ring.py:all_reduce -- --n -3", r"--n (-3) must be at least 0"),
        ("run ring.py:all_reduce -- 11", "is not of the form --name VALUE"),
        ("run ring.py:all_reduce --n 11", "`ringside run ring.py:all_reduce -- --n 11`"),
        ("run ring.py:all_reduce --timeout 0", "must be more than 0 seconds"),
        ("check ring --rnaks 3", "`ringside check --help` lists what it has"),
        ("check rign", "Did you mean ring?"),
        ("launch ring.py:all_reduce -- --m 5", "has no parameter 'm'"),
        ("launch ring.py:all_reduce -- --dtype float16", "must be one of float64, float32, int64"),
        ("launch --site local", "what to launch is missing"),
        ("launch ring.py", "only defines functions, so as a script it does nothing. Name one"),
        ("run ring.py:all_reduce --machine textbook,alpha=1", "is not of the form NUMBER=VALUE"),
        ("run ring.py:all_reduce --machine nowhere", "textbook"),
        ("run ring.py:all_reduce --ranks 0", "must be between 1 and"),
        ("run ring.py:all_reduce --members 1,4", "must be distinct ranks below world_size (4)"),
        ("run ring.py --members 1,0", "makes the comm that a function is given"),
        ("launch ring.py:all_reduce --site nowhere", "generic, local, "),
        ("launch ring.py:all_reduce --set nodes=3", "site local has the variables"),
        ("launch ring.py:all_reduce --set ranks_per_node=many", "a whole number is wanted"),
        ("launch ring.py:all_reduce --set torch_launcher=x", "must be one of srun, torchrun"),
        ("launch ring.py:all_reduce --gpus-per-node -1", "must be at least 0"),
        ("launch ring.py:all_reduce --nodes 2 --gpus-per-node 2", "site local is one machine"),
        ("launch --jupyter ring.py:all_reduce", "give it no file"),
        ("check star", "there is no star.py here"),
        ("handin", "holds no notebook with %%module cells"),
    ],
)
def test_what_is_asked_wrongly_is_refused_with_the_cure(
    folder: Path, ringside: Run, line: str, cure: str
) -> None:
    status, _, errors = ringside(line)
    assert status == 2
    assert cure in errors


def test_every_example_in_the_help_can_be_read_by_the_parser() -> None:
    parser = cli.build_parser()
    for command in cli._COMMANDS.values():
        examples = re.findall(r"^  ringside (.*?)(?:   .*)?$", command.EXAMPLES, re.MULTILINE)
        assert examples
        for example in examples:
            parser.parse_args(shlex.split(example.split(" -- ")[0]))


def test_help_comes_with_status_0_from_the_shell() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "ringside", "run", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0
    assert "ringside run ring.py:all_reduce --ranks 8" in shown.stdout


# -- check --------------------------------------------------------------------------------------


def test_check_outside_an_assignment_speaks_of_tests_not_of_notebooks(
    folder: Path, ringside: Run
) -> None:
    shutil.rmtree(folder / "checks")
    (folder / "lecture.ipynb").write_text(json.dumps(book("%%module hello.py\nx = 1\n")))
    status, _, errors = ringside("check")
    assert status == 2
    assert "go to the assignment's folder" in errors
    assert "disagree" not in errors


def test_check_names_a_supplied_file_that_is_gone(folder: Path, ringside: Run) -> None:
    (folder / "checks" / "test_ring.py").write_text(f"import shards\n{TESTS}")
    status, _, errors = ringside("check ring")
    assert status == 2
    assert "needs shards.py, which comes with the assignment" in errors


def test_check_gives_points_counts_and_a_timeline(folder: Path, ringside: Run) -> None:
    status, output, _ = ringside("check --json")
    found = json.loads(output)
    assert status == 1  # whole vectors round the ring: too many bytes
    assert (found["modules"]["ring"]["earned"], found["modules"]["ring"]["points"]) == (60, 100)
    failed = found["modules"]["ring"]["tests"][1]
    assert "rank 0 sent 288 bytes; at most 144 are allowed" in failed["message"]
    assert failed["reproduce"] == (
        'ringside check ring --test a_rank_sends_at_most_two_shards_a_step --case "p=4 n=12"'
    )
    assert found["counts"][0]["sent_bytes"] == [288] * 4
    assert found["not_written"] == ["star"]
    assert "<svg" in (folder / found["modules"]["ring"]["timeline"]).read_text()


def test_a_program_reads_what_is_wrong_with_the_values(folder: Path, ringside: Run) -> None:
    (folder / "ring.py").write_text("def all_reduce(comm, x):\n    return x\n")
    status, output, _ = ringside("run ring.py:all_reduce --ranks 2 --json -- --n 2 --dtype int64")
    found = json.loads(output)
    assert (status, found["values"]) == (1, "wrong")
    assert found["verdict"].startswith("Rank 0 returned [")
    assert found["verdict"].endswith("wrong element is rank 0's own part alone.")


def test_the_line_that_reproduces_a_failure_runs(folder: Path, ringside: Run) -> None:
    _, output, _ = ringside("check ring")
    [line] = set(re.findall(r"try: ringside (.*)", output))
    status, output, _ = ringside(line)
    assert status == 1
    assert "float64: rank 0 sent 288 bytes; at most 144 are allowed." in output


def test_check_says_beside_wrong_values_that_a_message_was_of_another_dtype(
    folder: Path, ringside: Run
) -> None:
    narrow = RING.replace("comm.Sendrecv(travelling,", 'comm.Sendrecv(travelling.astype("f4"),')
    (folder / "ring.py").write_text(narrow)
    _, output, _ = ringside("check ring")
    [note] = [line for line in output.splitlines() if "took its bytes for" in line]
    assert "rank 3's Sendrecv(dest=0, source=2) at ring.py:11 sent float32, rank 0's Send" in note
    assert note.endswith("took its bytes for float64. Give both arrays the same dtype.")


def test_check_tells_once_what_all_tests_of_a_module_meet(folder: Path, ringside: Run) -> None:
    (folder / "ring.py").write_text("def all_reduce(comm, x):\nreturn x\n")
    status, output, _ = ringside("check ring")
    assert status == 1
    assert output.count("raised IndentationError at ring.py:2") == 1
    assert "FAIL  every test, in the same way" in output


def test_check_refuses_while_cell_and_file_differ_and_syncs_either_way(
    folder: Path, ringside: Run
) -> None:
    path = folder / "a00_ring.ipynb"
    path.write_text(json.dumps(book("# text", "%%module ring.py\nprint('old')")))
    status, _, errors = ringside("check ring")
    assert status == 2
    assert "ring.py: the file and its cell in a00_ring.ipynb differ" in errors
    assert "ringside check ring --from-notebook" in errors
    assert "ringside check ring --from-files" in errors
    status, _, errors = ringside(f"handin --zip --folder '{folder}/../a00_ring'")
    assert f"ringside handin --zip --folder {folder}/../a00_ring --from-files " in errors
    status, _, _ = ringside("check ring --from-files")
    assert status == 1
    [cell] = notebook.module_cells(path)
    assert cell.source.rstrip() == RING.rstrip()
    assert ringside("check ring")[0] == 1  # they agree now

    path.write_text(json.dumps(book("%%module ring.py\nx = 1\n")))
    ringside("check ring --from-notebook")
    assert (folder / "ring.py").read_text() == "x = 1\n"


def _released(source: str) -> dict[str, Any]:
    """A cell as nbgrader releases it, its checksum by nbgrader itself."""
    from nbformat import from_dict
    from nbgrader.utils import compute_checksum

    marks = {"grade": False, "grade_id": "star", "locked": False, "solution": True}
    cell = {"cell_type": "code", "metadata": {"nbgrader": marks}, "outputs": [], "source": source}
    return cell | {
        "metadata": {"nbgrader": marks | {"checksum": compute_checksum(from_dict(cell))}}
    }


STUB = "def star(comm, x):\n    raise NotImplementedError"


def _two_modules(folder: Path, star: str) -> Path:
    """A notebook whose ring is written and run, and whose star was released as STUB."""
    cells = book(f"%%module ring.py\n{RING}")
    cells["cells"].append(_released(f"%%module star.py\n{STUB}") | {"source": star})
    path = folder / "a00_ring.ipynb"
    path.write_text(json.dumps(cells))
    return path


def test_a_module_as_it_was_released_stops_no_other(folder: Path, ringside: Run) -> None:
    _two_modules(folder, f"%%module star.py\n{STUB}")
    assert notebook.differences(folder) == []
    status, output, errors = ringside("handin --dry-run --json")
    assert (status, errors) == (0, "")
    assert "star.py" not in json.loads(output)["files"]


@pytest.mark.parametrize("first", ["%%module", "%%writefile"])
def test_a_cell_as_it_was_released_gives_way_to_its_file(
    folder: Path, ringside: Run, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(folder / "no configuration"))
    path = folder / "a00_ring.ipynb"
    cells = book(f"%%module ring.py\n{RING}")
    cells["cells"].append(_released(f"{first} star.py\n{STUB}"))
    path.write_text(json.dumps(cells))
    work = "def star(comm, x):\n    return x\n"
    (folder / "star.py").write_text(work)
    assert notebook.differences(folder) == []
    assert ringside("check ring")[::2] == (1, "")  # nothing is to be said
    before = path.read_bytes()
    # A sync from the notebook doesn't put the stub into the file.
    assert ringside("handin --dry-run --from-notebook")[0] == 0
    assert (folder / "star.py").read_text() == work
    status, output, errors = ringside("handin --json")
    receipt = json.loads(output)
    assert (status, errors) == (0, "")
    assert receipt["notices"][0] == (
        "The cell of star.py is as released, so the file was taken; your notebook stays as it is."
    )
    assert not any("NotImplementedError" in notice for notice in receipt["notices"])
    assert path.read_bytes() == before
    with zipfile.ZipFile(receipt["where"]) as packed:
        handed_in = json.loads(packed.read("a00_ring.ipynb"))
        assert packed.read("star.py").decode() == work
    assert "".join(handed_in["cells"][1]["source"]) == f"{first} star.py\n{work}".rstrip()
    assert handed_in["cells"][0] == json.loads(before)["cells"][0]
    ringside("handin --dry-run --from-files")
    assert json.loads(path.read_text())["cells"] == handed_in["cells"]


def _split(source: str, at: str, *, metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """A released cell, written and cut in two as an editor's Split Cell leaves it."""
    whole = _released(f"%%module star.py\n{STUB}") | {"source": source}
    above, _, below = source.partition(at)
    # JupyterLab takes the line ends at the cut away.
    lower = {"source": (at + below).strip("\n"), "metadata": whole["metadata"] | metadata}
    return [whole | {"source": above.rstrip("\n")}, whole | lower]


LAB: dict[str, Any] = {}  # it copies the metadata, grade_id included
VSCODE = {"nbgrader": None}  # it gives the new cell none
STAR = (
    "import numpy\n\n\ndef star(comm, x):\n    y = x\n    return y\n\n\ndef two():\n    return 2\n"
)


@pytest.mark.parametrize("metadata", [LAB, VSCODE], ids=["lab", "vscode"])
@pytest.mark.parametrize("at", ["def star", "    return y", "def two"])
def test_a_cell_that_was_split_is_one_module(
    folder: Path,
    ringside: Run,
    monkeypatch: pytest.MonkeyPatch,
    at: str,
    metadata: dict[str, Any],
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(folder / "no configuration"))
    path = folder / "a00_ring.ipynb"
    cells = book(f"%%module ring.py\n{RING}")
    cells["cells"] += _split(f"%%module star.py\n{STAR}", at, metadata=metadata)
    path.write_text(json.dumps(cells))
    (folder / "star.py").write_text(STAR)  # as the cell wrote it before it was split
    assert notebook.differences(folder) == []
    status, output, _ = ringside("handin --json")
    assert status == 0
    receipt = json.loads(output)
    assert receipt["notices"][0].startswith(
        "the cell of star.py in a00_ring.ipynb was split into 2"
    )
    with zipfile.ZipFile(receipt["where"]) as packed:
        [_, star] = json.loads(packed.read("a00_ring.ipynb"))["cells"]
    assert "".join(star["source"]) == f"%%module star.py\n{STAR}".rstrip()
    # Then the first half was run: it wrote half a module. `check` says why, and joins them.
    (folder / "star.py").write_text(STAR.partition(at)[0])
    if metadata == VSCODE and at != "    return y":
        return  # nothing tells a cell below from one of the student's own
    status, _, errors = ringside("check star")
    assert status == 2
    assert "notice: the cell of star.py in a00_ring.ipynb was split into 2: they count" in errors
    ringside("check star --from-notebook")
    written = (folder / "star.py").read_text()
    assert written.split() == STAR.split() and "return y" in written
    (folder / "star.py").write_text(STAR)
    ringside("check star --from-files")
    assert len(json.loads(path.read_text())["cells"]) == 3  # they agree: nothing to be done


def test_a_stub_that_was_split_gives_way_to_its_file(folder: Path) -> None:
    stub = f"import numpy\n\n\n{STUB}"
    upper = _released(f"%%module star.py\n{stub}")
    lower = upper | {"source": STUB}
    path = folder / "a00_ring.ipynb"
    upper["source"] = "%%module star.py\nimport numpy"
    path.write_text(json.dumps(book("") | {"cells": [upper, lower]}))
    (folder / "star.py").write_text(STAR)
    assert notebook.differences(folder) == []
    [given] = notebook.handed_in(folder).values()
    assert given == STAR


def test_a_copy_of_a_cell_and_a_cell_of_the_readers_own_are_no_halves(folder: Path) -> None:
    whole = _released(f"%%module star.py\n{STUB}") | {"source": f"%%module star.py\n{STAR}"}
    own = {"cell_type": "code", "metadata": {}, "outputs": []}
    for below in (
        whole | {"source": STAR},  # a copy that lost its first line
        whole,
        own | {"source": "from star import star\nprint(star(None, 3))"},
        own | {"source": "%timeit star(None, 3)"},
        own | {"source": ""},
        own | {"cell_type": "markdown", "source": "    a quotation"},
    ):
        path = folder / "a00_ring.ipynb"
        path.write_text(json.dumps(book("") | {"cells": [whole, below]}))
        assert notebook.split(folder) == []


def test_a_cell_with_work_in_it_comes_before_a_file_as_released(
    folder: Path, ringside: Run
) -> None:
    path = _two_modules(folder, "%%module star.py\ndef star(comm, x):\n    return x")
    (folder / "star.py").write_text(f"{STUB}\n")
    os.utime(path, (1e9, 1e9))  # although the file is newer
    _, _, errors = ringside("check star")
    assert "the file is still as released, the cell is not" in errors
    assert errors.index("--from-notebook") < errors.index("--from-files")


@pytest.mark.parametrize("newer", ["file", "notebook"])
def test_the_newer_side_is_named_and_comes_first(folder: Path, ringside: Run, newer: str) -> None:
    path = folder / "a00_ring.ipynb"
    path.write_text(json.dumps(book("%%module ring.py\nx = 1\n")))
    os.utime(folder / "ring.py", (1e9 + (newer == "file"), 1e9 + (newer == "file")))
    os.utime(path, (1e9 + (newer == "notebook"), 1e9 + (newer == "notebook")))
    _, _, errors = ringside("check ring")
    first, second = (time.strftime("%H:%M:%S", time.localtime(1e9 + k)) for k in (0, 1))
    assert re.search(rf"the file was saved \S+ {second if newer == 'file' else first}, ", errors)
    assert f"the {newer} is newer" in errors
    ways = re.findall(r"--from-\w+", errors)
    assert ways == ["--from-files", "--from-notebook"][:: 1 if newer == "file" else -1]


def test_what_a_sync_overwrites_is_kept_beside_it(folder: Path, ringside: Run) -> None:
    path = folder / "a00_ring.ipynb"
    path.write_text(json.dumps(book("%%module ring.py\nx = 1\n")))
    before = path.read_text()
    (folder / "ring.py.before-sync-1").write_text("of an earlier one")
    _, _, errors = ringside("handin --dry-run --from-notebook")
    assert (
        "wrote ring.py from a00_ring.ipynb; what it was is kept as ring.py.before-sync-2" in errors
    )
    assert (folder / "ring.py.before-sync-1").read_text() == "of an earlier one"
    assert (folder / "ring.py.before-sync-2").read_text() == RING
    (folder / "ring.py").write_text("x = 2\n")
    _, output, _ = ringside("handin --zip --json --from-files")
    assert (folder / "a00_ring.ipynb.before-sync-1").read_text() == before
    assert json.loads(output)["files"] == ["a00_ring.ipynb", "ring.py"]
    assert [each.name for each in notebook.notebooks(folder)] == ["a00_ring.ipynb"]


def test_check_offers_no_files_where_there_are_none(folder: Path, ringside: Run) -> None:
    path = folder / "a00_ring.ipynb"
    path.write_text(json.dumps(book("%%module star.py\nx = 1\n")))
    status, _, errors = ringside("check star")
    assert status == 2
    assert "--from-notebook" in errors and "--from-files" not in errors


def test_a_cell_may_not_write_outside_the_folder(folder: Path, ringside: Run) -> None:
    path = folder / "a00_ring.ipynb"
    path.write_text(json.dumps(book("%%module ../evil.py\nx = 1\n")))
    status, _, errors = ringside("check --from-notebook")
    assert status == 2
    assert "only write into the notebook's folder" in errors
    assert not (folder.parent / "evil.py").exists()


def test_the_hash_of_a_cell_is_that_of_the_file_written_from_it(folder: Path) -> None:
    path = folder / "book.ipynb"
    path.write_text(json.dumps(book("%%module ring.py\nx = 1\n\ny = 2")))
    found = notebook.differences(folder)
    notebook.write_files(found)
    [cell] = notebook.module_cells(path)
    of_file = notebook.module_sha256((folder / "ring.py").read_bytes())
    assert of_file == notebook.module_sha256(cell.source.encode())
    assert of_file != notebook.module_sha256(b"x = 1\ny = 2\n")


# -- launch -------------------------------------------------------------------------------------


@pytest.mark.mpi
def test_launch_on_this_machine_leaves_a_record_and_a_trace(folder: Path, ringside: Run) -> None:
    status, output, errors = ringside(
        "launch ring.py:all_reduce --nodes 2 --json -- --n 100 --n 1000"
    )
    assert status == 0, errors
    record = json.loads((folder / "run.json").read_text())
    assert json.loads(output)["run"] == record
    assert (record["world_size"], len(record["hosts"])) == (4, 4)
    assert [entry["n"] for entry in record["measurements"]] == [100, 1000]
    assert {entry["values"] for entry in record["measurements"]} == {"right"}
    assert record["module_sha256"] == notebook.module_sha256(RING.encode())
    trace = Trace.load(folder / "run.trace.gz")
    sent = [sum(op.nbytes for op in ops if op.kind == 1) for ops in trace.ops]
    assert sent == [3 * 8000] * 4
    assert all(op.message >= 0 for ops in trace.ops for op in ops if op.kind in (1, 2))
    assert replay(trace, "textbook").makespan_s > 0
    assert not (folder / ".ringside-run").exists()


@pytest.mark.mpi
def test_launch_prints_only_json_where_json_is_asked_for(folder: Path, ringside: Run) -> None:
    (folder / "hello.py").write_text(
        "from mpi4py import MPI\nprint('hello', MPI.COMM_WORLD.rank)\n"
    )
    status, output, errors = ringside("launch hello.py --json")
    assert status == 0
    assert json.loads(output)["status"] == "complete"
    assert "hello 1" in errors


@pytest.mark.mpi
def test_launch_says_which_ranks_were_where_at_the_deadline(folder: Path, ringside: Run) -> None:
    line = "launch ring.py:synchronous --nodes 1 --set deadline_s=2 --json -- --n 100000"
    status, output, _ = ringside(line)
    assert status == 1
    message = json.loads(output)["message"]
    line_number = RING.splitlines().index("    comm.Ssend(x, (comm.rank + 1) % comm.size)") + 1
    assert f"rank 0  Ssend(dest=1, tag=0)  ring.py:{line_number}" in message
    assert f"rank 1  Ssend(dest=0, tag=0)  ring.py:{line_number}" in message
    assert not (folder / "run.json").exists()


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("function", "expected"),
    [("stop", "rank 1 raised ValueError at ring.py"), ("halving_doubling", "the values are wrong")],
)
def test_launch_tells_a_students_failure_from_ours(
    folder: Path, ringside: Run, function: str, expected: str
) -> None:
    status, output, _ = ringside(f"launch ring.py:{function} --json -- --n 10")
    assert status == 1
    assert expected in json.loads(output)["message"]


@pytest.mark.mpi
def test_launch_leaves_the_script_that_it_ran(folder: Path, ringside: Run) -> None:
    line = "launch ring.py:all_reduce --json -- --n 10"
    script = ringside(line.replace("--json", "--dry-run"))[1]
    status, output, _ = ringside(line)
    assert status == 0
    assert (folder / "run.sbatch").read_text() == script
    (folder / "run.json").unlink()
    again = subprocess.run(["bash", "run.sbatch"], cwd=folder, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    record = json.loads((folder / "run.json").read_text())
    assert record["module_sha256"] == json.loads(output)["run"]["module_sha256"]


def test_ctrl_c_ends_the_ranks_of_this_machine_and_says_so(
    folder: Path, ringside: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "_run_here", interrupted)
    status, _, errors = ringside("launch ring.py:all_reduce")
    assert status == 130
    assert "stopped: the ranks are ended, and no run.json is written." in errors


@pytest.mark.mpi
def test_a_sweep_leaves_a_table_and_the_run_of_the_most_ranks(folder: Path, ringside: Run) -> None:
    status, output, errors = ringside("launch ring.py:all_reduce --sweep --json -- --n 10 --n 20")
    assert status == 0, errors
    rows = (folder / "sweep.csv").read_text().splitlines()
    assert rows[0] == "ranks,nodes,n,nbytes,time_s,speedup,values"
    found = [tuple(row.split(",")[k] for k in (0, 1, 2, 3, 6)) for row in rows[1:]]
    assert found == [
        (p, "1", n, nbytes, "right")
        for p in ("1", "2")
        for n, nbytes in (("10", "80"), ("20", "160"))
    ]
    assert json.loads(output)["run"]["world_size"] == 2
    assert Trace.load(folder / "run.trace.gz").world_size == 2
    assert "ranks" in (folder / "sweep.svg").read_text()


@pytest.mark.mpi
def test_a_sweep_names_the_number_of_ranks_that_failed(folder: Path, ringside: Run) -> None:
    status, output, _ = ringside("launch ring.py:stop --sweep --json -- --n 10")
    assert status == 1
    message = json.loads(output)["message"]
    assert "on 2 ranks: rank 1 raised ValueError at ring.py" in message
    assert message.endswith("sweep.csv has the times on 1 rank.")
    status, output, _ = ringside("launch ring.py:halving_doubling --sweep --json -- --n 10")
    assert status == 1  # right on 1 rank, wrong on 2
    assert "the values are wrong at n = 10 on 2 ranks" in json.loads(output)["message"]


def test_a_sweep_is_given_no_numbers_of_ranks(ringside: Run) -> None:
    status, _, errors = ringside("launch ring.py:all_reduce --sweep 1,2,8")
    assert status == 2
    assert "--sweep takes no numbers (1,2,8)" in errors


def test_jupyter_on_a_node_says_how_to_reach_it_and_tells_nobody_else(ringside: Run) -> None:
    status, script, _ = ringside("launch --jupyter --site zaratan --gpus-per-node 1 --dry-run")
    assert status == 0
    assert "#SBATCH --gres=gpu:a100:1\n" in script
    assert 'ssh -N -L $port:$node:$port $(id -un)@login.zaratan.umd.edu"' in script
    started = script[script.rindex("exec ") :]
    assert "token" not in started.lower()  # command lines can be read by everybody on the node
    assert script.index("chmod 600 ") < script.index("?token=")


def test_the_job_script_says_all_that_the_site_asks_for(folder: Path, ringside: Run) -> None:
    line = "launch ring.py:all_reduce --site zaratan --nodes 3 --dry-run --account NAME-aac"
    line += " --out /home/me --set modules=openmpi/gcc,python --set time=00:05:00"
    status, script, errors = ringside(line)  # a script can be read anywhere, also below /tmp
    assert status == 0 and "#SBATCH --account=NAME-aac" in script
    assert "from here it would not be launched" in errors
    assert "every node has a /tmp of its own" in errors
    status, script, errors = ringside(line.replace("ring.py:all_reduce", "ring.py:nothing"))
    assert status == 2 and not script and "nothing" in errors


def test_a_launch_without_lengths_takes_those_whose_inputs_a_laptop_holds(tmp_path: Path) -> None:
    from ringside.jobs.launch import lengths

    place = tmp_path / "a05"
    shutil.copytree(ROOT / "assignments" / "a05_ddp", place)
    shutil.copy(ROOT / "solutions" / "a05_ddp" / "overlap.py", place)
    found = lengths.fitting(place / "overlap.py", "measured_step", [], "float64")
    params = 4 * found[-1] ** 2 * 8  # four layers of n x n weights
    assert params < lengths.MOST_BYTES and found == (64, 256, 1024)
    (place / "ring.py").write_text("def all_reduce(comm, x):\n    return x\n")
    assert lengths.fitting(place / "ring.py", "all_reduce", [], "float64") == lengths.USUAL


def test_the_script_quotes_what_users_give(tmp_path: Path) -> None:
    from ringside.jobs.launch.launch import Launch
    from ringside.jobs.launch.sites import Site
    from ringside.session.target import Target

    place = tmp_path / "a folder; with signs"
    place.mkdir()
    (place / "ring.py").write_text(RING)
    site = Site.load("zaratan")
    changes = ["account=NAME-aac", "modules=openmpi/gcc,python/3.11", "exports=A=b c,D=$(x)"]
    target = Target.parse(str(place / "ring.py") + ":all_reduce")
    script = Launch(target, site, site.settings(changes, {}), 3, out=place).script()
    assert "#SBATCH --nodes=3\n#SBATCH --ntasks-per-node=4\n" in script
    assert "#SBATCH --account=NAME-aac" in script
    assert "--reservation" not in script
    assert "module load openmpi/gcc || exit 2\nmodule load python/3.11 || exit 2\n" in script
    assert "export 'A=b c'\nexport 'D=$(x)'\n" in script
    assert f"cd '{place}' || exit 2" in script
    assert "--world-size 12 " in script
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_the_environment_sets_a_sites_variables_and_the_command_line_wins() -> None:
    from ringside.jobs.launch.sites import Site

    site = Site.load("zaratan")
    environment = {"RINGSIDE_PARTITION": "debug", "RINGSIDE_RANKS_PER_NODE": "8"}
    assert site.settings([], environment)["partition"] == "debug"
    settings = site.settings(["partition=gpu"], environment)
    assert (settings["partition"], settings["ranks_per_node"]) == ("gpu", 8)


def test_launch_keeps_the_record_of_another_modules_run(folder: Path) -> None:
    told: list[str] = []
    asked: Any = SimpleNamespace(
        out=folder, path=folder / "ring.py", site=SimpleNamespace(name="local")
    )
    ours = json.dumps({"module": "ring", "site": "local"})
    (folder / "run.trace.gz").write_bytes(b"its trace")
    (folder / "run.json").write_text(ours)
    launch._keep_another_record(asked, told.append)
    assert told == [] and not list(folder.glob("*.before-launch-*"))
    for record in ('{"module": "tree", "site": "local"}', ours.replace("local", "zaratan"), "mine"):
        (folder / "run.json").write_text(record)
        launch._keep_another_record(asked, told.append)
        kept = f"run.json.before-launch-{len(told)}"
        assert (folder / kept).read_text() == record
        assert f"it is kept as {kept} and run.trace.gz.before-launch-{len(told)}." in told[-1]
    assert "is of tree.py at local: " in told[0] and "not written by ringside" in told[2]


# -- handin -------------------------------------------------------------------------------------


def test_handin_keeps_a_zip_and_a_request_of_your_own(
    folder: Path, ringside: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(folder / "no configuration"))
    (folder / "a00_ring.ipynb").write_text(json.dumps(book(f"%%module ring.py\n{RING}")))
    mine = folder / "a00_ring.zip"
    with zipfile.ZipFile(mine, "w") as packed:
        packed.writestr("ring.py", "a backup")
        packed.writestr("notes.txt", "mine")
    before = mine.read_bytes()
    (folder / "regrade.txt").write_text("typed by hand")
    for _ in range(2):  # the second replaces its own
        assert ringside("handin --regrade again")[0] == 0
    assert (folder / "a00_ring.zip.before-handin-1").read_bytes() == before
    assert (folder / "regrade.txt.before-handin-1").read_text() == "typed by hand"
    assert len(list(folder.glob("*.before-handin-*"))) == 2


def test_handin_packs_notebook_modules_and_run(
    folder: Path, ringside: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(folder / "no configuration"))
    (folder / "a00_ring.ipynb").write_text(json.dumps(book(f"%%module ring.py\n{RING}")))
    (folder / "private.txt").write_text("not handed in")
    status, output, _ = ringside("handin --json")
    receipt = json.loads(output)
    assert status == 0
    assert receipt["way"] == "zip"
    assert "there is no run.json" in receipt["notices"][0]
    with zipfile.ZipFile(receipt["where"]) as packed:
        assert sorted(packed.namelist()) == ["a00_ring.ipynb", "ring.py"]

    record = {"module": "ring", "module_sha256": notebook.module_sha256(RING.encode())}
    (folder / "run.json").write_text(json.dumps(record))
    _, output, _ = ringside("handin --json")
    assert json.loads(output)["notices"] == []
    with zipfile.ZipFile(receipt["where"]) as packed:
        assert "run.json" in packed.namelist()


@pytest.mark.slow
def test_handin_goes_to_nbgraders_exchange_where_one_is_configured(
    folder: Path, ringside: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, settings = folder.parent / "exchange", folder.parent / "settings"
    inbound = exchange / "pdl" / "inbound"
    inbound.mkdir(parents=True)
    inbound.chmod(0o733)
    released = exchange / "pdl" / "outbound" / folder.name
    released.mkdir(parents=True)
    (released / "a00_ring.ipynb").write_text(json.dumps(book("%%module ring.py\n")))
    settings.mkdir()
    (settings / "nbgrader_config.py").write_text(
        f"c = get_config()\nc.Exchange.root = {str(exchange)!r}\n"
        f"c.Exchange.cache = {str(folder.parent / 'cache')!r}\n"
        "c.CourseDirectory.course_id = 'pdl'\n"
    )
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(settings))
    cells = book(f"%%module ring.py\n{RING}")
    cells["cells"].append(_released(f"%%module star.py\n{STUB}"))
    (folder / "a00_ring.ipynb").write_text(json.dumps(cells))
    (folder / "star.py").write_text("star = 1\n")  # the cell gives way to it
    (folder / "ring.py.before-sync-1").write_text("what was there before")
    (folder / ".ringside").mkdir()
    (folder / ".ringside" / "ring.html").write_text("a timeline")
    status, output, errors = ringside("handin --json")
    assert status == 0, errors
    assert json.loads(output)["way"] == "exchange"
    [submitted] = inbound.iterdir()
    assert (submitted / "ring.py").read_text() == RING
    assert not list(submitted.glob("*before-sync*")) and not (submitted / ".ringside").exists()
    handed_in = json.loads((submitted / "a00_ring.ipynb").read_text())
    assert "".join(handed_in["cells"][1]["source"]) == "%%module star.py\nstar = 1"
    assert json.loads((folder / "a00_ring.ipynb").read_text()) == cells


def test_handin_notices_a_run_of_another_version(folder: Path, ringside: Run) -> None:
    (folder / "a00_ring.ipynb").write_text(json.dumps(book(f"%%module ring.py\n{RING}")))
    (folder / "run.json").write_text(json.dumps({"module": "ring", "module_sha256": "0" * 64}))
    status, output, _ = ringside("handin --dry-run")
    assert status == 0
    assert "run.json is of another version of ring.py" in output
    assert not list(folder.glob("*.zip"))


def test_handin_names_the_texts_that_nobody_wrote_and_says_what_all_is_worth(
    folder: Path, ringside: Run
) -> None:
    def graded(name: str, points: float, source: str, kind: str = "code") -> dict[str, Any]:
        marks = {"grade": True, "grade_id": name, "points": points, "solution": kind != "code"}
        return {"cell_type": kind, "id": name, "metadata": {"nbgrader": marks}, "source": source}

    content = book(f"%%module ring.py\n{RING}")
    content["cells"] += [
        graded("check_ring", 100.0, "check()"),
        graded("check_tree", 0.0, "check()"),
        graded("ring_cluster", 5.0, "run"),
        graded("cluster_report", 3.0, "*Your text here.*", "markdown"),
        graded("why", 2, "The lead changes at 4 KiB.", "markdown"),
    ]
    (folder / "a00_ring.ipynb").write_text(json.dumps(content))
    status, output, _ = ringside("handin --dry-run")
    assert status == 0
    told = [line for line in output.splitlines() if "Your text here" in line]
    assert told == [
        "notice: the text 'cluster_report' (cell 5 of a00_ring.ipynb) still holds "
        '"Your text here": it is worth 3 points, by hand.'
    ]
    assert (
        "110 points in all: modules 100, run.json 5 (none is there), texts 5, by hand; "
        "extra credit on top: tree."
    ) in output


def test_handin_refuses_a_module_that_is_no_python(folder: Path, ringside: Run) -> None:
    (folder / "ring.py").write_text("def all_reduce(comm, x)\n")
    source = "%%module ring.py\ndef all_reduce(comm, x)\n"
    (folder / "a00_ring.ipynb").write_text(json.dumps(book(source)))
    status, _, errors = ringside("handin")
    assert status == 2
    assert "ring.py:1 is not Python" in errors


@pytest.mark.parametrize("where", ["file", "cell"])
def test_a_byte_order_mark_is_no_part_of_a_module(folder: Path, ringside: Run, where: str) -> None:
    source = RING.lstrip()
    marks = {"file": "", "cell": "", where: "\ufeff"}
    content = book(f"%%module ring.py\n{marks['cell']}{source}")
    (folder / "a00_ring.ipynb").write_text(json.dumps(content))
    (folder / "ring.py").write_text(marks["file"] + source, encoding="utf-8")
    digest = notebook.module_sha256((folder / "ring.py").read_bytes())
    (folder / "run.json").write_text(json.dumps({"module": "ring", "module_sha256": digest}))
    assert notebook.differences(folder) == []
    status, output, errors = ringside("handin --dry-run")
    assert (status, errors) == (0, "")
    assert "notice" not in output


def test_a_file_that_is_not_utf8_is_named_with_its_line(folder: Path, ringside: Run) -> None:
    (folder / "a00_ring.ipynb").write_text(json.dumps(book(f"%%module ring.py\n{RING}")))
    (folder / "ring.py").write_bytes(b"x = 1\r\n# caf\xe9\r\n")
    for line in ("check ring", "handin --from-files"):
        status, _, errors = ringside(line)
        assert status == 2
        assert errors.startswith("ringside: ring.py:2 is not UTF-8 text: let your editor")


# -- what stops a command -----------------------------------------------------------------------


def test_ctrl_c_says_that_it_stopped(ringside: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(asked: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "run", stops)
    assert ringside("check") == (130, "", "ringside: stopped.\n")


@pytest.mark.parametrize("interrupted", [True, False])
def test_ranks_that_are_deaf_to_sigterm_are_ended(
    interrupted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = time.sleep
    second = iter([KeyboardInterrupt()] if interrupted else [])

    def sleeps(seconds: float) -> None:
        for ctrl_c in second:
            raise ctrl_c
        sleep(seconds)

    monkeypatch.setattr(launch.time, "sleep", sleeps)
    monkeypatch.setattr(launch, "_PATIENCE_S", 60.0 if interrupted else 0.2)
    # The script ends at once, the "rank" that it started reads on.
    script = "(trap '' TERM; echo; read -r forever <&3) & wait"
    with subprocess.Popen(
        ["bash", "-c", f"exec 3<&0; {script}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout and process.stdout.readline() == b"\n"
        launch._end(process)
        assert process.stdout.read() == b""  # nobody holds it any more
        assert process.poll() == -signal.SIGTERM or interrupted


def test_a_second_ctrl_c_at_the_end_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Impatient:
        def close(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(nursery, "_idle", {os.getpid(): Impatient()})
    nursery._close_idle()
    assert nursery._idle == {}


def test_a_folder_that_cannot_be_written_is_named_with_the_cure(
    ringside: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(asked: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system", "a00_ring.zip.new")

    monkeypatch.setattr(handin, "run", refused)
    status, _, errors = ringside("handin")
    assert status == 2
    assert errors == (
        "ringside: a00_ring.zip.new: Read-only file system. Is the folder not yours? "
        "Work in a copy of it (`cp -r`).\n"
    )


def test_points_are_told_where_no_timeline_can_be_left(folder: Path, ringside: Run) -> None:
    (folder / ".ringside").write_text("a file where the folder should be\n")
    status, output, errors = ringside("check ring")
    assert (status, errors) == (1, "")
    assert output.startswith("ring: 60 of 100 public points\n")
    assert "timeline" not in output


def test_hints_come_one_after_the_other_and_are_counted(folder: Path, ringside: Run) -> None:
    with (folder / "checks" / "requirements.toml").open("a") as table:
        table.write('hints = ["Begin with p = 2.", "Draw it."]\n')
    assert "no hint for ring yet" in ringside("hint ring --again")[1]
    assert ringside("hint ring.py") == (0, "1 of 2  Begin with p = 2.\n", "")
    assert ringside("hint ring")[1] == "2 of 2  Draw it.\n"
    both = "1 of 2  Begin with p = 2.\n2 of 2  Draw it.\n"
    assert ringside("hint ring --again")[1].startswith(both)
    assert ringside("hint ring")[1].startswith(f"{both}These are all.")
    assert json.loads(ringside("progress --json")[1])["assignments"][0]["modules"] == {}
    assert hints_taken.read(folder) == {"ring": 2}
    assert ringside("hint star")[1] == "star has no hints.\n"
    status, _, errors = ringside("hint rnig")
    assert status == 2 and "no module 'rnig' here; did you mean ring?" in errors


# -- doctor and the notebook --------------------------------------------------------------------


@pytest.mark.mpi
def test_doctor_tries_ranks_and_real_mpi(ringside: Run) -> None:
    status, output, _ = ringside("doctor --json")
    found = {finding["name"]: finding for finding in json.loads(output)}
    assert status == 0
    assert found["simulated ranks"]["works"]
    assert found["MPI"]["works"], found["MPI"]["detail"]
    for finding in found.values():
        assert finding["works"] or finding["mend"]


def test_doctor_enters_the_sandbox_that_graders_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ringside.jobs.doctor import this_machine as doctor

    fake = tmp_path / "bwrap"  # it starts, and runs nothing inside
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = doctor._sandbox()
    assert not (found.works and "bubblewrap" in found.detail), found
    assert found.works or ("bubblewrap: " in found.detail and "bubblewrap" in found.mend), found


def test_doctor_misses_no_sandbox_where_there_is_no_grader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ringside.jobs.doctor import this_machine as doctor

    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert doctor._sandbox().detail == "the grader isn't here; only instructors need one"


def test_ranks_magic_runs_a_cell_and_shows_output_by_rank(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ringside.commands import magic

    cell = (
        "from mpi4py import MPI\nimport ring, numpy as np\nc = MPI.COMM_WORLD\n"
        "print('sum', ring.all_reduce(c, np.full(2, c.rank)))\n"
    )
    before = sorted(folder.iterdir())
    result = magic.run_cell("3 --machine laptop --no-timeline", cell)
    assert result is not None
    assert result.machine.name == "laptop"
    assert capsys.readouterr().out.splitlines() == [f"[{rank}] sum [3 3]" for rank in range(3)]
    assert sorted(folder.iterdir()) == before


def test_ranks_magic_lets_ranks_hang_and_be_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ringside.commands import magic

    monkeypatch.chdir(tmp_path)
    cell = "from mpi4py import MPI\nimport ringside\nringside.compute(seconds=1)\n"
    result = magic.run_cell("2 --slow 1x2 --no-timeline", cell)
    assert result is not None and result.makespan_s == 2.0
    sends = (
        "x, comm = bytearray(1), MPI.COMM_WORLD\n"
        "comm.Recv(x, 1) if comm.rank == 0 else comm.Send(bytes(1), 0)\nprint(x[0])\n"
    )
    magic.run_cell("2 --flip 1#1:bit3 --no-timeline", cell + sends)
    assert "[0] 8" in capsys.readouterr().out
    magic.run_cell("2 --hang 1@op1 --no-timeline", f"{cell}MPI.COMM_WORLD.Barrier()\n")
    assert "rank 1 hangs, rank 0 is blocked" in capsys.readouterr().out


def test_ranks_magic_names_the_cells_own_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ringside.commands import magic

    magic.run_cell("2", "x = 1\nraise ValueError('no')\n")
    assert "raised ValueError at cell:3: no" in capsys.readouterr().out
    magic.run_cell("2", "print(np)\n")
    assert "what the cell uses, it imports" in capsys.readouterr().out


def test_ranks_magic_shows_what_ranks_printed_and_no_frames_of_the_kit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ringside.commands import magic

    magic.run_cell("2 --timeout 0.5", "print('begun', end='', flush=True)\nwhile True:\n    pass\n")
    output = capsys.readouterr().out
    assert output.startswith(
        "[0] begun\n[1] begun\nDeadlineError: the run did not end within 0.5 s"
    )
    assert "runpy" not in output and "zygote" not in output


@pytest.mark.parametrize(
    ("line", "reason"),
    [("many", "invalid int value: 'many'"), ("", "required: WORLD_SIZE")],
)
def test_ranks_magic_says_once_what_it_can_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, reason: str
) -> None:
    from ringside.commands import magic

    assert magic.run_cell(line, "pass") is None
    output, errors = capsys.readouterr()
    assert reason in output
    assert "usage: %%ranks WORLD_SIZE" in output
    assert errors == ""


def test_a_notebook_shows_the_verdict_without_the_kits_frames(folder: Path) -> None:
    import ringside

    with pytest.raises(ringside.DeadlockError) as caught:
        ringside.run("ring.py:synchronous", 2, (np.ones(3),))
    [verdict, called] = caught.value._render_traceback_()
    assert verdict.startswith("DeadlockError: all 2 ranks are blocked")
    assert called.startswith("called by line ")
    assert 'ringside.run("ring.py:synchronous"' in called


def test_a_result_shows_itself_in_one_line(folder: Path) -> None:
    import ringside

    result = ringside.run("ring.py:all_reduce", 2, (np.ones(3),))
    assert repr(result) == ("Result(2 ranks on textbook, makespan 1.02 µs, 48 B in 2 messages)")
    with pytest.raises(ringside.errors.TargetError, match="args is an array"):
        ringside.run("ring.py:all_reduce", 2, np.ones(2))


def test_check_cell_of_a_notebook_runs_the_public_tests(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ringside.checking import public_tests

    public_tests.check("ring")
    output = capsys.readouterr().out
    assert "ring: 60 of 100 public points" in output
    assert "  ok        60/60  It asks for sum.\n" in output


def test_validate_hears_of_failed_tests(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ringside.checking import public_tests

    monkeypatch.setenv("NBGRADER_VALIDATING", "1")
    public_tests.check("ring")
    told = capsys.readouterr()
    assert "ring: 60 of 100 public points" in told.err and "points" not in told.out


def test_a_module_that_is_not_written_is_told_once(folder: Path) -> None:
    from ringside.checking import public_tests

    (folder / "ring.py").write_text("def all_reduce(comm, x):\n    raise NotImplementedError\n")
    told = public_tests.text(public_tests.run(folder, ["ring"]))
    assert "ring: 0 of 100 public points\n  not written yet" in told and "FAIL" not in told
