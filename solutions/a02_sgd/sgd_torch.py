"""The same network and the same step in torch: autograd goes backward, an optimizer updates.

    sgd.py                               here
    params [W1, b1, ...]                 a module that holds them: nn.Linear has W's *transpose*
    loss_and_gradients(params, x, y)     loss = cross_entropy(model(x), y); loss.backward()
    gradients                            p.grad, to which every backward pass *adds*
    sgd_step(params, velocity, ...)      optimizer.step(), which keeps the velocity

Rules for every function:

- Everything is computed in the dtype of the model's parameters, float64 or float32. ``x`` may be
  of another, integers too, and is taken in that one.
- Values are those of ``sgd.py``: to 1e-10 in float64, 1e-4 in float32, relative to the largest
  element of an array or to 1, whichever is larger.
- ``x`` and ``y`` get no gradient. No graph is kept. Torch's default dtype stays as it is, and so
  does whether gradients are on.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy


def from_numpy(params: list) -> nn.Sequential:
    """A module with the layers of ``sgd.py``.

    Args:
        params: NumPy arrays ``[W1, b1, ..., WL, bL]``, W of shape ``(d_in, d_out)``, of one dtype.

    Returns:
        An ``nn.Sequential`` of ``nn.Linear``, ``nn.ReLU``, ``nn.Linear``, ..., ``nn.Linear`` with
        copies of the arrays, of the arrays' dtype; all parameters learn.
    """
    ### BEGIN SOLUTION
    modules = []
    for W, b in zip(params[::2], params[1::2], strict=True):
        layer = nn.Linear(*W.shape)
        layer.weight = nn.Parameter(torch.tensor(W.T.copy()))
        layer.bias = nn.Parameter(torch.tensor(b))
        modules += [nn.ReLU(), layer]
    return nn.Sequential(*modules[1:])
    ### END SOLUTION


def to_numpy(model: nn.Module) -> list:
    """The way back: the parameters as they are now, as a list of new arrays like ``params``.

    Later steps of the model don't change them, and writing to them doesn't change the model. It
    stays as it is, its mode and which of its parameters learn too.
    """
    ### BEGIN SOLUTION
    arrays = []
    for layer in model:
        if isinstance(layer, nn.Linear):
            weight, bias = layer.weight.detach(), layer.bias.detach()
            arrays += [weight.numpy().T.copy(), bias.numpy().copy()]
    return arrays
    ### END SOLUTION


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor
) -> float:
    """One step; returns the mean loss of these samples before the update, a Python float.

    Args:
        model: any ``nn.Module``: ``model(x)`` gives scores, shape ``(B, classes)``. It stays in
            the mode in which it is. Some of its parameters may be frozen (``requires_grad`` is
            False). What is in ``grad`` of any parameter before the call counts for nothing.
        optimizer: any ``torch.optim.Optimizer`` of its parameters; its ``step()`` is called once.
        x, y: tensors of shapes ``(B, d0)`` and ``(B,)``, B at least 1.

    Work: the samples go through the model once, forward and backward, all together.
    """
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    loss = cross_entropy(model(x.to(next(model.parameters()).dtype)), y)
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION


def evaluate(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """How good the model is on some samples.

    Returns:
        ``(loss, accuracy)``: two Python floats, the mean loss and the share of samples, 0 to 1,
        (to 1e-4) whose largest score is that of the right class.

    - The model is in evaluation mode meanwhile (dropout drops nothing), and afterwards in the
      mode in which it was. That is one mode for all modules in it.
    - Parameters and their ``grad`` stay as they are.
    - Work and memory: the samples go through the model once, and gradients are off meanwhile
      (``torch.no_grad`` or ``torch.inference_mode``), so nothing is kept for a backward pass.
    """
    ### BEGIN SOLUTION
    mode = model.training
    model.eval()
    with torch.no_grad():
        scores = model(x.to(next(model.parameters()).dtype))
        loss = cross_entropy(scores, y).item()
    model.train(mode)
    return loss, (scores.argmax(dim=1) == y).double().mean().item()
    ### END SOLUTION
