"""account.py: parameters, bytes, FLOPs and roofline times."""

import numpy as np

from ringside import Machine
from ringside.checking import Verdict, one_line
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a02_sgd import networks
from solutions.a02_sgd.hidden import oracle, runs

MOST_BYTES = 2**20

points = points_of("account")


# -- networks and machines, as they travel ---------------------------------------------------------


def tell(thing):
    """A layer, a network or a machine as ``callers.counted`` reads it."""
    if isinstance(thing, networks.Network):
        return (
            "network",
            thing.name,
            thing.input_shape,
            tuple(tell(each) for each in thing.layers),
        )
    if isinstance(thing, Machine):
        names = ("flop_per_s", "memory_bytes_per_s", "kernel_overhead_s")
        return ("machine", {name: getattr(thing, name) for name in names})
    return ("layer", type(thing).__name__, vars(thing).copy())


def conv(rng, channels, extra=True):
    """A convolution of an image with so many channels; with groups where they divide."""
    groups = int(rng.choice([g for g in (1, 2, 3, 4) if channels % g == 0]))
    fields = {
        "out_channels": groups * int(rng.integers(1, 6)), "kernel": int(rng.integers(1, 5)),
        "stride": int(rng.integers(1, 4)), "pad": int(rng.integers(0, 3)), "groups": groups,
        "doubled": bool(rng.integers(2)),
    }  # fmt: skip
    return ("layer", "Conv", fields)


def pool(rng):
    fields = {"kernel": int(rng.integers(1, 4)), "stride": int(rng.integers(1, 4))}
    return ("layer", "Pool", fields | {"doubled": bool(rng.integers(2))})


def linear(rng):
    fields = {"out_features": int(rng.integers(1, 40)), "doubled": bool(rng.integers(2))}
    return ("layer", "Linear", fields)


def network(rng, kinds):
    """Random layers of these kinds, on an image large enough for them."""
    shape = (int(rng.integers(1, 13)), int(rng.integers(90, 130)), int(rng.integers(90, 130)))
    if kinds[0] is linear:
        shape = shape[:1] if rng.integers(2) else (2, 3, 5)
    layers, now = [], shape
    for kind in kinds:
        layers.append(kind(rng, now[0]) if kind is conv else kind(rng))
        now = oracle.output_shape(layers[-1], now)
    return ("network", "drawn", shape, tuple(layers))


KINDS = (
    (conv, pool, conv, pool, linear, linear), (conv, linear), (linear, linear, linear),
    (pool, conv, conv, linear), (conv, conv, conv), (linear,),
)  # fmt: skip
KNOWN = tuple(
    tell(each)
    for each in (networks.ALEXNET, networks.ALEXNET_ONE_GROUP, networks.VGG16, networks.LENET5)
)


def drawn(rng):
    return [network(rng, kinds) for kinds in KINDS]


def layers(rng):
    """Layers with the shapes of their inputs."""
    pairs = [(layer, shape) for net in drawn(rng) for layer, shape in
             zip(net[3], oracle.shapes(net), strict=False)]  # fmt: skip
    known = KNOWN[0]
    return [*pairs, *zip(known[3], oracle.shapes(known), strict=False)]


def spelled(thing):
    """An argument as a student would write it."""
    if not isinstance(thing, tuple) or not thing or not isinstance(thing[0], str):
        return repr(thing)
    match thing:
        case ("layer", kind, fields):
            return f"{kind}({', '.join(f'{name}={value}' for name, value in fields.items())})"
        case ("machine", fields):
            words = ", ".join(f"{name}={value!r}" for name, value in fields.items())
            return f"Machine('m', 1e-6, 1e-9, {words})"
        case ("network", name, shape, told):
            known = {"AlexNet": f"alexnet({told[2][2].get('groups', 1)})" if len(told) > 2 else "",
                     "VGG-16": "VGG16", "LeNet-5": "LENET5"}  # fmt: skip
            if known.get(name):
                return known[name]
            return f"Network('drawn', {shape}, ({', '.join(map(spelled, told))},))"
    return repr(thing)


def fail(function, call, sentence):
    said = f"{function}({', '.join(map(spelled, call))})"
    start = "from account import *; from networks import *; from ringside import Machine"
    return Verdict(f"{said}: {sentence}", reproduce=f'python -c "{start}; print({said})"')


def counted(ranks, function, calls):
    """The result of each call, and the most memory of one; none may raise."""
    target, line = f"account:{function}", fail(function, calls[0], "").reproduce
    found, peak = runs.driven(ranks, "callers:counted", target, function, calls, line=line)
    results = []
    for call, (result, raised) in zip(calls, found, strict=True):
        if raised:
            raise fail(function, call, f"{runs.without_text(raised)}.")
        results.append(result)
    return results, peak


def plain(value):
    """NumPy's numbers, which travel as arrays of no dimension, as Python's; shapes as tuples."""
    if isinstance(value, np.ndarray) and (value.ndim == 0 or value.dtype.kind in "iu"):
        return value.item() if value.ndim == 0 else tuple(value.tolist())
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    return value


def by_groups(call):
    """Whether a convolution of several groups is in the call."""
    layers = call[0][3] if call[0][0] == "network" else call[:1]
    several = any(fields.get("groups", 1) > 1 for _, _, fields in layers)
    return "convolutions of several groups" if several else "layers without groups"


def check_exact(ranks, function, calls):
    """Whole numbers, or shapes, as the oracle's."""

    def check(call):
        (result,), _ = counted(ranks, function, [call])
        value, right = plain(result), getattr(oracle, function)(*call)
        if not _whole(value):
            said = f"it gives {one_line(repr(value), 60)}; it must be {right}"
            raise fail(function, call, f"{said}, in whole numbers (int).")
        if value != right:
            raise fail(function, call, f"it is {value}; it must be {right}.")

    check_kinds(calls, by_groups, check)


def _whole(value):
    return all(map(_whole, value)) if isinstance(value, tuple) else type(value) is int


def check_times(ranks, function, calls):
    """Seconds, to 1e-9."""

    def check(call):
        (result,), _ = counted(ranks, function, [call])
        value, right = plain(result), getattr(oracle, function)(*call)
        if type(value) not in (int, float) or not abs(value - right) <= 1e-9 * right:
            raise fail(
                function, call, f"it is {one_line(repr(value), 60)} s; it must be {right:.12g} s."
            )

    check_kinds(calls, by_groups, check)


# -- values ----------------------------------------------------------------------------------------


@points(10, "values")
def test_output_shapes(ranks, rng):
    check_exact(ranks, "output_shape", layers(rng) + layers(rng))


@points(10, "values")
def test_parameters_of_a_layer(ranks, rng):
    check_exact(ranks, "layer_parameters", layers(rng))


@points(10, "values")
def test_parameters_of_a_network(ranks, rng):
    calls = [(each,) for each in KNOWN]
    check_exact(ranks, "num_parameters", [*calls, *((each,) for each in drawn(rng))])


@points(12, "values")
def test_flops_of_a_layer(ranks, rng):
    calls = [(*pair, int(rng.integers(1, 300))) for pair in layers(rng)]
    check_exact(ranks, "layer_flops", calls)


@points(8, "values")
def test_flops_of_training(ranks, rng):
    calls = [(each, int(rng.integers(1, 300))) for each in (*drawn(rng), *KNOWN)]
    check_exact(ranks, "training_flops", calls)


@points(10, "values")
def test_activations_counted_once(ranks, rng):
    calls = [(each, int(rng.integers(1, 300))) for each in (*drawn(rng), *KNOWN)]
    calls += [(*call, itemsize, "uniform") for itemsize in (2, 8) for call in calls[:4]]
    check_exact(ranks, "activation_bytes", calls)


@points(8, "values")
def test_activations_as_on_the_slide(ranks, rng):
    nets = [*drawn(rng), *drawn(rng), *KNOWN]
    calls = [(each, int(rng.integers(1, 300)), int(rng.choice([2, 4, 8])), "slide")
             for each in nets]  # fmt: skip
    check_exact(ranks, "activation_bytes", calls)


@points(8, "values")
def test_bytes_of_training(ranks, rng):
    calls = [(each, int(rng.integers(1, 300))) for each in (*drawn(rng), *KNOWN)]
    calls += [(*call, 8, "slide") for call in calls[:4]] + [(*call, 2) for call in calls[:4]]
    check_exact(ranks, "training_bytes", calls)


# -- time and memory -------------------------------------------------------------------------------


def machines(rng):
    """The presets, and one whose ridge lies between the layers' intensities."""
    found = [Machine.load(name) for name in ("laptop", "textbook", "zaratan")]
    found.append(
        found[1].with_(
            flop_per_s=float(rng.uniform(1e12, 9e12)),
            memory_bytes_per_s=float(rng.uniform(2e11, 9e11)),
            kernel_overhead_s=float(rng.uniform(1, 9) * 1e-6),
        )
    )  # fmt: skip
    return [tell(each) for each in found]


@points(10, "speed")
def test_time_of_a_layer(ranks, rng):
    calls = []
    for machine in machines(rng):
        for pair in layers(rng):
            calls.append((*pair, int(rng.choice([1, 16, 128, 1000])), machine))
        calls += [(*call, 2) for call in calls[-3:]]
    check_times(ranks, "layer_time_s", calls)


@points(8, "speed")
def test_time_of_a_network(ranks, rng):
    calls = []
    for machine in machines(rng):
        calls += [(each, batch, machine) for each in (*drawn(rng), *KNOWN) for batch in (1, 128)]
        calls.append((KNOWN[0], 64, machine, 8))
    check_times(ranks, "forward_time_s", calls)


@points(6, "memory")
def test_nothing_is_allocated(ranks, rng):
    machine = machines(rng)[-1]
    for function, calls in (
        ("num_parameters", [(KNOWN[3],), (KNOWN[0],)]),
        ("layer_flops", [(("layer", "Linear", {"out_features": 1000}), (4096,), 1000)]),
        ("activation_bytes", [(KNOWN[3], 1000), (KNOWN[0], 8, 4, "slide")]),
        ("training_bytes", [(KNOWN[3], 1000)]),
        ("training_flops", [(KNOWN[3], 1000)]),
        ("forward_time_s", [(KNOWN[3], 1000, machine)]),
    ):
        check = check_times if function == "forward_time_s" else check_exact
        check(ranks, function, calls)
        _, peak = counted(ranks, function, calls)
        if peak > MOST_BYTES:
            raise fail(
                function, calls[-1],
                f"a call had {peak} bytes of memory in use; {MOST_BYTES} are allowed: count, and "
                "make nothing of the size that is counted.",
            )  # fmt: skip
