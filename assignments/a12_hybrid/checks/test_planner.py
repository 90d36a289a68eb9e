"""planner.py: plans against the fastest of all mixtures that fit."""

from checks.cases_planner import GB, MODELS, SMALL, Plan
from ringside.checking.suite import Suite, group

suite = Suite("planner")
ONE, ODD = "one GPU", "odd numbers"
REFUSING, NEAREST = "refusing", "what comes nearest"
FAST = "zaratan,flop_per_s=1e13"
SLOW = "zaratan,beta_s_per_byte=8e-09,flop_per_s=1e13"
SLOW_PORTS = (
    "zaratan,gpus_per_nic=1,flop_per_s=1e12,beta_s_per_byte=1e-9,intra_beta_s_per_byte=1e-9"
)
AS_IN_16_BITS = "zaratan,flop_per_s=1.5e14"
TWO_A_NODE = "zaratan,flop_per_s=5e13,ranks_per_node=2"
UNEVEN = (7, 192, 4, 15, 50_000, 128)


@suite.test(
    "fastest", "values", Plan(machine=FAST, gives=0.001110924288),
    Plan(machine=SLOW, gives=0.023160277056), Plan(num_gpus=4, gives=0.000833012972308),
)  # fmt: skip
def test_up_to_eight_gpus(case, run):
    """No other mixture is faster."""
    case.check_fast(run)


@suite.test(
    "mixtures", "values",
    Plan((8, 192, 4, 24, 3000, 128), 16, machine=FAST, gives=0.001409323968),
    Plan(num_gpus=12, machine=SLOW, gives=0.026166898176), weight=3,
)  # fmt: skip
def test_nine_to_sixteen_gpus(case, run):
    """No other mixture is faster."""
    case.check_fast(run)


@suite.test(
    "mixtures", "values", group(ONE, Plan(num_gpus=1, machine=FAST, gives=0.006497501184)),
    group(
        ODD, Plan(num_gpus=3, machine=FAST, gives=0.002165833728),
        Plan(UNEVEN, 5, machine=FAST, gives=0.004099888896),
    ), weight=4,
)  # fmt: skip
def test_one_gpu_and_odd_numbers_of_gpus(case, run):
    """All of them are used."""
    case.check_fast(run)


@suite.test(
    "mixtures", "values",
    Plan((11, 192, 4, 4, 3000, 128), machine=FAST, gives=0.00053967552),
    Plan(UNEVEN, machine=SLOW, gives=0.035627589504),
    Plan(num_gpus=16, machine=FAST, gives=0.001069585344), weight=4,
)  # fmt: skip
def test_layers_that_stages_do_not_divide(case, run):
    """Prime numbers of layers, and six layers on 16 GPUs."""
    case.check_fast(run)


@suite.test(
    "mixtures", "values",
    Plan((12, 64, 1, 4, 2000, 2000), machine="zaratan,flop_per_s=5e13", gives=0.00095291776),
    Plan((4, 256, 4, 2, 20_000, 512), machine=TWO_A_NODE, gives=0.00137948261888),
    weight=4,
)  # fmt: skip
def test_orders_of_the_axes(case, run):
    """Narrow layers: stages must be neighbours. Two GPUs a node and many words: replicas must."""
    case.check_fast(run)


@suite.test(
    "mixtures", "values",
    Plan((16, 512, 1, 8, 800, 80), 4, machine=SLOW_PORTS, gives=0.0617212064), weight=4,
)  # fmt: skip
def test_interleaved_stages(case, run):
    """Wide layers and short sequences: gradients take long, messages between stages don't."""
    case.check_fast(run)


@suite.test(
    "fits", "memory", Plan(SMALL, 4, 28_373_183, gives=0.000846668061697),
    Plan(SMALL, 8, 18_090_432, gives=0.000831290047273), weight=3,
)  # fmt: skip
def test_fastest_that_fits(case, run):
    """Faster ones would need more."""
    case.check_fast(run)


@suite.test(
    "fits", "memory", Plan(SMALL, 1, 58_773_504, gives=0.004261251544615),
    Plan(SMALL, 8, 9_045_216, gives=0.01197101376), weight=2,
)  # fmt: skip
def test_one_mixture_fits_to_the_byte(case, run):
    """What takes all that there is fits."""
    case.check_fast(run)


@suite.test(
    "fits", "memory", Plan(MODELS["18B"], 512, 17_196_381_695, machine="dgx_a100"), weight=2
)
def test_fits_on_512_gpus(case, run):
    """1 GB = 10^9 bytes."""


@suite.test(
    "refused", "safety",
    group(REFUSING, Plan(SMALL, 4, 15_062_015, raises="ValueError")),
    group(NEAREST, Plan(SMALL, 4, 15_062_015, raises="ValueError", gives=15_062_016)),
)  # fmt: skip
def test_refuses_and_says_what_comes_nearest(case, run):
    """What there is, and what the nearest one takes, in bytes."""


@suite.test(
    "given", "communication", Plan(cost="heavy", gives=0.000966133735385),
    Plan(SMALL, 8, 51_092_447, "heavy", gives=0.001109830670769),
)  # fmt: skip
def test_another_cost_model(case, run):
    """What the kit's takes for the fastest doesn't fit in this one."""
    case.check_fast(run)


@suite.test(
    "search",
    "speed",
    Plan(MODELS["18B"], 512, 20 * GB, machine="dgx_a100", gives=1.85256202953),
    weight=12,
)
def test_512_gpus(case, run):
    """At most 1.05 times the fastest; half of the points to 1.25."""
    case.check_fast(run, 1.05, 1.25)


@suite.test(
    "search",
    "speed",
    Plan(MODELS["18B"], 512, 20 * GB, machine="zaratan,flop_per_s=1.5e14", gives=5.80695923433),
    weight=11,
)
def test_512_gpus_with_a_port_a_node(case, run):
    """The four GPUs of a node share it."""
    case.check_fast(run, 1.05, 1.25)


@suite.test(
    "search",
    "speed",
    Plan(MODELS["1T"], 3072, 50 * GB, "heavy", machine="dgx_a100", gives=164.215821525),
    weight=11,
)
def test_a_trillion_parameters_on_3072_gpus(case, run):
    """At most 1.10 times the fastest; there are too many to ask about all."""
    case.check_fast(run, 1.10)
