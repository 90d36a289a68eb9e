"""cost.py: bytes to the byte and times to rounding, against what the network counts."""

from checks.cases_cost import (
    Best,
    DataBytes,
    DataS,
    DomainBytes,
    DomainS,
    FilterBytes,
    FilterS,
)
from ringside.checking.suite import Suite, group

suite = Suite("cost")
DATA, FILTER, DOMAIN = "data parallelism", "filter parallelism", "domain parallelism"
LAYERS = ((8, 8, 2, 4, 3, 3),)  # the docstring's example
TWO = ((8, 16, 2, 8, 3, 3), (8, 8, 8, 4, 5, 1))
FLAT = ((8, 8, 2, 4, 1, 1),)
OBLONG = ((9, 7, 3, 3, 5, 1), (9, 7, 3, 3, 1, 7), (9, 7, 3, 3, 3, 5))
WIDE = ((4, 4, 64, 512, 3, 3), (4, 4, 512, 512, 3, 3))
FEW = ((1, 1, 2048, 12, 3, 3),)  # two filters on the busiest of 8 ranks
LARGE = ((2048, 2048, 3, 16, 3, 3), (1024, 1024, 16, 32, 3, 3), (512, 512, 32, 64, 3, 3))
SLOW = "textbook,alpha_s=1e-4"


@suite.test(
    "data",
    "values",
    DataBytes(LAYERS, 3, 4, gives=1728),
    DataBytes(TWO, 3, 5, gives=9728),
    weight=7,
)
def test_bytes_of_data_parallelism(case, run):
    """To the byte."""


@suite.test(
    "filter",
    "values",
    FilterBytes(LAYERS, 3, 4, gives=9216),
    FilterBytes(TWO, 3, 5, gives=86016),
    weight=10,
)
def test_bytes_of_filter_parallelism(case, run):
    """To the byte."""


@suite.test(
    "domain", "values", DomainBytes(LAYERS, 3, 4, gives=2880), DomainBytes(TWO, 3, 5, gives=31232),
    DomainBytes(LAYERS, 3, 1, gives=0), weight=7,
)  # fmt: skip
def test_bytes_of_domain_parallelism(case, run):
    """To the byte."""


@suite.test("domain", "values", DomainBytes(OBLONG, 3, 3, gives=7920), weight=3)
def test_kernels_that_are_not_square(case, run):
    """Rows of a halo are those of the kernel."""


@suite.test(
    "elements", "values", group(DATA, DataBytes(LAYERS, 3, 4, 8, gives=3456)),
    group(FILTER, FilterBytes(LAYERS, 3, 4, 8, gives=18432)),
    group(DOMAIN, DomainBytes(LAYERS, 3, 4, 8, gives=5760)),
)  # fmt: skip
def test_bytes_of_an_element(case, run):
    """Any size of an element."""


@suite.test(
    "data",
    "values",
    DataS(LAYERS, 3, 4, gives=6.432e-06),
    DataS(TWO, 3, 5, gives=1.79456e-05),
    weight=8,
)
def test_time_of_data_parallelism(case, run):
    """To rounding."""


@suite.test(
    "filter",
    "values",
    FilterS(LAYERS, 3, 4, gives=5.304e-06),
    FilterS(TWO, 3, 5, gives=2.92032e-05),
    weight=8,
)
def test_time_of_filter_parallelism(case, run):
    """To rounding."""


@suite.test(
    "domain", "values",
    DomainS(LAYERS, 3, 4, gives=7.816e-06), DomainS(TWO, 3, 5, gives=2.63216e-05),
    DomainS(LAYERS, 3, 1, gives=0.0), weight=7,
)  # fmt: skip
def test_time_of_domain_parallelism(case, run):
    """To rounding."""


@suite.test("none", "values", DomainS(FLAT, 3, 4, gives=6.048e-06), weight=3)
def test_halo_without_rows_takes_no_time(case, run):
    """Nor does it pay a latency."""


@suite.test("none", "values", DomainS(LAYERS, 3, 2, gives=3.48e-06), weight=4)
def test_two_ranks_have_one_neighbour_each(case, run):
    """A halo is one message there."""


@suite.test(
    "counted", "communication", group(DATA, DataBytes(TWO, 2)), group(FILTER, FilterBytes(TWO, 2)),
    group(DOMAIN, DomainBytes(TWO, 2)), weight=10,
)  # fmt: skip
def test_traced_bytes(case, run, ranks):
    case.check_counted(run, case.counted(ranks)[0])


@suite.test(
    "counted", "communication", group(DATA, DataS(TWO, 2)), group(FILTER, FilterS(TWO, 2)),
    group(DOMAIN, DomainS(TWO, 2)), weight=9,
)  # fmt: skip
def test_traced_times(case, run, ranks):
    case.check_counted(run, case.counted(ranks)[1])


@suite.test(
    "best", "speed",
    Best(LARGE, 1, 8, gives=(("filter", 507.311), ("domain", 9.20061))),
    Best(LARGE, 64, 8, gives=(("data", 522.045), ("filter", 32465.7), ("domain", 575.527))),
    Best(WIDE, 1, 4, gives=(("filter", 0.14407), ("domain", 16.0364))),
    Best(FEW, 8, 8, gives=(("data", 1.56317), ("filter", 0.00851565))),
    Best(FEW, 8, 8, wire="textbook,flop_per_s=1e8", gives=(("data", 10.4096), ("filter", 11.8038))),
    weight=10,
)  # fmt: skip
def test_best_for_a_resolution(case, run):
    """Any of those that take the same time."""


@suite.test(
    "best", "speed",
    Best(((16, 16, 3, 8, 3, 3), (8, 8, 8, 8, 3, 3)), 4, 16, raises="ValueError"), weight=4,
)  # fmt: skip
def test_best_where_none_is_possible(case, run):
    """It is refused."""
