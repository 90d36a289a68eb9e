"""The cases of the hidden run."""

import numpy as np
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
        *(CrossEntropy(5, 4, scale, dtype="float32") for scale in (1e4, 400.0, 30.0)), weight=3,
    ),
)  # fmt: skip
hidden(
    sgd.test_gradients_of_a_network,
    group(
        sgd.TWO, *(LossAndGradients((6, 5, 4), n) for n in (7, 1)), LossAndGradients((4, 4, 4), 9),
        weight=2,
    ),
    group(sgd.ZEROS, LossAndGradients(zeros=True), LossAndGradients((3, 7, 2), 5, True)),
    group(
        sgd.MORE, LossAndGradients((6, 4), 5), LossAndGradients((5, 9, 3, 8, 4), 6),
        LossAndGradients((3, 2), 1), LossAndGradients((4, 4, 4, 4), 9),
        LossAndGradients((2, 3, 2, 2), 4), weight=3,
    ),
)  # fmt: skip
hidden(
    sgd.test_float32_and_integers,
    *(
        group(
            kind.target.removeprefix("sgd:"),
            *(kind(*sizes, dtype=dtype, x_dtype=x_dtype) for dtype, x_dtype in MIXED),
        )
        for kind, sizes in (
            (LossAndGradients, ((12, 6, 5),)), (Linear, (4, 12, 3)), (LinearBackward, (4, 12, 3)),
        )
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
    group(sgd.MORE, Train((64, 10), (9, 1, 30), 0.001, raw=True), weight=4),
)
hidden(sgd.test_each_training_begins_at_rest, Train(watch="second"))
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

SQUARES = (
    ((2, 3, 6, 5), (4, 3, 3, 3)), ((1, 1, 3, 3), (1, 1, 2, 2)), ((1, 2, 4, 7), (3, 2, 1, 1)),
)  # fmt: skip
OTHERS = (
    ((2, 3, 6, 5), (4, 3, 3, 2)), ((3, 2, 4, 5), (2, 2, 4, 5)), ((2, 1, 5, 4), (2, 1, 1, 3)),
)  # fmt: skip
TO_THE_END = (
    ((2, 3, 7, 5), (4, 3, 3, 3), 2, 0), ((2, 2, 4, 3), (3, 2, 3, 3), 1, 2),
    ((1, 2, 2, 2), (2, 2, 3, 3), 1, 1),
)  # fmt: skip
OVER = (  # a row or column at the end is reached by no window
    ((1, 2, 8, 6), (3, 2, 3, 3), 2, 1), ((2, 2, 6, 8), (2, 2, 2, 2), 3, 0),
    ((1, 1, 7, 10), (2, 1, 2, 2), 3, 0), ((1, 3, 5, 6), (2, 3, 1, 1), 2, 1),
)  # fmt: skip
STRIDED = (*TO_THE_END, *OVER)
NO_SQUARES = (((2, 3, 7, 5), (4, 3, 3, 2), 2, 0), ((1, 2, 2, 2), (2, 2, 4, 3), 1, 1))
DENSE = ((2, 4, 14, 13), (12, 4, 5, 5))
WIDE_APART = ((2, 4, 40, 41), (16, 4, 3, 3), 4, 1)  # a stride that leaves few windows
BUSY = ((2, 8, 12, 12), (16, 8, 5, 5))  # 128 windows of 200 numbers, 3200 products each


def toeplitz(*shapes):
    return [Toeplitz(*each, dtype=dtype) for each in shapes for dtype in ("float64", "int64")]


def plain(kind, shapes):
    return [kind(*each, options=options) for options in (True, False) for each in shapes]


def by_kernel(kind):
    return group(conv.SQUARE, *plain(kind, SQUARES)), group(
        conv.OTHER, *plain(kind, OTHERS), weight=3
    )


hidden(
    conv.test_numpy_does_the_products,
    *(kind(*SQUARES[0], watch="libraries") for kind in (ConvForward, ConvBackward)),
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
    group(
        conv.SQUARE, *(Im2col(*shapes, options=False) for shapes in SQUARES),
        *(Im2col((2, 2, 4, 3), (1, 2, 2, 2), dtype=each) for each in ("uint8", "float32", "int64")),
    ),
    group(conv.OTHER, *(Im2col(*shapes, options=False) for shapes in OTHERS), weight=3),
)  # fmt: skip
hidden(
    conv.test_im2col_with_stride_and_padding,
    *(Im2col(*shapes) for shapes in (*STRIDED, *NO_SQUARES)),
    Im2col((1, 2, 4, 3), (1, 2, 3, 2), 2, 1, dtype="uint8"),
)
hidden(conv.test_forward, *by_kernel(ConvForward))
hidden(
    conv.test_forward_with_stride_and_padding,
    *(ConvForward(*each) for each in (*STRIDED, *NO_SQUARES)),
)
hidden(conv.test_backward, *by_kernel(ConvBackward))
hidden(
    conv.test_backward_with_stride_and_padding,
    group(conv.TO_THE_END, *(ConvBackward(*each) for each in TO_THE_END)),
    group(conv.OVER, *(ConvBackward(*each) for each in OVER), weight=2),
)
hidden(
    conv.test_float32_and_integer_images,
    *(
        group(
            name,
            *(kind((2, 2, 5, 4), (3, 2, 3, 3), dtype=dtype, x_dtype=x) for dtype, x in MIXED[:5]),
        )
        for name, kind in ((conv.FORWARD, ConvForward), (conv.BACKWARD, ConvBackward))
    ),
)  # fmt: skip
hidden(
    conv.test_no_loop_over_single_products,
    group(conv.IM2COL, Im2col(*BUSY, watch="lines"), Im2col(watch="libraries"), weight=3),
    group(conv.FORWARD, ConvForward(*BUSY, watch="lines"), weight=2),
    group(conv.BACKWARD, ConvBackward(*BUSY, watch="lines"), weight=3),
    group(conv.TOEPLITZ, Toeplitz(watch="libraries")),
)
hidden(
    conv.test_memory_of_the_forward_pass,
    ConvForward(*DENSE, watch="memory"), ConvForward(*WIDE_APART, watch="memory"),
)  # fmt: skip
hidden(
    conv.test_memory_of_the_backward_pass,
    ConvBackward(*DENSE, watch="memory"), ConvBackward(**conv.LARGER_STRIDE, watch="memory"),
)  # fmt: skip
hidden(conv.test_inputs_stay_and_results_are_new, *conv.KEPT)
hidden(conv.test_any_layout_in_memory, *conv.LAYOUT)

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


def exact(rng):
    """Networks without padding, whose windows fill their images, and without groups."""
    for kinds in KINDS:
        layers = [layer(rng, kind, 1) for kind in kinds.split()]
        layers = [(*e[:4], 0, 1, e[6]) if e[0] == "Conv" else e for e in layers]
        shape = [whole(rng, 1, 13), whole(rng, 2, 5), whole(rng, 2, 5)]
        for each in reversed(layers):
            if each[0] != "Linear":
                kernel, stride = each[2:4] if each[0] == "Conv" else each[1:3]
                shape[1:] = [(n - 1) * stride + kernel for n in shape[1:]]
        yield (tuple(shape), *layers)


def pairs(rng):
    """Layers with the shapes of their inputs."""
    return [pair for network in (*networks(rng), "ALEXNET") for pair in oracle.pairs(network)]


def exact_pairs(rng):
    return [pair for network in exact(rng) for pair in oracle.pairs(network)]


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
    plain = [(network, batch(rng)) for network in exact(rng)]
    return plain + [(*call, itemsize) for itemsize in (2, 8) for call in plain[:4]]


def on_the_slide(rng):
    return [
        (network, batch(rng), int(rng.choice([2, 4, 8])), "slide")
        for network in (*exact(rng), *exact(rng))
    ]


def known(kind, *arguments):
    """A case with the number that must come."""
    case = kind(*arguments)
    return case.with_(gives=getattr(oracle, case.function)(*case.arguments()))


def cases_of(kind, *draws):
    """Cases of drawn arguments."""
    return lambda rng: [known(kind, *arguments) for draw in draws for arguments in draw(rng)]


def those(drawn, chosen):
    """The drawn cases for which ``chosen`` is true."""
    return lambda rng: [case for case in drawn(rng) if chosen(case)]


def of_kinds(*kinds):
    return lambda case: case.layer[0] in kinds


def grouped(case):
    """Whether a layer is a convolution of several groups."""
    return case.layer[0] == "Conv" and case.layer[5:6] > (1,)


def has_convs(case):
    return any(each[0] != "Linear" for each in oracle.known(case.network)[1:])


def with_batch(calls):
    return lambda rng: [(*call, batch(rng)) for call in calls(rng)]


def groups_without_padding(rng):
    """Convolutions of several groups, on images that their windows fill."""
    calls = []
    for groups in (2, 3, 4):
        kernel, stride = whole(rng, 1, 5), whole(rng, 1, 4)
        layer = ("Conv", groups * whole(rng, 1, 6), kernel, stride, 0, groups)
        rows, columns = ((whole(rng, 2, 9) - 1) * stride + kernel for _ in range(2))
        calls.append((layer, (groups * whole(rng, 1, 4), rows, columns), batch(rng)))
    return calls


def times_of(case):
    """A layer's seconds of arithmetic and of memory."""
    _, flop_per_s, memory_bytes_per_s, _ = case.on
    pairs = (flop_per_s, np.inf), (np.inf, memory_bytes_per_s)
    call = case.layer, case.shape, case.batch_size
    return [oracle.layer_time_s(*call, ("Machine", *each, 0.0), case.itemsize) for each in pairs]


def waits_for_arithmetic(case):
    arithmetic_s, memory_s = times_of(case)
    return arithmetic_s > memory_s


def layer_times(rng):
    for machine in machines(rng):
        calls = [(*pair, int(rng.choice([1, 16, 128, 1000])), machine) for pair in exact_pairs(rng)]
        yield from (*calls, *((*call, 2) for call in calls[-3:]))


def network_times(rng):
    for machine in machines(rng):
        for network in exact(rng):
            yield from ((network, batch_size, machine) for batch_size in (1, 128))
        yield (next(exact(rng)), 64, machine, 8)


def known_ones(*more):
    return lambda rng: [(network, *more) for network in KNOWN]


def three_times_forward(case):
    """What a count gives that has no first layer."""
    flops = sum(oracle.layer_flops(*pair, case.batch_size) for pair in oracle.pairs(case.network))
    says = "The first layer makes a product less: nobody asks for the gradient of the images."
    return {f"This is three times forward. {says}": 3 * flops}


def both_times(case):
    overhead_s, (one, other) = case.on[3], times_of(case)
    return {
        "This is the sum of both times; the longer one is asked for.": one + other + overhead_s,
        "This lacks the time of a kernel's start.": max(one, other),
    }


def one_roofline(case):
    """What a network gives whose layers wait for the longer time of the whole."""
    layers = [
        LayerTime(*pair, case.batch_size, case.on, case.itemsize)
        for pair in oracle.pairs(case.network)
    ]
    times = [sum(each) for each in zip(*map(times_of, layers), strict=True)]
    says = "This is one roofline for the whole network; each layer has one of its own."
    return {says: max(times) + len(layers) * case.on[3]}


def doubled_everywhere(case):
    uniform = oracle.activation_bytes(case.network, case.batch_size, case.itemsize, "uniform")
    slide = oracle.activation_bytes(case.network, case.batch_size, case.itemsize, "slide")
    if case.convention == "slide":
        return {"This is the uniform count; the slide's is asked for.": uniform}
    return {"This is the slide's count; the uniform one is asked for.": slide}


TrainingFlops.wrong, LayerTime.wrong, ForwardTime.wrong = (
    three_times_forward,
    both_times,
    one_roofline,
)
ActivationBytes.wrong = doubled_everywhere

LAYERS, FLOPS = cases_of(LayerParameters, pairs), cases_of(LayerFlops, with_batch(exact_pairs))
GROUPED_FLOPS = cases_of(LayerFlops, groups_without_padding)
TRAINING = cases_of(TrainingFlops, with_batch(lambda rng: [(each,) for each in exact(rng)]))
LAYER_TIMES = cases_of(LayerTime, layer_times)

hidden(account.test_output_shapes, cases_of(OutputShape, pairs, pairs))
hidden(
    account.test_parameters_of_a_layer,
    group(account.PLAIN, those(LAYERS, lambda case: not grouped(case))),
    group(account.GROUPED, those(LAYERS, grouped), weight=2),
)
hidden(
    account.test_parameters_of_a_network,
    group(account.KNOWN, cases_of(NumParameters, known_ones())),
    group(account.PLAIN, cases_of(NumParameters, lambda rng: [(each,) for each in exact(rng)])),
)
hidden(
    account.test_flops_of_a_layer,
    group(account.LINEARS, those(FLOPS, of_kinds("Linear")), weight=3),
    group(account.CONVS, those(FLOPS, of_kinds("Conv", "Pool")), weight=3),
    group(account.GROUPED, GROUPED_FLOPS, weight=4),
)
hidden(
    account.test_flops_of_training,
    group(account.LINEARS, those(TRAINING, lambda case: not has_convs(case))),
    group(account.CONVS, those(TRAINING, has_convs)),
)
hidden(
    account.test_activations_counted_once,
    group(account.KNOWN, cases_of(ActivationBytes, known_ones(100, 4, "uniform"))),
    group(account.PLAIN, cases_of(ActivationBytes, activations)),
)
hidden(
    account.test_activations_as_on_the_slide,
    group(account.KNOWN, cases_of(ActivationBytes, known_ones(100, 4, "slide"))),
    group(account.PLAIN, cases_of(ActivationBytes, on_the_slide)),
)
hidden(
    account.test_bytes_of_training,
    group(account.KNOWN, cases_of(TrainingBytes, known_ones(100, 4, "slide"))),
    group(account.PLAIN, cases_of(TrainingBytes, activations, on_the_slide)),
)
hidden(
    account.test_time_of_a_layer,
    group(account.ARITHMETIC, those(LAYER_TIMES, waits_for_arithmetic)),
    group(account.MEMORY, those(LAYER_TIMES, lambda case: not waits_for_arithmetic(case))),
)
hidden(account.test_time_of_a_network, cases_of(ForwardTime, network_times))
hidden(
    account.test_nothing_is_allocated,
    known(ActivationBytes, ((4_000_000,), ("Linear", 1000)), 100),
    known(LayerFlops, ("Linear", 1000), (4096,), 1000),
    known(LayerTime, ("Linear", 1000), (4096,), 1000, ("Machine", 1e9, 1e12, 0.0)),
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
    group(torch.FROM_REST, *(Steps(*each) for each in ((SMALL, (6,)), (FLAT, (1,)), (DEEP, (4,))))),
    group(torch.MOVING, *(Steps(*each, moving=True) for each in ((SMALL, (6,)), (DEEP, (4,))))),
)
hidden(torch.test_several_steps_on_digits, Steps((64, 12, 10), (40, 30, 1, 19), pixels=True))
hidden(
    torch.test_float32_and_integer_samples,
    *(
        case
        for dtype, x_dtype in MIXED[:4] + MIXED[5:]
        for case in (
            Steps(SMALL, (5,), dtype, x_dtype, lr=0.001), Evaluate(SMALL, 5, dtype, x_dtype),
        )
    ),
)  # fmt: skip
hidden(
    torch.test_old_gradients_and_frozen_parameters,
    Steps(SMALL, (5,), stale=True), Steps(SMALL, (5,), stale=True, frozen=(0, 1)),
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
hidden(torch.test_evaluation_keeps_no_graph, Evaluate(DEEP, 20, training=False))
