# fails: test_inputs_stay_and_results_are_new
"""Turns the list of parameters round, and back again."""

import numpy as np


def linear(x, W, b):
    return np.matmul(x.astype(W.dtype), W) + b


def linear_backward(dy, x, W):
    dW = np.matmul(x.T.astype(W.dtype), dy)
    return np.matmul(dy, W.T), dW, np.sum(dy, axis=0)


def relu(z):
    return np.where(z > 0, z, z.dtype.type(0))


def relu_backward(da, z):
    return np.where(z > 0, da, da.dtype.type(0))


def cross_entropy(scores, y):
    shifted = scores - np.max(scores, axis=1, keepdims=True)
    exps = np.exp(shifted)
    sums = exps.sum(axis=1, keepdims=True)
    right = (np.arange(len(y)), y)
    loss = (np.log(sums[:, 0]) - shifted[right]).mean()
    dscores = exps / sums
    dscores[right] -= 1
    return float(loss), dscores / len(y)


def loss_and_gradients(params, x, y):
    layers = list(zip(params[::2], params[1::2], strict=True))
    outputs, going_in = [], [x]
    for W, b in layers:
        outputs.append(linear(going_in[-1], W, b))
        going_in.append(relu(outputs[-1]))
    loss, dz = cross_entropy(outputs[-1], y)
    gradients = []
    params.reverse()
    for layer in reversed(range(len(layers))):
        dx, dW, db = linear_backward(dz, going_in[layer], layers[layer][0])
        gradients[:0] = [dW, db]
        if layer:
            dz = relu_backward(dx, outputs[layer - 1])
    params.reverse()
    return loss, gradients


def minibatches(n, batch_size, rng):
    order = rng.permutation(n)
    return [order[start : start + batch_size] for start in range(0, n, batch_size)]


def sgd_step(params, velocity, gradients, lr, momentum):
    velocity = [momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
    return [w - lr * v for w, v in zip(params, velocity, strict=True)], velocity


def train(params, x, y, batches, lr, momentum):
    velocity, losses = [np.zeros_like(w) for w in params], []
    for batch in batches:
        loss, gradients = loss_and_gradients(params, x[batch], y[batch])
        params, velocity = sgd_step(params, velocity, gradients, lr, momentum)
        losses.append(loss)
    return params, losses
