"""Real ranks of torch over gloo: what they leave, and what is written down of what they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ringside
from ringside import Trace
from ringside.checking import inputs
from ringside.trace import Kind, Op

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROGRAMS = HERE / "programs"
PYTHON = (sys.executable, "-W", "ignore")

# Target, length, and the program's own words; each is right, simulated or real.
REFERENCES = {
    "ring_torch": ("a03_allreduce/checks/inside_torch.py:all_reduce", 7, ""),
    "step_torch": ("a04_data_parallel/checks/inside_torch.py:train_step", 5, "--widths 6,5,3"),
    "ddp_torch": ("a05_ddp/checks/inside_torch.py:measured_ddp", 6, "--bucket-bytes 600"),
    "diloco_torch": (
        "a06_asynchrony/checks/inside_torch.py:diloco_trained",
        4,
        "--num-steps 5 --period 2",
    ),
    "compress_torch": (
        "a06_asynchrony/checks/inside_torch.py:compressed",
        4,
        "--shape 8,12 --approx-rank 2",
    ),
    "zero3_torch": ("a07_sharding/checks/inside_torch.py:train", 4, "--widths 4,6,4"),
    "linear_torch": ("a08_tensor_parallel/checks/inside_torch.py:measured_pair", 5, "--widths 4,7"),
    "pipeline_torch": (
        "a09_pipeline/checks/inside_torch.py:measured_pipeline",
        4,
        "--microbatches 3",
    ),
    "stash_torch": (
        "a10_pipedream/checks/inside_torch.py:trained",
        4,
        "--batch-sizes 2,3,1",
    ),
    "conv_torch": ("a11_spatial/checks/inside_torch.py:convolved", 6, "--kernel 5"),
    "ulysses_torch": ("a11_spatial/checks/inside_torch.py:dealt_out", 3, "--kv-heads 2"),
    "ring_attention_torch": ("a11_spatial/checks/inside_ring_torch.py:ring", 4, "--causal True"),
    "zigzag_torch": ("a11_spatial/checks/inside_ring_torch.py:zigzag", 4, "--heads 4"),
    "train3d_torch": ("a12_hybrid/checks/inside_torch.py:trained", 4, "--tp 2 --steps 2"),
    "decode_torch": ("a13_inference/checks/inside_torch.py:measured_tokens", 16, "--tokens 3"),
    "moe_torch": ("a14_experts/checks/inside_torch.py:layer", 4, "--d 5"),
}
RAISES = """
import torch.distributed as dist

def all_reduce(group, x):
    if group.rank() == 1:
        raise ValueError("not like this")
    dist.all_reduce(x)
"""

WAITS = """
import torch.distributed as dist

def all_reduce(group, x):
    dist.recv(x, 1 - group.rank())
"""

STOPS = """
import os
import signal
import torch
import torch.distributed as dist
import ringside
from ringside import checkpoint

dist.init_process_group()
rank = dist.get_rank()
start = checkpoint.load("state.pt")
assert start is None
for step in range(100):
    with ringside.recorded():
        total = torch.ones(1000) @ torch.ones(1000)
        dist.all_reduce(total)
    if rank == 1 and step == 2:
        os.kill(os.getpid(), signal.SIGUSR1)
    if checkpoint.asked():
        checkpoint.save("state.pt", {"step": step, "total": total})
        break
assert checkpoint.load("state.pt")["step"] == step == 2
if rank == 0:
    with open("damaged.pt", "wb") as file:
        file.write(b"PK of nothing")
    try:
        checkpoint.load("damaged.pt")
    except checkpoint.CheckpointError as error:
        print(error)
"""

# What torch meets by bad luck alone: a thread of gloo's isn't done yet when DDP, the last that
# holds the group, goes.
LATE = """
import atexit
import ctypes
import gc
import threading
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(3, 3))
began = threading.Event()

def slowly(future):  # in gloo's thread, with Python's lock
    began.set()
    time.sleep(2.0)

work = dist.all_reduce(torch.ones(1), async_op=True)
work.get_future().then(slowly)
began.wait()
dist.destroy_process_group()
atexit.register(ctypes.CDLL(None).printf, b"from C")
atexit.register(print, "at exit")
del model, work
gc.collect()
print("no new line", end=" ")
"""

MANY = """
import torch
import torch.distributed as dist

dist.init_process_group()
x = torch.ones(5)
for _ in range(4):
    dist.all_reduce(x)
    if dist.get_rank() == 0:
        dist.send(x, 1)
    else:
        dist.irecv(x, 0).wait()  # two calls, so this rank's record is full sooner
"""


@dataclass
class Left:
    """What a job left behind."""

    folder: Path
    statuses: list[int]

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        return found

    @property
    def trace(self) -> Trace:
        return Trace.load(self.folder / "run.trace.gz")

    def printed(self, rank: int) -> str:
        return (self.folder / f"printed-{rank}").read_text()

    @property
    def failures(self) -> list[dict[str, Any]]:
        paths = sorted((self.folder / ".ringside-run").glob("failure-*.json"))
        return [json.loads(path.read_text()) for path in paths]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Left]]:
    """All jobs, run one after another by one process that imported torch."""
    jobs: dict[str, tuple[Path, list[str]]] = {}

    def add(name: str, *words: str, source: str = "", deadline_s: str = "60") -> None:
        folder = tmp_path_factory.mktemp(name)
        if source:
            (folder / f"{name}.py").write_text(source)
        common = ["--world-size", "2", "--repetitions", "1", "--deadline-s", deadline_s]
        cut = words.index("--") if "--" in words else len(words)
        jobs[name] = folder, [*words[:cut], *common, *words[cut:]]

    for name, (target, n, words) in REFERENCES.items():
        path = str(ROOT / "solutions" / target)
        add(name, path, "--length", str(n), "--", *words.split())
    add("every_call", str(PROGRAMS / "every_call.py"))
    add("raises", "raises.py:all_reduce", source=RAISES)
    add("waits", "waits.py:all_reduce", source=WAITS, deadline_s="2")
    add("stops", "stops.py", source=STOPS)
    add("many", "--most-calls", "5", "many.py", source=MANY)
    for name in ("coalesced", "without_frames"):
        words = ["--plain", str(PROGRAMS / f"{name}.py")]
        jobs[name] = (tmp_path_factory.mktemp(name), words)
    plan = tmp_path_factory.mktemp("jobs") / "jobs.json"
    plan.write_text(json.dumps([(str(folder), words) for folder, words in jobs.values()]))
    done = subprocess.run(
        [*PYTHON, str(HERE / "real_ranks.py"), str(plan)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout.splitlines()[-1])
    yield {
        name: Left(folder, statuses)
        for (name, (folder, _)), statuses in zip(jobs.items(), ended, strict=True)
    }


def happened(trace: Trace) -> list[list[tuple[Any, ...]]]:
    """Per rank the messages and collectives in order, with all that counts."""
    return [
        [
            (Kind(op.kind).name, op.peer, op.tag, op.nbytes)
            if op.kind in (Kind.ISEND, Kind.IRECV)
            else (op.detail[0], op.detail[2:])
            for op in ops
            if op.kind in (Kind.ISEND, Kind.IRECV)
            or (op.kind == Kind.COLLECTIVE and not _makes_a_group(op))
        ]
        for ops in trace.ops
    ]


def waits(trace: Trace) -> list[list[int]]:
    """Per rank the requests that were waited for, each by its place among the rank's requests.

    To make a group is a request of the simulated network alone.
    """
    found = []
    for ops in trace.ops:
        counted = [op for op in ops if op.request >= 0 and not _makes_a_group(op)]
        place = {op.request: k for k, op in enumerate(counted)}
        waited = [n for op in ops if op.kind == Kind.WAIT for n in op.detail]
        found.append([place[n] for n in waited if n in place])
    return found


def _makes_a_group(op: Op) -> bool:
    return op.kind == Kind.COLLECTIVE and op.detail[1] < 0


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_sends_on_real_ranks_what_it_sends_on_simulated_ones(
    left: dict[str, Left], name: str
) -> None:
    target, n, words = REFERENCES[name]
    path, _, function = str(ROOT / "solutions" / target).partition(":")
    options = inputs.Options(n, "float64", 0, inputs.parse_options(words.split()).others)
    arguments = inputs.arguments(Path(path), function, 2, options)
    simulated = ringside.run(f"{path}:{function}", 2, arguments).trace
    real = left[name].trace
    assert happened(real) == happened(simulated)
    assert waits(real) == waits(simulated)
    assert left[name].record["measurements"][0]["values"] == "right"


def test_every_kind_of_call_is_written_down_alike(left: dict[str, Left]) -> None:
    simulated = ringside.run(str(PROGRAMS / "every_call.py"), 2).trace
    real = left["every_call"].trace
    assert happened(real) == happened(simulated)
    for ops in real.ops:
        started = [op.request for op in ops if op.request >= 0]
        waited = [number for op in ops if op.kind == Kind.WAIT for number in op.detail]
        assert sorted(waited) == sorted(started)
    assert ringside.replay(real, "textbook").makespan_s > 0


def test_the_record_says_what_ran_where(left: dict[str, Left]) -> None:
    job = left["ring_torch"]
    record = job.record
    (measured,) = record["measurements"]
    assert job.statuses == [0, 0]
    assert (record["kind"], record["devices"], record["world_size"]) == ("gloo", ["cpu"] * 2, 2)
    assert (record["function"], record["nodes"], record["trace_is_cut"]) == ("all_reduce", 1, False)
    assert record["torch"].startswith("2.")
    assert len(measured["times_s"]) == 1 and measured["median_s"] > 0
    assert record["makespan_s"] > 0
    assert (job.folder / record["timeline"]).read_text().startswith("<svg")


def test_operators_between_two_calls_are_counted(left: dict[str, Left]) -> None:
    def flops(trace: Trace) -> list[float]:
        return [
            sum(op.detail[0] for op in ops if op.kind == Kind.COMPUTE) for ops in trace.ops
        ]  # fmt: skip

    rows, d, half = 5, 4, (4, 3)  # of 7 hidden units
    # Three products for each weight: forward, and two gradients.
    assert flops(left["linear_torch"].trace) == [3 * 2 * 2 * rows * d * h for h in half]
    assert flops(left["ring_torch"].trace) == [0, 0]  # additions are bound by memory
    moved = [op.detail[5] for op in left["ring_torch"].trace.ops[0] if op.kind == Kind.COMPUTE]
    assert sum(moved) > 0


def test_a_failing_rank_is_named_with_its_line_and_its_peer_keeps_quiet(
    left: dict[str, Left],
) -> None:
    job = left["raises"]
    assert job.statuses == [1, 1]
    (failure,) = job.failures
    assert (failure["kind"], failure["rank"]) == ("exception", 1)
    assert "rank 1 raised ValueError at raises.py:6: not like this" in failure["message"]
    assert job.printed(0) == ""


def test_at_the_deadline_every_rank_says_where_it_is(left: dict[str, Left]) -> None:
    job = left["waits"]
    assert job.statuses == [1, 1]
    (failure,) = job.failures
    assert failure["kind"] == "deadline"
    for rank in range(2):
        assert f"rank {rank}  dist.recv(x, 1 - group.rank())  waits.py:5" in failure["message"]


def test_a_signal_to_one_rank_stops_all_at_the_same_step_with_a_checkpoint(
    left: dict[str, Left],
) -> None:
    job = left["stops"]
    assert job.statuses == [0, 0], job.printed(0) + job.printed(1)
    assert job.record["asked_to_stop"] is True
    assert "damaged.pt: the checkpoint can't be read" in job.printed(0)
    assert sorted(path.name for path in job.folder.glob("*.pt")) == ["damaged.pt", "state.pt"]


def test_only_what_is_inside_recorded_is_in_the_trace(left: dict[str, Left]) -> None:
    assert [len(calls) for calls in happened(left["stops"].trace)] == [1, 1]


def test_a_trace_that_is_cut_holds_what_both_sides_wrote_down(left: dict[str, Left]) -> None:
    job = left["many"]
    assert job.statuses == [0, 0]
    assert job.record["trace_is_cut"] is True
    assert "the trace holds the first 5 calls of each rank" in job.printed(0)
    first, second = happened(job.trace)
    assert [event[0] for event in first] == ["allreduce", "ISEND"] * 2
    assert [event[0] for event in second] == ["allreduce", "IRECV"] * 2
    assert ringside.replay(job.trace, "textbook").makespan_s > 0


def test_calls_in_one_block_are_waited_for_together(left: dict[str, Left]) -> None:
    calls = json.loads(left["coalesced"].printed(0))
    assert [name for name, _ in calls] == [
        *("isend(dst=1)", "irecv(src=1)", "coalesced", "coalesced.wait()"),
        *("all_reduce_coalesced()", ""),
    ]
    assert calls[3][1] == [["wait", [0, 1]]]
    assert calls[4][1][0][:4] == ["collective", "world", 2, "allreduce"]
    assert calls[4][1][0][-1] == 32


def test_what_autograds_threads_call_is_recorded(left: dict[str, Left]) -> None:
    printed = left["without_frames"].printed(0).splitlines()  # a fake group ends DDP's thread badly
    (calls,) = [json.loads(line) for line in printed if line.startswith("[[")]
    assert [call[:2] for call in calls[:2]] == [
        ["all_reduce()", "without_frames.py"],
        ["all_reduce().wait()", "without_frames.py"],
    ]
    assert calls[0][2] == [["collective", "world", 0, "allreduce", 0, 0, [0, 1], 32]]


def test_a_rank_ends_though_ddp_is_the_last_to_hold_a_group_at_work(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE)
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    started = alone | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "PYTHONUNBUFFERED": ""}
    done = subprocess.run(
        [*PYTHON, "-m", "ringside.jobs.real.torch_main", "late.py", "--world-size", "1"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), **started},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "no new line at exit\nfrom C"), done.stderr
    assert json.loads((tmp_path / "run.json").read_text())["world_size"] == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"WORLD_SIZE": "3"}, "asked for 2 ranks, but WORLD_SIZE is 3"),
        ({"MASTER_PORT": ""}, "MASTER_PORT is not set: start the ranks with torchrun"),
    ],
)
def test_a_rank_that_was_started_wrongly_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, str],
    said: str,
) -> None:
    from ringside.jobs.real import torch_main as real_torch_rank

    good = dict.fromkeys(("RANK", "LOCAL_RANK", "MASTER_PORT"), "0")
    for name, value in (good | {"WORLD_SIZE": "2", "MASTER_ADDR": "host"} | change).items():
        monkeypatch.setenv(name, value)
    words = ["rank", "x.py", "--world-size", "2", "--scratch", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    assert real_torch_rank.main() == 2
    assert said in capsys.readouterr().err
    assert said in json.loads((tmp_path / "failure-0.json").read_text())["message"]
