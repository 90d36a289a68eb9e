"""partition.py: one flat vector, cut into equal shards, and back."""

import numpy as np

from ringside.checking import Verdict
from ringside.checking.case_kinds import check_kinds
from ringside.checking.formulas import evaluated
from ringside.checking.points import points_of
from solutions.a07_sharding.hidden import oracle

SHAPES = [(2, 3), (4,), (), (3, 1, 2), (5, 5)]

points = points_of("partition")


def line(function, words, setup="import numpy as np; "):
    return f'python -c "{setup}from partition import *; print({function}({words}))"'


def layout_call(call):
    """A call of ``layout``, and its line: other numbers in the same shapes."""
    arrays, same, world_size = call
    made = ", ".join(f"np.ones({a.shape}, '{a.dtype}')" for a in arrays)
    names = ", ".join(f"a[{index}]" for index in same)
    words = f"[{names}], {world_size}"
    return f"layout({words})", line("layout", words, f"import numpy as np; a = [{made}]; ")


def flatten_call(call):
    arrays, starts, length = call[:3]
    made = ", ".join(f"np.ones({a.shape}, '{a.dtype}')" for a in arrays)
    words = f"[{made}], {starts}, {length}"
    return f"flatten of {len(arrays)} arrays, length {length}", line("flatten", words)


def views_call(call):
    flat, starts, shapes = call
    return (
        f"views of {len(flat)} elements, starts {starts}, shapes {shapes}",
        line("views", f"np.arange({len(flat)}.0), {starts}, {shapes}"),
    )


def pieces_call(call):
    words = ", ".join(map(repr, call))
    return f"pieces({words})", line("pieces", words, "")


SHOWN = {
    "layout": layout_call, "flatten": flatten_call, "views": views_call, "pieces": pieces_call,
}  # fmt: skip


def verdict(function, call, sentence):
    what, reproduce = SHOWN[function](call)
    return Verdict(f"{what}: {sentence}", reproduce=reproduce)


def answers(ranks, function, calls):
    """The function's results, after which all arguments are as they were."""
    target, shown = f"partition:{function}", SHOWN[function]
    found = evaluated(ranks, "callers:partition_calls", target, calls, shown)
    for call, (_, error, changed) in zip(calls, found, strict=True):
        if error is not None:
            raise verdict(function, call, f"raised {error}.")
        if changed:
            raise verdict(
                function, call, "changed an argument, or shares memory where it must not."
            )
    return [value for value, _, _ in found]


def same(function, call, value, right):
    """Compare, with NumPy's numbers as Python's."""
    if plain(value) != plain(right):
        raise verdict(
            function, call, f"is {plain(value)!r:.200}; it must be {plain(right)!r:.200}."
        )


def plain(value):
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


def arrays(rng, shapes, dtype="float64"):
    return [np.asarray(rng.standard_normal(shape)).astype(dtype) for shape in shapes]


def shapes_drawn(rng, count):
    return [
        tuple(int(k) for k in rng.integers(1, 5, size=rng.integers(0, 4))) for _ in range(count)
    ]


def check_layout(ranks, calls):
    for call, value in zip(calls, answers(ranks, "layout", calls), strict=True):
        same("layout", call, value, oracle.layout(*call))


def check_array(function, call, value, right, what="the result"):
    if (
        not isinstance(value, np.ndarray)
        or value.dtype != right.dtype
        or value.shape != right.shape
    ):
        found = getattr(value, "dtype", type(value).__name__), getattr(value, "shape", "")
        raise verdict(
            function, call, f"{what} is {found}; it must be {right.dtype}, {right.shape}."
        )
    if not np.array_equal(value, right):
        at = tuple(int(k) for k in np.argwhere(value != right)[0])
        raise verdict(function, call, f"{what} has {value[at]} at {at}; it must be {right[at]}.")


def divides(call):
    given, same, world_size = call
    psi = sum(given[index].size for index in set(same))
    kind = "divide" if psi % world_size == 0 else "do not divide"
    return f"numbers of ranks that {kind} the number of elements"


@points(16, "values")
def test_starts_and_shard_size(ranks, rng):
    calls = [(arrays(rng, SHAPES), [0, 1, 2, 3, 4], p) for p in (1, 2, 3, 4, 6, 7, 64)]
    for _ in range(6):
        shapes = shapes_drawn(rng, 5)
        calls.append((arrays(rng, shapes, "float32"), [0, 1, 2, 3, 4], int(rng.integers(1, 9))))
    check_kinds(calls, divides, lambda call: check_layout(ranks, [call]))


@points(16, "values")
def test_tied_weights_stand_once(ranks, rng):
    calls = []
    for p in (1, 2, 3, 6):  # of 6 x 7 elements
        calls.append((arrays(rng, SHAPES), [0, 1, 0, 2, 3, 4, 1, 0], p))
        order = [*(int(k) for k in rng.integers(0, 5, size=4)), 4, 3, 2, 1, 0]
        calls.append((arrays(rng, SHAPES), order, p))
    equal = np.ones((2, 3))  # equal numbers in another array are no tie
    calls.append(([equal, equal.copy(), np.ones(4)], [0, 1, 2, 0], 2))
    check_layout(ranks, calls)


@points(7, "values")
def test_empty_lists_and_arrays(ranks, rng):
    check_layout(ranks, [([], [], 3), (arrays(rng, [(0,), (2, 0), (4,)]), [0, 1, 2], 2)])
    calls = [(arrays(rng, [(0,), (3,), (0, 4)]), [0, 0, 3], 3)]
    for call, value in zip(calls, answers(ranks, "flatten", calls), strict=True):
        check_array("flatten", call, value, call[0][1])
    call = ([0, 0, 2], [(0,), (2,), (3,)], 2, 0)
    same("pieces", call, answers(ranks, "pieces", [call])[0], [(1, 0, 2)])


def flat_of(given, starts, length):
    flat = np.zeros(length, given[0].dtype)
    for array, start in zip(given, starts, strict=True):
        flat[start : start + array.size] = array.ravel(order="C")
    return flat


@points(14, "values")
def test_flatten_pads_with_zeros(ranks, rng):
    calls = []
    for p, dtype in ((1, "float64"), (2, "float32"), (4, "float64"), (7, "float64")):
        shapes = shapes_drawn(rng, 4)
        starts, shard_size = oracle.layout(arrays(rng, shapes), [0, 1, 2, 3], p)
        calls.append((arrays(rng, shapes, dtype), starts, p * shard_size))
    given = arrays(rng, [(2, 3), (4,)])
    calls.append(([given[0], given[1], given[0]], [0, 6, 0], 12))
    for call, value in zip(calls, answers(ranks, "flatten", calls), strict=True):
        check_array("flatten", call, value, flat_of(*call))


@points(8, "values")
def test_flatten_of_any_layout_in_memory(ranks, rng):
    calls = []
    for _ in range(3):
        a, b = rng.standard_normal((4, 3)), rng.standard_normal((6, 8))
        calls.append(([a, b[::2, 1::3], b.T], [0, 12, 21], 69, True))
    for call, value in zip(calls, answers(ranks, "flatten", calls), strict=True):
        check_array("flatten", call, value, flat_of(*call[:3]))


@points(17, "values")
def test_views_share_memory_with_the_flat_vector(ranks, rng):
    calls = []
    for p in (1, 3, 4):
        shapes = [*shapes_drawn(rng, 3), (), (0, 2)]
        starts, shard_size = oracle.layout([np.zeros(s) for s in shapes], [0, 1, 2, 3, 4], p)
        flat = rng.standard_normal(p * shard_size).astype("float32" if p == 3 else "float64")
        calls.append((flat, [*starts, starts[0]], [*shapes, shapes[0]]))
    for call, value in zip(calls, answers(ranks, "views", calls), strict=True):
        flat, starts, shapes = call
        if not isinstance(value, list) or len(value) != len(shapes):
            raise verdict("views", call, f"must be a list of {len(shapes)} arrays.")
        for number, (array, start, shape) in enumerate(zip(value, starts, shapes, strict=True)):
            size = int(np.prod(shape))
            right = 2 * flat[start : start + size].reshape(shape)
            what = f"after flat was doubled, array {number}"
            check_array("views", call, array, right, what)


@points(16, "values")
def test_pieces_of_a_shard(ranks, rng):
    calls = []
    for p in (1, 2, 3, 4, 7, 13):
        shapes = shapes_drawn(rng, 6)
        if p > 2:
            shapes[4] = shapes[1]
        same_as = [0, 1, 2, 3, 1 if p > 2 else 4, 5]  # tied for some
        starts, shard_size = oracle.layout([np.zeros(s) for s in shapes], same_as, p)
        calls += [(starts, shapes, shard_size, rank) for rank in range(p)]
    for call, value in zip(calls, answers(ranks, "pieces", calls), strict=True):
        same("pieces", call, value, oracle.pieces(*call))


@points(6, "safety")
def test_what_cannot_be_right_is_refused(ranks, rng):
    ones, few = np.ones((2, 3)), np.ones(4, "float32")
    wrong = {
        "layout": [([ones], [0], 0), ([ones], [0], -2), ([ones, few], [0, 1], 2)],
        "flatten": [([ones], [0], 5), ([ones, ones], [0, 7], 12)],
        "views": [(np.ones(6), [0], [(7,)]), (np.ones(6), [4], [(3,)])],
    }
    for function, calls in wrong.items():
        found = evaluated(
            ranks, "callers:partition_calls", f"partition:{function}", calls, SHOWN[function]
        )
        for call, (_, error, _) in zip(calls, found, strict=True):
            if error != "ValueError":
                raise verdict(
                    function, call, f"raised {error or 'nothing'}; it must raise ValueError."
                )
