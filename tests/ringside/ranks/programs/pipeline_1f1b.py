"""A pipeline under the schedule 1F1B, a stage a rank: isend, irecv, and autograd in between."""

import torch
import torch.distributed as dist
from torch import nn

NUM_MICROBATCHES, ROWS, WIDTH = 6, 4, 8

dist.init_process_group("gloo")
rank, num_stages = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
stage = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
batch = torch.randn(NUM_MICROBATCHES, ROWS, WIDTH, generator=torch.Generator().manual_seed(9))
first, last = rank == 0, rank == num_stages - 1
sent, saved, losses = [], [], []


def forward(microbatch):
    x = batch[microbatch].clone() if first else torch.empty(ROWS, WIDTH)
    if not first:
        dist.irecv(x, rank - 1).wait()
        x.requires_grad_()
    y = stage(x)
    if not last:
        sent.append(dist.isend(y.detach(), rank + 1))
    saved.append((x, y))


def backward():
    x, y = saved.pop(0)
    if last:
        losses.append(y.square().mean())
        losses[-1].backward()
    else:
        gradient = torch.empty_like(y)
        dist.irecv(gradient, rank + 1).wait()
        y.backward(gradient)
    if not first:
        sent.append(dist.isend(x.grad, rank - 1))


warm_up = min(num_stages - rank - 1, NUM_MICROBATCHES)
for microbatch in range(warm_up):
    forward(microbatch)
for microbatch in range(warm_up, NUM_MICROBATCHES):
    forward(microbatch)
    backward()
for _ in range(warm_up):
    backward()
for request in sent:
    request.wait()
norm = torch.stack([p.grad.norm() for p in stage.parameters()]).norm().item()
print(f"stage {rank}: gradients of norm {norm:.5f}, losses {sum(losses, torch.zeros(())):.5f}")
dist.destroy_process_group()
