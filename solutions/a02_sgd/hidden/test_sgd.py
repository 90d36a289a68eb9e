"""sgd.py: layers, loss, gradients, mini-batches, updates."""

from itertools import pairwise

import numpy as np

from ringside.checking import Verdict, one_line
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a02_sgd import digits
from solutions.a02_sgd.hidden import oracle, runs

TARGET = "sgd:loss_and_gradients"

points = points_of("sgd")


def network(rng, widths, dtype="float64"):
    """Random parameters; biases are as large as weights, so a forgotten one shows."""
    layers = [
        (rng.standard_normal(pair) / np.sqrt(pair[0]), rng.standard_normal(pair[1]))
        for pair in pairwise(widths)
    ]
    return [array.astype(dtype) for layer in layers for array in layer]


def samples(rng, widths, num_samples, dtype="float64"):
    x = rng.standard_normal((num_samples, widths[0])).astype(dtype)
    return x, rng.integers(widths[-1], size=num_samples)


def asked(rng, widths, num_samples, dtype="float64"):
    """A call of ``loss_and_gradients``, and what it must give."""
    params = network(rng, widths, dtype)
    x, y = samples(rng, widths, num_samples, dtype)
    return (params, x, y), runs.as_dtype(oracle.loss_and_gradients(params, x, y), dtype)


def by_layers(case):
    return "two layers" if len(case[0]) == 3 else "other numbers of layers"


def pixels(rng, num_samples, dtype, most=16):
    """Whole numbers, as images have them."""
    return rng.integers(most + 1, size=(num_samples, 12)).astype(dtype)


# -- values ----------------------------------------------------------------------------------------


@points(4, "values", essential=True)
def test_gradients_without_autograd(ranks, rng):
    call, _ = asked(rng, (6, 5, 4), 7)
    runs.check_numpy(ranks, (TARGET, call), but=("scipy",))


@points(5, "values")
def test_linear(ranks, rng):
    calls = []
    for num_samples, d_in, d_out in ((5, 4, 3), (1, 4, 3), (3, 1, 6), (2, 7, 1), (1, 1, 1)):
        x, W = rng.standard_normal((num_samples, d_in)), rng.standard_normal((d_in, d_out))
        calls.append((x, W, rng.standard_normal(d_out)))
    rights = [np.einsum("ni,io->no", x, W) + b for x, W, b in calls]
    runs.check(ranks, "sgd:linear", calls, rights)


@points(7, "values")
def test_linear_backward(ranks, rng):
    calls = []
    for num_samples, d_in, d_out in ((6, 4, 3), (1, 4, 3), (3, 1, 5), (2, 7, 1), (4, 4, 4)):
        dy, x = rng.standard_normal((num_samples, d_out)), rng.standard_normal((num_samples, d_in))
        calls.append((dy, x, rng.standard_normal((d_in, d_out))))
    runs.check(
        ranks, "sgd:linear_backward", calls, [oracle.linear_backward(*call) for call in calls]
    )


@points(7, "values")
def test_relu_and_its_gradient(ranks, rng):
    zs = [rng.integers(-2, 3, size=shape).astype("float64") for shape in ((5, 4), (1, 9), (7,))]
    zs += [rng.standard_normal((4, 6)), np.array([[0.0, -0.0, 1e-300, -1e-300]])]
    runs.check(ranks, "sgd:relu", [(z,) for z in zs], [z.clip(0) for z in zs])
    calls = [(rng.standard_normal(z.shape), z) for z in zs]
    rights = [da * (np.sign(z) > 0) for da, z in calls]
    line = (
        'python -c "import numpy as n, sgd; '
        'print(sgd.relu_backward(n.ones(3), n.array([-1.0, 0.0, 1.0])))"'
    )
    runs.check(ranks, "sgd:relu_backward", calls, rights, line=line)
    da, z = rng.standard_normal((2, 3, 4)).astype("float32")
    runs.check(ranks, "sgd:relu", [(z,)], [z.clip(0)])
    runs.check(ranks, "sgd:relu_backward", [(da, z)], [da * (z > 0)])


@points(12, "values")
def test_cross_entropy(ranks, rng):
    calls = []
    for num_samples, classes in ((6, 4), (8, 2), (3, 10), (1, 5)):
        scores = 3 * rng.standard_normal((num_samples, classes))
        calls.append((scores, rng.integers(classes, size=num_samples)))
    calls.append((rng.standard_normal((4, 6)), np.array([1, 0, 1, 2])))  # no class 3, 4, 5
    calls.append((rng.standard_normal((5, 3)).astype("float32"), rng.integers(3, size=5)))
    large = []
    for scale, shift in ((1e4, 0.0), (400.0, 0.0), (30.0, 0.0), (1.0, 1e4), (1.0, -1e4)):
        scores = np.clip(scale * rng.uniform(-1, 1, size=(5, 4)) + shift, -1e4, 1e4)
        large.append((scores, rng.integers(4, size=5)))
    # Where all scores are near 10,000, a float32 may be off by more than a small loss allows.
    large += [(scores.astype("float32"), y) for scores, y in large[:3]]

    def kind(call):
        if len(call[1]) == 1:
            return "one sample"
        return "scores as large as 10000" if any(call is each for each in large) else "other scores"

    def check(call):
        right = runs.as_dtype(oracle.cross_entropy(*call), call[0].dtype)
        if kind(call) != "scores as large as 10000":
            runs.check(ranks, "sgd:cross_entropy", [call], [right])
            return
        what = "with scores as large as 10000 the result"
        line = (
            'python -c "import numpy as n, sgd; print(sgd.cross_entropy('
            f'n.array([[1e4, 0, -1e4], [-1e4, -1e4, 0]], n.{call[0].dtype}), n.array([1, 0])))"'
        )
        runs.check(ranks, "sgd:cross_entropy", [call], [right], what, line)

    check_kinds([*calls, *large], kind, check, weights={"other scores": 2})


@points(12, "values")
def test_gradients_of_a_network(ranks, rng):
    def check(case):
        call, right = asked(rng, *case)
        runs.check(ranks, TARGET, [call], [right])
        if case == two[0]:
            (W1, b1, *others), x, y = call
            call = ([0 * W1, 0 * b1, *others], x, y)
            what = "where W1 and b1 are 0, so that ReLU gets nothing but 0, the result"
            runs.check(ranks, TARGET, [call], [oracle.loss_and_gradients(*call)], what)

    two = [((6, 5, 4), 7), ((6, 5, 4), 1), ((4, 4, 4), 9)]
    others = [((6, 4), 5), ((5, 9, 3, 8, 4), 6), ((3, 2), 1), ((4, 4, 4, 4), 9), ((1, 3, 1, 2), 4)]
    weights = {"other numbers of layers": 3}
    check_kinds([*two, *others], by_layers, check, weights=weights)


@points(6, "values")
def test_float32_and_integers(ranks, rng):
    calls, rights = [], []
    for samples_of, dtype in (
        ("float32", "float32"), ("uint8", "float64"), ("int64", "float32"), ("float64", "float32"),
        ("uint8", "float32"), ("float32", "float64"),
    ):  # fmt: skip
        params = network(rng, (12, 6, 5), dtype)
        x, y = pixels(rng, 7, samples_of), rng.integers(5, size=7)
        calls.append((params, x, y))
        rights.append(runs.as_dtype(oracle.loss_and_gradients(params, x, y), dtype))
    runs.check(ranks, TARGET, calls, rights)
    W, b = network(rng, (12, 3), "float32")
    for whole in ("uint8", "int32"):
        x = pixels(rng, 4, whole, most=255)
        right = runs.as_dtype(x.astype("float64") @ W.astype("float64") + b, "float32")
        runs.check(ranks, "sgd:linear", [(x, W, b)], [right])
    for samples_of in ("uint8", "int64", "float64"):
        x, dy = pixels(rng, 4, samples_of, most=255), rng.standard_normal((4, 3)).astype("float32")
        gradients = oracle.linear_backward(*(array.astype("float64") for array in (dy, x, W)))
        right = runs.as_dtype(gradients, "float32")
        runs.check(ranks, "sgd:linear_backward", [(dy, x, W)], [right])


def epochs(ranks, calls):
    """For each ``(n, batch_size, seed, times)`` some epochs, whose batches are as they must be."""
    found, moved = runs.driven(ranks, "callers:epochs", "sgd:minibatches", list(calls))
    orders = []
    for (n, batch_size, seed, _), answers in zip(calls, found, strict=True):
        line = (
            'python -c "import numpy, sgd; '
            f'print(sgd.minibatches({n}, {batch_size}, numpy.random.default_rng({seed})))"'
        )
        orders.append([])
        for batches, raised in answers:
            fault = one_line(raised) if raised else _fault(batches, n, batch_size)
            if fault:
                raise Verdict(f"minibatches({n}, {batch_size}, rng): {fault}.", reproduce=line)
            orders[-1].append(np.concatenate(batches))
    return orders, moved


def _fault(batches, n, batch_size):
    """What is wrong with an epoch, if anything."""
    if not isinstance(batches, list | tuple):
        return f"the result is of type {type(batches).__name__}; it must be a list"
    right = [min(batch_size, n - start) for start in range(0, n, batch_size)]
    if not all(isinstance(b, np.ndarray) and b.ndim == 1 and b.dtype.kind in "iu" for b in batches):
        return "each mini-batch must be an array of one dimension, of an integer dtype"
    if [len(b) for b in batches] != right:
        return f"the lengths are {[len(b) for b in batches][:9]}; they must be {right[:9]}"
    if sorted(np.concatenate(batches).tolist()) != list(range(n)):
        return "every sample must be in one mini-batch, once"
    return ""


@points(6, "values")
def test_minibatches_hold_every_sample_once(ranks, rng):
    seed = int(rng.integers(2**31))
    sizes = ((12, 4), (10, 4), (3, 8), (8, 8), (7, 1), (1, 1), (1, 5), (101, 10))
    epochs(ranks, [(n, batch_size, seed, 1) for n, batch_size in sizes])


@points(6, "values")
def test_each_epoch_has_its_own_order(ranks, rng):
    seed, n = int(rng.integers(2**31)), 300
    (first, other, again), moved = epochs(
        ranks, [(n, 32, seed, 3), (n, 32, seed + 1, 2), (n, 32, seed, 3)]
    )

    def fail(sentence):
        start = "import numpy as n, sgd; "
        line = f'python -c "{start}print(sgd.minibatches(9, 4, n.random.default_rng()))"'
        raise Verdict(f"minibatches: {sentence}", reproduce=line)

    if moved:
        fail("a global random generator was drawn from or seeded; only rng may be.")
    for before, after in zip(first, again, strict=True):
        if not np.array_equal(before, after):
            fail("the same rng gives other orders.")
    orders = np.array([np.arange(n), *first, *other])
    for late in range(1, len(orders)):
        for early in range(late):
            share = float((orders[early] == orders[late]).mean())
            if share > 0.1:
                fail(
                    f"in two epochs (or in one and the given order) {share:.0%} of the samples "
                    "have the same place; each call must draw a new order of all samples."
                )
    stays = (orders[1:] == orders[1]).all(axis=0)
    if stays.any():
        fail(
            f"place {int(np.argmax(stays))} of the order has the same sample in all of "
            f"{len(orders) - 1} epochs; each call must draw a new order of all samples."
        )


@points(5, "values")
def test_one_update(ranks, rng):
    calls, rights = [], []
    for widths, dtype in (((5, 4, 3), "float64"), ((3, 2), "float64"), ((4, 6, 2), "float32")):
        w, v, g = (network(rng, widths, dtype) for _ in range(3))
        lr, momentum = float(rng.uniform(0.05, 0.5)), float(rng.uniform(0.3, 0.95))
        for call in ((w, v, g, lr, momentum), (w, v, g, lr, 0.0)):
            calls.append(call)
            rights.append(runs.as_dtype(oracle.sgd_step(*call), dtype))
    runs.check(ranks, "sgd:sgd_step", calls, rights)


@points(6, "values")
def test_training_on_real_data(ranks, rng):
    (x, y), _ = digits.load()

    def check(case):
        widths, sizes, raw, dtype = case
        chosen = rng.permutation(len(x))[: sum(sizes)]
        own = np.rint(16 * x[chosen]).astype("uint8") if raw else x[chosen]
        cuts = np.split(rng.permutation(sum(sizes)), np.cumsum(sizes)[:-1])
        batches, lr = [*cuts, cuts[0]], 0.001 if raw else 0.3
        call = (network(rng, widths, dtype), own, y[chosen], batches, lr, 0.8)
        after, _, losses = oracle.training(*call)
        right = (runs.as_dtype(after, dtype), losses)
        runs.check(ranks, "sgd:train", [call], [right])

    cases = [
        ((64, 12, 10), (40, 40, 13), False, "float64"),
        ((64, 6, 10), (8, 5), False, "float32"),
        ((64, 10), (9, 1, 30), True, "float64"),
    ]
    check_kinds(cases, by_layers, check)


# -- work and memory -------------------------------------------------------------------------------


@points(8, "schedule")
def test_no_loop_over_samples(ranks, rng):
    call, _ = asked(rng, (6, 5, 4), 7)
    runs.check_numpy(ranks, (TARGET, call))
    for widths, num_samples in (((9, 8, 4), 600), ((5, 100, 3), 400)):
        call, right = asked(rng, widths, num_samples)
        layers = len(widths) - 1
        rule = f"100 for each of {layers} layers, whatever the number of samples"
        runs.check_lines(ranks, TARGET, call, right, 100 * layers, rule)


@points(7, "memory")
def test_no_gradient_for_each_sample(ranks, rng):
    widths, num_samples = (48, 64, 10), 256
    call, right = asked(rng, widths, num_samples)
    numbers = num_samples * sum(widths) + sum(p.size for p in call[0])
    runs.check_peak(ranks, TARGET, call, right, 6, 8 * numbers)


# -- safety ----------------------------------------------------------------------------------------


@points(9, "safety")
def test_inputs_stay_and_results_are_new(ranks, rng):
    call, right = asked(rng, (5, 4, 3), 6)
    runs.check_kept(ranks, TARGET, [call], [right])
    x, W, b = rng.standard_normal((4, 3)), rng.standard_normal((3, 5)), rng.standard_normal(5)
    dy = rng.standard_normal((4, 5))
    runs.check_kept(ranks, "sgd:linear", [(x, W, b)], [x @ W + b])
    calls = [(dy, x, W), (dy[:1], x[:1], W)]
    runs.check_kept(
        ranks, "sgd:linear_backward", calls, [oracle.linear_backward(*call) for call in calls]
    )
    runs.check_kept(ranks, "sgd:relu", [(x,), (abs(x),)], [x.clip(0), abs(x)])
    runs.check_kept(ranks, "sgd:relu_backward", [(x, x), (x, abs(x))], [x * (x > 0), x.copy()])
    scores, y = rng.standard_normal((4, 3)), rng.integers(3, size=4)
    runs.check_kept(ranks, "sgd:cross_entropy", [(scores, y)], [oracle.cross_entropy(scores, y)])
    w, v, g = (network(rng, (3, 2)) for _ in range(3))
    calls = [(w, v, g, lr, momentum) for lr, momentum in ((0.1, 0.5), (0.1, 0.0), (0.0, 0.5))]
    runs.check_kept(ranks, "sgd:sgd_step", calls, [oracle.sgd_step(*call) for call in calls])
    batches = [np.array([0, 2]), np.array([1, 3, 4])]
    given = (*call, batches, 0.2, 0.7)
    after, _, losses = oracle.training(*given)
    runs.check_kept(ranks, "sgd:train", [given], [(after, losses)])
    # A second call leaves the first one's results alone, and knows nothing of it.
    (first, right), (second, other) = asked(rng, (5, 4, 3), 6), asked(rng, (5, 4, 3), 6)
    runs.check_second_call(ranks, TARGET, first, second, (right, other))
    (x, W, b), (z, V, c) = ((x, *params[:2]) for params, x, _ in (first, second))
    runs.check_second_call(ranks, "sgd:linear", (x, W, b), (z, V, c), (x @ W + b, z @ V + c))
    calls = [(x @ W, x, W), (z @ V, z, V)]
    rights = [oracle.linear_backward(*call) for call in calls]
    runs.check_second_call(ranks, "sgd:linear_backward", *calls, rights)
    calls = [(*call, [np.arange(3), np.arange(3, 6)], 0.2, 0.9) for call in (first, second)]
    rights = []
    for call in calls:
        after, _, losses = oracle.training(*call)
        rights.append((after, losses))
    runs.check_second_call(ranks, "sgd:train", *calls, rights)
