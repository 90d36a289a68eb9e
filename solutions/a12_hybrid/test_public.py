"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators.
"""

from einsum_graph import MLP_SIZES
from layout_cases import layout_case, layout_check, layout_counted

from ringside.checking import on_three_members
from ringside.checking.points import points

# -- layout ----------------------------------------------------------------------------------------
LAYOUT_ALL = {"all": 4}
LAYOUT_GRID = {"rows": 2, "columns": 3}


@points(10, "values", "layout")
def test_layout_shapes(ranks):
    calls = [
        (["batch", "wide"], MLP_SIZES, {"batch": "all"}, LAYOUT_ALL),
        (["batch", "hidden"], MLP_SIZES, {"batch": "rows", "hidden": "columns"}, LAYOUT_GRID),
        (["batch", "hidden"], MLP_SIZES, {"batch": "all", "hidden": "all"}, LAYOUT_ALL),
        (["batch"], MLP_SIZES, {"batch": "columns"}, LAYOUT_GRID),
        (["batch"], MLP_SIZES, {"batch": "depth"}, LAYOUT_GRID),
    ]
    layout_check(ranks, "local_shape", calls, [(2, 4), (4, 4), *["ValueError"] * 3])


@points(15, "values", "layout")
def test_layout_forward(ranks):
    calls = [("MLP", {dim: "all"}, LAYOUT_ALL) for dim in ("hidden", "batch", "wide")]
    layout_check(ranks, "forward", calls, [[["y", ["all"], 32]], [], [["h", ["all"], 96]]])
    both = ("MLP", {"batch": "rows", "hidden": "columns"}, LAYOUT_GRID)
    layout_check(ranks, "forward", [both], [[["y", ["columns"], 16]]])


@points(10, "values", "layout")
def test_layout_forward_over_two_axes(ranks):
    told = [{"a": ["i", "j"], "b": ["i", "j"], "s": []}, [["s", ["a", "b"]]], [], {"i": 4, "j": 6}]
    calls = [
        (told, {"j": "rows", "i": "columns"}, {"rows": 3, "columns": 2}),
        (told, {"i": "rows", "j": "columns"}, {"rows": 1, "columns": 2}),
    ]
    right = [[["s", ["rows", "columns"], 1]], [["s", ["columns"], 1]]]
    layout_check(ranks, "forward", calls, right)


@points(20, "values", "layout")
def test_layout_backward(ranks):
    calls = [("MLP", {dim: "all"}, LAYOUT_ALL) for dim in ("batch", "hidden", "out")]
    right = [[["w2", ["all"], 48], ["w1", ["all"], 48]], [], [["h", ["all"], 96]]]
    layout_check(ranks, "backward", calls, right)


@points(5, "values", "layout")
def test_layout_dimensions_that_meet_in_a_step(ranks):
    calls = [("MLP", {"batch": "all", "hidden": "all"}, LAYOUT_ALL)]
    layout_check(ranks, "forward", calls, ["ValueError"])
    told = [{"a": ["i"], "b": ["j"], "s": []}, [["s", ["a", "b"]]], [], {"i": 4, "j": 4}]
    layout_check(ranks, "backward", [(told, {"i": "all", "j": "all"}, LAYOUT_ALL)], ["ValueError"])


@points(10, "values", "layout")
def test_layout_bytes(ranks):
    calls = [
        ([["y", ["all"], 32]], LAYOUT_ALL, 8),
        ([["y", ["rows", "columns"], 6]], LAYOUT_GRID, 8),
    ]
    layout_check(ranks, "sent_bytes", calls, [384.0, 80.0])


@points(10, "values", "layout")
def test_layout_placements(ranks):
    right = {
        ("P", "R"): "all-reduce", ("P", "S(0)"): "reduce-scatter", ("S(0)", "R"): "all-gather",
        ("S(0)", "S(1)"): "all-to-all", ("R", "S(1)"): "", ("R", "P"): "ValueError",
    }  # fmt: skip
    layout_check(ranks, "collective", right, right.values())


@points(15, "values", "layout")
def test_layout_runs(ranks):
    layout_counted(ranks, layout_case("MLP", {"batch": "all"}, {"all": 4}), 0)
    both = {"batch": "rows", "hidden": "columns"}
    # y: 8 x 4 elements on two halves of 4 x 4, each summed by three ranks
    case = layout_case("MLP", both, LAYOUT_GRID)
    layout_counted(ranks, case, 2 * 2 * 2 * 16 * 8)


@points(5, "communication", "layout")
def test_layout_on_members(ranks, rng):
    case = layout_case("MLP", {"hidden": "all"}, {"all": 3})
    on_three_members(rng, lambda **there: (case, layout_counted(ranks, case, 1024, **there)))
