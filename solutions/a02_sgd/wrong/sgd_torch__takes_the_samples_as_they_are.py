# fails: test_float32_and_integer_samples
"""Whole numbers meet weights of another dtype."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy


def from_numpy(params):
    modules = []
    for W, b in zip(params[::2], params[1::2], strict=True):
        layer = nn.Linear(*W.shape)
        layer.weight = nn.Parameter(torch.tensor(W.T.copy()))
        layer.bias = nn.Parameter(torch.tensor(b))
        modules += [nn.ReLU(), layer]
    return nn.Sequential(*modules[1:])


def to_numpy(model):
    arrays = []
    for layer in model:
        if isinstance(layer, nn.Linear):
            weight, bias = layer.weight.detach(), layer.bias.detach()
            arrays += [weight.numpy().T.copy(), bias.numpy().copy()]
    return arrays


def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def evaluate(model, x, y):
    mode = model.training
    model.eval()
    with torch.no_grad():
        scores = model(x)
        loss = cross_entropy(scores, y).item()
    model.train(mode)
    return loss, (scores.argmax(dim=1) == y).double().mean().item()
