"""Prompts have steps of their own: while they are computed, nobody decodes."""

from collections import deque

from batching_server import Step


def serve(requests, server):
    for request in requests:
        if request.prompt_tokens + request.output_tokens > server.capacity_tokens:
            raise ValueError(f"{request} is longer than the cache: {server.capacity_tokens} tokens")
    waiting = deque(enumerate(requests))
    going, steps, clock_s = {}, [], 0.0  # number: tokens in the cache

    def room():
        return server.capacity_tokens - sum(
            requests[k].prompt_tokens + requests[k].output_tokens for k in going
        )

    while waiting or going:
        if not going and waiting[0][1].arrival_s > clock_s:
            clock_s = waiting[0][1].arrival_s
        new = []
        while waiting and waiting[0][1].arrival_s <= clock_s:
            k, request = waiting[0]
            if request.prompt_tokens + request.output_tokens > room():
                break
            waiting.popleft()
            new.append(k)
            going[k] = request.prompt_tokens
        if new:
            steps.append(Step(clock_s, new, []))
            clock_s += server.step_s([going[k] for k in new], [])
        else:
            steps.append(Step(clock_s, [], list(going)))
            clock_s += server.step_s([], list(going.values()))
        for k in new or list(going):
            going[k] += 1
            if going[k] == requests[k].prompt_tokens + requests[k].output_tokens:
                going.pop(k)
    return steps
