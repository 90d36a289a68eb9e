"""conv_torch.py: rows of the whole convolution, halos between neighbours, and one sum."""

import functools

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_bytes,
    assert_makespan,
    assert_messages,
    assert_moved,
    assert_ran,
    assert_requests_complete,
    buffered,
    members_of_world,
    on_members,
    rendezvous,
)
from ringside.checking.points import points_of
from ringside.trace import Kind
from solutions.a11_spatial.cases_torch import (
    CONV_TORCH_REFUSALS,
    assert_conv_torch,
    assert_conv_torch_collectives,
    assert_conv_torch_peers,
    conv_torch_case,
    conv_torch_refusal,
)
from solutions.a11_spatial.hidden.oracle import examples
from solutions.a11_spatial.hidden.parts import checked

points = points_of("conv_torch")


IMAGES, WEIGHTS = ("y", "dx"), ("dw", "db")


def called(ranks, case, parts=IMAGES + WEIGHTS, **options):
    """``conv2d`` and its gradients on all ranks; checks values, and how rows travelled."""
    world_size = options.pop("world_size", case.world_size)
    options.setdefault("machine", buffered())
    result = ranks.call(
        "callers_torch:conv_torch_called", world_size, case.arguments_of_ranks(), **options
    )
    assert_conv_torch(result, case, parts)
    return result


# -- values ----------------------------------------------------------------------------------------


SIZES = ((2, 4, 1, (2, 3)), (3, 3, 2, (1, 2)), (4, 5, 1, (3, 3)), (5, 2, 2, (3, 1)))


@points(10, "values")
def test_rows_and_gradients_on_2_to_5_ranks(ranks, rng):
    for p, h, batch, channels in SIZES:
        case = conv_torch_case([h] * p, rng, batch=batch, channels=channels)
        called(ranks, case, IMAGES)


@points(8, "values")
def test_gradients_of_weights_and_biases(ranks, rng):
    for p, h, batch, channels in SIZES:
        case = conv_torch_case([h] * p, rng, batch=batch, channels=channels)
        called(ranks, case, WEIGHTS)
    called(ranks, conv_torch_case((4, 1, 6), rng), WEIGHTS)


@points(8, "values")
def test_kernels_of_1_and_5(ranks, rng):
    small = [conv_torch_case([3] * p, rng, kernel=1) for p in (2, 3, 4)]
    large = [conv_torch_case([h] * p, rng, kernel=5) for p, h in ((2, 4), (3, 3), (4, 4))]
    checked(
        parts_of(ranks, small, " where k is 1", also=moved_at_most)
        | parts_of(ranks, large, " where k is 5")
    )


@points(9, "values")
def test_uneven_heights_and_low_parts(ranks, rng):
    def check(some):
        for heights in some:
            called(ranks, conv_torch_case(heights, rng), IMAGES)

    def refused():
        check([(4, 4)])
        for kernel, height in CONV_TORCH_REFUSALS:
            case = conv_torch_refusal(kernel, height)
            result = ranks.call("callers_torch:conv_torch_refused", 2, (kernel, height))
            assert_ran(result, case)
            for rank, value in enumerate(result.values):
                examples.assert_refused(value, rank, case)
            assert_messages(result, [0, 0], case)

    checked(
        {
            "heights that differ": lambda: check([(3, 5), (4, 1, 6), (2, 7, 1, 3)]),
            "parts as low as the halo": lambda: check([(1, 1, 1), (1, 1), (4,)]),
            "arguments that are refused": refused,
        },
        {"heights that differ": 2},
    )


@points(4, "values")
def test_float32_and_bfloat16(ranks, rng):
    single = [conv_torch_case([4] * p, rng, kind="float32") for p in (2, 3)]
    half = [conv_torch_case([4] * 3, rng, kind="bfloat16")]
    checked(parts_of(ranks, single, " in float32") | parts_of(ranks, half, " in bfloat16"))


@points(8, "values")
def test_gaps_sums_no_bias_and_two_calls(ranks, rng):
    tried = {
        "tensors with gaps": [conv_torch_case([4] * 3, rng, batch=2, how="gaps")],
        "the gradient of a sum": [conv_torch_case([4] * 3, rng, batch=2, how="sum")],
        "no bias": [conv_torch_case([4] * 3, rng, bias=False)],
        "two calls in one graph": [conv_torch_case([4] * p, rng, how="together") for p in (2, 3)],
    }
    checks = {}
    for name, some in tried.items():
        checks |= parts_of(ranks, some, f" of {name}")
    checked(checks)


PARTS = {"y and dx": IMAGES, "dw and db": WEIGHTS}


def parts_of(ranks, some, where="", also=lambda ranks, result, case: None, **options):
    """Checks of y with dx, and of dw with db, each by itself: of the same runs."""

    @functools.cache
    def runs():
        seen = [(called(ranks, case, (), **options), case) for case in some]
        for each in seen:
            also(ranks, *each)
        return seen

    def check(parts):
        for each in runs():
            assert_conv_torch(*each, parts)

    return {f"{name}{where}": functools.partial(check, parts) for name, parts in PARTS.items()}


@points(3, "reality")
def test_real_gloo(gloo, rng):
    try:
        case = conv_torch_case([4] * 3, rng)
        given = case.arguments_of_ranks()
        assert_conv_torch(gloo.call("callers_torch:conv_torch_called", 3, given), case)
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None


# -- communication ---------------------------------------------------------------------------------


@points(4, "communication", essential=True)
def test_rows_go_from_neighbour_to_neighbour(ranks, rng):
    case = conv_torch_case([4] * 4, rng, needs="none")
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:conv_torch_called", 4, given, machine=buffered())
    assert_ran(result, case)
    assert_conv_torch_collectives(result, case, case.summed_bytes)
    assert_conv_torch_peers(result, case, ends=True)


@points(8, "communication")
def test_bytes_of_the_halos_forward(ranks, rng):
    for p, h, channels, width in ((2, 4, (2, 3), 5), (3, 4, (2, 3), 5), (4, 3, (2, 3), 5),
                                  (5, 3, (3, 2), 5), (12, 2, (2, 1), 4), (18, 2, (2, 1), 4),
                                  (3, 24, (8, 8), 40)):  # fmt: skip
        case = conv_torch_case([h] * p, rng, channels=channels, width=width, needs="none")
        result = called(ranks, case)
        bounds = [case.halo_bytes(rank, channels[0]) for rank in range(p)]
        ranks.record(case, result, {"sent_bytes": bounds})
        assert_bytes(result, bounds, case)
        assert_conv_torch_peers(result, case)


@points(8, "communication")
def test_bytes_of_both_passes(ranks, rng):
    some = [
        conv_torch_case([h] * p, rng, channels=channels, width=width)
        for p, h, channels, width in (
            (2, 4, (2, 3), 5), (3, 4, (3, 2), 5), (4, 3, (2, 3), 5), (5, 3, (3, 2), 5),
            (12, 2, (2, 1), 4), (18, 2, (2, 1), 4), (3, 24, (8, 8), 40),
        )
    ]  # fmt: skip
    checked(parts_of(ranks, some, also=moved_at_most))


def moved_at_most(ranks, result, case):
    """Each rank sent and received its halos and one all-reduce at most."""
    bounds = [case.allowed_bytes(rank) for rank in range(case.world_size)]
    ranks.record(case, result, {"sent_bytes": bounds})
    what = "a halo forward, a halo backward, and one all-reduce of the weights' gradients"
    for rank, bound in enumerate(bounds):
        assert_moved(result, bound + 0.5, case, what, rank=rank)


@points(5, "communication")
def test_gradients_that_nobody_asked_for_send_nothing(ranks, rng):
    def check(needs):
        case = conv_torch_case([4] * 3, rng, needs=needs)
        moved_at_most(ranks, called(ranks, case), case)

    names = {"weights": "x is data", "x": "frozen weights", "bias": "a bias alone"}
    checked({names[needs]: functools.partial(check, needs) for needs in names})


@points(4, "communication")
def test_given_group_is_used(ranks, rng):
    case = conv_torch_case([3] * 4, rng)
    members = members_of_world(rng, 4)

    def check(parts):
        def run(**there):
            return called(ranks, case, parts, **there)

        on_members(run, *members, case, comm="the group")

    checked({name: functools.partial(check, parts) for name, parts in PARTS.items()})


# -- safety ----------------------------------------------------------------------------------------


@points(9, "safety")
def test_sends_may_wait_and_all_is_completed(ranks, rng):
    def waiting():
        for p in (2, 3, 5):
            called(ranks, conv_torch_case([3] * p, rng), IMAGES, machine=rendezvous())

    def slow():
        for seed in LATENCY_SEEDS:
            case = conv_torch_case([3] * 5, rng)
            result = called(ranks, case, IMAGES, machine=buffered(), seed=seed)
            assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])

    checked({"sends that wait": waiting, "messages in any order": slow}, {"sends that wait": 2})


# -- speed -----------------------------------------------------------------------------------------


def halo_s(machine, case, channels):
    """A halo exchange of an inner rank: one latency, and the bytes to two neighbours."""
    return machine.alpha_s + case.halo_bytes(1, channels) * machine.beta_s_per_byte


@points(12, "speed")
def test_time_of_a_halo_and_of_both_passes(ranks, rng):
    checked(
        {"one halo": lambda: time_of_a_halo(ranks, rng), "both passes": lambda: on_8(ranks, rng)}
    )


def time_of_a_halo(ranks, rng):
    """Rows of both neighbours are under way at once."""
    machine = Machine("far", alpha_s=1e-3, beta_s_per_byte=1e-9, flop_per_s=1e12)
    for p in (3, 6):
        case = conv_torch_case([4] * p, rng, needs="none")
        result = called(ranks, case, machine=machine)
        assert_makespan(result, halo_s(machine, case, case.channels[0]), case)


def on_8(ranks, rng):
    """Both passes take a part of the work, two halos and the all-reduce."""
    machine = Machine("slow cores", alpha_s=2e-6, beta_s_per_byte=2e-9, flop_per_s=1e9)
    p, h, channels, width = 8, 4, (8, 8), 16
    case = conv_torch_case([h] * p, rng, channels=channels, width=width)
    result = called(ranks, case, machine=machine)
    flops = 3 * 2 * channels[0] * channels[1] * 9 * p * h * width
    done = sum(result.num_flops())
    if done < flops * (1 - 1e-9):
        raise case.seen_in(result).fail(
            f"all ranks together counted {done:.6g} floating-point operations; the convolution "
            f"and its gradients take {flops:.6g}."
        )
    ring_s = machine.alpha_s + -(-case.summed_bytes // p) * machine.beta_s_per_byte
    bound_s = flops / p / machine.flop_per_s + 2 * (p - 1) * ring_s
    bound_s += 2 * halo_s(machine, case, channels[0])
    assert_makespan(result, bound_s, case)
