"""predict.py: against exact counts, and replays of a traced GPT."""

from checks import replays
from checks.cases_predict import (
    EXAMPLE,
    Faster,
    MemoryBytes,
    SentBytes,
    StateBytes,
    StepS,
    replayed,
    traced,
)
from ringside.checking.suite import Suite, group

suite = Suite("predict")
AGAIN = "recomputation"
PLAIN, ZERO = "mixtures without ZeRO", "ZeRO"
UNEVEN, INTERLEAVED, FASTER = "uneven stages", "interleaved stages", "faster machines"
FREE = "textbook,alpha_s=0,beta_s_per_byte=0,flop_per_s=1e6"  # no message takes time
TIMES = replayed(replays)


@suite.test(
    "state", "memory", StateBytes(gives=120e9), StateBytes(zero=1, gives=31.40625e9),
    StateBytes(zero=2, gives=16.640625e9), StateBytes(zero=3, gives=1.875e9),
    StateBytes(7, 2, 1, gives=76),
)  # fmt: skip
def test_state_of_every_stage(case, run):
    """As ZeRO has published it."""


@suite.test(
    "memory", "memory",
    group(
        PLAIN, MemoryBytes(gives=2736),
        MemoryBytes(data=4, pipeline=1, microbatch_size=2, gives=5216),
        MemoryBytes(data=1, tensor=1, microbatch_size=2, gives=6048), weight=6,
    ),
    group(ZERO, MemoryBytes(zero=1, gives=1908)),
    group(AGAIN, MemoryBytes(recompute="full", gives=2520), weight=3),
    group(UNEVEN, MemoryBytes((3, *EXAMPLE[1:]), gives=5216), weight=3),
)  # fmt: skip
def test_memory_of_mixtures(case, run):
    """State and activations of the first stage."""


@suite.test(
    "bytes", "communication", SentBytes(gives=384), SentBytes(data=4, pipeline=1, gives=384),
    *traced(replays, "tensor"), weight=10,
)  # fmt: skip
def test_bytes_of_the_tensor_axis(case, run):
    """Four rings a layer and microbatch."""


@suite.test(
    "bytes", "communication", SentBytes(axis="pipeline", gives=96),
    SentBytes(data=4, pipeline=1, axis="pipeline", gives=0),
    *traced(replays, "pipeline"), weight=9,
)  # fmt: skip
def test_bytes_of_the_pipeline_axis(case, run):
    """To each neighbour."""


@suite.test(
    "bytes", "communication", SentBytes(axis="data", gives=268),
    SentBytes(data=4, pipeline=1, axis="data", gives=804), *traced(replays, "data"), weight=10,
)  # fmt: skip
def test_bytes_of_the_data_axis(case, run):
    """Once a step."""


@suite.test(
    "passes", "communication", SentBytes(recompute="full", gives=576),
    SentBytes(interleave=2, axis="pipeline", gives=192), weight=5,
)  # fmt: skip
def test_bytes_with_recomputation_and_interleaved_stages(case, run):
    """Six rings, and ``interleave`` times as many messages."""


@suite.test(
    "passes", "communication", SentBytes(zero=2, axis="data", gives=670),
    SentBytes(zero=3, axis="data", gives=1608), weight=5,
)  # fmt: skip
def test_bytes_of_zero_2_and_3(case, run):
    """For each microbatch."""


@suite.test("step", "speed", *(case for case in TIMES if case.pipeline == 1), weight=5)
def test_step_without_stages(case, run):
    """As a traced GPT takes it."""


@suite.test("step", "speed", *(case for case in TIMES if case.pipeline > 1), weight=8)
def test_step_with_stages(case, run):
    """As a traced GPT takes it."""


@suite.test(
    "step", "speed",
    group(UNEVEN, StepS((5, *EXAMPLE[1:]), 1, 1, 4, machine=FREE, gives=0.074232)),
    group(INTERLEAVED, StepS(
        (4, *EXAMPLE[1:]), 1, 1, 2, interleave=2, machine=FREE, gives=0.068976,
    )),
    group(FASTER, Faster(TIMES[-1].model, 4, 4, 4, 2)), weight=14,
)  # fmt: skip
def test_uneven_and_interleaved_stages_and_faster_machines(case, run):
    """As the formula says."""
