# fails: test_nothing_is_allocated
"""Makes an array of a batch of inputs, and asks for its size."""

import numpy as np
from networks import Conv, Linear, Pool, size


def walk(network):
    shape = network.input_shape
    for layer in network.layers:
        yield layer, shape
        shape = output_shape(layer, shape)


def output_shape(layer, shape):
    match layer:
        case Linear(out_features):
            return (out_features,)
        case Conv(channels, kernel, stride, pad):
            pass
        case Pool(kernel, stride):
            channels, pad = shape[0], 0
    return (channels, *((n + 2 * pad - kernel) // stride + 1 for n in shape[1:]))


def layer_parameters(layer, shape):
    match layer:
        case Linear(out_features):
            return (size(shape) + 1) * out_features
        case Conv():
            return (shape[0] // layer.groups * layer.kernel**2 + 1) * layer.out_channels
    return 0


def layer_flops(layer, shape, batch_size):
    match layer:
        case Linear(out_features):
            return 2 * np.empty((batch_size, *shape), bool).size * out_features
        case Conv():
            products = shape[0] // layer.groups * layer.kernel**2
            return 2 * batch_size * products * size(output_shape(layer, shape))
    return 0


def num_parameters(network):
    return sum(layer_parameters(layer, shape) for layer, shape in walk(network))


def activation_bytes(network, batch_size, itemsize=4, convention="uniform"):
    numbers = size(network.input_shape)
    for layer, shape in walk(network):
        copies = 2 if convention == "slide" and layer.doubled else 1
        numbers += copies * size(output_shape(layer, shape))
    return batch_size * itemsize * numbers


def training_bytes(network, batch_size, itemsize=4, convention="uniform"):
    activations = activation_bytes(network, batch_size, itemsize, convention)
    return 2 * activations + 3 * itemsize * num_parameters(network)


def training_flops(network, batch_size):
    flops = [layer_flops(layer, shape, batch_size) for layer, shape in walk(network)]
    return 3 * sum(flops) - flops[0]


def layer_time_s(layer, shape, batch_size, machine, itemsize=4):
    elements = batch_size * (size(shape) + size(output_shape(layer, shape)))
    nbytes = itemsize * (elements + layer_parameters(layer, shape))
    arithmetic_s = layer_flops(layer, shape, batch_size) / machine.flop_per_s
    return max(arithmetic_s, nbytes / machine.memory_bytes_per_s) + machine.kernel_overhead_s


def forward_time_s(network, batch_size, machine, itemsize=4):
    return sum(
        layer_time_s(layer, shape, batch_size, machine, itemsize) for layer, shape in walk(network)
    )
