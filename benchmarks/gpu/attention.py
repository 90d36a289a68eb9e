"""FlashAttention's rate against the length of the sequence.

    forward: 4 s^2 h operations a sequence, causal half of them; backward: 2.5 times as many

Backward computes the scores once more: five products against two of forward.
"""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu.bench import Bench, Items, Record

LENGTHS = (2048, 8192, 512, 32768, 1024, 4096, 16384)
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


def items(bench: Bench) -> Items:
    """Lengths by backend; a CPU has the first only."""
    for sequence in bench.size(LENGTHS, (32, 64)):
        for backend in bench.size(tuple(BACKENDS), ("flash",)):
            for causal in (True, False):
                name = f"{backend} {sequence}{' causal' if causal else ''}"
                yield name, partial(rate, bench, backend, sequence, causal)


def rate(bench: Bench, backend: str, sequence: int, causal: bool) -> Record:
    """Forward alone, and forward with backward."""
    num_heads, width = bench.size((32, 128), (2, 16))
    tokens = bench.size(16384, 64)
    batch = max(1, tokens // sequence)
    shape = (batch, num_heads, sequence, width)
    q, k, v, outer = (bench.normal(*shape) for _ in range(4))

    def forward() -> torch.Tensor:
        with sdpa_kernel(BACKENDS[backend]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def both() -> None:
        torch.autograd.grad(forward(), (q, k, v), outer)

    with torch.no_grad():
        forward_s = bench.time(forward, spend_s=0.1)["time_s"]
    for part in (q, k, v):
        part.requires_grad_()
    both_s = bench.time(both, spend_s=0.15)["time_s"]
    flop = 4 * batch * num_heads * sequence**2 * width * (0.5 if causal else 1.0)
    return {
        "backend": backend, "sequence": sequence, "batch": batch, "causal": causal,
        "num_heads": num_heads, "width": width, "flop": flop,
        "forward_s": forward_s, "forward_flop_per_s": flop / forward_s,
        "both_s": both_s, "both_flop_per_s": 3.5 * flop / both_s,
    }  # fmt: skip
