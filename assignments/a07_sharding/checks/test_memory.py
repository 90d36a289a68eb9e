"""memory.py: bytes to the byte, what fits, and what torch's tracker counts."""

from checks.cases import (
    ActivationBytes,
    FewestRanks,
    MostLayers,
    Recomputed,
    StateBytes,
    StepBytes,
    TrackedActivations,
    TrackedState,
)
from ringside.checking import Verdict
from ringside.checking.suite import Suite, group

suite = Suite("memory")
TINY = (2, 4, 2, 2, 3)  # layers, width, heads, tokens, words
SEVEN = (36, 4096, 32, 2048, 51_200)  # 7.5e9 parameters
ONE_OF_GPT3 = (1, 12_288, 96, 2048, 0)
DTYPES, NO_DROPOUT = "other dtypes", "models without dropout"
TINY_STEP, GB = 5836, 10**9  # bytes of a step of TINY on two ranks at stage 1


def of_every_stage(*given, stages=range(4), dtypes=(), gives):
    """States of some stages."""
    pairs = zip(stages, gives, strict=True)
    return [StateBytes(*given, stage, dtypes, gives=right) for stage, right in pairs]


@suite.test(
    "state", "values", *of_every_stage(
        7_500_000_000, 64, stages=(0, 3), gives=(120 * GB, 1_875_000_000)
    ),
)  # fmt: skip
def test_state_of_every_stage(case, run):
    """All or nothing in shards: 120 and 1.875 GB."""


@suite.test(
    "stages", "values", *of_every_stage(
        7_500_000_000, 64, stages=(1, 2), gives=(31_406_250_000, 16_640_625_000)
    ), weight=3,
)  # fmt: skip
def test_state_of_stages_1_and_2(case, run):
    """31.40625 and 16.640625 GB."""


@suite.test(
    "shards", "values", *of_every_stage(7, 2, stages=(0, 3), gives=(112, 64)),
    StateBytes(3, 5, 3, gives=16), weight=3,
)  # fmt: skip
def test_state_where_ranks_do_not_divide_the_parameters(case, run):
    """A shard is padded on every rank."""


@suite.test("shards", "values", StateBytes(10**17 + 2, 2, 3, gives=8 * 10**17 + 16), weight=2)
def test_state_of_more_parameters_than_a_float_holds(case, run):
    """An exact int."""


@suite.test(
    "stages", "values", *of_every_stage(12, 3, dtypes=(3, 5, 7), gives=(180, 124, 84, 60))
)  # fmt: skip
def test_state_of_other_dtypes(case, run):
    """Bytes of a weight, a gradient and the optimizer's state as they are given."""


@suite.test(
    "activations", "values", ActivationBytes(TINY, gives=676),
    ActivationBytes(TINY, 3, gives=2028), ActivationBytes(ONE_OF_GPT3, gives=2_994_733_056),
    weight=7,
)  # fmt: skip
def test_activations(case, run):
    """All layers, and once what is outside of them."""


@suite.test(
    "activations", "values", group(DTYPES, ActivationBytes(TINY, element_bytes=4, gives=1296)),
    group(
        NO_DROPOUT, ActivationBytes(TINY, dropout=False, gives=588),
        ActivationBytes(TINY, element_bytes=4, dropout=False, gives=1176),
    ), weight=7,
)  # fmt: skip
def test_activations_without_dropout_and_in_other_dtypes(case, run):
    """A mask of dropout has one byte an element, and is there only with dropout."""


@suite.test(
    "recomputation", "values",
    group("layers", Recomputed(TINY), Recomputed((1, *TINY[1:])), Recomputed(TINY, 2), weight=4),
    group(DTYPES, ActivationBytes(TINY, recompute=True, element_bytes=4, gives=728)),
)  # fmt: skip
def test_activations_with_recomputation(case, run):
    """All layers' inputs, and the rest of one layer."""


@suite.test(
    "search", "values", StepBytes(TINY, 1, 2, 1), StepBytes(SEVEN, 1, 64, 2, recompute=True),
    weight=7,
)  # fmt: skip
def test_step(case, run):
    """State and activations."""


@suite.test(
    "search", "memory", MostLayers(32 * GB, SEVEN, 1, 64, 3), MostLayers(TINY_STEP, TINY, 1, 2, 1),
    MostLayers(TINY_STEP - 1, TINY, 1, 2, 1),
    MostLayers(32 * GB, SEVEN, 1, 64, 3, recompute=True), weight=6,
)  # fmt: skip
def test_most_layers(case, run):
    """By your own ``step_bytes`` it fits, and one layer more does not."""


@suite.test(
    "search", "memory", FewestRanks(TINY_STEP, TINY, 1, 1), FewestRanks(TINY_STEP - 1, TINY, 1, 1),
    *(FewestRanks(32 * GB, SEVEN, 1, stage, recompute=True) for stage in (1, 2, 3)), weight=5,
)  # fmt: skip
def test_fewest_ranks(case, run):
    """By your own ``step_bytes`` it fits, and on one rank less it does not."""


@suite.test(
    "refused", "safety", StateBytes(10, 2, 4, raises="ValueError"),
    StateBytes(10, 0, 1, raises="ValueError"),
    MostLayers(1000, TINY, 1, 2, 1, raises="ValueError"),
    FewestRanks(1000, TINY, 1, 1, raises="ValueError"),
    FewestRanks(1000, TINY, 1, 0, raises="ValueError"),
)  # fmt: skip
def test_refuses_what_is_not_there_and_what_does_not_fit(case, run):
    """With ValueError."""


@suite.test(
    "activations", "memory", TrackedActivations((4, 128, 4, 64, 300), 2),
    TrackedActivations((4, 128, 4, 64, 300), 2, recompute=True), weight=2,
)  # fmt: skip
def test_as_torchs_tracker_counts_it(case, run, ranks):
    """A small GPT on the network: what its storages take."""
    target, p, given = case.tracked
    (held, *_) = ranks.call(target, p, [given] * p).raise_for_error().memory
    if isinstance(case, TrackedState):
        counted = sum(held["after_step"][kind] for kind in ("parameters", "gradients", "optimizer"))
    else:
        counted = held["live"]["activations"]
    number, _ = run
    if type(number) is not int or abs(number - counted) > 0.02 * counted:
        raise Verdict(
            f"{case} is {number}; the tracker counted {counted} bytes, and 2 % are allowed."
        )
