"""The numbers of a convolution layer that cost anything: supplied for cost."""

import itertools
from typing import NamedTuple


class Layer(NamedTuple):
    """A convolution with stride 1 and zero padding, so that images keep their height and width.

    Args:
        height, width: of its input and of its output.
        in_channels, out_channels: C and O.
        kernel_h, kernel_w: rows and columns of a filter, odd.
    """

    height: int
    width: int
    in_channels: int
    out_channels: int
    kernel_h: int = 3
    kernel_w: int = 3

    @property
    def weights(self) -> int:
        """Elements of its filters; biases are left out."""
        return self.kernel_h * self.kernel_w * self.in_channels * self.out_channels

    @property
    def inputs(self) -> int:
        """Elements of an image that comes in, X."""
        return self.height * self.width * self.in_channels

    @property
    def outputs(self) -> int:
        """Elements of an image that goes out, Y."""
        return self.height * self.width * self.out_channels


def halving(resolution, channels):
    """Layers of 3 x 3 filters; between two of them pooling halves height and width.

    >>> halving(64, (3, 16, 32))
    [Layer(height=64, width=64, in_channels=3, out_channels=16, kernel_h=3, kernel_w=3),
     Layer(height=32, width=32, in_channels=16, out_channels=32, kernel_h=3, kernel_w=3)]
    """
    return [
        Layer(resolution >> k, resolution >> k, c, o)
        for k, (c, o) in enumerate(itertools.pairwise(channels))
    ]
