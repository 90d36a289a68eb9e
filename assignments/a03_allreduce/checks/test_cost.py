"""cost.py: closed forms, and the choice that they allow."""

from checks.cases import (
    Choice,
    DoublingSeconds,
    HalvingSeconds,
    RingSeconds,
    ServerSeconds,
    StarSeconds,
)
from ringside.checking.suite import Suite, group

suite = Suite("cost")
MACHINES = "other machines"
SHORT, LONG, BETWEEN = "short vectors", "long vectors", "vectors of all lengths between"
NO_LATENCY, ANY_BANDWIDTH = "machines without latency", "machines of any bandwidth"
SLOW_START = {"alpha_s": 1e-3, "beta": 1e-8}


def shares_of(many, nothing, alone):
    """Special cases of a formula have shares of their own."""
    return (
        group("more ranks and bytes", *many, weight=3),
        group("messages of no bytes", *nothing),
        group("one rank", *alone),
    )


def worked(kind, **gives):
    """Public cases: what 8000 bytes and none take on so many ranks, and one rank alone.

    Args:
        gives: ``p5=(seconds of 8000 bytes, seconds of none)``.
    """
    sizes = {int(name[1:]): values for name, values in gives.items()}
    return shares_of(
        [kind(8000, p, gives=long_s) for p, (long_s, _) in sizes.items()],
        [kind(0, p, gives=none_s) for p, (_, none_s) in sizes.items()],
        [kind(8000, 1, gives=0.0)],
    )


@suite.test("star", "values", *worked(StarSeconds, p4=(54e-6, 6e-6), p5=(72e-6, 8e-6)), weight=9)
def test_star(case, run):
    """Messages of whole vectors, one after the other."""


@suite.test(
    "sharded_server",
    "values",
    *worked(ServerSeconds, p4=(18e-6, 6e-6), p5=(20.8e-6, 8e-6)),
    weight=9,
)
def test_sharded_server(case, run):
    """Each step is of one shard."""


@suite.test("ring", "values", *worked(RingSeconds, p4=(18e-6, 6e-6), p5=(20.8e-6, 8e-6)), weight=10)
def test_ring(case, run):
    """Each step is of one shard."""


@suite.test(
    "recursive_doubling",
    "values",
    *worked(DoublingSeconds, p4=(18e-6, 2e-6), p8=(27e-6, 3e-6)),
    weight=8,
)
def test_recursive_doubling_at_powers_of_two(case, run):
    """Each step is of the whole vector."""


@suite.test("recursive_doubling", "values", *worked(DoublingSeconds, p5=(36e-6, 4e-6)), weight=8)
def test_recursive_doubling_at_other_sizes(case, run):
    """With the fold."""


@suite.test(
    "halving_doubling",
    "values",
    *worked(HalvingSeconds, p4=(16e-6, 4e-6), p8=(20e-6, 6e-6)),
    weight=8,
)
def test_halving_doubling_at_powers_of_two(case, run):
    """Steps of ever fewer bytes, and back."""


@suite.test("halving_doubling", "values", *worked(HalvingSeconds, p5=(34e-6, 6e-6)), weight=8)
def test_halving_doubling_at_other_sizes(case, run):
    """With the fold."""


@suite.test(
    "choice", "speed", group(SHORT, Choice(8, 4, gives=("recursive_doubling",)), weight=2),
    group(
        LONG, Choice(8_000_000, 4, gives=("halving_doubling", "ring", "sharded_server")), weight=2
    ),
    group(BETWEEN, Choice(8_000, 8, gives=("halving_doubling",))),
)  # fmt: skip
def test_choice_at_powers_of_two(case, run):
    """One for short vectors, others for long ones."""


@suite.test(
    "choice_elsewhere", "speed", Choice(8, 5, gives=("recursive_doubling",)),
    Choice(8_000_000, 5, gives=("ring", "sharded_server")),
)  # fmt: skip
def test_choice_at_other_sizes(case, run):
    """The fold costs whole vectors."""


@suite.test(
    "choice_elsewhere", "speed",
    group(
        MACHINES, *(Choice(80_000, p, **SLOW_START, gives=("recursive_doubling",)) for p in (4, 5)),
        weight=3,
    ),
    group(
        NO_LATENCY,
        Choice(8, 4, alpha_s=0.0, gives=("halving_doubling", "ring", "sharded_server")), weight=2,
    ),
    group(ANY_BANDWIDTH, Choice(8, 4, beta=0.0, gives=("recursive_doubling",)), weight=3),
    weight=2,
)  # fmt: skip
def test_choice_follows_the_machine(case, run):
    """Where messages start slowly, whole vectors are long in being the fastest."""
