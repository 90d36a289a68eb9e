"""A model in pieces, whose parameters are an argument of each pass: supplied, nothing to write.

    x -> piece 0 -> piece 1 -> ... -> output -> loss           layer: y = tanh(x @ weight + bias)

Stage s of S has piece s. A piece holds no parameters: each pass is told which version it uses.

    y, saved = piece.forward(minibatch, params, x)
    grad_x, grads = piece.backward(minibatch, params, saved, grad_y)

What a forward pass must keep for the backward pass it returns, as ``saved``. You hold it, and the
version of the parameters, for as many minibatches as are under way.

Every pass lets virtual time pass, ``forward_s`` or ``backward_s``, and timelines call it
"F2 of piece 5".

Every pass is announced, too. In tests of order the network answers with factors that scale the
pass's input, so that it can't have been computed before; everywhere else they are 1.
"""

import itertools

import numpy as np

import ringside


class Piece:
    """Some layers, one after another; any number of minibatches may be under way.

    Args:
        number: which piece of the model it is.
        forward_s: virtual time of a forward pass: a number, or one number a minibatch.
        backward_s: of a backward pass, likewise.
    """

    def __init__(self, number=0, forward_s=1e-6, backward_s=2e-6):
        self.number = number
        self.forward_s, self.backward_s = forward_s, backward_s

    def forward(self, minibatch, params, x):
        """Shape ``(samples, d_in)`` to ``(samples, d_out)``.

        Args:
            minibatch: its number.
            params: weight and bias of each layer in turn, shapes ``(d_in, d_out)`` and
                ``(d_out,)``; not modified.

        Returns:
            ``(y, saved)``: the output, and what the backward pass of this minibatch needs.
        """
        x, saved = self._begin("F", minibatch, self.forward_s, x), []
        for weight, bias in zip(params[::2], params[1::2], strict=True):
            y = np.tanh(x @ weight + bias)
            saved.append((x, y))
            x = y
        return x, saved

    def backward(self, minibatch, params, saved, grad_y):
        """From the gradient of the output to those of the input and of the parameters.

        Args:
            params: the version that the forward pass of this minibatch used.

        Returns:
            ``(grad_x, grads)``; ``grads`` has the shapes of ``params``.
        """
        grad, grads = self._begin("B", minibatch, self.backward_s, grad_y), []
        for (x, y), weight in zip(reversed(saved), params[-2::-2], strict=True):
            grad = grad * (1 - y * y)
            grads += [grad.sum(axis=0), x.T @ grad]
            grad = grad @ weight.T
        return grad, grads[::-1]

    def _begin(self, kind, minibatch, seconds, given):
        """Announce a pass and let its time pass; returns its input, scaled in tests of order."""
        phase = f"{kind}{minibatch} of piece {self.number}"
        given = ringside.announce(phase, given, 0)
        seconds = float(seconds if np.ndim(seconds) == 0 else seconds[minibatch])
        ringside.compute(seconds=seconds, phase=phase)
        return given


def loss(output, target):
    """Half the mean over the samples of ``|output - target|^2``; both ``(samples, width)``."""
    return float(0.5 * ((output - target) ** 2).sum() / len(output))


def loss_gradient(output, target):
    """The gradient of ``loss`` with respect to the output."""
    return (output - target) / len(output)


def random_parameters(widths, rng, dtype="float64"):
    """Weight and bias in turn, for layers of ``widths[0] -> widths[1] -> ...``."""
    params = []
    for d_in, d_out in itertools.pairwise(widths):
        params.append((rng.standard_normal((d_in, d_out)) / np.sqrt(d_in)).astype(dtype))
        params.append((rng.standard_normal(d_out) / 10).astype(dtype))
    return params
