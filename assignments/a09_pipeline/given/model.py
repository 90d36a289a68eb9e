"""A model in pieces, with explicit forward and backward passes of one microbatch.

    x -> piece 0 -> piece 1 -> ... -> output -> loss           layer: y = tanh(x @ weight + bias)

With S stages and v chunks there are v S pieces. Piece ``chunk * S + stage`` is on stage ``stage``,
so piece k gets its input from the stage of piece k - 1, and the last stage's last piece makes the
output.

What a forward pass must keep for the backward pass it returns, as ``saved``: you hold it, for as
many microbatches as are under way, and let it go.

Every pass lets virtual time pass, ``forward_s`` or ``backward_s``, and timelines call it
"F2 of piece 5".

Every pass is announced, too. In tests of order the network answers with factors that scale the
pass's input, so that it can't have been computed before; everywhere else they are 1.
"""

import itertools

import numpy as np

import ringside


class Piece:
    """Some layers, one after another; any number of microbatches may be under way.

    Args:
        params: weight and bias of each layer in turn, shapes ``(d_in, d_out)`` and ``(d_out,)``.
        number: which piece of the model it is.
        forward_s: virtual time of a forward pass, for any number of samples.
        backward_s: of a whole backward pass; each half takes half of it.
    """

    def __init__(self, params, number=0, forward_s=1e-6, backward_s=2e-6):
        self.params = list(params)
        self.grads = [np.zeros_like(param) for param in self.params]
        self.number = number
        self.forward_s, self.backward_s = forward_s, backward_s

    @property
    def width_in(self):
        """Length of an input sample."""
        return self.params[0].shape[0]

    @property
    def width_out(self):
        """Length of an output sample."""
        return self.params[-1].shape[0]

    @property
    def dtype(self):
        """Of parameters, activations and gradients."""
        return self.params[0].dtype

    def forward(self, microbatch, x):
        """Shape ``(samples, width_in)`` to ``(samples, width_out)``.

        Args:
            microbatch: its number, for the timeline.

        Returns:
            ``(y, saved)``: the output, and what a backward pass of this microbatch needs.
        """
        x, saved = self._begin(f"F{microbatch}", self.forward_s, x), []
        for weight, bias in zip(self.params[::2], self.params[1::2], strict=True):
            y = np.tanh(x @ weight + bias)
            saved.append((x, y))
            x = y
        return x, saved

    def backward(self, microbatch, saved, grad_y):
        """Add this microbatch's gradients to ``grads``; return that with respect to the input."""
        grad_y = self._begin(f"B{microbatch}", self.backward_s, grad_y)
        grad_x, pending = self._through(saved, grad_y)
        self._add(pending)
        return grad_x

    def backward_input(self, microbatch, saved, grad_y):
        """The first half of ``backward``: ``(grad_x, pending)``; ``saved`` may go then."""
        grad_y = self._begin(f"I{microbatch}", self.backward_s / 2, grad_y)
        return self._through(saved, grad_y)

    def backward_weight(self, microbatch, pending):
        """The second half: add this microbatch's gradients to ``grads``."""
        samples = np.ones((len(pending[0][0]), 1), self.dtype)
        self._add(pending, self._begin(f"W{microbatch}", self.backward_s / 2, samples))

    def _through(self, saved, grad):
        pending = []
        for (x, y), weight in zip(reversed(saved), self.params[-2::-2], strict=True):
            grad = grad * (1 - y * y)
            pending.append((x, grad))
            grad = grad @ weight.T
        return grad, pending[::-1]

    def _add(self, pending, samples=None):
        for k, (x, grad) in enumerate(pending):
            grad = grad if samples is None else grad * samples
            self.grads[2 * k] += x.T @ grad
            self.grads[2 * k + 1] += grad.sum(axis=0)

    def _begin(self, what, seconds, given):
        """Announce a pass and let its time pass; returns its input, scaled in tests of order."""
        phase = f"{what} of piece {self.number}"
        given = ringside.announce(phase, given, 0)
        ringside.compute(seconds=seconds, phase=phase)
        return given


def loss(output, target, batch_size):
    """This microbatch's part of half the mean over the whole batch of ``|output - target|^2``.

    Args:
        output, target: shape ``(samples, width)``, of one microbatch.
        batch_size: samples of all microbatches together.
    """
    return float(0.5 * ((output - target) ** 2).sum() / batch_size)


def loss_gradient(output, target, batch_size):
    """The gradient of ``loss`` with respect to the output."""
    return (output - target) / batch_size


def random_parameters(widths, rng, dtype="float64"):
    """Weight and bias in turn, for layers of ``widths[0] -> widths[1] -> ...``."""
    params = []
    for d_in, d_out in itertools.pairwise(widths):
        params.append((rng.standard_normal((d_in, d_out)) / np.sqrt(d_in)).astype(dtype))
        params.append((rng.standard_normal(d_out) / 10).astype(dtype))
    return params
