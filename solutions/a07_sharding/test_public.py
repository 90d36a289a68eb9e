"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes and values.
"""

import itertools

from offload_model import CHOICES, Layer, makespan_s

from ringside.checking import Verdict
from ringside.checking.points import points

# -- memory ----------------------------------------------------------------------------------------

TINY = (2, 4, 2, 2, 3)  # layers, width, heads, tokens, words
SEVEN = (36, 4096, 32, 2048, 51_200)  # 7.5e9 parameters


def memory_line(where):
    return f'python -c "from gpt_sizes import *; from memory import *; print({where})"'


def ask_memory(ranks, function, calls):
    """Per call ``(arguments, options)`` of a function of memory.py: how it is named, result."""
    result = ranks.call("callers:memory_numbers", 1, [(f"memory:{function}", calls)])
    result.raise_for_error()
    for (arguments, options), (value, error) in zip(calls, result.values[0], strict=True):
        words = [f"Sizes{each}" if isinstance(each, tuple) else repr(each) for each in arguments]
        words += [f"{name}={each}" for name, each in options.items()]
        value = value.item() if hasattr(value, "item") else value
        yield f"{function}({', '.join(words)})", value, error


def check_memory(ranks, function, cases):
    """Each case is arguments, options and the right number."""
    calls = [(list(arguments), options) for arguments, options, _ in cases]
    for (where, value, error), (*_, right) in zip(
        ask_memory(ranks, function, calls), cases, strict=True
    ):
        if error or type(value) is not int or value != right:
            said = f"raised {error}" if error else f"is {value!r}"
            raise Verdict(
                f"{where} {said}; it must be {right}, an int.", reproduce=memory_line(where)
            )


@points(10, "values", "memory")
def test_parameters(ranks):
    check_memory(ranks, "num_parameters", [((TINY,), {}, 516), ((SEVEN,), {}, 7_467_786_240)])


@points(15, "values", "memory")
def test_state_of_every_stage(ranks):
    right = (120_000_000_000, 31_406_250_000, 16_640_625_000, 1_875_000_000)
    cases = [((7_500_000_000, 64, stage), {}, number) for stage, number in enumerate(right)]
    check_memory(ranks, "state_bytes", cases)


@points(10, "values", "memory")
def test_state_where_ranks_do_not_divide_the_parameters(ranks):
    right = (112, 76, 70, 64)
    cases = [((7, 2, stage), {}, number) for stage, number in enumerate(right)]
    cases += [((3, 5, 3), {}, 16), ((10**17 + 1, 2, 3), {}, 16 * (5 * 10**16 + 1))]
    check_memory(ranks, "state_bytes", cases)


@points(5, "values", "memory")
def test_state_of_other_dtypes(ranks):
    dtypes = {"weight_bytes": 3, "gradient_bytes": 5, "optimizer_bytes": 7}
    right = (150, 108, 78, 60)
    cases = [((10, 3, stage), dtypes, number) for stage, number in enumerate(right)]
    check_memory(ranks, "state_bytes", cases)


@points(15, "values", "memory")
def test_activations(ranks):
    gpt3_layer = (1, 12_288, 96, 2048, 0)  # 34 s b h + 5 a s s b, and 5 s b h outside
    right = 2048 * 12_288 * 39 + 5 * 96 * 2048**2
    cases = [((TINY, 1), {}, 676), ((TINY, 3), {}, 2028), ((gpt3_layer, 1), {}, right)]
    check_memory(ranks, "activation_bytes", cases)


@points(10, "values", "memory")
def test_activations_without_dropout_and_in_other_dtypes(ranks):
    cases = [
        ((TINY, 1), {"dropout": False}, 588),
        ((TINY, 1), {"element_bytes": 4}, 1296),
        ((TINY, 1), {"element_bytes": 4, "dropout": False}, 1176),
    ]
    check_memory(ranks, "activation_bytes", cases)


@points(10, "values", "memory")
def test_activations_with_recomputation(ranks):
    again = {"recompute": True}
    cases = [((TINY, 1), again, 380), (((1, *TINY[1:]), 1), again, 364), ((TINY, 2), again, 760)]
    check_memory(ranks, "activation_bytes", cases)


@points(10, "memory", "memory")
def test_what_fits(ranks):
    gb = 10**9
    layers = [((32 * gb, SEVEN, 1, 64, 3), {}, 31), ((32 * gb, SEVEN, 1, 64, 1), {}, 17)]
    layers.append(((32 * gb, SEVEN, 1, 64, 3), {"recompute": True}, 458))
    check_memory(ranks, "step_bytes", [((TINY, 1, 2, 1), {}, 676 + 4 * 516 + 12 * 258)])
    exact = 676 + 4 * 516 + 12 * 258
    layers += [((exact, TINY, 1, 2, 1), {}, 2), ((exact - 1, TINY, 1, 2, 1), {}, 1)]
    check_memory(ranks, "most_layers", layers)
    numbers = [
        ((32 * gb, SEVEN, 1, stage), {"recompute": True}, n)
        for stage, n in ((1, 269), (2, 7), (3, 4))
    ]
    numbers += [((exact, TINY, 1, 1), {}, 2), ((exact - 1, TINY, 1, 1), {}, 3)]
    check_memory(ranks, "fewest_ranks", numbers)


@points(5, "safety", "memory")
def test_refuses_what_does_not_fit(ranks):
    refused = {
        "state_bytes": [([10, 2, 4], {}), ([10, 0, 1], {})],
        "most_layers": [([1000, TINY, 1, 2, 1], {})],
        "fewest_ranks": [([1000, TINY, 1, 1], {}), ([1000, TINY, 1, 0], {})],
    }
    for function, calls in refused.items():
        for where, value, error in ask_memory(ranks, function, calls):
            if error != "ValueError":
                said = f"raised {error}" if error else f"is {value}"
                raise Verdict(
                    f"{where} {said}; it must raise ValueError.", reproduce=memory_line(where)
                )


@points(10, "memory", "memory")
def test_as_torchs_tracker_counts_it(ranks):
    """A small GPT on the network: what its storages take between forward and backward pass."""
    sizes = (4, 128, 4, 64, 300)
    for recompute in (False, True):
        result = ranks.call("gpt_torch:kept", 1, [(sizes, 2, 2, True, recompute)])
        counted = result.raise_for_error().memory[0]["live"]["activations"]
        calls = [([sizes, 2], {"recompute": recompute})]
        for where, value, error in ask_memory(ranks, "activation_bytes", calls):
            if error or abs(value - counted) > 0.02 * counted:
                said = f"raised {error}" if error else f"is {value}"
                raise Verdict(
                    f"{where} {said}; the tracker counted {counted} bytes, and 2 % are allowed.",
                    reproduce=memory_line(where),
                )


# -- offload ---------------------------------------------------------------------------------------

SIX = ([(4, 8, 20), (2, 5, 12), (7, 9, 8), (3, 3, 25), (1, 4, 16), (5, 9, 10)], 50, 4.0)
TWELVE = (
    [(1, 7, 12), (4, 2, 19), (5, 11, 3), (8, 16, 22), (2, 4, 30), (6, 6, 9),
     (3, 9, 27), (9, 5, 14), (1, 1, 6), (7, 12, 25), (4, 8, 17), (2, 3, 11)],
    70, 2.0,
)  # fmt: skip


def offload_line(call):
    words = "from callers import try_offload; try_offload"
    return f'python -c "{words}({", ".join(map(str, call))})"'


def ask_plans(ranks, calls):
    result = ranks.call("callers:offload_plans", 1, [("offload:schedule", calls)])
    return result.raise_for_error().values[0]


def plan_s(ranks, call):
    """Makespan of the plan for a call, which must have the right words and fit."""
    numbers, capacity, host = call
    ((plan, error),) = ask_plans(ranks, [call])
    said = f"raised {error}" if error else f"is {plan!r}"
    words = plan if isinstance(plan, list | tuple) else [plan]
    if error or len(words) != len(numbers) or not all(word in CHOICES for word in words):
        raise Verdict(
            f"The schedule of {len(numbers)} layers {said}; it must be one word for each.",
            reproduce=offload_line(call),
        )
    time_s = makespan_s([Layer(*each) for each in numbers], words, capacity, host)
    if time_s == float("inf"):
        raise Verdict(
            f"The schedule {words} needs more than {capacity} bytes.", reproduce=offload_line(call)
        )
    return time_s


def check_plan(ranks, call, most_s):
    time_s = plan_s(ranks, call)
    if time_s > most_s * (1 + 1e-9):
        raise Verdict(
            f"The makespan of your plan is {time_s:.6g} s; the bound is {most_s:.6g} s.",
            reproduce=offload_line(call),
        )


def shortest_s(call):
    numbers, capacity, host = call
    layers = [Layer(*each) for each in numbers]
    plans = itertools.product(CHOICES, repeat=len(layers))
    return min(makespan_s(layers, plan, capacity, host) for plan in plans)


@points(20, "memory", "offload")
def test_plans_fit(ranks):
    for capacity in (25, 26, 40, 60):
        plan_s(ranks, (SIX[0], capacity, 4.0))


@points(30, "values", "offload")
def test_as_short_as_any_plan(ranks):
    for call in (SIX, (SIX[0], 30, 4.0), (TWELVE[0][:7], 60, 5.0)):
        check_plan(ranks, call, shortest_s(call))


@points(10, "values", "offload")
def test_with_a_fast_and_a_slow_link(ranks):
    for host in (100.0, 0.1):
        check_plan(ranks, (SIX[0], 40, host), shortest_s((SIX[0], 40, host)))


@points(10, "values", "offload")
def test_keeps_everything_where_it_fits(ranks):
    check_plan(ranks, (TWELVE[0], sum(n for *_, n in TWELVE[0]), 1.0), 136)
    check_plan(ranks, ([], 5, 1.0), 0)


@points(10, "safety", "offload")
def test_refuses_where_nothing_fits(ranks):
    calls = [(SIX[0], 24, 4.0), ([(1, 2, 9)], 8, 1.0)]
    for call, (plan, error) in zip(calls, ask_plans(ranks, calls), strict=True):
        if error != "ValueError":
            said = f"raised {error}" if error else f"is {plan}"
            raise Verdict(
                f"The schedule of {len(call[0])} layers, one of which is larger than the capacity, "
                f"{said}; it must raise ValueError.",
                reproduce=offload_line(call),
            )


@points(15, "speed", "offload")
def test_time_of_a_long_model(ranks):
    check_plan(ranks, TWELVE, 1.05 * 145)  # keeping what fits takes 159 s


@points(5, "values", "offload")
def test_gradients_are_those_of_everything_kept(ranks):
    widths = [3, 8, 5, 8]
    plan_s(ranks, ([(1, 2, 16 * width) for width in widths], 200, 40.0))
    result = ranks.call("callers:offload_gradients", 1, [(widths, 0, 200, 40.0)])
    plan, equal = result.raise_for_error().values[0]
    if not equal:
        raise Verdict(f"Run by the plan {plan}, a network has other gradients.")
