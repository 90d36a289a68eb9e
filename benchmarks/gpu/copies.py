"""Copies alone, and a product beside copies: who slows whom.

    copy engine   between host and device; the multiprocessors take no part
    memcpy        from device to device, by the driver
    kernel        by k blocks of threads, as a communication library copies: each takes a place on
                  a multiprocessor that the product then lacks

A product's time beside a copy is measured while copies run from before its begin until after its
end; where they ended earlier the record says so (``covered``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from gpu.bench import Bench, Items, Record, nothing

try:
    import triton
    import triton.language as tl
except ImportError:  # torch for CPUs comes without
    triton = None

BLOCKS = (16, 32, 8, 4, 64, 132, 2)

if triton is not None:

    @triton.jit(do_not_specialize=["times"])  # else each number is compiled anew, while timed
    def copy_kernel(source, target, length, times, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
        """Each block takes every k-th chunk, so many times over."""
        step = tl.num_programs(0) * CHUNK
        for _ in range(times):
            for begin in range(tl.program_id(0) * CHUNK, length, step):
                at = begin + tl.arange(0, CHUNK)
                tl.store(target + at, tl.load(source + at, mask=at < length), mask=at < length)


Copy = Callable[[int], None]  # takes how often


def items(bench: Bench) -> Items:
    """Bandwidths, then a product beside each."""
    copies = ("memcpy", "host to device", "device to host", "both ways")
    for name in bench.size(("add", *copies, "host to device, pageable"), ("memcpy",)):
        yield name, partial(alone, bench, name)
    reason = "a CPU has no copy engine, and its product takes all cores"
    if not bench.is_gpu:
        yield "beside", nothing(reason)
        return
    for blocks in BLOCKS:
        yield f"kernel {blocks}", partial(alone, bench, f"kernel {blocks}")
    for name in (*copies, "add", *(f"kernel {blocks}" for blocks in BLOCKS)):
        yield f"product beside {name}", partial(beside, bench, name)


def make(bench: Bench, name: str) -> tuple[Copy, int]:
    """A copy and the bytes that it moves at a time."""
    nbytes = bench.size(1 << 29, 1 << 16)

    def host(*, pinned: bool = True) -> torch.Tensor:
        return torch.ones(nbytes // 4, pin_memory=pinned)

    def often(copy: Callable[[], object]) -> Copy:
        def run(times: int) -> None:
            for _ in range(times):
                copy()

        return run

    a, b = (bench.normal(nbytes // 4, dtype=torch.float32) for _ in range(2))
    if name == "memcpy":
        return often(partial(b.copy_, a)), nbytes
    if name == "add":
        return often(partial(torch.add, a, 1.0, out=b)), nbytes
    if name.startswith("kernel"):
        grid = (int(name.split()[1]),)
        # One launch for all: its blocks keep their places, as a long collective's do.
        return lambda times: copy_kernel[grid](
            a, b, a.numel(), times, CHUNK=8192, num_warps=16
        ), nbytes  # fmt: skip
    if name == "device to host":
        return often(partial(host().copy_, a, non_blocking=True)), nbytes
    if name.startswith("host to device"):
        source = host(pinned=not name.endswith("pageable"))
        return often(partial(a.copy_, source, non_blocking=True)), nbytes
    there, back, other = host(), host(), torch.cuda.Stream()

    def both(times: int) -> None:
        other.wait_stream(torch.cuda.current_stream())
        for _ in range(times):
            a.copy_(there, non_blocking=True)
            with torch.cuda.stream(other):
                back.copy_(b, non_blocking=True)
        torch.cuda.current_stream().wait_stream(other)

    return both, 2 * nbytes


def alone(bench: Bench, name: str) -> Record:
    """Bytes a second; what is read and written again counts once."""
    copy, nbytes = make(bench, name)
    record = bench.time(partial(copy, 1), spend_s=0.2)
    return {"nbytes": nbytes, "byte_per_s": nbytes / record["time_s"], **record}


def beside(bench: Bench, name: str) -> Record:
    """A product alone and beside copies; the copies' rate alone and beside it."""
    n, products = 8192, 30
    pairs = [(bench.normal(n, n), bench.normal(n, n)) for _ in range(2)]
    c = torch.empty(n, n, device=bench.device, dtype=torch.bfloat16)
    copy, nbytes = make(bench, name)
    aside = torch.cuda.Stream()

    def multiply() -> None:
        for number in range(products):
            torch.mm(*pairs[number % 2], out=c)

    def timed(run: Callable[[], Any], stream: torch.cuda.Stream) -> tuple[Any, Any]:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            begin.record()
            run()
            end.record()
        return begin, end

    multiply()
    copy(1)
    torch.cuda.synchronize()
    main = torch.cuda.current_stream()
    begin, end = timed(multiply, main)
    torch.cuda.synchronize()
    alone_s = begin.elapsed_time(end) / 1e3
    copy_s = bench.time(partial(copy, 1), spend_s=0.1)["time_s"]
    number = int(2.5 * alone_s / copy_s) + 2

    copies_begin, copies_end = timed(partial(copy, number), aside)
    time.sleep(0.002)  # the copies run before the products are launched
    begin, end = timed(multiply, main)
    torch.cuda.synchronize()
    beside_s = begin.elapsed_time(end) / 1e3
    copies_s = copies_begin.elapsed_time(copies_end) / 1e3
    flop = 2 * n**3 * products
    return {
        "alone_s": alone_s / products,
        "beside_s": beside_s / products,
        "slower": beside_s / alone_s,
        "flop_per_s": flop / alone_s,
        "beside_flop_per_s": flop / beside_s,
        "copy_alone_byte_per_s": nbytes / copy_s,
        "copy_mean_byte_per_s": nbytes * number / copies_s,
        "covered": begin.elapsed_time(copies_end) > 0.98 * begin.elapsed_time(end),
        "copies_ended_after_s": begin.elapsed_time(copies_end) / 1e3,
    }
