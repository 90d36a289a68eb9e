# fails: test_inputs_stay_and_results_are_new
"""New arrays, but put into the lists that were given."""

import numpy as np


def linear(x, W, b):
    return x.astype(W.dtype) @ W + b


def linear_backward(dy, x, W):
    return dy @ W.T, x.astype(W.dtype).T @ dy, dy.sum(axis=0)


def relu(z):
    return np.where(z > 0, z, 0).astype(z.dtype)


def relu_backward(da, z):
    return da * (z > 0)


def cross_entropy(scores, y):
    B = len(y)
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
        grads = [dW, db, *grads]
    return loss, grads


def minibatches(n, batch_size, rng):
    order = rng.permutation(n)
    return [order[i : i + batch_size] for i in range(0, n, batch_size)]


def sgd_step(params, velocity, gradients, lr, momentum):
    for i in range(len(params)):
        velocity[i] = momentum * velocity[i] + gradients[i]
        params[i] = params[i] - lr * velocity[i]
    return list(params), list(velocity)


def train(params, x, y, batches, lr, momentum):
    velocity = [np.zeros_like(p) for p in params]
    losses = []
    for b in batches:
        loss, g = loss_and_gradients(params, x[b], y[b])
        params, velocity = sgd_step(params, velocity, g, lr, momentum)
        losses.append(loss)
    return params, losses
