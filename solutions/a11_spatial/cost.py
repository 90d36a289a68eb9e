"""What a training step of convolutions sends and takes: three ways to cut it among ranks.

    data     each rank has some of the batch's images, and all filters
             forward   nothing
             backward  the gradient of each layer's filters is summed over ranks: an all-reduce

    filter   each rank has some filters of each layer, and all images
             forward   each layer's output channels are gathered: an all-gather of B Y elements
             backward  the gradient of each layer's input is a sum over ranks, of which a rank
                       needs the channels that its filters made: a reduce-scatter of B X elements.
                       The first layer's input is the image, which needs no gradient

    domain   each rank has some rows of each image, and all filters
             forward   a halo of the input: floor(kernel_h / 2) rows to each neighbour,
                       B C width elements each
             backward  a halo of dL/dY, not in the first layer: floor(kernel_h / 2) rows to each
                       neighbour, B O width elements each. And the filters' gradient is summed over
                       ranks, as in data parallelism

X and Y are ``layer.inputs`` and ``layer.outputs``: the elements of one image before and after the
layer. B is the batch: the images of all ranks together. Between layers stands something that sends
nothing, such as a ReLU or pooling. Biases are left out.

**Bytes** are those that *all ranks together* send in one step, an integer, exactly, whether or not
P divides anything. An all-gather and a reduce-scatter of n elements are rings: a rank sends P - 1
parts of P. So all ranks together send (P - 1) n elements, and 2 (P - 1) n in an all-reduce.
``given/traffic.py`` sends all this, and the network counts it.

**Time** is that of the messages, one after another, on a machine whose messages take alpha + m beta
(``machine.alpha_s``, ``machine.beta_s_per_byte``). A ring of n bytes takes (P - 1) steps of n / P
bytes, an all-reduce twice as many. A halo of m bytes to each neighbour takes alpha + 2 m beta,
since both are sent at once through one port; on two ranks each has one neighbour, and it takes
alpha + m beta. A halo without rows (kernel_h = 1) takes no time. On one rank all is 0.

Example: one layer of 8 x 8 with C = 2, O = 4 and 3 x 3 filters, B = 3, on 4 ranks, float32. Data:
2 * 3 * 72 * 4 = 1728 bytes. Filter: 3 * 3 * 256 * 4 = 9216 bytes. Domain: 6 halos of 3 * 2 * 8 = 48
elements, 1152 bytes, and 1728 for the filters.

Source: Gholami, Azad, Jin, Keutzer, Buluc, Integrated model, batch and domain parallelism in
training neural networks, SPAA 2018. With these corrections: a halo has floor(k/2) rows and not k/2;
both halos are cut along the height, so both have kernel_h; and a rank has two neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringside import Machine

if TYPE_CHECKING:
    from given.conv_sizes import Layer


def data_bytes(layers: list[Layer], batch: int, world_size: int, itemsize: int = 4) -> float:
    """Bytes of all ranks in a step of data parallelism: they don't depend on the batch.

    Args:
        layers: a list of ``given.conv_sizes.Layer``, the first layer first; one or more.
        batch: B images.
        world_size: P ranks.
        itemsize: bytes of an element.
    """
    ### BEGIN SOLUTION
    return 2 * (world_size - 1) * sum(layer.weights for layer in layers) * itemsize
    ### END SOLUTION


def filter_bytes(layers: list[Layer], batch: int, world_size: int, itemsize: int = 4) -> float:
    """Bytes of all ranks in a step of filter parallelism."""
    ### BEGIN SOLUTION
    outputs = sum(layer.outputs for layer in layers)
    inputs = sum(layer.inputs for layer in layers[1:])
    return (world_size - 1) * batch * (outputs + inputs) * itemsize
    ### END SOLUTION


def domain_bytes(layers: list[Layer], batch: int, world_size: int, itemsize: int = 4) -> float:
    """Bytes of all ranks in a step of domain parallelism."""
    ### BEGIN SOLUTION
    halos = 2 * (world_size - 1) * sum(_halos(layers, batch)) * itemsize
    return halos + data_bytes(layers, batch, world_size, itemsize)


def _halos(layers, batch):
    """Elements to one neighbour, of each halo in a step."""
    for number, layer in enumerate(layers):
        for channels in (layer.in_channels, layer.out_channels)[: 1 + (number > 0)]:
            yield batch * channels * layer.width * (layer.kernel_h // 2)
    ### END SOLUTION


def data_s(
    layers: list[Layer], batch: int, world_size: int, machine: Machine, itemsize: int = 4
) -> float:
    """Seconds of a step's messages in data parallelism; one all-reduce for each layer."""
    ### BEGIN SOLUTION
    return sum(2 * _ring_s(layer.weights * itemsize, world_size, machine) for layer in layers)


def _ring_s(nbytes, world_size, machine):
    """Once round the ring."""
    alpha, beta = machine.alpha_s, machine.beta_s_per_byte
    return (world_size - 1) * (alpha + nbytes / world_size * beta)
    ### END SOLUTION


def filter_s(
    layers: list[Layer], batch: int, world_size: int, machine: Machine, itemsize: int = 4
) -> float:
    """Seconds of a step's messages in filter parallelism."""
    ### BEGIN SOLUTION
    gathered = [layer.outputs for layer in layers]
    scattered = [layer.inputs for layer in layers[1:]]
    return sum(
        _ring_s(batch * count * itemsize, world_size, machine) for count in gathered + scattered
    )
    ### END SOLUTION


def domain_s(
    layers: list[Layer], batch: int, world_size: int, machine: Machine, itemsize: int = 4
) -> float:
    """Seconds of a step's messages in domain parallelism: each halo has an alpha of its own."""
    ### BEGIN SOLUTION
    neighbours = min(2, world_size - 1)
    halos = [count * itemsize for count in _halos(layers, batch) if count and neighbours]
    halos_s = sum(
        machine.alpha_s + neighbours * nbytes * machine.beta_s_per_byte for nbytes in halos
    )
    return halos_s + data_s(layers, batch, world_size, machine, itemsize)
    ### END SOLUTION


def best(
    layers: list[Layer], batch: int, world_size: int, machine: Machine, itemsize: int = 4
) -> str:
    """The way whose step is shortest: ``"data"``, ``"filter"`` or ``"domain"``.

    A step's time is that of its messages, and that of the rank that computes most. A forward pass,
    a backward pass for the filters, and one for the input, which the first layer doesn't need, each
    take ``2 B layer.weights height width / machine.flop_per_s`` on one rank. Of this the rank that
    computes most has ``ceil(B / P)`` of B images, ``ceil(O / P)`` of O filters, or ``ceil(height /
    P)`` of ``height`` rows.

    A way is possible if each rank has something to do and its neighbours have its halo: data if
    P <= B; filter if P <= O in each layer; domain if in each layer ``floor(height / P)`` is at
    least ``floor(kernel_h / 2)`` and at least 1. Of two that take the same time, either is right.

    Raises:
        ValueError: none is possible.
    """
    ### BEGIN SOLUTION
    times = {}
    if world_size <= batch:
        shares = [-(-batch // world_size) / batch for layer in layers]
        times["data"] = data_s(layers, batch, world_size, machine, itemsize), shares
    if all(world_size <= layer.out_channels for layer in layers):
        shares = [-(-layer.out_channels // world_size) / layer.out_channels for layer in layers]
        times["filter"] = filter_s(layers, batch, world_size, machine, itemsize), shares
    if all(layer.height // world_size >= max(1, layer.kernel_h // 2) for layer in layers):
        shares = [-(-layer.height // world_size) / layer.height for layer in layers]
        times["domain"] = domain_s(layers, batch, world_size, machine, itemsize), shares
    if not times:
        raise ValueError(
            f"{world_size} ranks are too many for {batch} images and these layers: use fewer."
        )

    def step_s(name):
        messages_s, shares = times[name]
        flops = sum(
            share * (3 if number else 2) * 2 * batch * layer.weights * layer.height * layer.width
            for number, (layer, share) in enumerate(zip(layers, shares, strict=True))
        )
        return messages_s + flops / machine.flop_per_s

    return min(times, key=step_s)
    ### END SOLUTION
