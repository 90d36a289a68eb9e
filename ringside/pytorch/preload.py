"""What the zygote imports for torch ranks, so that a fork has it at once.

Importing these takes 2 s of CPU, forking a process that has them milliseconds. A few operations
are run once, for what libraries look up at their first use (the processor's features from /proc
and /sys, which ranks may not read). No ``backward``: its threads don't survive a fork.
"""

from __future__ import annotations

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # ranks are on the CPU, and alike on every machine

import torch
import torch._dynamo
import torch.distributed.checkpoint.state_dict
import torch.distributed.fsdp
import torch.distributed.pipelining
import torch.distributed.tensor
import torch.distributed.tensor.parallel
import torch.nn.parallel
import torch.optim
import torch.utils.flop_counter

import ringside.pytorch.calls  # noqa: F401


def _warm() -> None:
    torch.set_num_threads(1)
    with torch.no_grad():
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            image = torch.ones(1, 1, 4, 4, dtype=dtype)
            torch.nn.functional.conv2d(image, torch.ones(1, 1, 3, 3, dtype=dtype))
            torch.ones(8, 8, dtype=dtype) @ torch.ones(8, 8, dtype=dtype)
        one = torch.ones(1, 1, 4, 8)
        torch.nn.functional.scaled_dot_product_attention(one, one, one)


_warm()
