"""layout.py: shapes, all-reduces and bytes of layouts, and a program that doesn't change."""

import itertools
from math import prod

from ringside.checking import Verdict, assert_inputs_kept, assert_ran, members_of_world, on_members
from ringside.checking.points import points_of
from solutions.a12_hybrid.hidden.oracle import examples
from solutions.a12_hybrid.hidden.parts import checked

cases = examples.layout_cases
layout_case, layout_check, layout_counted = (
    cases.layout_case, cases.layout_check, cases.layout_counted,
)  # fmt: skip
ALL, GRID = {"all": 4}, {"rows": 2, "columns": 3}
MLP, SIZES = cases.GRAPHS["MLP"]
# A product of three tensors, a dimension that nothing shares, and one tensor in two steps.
TENSORS = {
    "a": ["n", "i"], "b": ["i", "j"], "c": ["j", "k"], "u": ["n", "k"], "v": ["n", "k"],
    "s": ["n", "m"], "d": ["k", "m"],
}  # fmt: skip
STEPS = [["u", ["a", "b", "c"]], ["v", ["a", "b", "c"]], ["s", ["v", "d"]]]
LONGER = [TENSORS, STEPS, ["a"], {"n": 6, "i": 4, "j": 12, "k": 6, "m": 4}]
THREE = [{name: TENSORS[name] for name in "abcu"}, STEPS[:1], [], LONGER[3]]
MORE = {"rows": 2, "columns": 4}
APART = [{"a": ["i"], "b": ["j"], "s": []}, [["s", ["a", "b"]]], [], {"i": 4, "j": 4}]

points = points_of("layout")


def reductions(function, told, layout, mesh):
    """The all-reduces of a pass: what a step sums over, and the parts of what it makes."""
    graph, sizes = cases.layout_graph(told)
    if function == "forward":
        made = [(step, step.output) for step in graph.steps]
    else:
        made = [(step, name) for step in graph.steps[::-1] for name in step.inputs
                if name not in graph.data]  # fmt: skip
    found = []
    for step, name in made:
        there = graph.tensors[name]
        axes = {layout[d] for d in graph.dims(step) if d in layout and d not in there}
        axes = [axis for axis in mesh if axis in axes and mesh[axis] > 1]
        parts = [sizes[d] // (mesh[layout[d]] if d in layout else 1) for d in there]
        found += [[name, axes, prod(parts)]] if axes else []
    return found


def check_reductions(ranks, function, calls):
    layout_check(ranks, function, calls, [reductions(function, *call) for call in calls])


def needed_bytes(case):
    """Of all ranks together: 2 (p - 1) parts for each sum over p of them, in each group."""
    listed = reductions("forward", case.told, case.layout, case.mesh)
    itemsize = 4 if case.dtype == "float32" else 8
    total = 0
    for _, axes, num_elements in listed:
        p = prod(case.mesh[axis] for axis in axes)
        total += case.world_size // p * 2 * (p - 1) * num_elements * itemsize
    return total


def counted(ranks, *words, **options):
    case = layout_case(*words)
    return layout_counted(ranks, case, needed_bytes(case), **options)


# -- values ----------------------------------------------------------------------------------------


@points(8, "values")
def test_layout_shapes(ranks):
    calls = [
        (["batch", "wide"], SIZES, {"batch": "all"}, ALL),
        (["batch", "hidden"], SIZES, {"batch": "rows", "hidden": "columns"}, GRID),
        (["wide", "hidden"], SIZES, {"batch": "rows"}, GRID),
        (["batch"], SIZES, {"batch": "one"}, {"one": 1}),
        ([], SIZES, {"batch": "all"}, ALL),
    ]
    layout_check(ranks, "local_shape", calls, [(2, 4), (4, 4), (4, 12), (8,), ()])


@points(5, "values")
def test_layout_shapes_refused(ranks):
    calls = [
        (["wide", "hidden"], SIZES, {"wide": "all", "hidden": "all"}, ALL),
        (["batch", "hidden"], SIZES, {"batch": "columns"}, GRID),
        (["batch"], SIZES, {"batch": "depth"}, GRID),
    ]
    layout_check(ranks, "local_shape", calls, ["ValueError"] * 3)


@points(12, "values")
def test_layout_forward(ranks):
    axes = ({"hidden": "all"}, {"batch": "all"}, {"wide": "all"}, {"out": "all"}, {})
    check_reductions(ranks, "forward", [("MLP", each, ALL) for each in axes])
    check_reductions(ranks, "forward", [("MLP", {"batch": "rows", "hidden": "columns"}, GRID)])
    calls = [
        ("ATTENTION", each, ALL) for each in ({"head": "all"}, {"batch": "all"}, {"key": "all"})
    ]
    check_reductions(ranks, "forward", calls)


@points(10, "values")
def test_layout_forward_over_two_axes_and_axes_of_one_rank(ranks):
    told = {"i": "rows", "j": "columns"}, {"wide": "rows", "hidden": "columns"}
    calls = [(LONGER, told[0], GRID), ("MLP", told[1], {"rows": 2, "columns": 2})]
    calls.append((LONGER, {"i": "columns", "j": "rows"}, {"rows": 3, "columns": 2}))
    calls.append((LONGER, {"j": "x"}, {"y": 3, "x": 2}))
    mesh, both = {"one": 1, "all": 2}, {"hidden": "one", "wide": "all"}
    alone = [("MLP", both, mesh), ("MLP", {"hidden": "one"}, mesh)]
    checked(
        {
            "two axes": lambda: check_reductions(ranks, "forward", calls),
            "axes of one rank": lambda: check_reductions(ranks, "forward", alone),
        },
        {"two axes": 2},
    )


@points(14, "values")
def test_layout_backward(ranks):
    check_reductions(ranks, "backward", [("MLP", {dim: "all"}, ALL) for dim in ("batch", "out")])
    check_reductions(ranks, "backward", [("MLP", {"batch": "rows", "out": "columns"}, MORE)])
    check_reductions(ranks, "backward", [("ATTENTION", {"batch": "all"}, ALL)])
    # In a product of three, j is a dimension of the other inputs alone.
    check_reductions(ranks, "backward", [(THREE, {dim: "all"}, {"all": 2}) for dim in "nijk"])


@points(5, "values")
def test_layout_backward_order_and_what_has_no_gradient(ranks):
    calls = [(LONGER, {"n": "all"}, {"all": 3}), (LONGER, {"k": "all"}, {"all": 2})]
    check_reductions(ranks, "backward", [*calls, ("MLP", {"hidden": "all"}, ALL)])


@points(4, "values")
def test_layout_dimensions_that_meet_in_a_step_alone(ranks):
    calls = [(APART, {"i": "all", "j": "all"}, ALL), ("MLP", {"batch": "all", "wide": "all"}, ALL)]
    for function in ("forward", "backward"):
        layout_check(ranks, function, calls, ["ValueError"] * 2)


@points(10, "values")
def test_layout_placements(ranks):
    right = {
        ("P", "R"): "all-reduce", ("P", "S(0)"): "reduce-scatter", ("S(1)", "R"): "all-gather",
        ("S(0)", "S(1)"): "all-to-all", ("S(1)", "S(1)"): "", ("R", "S(0)"): "", ("R", "R"): "",
        ("P", "P"): "", ("R", "P"): "ValueError", ("S(0)", "P"): "ValueError",
    }  # fmt: skip
    layout_check(ranks, "collective", right, right.values())


@points(8, "values")
def test_layout_runs_on_one_axis(ranks):
    for axes in ({"batch": "all"}, {"hidden": "all"}, {"wide": "all"}):
        counted(ranks, "MLP", axes, {"all": 4}, 1)
    counted(ranks, "ATTENTION", {"head": "all"}, {"all": 2}, 2)
    counted(ranks, LONGER, {"j": "all"}, {"all": 3}, 3, "float32")


@points(11, "values")
def test_layout_result_does_not_depend_on_it(ranks):
    """Every layout that may be, of two dimensions on two axes, on 2 x 2 ranks."""
    mesh = {"rows": 2, "columns": 2}
    for one, other in itertools.permutations(SIZES, 2):
        told = {one: "rows", other: "columns"}
        counted(ranks, "MLP", told, mesh, 4)
    counted(
        ranks, "ATTENTION", {"batch": "a", "head": "b", "key": "c"}, {"a": 1, "b": 2, "c": 4}, 5
    )


@points(4, "reality")
def test_layout_real_mpi(mpi, ranks):
    tried = [layout_case("MLP", {"hidden": "all"}, {"all": 4}, 6),
             layout_case("MLP", {"batch": "a", "hidden": "b"}, {"a": 2, "b": 2}, 7)]  # fmt: skip
    for case in tried:
        layout_counted(ranks, case, needed_bytes(case))
    jobs = [("callers:layout_executed", c.world_size, c.arguments_of_ranks()) for c in tried]
    for case, result in zip(tried, mpi.call_all(jobs), strict=True):
        try:
            assert_ran(result, case)
            for rank, value in enumerate(result.values):
                case.check(rank, value)
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}", reproduce=case.real_line,
                detail=verdict.detail,
            ) from None  # fmt: skip


# -- communication and safety ----------------------------------------------------------------------


@points(4, "communication")
def test_layout_on_more_ranks(ranks):
    counted(
        ranks, "ATTENTION", {"batch": "a", "head": "b", "wide": "c"}, {"a": 2, "b": 2, "c": 4}, 8
    )
    sizes = {"batch": 20, "wide": 4, "hidden": 40, "out": 4}
    told = cases.layout_told(MLP, sizes)
    counted(ranks, told, {"hidden": "all"}, {"all": 20}, 9)
    counted(ranks, told, {"batch": "a", "hidden": "b"}, {"a": 2, "b": 5}, 10)
    counted(ranks, LONGER, {"i": "rows", "j": "columns"}, GRID, 12)


@points(3, "communication")
def test_layout_given_communicator(ranks, rng):
    case = layout_case("MLP", {"batch": "a", "hidden": "b"}, {"a": 2, "b": 2}, 11)
    members = members_of_world(rng, prod(case.mesh.values()))
    nbytes = needed_bytes(case)
    on_members(lambda **there: layout_counted(ranks, case, nbytes, **there), *members, case)


@points(2, "safety")
def test_layout_inputs_and_a_second_run(ranks):
    case = layout_case("MLP", {"hidden": "all"}, {"all": 3}, 12)
    looked = case.via("layout_kept", about=", twice, with arrays that can't be written to")
    result = ranks.call("callers:layout_kept", 3, case.arguments_of_ranks())
    assert_ran(result, looked)
    for rank, values in enumerate(result.values):
        for value in values:
            looked.check(rank, value)
    assert_inputs_kept(result, looked)
