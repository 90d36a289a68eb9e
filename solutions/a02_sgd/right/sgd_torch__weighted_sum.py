"""A sum of losses divided by their number; parameters made by hand; gradients set to None by hand."""

import numpy as np
import torch
from torch import nn


def from_numpy(params):
    def layer(W, b):
        made = nn.Linear(len(W), len(b), device="meta")
        made.weight = nn.Parameter(torch.from_numpy(np.ascontiguousarray(W.T)).clone())
        made.bias = nn.Parameter(torch.from_numpy(b.copy()))
        return made

    layers = [layer(W, b) for W, b in zip(params[0::2], params[1::2])]
    with_relu = [each for one in layers for each in (one, nn.ReLU())]
    return nn.Sequential(*with_relu[:-1])


def to_numpy(model):
    layers = (module for module in model if hasattr(module, "weight"))
    return [
        part.detach().numpy().copy()
        for layer in layers
        for part in (layer.weight.T.contiguous(), layer.bias)
    ]


def mean_loss(scores, y):
    rows = torch.arange(len(y))
    return (torch.logsumexp(scores, dim=1) - scores[rows, y]).sum() / len(y)


def train_step(model, optimizer, x, y):
    parameters = list(model.parameters())
    for p in parameters:
        p.grad = None
    loss = mean_loss(model(torch.as_tensor(x, dtype=parameters[0].dtype)), y)
    torch.autograd.backward(loss)
    optimizer.step()
    return loss.detach().cpu().numpy().item()


def evaluate(model, x, y):
    training = model.training
    model.eval()
    with torch.no_grad():
        scores = model(torch.as_tensor(x, dtype=next(model.parameters()).dtype))
        loss = mean_loss(scores, y).tolist()
        share = (scores.argmax(dim=-1) == y).float().mean().item()
    if training:
        model.train()
    return loss, share
