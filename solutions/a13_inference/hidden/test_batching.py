"""batching.py: requests join and leave the batch; each plan is replayed here."""

from ringside.checking import Verdict, award
from ringside.checking.formulas import evaluated
from ringside.checking.points import points_of
from ringside.units import format_count
from solutions.a13_inference.hidden import batching_oracle as oracle

AMPLE = 100_000  # tokens: all requests of a stream fit

points = points_of("batching")


def shown(call):
    """How a sentence names a call, and the line that makes it."""
    told, capacity = call
    count = format_count(told[1] if isinstance(told, tuple) else len(told), "request")
    line = f"from callers import try_batching; try_batching({told!r}, {capacity})"
    return f"serve({count}, a server of {capacity} tokens)", f'python -c "{line}"'


def drawn(rng, count, requests_per_s, prompt=200, output=80):
    """A stream, told by its seed. Answers of one token have a test of their own."""
    while True:
        told = int(rng.integers(2**31)), count, requests_per_s, prompt, output
        if all(request.output_tokens > 1 for request in oracle.requests_of(told)):
            return told


def served(ranks, calls, *kinds):
    """Per call its words, its line and the log of its plan, in which nothing of ``kinds`` is wrong.

    Every token of every request is asked for in any case, and that the calls together are batched
    continuously: requests join others after some have left.
    """
    answers = evaluated(ranks, "callers:batching_answers", "batching:serve", calls, shown)
    logs = []
    for call, (steps, error) in zip(calls, answers, strict=True):
        where, line = shown(call)
        if error:
            raise Verdict(f"{where} raised {error}; it must return a plan.", reproduce=line)
        log = oracle.log_of(*call, steps)
        for kind in ("tokens", *kinds):
            if kind in log.wrong:
                raise Verdict(f"{where}: {log.wrong[kind]}.", reproduce=line)
        logs.append((where, line, log))
    joined = sum(log.joined for *_, log in logs)
    wanted = [oracle.reference_log(*call).joined for call in calls]
    if 8 * joined < sum(wanted):
        where, line, log = logs[wanted.index(max(wanted))]
        raise Verdict(
            f"{where}: {format_count(log.joined, 'request')} joined the batch after another one "
            f"had ended and while others were under way; by the docstring {max(wanted)} can.",
            reproduce=line,
        )
    return logs


# -- values ----------------------------------------------------------------------------------------


@points(12, "values")
def test_every_token_once(ranks, rng):
    served(
        ranks, [(drawn(rng, count, rate), AMPLE) for count, rate in ((9, 40), (30, 8), (50, 20))]
    )


@points(6, "values")
def test_requests_that_arrive_together(ranks, rng):
    calls = []
    for count in (6, 14):
        lengths = rng.integers(2, 60, (count, 2)).tolist()
        calls.append(([(0.0, 3 * prompt, output) for prompt, output in lengths], 600))
    served(ranks, calls)


@points(8, "values")
def test_pauses_between_requests(ranks, rng):
    calls = [(drawn(rng, 12, 0.4, 100, 20), AMPLE), (drawn(rng, 12, 0.4, 100, 20), AMPLE)]
    served(ranks, [*calls, (drawn(rng, 30, 20), AMPLE)])


@points(6, "values")
def test_answers_of_one_token(ranks, rng):
    calls = []
    for count in (8, 24):
        arrivals = (0.004 * rng.random(count)).cumsum().round(6).tolist()
        lengths = rng.choice([1, 1, 2, 30], count).tolist()
        rows = zip(arrivals, lengths, strict=True)
        calls.append(([(arrival, 40, output) for arrival, output in rows], AMPLE))
    served(ranks, calls)


@points(6, "values")
def test_request_that_fills_the_cache(ranks, rng):
    calls = []
    for capacity in (500, 731):
        output = int(rng.integers(2, 30))
        full = [(0.0, capacity - output, output), (0.001, capacity - 2, 2)]
        calls.append(([*full, *[(0.01, 30, 5 + 3 * k) for k in range(12)]], capacity))
    served(ranks, [*calls, (drawn(rng, 30, 20), AMPLE)])


@points(2, "values")
def test_no_request_and_one_request(ranks, rng):
    calls = [([], 100), ([(0.5, 3, 4)], 100), (drawn(rng, 30, 20), AMPLE)]
    served(ranks, calls)


# -- memory and order ------------------------------------------------------------------------------


@points(12, "memory")
def test_never_over_memory(ranks, rng):
    calls = [
        (drawn(rng, 40, rate, 200, 80), capacity) for rate, capacity in ((10, 2500), (40, 3500))
    ]
    output = int(rng.integers(20, 60))
    calls.append(([(0.0, 100, output)] * 8, 4 * (100 + output) - 1))
    served(ranks, calls, "memory")


@points(10, "schedule")
def test_requests_start_in_order_of_arrival(ranks, rng):
    # Little room, so that the next request often has to wait where a shorter one would fit.
    served(ranks, [(drawn(rng, 40, rate), 2500) for rate in (10, 40)], "order")


@points(6, "schedule")
def test_no_request_starts_before_it_arrives(ranks, rng):
    calls = [(drawn(rng, 30, rate), AMPLE) for rate in (2, 10, 40)]
    served(ranks, calls, "arrival")


@points(8, "schedule")
def test_no_step_starts_before_the_last_one_ends(ranks, rng):
    served(ranks, [(drawn(rng, 30, rate, 400), AMPLE) for rate in (2, 10, 40)], "time")


# -- safety ----------------------------------------------------------------------------------------


@points(5, "safety")
def test_refuses_a_request_that_never_fits(ranks, rng):
    served(ranks, [(drawn(rng, 30, 20), AMPLE)])
    output = int(rng.integers(5, 50))
    calls = [
        ([(0.0, 301 - output, output)], 300),
        ([(0.0, 20, 30), (0.1, 20, 30), (0.2, 301 - output, output), (0.3, 5, 5)], 300),
    ]
    answers = evaluated(ranks, "callers:batching_answers", "batching:serve", calls, shown)
    for call, (_, error) in zip(calls, answers, strict=True):
        if error != "ValueError":
            where, line = shown(call)
            said = f"it raised {error}; " if error else ""
            raise Verdict(
                f"{where}: {said}a request never fits, and serve must raise ValueError.",
                reproduce=line,
            )


@points(3, "safety")
def test_same_plan_when_called_again(ranks, rng):
    call = (drawn(rng, 30, 20), AMPLE)
    served(ranks, [call])
    calls = [call, (drawn(rng, 20, 20), 3000), call]
    answers = evaluated(ranks, "callers:batching_answers", "batching:serve", calls, shown)
    if answers[0] != answers[2]:
        where, line = shown(call)
        raise Verdict(
            f"{where}: serve returned another plan when it was called again.", reproduce=line
        )


# -- speed -----------------------------------------------------------------------------------------

EVERYTHING = "time", "arrival", "order", "memory"


def busy(rng):
    """Streams in which requests wait all the time, and memory is what limits the batch."""
    return [(drawn(rng, 100, 30, 200, 150), capacity) for capacity in (5000, 6000, 8000)]


@points(8, "speed")
def test_throughput(ranks, rng):
    calls = busy(rng)
    logs = served(ranks, calls, "time", "memory")
    plain = [oracle.static_log(*call) for call in calls]
    where, line, log = logs[0]
    spent = [sum(each.end_s for each in some) for some in (plain, [log for *_, log in logs])]
    ratio = spent[0] / spent[1]
    award(
        1.0 if ratio >= 1.5 else 0.5 if ratio >= 1.2 else 0.0,
        f"{where} gives {log.tokens_per_s:.0f} tokens per second, static batching "
        f"{plain[0].tokens_per_s:.0f}. All {len(calls)} streams together end {ratio:.2f} times as "
        "fast as with static batching; 1.5 times is asked for, and half of the points go to 1.2.",
        reproduce=line,
    )


@points(8, "speed")
def test_time_to_the_first_token(ranks, rng):
    calls = [*busy(rng), (drawn(rng, 80, 6, 200, 80), AMPLE)]
    ratios = []
    for call, (where, line, log) in zip(
        calls, served(ranks, calls, "time", "arrival"), strict=True
    ):
        best = oracle.reference_log(*call)
        ratio = log.slow_first_token_s / best.slow_first_token_s
        ratios.append((ratio, log, best, where, line))
    ratio, log, best, where, line = max(ratios, key=lambda each: each[0])
    award(
        1.0 if ratio <= 2 else 0.5 if ratio <= 3 else 0.0,
        f"{where}: 95 % of the requests wait at most {log.slow_first_token_s:.3f} s for their "
        f"first token. The docstring's server takes {best.slow_first_token_s:.3f} s, and this is "
        f"{ratio:.2f} times as long; twice is allowed, and half of the points go to 3 times.",
        reproduce=line,
    )
