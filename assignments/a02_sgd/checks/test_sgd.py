"""sgd.py: layers, loss, gradients, mini-batches, updates."""

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
from ringside.checking.suite import Suite, group

suite = Suite("sgd")
ONE, LARGE, OTHERS = "one sample", "scores as large as 10000", "other scores"
TWO, ZEROS, MORE = "two layers", "where z is 0", "other numbers of layers"
SAMPLES, BACKWARD, NETWORK = "linear", "linear_backward", "loss_and_gradients"


@suite.test("own_gradients", "values", LossAndGradients(watch="autograd"))
def test_gradients_without_autograd(case, run):
    """No other library finds them."""


@suite.test("layers", "values", Linear(), Linear(1, 4, 1), Linear(2, 1, 3), weight=9)
def test_linear(case, run):
    """One layer."""


@suite.test(
    "layers", "values", LinearBackward(), LinearBackward(1, 4, 1), LinearBackward(4, 4, 4),
    weight=3,
)  # fmt: skip
def test_linear_backward(case, run):
    """Its three gradients."""


@suite.test(
    "layers", "values", Relu(), ReluBackward(), Relu((7,), dtype="float32"), ReluBackward((7,)),
    weight=3,
)  # fmt: skip
def test_relu_and_its_gradient(case, run):
    """Of any shape; where z is 0, the gradient is 0."""


@suite.test(
    "loss", "values", group(OTHERS, CrossEntropy(), CrossEntropy(4, 6, used=3), weight=2),
    group(ONE, CrossEntropy(1, 5)),
    group(LARGE, CrossEntropy(scale=1e4), CrossEntropy(shift=-1e4, scale=1.0), weight=3),
)  # fmt: skip
def test_cross_entropy(case, run):
    """The mean loss, and its gradient."""


@suite.test(
    "gradients", "values", group(TWO, LossAndGradients(), weight=2),
    group(ZEROS, LossAndGradients(zeros=True)),
    group(MORE, LossAndGradients((4, 3), 1), LossAndGradients((3, 3, 3, 3)), weight=3),
)  # fmt: skip
def test_gradients_of_a_network(case, run):
    """Any number of layers, one too."""


@suite.test(
    "dtypes", "values", group(SAMPLES, Linear(x_dtype="uint8", dtype="float32")),
    group(BACKWARD, LinearBackward(x_dtype="int64", dtype="float32")),
    group(
        NETWORK, LossAndGradients(x_dtype="uint8", dtype="float32"),
        LossAndGradients(x_dtype="float32"),
    ),
)  # fmt: skip
def test_float32_and_integers(case, run):
    """Samples are taken in the dtype of the weights."""


@suite.test("minibatches", "values", Minibatches(), Minibatches(3, 8), Minibatches(8, 8))
def test_minibatches_hold_every_sample_once(case, run):
    """And the last one has what is left."""


@suite.test("minibatches", "values", Minibatches(300, 32, 3), weight=8)
def test_each_epoch_has_its_own_order(case, run):
    case.check_orders(run)


@suite.test("update", "values", SgdStep(), SgdStep((4, 6, 2), momentum=0.0, dtype="float32"))
def test_one_update(case, run):
    """The velocity, and then the parameters by the new one."""


@suite.test(
    "training", "values", group(TWO, Train()), group(MORE, Train((64, 10), (4, 1, 6)), weight=4),
    weight=8,
)  # fmt: skip
def test_training_on_real_data(case, run):
    """A step for each mini-batch."""


@suite.test("training", "safety", Train(watch="second"), weight=9)
def test_each_training_begins_at_rest(case, run):
    """The velocity is 0 before the first step of each."""


@suite.test(
    "together", "schedule", LossAndGradients(watch="libraries"),
    LossAndGradients(n=500, watch="lines"), weight=8,
)  # fmt: skip
def test_no_loop_over_samples(case, run):
    """They go through a layer together, by NumPy's product of matrices."""


@suite.test("together", "memory", LossAndGradients((40, 10, 4), 300, watch="memory"), weight=7)
def test_no_gradient_for_each_sample(case, run):
    """No array has n times the size of a W, and nothing is kept."""


EACH = (
    LossAndGradients((5, 4, 3), 6), Linear(), LinearBackward(), LinearBackward(1), Relu(),
    ReluBackward(), CrossEntropy(), SgdStep(), SgdStep(momentum=0.0), SgdStep(lr=0.0), Train(),
)  # fmt: skip
TWICE = (LossAndGradients((5, 4, 3), 6), Linear(), LinearBackward())


@suite.test(
    "kept", "safety", *(case.with_(watch="second") for case in TWICE),
    *(case.with_(watch="inputs") for case in EACH),
)  # fmt: skip
def test_inputs_stay_and_results_are_new(case, run):
    """They may be read-only, and a second call leaves the first one's result alone."""
