"""The probe on torch.distributed: a script for `ringside launch`, over gloo or NCCL.

    ringside launch ringside/jobs/calibrate/probe/on_torch.py --gpus-per-node 4 -- nccl

Under NCCL buffers lie on cuda:LOCAL_RANK and CUDA events are the clock.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from ringside.jobs.calibrate.probe.measurements import cores, measure, memory_bytes
from ringside.session.recorder import recorded


class OverTorch:
    """gloo on CPU tensors, NCCL on CUDA tensors."""

    def __init__(self, backend: str, device: torch.device) -> None:
        self.backend, self.device = backend, device
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def about(self) -> dict[str, Any]:
        host = socket.gethostname()
        library = f"torch {torch.__version__}"
        if self.backend == "nccl":
            library += f", NCCL {nccl_version()}"
        properties = torch.cuda.get_device_properties(self.device) if self.on_gpu else None
        hosts = self.gather(host)
        return {
            "transport": self.backend,
            "library": library,
            "device": properties.name if properties else "cpu",
            "host": host,
            "cores": cores(),
            "memory_bytes": properties.total_memory if properties else memory_bytes(hosts),
        }

    def gather(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def barrier(self) -> None:
        dist.barrier()

    def seconds(self, work: Callable[[], object]) -> float:
        if not self.on_gpu:
            start_s = time.perf_counter()
            work()
            return time.perf_counter() - start_s
        event: Any = torch.cuda.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3

    def buffer(self, nbytes: int) -> torch.Tensor:
        if nbytes % 4:
            return torch.zeros(nbytes, dtype=torch.uint8, device=self.device)
        return torch.zeros(nbytes // 4, device=self.device)

    def send(self, buffer: torch.Tensor, dest: int) -> None:
        dist.send(buffer, dest)

    def receive(self, buffer: torch.Tensor, source: int) -> None:
        dist.recv(buffer, source)

    def all_reduce(self, buffer: torch.Tensor) -> None:
        dist.all_reduce(buffer)

    def is_eager(self, nbytes: int, peer: int, patience_s: float) -> bool | None:
        return None  # gloo copies through sockets, NCCL orders on a stream: no threshold to see

    def poll_s(self) -> float | None:
        return None

    def products(self) -> list[tuple[str, int, Callable[[], object]]]:
        products: list[tuple[str, int, Callable[[], object]]] = []
        for dtype in (torch.float32, torch.bfloat16):
            for n in (2048, 4096, 8192) if self.on_gpu else (1024,):
                a = torch.ones((n, n), dtype=dtype, device=self.device)
                out = torch.empty_like(a)
                name = str(dtype).removeprefix("torch.")
                products.append((name, n, partial(torch.mm, a, a, out=out)))
        return products

    def copies(self) -> list[tuple[int, Callable[[], object]]]:
        copies: list[tuple[int, Callable[[], object]]] = []
        for nbytes in (2**20, 2**23, 2**26, *((2**30,) if self.on_gpu else ())):
            a = torch.ones(nbytes // 4, device=self.device)
            copies.append((2 * nbytes, partial(torch.empty_like(a).copy_, a)))
        return copies

    def one_element(self) -> tuple[int, Callable[[], object]]:
        x, count = torch.zeros(1, device=self.device), 1000
        return count, lambda: [x.add_(1.0) for _ in range(count)]


def nccl_version() -> str:
    """As "2.29.7"."""
    nccl: Any = torch.cuda.nccl
    return ".".join(map(str, nccl.version()))


def main(words: Sequence[str] = ()) -> dict[str, Any]:
    """Join the ranks that the launcher started, and measure.

    Args:
        words: "gloo" or "nccl"; none: NCCL where there is a GPU.
    """
    backend = words[0] if words else "nccl" if torch.cuda.is_available() else "gloo"
    if backend == "nccl":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
        torch.set_num_threads(min(cores(), int(os.environ.get("OMP_NUM_THREADS", cores()))))
    ours = not dist.is_initialized()
    if ours:
        dist.init_process_group(backend)
    with recorded():
        pass  # nothing from here on: what writes calls down would be measured with them
    try:
        with torch.no_grad():
            return measure(OverTorch(backend, device))
    finally:
        if ours:
            dist.destroy_process_group()


if __name__ == "__main__":
    __record__ = main(sys.argv[1:])
