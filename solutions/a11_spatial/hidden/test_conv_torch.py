"""conv_torch.py: rows of the whole convolution, halos between neighbours, and one sum."""

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
    assert_conv_torch_peers,
    conv_torch_case,
    conv_torch_refusal,
)
from solutions.a11_spatial.hidden.oracle import examples

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


@points(6, "values")
def test_rows_and_gradients_on_2_to_5_ranks(ranks, rng):
    for p, h, batch, channels in SIZES:
        case = conv_torch_case([h] * p, rng, batch=batch, channels=channels)
        called(ranks, case, IMAGES)


@points(5, "values")
def test_gradients_of_weights_and_biases(ranks, rng):
    for p, h, batch, channels in SIZES:
        case = conv_torch_case([h] * p, rng, batch=batch, channels=channels)
        called(ranks, case, WEIGHTS)
    called(ranks, conv_torch_case([4] * 3, rng, kernel=5), WEIGHTS)
    called(ranks, conv_torch_case((4, 1, 6), rng), WEIGHTS)


@points(6, "values")
def test_kernel_of_5(ranks, rng):
    for p, h in ((2, 4), (3, 3), (4, 4)):
        called(ranks, conv_torch_case([h] * p, rng, kernel=5), IMAGES)


@points(3, "values")
def test_kernel_of_1(ranks, rng):
    for p in (2, 3):
        called(ranks, conv_torch_case([3] * p, rng, kernel=1))


@points(5, "values")
def test_uneven_heights(ranks, rng):
    for heights in ((3, 5), (4, 1, 6), (2, 7, 1, 3)):
        called(ranks, conv_torch_case(heights, rng), IMAGES)


@points(2, "values")
def test_parts_as_low_as_the_halo_and_one_rank(ranks, rng):
    for heights in ((1, 1, 1), (1, 1), (4,)):
        called(ranks, conv_torch_case(heights, rng), IMAGES)


@points(3, "values")
def test_float32(ranks, rng):
    for p in (2, 3):
        called(ranks, conv_torch_case([4] * p, rng, kind="float32"))


@points(2, "values")
def test_bfloat16(ranks, rng):
    called(ranks, conv_torch_case([4] * 3, rng, kind="bfloat16"))


@points(4, "values")
def test_tensors_with_gaps_and_gradients_of_sums(ranks, rng):
    for how in ("gaps", "sum"):
        called(ranks, conv_torch_case([4] * 3, rng, batch=2, how=how))


@points(2, "values")
def test_no_bias(ranks, rng):
    called(ranks, conv_torch_case([4] * 3, rng, bias=False))


@points(3, "values")
def test_two_calls_in_one_graph(ranks, rng):
    for p in (2, 3):
        called(ranks, conv_torch_case([4] * p, rng, how="together"))


@points(2, "values")
def test_arguments_that_cannot_be_right(ranks, rng):
    called(ranks, conv_torch_case([4, 4], rng))
    for kernel, height in CONV_TORCH_REFUSALS:
        case = conv_torch_refusal(kernel, height)
        result = ranks.call("callers_torch:conv_torch_refused", 2, (kernel, height))
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_refused(value, rank, case)
        assert_messages(result, [0, 0], case)


@points(3, "reality")
def test_real_gloo(gloo, rng):
    try:
        case = conv_torch_case([4] * 3, rng)
        given = case.arguments_of_ranks()
        assert_conv_torch(gloo.call("callers_torch:conv_torch_called", 3, given), case)
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None


# -- communication ---------------------------------------------------------------------------------


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


@points(8, "communication")
def test_bytes_of_both_passes(ranks, rng):
    for p, h, channels, width in ((2, 4, (2, 3), 5), (3, 4, (3, 2), 5), (4, 3, (2, 3), 5),
                                  (5, 3, (3, 2), 5), (12, 2, (2, 1), 4), (18, 2, (2, 1), 4),
                                  (3, 24, (8, 8), 40)):  # fmt: skip
        case = conv_torch_case([h] * p, rng, channels=channels, width=width)
        moved_at_most(ranks, called(ranks, case), case)


def moved_at_most(ranks, result, case):
    """Each rank sent and received its halos and one all-reduce at most."""
    bounds = [case.allowed_bytes(rank) for rank in range(case.world_size)]
    ranks.record(case, result, {"sent_bytes": bounds})
    what = "a halo forward, a halo backward, and one all-reduce of the weights' gradients"
    for rank, bound in enumerate(bounds):
        assert_moved(result, bound + 0.5, case, what, rank=rank)


@points(3, "communication")
def test_kernel_of_1_sends_no_rows(ranks, rng):
    for p in (2, 4):
        case = conv_torch_case([3] * p, rng, kernel=1)
        moved_at_most(ranks, called(ranks, case), case)


@points(3, "communication")
def test_rows_go_to_neighbours_only(ranks, rng):
    for p in (4, 5, 9):
        case = conv_torch_case([3] * p, rng, needs="none")
        assert_conv_torch_peers(called(ranks, case), case)


@points(4, "communication")
def test_gradients_that_nobody_asked_for_send_nothing(ranks, rng):
    for needs in ("weights", "x", "bias"):
        case = conv_torch_case([4] * 3, rng, needs=needs)
        moved_at_most(ranks, called(ranks, case), case)


@points(4, "communication")
def test_given_group_is_used(ranks, rng):
    case = conv_torch_case([3] * 4, rng)
    members = members_of_world(rng, 4)
    on_members(lambda **there: called(ranks, case, **there), *members, case, comm="the group")


# -- safety ----------------------------------------------------------------------------------------


@points(6, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    for p in (2, 3, 5):
        case = conv_torch_case([3] * p, rng)
        called(ranks, case, machine=rendezvous())


@points(4, "safety")
def test_messages_may_be_slow_and_are_waited_for(ranks, rng):
    for seed in LATENCY_SEEDS:
        case = conv_torch_case([3] * 5, rng)
        result = called(ranks, case, machine=buffered(), seed=seed)
        assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])


# -- speed -----------------------------------------------------------------------------------------


def halo_s(machine, case, channels):
    """A halo exchange of an inner rank: one latency, and the bytes to two neighbours."""
    return machine.alpha_s + case.halo_bytes(1, channels) * machine.beta_s_per_byte


@points(7, "speed")
def test_both_neighbours_at_once(ranks, rng):
    machine = Machine("far", alpha_s=1e-3, beta_s_per_byte=1e-9, flop_per_s=1e12)
    for p in (3, 6):
        case = conv_torch_case([4] * p, rng, needs="none")
        result = called(ranks, case, machine=machine)
        assert_makespan(result, halo_s(machine, case, case.channels[0]), case)


@points(7, "speed")
def test_time_on_8_ranks(ranks, rng):
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
