"""kv_cache.py: contents, pages shared until one side writes, and pages that come back."""

from dataclasses import astuple

from ringside.checking import Verdict
from ringside.checking.case_kinds import check_kinds
from ringside.checking.formulas import answered, evaluated
from ringside.checking.points import points_of
from solutions.a13_inference.kv_script import Script, fault

points = points_of("kv_cache")
CONTENT = ("gather", "pool")


def pages(positions, page_size):
    return -(-positions // page_size)


def filled(name, positions, page_size=4):
    """Steps that append so many positions, a page's worth at a time."""
    full, rest = divmod(positions, page_size)
    return ", ".join([f"append {name} {page_size}"] * full + [f"append {name} {rest}"] * (rest > 0))


def check(ranks, rng, *scripts, looks=CONTENT, **settings):
    """Perform scripts, each a text of steps, and find no fault."""
    asked = [
        Script(steps, looks=looks, seed=int(rng.integers(10**6)), **settings) for steps in scripts
    ]
    calls = [astuple(each) for each in asked]
    found = answered(
        ranks, "callers:kv_scripts", "kv_cache:PagedCache", calls,
        lambda call: ("PagedCache", Script(*call).line),
    )  # fmt: skip
    for script, answers in zip(asked, found, strict=True):
        problem = fault(script, answers)
        if problem:
            raise Verdict(problem, reproduce=script.line)
    return asked, found


@points(10, "values")
def test_positions_one_after_another(ranks, rng):
    size = int(rng.integers(3, 6))
    steps = ["new a", *["append a 1"] * (2 * size + 1)]
    # Several caches of the same sizes in one process: each has pages of its own.
    check(ranks, rng, *[", ".join(steps)] * 4, page_size=size)
    check(ranks, rng, ", ".join(steps), page_size=size, kv_heads=2, layers=1, dtype="float32")


@points(6, "values")
def test_many_positions_at_once(ranks, rng):
    more = int(rng.integers(2, 5))
    check(ranks, rng, f"new a, append a 2, append a {8 + more}, append a 0, append a 4")
    check(ranks, rng, f"new a, append a 0, append a {7 + more}, append a 9", page_size=5)


@points(8, "values")
def test_several_sequences(ranks, rng):
    first, second = (int(each) for each in rng.integers(1, 4, size=2))
    steps = f"new a, new b, append b {first}, append a 3, new c, append b {second}, append a 2"
    steps += ", append c 1, append a 1, append b 3, new d"  # d has three pages in every draw
    check(ranks, rng, f"{steps}, append d 3, append d 3, append d 3", num_pages=12)


@points(6, "values")
def test_no_positions_short_pages_and_long_ones(ranks, rng):
    n = int(rng.integers(2, 9))
    steps = f"new a, gather a, append a 0, fork a b, gather b, append b {n}, new c"
    for dtype in ("float64", "float32"):
        check(ranks, rng, steps, dtype=dtype, looks=(*CONTENT, "empty"))
    steps = "new a, append a 3, new b, append b 1, append a 2, append b 1"
    check(ranks, rng, steps, page_size=50)
    steps = "new a, append a 1, append a 1, new b, append b 1, append a 1, append b 1"
    check(ranks, rng, steps, page_size=1, looks=(*CONTENT, "pages"))


@points(9, "memory")
def test_a_fork_shares_all_pages(ranks, rng):
    n = int(rng.integers(9, 14))
    looks = (*CONTENT, "used")
    check(ranks, rng, f"new a, {filled('a', n)}, fork a b, used {pages(n, 4)}", looks=looks)
    check(ranks, rng, "new a, fork a b, used 0, append b 3, used 1, append a 2", looks=looks)


@points(10, "values")
def test_copy_on_write(ranks, rng):
    n = 4 + int(rng.integers(1, 4))
    check(
        ranks, rng,
        f"new a, {filled('a', n)}, fork a b, append b 1, append a 2, append b 3",
        f"new a, {filled('a', n)}, fork a b, append a 1, append b 2, append a 3",
    )  # fmt: skip


@points(6, "memory")
def test_the_second_writer_copies_nothing(ranks, rng):
    # The page that the first writer left belongs to the other side alone.
    for first, second in ("ab", "ba"):
        steps = f"new a, {filled('a', 6)}, fork a b, append {first} 1, used 3"
        steps += f", append {second} 1, used 3"
        check(ranks, rng, steps, looks=("used",))


@points(6, "memory")
def test_a_fork_at_the_end_of_a_page_copies_nothing(ranks, rng):
    size = int(rng.integers(3, 6))
    steps = f"new a, {filled('a', 2 * size, size)}, fork a b, append a 0, used 2"
    check(
        ranks,
        rng,
        f"{steps}, append b 1, used 3, append a 1, used 4",
        looks=("used",),
        page_size=size,
    )


@points(6, "memory")
def test_a_page_that_is_shared_no_longer_is_written_in_place(ranks, rng):
    for freed, other in ("ab", "ba"):
        steps = f"new a, {filled('a', 6)}, fork a b, free {freed}, used 2, append {other} 1, used 2"
        check(ranks, rng, steps, looks=("pool", "used"), num_pages=2)  # there is no page for a copy


@points(6, "values")
def test_forks_of_forks(ranks, rng):
    n = 4 + int(rng.integers(1, 4))
    steps = f"new a, {filled('a', n)}, fork a b, fork b c, fork a d, append c 1, append a 2"
    check(ranks, rng, f"{steps}, append d 1, append b 3", num_pages=12, looks=(*CONTENT, "counts"))


@points(7, "memory")
def test_nothing_leaks(ranks, rng):
    n = int(rng.integers(5, 9))
    once = f"new a, {filled('a', n)}, fork a b, free a, append b 3, free b, used 0"
    check(ranks, rng, ", ".join([once] * 4), looks=("pool", "used"))
    steps = f"new a, {filled('a', 7)}, new b, {filled('b', 9)}, free a, used 3"
    steps += f", new a, {filled('a', 15)}, used 7"
    check(ranks, rng, f"{steps}, free b, free a, used 0", looks=("pool", "used"))


@points(11, "safety")
def test_errors_change_nothing(ranks, rng):
    kinds = {
        "pages that run out": running_out,
        "a copy's page": running_out_for_a_copy,
        "unknown names": unknown_names,
    }
    check_kinds(kinds, str, lambda kind: kinds[kind](ranks, rng))


def running_out(ranks, rng):
    steps = "new a, append a 4, append a 3, new b, append b 3, full: append a 6, append b 4"
    looks = (*CONTENT, "used", "error")
    _, found = check(
        ranks, rng, f"{steps}, full: append b 2, used 4, append a 1, free b, append a 1",
        num_pages=4, looks=looks,
    )  # fmt: skip
    error, message, _ = found[0][5]
    if not all(number in message for number in "21"):
        line = "python -c \"from kv_script import *; print(perform(Script('new a, append a 7, "
        line += "new b, append b 3, full: append a 6', num_pages=4))[-1][1])\""
        raise Verdict(
            f"the message of {error} is {message!r:.150}; it must say how many pages are needed, "
            "2, and how many are free, 1.",
            reproduce=line,
            fraction=0.5,
        )


def running_out_for_a_copy(ranks, rng):
    steps = f"new a, {filled('a', 6)}, fork a b, full: append b 1, used 2, free a, append b 2"
    check(ranks, rng, f"{steps}, used 2", num_pages=2, looks=("used", "error"))


def unknown_names(ranks, rng):
    for step in ("free a", "gather a", "append a 1", "fork a c"):
        steps = f"new a, append a 3, new b, append b 2, free a, unknown: {step}, used 1"
        check(ranks, rng, steps, looks=("used", "error"))


@points(3, "safety")
def test_arrays_of_the_caller_are_left_alone(ranks, rng):
    check(ranks, rng, "new a, append a 3, gather a, append a 2, gather a", looks=("gather",))


def exactly(ranks, function, calls, right):
    def shown(call):
        where = f"{function}{tuple(call)}"
        return where, f'python -c "from kv_cache import *; print({where})"'

    found = evaluated(ranks, "callers:kv_numbers", f"kv_cache:{function}", calls, shown)
    for call, value in zip(calls, found, strict=True):
        if value != right(*call):
            where, line = shown(call)
            raise Verdict(f"{where} is {value!r:.60}; it must be {right(*call)}.", reproduce=line)


@points(6, "values")
def test_bytes(ranks, rng):
    layers = int(rng.integers(2, 90))
    calls = [[32, 8, 128], [80, 8, 128], [layers, 3, 5, 1], [layers, 1, 64, 4], [1, 1, 1, 8]]
    exactly(ranks, "token_bytes", calls, lambda a, b, c, w=2: 2 * a * b * c * w)
    for dtype, unit in (("float64", 8), ("float32", 4)):
        steps = "new a, append a 4, append a 1, fork a b, new c, append c 2"
        (script,), found = check(ranks, rng, steps, dtype=dtype, kv_heads=2, looks=())
        used = [seen["bytes"] for _, _, seen in found[0]]
        page = 4 * 2 * 2 * 2 * 3 * unit  # positions, keys and values, layers, heads, width
        if used != [0, page, 2 * page, 2 * page, 2 * page, 3 * page]:
            raise Verdict(
                f"used_bytes after the steps '{steps}' is {used}; it must be "
                f"{[0, page, 2 * page, 2 * page, 2 * page, 3 * page]}: a shared page counts once.",
                reproduce=script.line.replace("show", "bytes_after"),
            )
