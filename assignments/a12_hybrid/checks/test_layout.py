"""layout.py: shapes, all-reduces and bytes of layouts, and a program that doesn't change."""

from checks.cases_layout import ALL, Backward, Collective, Execute, Forward, LocalShape
from ringside.checking.ring_bytes import sent_as_ring
from ringside.checking.suite import Suite, group

suite = Suite("layout")
TWO, ONES = "two axes", "axes of one rank"
SQUARE = {"rows": 2, "columns": 2}
TWO_AXES, HIDDEN = {"i": "rows", "j": "columns"}, {"batch": "rows", "hidden": "columns"}


def counted(case, run):
    """All ranks together send what the layout needs."""
    sent = sum(sent_as_ring(run))
    if case.sends >= 0 and round(sent) != case.sends:
        raise case.fail(
            f"all ranks together send {sent:,.0f} bytes, where an all-reduce counts as a ring's; "
            f"the layout needs {case.sends:,}."
        )


@suite.test(
    "shapes", "values", LocalShape(("batch", "wide"), {"batch": "all"}, ALL, gives=(2, 4)),
    LocalShape(gives=(4, 4)), LocalShape(("wide", "hidden"), {"batch": "rows"}, gives=(4, 12)),
    weight=7,
)  # fmt: skip
def test_layout_shapes(case, run):
    """A dimension on an axis is cut."""


@suite.test(
    "shapes", "values",
    LocalShape(layout={"batch": "all", "hidden": "all"}, mesh=ALL, raises="ValueError"),
    LocalShape(layout={"batch": "columns"}, raises="ValueError"),
    LocalShape(layout={"batch": "depth"}, raises="ValueError"), weight=3,
)  # fmt: skip
def test_layout_shapes_refused(case, run):
    """Two dimensions on one axis, a length that isn't a multiple, an axis that isn't there."""


@suite.test(
    "forward", "values",
    Forward(layout={"hidden": "all"}, gives=[("y", ("all",), 32)]), Forward(gives=[]),
    Forward(layout={"wide": "all"}, gives=[("h", ("all",), 96)]),
    Forward(layout=HIDDEN, mesh={"rows": 2, "columns": 3}, gives=[("y", ("columns",), 16)]),
)  # fmt: skip
def test_layout_forward(case, run):
    """Where a dimension that is summed over is cut."""


@suite.test(
    "axes", "values",
    group(TWO, Forward(
        "APART", {"j": "rows", "i": "columns"}, {"rows": 2, "columns": 4},
        gives=[("s", ("rows", "columns"), 1)],
    ), weight=2),
    group(ONES, Forward("APART", TWO_AXES, {"rows": 1, "columns": 2},
                        gives=[("s", ("columns",), 1)])),
)  # fmt: skip
def test_layout_forward_over_two_axes_and_axes_of_one_rank(case, run):
    """One all-reduce along both, in the mesh's order; an axis of one rank needs none."""


@suite.test(
    "backward", "values", Backward("THREE", {"j": "all"}, gives=[("a", ("all",), 24)]),
    Backward(gives=[("w2", ("all",), 48), ("w1", ("all",), 48)]),
    Backward(layout={"out": "all"}, gives=[("h", ("all",), 96)]), weight=10,
)  # fmt: skip
def test_layout_backward(case, run):
    """An input's gradient is an einsum, too."""


@suite.test(
    "backward", "values", Backward(layout={"hidden": "all"}, gives=[]),
    Backward("LONGER", {"n": "all"}, {"all": 2}, gives=[
        ("d", ("all",), 24), ("b", ("all",), 48), ("c", ("all",), 72), ("b", ("all",), 48),
        ("c", ("all",), 72),
    ]), weight=6,
)  # fmt: skip
def test_layout_backward_order_and_what_has_no_gradient(case, run):
    """Steps in reverse; a tensor that goes into two steps is summed in each."""


@suite.test(
    "refused", "values", Forward(layout={"batch": "all", "hidden": "all"}, raises="ValueError"),
    *(kind("APART", {"i": "all", "j": "all"}, raises="ValueError") for kind in (Forward, Backward)),
)  # fmt: skip
def test_layout_dimensions_that_meet_in_a_step_alone(case, run):
    """No tensor of ``APART`` has both."""


@suite.test(
    "placements", "values", Collective("P", "R", gives="all-reduce"),
    Collective("P", "S(0)", gives="reduce-scatter"), Collective("S(0)", "R", gives="all-gather"),
    Collective("S(0)", "S(1)", gives="all-to-all"), Collective("R", "S(1)", gives=""),
    Collective("R", "P", raises="ValueError"),
)  # fmt: skip
def test_layout_placements(case, run):
    """The collective between two placements."""


@suite.test(
    "execute",
    "values",
    Execute(layout={"batch": "all"}, sends=0),
    Execute(sends=1536),
    Execute(dtype="float32", sends=768),
    weight=6,
)
def test_layout_runs_on_one_axis(case, run):
    counted(case, run)


@suite.test(
    "execute", "values", Execute(6, layout=HIDDEN, mesh={"rows": 2, "columns": 3}, sends=1024),
    Execute(layout={"wide": "rows", "out": "columns"}, mesh=SQUARE, sends=3072), weight=6,
)  # fmt: skip
def test_layout_result_does_not_depend_on_it(case, run):
    counted(case, run)


test_layout_real_mpi = suite.real_ranks(
    "calls", Execute(), Execute(layout=HIDDEN, mesh=SQUARE), weight=5
)


@suite.test("execute", "communication", Execute(
    6, "LONGER", TWO_AXES, {"rows": 2, "columns": 3}, sends=5760,
), weight=6)  # fmt: skip
def test_layout_on_more_ranks(case, run):
    """A sum over two axes is one all-reduce."""
    counted(case, run)


test_layout_given_communicator = suite.given_communicator(
    "calls", Execute(3, mesh={"all": 3}), weight=6
)


test_layout_inputs_and_a_second_run = suite.second_call(
    "calls", Execute(3, mesh={"all": 3}), kind="safety", inputs_kept=True, weight=5
)
