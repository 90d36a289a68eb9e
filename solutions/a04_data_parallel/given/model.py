"""A network with an explicit backward pass: supplied, nothing to write.

    x (b, d0)  ->  x @ W1 + b1  ->  ReLU  ->  ...  ->  @ WL + bL  ->  softmax  ->  cross-entropy

Parameters are a list of arrays, a weight and a bias a layer: ``[W1, b1, W2, b2, ...]``, of shapes
``(d0, d1), (d1,), (d1, d2), (d2,), ...``. Gradients are a list of the same shapes.

The matrix products count as work on the modelled machine, in the phases "forward 1",
"forward 2", ..., "backward 2", "backward 1" of a timeline; the rest counts as nothing.
"""

from itertools import pairwise

import numpy as np

import ringside


def init_params(widths, seed, dtype="float64"):
    """Random parameters of a network with layers of these widths.

    Args:
        widths: ``(d0, d1, ..., dL)``: inputs, hidden units of each layer, classes.
        seed: other seeds give other parameters.

    Returns:
        A list of ``2 L`` arrays; weights are drawn with variance ``2 / d``, biases are small.
    """
    rng = np.random.default_rng(seed)
    params = []
    for d_in, d_out in pairwise(widths):
        params.append((rng.standard_normal((d_in, d_out)) * np.sqrt(2 / d_in)).astype(dtype))
        params.append((rng.standard_normal(d_out) * 0.01).astype(dtype))
    return params


def num_flops(params, b):
    """Floating-point operations of one ``loss_and_gradients`` on ``b`` samples."""
    weights = [W.size for W in params[0::2]]
    # Forward x @ W, backward x.T @ dz and dz @ W.T; the first layer needs no gradient of x.
    return 2 * b * (3 * sum(weights) - weights[0])


def _matmul(a, b, phase):
    ringside.compute(num_flops=2 * a.shape[0] * a.shape[1] * b.shape[1], phase=phase)
    return a @ b


def _forward(params, x):
    """Return the inputs of every layer, and the scores of the last one."""
    inputs, last = [x], len(params) // 2
    for layer in range(1, last + 1):
        W, b = params[2 * layer - 2], params[2 * layer - 1]
        z = _matmul(inputs[-1], W, f"forward {layer}") + b  # (b, d_layer)
        inputs.append(z if layer == last else np.maximum(z, 0))
    return inputs[:-1], inputs[-1]


def loss_and_gradients(params, x, y):
    """Mean loss of some samples, and its gradient.

    Args:
        params: as ``init_params`` gives them; not modified.
        x: shape ``(b, d0)``, of the parameters' dtype.
        y: shape ``(b,)``, the right classes, 0 to dL - 1.

    Returns:
        ``(loss, gradients)``: a float, and a list of new arrays. Both are *means over these b
        samples*. Without samples (b = 0) both are 0.
    """
    num_samples = len(x)
    if num_samples == 0:
        return 0.0, [np.zeros_like(p) for p in params]
    inputs, z = _forward(params, x)
    z = z - z.max(axis=1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    picked = np.arange(num_samples), y
    loss = float(-log_p[picked].mean())
    dz = np.exp(log_p)
    dz[picked] -= 1
    dz /= num_samples  # (b, dL)
    gradients = [None] * len(params)
    for layer in range(len(params) // 2, 0, -1):
        x_in = inputs[layer - 1]  # (b, d_in)
        gradients[2 * layer - 2] = _matmul(x_in.T, dz, f"backward {layer}")
        gradients[2 * layer - 1] = dz.sum(axis=0)
        if layer > 1:
            dz = _matmul(dz, params[2 * layer - 2].T, f"backward {layer}") * (x_in > 0)
    return loss, gradients


def accuracy(params, x, y):
    """Share of samples whose class the network gets right, 0 to 1."""
    _, z = _forward(params, x)
    return float((z.argmax(axis=1) == y).mean())
