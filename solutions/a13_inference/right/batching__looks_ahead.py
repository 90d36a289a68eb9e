"""Reserves no place to its end: computes how full the cache will be when others have left."""

import numpy as np
from batching_server import Step


def _peak(going):
    """The most tokens, if nobody else comes: pairs (tokens now, tokens still to come)."""
    most = 0
    for _, steps in going:
        most = max(most, sum(now + steps for now, left in going if left >= steps))
    return most


def serve(requests, server):
    room = server.capacity_tokens
    if any(each.prompt_tokens + each.output_tokens > room for each in requests):
        raise ValueError(f"a request needs more than the cache's {room} tokens: shorten its answer")
    first, clock, steps = 0, np.float64(0), []
    now, left = {}, {}
    while first < len(requests) or left:
        if not left:
            clock = max(clock, np.float64(requests[first].arrival_s))
        decode, prefill = sorted(left), []
        while first < len(requests) and requests[first].arrival_s <= clock:
            new = requests[first]
            pairs = [(now[k], left[k]) for k in left] + [(new.prompt_tokens, new.output_tokens)]
            if _peak(pairs) > room:
                break
            now[first], left[first] = new.prompt_tokens, new.output_tokens
            prefill.append(first)
            first += 1
        steps.append(Step(clock, tuple(prefill), tuple(decode)))
        clock = clock + server.step_s([now[k] for k in prefill], [now[k] for k in decode])
        for k in decode + prefill:
            now[k] += 1
            left[k] -= 1
            if not left[k]:
                del now[k], left[k]
    return steps
