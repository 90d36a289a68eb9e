"""Classes that keep what backward needs; copies that are then changed in place; a loop over classes."""

import numpy as np


class Layer:
    def __init__(self, W, b):
        self.W, self.b = W, b

    def forward(self, x):
        self.x = x
        self.z = linear(x, self.W, self.b)
        return self.z

    def backward(self, dy):
        dx, self.dW, self.db = linear_backward(dy, self.x, self.W)
        return dx


def linear(x, W, b):
    out = np.array(x, dtype=W.dtype) @ W
    out += b
    return out


def linear_backward(dy, x, W):
    x = np.array(x, dtype=W.dtype)
    return dy @ W.T, (dy.T @ x).T.copy(), dy.sum(0)


def relu(z):
    out = z.copy()
    out[out < 0] = 0
    return out


def relu_backward(da, z):
    out = da.copy()
    out[z <= 0] = 0
    return out


def cross_entropy(scores, y):
    largest = scores.max(axis=1)
    total = np.zeros_like(largest)
    for k in range(scores.shape[1]):
        total += np.exp(scores[:, k] - largest)
    gradient = np.empty_like(scores)
    for k in range(scores.shape[1]):
        gradient[:, k] = np.exp(scores[:, k] - largest) / total - (y == k)
    own = np.take_along_axis(scores, y[:, None], axis=1)[:, 0]
    return np.mean(np.log(total) + largest - own), gradient / len(y)


def loss_and_gradients(params, x, y):
    layers = [Layer(W, b) for W, b in zip(params[::2], params[1::2])]
    a = x
    for layer in layers[:-1]:
        a = relu(layer.forward(a))
    loss, d = cross_entropy(layers[-1].forward(a), y)
    d = layers[-1].backward(d)
    for layer in reversed(layers[:-1]):
        d = layer.backward(relu_backward(d, layer.z))
    return loss, [g for layer in layers for g in (layer.dW, layer.db)]


def minibatches(n, batch_size, rng):
    keys = rng.random(n)
    order = sorted(range(n), key=keys.__getitem__)
    batches = []
    while order:
        batches.append(np.array(order[:batch_size]))
        order = order[batch_size:]
    return batches


def sgd_step(params, velocity, gradients, lr, momentum):
    params = [p.copy() for p in params]
    velocity = [v.copy() for v in velocity]
    for p, v, g in zip(params, velocity, gradients):
        v *= momentum
        v += g
        p -= lr * v
    return params, velocity


def train(params, x, y, batches, lr, momentum):
    losses = []
    velocity = [np.zeros(p.shape, p.dtype) for p in params]
    for batch in batches:
        loss, gradients = loss_and_gradients(params, x[batch], y[batch])
        losses.append(float(loss))
        params, velocity = sgd_step(params, velocity, gradients, lr, momentum)
    return params, losses
