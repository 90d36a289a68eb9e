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


# -- values ----------------------------------------------------------------------------------------


@points(12, "values")
def test_forward_on_2_to_5_ranks(ranks, rng):
    for p, layers in ((2, 3), (3, 2), (4, 1), (5, 2)):
        lengths = [int(rng.integers(2, 5))] * int(rng.integers(1, 4))
        decoded(ranks, even("torch_steps", p, rng, lengths=lengths, layers=layers))


@points(9, "values")
def test_generate_on_1_to_4_ranks(ranks, rng):
    for p in (1, 2, 3, 4):
        decoded(ranks, even("torch_generate", p, rng, lengths=(2, 2), tokens=6))


@points(3, "values")
def test_9_and_17_ranks(ranks, rng):
    for p in (9, 17):
        decoded(ranks, even("torch_generate", p, rng, heads=1, tokens=2, layers=1))


@points(5, "values")
def test_prompts_of_different_lengths(ranks, rng):
    for p, lengths in ((2, (4, 1, 3)), (3, (1, 5))):
        decoded(ranks, even("torch_steps", p, rng, lengths=lengths))
        decoded(ranks, even("torch_generate", p, rng, lengths=lengths))


@points(4, "values")
def test_parts_that_differ(ranks, rng):
    for p, heads, words in ((2, 3, 11), (3, 4, 10)):
        sizes = {"heads": heads, "vocabulary": words, "tokens": 3}
        decoded(ranks, torch_case("torch_generate", p, rng, **sizes))


@points(3, "values")
def test_ranks_without_heads_or_words(ranks, rng):
    for p, heads, words in ((4, 3, 9), (4, 4, 3)):
        sizes = {"heads": heads, "vocabulary": words, "tokens": 3}
        decoded(ranks, torch_case("torch_generate", p, rng, **sizes))


@points(3, "values")
def test_fewer_key_heads(ranks, rng):
    for p, heads, kv_heads in ((2, 8, 2), (3, 6, 3)):
        sizes = {"heads": heads, "kv_heads": kv_heads, "vocabulary": 6 * p}
        decoded(ranks, torch_case("torch_steps", p, rng, **sizes))


@points(6, "values")
def test_equal_logits_give_the_lowest_word(ranks, rng):
    for p in (2, 3, 4):
        sizes = {"heads": p, "vocabulary": 16 * p, "kind": "ties"}  # each logit four times
        decoded(ranks, torch_case("torch_greedy", p, rng, lengths=[1] * 20, **sizes))


@points(2, "values")
def test_float32(ranks, rng):
    decoded(ranks, even("torch_steps", 3, rng, dtype="float32"))
    decoded(ranks, even("torch_generate", 3, rng, dtype="float32"))


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


@points(13, "communication")
def test_bytes_of_forward(ranks, rng):
    for p, lengths, layers in (
        (2, (3, 3), 2), (3, (4, 4), 2), (4, (2, 2, 2), 1), (5, (3,), 2), (9, (2,), 1),
        (17, (2,), 1), (2, (9,) * 6, 1),
    ):  # fmt: skip
        heads = 1 if p > 5 else 2
        moved(ranks, even("torch_steps", p, rng, heads=heads, lengths=lengths, layers=layers))


@points(9, "communication")
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


@points(4, "safety")
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


def timed(ranks, rng, *worlds):
    case = even("torch_generate", 4, rng)
    decoded(ranks, case)
    # A trace is believed that agrees with what the network counts, operation by operation.
    cases.assert_decode_torch_agreement(ranks, case)
    for world_size in worlds:
        cases.assert_decode_torch_time(ranks.trace, case, world_size)


@points(7, "speed")
def test_time_of_a_step_inside_a_node(ranks, rng):
    timed(ranks, rng, 1, 2, 4)


@points(6, "speed")
def test_time_of_a_step_on_two_nodes(ranks, rng):
    timed(ranks, rng, 8)
