"""Adds up what each rank sends to each neighbour, and layer by layer what it takes."""

import math


def data_bytes(layers, batch, world_size, itemsize=4):
    total = 0
    for layer in layers:
        n = layer.kernel_h * layer.kernel_w * layer.in_channels * layer.out_channels
        shares = [n // world_size + (rank < n % world_size) for rank in range(world_size)]
        total += 2 * sum(n - share for share in shares)
    return total * itemsize


def filter_bytes(layers, batch, world_size, itemsize=4):
    total = 0
    for number, (h, w, c, o, _, _) in enumerate(layers):
        total += batch * h * w * (o + (c if number else 0))
    return total * itemsize * (world_size - 1)


def halos(layer, batch, first):
    row = batch * layer.width * (layer.kernel_h // 2)
    return [row * layer.in_channels] + ([] if first else [row * layer.out_channels])


def domain_bytes(layers, batch, world_size, itemsize=4):
    total = data_bytes(layers, batch, world_size, itemsize)
    for rank in range(world_size):
        near = (rank > 0) + (rank < world_size - 1)
        for number, layer in enumerate(layers):
            total += near * itemsize * sum(halos(layer, batch, number == 0))
    return total


def ring(count, itemsize, p, machine):
    return (p - 1) * machine.alpha_s + (p - 1) * count * itemsize * machine.beta_s_per_byte / p


def data_s(layers, batch, world_size, machine, itemsize=4):
    return 2 * math.fsum(ring(layer.weights, itemsize, world_size, machine) for layer in layers)


def filter_s(layers, batch, world_size, machine, itemsize=4):
    total = 0.0
    for number, layer in enumerate(layers):
        total += ring(batch * layer.outputs, itemsize, world_size, machine)
        if number > 0:
            total += ring(batch * layer.inputs, itemsize, world_size, machine)
    return total


def domain_s(layers, batch, world_size, machine, itemsize=4):
    total = data_s(layers, batch, world_size, machine, itemsize)
    for number, layer in enumerate(layers):
        for count in halos(layer, batch, number == 0):
            if count and world_size > 1:
                messages = 1 if world_size == 2 else 2
                total += machine.alpha_s + messages * count * itemsize * machine.beta_s_per_byte
    return total


def best(layers, batch, world_size, machine, itemsize=4):
    given = (layers, batch, world_size, machine, itemsize)
    found = []
    for way, time, part, least in (
        ("domain", domain_s, lambda layer: layer.height, lambda layer: max(1, layer.kernel_h // 2)),
        ("filter", filter_s, lambda layer: layer.out_channels, lambda layer: 1),
        ("data", data_s, lambda layer: batch, lambda layer: 1),
    ):
        if any(part(layer) < world_size * least(layer) for layer in layers):
            continue
        work = 0.0
        for number, layer in enumerate(layers):
            whole = 2 * batch * layer.weights * layer.height * layer.width
            share = math.ceil(part(layer) / world_size) / part(layer)
            work += (2 + (number > 0)) * whole * share
        found.append((time(*given) + work / machine.flop_per_s, way))
    if not found:
        raise ValueError("no way is possible on so many ranks")
    return min(found)[1]
