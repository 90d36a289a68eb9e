"""ulysses_torch.py: attention of the whole sequence, heads dealt out by all-to-alls."""

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
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
    ULYSSES_TORCH_REFUSALS,
    assert_ulysses_torch,
    assert_ulysses_torch_work,
    ulysses_torch_case,
    ulysses_torch_refusal,
)
from solutions.a11_spatial.hidden.oracle import examples

points = points_of("ulysses_torch")


def called(ranks, case, **options):
    """``attention`` and its gradients on all ranks; checks values, and which collectives ran."""
    world_size = options.pop("world_size", case.world_size)
    options.setdefault("machine", buffered())
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:ulysses_torch_called", world_size, given, **options)
    assert_ulysses_torch(result, case)
    return result


# -- values ----------------------------------------------------------------------------------------


@points(8, "values")
def test_results_on_2_to_5_ranks(ranks, rng):
    for p, n, heads in ((2, 3, 4), (3, 2, 3), (4, 2, 8), (5, 2, 5)):
        called(ranks, ulysses_torch_case(p, n, rng, heads=heads, batch=2, backward=False))


@points(10, "values")
def test_gradients_on_2_to_5_ranks(ranks, rng):
    for p, n, heads in ((2, 3, 4), (3, 2, 3), (4, 2, 8), (5, 2, 5)):
        called(ranks, ulysses_torch_case(p, n, rng, heads=heads, batch=2))


@points(5, "values")
def test_fewer_kv_heads(ranks, rng):
    for p, heads, kv_heads in ((2, 4, 2), (3, 6, 3), (2, 8, 4)):
        called(ranks, ulysses_torch_case(p, 3, rng, heads=heads, kv_heads=kv_heads))


@points(4, "values")
def test_another_attention(ranks, rng):
    for p in (2, 4):
        called(ranks, ulysses_torch_case(p, 3, rng, sees="near"))


@points(3, "values")
def test_float32(ranks, rng):
    called(ranks, ulysses_torch_case(4, 2, rng, kind="float32"))


@points(2, "values")
def test_bfloat16(ranks, rng):
    called(ranks, ulysses_torch_case(2, 3, rng, kind="bfloat16"))


@points(4, "values")
def test_tensors_with_gaps_and_gradients_of_sums(ranks, rng):
    for how in ("gaps", "sum"):
        called(ranks, ulysses_torch_case(2, 3, rng, batch=2, how=how))


@points(3, "values")
def test_two_calls_in_one_graph(ranks, rng):
    called(ranks, ulysses_torch_case(2, 3, rng, how="together"))


@points(2, "values")
def test_one_position_a_rank_and_one_rank(ranks, rng):
    called(ranks, ulysses_torch_case(4, 1, rng))
    called(ranks, ulysses_torch_case(1, 5, rng))


@points(3, "values")
def test_heads_that_cannot_be_shared(ranks, rng):
    called(ranks, ulysses_torch_case(2, 2, rng))
    for heads, kv_heads in ULYSSES_TORCH_REFUSALS:
        case = ulysses_torch_refusal(heads, kv_heads)
        result = ranks.call("callers_torch:ulysses_torch_refused", 2, (heads, kv_heads))
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_refused(value, rank, case)
        assert_messages(result, [0, 0], case)


@points(3, "reality")
def test_real_gloo(gloo, rng):
    case = ulysses_torch_case(2, 3, rng)
    try:
        given = case.arguments_of_ranks()
        assert_ulysses_torch(gloo.call("callers_torch:ulysses_torch_called", 2, given), case)
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None


# -- communication ---------------------------------------------------------------------------------


def moved_at_most(ranks, case):
    """Each rank sent and received so many bytes at most, an all-to-all as its messages."""
    result = called(ranks, case)
    bound = case.allowed_bytes
    ranks.record(case, result, {"sent_bytes": [bound] * case.world_size})
    what = "q, k, v and the result travel once in each pass, and a rank's own part stays"
    assert_moved(result, bound + 0.5, case, what)
    return result


@points(10, "communication")
def test_bytes_forward(ranks, rng):
    for p, n, heads, width in ((2, 3, 4, 3), (3, 2, 3, 3), (4, 2, 4, 3), (5, 2, 5, 3),
                               (12, 1, 12, 2), (18, 1, 18, 2), (2, 24, 4, 24)):  # fmt: skip
        case = ulysses_torch_case(p, n, rng, heads=heads, width=width, backward=False)
        moved_at_most(ranks, case)


@points(8, "communication")
def test_bytes_of_both_passes(ranks, rng):
    for p, n, heads, width in ((2, 3, 4, 3), (3, 2, 3, 3), (4, 2, 4, 3), (5, 2, 5, 3),
                               (12, 1, 12, 2), (18, 1, 18, 2), (2, 24, 4, 24)):  # fmt: skip
        moved_at_most(ranks, ulysses_torch_case(p, n, rng, heads=heads, width=width))


@points(4, "communication")
def test_fewer_kv_heads_send_their_share(ranks, rng):
    for p, heads, kv_heads in ((2, 8, 2), (4, 8, 4)):
        moved_at_most(ranks, ulysses_torch_case(p, 3, rng, heads=heads, kv_heads=kv_heads))


@points(6, "communication")
def test_given_group_is_used(ranks, rng):
    case = ulysses_torch_case(3, 2, rng, heads=3)
    members = members_of_world(rng, 3)
    on_members(lambda **there: called(ranks, case, **there), *members, case, comm="the group")


# -- safety and speed ------------------------------------------------------------------------------


@points(10, "safety")
def test_any_order_and_everything_waited_for(ranks, rng):
    for seed in LATENCY_SEEDS:
        for machine in (buffered(), rendezvous()):
            case = ulysses_torch_case(4, 2, rng)
            result = called(ranks, case, machine=machine, seed=seed)
            assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])


@points(8, "speed")
def test_each_rank_has_its_share_of_the_work(ranks, rng):
    for p in (2, 4):
        case = ulysses_torch_case(p, 3, rng, width=4)
        assert_ulysses_torch_work(called(ranks, case), case, case.num_flops / p)


@points(7, "speed")
def test_time_on_8_ranks(ranks, rng):
    p, n, machine = 8, 8, Machine("slow cores", alpha_s=5e-7, beta_s_per_byte=2e-9, flop_per_s=1e9)
    case = ulysses_torch_case(p, n, rng, heads=8, width=8)
    result = called(ranks, case, machine=machine)
    assert_ulysses_torch_work(result, case, case.num_flops / p)
    m = case.heads * case.width * n * 8 / p
    exchanges_s = 8 * (p - 1) * (machine.alpha_s + m * machine.beta_s_per_byte)
    assert_makespan(result, case.num_flops / p / machine.flop_per_s + exchanges_s, case)
