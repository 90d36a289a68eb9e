"""Layers with an explicit backward pass, whose gradient is one flat vector: supplied for zero2.

    forward    x (b, d_in)  ->  y = tanh(x @ W + b)  (b, d_out)
    backward   dL/dy        ->  dL/dx, and [dL/dW row by row, dL/db] as one vector

Every pass is announced to the network and declares its floating-point operations. In tests of
order the network answers with factors that scale the pass's input, so that it can't have been
computed before; everywhere else they are 1.
"""

from itertools import pairwise

import numpy as np

import ringside


class Layer:
    """``y = tanh(x @ weight + bias)``.

    Args:
        number: 0, 1, 2, ... from the input on.
        weight: shape ``(d_in, d_out)``.
        bias: shape ``(d_out,)``.
    """

    def __init__(self, number, weight, bias):
        self.number, self.weight, self.bias = number, weight, bias
        self.size = weight.size + bias.size  # elements of its gradient

    def forward(self, x):
        """Shape ``(b, d_in)`` to ``(b, d_out)``; keeps what the backward pass needs."""
        self._x = self._begin(2, f"forward layer {self.number}", x)
        self._y = np.tanh(self._x @ self.weight + self.bias)
        return self._y

    def backward(self, grad_output):
        """Return ``(grad_input, gradient)``: new arrays, the second of shape ``(size,)``."""
        g = self._begin(4, f"backward layer {self.number}", grad_output) * (1 - self._y**2)
        gradient = np.empty(self.size, g.dtype)
        np.matmul(self._x.T, g, out=gradient[: self.weight.size].reshape(self.weight.shape))
        np.sum(g, axis=0, out=gradient[self.weight.size :])
        return g @ self.weight.T, gradient

    def _begin(self, times, phase, given):
        given = ringside.announce(phase, given, 1)
        ringside.compute(num_flops=times * len(given) * self.weight.size, phase=phase)
        return given


def make_layers(params):
    """Layers of weights and biases in turn: ``[W0, b0, W1, b1, ...]``."""
    pairs = zip(params[::2], params[1::2], strict=True)
    return [Layer(number, weight, bias) for number, (weight, bias) in enumerate(pairs)]


def random_params(widths, rng, dtype="float64"):
    """Weights and biases in turn for layers of ``widths[0] -> widths[1] -> ...``."""
    params = []
    for d_in, d_out in pairwise(widths):
        params.append((rng.standard_normal((d_in, d_out)) / np.sqrt(d_in)).astype(dtype))
        params.append((rng.standard_normal(d_out) / 10).astype(dtype))
    return params
