"""The cases of the hidden run."""

import numpy as np
from checks import test_fit as fit
from checks import test_mend as mend
from checks import test_ping as ping
from checks import test_where as where
from checks.cases import (
    Bounce,
    BusyPing,
    Collect,
    Exchange,
    Fit,
    LatePing,
    Ping,
    Residuals,
    TwoRegimes,
    Where,
)

from ringside.checking import LATENCY_SEEDS
from ringside.checking.published import load
from ringside.checking.suite import group, hidden, oracle

# -- ping ------------------------------------------------------------------------------------------

PAIRS = "ranks_per_node=2,intra_alpha_s=2e-07,intra_beta_s_per_byte=1e-10,poll_s=1e-10"
# ranks, elements or bytes, repetitions, partner
SHAPES = (
    (2, 33, 1, 1), (3, 8, 4, 1), (12, 3000, 2, 1), (3, 0, 2, 2), (5, 1000, 3, 3), (18, 5, 1, 7),
)  # fmt: skip
ONES, OTHERS = (shapes for _, shapes in ping.by_partner(SHAPES))


def drawn_machine(rng):
    alpha_s, beta = 10 ** rng.uniform(-6, -4), 10 ** rng.uniform(-10, -8)
    machine = f"alpha_s={alpha_s:.4g},beta_s_per_byte={beta:.4g},poll_s=1e-10"
    return [Ping(4, 8192, 3, partner, machine=machine) for partner in (1, 3)]


def on_machines(partner):
    machines = {ping.BUFFERED: 10**6, f"{mend.LONG_WIRE},poll_s=1e-10": 0, PAIRS: 3000}
    return [Ping(4, nbytes, 3, partner, machine=name) for name, nbytes in machines.items()]


hidden(
    ping.test_two_ranks_exchange_messages,
    group("bounce", Bounce(2, 100, 3, machine="buffered")),
    group("ping", Ping(2, 800, 3, machine="buffered")),
)
hidden(
    ping.test_what_was_sent_comes_back,
    *(
        group(name, *(Bounce(*shape, machine=ping.BUFFERED) for shape in shapes))
        for name, shapes in ping.by_partner((*SHAPES, (2, 3001, 2, 1), (4, 2003, 1, 3)))
    ),
    *(
        group(
            ping.PARTNER_1 if partner == 1 else ping.OTHERS,
            Bounce(3, 8, 2, partner, dtype, machine=ping.BUFFERED),
        )
        for dtype, partner in (("float32", 1), ("int64", 1), ("int16", 2), ("complex64", 2))
    ),
)
hidden(
    ping.test_time_of_a_message,
    *(
        group(
            name, *(Ping(ranks, 8 * n, *more) for ranks, n, *more in shapes), *on_machines(partner)
        )
        for (name, shapes), partner in zip(ping.by_partner(SHAPES), (1, 3), strict=True)
    ),
    group(ping.PARTNER_1, lambda rng: drawn_machine(rng)[:1]),
    group(ping.OTHERS, lambda rng: drawn_machine(rng)[1:]),
    group(ping.ODD, *(Ping(2, nbytes, 2, machine=ping.SLOW_WIRE) for nbytes in (3, 33))),
)
hidden(
    ping.test_mean_where_one_trip_takes_longer,
    BusyPing(3, 2000, 12, members=(2, 0, 1), world=3, machine=ping.BUFFERED),
)
hidden(
    ping.test_who_comes_late_is_waited_for_first,
    group(ping.PARTNER_1, LatePing(2, 100, 2), LatePing(2, 100, 2, who=0)),
    group(ping.OTHERS, LatePing(3, 0, 2, 2, 2)),
)
hidden(ping.test_inputs_stay_and_results_are_new, Bounce(2, 33, 1), Bounce(3, 8, 4))
hidden(ping.test_real_mpi, Bounce(3, 50, 4), Ping(3, 1000, 10))
hidden(ping.test_messages_on_both_ways, *ping.both(*ONES, machine="buffered"))
hidden(
    ping.test_bytes_of_the_messages,
    *ping.of_both(*ONES, machine="buffered"),
    *(Bounce(3, 7, 3, 1, dtype, machine="buffered") for dtype in ("float32", "int16")),
)
hidden(ping.test_messages_go_to_the_partner, *ping.both(*OTHERS, machine="buffered"))
hidden(
    ping.test_others_are_left_alone,
    group(ping.SEVERAL, *ping.of_both(*SHAPES[1:5]), weight=3),
    group(ping.ONE, Bounce(1, 5, 2), Ping(1, 5, 2)),
)
hidden(
    ping.test_given_communicator_is_used,
    group("bounce", Bounce(3, 9, 2, 2)),
    group("ping", Ping(4, 100, 2, 3)),
)
hidden(ping.test_sends_may_wait_and_requests_end, *ping.both(*ONES))
hidden(
    ping.test_messages_follow_one_another,
    *ping.both(*ONES),
    group(
        "sends that don't wait",
        Bounce(3, 100, 4, machine=ping.BUFFERED),
        Bounce(3, 1000, 2, machine=ping.BUFFERED),
        weight=6,
    ),
)
hidden(ping.test_nothing_is_waited_for_besides, *ping.both(*ONES))

# -- fit -------------------------------------------------------------------------------------------


@oracle(Fit)
def fit_of(case):
    return line(case.sizes, case.times_s)


@oracle(Residuals)
def residuals_of(case):
    pairs = np.array(case.sizes), np.array(case.times_s)
    return residuals(*pairs, case.alpha_s, case.beta_s_per_byte).tolist()


@oracle(TwoRegimes)
def two_regimes_of(case):
    def squares(threshold):
        parts = case.parts(threshold)
        return sum(np.sum(residuals(*part, *line(*part)) ** 2) for part in parts)

    threshold = int(min(np.unique(case.sizes)[2:-1], key=squares))
    return threshold, *(line(*part) for part in case.parts(threshold))


def line(sizes, times_s):
    """``(alpha_s, beta_s_per_byte)`` where the sum of squares has no slope, by Cramer's rule."""
    one, size = 1 / np.array(times_s, float), np.array(sizes, float) / np.array(times_s, float)
    a, b, c, d, e = one @ one, one @ size, size @ size, one.sum(), size.sum()
    return float((c * d - b * e) / (a * c - b * b)), float((a * e - b * d) / (a * c - b * b))


def residuals(sizes, times_s, alpha_s, beta_s_per_byte):
    return (times_s - (alpha_s + beta_s_per_byte * sizes)) / times_s


MACHINES = ((1e-6, 1e-9), (2.7e-6, 8e-11), (5e-5, 1e-8), (1e-3, 2e-10))
GRID = (0, 1, *(2**k for k in range(1, 23, 2)))
EIGHTHS = tuple(8**k for k in range(7))


def rounded(values):
    """To six digits: a line that shows a failure has room for so many."""
    return tuple(float(f"{value:.6g}") for value in values)


# Between two nodes of a cloud: OSU micro-benchmarks.
MEASURED_US = load("osu_gke")[1]["latency_us"]
CLOUD = tuple(int(size) for size in MEASURED_US)
CLOUD_S = rounded(1e-6 * np.array(list(MEASURED_US.values())))


def scattered(sizes, alpha_s, beta, noise, rng):
    exact = alpha_s + beta * np.asarray(sizes, float)
    return rounded(exact * (1 + noise * rng.uniform(-1, 1, size=len(exact))))


def permuted(sizes, rng):
    return tuple(int(size) for size in rng.permutation(sizes))


def drawn_line(rng):
    machine = float(10 ** rng.uniform(-6, -3)), float(10 ** rng.uniform(-11, -8))
    return [Fit(sizes, fit.times(sizes, *machine)) for sizes in (GRID, (8, 800), (0, 4096))]


def noisy(rng):
    return [
        Fit(sizes, scattered(sizes, *machine, 0.2, rng))
        for machine in MACHINES
        for sizes in (GRID[1:], GRID[4:])
    ]


def in_any_order(rng):
    sizes = permuted(GRID, rng)
    repeated = (*sizes, *sizes[:3], *sizes[:3])
    forms = ((sizes, "array"), (repeated, "array"), (repeated, "list"), (sizes, "int32"))
    return [
        Fit(each, scattered(each, *machine, 0.1, rng), form)
        for (each, form), machine in zip(forms, MACHINES, strict=True)
    ]


def of_models(rng):
    models = (MACHINES[0], MACHINES[1], (0.0, 1e-9), (-1e-6, 0.0))
    return [
        Residuals(sizes, times_s, form, *model)
        for form, sizes in (("list", GRID), ("array", GRID[::-1]))
        for times_s in (scattered(sizes, *MACHINES[0], 0.3, rng), fit.times(sizes, 2e-6, 5e-9))
        for model in models
    ]


def stepped(sizes, threshold, short, long, noise, rng):
    below, above = (scattered(sizes, *each, noise, rng) for each in (short, long))
    return tuple(np.where(np.array(sizes) < threshold, below, above).tolist())


def with_a_step(noise, rng):
    doubling = tuple(2**k for k in range(3, 23))
    lists = [doubling if noise < 0.1 else permuted(doubling, rng) for _ in range(3)]
    return [
        TwoRegimes(sizes, stepped(sizes, threshold, (2e-6, 5e-10), (9e-6, 1e-10), noise, rng))
        for sizes, threshold in zip(lists, (64, 8192, 131072), strict=True)
    ]


def near_the_ends(rng):
    """Two sizes are left on one side."""
    twice = EIGHTHS * 2
    return [
        TwoRegimes(twice, stepped(twice, each, (1e-6, 1e-9), (3e-5, 1e-9), 1e-3, rng), "array")
        for each in (64, 32768)
    ]


def far_from_any_line(rng):
    """There another sum than that of squares finds another threshold."""
    lists = [permuted(EIGHTHS * 3, rng) for _ in range(16)]
    return [
        TwoRegimes(sizes, scattered(sizes, *MACHINES[0], 0.5 + 0.3 * (number % 2), rng))
        for number, sizes in enumerate(lists)
    ]


def of_all_forms(kind):
    def drawn(rng):
        sizes = GRID[:0:-1]
        times_s = scattered(sizes, *MACHINES[0], 0.1, rng)
        return [kind(sizes, times_s, form) for form in ("array", "float64", "list")]

    return group(kind.target.removeprefix("fit:"), drawn, weight=4 if kind is Fit else 1)


hidden(fit.test_exact_times, *(Fit(GRID, fit.times(GRID, *each)) for each in MACHINES), drawn_line)
hidden(fit.test_noise_counts_alike_at_all_sizes, noisy)
hidden(
    fit.test_measured_times_of_a_cloud,
    *(Fit(CLOUD[first:], CLOUD_S[first:]) for first in (1, 2, 6)),
    Fit(CLOUD[1:7], CLOUD_S[1:7]),
    # Where short messages take longer than long ones, alpha is large and beta negative; where
    # times grow faster than sizes, alpha is negative.
    Fit((1, 10, 100), (3e-6, 2e-6, 1e-6)),
    Fit((1000, 2000, 4000), (1e-6, 3e-6, 9e-6)),
)
hidden(fit.test_any_order_repeated_sizes_and_arrays, in_any_order)
hidden(fit.test_residuals, of_models)
hidden(
    fit.test_two_regimes,
    group(fit.IN_ORDER, lambda rng: with_a_step(1e-4, rng)),
    group(fit.IN_ANY, lambda rng: with_a_step(0.1, rng)),
)
hidden(
    fit.test_two_regimes_at_the_ends_and_of_a_cloud,
    group(
        fit.IN_ORDER,
        TwoRegimes(CLOUD[1:], CLOUD_S[1:]),
        TwoRegimes(CLOUD[1:7], CLOUD_S[1:7]),
        TwoRegimes((1, 2, 3, 4), (1e-6, 2e-6, 9e-6, 9.5e-6)),
    ),
    group(fit.IN_ANY, near_the_ends, far_from_any_line),
)
hidden(
    fit.test_too_few_sizes_are_refused,
    Fit((8, 800), (1e-6, 2e-6)),  # two are enough
    Fit((), (), raises="ValueError"),
    Fit((8,), (1e-6,), raises="ValueError"),
    Fit((8, 8, 8), (1e-6, 2e-6, 1e-6), raises="ValueError"),
    TwoRegimes((1, 2, 3), (1e-6, 2e-6, 3e-6), raises="ValueError"),
    TwoRegimes((1, 2, 3, 3, 1), (1e-6,) * 5, raises="ValueError"),
)
hidden(fit.test_inputs_stay_as_they_were, *map(of_all_forms, (Fit, Residuals, TwoRegimes)))

# -- mend ------------------------------------------------------------------------------------------

EXCHANGES = [Exchange(*shape) for shape in ((2, 5), (3, 3001), (4, 0), (5, 33), (12, 700), (17, 4))]
MEANS = [
    mend.mean(*lengths)
    for lengths in ((3, 4), (2, 3, 1, 9, 40), range(1, 19), (90, 10, 30, 20, 70, 60, 1, 50, 2))
]
MEANS_WITHOUT = [mend.mean(0, 5, 2), mend.mean(6, 0, 0, 1, 4)]
COLLECTS = [
    Collect(*shape)
    for shape in (
        (2, 3, 4), (3, 5, 7), (4, 1, 300), (5, 4, 1), (3, 2, 3001), (12, 3, 2), (18, 2, 3),
    )
]  # fmt: skip


def buffered(cases):
    return [case.on_sends("buffered") for case in cases]


def one_row(*shapes):
    """Where neither rows nor ranks can be confused."""
    return [Collect(2, 1, n, **mend.BUFFERED) for n in shapes]


def equal(*lengths):
    """All elements are one number, for which one pass finds a variance just below 0."""

    def drawn(rng):
        variance = 0.0
        while variance >= 0:
            number = round(rng.uniform(0.1, 1), 3)
            vectors = [np.full(n, number) for n in lengths]
            count, total, squares = np.sum([(len(x), x.sum(), x @ x) for x in vectors], axis=0)
            variance = squares / count - (total / count) ** 2
        return [mend.mean(*lengths, equal=number)]

    return drawn


hidden(
    mend.test_data_travels_in_messages,
    *mend.of_each([Exchange(4, 100, **mend.BUFFERED)], (), one_row(50)),
)
hidden(
    mend.test_exchange,
    *EXCHANGES, Exchange(8, 2003), Exchange(7, 1),
    *(Exchange(5, 20, latencies=seed) for seed in LATENCY_SEEDS),
)  # fmt: skip
hidden(mend.test_exchange_of_one_rank, Exchange(1, 4), Exchange(1, 2003))
hidden(
    mend.test_mean_and_deviation,
    group(mend.WITH, *MEANS, mend.mean(5), mend.mean(1, 1), weight=2),
    group(mend.EQUAL, equal(3, 4), equal(2, 3, 1, 9, 40)),
)
hidden(
    mend.test_mean_where_ranks_have_no_element,
    *MEANS_WITHOUT,
    mend.mean(0, 0, 1),
    mend.mean(30, 0, 1, 2, 3, 0, 7, 500),
)
hidden(
    mend.test_collect,
    *COLLECTS,
    *(Collect(*shape) for shape in ((1, 3, 2), (3, 0, 2), (3, 2, 0), (8, 2, 5))),
    *(Collect(6, 3, 2, latencies=seed) for seed in LATENCY_SEEDS),
)
hidden(
    mend.test_inputs_stay_and_results_are_new,
    group("exchange", *buffered(EXCHANGES[:2]), weight=3),
    group("one rank", Exchange(1, 4, **mend.BUFFERED)),
    group("mean_and_deviation", mend.mean(2, 3, 1, 9, 40)),
    group("collect", *one_row(7, 4), Collect(1, 3, 2, **mend.BUFFERED), weight=3),
)  # fmt: skip
hidden(mend.test_real_mpi, Exchange(3, 2003), mend.mean(4, 2, 7), Collect(3, 5, 20))
hidden(mend.test_exchange_sends_to_the_next_rank_only, *EXCHANGES)
hidden(
    mend.test_mean_and_deviation_by_few_numbers,
    group(mend.LONG, *(mend.mean(*lengths) for lengths in ((30, 40), (90, 10, 30, 20)))),
    group(mend.MANY, *(mend.mean(*[20] * p) for p in (12, 18))),
)
hidden(
    mend.test_collect_sends_to_rank_0_only,
    *(Collect(p, 1, n, **mend.BUFFERED) for p, n in ((2, 4), (4, 300), (12, 2), (18, 3))),
)
hidden(
    mend.test_given_communicator_is_used,
    *mend.of_each([Exchange(3, 4, **mend.BUFFERED)], [mend.mean(3, 1, 2)], one_row(4)),
)
hidden(mend.test_collect_in_any_order, Collect(4, 5, 3))
hidden(
    mend.test_what_is_started_ends,
    group("exchange", *buffered(EXCHANGES[:4]), weight=2), group("mean_and_deviation", *MEANS),
    group("collect", *one_row(4, 7), Collect(2, 0, 2, **mend.BUFFERED), weight=2),
)  # fmt: skip
hidden(
    mend.test_exchange_takes_no_longer_on_more_ranks,
    *(Exchange(p, 1250, machine=f"{mend.LONG_WIRE},poll_s=1e-10") for p in (7, 12)),
)
hidden(mend.test_collect_takes_one_row_after_the_other, Collect(6, 4, 400), Collect(3, 16, 400))

# -- where -----------------------------------------------------------------------------------------

UUIDS = where.UUIDS
MANY = ("0,1,2,3", "GPU-8f2a,GPU-91c0,GPU-07", "0,1,2,3,4,5,6,7")
FEWER = ("3", "1,0", UUIDS)
on_nodes = where.on_nodes
# In the last one a table of all is longer than a kB.
NODES = [on_nodes(*shape) for shape in ((4, 2), (9, 3), (3, 3), (6, 1), (18, 2, UUIDS))]


def in_another_order(rng):
    cases = []
    for ranks_per_node, p in ((2, 5), (3, 4)):
        members = tuple(int(rank) for rank in rng.permutation(6)[:p])
        members = members[::-1] if list(members) == sorted(members) else members
        cases.append(on_nodes(p, ranks_per_node, "0,1,2", members=members, world=6))
    return cases


def in_turn(p, hosts):
    """Ranks that are dealt out over hosts of three ranks each, as cards are."""
    members = tuple(rank % hosts * 3 + rank // hosts for rank in range(p))
    return on_nodes(p, 3, members=members, world=3 * hosts)


def mixed(rng):
    lists = (*MANY, *FEWER, None)
    each = [tuple(lists[int(k)] for k in rng.integers(len(lists), size=6)) for _ in range(2)]
    return [on_nodes(6, 3, visible) for visible in each]


hidden(
    where.test_host_and_local_rank, *(on_nodes(p, k) for p, k in ((2, 1), (4, 2), (6, 3), (1, 2)))
)
hidden(
    where.test_ranks_of_a_host_need_not_be_neighbours,
    group(
        where.UNEVEN,
        *(on_nodes(p, k) for p, k in ((5, 2), (8, 3), (3, 8), (7, 4), (11, 4))),
    ),
    group(where.IN_ANY, in_another_order, in_turn(6, 2), in_turn(8, 3), weight=3),
)
hidden(
    where.test_gpu_of_each_rank,
    group(where.MANY, *(on_nodes(6, 3, visible) for visible in MANY)),
    group(where.FEWER, *(on_nodes(6, 3, visible) for visible in FEWER), mixed),
    group(where.NONE, *(on_nodes(6, 3, visible) for visible in (None, ""))),
)
hidden(where.test_rank_0_alone_prints, *NODES[:2], on_nodes(3, 3, None), on_nodes(4, 4))
hidden(where.test_real_mpi, Where(3, ("0,1", None, "0,1")))
hidden(where.test_few_calls, *NODES)
hidden(where.test_few_bytes, *NODES)
hidden(
    where.test_messages_may_arrive_in_any_order,
    on_nodes(6, 2, ("0,1", "2,3", None, "5,4", "6,7", "8,9")),
)
hidden(where.test_next_call, on_nodes(6, 2, ("0,1", "2,3", None, "5,4", "6,7", "8,9")))
hidden(where.test_what_is_started_ends, *(on_nodes(p, k) for p, k in ((4, 2), (6, 3), (8, 4))))
