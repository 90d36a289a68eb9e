"""memory.py: bytes to the byte, what fits, and what torch's tracker counts."""

from itertools import product

from ringside.checking import Verdict
from ringside.checking.case_kinds import check_kinds
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


def own(ranks, function, calls):
    """The module's own answers: a mistake in one function costs no points of another's."""
    for call, value, error in ask(ranks, function, calls):
        if type(value) is not int:
            where, line = shown(function, call)
            said = f"raised {error}" if error else f"is {value!r}"
            raise Verdict(f"{where} {said}; it must be an int.", reproduce=line)
        yield value


def check_with_own(ranks, function, calls, right):
    """As ``check_exact``; ``right`` takes the place of a call, and gives its right answer."""
    wanted = iter(list(right))
    check_exact(ranks, function, calls, lambda *_, **__: next(wanted))


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


@points(8, "values")
def test_parameters(ranks, rng):
    calls = [([sizes], {}) for sizes in (*SIZES, *drawn_sizes(rng))]
    check_exact(ranks, "num_parameters", calls, oracle.parameters)


@points(16, "values")
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


@points(14, "values")
def test_activations(ranks, rng):
    calls = [([sizes, b], {}) for sizes in (*SIZES, *drawn_sizes(rng)) for b in (1, 3)]
    check_exact(ranks, "activation_bytes", calls, oracle.activations)


@points(8, "values")
def test_activations_without_dropout_and_in_other_dtypes(ranks, rng):
    sizes = (*SIZES, *drawn_sizes(rng))
    several = [
        {"dropout": False},
        {"element_bytes": 4, "dropout": False},
        {"element_bytes": 4},
        {"element_bytes": 8},
    ]

    def check(options):
        calls = [([each, 2], options) for each in sizes]
        check_exact(ranks, "activation_bytes", calls, oracle.activations)

    kinds = ("other dtypes", "models without dropout")
    check_kinds(several, lambda options: kinds["dropout" in options], check)


@points(8, "values")
def test_activations_with_recomputation(ranks, rng):
    calls = [
        ([each, b], {"recompute": True}) for each in (*SIZES, *drawn_sizes(rng)) for b in (1, 3)
    ]
    one = own(ranks, "activation_bytes", [([(1, *each[1:]), b], {}) for (each, b), _ in calls])
    inputs = [2 * (each[0] - 1) * each[3] * b * each[1] for (each, b), _ in calls]
    right = [layer + others for layer, others in zip(one, inputs, strict=True)]
    check_with_own(ranks, "activation_bytes", calls, right)


@points(6, "values")
def test_step(ranks, rng):
    calls = [
        ([sizes, 2, n, stage], {})
        for sizes in (*SIZES[1:], *drawn_sizes(rng, 1))
        for n, stage in ((1, 0), (7, 1), (64, 2), (100, 3))
    ]
    psi = own(ranks, "num_parameters", [([each[0]], {}) for each, _ in calls])
    states = [([count, *each[2:]], {}) for count, (each, _) in zip(psi, calls, strict=True)]
    kept = own(ranks, "activation_bytes", [(each[:2], {}) for each, _ in calls])
    parts = zip(own(ranks, "state_bytes", states), kept, strict=True)
    check_with_own(ranks, "step_bytes", calls, [a + b for a, b in parts])


def edges(bytes_):
    """Capacities at which an answer changes: exactly as much as needed, a byte more, one less."""
    return bytes_ - 1, bytes_, bytes_ + 1


def check_search(ranks, function, calls, neighbours):
    """By the module's own ``step_bytes`` the answer fits, and the one that would be better doesn't.

    Args:
        neighbours: of a call and its answer the calls of ``step_bytes`` that must fit, and must
            not; None where there is none.
    """
    answers = list(ask(ranks, function, calls))
    for call, value, error in answers:
        if error or type(value) is not int or value < 1:
            where, line = shown(function, call)
            said = f"raised {error}" if error else f"is {value!r}"
            raise Verdict(f"{where} {said}; it must be an int of at least 1.", reproduce=line)
    steps = [neighbours(call, value) for call, value, _ in answers]
    every = [step for pair in steps for step in pair if step is not None]
    needed = iter(list(own(ranks, "step_bytes", every)))
    for (call, value, _), pair in zip(answers, steps, strict=True):
        for step, right in zip(pair, (True, False), strict=True):
            if step is None:
                continue
            takes = next(needed)
            if (takes <= call[0][0]) != right:
                where, line = shown(function, call)
                named, _ = shown("step_bytes", step)
                raise Verdict(
                    f"{where} is {value}, but your {named} is {takes}: that "
                    f"{'does not fit' if right else 'fits, too'}.",
                    reproduce=line,
                )


@points(8, "memory")
def test_most_layers(ranks, rng):
    models = []
    for sizes, batch, n, stage, recompute in (
        ((1, 64, 4, 32, 100), 2, 1, 0, False),
        ((9, 64, 4, 32, 100), 2, 5, 1, False),
        ((1, 4096, 32, 2048, 51_200), 1, 64, 3, True),
    ):
        options = {"recompute": True} if recompute else {}
        for depth in (2, 13, int(rng.integers(20, 300))):
            models.append(([(depth, *sizes[1:]), batch, n, stage], options))
    needed = own(ranks, "step_bytes", models)
    calls = [
        ([each, *given], options)
        for (given, options), takes in zip(models, needed, strict=True)
        for each in edges(takes)
    ]

    def neighbours(call, count):
        (_, sizes, *rest), options = call
        steps = [([(layers, *sizes[1:]), *rest], options) for layers in (count, count + 1)]
        return steps[0], steps[1]

    check_search(ranks, "most_layers", calls, neighbours)


@points(8, "memory")
def test_fewest_ranks(ranks, rng):
    sizes = (36, 4096, 32, 2048, 51_200)
    models = []
    for stage, recompute in product((1, 2, 3), (False, True)):
        options = {"recompute": True} if recompute else {}
        for n in (2, 6, int(rng.integers(20, 200))):
            models.append(([sizes, 1, n, stage], options))
    needed = own(ranks, "step_bytes", models)
    calls = [
        ([each, sizes, 1, given[3]], options)
        for (given, options), takes in zip(models, needed, strict=True)
        for each in edges(takes)
    ]

    def neighbours(call, count):
        (_, sizes, batch, stage), options = call
        steps = [([sizes, batch, n, stage], options) for n in (count, count - 1)]
        return steps[0], steps[1] if count > 1 else None

    check_search(ranks, "fewest_ranks", calls, neighbours)


@points(4, "safety")
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


@points(2, "memory")
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
