"""Stochastic gradient descent on a network of linear layers, with an explicit backward pass.

    forward    x (B, d0) -> x @ W1 + b1 -> ReLU -> ... -> @ WL + bL -> scores (B, dL) -> loss

    backward   dL/dx = dL/dy @ W.T       of a layer y = x @ W + b: three matrix products
               dL/dW = x.T @ dL/dy       in all, one forward and two backward
               dL/db = sum of the rows of dL/dy

    update     v <- momentum v + gradient
               w <- w - lr v

Parameters are a list of arrays, a weight and a bias for each layer: ``[W1, b1, W2, b2, ...]``, of
shapes ``(d0, d1), (d1,), (d1, d2), (d2,), ...``; there may be any number of layers, one too.

Rules for every function:

- Parameters, velocity and gradients are of one dtype, float64 or float32, and so are all arrays
  that are computed from them. The samples ``x`` may be of another, integers too (pixels are).
  They are converted to the dtype of the weights first, in ``linear_backward`` too.
- A loss is a number, Python's or NumPy's.
- Values are right to 1e-10 in float64, 1e-4 in float32, relative to the largest element of an array
  or to 1, whichever is larger.
- Arrays may be read-only.
- NumPy does the work: no SciPy and no torch (that is the last module).

Bounds for ``loss_and_gradients``, with the numbers for layers of 48, 64 and 10 and B = 256:

- Work: samples go through a layer together, in a matrix product. At most 100 lines of this file are
  executed for each layer, whatever B is (200).
- Memory: at most 6 times the bytes of x, of the outputs of all layers and of the parameters
  (6 x 280,144), and 64 KiB more. So no array has B times the size of a W.
"""

import numpy as np
from mpi4py import MPI


def linear(x: np.ndarray, W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One layer: ``x @ W + b``, shapes ``(B, d_in), (d_in, d_out), (d_out,)`` to ``(B, d_out)``."""
    ### BEGIN SOLUTION
    return np.matmul(x.astype(W.dtype), W) + b
    ### END SOLUTION


def linear_backward(
    dy: np.ndarray, x: np.ndarray, W: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From the gradient of a layer's output to those of all that went in.

    Args:
        dy: dL/dy, shape ``(B, d_out)``; L is a number, y the layer's output.
        x, W: what the layer was called with.

    Returns:
        ``(dx, dW, db)``: of the shapes of x, W and b. dW and db are sums over the samples. For
        the gradient of a mean, dy has been divided by B before.
    """
    ### BEGIN SOLUTION
    dW = np.matmul(x.T.astype(W.dtype), dy)
    return np.matmul(dy, W.T), dW, np.sum(dy, axis=0)
    ### END SOLUTION


def relu(z: np.ndarray) -> np.ndarray:
    """``max(z, 0)``, element by element, of any shape."""
    ### BEGIN SOLUTION
    return np.where(z > 0, z, z.dtype.type(0))
    ### END SOLUTION


def relu_backward(da: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The gradient of z, from ``da``, that of ``relu(z)``. Where z is 0 it is 0."""
    ### BEGIN SOLUTION
    return np.where(z > 0, da, da.dtype.type(0))
    ### END SOLUTION


def cross_entropy(scores: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Softmax and the loss behind it.

        p[i, k] = exp(scores[i, k]) / sum over classes c of exp(scores[i, c])
        L       = -(1 / B) sum over samples i of log p[i, y[i]]

    Args:
        scores: shape ``(B, d)``, as large as 10,000 in absolute value.
        y: shape ``(B,)``, the right classes, 0 to d - 1; not every class need occur.

    Returns:
        ``(loss, dscores)``: a number, the *mean* over the samples, and its gradient, ``(B, d)``.
    """
    ### BEGIN SOLUTION
    shifted = scores - np.max(scores, axis=1, keepdims=True)
    exps = np.exp(shifted)
    sums = exps.sum(axis=1, keepdims=True)
    right = (np.arange(len(y)), y)
    loss = (np.log(sums[:, 0]) - shifted[right]).mean()
    dscores = exps / sums
    dscores[right] -= 1
    return float(loss), dscores / len(y)
    ### END SOLUTION


def loss_and_gradients(
    params: list[np.ndarray], x: np.ndarray, y: np.ndarray
) -> tuple[float, list[np.ndarray]]:
    """The mean loss of some samples, and its gradient: forward, then backward.

    Args:
        params: ``[W1, b1, ..., WL, bL]``. ReLU stands between layers, not behind the last one.
        x: shape ``(B, d0)``.
        y: shape ``(B,)``, the right classes.

    Returns:
        ``(loss, gradients)``: a number, and a list of arrays of the parameters' shapes.
    """
    ### BEGIN SOLUTION
    layers = list(zip(params[::2], params[1::2], strict=True))
    outputs, going_in = [], [x]
    for W, b in layers:
        outputs.append(linear(going_in[-1], W, b))
        going_in.append(relu(outputs[-1]))
    loss, dz = cross_entropy(outputs[-1], y)
    gradients = []
    for layer in reversed(range(len(layers))):
        dx, dW, db = linear_backward(dz, going_in[layer], layers[layer][0])
        gradients[:0] = [dW, db]
        if layer:
            dz = relu_backward(dx, outputs[layer - 1])
    return loss, gradients
    ### END SOLUTION


def minibatches(n: int, batch_size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """One epoch: every sample once, in a random order, cut into mini-batches.

    Args:
        n: number of samples, at least 1.
        batch_size: length of each mini-batch but the last, which has what is left.
        rng: a ``numpy.random.Generator``; each call draws a new order from it, and from no other.

    Returns:
        A list of ``ceil(n / batch_size)`` arrays of indices, of an integer dtype.
    """
    ### BEGIN SOLUTION
    order = rng.permutation(n)
    return [order[start : start + batch_size] for start in range(0, n, batch_size)]
    ### END SOLUTION


def sgd_step(
    params: list[np.ndarray],
    velocity: list[np.ndarray],
    gradients: list[np.ndarray],
    lr: float,
    momentum: float,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """One update: ``v <- momentum v + g``, then ``w <- w - lr v`` with the new v.

    Returns:
        ``(params, velocity)``: two new lists of new arrays.
    """
    ### BEGIN SOLUTION
    velocity = [momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
    return [w - lr * v for w, v in zip(params, velocity, strict=True)], velocity
    ### END SOLUTION


def train(
    params: list[np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    batches: list[np.ndarray],
    lr: float,
    momentum: float,
) -> tuple[list[np.ndarray], list[float]]:
    """One step for each mini-batch, in their order; the velocity is 0 before the first.

    Args:
        x, y: all training samples.
        batches: a list of arrays of indices, as ``minibatches`` gives them; they may differ in
            length. The loss of a step is the mean over *its* samples.

    Returns:
        ``(params, losses)``: the trained parameters, and a list or one-dimensional array with the
        loss of each step before its update.
    """
    ### BEGIN SOLUTION
    velocity, losses = [np.zeros_like(w) for w in params], []
    for batch in batches:
        loss, gradients = loss_and_gradients(params, x[batch], y[batch])
        params, velocity = sgd_step(params, velocity, gradients, lr, momentum)
        losses.append(loss)
    return params, losses
    ### END SOLUTION


def measured_step(
    comm: MPI.Comm,
    params: list[np.ndarray],
    velocity: list[np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    lr: float,
    momentum: float,
):
    """One step as the run on a cluster measures it: supplied, nothing to write.

    Every rank of ``comm`` takes a step of its own, and nobody sends anything.

    Returns:
        ``(params, velocity, loss)``: after the step, and the loss before it.
    """
    loss, gradients = loss_and_gradients(params, x, y)
    return *sgd_step(params, velocity, gradients, lr, momentum), float(loss)
