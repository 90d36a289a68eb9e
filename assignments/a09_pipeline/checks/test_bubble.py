"""bubble.py: closed forms, whose numbers the cases carry."""

from checks.cases import (
    ActivationBytes,
    BubbleFraction,
    FewestMicrobatches,
    GpipeS,
    InFlight,
    MakespanS,
    NumMessages,
)
from ringside.checking.suite import Suite, group

suite = Suite("bubble")
OTHER_TIMES = "other times of the two passes"


@suite.test(
    "makespan", "values",
    group("backward passes twice as long", MakespanS(3, 4, gives=18.0)),
    group(OTHER_TIMES, MakespanS(1, 5, 1.0, 1.0, gives=10.0)),
)  # fmt: skip
def test_makespan(case, run):
    """GPipe's and 1F1B's."""


@suite.test(
    "chunks", "values", MakespanS(4, 8, 1.0, 2.0, 2, gives=28.5),
    MakespanS(3, 6, 2.0, 4.0, 4, gives=39.0),
)  # fmt: skip
def test_makespan_of_chunks(case, run):
    """Interleaved 1F1B's."""


@suite.test(
    "bubble", "values",
    group("one chunk", BubbleFraction(3, 4, gives=1 / 3), BubbleFraction(1, 2, gives=0.0)),
    group("several chunks", BubbleFraction(4, 8, 3, gives=1 / 9)),
)  # fmt: skip
def test_bubble_fraction(case, run):
    """Idle over total."""


@suite.test(
    "fewest", "values",
    group(
        "several stages", FewestMicrobatches(3, 0.3, gives=5), FewestMicrobatches(4, 0.5, gives=3),
        FewestMicrobatches(5, 0.25, 2, gives=6),
    ),
    group("one stage", FewestMicrobatches(1, 0.1, gives=1)),
)  # fmt: skip
def test_fewest_microbatches(case, run):
    """A fraction that is met exactly is small enough."""


@suite.test(
    "latency", "communication", GpipeS(4, 8, 1.0, 2.0, 0.5, gives=36.0),
    GpipeS(1, 2, 1.0, 2.0, 0.5, gives=6.0),
)  # fmt: skip
def test_gpipe_with_latency(case, run):
    """Paid for once in each direction and between each two stages."""


@suite.test(
    "messages", "communication", NumMessages(3, 4, gives=16), NumMessages(1, 4, 2, gives=0),
    NumMessages(2, 4, 2, gives=24),
)  # fmt: skip
def test_number_of_messages(case, run):
    """From one piece to another on the same stage there is none."""


@suite.test(
    "in_flight", "memory", group("gpipe", InFlight("gpipe", 4, 8, 1, gives=8)),
    group(
        "one_f_one_b", InFlight("one_f_one_b", 4, 8, 1, gives=3),
        InFlight("one_f_one_b", 4, 2, 1, gives=2),
    ),
    group(
        "interleaved", InFlight("interleaved", 2, 8, 0, 2, gives=5),
        InFlight("interleaved", 1, 4, 0, 2, gives=2), InFlight("interleaved", 2, 2, 0, 3, gives=6),
    ),
    group("other names", InFlight("1f1b", 2, 2, 0, raises="ValueError"), weight=0.5),
)  # fmt: skip
def test_microbatches_in_flight(case, run):
    """The most at one time."""


@suite.test(
    "bytes", "memory", ActivationBytes("gpipe", 4, 8, 1, 100, 10, gives=800),
    ActivationBytes("gpipe", 4, 8, 1, 100, 10, True, gives=170),
    ActivationBytes("one_f_one_b", 4, 8, 3, 100, 10, gives=100),
    ActivationBytes("one_f_one_b", 4, 8, 1, 100, 10, False, gives=300),
)  # fmt: skip
def test_bytes_of_activations(case, run):
    """Microbatches that are in flight; with recomputation their inputs, and all of one."""
