"""At most one request starts in a step, which keeps steps short."""

from dataclasses import dataclass

from batching_server import Request, Step


@dataclass
class _Place:
    number: int
    request: Request
    made: int = 0

    @property
    def cached(self):
        return self.request.prompt_tokens + self.made

    @property
    def needs(self):
        return self.request.prompt_tokens + self.request.output_tokens


def serve(requests, server):
    queue = [_Place(number, request) for number, request in enumerate(requests)]
    too_long = [place for place in queue if place.needs > server.capacity_tokens]
    if too_long:
        raise ValueError(f"no room for {too_long[0].request} in {server.capacity_tokens} tokens")
    batch, steps, clock_s = [], [], 0.0
    while queue or batch:
        new = None
        if queue and not batch:
            clock_s = max(clock_s, queue[0].request.arrival_s)
        if queue and queue[0].request.arrival_s <= clock_s:
            if sum(place.needs for place in [*batch, queue[0]]) <= server.capacity_tokens:
                new = queue.pop(0)
        prefill = [new] if new else []
        numbers = [tuple(place.number for place in some) for some in (prefill, batch)]
        steps.append(Step(clock_s, *numbers))
        clock_s += server.step_s(
            [place.cached for place in prefill], [place.cached for place in batch]
        )
        batch = [*batch, *prefill]
        for place in batch:
            place.made += 1
        batch = [place for place in batch if place.made < place.request.output_tokens]
    return steps
