"""Networks as data: what ``account.py`` counts. Supplied, nothing to write.

A network is an image's shape and a tuple of layers; each layer's input is the output of the one
before it. A ReLU works in place and counts as nothing. Before the first ``Linear`` the image is
flattened: channels x rows x columns numbers in a row.
"""

from dataclasses import dataclass


def size(shape):
    """How many numbers an array of this shape has."""
    number = 1
    for n in shape:
        number *= n
    return number


@dataclass(frozen=True)
class Conv:
    """A convolution, square: output ``(out_channels, H_out, W_out)``, with biases.

    The channels are cut into ``groups`` of equal size, those of the input and those of the output:
    an output channel looks at the input channels of its own group only.
    """

    out_channels: int
    kernel: int
    stride: int = 1
    pad: int = 0
    groups: int = 1
    doubled: bool = False  # a famous slide counts this layer's output twice


@dataclass(frozen=True)
class Pool:
    """The largest of each window, channel by channel, without padding; no parameters."""

    kernel: int
    stride: int
    doubled: bool = False


@dataclass(frozen=True)
class Linear:
    """``x @ W + b`` with ``out_features`` columns."""

    out_features: int
    doubled: bool = False


@dataclass(frozen=True)
class Network:
    """Layers one after another."""

    name: str
    input_shape: tuple  # (channels, rows, columns), or (features,)
    layers: tuple


def alexnet(groups):
    """AlexNet (Krizhevsky, Sutskever, Hinton 2012), section 3.5; two groups, one for each GPU."""
    return Network(
        "AlexNet",
        (3, 227, 227),
        (
            Conv(96, 11, stride=4, doubled=True),
            Pool(3, stride=2, doubled=True),
            Conv(256, 5, pad=2, groups=groups, doubled=True),
            Pool(3, stride=2, doubled=True),
            Conv(384, 3, pad=1),
            Conv(384, 3, pad=1, groups=groups),
            Conv(256, 3, pad=1, groups=groups),
            Pool(3, stride=2),
            *(Linear(4096), Linear(4096), Linear(1000)),
        ),
    )


ALEXNET = alexnet(groups=2)
ALEXNET_ONE_GROUP = alexnet(groups=1)
# LeCun et al. 1998, with a full second convolution and plain linear layers.
LENET5 = Network(
    "LeNet-5",
    (1, 28, 28),
    (Conv(6, 5, pad=2), Pool(2, 2), Conv(16, 5), Pool(2, 2), Linear(120), Linear(84), Linear(10)),
)
# Simonyan, Zisserman 2015, table 1, column D.
VGG16 = Network(
    "VGG-16",
    (3, 224, 224),
    (
        *(Conv(64, 3, pad=1), Conv(64, 3, pad=1), Pool(2, 2)),
        *(Conv(128, 3, pad=1), Conv(128, 3, pad=1), Pool(2, 2)),
        *(Conv(256, 3, pad=1),) * 3,
        Pool(2, 2),
        *(Conv(512, 3, pad=1),) * 3,
        Pool(2, 2),
        *(Conv(512, 3, pad=1),) * 3,
        Pool(2, 2),
        *(Linear(4096), Linear(4096), Linear(1000)),
    ),
)
