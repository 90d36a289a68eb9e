"""More than one GPU: an all-reduce by the library, and a ring written by hand.

    torchrun --nproc-per-node=N benchmarks/on_a_gpu.py --section links --file links.json

For a ring of p ranks the model says 2 (p - 1) (alpha + n / p * beta); alpha and beta are fitted on
the library's times, by least squares of relative errors. The ring by hand sends the same bytes in
as many steps, through one channel: what is missing to the library's rate, its many channels and
kernels give.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
import torch.distributed as dist

from gpu.bench import Bench, Items, Record, nothing


def items(bench: Bench) -> Items:
    """Sizes, for the library and by hand; then the fit."""
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    if world_size == 1:
        yield "all-reduce", nothing("it takes two GPUs or more; this machine has one")
        return
    bench.synchronize()
    dist.init_process_group("nccl" if bench.is_gpu else "gloo")
    sizes = [8 << (2 * k) for k in bench.size(range(15), range(4, 8))]  # 8 B to 2 GiB
    times: dict[str, list[float]] = {"library": [], "by hand": []}
    for nbytes in sizes:
        for name, call in (("library", dist.all_reduce), ("by hand", ring_all_reduce)):
            yield f"{name} {nbytes}", partial(timed, bench, call, nbytes, times[name])
    for name, taken in times.items():
        yield f"fit {name}", partial(fit, sizes, taken, world_size)


def ring_all_reduce(x: torch.Tensor) -> None:
    """Reduce-scatter and all-gather around one ring, chunk by chunk, by isend and irecv."""
    rank, p = dist.get_rank(), dist.get_world_size()
    chunks = list(x.chunk(p))
    received = torch.empty_like(chunks[0])
    for step in range(2 * (p - 1)):
        send, take = (rank - step) % p, (rank - step - 1) % p
        adds = step < p - 1
        target = received[: chunks[take].numel()] if adds else chunks[take]
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, chunks[send], (rank + 1) % p),
                dist.P2POp(dist.irecv, target, (rank - 1) % p),
            ]
        )
        for work in works:
            work.wait()
        if adds:
            chunks[take] += target


def timed(
    bench: Bench, call: Callable[[torch.Tensor], object], nbytes: int, times: list[float]
) -> Record:
    """The slowest rank's median."""
    p = dist.get_world_size()
    numbers = max(nbytes // 4, p) // p * p
    x = torch.ones(numbers, device=bench.device)
    call(x)
    right = bool((x == p).all())
    taken = []
    x.zero_()
    for _ in range(bench.size(20, 5)):
        bench.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        call(x)
        bench.synchronize()
        taken.append(time.perf_counter() - begin)
    slowest = torch.tensor([statistics.median(taken)], device=bench.device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    times.append(float(slowest))
    busy = 2 * (p - 1) / p * numbers * 4
    return {
        "nbytes": numbers * 4, "world_size": p, "right": right,
        "time_s": times[-1], "bus_byte_per_s": busy / times[-1],
    }  # fmt: skip


def fit(sizes: Sequence[int], times: Sequence[float], p: int) -> Record:
    """Alpha and beta of a ring's step."""
    steps = 2 * (p - 1)
    rows = np.array([[steps / t, steps * n / p / t] for n, t in zip(sizes, times, strict=True)])
    (alpha, beta), *_ = np.linalg.lstsq(rows, np.ones(len(times)), rcond=None)
    return {"alpha_s": float(alpha), "beta_s_per_byte": float(beta), "world_size": p}
