"""The cases of the hidden run."""

import dataclasses
import heapq
from math import prod

from checks import test_batching as batching
from checks import test_decode as decode
from checks import test_decode_torch as torch
from checks import test_kv_cache as kv_cache
from checks import test_weights as weights
from checks.cases import Busy, Script, Serve, TokenBytes
from checks.cases_decode import Forward, Generate, Greedy, Shard, even
from checks.cases_torch import ForwardTorch, GenerateTorch, GreedyTorch
from checks.cases_weights import Plan, Sync
from given.batching_server import Server, Step, replay

from ringside.checking.suite import group, hidden, oracle

# -- kv_cache --------------------------------------------------------------------------------------


def filled(name, positions, page_size=4):
    """Steps that append so many positions, a page's worth at a time."""
    full, rest = divmod(positions, page_size)
    return ", ".join([f"append {name} {page_size}"] * full + [f"append {name} {rest}"] * (rest > 0))


def between(low, high, *makers):
    """Cases of a whole number that is drawn, ``low`` or more and below ``high``."""

    def drawn(rng):
        number = int(rng.integers(low, high))
        return [case for maker in makers for case in maker(number)]

    return drawn


def one_by_one(size):
    steps = ", ".join(["new a", *["append a 1"] * (2 * size + 1)])
    caches = [Script(steps, page_size=size, beside=beside) for beside in (False, True)]
    return [*caches, Script(steps, page_size=size, kv_heads=2, layers=1, dtype="float32")]


def empty(n):
    steps = f"new a, gather a, append a 0, fork a b, gather b, append b {n}, new c"
    return [Script(steps), Script(steps, dtype="float32")]


def three_sequences(n):
    steps = f"new a, new b, append b {n}, append a 3, new c, append b {4 - n}, append a 2"
    steps += ", append c 1, append a 1, append b 3, new d"  # d has three pages in every draw
    return [Script(f"{steps}, append d 3, append d 3, append d 3", num_pages=12)]


def at_the_end(size):
    steps = f"new a, {filled('a', 2 * size, size)}, fork a b, append a 0, used 2"
    return [Script(f"{steps}, append b 1, used 3, append a 1, used 4", page_size=size)]


def forks(n):
    steps = f"new a, {filled('a', n)}, fork a b, fork b c, fork a d, append c 1, append a 2"
    return [Script(f"{steps}, append d 1, append b 3", num_pages=12)]


def leaks(n):
    once = f"new a, {filled('a', n)}, fork a b, free a, append b 3, free b, used 0"
    steps = f"new a, {filled('a', 7)}, new b, {filled('b', 9)}, free a, used 3"
    steps += f", new a, {filled('a', 15)}, used 7"
    return [Script(", ".join([once] * 4)), Script(f"{steps}, free b, free a, used 0")]


@oracle(TokenBytes)
def token_bytes(case):
    return 2 * case.layers * case.kv_heads * case.head_dim * (case.element_bytes or 2)


def wrong_token_bytes(case):
    return {"These are the keys alone; values are kept, too.": case.right() // 2}


TokenBytes.wrong = wrong_token_bytes


hidden(kv_cache.test_positions_one_after_another, between(3, 6, one_by_one))
hidden(
    kv_cache.test_many_positions_at_once,
    between(
        2,
        5,
        lambda n: [Script(f"new a, append a 2, append a {8 + n}, append a 0, append a 4")],
        lambda n: [Script(f"new a, append a 0, append a {7 + n}, append a 9", page_size=5)],
    ),
)
hidden(kv_cache.test_several_sequences, between(1, 4, three_sequences))
hidden(
    kv_cache.test_no_positions_short_pages_and_long_ones,
    between(2, 9, empty),
    Script("new a, append a 3, new b, append b 1, append a 2, append b 1", page_size=50),
    Script("new a, append a 1, append a 1, new b, append b 1, append a 1, append b 1", page_size=1),
)
hidden(
    kv_cache.test_a_fork_shares_all_pages,
    between(9, 14, lambda n: [Script(f"new a, {filled('a', n)}, fork a b, used {-(-n // 4)}")]),
    Script("new a, fork a b, used 0, append b 3, used 1, append a 2"),
)
hidden(
    kv_cache.test_copy_on_write,
    between(
        5,
        8,
        lambda n: [
            Script(f"new a, {filled('a', n)}, fork a b, append {x} 1, append {y} 2, append {x} 3")
            for x, y in ("ba", "ab")
        ],
    ),
)
hidden(
    kv_cache.test_the_second_writer_copies_nothing,
    group(
        "positions",
        *(
            Script(f"{kv_cache.FORKED}, append {first} 1, used 3, append {second} 1, used 3")
            for first, second in ("ab", "ba")
        ),
    ),
    group(
        kv_cache.NOTHING,
        Script(f"{kv_cache.FORKED}, fork b c, append c 0, append a 0, used 2"),
        weight=0.5,
    ),
)
hidden(kv_cache.test_a_fork_at_the_end_of_a_page_copies_nothing, between(3, 6, at_the_end))
hidden(
    kv_cache.test_a_page_that_is_shared_no_longer_is_written_in_place,
    *(
        Script(f"{kv_cache.FORKED}, free {one}, used 2, append {other} 1, used 2", num_pages=2)
        for one, other in ("ab", "ba")
    ),
)
hidden(kv_cache.test_forks_of_forks, between(5, 8, forks))
hidden(
    kv_cache.test_nothing_leaks,
    group("pages", between(5, 9, leaks)),
    group(
        kv_cache.NAMES,
        Script(f"{kv_cache.FORKED}, fork b c, free c, fork a d, append d 1, new e, free e, new f"),
    ),
)
hidden(
    kv_cache.test_errors_change_nothing,
    group(
        "pages that run out",
        Script(
            "new a, append a 4, append a 3, new b, append b 3, full 2 1: append a 6, append b 4, "
            "full: append b 2, used 4, append a 1, free b, append a 1",
            num_pages=4,
        ),
        weight=2,
    ),
    group(
        "a copy's page",
        Script(
            f"{kv_cache.FORKED}, full: append b 1, used 2, free a, append b 2, used 2", num_pages=2
        ),
        weight=2,
    ),
    group(
        "unknown names",
        *(
            Script(f"new a, append a 3, new b, append b 2, free a, unknown: {step}, used 1")
            for step in ("free a", "gather a", "append a 1", "fork a c")
        ),
    ),
)
hidden(
    kv_cache.test_arrays_of_the_caller_are_left_alone,
    Script("new a, append a 3, gather a, append a 2, gather a"),
)
hidden(
    kv_cache.test_bytes,
    *(TokenBytes(*sizes) for sizes in ((32, 8, 128), (80, 8, 128), (1, 1, 1, 8))),
    between(2, 90, lambda n: [TokenBytes(n, 3, 5, 1), TokenBytes(n, 1, 64, 4)]),
    *(
        Script(
            f"new a, bytes 0, append a 4, bytes {page}, append a 1, bytes {2 * page}, fork a b, "
            f"bytes {2 * page}, new c, append c 2, bytes {3 * page}",
            dtype=dtype,
            kv_heads=2,
        )
        for dtype, page in (("float64", 768), ("float32", 384))
    ),
)

# -- batching --------------------------------------------------------------------------------------


class Drawn(Serve):
    """A server whose seed decides what the docstring's server does with its requests."""

    def with_(self, **changes):
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        case = Serve(**{**fields, **changes})
        log = best(case)
        return dataclasses.replace(
            case,
            joins=log.joined,
            first_s=round(log.slow_first_token_s, 6) if self.first_s else 0.0,
        )


def best(case):
    """The log of a server that starts each request in the first step with room for all of it.

    Each request ends a known number of steps after its first one, so a heap tells who leaves next.
    """
    requests, server = case.stream, Server(case.capacity)
    coming, steps, clock_s, used = list(enumerate(requests)), [], 0.0, 0
    going = []  # (last step, number, first step)
    while coming or going:
        while going and going[0][0] < len(steps):
            _, k, _ = heapq.heappop(going)
            used -= requests[k].prompt_tokens + requests[k].output_tokens
        if not (coming or going):
            break
        if not going:
            clock_s = max(clock_s, coming[0][1].arrival_s)
        at, prefill, decoding = len(steps), [], sorted((k, first) for _, k, first in going)
        while coming and coming[0][1].arrival_s <= clock_s:
            k, request = coming[0]
            if used + request.prompt_tokens + request.output_tokens > case.capacity:
                break
            used += request.prompt_tokens + request.output_tokens
            heapq.heappush(going, (at + request.output_tokens - 1, k, at))
            prefill.append(k)
            coming.pop(0)
        steps.append(Step(clock_s, tuple(prefill), tuple(k for k, _ in decoding)))
        clock_s += server.step_s(
            [requests[k].prompt_tokens for k in prefill],
            [requests[k].prompt_tokens + at - first for k, first in decoding],
        )
    return replay(requests, steps, server)


STREAM = Drawn(count=30)


def together(rng):
    """Requests that arrive at one moment."""
    return [
        Drawn(
            tuple(
                (0.0, 3 * prompt, output) for prompt, output in rng.integers(2, 60, (n, 2)).tolist()
            ),
            capacity=600,
        )
        for n in (6, 14)
    ]


def of_one_token(rng):
    cases = []
    for count in (8, 24):
        arrivals = (0.004 * rng.random(count)).cumsum().round(6).tolist()
        outputs = rng.choice([1, 1, 2, 30], count).tolist()
        pairs = zip(arrivals, outputs, strict=True)
        cases.append(Drawn(tuple((arrival_s, 40, output) for arrival_s, output in pairs)))
    return cases


def filling(rng):
    cases = []
    for capacity in (500, 731):
        output = int(rng.integers(2, 30))
        full = (0.0, capacity - output, output), (0.001, capacity - 2, 2)
        others = tuple((0.01, 30, 5 + 3 * k) for k in range(12))
        cases.append(Drawn((*full, *others), capacity=capacity))
    return cases


def too_long(output):
    last = (0.2, 301 - output, output)
    lists = [(last,), ((0.0, 20, 30), (0.1, 20, 30), last, (0.3, 5, 5))]
    return [Serve(each, capacity=300, raises="ValueError") for each in lists]


hidden(batching.test_requests_join_others_under_way, Drawn(count=30, rate=40.0))
hidden(
    batching.test_every_token_once,
    *(Drawn(count=n, rate=rate) for n, rate in ((9, 40.0), (30, 8.0), (50, 20.0))),
)
hidden(batching.test_requests_that_arrive_together, STREAM, together)
hidden(
    batching.test_pauses_between_requests,
    STREAM,
    *[Drawn(count=12, rate=0.4, prompt=100, output=20)] * 2,
)
hidden(batching.test_answers_of_one_token, STREAM, of_one_token)
hidden(batching.test_request_that_fills_the_cache, STREAM, filling)
hidden(
    batching.test_no_request_and_one_request,
    STREAM,
    Serve(capacity=100),
    Serve(((0.5, 3, 4),), capacity=100),
)
hidden(
    batching.test_room_for_the_answers_to_come,
    *(Drawn(count=40, rate=rate, capacity=n) for rate, n in ((10.0, 2500), (40.0, 3500))),
)
hidden(
    batching.test_never_over_memory,
    *(Drawn(count=40, rate=rate, capacity=n) for rate, n in ((10.0, 2500), (40.0, 3500))),
    between(20, 60, lambda n: [Drawn(((0.0, 100, n),) * 8, capacity=4 * (100 + n) - 1)]),
)
hidden(
    batching.test_requests_start_in_order_of_arrival,
    *(Drawn(count=40, rate=rate, capacity=2500) for rate in (10.0, 40.0)),
)
hidden(
    batching.test_no_request_starts_before_it_arrives,
    *(Drawn(count=30, rate=rate) for rate in (2.0, 10.0, 40.0)),
)
hidden(
    batching.test_no_step_starts_before_the_last_one_ends,
    *(Drawn(count=30, rate=rate, prompt=400) for rate in (2.0, 10.0, 40.0)),
)
hidden(batching.test_refuses_a_request_that_never_fits, STREAM, between(5, 50, too_long))
hidden(batching.test_same_plan_when_called_again, Drawn(count=30, again=True))
hidden(batching.test_throughput, Busy())
hidden(
    batching.test_time_to_the_first_token,
    Drawn(count=80, rate=6.0, first_s=1.0),
    *(
        Drawn(count=100, rate=30.0, output=150, capacity=capacity, first_s=1.0)
        for capacity in (5000, 6000, 8000)
    ),
)

# -- decode ----------------------------------------------------------------------------------------


def prompts_of_one_length(kind):
    """The same number of tokens in each of one to three prompts."""

    def drawn(rng):
        return [
            even(
                kind, p, layers=layers,
                lengths=(int(rng.integers(1, 5)),) * int(rng.integers(1, 4)),
            )
            for p, layers in ((2, 3), (3, 2), (4, 1), (5, 2))
        ]  # fmt: skip

    return drawn


def of_different_lengths(kind):
    return even(kind, 2, lengths=(4, 1, 3)), even(kind, 3, lengths=(1, 5))


def without_words(kind, *sizes):
    """A choice where all logits are negative, and the last ranks have no words."""
    return [kind(p, heads=p, vocabulary=n, kind="negative", lengths=(1,) * 12) for p, n in sizes]


def differing(p, heads, kv_heads, vocabulary):
    sizes = {"heads": heads, "kv_heads": kv_heads, "vocabulary": vocabulary}
    return Shard(p, biases=False, **sizes), Generate(p, tokens=3, **sizes)


hidden(decode.test_work_is_divided_and_sums_travel, even(Forward, 4))
hidden(decode.test_parts_of_the_weights, even(Shard, 2), even(Shard, 4))
hidden(decode.test_forward, prompts_of_one_length(Forward))
hidden(decode.test_prompts_of_different_lengths, *of_different_lengths(Forward))
hidden(decode.test_float32, even(Forward, 3, dtype="float32"))
hidden(
    decode.test_generate,
    *(even(Generate, p, heads=4, lengths=(2, 2), tokens=6) for p in (2, 3, 4)),
)
hidden(decode.test_parts_that_differ, *differing(3, 4, 4, 11), *differing(4, 6, 6, 9))
hidden(
    decode.test_parts_that_are_empty,
    *differing(5, 3, 3, 3),
    *without_words(Greedy, (4, 3), (5, 2)),
)
hidden(
    decode.test_fewer_key_heads,
    *(
        case
        for sizes in ((2, 8, 2, 12), (3, 6, 3, 18), (2, 6, 3, 12))
        for case in differing(*sizes)
    ),
)
hidden(
    decode.test_equal_logits_give_the_lowest_word,
    *(
        Greedy(p, heads=p, vocabulary=8 * p * p, kind="ties", lengths=(1,) * 5)  # twice on a rank
        for p in (2, 3, 4)
    ),
)
hidden(
    decode.test_calls_keep_nothing_and_inputs_stay,
    *(even(Generate, p, kind="first", tokens=3, again=True) for p in (2, 3)),
)
hidden(decode.test_real_mpi, even(Forward, 3), even(Generate, 3))
hidden(
    decode.test_bytes_of_two_sums_a_layer,
    # With four heads a rank, an all-reduce of a bias is more than what is free.
    *(even(Forward, p, heads=4, tokens=3) for p in (2, 3, 4, 5)),
    even(Forward, 3, heads=4, tokens=3, dtype="float32"),
    *(even(Forward, p, heads=1, lengths=(2,), tokens=3) for p in (12, 18)),
    even(Forward, 4, heads=1, lengths=(30, 30), tokens=2, longest=40),
)
hidden(
    decode.test_bytes_of_a_word,
    *(
        even(Greedy, p, heads=1, lengths=(1,) * batch, kind="first")
        for p, batch in ((2, 3), (3, 1), (4, 4), (5, 2), (12, 3), (18, 2))
    ),
)
hidden(
    decode.test_nothing_is_computed_again,
    *(even(Generate, p, lengths=(5, 5), tokens=6, kind="first") for p in (2, 4)),
)
hidden(
    decode.test_memory_of_the_cache,
    even(Generate, 4, longest=2048, tokens=3, kind="first", watched=True),
)
hidden(decode.test_given_communicator_is_used, even(Generate, 3, tokens=2, kind="first"))
hidden(decode.test_any_order_and_waiting_sends, even(Generate, 3, tokens=2, kind="first"))
hidden(
    decode.test_time_of_a_token,
    *(decode.timed(p, ranks_per_node) for p, ranks_per_node in ((2, 8), (8, 8), (4, 2))),
)

# -- decode_torch ----------------------------------------------------------------------------------

hidden(torch.test_sums_travel_and_weights_do_not, even(ForwardTorch, 4))
hidden(torch.test_forward_on_2_to_5_ranks, prompts_of_one_length(ForwardTorch))
hidden(torch.test_prompts_of_different_lengths, *of_different_lengths(ForwardTorch))
hidden(torch.test_float32, even(ForwardTorch, 3, dtype="float32"))
hidden(
    torch.test_generate,
    *(even(GenerateTorch, p, lengths=(2, 2), tokens=6) for p in (1, 2, 3, 4)),
)
hidden(
    torch.test_more_than_eight_ranks,
    *(even(GenerateTorch, p, heads=1, tokens=2, layers=1) for p in (9, 17)),
)


def uneven(*table):
    return [
        GenerateTorch(p, heads=heads, kv_heads=kv_heads, vocabulary=words, tokens=3)
        for p, heads, kv_heads, words in table
    ]


hidden(torch.test_parts_that_differ, *uneven((2, 3, 3, 11), (3, 4, 4, 10)))
hidden(
    torch.test_ranks_without_heads_or_words,
    *uneven((4, 3, 3, 9), (4, 4, 4, 3)),
    *without_words(GreedyTorch, (4, 3), (5, 2)),
)
hidden(torch.test_fewer_key_heads, *uneven((2, 8, 2, 12), (3, 6, 3, 18)))
hidden(
    torch.test_equal_logits_give_the_lowest_word,
    *(
        GreedyTorch(p, heads=p, vocabulary=16 * p, kind="ties", lengths=(1,) * 20)  # four times
        for p in (2, 3, 4)
    ),
)
hidden(torch.test_real_gloo, even(GenerateTorch, 2))
hidden(
    torch.test_bytes_of_forward,
    *(
        # With four heads a rank, an all-reduce of a bias is more than what is free.
        even(ForwardTorch, p, heads=1 if p > 5 else 4, lengths=lengths, layers=layers)
        for p, lengths, layers in (
            (2, (3, 3), 2), (3, (4, 4), 2), (4, (2, 2, 2), 1), (5, (3,), 2), (9, (2,), 1),
            (17, (2,), 1), (2, (9,) * 6, 1),
        )
    ),
    even(ForwardTorch, 3, heads=4, lengths=(4, 4), dtype="float32"),
)  # fmt: skip
hidden(
    torch.test_bytes_of_greedy,
    *(
        even(GreedyTorch, p, heads=1, lengths=(1,) * batch, vocabulary=40 * p)
        for p, batch in ((2, 1), (3, 4), (4, 2), (5, 3), (9, 2), (17, 1), (2, 40))
    ),
)
hidden(torch.test_given_group_is_used, even(GenerateTorch, 3, heads=1))
hidden(torch.test_any_order_and_everything_waited_for, even(GenerateTorch, 4, heads=1))
hidden(
    torch.test_calls_keep_nothing_and_inputs_stay,
    *(even(GenerateTorch, p, again=True) for p in (2, 3)),
)
hidden(
    torch.test_nothing_is_kept_for_a_backward_pass,
    *(even(GenerateTorch, p, watched=True) for p in (2, 3)),
)
hidden(
    torch.test_time_of_a_step,
    group("GPUs of one node", *(torch.timed(p) for p in (1, 2, 4))),
    group("GPUs of two nodes", torch.timed(8)),
)

# -- weights ---------------------------------------------------------------------------------------

FEW = ((1, 1, 1), (1, 1, 1)), ((2, 1, 1), (1, 1, 1)), ((1, 1, 1), (3, 1, 1)), ((2, 1, 1), (1, 3, 1))

hidden(weights.test_pieces_travel, Sync(8, shape=(64, 40)))
hidden(
    weights.test_plan, Plan((5, 1, 1), (1, 3, 1)), Plan((2, 3, 1), (3, 2, 1), mixed=True),
    Plan((1, 1, 1), (2, 2, 1)),
)  # fmt: skip
hidden(
    weights.test_plan_with_copies,
    group(weights.ENGINES, Plan((3, 1, 1), (2, 1, 3)), Plan((2, 2, 1), (1, 3, 2), mixed=True)),
    group(weights.COPIES, Plan((1, 2, 3), (5, 1, 1)), Plan((2, 2, 2), (1, 3, 2), mixed=True)),
)
hidden(
    weights.test_rows_and_columns, Sync(5, (3, 1, 1), (1, 2, 1)),
    Sync(7, (1, 3, 1), (4, 1, 1)), Sync(2, (1, 1, 1), (1, 1, 1)),
)  # fmt: skip
hidden(
    weights.test_cut_in_both_directions, Sync(10, (2, 3, 1), (2, 2, 1), mixed=True),
    Sync(8, (1, 2, 1), (3, 2, 1)),
)  # fmt: skip
hidden(
    weights.test_uneven_and_empty_blocks,
    group(weights.UNEVEN, Sync(8, (5, 1, 1), (1, 3, 1), (13, 11)),
          Sync(9, (2, 2, 1), (1, 5, 1), (7, 9))),
    group(weights.EMPTY, Sync(8, (5, 1, 1), (1, 3, 1), (4, 6)),
          Sync(6, (2, 1, 1), (1, 4, 1), (4, 3))),
)  # fmt: skip
hidden(
    weights.test_trainers_return_none,
    Sync(7, (1, 3, 1), (4, 1, 1), dtype="float32"),
    Sync(8, (1, 2, 1), (3, 2, 1), dtype="int64"),
)
hidden(weights.test_real_mpi, Sync(5, (2, 1, 1), (1, 3, 1)))
hidden(
    weights.test_bytes_and_messages_of_each_pair,
    group("2 to 5 ranks", *(Sync(sum(map(prod, each)), *each) for each in FEW)),
    group(
        "9 and 18 ranks",
        Sync(9, (2, 2, 1), (1, 5, 1), dtype="float32"),
        Sync(18, (10, 1, 1), (1, 8, 1)),
    ),
    group("a large matrix", Sync(5, (2, 1, 1), (1, 3, 1), (300, 400))),
    group(weights.ENGINES, Sync(9, (3, 1, 1), (2, 1, 3))),
)
hidden(
    weights.test_copies_share_the_work, Sync(8, (1, 2, 2), (4, 1, 1)),
    Sync(12, (2, 1, 3), (1, 2, 3)), Sync(9, (1, 1, 4), (5, 1, 1), mixed=True),
)  # fmt: skip
hidden(weights.test_given_communicator_is_used, Sync(5, (3, 1, 1), (1, 2, 1)))
hidden(
    weights.test_messages_may_wait_and_come_in_any_order,
    Sync(9, (5, 1, 1), (1, 4, 1)), Sync(7, (1, 2, 2), (3, 1, 1)),
)  # fmt: skip
hidden(weights.test_inputs_stay_and_a_second_call_is_right, Sync(5, (1, 3, 1), (2, 1, 1)))
hidden(weights.test_time, Sync(12, (8, 1, 1), (1, 4, 1), (400, 400), machine="long wire"))
