"""A class does the work; the asked name is one of its methods."""

import torch
import torch.distributed as dist
from shards import shard_bounds


class Ring:
    """The neighbours of one place, and what passes between them."""

    def __init__(self, group):
        self.group, self.place = group, group.rank()
        self.size = group.size()
        ranks = dist.get_process_group_ranks(group)
        self.previous, self.following = ranks[self.place - 1], ranks[(self.place + 1) % self.size]

    def pass_on(self, outgoing, incoming):
        batch = [
            dist.P2POp(dist.irecv, incoming, self.previous, self.group),
            dist.P2POp(dist.isend, outgoing, self.following, self.group),
        ]
        [work.wait() for work in dist.batch_isend_irecv(batch)]

    def __call__(self, x):
        total = x.contiguous()
        cut = [slice(*shard_bounds(len(x), self.size, owner)) for owner in range(self.size)]
        order = [cut[(self.place - k) % self.size] for k in range(2 * self.size)]
        for sending, receiving in zip(order[1 : self.size], order[2 : self.size + 1]):
            incoming = torch.empty_like(total[receiving])
            self.pass_on(total[sending], incoming)
            total[receiving] += incoming
        for sending, receiving in zip(order[: self.size - 1], order[1 : self.size]):
            self.pass_on(total[sending], total[receiving])
        if total.data_ptr() != x.data_ptr():
            x.copy_(total)


def all_reduce(group, x):
    Ring(group)(x)
