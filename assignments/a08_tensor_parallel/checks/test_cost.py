"""cost.py: bytes to the byte, against what the network counts of the same traffic."""

from checks.cases_cost import (
    BestGrid,
    Crossover,
    DataBytes,
    HybridBytes,
    ModelBytes,
    PairedBytes,
)
from ringside.checking import Verdict, assert_ran, buffered
from ringside.checking.cases import brief
from ringside.checking.ring_bytes import sent_as_ring
from ringside.checking.suite import Suite, group

suite = Suite("cost")
SCATTER, REDUCE = "reduce_scatter", "all_reduce"
WIDTHS = (7, 5, 9)


@suite.test("data", "values", DataBytes(gives=14400), DataBytes((3, 4), 5, 1, gives=0))
def test_data_parallelism(case, run):
    """2 * 3 * 300 elements of 8 bytes."""


@suite.test(
    "model", "values", ModelBytes(gives=7560), ModelBytes(backward=SCATTER, gives=7560), weight=2
)
def test_model_parallelism_with_reduce_scatter(case, run):
    """3 * 7 * (25 + 20) elements of 8 bytes."""


@suite.test("model", "values", ModelBytes(backward=REDUCE, gives=10920), weight=2)
def test_model_parallelism_with_all_reduce(case, run):
    """3 * 7 * (25 + 40) elements of 8 bytes."""


@suite.test(
    "pairs",
    "values",
    PairedBytes((6, 24, 7, 24, 6), 5, 3, gives=3200),
    PairedBytes((2, 9, 3), 4, 2, gives=192),
)
def test_layers_in_pairs(case, run):
    """2 * 2 * 5 * (13 + 7) elements, and 2 * 4 * 3, of 8 bytes."""


@suite.test(
    "both",
    "values",
    group(
        "one of the two alone",
        HybridBytes(model_size=1, gives=14400),
        HybridBytes(data_size=1, batch=7, gives=2520),
    ),
    group(SCATTER, HybridBytes(gives=17280), HybridBytes(backward=SCATTER, gives=17280)),
    group(REDUCE, HybridBytes(backward=REDUCE, gives=18560)),
)
def test_both_at_once(case, run):
    """8 * (25 + 20) + 2 * 3 * 300 elements of 8 bytes, or 8 * (25 + 40) + 2 * 3 * 300."""


@suite.test(
    "itemsize",
    "values",
    group("data_bytes", DataBytes(itemsize=2, gives=3600)),
    group("paired_bytes", PairedBytes((6, 24, 7, 24, 6), 5, 3, itemsize=2, gives=800)),
    group("model_bytes", ModelBytes(backward=REDUCE, itemsize=2, gives=2730)),
    group("hybrid_bytes", HybridBytes(backward=REDUCE, itemsize=2, gives=4640)),
    weight=3,
)
def test_bytes_of_an_element(case, run):
    """The same with 2 bytes an element."""


@suite.test(
    "crossover",
    "values",
    group(SCATTER, Crossover(backward=SCATTER, gives=16.0), Crossover(gives=16.0)),
    group(REDUCE, Crossover(backward=REDUCE, gives=12.0)),
)
def test_crossover(case, run):
    """2 * 288 elements, divided by 24 + 12, or by 24 + 24."""


def assert_counted(value, case, ranks):
    """The value is what the network counts of the same traffic."""
    sent, p = [case.sent] * case.num_ranks, case.num_ranks
    run = ranks.call(f"given/traffic.py:{case.traffic}", p, sent, machine=buffered())
    assert_ran(run, case)
    nbytes = round(sum(sent_as_ring(run)))
    if type(value) not in (int, float) or value != nbytes:
        raise Verdict(
            f"{case} is {brief(value)}; it must be {nbytes}, as the network counts of "
            f"given/traffic.py on {p} ranks."
        )


@suite.test(
    "exact",
    "communication",
    group("data_bytes", DataBytes(WIDTHS, 4, 3)),
    *(group(each, ModelBytes(WIDTHS, 4, 3, each)) for each in (SCATTER, REDUCE)),
    weight=3,
)
def test_traced_bytes_of_data_and_model_parallelism(case, run, ranks):
    assert_counted(run, case, ranks)


@suite.test(
    "exact",
    "communication",
    group("paired_bytes", PairedBytes(WIDTHS, 4, 3)),
    *(group(each, HybridBytes(WIDTHS, 4, 2, 3, each)) for each in (SCATTER, REDUCE)),
    weight=3,
)
def test_traced_bytes_of_pairs_and_grids(case, run, ranks):
    assert_counted(run, case, ranks)


@suite.test(
    "grid",
    "speed",
    # Of the second network, more than 3 groups would leave some without samples.
    group(SCATTER, BestGrid(gives=((4, 3),)), BestGrid((2, 2, 2), 3, gives=((4, 3),))),
    group(REDUCE, BestGrid((100, 50, 100), 40, backward=REDUCE, gives=((4, 3), (6, 2)))),
)
def test_best_grid(case, run):
    """Of those that send as little, each is right."""
