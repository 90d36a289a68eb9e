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

BY_ACCELERATOR = """
    import os, torch, torch.distributed as dist, torch.nn as nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    from torch.utils.data import DataLoader, TensorDataset
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == 2
    torch.manual_seed(0)
    rank = int(os.environ["LOCAL_RANK"])
    device = torch.device(f"{torch.accelerator.current_accelerator()}:{rank}")
    torch.accelerator.set_device_index(rank)
    dist.init_process_group(dist.get_default_backend_for_device(device), device_id=device)
    model = nn.Linear(4, 2).to(rank)
    optimizer = torch.optim.AdamW(model.parameters())
    data = TensorDataset(torch.arange(16.0).view(4, 4))
    for num_workers in (0, 1):
        for x, in DataLoader(data, batch_size=4, pin_memory=True, num_workers=num_workers):
            model(x.to(rank)).sum().backward()
            optimizer.step()
    mesh = init_device_mesh(torch.accelerator.current_accelerator().type, (2,))
    split = parallelize_module(nn.Linear(4, 2).to(rank), mesh, ColwiseParallel())
    split(torch.ones(1, 4, device=rank)).sum().backward()
    total = torch.zeros(1, device=rank) + split.weight.grad.to_local().sum()
    torch.accelerator.synchronize()
    print(total.item(), model.weight.grad.tolist(), torch.accelerator.current_device_index())
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


def test_a_device_may_be_a_number_or_the_accelerator(program: Path) -> None:
    program.write_text(textwrap.dedent(BY_ACCELERATOR))
    with Session(program.parent, pretend_cuda=True) as session:
        result = session.call("train.py", 2).raise_for_error()
    twice = [48.0, 56.0, 64.0, 72.0]  # of the columns' sums, by both loaders
    assert result.output == [f"4.0 {[twice] * 2} {rank}\n" for rank in range(2)]


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
