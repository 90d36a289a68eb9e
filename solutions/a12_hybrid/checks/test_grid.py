"""grid.py: coordinates, groups and neighbours of any axes in any order."""

from checks.cases_grid import DRAWN, ORDER, SIZES, Coordinates, Groups, Neighbour, Place, Summed
from ringside.checking.suite import Suite, group

suite = Suite("grid")
NO_AXES, ONES, SEVERAL = "no axes", "axes of size 1", "one, two and five axes"
NO_AXIS, SHUFFLED = "no axis", "ranks in any order"
MIXED = {"data": "101100", "tensor": "022101"}


@suite.test(
    "coordinates", "values", Coordinates(gives=DRAWN),
    Coordinates(
        order=("pipe", "tensor", "data"),
        gives={"data": "000000111111", "pipe": "010101010101", "tensor": "001122001122"},
    ), weight=24,
)  # fmt: skip
def test_three_axes_in_every_order(case, run):
    """From one rank to the next the first axis of the order counts up."""


@suite.test(
    "axes", "values",
    group(
        SEVERAL, Coordinates(4, {"data": 4}, ("data",), gives={"data": "0123"}),
        Coordinates(
            12, {"a": 2, "b": 3, "c": 1, "d": 2}, ("d", "a", "c", "b"),
            gives={"a": "001100110011", "b": "000011112222", "c": "0" * 12, "d": "01" * 6},
        ),
        weight=4,
    ),
    group(ONES, Coordinates(
        3, {"data": 1, "pipe": 3}, ("pipe", "data"), gives={"data": "000", "pipe": "012"},
    )),
    group(NO_AXES, Coordinates(1, {}, (), gives={})),
)  # fmt: skip
def test_other_numbers_of_axes(case, run):
    """There may be any number of them."""


@suite.test(
    "refused", "safety", Coordinates(11, raises="ValueError"), Coordinates(13, raises="ValueError"),
    Coordinates(12, {**SIZES, "pipe": -2, "data": -2}, raises="ValueError"), weight=4,
)  # fmt: skip
def test_sizes_that_do_not_fit_are_refused(case, run):
    """Their product is the number of ranks, and each is 1 or more."""


@suite.test(
    "refused", "safety", *(Coordinates(order=order, raises="ValueError")
                   for order in (("data", "pipe"), ("data",) * 3, (*ORDER, "data"))), weight=4,
)  # fmt: skip
def test_orders_that_do_not_name_each_axis_once_are_refused(case, run):
    """With ValueError."""


@suite.test(
    "groups", "values", Groups(gives=[[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]),
    Groups(axes=("data",), gives=[[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8, 11]]),
    Groups(axes=("pipe",), gives=[[k, k + 6] for k in range(6)]),
)  # fmt: skip
def test_groups_of_one_axis(case, run):
    """Who differs in this axis alone."""


@suite.test(
    "several", "values",
    Groups(axes=("tensor", "data"), gives=[[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]),
    Groups(axes=("tensor", "data", "pipe"), gives=[list(range(12))]), weight=5,
)  # fmt: skip
def test_groups_of_several_axes(case, run):
    """Named as they were laid, the fastest first."""


@suite.test(
    "several", "values",
    Groups(axes=("data", "tensor"), gives=[[0, 3, 1, 4, 2, 5], [6, 9, 7, 10, 8, 11]]),
    Groups(axes=("pipe", "data"), gives=[[0, 6, 3, 9], [1, 7, 4, 10], [2, 8, 5, 11]]), weight=3,
)  # fmt: skip
def test_the_first_axis_of_a_group_is_the_fastest(case, run):
    """Whatever the order of the ranks is."""


@suite.test(
    "several", "values", group(NO_AXIS, Groups(axes=(), gives=[[k] for k in range(12)])),
    group(
        SHUFFLED, Groups(MIXED, ("tensor",), gives=[[0, 3, 2], [4, 5, 1]]),
        Groups(MIXED, ("data",), gives=[[4, 0], [1, 2], [5, 3]]),
    ), weight=11,
)  # fmt: skip
def test_groups_of_no_axis_and_of_ranks_in_any_order(case, run):
    """``ranks`` is any such list, also one that ``coordinates`` didn't make."""


@suite.test(
    "refused", "safety", Groups(axes=("expert",), raises="ValueError"),
    Groups(axes=("data", "data"), raises="ValueError"), weight=3,
)  # fmt: skip
def test_groups_of_unknown_axes_are_refused(case, run):
    """With ValueError, and so are axes that are named twice."""


@suite.test(
    "neighbours", "values",
    Neighbour(rank=5, gives=3), Neighbour(rank=1, axis="data", step=-1, gives=4),
    Neighbour(rank=9, step=-2, gives=10), Neighbour(rank=2, axis="pipe", step=3, gives=8),
    Neighbour(rank=1, step=7, gives=2), Neighbour(rank=3, axis="data", step=-5, gives=0), weight=9,
)  # fmt: skip
def test_neighbours_on_a_ring(case, run):
    """Coordinates count modulo the size of the axis."""


@suite.test(
    "neighbours", "values", Neighbour(rank=5, wrap=False, gives="None"),
    Neighbour(axis="pipe", wrap=False, gives=6),
    Neighbour(rank=1, axis="data", step=-1, wrap=False, gives="None"), weight=7,
)  # fmt: skip
def test_neighbours_where_an_axis_ends(case, run):
    """Beyond both ends there is nobody."""


@suite.test(
    "place", "communication",
    Place(inside=("pipe",)), Place(inside=("pipe", "tensor"), ranks_per_node=6),
    Place(inside=("tensor",), ranks_per_node=3), Place(ranks_per_node=5),
    Place(inside=("data", "tensor"), ranks_per_node=20),
)  # fmt: skip
def test_asked_axes_are_inside_nodes(case, run):
    """Any order is right in which each group is on one node."""


@suite.test(
    "place", "safety", Place(inside=("data", "tensor"), ranks_per_node=8, raises="ValueError"),
    Place(inside=("tensor",), raises="ValueError"), Place(inside=("expert",), raises="ValueError"),
)  # fmt: skip
def test_groups_that_would_cross_nodes_are_refused(case, run):
    """With ValueError."""


test_real_mpi = suite.real_ranks(
    "coordinates", Summed(), Summed(axes=("data",), groups=((0, 2), (1, 3))), weight=2
)
