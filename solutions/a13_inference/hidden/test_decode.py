"""decode.py: the tokens of one rank, two sums a layer, and two numbers a sequence for a word."""

from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_inputs_kept,
    assert_makespan,
    assert_moved,
    assert_ran,
    assert_requests_complete,
    buffered,
    on_members,
    with_waiting_sends,
)
from ringside.checking.points import points_of
from ringside.trace import Kind
from solutions.a13_inference.hidden import oracle

points = points_of("decode")
cases, examples = oracle.cases, oracle.examples


def decoded(ranks, case, **options):
    """A call on all ranks, with values checked."""
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(case.target, world_size, case.arguments_of_ranks(), **options)
    cases.check_decoded(result, case)
    return result


def plain(function, p, rng, heads=2, **settings):
    """A model whose heads, units and words p divides."""
    if settings.get("kind") == "first":  # rank 0 has the word that wins
        settings.setdefault("vocabulary", 60 * p)
    vocabulary = settings.pop("vocabulary", 6 * p)
    return cases.decode_case(function, p, rng, heads=heads * p, vocabulary=vocabulary, **settings)


def check_parts(ranks, case, only=()):
    case = case.called_through("decode_shards")
    result = ranks.call(case.target, case.world_size, case.arguments_of_ranks())
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        examples.assert_part(value, case, case.seen_in(result), rank, only)


# -- values ----------------------------------------------------------------------------------------


@points(4, "values")
def test_parts_of_the_weights(ranks, rng):
    for p in (2, 4):
        check_parts(ranks, plain("decode_shards", p, rng))


@points(13, "values")
def test_forward(ranks, rng):
    for p, layers in ((2, 3), (3, 2), (4, 1), (5, 2)):
        lengths = [int(rng.integers(1, 5))] * int(rng.integers(1, 4))
        decoded(ranks, plain("decode_steps", p, rng, lengths=lengths, layers=layers))


@points(9, "values")
def test_generate(ranks, rng):
    for p in (2, 3, 4):
        decoded(ranks, plain("decode_generate", p, rng, heads=4, lengths=(2, 2), tokens=6))


@points(5, "values")
def test_prompts_of_different_lengths(ranks, rng):
    for p, lengths in ((2, (4, 1, 3)), (3, (1, 5))):
        decoded(ranks, plain("decode_steps", p, rng, lengths=lengths))


@points(5, "values")
def test_parts_that_differ(ranks, rng):
    for p, heads, words in ((3, 4, 11), (4, 6, 9), (5, 3, 3)):
        sizes = {"heads": heads, "vocabulary": words, "lengths": (3,), "tokens": 3}
        case = cases.decode_case("decode_shards", p, rng, **sizes)
        check_parts(ranks, case, ("Wq", "W1", "head"))
        decoded(ranks, cases.decode_case("decode_generate", p, rng, **sizes))


@points(4, "values")
def test_fewer_key_heads(ranks, rng):
    for p, heads, kv_heads in ((2, 8, 2), (3, 6, 3), (2, 6, 3)):
        sizes = {"heads": heads, "kv_heads": kv_heads, "vocabulary": 6 * p}
        case = cases.decode_case("decode_shards", p, rng, **sizes)
        check_parts(ranks, case, ("Wq", "Wk", "Wo"))
        decoded(ranks, cases.decode_case("decode_steps", p, rng, **sizes))


@points(5, "values")
def test_equal_logits_give_the_lowest_word(ranks, rng):
    for p in (2, 3, 4):
        sizes = {"heads": p, "vocabulary": 8 * p * p, "kind": "ties"}  # twice on each rank
        decoded(ranks, cases.decode_case("decode_greedy", p, rng, lengths=[1] * 5, **sizes))


@points(2, "values")
def test_float32(ranks, rng):
    decoded(ranks, plain("decode_steps", 3, rng, dtype="float32"))


@points(3, "values")
def test_calls_keep_nothing_and_inputs_stay(ranks, rng):
    for p in (2, 3):
        case = plain("decode_generate", p, rng, kind="first", tokens=3)
        assert_inputs_kept(decoded(ranks, case), case)
        case = case.called_through("decode_twice")
        result = ranks.call(case.target, p, case.arguments_of_ranks(), machine=buffered())
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_twice(value, case, case.seen_in(result), rank)


@points(2, "reality")
def test_real_mpi(mpi, ranks, rng):
    asked = [plain(function, 3, rng) for function in ("decode_steps", "decode_generate")]
    for case in asked:
        decoded(ranks, case)
    jobs = [(case.target, case.world_size, case.arguments_of_ranks()) for case in asked]
    for case, result in zip(asked, mpi.call_all(jobs), strict=True):
        try:
            assert_ran(result, case)
            for rank, value in enumerate(result.values):
                cases.assert_decoded(value, case, rank, right=case.right())
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}",
                reproduce=case.real_line,
                detail=verdict.detail,
            ) from None


# -- communication and work ------------------------------------------------------------------------


@points(12, "communication")
def test_bytes_of_two_sums_a_layer(ranks, rng):
    rule = "two all-reduces a layer of d elements for each new position"
    for p in (2, 3, 4, 5, 12, 18):
        lengths = (3, 3) if p < 10 else (2,)
        case = plain("decode_steps", p, rng, heads=1, lengths=lengths, tokens=3)
        assert_moved(decoded(ranks, case), case.forward_nbytes(), case, rule)
    case = plain("decode_steps", 4, rng, heads=1, lengths=(30, 30), tokens=2, longest=40)
    assert_moved(decoded(ranks, case), case.forward_nbytes(), case, rule)


@points(8, "communication")
def test_bytes_of_a_word(ranks, rng):
    for p, batch in ((2, 3), (3, 1), (4, 4), (5, 2), (12, 3), (18, 2)):
        case = plain(
            "decode_greedy", p, rng, heads=1, lengths=[1] * batch, vocabulary=60 * p, kind="first"
        )
        result = decoded(ranks, case)
        assert_moved(result, case.greedy_nbytes(), case, "two numbers a sequence and rank")


@points(8, "schedule")
def test_nothing_is_computed_again(ranks, rng):
    for p in (2, 4):
        case = plain("decode_generate", p, rng, lengths=(5, 5), tokens=6, kind="first")
        result = decoded(ranks, case)
        for rank in range(p):
            logits = 2 * 2 * case.tokens * case.sizes.d * 60  # of 2 sequences, 60 words a rank
            examples.assert_work(result, case, rank, case.num_flops(rank) + logits)


@points(4, "memory")
def test_memory_of_the_cache(ranks, rng):
    case = plain("decode_generate", 4, rng, longest=2048, tokens=3, kind="first")
    decoded(ranks, case)
    case = case.called_through("decode_memory")
    given = case.arguments_of_ranks()
    result = ranks.call(case.target, 4, given, machine=buffered())
    assert_ran(result, case)
    weights = max(sum(array.nbytes for array in part.values()) for _, part, *_ in given)
    examples.assert_memory(result, case, case.cache_nbytes(0) + 4 * weights + 65536)


# -- safety and speed ------------------------------------------------------------------------------


@points(5, "safety")
def test_any_communicator_and_any_order(ranks, rng):
    case = plain("decode_generate", 3, rng, tokens=2, kind="first")

    def run(**options):
        return decoded(ranks, case, **options)

    on_members(run, (4, 1, 2), 6, case)
    kinds = (Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE)
    assert_requests_complete(with_waiting_sends(run, case), case, kinds)
    for seed in LATENCY_SEEDS:
        run(seed=seed)


@points(11, "speed")
def test_time_of_a_token(ranks, rng):
    for p, ranks_per_node in ((2, 8), (8, 8), (4, 2)):
        machine = cases.decode_machine(ranks_per_node)
        sizes = {"heads": 8, "vocabulary": 160, "lengths": (2, 2), "tokens": 4, "kind": "first"}
        case = cases.decode_case("decode_generate", p, rng, **sizes)
        result = decoded(ranks, case, machine=machine)
        alone_s = oracle.decode_makespan_s(oracle.on_one_rank(case), machine)
        beside = f" One rank alone takes {alone_s * 1e6:.1f} µs."
        assert_makespan(result, oracle.decode_makespan_s(case, machine), case, beside=beside)
