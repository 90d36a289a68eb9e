"""Tables of indices, one gather forward, np.add.at backward."""

import numpy as np


def table(shape, kernel_shape, stride):
    C, H, W = shape
    k_h, k_w = kernel_shape
    corner = (np.arange(0, H - k_h + 1, stride)[:, None] * W + np.arange(0, W - k_w + 1, stride)).ravel()
    inside = (np.arange(k_h)[:, None] * W + np.arange(k_w)).ravel()
    channel = np.arange(C) * H * W
    return (channel[:, None] + inside).ravel()[:, None] + corner[None, :]


def padded_shape(x, pad):
    return (x.shape[1], x.shape[2] + 2 * pad, x.shape[3] + 2 * pad)


def toeplitz(kernel, image_shape):
    indices = table((1, *image_shape), kernel.shape, 1)
    matrix = np.zeros((indices.shape[1], image_shape[0] * image_shape[1]), kernel.dtype)
    matrix[np.arange(len(matrix)), indices] = kernel.reshape(-1, 1)
    return matrix


def im2col(x, kernel_shape, stride=1, pad=0):
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return padded.reshape(len(x), -1)[:, table(padded_shape(x, pad), kernel_shape, stride)]


def conv_forward(x, w, b, stride=1, pad=0):
    columns = im2col(x.astype(w.dtype), w.shape[2:], stride, pad)
    y = np.einsum("ok,nkp->nop", w.reshape(len(w), -1), columns) + b.reshape(1, -1, 1)
    return y.reshape(len(x), len(w), -1, (x.shape[3] + 2 * pad - w.shape[3]) // stride + 1)


def conv_backward(dy, x, w, stride=1, pad=0):
    columns = im2col(x.astype(w.dtype), w.shape[2:], stride, pad)
    flat = dy.reshape(*dy.shape[:2], -1)
    dw = np.tensordot(flat, columns, axes=((0, 2), (0, 2))).reshape(w.shape)
    indices = table(padded_shape(x, pad), w.shape[2:], stride)
    shape = padded_shape(x, pad)
    back = np.zeros((len(x), shape[0] * shape[1] * shape[2]), w.dtype)
    for n in range(len(x)):
        np.add.at(back[n], indices, w.reshape(len(w), -1).T @ flat[n])
    back = back.reshape(len(x), *shape)[:, :, pad : shape[1] - pad, pad : shape[2] - pad]
    return np.array(back), dw, flat.sum(axis=2).sum(axis=0)
