"""What a network costs: parameters, memory, arithmetic and time, without running it.

           FLOP/s that a layer can reach
             ^          ________________  machine.flop_per_s
             |         /
             |       /|                   a layer of few FLOPs for each byte waits for memory,
             |     /  |                   one of many for arithmetic: time is the longer of the two
             |   /    |
             +--------+---------------->  FLOPs for each byte moved

``given/networks.py`` describes networks: ``Network``, and its layers ``Conv``, ``Pool`` and
``Linear``. Shapes are tuples, ``(channels, rows, columns)`` or ``(features,)``, without the batch.
``Linear`` takes either: an image of ``(256, 6, 6)`` goes into it as 9216 features.

Rules for every function:

- Shapes, parameters, bytes and FLOPs are exact whole numbers (Python's or NumPy's, at least 64
  bits), times are floats in seconds, right to 1e-9 relative.
- Bytes are bytes: no kB, no MiB. A parameter or an element of an activation takes ``itemsize``.
- Nothing of the size that is counted is made: a call allocates at most 1 MiB.
- ``doubled`` may be set on any layer.
"""

from given.networks import Conv, Linear, Network, Pool, size

from ringside import Machine


def walk(network: Network):
    """Every layer with the shape of its input: supplied, on top of your ``output_shape``."""
    shape = network.input_shape
    for layer in network.layers:
        yield layer, shape
        shape = output_shape(layer, shape)


def output_shape(layer: Conv | Pool | Linear, shape: tuple) -> tuple:
    """The shape of a layer's output.

    A window that doesn't fit any more is left out: of n rows and padding on both sides,
    ``floor((n + 2 pad - kernel) / stride) + 1`` remain, columns alike. ``Pool`` keeps the
    channels, ``Linear`` gives ``(out_features,)``.

    Args:
        shape: of its input; three numbers, and for ``Linear`` one or three.
    """
    ### BEGIN SOLUTION
    match layer:
        case Linear(out_features):
            return (out_features,)
        case Conv(channels, kernel, stride, pad):
            pass
        case Pool(kernel, stride):
            channels, pad = shape[0], 0
    return (channels, *((n + 2 * pad - kernel) // stride + 1 for n in shape[1:]))
    ### END SOLUTION


def layer_parameters(layer: Conv | Pool | Linear, shape: tuple) -> int:
    """Weights and biases of a layer whose input has this shape."""
    ### BEGIN SOLUTION
    match layer:
        case Linear(out_features):
            return (size(shape) + 1) * out_features
        case Conv():
            return (shape[0] // layer.groups * layer.kernel**2 + 1) * layer.out_channels
    return 0
    ### END SOLUTION


def layer_flops(layer: Conv | Pool | Linear, shape: tuple, batch_size: int) -> int:
    """Floating-point operations of a layer's forward pass.

    A multiplication and the addition that follows are two. Biases and ``Pool`` count as nothing.
    """
    ### BEGIN SOLUTION
    match layer:
        case Linear(out_features):
            return 2 * batch_size * size(shape) * out_features
        case Conv():
            products = shape[0] // layer.groups * layer.kernel**2
            return 2 * batch_size * products * size(output_shape(layer, shape))
    return 0
    ### END SOLUTION


def num_parameters(network: Network) -> int:
    """Weights and biases of all layers."""
    ### BEGIN SOLUTION
    return sum(layer_parameters(layer, shape) for layer, shape in walk(network))
    ### END SOLUTION


def activation_bytes(
    network: Network, batch_size: int, itemsize: int = 4, convention: str = "uniform"
) -> int:
    """Bytes of what the forward pass leaves in memory for the backward pass.

    Args:
        convention: ``"uniform"``: the network's input and the output of each layer, also of the
            last, each once. ``"slide"``, as a famous slide on AlexNet counts: the same, but the
            outputs of the layers whose ``doubled`` is True twice.
    """
    ### BEGIN SOLUTION
    numbers = size(network.input_shape)
    for layer, shape in walk(network):
        copies = 2 if convention == "slide" and layer.doubled else 1
        numbers += copies * size(output_shape(layer, shape))
    return batch_size * itemsize * numbers
    ### END SOLUTION


def training_bytes(
    network: Network, batch_size: int, itemsize: int = 4, convention: str = "uniform"
) -> int:
    """Bytes of a training step with momentum: activations and as many bytes for their gradients,
    the parameters, their gradients and their velocity."""
    ### BEGIN SOLUTION
    activations = activation_bytes(network, batch_size, itemsize, convention)
    return 2 * activations + 3 * itemsize * num_parameters(network)
    ### END SOLUTION


def training_flops(network: Network, batch_size: int) -> int:
    """FLOPs of one forward and one backward pass.

    Backward, a layer makes two products, each as large as its forward one: one for the gradient of
    its weights, one for that of its input. Nobody asks for the gradient of the network's input, so
    the first layer makes only the first of the two. If the first layer is a ``Pool``, it has no
    FLOPs, and the layer after it makes both products.
    """
    ### BEGIN SOLUTION
    flops = [layer_flops(layer, shape, batch_size) for layer, shape in walk(network)]
    return 3 * sum(flops) - flops[0]
    ### END SOLUTION


def layer_time_s(
    layer: Conv | Pool | Linear, shape: tuple, batch_size: int, machine: Machine, itemsize: int = 4
) -> float:
    """Seconds of a layer's forward pass on a machine, by the roofline.

    The longer of ``FLOPs / machine.flop_per_s`` and ``bytes / machine.memory_bytes_per_s``, and
    then ``machine.kernel_overhead_s``. The bytes are those of the input and output of all samples
    and of the parameters; each is moved once.

    Args:
        machine: a ``ringside.Machine``.
    """
    ### BEGIN SOLUTION
    elements = batch_size * (size(shape) + size(output_shape(layer, shape)))
    nbytes = itemsize * (elements + layer_parameters(layer, shape))
    arithmetic_s = layer_flops(layer, shape, batch_size) / machine.flop_per_s
    return max(arithmetic_s, nbytes / machine.memory_bytes_per_s) + machine.kernel_overhead_s
    ### END SOLUTION


def forward_time_s(network: Network, batch_size: int, machine: Machine, itemsize: int = 4) -> float:
    """Seconds of a forward pass: its layers, one after another."""
    ### BEGIN SOLUTION
    return sum(
        layer_time_s(layer, shape, batch_size, machine, itemsize) for layer, shape in walk(network)
    )
    ### END SOLUTION
