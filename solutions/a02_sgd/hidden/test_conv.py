"""conv.py: Toeplitz matrices, im2col, the convolution forward and backward."""

import numpy as np

from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a02_sgd.hidden import oracle, runs

FORWARD, BACKWARD = "conv:conv_forward", "conv:conv_backward"
IM2COL, TOEPLITZ = "conv:im2col", "conv:toeplitz"

points = points_of("conv")


def numbers(rng, shape, dtype="float64"):
    if np.dtype(dtype).kind in "iu":
        return rng.integers(np.iinfo("uint8").max + 1, size=shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def images(rng, x, w, stride=1, pad=0, dtype="float64", x_dtype=None):
    """Images and filters of these shapes, with stride and padding."""
    return numbers(rng, x, x_dtype or dtype), numbers(rng, w, dtype), stride, pad


def forward(rng, *shapes, **options):
    """A call of ``conv_forward``, and what it must give."""
    x, w, stride, pad = images(rng, *shapes, **options)
    call = (x, w, numbers(rng, len(w), w.dtype), stride, pad)
    return call, runs.as_dtype(oracle.conv_forward(*call), w.dtype)


def backward(rng, *shapes, **options):
    """A call of ``conv_backward``, and what it must give."""
    x, w, stride, pad = images(rng, *shapes, **options)
    out = [oracle.length(n, k, stride, pad) for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    call = (numbers(rng, (len(x), len(w), *out), w.dtype), x, w, stride, pad)
    return call, runs.as_dtype(oracle.conv_backward(*call), w.dtype)


def check_all(ranks, target, made):
    calls, rights = zip(*made, strict=True)
    runs.check(ranks, target, calls, rights)


def without_options(made):
    """The same calls with stride and pad left out."""
    return [(call[:3], right) for call, right in made]


# Images (B, C, H, W), filters (O, C, k_h, k_w).
PLAIN = (
    ((2, 3, 6, 5), (4, 3, 3, 2)),
    ((1, 1, 3, 3), (1, 1, 2, 2)),
    ((1, 2, 4, 7), (3, 2, 1, 1)),
    ((3, 2, 4, 5), (2, 2, 4, 5)),
    ((2, 1, 5, 4), (2, 1, 1, 3)),
)
# In the first ones a row or column at the end is reached by no window.
STRIDED = (
    ((2, 3, 7, 5), (4, 3, 3, 2), 2, 0),
    ((1, 2, 8, 6), (3, 2, 3, 3), 2, 1),
    ((2, 2, 6, 8), (2, 2, 2, 3), 3, 0),
    ((1, 1, 7, 10), (2, 1, 2, 1), 3, 0),
    ((2, 2, 4, 3), (3, 2, 3, 3), 1, 2),
    ((1, 3, 5, 6), (2, 3, 1, 1), 2, 1),
    ((1, 2, 2, 2), (2, 2, 4, 3), 1, 1),
)


# -- values ----------------------------------------------------------------------------------------


@points(4, "values", essential=True)
def test_numpy_does_the_products(ranks, rng):
    call, _ = forward(rng, *PLAIN[0])
    back, _ = backward(rng, *PLAIN[0])
    runs.check_numpy(ranks, (FORWARD, call), (BACKWARD, back))


@points(12, "values")
def test_toeplitz(ranks, rng):
    shapes = [((2, 2), (3, 3)), ((2, 2), (4, 4)), ((3, 3), (5, 5))]
    shapes += [((2, 3), (4, 5)), ((3, 1), (3, 4)), ((1, 1), (2, 3)), ((3, 4), (3, 4))]

    def kind(case):
        return "squares" if case[1][0] == case[1][1] else "other shapes"

    def check(case):
        kernel, image = case
        for values in (rng.standard_normal(kernel), rng.integers(1, 9, size=kernel)):
            runs.check(ranks, TOEPLITZ, [(values, image)], [oracle.toeplitz(values, image)])

    check_kinds(shapes, kind, check)


@points(6, "values")
def test_im2col(ranks, rng):
    calls = [(numbers(rng, x), w[2:]) for x, w in PLAIN]
    calls += [
        (numbers(rng, (2, 2, 4, 3), dtype), (2, 2)) for dtype in ("uint8", "float32", "int64")
    ]
    calls += [(numbers(rng, shape), (2, 2)) for shape in ((2, 2, 3, 4), (2, 2, 2, 6))]
    runs.check(ranks, IM2COL, calls, [oracle.im2col(*call) for call in calls])


@points(6, "values")
def test_im2col_with_stride_and_padding(ranks, rng):
    calls = [(numbers(rng, x), w[2:], stride, pad) for x, w, stride, pad in STRIDED]
    calls += [(numbers(rng, (1, 2, 4, 3), "uint8"), (3, 2), 2, 1)]
    runs.check(ranks, IM2COL, calls, [oracle.im2col(*call) for call in calls])


@points(9, "values")
def test_forward(ranks, rng):
    made = [forward(rng, *shapes) for shapes in PLAIN]
    check_all(ranks, FORWARD, [*made, *without_options(made)])


@points(9, "values")
def test_forward_with_stride_and_padding(ranks, rng):
    check_all(ranks, FORWARD, [forward(rng, *shapes) for shapes in STRIDED])


@points(9, "values")
def test_backward(ranks, rng):
    made = [backward(rng, *shapes) for shapes in PLAIN]
    check_all(ranks, BACKWARD, [*made, *without_options(made)])


@points(9, "values")
def test_backward_with_stride_and_padding(ranks, rng):
    check_all(ranks, BACKWARD, [backward(rng, *shapes) for shapes in STRIDED])


@points(6, "values")
def test_float32_and_integer_images(ranks, rng):
    for dtype, x_dtype in (
        ("float32", "float32"), ("float64", "uint8"), ("float32", "uint8"), ("float32", "int64"),
        ("float32", "float64"),
    ):  # fmt: skip
        options = {"dtype": dtype, "x_dtype": x_dtype}
        shapes = ((2, 2, 5, 4), (3, 2, 3, 2))
        check_all(ranks, FORWARD, [forward(rng, *shapes, **options)])
        check_all(ranks, BACKWARD, [backward(rng, *shapes, **options)])


# -- work and memory -------------------------------------------------------------------------------

DENSE = ((2, 4, 14, 13), (12, 4, 5, 5), 1, 0)
WIDE_APART = ((2, 4, 40, 41), (16, 4, 3, 3), 4, 1)  # a stride that leaves few windows
BUSY = ((2, 8, 12, 12), (16, 8, 5, 5), 1, 0)  # 128 windows of 200 numbers, 3200 products each


@points(8, "schedule")
def test_no_loop_over_single_products(ranks, rng):
    rule = "200 for each of 128 windows, so NumPy must do the products"
    call, right = forward(rng, *BUSY)
    runs.check_lines(ranks, FORWARD, call, right, 25_600, rule)
    columns = (call[0], (5, 5), 1, 0)
    runs.check_lines(ranks, IM2COL, columns, oracle.im2col(*columns), 25_600, rule)
    call, right = backward(rng, *BUSY)
    runs.check_lines(ranks, BACKWARD, call, right, 25_600, rule)


def by_stride(shapes):
    return "stride 1" if shapes[2] == 1 else "larger strides"


def im2col_bytes(x, w, y):
    """Bytes of im2col's matrix, images, filters and outputs, as the docstring counts them."""
    columns = len(x) * w[0].size * y[0, 0].size
    return (columns + x.size + w.size + y.size) * w.itemsize


@points(6, "memory")
def test_memory_of_the_forward_pass(ranks, rng):
    def check(shapes):
        call, right = forward(rng, *shapes)
        nbytes = im2col_bytes(call[0], call[1], right)
        runs.check_peak(ranks, FORWARD, call, right, 4, nbytes)

    check_kinds([DENSE, WIDE_APART], by_stride, check)


@points(6, "memory")
def test_memory_of_the_backward_pass(ranks, rng):
    def check(shapes):
        call, right = backward(rng, *shapes)
        nbytes = im2col_bytes(call[1], call[2], call[0])
        runs.check_peak(ranks, BACKWARD, call, right, 6, nbytes)

    check_kinds([DENSE, WIDE_APART], by_stride, check)


# -- safety ----------------------------------------------------------------------------------------


def of_each(rng):
    """A call of each function, and what it must give."""
    shapes = ((2, 3, 6, 5), (4, 3, 3, 2))
    matrices = [(rng.standard_normal((2, 3)), (4, 5)) for _ in range(2)]
    columns = [(numbers(rng, (1, 2, 4, 3)), *more) for more in (((2, 2),), ((1, 1),), ((2, 2),))]
    yield TOEPLITZ, [(call, oracle.toeplitz(*call)) for call in matrices]
    yield IM2COL, [(call, oracle.im2col(*call)) for call in columns]
    for target, made in ((FORWARD, forward), (BACKWARD, backward)):
        yield target, [made(rng, *each) for each in (shapes, ((2, 1, 3, 3), (1, 1, 1, 1)), shapes)]


@points(6, "safety")
def test_inputs_stay_and_results_are_new(ranks, rng):
    for target, made in of_each(rng):
        calls, rights = zip(*made, strict=True)
        runs.check_second_call(ranks, target, calls[0], calls[-1], (rights[0], rights[-1]))
        runs.check_kept(ranks, target, calls, rights)


@points(4, "safety")
def test_any_layout_in_memory(ranks, rng):
    for target, made in of_each(rng):
        calls, rights = zip(*made, strict=True)
        runs.check_kept(ranks, target, calls, rights, strided=True)
