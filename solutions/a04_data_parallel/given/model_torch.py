"""The network of ``model.py`` as a torch module: supplied, nothing to write.

Its parameters are ``W1, b1, W2, b2, ...``, of the same shapes and in the same order. Autograd takes
the place of the explicit backward pass, and on simulated ranks its operators count as work.
"""

import torch
from torch import nn


class Network(nn.Module):
    """Layers ``x @ W + b`` with ReLU between them.

    Args:
        params: tensors ``[W1, b1, W2, b2, ...]``, copied; W of shape ``(d_in, d_out)``.
        frozen: indices of those that don't learn (``requires_grad`` is False).
    """

    def __init__(self, params, frozen=()):
        super().__init__()
        self.params = nn.ParameterList(
            nn.Parameter(p.clone(), requires_grad=k not in frozen) for k, p in enumerate(params)
        )

    def forward(self, x):
        """Samples, shape ``(b, d0)``, to the scores of their classes, ``(b, dL)``; b may be 0."""
        for layer in range(0, len(self.params), 2):
            x = x if layer == 0 else torch.relu(x)
            x = x @ self.params[layer] + self.params[layer + 1]  # (b, d_out)
        return x
