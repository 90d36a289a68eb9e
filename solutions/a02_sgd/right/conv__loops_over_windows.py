"""Loops over images and windows, a product for each; no im2col in the convolution."""

import numpy as np


def toeplitz(kernel, image_shape):
    H, W = image_shape
    rows = []
    for i in range(H - kernel.shape[0] + 1):
        for j in range(W - kernel.shape[1] + 1):
            row = np.zeros((H, W), kernel.dtype)
            row[i : i + kernel.shape[0], j : j + kernel.shape[1]] = kernel
            rows.append(row.ravel())
    return np.array(rows)


def places(x, kernel_shape, stride, pad):
    heights = range(0, x.shape[2] + 2 * pad - kernel_shape[0] + 1, stride)
    widths = range(0, x.shape[3] + 2 * pad - kernel_shape[1] + 1, stride)
    return heights, widths


def im2col(x, kernel_shape, stride=1, pad=0):
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    heights, widths = places(x, kernel_shape, stride, pad)
    images = []
    for image in padded:
        columns = []
        for i in heights:
            for j in widths:
                window = image[:, i : i + kernel_shape[0], j : j + kernel_shape[1]]
                columns.append(window.reshape(-1))
        images.append(np.stack(columns, axis=1))
    return np.stack(images)


def conv_forward(x, w, b, stride=1, pad=0):
    padded = np.pad(x.astype(w.dtype), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    heights, widths = places(x, w.shape[2:], stride, pad)
    y = np.empty((len(x), len(w), len(heights), len(widths)), w.dtype)
    for n in range(len(x)):
        for row, i in enumerate(heights):
            for column, j in enumerate(widths):
                window = padded[n, :, i : i + w.shape[2], j : j + w.shape[3]]
                y[n, :, row, column] = np.tensordot(w, window, 3) + b
    return y


def conv_backward(dy, x, w, stride=1, pad=0):
    padded = np.pad(x.astype(w.dtype), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    gradient, dw = np.zeros_like(padded), np.zeros_like(w)
    heights, widths = places(x, w.shape[2:], stride, pad)
    for n in range(len(x)):
        for row, i in enumerate(heights):
            for column, j in enumerate(widths):
                here = np.s_[n, :, i : i + w.shape[2], j : j + w.shape[3]]
                for o in range(len(w)):
                    dw[o] += dy[n, o, row, column] * padded[here]
                    gradient[here] += dy[n, o, row, column] * w[o]
    H, W = x.shape[2:]
    return gradient[:, :, pad : pad + H, pad : pad + W] + 0, dw, dy.sum((0, 2, 3))
