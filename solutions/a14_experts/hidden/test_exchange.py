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
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a14_experts.hidden.oracle import examples

cases = examples.exchange_cases
exchange_case, exchanged, dispatched = cases.exchange_case, cases.exchanged, cases.dispatched

points = points_of("exchange")


def seed(rng):
    return int(rng.integers(2**31))


# -- values ----------------------------------------------------------------------------------------


@points(7, "values")
def test_exchange_even_rows(ranks, rng):
    for p in (2, 4):
        dispatched(ranks, exchange_case((2 * p,) * p, p, "even", k=1, seed=seed(rng)), back=False)


@points(7, "values")
def test_exchange_uneven_rows(ranks, rng):
    for tokens in ((5, 2), (3, 9, 2, 6)):
        dispatched(ranks, exchange_case(tokens, len(tokens), k=1, seed=seed(rng)))


@points(9, "values")
def test_exchange_several_experts_a_rank(ranks, rng):
    for tokens, num_experts in (((6, 5), 5), ((4, 7, 3, 2), 10)):
        dispatched(ranks, exchange_case(tokens, num_experts, seed=seed(rng)))


@points(8, "values")
def test_exchange_where_nothing_comes(ranks, rng):
    def check(each):
        tokens, num_experts, kind, k = each
        case = exchange_case(tokens, num_experts, kind, k=k, seed=seed(rng))
        dispatched(ranks, case)
        exchanged(ranks, case)

    tried = [
        ((4, 3, 5, 2), 4, "one", 1), ((4, 3), 2, "none", 2), ((4, 0, 5, 2), 4, "usual", 2),
        ((4, 3, 5, 2), 2, "usual", 2),
    ]  # fmt: skip

    def kind(each):
        if each[1] < len(each[0]):
            return "fewer experts than ranks"
        return "ranks without tokens" if 0 in each[0] else "experts without rows"

    check_kinds(tried, kind, check)


@points(3, "values")
def test_exchange_one_rank_and_float32(ranks, rng):
    dispatched(ranks, exchange_case((6,), 3, seed=seed(rng)))
    dispatched(ranks, exchange_case((6, 4), 2, seed=seed(rng)))
    dispatched(ranks, exchange_case((6, 4), 2, seed=seed(rng), dtype="float32"))


WORLDS = (((6, 6), 2), ((4, 4, 4, 4), 4), ((5, 5, 5), 3), ((2, 4, 3, 2, 3), 5))


def by_ranks(each):
    return "2 and 4 ranks" if len(each[0]) in (2, 4) else "other numbers of ranks"


@points(7, "values")
def test_exchange_layer_forward(ranks, rng):
    def check(each):
        exchanged(ranks, exchange_case(*each, seed=seed(rng)))

    check_kinds(WORLDS, by_ranks, check)


@points(9, "values")
def test_exchange_layer_gradients(ranks, rng):
    def check(each):
        exchanged(ranks, exchange_case(*each, seed=seed(rng)), forward=False)

    check_kinds(WORLDS, by_ranks, check, weights={"2 and 4 ranks": 2.0})


@points(4, "reality")
def test_exchange_real_mpi(mpi, ranks, rng):
    tried = [exchange_case((6, 4), 2, kind, seed=seed(rng)) for kind in ("usual", "even")]
    for case in tried:
        exchanged(ranks, case)
    jobs = [(case.target, 2, case.arguments_of_ranks()) for case in tried]
    for case, result in zip(tried, mpi.call_all(jobs), strict=True):
        try:
            assert_ran(result, case)
            for rank, value in enumerate(result.values):
                case.check(rank, value, forward=True)
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}", reproduce=case.real_line,
                detail=verdict.detail,
            ) from None  # fmt: skip


# -- communication ---------------------------------------------------------------------------------


@points(12, "communication", essential=True)
def test_exchange_no_row_too_many(ranks, rng):
    """Its first part asks whether rows go to their experts alone, whatever their values."""

    def check(each):
        if each is None:
            case = exchange_case((16,) * 8, 8, "even", d=40, k=1, seed=seed(rng))
            cases.sent_to_experts(ranks, case, machine=buffered())
            return
        tokens, num_experts, kind = each
        case = exchange_case(tokens, num_experts, kind, d=40, seed=seed(rng))
        cases.assert_sent(exchanged(ranks, case), case, num_counts=5)

    tried = [
        None, ((6, 6), 2, "usual"), ((4, 4, 4, 4), 4, "one"), ((9, 1, 1, 1), 4, "uneven"),
        ((2,) * 16, 16, "usual"), ((5, 8, 3), 3, "usual"), ((2,) * 12, 12, "usual"),
        ((2,) * 18, 18, "usual"),
    ]  # fmt: skip

    def kind(each):
        if each is None:
            return "rows that go to their experts alone"
        power = len(each[0]) in (2, 4, 16)
        return f"numbers of ranks that are {'powers' if power else 'no power'} of two"

    check_kinds(tried, kind, check)


@points(8, "communication")
def test_exchange_counts_once(ranks, rng):
    for tokens, num_experts in (((6, 6), 2), ((4,) * 4, 4), ((4,) * 4, 8)):
        case = exchange_case(tokens, num_experts, "even", seed=seed(rng))
        result = exchanged(ranks, case)
        cases.assert_exchanges(result, case)
        cases.assert_sent(result, case)


@points(4, "communication")
def test_exchange_given_communicator(ranks, rng):
    case = exchange_case((5, 4, 6, 3), 4, seed=seed(rng))
    members = members_of_world(rng, 4)
    on_members(lambda **there: dispatched(ranks, case, **there), *members, case)


# -- safety and speed ------------------------------------------------------------------------------


@points(10, "safety")
def test_exchange_sends_may_wait(ranks, rng):
    case = exchange_case((5, 4, 6, 3), 4, seed=seed(rng))
    with_waiting_sends(lambda **there: dispatched(ranks, case, **there), case)


@points(4, "safety")
def test_exchange_inputs_and_a_second_call(ranks, rng):
    case = exchange_case((5, 4, 6, 3), 4, seed=seed(rng))
    looked = case.via("exchange_twice", ", three times, with arrays that can't be written to")
    given = case.arguments_of_ranks()
    result = ranks.call("callers:exchange_twice", 4, given, machine=buffered())
    assert_ran(result, looked)
    for rank, values in enumerate(result.values):
        for value in values:
            looked.check(rank, value, forward=True)
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
