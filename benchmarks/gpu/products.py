"""Matrix products by size and type, and what rounding does to them.

    C = A @ B, all n x n: 2 n^3 operations

fp32 is without tensor cores; tf32 is fp32 whose factors lose mantissa in the tensor cores; fp8 is
e4m3 times e4m3 with one scale a matrix, and bf16 comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from gpu.bench import Bench, Items, Record

SIZES = (8192, 4096, 2048, 1024, 512, 16384)
TYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}
# Of a layer of hidden size 4096 with 8192 tokens: rows, inner, columns.
LAYER = {"qkv": (8192, 4096, 12288), "up": (8192, 4096, 16384), "down": (8192, 16384, 4096)}
FAST, EXACT = "fp8 fast", "fp8"  # how partial sums are kept: inside the tensor cores, or in fp32


def items(bench: Bench) -> Items:
    """Products of squares, then those of a layer, then errors."""
    for n in bench.size(SIZES, (64, 32)):
        for kind in ("bf16", EXACT, FAST, "tf32", "fp32"):
            if n <= 8192 or kind in ("bf16", EXACT, FAST):
                yield f"{kind} {n}", partial(timed, bench, kind, n, n, n)
    for name, shape in LAYER.items():
        shape = bench.size(shape, tuple(size // 128 for size in shape))
        for kind in ("bf16", FAST):
            yield f"{kind} {name}", partial(timed, bench, kind, *shape)
    for kind in (*TYPES, EXACT, FAST):
        yield f"{kind} error", partial(error, bench, kind, bench.size(1024, 32))


def factors(bench: Bench, kind: str, m: int, k: int, n: int) -> tuple[torch.Tensor, ...]:
    """A and B of random numbers; fp8 wants B by columns."""
    if kind in TYPES:
        return bench.normal(m, k, dtype=TYPES[kind]), bench.normal(k, n, dtype=TYPES[kind])
    narrow = torch.float8_e4m3fn
    return bench.normal(m, k, dtype=narrow), bench.normal(n, k, dtype=narrow).t()


def product(bench: Bench, kind: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """What multiplies two factors of a kind."""
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    if kind in TYPES:
        return torch.mm
    one = torch.ones((), device=bench.device)
    return partial(
        torch._scaled_mm, scale_a=one, scale_b=one, out_dtype=torch.bfloat16,
        use_fast_accum=kind == FAST,
    )  # fmt: skip


def timed(bench: Bench, kind: str, m: int, k: int, n: int) -> Record:
    """Time of a product and the rate that follows."""
    inputs = bench.sets(lambda: factors(bench, kind, m, k, n))
    record = bench.time(product(bench, kind), inputs, spend_s=0.2)
    flop = 2 * m * k * n
    return {"m": m, "k": k, "n": n, "flop": flop, "flop_per_s": flop / record["time_s"], **record}


def error(bench: Bench, kind: str, n: int) -> Record:
    """The relative error (norm) against the product of the unrounded factors in float64."""
    a, b = (bench.normal(n, n, dtype=torch.float32) for _ in range(2))
    if kind in TYPES:
        c = product(bench, kind)(a.to(TYPES[kind]), b.to(TYPES[kind]))
    else:
        narrow = torch.float8_e4m3fn
        c = product(bench, kind)(a.to(narrow), b.t().contiguous().to(narrow).t())
    exact = a.double() @ b.double()
    return {"n": n, "relative_error": float((c.double() - exact).norm() / exact.norm())}
