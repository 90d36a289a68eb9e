"""How a program of the tutorial joins its ranks, and the record that it leaves for `plots.py`."""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

MEASURED = Path("measured")


def join() -> torch.device:
    """Join the other ranks; return this rank's device.

    Over NCCL where the node has a GPU for each of its ranks, else over gloo on CPUs. The launcher
    has set RANK, WORLD_SIZE and MASTER_ADDR, which torch reads, and LOCAL_RANK: which of its
    node's GPUs a rank takes.
    """
    torch.manual_seed(0)  # all ranks begin with the same weights
    names = ("LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE", "WORLD_SIZE")  # torchrun, srun, one node
    ranks_here = next(int(os.environ[name]) for name in names if os.environ.get(name))
    if ranks_here > torch.cuda.device_count():
        dist.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.set_float32_matmul_precision("high")  # TF32 on tensor cores
    dist.init_process_group("nccl", device_id=device)
    return device


def finish(device: torch.device) -> None:
    """Leave the group when all ranks are here."""
    if device.type == "cuda":
        dist.barrier(device_ids=[device.index])
    else:
        dist.barrier()
    dist.destroy_process_group()


def mean(value: Tensor) -> float:
    """The mean of a number over all ranks."""
    total = value.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def wait(device: torch.device) -> None:
    """Kernels run behind Python's back: wait for them before the clock is read."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def state_bytes(model: nn.Module, optimizer: Optimizer | None = None) -> int:
    """Bytes of weights, gradients and optimizer state on this rank; of a DTensor its own shard."""
    weights = list(model.parameters())
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    states = optimizer.state.values() if optimizer else []
    moments = [value for state in states for value in state.values()]
    tensors = [value for value in (*weights, *gradients, *moments) if isinstance(value, Tensor)]
    own = [value.to_local() if isinstance(value, DTensor) else value for value in tensors]
    return sum(value.numel() * value.element_size() for value in own)


def num_buckets(nbytes: int) -> int:
    """How many all-reduces DDP makes of gradients of so many bytes: its first bucket is small."""
    first, others = 1 << 20, 25 << 20
    return 1 + max(0, -(-(nbytes - first) // others))


def leave(name: str, seconds: list[float], device: torch.device, **facts: Any) -> None:
    """Write `measured/NAME-P.json` on rank 0.

    Args:
        name: program and strategy.
        seconds: of each step on this rank; the slowest rank counts, the first step doesn't.
        facts: what else belongs into the record; `passes`, `bytes` and `can_hide` are what
            `plots.py` needs to know about a step's communication.
    """
    slowest = torch.tensor(seconds, dtype=torch.float64, device=device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    if dist.get_rank() != 0:
        return
    world_size = dist.get_world_size()
    record = {
        "name": name,
        "world_size": world_size,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "step_s": statistics.median(slowest.tolist()[1:] or slowest.tolist()),
        **facts,
    }
    if device.type == "cuda":
        record["peak_bytes"] = torch.cuda.max_memory_allocated(device)
    MEASURED.mkdir(exist_ok=True)
    path = MEASURED / f"{name}-{world_size}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    ranks = "1 rank" if world_size == 1 else f"{world_size} ranks"
    print(f"{path}: {1e3 * record['step_s']:.1f} ms a step on {ranks}", flush=True)
