"""Training in parallel by torch's own means, for comparison with serial training."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH, STEPS = 24, 3


def model():
    torch.manual_seed(5)
    layers = [nn.Linear(8, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 4)).double()


def train(net, x, y, optimizer, loss_of=None):
    for _ in range(STEPS):
        optimizer.zero_grad()
        ((net(x) - y) ** 2).mean().backward()
        optimizer.step()


def sgd(net):
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def serial(x, y):
    net = model()
    train(net, x, y, sgd(net))
    return list(net.parameters())


def ddp(group, x, y, bucket_mb=0.001, hook=None, accumulate=0, view=False, static=False):
    net = model()
    if group.rank():
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.normal_()  # DDP broadcasts rank 0's
    parallel = DistributedDataParallel(
        net,
        process_group=group,
        bucket_cap_mb=bucket_mb,
        gradient_as_bucket_view=view,
        static_graph=static,
    )
    if hook == "allreduce":
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        parallel.register_comm_hook(group, default_hooks.allreduce_hook)
    elif hook == "own":
        parallel.register_comm_hook(group, mean_hook)
    optimizer = sgd(net)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(accumulate):
            with parallel.no_sync():
                (((parallel(x) - y) ** 2).mean() / (accumulate + 1)).backward()
        (((parallel(x) - y) ** 2).mean() / (accumulate + 1)).backward()
        optimizer.step()
    return list(net.parameters())


def mean_hook(group, bucket):
    """Sum, then divide when the sum has come: a chain of futures inside backward."""
    future = dist.all_reduce(bucket.buffer(), group=group, async_op=True).get_future()
    return future.then(lambda done: done.value()[0] / group.size())


def by_hand(group, x, y):
    """One asynchronous all_reduce per parameter, launched by hooks while backward goes on."""
    net = model()
    works = []

    def launch(parameter):
        parameter.grad /= group.size()
        works.append(dist.all_reduce(parameter.grad, group=group, async_op=True))

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(launch)
    optimizer = sgd(net)
    for _ in range(STEPS):
        optimizer.zero_grad()
        ((net(x) - y) ** 2).mean().backward()
        for work in works:
            work.wait()
        works.clear()
        optimizer.step()
    return list(net.parameters())


def zero_redundancy(group, x, y):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    net = DistributedDataParallel(model(), process_group=group)
    optimizer = ZeroRedundancyOptimizer(
        net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9, process_group=group
    )
    train(net, x, y, optimizer)
    return list(net.parameters())


def fsdp(group, x, y):
    from torch.distributed.fsdp import fully_shard

    mesh = dist.device_mesh.init_device_mesh("cpu", (group.size(),))
    net = model()
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    train(net, x, y, sgd(net))
    return [parameter.full_tensor() for parameter in net.parameters()]


def tensor_parallel(group, x, y):
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = dist.device_mesh.init_device_mesh("cpu", (group.size(),))
    net = model()
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train(net, x, y, sgd(net))
    return [p.full_tensor() if isinstance(p, dist.tensor.DTensor) else p for p in net.parameters()]


def dtensor(group, x):
    """A product of sharded tensors, and redistribution between every two placements."""
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    mesh = dist.device_mesh.init_device_mesh("cpu", (group.size(),))
    rows = distribute_tensor(x, mesh, [Shard(0)])
    columns = rows.redistribute(mesh, [Shard(1)])
    product = columns @ distribute_tensor(x.T.contiguous(), mesh, [Shard(0)])
    assert product.placements == (Partial("sum"),)
    whole = product.redistribute(mesh, [Replicate()]).to_local()
    torch.testing.assert_close(whole, x @ x.T)
    torch.testing.assert_close(columns.full_tensor(), x)


def pipeline(group, x, y, schedule):
    from torch.distributed import pipelining

    net, rank, size = model(), group.rank(), group.size()
    cut = {1: [0, 5], 2: [0, 3, 5], 3: [0, 2, 4, 5]}[size]
    part = net[cut[rank] : cut[rank + 1]]
    stage = pipelining.PipelineStage(part, rank, size, torch.device("cpu"), group=group)
    run = getattr(pipelining, schedule)(
        stage, 4, loss_fn=lambda output, target: ((output - target) ** 2).mean()
    )
    run.step(*([x] if rank == 0 else []), **({"target": y} if rank == size - 1 else {}))
    return [parameter.grad for parameter in part.parameters()]


def whole_gradient(x, y):
    net = model()
    ((net(x) - y) ** 2).mean().backward()
    return [parameter.grad for parameter in net.parameters()]


# -- what is counted -------------------------------------------------------------------------------


def two_layers(group, batch, width):
    """Forward and backward of two square layers, and one addition between them."""
    x = torch.ones(batch, width)
    first, second = (nn.Linear(width, width, bias=False) for _ in range(2))
    out = second(first(x))
    out.sum().backward()


def adam_step(group, width):
    net = nn.Linear(width, width, bias=False)
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)
    net(torch.ones(2, width)).sum().backward()
    optimizer.step()


def temporaries(group, n):
    x = torch.ones(n)
    y = x + x
    del y
    z = x * 2
    buffer = torch.zeros(2 * n)
    dist.all_reduce(buffer, group=group)
    return z


def overlapped(group, bucket_mb):
    """Three backward passes of DDP; torch makes its small buckets after the first."""
    net = nn.Sequential(*[nn.Linear(256, 256, bias=False) for _ in range(4)])
    parallel = DistributedDataParallel(
        net, process_group=group, bucket_cap_mb=bucket_mb, init_sync=False
    )
    for _ in range(3):
        parallel(torch.ones(64, 256)).sum().backward()


def declares(group):
    import ringside

    torch.ones(1000) + 1
    ringside.compute(seconds=0.5, phase="given")


def different_models(group):
    """DDP on a model that has one layer more on rank 1."""
    layers = [nn.Linear(4, 4) for _ in range(2 + group.rank())]
    DistributedDataParallel(nn.Sequential(*layers), process_group=group)


def fewer_steps(group, steps=1):
    """Rank 1 ends one backward pass early, and the others wait for it in the reducer."""
    net = DistributedDataParallel(nn.Linear(4, 4), process_group=group)
    for _ in range(steps if group.rank() == 1 else steps + 1):
        net(torch.ones(2, 4)).sum().backward()


def no_sync_around_backward_alone(group):
    """Too late: the forward pass decides, so each of the four microbatches is reduced."""
    net = DistributedDataParallel(nn.Linear(100, 100, bias=False), process_group=group)
    for micro in range(4):
        loss = net(torch.ones(8, 100)).sum()
        with net.no_sync() if micro < 3 else contextlib.nullcontext():
            loss.backward()


def in_rows(group):
    """Collectives in two groups, and in one of them alone."""
    rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    x = torch.ones(1000)
    for _ in range(3):
        dist.all_reduce(x, group=rows[group.rank() // 2])
    if group.rank() < 2:
        dist.all_gather_into_tensor(torch.ones(2000), x, group=rows[0])
    for n in (5, 7):
        dist.all_reduce(x[:n])
    dist.barrier()


def uneven(group, bucket_mb, hook):
    """Rank r has r + 1 batches, inside join; ranks that have none left add zeros to the mean."""
    serial, net = model(), model()
    parallel = DistributedDataParallel(net, process_group=group, bucket_cap_mb=bucket_mb)
    if hook:
        parallel.register_comm_hook(group, mean_hook)
    optimizer, optimizer_of_all = sgd(net), sgd(serial)
    with parallel.join():
        for step in range(group.rank() + 1):
            optimizer.zero_grad()
            parallel(batch(group.rank(), step)).square().sum().backward()
            optimizer.step()
    for step in range(group.size()):
        optimizer_of_all.zero_grad()
        losses = [serial(batch(r, step)).square().sum() for r in range(step, group.size())]
        (sum(losses) / group.size()).backward()
        optimizer_of_all.step()
    for mine, of_all in zip(net.parameters(), serial.parameters(), strict=True):
        torch.testing.assert_close(mine, of_all, rtol=1e-12, atol=1e-14)


def batch(rank, step):
    return torch.linspace(-1, 1 + rank + 3 * step, 16, dtype=torch.float64).view(2, 8)


def skips_a_batch(group):
    """Rank 1 leaves out one backward pass, and reduces the loss of the others in its stead."""
    net = DistributedDataParallel(nn.Linear(4, 4), process_group=group)
    for step in range(3):
        loss = net(torch.ones(2, 4)).sum()
        if (group.rank(), step) != (1, 2):
            loss.backward()
        total = loss.detach().clone()
        dist.all_reduce(total)


def unused_layer(group):
    """A layer that no loss depends on."""
    net = nn.ModuleDict({"used": nn.Linear(4, 4), "spare": nn.Linear(4, 4)})
    net.forward = lambda x: net["used"](x)
    parallel = DistributedDataParallel(net, process_group=group)
    for _ in range(2):
        parallel(torch.ones(2, 4)).sum().backward()


def attends(group, batch, heads, length, width):
    """Torch's fused attention, forward and backward."""
    q, k, v = (torch.ones(batch, heads, length, width, requires_grad=True) for _ in range(3))
    torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
