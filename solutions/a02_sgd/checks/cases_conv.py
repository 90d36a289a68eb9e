"""The calls of conv.py that the tests make, and what must come of them, window by window.

The oracle goes forward only. Its results are linear in images, in filters and in biases, so it
finds what each number does by itself: it puts a 1 there, and 0 elsewhere.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from checks.cases import Drawn


def convolved(x, w, stride=1, pad=0):
    """Every image with every filter, in float64."""
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = sliding_window_view(padded, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,fcij->nfhw", windows, w.astype("float64"))


def units(*shape):
    """Arrays of this shape, as many as it has elements: each has a 1 in another place."""
    return np.eye(math.prod(shape)).reshape(-1, *shape)


@dataclass(frozen=True)
class Toeplitz(Drawn):
    """The matrix of one kernel, of an image's shape."""

    target = "conv:toeplitz"
    kernel: tuple = (2, 2)
    image: tuple = (3, 3)

    def given(self):
        return self.numbers(self.rng(), *self.kernel), self.image

    def right(self):
        kernel, image = self.given()
        windows = (sliding_window_view(each, kernel.shape) for each in units(*image))
        columns = [np.einsum("hwij,ij->hw", each, kernel).ravel() for each in windows]
        return np.stack(columns, axis=1).astype(self.dtype)


@dataclass(frozen=True)
class Images(Drawn):
    """Images ``x`` and filters ``w`` of these shapes.

    Attributes:
        options: whether stride and padding are given.
    """

    x: tuple = (2, 3, 6, 5)
    w: tuple = (4, 3, 3, 2)
    stride: int = 1
    pad: int = 0
    options: bool = True

    @property
    def how(self):
        return (self.stride, self.pad) if self.options else ()

    @property
    def images(self):
        return self.numbers(self.rng(), *self.x, dtype=self.x_dtype, most=255)

    @property
    def filters(self):
        return self.numbers(self.rng(0), *self.w)

    @property
    def out(self):
        """Rows and columns of windows."""
        pairs = zip(self.x[2:], self.w[2:], strict=True)
        return [(n + 2 * self.pad - k) // self.stride + 1 for n, k in pairs]

    @property
    def num_windows(self):
        return self.x[0] * math.prod(self.out)

    @property
    def most_lines(self):
        return 200 * self.num_windows

    @property
    def rule(self):
        return f"200 for each of {self.num_windows} windows, so NumPy must do the products"

    @property
    def im2col_bytes(self):
        """Of im2col's matrix, images, filters and outputs, as the docstring counts them."""
        columns = self.num_windows * math.prod(self.w[1:])
        numbers = columns + math.prod(self.x) + math.prod(self.w) + self.num_windows * self.w[0]
        return numbers * np.dtype(self.dtype).itemsize

    def windows(self):
        """Every window as a column: what filters give that have a single 1."""
        y = convolved(self.images, units(*self.w[1:]), self.stride, self.pad)
        return y.reshape(*y.shape[:2], -1)


@dataclass(frozen=True)
class Im2col(Images):
    """Windows of the filters' shape; ``dtype`` is that of the images."""

    target = "conv:im2col"

    @property
    def second(self):
        """Images of as many pixels in another shape."""
        *others, rows, columns = self.x
        return self.with_(seed=self.seed + 1, x=(*others, columns, rows))

    def given(self):
        return self.images, self.w[2:], *self.how

    def right(self):
        return self.windows().astype(self.dtype)


@dataclass(frozen=True)
class ConvForward(Images):
    target = "conv:conv_forward"

    def given(self):
        return self.images, self.filters, self.numbers(self.rng(1), self.w[0]), *self.how

    def right(self):
        x, w, b, *_ = self.given()
        return convolved(x, w, self.stride, self.pad) + b[:, None, None].astype("float64")

    def wrong(self):
        x, w, b, *_ = self.given()
        biases, how = b[:, None, None].astype("float64"), (self.stride, self.pad)
        return {
            "Here the kernels are flipped; in deep learning they are not.": (
                convolved(x, w[:, :, ::-1, ::-1], *how) + biases
            ),
            "The biases are missing.": convolved(x, w, *how),
        }

    @property
    def most_bytes(self):
        return 4, self.im2col_bytes


@dataclass(frozen=True)
class ConvBackward(Images):
    target = "conv:conv_backward"
    parts = ("dx", "dw", "db")

    def given(self):
        dy = self.numbers(self.rng(1), self.x[0], self.w[0], *self.out)
        return dy, self.images, self.filters, *self.how

    def right(self):
        dy, _, w = (each.astype("float64") for each in self.given()[:3])
        flat = dy.reshape(*dy.shape[:2], -1)
        dw = np.einsum("nop,nqp->oq", flat, self.windows()).reshape(self.w)
        dx = np.zeros(self.x)
        for channel in range(self.x[1]):  # of which each pixel makes an image
            pixels = units(*self.x[2:])[:, None]
            y = convolved(pixels, w[:, channel : channel + 1], self.stride, self.pad)
            of_each = np.tensordot(flat, y.reshape(*y.shape[:2], -1), axes=((1, 2), (1, 2)))
            dx[:, channel] = of_each.reshape(self.x[0], *self.x[2:])
        return [dx, dw, dy.sum(axis=(0, 2, 3))]

    @property
    def most_bytes(self):
        return 6, self.im2col_bytes
