"""Calls as people get them wrong, one in each function, for ranks of ours and for ranks of gloo."""

import torch
import torch.distributed as dist


def numbers(rows, columns):
    """Other numbers on every rank."""
    start = rows * columns * dist.get_rank()
    return torch.arange(float(rows * columns)).view(rows, columns) + start


def gap():
    """Every other column, so that the elements have gaps between them."""
    return numbers(2, 4)[:, ::2]


def turned():
    """A transposed tensor: no gaps, and another order in memory."""
    return numbers(2, 2).t()


def zeros(number, *shape):
    return [torch.zeros(shape) for _ in range(number)]


def listed(tensors):
    return [tensor.tolist() for tensor in tensors]


def at_root(value):
    return value if dist.get_rank() == 0 else None


# -- elements that don't lie one after another -------------------------------------------------


def all_reduce_gap(group):
    x = gap()
    dist.all_reduce(x)
    return x.tolist()


def all_reduce_turned(group):
    x = turned()
    dist.all_reduce(x)
    return x.tolist()


def broadcast_gap(group):
    x = gap()
    dist.broadcast(x, 0)
    return x.tolist()


def broadcast_turned_on_one(group):
    x = turned() if dist.get_rank() else numbers(2, 2)
    dist.broadcast(x, 0)
    return x.tolist()


def send_gap(group):
    if dist.get_rank() == 0:
        dist.send(gap(), 1)
    else:
        dist.recv(torch.zeros(2, 2), 0)


def recv_gap(group):
    if dist.get_rank() == 0:
        dist.send(torch.zeros(2, 2), 1)
    else:
        dist.recv(gap(), 0)


def send_turned(group):
    if dist.get_rank() == 0:
        dist.send(turned(), 1)
    else:
        dist.recv(torch.zeros(2, 2), 0)


def all_gather_gap(group):
    parts = zeros(2, 2, 2)
    dist.all_gather(parts, gap())
    return listed(parts)


def all_gather_into_turned(group):
    parts = [turned(), gap()]
    dist.all_gather(parts, numbers(2, 2))
    return listed(parts)


def all_gather_into_tensor_gap(group):
    whole = torch.zeros(4, 2)
    dist.all_gather_into_tensor(whole, gap())
    return whole.tolist()


def all_gather_into_tensor_with_gaps(group):
    whole = torch.zeros(4, 4)[:, ::2]
    dist.all_gather_into_tensor(whole, numbers(2, 2))
    return whole.tolist()


def reduce_scatter_tensor_turned(group):
    part = torch.zeros(1, 2)
    dist.reduce_scatter_tensor(part, turned())
    return part.tolist()


def reduce_scatter_tensor_into_gap(group):
    part = gap()
    dist.reduce_scatter_tensor(part, numbers(4, 2))
    return part.tolist()


def reduce_scatter_into_gap(group):
    part = gap()
    dist.reduce_scatter(part, [numbers(2, 2), numbers(2, 2)])
    return part.tolist()


def all_to_all_single_gap(group):
    x = torch.zeros(2, 2)
    dist.all_to_all_single(x, gap())
    return x.tolist()


def all_to_all_single_into_gap(group):
    x = gap()
    dist.all_to_all_single(x, numbers(2, 2))
    return x.tolist()


def all_to_all_gap(group):
    parts = zeros(2, 2, 2)
    dist.all_to_all(parts, [gap(), turned()])
    return listed(parts)


def gather_gap(group):
    parts = at_root(zeros(2, 2, 2))
    dist.gather(gap(), parts, 0)
    return listed(parts or [])


def scatter_turned(group):
    x = torch.zeros(2, 2)
    dist.scatter(x, at_root([turned(), turned()]), 0)
    return x.tolist()


# -- sizes and dtypes --------------------------------------------------------------------------


def all_reduce_other_dtype(group):
    x = torch.ones(3, dtype=[torch.float32, torch.int32][dist.get_rank()])
    dist.all_reduce(x)
    return x.tolist()


def broadcast_other_size(group):
    x = numbers(1, 3 + dist.get_rank())
    dist.broadcast(x, 0)
    return x.tolist()


def all_gather_other_size(group):
    parts = zeros(2, 2 + dist.get_rank())
    dist.all_gather(parts, torch.ones(2))


def all_gather_into_tensor_too_small(group):
    dist.all_gather_into_tensor(torch.zeros(3), torch.ones(2))


def all_gather_into_tensor_other_dtype(group):
    dist.all_gather_into_tensor(torch.zeros(4, dtype=torch.float64), torch.ones(2))


def reduce_scatter_tensor_indivisible(group):
    dist.reduce_scatter_tensor(torch.zeros(2), torch.ones(5))


def all_to_all_single_splits(group):
    dist.all_to_all_single(torch.zeros(5), torch.ones(4), [2, 2], [2, 2])


def all_to_all_single_between_ranks(group):
    mine = [[2, 2], [1, 3]][dist.get_rank()]
    dist.all_to_all_single(torch.zeros(4), torch.ones(4), [2, 2], mine)


def recv_larger(group):
    x = torch.zeros(2 + dist.get_rank())
    if dist.get_rank() == 0:
        dist.send(x + 1, 1)
    else:
        dist.recv(x, 0)
    return x.tolist()


def recv_other_dtype(group):
    x = torch.ones(2, dtype=[torch.int32, torch.float32][dist.get_rank()])
    if dist.get_rank() == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    return x.tolist()


def all_gather_dtypes_in_list(group):
    dist.all_gather([torch.zeros(2), torch.zeros(2, dtype=torch.float64)], torch.ones(2))


# -- lists, roots, operations ------------------------------------------------------------------


def all_gather_into_one_tensor(group):
    every = [torch.zeros(2)] * group.size()
    dist.all_gather(every, numbers(1, 2)[0])
    return listed(every)


def gather_into_one_tensor(group):
    every = at_root([torch.zeros(2)] * group.size())
    dist.gather(numbers(1, 2)[0], every)
    return listed(every or [])


def all_to_all_into_one_tensor(group):
    every = [torch.zeros(1)] * group.size()
    dist.all_to_all(every, list(numbers(2, 1)))
    return listed(every)


def all_gather_into_rows(group):
    every = torch.zeros(group.size(), 2)
    dist.all_gather(list(every), numbers(1, 2)[0])
    return every.tolist()


def object_lists_of_two_lengths(group):
    settings = ["lr", 0.1] if dist.get_rank() == 0 else [None]
    dist.broadcast_object_list(settings)
    return settings


def all_gather_short_list(group):
    dist.all_gather(zeros(1, 2), torch.ones(2))


def scatter_short_list(group):
    dist.scatter(torch.zeros(2), at_root(zeros(1, 2)), 0)


def gather_list_on_all(group):
    dist.gather(torch.ones(2), zeros(2, 2), 0)


def broadcast_root_beyond(group):
    dist.broadcast(torch.ones(1), 2)


def broadcast_roots_differ(group):
    dist.broadcast(torch.ones(1), dist.get_rank())


def broadcast_group_src_beyond(group):
    dist.broadcast(torch.ones(1), group_src=2, group=dist.new_group([0, 1]))


def bitwise_and_of_floats(group):
    dist.all_reduce(torch.ones(1), dist.ReduceOp.BAND)


def operations_differ(group):
    x = torch.full((1,), dist.get_rank() + 2.0)
    dist.all_reduce(x, [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT][dist.get_rank()])
    return x.tolist()


# -- peers -------------------------------------------------------------------------------------


def send_to_itself(group):
    dist.send(torch.ones(1), dist.get_rank())


def recv_from_itself(group):
    dist.recv(torch.ones(1), dist.get_rank())


def negative_tag(group):
    dist.isend(torch.ones(1), 1 - dist.get_rank(), tag=-1)


def wait_for_what_nobody_sends(group):
    dist.irecv(torch.ones(1), 1 - dist.get_rank()).wait()


def wait_of_a_blocking_call(group):
    dist.all_reduce(torch.ones(1)).wait()


# -- groups ------------------------------------------------------------------------------------


def each_its_own_group(group):
    x = torch.ones(1)
    mine = dist.new_group([0, 1] if dist.get_rank() < 2 else [2, 3])
    dist.all_reduce(x, group=mine)
    return x.tolist()


def groups_in_another_order(group):
    x = numbers(1, 1)
    ranks = [[0, 1], [2, 3]]
    made = [dist.new_group(r) for r in (ranks if dist.get_rank() % 2 else ranks[::-1])]
    (mine,) = [g for g in made if g != dist.GroupMember.NON_GROUP_MEMBER]
    dist.all_reduce(x, group=mine)
    return x.tolist()


def each_its_own_group_by_a_hash(group):
    x = numbers(1, 1)
    ranks = [0, 1] if dist.get_rank() < 2 else [2, 3]
    dist.all_reduce(x, group=dist.new_group(ranks, use_local_synchronization=True))
    return x.tolist()


def groups_of_one(group):
    alone = dist.new_group([dist.get_rank()])
    x = numbers(1, 1)
    dist.all_reduce(x, group=alone)
    return x.tolist()


def group_that_only_members_make(group):
    x = numbers(1, 1)
    if dist.get_rank() < 2:
        dist.all_reduce(x, group=dist.new_group([0, 1]))
    return x.tolist()


def groups_again_after_destroying_all(group):
    x = numbers(1, 1)
    dist.all_reduce(x, group=dist.new_group([0, 1]))
    dist.destroy_process_group()
    dist.init_process_group("gloo", **INIT)
    dist.all_reduce(x, group=dist.new_group([1, 0]))
    return x.tolist()


def world_rank_in_a_group(group):
    made = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    dist.broadcast(torch.ones(1), src=0, group=made[dist.get_rank() // 2])


def group_of_others(group):
    made = [dist.new_group([0]), dist.new_group([1])]
    return str(dist.all_reduce(torch.ones(1), group=made[1 - dist.get_rank()]))


def destroyed_world(group):
    dist.destroy_process_group()
    dist.all_reduce(torch.ones(1))


def wait_twice_for_a_receive(group):
    x = numbers(2, 1)
    if dist.get_rank():
        dist.send(x, 0)
        return []
    work = dist.irecv(x, 1)
    work.wait()
    work.wait()
    return x.tolist()


def wait_twice_for_a_send(group):
    x = numbers(2, 1)
    if dist.get_rank():
        work = dist.isend(x, 0)
        work.wait()
        work.wait()
        return []
    dist.recv(x, 1)
    return x.tolist()


def poll_what_has_come(group):
    x = numbers(2, 1)
    if dist.get_rank():
        dist.send(x, 0)
        dist.barrier()
        return True
    work = dist.irecv(x, 1)
    dist.barrier()
    has_come = work.is_completed()
    work.wait()
    return has_come


INIT = {}  # what a rank of gloo needs to meet the others once more
