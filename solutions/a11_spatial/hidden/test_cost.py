"""cost.py: bytes to the byte and times to rounding, against what the network counts."""

import functools
import math

from ringside import Machine
from ringside.checking import Case, Verdict, assert_ran, award, one_line
from ringside.checking.formulas import evaluated
from ringside.checking.points import points_of
from ringside.checking.ring_bytes import sent_as_ring
from solutions.a11_spatial import cost as reference
from solutions.a11_spatial.conv_sizes import Layer, halving

TEXTBOOK = Machine.load("textbook")
MACHINES = ("textbook", "zaratan", "textbook,alpha_s=1e-4")
WAYS = ("data", "filter", "domain")
SIZES = (1, 2, 3, 5, 8, 64)
NETWORKS = [
    ([Layer(8, 8, 2, 4)], 3),
    (halving(64, (3, 16, 32, 64)), 8),
    (halving(2048, (3, 16, 32, 64, 64)), 1),
    ([Layer(12, 20, 3, 8, 5, 5), Layer(12, 20, 8, 8, 1, 1), Layer(6, 10, 8, 5, 7, 7)], 5),
]

points = points_of("cost")


def drawn(rng, num_layers=3):
    """A network of sizes that no number of ranks divides."""
    sizes = rng.integers(3, 99, size=(num_layers, 4)).tolist()
    kernels = (2 * rng.integers(0, 4, size=num_layers) + 1).tolist()
    return [Layer(*s, k, k) for s, k in zip(sizes, kernels, strict=True)], int(rng.integers(1, 99))


def networks(rng):
    return [*NETWORKS, drawn(rng), drawn(rng, 1)]


def shown(function):
    """How a sentence names a call, and the line that makes it."""

    def words_of(call):
        layers, *others = call
        given = ", ".join(
            f"Machine.load({each!r})" if isinstance(each, str) else repr(each) for each in others
        )
        numbers = ", ".join(f"Layer{tuple(layer)}" for layer in layers)
        words = f"{function}([{numbers}], {given})"
        head = "from cost import *; from conv_sizes import Layer; from ringside import Machine"
        return words, f'python -c "{head}; print({words})"'.replace(
            "Machine.load('", "Machine.load('"
        )

    return words_of


def ask(ranks, function, calls):
    """The calls' values; layers travel as tuples."""
    given = [([tuple(layer) for layer in layers], *others) for layers, *others in calls]
    return evaluated(ranks, "callers:cost_numbers", f"cost:{function}", given, shown(function))


def check_bytes(ranks, function, calls, rights=None, beside=""):
    """Every answer is the number of bytes, exactly."""
    if rights is None:
        rights = [getattr(reference, function)(*call) for call in calls]
    for call, value, right in zip(calls, ask(ranks, function, calls), rights, strict=True):
        what, line = shown(function)(call)
        if type(value) not in (int, float) or value != right:
            said = one_line(repr(value), 60)
            raise Verdict(f"{what} is {said}; it must be {right}{beside}.", reproduce=line)


def check_times(ranks, function, calls, rights=None, beside=""):
    """Every answer is the time in seconds, to rounding."""
    if rights is None:
        rights = [getattr(reference, function)(*loaded(call)) for call in calls]
    for call, value, right in zip(calls, ask(ranks, function, calls), rights, strict=True):
        what, line = shown(function)(call)
        if type(value) not in (int, float) or not math.isclose(value, right, rel_tol=1e-9):
            said = one_line(repr(value), 60)
            raise Verdict(f"{what} is {said} s; it must be {right:.9g}{beside}.", reproduce=line)


def check_shares(checks):
    """Each check has an equal share of the test's points."""
    verdicts, count = [], 0
    for check in checks:
        count += 1
        try:
            check()
        except Verdict as verdict:
            verdicts.append(verdict)
    if verdicts:
        said = f"{verdicts[0].sentence} Of {count} such checks {len(verdicts)} failed."
        award(1 - len(verdicts) / count, said, reproduce=verdicts[0].reproduce)


def loaded(call):
    return [Machine.load(each) if isinstance(each, str) else each for each in call]


def sized(rng, sizes=SIZES):
    return [(layers, batch, p) for layers, batch in networks(rng) for p in sizes]


def timed(rng, sizes=SIZES):
    return [(*call, name) for call in sized(rng, sizes) for name in MACHINES]


@points(8, "values")
def test_bytes_of_data_parallelism(ranks, rng):
    check_bytes(ranks, "data_bytes", sized(rng))


@points(10, "values")
def test_bytes_of_filter_parallelism(ranks, rng):
    check_bytes(ranks, "filter_bytes", sized(rng))


@points(12, "values")
def test_bytes_of_domain_parallelism(ranks, rng):
    check_bytes(ranks, "domain_bytes", sized(rng))


@points(5, "values")
def test_kernels_that_are_not_square(ranks, rng):
    layers = [Layer(9, 7, 3, 3, 5, 1), Layer(9, 7, 3, 3, 1, 7), Layer(9, 7, 3, 3, 3, 5)]
    check_bytes(ranks, "domain_bytes", [(layers, 3, p) for p in (2, 3, 6)])


@points(4, "values")
def test_bytes_of_an_element(ranks, rng):
    layers, batch = drawn(rng)
    calls = [(layers, batch, 4, itemsize) for itemsize in (2, 8)]
    check_shares(functools.partial(check_bytes, ranks, f"{way}_bytes", calls) for way in WAYS)


@points(8, "values")
def test_time_of_data_parallelism(ranks, rng):
    check_times(ranks, "data_s", timed(rng))


@points(9, "values")
def test_time_of_filter_parallelism(ranks, rng):
    check_times(ranks, "filter_s", timed(rng))


def with_halos(calls):
    """The same calls where each layer has a halo: filters of one row get five."""

    def tall(layer):
        return layer if layer.kernel_h > 1 else layer._replace(kernel_h=5)

    return [([tall(each) for each in layers], *rest) for layers, *rest in calls]


def with_equal_channels(layers):
    """As many channels out as in, so that the halos of both passes are equally large."""
    return [each._replace(out_channels=each.in_channels) for each in layers]


@points(9, "values")
def test_time_of_domain_parallelism(ranks, rng):
    check_times(ranks, "domain_s", with_halos(timed(rng, (1, 3, 5, 8, 64))))


@points(3, "values")
def test_halo_without_rows_takes_no_time(ranks, rng):
    layers, batch = drawn(rng)
    layers = with_equal_channels(layers)
    layers = [layer._replace(kernel_h=k) for layer, k in zip(layers, (1, 3, 1), strict=True)]
    calls = [(layers, batch, p, name) for p in (3, 5, 8) for name in MACHINES]
    check_times(ranks, "domain_s", calls)


@points(4, "values")
def test_two_ranks_have_one_neighbour_each(ranks, rng):
    calls = [(with_equal_channels(layers), *rest) for layers, *rest in timed(rng, (2,))]
    check_times(ranks, "domain_s", with_halos(calls))


TRACED = [
    ([Layer(8, 16, 2, 8, 3, 3), Layer(8, 8, 8, 8, 5, 5)], 3),
    ([Layer(16, 4, 8, 8, 3, 3), Layer(8, 4, 8, 16, 1, 1), Layer(8, 4, 16, 8, 3, 3)], 2),
]


def counted(ranks, way, world_size, layers, batch):
    """Bytes and time that the network counts of one step of ``traffic.py``."""
    arguments = ([tuple(layer) for layer in layers], batch)

    def run(rng):
        target = f"traffic:{way}_parallel"
        return ranks.call(target, world_size, [arguments] * world_size, machine=TEXTBOOK)

    result = ranks.once(f"{way} {world_size} {arguments}", run)
    assert_ran(result, Case(f"traffic:{way}_parallel", world_size, batch))
    return round(sum(sent_as_ring(result))), result.makespan_s


def check_traced(ranks, check, unit, quantity):
    """What the network counts, of each way on each number of ranks."""

    def asked(layers, batch, p, way):
        right = counted(ranks, way, p, layers, batch)[quantity]
        beside = f", as the network counts of traffic.py on {p} ranks"
        call = (layers, batch, p, *["textbook"][:quantity])
        check(ranks, f"{way}_{unit}", [call], [right], beside)

    check_shares(
        functools.partial(asked, *network, p, way)
        for network in TRACED for p in (2, 4, 8) for way in WAYS
    )  # fmt: skip


@points(8, "communication")
def test_traced_bytes(ranks, rng):
    check_traced(ranks, check_bytes, "bytes", 0)


@points(8, "communication")
def test_traced_times(ranks, rng):
    check_traced(ranks, check_times, "s", 1)


def check_best(ranks, calls):
    """The way that is named is possible and takes as long as the best one, or ValueError."""
    for call, value in zip(calls, ask(ranks, "best", calls), strict=True):
        what, line = shown("best")(call)
        times = step_times(*loaded(call))
        least = min(times, key=times.get) if times else "ValueError"
        if value == least or (value in times and times[value] <= times[least] * (1 + 1e-9)):
            continue
        beside = ", ".join(f"{way} takes {1e3 * time:.6g} ms" for way, time in times.items())
        raise Verdict(
            f"{what} is {one_line(repr(value), 40)}; it must be {least!r}. "
            f"{beside or 'No way is possible'}.",
            reproduce=line,
        )


def step_times(layers, batch, p, machine):
    """The time of a step in each possible way."""
    parts = {
        "data": [(batch, batch, 1)] * len(layers),
        "filter": [(layer.out_channels, layer.out_channels, 1) for layer in layers],
        "domain": [(layer.height, layer.height, max(1, layer.kernel_h // 2)) for layer in layers],
    }
    times = {}
    for way, cut in parts.items():
        if any(count // p < least for count, _, least in cut):
            continue
        flops = 0.0
        for k, (layer, (count, whole, _)) in enumerate(zip(layers, cut, strict=True)):
            passes = 3 if k else 2
            work = 2 * batch * layer.weights * layer.height * layer.width
            flops += passes * work * math.ceil(count / p) / whole
        messages_s = getattr(reference, f"{way}_s")(layers, batch, p, machine)
        times[way] = messages_s + flops / machine.flop_per_s
    return times


@points(9, "speed")
def test_best_for_a_resolution(ranks, rng):
    calls = []
    for resolution in (32, 128, 512, 2048):
        for batch in (1, 4, 64):
            for p in (1, 2, 4, 16):
                layers = halving(resolution, (3, 32, 64, 128))
                calls += [(layers, batch, p, name) for name in MACHINES[:2]]
    wide = [Layer(4, 4, 64, 512), Layer(4, 4, 512, 512)]
    calls += [(wide, batch, p, "textbook") for batch in (1, 2, 8) for p in (2, 3, 4)]
    # 12 filters on 8 ranks: some have two and some one, and those with two take longest.
    calls += [([Layer(1, 1, 2048, 12)], 8, 8, f"textbook,flop_per_s={x}") for x in ("1e8", "1e12")]
    check_best(ranks, [call for call in calls if step_times(*loaded(call))])


@points(3, "speed")
def test_best_where_none_is_possible(ranks, rng):
    check_best(
        ranks,
        [(halving(16, (3, 8, 8)), 4, 16, "textbook"), ([Layer(8, 8, 3, 4)], 1, 9, "textbook")],
    )
