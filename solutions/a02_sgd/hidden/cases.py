"""The cases of the hidden run."""

from checks import test_account as account
from checks import test_conv as conv
from checks import test_sgd as sgd
from checks import test_sgd_torch as torch
from checks.cases import (
    CrossEntropy,
    Linear,
    LinearBackward,
    LossAndGradients,
    Minibatches,
    Relu,
    ReluBackward,
    SgdStep,
    Train,
)
from checks.cases_account import (
    ActivationBytes,
    ForwardTime,
    LayerFlops,
    LayerParameters,
    LayerTime,
    NumParameters,
    OutputShape,
    TrainingBytes,
    TrainingFlops,
)
from checks.cases_conv import ConvBackward, ConvForward, Im2col, Toeplitz
from checks.cases_torch import DEEP, FLAT, SMALL, SQUARE, Evaluate, RoundTrip, Steps
from hidden import oracle

from ringside import Machine
from ringside.checking.suite import group, hidden

# -- sgd -------------------------------------------------------------------------------------------

SIZES = ((5, 4, 3), (1, 4, 3), (3, 1, 6), (2, 7, 1), (4, 4, 4), (1, 1, 1))
SHAPES = ((5, 4), (1, 9), (7,), (4, 6))
MIXED = (
    ("float32", "float32"), ("float64", "uint8"), ("float32", "int64"), ("float32", "float64"),
    ("float32", "uint8"), ("float64", "float32"),
)  # fmt: skip


def drawn_step(rng):
    lr, momentum = round(rng.uniform(0.05, 0.5), 4), round(rng.uniform(0.3, 0.95), 4)
    return [
        SgdStep(widths, lr, each, dtype=dtype)
        for widths, dtype in (((5, 4, 3), "float64"), ((3, 2), "float64"), ((4, 6, 2), "float32"))
        for each in (momentum, 0.0)
    ]


hidden(sgd.test_gradients_without_autograd, LossAndGradients(watch="autograd"))
hidden(sgd.test_linear, *(Linear(*sizes) for sizes in SIZES))
hidden(sgd.test_linear_backward, *(LinearBackward(*sizes) for sizes in SIZES))
hidden(
    sgd.test_relu_and_its_gradient,
    *(kind(shape) for kind in (Relu, ReluBackward) for shape in SHAPES),
    *(kind((3, 4), dtype="float32") for kind in (Relu, ReluBackward)),
)
hidden(
    sgd.test_cross_entropy,
    group(
        sgd.OTHERS, *(CrossEntropy(*sizes) for sizes in ((6, 4), (8, 2), (3, 10))),
        CrossEntropy(4, 6, used=3), CrossEntropy(5, 3, dtype="float32"), weight=2,
    ),
    group(sgd.ONE, CrossEntropy(1, 5)),
    # Where all scores are near 10,000, a float32 may be off by more than a small loss allows.
    group(
        sgd.LARGE,
        *(CrossEntropy(5, 4, scale) for scale in (1e4, 400.0, 30.0)),
        *(CrossEntropy(5, 4, 1.0, shift=shift) for shift in (1e4, -1e4)),
        *(CrossEntropy(5, 4, scale, dtype="float32") for scale in (1e4, 400.0, 30.0)),
    ),
)  # fmt: skip
hidden(
    sgd.test_gradients_of_a_network,
    group(
        sgd.TWO, *(LossAndGradients((6, 5, 4), n) for n in (7, 1)), LossAndGradients(zeros=True),
        LossAndGradients((4, 4, 4), 9),
    ),
    group(
        sgd.MORE, LossAndGradients((6, 4), 5), LossAndGradients((5, 9, 3, 8, 4), 6),
        LossAndGradients((3, 2), 1), LossAndGradients((4, 4, 4, 4), 9),
        LossAndGradients((1, 3, 1, 2), 4), weight=3,
    ),
)  # fmt: skip
hidden(
    sgd.test_float32_and_integers,
    *(
        kind(*sizes, dtype=dtype, x_dtype=x_dtype)
        for kind, sizes in (
            (LossAndGradients, ((12, 6, 5),)), (Linear, (4, 12, 3)), (LinearBackward, (4, 12, 3)),
        )
        for dtype, x_dtype in MIXED
    ),
)  # fmt: skip
hidden(
    sgd.test_minibatches_hold_every_sample_once,
    *(
        Minibatches(*sizes)
        for sizes in ((12, 4), (10, 4), (3, 8), (8, 8), (7, 1), (1, 1), (1, 5), (101, 10))
    ),
)
hidden(sgd.test_each_epoch_has_its_own_order, Minibatches(300, 32, 3))
hidden(sgd.test_one_update, drawn_step)
hidden(
    sgd.test_training_on_real_data,
    group(sgd.TWO, Train((64, 12, 10), (40, 40, 13)), Train((64, 6, 10), (8, 5), dtype="float32")),
    group(sgd.MORE, Train((64, 10), (9, 1, 30), 0.001, raw=True)),
)
hidden(
    sgd.test_no_loop_over_samples,
    LossAndGradients(watch="libraries"),
    LossAndGradients((9, 8, 4), 600, watch="lines"),
    LossAndGradients((5, 100, 3), 400, watch="lines"),
)
hidden(sgd.test_no_gradient_for_each_sample, LossAndGradients((48, 64, 10), 256, watch="memory"))
hidden(
    sgd.test_inputs_stay_and_results_are_new,
    *(case.with_(watch="second") for case in sgd.TWICE),
    *(case.with_(watch="inputs") for case in sgd.EACH),
)

# -- conv ------------------------------------------------------------------------------------------

PLAIN = (
    ((2, 3, 6, 5), (4, 3, 3, 2)), ((1, 1, 3, 3), (1, 1, 2, 2)), ((1, 2, 4, 7), (3, 2, 1, 1)),
    ((3, 2, 4, 5), (2, 2, 4, 5)), ((2, 1, 5, 4), (2, 1, 1, 3)),
)  # fmt: skip
# In the first ones a row or column at the end is reached by no window.
STRIDED = (
    ((2, 3, 7, 5), (4, 3, 3, 2), 2, 0), ((1, 2, 8, 6), (3, 2, 3, 3), 2, 1),
    ((2, 2, 6, 8), (2, 2, 2, 3), 3, 0), ((1, 1, 7, 10), (2, 1, 2, 1), 3, 0),
    ((2, 2, 4, 3), (3, 2, 3, 3), 1, 2), ((1, 3, 5, 6), (2, 3, 1, 1), 2, 1),
    ((1, 2, 2, 2), (2, 2, 4, 3), 1, 1),
)  # fmt: skip
DENSE = ((2, 4, 14, 13), (12, 4, 5, 5))
WIDE_APART = ((2, 4, 40, 41), (16, 4, 3, 3), 4, 1)  # a stride that leaves few windows
BUSY = ((2, 8, 12, 12), (16, 8, 5, 5))  # 128 windows of 200 numbers, 3200 products each


def toeplitz(*shapes):
    return [Toeplitz(*each, dtype=dtype) for each in shapes for dtype in ("float64", "int64")]


def plain(kind):
    return [kind(*each, options=options) for options in (True, False) for each in PLAIN]


hidden(
    conv.test_numpy_does_the_products,
    *(kind(*PLAIN[0], watch="libraries") for kind in (ConvForward, ConvBackward)),
)
hidden(
    conv.test_toeplitz,
    group("squares", *toeplitz(((2, 2), (3, 3)), ((2, 2), (4, 4)), ((3, 3), (5, 5)))),
    group(
        "other shapes",
        *toeplitz(((2, 3), (4, 5)), ((3, 1), (3, 4)), ((1, 1), (2, 3)), ((3, 4), (3, 4))),
    ),
)
hidden(
    conv.test_im2col,
    *(Im2col(*shapes, options=False) for shapes in PLAIN),
    *(Im2col((2, 2, 4, 3), (1, 2, 2, 2), dtype=each) for each in ("uint8", "float32", "int64")),
)
hidden(
    conv.test_im2col_with_stride_and_padding,
    *(Im2col(*shapes) for shapes in STRIDED),
    Im2col((1, 2, 4, 3), (1, 2, 3, 2), 2, 1, dtype="uint8"),
)
hidden(conv.test_forward, *plain(ConvForward))
hidden(conv.test_forward_with_stride_and_padding, *(ConvForward(*each) for each in STRIDED))
hidden(conv.test_backward, *plain(ConvBackward))
hidden(conv.test_backward_with_stride_and_padding, *(ConvBackward(*each) for each in STRIDED))
hidden(
    conv.test_float32_and_integer_images,
    *(
        kind((2, 2, 5, 4), (3, 2, 3, 2), dtype=dtype, x_dtype=x_dtype)
        for kind in (ConvForward, ConvBackward)
        for dtype, x_dtype in MIXED[:5]
    ),
)
hidden(
    conv.test_no_loop_over_single_products,
    *(kind(*BUSY, watch="lines") for kind in (ConvForward, Im2col, ConvBackward)),
    Toeplitz(watch="libraries"),
    Im2col(watch="libraries"),
)
hidden(
    conv.test_memory_of_the_forward_pass,
    group("stride 1", ConvForward(*DENSE, watch="memory")),
    group("larger strides", ConvForward(*WIDE_APART, watch="memory")),
)
hidden(
    conv.test_memory_of_the_backward_pass,
    group("stride 1", ConvBackward(*DENSE, watch="memory")),
    group("larger strides", ConvBackward(**conv.LARGER_STRIDE, watch="memory")),
)
hidden(
    conv.test_inputs_stay_and_results_are_new,
    *(case.with_(watch=watch) for watch in ("second", "inputs") for case in conv.EACH),
)
hidden(conv.test_any_layout_in_memory, *(case.with_(watch="layout") for case in conv.EACH))

# -- account ---------------------------------------------------------------------------------------

KNOWN = ("ALEXNET", "ALEXNET_ONE_GROUP", "VGG16", "LENET5")
KINDS = (
    "conv pool conv pool linear linear", "conv linear", "linear linear linear",
    "pool conv conv linear", "conv conv conv", "linear",
)  # fmt: skip


def whole(rng, low, high):
    return int(rng.integers(low, high))


def layer(rng, kind, channels):
    """A layer; convolutions have groups where they divide the channels."""
    doubled = bool(rng.integers(2))
    if kind == "pool":
        return ("Pool", whole(rng, 1, 4), whole(rng, 1, 4), doubled)
    if kind == "linear":
        return ("Linear", whole(rng, 1, 40), doubled)
    groups = int(rng.choice([each for each in (1, 2, 3, 4) if channels % each == 0]))
    window = whole(rng, 1, 5), whole(rng, 1, 4), whole(rng, 0, 3)
    return ("Conv", groups * whole(rng, 1, 6), *window, groups, doubled)


def networks(rng):
    """Random layers, on images large enough for them."""
    for kinds in KINDS:
        shape = (whole(rng, 1, 13), whole(rng, 90, 130), whole(rng, 90, 130))
        if kinds.startswith("linear"):
            shape = shape[:1] if rng.integers(2) else (2, 3, 5)
        layers, now = [], shape
        for kind in kinds.split():
            layers.append(layer(rng, kind, now[0]))
            now = oracle.output_shape(layers[-1], now)
        yield (shape, *layers)


def pairs(rng):
    """Layers with the shapes of their inputs."""
    return [pair for network in (*networks(rng), "ALEXNET") for pair in oracle.pairs(network)]


def batch(rng):
    return whole(rng, 1, 300)


def machines(rng):
    """The presets, and one whose ridge lies between the layers' intensities."""
    presets = [Machine.load(name) for name in ("laptop", "textbook", "zaratan")]
    between = float(rng.uniform(1e12, 9e12)), float(rng.uniform(2e11, 9e11)), 4e-6
    numbers = [(m.flop_per_s, m.memory_bytes_per_s, m.kernel_overhead_s) for m in presets]
    return [("Machine", *each) for each in (*numbers, between)]


def activations(rng):
    """Networks and batches, and some with elements of another size."""
    plain = [(network, batch(rng)) for network in (*networks(rng), *KNOWN)]
    return plain + [(*call, itemsize) for itemsize in (2, 8) for call in plain[:4]]


def on_the_slide(rng):
    return [
        (network, batch(rng), int(rng.choice([2, 4, 8])), "slide")
        for network in (*networks(rng), *networks(rng), *KNOWN)
    ]


def layer_times(rng):
    for machine in machines(rng):
        calls = [(*pair, int(rng.choice([1, 16, 128, 1000])), machine) for pair in pairs(rng)]
        yield from (*calls, *((*call, 2) for call in calls[-3:]))


def network_times(rng):
    for machine in machines(rng):
        for network in (*networks(rng), *KNOWN):
            yield from ((network, batch_size, machine) for batch_size in (1, 128))
        yield ("ALEXNET", 64, machine, 8)


def known(kind, *arguments):
    """A case with the number that must come."""
    case = kind(*arguments)
    return case.with_(gives=getattr(oracle, case.function)(*case.arguments()))


def has_groups(case):
    """Whether a convolution of several groups is in it."""
    first = case.arguments()[0]
    single = isinstance(first, tuple) and isinstance(first[0], str)
    layers = [first] if single else oracle.known(first)[1:]
    return any(each[0] == "Conv" and each[5:6] > (1,) for each in layers)


def by_groups(kind, *draws):
    """Cases of drawn arguments; those with groups earn half of the points."""

    def those(several):
        def drawn(rng):
            cases = [known(kind, *arguments) for draw in draws for arguments in draw(rng)]
            return [case for case in cases if has_groups(case) == several]

        return drawn

    return (
        group("layers without groups", those(False)),
        group("convolutions of several groups", those(True)),
    )


def with_batch(calls):
    return lambda rng: [(*call, batch(rng)) for call in calls(rng)]


def all_networks(rng):
    return [(network,) for network in (*KNOWN, *networks(rng))]


hidden(account.test_output_shapes, *by_groups(OutputShape, pairs, pairs))
hidden(account.test_parameters_of_a_layer, *by_groups(LayerParameters, pairs))
hidden(account.test_parameters_of_a_network, *by_groups(NumParameters, all_networks))
hidden(account.test_flops_of_a_layer, *by_groups(LayerFlops, with_batch(pairs)))
hidden(account.test_flops_of_training, *by_groups(TrainingFlops, with_batch(all_networks)))
hidden(account.test_activations_counted_once, *by_groups(ActivationBytes, activations))
hidden(account.test_activations_as_on_the_slide, *by_groups(ActivationBytes, on_the_slide))
hidden(account.test_bytes_of_training, *by_groups(TrainingBytes, activations, on_the_slide))
hidden(account.test_time_of_a_layer, *by_groups(LayerTime, layer_times))
hidden(account.test_time_of_a_network, *by_groups(ForwardTime, network_times))
hidden(
    account.test_nothing_is_allocated,
    *(known(NumParameters, network) for network in ("LENET5", "ALEXNET")),
    known(LayerFlops, ("Linear", 1000), (4096,), 1000),
    known(ActivationBytes, "LENET5", 1000),
    known(ActivationBytes, "ALEXNET", 8, 4, "slide"),
    known(TrainingBytes, "LENET5", 1000),
    known(TrainingFlops, "LENET5", 1000),
    known(ForwardTime, "LENET5", 1000),
)

# -- sgd_torch -------------------------------------------------------------------------------------

TRIPS = (SMALL, "float64"), (DEEP, "float32"), (FLAT, "float64"), (SQUARE, "float64")
hidden(
    torch.test_the_model_is_the_network_of_sgd,
    *(RoundTrip(widths, dtype) for widths, dtype in TRIPS),
)
hidden(
    torch.test_arrays_and_model_share_nothing,
    RoundTrip(SMALL), RoundTrip(SQUARE), RoundTrip(FLAT, "float32"),
)  # fmt: skip
hidden(torch.test_the_model_goes_forward_and_autograd_backward, Steps(SMALL, (6,)))
hidden(
    torch.test_one_step,
    *(Steps(*each, moving=True) for each in ((SMALL, (6,)), (FLAT, (1,)), (DEEP, (4,)))),
)
hidden(torch.test_several_steps_on_digits, Steps((64, 12, 10), (40, 30, 1, 19), pixels=True))
hidden(
    torch.test_float32_and_integer_samples,
    *(
        case
        for dtype, x_dtype in MIXED[:4] + MIXED[5:]
        for case in (
            Steps(SMALL, (5, 5), dtype, x_dtype, lr=0.001), Evaluate(SMALL, 5, dtype, x_dtype),
        )
    ),
)  # fmt: skip
hidden(
    torch.test_old_gradients_and_frozen_parameters,
    Steps(SMALL, (5, 5), stale=True), Steps(SMALL, (5, 5), stale=True, frozen=(0, 1)),
)  # fmt: skip
hidden(torch.test_samples_stay_and_losses_are_floats, Steps(SMALL, (5, 5)))
hidden(torch.test_work_of_a_step, Steps(SMALL, (6, 3)), Steps(DEEP, (5, 8), training=False))
hidden(
    torch.test_loss_and_accuracy,
    Evaluate(SMALL, 40), Evaluate(DEEP, 9, dropout=0.5), Evaluate(FLAT, 1),
)  # fmt: skip
hidden(
    torch.test_evaluation_leaves_the_model_as_it_was,
    *(Evaluate(SMALL, 7, training=each, dropout=0.5) for each in (True, False)),
)
hidden(torch.test_evaluation_keeps_no_graph, Evaluate(DEEP, 20))
