"""conv.py: Toeplitz matrices, im2col, the convolution forward and backward."""

from checks.cases_conv import ConvBackward, ConvForward, Im2col, Toeplitz
from ringside.checking.suite import Suite, group

suite = Suite("conv")
SMALL = {"x": (2, 3, 7, 5)}
STRIDED = ({**SMALL, "stride": 2}, {**SMALL, "stride": 2, "pad": 1}, {**SMALL, "stride": 3})
PIXELS = {"x_dtype": "uint8", "dtype": "float32", "stride": 2, "pad": 1}
BUSY = ((1, 4, 8, 8), (12, 4, 5, 5))  # 16 windows of 100 numbers, 1200 products each
DENSE = {"x": (2, 4, 12, 11), "w": (12, 4, 5, 5)}
LARGER_STRIDE = {"x": (2, 2, 20, 21), "w": (4, 2, 3, 3), "stride": 4, "pad": 1}


@suite.test(
    "point", "values", ConvForward(watch="libraries"), ConvBackward(watch="libraries"), weight=4
)
def test_numpy_does_the_products(case, run):
    """And no other library."""


@suite.test(
    "values", "values", group("squares", Toeplitz(), Toeplitz(dtype="int64")),
    group("other shapes", Toeplitz((2, 3), (4, 5)), Toeplitz((3, 1), (3, 4), dtype="int64")), weight=12,
)  # fmt: skip
def test_toeplitz(case, run):
    """Rows are windows, columns are pixels."""


@suite.test(
    "values", "values", Im2col(**SMALL), Im2col((1, 2, 2, 3), (1, 2, 2, 2), dtype="uint8"), weight=6
)
def test_im2col(case, run):
    """A column has the window's first channel, row by row, then its second."""


@suite.test("values", "values", *(Im2col(**each) for each in STRIDED), weight=6)
def test_im2col_with_stride_and_padding(case, run):
    """Windows are ``stride`` apart, in an image with zeros around."""


@suite.test("values", "values", ConvForward(), ConvForward(options=False), weight=9)
def test_forward(case, run):
    """SciPy's correlations, and a bias."""


@suite.test("values", "values", *(ConvForward(**each) for each in STRIDED), weight=9)
def test_forward_with_stride_and_padding(case, run):
    """What no window reaches counts for nothing."""


@suite.test("values", "values", ConvBackward(), ConvBackward(options=False), weight=9)
def test_backward(case, run):
    """Where windows overlap, gradients add up."""


@suite.test(
    "values", "values", *(ConvBackward(**each) for each in STRIDED),
    ConvBackward((1, 1, 8, 6), (1, 1, 2, 2), 3), weight=9,
)  # fmt: skip
def test_backward_with_stride_and_padding(case, run):
    """What no window reaches has no gradient."""


@suite.test("values", "values", ConvForward(**PIXELS), ConvBackward(**PIXELS), weight=6)
def test_float32_and_integer_images(case, run):
    """Images are taken in the dtype of the filters."""


@suite.test(
    "schedule", "schedule", ConvForward(*BUSY, watch="lines"), Im2col(*BUSY, watch="lines"),
    ConvBackward(*BUSY, watch="lines"), Toeplitz(watch="libraries"), Im2col(watch="libraries"), weight=8,
)  # fmt: skip
def test_no_loop_over_single_products(case, run):
    """NumPy makes them, many in a call."""


@suite.test(
    "memory", "memory", group("stride 1", ConvForward(**DENSE, pad=2, watch="memory")),
    group("larger strides", ConvForward(**LARGER_STRIDE, watch="memory")), weight=6,
)  # fmt: skip
def test_memory_of_the_forward_pass(case, run):
    """Four times im2col's matrix, and 64 KiB."""


@suite.test(
    "memory", "memory", group("stride 1", ConvBackward(**DENSE, watch="memory")),
    group("larger strides", ConvBackward(**LARGER_STRIDE, watch="memory")), weight=6,
)  # fmt: skip
def test_memory_of_the_backward_pass(case, run):
    """Six times im2col's matrix, and 64 KiB."""


EACH = (
    Toeplitz((2, 3), (4, 5)), Im2col((1, 2, 4, 3), (1, 2, 2, 2)),
    Im2col((1, 2, 4, 3), (1, 2, 1, 1)), ConvForward(), ConvForward((2, 1, 3, 3), (1, 1, 1, 1)),
    ConvBackward(), ConvBackward((2, 1, 3, 3), (1, 1, 1, 1)),
)  # fmt: skip


@suite.test(
    "safety",
    "safety",
    *(case.with_(watch=watch) for watch in ("second", "inputs") for case in EACH),
    weight=6,
)
def test_inputs_stay_and_results_are_new(case, run):
    """They may be read-only, and a second call leaves the first one's result alone."""


@suite.test("safety", "safety", *(case.with_(watch="layout") for case in EACH), weight=4)
def test_any_layout_in_memory(case, run):
    """Slices of larger arrays, transposed ones."""
