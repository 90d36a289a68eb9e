# fails: test_any_layout_in_memory
"""as_strided with strides worked out from the shape."""

import numpy as np


def toeplitz(kernel, image_shape):
    (k_h, k_w), (H, W) = kernel.shape, image_shape
    matrix = np.zeros((H - k_h + 1, W - k_w + 1, H, W), dtype=kernel.dtype)
    for i, j in np.ndindex(matrix.shape[:2]):
        matrix[i, j, i : i + k_h, j : j + k_w] = kernel
    return matrix.reshape(-1, H * W)


def im2col(x, kernel_shape, stride=1, pad=0):
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    padded = x if not pad else padded
    B, C, H, W = padded.shape
    k_h, k_w = kernel_shape
    steps = (C * H * W, H * W, W, 1)
    windows = np.lib.stride_tricks.as_strided(
        padded,
        (B, C, H - k_h + 1, W - k_w + 1, k_h, k_w),
        [padded.itemsize * s for s in (*steps, W, 1)],
    )
    windows = windows[:, :, ::stride, ::stride]  # (B, C, H_out, W_out, k_h, k_w)
    B, C, H_out, W_out, k_h, k_w = windows.shape
    columns = np.array(windows.transpose(0, 1, 4, 5, 2, 3), order="C")
    return columns.reshape(B, C * k_h * k_w, H_out * W_out)


def conv_forward(x, w, b, stride=1, pad=0):
    columns = im2col(x, w.shape[2:], stride, pad).astype(w.dtype, copy=False)
    y = np.matmul(w.reshape(len(w), -1), columns)  # (B, O, H_out W_out)
    y += b[:, None]
    H_out = (x.shape[2] + 2 * pad - w.shape[2]) // stride + 1
    return y.reshape(len(x), len(w), H_out, -1)


def conv_backward(dy, x, w, stride=1, pad=0):
    (B, C, H, W), (k_h, k_w) = x.shape, w.shape[2:]
    H_out, W_out = dy.shape[2:]
    columns = im2col(x, (k_h, k_w), stride, pad).astype(w.dtype, copy=False)
    flat = dy.reshape(B, len(w), -1)
    dw = np.matmul(flat, columns.transpose(0, 2, 1)).sum(axis=0).reshape(w.shape)
    del columns
    pieces = np.matmul(w.reshape(len(w), -1).T, flat).reshape(B, C, k_h, k_w, H_out, W_out)
    padded = np.zeros((B, C, H + 2 * pad, W + 2 * pad), dtype=w.dtype)
    for i, j in np.ndindex(k_h, k_w):
        rows = slice(i, i + stride * H_out, stride)
        padded[:, :, rows, j : j + stride * W_out : stride] += pieces[:, :, i, j]
    return padded[:, :, pad : pad + H, pad : pad + W].copy(), dw, dy.sum(axis=(0, 2, 3))
