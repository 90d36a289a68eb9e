"""What a recording communicator writes down of a real run, put together into a trace."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ringside.jobs.launch.launch import here_environment, mpiexec
from ringside.jobs.real.measured import MeasuredTimeline, RecordedCall, assemble
from ringside.timing.replay import replay
from ringside.trace import Kind, Trace

PROGRAM = """
import dataclasses, json, sys
import numpy as np
from mpi4py import MPI
from ringside.session.recorder import Recorder
from ringside.jobs.real.recording_mpi import record

recorder = Recorder()
comm = record(MPI.COMM_WORLD, recorder)
size, rank = comm.size, comm.rank
x, y = np.full(6, float(rank)), np.empty(6)

requests = [comm.Isend(x, dest=(rank + 1) % size, tag=3), comm.Irecv(y, source=MPI.ANY_SOURCE)]
MPI.Request.Waitall(requests)
assert y[0] == (rank - 1) % size

halves = comm.Split(rank % 2, -rank)  # reversed: members are not in the order of the world
if halves.size > 1:
    if halves.rank == 0:
        halves.send({"text": "for my neighbour"}, dest=1)
    elif halves.rank == 1:
        assert halves.recv(source=0)["text"]
comm.Allreduce(MPI.IN_PLACE, x)
assert x[0] == sum(range(size))
assert comm.allgather(rank) == list(range(size))
own = np.empty(2)
comm.Scatter([np.arange(2.0 * size), MPI.DOUBLE] if rank == 1 else None, own, root=1)
assert own.tolist() == [2.0 * rank, 2.0 * rank + 1]
pending = comm.Ireduce([x, 2, MPI.DOUBLE], own if rank == 0 else None, root=0)
pending.Wait()
comm.Barrier()
with open(sys.argv[1] + f"/rank{rank}.json", "w") as file:
    json.dump([dataclasses.astuple(call) for call in recorder.calls], file)
"""

# A chain without neighbours at its ends, and all ways to a communicator.
ENDS = """
import dataclasses, json, sys
import numpy as np
from mpi4py import MPI
from ringside.session.recorder import Recorder
from ringside.jobs.real.recording_mpi import record

recorder = Recorder()
comm = record(MPI.COMM_WORLD, recorder)
size, rank = comm.size, comm.rank
left = rank - 1 if rank else MPI.PROC_NULL
right = rank + 1 if rank + 1 < size else MPI.PROC_NULL
x, y = np.full(2, float(rank)), np.full(2, -1.0)
comm.Sendrecv(x, dest=right, recvbuf=y, source=left)
assert y[0] == rank - 1
comm.Recv(y, source=MPI.PROC_NULL)
MPI.Request.Waitall([comm.Irecv(y, source=right), comm.Isend(x, dest=left)])

halves = comm.Split(color=rank % 2)
assert halves.allreduce(1) == 2
together = comm.Split_type(MPI.COMM_TYPE_SHARED)
assert together.allreduce(1) == size
copy, request = comm.Idup()
request.Wait()
copy.Barrier()
for members in ((0, 1), (2, 3)):
    if rank in members:
        pair = comm.Create_group(comm.Get_group().Incl(members), tag=7)
        assert pair.allreduce(rank) == sum(members)
with open(sys.argv[1] + f"/rank{rank}.json", "w") as file:
    json.dump([dataclasses.astuple(call) for call in recorder.calls], file)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, MeasuredTimeline]:
    """Four real ranks, recorded."""
    return recorded(PROGRAM, tmp_path_factory.mktemp("recorded"))


def recorded(program: str, folder: Path) -> tuple[Trace, MeasuredTimeline]:
    """What four real ranks of a program write down."""
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [mpiexec(), "-n", "4", sys.executable, str(folder / "program.py"), str(folder)],
        env=here_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    paths = [folder / f"rank{rank}.json" for rank in range(4)]
    calls = [[RecordedCall(*call) for call in json.loads(path.read_text())] for path in paths]
    return assemble(calls, "this machine")


pytestmark = pytest.mark.mpi


def test_every_send_is_paired_with_the_receive_that_took_it(
    run: tuple[Trace, MeasuredTimeline],
) -> None:
    trace, _ = run
    sends = {op.message: op for ops in trace.ops for op in ops if op.kind == Kind.ISEND}
    receives = {op.message: op for ops in trace.ops for op in ops if op.kind == Kind.IRECV}
    assert set(sends) == set(receives)
    assert len(sends) == 4 + 2  # round the ring, and one in each half
    assert all(sends[number].nbytes == receives[number].nbytes for number in sends)
    assert [receives[number].peer for number in sorted(sends)].count(-1) == 0


def test_a_wildcard_receive_knows_who_sent(run: tuple[Trace, MeasuredTimeline]) -> None:
    trace, _ = run
    for rank, ops in enumerate(trace.ops):
        first = next(op for op in ops if op.kind == Kind.IRECV)
        assert (first.peer, first.tag, first.detail) == ((rank - 1) % 4, 3, (-1, -1))


def test_ranks_of_a_split_communicator_stand_as_world_ranks(
    run: tuple[Trace, MeasuredTimeline],
) -> None:
    trace, _ = run
    inside = {
        (rank, op.peer, op.comm)
        for rank, ops in enumerate(trace.ops)
        for op in ops
        if op.kind == Kind.ISEND and op.comm != "world"
    }
    assert inside == {(2, 0, "world/1.0"), (3, 1, "world/1.1")}


def test_collectives_carry_every_members_part(run: tuple[Trace, MeasuredTimeline]) -> None:
    trace, _ = run
    for ops in trace.ops:
        found = [
            (op.detail[0], op.detail[2], op.detail[4]) for op in ops if op.kind == Kind.COLLECTIVE
        ]
        names = [name for name, _, _ in found]
        assert names == ["allreduce", "allgather", "scatter", "reduce", "barrier"]
        assert found[0] == ("allreduce", 0, (48,))
        assert found[2] == ("scatter", 1, (16, 16, 16, 16))
        assert found[3] == ("reduce", 0, (16,))


def test_the_trace_can_be_saved_and_replayed_on_a_machine(
    run: tuple[Trace, MeasuredTimeline], tmp_path: Path
) -> None:
    trace, timeline = run
    saved = trace.save(tmp_path / "run.trace.gz")
    assert Trace.load(saved) == trace
    busy_s = max(timeline.busy_s)
    assert replay(saved, "textbook").makespan_s >= busy_s


def test_the_timeline_has_real_times_without_gaps(run: tuple[Trace, MeasuredTimeline]) -> None:
    _, timeline = run
    for rank, spans in enumerate(timeline.spans):
        assert spans[0].start_s == 0
        for before, after in pairwise(spans):
            assert before.end_s == after.start_s
        assert timeline.end_s[rank] == spans[-1].end_s
    assert timeline.makespan_s == max(timeline.end_s)
    matrix = timeline.bytes_matrix
    assert [int(matrix[rank, (rank + 1) % 4]) for rank in range(4)] == [48] * 4
    assert int(np.trace(matrix)) == 0
    assert "<svg" in timeline._repr_html_()


SCRIPT = """
from mpi4py import MPI
import numpy as np
import ringside

comm = MPI.COMM_WORLD
x = np.ones(4)
for step in range(3):
    with ringside.recorded():
        ringside.compute(num_flops=100.0 * step, nbytes=8.0)
        comm.Allreduce(MPI.IN_PLACE, x)
        ringside.compute(num_flops=7.0)
comm.Barrier()
"""


def test_a_script_leaves_a_record_of_the_part_that_it_chose(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    rank = [sys.executable, "-m", "ringside.jobs.real.mpi_main", "script.py", "--world-size", "2"]
    done = subprocess.run(
        [mpiexec(), "-n", "2", *rank],
        cwd=tmp_path,
        env=here_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "run.json").read_text())
    assert (record["kind"], record["devices"], record["launcher"]) == (
        *("mpi4py", ["cpu", "cpu"]),
        "mpiexec",
    )
    assert (tmp_path / record["timeline"]).read_text().startswith("<svg")
    for ops in Trace.load(tmp_path / record["trace"]).ops:
        assert [op.kind for op in ops] == [Kind.COMPUTE, Kind.COLLECTIVE, Kind.WAIT, Kind.COMPUTE]
        assert [op.detail[:2] for op in ops if op.kind == Kind.COMPUTE] == [(200, 8), (7, 0)]


def test_a_chain_with_ends_and_every_way_to_a_communicator_are_recorded(tmp_path: Path) -> None:
    trace, _ = recorded(ENDS, tmp_path)
    sends = [
        (rank, op.peer) for rank in range(4) for op in trace.ops[rank] if op.kind == Kind.ISEND
    ]
    assert sorted(sends) == [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]
    paths = [[op.comm for op in ops if op.kind == Kind.COLLECTIVE] for ops in trace.ops]
    assert [row[0] for row in paths] == ["world/1.0", "world/1.1"] * 2
    assert [row[-1] for row in paths] == ["world/3.group 7 of 0"] * 2 + ["world/3.group 7 of 2"] * 2
    assert all(len(row) == 4 for row in paths)
    assert replay(trace.save(tmp_path / "run.trace.gz"), "textbook").makespan_s > 0
