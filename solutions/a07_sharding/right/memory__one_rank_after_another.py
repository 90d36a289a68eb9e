"""Solves for the layers and for the shard with divisions, and looks for ranks one by one."""

import math
from dataclasses import replace
from fractions import Fraction


def num_parameters(sizes):
    per_layer = 12 * sizes.width**2 + 13 * sizes.width
    return per_layer * sizes.num_layers + sizes.width * (sizes.vocabulary + sizes.sequence + 2)


def state_bytes(
    num_parameters, world_size, stage, *, weight_bytes=2, gradient_bytes=2, optimizer_bytes=12
):
    if not 0 <= stage <= 3 or world_size < 1:
        raise ValueError("a stage from 0 to 3, and a rank or more.")
    shard = math.ceil(Fraction(num_parameters, world_size))
    each = [weight_bytes, gradient_bytes, optimizer_bytes]
    sharded = sum(each[3 - stage :])
    return sharded * shard + (sum(each) - sharded) * num_parameters


def activation_bytes(sizes, batch, *, recompute=False, element_bytes=2, dropout=True):
    s, h, a = sizes.sequence, sizes.width, sizes.num_heads
    per_token = Fraction(16 * element_bytes + (2 if dropout else 0))
    per_token += Fraction(a * s, h) * (2 * element_bytes + 1 if dropout else element_bytes)
    layer = s * batch * h * per_token
    first = element_bytes * s * batch * h
    ends = 2 * first + s * batch * sizes.vocabulary * element_bytes
    if dropout:
        ends += s * batch * h
    if recompute:
        return int(ends + sizes.num_layers * first + layer - first)
    return int(ends + sizes.num_layers * layer)


def step_bytes(sizes, batch, world_size, stage, *, recompute=False):
    kept = activation_bytes(sizes, batch, recompute=recompute)
    return kept + state_bytes(num_parameters(sizes), world_size, stage)


def most_layers(capacity_bytes, sizes, batch, world_size, stage, *, recompute=False):
    best = 0
    for count in range(1, 6000):
        sized = replace(sizes, num_layers=count)
        if step_bytes(sized, batch, world_size, stage, recompute=recompute) > capacity_bytes:
            break
        best = count
    if best == 0:
        raise ValueError("not even one layer fits.")
    return best


def fewest_ranks(capacity_bytes, sizes, batch, stage, *, recompute=False):
    for world_size in range(1, 6000):
        if step_bytes(sizes, batch, world_size, stage, recompute=recompute) <= capacity_bytes:
            return world_size
    if step_bytes(sizes, batch, num_parameters(sizes), stage, recompute=recompute) > capacity_bytes:
        raise ValueError("it fits on no number of ranks.")
    raise ValueError("more ranks than anybody has.")
