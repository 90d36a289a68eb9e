"""Programs for GPUs: run on CPU tensors, or told how."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from ringside.session.session import Session

PROGRAM = """
    import os, torch, torch.distributed as dist, torch.nn as nn
    from torch.nn.parallel import DistributedDataParallel as DDP
    assert torch.cuda.is_available()
    torch.manual_seed(0)
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    model = DDP(nn.Linear(16, 4).to(device), device_ids=[rank], output_device=rank)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for step in range(2):
        x = torch.randn(8, 16).pin_memory().cuda(rank, non_blocking=True)
        y = torch.randint(0, 4, (8,), device="cuda")
        assert x.is_cuda
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.device("cuda"):
        total = torch.ones(1) * rank
        dist.all_reduce(total)
    end.record()
    torch.cuda.synchronize()
    torch.save(model.module.state_dict(), f"model-{rank}.pt")
    loaded = torch.load(f"model-{rank}.pt", map_location=f"cuda:{rank}")
    assert torch.equal(loaded["weight"], model.module.weight)
    print(total.item(), start.elapsed_time(end) > 0, torch.cuda.current_device())
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return path


def test_a_program_for_gpus_runs_on_cpu_tensors(program: Path) -> None:
    with Session(program.parent, pretend_cuda=True) as session:
        result = session.call("train.py", 2).raise_for_error()
    assert result.output == ["1.0 True 0\n", "1.0 True 1\n"]
    assert min(result.num_flops()) > 0


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.set_device(0)",
        "torch.ones(1).cuda()",
        "torch.ones(1, device='cuda')",
        "torch.cuda.synchronize()",
        "DDP(torch.nn.Linear(1, 1), device_ids=[0])",
    ],
)
def test_without_the_flag_one_sentence_names_it(program: Path, line: str) -> None:
    program.write_text(
        "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
        f"torch.distributed.init_process_group('nccl')\n{line}\n"
    )
    with Session(program.parent) as session:
        error = session.call("train.py", 1).error
    assert "`ringside run --pretend-cuda` runs a program for GPUs on CPU tensors" in str(error)
