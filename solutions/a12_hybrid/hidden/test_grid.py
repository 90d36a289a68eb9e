"""grid.py: coordinates, groups and neighbours of any axes in any order."""

import itertools
import math

from ringside.checking import Verdict, assert_ran, buffered
from ringside.checking.points import points_of
from solutions.a12_hybrid.hidden.grid2d_oracle import grid_cases as cases
from solutions.a12_hybrid.hidden.parts import checked

points = points_of("grid")

THREE = {"data": 2, "pipe": 4, "tensor": 3}
FIVE = {"expert": 2, "data": 3, "context": 2, "pipe": 5, "tensor": 2}


def call_of(sizes, order):
    return math.prod(sizes.values()), sizes, order


def check_coordinates(ranks, drawn):
    cases.check_grid(ranks, "coordinates", [call_of(*each) for each in drawn])


def in_order(sizes, order=None):
    return cases.Laid(sizes, list(order or sizes))


def check_groups(ranks, calls):
    cases.check_grid(ranks, "groups", calls)


# -- coordinates -----------------------------------------------------------------------------------


@points(14, "values")
def test_three_axes_in_every_order(ranks, rng):
    check_coordinates(ranks, [(THREE, list(order)) for order in itertools.permutations(THREE)])


@points(12, "values")
def test_other_numbers_of_axes(ranks, rng):
    def several():
        drawn = [({"data": 6}, ["data"]), ({"rows": 3, "columns": 4}, ["columns", "rows"])]
        drawn += [(FIVE, list(rng.permutation(list(FIVE)))) for _ in range(3)]
        check_coordinates(ranks, [(sizes, [str(each) for each in order]) for sizes, order in drawn])

    def size_1():
        sizes = {"data": 1, "pipe": 3, "tensor": 1}
        orders = itertools.permutations(sizes)
        check_coordinates(ranks, [(sizes, list(order)) for order in orders])

    checked(
        {
            "one, two and five axes": several,
            "axes of size 1": size_1,
            "no axes": lambda: check_coordinates(ranks, [({}, [])]),
        },
        {"one, two and five axes": 4},
    )


@points(7, "safety")
def test_sizes_that_do_not_fit_are_refused(ranks, rng):
    order = ["tensor", "pipe", "data"]
    calls = [(23, THREE, order), (25, THREE, order), (48, THREE, order), (0, THREE, order)]
    calls += [(-24, {**THREE, "pipe": -4}, order), (24, {**THREE, "pipe": -4, "data": -2}, order)]
    cases.check_grid(ranks, "coordinates", [*calls, (0, {"data": 0}, ["data"])])


@points(5, "safety")
def test_orders_that_do_not_name_each_axis_once_are_refused(ranks, rng):
    orders = (["data", "pipe"], ["data", "pipe", "pipe"], ["data", "pipe", "tensor", "data"])
    orders = (*orders, ["data", "pipe", "expert"])
    cases.check_grid(ranks, "coordinates", [(24, THREE, order) for order in orders])


# -- groups ----------------------------------------------------------------------------------------


@points(12, "values")
def test_groups_of_one_axis(ranks, rng):
    orders = (["tensor", "data", "pipe"], ["pipe", "tensor", "data"], ["data", "pipe", "tensor"])
    check_groups(ranks, [(in_order(THREE, order), [axis]) for order in orders for axis in THREE])


@points(9, "values")
def test_groups_of_several_axes(ranks, rng):
    # Named as they were laid, the fastest first: only who is in a group is asked.
    three, five = list(THREE), list(FIVE)
    calls = [(in_order(THREE), list(axes)) for axes in itertools.combinations(three, 2)]
    calls += [(in_order(FIVE), [five[k] for k in chosen]) for chosen in ((0, 2), (1, 3, 4), (2,))]
    check_groups(ranks, [*calls, (in_order(THREE), three)])


@points(7, "values")
def test_the_first_axis_of_a_group_is_the_fastest(ranks, rng):
    axes = list(itertools.permutations(THREE))
    check_groups(ranks, [(in_order(THREE), list(each[:2])) for each in axes])


@points(8, "values")
def test_groups_of_no_axis_and_of_ranks_in_any_order(ranks, rng):
    shuffled = cases.Laid(THREE, list(THREE), int(rng.integers(2**31)))
    none = [(in_order(THREE), []), (in_order({"data": 3}), [])]
    checked(
        {
            "no axis": lambda: check_groups(ranks, none),
            "ranks in any order": lambda: check_groups(ranks, [(shuffled, [a]) for a in THREE]),
        }
    )


@points(3, "safety")
def test_groups_of_unknown_axes_are_refused(ranks, rng):
    calls = [(in_order(THREE), axes) for axes in (["expert"], ["data", "experts"], ["pipe"] * 2)]
    cases.check_grid(ranks, "groups", calls)


# -- neighbours ------------------------------------------------------------------------------------


def check_neighbours(ranks, grids, steps, wrap):
    tried = itertools.product(grids, (0, 7, 13, 23), THREE, steps)
    cases.check_grid(ranks, "neighbour", [(*each, wrap) for each in tried])


@points(7, "values")
def test_neighbours_on_a_ring(ranks, rng):
    grids = [in_order(THREE), in_order(THREE, ["tensor", "data", "pipe"])]
    check_neighbours(ranks, grids, (1, -1, 2), True)


@points(5, "values")
def test_neighbours_where_an_axis_ends(ranks, rng):
    check_neighbours(ranks, [in_order(THREE, ["pipe", "tensor", "data"])], (1, -1, 3), False)


# -- nodes -----------------------------------------------------------------------------------------


@points(6, "communication")
def test_asked_axes_are_inside_nodes(ranks, rng):
    calls = [
        (24, THREE, ["tensor"], 3), (24, THREE, ["pipe"], 4), (24, THREE, ["pipe"], 8),
        (24, THREE, ["pipe", "data"], 8), (24, THREE, ["tensor", "data"], 6),
        (120, FIVE, ["tensor", "expert"], 4), (120, FIVE, ["pipe", "context"], 10),
        (24, THREE, ["tensor", "pipe"], 30), (12, {"data": 4, "tensor": 3}, ["tensor"], 9),
        (24, THREE, [], 5), (24, THREE, ["data", "pipe", "tensor"], 24),
    ]  # fmt: skip
    cases.check_grid(ranks, "place", calls)


@points(3, "safety")
def test_groups_that_would_cross_nodes_are_refused(ranks, rng):
    calls = [
        (24, THREE, ["tensor"], 4), (24, THREE, ["tensor"], 2), (24, THREE, ["pipe"], 6),
        (24, THREE, ["data", "tensor"], 8), (24, THREE, ["data", "pipe", "tensor"], 23),
        (24, THREE, ["expert"], 4),
    ]  # fmt: skip
    cases.check_grid(ranks, "place", calls)


@points(2, "reality")
def test_real_mpi(mpi, ranks, rng):
    sizes, axes = {"data": 2, "tensor": 2}, ["tensor"]
    for order in (["tensor", "data"], ["data", "tensor"]):
        case = cases.grid_sum_case(sizes, order, axes)
        run = ranks.call("callers:grid_summed", 4, [(sizes, order, axes)] * 4, machine=buffered())
        assert_ran(run, case)
        cases.check_grid_sums(run.values, sizes, order, axes, case.seen_in(run))
        jobs = [("callers:grid_summed", 4, [(sizes, order, axes)] * 4)]
        for result in mpi.call_all(jobs):
            try:
                assert_ran(result, case)
                cases.check_grid_sums(result.values, sizes, order, axes, case)
            except Verdict as verdict:
                line = case.line.replace("run", "launch", 1).replace(
                    "--ranks 4", "--site local --set ranks_per_node=4"
                )
                raise Verdict(f"under mpiexec: {verdict.sentence}", reproduce=line) from None
