"""send, recv and their kin, groups, work handles; and programs that must be refused."""

import os
import threading

import torch
import torch.distributed as dist


def pairs(group):
    """Blocking send and recv, with a tag, in every dtype that torch can send."""
    rank, size = group.rank(), group.size()
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64, torch.complex64):
        x = torch.arange(6).remainder(2).to(dtype)
        if rank == 0:
            for dest in range(1, size):
                dist.send(x, dest, group=group, tag=dest)
        else:
            got = torch.zeros(6, dtype=dtype)
            assert dist.recv(got, 0, group=group, tag=rank) == 0
            assert torch.equal(got, x)


def ring(group, x):
    """Every rank gives its tensor to the next, in a batch."""
    rank, size = group.rank(), group.size()
    following = dist.get_global_rank(group, (rank + 1) % size)
    previous = dist.get_global_rank(group, (rank - 1) % size)
    got = torch.empty_like(x)
    operations = [
        dist.P2POp(dist.isend, x, following, group),
        dist.P2POp(dist.irecv, got, previous, group),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return got


def whole(group, x):
    return ring(group, x)


def from_anybody(group):
    """recv without a source says who sent."""
    rank, size = group.rank(), group.size()
    if rank:
        dist.send(torch.tensor([rank]), 0, group=group)
        return None
    sources = []
    for _ in range(size - 1):
        got = torch.zeros(1, dtype=torch.int64)
        source = dist.recv(got, group=group)
        assert int(got) == source
        sources.append(source)
    return sorted(sources)


def handles(group):
    """is_completed, wait, get_future, result, source of asynchronous calls."""
    rank, size = group.rank(), group.size()
    x = torch.full((4,), float(rank))
    work = dist.all_reduce(x, group=group, async_op=True)
    before = x.clone()
    while not work.is_completed():
        pass
    assert work.wait() and work.is_success() and work.exception() is None
    assert torch.equal(x, torch.full((4,), float(sum(range(size)))))
    x = torch.ones(4)
    future = dist.all_reduce(x, group=group, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2).then(lambda done: done.value() + 1)
    assert torch.equal(doubled.wait(), torch.full((4,), 2.0 * size + 1))
    failed = dist.barrier(group=group, async_op=True).get_future().then(lambda done: 1 // 0)
    try:
        failed.wait()
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError("the callback's error is lost")
    return bool(before.isnan().all())


def overlapping(group):
    """Requests complete in any order, and messages of a pair keep theirs."""
    rank, size = group.rank(), group.size()
    peer = (rank + 1) % size
    sends = [dist.isend(torch.tensor([i]), peer, group=group) for i in range(3)]
    gots = [torch.zeros(1, dtype=torch.int64) for _ in range(3)]
    receives = [dist.irecv(got, (rank - 1) % size, group=group) for got in gots]
    for work in reversed(receives + sends):
        work.wait()
    return [int(got) for got in gots]


def groups(group):
    """Sub-groups with ranks of their own; a rank outside gets no member's group."""
    rank, size = group.rank(), group.size()
    evens = dist.new_group(list(range(0, size, 2)))
    odds = dist.new_group(list(range(1, size, 2)), backend="gloo")
    mine, other = (odds, evens) if rank % 2 else (evens, odds)
    assert other == dist.GroupMember.NON_GROUP_MEMBER
    assert dist.get_rank(mine) == rank // 2
    assert dist.get_process_group_ranks(mine) == list(range(rank % 2, size, 2))
    x = torch.tensor([rank])
    dist.all_reduce(x, group=mine)
    assert int(x) == sum(range(rank % 2, size, 2))
    x = torch.tensor([rank])
    dist.broadcast(x, src=rank % 2, group=mine)  # torch names sources by world rank
    assert int(x) == rank % 2
    mesh = dist.device_mesh.init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
    x = torch.tensor([rank])
    dist.all_reduce(x, group=mesh["tp"].get_group())
    assert int(x) == rank // 2 * 4 + 1
    return dist.get_backend(mine)


def members(group, x):
    """A group that isn't the world: what the call's members are."""
    assert dist.get_world_size() > group.size()
    total = x.clone()
    dist.all_reduce(total, group=group)
    return group.rank(), dist.get_rank(), total, ring(group, x)


def started_twice(group):
    dist.init_process_group("nccl")
    return dist.get_rank(), dist.get_world_size(), int(os.environ["RANK"])


def in_place(group, x):
    dist.all_reduce(x, group=group)


def values(group, given):
    """Arguments and results of every kind."""
    assert isinstance(given["x"][0], torch.Tensor)
    half = torch.tensor([1.5], dtype=torch.bfloat16)
    return {"x": [tensor * 2 for tensor in given["x"]], "half": half, "n": given["n"]}


# -- refused ---------------------------------------------------------------------------------------


def different_calls(group):
    x = torch.zeros(3)
    if group.rank() == 1:
        dist.broadcast(x, 0, group=group)
    else:
        dist.all_reduce(x, group=group)


def missing_rank(group):
    if group.rank() != 2:
        dist.barrier(group=group)


def different_dtype(group):
    dist.all_reduce(torch.zeros(3, dtype=torch.float64 if group.rank() else torch.float32))


def different_size(group):
    work = dist.broadcast(torch.zeros(3 + group.rank()), 0, group=group, async_op=True)
    work.wait()


def different_op(group):
    dist.all_reduce(torch.zeros(3), dist.ReduceOp.MAX if group.rank() else dist.ReduceOp.SUM)


def wrong_message(group):
    if group.rank() == 0:
        dist.send(torch.zeros(3), 1)
    else:
        dist.recv(torch.zeros(4), 0)


def all_receive(group):
    dist.recv(torch.zeros(4), (group.rank() + 1) % group.size())


def all_send(group):
    dist.send(torch.zeros(4), (group.rank() + 1) % group.size())


def changed_while_sent(group):
    x = torch.zeros(4)
    if group.rank() == 0:
        work = dist.isend(x, 1)
        x += 1
        work.wait()
    else:
        dist.recv(x, 0)


def unfinished(group):
    x = torch.ones(3)
    dist.isend(x, 1 - group.rank())
    dist.irecv(torch.zeros(3), 1 - group.rank())
    dist.all_reduce(torch.ones(3), async_op=True)


def unreceived_wait(group):
    if group.rank() == 0:
        work = dist.irecv(torch.zeros(4), 1, tag=3)
        work.wait()


def written_early(group):
    halo = torch.zeros(3)
    work = dist.irecv(halo, 1 - group.rank())
    dist.send(torch.ones(3), 1 - group.rank())
    halo += 1
    work.wait()


def reduced_early(group, dtype):
    """A gradient that is scaled before its all-reduce is waited for."""
    gradient = torch.ones(4, dtype=getattr(torch, dtype))
    work = dist.all_reduce(gradient, async_op=True)
    gradient /= group.size()
    work.wait()


def read_early(group):
    halo = torch.zeros(3)
    work = dist.irecv(halo, 1 - group.rank())
    dist.send(torch.ones(3), 1 - group.rank())
    early = (halo * 2).exp()
    work.wait()
    return early.sum()


def second_thread(group):
    def communicate():
        dist.all_reduce(torch.zeros(2), group=group)

    thread = threading.Thread(target=communicate)
    thread.start()
    thread.join()


def past_the_network(group):
    """A call that goes past our methods must not be swallowed by a backend that does nothing."""
    group._get_backend(torch.device("cpu")).allreduce([torch.zeros(2)]).wait()


def other_store(group):
    dist.distributed_c10d._get_default_store().get("written by nobody")
