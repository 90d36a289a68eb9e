"""Dictionaries of functions, and NumPy's whole numbers."""

from functools import reduce

import numpy as np


def amount(shape):
    return np.int64(reduce(lambda a, b: a * b, shape, 1))


def kind(layer):
    return type(layer).__name__


def output_shape(layer, shape):
    def after(n, kernel, stride, pad):
        return len(range(0, n + 2 * pad - kernel + 1, stride))

    return {
        "Linear": lambda: [layer.out_features],
        "Pool": lambda: [shape[0], *(after(n, layer.kernel, layer.stride, 0) for n in shape[1:])],
        "Conv": lambda: [
            layer.out_channels,
            *(after(n, layer.kernel, layer.stride, layer.pad) for n in shape[1:]),
        ],
    }[kind(layer)]()


def products(layer, shape):
    if kind(layer) == "Linear":
        return amount(shape)
    return shape[0] * layer.kernel * layer.kernel // layer.groups if kind(layer) == "Conv" else 0


def layer_parameters(layer, shape):
    columns = {"Linear": "out_features", "Conv": "out_channels"}.get(kind(layer))
    return np.int64(0) if columns is None else getattr(layer, columns) * (products(layer, shape) + 1)


def layer_flops(layer, shape, batch_size):
    return amount(output_shape(layer, shape)) * products(layer, shape) * batch_size * 2


def unrolled(network):
    shapes = [network.input_shape]
    for layer in network.layers:
        shapes.append(output_shape(layer, shapes[-1]))
    return list(zip(network.layers, shapes, shapes[1:]))


def num_parameters(network):
    return sum(layer_parameters(layer, before) for layer, before, _ in unrolled(network))


def activation_bytes(network, batch_size, itemsize=4, convention="uniform"):
    total = amount(network.input_shape)
    for layer, _, after in unrolled(network):
        total += amount(after)
        if convention == "slide" and layer.doubled:
            total += amount(after)
    return total * batch_size * itemsize


def training_bytes(network, batch_size, itemsize=4, convention="uniform"):
    weights = itemsize * num_parameters(network)
    return 2 * activation_bytes(network, batch_size, itemsize, convention) + weights * 3


def training_flops(network, batch_size):
    total = 0
    for number, (layer, before, _) in enumerate(unrolled(network)):
        total += layer_flops(layer, before, batch_size) * (2 if number == 0 else 3)
    return total


def layer_time_s(layer, shape, batch_size, machine, itemsize=4):
    numbers = layer_parameters(layer, shape)
    numbers += batch_size * amount(shape)
    numbers += batch_size * amount(output_shape(layer, shape))
    return np.float64(
        machine.compute_s(layer_flops(layer, shape, batch_size), itemsize * numbers, 1)
    )


def forward_time_s(network, batch_size, machine, itemsize=4):
    return np.sum(
        [layer_time_s(layer, before, batch_size, machine, itemsize)
         for layer, before, _ in unrolled(network)]
    )
