"""ulysses_torch.py: attention of the whole sequence, heads dealt out by all-to-alls."""

import functools

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
    ULYSSES_TORCH_PARTS,
    ULYSSES_TORCH_REFUSALS,
    assert_ulysses_torch,
    assert_ulysses_torch_collectives,
    assert_ulysses_torch_work,
    ulysses_torch_case,
    ulysses_torch_refusal,
)
from solutions.a11_spatial.hidden.oracle import examples
from solutions.a11_spatial.hidden.parts import checked

points = points_of("ulysses_torch")


def called(ranks, case, parts=ULYSSES_TORCH_PARTS, **options):
    """``attention`` and its gradients on all ranks; checks values, and which collectives ran."""
    world_size = options.pop("world_size", case.world_size)
    options.setdefault("machine", buffered())
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:ulysses_torch_called", world_size, given, **options)
    assert_ulysses_torch(result, case, parts)
    return result


HALVES = {"the result": ULYSSES_TORCH_PARTS[:1], "the gradients": ULYSSES_TORCH_PARTS[1:]}


def halves(ranks, some, where="", also=lambda ranks, result, case: None):
    """Checks of the result and of the gradients, each by itself: of the same runs."""

    @functools.cache
    def runs():
        seen = [(called(ranks, case, ()), case) for case in some]
        for each in seen:
            also(ranks, *each)
        return seen

    def check(parts):
        for each in runs():
            assert_ulysses_torch(*each, parts)

    return {f"{name}{where}": functools.partial(check, parts) for name, parts in HALVES.items()}


# -- values ----------------------------------------------------------------------------------------


@points(10, "values")
def test_results_on_2_to_5_ranks(ranks, rng):
    for p, n, heads in ((2, 3, 4), (3, 2, 3), (4, 2, 8), (5, 2, 5)):
        called(ranks, ulysses_torch_case(p, n, rng, heads=heads, batch=2, backward=False))


@points(10, "values")
def test_gradients_on_2_to_5_ranks(ranks, rng):
    for p, n, heads in ((2, 3, 4), (3, 2, 3), (4, 2, 8), (5, 2, 5)):
        case = ulysses_torch_case(p, n, rng, heads=heads, batch=2)
        called(ranks, case, HALVES["the gradients"])


@points(9, "values")
def test_fewer_kv_heads(ranks, rng):
    def nbytes():
        for p, heads, kv_heads in ((2, 8, 2), (4, 8, 4)):
            case = ulysses_torch_case(p, 3, rng, heads=heads, kv_heads=kv_heads, backward=False)
            moved_at_most(ranks, called(ranks, case), case)

    some = [
        ulysses_torch_case(p, 3, rng, heads=heads, kv_heads=kv_heads)
        for p, heads, kv_heads in ((2, 4, 2), (3, 6, 3), (2, 8, 4))
    ]
    checked(halves(ranks, some) | {"the bytes": nbytes})


@points(4, "values")
def test_another_attention(ranks, rng):
    checked(halves(ranks, [ulysses_torch_case(p, 3, rng, sees="near") for p in (2, 4)]))


@points(10, "values")
def test_other_dtypes_gaps_sums_and_two_calls(ranks, rng):
    tried = {
        " in float32": [ulysses_torch_case(4, 2, rng, kind="float32")],
        " in bfloat16": [ulysses_torch_case(2, 3, rng, kind="bfloat16")],
        " of tensors with gaps": [ulysses_torch_case(2, 3, rng, batch=2, how="gaps")],
        " of a sum": [ulysses_torch_case(2, 3, rng, batch=2, how="sum")],
        " of two calls": [ulysses_torch_case(2, 3, rng, how="together")],
        " of few positions": [ulysses_torch_case(4, 1, rng), ulysses_torch_case(1, 5, rng)],
    }
    checks = {}
    for name, some in tried.items():
        checks |= halves(ranks, some, name)
    checked(checks)


@points(3, "values")
def test_heads_that_cannot_be_shared(ranks, rng):
    called(ranks, ulysses_torch_case(2, 2, rng, backward=False))
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


@points(4, "communication", essential=True)
def test_each_rank_takes_some_of_the_heads(ranks, rng):
    case = ulysses_torch_case(4, 3, rng, width=4, backward=False)
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:ulysses_torch_called", 4, given, machine=buffered())
    assert_ran(result, case)
    assert_ulysses_torch_collectives(result, case)
    whole = case.num_flops
    case = case.seen_in(result).asking(f"shared_work={whole / 4:.12g}")
    for rank, done in enumerate(result.num_flops()):
        if not 0 < done < 0.75 * whole:
            raise case.fail(
                f"rank {rank} counted {done:.6g} floating-point operations of matrix products; all "
                f"heads have {whole:.6g}, and each of 4 ranks takes a quarter of them."
            )


def moved_at_most(ranks, result, case):
    """Each rank sent and received so many bytes at most, an all-to-all as its messages."""
    bound = case.allowed_bytes
    ranks.record(case, result, {"sent_bytes": [bound] * case.world_size})
    what = "q, k, v and the result travel once in each pass, and a rank's own part stays"
    assert_moved(result, bound + 0.5, case, what)


SIZES = ((2, 3, 4, 3), (3, 2, 3, 3), (4, 2, 4, 3), (5, 2, 5, 3), (12, 1, 12, 2), (18, 1, 18, 2),
         (2, 24, 4, 24))  # fmt: skip


@points(9, "communication")
def test_bytes_forward(ranks, rng):
    for p, n, heads, width in SIZES:
        case = ulysses_torch_case(p, n, rng, heads=heads, width=width, backward=False)
        moved_at_most(ranks, called(ranks, case), case)


@points(8, "communication")
def test_bytes_of_both_passes(ranks, rng):
    some = [ulysses_torch_case(p, n, rng, heads=h, width=width) for p, n, h, width in SIZES]
    checked(halves(ranks, some, also=moved_at_most))


@points(6, "communication")
def test_given_group_is_used(ranks, rng):
    case = ulysses_torch_case(3, 2, rng, heads=3)
    members = members_of_world(rng, 3)

    def check(parts):
        def run(**there):
            return called(ranks, case, parts, **there)

        on_members(run, *members, case, comm="the group")

    checked({name: functools.partial(check, parts) for name, parts in HALVES.items()})


# -- safety and speed ------------------------------------------------------------------------------


@points(9, "safety")
def test_any_order_and_everything_waited_for(ranks, rng):
    def check(parts):
        for seed in LATENCY_SEEDS:
            for machine in (buffered(), rendezvous()):
                case = ulysses_torch_case(4, 2, rng)
                result = called(ranks, case, parts, machine=machine, seed=seed)
                assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])

    checked({name: functools.partial(check, parts) for name, parts in HALVES.items()})


@points(8, "speed")
def test_each_rank_has_its_share_of_the_work(ranks, rng):
    for p in (2, 4):
        case = ulysses_torch_case(p, 3, rng, width=4)
        result = called(ranks, case, HALVES["the result"])
        assert_ulysses_torch_work(result, case, case.num_flops / p)


@points(7, "speed")
def test_time_on_8_ranks(ranks, rng):
    p, n, machine = 8, 8, Machine("slow cores", alpha_s=5e-7, beta_s_per_byte=2e-9, flop_per_s=1e9)
    case = ulysses_torch_case(p, n, rng, heads=8, width=8)
    result = called(ranks, case, machine=machine)
    assert_ulysses_torch_work(result, case, case.num_flops / p)
    m = case.heads * case.width * n * 8 / p
    exchanges_s = 8 * (p - 1) * (machine.alpha_s + m * machine.beta_s_per_byte)
    assert_makespan(result, case.num_flops / p / machine.flop_per_s + exchanges_s, case)
