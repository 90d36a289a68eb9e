"""What account.py's docstrings say, counted in other ways than the reference does.

Layers, networks and machines are said as in ``checks/cases_account.py``.
"""

import math

from checks.inside import made


def length(n, kernel, stride, pad):
    """How many windows begin inside: counted."""
    return len([k for k in range(0, n + 2 * pad, stride) if k + kernel <= n + 2 * pad])


def output_shape(layer, shape):
    kind, layer = layer[0], made(layer)
    if kind == "Linear":
        return (layer.out_features,)
    channels, pad = (layer.out_channels, layer.pad) if kind == "Conv" else (shape[0], 0)
    return (channels, *(length(n, layer.kernel, layer.stride, pad) for n in shape[1:]))


def weights(layer, shape):
    """How many inputs each output number looks at, and how many biases there are."""
    kind, layer = layer[0], made(layer)
    if kind == "Linear":
        return math.prod(shape), layer.out_features
    if kind == "Conv":
        return shape[0] * layer.kernel**2 // layer.groups, layer.out_channels
    return 0, 0


def layer_parameters(layer, shape):
    inputs, biases = weights(layer, shape)
    return inputs * biases + biases


def layer_flops(layer, shape, batch_size):
    inputs, _ = weights(layer, shape)
    return 2 * inputs * math.prod(output_shape(layer, shape)) * batch_size


def pairs(network):
    """Every layer with the shape of its input."""
    shape, *layers = known(network)
    found = []
    for layer in layers:
        found.append((layer, shape))
        shape = output_shape(layer, shape)
    return found


def known(network):
    """A network by name as its input's shape and its layers."""
    if not isinstance(network, str):
        return network
    network = made(network)
    layers = [(type(layer).__name__, *vars(layer).values()) for layer in network.layers]
    return network.input_shape, *layers


def num_parameters(network):
    return sum(layer_parameters(*pair) for pair in pairs(network))


def activation_bytes(network, batch_size, itemsize, convention):
    numbers = math.prod(known(network)[0])
    for layer, shape in pairs(network):
        size = math.prod(output_shape(layer, shape))
        numbers += size + size * (convention == "slide" and made(layer).doubled)
    return numbers * batch_size * itemsize


def training_bytes(network, batch_size, itemsize, convention):
    kept = activation_bytes(network, batch_size, itemsize, convention)
    return kept + kept + 3 * num_parameters(network) * itemsize


def training_flops(network, batch_size):
    flops = [layer_flops(*pair, batch_size) for pair in pairs(network)]
    return sum(each * (3 if number else 2) for number, each in enumerate(flops))


def layer_time_s(layer, shape, batch_size, machine, itemsize):
    _, flop_per_s, memory_bytes_per_s, overhead_s = machine
    moved = math.prod(shape) + math.prod(output_shape(layer, shape))
    nbytes = itemsize * (batch_size * moved + layer_parameters(layer, shape))
    arithmetic_s = layer_flops(layer, shape, batch_size) / flop_per_s
    return sorted([nbytes / memory_bytes_per_s, arithmetic_s])[1] + overhead_s


def forward_time_s(network, batch_size, machine, itemsize):
    return math.fsum(layer_time_s(*pair, batch_size, machine, itemsize) for pair in pairs(network))
