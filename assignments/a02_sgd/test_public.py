"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

A test is a function that calls yours and complains where something is not as your module's
docstring says. The hidden suite asks the same kinds of questions, with other shapes, values and
dtypes. The oracles here: literals worked out by hand, finite differences, SciPy's correlation, and
numbers that papers state.
"""

from itertools import pairwise

import digits
import networks
import numpy as np
from scipy.signal import correlate
from scipy.special import log_softmax

from ringside.checking import Case, Verdict, assert_ran
from ringside.checking.points import points

WIDTHS = (6, 5, 4)


def called(ranks, driver, target, *arguments):
    """What a function of ``callers.py`` returns, called in the process of your module."""
    return ended(ranks.call(driver, 1, [arguments]), target).values[0]


def ended(result, target):
    """The run, if your function raised nothing; if it did, a sentence about it."""
    case = Case(target, 1, 0)
    try:
        assert_ran(result, case)
    except Verdict as verdict:
        sentence = verdict.sentence.replace(f"{case}: rank 0", f"{case.function}: it")
        raise Verdict(sentence, detail=verdict.detail) from None
    return result


def ask(ranks, target, *calls):
    """Your function's results."""
    results = []
    for call, (result, raised) in zip(
        calls, called(ranks, "callers:answers", target, target, list(calls)), strict=True
    ):
        if raised:
            raise complain(target, call, f"{raised}.")
        results.append(result)
    return results


def complain(target, call, sentence):
    given = ", ".join(
        f"{a.dtype} {a.shape}" if isinstance(a, np.ndarray) else
        f"{len(a)} arrays" if isinstance(a, list) else repr(a)
        for a in call
    )  # fmt: skip
    line = (
        f'python -c "import callers; callers.show({", ".join([repr(target), *map(told, call)])})"'
    )
    return Verdict(f"{target.partition(':')[2]}({given}): {sentence}", reproduce=line * bool(call))


def told(argument):
    """An argument as ``callers.show`` reads it."""
    if isinstance(argument, list):
        return f"[{', '.join(map(told, argument))}]"
    if not isinstance(argument, np.ndarray):
        return repr(argument)
    if argument.dtype.kind == "f":
        return repr(list(argument.shape))
    if argument.ndim == 1:
        return repr(f"{len(argument)} of {argument.max() + 1}")
    return repr(f"{argument.dtype} {' '.join(map(str, argument.shape))}")


def same(target, call, got, right, tolerance=1e-10, what="the result"):
    """Numbers, arrays, or lists of them are what they must be."""
    if isinstance(right, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(right):
            raise complain(target, call, f"{what} must have {len(right)} parts.")
        for number, (one, wanted) in enumerate(zip(got, right, strict=True)):
            same(target, call, one, wanted, tolerance, f"{what}[{number}]")
        return
    if isinstance(right, np.ndarray) and _kind(got) != _kind(right):
        raise complain(target, call, f"{what} is {_kind(got)}; it must be {_kind(right)}.")
    off = np.abs(np.asarray(got, "float64") - right).max(initial=0)
    if not off <= tolerance * max(1.0, np.abs(right).max(initial=0)):
        raise complain(target, call, f"{what} is off by {off:.2g}; {tolerance:g} is allowed.")


def _kind(value):
    is_array = isinstance(value, np.ndarray)
    return f"{value.dtype} {value.shape}" if is_array else type(value).__name__


def check(ranks, target, call, right, tolerance=1e-10):
    same(target, call, ask(ranks, target, call)[0], right, tolerance)


def network(rng, widths=WIDTHS, dtype="float64"):
    return [
        rng.standard_normal(shape).astype(dtype)
        for d_in, d_out in pairwise(widths)
        for shape in ((d_in, d_out), (d_out,))
    ]


def mean_loss(params, x, y):
    """Forward only; the gradients below are differences of this."""
    scores = x
    for k in range(0, len(params), 2):
        scores = (scores.clip(0) if k else scores) @ params[k] + params[k + 1]
    return -log_softmax(scores, axis=1)[np.arange(len(y)), y].mean()


def differences(function, arrays):
    """The gradient of ``function()`` with respect to every element, by central differences."""
    gradients = []
    for array in arrays:
        gradient = np.zeros(array.shape)
        for at in np.ndindex(array.shape):
            kept = array[at]
            array[at] = kept + 1e-6
            above = function()
            array[at] = kept - 1e-6
            below = function()
            array[at] = kept
            gradient[at] = (above - below) / 2e-6
        gradients.append(gradient)
    return gradients


def gradient_call(rng, widths=WIDTHS, num_samples=7):
    params, x = network(rng, widths), rng.standard_normal((num_samples, widths[0]))
    return params, x, rng.integers(widths[-1], size=num_samples)


def with_differences(call):
    params, x, y = call
    return mean_loss(*call), differences(lambda: mean_loss(params, x, y), params)


def trained(params, batches, lr, momentum):
    """Parameters and losses of steps whose gradients are differences."""
    params, velocity, losses = [p.copy() for p in params], [0.0] * len(params), []
    for batch in batches:
        loss, gradients = with_differences((params, *batch))
        losses.append(loss)
        for k, gradient in enumerate(gradients):
            velocity[k] = momentum * velocity[k] + gradient
            params[k] -= lr * velocity[k]
    return params, losses


def looked_at(ranks, target, call, right, strided=False, tolerance=1e-10):
    """Right with arguments that can't be written to, and the result is new."""
    (seen,) = called(ranks, "callers:looked_at", target, target, [call], strided)
    (result, raised), complaint = seen
    if raised or complaint:
        raise complain(target, call, f"{raised or complaint}.")
    same(target, call, result, right, tolerance)


def measured(ranks, target, call, right, tolerance=1e-10):
    """Lines of your file that ran, and the most memory in use."""
    result, lines, peak, kept = called(ranks, "callers:measured", target, target, call)
    same(target, call, result, right, tolerance)
    if kept > 65536:
        raise complain(target, call, f"{kept} bytes were still in use afterwards: keep nothing.")
    return lines, peak


def called_twice(ranks, target, call, other, right, tolerance=1e-10):
    """A second call leaves the first one's result alone."""
    _, now, _ = called(ranks, "callers:twice", target, target, call, other)
    what = "the first result, looked at after a second call,"
    same(target, call, now, right, tolerance, what)


def numpy_alone(ranks, target, call):
    """No other library does the work."""
    for library in called(ranks, "callers:helpers", target, target, call):
        raise complain(target, call, f"{library} does work here; it is yours to do, with NumPy.")


# -- sgd -------------------------------------------------------------------------------------------


@points(5, "values", "sgd", essential=True)
def test_gradients_without_autograd(ranks, rng):
    target, call = "sgd:loss_and_gradients", gradient_call(rng)
    if "torch" in called(ranks, "callers:helpers", target, target, call):
        raise complain(target, call, "torch works here; go backward yourself.")


@points(10, "values", "sgd")
def test_a_layer_and_its_gradients(ranks):
    x, W, b = np.array([[1.0, 2.0]]), np.array([[1.0, 0.0, 3.0], [0.0, 1.0, -1.0]]), np.ones(3)
    dy = np.array([[1.0, 10.0, 100.0]])
    check(ranks, "sgd:linear", (x, W, b), np.array([[2.0, 3.0, 2.0]]))
    dW = np.array([[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]])
    check(ranks, "sgd:linear_backward", (dy, x, W), (np.array([[301.0, -90.0]]), dW, dy[0]))


@points(10, "values", "sgd")
def test_relu(ranks):
    z, da = np.array([[-1.0, 0.0, 2.0]]), np.array([[5.0, 6.0, -7.0]])
    check(ranks, "sgd:relu", (z,), np.array([[0.0, 0.0, 2.0]]))
    check(ranks, "sgd:relu_backward", (da, z), np.array([[0.0, 0.0, -7.0]]))


@points(10, "values", "sgd")
def test_loss(ranks):
    # Two equal scores: log 2. One that is larger by 10,000: nothing, or 10,000.
    scores = np.array([[3.0, 3.0], [1e4, 0.0], [1e4, 0.0]])
    gradient = np.array([[0.5, -0.5], [0.0, 0.0], [1.0, -1.0]]) / 3
    call = (scores, np.array([1, 0, 1]))
    check(ranks, "sgd:cross_entropy", call, ((np.log(2) + 1e4) / 3, gradient))


@points(15, "values", "sgd")
def test_gradients_are_those_of_finite_differences(ranks, rng):
    for call in (gradient_call(rng), gradient_call(rng, (4, 3), 1), gradient_call(rng, (3,) * 4)):
        check(ranks, "sgd:loss_and_gradients", call, with_differences(call), 1e-6)


@points(10, "values", "sgd")
def test_mini_batches(ranks):
    found, moved = called(ranks, "callers:epochs", "sgd:minibatches", [(50, 8, 1, 2)])
    line = (
        'python -c "import numpy, sgd; print(sgd.minibatches(50, 8, numpy.random.default_rng()))"'
    )
    orders = [np.arange(50).tolist()]
    for batches, raised in found[0]:
        if raised or [len(batch) for batch in batches] != [8] * 6 + [2]:
            raise Verdict(f"minibatches: {raised or 'six of 8 samples, one of 2'}.", reproduce=line)
        orders.append(np.concatenate(batches).tolist())
    if any(sorted(order) != orders[0] for order in orders) or len(set(map(str, orders))) < 3:
        raise Verdict("minibatches: every sample once, in a new order.", reproduce=line)
    if moved:
        raise Verdict("minibatches: draw from rng, not from a global generator.", reproduce=line)


@points(10, "values", "sgd")
def test_updates(ranks, rng):
    w, v, g = [np.array([1.0, 2.0])], [np.array([10.0, 0.0])], [np.array([4.0, -2.0])]
    check(
        ranks,
        "sgd:sgd_step",
        (w, v, g, 0.1, 0.5),
        ([np.array([0.1, 2.2])], [np.array([9.0, -2.0])]),
    )
    (x, y), _ = digits.load()
    params, batches = network(rng, (64, 3, 10)), [np.arange(9), np.arange(9, 14)]
    right = trained(params, [(x[k], y[k]) for k in batches], 0.2, 0.9)
    call = (params, x, y, batches, 0.2, 0.9)
    (got,) = ask(ranks, "sgd:train", call)
    if isinstance(got, list | tuple) and len(got) == 2 and isinstance(got[1], np.ndarray):
        got = (got[0], got[1].tolist())  # an array of losses will do
    same("sgd:train", call, got, right, 1e-6)


@points(5, "values", "sgd")
def test_whole_numbers_and_float32(ranks):
    x, W, b = np.full((2, 3), 200, "uint8"), np.full((3, 1), 0.5, "float32"), np.ones(1, "float32")
    check(ranks, "sgd:linear", (x, W, b), np.full((2, 1), 301, "float32"))


@points(10, "schedule", "sgd")
def test_samples_go_through_together(ranks, rng):
    call = gradient_call(rng, num_samples=500)
    lines, _ = measured(ranks, "sgd:loss_and_gradients", call, with_differences(call), 1e-6)
    numpy_alone(ranks, "sgd:loss_and_gradients", call)
    if lines > 200:
        raise complain("sgd:loss_and_gradients", call, f"{lines} lines ran; at most 200 may.")


@points(5, "memory", "sgd")
def test_no_array_of_samples_times_weights(ranks, rng):
    call = gradient_call(rng, (40, 10), 300)
    _, peak = measured(ranks, "sgd:loss_and_gradients", call, with_differences(call), 1e-6)
    allowed = 6 * 8 * (300 * 50 + 410) + 65536
    if peak > allowed:
        raise complain(
            "sgd:loss_and_gradients", call, f"{peak} bytes were in use; at most {allowed} may be."
        )


@points(10, "safety", "sgd")
def test_arguments_stay_as_they_are(ranks, rng):
    call = gradient_call(rng)
    right = with_differences(call)
    looked_at(ranks, "sgd:loss_and_gradients", call, right, tolerance=1e-6)
    called_twice(ranks, "sgd:loss_and_gradients", call, gradient_call(rng), right, 1e-6)
    one = [np.ones(2)]
    right = ([np.array([0.0, 0.0])], [np.array([2.0, 2.0])])
    looked_at(ranks, "sgd:sgd_step", (one, one, one, 0.5, 1.0), right)


# -- conv ------------------------------------------------------------------------------------------


def convolution(x, w, b, stride=1, pad=0):
    """By SciPy."""
    x = np.pad(np.asarray(x, "float64"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    y = np.array([[correlate(image, filters, "valid")[0] for filters in w] for image in x])
    return (y[:, :, ::stride, ::stride] + b[:, None, None]).astype(w.dtype)


def conv_call(rng, x=(2, 3, 7, 5), w=(4, 3, 3, 2), stride=1, pad=0, dtype="float64"):
    arrays = (rng.standard_normal(shape).astype(dtype) for shape in (x, w, w[:1]))
    return (*arrays, stride, pad)


def back_call(rng, **shapes):
    """A call of ``conv_backward``, and the gradients by differences."""
    x, w, b, stride, pad = conv_call(rng, **shapes)
    dy = rng.standard_normal(convolution(x, w, b, stride, pad).shape)
    right = differences(lambda: (convolution(x, w, b, stride, pad) * dy).sum(), [x, w, b])
    return (dy, x, w, stride, pad), right


@points(10, "values", "conv")
def test_toeplitz(ranks, rng):
    right = np.array(
        [
            [1, 2, 0, 3, 4, 0, 0, 0, 0],
            [0, 1, 2, 0, 3, 4, 0, 0, 0],
            [0, 0, 0, 1, 2, 0, 3, 4, 0],
            [0, 0, 0, 0, 1, 2, 0, 3, 4],
        ]
    )
    check(ranks, "conv:toeplitz", (np.array([[1, 2], [3, 4]]), (3, 3)), right)
    kernel, image = rng.standard_normal((2, 3)), rng.standard_normal((4, 5))
    (matrix,) = ask(ranks, "conv:toeplitz", (kernel, (4, 5)))
    right = correlate(image, kernel, "valid").ravel()
    same("conv:toeplitz", (kernel, (4, 5)), matrix @ image.ravel(), right)


@points(15, "values", "conv")
def test_windows_as_columns(ranks):
    x = np.arange(1, 13).reshape(1, 2, 2, 3)
    right = np.array([[[1, 2], [2, 3], [4, 5], [5, 6], [7, 8], [8, 9], [10, 11], [11, 12]]])
    check(ranks, "conv:im2col", (x, (2, 2)), right)
    padded = np.array([[[0, 0, 0, 5], [0, 0, 4, 6], [0, 2, 0, 0], [1, 3, 0, 0]]])
    check(ranks, "conv:im2col", (np.arange(1, 7).reshape(1, 1, 2, 3), (2, 2), 2, 1), padded)


@points(15, "values", "conv")
def test_forward(ranks, rng):
    for call in (conv_call(rng), conv_call(rng, stride=2, pad=1), conv_call(rng, stride=3)):
        check(ranks, "conv:conv_forward", call, convolution(*call))


@points(20, "values", "conv")
def test_backward(ranks, rng):
    for shapes in (
        {},
        {"stride": 2, "pad": 1},
        {"x": (1, 1, 8, 6), "w": (1, 1, 2, 2), "stride": 3},
    ):
        call, right = back_call(rng, **shapes)
        check(ranks, "conv:conv_backward", call, right, 1e-6)


@points(5, "values", "conv")
def test_bytes_as_pixels(ranks, rng):
    _, w, b, stride, pad = conv_call(rng, dtype="float32", stride=2, pad=1)
    call = (rng.integers(256, size=(2, 3, 7, 5)).astype("uint8"), w, b, stride, pad)
    check(ranks, "conv:conv_forward", call, convolution(*call), 1e-4)


@points(5, "values", "conv", essential=True)
def test_numpy_does_the_products(ranks, rng):
    call = conv_call(rng)
    numpy_alone(ranks, "conv:conv_forward", call)
    x, w, *more = call[0], call[1], *call[3:]
    numpy_alone(ranks, "conv:conv_backward", (convolution(*call), x, w, *more))


@points(10, "schedule", "conv")
def test_no_loop_over_single_products(ranks, rng):
    call = conv_call(rng, (1, 4, 8, 8), (12, 4, 5, 5))  # 16 windows
    lines, _ = measured(ranks, "conv:conv_forward", call, convolution(*call))
    if lines > 3200:
        raise complain("conv:conv_forward", call, f"{lines} lines ran; at most 3200 may.")


@points(10, "memory", "conv")
def test_memory(ranks, rng):
    call = conv_call(rng, (2, 4, 12, 11), (12, 4, 5, 5), pad=2)
    right = convolution(*call)
    _, peak = measured(ranks, "conv:conv_forward", call, right)
    nbytes = 8 * (2 * 100 * 132 + call[0].size + call[1].size + right.size)
    if peak > 4 * nbytes + 65536:
        raise complain(
            "conv:conv_forward", call, f"{peak} bytes in use; at most {4 * nbytes + 65536} may be."
        )


@points(10, "safety", "conv")
def test_images_stay_as_they_are(ranks, rng):
    for strided in (False, True):
        call = conv_call(rng, stride=2)
        looked_at(ranks, "conv:conv_forward", call, convolution(*call), strided)
        called_twice(ranks, "conv:conv_forward", call, conv_call(rng, stride=2), convolution(*call))
        call, right = back_call(rng)
        looked_at(ranks, "conv:conv_backward", call, right, strided, 1e-6)


# -- account ---------------------------------------------------------------------------------------


def tell(thing):
    """A layer or network as ``callers.counted`` reads it."""
    if isinstance(thing, networks.Network):
        return ("network", thing.name, thing.input_shape, tuple(map(tell, thing.layers)))
    return ("layer", type(thing).__name__, vars(thing))


ALEXNET = tell(networks.ALEXNET)
CONV = tell(networks.Conv(6, 3, stride=2, pad=1, groups=2))
POOL, LINEAR = tell(networks.Pool(2, 2)), tell(networks.Linear(10))
MACHINE = (
    "machine", {"flop_per_s": 1e12, "memory_bytes_per_s": 1e11, "kernel_overhead_s": 1e-6}
)  # fmt: skip


def count(ranks, function, *cases):
    """Compare results of ``account.py``; returns the most memory that a call used."""
    calls = [call for call, _ in cases]
    found, peak = called(ranks, "callers:counted", f"account:{function}", function, calls)
    for (_, right), (result, raised) in zip(cases, found, strict=True):
        if raised:
            raise Verdict(f"{function}: {raised}.")
        value = tuple(result) if isinstance(right, tuple) else result
        exact = value == right if not isinstance(right, float) else abs(value / right - 1) < 1e-9
        if not exact:
            raise Verdict(f"{function} gives {value}; it must be {right}.")
    return peak


@points(15, "values", "account")
def test_shapes(ranks):
    count(
        ranks, "output_shape", ((CONV, (4, 8, 11)), (6, 4, 6)), ((POOL, (3, 7, 4)), (3, 3, 2)),
        ((LINEAR, (2, 3, 4)), (10,)),
    )  # fmt: skip


@points(20, "values", "account")
def test_parameters(ranks):
    count(ranks, "layer_parameters", ((CONV, (4, 8, 11)), 114), ((LINEAR, (2, 3, 4)), 250))
    count(ranks, "num_parameters", ((ALEXNET,), 60_965_224), ((tell(networks.LENET5),), 61_706))


@points(20, "values", "account")
def test_work(ranks):
    count(
        ranks, "layer_flops", ((CONV, (4, 8, 11), 5), 2 * 18 * 6 * 24 * 5), ((LINEAR, (7,), 3), 420)
    )
    small = ("network", "small", (4,), (LINEAR, LINEAR))
    count(ranks, "training_flops", ((small, 1), 2 * 80 + 3 * 200))


@points(25, "values", "account")
def test_memory_of_activations(ranks):
    count(
        ranks, "activation_bytes", ((ALEXNET, 128), 479_397_376),
        ((ALEXNET, 128, 4, "slide"), 781_616_640),
    )  # fmt: skip
    count(ranks, "training_bytes", ((("network", "n", (4,), (LINEAR,)), 2, 8), 16 * 28 + 24 * 50))


@points(15, "speed", "account")
def test_roofline(ranks):
    # 16,000 FLOPs take 16 ns; 8 kB take 80 ns, and a thousand samples more of both.
    wide = tell(networks.Linear(100))
    few, many = 4 * (180 + 8100) / 1e11, 2 * 8000 * 1000 / 1e12
    count(
        ranks, "layer_time_s", ((wide, (80,), 1, MACHINE), few + 1e-6),
        ((wide, (80,), 1000, MACHINE), many + 1e-6),
    )  # fmt: skip
    net = ("network", "n", (80,), (wide, wide))
    second = max(4 * (200 + 10_100) / 1e11, 2e4 / 1e12)
    count(ranks, "forward_time_s", ((net, 1, MACHINE), few + second + 2e-6))


@points(5, "memory", "account")
def test_nothing_is_made(ranks):
    if count(ranks, "activation_bytes", ((ALEXNET, 128), 479_397_376)) > 2**20:
        raise Verdict("activation_bytes: count, and make no array of that size.")


# -- sgd_torch -------------------------------------------------------------------------------------


def torch_call(ranks, driver, target, *arguments):
    result = ended(ranks.call(f"callers_torch:{driver}", 1, [arguments]), target)
    return result.values[0], result.num_flops()[0]


def torch_steps(ranks, rng, x_dtype="float64", **options):
    """Two steps; checks parameters and losses."""
    params = network(rng)
    batches = [
        (rng.integers(5, size=(b, 6)).astype(x_dtype), rng.integers(4, size=b)) for b in (7, 3)
    ]
    given = [params, [0 * p for p in params], batches, 0.1, 0.9]
    (after, _, losses, done), flops = torch_call(
        ranks, "steps", "sgd_torch:train_step", *given, *options.values()
    )
    right, right_losses = trained(params, batches, 0.1, 0.9)
    same("sgd_torch:train_step", (), after, right, 1e-6, "after two steps the list of parameters")
    same("sgd_torch:train_step", (), losses, right_losses, 1e-6, "the list of losses")
    return done, flops


@points(20, "values", "sgd_torch")
def test_the_same_network(ranks, rng):
    params = network(rng)
    (names, scores, back, *_), _ = torch_call(
        ranks, "there_and_back", "sgd_torch:from_numpy", params
    )
    right = (np.ones((3, 6)) @ params[0] + params[1]).clip(0) @ params[2] + params[3]
    same("sgd_torch:from_numpy", (params,), scores, right, what="the model's scores")
    same("sgd_torch:to_numpy", (), back, params, what="what comes back")
    if names != ["Linear", "ReLU", "Linear"]:
        raise Verdict(f"from_numpy: the model is {names}.")


@points(10, "safety", "sgd_torch")
def test_copies(ranks, rng):
    params = network(rng)
    (_, _, _, later, given, _, changed), _ = torch_call(
        ranks, "there_and_back", "sgd_torch:from_numpy", params
    )
    same("sgd_torch:to_numpy", (), later, params, what="after the model changed, its result")
    same("sgd_torch:from_numpy", (), given, params, what="after the model changed, its argument")
    if changed:
        raise Verdict(f"from_numpy or to_numpy changed {changed}.")


@points(5, "values", "sgd_torch", essential=True)
def test_the_model_goes_forward_and_autograd_backward(ranks, rng):
    params, x, y = gradient_call(rng)
    given = [params, [0 * p for p in params], [(x, y)], 0.1, 0.0]
    (*_, done), _ = torch_call(ranks, "steps", "sgd_torch:train_step", *given)
    if not any(grad for *_, grad in done["passes"]):
        raise Verdict("train_step: call model(x) with gradients on; autograd goes backward.")


@points(25, "values", "sgd_torch")
def test_two_steps(ranks, rng):
    torch_steps(ranks, rng)
    torch_steps(ranks, rng, "uint8", frozen=(), stale=True)


@points(20, "schedule", "sgd_torch")
def test_once_through(ranks, rng):
    done, flops = torch_steps(ranks, rng)
    right = 2 * 10 * (3 * (30 + 20) - 30)
    if len(done["passes"]) != 2 or done["steps"] != 2 or not flops <= right:
        raise Verdict(
            f"train_step: two steps went {len(done['passes'])} times through the model, made "
            f"{done['steps']} updates and {flops:.0f} FLOPs; 2, 2 and {right} are right."
        )
    if not all(training for _, training, _ in done["passes"]):
        raise Verdict("train_step: the model was in training mode, and isn't any more.")
    if done["changed"] or done["besides"] or done["graphs"]:
        raise Verdict("train_step: x, y, gradients on, the default dtype stay; no graph is kept.")


@points(20, "memory", "sgd_torch")
def test_evaluation(ranks, rng):
    params, x, y = gradient_call(rng, num_samples=30)
    (loss, accuracy, done), _ = torch_call(
        ranks, "evaluation", "sgd_torch:evaluate", params, x, y, True, 0.5
    )
    same("sgd_torch:evaluate", (), loss, mean_loss(params, x, y), what="the loss")
    best = ((x @ params[0] + params[1]).clip(0) @ params[2] + params[3]).argmax(axis=1)
    same("sgd_torch:evaluate", (), accuracy, (best == y).mean(), 1e-4, "the accuracy")
    if not (done["mode"] and done["kept"]) or [each[2] for each in done["passes"]] != [False]:
        raise Verdict("evaluate: once through, gradients off, and the model as it was afterwards.")
    if done["changed"] or done["besides"]:
        raise Verdict("evaluate: x, y, gradients on and the default dtype stay as they were.")
