"""A ring of isend and recv in place of the all-reduce."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def ring(group, flat):
    place, world_size = dist.get_rank(group), dist.get_world_size(group)
    previous = dist.get_global_rank(group, (place - 1) % world_size)
    following = dist.get_global_rank(group, (place + 1) % world_size)
    shards = flat.tensor_split(world_size)
    for step in range(2 * (world_size - 1)):
        outgoing = shards[(place - step) % world_size]
        mine = shards[(place - step - 1) % world_size]
        incoming = torch.empty_like(mine)
        sending = dist.isend(outgoing, following, group)
        dist.recv(incoming, previous, group)
        sending.wait()
        if step < world_size - 1:
            mine += incoming
        else:
            mine.copy_(incoming)


def broadcast_parameters(group, model):
    source = dist.get_global_rank(group, 0)
    for p in model.parameters():
        dist.broadcast(p.detach(), source, group=group)


def train_step(group, model, optimizer, x, y):
    model.zero_grad()
    loss = cross_entropy(model(x), y, reduction="sum")
    loss.backward()
    learning = [p for p in model.parameters() if p.requires_grad]
    numbers = [loss.detach().view(1), loss.new_tensor([len(x)])]
    flat = torch.cat([p.grad.flatten() for p in learning] + numbers)
    ring(group, flat)
    flat[:-1] /= flat[-1]
    sizes = [p.numel() for p in learning]
    for p, g in zip(learning, flat[:-2].split(sizes), strict=True):
        p.grad = g.view_as(p)
    optimizer.step()
    return flat[-2].item()
