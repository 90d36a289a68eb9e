# right
"""torch.autograd.grad, log_softmax with nll_loss, and inference mode."""

import numpy as np
import torch
from torch import nn


def from_numpy(params):
    dtype = torch.from_numpy(np.zeros(0, params[0].dtype)).dtype
    layers = []
    for k in range(0, len(params), 2):
        d_in, d_out = params[k].shape
        layers.append(nn.Linear(d_in, d_out, dtype=dtype))
        if k + 2 < len(params):
            layers.append(nn.ReLU(inplace=True))
    model = nn.Sequential(*layers)
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(torch.as_tensor(params[k]).t() if p.dim() == 2 else torch.as_tensor(params[k]))
    return model


def to_numpy(model):
    state = [p.detach().clone() for p in model.parameters()]
    return [np.array(p.numpy().T if p.dim() == 2 else p.numpy()) for p in state]


def dtype_of(model):
    return {p.dtype for p in model.parameters()}.pop()


def train_step(model, optimizer, x, y):
    learning = [p for p in model.parameters() if p.requires_grad]
    scores = model(x.type(dtype_of(model)))
    loss = nn.functional.nll_loss(scores.log_softmax(dim=-1), y)
    optimizer.zero_grad()
    for p, g in zip(learning, torch.autograd.grad(loss, learning)):
        p.grad = g
    optimizer.step()
    return float(loss)


@torch.inference_mode()
def evaluate(model, x, y):
    was = model.training
    try:
        scores = model.eval()(x.type(dtype_of(model)))
    finally:
        model.train(was)
    loss = nn.CrossEntropyLoss()(scores, y)
    return float(loss), int((scores.max(dim=1).indices == y).sum()) / len(y)
