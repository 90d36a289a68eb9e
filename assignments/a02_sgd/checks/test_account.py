"""account.py: parameters, bytes, FLOPs and roofline times, worked out by hand or published."""

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
from ringside.checking.suite import Suite

suite = Suite("account")
CONV, GROUPS = ("Conv", 6, 3, 2, 1), ("Conv", 6, 3, 2, 1, 2)  # of an image of 4 channels
IMAGE, POOL, LINEAR, WIDE = (4, 8, 11), ("Pool", 2, 2), ("Linear", 10), ("Linear", 100)
SMALL = ((4,), LINEAR, LINEAR)
DOUBLED = ((1, 4, 4), ("Conv", 2, 3, 1, 1, 1, True), ("Pool", 2, 2, True), ("Linear", 3))


@suite.test(
    "values", "values", OutputShape(GROUPS, IMAGE, gives=(6, 4, 6)),
    OutputShape(CONV, IMAGE, gives=(6, 4, 6)), OutputShape(POOL, (3, 7, 4), gives=(3, 3, 2)),
    OutputShape(LINEAR, (2, 3, 4), gives=(10,)), OutputShape(LINEAR, (7,), gives=(10,)), weight=10,
)  # fmt: skip
def test_output_shapes(case, run):
    """A window that doesn't fit any more is left out."""


@suite.test(
    "values", "values", LayerParameters(CONV, IMAGE, gives=222), LayerParameters(POOL, IMAGE, gives=0),
    LayerParameters(GROUPS, IMAGE, gives=114), LayerParameters(LINEAR, (2, 3, 4), gives=250), weight=10,
)  # fmt: skip
def test_parameters_of_a_layer(case, run):
    """Weights and biases."""


@suite.test(
    "values", "values", NumParameters("ALEXNET", gives=60_965_224), NumParameters("LENET5", gives=61_706),
    NumParameters("ALEXNET_ONE_GROUP", gives=62_378_344), NumParameters(SMALL, gives=160), weight=10,
)  # fmt: skip
def test_parameters_of_a_network(case, run):
    """All layers'."""


@suite.test(
    "values", "values", LayerFlops(CONV, IMAGE, 5, gives=2 * 36 * 6 * 24 * 5),
    LayerFlops(GROUPS, IMAGE, 5, gives=2 * 18 * 6 * 24 * 5), LayerFlops(POOL, IMAGE, 5, gives=0),
    LayerFlops(LINEAR, (7,), 3, gives=420), LayerFlops(LINEAR, (2, 3, 4), gives=480), weight=12,
)  # fmt: skip
def test_flops_of_a_layer(case, run):
    """Two for each product."""


@suite.test(
    "values", "values", TrainingFlops(SMALL, gives=2 * 80 + 3 * 200),
    TrainingFlops(((4, 8, 11), POOL, GROUPS), 2, gives=3 * 2 * 2 * 18 * 6 * 6), weight=8,
)  # fmt: skip
def test_flops_of_training(case, run):
    """Nobody asks for the gradient of the images."""


@suite.test(
    "values", "values", ActivationBytes("ALEXNET", 128, gives=479_397_376),
    ActivationBytes(SMALL, 2, 8, gives=2 * 8 * 24),
    ActivationBytes(DOUBLED, gives=4 * (16 + 32 + 8 + 3)), weight=10,
)  # fmt: skip
def test_activations_counted_once(case, run):
    """The network's input, and what each layer gives."""


@suite.test(
    "values", "values", ActivationBytes("ALEXNET", 128, 4, "slide", gives=781_616_640),
    ActivationBytes(DOUBLED, 3, 2, "slide", gives=3 * 2 * (16 + 2 * 32 + 2 * 8 + 3)), weight=8,
)  # fmt: skip
def test_activations_as_on_the_slide(case, run):
    """Some layers' outputs twice."""


@suite.test(
    "values", "values", TrainingBytes(((4,), LINEAR), 2, 8, gives=16 * 28 + 24 * 50),
    TrainingBytes("ALEXNET", 128, 4, "slide", gives=2_294_815_968), weight=8,
)  # fmt: skip
def test_bytes_of_training(case, run):
    """Activations and their gradients; parameters, gradients and velocity."""


# 16,000 FLOPs take 16 ns; 33 kB take 331 ns. With a thousand samples, 16 µs and 7.5 µs.
@suite.test(
    "speed", "speed", LayerTime(WIDE, (80,), gives=4 * (180 + 8100) / 1e11 + 1e-6),
    LayerTime(WIDE, (80,), 1000, gives=2 * 8000 * 1000 / 1e12 + 1e-6),
    LayerTime(WIDE, (80,), itemsize=2, gives=2 * (180 + 8100) / 1e11 + 1e-6),
    LayerTime(POOL, (3, 7, 4), 5, gives=4 * 5 * (84 + 18) / 1e11 + 1e-6), weight=10,
)  # fmt: skip
def test_time_of_a_layer(case, run):
    """The longer of arithmetic and memory, and a kernel's start."""


@suite.test(
    "speed", "speed",
    ForwardTime(
        ((80,), WIDE, WIDE), gives=4 * (180 + 8100) / 1e11 + 4 * (200 + 10_100) / 1e11 + 2e-6
    ),
    ForwardTime(
        ((80,), WIDE, ("Linear", 1)), 1000,
        gives=2 * 8000 * 1000 / 1e12 + 4 * (1000 * 101 + 101) / 1e11 + 2e-6,
    ), weight=8,
)  # fmt: skip
def test_time_of_a_network(case, run):
    """Each layer has a roofline of its own."""


@suite.test(
    "memory", "memory", ActivationBytes("ALEXNET", 128, gives=479_397_376),
    NumParameters("LENET5", gives=61_706), LayerFlops(("Linear", 1000), (4096,), gives=8_192_000), weight=6,
)  # fmt: skip
def test_nothing_is_allocated(case, run):
    case.check_peak(run)
