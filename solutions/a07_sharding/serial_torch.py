"""The network of ``layers_torch.py`` in NumPy, on one process: supplied, nothing to write.

``train`` gives what all ranks together must have, also in tests of order, whose passes are scaled.
"""

import contextlib

import numpy as np

import ringside


def forward(params, x):
    """The output, and what each layer keeps: its input and its output."""
    kept = []
    for layer, (weight, *bias) in enumerate(params):
        x = ringside.announce(f"forward layer {layer}", x)
        y = np.tanh(x @ weight.T + (bias[0] if bias else 0))
        kept.append((x, y))
        x = y
    return x, kept


def gradients(params, x, target):
    """Gradients per layer, and the output."""
    output, kept = forward(params, x)
    grad = (output - target) / len(output)
    found = [[] for _ in params]
    for layer in reversed(range(len(params))):
        x, y = kept[layer]
        grad = ringside.announce(f"backward layer {layer}", grad)
        grad = grad * (1 - y**2)
        found[layer] = [grad.T @ x, grad.sum(axis=0)][: len(params[layer])]
        grad = grad @ params[layer][0]
    return found, output


def train(params, steps_of_rank, evaluated, options, factors=None):
    """What all ranks must have.

    Args:
        params: the right ones, per layer.
        steps_of_rank: per rank, per step a list of microbatches ``(x, target)``.
        evaluated: per rank the inputs that go through the network before each step.
        options: ``optimizer`` ("sgd" or "adam") and ``lr``.
        factors: of the passes, in a test of order; then each rank's passes have their own.

    Returns:
        ``gradients`` (per step and layer), ``params`` (per layer), ``outputs`` and
        ``evaluations`` (per rank and step).
    """
    dtype = params[0][0].dtype
    params = [[np.array(each, "float64") for each in layer] for layer in params]
    ranks = range(len(steps_of_rank))
    first = [[np.zeros_like(each) for each in layer] for layer in params]
    second = [[np.zeros_like(each) for each in layer] for layer in params]
    result = {
        "gradients": [],
        "outputs": [[] for _ in ranks],
        "evaluations": [[] for _ in ranks],
    }

    def of(rank):
        return contextlib.nullcontext() if factors is None else factors.of_rank(rank)

    for step in range(len(steps_of_rank[0])):
        total = [[np.zeros_like(each) for each in layer] for layer in params]
        for rank in ranks:
            with of(rank):
                result["evaluations"][rank].append([forward(params, x)[0] for x in evaluated[rank]])
                for x, target in steps_of_rank[rank][step]:
                    found, output = gradients(params, x, target)
                    _add(total, found, len(ranks))
            result["outputs"][rank].append(output)
        result["gradients"].append(total)
        _update(params, total, first, second, step + 1, options)
    result["params"] = params
    return _cast(result, dtype)


def _add(total, found, num_ranks):
    for sums, own in zip(total, found, strict=True):
        for one, each in zip(sums, own, strict=True):
            one += each / num_ranks


def _update(params, total, first, second, count, options):
    """Plain Adam, or SGD with momentum 0.5, as torch has them."""
    for layer, sums in enumerate(total):
        for k, grad in enumerate(sums):
            if options["optimizer"] == "sgd":
                first[layer][k] = 0.5 * first[layer][k] + grad
                params[layer][k] = params[layer][k] - options["lr"] * first[layer][k]
                continue
            first[layer][k] = 0.9 * first[layer][k] + 0.1 * grad
            second[layer][k] = 0.999 * second[layer][k] + 0.001 * grad**2
            mean, square = first[layer][k] / (1 - 0.9**count), second[layer][k] / (1 - 0.999**count)
            params[layer][k] = params[layer][k] - options["lr"] * mean / (np.sqrt(square) + 1e-8)


def _cast(value, dtype):
    if isinstance(value, dict):
        return {name: _cast(each, dtype) for name, each in value.items()}
    if isinstance(value, list):
        return [_cast(each, dtype) for each in value]
    return value.astype(dtype)
