"""partition.py: one flat vector, cut into equal shards, and back."""

from checks.cases import Flatten, Layout, Pieces, Views
from ringside.checking.suite import Suite

suite = Suite("partition")
THREE = ((2, 3), (4,), ())
STARTS, FOUR = (0, 6, 0, 10), ((2, 3), (4,), (2, 3), ())  # the first one stands twice


@suite.test("layout", "values", Layout(THREE, world_size=1), Layout(THREE, world_size=11))
def test_starts_and_shard_size(case, run):
    """A list of starts, and Psi / N."""


@suite.test("shards", "values", Layout(THREE, world_size=4), Layout(THREE, world_size=20))
def test_shards_are_rounded_up(case, run):
    """ceil(Psi / N), also on more ranks than elements."""


@suite.test(
    "tied", "values", Layout(THREE, (0, 1, 0, 2, 1), world_size=11),
    Layout(((4,), (4,)), world_size=2, equal=True),
)  # fmt: skip
def test_tied_weights_stand_once(case, run):
    """One array that stands twice is a tie, and equal numbers are none."""


@suite.test(
    "refused", "values", Layout((), world_size=2), Flatten(((0,), (3,)), starts=(0, 0), length=4),
    Pieces((0, 0, 2), ((0,), (2,), (3,)), 2, 0),
)  # fmt: skip
def test_empty_lists_and_arrays(case, run):
    """An empty array begins where the next one does."""


@suite.test(
    "flatten", "values", Flatten(THREE, starts=(0, 6, 10), length=12),
    Flatten(((4,),), starts=(0,), length=4, dtype="float32"),
)  # fmt: skip
def test_flatten_pads_with_zeros(case, run):
    """Each array row by row, in the arrays' dtype."""


@suite.test("flatten", "values", Flatten(THREE, starts=(0, 6, 10), length=12, spread=True))
def test_flatten_of_any_layout_in_memory(case, run):
    """Arrays by columns, with gaps; a second call leaves the first one's result alone."""


@suite.test("views", "values", Views(12, STARTS, FOUR))
def test_views_share_memory_with_the_flat_vector(case, run):
    """They are looked at after all elements of the vector were doubled."""


@suite.test("pieces", "values", *(Pieces(STARTS, FOUR, 3, rank) for rank in range(4)))
def test_pieces_of_a_shard(case, run):
    """In the order of the flat vector, tied parameters under their first index."""


@suite.test(
    "refused", "safety", Layout(THREE, world_size=0, raises="ValueError"),
    Layout(THREE, world_size=2, mixed=True, raises="ValueError"),
    Flatten(THREE, starts=(0, 6, 10), length=10, raises="ValueError"),
    Views(5, (0,), ((2, 3),), raises="ValueError"),
)  # fmt: skip
def test_what_cannot_be_right_is_refused(case, run):
    """With ValueError."""
