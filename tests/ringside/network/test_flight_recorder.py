"""The flight recorder that the network keeps of any run: what it holds, and torch's own reader."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringside import DeadlockError, Failures, Hang, Kill, Result, Session, Slow
from ringside.timing.flight_recorder import FlightRecorder, Record

PROGRAMS = """
import numpy as np
import ringside
from mpi4py import MPI

def grid(comm, steps, mine=100):
    tp = comm.Split(comm.rank // 2, comm.rank)
    dp = comm.Split(comm.rank % 2, comm.rank)
    x, out = np.ones(100), np.empty(100)
    for _ in range(steps):
        ringside.compute(seconds=1e-3)
        tp.Allreduce(x, out)
        ringside.compute(seconds=1e-3)
        dp.Allreduce(out, x)

def buckets(comm):
    parts = [np.ones(1000, np.float32) for _ in range(3)]
    requests = []
    for part in parts:
        ringside.compute(seconds=1e-6)
        requests.append(comm.Iallreduce(MPI.IN_PLACE, part))
    MPI.Request.Waitall(requests)
    comm.Barrier()

def kinds(comm):
    x = np.ones(4, np.int32)
    comm.Bcast(x, 0)
    comm.Allgather(x, np.empty(4 * comm.size, np.int32))
    comm.allreduce(1)
    comm.Reduce_scatter_block(np.ones(2 * comm.size), np.empty(2))
    comm.Barrier()

def wrong(comm, how):
    x, out = np.ones(4), np.empty(4)
    for step in range(3):
        if comm.rank == 1 and step == 2:
            if how == "op":
                comm.Allgather(x, np.empty(4 * comm.size))
            elif how == "size":
                comm.Allreduce(np.ones(5), np.empty(5))
            else:
                comm.Allreduce(np.ones(4, np.float32), np.empty(4, np.float32))
        comm.Allreduce(x, out)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "programs.py").write_text(textwrap.dedent(PROGRAMS))
    with Session(folder) as session:
        yield session


def the_last(result: Result, rank: int) -> Record:
    return result.recorder().dumps[rank][-1]


def test_a_run_that_ends_leaves_all_its_collectives(session: Session) -> None:
    result = session.call("programs:grid", 4, (2,)).raise_for_error()
    recorder = result.recorder()
    assert recorder.groups == {
        "world": (0, 1, 2, 3), "world/0.0": (0, 1), "world/0.1": (2, 3), "world/1.0": (0, 2),
        "world/1.1": (1, 3),
    }  # fmt: skip
    names = [(r["group"], r["seq"], r["op"]) for r in recorder.dumps[3]]
    assert names == [
        ("world", 1, "split"), ("world", 2, "split"),
        ("world/0.1", 1, "allreduce"), ("world/1.1", 1, "allreduce"),
        ("world/0.1", 2, "allreduce"), ("world/1.1", 2, "allreduce"),
    ]  # fmt: skip
    last = recorder.dumps[0][-1]
    assert (last["dtype"], last["count"], last["state"]) == ("float64", 100, "completed")
    assert last["completed_ps"] == result.timeline.makespan_ps
    assert last["created_ps"] == last["started_ps"] < last["completed_ps"]
    assert [r["seq"] for r in result.recorder(last=3).dumps[1]] == [1, 2, 2]
    assert result.recorder(last=0).dumps == {rank: [] for rank in range(4)}


def test_the_fields_say_what_each_member_gives(session: Session) -> None:
    recorder = session.call("programs:kinds", 3).raise_for_error().recorder()
    of_root, of_other = (
        [(r["op"], r["dtype"], r["count"]) for r in recorder.dumps[rank]] for rank in (0, 1)
    )
    assert of_root == [
        ("bcast", "int32", 4), ("allgather", "int32", 4), ("allreduce", "object", 1),
        ("reduce_scatter", "float64", 6), ("barrier", "", 0),
    ]  # fmt: skip
    assert of_other[0] == ("bcast", "int32", -1)  # how many it takes isn't told
    assert of_other[1:] == of_root[1:]


def test_who_waits_at_the_end_has_started_and_who_hangs_never_came(session: Session) -> None:
    result = session.call("programs:grid", 8, (9,), failures=Failures(Hang(5, at_s=8.5e-3)))
    recorder = result.recorder(last=4)
    states = {rank: records[-1]["state"] for rank, records in recorder.dumps.items()}
    assert states == {rank: "completed" if rank == 5 else "started" for rank in range(8)}
    waits = recorder.dumps[4][-1]
    assert recorder.groups[waits["group"]] == (4, 5)
    assert waits["completed_ps"] == -1
    its = [r for r in recorder.dumps[5] if r["group"] == waits["group"]]
    assert its[-1]["seq"] == waits["seq"] - 1


def test_the_dead_leave_nothing(session: Session) -> None:
    result = session.call("programs:grid", 4, (9,), failures=Failures(Kill(1, at_s=8.5e-3)))
    recorder = result.recorder()
    assert sorted(recorder.dumps) == [0, 2, 3]
    assert the_last(result, 0)["state"] == "started"  # it ended with an error, and not well


def test_what_stands_behind_another_collective_is_scheduled(session: Session) -> None:
    usual = session.call("programs:buckets", 3).raise_for_error().recorder().dumps[0]
    assert [r["state"] for r in usual] == ["completed"] * 4
    assert usual[1]["created_ps"] < usual[1]["started_ps"] == usual[0]["completed_ps"]
    result = session.call("programs:buckets", 3, failures=Failures(Hang(2, op=2)))
    assert [r["state"] for r in result.recorder().dumps[0]] == ["started", "scheduled", "scheduled"]
    assert result.recorder().dumps[2] == []


@pytest.mark.parametrize(
    ("how", "field", "value"),
    [("op", "op", "allgather"), ("size", "count", 5), ("dtype", "dtype", "float32")],
)
def test_members_that_disagree_are_recorded(
    session: Session, how: str, field: str, value: Any
) -> None:
    result = session.call("programs:wrong", 3, (how,))
    assert isinstance(result.error, DeadlockError)
    last = {rank: the_last(result, rank) for rank in range(3)}
    assert {record["seq"] for record in last.values()} == {3}
    assert {record["state"] for record in last.values()} == {"started"}
    assert last[1][field] == value != last[0][field] == last[2][field]


def test_who_comes_last_to_nearly_all_is_told(session: Session) -> None:
    slow = session.call("programs:grid", 8, (30,), failures=Failures(Slow(5, 1.34)))
    assert slow.straggler() == (
        "rank 5 comes last to 60 of its 62 collectives, typically by 680 µs: the others wait for it"
    )
    assert session.call("programs:grid", 8, (30,)).straggler() == ""
    assert (
        session.call("programs:grid", 8, (3,), failures=Failures(Slow(5, 1.34))).straggler() == ""
    )


TORCH = """
import torch
import torch.distributed as dist

def train(group, wrong):
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    x = torch.ones(4)
    for step in range(3):
        dist.all_reduce(x, group=halves[dist.get_rank() // 2])
        if wrong and step == 2 and dist.get_rank() == 1:
            x = torch.ones(4, dtype=torch.float64)
        dist.all_reduce(x)
"""


def torch_entry(number: int, record: Record, group: int) -> dict[str, Any]:
    """A record as PyTorch's flight recorder writes it."""
    return {
        "record_id": number,
        "pg_id": group,
        "process_group": (str(group), record["group"]),
        "collective_seq_id": record["seq"],
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": f"nccl:{record['op']}",
        "time_created_ns": record["created_ps"] // 1000,
        "input_sizes": [[record["count"]]],
        "output_sizes": [[record["count"]]],
        "input_dtypes": [record["dtype"]],
        "output_dtypes": [record["dtype"]],
        "state": record["state"],
        "is_p2p": False,
        "frames": [],
    }


def read_by_torch(recorder: FlightRecorder, folder: Path) -> str:
    """What torch's own analyzer says of the dumps."""
    names = list(recorder.groups)
    config = {str(n): {"desc": name, "ranks": str(list(recorder.groups[name]))}
              for n, name in enumerate(names)}  # fmt: skip
    folder.mkdir()
    for rank, records in recorder.dumps.items():
        entries = [torch_entry(n, r, names.index(r["group"])) for n, r in enumerate(records)]
        dump = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}
        (folder / f"trace_{rank}").write_bytes(pickle.dumps(dump))
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(folder)]
    ended = subprocess.run([*command, "--prefix", "trace_"], capture_output=True, text=True)
    return ended.stdout + ended.stderr


def test_torchs_own_analyzer_reads_it(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TORCH)
    with Session(tmp_path) as session:
        usual = session.call("program:train", 4, (False,)).raise_for_error()
        last = max(
            number
            for number, op in enumerate(usual.trace.ops[1], start=1)
            if usual.trace.site_of(op).call.startswith("all_reduce")
            and op.detail[:1] == ("allreduce",)
        )
        hung = session.call("program:train", 4, (False,), failures=Failures(Hang(1, op=last)))
        wrong = session.call("program:train", 4, (True,))
    assert "MISMATCH" not in read_by_torch(usual.recorder(), tmp_path / "usual")
    told = read_by_torch(hung.recorder(), tmp_path / "hung")
    assert "Not all ranks joining collective, sequence number: 3" in told
    assert "group info: 0:world" in told and "missing ranks: {1}" in told
    told = read_by_torch(wrong.recorder(), tmp_path / "wrong")
    assert "Culprit rank 1; Error type: COLLECTIVE_DTYPE_MISMATCH" in told
