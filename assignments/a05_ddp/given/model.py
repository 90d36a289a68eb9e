"""A network of layers with explicit backward, which state what they compute: supplied.

    x -> layers[0] -> layers[1] -> ... -> output          forward
         layers[0] <- layers[1] <- ... <- grad_output     backward: last layer first

A layer's backward pass writes the gradients of its parameters into the arrays ``layer.grads``,
in place, and returns the gradient with respect to its input. Whatever array stands in
``layer.grads`` is written to: it may be a part of a longer one.

Every pass declares its floating-point operations with ``ringside.compute``, so virtual time
passes for it; ``work`` multiplies them, so that a small layer can take the time of a large one.

Every pass is announced, too. In tests of order the network answers with factors that scale the
pass's input, so that it can't have been computed before; everywhere else they are 1.
"""

import itertools

import numpy as np

import ringside


class Linear:
    """``y = x @ weight + bias``.

    Args:
        name: what timelines call it.
        weight: shape ``(d_in, d_out)``.
        bias: shape ``(d_out,)``.
        work: how many times its floating-point operations count.
    """

    def __init__(self, name, weight, bias, work=1.0):
        self.name = name
        self.params = [weight, bias]
        self.grads = [np.zeros_like(weight), np.zeros_like(bias)]
        self.work = work
        self.step = 0  # forward passes so far

    def forward(self, x):
        """Shape ``(batch, d_in)`` to ``(batch, d_out)``; keeps ``x`` for the backward pass."""
        self.step += 1
        self.x = self._begin(2, f"forward {self.name}", x)
        return self.x @ self.params[0] + self.params[1]

    def backward(self, grad_output):
        """Write ``grads`` and return the gradient with respect to the input."""
        grad_output = self._begin(4, f"backward {self.name}", grad_output)
        np.matmul(self.x.T, grad_output, out=self.grads[0])
        np.sum(grad_output, axis=0, out=self.grads[1])
        return grad_output @ self.params[0].T

    def _begin(self, times, phase, given):
        """Announce a pass and let its time pass; returns its input, scaled in tests of order."""
        given = ringside.announce(phase, given, self.step)
        ringside.compute(
            num_flops=self.work * times * len(given) * self.params[0].size, phase=phase
        )
        return given


class Tanh:
    """``y = tanh(x)``: no parameters; its operations are not counted."""

    def __init__(self):
        self.params, self.grads = [], []

    def forward(self, x):
        """Any shape to the same."""
        self.y = np.tanh(x)
        return self.y

    def backward(self, grad_output):
        """Return the gradient with respect to the input."""
        return grad_output * (1 - self.y**2)


class Model:
    """Linear layers with Tanh between them.

    Args:
        params: weight and bias of each layer in turn: parameter 0, 1, 2, ... of the model.
        work: per linear layer, how many times its operations count; or one number for all.
    """

    def __init__(self, params, work=1.0):
        pairs = list(zip(params[::2], params[1::2], strict=True))
        factors = np.broadcast_to(work, len(pairs))
        self.layers = []
        for number, ((weight, bias), factor) in enumerate(zip(pairs, factors, strict=True)):
            if number:
                self.layers.append(Tanh())
            self.layers.append(Linear(f"layer {number}", weight, bias, float(factor)))

    def owners(self):
        """Per parameter ``i`` a pair ``(layer, k)``: it is ``layer.params[k]``.

        Its gradient is ``layer.grads[k]``.
        """
        return [(layer, k) for layer in self.layers for k in range(len(layer.params))]

    def parameters(self):
        """All parameters, in the order of the layers."""
        return [layer.params[k] for layer, k in self.owners()]

    def gradients(self):
        """All gradients, in the order of the parameters."""
        return [layer.grads[k] for layer, k in self.owners()]

    def forward(self, x):
        """The output for a batch, shape ``(batch, d_in)`` to ``(batch, d_out)``."""
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, grad_output):
        """The serial backward pass: all gradients, and that with respect to the input."""
        for layer in reversed(self.layers):
            grad_output = layer.backward(grad_output)
        return grad_output


def loss_gradient(output, target):
    """Gradient of ``0.5 * mean over the batch of |output - target|^2``."""
    return (output - target) / len(output)


def random_parameters(widths, rng, dtype="float64"):
    """Weights and biases for layers of ``widths[0] -> widths[1] -> ...``."""
    params = []
    for d_in, d_out in itertools.pairwise(widths):
        params.append((rng.standard_normal((d_in, d_out)) / np.sqrt(d_in)).astype(dtype))
        params.append((rng.standard_normal(d_out) / 10).astype(dtype))
    return params
