# fails: test_arrays_and_model_share_nothing
"""Makes its layers by changing torch's default dtype, for good."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy


def from_numpy(params):
    layers = []
    torch.set_default_dtype(torch.from_numpy(params[0]).dtype)
    for W, b in zip(params[::2], params[1::2]):
        t = nn.Linear(W.shape[0], W.shape[1]).to(torch.from_numpy(W.copy()).dtype)
        with torch.no_grad():
            t.weight.copy_(torch.from_numpy(W.copy()).T)
            t.bias.copy_(torch.from_numpy(b.copy()))
        layers += [t, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def to_numpy(model):
    out = []
    for layer in model:
        if isinstance(layer, nn.Linear):
            out += [layer.weight.detach().T.numpy().copy(), layer.bias.detach().numpy().copy()]
    return out


def train_step(model, optimizer, x, y):
    x = x.to(next(model.parameters()).dtype)
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def evaluate(model, x, y):
    mode = model.training
    model.eval()
    with torch.no_grad():
        scores = model(x.to(next(model.parameters()).dtype))
        loss = cross_entropy(scores, y).item()
        accuracy = (scores.argmax(dim=1) == y).double().mean().item()
    model.train(mode)
    return loss, accuracy
