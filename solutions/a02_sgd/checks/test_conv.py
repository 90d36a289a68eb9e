"""conv.py: Toeplitz matrices, im2col, the convolution forward and backward."""

from checks.cases_conv import ConvBackward, ConvForward, Im2col, Toeplitz
from ringside.checking.suite import Suite, group

suite = Suite("conv")
SMALL = {"x": (2, 3, 7, 5), "w": (4, 3, 3, 3)}
STRIDED = ({**SMALL, "stride": 2}, {**SMALL, "stride": 2, "pad": 1}, {**SMALL, "stride": 3})
FLAT = ({"x": (2, 3, 6, 7), "w": (4, 3, 3, 2), "stride": 2, "pad": 1},)  # no square anywhere
PIXELS = {"w": (4, 3, 3, 3), "x_dtype": "uint8", "dtype": "float32"}
BUSY = ((1, 4, 8, 8), (12, 4, 5, 5))  # 16 windows of 100 numbers, 1200 products each
DENSE = {"x": (2, 4, 12, 11), "w": (12, 4, 5, 5)}
LARGER_STRIDE = {"x": (2, 2, 20, 21), "w": (4, 2, 3, 3), "stride": 4, "pad": 1}
SQUARE, OTHER = "square kernels", "other kernels"
TO_THE_END, OVER = "windows that reach the last row", "rows or columns that no window reaches"
TOEPLITZ, IM2COL, FORWARD, BACKWARD = "toeplitz", "im2col", "conv_forward", "conv_backward"


@suite.test(
    "products",
    "values",
    ConvForward(**SMALL, watch="libraries"),
    ConvBackward(**SMALL, watch="libraries"),
)
def test_numpy_does_the_products(case, run):
    """And no other library."""


@suite.test(
    "toeplitz", "values", group("squares", Toeplitz(), Toeplitz(dtype="int64")),
    group(
        "other shapes", Toeplitz((2, 3), (4, 5)), Toeplitz((3, 1), (3, 4), dtype="int64"),
        Toeplitz((2, 2), (3, 4)),
    ),
)  # fmt: skip
def test_toeplitz(case, run):
    """Rows are windows, columns are pixels."""


@suite.test(
    "im2col", "values", group(SQUARE, Im2col(**SMALL)),
    group(OTHER, Im2col((1, 2, 2, 3), (1, 2, 2, 1), dtype="uint8"), weight=3), weight=3,
)  # fmt: skip
def test_im2col(case, run):
    """A column has the window's first channel, row by row, then its second."""


@suite.test("im2col", "values", *(Im2col(**each) for each in (*STRIDED, *FLAT)), weight=4)
def test_im2col_with_stride_and_padding(case, run):
    """Windows are ``stride`` apart, in an image with zeros around."""


@suite.test(
    "forward", "values", group(SQUARE, ConvForward(**SMALL), ConvForward(**SMALL, options=False)),
    group(OTHER, ConvForward(), weight=3), weight=7,
)  # fmt: skip
def test_forward(case, run):
    """SciPy's correlations, and a bias."""


@suite.test("forward", "values", *(ConvForward(**each) for each in (*STRIDED, *FLAT)), weight=6)
def test_forward_with_stride_and_padding(case, run):
    """What no window reaches counts for nothing."""


@suite.test(
    "backward", "values",
    group(SQUARE, ConvBackward(**SMALL), ConvBackward(**SMALL, options=False)),
    group(OTHER, ConvBackward(), weight=3), weight=4,
)  # fmt: skip
def test_backward(case, run):
    """Where windows overlap, gradients add up."""


@suite.test(
    "backward", "values", group(TO_THE_END, *(ConvBackward(**each) for each in STRIDED[:2])),
    group(OVER, ConvBackward(**STRIDED[2]), ConvBackward((1, 1, 8, 6), (1, 1, 2, 2), 3), weight=2),
    weight=13,
)  # fmt: skip
def test_backward_with_stride_and_padding(case, run):
    """What no window reaches has no gradient."""


@suite.test(
    "dtypes", "values", group(FORWARD, ConvForward(**PIXELS)),
    group(BACKWARD, ConvBackward(**PIXELS)),
)  # fmt: skip
def test_float32_and_integer_images(case, run):
    """Images are taken in the dtype of the filters."""


@suite.test(
    "lean", "schedule",
    group(IM2COL, Im2col(*BUSY, watch="lines"), Im2col(watch="libraries"), weight=3),
    group(FORWARD, ConvForward(*BUSY, watch="lines"), weight=2),
    group(BACKWARD, ConvBackward(*BUSY, watch="lines"), weight=3),
    group(TOEPLITZ, Toeplitz(watch="libraries")), weight=8,
)  # fmt: skip
def test_no_loop_over_single_products(case, run):
    """NumPy makes them, many in a call."""


@suite.test(
    "lean", "memory", ConvForward(**DENSE, pad=2, watch="memory"),
    ConvForward(**LARGER_STRIDE, watch="memory"), weight=5,
)  # fmt: skip
def test_memory_of_the_forward_pass(case, run):
    """Four times im2col's matrix, and 64 KiB."""


@suite.test(
    "lean", "memory", ConvBackward(**DENSE, watch="memory"),
    ConvBackward(**LARGER_STRIDE, watch="memory"), weight=5,
)  # fmt: skip
def test_memory_of_the_backward_pass(case, run):
    """Six times im2col's matrix, and 64 KiB."""


EACH = {
    TOEPLITZ: [Toeplitz((2, 3), (4, 5))],
    IM2COL: [Im2col((1, 2, 4, 3), (1, 2, 2, 2)), Im2col((1, 2, 4, 3), (1, 2, 1, 1))],
    FORWARD: [ConvForward(w=(4, 3, 3, 3)), ConvForward((2, 1, 3, 3), (1, 1, 1, 1))],
    BACKWARD: [ConvBackward(w=(4, 3, 3, 3)), ConvBackward((2, 1, 3, 3), (1, 1, 1, 1))],
}


def of_each(watches, **weights):
    """Each function earns its part."""
    return [
        group(
            name, *(case.with_(watch=watch) for watch in watches for case in EACH[name]),
            weight=weight,
        )
        for name, weight in weights.items()
    ]  # fmt: skip


KEPT = of_each(("second", "inputs"), im2col=4, conv_forward=4, conv_backward=1, toeplitz=1)
LAYOUT = of_each(("layout",), im2col=1, conv_forward=1, conv_backward=1)


@suite.test("kept", "safety", *KEPT)
def test_inputs_stay_and_results_are_new(case, run):
    """They may be read-only, and a second call leaves the first one's result alone."""


@suite.test("layout", "safety", *LAYOUT)
def test_any_layout_in_memory(case, run):
    """Slices of larger arrays, transposed ones."""
