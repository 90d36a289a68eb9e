"""The server that batching's docstring describes, and how its plans are replayed."""

import heapq

from solutions.a13_inference.batching_server import Request, Server, Step, replay, static, stream


def requests_of(told):
    """As ``callers.batching_requests``."""
    return stream(*told) if isinstance(told, tuple) else [Request(*numbers) for numbers in told]


def log_of(told, capacity, steps):
    """What a replay of a student's plan finds."""
    return replay(requests_of(told), [Step(*step) for step in steps], Server(capacity))


def static_log(told, capacity):
    requests, server = requests_of(told), Server(capacity)
    return replay(requests, static(requests, server), server)


def reference_log(told, capacity):
    """Of a server that starts each request in the first step with room for all of it.

    Each request ends a known number of steps after its first one, so a heap tells who leaves next.
    """
    requests, server = requests_of(told), Server(capacity)
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
        at, prefill, decode = len(steps), [], sorted((k, first) for _, k, first in going)
        while coming and coming[0][1].arrival_s <= clock_s:
            k, request = coming[0]
            if used + request.prompt_tokens + request.output_tokens > capacity:
                break
            used += request.prompt_tokens + request.output_tokens
            heapq.heappush(going, (at + request.output_tokens - 1, k, at))
            prefill.append(k)
            coming.pop(0)
        steps.append(Step(clock_s, tuple(prefill), tuple(k for k, _ in decode)))
        clock_s += server.step_s(
            [requests[k].prompt_tokens for k in prefill],
            [requests[k].prompt_tokens + at - first for k, first in decode],
        )
    return replay(requests, steps, server)
