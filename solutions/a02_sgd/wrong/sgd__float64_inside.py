# fails: test_relu_and_its_gradient
"""ReLU and loss give float64; only the gradients are made float32 again."""

import numpy as np


def linear(x, W, b):
    return x.astype(W.dtype) @ W + b


def linear_backward(dy, x, W):
    return dy @ W.T, x.astype(W.dtype).T @ dy, dy.sum(axis=0)


def relu(z):
    return np.where(z > 0, z, np.zeros(z.shape))


def relu_backward(da, z):
    return np.where(z > 0, da, np.zeros(z.shape))


def cross_entropy(scores, y):
    B = len(y)
    scores = scores.astype(np.float64)
    z = scores - scores.max(axis=1, keepdims=True)
    lse = np.log(np.exp(z).sum(axis=1, keepdims=True))
    logp = z - lse
    loss = float(-logp[np.arange(B), y].mean())
    d = np.exp(logp)
    d[np.arange(B), y] -= 1
    return loss, d / B


def loss_and_gradients(params, x, y):
    a, saved = x, []
    L = len(params) // 2
    for k in range(L):
        W, b = params[2 * k], params[2 * k + 1]
        z = linear(a, W, b)
        saved.append((a, z))
        a = relu(z) if k < L - 1 else z
    loss, d = cross_entropy(a, y)
    grads = []
    for k in reversed(range(L)):
        a, z = saved[k]
        if k < L - 1:
            d = relu_backward(d, z)
        d, dW, db = linear_backward(d, a, params[2 * k])
        grads = [dW.astype(params[0].dtype), db.astype(params[0].dtype), *grads]
    return loss, grads


def minibatches(n, batch_size, rng):
    order = rng.permutation(n)
    return [order[i : i + batch_size] for i in range(0, n, batch_size)]


def sgd_step(params, velocity, gradients, lr, momentum):
    v = [momentum * a + g for a, g in zip(velocity, gradients)]
    return [w - lr * a for w, a in zip(params, v)], v


def train(params, x, y, batches, lr, momentum):
    velocity = [np.zeros_like(p) for p in params]
    losses = []
    for b in batches:
        loss, g = loss_and_gradients(params, x[b], y[b])
        params, velocity = sgd_step(params, velocity, g, lr, momentum)
        losses.append(loss)
    return params, losses
