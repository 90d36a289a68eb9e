"""exchange.py: rows to their experts and back, no row too many, gradients by the same way."""

from ringside import Machine
from ringside.checking import (
    Verdict,
    assert_inputs_kept,
    assert_makespan,
    assert_ran,
    buffered,
    members_of_world,
    on_members,
    with_waiting_sends,
)
from ringside.checking.points import points_of
from solutions.a14_experts.hidden.oracle import examples

cases = examples.exchange_cases
exchange_case, exchanged, dispatched = cases.exchange_case, cases.exchanged, cases.dispatched

points = points_of("exchange")


def seed(rng):
    return int(rng.integers(2**31))


# -- values ----------------------------------------------------------------------------------------


@points(10, "values")
def test_exchange_even_rows(ranks, rng):
    for p in (2, 3, 4):
        dispatched(ranks, exchange_case((2 * p,) * p, p, "even", k=1, seed=seed(rng)), back=False)


@points(10, "values")
def test_exchange_uneven_rows(ranks, rng):
    for tokens in ((5, 2), (4, 7, 1), (3, 9, 2, 6)):
        dispatched(ranks, exchange_case(tokens, len(tokens), k=1, seed=seed(rng)))


@points(12, "values")
def test_exchange_several_experts_a_rank(ranks, rng):
    for tokens, num_experts in (((6, 5), 5), ((4, 7, 3), 8)):
        dispatched(ranks, exchange_case(tokens, num_experts, seed=seed(rng)))
    exchanged(ranks, exchange_case((6, 5), 4, seed=seed(rng)))


@points(5, "values")
def test_exchange_where_nothing_comes(ranks, rng):
    dispatched(ranks, exchange_case((4, 3, 5), 3, "one", k=1, seed=seed(rng)))
    dispatched(ranks, exchange_case((4, 0, 5), 3, seed=seed(rng)))
    dispatched(ranks, exchange_case((4, 3), 2, "none", seed=seed(rng)))


@points(4, "values")
def test_exchange_fewer_experts_than_ranks(ranks, rng):
    dispatched(ranks, exchange_case((4, 3, 5, 2), 2, seed=seed(rng)))


@points(3, "values")
def test_exchange_one_rank_and_float32(ranks, rng):
    dispatched(ranks, exchange_case((6,), 3, seed=seed(rng)))
    dispatched(ranks, exchange_case((6, 4), 2, seed=seed(rng), dtype="float32"))


@points(12, "values")
def test_exchange_layer(ranks, rng):
    for tokens, num_experts in (((6, 6), 2), ((5, 5, 5), 3), ((4, 4, 4, 4), 4)):
        exchanged(ranks, exchange_case(tokens, num_experts, seed=seed(rng)))


@points(4, "reality")
def test_exchange_real_mpi(mpi, ranks, rng):
    tried = [
        exchange_case((6, 4, 5), e, kind, seed=seed(rng)) for e, kind in ((6, "usual"), (3, "one"))
    ]
    for case in tried:
        exchanged(ranks, case)
    jobs = [(case.target, 3, case.arguments_of_ranks()) for case in tried]
    for case, result in zip(tried, mpi.call_all(jobs), strict=True):
        try:
            assert_ran(result, case)
            for rank, value in enumerate(result.values):
                case.check(rank, value)
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}", reproduce=case.real_line,
                detail=verdict.detail,
            ) from None  # fmt: skip


# -- communication ---------------------------------------------------------------------------------


@points(12, "communication")
def test_exchange_no_row_too_many(ranks, rng):
    for tokens, num_experts, kind in (
        ((6, 6), 2, "usual"), ((5, 8, 3), 3, "usual"), ((4, 4, 4), 3, "one"),
        ((9, 1, 1, 1), 4, "uneven"), ((2,) * 12, 12, "usual"), ((2,) * 18, 18, "usual"),
    ):  # fmt: skip
        case = exchange_case(tokens, num_experts, kind, d=40, seed=seed(rng))
        cases.assert_sent(exchanged(ranks, case), case)


@points(8, "communication")
def test_exchange_counts_once(ranks, rng):
    for tokens, num_experts in (((6, 6), 2), ((5, 5, 5), 3), ((2,) * 10, 10)):
        case = exchange_case(tokens, num_experts, seed=seed(rng))
        cases.assert_exchanges(exchanged(ranks, case), case)


@points(4, "communication")
def test_exchange_given_communicator(ranks, rng):
    case = exchange_case((5, 4, 6), 3, seed=seed(rng))
    members = members_of_world(rng, 3)
    on_members(lambda **there: exchanged(ranks, case, **there), *members, case)


# -- safety and speed ------------------------------------------------------------------------------


@points(4, "safety")
def test_exchange_sends_may_wait(ranks, rng):
    case = exchange_case((5, 4, 6), 3, seed=seed(rng))
    with_waiting_sends(lambda **there: exchanged(ranks, case, **there), case)


@points(4, "safety")
def test_exchange_inputs_and_a_second_call(ranks, rng):
    case = exchange_case((5, 4, 6), 3, seed=seed(rng))
    looked = case.via("exchange_twice", ", twice, with arrays that can't be written to")
    given = case.arguments_of_ranks()
    result = ranks.call("callers:exchange_twice", 3, given, machine=buffered())
    assert_ran(result, looked)
    for rank, values in enumerate(result.values):
        for value in values:
            looked.check(rank, value)
    assert_inputs_kept(result, looked)


@points(8, "speed")
def test_exchange_time_on_two_nodes(ranks, rng):
    machine = Machine.load("zaratan").with_(eager_threshold_bytes=0, flop_per_s=1e15)
    for kind, k in (("even", 2), ("usual", 2)):
        case = exchange_case((24,) * 8, 8, kind, d=1024, k=k, seed=seed(rng))
        result = exchanged(ranks, case, machine=machine)
        rows = case.row_bytes()
        between = [rows[:4, 4:].sum(), rows[4:, :4].sum()]
        # What leaves a node goes through its one port: four times, twice each way.
        bound_s = 2 * sum(between) * machine.beta_s_per_byte
        assert_makespan(result, bound_s, case, full=1.6, half=2.2)
