"""What the zygote imports for torch ranks, so that a fork has it at once.

Importing these takes 2 s of CPU, forking a process that has them milliseconds. A few operations
are run once, for what libraries look up at their first use (the processor's features from /proc
and /sys, which ranks may not read). A few steps of training follow, as ``ranks.warm_up`` goes
through messages: what Python and torch learn in them would be a quarter of each rank's first call.
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
from ringside.network.echo import echoing_link
from ringside.pytorch.counting import Meter

_ROUNDS = 6


def _warm() -> None:
    torch.manual_seed(0)  # it reads the files of its callers, to tell where it was called
    with torch.no_grad():
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            image = torch.ones(1, 1, 4, 4, dtype=dtype)
            torch.nn.functional.conv2d(image, torch.ones(1, 1, 3, 3, dtype=dtype))
            torch.ones(8, 8, dtype=dtype) @ torch.ones(8, 8, dtype=dtype)
        one = torch.ones(1, 1, 4, 8)
        torch.nn.functional.scaled_dot_product_attention(one, one, one)


def _train() -> None:
    """Steps of two optimizers, with what programs do to gradients, counted as in a rank."""
    with Meter(echoing_link()):
        for optimizer_of in (torch.optim.SGD, torch.optim.AdamW) * _ROUNDS:
            model = torch.nn.Sequential(
                torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)
            )
            optimizer = optimizer_of(model.parameters(), lr=0.1)
            loss = torch.nn.functional.mse_loss(model(torch.randn(4, 8)), torch.randn(4, 4))
            torch.autograd.backward([loss])
            flat = torch.nn.utils.parameters_to_vector(model.parameters())
            torch.split(flat, len(flat) // 2)[0].mul(0.5).add_(1.0).clone().detach()
            optimizer.step()
            loss.item()
            optimizer.zero_grad()


torch.set_num_threads(1)
with torch.random.fork_rng(devices=[]):
    _warm()
    _train()
