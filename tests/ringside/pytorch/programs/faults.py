"""Faulty programs as people of this field write them, one in each function."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data.distributed import DistributedSampler


def wrapped(group, *more):
    layers = nn.Sequential(nn.Linear(4, 4), *more)
    return DistributedDataParallel(layers, process_group=group)


def sharded():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    for layer in net:
        fully_shard(layer)
    return fully_shard(net)


def step(net, parameters=None):
    optimizer = torch.optim.SGD(net.parameters() if parameters is None else parameters, lr=0.1)
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()


# -- ranks that don't make the same calls ----------------------------------------------------------


def loss_reduced_by_one(group):
    net = wrapped(group)
    for _ in range(2):
        loss = net(torch.ones(2, 4)).sum()
        loss.backward()
        if group.rank() == 0:
            dist.all_reduce(loss.detach())


def one_stops_early(group):
    net = wrapped(group)
    for epoch in range(4):
        net(torch.ones(2, 4)).sum().backward()
        if group.rank() == 1 and epoch == 2:
            break
    dist.barrier()


def one_validates(group):
    net = wrapped(group, nn.BatchNorm1d(4))
    for _ in range(2):
        net(torch.ones(2, 4)).sum().backward()
        if group.rank() == 0:
            net(torch.ones(2, 4))


def wrapped_by_one(group):
    if group.rank() == 0:
        wrapped(group)


def sharded_batch_more(group):
    net = sharded()
    for _ in range(2 + (group.rank() == 0)):
        net(torch.ones(2, 4)).sum().backward()


def sharded_backward_left_out(group):
    net = sharded()
    for batch in range(3):
        loss = net(torch.ones(2, 4)).sum()
        if group.rank() == 0 or batch != 1:
            loss.backward()


def whole_parameters_for_one(group):
    net = sharded()
    if group.rank() == 0:
        [parameter.full_tensor() for parameter in net.parameters()]
    dist.barrier()


def own_all_reduce_in_join(group):
    net = wrapped(group)
    with net.join():
        for _ in range(2 + group.rank()):
            loss = net(torch.ones(2, 4)).sum()
            loss.backward()
            dist.all_reduce(loss.detach())


def neighbours_mixed_up(group):
    rank, size = group.rank(), group.size()
    x, halo = torch.ones(2), torch.zeros(2)
    after = (rank + 1) % size
    ops = [dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, halo, after)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


def stages_of_more_ranks(group):
    stage = PipelineStage(nn.Linear(4, 4), group.rank(), 3, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 2)
    schedule.step(*([torch.ones(4, 4)] if group.rank() == 0 else []))


def objects_of_two_lengths(group):
    if group.rank() == 0:
        dist.send_object_list(["lr", 0.1], 1)
    else:
        dist.recv_object_list([None], 0)


# -- what torch says without a cure ----------------------------------------------------------------


def own_method(group):
    wrapped(group).loss(torch.ones(2, 4))


def names_of_a_wrapper(group):
    nn.Sequential(nn.Linear(4, 4)).load_state_dict(wrapped(group).state_dict())


def names_without_a_wrapper(group):
    net = wrapped(group)
    net.load_state_dict(net.module.state_dict())


def loss_of_what_was_gathered(group):
    x = nn.Linear(4, 4)(torch.ones(2, 4))
    every = [torch.empty_like(x) for _ in range(group.size())]
    dist.all_gather(every, x)
    torch.cat(every).sum().backward()


def result_of_all_reduce(group):
    total = dist.all_reduce(torch.ones(2))
    return total / group.size()


def plain_tensor_with_a_dtensor(group):
    weight = sharded()[0].weight
    return torch.ones(2, 4) @ weight


def checkpoint_by_a_second_pass(group):
    class Net(nn.Linear):
        def forward(self, x):
            return checkpoint(super().forward, x, use_reentrant=True)

    net = DistributedDataParallel(Net(4, 4), find_unused_parameters=True)
    net(torch.ones(2, 4, requires_grad=True)).sum().backward()


def objects_gathered_into_one_place(group):
    dist.all_gather_object([None], group.rank())


# -- what runs without a word ----------------------------------------------------------------------


def sent_from_a_buffer_filled_anew(group):
    x = torch.zeros(3)
    for number in range(2):
        x.fill_(number)
        if group.rank() == 0:
            dist.isend(x, 1)
        else:
            dist.recv(x, 0)


def objects_into_a_tensor(group):
    if group.rank() == 0:
        dist.send_object_list([torch.ones(3)], dst=1)
    else:
        dist.recv(torch.empty(3), src=0)


def columns_alone(group):
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    mesh = init_device_mesh("cpu", (2,))
    parallelize_module(net, mesh, {"0": ColwiseParallel()})
    net(torch.randn(1, 8))


def wrapper_passed_by(group):
    net = wrapped(group)
    step(net.module)


def unfrozen_when_wrapped(group):
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net[0].requires_grad_(False)
    parallel = DistributedDataParallel(net, process_group=group)
    net[0].requires_grad_(True)
    step(parallel)


def optimizer_before_sharding(group):
    net = nn.Linear(4, 4)
    parameters = list(net.parameters())
    fully_shard(net)
    step(net, parameters)


def same_order_in_each_epoch(group):
    sampler = DistributedSampler(range(8))
    return [list(sampler) for epoch in range(2)]


def average_of_whole_numbers(group):
    dist.all_reduce(torch.tensor([group.rank()]), dist.ReduceOp.AVG)


def parts_of_one_tensor(group):
    whole = torch.empty(2, 3)
    sent = [dist.isend(torch.full((3,), float(i)), 1 - group.rank()) for i in range(2)]
    for work in [dist.irecv(part, 1 - group.rank()) for part in whole] + sent:
        work.wait()
    return whole


def trained_as_it_should_be(group):
    sampler = DistributedSampler(range(8))
    for epoch in range(2):
        sampler.set_epoch(epoch)
        list(sampler)
    step(wrapped(group))
    step(sharded())
    return True
