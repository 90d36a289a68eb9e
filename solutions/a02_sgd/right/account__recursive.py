"""Recursion over layers; attributes asked for by name."""

from math import ceil, prod


def windows(n, layer):
    pad = getattr(layer, "pad", 0)
    return ceil((n + 2 * pad - layer.kernel + 1) / layer.stride)


def output_shape(layer, shape):
    if hasattr(layer, "out_features"):
        return (layer.out_features,)
    channels, height, width = shape
    channels = getattr(layer, "out_channels", channels)
    return channels, windows(height, layer), windows(width, layer)


def layer_parameters(layer, shape):
    if hasattr(layer, "out_features"):
        return prod(shape) * layer.out_features + layer.out_features
    if hasattr(layer, "out_channels"):
        within = layer.out_channels // layer.groups
        one_group = (shape[0] // layer.groups) * within * layer.kernel**2 + within
        return layer.groups * one_group
    return 0


def layer_flops(layer, shape, batch_size):
    parameters = layer_parameters(layer, shape)
    if not parameters:
        return 0
    out = output_shape(layer, shape)
    places = prod(out[1:])
    return 2 * batch_size * places * (parameters - out[0])


def total(network, of):
    def onward(layers, shape):
        if not layers:
            return 0
        return of(layers[0], shape) + onward(layers[1:], output_shape(layers[0], shape))

    return onward(network.layers, network.input_shape)


def num_parameters(network):
    return total(network, layer_parameters)


def activation_bytes(network, batch_size, itemsize=4, convention="uniform"):
    def kept(layer, shape):
        twice = convention == "slide" and layer.doubled
        return (1 + twice) * prod(output_shape(layer, shape))

    return itemsize * batch_size * (prod(network.input_shape) + total(network, kept))


def training_bytes(network, batch_size, itemsize=4, convention="uniform"):
    kept = activation_bytes(network, batch_size, itemsize, convention)
    return sum([kept] * 2 + [itemsize * num_parameters(network)] * 3)


def training_flops(network, batch_size):
    first = layer_flops(network.layers[0], network.input_shape, batch_size)
    return total(network, lambda layer, shape: 3 * layer_flops(layer, shape, batch_size)) - first


def layer_time_s(layer, shape, batch_size, machine, itemsize=4):
    moved = prod(shape) * batch_size + prod(output_shape(layer, shape)) * batch_size
    nbytes = (moved + layer_parameters(layer, shape)) * itemsize
    flops = layer_flops(layer, shape, batch_size)
    ridge = machine.flop_per_s / machine.memory_bytes_per_s
    if flops > ridge * nbytes:
        return machine.kernel_overhead_s + flops / machine.flop_per_s
    return machine.kernel_overhead_s + nbytes / machine.memory_bytes_per_s


def forward_time_s(network, batch_size, machine, itemsize=4):
    return total(network, lambda *pair: layer_time_s(*pair, batch_size, machine, itemsize))
