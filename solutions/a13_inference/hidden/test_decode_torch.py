"""decode_torch.py: the tokens of one rank, two all-reduces a layer, two numbers for a word."""

from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_ran,
    assert_requests_complete,
    buffered,
    on_three_members,
    rendezvous,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from ringside.trace import Kind
from solutions.a13_inference.hidden.decode_runs_torch import cases

points = points_of("decode_torch")
even, torch_case = cases.decode_torch_even, cases.decode_torch_case


def decoded(ranks, case, **options):
    """A call on all ranks, with values checked."""
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(case.target, world_size, case.arguments_of_ranks(), **options)
    cases.check_decode_torch(result, case)
    return result


def of_kinds(ranks, found, weights=None):
    """Check lists of cases by their kinds; each kind has its share of the points."""
    every = [(kind, case) for kind, some in found.items() for case in some]
    check_kinds(every, lambda pair: pair[0], lambda pair: decoded(ranks, pair[1]), weights=weights)


@points(4, "communication", essential=True)
def test_sums_travel_and_weights_do_not(ranks, rng):
    case = even("torch_steps", 4, rng)
    result = ranks.call(case.target, 4, case.arguments_of_ranks())
    assert_ran(result, case)
    cases.assert_sums_travel(result, case)


# -- values ----------------------------------------------------------------------------------------


@points(17, "values")
def test_forward_on_2_to_5_ranks(ranks, rng):
    found = {"float32": [even("torch_steps", 3, rng, dtype="float32")]}
    found["prompts of one length"] = [
        even(
            "torch_steps", p, rng, layers=layers,
            lengths=[int(rng.integers(2, 5))] * int(rng.integers(1, 4)),
        )
        for p, layers in ((2, 3), (3, 2), (4, 1), (5, 2))
    ]  # fmt: skip
    found["prompts of different lengths"] = [
        even("torch_steps", p, rng, lengths=lengths) for p, lengths in ((2, (4, 1, 3)), (3, (1, 5)))
    ]
    weights = {"float32": 1, "prompts of one length": 7, "prompts of different lengths": 2}
    of_kinds(ranks, found, weights)


@points(11, "values")
def test_generate(ranks, rng):
    sizes = {"lengths": (2, 2), "tokens": 6}
    found = {"1 to 4 ranks": [even("torch_generate", p, rng, **sizes) for p in (1, 2, 3, 4)]}
    sizes = {"heads": 1, "tokens": 2, "layers": 1}
    found["9 and 17 ranks"] = [even("torch_generate", p, rng, **sizes) for p in (9, 17)]
    of_kinds(ranks, found, {"1 to 4 ranks": 3})


@points(10, "values")
def test_parts_that_differ_and_fewer_key_heads(ranks, rng):
    found = {}
    for kind, sizes in (
        ("parts that differ", ((2, 3, 3, 11), (3, 4, 4, 10))),
        ("ranks without heads or words", ((4, 3, 3, 9), (4, 4, 4, 3))),
        ("fewer key heads", ((2, 8, 2, 12), (3, 6, 3, 18))),
    ):
        found[kind] = [
            torch_case(
                "torch_generate", p, rng, heads=heads, kv_heads=kv_heads, vocabulary=words, tokens=3
            )
            for p, heads, kv_heads, words in sizes
        ]
    of_kinds(ranks, found)


@points(6, "values")
def test_equal_logits_give_the_lowest_word(ranks, rng):
    for p in (2, 3, 4):
        sizes = {"heads": p, "vocabulary": 16 * p, "kind": "ties"}  # each logit four times
        decoded(ranks, torch_case("torch_greedy", p, rng, lengths=[1] * 20, **sizes))


@points(2, "reality")
def test_real_gloo(gloo, rng):
    case = even("torch_generate", 2, rng)
    try:
        result = gloo.call(case.target, 2, case.arguments_of_ranks())
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            cases.assert_decode_torch(value, case, case, rank)
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None


# -- communication ---------------------------------------------------------------------------------


def moved(ranks, case):
    result = decoded(ranks, case)
    allowed = cases.assert_decode_torch_bytes(result, case)
    ranks.record(case, result, {"sent_bytes": [allowed] * case.world_size})


@points(12, "communication")
def test_bytes_of_forward(ranks, rng):
    for p, lengths, layers in (
        (2, (3, 3), 2), (3, (4, 4), 2), (4, (2, 2, 2), 1), (5, (3,), 2), (9, (2,), 1),
        (17, (2,), 1), (2, (9,) * 6, 1),
    ):  # fmt: skip
        # With four heads a rank, an all-reduce of a bias is more than what is free.
        heads = 1 if p > 5 else 4
        moved(ranks, even("torch_steps", p, rng, heads=heads, lengths=lengths, layers=layers))


@points(8, "communication")
def test_bytes_of_greedy(ranks, rng):
    for p, batch in ((2, 1), (3, 4), (4, 2), (5, 3), (9, 2), (17, 1), (2, 40)):
        sizes = {"lengths": [1] * batch, "vocabulary": 40 * p}
        moved(ranks, even("torch_greedy", p, rng, heads=1, **sizes))


@points(4, "communication")
def test_given_group_is_used(ranks, rng):
    case = even("torch_generate", 3, rng, heads=1)

    def call(**where):
        return case, decoded(ranks, case, **where)

    on_three_members(rng, call, comm="the group")


# -- safety, memory, speed -------------------------------------------------------------------------


@points(5, "safety")
def test_any_order_and_everything_waited_for(ranks, rng):
    case = even("torch_generate", 4, rng, heads=1)
    for seed in LATENCY_SEEDS:
        for machine in (buffered(), rendezvous()):
            result = decoded(ranks, case, machine=machine, seed=seed)
            assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])


@points(4, "safety")
def test_calls_keep_nothing_and_inputs_stay(ranks, rng):
    for p in (2, 3):
        case = even("torch_twice", p, rng)
        result = ranks.call(case.target, p, case.arguments_of_ranks())
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            cases.assert_decode_torch(value, case, case.seen_in(result), rank)


@points(4, "memory")
def test_nothing_is_kept_for_a_backward_pass(ranks, rng):
    for p in (2, 3):
        case = even("torch_graph", p, rng)
        result = ranks.call(case.target, p, case.arguments_of_ranks())
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            cases.assert_decode_torch(value, case, case.seen_in(result), rank)


@points(13, "speed")
def test_time_of_a_step(ranks, rng):
    case = even("torch_generate", 4, rng)
    decoded(ranks, case)
    # A trace is believed that agrees with what the network counts, operation by operation.
    cases.assert_decode_torch_agreement(ranks, case)
    check_kinds(
        (1, 2, 4, 8),
        lambda world_size: "GPUs of one node" if world_size <= 4 else "GPUs of two nodes",
        lambda world_size: cases.assert_decode_torch_time(ranks.trace, case, world_size),
    )
