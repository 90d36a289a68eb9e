"""moe_torch.py: experts on torch.distributed, whose exchange hides behind the shared expert."""

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_makespan,
    assert_requests_complete,
    buffered,
    members_of_world,
    on_members,
    rendezvous,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from ringside.trace import Kind
from solutions.a14_experts.hidden.oracle import examples

cases = examples.moe_cases
moe_case, moe_ran = cases.moe_case, cases.moe_ran
points = points_of("moe_torch")


def seed(rng):
    return int(rng.integers(2**31))


# -- values ----------------------------------------------------------------------------------------


@points(7, "values")
def test_moe_forward(ranks, rng):
    for tokens, num_experts in (((6, 6), 2), ((4, 7, 3), 3), ((5, 5, 5, 5), 4)):
        moe_ran(ranks, moe_case(tokens, num_experts, how="forward", k=1, seed=seed(rng)))


@points(15, "values")
def test_moe_gradients(ranks, rng):
    def check(each):
        tokens, num_experts, how = each
        moe_ran(ranks, moe_case(tokens, num_experts, how=how, seed=seed(rng)), forward=False)

    tried = [
        ((6, 6), 2, "plain"), ((4, 7, 3), 3, "plain"), ((5, 5, 5, 5), 4, "plain"),
        ((4, 7, 3), 3, "twice"),
    ]  # fmt: skip
    kinds = {"plain": "one forward pass", "twice": "a second one before the backward pass"}
    check_kinds(tried, lambda each: kinds[each[2]], check, weights={kinds["plain"]: 1.5})


@points(9, "values")
def test_moe_several_experts_a_rank(ranks, rng):
    for tokens, num_experts in (((6, 5), 5), ((4, 7, 3), 8)):
        moe_ran(ranks, moe_case(tokens, num_experts, seed=seed(rng)))


@points(8, "values")
def test_moe_where_nothing_comes(ranks, rng):
    moe_ran(ranks, moe_case((4, 3, 5), 3, "one", k=1, seed=seed(rng)))
    moe_ran(ranks, moe_case((4, 0, 5), 3, seed=seed(rng)))
    moe_ran(ranks, moe_case((4, 0, 5), 3, "one", k=1, seed=seed(rng)))


@points(3, "values")
def test_moe_one_rank_and_float32(ranks, rng):
    moe_ran(ranks, moe_case((6,), 3, seed=seed(rng)))
    moe_ran(ranks, moe_case((6, 4), 2, seed=seed(rng), dtype="float32"))


@points(4, "reality")
def test_moe_real_gloo(gloo, ranks, rng):
    case = moe_case((6, 4), 2, seed=seed(rng))
    moe_ran(ranks, case)
    try:
        result = gloo.call("callers_torch:moe_called", 2, case.arguments_of_ranks())
        cases.assert_moe_values(result.values, result, case, forward=True)
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None


# -- communication ---------------------------------------------------------------------------------


@points(14, "communication", essential=True)
def test_moe_no_row_too_many(ranks, rng):
    """Its first part asks whether rows go to their experts alone, whatever their values."""

    def check(each):
        if each is None:
            told = {"d": 40, "k": 1, "how": "forward", "seed": seed(rng)}
            cases.sent_to_experts(ranks, moe_case((16,) * 4, 4, "even", **told))
            return
        case = moe_case(*each, d=40, seed=seed(rng))
        result = moe_ran(ranks, case)
        cases.assert_all_to_all(result, case)
        cases.assert_sent(result, case, num_counts=5)

    tried = [
        None, ((6, 6), 2, "usual"), ((5, 8, 3), 3, "usual"), ((4, 4, 4), 3, "one"),
        ((2,) * 12, 12, "usual"), ((1,) * 17, 17, "usual"),
    ]  # fmt: skip
    kinds = "rows that go to their experts alone", "bytes"
    check_kinds(tried, lambda each: kinds[each is not None], check, weights={"bytes": 2.0})


@points(6, "communication")
def test_moe_counts_once(ranks, rng):
    for tokens, num_experts in (((6, 6), 2), ((4, 4, 4, 4), 4)):
        case = moe_case(tokens, num_experts, "even", seed=seed(rng))
        result = moe_ran(ranks, case)
        cases.assert_exchanges(result, case)
        cases.assert_sent(result, case)


@points(4, "communication")
def test_moe_given_group(ranks, rng):
    case = moe_case((5, 4, 6), 3, seed=seed(rng))
    members = members_of_world(rng, 3)
    on_members(lambda **there: moe_ran(ranks, case, **there), *members, case, comm="the group")


# -- safety and speed ------------------------------------------------------------------------------


@points(8, "safety")
def test_moe_everything_is_waited_for(ranks, rng):
    for number in LATENCY_SEEDS:
        for machine in (buffered(), rendezvous()):
            case = moe_case((4, 5, 3), 3, seed=seed(rng))
            result = moe_ran(ranks, case, machine=machine, seed=number)
            assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])


def timed(ranks, rng, p, how):
    """The exchange beside the shared expert is hidden; the others show."""
    num_tokens, d, hidden = 4 * p, 16, 32
    machine = Machine(
        "slow links", alpha_s=1e-6, beta_s_per_byte=1e-8, flop_per_s=1e9, memory_bytes_per_s=1e15
    )
    case = moe_case((num_tokens,) * p, p, "even", d=d, k=1, hidden=hidden, how=how, seed=seed(rng))
    result = moe_ran(ranks, case, machine=machine)
    rows = num_tokens // p
    exchange_s = (p - 1) * (machine.alpha_s + rows * d * 8 * machine.beta_s_per_byte)
    counts_s = (p - 1) * (machine.alpha_s + 8 * machine.beta_s_per_byte)
    passes, shared = (1, 1) if how == "forward" else (3, 2)
    # Shared expert, routed one, and the gate, whose input gradient and weights' count, too.
    flops = passes * num_tokens * (2 * 4 * d * hidden + 2 * d * p)
    assert shared * num_tokens * 4 * d * hidden / machine.flop_per_s > exchange_s
    exposed_s = counts_s + (1 if how == "forward" else 2) * exchange_s
    assert_makespan(result, flops / machine.flop_per_s + exposed_s, case, half=1.1)


@points(11, "speed")
def test_moe_exchange_is_hidden_forward(ranks, rng):
    for p in (4, 8):
        timed(ranks, rng, p, "forward")


@points(11, "speed")
def test_moe_exchange_is_hidden_in_both_passes(ranks, rng):
    for p in (4, 16):
        timed(ranks, rng, p, "plain")
