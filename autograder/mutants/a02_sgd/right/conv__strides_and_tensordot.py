"""as_strided, tensordot forward, and backward as a convolution of the spread-out dy."""

import numpy as np
from numpy.lib.stride_tricks import as_strided


def windows(x, kernel_shape, stride):
    B, C, H, W = x.shape
    k_h, k_w = kernel_shape
    b, c, h, w = x.strides
    shape = (B, C, (H - k_h) // stride + 1, (W - k_w) // stride + 1, k_h, k_w)
    return as_strided(x, shape, (b, c, h * stride, w * stride, h, w), writeable=False)


def surrounded(x, pad):
    return np.pad(x, ((0,), (0,), (pad,), (pad,)))


def toeplitz(kernel, image_shape):
    pixels = np.arange(np.prod(image_shape)).reshape(1, 1, *image_shape)
    seen = im2col(pixels, kernel.shape)[0].T
    matrix = np.zeros((len(seen), pixels.size), kernel.dtype)
    np.put_along_axis(matrix, seen, np.tile(kernel.ravel(), (len(seen), 1)), axis=1)
    return matrix


def im2col(x, kernel_shape, stride=1, pad=0):
    seen = windows(surrounded(x, pad), kernel_shape, stride)
    columns = np.moveaxis(seen, (4, 5), (2, 3)).copy()
    return columns.reshape(len(x), x.shape[1] * columns.shape[2] * columns.shape[3], -1)


def conv_forward(x, w, b, stride=1, pad=0):
    seen = windows(surrounded(x.astype(w.dtype), pad), w.shape[2:], stride)
    y = np.tensordot(seen, w, axes=((1, 4, 5), (1, 2, 3)))  # (B, H_out, W_out, O)
    return np.ascontiguousarray(np.moveaxis(y + b, 3, 1))


def conv_backward(dy, x, w, stride=1, pad=0):
    padded = surrounded(x.astype(w.dtype), pad)
    seen = windows(padded, w.shape[2:], stride)
    dw = np.einsum("noij,ncijuv->ocuv", dy, seen, optimize=True)
    B, O, H_out, W_out = dy.shape
    k_h, k_w = w.shape[2:]
    H, W = padded.shape[2:]
    spread = np.zeros((B, O, H + k_h - 1, W + k_w - 1), w.dtype)
    spread[:, :, k_h - 1 :: stride, k_w - 1 :: stride][:, :, :H_out, :W_out] = dy
    flipped = w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    back = conv_forward(spread, flipped, np.zeros(w.shape[1], w.dtype))
    return back[:, :, pad : H - pad, pad : W - pad].copy(), dw, np.einsum("noij->o", dy)
