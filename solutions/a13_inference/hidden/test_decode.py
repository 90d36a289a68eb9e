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
from ringside.checking.case_kinds import check_kinds
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


@points(4, "communication", essential=True)
def test_work_is_divided_and_sums_travel(ranks, rng):
    case = plain("decode_steps", 4, rng)
    result = ranks.call(case.target, 4, case.arguments_of_ranks(), machine=buffered())
    assert_ran(result, case)
    examples.assert_divided(result, case)


# -- values ----------------------------------------------------------------------------------------


@points(4, "values")
def test_parts_of_the_weights(ranks, rng):
    for p in (2, 4):
        check_parts(ranks, plain("decode_shards", p, rng))


@points(18, "values")
def test_forward(ranks, rng):
    found = {"float32": [plain("decode_steps", 3, rng, dtype="float32")]}
    found["prompts of one length"] = [
        plain(
            "decode_steps", p, rng, layers=layers,
            lengths=[int(rng.integers(1, 5))] * int(rng.integers(1, 4)),
        )
        for p, layers in ((2, 3), (3, 2), (4, 1), (5, 2))
    ]  # fmt: skip
    found["prompts of different lengths"] = [
        plain("decode_steps", p, rng, lengths=lengths)
        for p, lengths in ((2, (4, 1, 3)), (3, (1, 5)))
    ]
    weights = {"float32": 1, "prompts of one length": 7, "prompts of different lengths": 2}
    of_kinds(ranks, found, weights=weights)


def of_kinds(ranks, found, check=None, weights=None):
    """Check lists of cases by their kinds; each kind has its share of the points."""
    every = [(kind, case) for kind, some in found.items() for case in some]
    check = check or (lambda case: decoded(ranks, case))
    check_kinds(every, lambda pair: pair[0], lambda pair: check(pair[1]), weights=weights)


@points(9, "values")
def test_generate(ranks, rng):
    for p in (2, 3, 4):
        decoded(ranks, plain("decode_generate", p, rng, heads=4, lengths=(2, 2), tokens=6))


@points(11, "values")
def test_parts_that_differ_and_fewer_key_heads(ranks, rng):
    found = {}
    for kind, sizes in (
        ("parts that differ", ((3, 4, 4, 11), (4, 6, 6, 9))),
        ("parts that are empty", ((5, 3, 3, 3),)),
        ("fewer key heads", ((2, 8, 2, 12), (3, 6, 3, 18), (2, 6, 3, 12))),
    ):
        found[kind] = [
            differing(p, rng, heads=heads, kv_heads=kv_heads, vocabulary=words)
            for p, heads, kv_heads, words in sizes
        ]

    def check(case):
        check_parts(ranks, case, ("Wq", "Wk", "Wo", "W1", "head"))
        decoded(ranks, case)

    of_kinds(ranks, found, check)


def differing(p, rng, **sizes):
    return cases.decode_case("decode_generate", p, rng, lengths=(3,), tokens=3, **sizes)


@points(5, "values")
def test_equal_logits_give_the_lowest_word(ranks, rng):
    for p in (2, 3, 4):
        sizes = {"heads": p, "vocabulary": 8 * p * p, "kind": "ties"}  # twice on each rank
        decoded(ranks, cases.decode_case("decode_greedy", p, rng, lengths=[1] * 5, **sizes))


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


@points(11, "communication")
def test_bytes_of_two_sums_a_layer(ranks, rng):
    rule = "two all-reduces a layer of d elements for each new position"
    for p in (2, 3, 4, 5, 12, 18):
        lengths = (3, 3) if p < 10 else (2,)
        # With four heads a rank, an all-reduce of a bias is more than what is free.
        heads = 4 if p < 10 else 1
        case = plain("decode_steps", p, rng, heads=heads, lengths=lengths, tokens=3)
        assert_moved(decoded(ranks, case), case.forward_nbytes(), case, rule)
    case = plain("decode_steps", 4, rng, heads=1, lengths=(30, 30), tokens=2, longest=40)
    assert_moved(decoded(ranks, case), case.forward_nbytes(), case, rule)


@points(7, "communication")
def test_bytes_of_a_word(ranks, rng):
    for p, batch in ((2, 3), (3, 1), (4, 4), (5, 2), (12, 3), (18, 2)):
        case = plain(
            "decode_greedy", p, rng, heads=1, lengths=[1] * batch, vocabulary=60 * p, kind="first"
        )
        result = decoded(ranks, case)
        assert_moved(result, case.greedy_nbytes(), case, "two numbers a sequence and rank")


@points(7, "schedule")
def test_nothing_is_computed_again(ranks, rng):
    for p in (2, 4):
        case = plain("decode_generate", p, rng, lengths=(5, 5), tokens=6, kind="first")
        result = decoded(ranks, case)
        for rank in range(p):
            logits = 2 * 2 * case.tokens * case.sizes.d * 60  # of 2 sequences, 60 words a rank
            examples.assert_work(result, case, rank, case.num_flops(rank) + logits)


@points(3, "memory")
def test_memory_of_the_cache(ranks, rng):
    case = plain("decode_generate", 4, rng, longest=2048, tokens=3, kind="first")
    # The first call, so that what is kept from it counts.
    given = case.called_through("decode_memory").arguments_of_ranks()
    result = ranks.call("callers:decode_memory", 4, given, machine=buffered())
    decoded(ranks, case)
    case = case.called_through("decode_memory")
    assert_ran(result, case)
    weights = max(sum(array.nbytes for array in part.values()) for _, part, *_ in given)
    examples.assert_memory(result, case, case.cache_nbytes(0) + 4 * weights + 65536)


# -- safety and speed ------------------------------------------------------------------------------


@points(6, "safety")
def test_any_communicator_and_any_order(ranks, rng):
    case = plain("decode_generate", 3, rng, tokens=2, kind="first")

    def run(**options):
        return decoded(ranks, case, **options)

    on_members(run, (4, 1, 2), 6, case)
    kinds = (Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE)
    assert_requests_complete(with_waiting_sends(run, case), case, kinds)
    for seed in LATENCY_SEEDS:
        run(seed=seed)


@points(10, "speed")
def test_time_of_a_token(ranks, rng):
    for p, ranks_per_node in ((2, 8), (8, 8), (4, 2)):
        machine = cases.decode_machine(ranks_per_node)
        sizes = {"heads": 8, "vocabulary": 160, "lengths": (2, 2), "tokens": 4, "kind": "first"}
        case = cases.decode_case("decode_generate", p, rng, **sizes)
        result = decoded(ranks, case, machine=machine)
        alone_s = oracle.decode_makespan_s(oracle.on_one_rank(case), machine)
        beside = f" One rank alone takes {alone_s * 1e6:.1f} µs."
        assert_makespan(result, oracle.decode_makespan_s(case, machine), case, beside=beside)
