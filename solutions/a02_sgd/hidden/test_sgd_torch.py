"""sgd_torch.py: the same network and the same step with autograd and an optimizer."""

from itertools import pairwise

import numpy as np

from ringside.checking import Verdict
from ringside.checking.points import points_of
from solutions.a02_sgd import digits
from solutions.a02_sgd.hidden import oracle, runs

STEP, EVALUATE, MODEL = "sgd_torch:train_step", "sgd_torch:evaluate", "sgd_torch:from_numpy"
SMALL, DEEP, FLAT, SQUARE = (12, 9, 5), (7, 11, 6, 8, 4), (10, 3), (6, 6, 6)

points = points_of("sgd_torch")


def network(rng, widths, dtype="float64"):
    drawn = [
        rng.standard_normal(shape) / np.sqrt(shape[0] if len(shape) == 2 else 1)
        for d_in, d_out in pairwise(widths)
        for shape in ((d_in, d_out), (d_out,))
    ]
    return [p.astype(dtype) for p in drawn]


def samples(rng, widths, count, dtype="float64"):
    if np.dtype(dtype).kind in "iu":
        x = rng.integers(17, size=(count, widths[0])).astype(dtype)
    else:
        x = rng.standard_normal((count, widths[0])).astype(dtype)
    return x, rng.integers(widths[-1], size=count)


LINE = 'python -c "import callers_torch; callers_torch.show([12, 9, 5], [6, 3])"'


def fail(sentence):
    return Verdict(sentence, reproduce=LINE)


def call(ranks, driver, target, *arguments):
    """What a function of ``callers_torch.py`` returns on one rank, and the run itself."""
    result = ranks.call(f"callers_torch:{driver}", 1, [arguments])
    runs.ran(result, target, (), LINE)
    return result.values[0], result


def same(got, right, what, dtype="float64"):
    """Arrays, numbers, or lists of them, within the docstring's tolerance."""
    given, right = (np.zeros(0, dtype),), runs.as_dtype(right, dtype)
    runs.compare("", given, got, right, what, LINE)


# -- the model -------------------------------------------------------------------------------------


def there_and_back(ranks, rng, widths, dtype="float64"):
    params = network(rng, widths, dtype)
    (names, scores, back, *then), _ = call(ranks, "there_and_back", MODEL, params)
    right = np.ones((3, widths[0]))
    for number, (W, b) in enumerate(zip(params[::2], params[1::2], strict=True)):
        right = (right.clip(0) if number else right) @ W.astype("float64") + b
    same(scores, right, f"the scores of a model of {widths}", dtype)
    same(back, params, f"to_numpy(from_numpy(params)) of {widths}", dtype)
    return params, names, *then


@points(14, "values")
def test_the_model_is_the_network_of_sgd(ranks, rng):
    for widths, dtype in ((SMALL, "float64"), (DEEP, "float32"), (FLAT, "float64"),
                          (SQUARE, "float64")):  # fmt: skip
        _, names, *_ = there_and_back(ranks, rng, widths, dtype)
        right = (["Linear", "ReLU"] * len(widths))[: 2 * len(widths) - 3]
        if names != right:
            raise fail(f"the model of {widths} is {names}; it must be {right}, and learn.")


@points(8, "safety")
def test_arrays_and_model_share_nothing(ranks, rng):
    for widths, dtype in ((SMALL, "float64"), (SQUARE, "float64"), (FLAT, "float32")):
        params, _, later, given, fresh, changed = there_and_back(ranks, rng, widths, dtype)
        same(later, params, "what to_numpy gave, looked at after the model has changed,", dtype)
        same(given, params, "what from_numpy was given, looked at after the model changed,", dtype)
        same(fresh, [2 * p for p in params], "to_numpy after an earlier list was written to", dtype)
        if changed:
            raise fail(f"from_numpy or to_numpy changed {changed}; it must stay.")


# -- the step --------------------------------------------------------------------------------------


def stepped(ranks, params, batches, *, lr=0.2, momentum=0.8, velocity=None, frozen=(), stale=False,
            training=True):  # fmt: skip
    """Steps on some batches; parameters, velocity and losses are those of the oracle."""
    dtype = str(params[0].dtype)
    velocity = velocity or [np.zeros_like(p) for p in params]
    (after, moved, losses, told), result = call(
        ranks, "steps", STEP, params, velocity, batches, lr, momentum, frozen, stale, training
    )
    right, right_velocity, right_losses = _serial(params, velocity, batches, lr, momentum, frozen)
    what = f"after {len(batches)} steps"
    what += " with old gradients" if stale else ""
    what += f", parameters {frozen} frozen," if frozen else ""
    same(after, right, f"{what} the list of parameters", dtype)
    same(moved, right_velocity, f"{what} the optimizer's velocity", dtype)
    same(losses, right_losses, "the list of losses", dtype)
    return told, result


def _serial(params, velocity, batches, lr, momentum, frozen):
    params, velocity, losses = list(params), list(velocity), []
    for x, y in batches:
        loss, gradients = oracle.loss_and_gradients(params, x, y)
        for k, g in enumerate(gradients):
            if k not in frozen:
                velocity[k] = momentum * velocity[k].astype("float64") + g
                params[k] = params[k] - lr * velocity[k]
        losses += [loss]
    return params, velocity, losses


@points(4, "values", essential=True)
def test_the_model_goes_forward_and_autograd_backward(ranks, rng):
    params = network(rng, SMALL)
    (*_, told), _ = call(
        ranks, "steps", STEP, params, [0 * p for p in params], [samples(rng, SMALL, 6)], 0.1, 0.0
    )
    if not any(grad for *_, grad in told["passes"]):
        raise fail("train_step must call model(x) with gradients on; autograd goes backward.")


@points(12, "values")
def test_one_step(ranks, rng):
    for widths, count in ((SMALL, 6), (FLAT, 1), (DEEP, 4)):
        velocity = [0.1 * p for p in network(rng, widths)]
        stepped(ranks, network(rng, widths), [samples(rng, widths, count)], velocity=velocity)


@points(12, "values")
def test_several_steps_on_digits(ranks, rng):
    (x, y), _ = digits.load()
    chosen = np.split(rng.permutation(len(x))[:90], [40, 70, 71])
    stepped(ranks, network(rng, (64, 12, 10)), [(x[each], y[each]) for each in chosen])


@points(8, "values")
def test_float32_and_integer_samples(ranks, rng):
    for dtype, x_dtype in (
        ("float32", "float32"), ("float64", "uint8"), ("float32", "int64"), ("float32", "float64"),
        ("float64", "float32"),
    ):  # fmt: skip
        batches = [samples(rng, SMALL, 5, x_dtype) for _ in range(2)]
        params = network(rng, SMALL, dtype)
        stepped(ranks, params, batches, lr=0.001)
        x, y = batches[0]
        evaluated(ranks, params, x, y)


@points(6, "values")
def test_old_gradients_and_frozen_parameters(ranks, rng):
    batches = [samples(rng, SMALL, 5) for _ in range(2)]
    stepped(ranks, network(rng, SMALL), batches, stale=True)
    stepped(ranks, network(rng, SMALL), batches, frozen=(0, 1), stale=True)


@points(4, "safety")
def test_samples_stay_and_losses_are_floats(ranks, rng):
    told, _ = stepped(ranks, network(rng, SMALL), [samples(rng, SMALL, 5) for _ in range(2)])
    if told["changed"]:
        raise fail("train_step changed x or y, or gave them a gradient.")
    if told["besides"]:
        raise fail(f"train_step changed {told['besides']}; it must stay.")
    if not told["plain"]:
        raise fail("train_step must return a Python float, which keeps no graph alive.")
    if told["graphs"]:
        raise fail("a loss of train_step is still there, with its graph; a call keeps nothing.")


def forward_flops(params, num_samples):
    return 2 * num_samples * sum(W.size for W in params[::2])


@points(8, "schedule")
def test_work_of_a_step(ranks, rng):
    for widths, sizes, training in ((SMALL, (6, 3), True), (DEEP, (5, 8), False)):
        params = network(rng, widths)
        batches = [samples(rng, widths, b) for b in sizes]
        told, result = stepped(ranks, params, batches, training=training)
        passes = [number for number, *_ in told["passes"]]
        if passes != list(sizes) or told["steps"] != len(sizes):
            raise fail(
                f"steps on {list(sizes)} samples put batches of {passes} through the model and "
                f"called optimizer.step() {told['steps']} times; once for each step is right."
            )
        forward = forward_flops(params, sum(sizes))
        right = 3 * forward - 2 * sum(sizes) * params[0].size
        if not result.num_flops()[0] <= right * (1 + 1e-9):
            raise fail(
                f"steps on {sum(sizes)} samples made {result.num_flops()[0]:.0f} floating-point "
                f"operations in matrix products; one forward and one backward pass have {right}."
            )
        if not all(mode == training for _, mode, _ in told["passes"]):
            was, other = ("training", "evaluation")[:: 1 if training else -1]
            raise fail(f"train_step put a model in {was} mode into {other} mode; it must stay.")


# -- evaluation ------------------------------------------------------------------------------------


def evaluated(ranks, params, x, y, training=True, dropout=0.0):
    dtype = str(params[0].dtype)
    (loss, accuracy, told), result = call(
        ranks, "evaluation", EVALUATE, params, x, y, training, dropout
    )
    if any(mode for _, mode, _ in told["passes"]):
        raise fail("evaluate went forward in training mode; call model.eval() before.")
    scores = x.astype("float64")
    for k in range(0, len(params), 2):
        scores = (scores.clip(0) if k else scores) @ params[k].astype("float64") + params[k + 1]
    right, _ = oracle.cross_entropy(scores, y)
    same(loss, right, "the loss of evaluate", dtype)
    share = float((scores.argmax(axis=1) == y).mean())
    same(accuracy, share, "the accuracy of evaluate", "float32")  # a mean in float32 is right
    return told, result


@points(10, "values")
def test_loss_and_accuracy(ranks, rng):
    for widths, count, dropout in ((SMALL, 40, 0.0), (DEEP, 9, 0.5), (FLAT, 1, 0.0)):
        x, y = samples(rng, widths, count)
        evaluated(ranks, network(rng, widths), x, y, dropout=dropout)


@points(8, "safety")
def test_evaluation_leaves_the_model_as_it_was(ranks, rng):
    for training in (True, False):
        x, y = samples(rng, SMALL, 7)
        told, _ = evaluated(ranks, network(rng, SMALL), x, y, training, 0.5)
        if not told["mode"]:
            raise fail("evaluate must leave the model in the mode in which it was.")
        if not told["kept"]:
            raise fail("evaluate changed parameters, their gradients, or which of them learn.")
        if told["changed"]:
            raise fail("evaluate changed x or y.")
        if told["besides"]:
            raise fail(f"evaluate changed {told['besides']}; it must stay.")
        if not told["plain"]:
            raise fail("evaluate must return two Python floats.")


@points(6, "memory")
def test_evaluation_keeps_no_graph(ranks, rng):
    params = network(rng, DEEP)
    x, y = samples(rng, DEEP, 20)
    told, result = evaluated(ranks, params, x, y)
    if any(grad for _, _, grad in told["passes"]):
        raise fail("evaluate went forward with gradients on, which keeps all activations.")
    flops, right = result.num_flops()[0], forward_flops(params, 20)
    if flops > right * (1 + 1e-9):
        raise fail(f"evaluate made {flops:.0f} floating-point operations; once through is {right}.")
