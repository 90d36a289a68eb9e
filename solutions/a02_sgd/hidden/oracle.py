"""What the docstrings say, computed in other ways than the reference: slow, plain, in float64."""

import itertools
import math

import numpy as np

Arrays = list[np.ndarray]


# -- the network -----------------------------------------------------------------------------------


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Row by row; ``np.logaddexp`` takes care of large scores."""
    return scores - np.logaddexp.reduce(scores, axis=1)[:, None]


def cross_entropy(scores: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean loss, and its gradient."""
    log_p = log_softmax(np.asarray(scores, "float64"))
    target = np.eye(scores.shape[1])[y]
    return -float((log_p * target).sum()) / len(y), (np.exp(log_p) - target) / len(y)


def loss_and_gradients(params: Arrays, x: np.ndarray, y: np.ndarray) -> tuple[float, Arrays]:
    """Layer by layer, from the first to the last by recursion, and back again."""
    weights = [np.asarray(p, "float64") for p in params]
    loss, _, gradients = _onward(weights, np.asarray(x, "float64"), y)
    return loss, gradients


def _onward(params: Arrays, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, Arrays]:
    """The loss from a layer's input on, its gradient with respect to it, and to parameters."""
    z = np.einsum("ni,io->no", x, params[0]) + params[1]
    if len(params) == 2:
        loss, dz = cross_entropy(z, y)
        behind: Arrays = []
    else:
        loss, da, behind = _onward(params[2:], z.clip(0), y)
        dz = np.heaviside(z, 0.0) * da
    dx, dW, db = linear_backward(dz, x, params[0])
    return loss, dx, [dW, db, *behind]


def linear_backward(
    dy: np.ndarray, x: np.ndarray, W: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of what goes into a layer, of its weights and of its biases."""
    return np.einsum("no,io->ni", dy, W), np.einsum("ni,no->io", x, dy), np.einsum("no->o", dy)


def sgd_step(
    params: Arrays, velocity: Arrays, gradients: Arrays, lr: float, momentum: float
) -> tuple[Arrays, Arrays]:
    """One update: parameters and velocity."""
    moved = [g + v * momentum for v, g in zip(velocity, gradients, strict=True)]
    return [p + v * -lr for p, v in zip(params, moved, strict=True)], moved


def training(
    params: Arrays, x: np.ndarray, y: np.ndarray, batches: Arrays, lr: float, momentum: float
) -> tuple[Arrays, Arrays, list[float]]:
    """SGD: parameters, velocity and losses."""
    moving = [np.asarray(p, "float64") for p in params]
    velocity: Arrays = [np.zeros(p.shape) for p in moving]
    losses = []
    for batch in batches:
        loss, gradients = loss_and_gradients(moving, x[batch], y[batch])
        moving, velocity = sgd_step(moving, velocity, gradients, lr, momentum)
        losses.append(loss)
    return moving, velocity, losses


# -- the convolution -------------------------------------------------------------------------------


def length(n: int, k: int, stride: int, pad: int) -> int:
    """How many windows begin inside: counted."""
    return len([first for first in range(0, n + 2 * pad, stride) if first + k <= n + 2 * pad])


def _links(
    image: tuple[int, int], kernel: tuple[int, int], stride: int, pad: int
) -> list[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """Which output, kernel element and pixel meet; padding is left out."""
    (height, width), (k_h, k_w) = image, kernel
    places = itertools.product(
        range(length(height, k_h, stride, pad)), range(length(width, k_w, stride, pad))
    )
    found = []
    for (i, j), (u, v) in itertools.product(places, np.ndindex(k_h, k_w)):
        row, column = i * stride + u - pad, j * stride + v - pad
        if 0 <= row < height and 0 <= column < width:
            found.append(((i, j), (u, v), (row, column)))
    return found


def toeplitz(kernel: np.ndarray, image: tuple[int, int]) -> np.ndarray:
    """One element for every pair of output and pixel that meet."""
    height, width = (length(n, k, 1, 0) for n, k in zip(image, kernel.shape, strict=True))
    matrix = np.zeros((height * width, image[0] * image[1]), kernel.dtype)
    for (i, j), at, (row, column) in _links(image, kernel.shape, 1, 0):
        matrix[i * width + j, row * image[1] + column] = kernel[at]
    return matrix


def im2col(x: np.ndarray, kernel: tuple[int, int], stride: int = 1, pad: int = 0) -> np.ndarray:
    """Every window as a column."""
    num_images, channels, *image = x.shape
    out = [length(n, k, stride, pad) for n, k in zip(image, kernel, strict=True)]
    columns = np.zeros((num_images, channels, *kernel, *out), x.dtype)
    for (i, j), (u, v), (row, column) in _links((image[0], image[1]), kernel, stride, pad):
        columns[:, :, u, v, i, j] = x[:, :, row, column]
    return columns.reshape(num_images, channels * math.prod(kernel), math.prod(out))


def conv_forward(
    x: np.ndarray, w: np.ndarray, b: np.ndarray, stride: int = 1, pad: int = 0
) -> np.ndarray:
    """By the definition, a link at a time, in float64."""
    out = [length(n, k, stride, pad) for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    y = np.zeros((len(x), len(w), *out)) + np.asarray(b, "float64")[:, None, None]
    x, w = x.astype("float64"), w.astype("float64")
    for (i, j), (u, v), (row, column) in _links(x.shape[2:], w.shape[2:], stride, pad):
        y[:, :, i, j] += x[:, :, row, column] @ w[:, :, u, v].T
    return y


def conv_backward(
    dy: np.ndarray, x: np.ndarray, w: np.ndarray, stride: int = 1, pad: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same links, the other way."""
    dy, x, w = dy.astype("float64"), x.astype("float64"), w.astype("float64")
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for (i, j), (u, v), (row, column) in _links(x.shape[2:], w.shape[2:], stride, pad):
        dx[:, :, row, column] += dy[:, :, i, j] @ w[:, :, u, v]
        dw[:, :, u, v] += dy[:, :, i, j].T @ x[:, :, row, column]
    return dx, dw, dy.sum(axis=3).sum(axis=2).sum(axis=0)


# -- the account -----------------------------------------------------------------------------------

# A layer is told as ("layer", kind, fields), a network as ("network", name, shape, layers).
Told = tuple


def output_shape(layer: Told, shape: tuple) -> tuple:
    _, kind, fields = layer
    if kind == "Linear":
        return (fields["out_features"],)
    channels = fields["out_channels"] if kind == "Conv" else shape[0]
    stride, pad = fields.get("stride", 1), fields.get("pad", 0)
    return (channels, *(length(n, fields["kernel"], stride, pad) for n in shape[1:]))


def weights(layer: Told, shape: tuple) -> tuple[int, int]:
    """How many inputs each output number looks at, and how many biases there are."""
    _, kind, fields = layer
    if kind == "Linear":
        return math.prod(shape), fields["out_features"]
    if kind == "Conv":
        each = shape[0] * fields["kernel"] ** 2 // fields.get("groups", 1)
        return each, fields["out_channels"]
    return 0, 0


def layer_parameters(layer: Told, shape: tuple) -> int:
    inputs, biases = weights(layer, shape)
    return inputs * biases + biases


def layer_flops(layer: Told, shape: tuple, batch_size: int) -> int:
    inputs, _ = weights(layer, shape)
    return 2 * inputs * math.prod(output_shape(layer, shape)) * batch_size


def shapes(network: Told) -> list[tuple]:
    """The input's shape, and that of every layer's output."""
    found = [tuple(network[2])]
    for layer in network[3]:
        found.append(output_shape(layer, found[-1]))
    return found


def num_parameters(network: Told) -> int:
    pairs = zip(network[3], shapes(network), strict=False)
    return sum(layer_parameters(layer, shape) for layer, shape in pairs)


def activation_bytes(
    network: Told, batch_size: int, itemsize: int = 4, convention: str = "uniform"
) -> int:
    sizes = [math.prod(shape) for shape in shapes(network)]
    if convention == "slide":
        twice = zip(network[3], sizes[1:], strict=True)
        sizes += [n for layer, n in list(twice) if layer[2].get("doubled", False)]
    return sum(sizes) * batch_size * itemsize


def training_bytes(
    network: Told, batch_size: int, itemsize: int = 4, convention: str = "uniform"
) -> int:
    kept = activation_bytes(network, batch_size, itemsize, convention)
    return kept + kept + 3 * num_parameters(network) * itemsize


def training_flops(network: Told, batch_size: int) -> int:
    total = 0
    for number, (layer, shape) in enumerate(zip(network[3], shapes(network), strict=False)):
        total += layer_flops(layer, shape, batch_size) * (3 if number else 2)
    return total


def layer_time_s(
    layer: Told, shape: tuple, batch_size: int, machine: Told, itemsize: int = 4
) -> float:
    told = machine[1]
    moved = math.prod(shape) + math.prod(output_shape(layer, shape))
    nbytes = itemsize * (batch_size * moved + layer_parameters(layer, shape))
    memory_s = nbytes / told["memory_bytes_per_s"]
    arithmetic_s = layer_flops(layer, shape, batch_size) / told["flop_per_s"]
    return sorted([memory_s, arithmetic_s])[1] + told["kernel_overhead_s"]


def forward_time_s(network: Told, batch_size: int, machine: Told, itemsize: int = 4) -> float:
    pairs = zip(network[3], shapes(network), strict=False)
    return math.fsum(layer_time_s(*pair, batch_size, machine, itemsize) for pair in pairs)
