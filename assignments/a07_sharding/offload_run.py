"""A small network whose activations go where a plan says: supplied, nothing to write.

Layer k is ``x + tanh(x @ into) @ back``. Its backward pass needs ``tanh(...)``: those are its
activations. Its input x is always kept, and takes no part in the capacity. The loss is half the sum
of the squares of what comes out.
"""

import numpy as np


def drawn(rng, hidden_widths, width=3, batch=2):
    """Weights ``(into, back)`` of layers with so many hidden units each, and an input."""
    weights = [tuple(rng.standard_normal((2, width, h)) / 2) for h in hidden_widths]
    return [(into, back.T.copy()) for into, back in weights], rng.standard_normal((batch, width))


def gradients(weights, x, plan, capacity_bytes):
    """One forward and backward pass by a plan.

    Returns:
        For each layer the gradients of ``into`` and ``back``.

    Raises:
        MemoryError: the activations on the GPU need more than ``capacity_bytes``.
    """
    gpu, host, inputs = {}, {}, []

    def put(k, hidden):
        gpu[k] = hidden
        if sum(each.nbytes for each in gpu.values()) > capacity_bytes:
            raise MemoryError(f"layer {k} doesn't fit: the GPU holds those of {sorted(gpu)}.")

    for k, (into, back) in enumerate(weights):
        inputs.append(x)
        put(k, np.tanh(x @ into))
        x = x + gpu[k] @ back
        if plan[k] == "swap":
            host[k] = gpu.pop(k)
        elif plan[k] == "recompute":
            del gpu[k]
    found, dy = [], x
    for k in reversed(range(len(weights))):
        into, back = weights[k]
        if plan[k] == "swap":
            put(k, host.pop(k))
        elif plan[k] == "recompute":
            put(k, np.tanh(inputs[k] @ into))
        hidden = gpu.pop(k)
        dz = (dy @ back.T) * (1 - hidden**2)
        found.append((inputs[k].T @ dz, hidden.T @ dy))
        dy = dy + dz @ into.T
    return found[::-1]
