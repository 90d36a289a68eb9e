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
from ringside.checking.suite import Suite, group

suite = Suite("account")
CONV, GROUPS = ("Conv", 6, 3, 2, 1), ("Conv", 6, 3, 2, 1, 2)  # of an image of 4 channels
IMAGE, POOL, LINEAR, WIDE = (4, 8, 11), ("Pool", 2, 2), ("Linear", 10), ("Linear", 100)
SMALL = ((4,), LINEAR, LINEAR)
DOUBLED = ((1, 4, 4), ("Conv", 2, 3, 1, 0, 1, True), ("Pool", 2, 2, True), ("Linear", 3))


# Images that a window's strides fill exactly, for all that isn't about shapes.
EXACT, BARE = (4, 9, 13), ("Conv", 6, 3, 2)
BARE_GROUPS = ("Conv", 6, 3, 2, 0, 2)
BUSY, OF_MANY = ("Conv", 6, 3), (64, 9, 13)  # more arithmetic than memory, with many channels
KNOWN, PLAIN, GROUPED = "published networks", "other networks", "convolutions of several groups"
LINEARS, CONVS = "linear layers", "convolutions and pooling"
ARITHMETIC, MEMORY = "layers that wait for arithmetic", "layers that wait for memory"


@suite.test(
    "shapes", "values", OutputShape(GROUPS, IMAGE, gives=(6, 4, 6)),
    OutputShape(CONV, IMAGE, gives=(6, 4, 6)), OutputShape(POOL, (3, 7, 4), gives=(3, 3, 2)),
    OutputShape(LINEAR, (2, 3, 4), gives=(10,)), OutputShape(LINEAR, (7,), gives=(10,)),
)  # fmt: skip
def test_output_shapes(case, run):
    """A window that doesn't fit any more is left out."""


@suite.test(
    "parameters", "values",
    group(
        PLAIN, LayerParameters(CONV, IMAGE, gives=222), LayerParameters(POOL, IMAGE, gives=0),
        LayerParameters(LINEAR, (2, 3, 4), gives=250),
    ),
    group(GROUPED, LayerParameters(GROUPS, IMAGE, gives=114), weight=2), weight=9,
)  # fmt: skip
def test_parameters_of_a_layer(case, run):
    """Weights and biases."""


@suite.test(
    "parameters", "values",
    group(
        KNOWN, NumParameters("ALEXNET", gives=60_965_224), NumParameters("LENET5", gives=61_706),
        NumParameters("ALEXNET_ONE_GROUP", gives=62_378_344),
    ),
    group(PLAIN, NumParameters(SMALL, gives=160)), weight=5,
)  # fmt: skip
def test_parameters_of_a_network(case, run):
    """All layers'."""


@suite.test(
    "flops", "values",
    group(
        LINEARS, LayerFlops(LINEAR, (7,), 3, gives=420), LayerFlops(LINEAR, (2, 3, 4), gives=480),
        weight=3,
    ),
    group(
        CONVS, LayerFlops(BARE, EXACT, 5, gives=2 * 36 * 6 * 24 * 5),
        LayerFlops(POOL, (4, 8, 12), 5, gives=0), weight=3,
    ),
    group(GROUPED, LayerFlops(BARE_GROUPS, EXACT, 5, gives=2 * 18 * 6 * 24 * 5), weight=4),
)  # fmt: skip
def test_flops_of_a_layer(case, run):
    """Two for each product."""


@suite.test(
    "training", "values", group(LINEARS, TrainingFlops(SMALL, gives=2 * 80 + 3 * 200)),
    group(CONVS, TrainingFlops(((4, 19, 27), POOL, BARE), 2, gives=3 * 2 * 2 * 36 * 6 * 24)),
    weight=8,
)  # fmt: skip
def test_flops_of_training(case, run):
    """Nobody asks for the gradient of the images."""


@suite.test(
    "activations", "values", group(KNOWN, ActivationBytes("ALEXNET", 128, gives=479_397_376)),
    group(
        PLAIN, ActivationBytes(SMALL, 2, 8, gives=2 * 8 * 24),
        ActivationBytes(DOUBLED, gives=4 * (16 + 8 + 2 + 3)),
    ), weight=8,
)  # fmt: skip
def test_activations_counted_once(case, run):
    """The network's input, and what each layer gives."""


@suite.test(
    "activations", "values",
    group(KNOWN, ActivationBytes("ALEXNET", 128, 4, "slide", gives=781_616_640)),
    group(
        PLAIN, ActivationBytes(DOUBLED, 3, 2, "slide", gives=3 * 2 * (16 + 2 * 8 + 2 * 2 + 3)),
    ), weight=6,
)  # fmt: skip
def test_activations_as_on_the_slide(case, run):
    """Some layers' outputs twice."""


@suite.test(
    "training", "values",
    group(KNOWN, TrainingBytes("ALEXNET", 128, 4, "slide", gives=2_294_815_968)),
    group(
        PLAIN, TrainingBytes(((4,), LINEAR), 2, 8, gives=16 * 28 + 24 * 50),
        TrainingBytes(DOUBLED, 3, 2, "slide", gives=2 * 3 * 2 * 39 + 3 * 2 * 29),
    ), weight=5,
)  # fmt: skip
def test_bytes_of_training(case, run):
    """Activations and their gradients; parameters, gradients and velocity."""


# 16,000 FLOPs take 16 ns; 33 kB take 331 ns. With a thousand samples, 16 µs and 7.5 µs.
@suite.test(
    "time", "speed",
    group(
        ARITHMETIC, LayerTime(WIDE, (80,), 1000, gives=2 * 8000 * 1000 / 1e12 + 1e-6),
        LayerTime(BUSY, OF_MANY, 20, gives=2 * 576 * 6 * 77 * 20 / 1e12 + 1e-6),
    ),
    group(
        MEMORY, LayerTime(WIDE, (80,), gives=4 * (180 + 8100) / 1e11 + 1e-6),
        LayerTime(WIDE, (80,), itemsize=2, gives=2 * (180 + 8100) / 1e11 + 1e-6),
        LayerTime(POOL, (3, 8, 4), 5, gives=4 * 5 * (96 + 24) / 1e11 + 1e-6),
    ), weight=9,
)  # fmt: skip
def test_time_of_a_layer(case, run):
    """The longer of arithmetic and memory, and a kernel's start."""


@suite.test(
    "time", "speed",
    ForwardTime(
        ((80,), WIDE, WIDE), gives=4 * (180 + 8100) / 1e11 + 4 * (200 + 10_100) / 1e11 + 2e-6
    ),
    ForwardTime(
        ((80,), WIDE, ("Linear", 1)), 1000,
        gives=2 * 8000 * 1000 / 1e12 + 4 * (1000 * 101 + 101) / 1e11 + 2e-6,
    ), weight=7,
)  # fmt: skip
def test_time_of_a_network(case, run):
    """Each layer has a roofline of its own."""


@suite.test(
    "nothing_made", "memory",
    ActivationBytes(((3_000_000,), ("Linear", 1000)), 2, gives=4 * 2 * 3_001_000),
    LayerFlops(("Linear", 1000), (4096,), gives=8_192_000),
)  # fmt: skip
def test_nothing_is_allocated(case, run):
    case.check_peak(run)
