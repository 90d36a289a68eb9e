"""A script as torchrun starts it: the same file runs on gloo."""

import gc
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
assert rank == int(os.environ["RANK"]) and size == int(os.environ["WORLD_SIZE"])
x = torch.arange(5.0) * (rank + 1)
dist.all_reduce(x)
got = torch.empty(2)
operations = [
    dist.P2POp(dist.isend, torch.full((2,), float(rank)), (rank + 1) % size),
    dist.P2POp(dist.irecv, got, (rank - 1) % size),
]
for work in dist.batch_isend_irecv(operations):
    work.wait()
group = dist.new_group([0, size - 1])
y = torch.tensor([rank])
if rank in (0, size - 1):
    dist.all_reduce(y, group=group)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1, bias=False).double())
with torch.no_grad():
    model.module.weight.fill_(0.5)
model(torch.full((2, 3), float(rank), dtype=torch.float64)).sum().backward()
gradient = model.module.weight.grad
gathered = [None] * size
dist.all_gather_object(gathered, rank)
values = [rank, x.tolist(), got.tolist(), int(y), gradient.tolist(), gathered]
os.write(1, f"values {values}\n".encode())  # in one piece: three ranks write at once
dist.barrier()
del model  # the reducer holds the group: torch may wait for ever if it is the last to let go
gc.collect()
dist.destroy_process_group()
