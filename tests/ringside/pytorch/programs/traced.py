"""Programs that are traced on fake tensors, and programs that can't be."""

import torch
import torch.distributed as dist
from torch import nn


def everything(group, n):
    """Every call whose record could differ between fake and real tensors."""
    rank, size = group.rank(), group.size()
    x = torch.ones(n)
    got = torch.empty(n)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, x, (rank + 1) % size, tag=3),
            dist.P2POp(dist.irecv, got, (rank - 1) % size, tag=3),
        ]
    )
    for work in works:
        work.wait()
    if rank == 0:
        dist.send(got.double(), 1)
    elif rank == 1:
        dist.recv(torch.empty(n, dtype=torch.float64), 0)
    pair = dist.new_group([0, 1])
    if rank < 2:
        dist.broadcast(x, 1, group=pair)
        dist.all_reduce(x, op=dist.ReduceOp.MAX, group=pair)
    net = nn.Linear(n, n)
    net(got).sum().backward()
    work = dist.all_reduce(net.weight.grad, async_op=True)
    hidden = x.reshape(1, n) @ net.weight
    work.wait()
    dist.reduce(x, 1, op=dist.ReduceOp.AVG)
    dist.all_gather([torch.empty(n) for _ in range(size)], x)
    dist.all_gather_into_tensor(torch.empty(size * n), x)
    dist.gather(x, [torch.empty(n) for _ in range(size)] if rank == 0 else None, dst=0)
    dist.scatter(x, [torch.ones(n) for _ in range(size)] if rank == 1 else None, src=1)
    dist.reduce_scatter_tensor(torch.empty(n), torch.ones(size * n))
    dist.reduce_scatter(torch.empty(n), [torch.ones(n) for _ in range(size)])
    dist.all_to_all_single(torch.empty(size * n), torch.ones(size * n))
    dist.all_to_all(
        [torch.empty(source + 1) for source in range(size)],
        [torch.ones(rank + 1) for _ in range(size)],
    )
    dist.all_reduce(x.bfloat16())
    dist.barrier()
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)
    optimizer.step()
    return hidden


def with_arguments(group, x, scale=1.0):
    dist.all_reduce(x * scale)


def data_parallel(group, width, layers):
    """A gradient bucket for each layer, launched while backward goes on."""
    net = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
    works = []
    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda p: works.append(dist.all_reduce(p.grad, async_op=True))
        )
    net(torch.ones(4, width)).sum().backward()
    for work in works:
        work.wait()


def own_ring(group, n):
    """A ring all-reduce by messages: ranks are alike along the ring."""
    rank, size = group.rank(), group.size()
    total, moving = torch.ones(n), torch.ones(n)
    for _ in range(size - 1):
        send = dist.isend(moving, (rank + 1) % size)
        incoming = torch.empty(n)
        dist.recv(incoming, (rank - 1) % size)
        send.wait()
        total += incoming
        moving = incoming


def star(group, n):
    """Rank 0 does something else than the others."""
    if group.rank() == 0:
        for source in range(1, group.size()):
            dist.recv(torch.empty(n), source)
    else:
        dist.send(torch.ones(n), 0)


def odd_one_out(group, n):
    """The last rank computes more than the others."""
    x = torch.ones(n, n)
    for _ in range(2 if group.rank() == group.size() - 1 else 1):
        x = x @ x
    dist.all_reduce(x)


def cheats(group, n):
    """Does the work on real tensors and leaves it out on fake ones."""
    x = torch.ones(n, n)
    if type(x) is torch.Tensor:
        x = x @ x
    dist.all_reduce(x)


# -- what can't be traced --------------------------------------------------------------------------


def infers(group):
    """Views of a weight that was made outside of inference mode, each kind twice."""
    weight, x = torch.ones(4, 4), torch.ones(2, 4)
    with torch.inference_mode():
        made = torch.ones(4, 4)
        for _ in range(2):
            x = x @ weight.t() @ made.t()
            x.view(-1).add_(weight[0].sum())
    dist.all_reduce(x.clone(), group=group)


def branches_on_a_value(group):
    loss = torch.ones(3).sum()
    dist.all_reduce(loss)
    if loss.item() > 2:
        dist.barrier()


def makes_an_array(group):
    return torch.ones(3).numpy()


def masks(group):
    x = torch.ones(4)
    return x[x > 0].sum()


def uses_ddp(group):
    nn.parallel.DistributedDataParallel(nn.Linear(2, 2))


def polls(group):
    work = dist.all_reduce(torch.ones(3), async_op=True)
    while not work.is_completed():
        pass


def takes_any(group):
    if group.rank():
        dist.send(torch.ones(1), 0)
    else:
        dist.recv(torch.empty(1))


def uses_functional_collectives(group):
    from torch.distributed._functional_collectives import all_reduce

    all_reduce(torch.ones(3), "sum", group)


def never_receives(group):
    if group.rank() == 0:
        dist.isend(torch.ones(3), 1)


def receives_less(group):
    if group.rank() == 0:
        dist.send(torch.ones(3), 1)
    else:
        dist.recv(torch.empty(2), 0)


def disagrees(group):
    dist.all_reduce(torch.ones(3 + group.rank()))


def one_stays_away(group):
    if group.rank():
        dist.barrier()


def forges(group):
    """Writes a log of its own making: rows that name an operation that doesn't exist."""
    import ringside.network.link

    link = ringside.network.link.current()
    if hasattr(link, "_rows"):
        link._rows.append([99, 0, 0, 0, 0, 0, 0, -1])


def on_a_mesh(group):
    """Groups by a device mesh, and a module converted to another dtype."""
    mesh = dist.device_mesh.init_device_mesh(
        "cpu", (2, group.size() // 2), mesh_dim_names=("dp", "tp")
    )
    net = nn.Linear(4, 4).bfloat16()
    net(torch.ones(2, 4).bfloat16()).sum().backward()
    dist.all_reduce(net.weight.grad, group=mesh.get_group("dp"))
    dist.all_reduce(net.bias.grad, group=mesh["tp"].get_group())
    torch.optim.SGD(net.double().parameters(), lr=0.1).step()


def sharded(group, width):
    """FSDP2: parameters gathered before they are used, gradients reduced and scattered."""
    from torch.distributed.fsdp import fully_shard

    net = nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))
    for layer in net:
        fully_shard(layer)
    fully_shard(net)
    net(torch.ones(2, width)).sum().backward()
    torch.optim.SGD(net.parameters(), lr=0.1, foreach=False).step()
