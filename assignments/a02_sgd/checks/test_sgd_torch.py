"""sgd_torch.py: the same network and the same step with autograd and an optimizer."""

from checks.cases_torch import DEEP, FLAT, SMALL, SQUARE, Evaluate, RoundTrip, Steps
from ringside.checking.suite import Suite, group

suite = Suite("sgd_torch")


@suite.test("model", "values", RoundTrip(SMALL), RoundTrip(FLAT, "float32"), RoundTrip(SQUARE))
def test_the_model_is_the_network_of_sgd(case, run):
    names = run.values[0][0]
    if names != case.layers:
        raise case.fail(f"the model is {names}; it must be {case.layers}, and learn.")


@suite.test("apart", "safety", RoundTrip(SMALL), RoundTrip(SQUARE))
def test_arrays_and_model_share_nothing(case, run):
    *_, later, given, fresh, changed = run.values[0]
    case.same(later, case.params, "what to_numpy gave, after the model has changed, array")
    case.same(given, case.params, "what from_numpy was given, after the model has changed, array")
    twice = [2 * param for param in case.params]
    case.same(fresh, twice, "to_numpy after an earlier list was written to, array")
    if changed:
        raise case.fail(f"from_numpy or to_numpy changed {changed}; it must stay.")


# -- the step --------------------------------------------------------------------------------------


@suite.test("autograd", "values", Steps(sizes=(6,)), checked=False)
def test_the_model_goes_forward_and_autograd_backward(case, run):
    *_, seen = run.values[0]
    if not any(grad for *_, grad in seen["passes"]):
        raise case.fail("train_step must call model(x) with gradients on; autograd goes backward.")


FROM_REST, MOVING = "a velocity of 0", "a velocity from earlier steps"


@suite.test(
    "step", "values", group(FROM_REST, Steps(sizes=(7,)), Steps(FLAT, (1,))),
    group(MOVING, Steps(sizes=(7,), moving=True)), weight=9,
)  # fmt: skip
def test_one_step(case, run):
    """Parameters, velocity and loss are those of ``sgd.py``."""


@suite.test("step", "values", Steps((64, 6, 10), (20, 9, 1), pixels=True), weight=13)
def test_several_steps_on_digits(case, run):
    """The optimizer keeps the velocity."""


@suite.test(
    "dtypes", "values", Steps(sizes=(7,), dtype="float32", lr=0.001),
    Steps(sizes=(7,), x_dtype="uint8", lr=0.001), Evaluate(dtype="float32", x_dtype="int64"),
)  # fmt: skip
def test_float32_and_integer_samples(case, run):
    """Samples are taken in the dtype of the parameters."""


@suite.test(
    "old_gradients", "values", Steps(sizes=(7,), stale=True),
    Steps(sizes=(7,), stale=True, frozen=(0, 1)),
)  # fmt: skip
def test_old_gradients_and_frozen_parameters(case, run):
    """What is in ``grad`` before counts for nothing."""


@suite.test("once", "safety", Steps(), checked=False, weight=7)
def test_samples_stay_and_losses_are_floats(case, run):
    *_, seen = run.values[0]
    assert_stepped(case, seen)
    if seen["changed"]:
        raise case.fail("train_step changed x or y, or gave them a gradient.")
    if seen["besides"]:
        raise case.fail(f"train_step changed {seen['besides']}; it must stay.")
    if not seen["plain"]:
        raise case.fail("train_step must return a Python float, which keeps no graph alive.")
    if seen["graphs"]:
        raise case.fail(
            "a loss of train_step is still there, with its graph; a call keeps nothing."
        )


def assert_stepped(case, seen):
    """Who does nothing does nothing wrong; that earns nothing."""
    if not seen["passes"]:
        raise case.fail("train_step never called model(x).")


@suite.test("once", "schedule", Steps(), Steps(DEEP, (5,), training=False), checked=False, weight=5)
def test_work_of_a_step(case, run):
    *_, seen = run.values[0]
    sizes, passes = list(case.sizes), [number for number, *_ in seen["passes"]]
    if passes != sizes or seen["steps"] != len(sizes):
        raise case.fail(
            f"steps on {sizes} samples put batches of {passes} through the model and called "
            f"optimizer.step() {seen['steps']} times; once for each step is right."
        )
    done = run.num_flops()[0]
    if not done <= case.flops * (1 + 1e-9):
        raise case.fail(
            f"steps on {sum(sizes)} samples made {done:.0f} floating-point operations in matrix "
            f"products; one forward and one backward pass have {case.flops}."
        )
    if not all(mode == case.training for _, mode, _ in seen["passes"]):
        was, other = ("training", "evaluation")[:: 1 if case.training else -1]
        raise case.fail(f"train_step put a model in {was} mode into {other} mode; it must stay.")


# -- evaluation ------------------------------------------------------------------------------------


@suite.test("evaluation", "values", Evaluate(), Evaluate(DEEP, 9, dropout=0.5))
def test_loss_and_accuracy(case, run):
    """In evaluation mode."""


@suite.test("left_alone", "safety", Evaluate(dropout=0.5), Evaluate(training=False))
def test_evaluation_leaves_the_model_as_it_was(case, run):
    *_, seen = run.values[0]
    if not seen["mode"]:
        raise case.fail("evaluate must leave the model in the mode in which it was.")
    if not seen["kept"]:
        raise case.fail("evaluate changed parameters, their gradients, or which of them learn.")
    if seen["changed"]:
        raise case.fail("evaluate changed x or y.")
    if seen["besides"]:
        raise case.fail(f"evaluate changed {seen['besides']}; it must stay.")
    if not seen["plain"]:
        raise case.fail("evaluate must return two Python floats.")


@suite.test("no_graph", "memory", Evaluate(training=False))
def test_evaluation_keeps_no_graph(case, run):
    *_, seen = run.values[0]
    if any(grad for *_, grad in seen["passes"]):
        raise case.fail("evaluate went forward with gradients on, which keeps all activations.")
    flops, right = run.num_flops()[0], case.forward_flops(case.n)
    if flops > right * (1 + 1e-9):
        raise case.fail(
            f"evaluate made {flops:.0f} floating-point operations; once through is {right}."
        )
