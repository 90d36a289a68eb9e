"""Convolution as a matrix product: Toeplitz matrices, im2col, and the backward pass.

    image 3 x 3     kernel 2 x 2     the same as a 4 x 9 matrix times the image as a vector
    A B C           a b              a b . c d . . . .   A      P = aA + bB + cD + dE
    D E F     *     c d       ->     . a b . c d . . . . B ...  Q = aB + bC + cE + dF
    G H I                            . . . a b . c d .          R = aD + bE + cG + dH
                                     . . . . a b . c d          S = aE + bF + cH + dI

Like all libraries of deep learning, this calls "convolution" what is a cross-correlation: the
kernel is not flipped. Most of a Toeplitz matrix is zeros; libraries turn it round and copy the
*image*, each window to a column (im2col), so that a small dense matrix of filters is multiplied.

    x  (B, C, H, W)            images, channels, rows, columns
    w  (O, C, k_h, k_w)        O filters; b (O,) their biases
    y  (B, O, H_out, W_out)    H_out = floor((H + 2 pad - k_h) / stride) + 1, W_out alike

    y[n, o, i, j] = b[o] + sum over c, u, v of
                        w[o, c, u, v] * padded[n, c, i stride + u, j stride + v]

``padded`` is x with ``pad`` rows and columns of zeros on each of its four sides. ``stride`` and
``pad`` hold for rows and columns alike; H and W, k_h and k_w differ. Rows and columns of ``padded``
that no window reaches count for nothing. Where windows overlap, an element of x is in several of
them: its gradient is the sum of what comes from each.

Rules for every function:

- Filters, biases and ``dy`` are of one dtype, float64 or float32, and so are the results. The
  images may be of another, integers too (uint8, with values up to 255): they are converted to the
  dtype of the filters first. ``im2col`` and ``toeplitz`` give the dtype that they get.
- Arrays may be read-only, and may lie in memory in any way: slices of larger ones, transposed ones.
- Values are right to 1e-10 in float64, 1e-4 in float32, relative to the largest element of an array
  or to 1, whichever is larger.
- NumPy does the work: no SciPy and no torch here.

Bounds, with the numbers for x (2, 8, 12, 12) and w (16, 8, 5, 5) in float64:

- Work: loops are welcome, over the elements of a kernel, over windows, over images; a loop over
  single products is not. A call executes at most 200 lines of this file for each of the
  ``B H_out W_out`` windows (128 windows, 25,600 lines).
- Memory: ``M = w.itemsize * (elements of im2col's matrix, x, w and y)`` (265,216 bytes).
  ``conv_forward`` needs at most 4 M + 64 KiB, and ``conv_backward`` at most 6 M + 64 KiB.
"""

import numpy as np


def toeplitz(kernel: np.ndarray, image_shape: tuple[int, int]) -> np.ndarray:
    """The matrix that does with an image, as a vector, what the kernel does (stride 1, no padding).

    Args:
        kernel: shape ``(k_h, k_w)``.
        image_shape: ``(H, W)``, at least as large as the kernel.

    Returns:
        An array of shape ``(H_out W_out, H W)``, zeros included. Rows are windows, columns are
        pixels, both row by row: ``toeplitz(k, image.shape) @ image.ravel()`` is the convolution.
    """
    ### BEGIN SOLUTION
    (k_h, k_w), (H, W) = kernel.shape, image_shape
    matrix = np.zeros((H - k_h + 1, W - k_w + 1, H, W), dtype=kernel.dtype)
    for i, j in np.ndindex(matrix.shape[:2]):
        matrix[i, j, i : i + k_h, j : j + k_w] = kernel
    return matrix.reshape(-1, H * W)
    ### END SOLUTION


def im2col(
    x: np.ndarray, kernel_shape: tuple[int, int], stride: int = 1, pad: int = 0
) -> np.ndarray:
    """Every window as a column.

    Args:
        x: shape ``(B, C, H, W)``.
        kernel_shape: ``(k_h, k_w)``.

    Returns:
        An array of shape ``(B, C k_h k_w, H_out W_out)``. Columns are windows, row by row; in a
        column stands the window's first channel, row by row, then its second, and so on.
    """
    ### BEGIN SOLUTION
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel_shape, axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]  # (B, C, H_out, W_out, k_h, k_w)
    B, C, H_out, W_out, k_h, k_w = windows.shape
    columns = np.array(windows.transpose(0, 1, 4, 5, 2, 3), order="C")
    return columns.reshape(B, C * k_h * k_w, H_out * W_out)
    ### END SOLUTION


def conv_forward(
    x: np.ndarray, w: np.ndarray, b: np.ndarray, stride: int = 1, pad: int = 0
) -> np.ndarray:
    """The convolution of every image with every filter; returns y, ``(B, O, H_out, W_out)``."""
    ### BEGIN SOLUTION
    columns = im2col(x, w.shape[2:], stride, pad).astype(w.dtype, copy=False)
    y = np.matmul(w.reshape(len(w), -1), columns)  # (B, O, H_out W_out)
    y += b[:, None]
    H_out = (x.shape[2] + 2 * pad - w.shape[2]) // stride + 1
    return y.reshape(len(x), len(w), H_out, -1)
    ### END SOLUTION


def conv_backward(
    dy: np.ndarray, x: np.ndarray, w: np.ndarray, stride: int = 1, pad: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From the gradient of the output to those of all that went in.

    Args:
        dy: dL/dy, shape ``(B, O, H_out, W_out)``; L is a number.
        x, w, stride, pad: what ``conv_forward`` was called with.

    Returns:
        ``(dx, dw, db)``: of the shapes of x, w and b; sums over images and windows.
    """
    ### BEGIN SOLUTION
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
    ### END SOLUTION
