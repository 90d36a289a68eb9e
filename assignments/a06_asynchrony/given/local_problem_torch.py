"""A small network, and the loss of one rank, which DiLoCo trains: nothing to write.

    y = W2 tanh(W1 x + b1) + b2            loss: half the mean over the samples of |y - target|^2

Each rank has batches of its own. Step k looks at batch k modulo the number of batches.

A step takes ``step_s`` of virtual time on simulated ranks, and the timeline calls it "step 3". It
is announced, too: in tests of order the network answers with factors that scale x, so that the
step can't have been computed before; everywhere else they are 1.
"""

import torch
from torch import nn

import ringside


class Network(nn.Module):
    """Two linear layers with tanh between them.

    Args:
        params: initial ``W1`` of shape (h, d), ``b1`` (h,), ``W2`` (o, h) and ``b2`` (o,).
        frozen: whether ``b1`` doesn't learn. Then there is a buffer, too, which counts the calls.
    """

    def __init__(self, params, frozen=False):
        super().__init__()
        self.w1, self.b1, self.w2, self.b2 = (nn.Parameter(each.clone()) for each in params)
        self.b1.requires_grad_(not frozen)
        if frozen:
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        """Shape ``(samples, d)`` to ``(samples, o)``."""
        if hasattr(self, "calls"):
            self.calls += 1
        return torch.tanh(x @ self.w1.T + self.b1) @ self.w2.T + self.b2


class LocalLoss:
    """The loss of one rank: ``loss(model, step)``.

    Args:
        batches: a list of pairs ``(x, target)``.
        step_s: seconds of virtual time that a step takes.
    """

    def __init__(self, batches, step_s=0.0):
        self.batches, self.step_s = batches, step_s

    def __call__(self, model, step):
        """A tensor of one element."""
        x, target = self.batches[step % len(self.batches)]
        x = ringside.announce("step", x, step)
        ringside.compute(seconds=self.step_s, phase=f"step {step}")
        return 0.5 * ((model(x) - target) ** 2).sum() / len(x)


def optimizer_of(model, name):
    """An inner optimizer of the parameters that learn: "sgd", "momentum" or "adamw"."""
    params = [param for param in model.parameters() if param.requires_grad]
    if name == "adamw":
        return torch.optim.AdamW(params, lr=0.02, weight_decay=0.1, eps=1e-4)
    return torch.optim.SGD(params, lr=0.1, momentum=0.8 if name == "momentum" else 0.0)
