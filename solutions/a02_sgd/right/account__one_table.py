"""One pass makes a table of rows; everything else adds up its columns."""

from dataclasses import dataclass
from functools import singledispatch

from networks import Conv, Linear, Pool, size


@dataclass
class Row:
    out: tuple
    parameters: int
    products: int


@singledispatch
def row(layer, shape):
    raise TypeError(layer)


@row.register
def _(layer: Linear, shape):
    n = size(shape)
    return Row((layer.out_features,), n * layer.out_features + layer.out_features, n * layer.out_features)


@row.register
def _(layer: Pool, shape):
    c, h, w = shape
    return Row((c, 1 + (h - layer.kernel) // layer.stride, 1 + (w - layer.kernel) // layer.stride), 0, 0)


@row.register
def _(layer: Conv, shape):
    h, w = (1 + (n - layer.kernel + 2 * layer.pad) // layer.stride for n in shape[1:])
    filters = layer.out_channels * (shape[0] // layer.groups) * layer.kernel * layer.kernel
    return Row((layer.out_channels, h, w), filters + layer.out_channels, filters * h * w)


def rows(network):
    shape, found = network.input_shape, []
    for layer in network.layers:
        found.append(row(layer, shape))
        shape = found[-1].out
    return found


def output_shape(layer, shape):
    return row(layer, shape).out


def layer_parameters(layer, shape):
    return row(layer, shape).parameters


def layer_flops(layer, shape, batch_size):
    return row(layer, shape).products * batch_size * 2


def num_parameters(network):
    return sum(each.parameters for each in rows(network))


def activation_bytes(network, batch_size, itemsize=4, convention="uniform"):
    outs = [size(each.out) for each in rows(network)]
    more = 0
    if convention == "slide":
        more = sum(n for n, layer in zip(outs, network.layers) if layer.doubled)
    return (size(network.input_shape) + sum(outs) + more) * itemsize * batch_size


def training_bytes(network, batch_size, itemsize=4, convention="uniform"):
    first = activation_bytes(network, batch_size, itemsize, convention)
    return first + first + itemsize * (3 * num_parameters(network))


def training_flops(network, batch_size):
    first, *others = (2 * batch_size * each.products for each in rows(network))
    return 2 * first + 3 * sum(others)


def layer_time_s(layer, shape, batch_size, machine, itemsize=4):
    each = row(layer, shape)
    nbytes = itemsize * batch_size * (size(shape) + size(each.out)) + itemsize * each.parameters
    times = 2 * batch_size * each.products / machine.flop_per_s, nbytes / machine.memory_bytes_per_s
    return machine.kernel_overhead_s + max(times)


def forward_time_s(network, batch_size, machine, itemsize=4):
    shape, time_s = network.input_shape, 0.0
    for layer, each in zip(network.layers, rows(network)):
        time_s += layer_time_s(layer, shape, batch_size, machine, itemsize)
        shape = each.out
    return time_s
