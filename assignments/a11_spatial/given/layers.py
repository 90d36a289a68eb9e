"""A convolution of some rows, by im2col, with explicit backward passes: supplied for conv.

    forward            rows  (B, C, m, W)       ->  y     (B, O, n, W_out)    n windows down
    backward_weight    rows, dL/dy              ->  dL/dw (O, C, k, k) and dL/db (O,)
    backward_input     dL/dy (B, O, n, W_out)   ->  dL/drows (B, C, (n - 1) stride + k, W)

Down the rows nothing is padded: m rows have n = (m - k) // stride + 1 windows, and the rows are
those that you give. Left and right stand ``pad = k // 2`` columns of zeros, so for odd k the width
W_out is ceil(W / stride).

Each pass takes ``first``, the number of its first output row in the whole image's output. It is
announced to the network under the numbers of its output rows ("forward, rows 3 to 7"), and declares
its floating-point operations. In tests of order the network answers with factors that scale the
pass's input, so that it can't have been computed before; everywhere else they are 1. A pass of no
rows does nothing.
"""

import numpy as np

import ringside


class Conv:
    """``k x k`` filters for images of C channels.

    Args:
        weight: shape ``(O, C, k, k)``, k odd.
        bias: shape ``(O,)``.
        stride: 1 or 2, down and across alike.
    """

    def __init__(self, weight, bias, stride=1):
        self.weight, self.bias, self.stride = weight, bias, stride
        self.k = weight.shape[2]
        self.pad = self.k // 2

    def forward(self, rows, first):
        """The outputs of all windows of ``rows``, shape ``(B, C, m, W)``, m >= k or no window."""
        num_rows, width = self._windows(rows)
        if not num_rows:
            return np.zeros((len(rows), len(self.bias), 0, width), rows.dtype)
        rows = self._begin("forward", rows, first, num_rows, len(rows) * num_rows * width)
        y = self.weight.reshape(len(self.weight), -1) @ self._columns(rows)
        y += self.bias[:, None]
        return y.reshape(len(rows), len(self.bias), num_rows, width)

    def backward_weight(self, rows, dy, first):
        """``(dw, db)``: of the windows of ``rows``, whose outputs' gradient is ``dy``."""
        if not dy.shape[2]:
            return np.zeros_like(self.weight), np.zeros_like(self.bias)
        dy = self._begin("backward weight", dy, first, dy.shape[2], dy.size // dy.shape[1])
        flat = dy.reshape(*dy.shape[:2], -1)
        dw = (flat @ self._columns(rows).transpose(0, 2, 1)).sum(axis=0)
        return dw.reshape(self.weight.shape), dy.sum(axis=(0, 2, 3))

    def backward_input(self, dy, width, first):
        """The gradient of the rows that the windows of ``dy`` see; ``width`` is these rows' W.

        Where windows overlap it is the sum over them; over the windows of ``dy``, that is.
        """
        (B, num_out, n, w_out), C, s, k = dy.shape, self.weight.shape[1], self.stride, self.k
        if not n:
            return np.zeros((B, C, 0, width), dy.dtype)
        dy = self._begin("backward input", dy, first, n, B * n * w_out)
        pieces = self.weight.reshape(num_out, -1).T @ dy.reshape(B, num_out, -1)
        pieces = pieces.reshape(B, C, k, k, n, w_out)
        padded = np.zeros((B, C, (n - 1) * s + k, width + 2 * self.pad), dy.dtype)
        for u, v in np.ndindex(k, k):
            padded[:, :, u : u + s * n : s, v : v + s * w_out : s] += pieces[:, :, u, v]
        return padded[:, :, :, self.pad : self.pad + width]

    def _windows(self, rows):
        """How many windows there are down and across."""
        down = max(0, (rows.shape[2] - self.k) // self.stride + 1)
        return down, (rows.shape[3] - 1) // self.stride + 1

    def _columns(self, rows):
        """im2col: a column for each window, shape ``(B, C k k, windows)``."""
        sides = [(0, 0)] * 3 + [(self.pad, self.pad)]
        windows = np.lib.stride_tricks.sliding_window_view(
            np.pad(rows, sides), (self.k, self.k), axis=(2, 3)
        )[:, :, :: self.stride, :: self.stride]
        columns = windows.transpose(0, 1, 4, 5, 2, 3)
        return columns.reshape(len(rows), self.weight[0].size, -1)

    def _begin(self, what, given, first, num_rows, num_windows):
        """Announce a pass and declare its work; returns its input, scaled in tests of order."""
        phase = f"{what}, rows {first} to {first + num_rows - 1}"
        given = ringside.announce(phase, given, 0)
        ringside.compute(num_flops=2 * self.weight.size * num_windows, phase=phase)
        return given


def random_conv(in_channels, out_channels, k, rng, dtype="float64", stride=1):
    """A ``Conv`` with random filters and biases."""
    weight = rng.standard_normal((out_channels, in_channels, k, k)) / (k * in_channels**0.5)
    bias = rng.standard_normal(out_channels) / 10
    return Conv(weight.astype(dtype), bias.astype(dtype), stride)
