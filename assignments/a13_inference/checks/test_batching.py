"""batching.py: requests join and leave the batch; each plan is replayed here."""

from checks.cases import Busy, Serve
from ringside.checking import Verdict, award, verify
from ringside.checking.suite import Suite

suite = Suite("batching")
STREAM = Serve(count=30, joins=19)  # in which many can join
RULES = "tokens", "order", "arrival", "time", "memory"


# -- tokens ----------------------------------------------------------------------------------------


@suite.test("joining", "values", Serve(count=30, rate=40.0, joins=19))
def test_requests_join_others_under_way(case, run):
    """``case`` has looked at it."""


@suite.test(
    "tokens", "values", Serve(count=30, rate=8.0, seed=1, joins=22),
    Serve(count=30, rate=40.0, joins=19), weight=2,
)  # fmt: skip
def test_every_token_once(case, run):
    case.look(run, "tokens")


@suite.test(
    "tokens", "values", STREAM,
    Serve(((0.0, 50, 1), (0.0, 30, 1), (0.0, 30, 9), (0.0, 20, 3), (0.05, 9, 1), (0.06, 5, 5))),
)  # fmt: skip
def test_answers_of_one_token(case, run):
    """They end with the step in which they start."""
    if case.requests:
        case.look(run, "tokens")


@suite.test(
    "starts", "values", STREAM,
    Serve(
        ((0.0, 30, 5), (0.0, 90, 20), (0.0, 60, 2), (0.0, 30, 40), (0.0, 9, 9)), capacity=200
    ), weight=3,
)  # fmt: skip
def test_requests_that_arrive_together(case, run):
    """All at one moment."""


@suite.test("starts", "values", STREAM, Serve(count=12, rate=0.4, prompt=100, output=20), weight=3)
def test_pauses_between_requests(case, run):
    """In which nobody is under way."""


@suite.test(
    "starts", "values", STREAM,
    Serve(((0.0, 120, 10), (0.001, 128, 2), (0.01, 30, 5)), capacity=130),
)  # fmt: skip
def test_request_that_fills_the_cache(case, run):
    """It needs exactly what there is."""


@suite.test("starts", "values", STREAM, Serve(), Serve(((0.5, 3, 4),), capacity=100), weight=0.5)
def test_no_request_and_one_request(case, run):
    """No step for no request."""
    if not case.stream and any(run):
        raise Verdict(f"{case}: there are steps although there is no request.")


# -- memory, order and time ------------------------------------------------------------------------


def peaks(case, run):
    """Per server the case and the most tokens that its cache held."""
    return [(each, log.peak_tokens) for each, log in zip(case.servers, case.look(run), strict=True)]


@suite.test("memory", "memory", Serve(count=40, rate=40.0, capacity=2500, joins=36))
def test_room_for_the_answers_to_come(case, run):
    """But for a token or two, of which the next test is."""
    for each, peak in peaks(case, run):
        verify(
            peak <= 1.02 * each.capacity,
            f"{each}: the cache holds {peak} tokens, and {each.capacity} fit. A request that "
            "starts needs room for all tokens that it and the others are still to get.",
        )


@suite.test(
    "memory", "memory", Serve(count=40, rate=40.0, capacity=2500, joins=36),
    Serve(((0.0, 100, 60),) * 8, capacity=639),
)  # fmt: skip
def test_never_over_memory(case, run):
    case.look(run, "memory")


@suite.test("order", "schedule", Serve(count=40, rate=40.0, capacity=2500, joins=36))
def test_requests_start_in_order_of_arrival(case, run):
    """Little room, so that the next request often has to wait where a shorter one would fit."""
    case.look(run, "order")


@suite.test("clock", "schedule", Serve(count=30, rate=2.0, joins=12), STREAM)
def test_no_request_starts_before_it_arrives(case, run):
    case.look(run, "arrival")


@suite.test(
    "clock", "schedule", Serve(count=30, rate=2.0, prompt=400, joins=12),
    Serve(count=30, prompt=400, joins=19),
)  # fmt: skip
def test_no_step_starts_before_the_last_one_ends(case, run):
    case.look(run, "time")


@suite.test(
    "refuses", "safety", STREAM,
    Serve(((0.0, 20, 30), (0.1, 300, 1)), capacity=300, raises="ValueError"),
)  # fmt: skip
def test_refuses_a_request_that_never_fits(case, run):
    """By a ValueError."""


@suite.test("again", "safety", Serve(count=30, again=True, joins=19))
def test_same_plan_when_called_again(case, run):
    first, _, third = run
    if first != third:
        raise Verdict(f"{case}: serve returned another plan when it was called again.")


# -- how fast: of plans that keep all rules --------------------------------------------------------


@suite.test("speed", "speed", Busy(), weight=4)
def test_throughput(case, run):
    logs, static = case.look(run, *RULES), case.static
    ratio = sum(log.end_s for log in static) / sum(log.end_s for log in logs)
    award(
        1.0 if ratio >= 1.5 else 0.5 if ratio >= 1.2 else 0.0,
        f"{case} gives {logs[0].tokens_per_s:.0f} tokens per second on the first one, static "
        f"batching {static[0].tokens_per_s:.0f}. All streams together end {ratio:.3f} times as "
        "fast as with static batching; 1.5 times is asked for, and half of the points go to 1.2.",
    )


@suite.test(
    "speed", "speed", Serve(count=80, rate=6.0, joins=76, first_s=0.0495),
    Serve(count=100, rate=30.0, output=150, capacity=5000, joins=96, first_s=14.97), weight=3,
)  # fmt: skip
def test_time_to_the_first_token(case, run):
    (log,) = case.look(run, *RULES)
    ratio = log.slow_first_token_s / case.first_s
    award(
        1.0 if ratio <= 2 else 0.5 if ratio <= 3 else 0.0,
        f"{case}: 95 % of the requests wait at most {log.slow_first_token_s:.3f} s for their first "
        f"token. The docstring's server takes {case.first_s:.3f} s, and this is {ratio:.3f} times "
        "as long; twice is allowed, and half of the points go to 3 times.",
    )
