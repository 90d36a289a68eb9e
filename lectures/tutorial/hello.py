"""Who is here: every rank's host, place and device, and one all-reduce to prove that they meet."""

from __future__ import annotations

import os
import socket

import torch
import torch.distributed as dist
from record import finish, join

device = join()
rank, world_size = dist.get_rank(), dist.get_world_size()
ones = torch.ones((), device=device)
dist.all_reduce(ones)
name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
print(
    f"rank {rank} of {world_size} on {socket.gethostname()}, number {os.environ['LOCAL_RANK']} "
    f"there, computes on {device} ({name}); {ones.item():.0f} ranks answered",
    flush=True,
)
finish(device)
