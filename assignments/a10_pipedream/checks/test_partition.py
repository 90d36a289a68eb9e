"""partition.py: what a plan costs, and the plan that costs least."""

from checks.cases_plan import FREE, Long, Partition, PlanBytes, PlanS, Published
from ringside.checking.suite import Suite, group

suite = Suite("partition")
GB = 10**9
# Layers: seconds, bytes of output, bytes of weights. The first profile is the docstring's.
SMALL = ((4, GB, GB), (2, GB, GB), (2, GB, 2 * GB))
FIVE = (
    (2, 4 * 10**8, 10**8), (1, 9 * 10**8, 10**8), (3, 10**8, 5 * 10**8), (2, 3 * 10**8, 2 * GB),
    (1, 10**7, 3 * GB),
)  # fmt: skip
HEAVY = (
    (2, 3 * GB, 10**13), (3, 10**8, 10**13), (1, 2 * GB, 10**13), (2, 10**8, 10**13),
    (1, 10**8, 10**13),
)  # fmt: skip
NO_OUTPUT = ((2, 0, 3 * GB), (5, 0, 10**8), (1, 0, 6 * GB))
STRAIGHT, REPLICATED = "plans without replicas", "plans with replicas"
LINKS = "links between replicated stages"
ONE, MORE = "one worker", "more workers than layers"
FAST, SLOW = "fast links", "slow links"


@suite.test(
    "time", "values", group(STRAIGHT, PlanS(SMALL, ((0, 2, 1), (2, 3, 1)), 2.5e8, gives=8.0)),
    group(REPLICATED, PlanS(SMALL, ((0, 3, 4),), 1e9, gives=6.0),
          PlanS(SMALL, ((0, 3, 4),), gives=2.0), weight=2),
    group(LINKS, PlanS(SMALL, ((0, 1, 2), (1, 3, 1)), 1e9, gives=4.0),
          PlanS(SMALL, ((0, 2, 2), (2, 3, 1)), 1e9, gives=3.0)),
)  # fmt: skip
def test_time_of_plans(case, run):
    """The slowest stage or link."""


@suite.test(
    "kept", "memory", PlanBytes(SMALL, ((0, 1, 2), (1, 3, 1)), gives=[4 * GB, 5 * GB]),
    PlanBytes(SMALL, ((0, 1, 1), (1, 2, 1), (2, 3, 1)), gives=[6 * GB, 4 * GB, 3 * GB]),
    PlanBytes(SMALL, ((0, 2, 1), (2, 3, 3)), gives=[16 * GB, 3 * GB]),
)  # fmt: skip
def test_bytes_that_a_worker_keeps(case, run):
    """Versions times weights and outputs."""


@suite.test(
    "shortest", "values", Partition(SMALL, 2, gives=4.0), Partition(SMALL, 4, gives=2.0),
    Partition(FIVE, 3, gives=3.0), Partition(FIVE, 4, gives=2.25),
)  # fmt: skip
def test_plans_where_messages_are_free(case, run):
    """Computation alone counts."""


@suite.test(
    "links", "values", Partition(HEAVY, 3, 1e9, gives=5.0), Partition(HEAVY, 3, 4e9, gives=4.0),
    Partition(FIVE, 3, 2e8, gives=3.5),
)  # fmt: skip
def test_plans_where_activations_take_long(case, run):
    """Weights so heavy that no stage is replicated: what counts is where to cut."""


@suite.test(
    "averaging",
    "values",
    Partition(NO_OUTPUT, 4, 1e9, gives=2.5),
    Partition(NO_OUTPUT[2:], 4, 1e9, gives=1.0),
)
def test_plans_where_averaging_takes_long(case, run):
    """What counts is which layers to replicate, and how often; some workers are left idle."""


@suite.test(
    "all", "values", Partition(SMALL, 3, 1e9, gives=3.0), Partition(FIVE, 4, 1e9, gives=3.0),
    Partition(FIVE, 4, 5e9, gives=2.25), weight=3,
)  # fmt: skip
def test_plans_where_everything_counts(case, run):
    """Computation, averaging and links."""


@suite.test(
    "all", "values", group(ONE, Partition(FIVE, 1, 1e9, gives=9.0)),
    group(MORE, Partition(FIVE[:1], 4, 1e9, gives=0.5), Partition(SMALL[:2], 5, 1e9, gives=2.0)),
    weight=2,
)  # fmt: skip
def test_one_layer_and_one_worker(case, run):
    """And more workers than layers."""


@suite.test(
    "all", "values", group(FAST, Published(bytes_per_s=6e9, gives=0.0424106), weight=5),
    group(SLOW, Published(bytes_per_s=1.25e9, gives=0.0822083584), weight=3), weight=2,
)  # fmt: skip
def test_published_plan_of_vgg16(case, run):
    """15 workers in the first stage and 1 in the second; on slow links others are as fast."""


@suite.test(
    "fits", "memory", Partition(SMALL, 3, 1e9, 5 * GB, gives=4.0),
    Partition(FIVE, 4, 1e9, 5 * GB, gives=3.0), Partition(FIVE, 4, FREE, 7 * GB, gives=7 / 3),
    weight=5,
)  # fmt: skip
def test_shortest_plan_that_fits(case, run):
    """Where the shortest of all plans doesn't."""


@suite.test("fits", "safety", Partition(FIVE, 4, 1e9, 2 * GB, raises="ValueError"), weight=2)
def test_refuses_where_no_plan_fits(case, run):
    """By a ValueError."""


@suite.test("shortest", "speed", Long((1, 14, 0.3, 0.3), 5, 5e9, gives=4.0412))
def test_better_than_equally_many_layers(case, run):
    """Longer profiles."""


# Last of all: a planner that tries all plans spends the CPU time of this module here.
@suite.test("large", "speed", Long((2, 50, 0.3, 0.3), 64, 5e9, gives=1.16376923))
def test_fifty_layers_on_sixty_four_workers(case, run):
    """More plans than can be tried."""
