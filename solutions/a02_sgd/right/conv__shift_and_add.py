"""A loop over filters, channels and places of the kernel: shifted images, scaled and added."""

import numpy as np


def out_shape(x, kernel_shape, stride, pad):
    return [(n + 2 * pad - k) // stride + 1 for n, k in zip(x.shape[2:], kernel_shape)]


def with_zeros(x, pad, dtype):
    B, C, H, W = x.shape
    padded = np.zeros((B, C, H + 2 * pad, W + 2 * pad), dtype)
    padded[:, :, pad : pad + H, pad : pad + W] = x
    return padded


def toeplitz(kernel, image_shape):
    k_h, k_w = kernel.shape
    H, W = image_shape
    blocks = []
    for row in kernel:
        band = np.zeros((W - k_w + 1, W), kernel.dtype)
        for u, value in enumerate(row):
            band += value * np.eye(W - k_w + 1, W, u, dtype=kernel.dtype)
        blocks.append(band)
    full = np.zeros(((H - k_h + 1) * (W - k_w + 1), H * W), kernel.dtype)
    for u, band in enumerate(blocks):
        full += np.kron(np.eye(H - k_h + 1, H, u, dtype=kernel.dtype), band)
    return full


def im2col(x, kernel_shape, stride=1, pad=0):
    padded = with_zeros(x, pad, x.dtype)
    H, W = out_shape(x, kernel_shape, stride, pad)
    rows = []
    for c in range(x.shape[1]):
        for u in range(kernel_shape[0]):
            for v in range(kernel_shape[1]):
                seen = padded[:, c, u : u + stride * H : stride, v : v + stride * W : stride]
                rows.append(seen.reshape(len(x), H * W))
    return np.stack(rows, axis=1)


def conv_forward(x, w, b, stride=1, pad=0):
    padded = with_zeros(x, pad, w.dtype)
    H, W = out_shape(x, w.shape[2:], stride, pad)
    y = np.zeros((len(x), len(w), H, W), w.dtype)
    y += b.reshape(-1, 1, 1)
    for o, c, u, v in np.ndindex(w.shape):
        y[:, o] += w[o, c, u, v] * padded[:, c, u : u + stride * H : stride, v : v + stride * W : stride]
    return y


def conv_backward(dy, x, w, stride=1, pad=0):
    padded = with_zeros(x, pad, w.dtype)
    back, dw = np.zeros_like(padded), np.zeros(w.shape, w.dtype)
    H, W = dy.shape[2:]
    for o, c, u, v in np.ndindex(w.shape):
        here = np.s_[:, c, u : u + stride * H : stride, v : v + stride * W : stride]
        dw[o, c, u, v] = (dy[:, o] * padded[here]).sum()
        back[here] += w[o, c, u, v] * dy[:, o]
    back = back[:, :, pad : back.shape[2] - pad, pad : back.shape[3] - pad]
    return back.copy(), dw, dy.sum(axis=(0, 2, 3))
