"""Every kind of call once, as a script for two ranks; simulated and real runs must look alike."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group()
rank = dist.get_rank()
other = 1 - rank
group = dist.new_group([0, 1])
x, y = torch.arange(6.0) + rank, torch.empty(6)

# Collectives, blocking or not, on both groups.
dist.all_reduce(x)
dist.all_reduce(x, group=group, async_op=True).wait()
dist.broadcast(x, 1)
dist.reduce(x, 1)
dist.all_gather([torch.empty(6), torch.empty(6)], x)
dist.reduce_scatter(y, [x, x + 1])
dist.gather(x, [torch.empty(6), torch.empty(6)] if rank == 1 else None, dst=1)
dist.scatter(y, [x, x + 1] if rank == 1 else None, src=1)
dist.all_to_all_single(
    torch.empty(6), x, [2 + 2 * rank, 4 - 2 * rank], [2 + 2 * rank, 4 - 2 * rank]
)
dist.barrier()
with torch.inference_mode():
    dist.all_reduce(torch.ones(3))
objects = [None, None]
dist.all_gather_object(objects, f"rank {rank}")
assert objects == ["rank 0", "rank 1"]

# Messages.
if rank == 0:
    dist.send(x, 1, tag=3)
    dist.send(x, 1, group=group)
else:
    dist.recv(y, 0, tag=3)
    assert dist.recv(y, group=group) == 0  # from anybody
exchange = [dist.P2POp(dist.isend, x[:4], other), dist.P2POp(dist.irecv, y[:4], other)]
for work in dist.batch_isend_irecv(exchange):
    work.wait()

# The reducer's calls come from C++, DTensor's from functional collectives.
torch.manual_seed(rank)
layers = [torch.nn.Linear(4, 4) for _ in range(2)]
network = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=1e-4)
for _ in range(2):
    network(torch.ones(2, 4)).sum().backward()
mesh = init_device_mesh("cpu", (2,))
whole = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)]).redistribute(mesh, [Replicate()])
assert whole.to_local().sum() == 16
dist.destroy_process_group()
