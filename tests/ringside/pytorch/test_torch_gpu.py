"""What one GPU can show of real ranks: NCCL with one rank, gloo with two on the same device."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ringside import Trace
from ringside.trace import Kind

ROOT = Path(__file__).parents[3]
SOLUTIONS = ROOT / "solutions"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="needs a CUDA device"),
]

MODULES = {
    "sgd_torch": ("a02_sgd/checks/inside_torch.py:measured_step", "--width 512"),
    "ring_torch": ("a03_allreduce/checks/inside_torch.py:all_reduce", ""),
    "step_torch": ("a04_data_parallel/checks/inside_torch.py:train_step", ""),
    "ddp_torch": ("a05_ddp/checks/inside_torch.py:measured_ddp", ""),
    "diloco_torch": (
        "a06_asynchrony/checks/inside_torch.py:diloco_trained",
        "--num-steps 5 --period 2",
    ),
    "compress_torch": (
        "a06_asynchrony/checks/inside_torch.py:compressed",
        "--shape 8,12 --approx-rank 2",
    ),
    "zero3_torch": ("a07_sharding/checks/inside_torch.py:train", "--widths 64,256,64"),
    "hsdp_torch": ("a07_sharding/checks/inside_torch.py:hsdp", "--replicas 1"),
    "linear_torch": ("a08_tensor_parallel/checks/inside_torch.py:measured_pair", "--widths 64,256"),
    "pipeline_torch": ("a09_pipeline/checks/inside_torch.py:measured_pipeline", ""),
    "stash_torch": (
        "a10_pipedream/checks/inside_torch.py:trained",
        "--batch-sizes 2,3,1",
    ),
    "conv_torch": ("a11_spatial/checks/inside_torch.py:convolved", "--kernel 5"),
    "ulysses_torch": ("a11_spatial/checks/inside_torch.py:dealt_out", "--kv-heads 2"),
    "ring_attention_torch": ("a11_spatial/checks/inside_ring_torch.py:ring", "--causal True"),
    "zigzag_torch": ("a11_spatial/checks/inside_ring_torch.py:zigzag", "--heads 4"),
    "train3d_torch": ("a12_hybrid/checks/inside_torch.py:trained", ""),
    "decode_torch": ("a13_inference/checks/inside_torch.py:measured_tokens", "--tokens 3"),
    "moe_torch": ("a14_experts/checks/inside_torch.py:layer", "--d 5"),
}
SCRIPT = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ringside
from ringside import checkpoint

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl", device_id=device)
model = DistributedDataParallel(torch.nn.Linear(2048, 2048).to(device))
x = torch.randn(2048, 2048, device=device)
for step in range(3):
    with ringside.recorded():
        model(x).sum().backward()
assert not checkpoint.asked()
checkpoint.save("state.pt", model.module.state_dict())
assert checkpoint.load("state.pt")["weight"].device.type == "cpu"
dist.destroy_process_group()
"""


def launched(
    folder: Path, target: str, ranks: int, backend: str, *words: str
) -> tuple[dict[str, Any], Trace]:
    """Run real ranks by torchrun; the record and the trace that they leave."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    module = ["ringside.jobs.real.torch_main"]
    own = ["--world-size", str(ranks), "--backend", backend, "--deadline-s", "90"]
    done = subprocess.run(
        [*torchrun, f"--nproc-per-node={ranks}", "-m", "--", *module, target, *own, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "run.json").read_text()), Trace.load(folder / "run.trace.gz")


@pytest.mark.parametrize("name", MODULES)
def test_a_torch_module_is_right_on_a_gpu_over_nccl(tmp_path: Path, name: str) -> None:
    target, words = MODULES[name]
    given = ["--length", "64", "--", *words.split()]
    record, trace = launched(tmp_path, str(SOLUTIONS / target), 1, "nccl", *given)
    (measured,) = record["measurements"]
    assert measured["values"] == "right"
    assert record["devices"][0].startswith("cuda:0 ")
    assert record["kind"] == "nccl" and record["nccl"]
    assert all(0 < time_s < 60 for time_s in measured["times_s"])
    assert any(op.kind == Kind.COMPUTE for op in trace.ops[0])


def test_two_ranks_of_gloo_share_a_gpu(tmp_path: Path) -> None:
    target = str(SOLUTIONS / MODULES["step_torch"][0])
    record, trace = launched(tmp_path, target, 2, "gloo", "--device", "cuda", "--length", "64")
    assert record["measurements"][0]["values"] == "right"
    assert len({device.split()[0] for device in record["devices"]}) == 1
    assert [op.detail[0] for op in trace.ops[0] if op.kind == Kind.COLLECTIVE] == ["allreduce"]


def test_a_scripts_times_are_those_of_the_gpu(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    record, trace = launched(tmp_path, "script.py", 1, "nccl")
    reductions = [op for op in trace.ops[0] if op.kind == Kind.COLLECTIVE]
    assert {op.detail[0] for op in reductions} == {"allreduce"}
    # Three products of 2048^3 take a GPU at least some microseconds, whenever it gets to them.
    computed_s = sum(op.detail[2] for op in trace.ops[0] if op.kind == Kind.COMPUTE) / 1e12
    assert 3 * 2 * 2048**3 / 1e15 < computed_s <= record["makespan_s"]
