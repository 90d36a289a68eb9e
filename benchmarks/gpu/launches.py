"""What it costs to launch a kernel, one by one and as a captured graph.

A chain of kernels that do almost nothing: what it takes is launches. A graph is launched once for
all of them. The time until the launching thread is free again shows who is the slower: Python and
the driver, or the GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch

from gpu.bench import Bench, Items, Record, nothing
from gpu.block import Block

KERNELS = 1000


def items(bench: Bench) -> Items:
    """Chains, a call and its end, and a small layer."""
    yield "chain", partial(chain, bench)
    yield "there and back", partial(there_and_back, bench)
    graphs = "a graph is captured on a GPU only"
    yield "chain, graph", partial(captured_chain, bench) if bench.is_gpu else nothing(graphs)
    for tokens in bench.size((64, 512, 4096), (8,)):
        yield f"layer {tokens}", partial(layer, bench, tokens)


def small_kernels(bench: Bench, x: torch.Tensor) -> None:
    """A chain; each waits for the one before."""
    for _ in range(bench.size(KERNELS, 20)):
        x.add_(1.0)


def chain(bench: Bench) -> Record:
    """Time of a kernel in a chain, and of its launch alone."""
    x = bench.normal(1024, dtype=torch.float32)
    number = bench.size(KERNELS, 20)
    record = bench.time(partial(small_kernels, bench, x))
    launches = []
    for _ in range(10):
        bench.synchronize()
        begin = time.perf_counter()
        small_kernels(bench, x)
        launches.append((time.perf_counter() - begin) / number)
        bench.synchronize()
    return {
        "kernels": number,
        "kernel_s": record["time_s"] / number,
        "launching_s": sorted(launches)[len(launches) // 2],
    }


def there_and_back(bench: Bench) -> Record:
    """A kernel and the wait for it: what each `.item()` in a training loop costs."""
    x = bench.normal(1, dtype=torch.float32)
    times = []
    for _ in range(bench.size(200, 5)):
        bench.synchronize()
        begin = time.perf_counter()
        x.add_(1.0)
        bench.synchronize()
        times.append(time.perf_counter() - begin)
    return {"time_s": sorted(times)[len(times) // 2], "fastest_s": min(times)}


def captured(run: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """Its kernels as a graph; they run some times before, as capturing wants it."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def captured_chain(bench: Bench) -> Record:
    """The same chain, replayed."""
    x = bench.normal(1024, dtype=torch.float32)
    graph = captured(partial(small_kernels, bench, x))
    before = x.clone()
    graph.replay()
    torch.cuda.synchronize()
    assert bool((x - before).gt(KERNELS / 2).all()), "the replayed graph added nothing"
    record = bench.time(graph.replay)
    return {"kernels": KERNELS, "kernel_s": record["time_s"] / KERNELS}


def layer(bench: Bench, tokens: int) -> Record:
    """Forward and backward of a layer with few tokens, both ways."""
    hidden, num_heads = bench.size((1024, 16), (32, 2))
    model = Block(hidden, num_heads).to(bench.device, torch.bfloat16)
    x = bench.normal(1, tokens, hidden).requires_grad_()

    def run() -> None:
        model(x).sum().backward()

    record: Record = {"tokens": tokens, "hidden": hidden}
    record["eager_s"] = bench.time(run)["time_s"]
    if bench.is_gpu:
        model.zero_grad(set_to_none=True)
        x.grad = None
        record["graph_s"] = bench.time(captured(run).replay)["time_s"]
    return record
