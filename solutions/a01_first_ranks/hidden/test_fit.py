"""fit.py: two numbers out of many, on synthetic measurements and published ones."""

import math

import numpy as np

from ringside.checking import Case, Verdict, assert_ran, one_line
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from ringside.checking.published import load
from solutions.a01_first_ranks import fit as reference
from solutions.a01_first_ranks.hidden.runs import number

MACHINES = ((1e-6, 1e-9), (2.7e-6, 8e-11), (5e-5, 1e-8), (1e-3, 2e-10))
GRID = [0, 1, *(2**k for k in range(1, 23, 2))]
# Between two nodes of a cloud: OSU micro-benchmarks.
CLOUD = {int(size): us for size, us in load("osu_gke")[1]["latency_us"].items()}

points = points_of("fit")


def times(sizes, alpha_s, beta, noise=0.0, rng=None):
    exact = alpha_s + beta * np.asarray(sizes, float)
    return rounded(exact if rng is None else scattered(exact, noise, rng))


def scattered(exact, noise, rng):
    return exact * (1 + noise * rng.uniform(-1, 1, size=len(exact)))


def rounded(values):
    """To six digits: a line that reproduces a verdict has room for so many."""
    return np.array([float(f"{value:.6g}") for value in values])


def ask(ranks, function, calls):
    """Evaluate a function of fit.py inside a rank, for a list of calls."""
    target = f"fit:{function}"
    result = ranks.call("callers:answers", 1, [(target, calls)])
    assert_ran(result, Case(target, 1, 0))
    return result.values[0]


def spelled(argument):
    if not isinstance(argument, np.ndarray):
        return repr(argument)
    dtype = "" if argument.dtype.kind == "f" else f", '{argument.dtype}'"
    return f"n.array({argument.tolist()}{dtype})"


def fail(function, call, sentence):
    shown = f"{function}({', '.join(map(spelled, call))})"
    raise Verdict(
        f"{one_line(shown)}: {sentence}",
        reproduce=f'python -c "import fit, numpy as n; print(fit.{shown})"',
    )


def changed(function, call):
    """A verdict whose line shows the arguments after the call."""
    given = ", ".join(map(spelled, call))
    shown = one_line(f"{function}({given})")
    line = f"import fit, numpy as n; a = [{given}]; fit.{function}(*a); print(a)"
    raise Verdict(
        f"{shown}: changed its arguments; they must stay as they were.",
        reproduce=f'python -c "{line}"',
    )


def answered(ranks, function, calls):
    """Pairs of a call and its result, where none raised anything."""
    for call, (value, raised, _) in zip(calls, ask(ranks, function, calls), strict=True):
        if raised:
            fail(function, call, f"raised {one_line(raised, 60)}.")
        yield call, value


def near(found, right, scale):
    return found is not None and math.isclose(found, right, rel_tol=2e-6, abs_tol=2e-6 * scale)


def line_is(found, right, sizes, times_s):
    """Whether a pair is the pair; an alpha near 0 counts by the shortest time."""
    if not isinstance(found, tuple | list) or len(found) != 2:
        return False
    scales = (float(np.min(times_s)), float(np.min(times_s)) / max(1, int(np.max(sizes))))
    return all(near(number(f), r, s) for f, r, s in zip(found, right, scales, strict=True))


def check_lines(ranks, calls):
    for call, found in answered(ranks, "fit", calls):
        right = reference.fit(*call)
        if not line_is(found, right, *call):
            shown = one_line(repr(found), 80)
            fail("fit", call, f"is {shown}; it must be ({right[0]:.7g}, {right[1]:.7g}).")


@points(15, "values")
def test_exact_times(ranks, rng):
    drawn = (float(10 ** rng.uniform(-6, -3)), float(10 ** rng.uniform(-11, -8)))
    calls = [(GRID, times(GRID, *each).tolist()) for each in (*MACHINES, drawn)]
    calls += [([8, 800], times([8, 800], *drawn).tolist())]
    check_lines(ranks, calls)


@points(20, "values")
def test_noise_counts_alike_at_all_sizes(ranks, rng):
    calls = [
        (sizes, times(sizes, *each, 0.2, rng).tolist())
        for each in MACHINES
        for sizes in (GRID, GRID[4:])
    ]
    check_lines(ranks, calls)


@points(15, "values")
def test_measured_times_of_a_cloud(ranks):
    sizes, times_s = list(CLOUD), rounded(1e-6 * np.array(list(CLOUD.values()))).tolist()
    parts = [(sizes[k:], times_s[k:]) for k in (0, 2, 6)] + [(sizes[:6], times_s[:6])]
    # Where short messages take longer than long ones, alpha is large and beta negative; where
    # times grow faster than sizes, alpha is negative.
    bent = [([1, 10, 100], [3e-6, 2e-6, 1e-6]), ([1000, 2000, 4000], [1e-6, 3e-6, 9e-6])]
    check_lines(ranks, parts + bent)


@points(10, "values")
def test_any_order_repeated_sizes_and_arrays(ranks, rng):
    order = rng.permutation(len(GRID))
    sizes = np.array(GRID)[order]
    repeated = np.concatenate([sizes, sizes[:3], sizes[:3]])
    calls = [
        (sizes, times(sizes, *MACHINES[0], 0.1, rng)),
        (repeated, times(repeated, *MACHINES[1], 0.1, rng)),
        (repeated.tolist(), times(repeated, *MACHINES[2], 0.1, rng).tolist()),
        (sizes.astype("int32"), times(sizes, *MACHINES[3], 0.1, rng)),
    ]
    check_lines(ranks, calls)


@points(10, "values")
def test_residuals(ranks, rng):
    calls = [
        (sizes, measured if arrays else measured.tolist(), *model)
        for arrays, sizes in ((False, GRID), (True, np.array(GRID[::-1])))
        for measured in (times(sizes, *MACHINES[0], 0.3, rng), times(sizes, 2e-6, 5e-9))
        for model in (MACHINES[0], MACHINES[1], (0.0, 1e-9), (-1e-6, 0.0))
    ]
    for call, found in answered(ranks, "residuals", calls):
        right = reference.residuals(*call)
        good = isinstance(found, np.ndarray) and found.shape == right.shape
        good = good and found.dtype == np.float64
        if not good:
            kind = f"of dtype {found.dtype}" if isinstance(found, np.ndarray) else type(found)
            fail("residuals", call, f"is {kind}; it must be a float64 array of {right.shape}.")
        wrong = ~np.isclose(found, right, rtol=2e-6, atol=1e-9)
        if wrong.any():
            at = int(np.argmax(wrong))
            fail("residuals", call, f"element {at} is {found[at]:.6g}; it must be {right[at]:.6g}.")


def stepped(sizes, threshold, short, long, noise, rng):
    sizes = np.asarray(sizes)
    exact = np.where(sizes < threshold, times(sizes, *short), times(sizes, *long))
    return rounded(scattered(exact, noise, rng))


@points(10, "values")
def test_two_regimes(ranks, rng):
    calls = []
    for threshold in (64, 8192, 131072):
        for noise in (1e-4, 0.1):
            sizes = np.array([2**k for k in range(3, 23)])
            sizes = sizes if noise < 0.1 else rng.permutation(sizes)
            measured = stepped(sizes, threshold, (2e-6, 5e-10), (9e-6, 1e-10), noise, rng)
            calls.append((sizes.tolist(), measured.tolist()))
    check_regimes(ranks, calls)


@points(10, "values")
def test_two_regimes_at_the_ends_and_of_a_cloud(ranks, rng):
    measured = rounded(1e-6 * np.array(list(CLOUD.values()))).tolist()
    calls = [
        (list(CLOUD), measured),
        (list(CLOUD)[:6], measured[:6]),
        ([1, 2, 3, 4], [1e-6, 2e-6, 9e-6, 9.5e-6]),
    ]
    sizes = np.array([1, 8, 64, 512, 4096, 32768, 262144])
    for threshold in (64, 32768):  # two sizes are left on one side
        again = np.concatenate([sizes, sizes])
        calls.append((again, stepped(again, threshold, (1e-6, 1e-9), (3e-5, 1e-9), 1e-3, rng)))
    # Where times are far from any line, another sum than that of squares finds another threshold.
    for noise in (0.5, 0.8) * 8:
        thrice = rng.permutation(np.repeat([0, 1, 8, 64, 512, 4096, 32768, 262144], 3))
        calls.append((thrice.tolist(), times(thrice, *MACHINES[0], noise, rng).tolist()))
    check_regimes(ranks, calls)


def by_order(call):
    return "sizes in order" if list(call[0]) == sorted(call[0]) else "sizes in any order"


def check_regimes(ranks, calls):
    def check(call):
        ((_, found),) = answered(ranks, "two_regimes", [call])
        sizes, times_s = (np.asarray(each) for each in call)
        threshold, *lines = reference.two_regimes(*call)
        if not isinstance(found, tuple | list) or len(found) != 3:
            shown = one_line(repr(found), 60)
            fail("two_regimes", call, f"is {shown}; it must be (threshold, short, long).")
        if number(found[0]) != threshold:
            shown = one_line(repr(found[0]), 40)
            fail("two_regimes", call, f"the threshold is {shown}; it must be {threshold}.")
        for name, pair, right, part in zip(
            ("short", "long"), found[1:], lines, (sizes < threshold, sizes >= threshold),
            strict=True,
        ):  # fmt: skip
            if not line_is(pair, right, sizes[part], times_s[part]):
                shown = one_line(repr(pair), 80)
                fail("two_regimes", call, f"{name} is {shown}; it must be {right}.")

    check_kinds(calls, by_order, check)


@points(5, "safety")
def test_too_few_sizes_are_refused(ranks):
    check_lines(ranks, [([8, 800], [1e-6, 2e-6])])  # two are enough
    few = {
        "fit": [([], []), ([8], [1e-6]), ([8, 8, 8], [1e-6, 2e-6, 1e-6])],
        "two_regimes": [([1, 2, 3], [1e-6, 2e-6, 3e-6]), ([1, 2, 3, 3, 1], [1e-6] * 5)],
    }
    for function, calls in few.items():
        for call, (value, raised, _) in zip(calls, ask(ranks, function, calls), strict=True):
            if raised != "ValueError":
                did = f"raised {one_line(raised, 40)}" if raised else f"is {value!r}"
                fail(function, call, f"{one_line(did, 80)}; it must raise ValueError.")


@points(5, "safety")
def test_inputs_stay_as_they_were(ranks, rng):
    sizes = np.array(GRID)[::-1].copy()
    measured = times(sizes, *MACHINES[0], 0.1, rng)
    check_lines(ranks, [(sizes, measured)])
    for function, more in (("fit", ()), ("residuals", (1e-6, 1e-9)), ("two_regimes", ())):
        for given in (sizes, sizes.astype(float), sizes.tolist()):
            call = (given, measured.tolist() if isinstance(given, list) else measured, *more)
            if any(each[2] for each in ask(ranks, function, [call])):
                changed(function, call)
