"""The network of ``model_torch.py`` in NumPy, trained as all ranks together must train it.

The oracle of ddp_torch.py: the trusted process never imports torch.
"""

import contextlib

import numpy as np

import ringside
from ringside.factors import Factors

Arrays = list[np.ndarray]


class Replica:
    """One rank's network: parameters by number, shared between tied layers.

    Args:
        spec: keyword arguments of ``Network``.
    """

    def __init__(self, spec: dict) -> None:
        self.spec = spec
        width = spec["width"]
        first = {j: i for i, j in spec.get("tied", ())}
        self.place: list[tuple[int, int]] = []  # per layer: numbers of weight and bias
        self.shapes: list[tuple[int, ...]] = []
        self.layer_of: list[set[int]] = []  # per parameter: the layers that use it
        for layer in range(spec["num_layers"]):
            if layer in first:
                weight = self.place[first[layer]][0]
                self.layer_of[weight].add(layer)
            else:
                weight = self._new((width, width), layer)
            self.place.append((weight, self._new((width,), layer)))
        frozen = {number for layer in spec.get("frozen", ()) for number in self.place[layer]}
        self.learning = [k for k in range(len(self.shapes)) if k not in frozen]

    def _new(self, shape: tuple[int, ...], layer: int) -> int:
        self.shapes.append(shape)
        self.layer_of.append({layer})
        return len(self.shapes) - 1

    def buffers(self) -> Arrays:
        """Running mean and count, if the network has them."""
        if not self.spec.get("buffers"):
            return []
        return [np.zeros(self.spec["width"]), np.array(0)]

    def gradients(self, params: Arrays, buffers: Arrays, x, target, path):
        """Gradients by number (None: unused), the output; ``buffers`` are updated in place."""
        if buffers:
            buffers[0][...] = 0.9 * buffers[0] + 0.1 * x.mean(axis=0)
            buffers[1][...] += 1
            x = x - buffers[0]
        inputs, outputs = [], []
        for layer in path:
            weight, bias = self.place[layer]
            x = ringside.announce(f"forward layer {layer}", x)
            inputs.append(x)
            x = np.tanh(x @ params[weight].T + params[bias])
            outputs.append(x)
        found: list[np.ndarray | None] = [None] * len(params)
        grad = (x - target) / len(x)
        for layer, x_in, y in zip(path[::-1], inputs[::-1], outputs[::-1], strict=True):
            grad = ringside.announce(f"backward layer {layer}", grad)
            grad = grad * (1 - y**2)
            for number, part in zip(
                self.place[layer], (grad.T @ x_in, grad.sum(axis=0)), strict=True
            ):
                if number in self.learning:
                    found[number] = part if found[number] is None else found[number] + part
            grad = grad @ params[self.place[layer][0]]
        return found, x


def train(
    spec: dict, params: Arrays, buffers: Arrays, steps_of_rank: list, options: dict,
    factors: Factors | None = None,
) -> dict:  # fmt: skip
    """What all ranks must have, from rank 0's parameters and buffers.

    Args:
        steps_of_rank: per rank, per step a list of microbatches ``(x, target, path)``.
        factors: of the passes, in a test of order.

    Returns:
        ``gradients`` (per step; means, zeros for unused ones, None for frozen ones), ``params``,
        ``outputs`` (per rank and step) and ``buffers`` (per rank).
    """
    net = Replica(spec)
    ranks = len(steps_of_rank)
    params = [np.array(each) for each in params]
    own = [[np.array(each) for each in buffers] for _ in range(ranks)]
    velocity = [np.zeros_like(each) for each in params]
    result: dict = {"gradients": [], "outputs": [[] for _ in range(ranks)]}
    for step in range(len(steps_of_rank[0])):
        total = [np.zeros_like(each) for each in params]
        for number in range(len(steps_of_rank[0][step])):
            if number == len(steps_of_rank[0][step]) - 1:
                own = [[np.array(each) for each in own[0]] for _ in range(ranks)]
            for rank in range(ranks):
                x, target, path = steps_of_rank[rank][step][number]
                with contextlib.nullcontext() if factors is None else factors.of_rank(rank):
                    found, output = net.gradients(params, own[rank], x, target, path)
                for k, each in enumerate(found):
                    if each is not None:
                        total[k] += each / ranks
                if number == len(steps_of_rank[0][step]) - 1:
                    result["outputs"][rank].append(output)
        result["gradients"].append(
            [total[k] if k in net.learning else None for k in range(len(params))]
        )
        for k in net.learning:
            velocity[k] = options["momentum"] * velocity[k] + total[k]
            params[k] = params[k] - options["lr"] * velocity[k]
    return {**result, "params": params, "buffers": own}
