"""kv_cache.py: contents, pages shared until one side writes, and pages that come back."""

from checks.cases import Script, TokenBytes
from ringside.checking.suite import Suite, group

suite = Suite("kv_cache")
NOTHING, NAMES = "appends of nothing", "names that are never given again"
FREED = "append b 1, free a, used 2, append b 1, free b, used 0"
FORKED = "new a, append a 4, append a 2, fork a b"  # two pages, and the second isn't full


@suite.test(
    "paged", "values", Script("new a, append a 1, append a 2, append a 1, append a 1, append a 9"),
    Script(", ".join(["new a", *["append a 1"] * 7]), page_size=3, beside=True), weight=1,
)  # fmt: skip
def test_positions_one_after_another(case, run):
    case.look(run, "gather", "pool")


@suite.test("contents", "values", Script("new a, append a 2, append a 13, append a 0, append a 4"))
def test_many_positions_at_once(case, run):
    case.look(run, "gather", "pool")


@suite.test(
    "contents", "values",
    Script(
        "new a, new b, append b 3, append a 3, new c, append b 2, append a 2, append c 1, "
        "append a 1, append b 3", num_pages=12,
    ), weight=1,
)  # fmt: skip
def test_several_sequences(case, run):
    case.look(run, "gather", "pool")


@suite.test(
    "paged", "values", Script("new a, gather a, append a 0, fork a b, gather b, append b 3, new c"),
    Script("new a, append a 3, gather a, append a 2", page_size=1, dtype="float32"),
)  # fmt: skip
def test_no_positions_short_pages_and_long_ones(case, run):
    case.look(run, "gather", "empty", "pool", "pages")


@suite.test(
    "shared",
    "memory",
    Script(f"{FORKED}, used 2"),
    Script("new a, fork a b, used 0, append b 3"),
    weight=2,
)
def test_a_fork_shares_all_pages(case, run):
    case.look(run, "gather", "pool", "used")


@suite.test(
    "shared", "values", Script(f"{FORKED}, append b 1, append a 1, append b 4, append a 2"),
    Script(f"{FORKED}, append a 1, append b 2"), weight=4,
)  # fmt: skip
def test_copy_on_write(case, run):
    case.look(run, "gather", "pool")


@suite.test(
    "copies", "memory",
    group("positions", Script(f"{FORKED}, append b 1, used 3, append a 1, used 3")),
    group(NOTHING, Script(f"{FORKED}, append a 0, append b 0, used 2"), weight=0.5), weight=4,
)  # fmt: skip
def test_the_second_writer_copies_nothing(case, run):
    """The page that the first writer left belongs to the other side alone."""
    case.look(run, "used")


@suite.test(
    "copies", "memory",
    Script("new a, append a 4, append a 4, fork a b, append b 1, used 3, append a 1, used 4"),
    weight=1,
)  # fmt: skip
def test_a_fork_at_the_end_of_a_page_copies_nothing(case, run):
    case.look(run, "used")


@suite.test(
    "copies",
    "memory",
    Script(f"{FORKED}, free a, used 2, append b 1, used 2", num_pages=2),
    weight=2,
)
def test_a_page_that_is_shared_no_longer_is_written_in_place(case, run):
    """There is no page for a copy."""
    case.look(run, "pool", "used")


@suite.test(
    "shared",
    "values",
    Script(f"{FORKED}, fork b c, append a 1, append b 1, append c 1"),
    weight=4,
)
def test_forks_of_forks(case, run):
    case.look(run, "gather", "pool", "counts")


@suite.test(
    "comes_back", "memory",
    group(
        "pages",
        Script(", ".join([f"{FORKED}, {FREED}"] * 3)),
    ),
    group(NAMES, Script(f"{FORKED}, free b, fork a c, append c 1, new d, free d, new e, used 3")),
)  # fmt: skip
def test_nothing_leaks(case, run):
    case.look(run, "pool", "used")


@suite.test(
    "errors", "safety",
    group(
        "pages that run out",
        Script(
            "new a, append a 4, append a 3, new b, append b 3, full 2 1: append a 6, append b 1",
            num_pages=4,
        ), weight=2,
    ),
    group(
        "a copy's page",
        Script(f"{FORKED}, full: append b 1, used 2, free b, append a 1, used 2", num_pages=2),
        weight=2,
    ),
    group(
        "unknown names",
        Script("new a, append a 3, free a, unknown: free a, used 0"),
        Script("new a, append a 3, free a, unknown: append a 1, unknown: gather a"),
    ),
)  # fmt: skip
def test_errors_change_nothing(case, run):
    case.look(run, "gather", "pool", "used", "error")


@suite.test("callers", "safety", Script("new a, append a 3, gather a, append a 2, gather a"))
def test_arrays_of_the_caller_are_left_alone(case, run):
    """What was appended, and what ``gather`` gives, is the caller's, who writes into it."""
    case.look(run, "gather")


@suite.test(
    "bytes", "values", TokenBytes(32, 8, 128, gives=131_072),
    TokenBytes(2, 1, 3, 8, gives=96),
    Script("new a, append a 5, bytes 768, fork a b, bytes 768"),
)  # fmt: skip
def test_bytes(case, run):
    if isinstance(case, Script):
        case.look(run, "bytes")
