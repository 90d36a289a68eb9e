"""The loss in a closure that the optimizer calls; gradients kept as zeros, not None."""

import torch
import torch.nn.functional as F


def from_numpy(params):
    model = torch.nn.Sequential()
    count = len(params) // 2
    for k in range(count):
        W, b = (torch.tensor(p) for p in params[2 * k : 2 * k + 2])
        layer = torch.nn.Linear(W.shape[0], W.shape[1]).to(W.dtype)
        layer.load_state_dict({"weight": W.T, "bias": b})
        model.append(layer)
        if k < count - 1:
            model.append(torch.nn.ReLU())
    return model


def to_numpy(model):
    arrays = []
    for name, value in model.state_dict().items():
        array = value.numpy()
        arrays.append(array.transpose().copy() if name.endswith("weight") else array.copy())
    return arrays


def train_step(model, optimizer, x, y):
    x = x.to(list(model.parameters())[0])

    def closure():
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y, reduction="none").mean()
        loss.backward()
        return loss

    return optimizer.step(closure).item()


def evaluate(model, x, y):
    modes = [(module, module.training) for module in model.modules()]
    model.train(False)
    torch.set_grad_enabled(False)
    scores = model(x.to(list(model.parameters())[0]))
    torch.set_grad_enabled(True)
    for module, mode in modes:
        module.training = mode
    loss = -scores.log_softmax(1).gather(1, y[:, None]).mean()
    return loss.item(), torch.eq(scores.argmax(1), y).to(torch.float64).mean().item()
