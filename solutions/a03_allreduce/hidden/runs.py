"""Runs that the tests of every module share: draw inputs, run, check the values, give the result.

Whatever a test is about, it asks for the values of its run first, on two ranks or more:
returning the input, or nothing, earns no points for sending little.

What the network counted is looked at from several sides, each a test: bytes, messages, peers,
calls. Such tests look at the same run of a case (``seen``), which is made once a submission; tests
of values look at it too. A run costs by its messages, some p * p of them, so few are on many ranks.

Each kind of cases has its share of a test's points (``check_each``): who forgets worlds that aren't
powers of two loses the points of those, and not of all that was right.
"""

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_inputs_kept,
    assert_makespan,
    assert_own_messages,
    assert_ran,
    assert_requests_complete,
    assert_sum,
    buffered,
    magnitude,
    members_of_world,
    on_members,
    rendezvous,
    total,
    with_waiting_sends,
)
from ringside.checking.case_kinds import check_kinds
from solutions.a03_allreduce import examples
from solutions.a03_allreduce.hidden import oracle

POWERS_OF_TWO = (2, 4, 8)
OTHER_SIZES = (3, 5, 6, 7)
LARGE = 2003
DTYPES = ("float64", "float32", "int64")


PLAIN = "powers of two as numbers of ranks p, where p divides n"
WEIGHTS = {PLAIN: 2.0}


def kind_of(case):
    """What is often missed: numbers of ranks, and lengths that they do not divide."""
    if case.world_size & (case.world_size - 1) == 0:
        return PLAIN if case.n % case.world_size == 0 else "powers of two that do not divide n"
    divides = "divide n" if case.n % case.world_size == 0 else "do not divide n"
    return f"other numbers of ranks that {divides}"


def check_each(cases, check):
    """Check every case; each kind of them earns its share."""
    check_kinds(cases, kind_of, check, weights=WEIGHTS)


def lengths(world_size):
    """No element, as many as ranks, one more, and many: what ``sweep`` leaves out."""
    if world_size < 5:
        return 0, world_size, world_size - 1, LARGE
    return (0, world_size + 1) if world_size % 4 == 0 else (world_size + 1,)


def sweep(target, options=None, world_sizes=range(2, 9)):
    """Cases on 2 to 8 ranks, of every dtype: what is sent is bounded at all of them."""
    return [
        Case(target, p, n, DTYPES[(p + k) % 3], options or {})
        for p in world_sizes
        for k, n in enumerate((1, 5 * p + 2, 3 * p))
        if p < 6 or k > 0
    ]


def everywhere(target, options=None):
    """``sweep``, and ranks or elements as many as nobody tries by hand: a star there is seen."""
    many = ((12, 72_000, "float32"), (17, 77, "int64"), (36, 90, "float32"))
    return sweep(target, options) + [Case(target, *each, options or {}) for each in many]


def slow(target, options=None):
    """What also runs with sends that wait: of ``sweep`` long vectors and single elements; none."""
    swept = [
        case
        for case in sweep(target, options)
        if case.n > case.world_size or (case.n == 1 and case.world_size > 2)
    ]
    return swept + [Case(target, p, 0, options=options or {}) for p in (2, 3)]


def assorted(target, world_sizes, lengths, options=None):
    """Cases of these lengths, and some with nothing to pad or convert: equal shards, no float64."""
    cases = [Case(target, p, n, options=options or {}) for p in world_sizes for n in lengths]
    dtypes = itertools.cycle(("int64", "float32"))
    return cases + [Case(target, p, 3 * p, next(dtypes), options or {}) for p in world_sizes]


def of_each_dtype(target, options=None):
    """Cases of every dtype: short, uneven and long."""
    sizes = ((4, 8, "int64"), (4, 203, "int64"), (5, LARGE, "float32"), (4, 40, "float64"))
    return [Case(target, *each, options or {}) for each in sizes]


def shuffled(target, options=None):
    """Cases that are run with messages in many orders: long shards, and some that are empty."""
    return [Case(target, p, n, options=options or {}) for p, n in ((4, 20), (5, 3))]


def check_sums(ranks, rng, target, world_sizes, options=None):
    """The sum is right on every rank, for these world sizes and all lengths."""
    checks = [
        (kind_of(case), functools.partial(shared_run, ranks, case))
        for case in sweep(target, options, world_sizes)
    ]
    for world_size in world_sizes:
        for n in lengths(world_size):
            case = Case(target, world_size, n, options=options or {})
            check = functools.partial(reduced, ranks, rng, case, values_only=True)
            checks.append((kind_of(case), check))
    for dtype in ("float64", "float32"):
        case = Case(target, world_sizes[1], 3 * world_sizes[1], dtype, options or {})
        checks.append(("NaN and infinities", functools.partial(check_special, ranks, rng, case)))
    check_kinds(checks, operator.itemgetter(0), lambda each: each[1](), weights=WEIGHTS)


def check_special(ranks, rng, case):
    """NaN, infinities, very large and very small numbers are added like all others."""
    vectors = case.vectors(rng)
    examples.specials(vectors, case.drawn[-1])
    arguments, expected, scales = summed(case, vectors)
    result = ranks.call(case.target, case.world_size, arguments, machine=buffered())
    module = "callers_torch" if "_torch:" in case.target else "callers"
    seen = case.called_by(f"{module}:special").seen_in(result)
    assert_ran(result, seen)
    for rank, value in enumerate(result.values):
        examples.check_special(seen, rank, value, (expected[rank], scales[rank]))


def check_dtypes(ranks, rng, target, options=None):
    """float32 stays float32, and int64 is exact."""
    sizes = ((1, 0), (1, 13), (2, 8), (4, 40), (3, 9), (3, 4), (3, LARGE), (4, 3), (4, 43))
    check_each(
        [
            Case(target, p, n, dtype, options or {})
            for p, n in sizes
            for dtype in ("float32", "int64")
        ],
        lambda case: reduced(ranks, rng, case, values_only=True),
    )


def reduced(
    ranks, rng, case, *, machine=None, members=None, seed=None, world_size=None, values_only=False
):
    """Run an all-reduce on random vectors and check the sum; returns the result.

    Unless values are all that counts, nothing is earned where the library moves the data.
    """
    vectors = case.vectors(rng)
    result = ranks.call(
        case.target,
        world_size or case.world_size,
        case.arguments(vectors),
        machine=machine or buffered(),
        members=members,
        seed=seed,
    )
    assert_sum(result, vectors, case)
    if not values_only:
        assert_own_data(result, case)
    return result


def assert_own_data(result, case):
    """No library collective moved data; a barrier costs the points of another test."""
    if any(each.name != "barrier" for each in result.collectives):
        assert_own_messages(result, case)


def shared_run(ranks, case):
    """The run of a case that all tests share, its values checked."""

    def run(rng):
        vectors = case.vectors(rng)
        result = ranks.call(
            case.target, case.world_size, case.arguments(vectors), machine=buffered()
        )
        return case.drawn, vectors, result

    drawn, vectors, result = ranks.once(f"{case.target}, {case}", run)
    case.drawn[:] = drawn
    assert_sum(result, vectors, case)
    return result


def seen(ranks, case):
    """The shared run of a case, for a test that looks at what was sent."""
    result = shared_run(ranks, case)
    assert_own_data(result, case)
    return result


def check_scheme(ranks, rng, cases: Iterable[Case]):
    """Ranks' own messages carry the data as the scheme has it, whatever comes of it.

    Where a module has several functions, each has its share.
    """

    def check(case):
        arguments = examples.scheme_arguments(case, case.vectors(rng))
        result = ranks.call(case.target, case.world_size, arguments, machine=buffered())
        examples.assert_scheme(result, case)

    check_kinds(cases, lambda case: case.function, check)


def check_strided(ranks, rng, cases: Iterable[Case], call: Callable):
    """Every other element of a read-only array is an input like any other.

    ``call(case, vectors)`` gives the arguments after ``comm`` and the expected results.
    """

    def check(case):
        for stride in (2, -3):
            arguments, expected, scales = call(case, case.vectors(rng))
            result = ranks.call(
                "callers:strided",
                case.world_size,
                [(case.target, stride, *each) for each in arguments],
                machine=buffered(),
            )
            seen = case.called_by(f"callers:strided --stride {stride}").seen_in(result)
            assert_ran(result, seen)
            for rank, value in enumerate(result.values):
                examples.check_strided(seen, rank, value, (expected[rank], scales[rank]))

    check_each(cases, check)


def summed(case: Case, vectors: Sequence[np.ndarray]):
    """Arguments, expected results and scales of an all-reduce."""
    ranks = case.world_size
    return case.arguments(vectors), [total(vectors)] * ranks, [magnitude(vectors)] * ranks


def check_inputs_kept(ranks, rng, cases: Iterable[Case], run: Callable | None = None):
    """No rank's input changes. ``run(ranks, rng, case)`` runs a case and checks its values."""
    run = run or functools.partial(reduced, values_only=True)
    check_each(cases, lambda case: assert_inputs_kept(run(ranks, rng, case), case))


def check_second_call(ranks, rng, cases: Iterable[Case], call: Callable = summed):
    """A second call with other data gives other values, and leaves the first result alone.

    ``call`` is as in ``check_strided``.
    """

    def check(case):
        early, first, first_scales = call(case, case.vectors(rng))
        again, second, second_scales = call(case, case.vectors(rng))
        result = ranks.call(
            "callers:twice",
            case.world_size,
            [(case.target, a[0], *b) for a, b in zip(early, again, strict=True)],
            machine=buffered(),
        )
        seen = case.called_by("callers:twice", 2).seen_in(result)
        assert_ran(result, seen)
        for rank, value in enumerate(result.values):
            rights = (first[rank], first_scales[rank]), (second[rank], second_scales[rank])
            examples.check_twice(seen, rank, value, *rights)

    check_each(cases, check)


def check_given_communicator(ranks, rng, cases: Iterable[Case], run: Callable = reduced):
    """Only the ranks of ``comm`` take part, in the order that ``comm`` gives them.

    ``run(ranks, rng, case, ...)`` runs a case and checks its values, here and below.
    """
    cases = list(cases)

    def check(case):
        # The last one has all ranks of the world, in another order.
        strangers = 0 if case is cases[-1] else 2
        members, world_size = members_of_world(rng, case.world_size, strangers)
        on_members(functools.partial(run, ranks, rng, case), members, world_size, case)

    check_each(cases, check)


def check_point_to_point(ranks, rng, cases: Iterable[Case], look: Callable = shared_run):
    """No library collective is called, not even a barrier, and few communicators are made."""
    check_each(cases, lambda case: assert_own_messages(look(ranks, case), case))


def check_rendezvous(ranks, rng, cases: Iterable[Case], run: Callable = reduced):
    """Nothing hangs where every send waits for its receive."""

    def check(case):
        result = with_waiting_sends(functools.partial(run, ranks, rng, case), case)
        assert_requests_complete(result, case)

    check_each(cases, check)


def check_any_order(ranks, rng, cases: Iterable[Case], run: Callable = reduced):
    """Right whichever messages are slow, and whichever a wildcard takes."""

    def check(case):
        for seed in LATENCY_SEEDS:
            for machine in (buffered(), rendezvous()):
                run(ranks, rng, case, machine=machine, seed=seed)

    check_each(cases, check)


def check_makespans(ranks, rng, cases: Iterable[Case], machine, bound_s, **limits):
    """The virtual time of each case is within ``limits`` times ``bound_s(case, machine)``.

    Of each kind the worst case decides.
    """

    def check(case):
        result = reduced(ranks, rng, case, machine=machine)
        star = oracle.beside_star(case, machine)
        assert_makespan(result, bound_s(case, machine), case, beside=star, **limits)

    check_each(cases, check)


def check_real_mpi(mpi, rng, cases: Iterable[Case]):
    """The same module under a real mpiexec: values only."""
    cases = list(cases)
    inputs = [case.vectors(rng) for case in cases]
    calls = [
        (case.target, case.world_size, case.arguments(vectors))
        for case, vectors in zip(cases, inputs, strict=True)
    ]

    def check(run):
        case, vectors, result = run
        try:
            assert_sum(result, vectors, case)
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}",
                reproduce=f"mpiexec -n {case.world_size} python -c "
                f'"import numpy as np, {case.target.partition(":")[0]} as m; '
                f"from mpi4py.MPI import COMM_WORLD as c; "
                f'print(m.{case.function}(c, np.arange({case.n}) + c.rank))"',
                detail=verdict.detail,
            ) from None

    runs = list(zip(cases, inputs, mpi.call_all(calls), strict=True))
    check_kinds(runs, lambda run: kind_of(run[0]), check, weights=WEIGHTS)
