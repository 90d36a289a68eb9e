"""memory.py: bytes to the byte, what fits, and what torch's tracker counts."""

from itertools import product

from ringside.checking import Verdict
from ringside.checking.formulas import evaluated
from ringside.checking.points import points_of
from solutions.a07_sharding.hidden import plan_oracle as oracle

SMALL = (2, 4, 2, 2, 3)  # layers, width, heads, tokens, words
GPT3 = (96, 12_288, 96, 2048, 51_200)
SIZES = (SMALL, (1, 8, 2, 5, 11), (24, 1024, 16, 1024, 50_257), (36, 4096, 32, 2048, 51_200), GPT3)

points = points_of("memory")


def shown(function, call):
    """How a sentence names a call, and the line that makes it."""
    arguments, options = call
    words = [f"Sizes{each}" if isinstance(each, tuple) else repr(each) for each in arguments]
    words += [f"{name}={value}" for name, value in options.items()]
    where = f"{function}({', '.join(words)})"
    line = f"from gpt_sizes import *; from memory import *; print({where})"
    return where, f'python -c "{line}"'


def ask(ranks, function, calls):
    """Per call ``(result, error)``, and how it is named."""
    found = evaluated(
        ranks,
        "callers:memory_numbers",
        f"memory:{function}",
        calls,
        lambda call: shown(function, call),
    )
    for call, (value, error) in zip(calls, found, strict=True):
        yield call, value.item() if hasattr(value, "item") else value, error


def check_exact(ranks, function, calls, right):
    for (arguments, options), value, error in ask(ranks, function, calls):
        wanted = right(*arguments, **options)
        where, line = shown(function, (arguments, options))
        if error:
            raise Verdict(f"{where} raised {error}; it must be {wanted}.", reproduce=line)
        if type(value) is not int:
            said = f"{value!r}, of type {type(value).__name__}"
            raise Verdict(f"{where} is {said}; it must be {wanted}, an int.", reproduce=line)
        if value != wanted:
            raise Verdict(f"{where} is {value}; it must be {wanted}.", reproduce=line)


def drawn_sizes(rng, count=3):
    """Sizes of no pattern; the heads divide the width."""
    return [
        (
            int(rng.integers(1, 60)),
            int(heads * rng.integers(1, 40)),
            int(heads),
            int(rng.integers(1, 300)),
            int(rng.integers(1, 3000)),
        )
        for heads in rng.integers(1, 9, size=count)
    ]


@points(6, "values")
def test_parameters(ranks, rng):
    calls = [([sizes], {}) for sizes in (*SIZES, *drawn_sizes(rng))]
    check_exact(ranks, "num_parameters", calls, oracle.parameters)


@points(14, "values")
def test_state_of_every_stage(ranks, rng):
    even = [(7_500_000_000, n) for n in (1, 4, 64)] + [(12, 3), (0, 4)]
    psi, n = int(rng.integers(10**6, 10**9)), int(rng.integers(2, 2000))
    calls = [([*each, stage], {}) for each in (*even, (n * psi, n)) for stage in range(4)]
    check_exact(ranks, "state_bytes", calls, oracle.state)


@points(8, "values")
def test_state_where_ranks_do_not_divide_the_parameters(ranks, rng):
    sizes = [(7, 2), (1, 3), (5, 9), (10**6 + 1, 7), (int(rng.integers(10**6, 10**8)) * 6 + 5, 6)]
    calls = [([*each, stage], {}) for each in sizes for stage in range(4)]
    check_exact(ranks, "state_bytes", calls, oracle.state)


@points(4, "values")
def test_state_of_more_parameters_than_a_float_holds(ranks, rng):
    psi = 10**17 + 2 * int(rng.integers(10**6)) + 1
    calls = [([psi, n, stage], {}) for n in (2, 3, 1024) for stage in (1, 2, 3)]
    check_exact(ranks, "state_bytes", calls, oracle.state)


@points(6, "values")
def test_state_of_other_dtypes(ranks, rng):
    names = ("weight_bytes", "gradient_bytes", "optimizer_bytes")
    several = [(4, 4, 8), (8, 8, 16), (2, 4, 6), tuple(rng.integers(1, 20, size=3).tolist())]
    calls = [
        ([1200, 4, stage], dict(zip(names, each, strict=True)))
        for each in several
        for stage in range(4)
    ]

    def right(psi, n, stage, weight_bytes, gradient_bytes, optimizer_bytes):
        return oracle.state(psi, n, stage, weight_bytes, gradient_bytes, optimizer_bytes)

    check_exact(ranks, "state_bytes", calls, right)


@points(12, "values")
def test_activations(ranks, rng):
    calls = [([sizes, b], {}) for sizes in (*SIZES, *drawn_sizes(rng)) for b in (1, 3)]
    check_exact(ranks, "activation_bytes", calls, oracle.activations)


@points(8, "values")
def test_activations_without_dropout_and_in_other_dtypes(ranks, rng):
    several = [
        {"dropout": False},
        {"element_bytes": 4},
        {"element_bytes": 8},
        {"element_bytes": 4, "dropout": False},
    ]
    calls = [([sizes, 2], options) for sizes in (*SIZES, *drawn_sizes(rng)) for options in several]
    check_exact(ranks, "activation_bytes", calls, oracle.activations)


@points(10, "values")
def test_activations_with_recomputation(ranks, rng):
    sizes = [*SIZES, *drawn_sizes(rng)]
    calls = [([each, b], {"recompute": True}) for each in sizes for b in (1, 3)]
    check_exact(ranks, "activation_bytes", calls, oracle.activations)


@points(6, "values")
def test_step(ranks, rng):
    calls = [
        ([sizes, 2, n, stage], {})
        for sizes in (*SIZES[1:], *drawn_sizes(rng, 1))
        for n, stage in ((1, 0), (7, 1), (64, 2), (100, 3))
    ]
    check_exact(ranks, "step_bytes", calls, oracle.step)


def edges(bytes_):
    """Capacities at which an answer changes: exactly as much as needed, a byte more, one less."""
    return bytes_ - 1, bytes_, bytes_ + 1


@points(8, "memory")
def test_most_layers(ranks, rng):
    def right(capacity, sizes, batch, n, stage, recompute=False):
        count = 1
        while oracle.step((count + 1, *sizes[1:]), batch, n, stage, recompute) <= capacity:
            count += 1
        return count

    calls = []
    for sizes, batch, n, stage, recompute in (
        ((1, 64, 4, 32, 100), 2, 1, 0, False),
        ((9, 64, 4, 32, 100), 2, 5, 1, False),
        ((1, 4096, 32, 2048, 51_200), 1, 64, 3, True),
        ((*drawn_sizes(rng, 1)[0],), 1, 12, 2, False),
    ):
        options = {"recompute": True} if recompute else {}
        for depth in (2, 13, int(rng.integers(20, 300))):
            needed = oracle.step((depth, *sizes[1:]), batch, n, stage, recompute)
            calls += [([each, sizes, batch, n, stage], options) for each in edges(needed)]
    check_exact(ranks, "most_layers", calls, right)


@points(8, "memory")
def test_fewest_ranks(ranks, rng):
    def right(capacity, sizes, batch, stage, recompute=False):
        low, high = 1, 10**5
        while low < high:
            middle = (low + high) // 2
            fits = oracle.step(sizes, batch, middle, stage, recompute) <= capacity
            low, high = (low, middle) if fits else (middle + 1, high)
        return low

    sizes = (36, 4096, 32, 2048, 51_200)
    calls = [([oracle.step(sizes, 1, 1, 0), sizes, 1, 0], {})]
    for stage, recompute in product((1, 2, 3), (False, True)):
        options = {"recompute": True} if recompute else {}
        for n in (2, 6, int(rng.integers(20, 200))):
            needed = oracle.step(sizes, 1, n, stage, recompute)
            calls += [([each, sizes, 1, stage], options) for each in edges(needed)]
    check_exact(ranks, "fewest_ranks", calls, right)


@points(6, "safety")
def test_refuses_what_is_not_there_and_what_does_not_fit(ranks):
    # 16 Psi on one rank, and 4 Psi + 12 on any number: one byte less never fits.
    floor = oracle.step(SIZES[1], 1, oracle.parameters(SIZES[1]), 1)
    refused = {
        "state_bytes": [([10, 2, stage], {}) for stage in (-1, 4)] + [([10, 0, 1], {})],
        "most_layers": [([oracle.step((1, *SMALL[1:]), 1, 2, 1) - 1, SMALL, 1, 2, 1], {})],
        "fewest_ranks": [
            ([oracle.step(SMALL, 1, 1, 0) - 1, SMALL, 1, 0], {}),
            ([floor - 1, SIZES[1], 1, 1], {}),
        ],
    }
    for function, calls in refused.items():
        for call, value, error in ask(ranks, function, calls):
            if error != "ValueError":
                where, line = shown(function, call)
                said = f"raised {error}" if error else f"is {value}"
                raise Verdict(f"{where} {said}; it must raise ValueError.", reproduce=line)


@points(4, "memory")
def test_as_torchs_tracker_counts_it(ranks, rng):
    """Right formulas are within 2 % of the tracker; this test keeps the two together."""
    width, tokens = 32 * int(rng.integers(4, 7)), 8 * int(rng.integers(6, 11))
    sizes = (4, width, 4, tokens, 300)
    tracked = []
    for options in (
        {"element_bytes": 2, "dropout": True, "recompute": False},
        {"element_bytes": 4, "dropout": False, "recompute": False},
        {"element_bytes": 2, "dropout": True, "recompute": True},
    ):
        given = [sizes, 2, *(options[name] for name in ("element_bytes", "dropout", "recompute"))]
        result = ranks.call("gpt_torch:kept", 1, [tuple(given)]).raise_for_error()
        tracked.append(result.memory[0]["live"]["activations"])
        calls = [([sizes, 2], options)]
        check_near(ranks, "activation_bytes", calls, tracked[-1])
    for stage in (0, 3):
        result = ranks.call("gpt_torch:stepped", 2, [(sizes, stage)] * 2).raise_for_error()
        held = result.memory[0]["after_step"]
        counted = held["parameters"] + held["gradients"] + held["optimizer"]
        options = {"weight_bytes": 4, "gradient_bytes": 4, "optimizer_bytes": 8}
        calls = [([result.values[0], 2, stage], options)]
        check_near(ranks, "state_bytes", calls, counted)


def check_near(ranks, function, calls, counted):
    for call, value, error in ask(ranks, function, calls):
        where, line = shown(function, call)
        good = type(value) is int and abs(value - counted) <= 0.02 * counted
        if error or not good:
            said = f"raised {error}" if error else f"is {value}"
            raise Verdict(
                f"{where} {said}; the tracker counted {counted} bytes, and 2 % are allowed.",
                reproduce=line,
            )
