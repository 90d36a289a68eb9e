"""Continuous batching: requests join and leave the batch between any two tokens.

    step         0    1    2    3    4    5         P  prompt is computed, gives the first token
    request 0    P    t    t                        t  one more token
    request 1         P    t    t    t    t
    request 2                   P    t              The cache has room for two requests. Request 2
    request 3                             P ...     starts when request 0 has left, and request 3
                                                    when request 2 has.

A step reads all weights of the model, whether it computes a token for one request or for thirty. So
a batch should be full. Static batching takes the requests that wait, and starts the next batch when
the longest answer of the first one has ended; until then most places are empty.

``given/batching_server.py`` has ``Request``, ``Step``, ``Server`` with the time of a step, streams
of requests, static batching, and ``replay``, which carries out a plan.

Source: Yu et al., Orca: a distributed serving system for transformer-based generative models, OSDI
2022.
"""

from given.batching_server import Request, Server, Step


def serve(requests: list[Request], server: Server) -> list[Step]:
    """Plan the steps of a server that answers all requests.

    Args:
        requests: list of ``Request`` in order of arrival, from 0; not modified. Request k is
            ``requests[k]``.
        server: a ``Server``. ``server.step_s(prompts, caches)`` gives the seconds of a step,
            ``server.capacity_tokens`` what its cache holds.

    Returns:
        A list of ``Step(start_s, prefill, decode)``. The tests replay it. They take nothing from it
        but these three.
        - Tokens: each request stands in ``prefill`` once, which gives its first token, and later in
          ``decode`` of ``output_tokens - 1`` steps.
        - Order: requests start in order of arrival, also inside a ``prefill``. None is passed over
          because a later one is shorter or fits.
        - Time: no step starts before the step before it has ended, and no request before it has
          arrived. Time begins at 0.
        - Joining: requests start while others are under way. The batch isn't emptied first.
        - Memory: a request holds its prompt and each token that it has got, the newest one too. It
          holds them from the step in which it starts to the step that gives its last token, and
          they are free in the next step. All requests together never hold more than
          ``server.capacity_tokens``. No request can be taken back, so one that starts needs room
          for all tokens that it and the others are still to get.
        - Throughput, on three streams that keep the server busy, taken together: at least 1.5 times
          the tokens per second of static batching, ``batching_server.static``; half the points from
          1.2 times.
        - Time to the first token: 95 % of the requests wait at most twice as long for it as 95 % do
          in a server that starts each request in the first step for which it has arrived and there
          is room for ``prompt_tokens + output_tokens`` of all that are under way; half the points
          up to 3 times.

    Raises:
        ValueError: a request needs more than ``server.capacity_tokens`` alone.

    Example. 1000 tokens fit. Request 0 (300 tokens of prompt, 500 of answer) and request 1 (150,
    100) arrive at 0 s. Request 0 starts, and 1 doesn't: together they need 1050. With 50 tokens of
    answer request 1 needs 200, both need 1000, and both start in step 0. This step computes 450
    tokens and takes ``server.step_s([300, 150], [])``; the next one takes
    ``server.step_s([], [301, 151])``.
    """
    ### BEGIN SOLUTION
    needs = [request.prompt_tokens + request.output_tokens for request in requests]
    for k, needed in enumerate(needs):
        if needed > server.capacity_tokens:
            raise ValueError(
                f"request {k} needs {needed} tokens of cache and {server.capacity_tokens} fit: "
                "shorten its answer, or take a server with more memory"
            )
    steps, clock_s, free, coming = [], 0.0, server.capacity_tokens, 0
    made = {}  # tokens that each request under way has got
    while made or coming < len(requests):
        if not made:
            clock_s = max(clock_s, requests[coming].arrival_s)
        prefill, decode = [], list(made)
        while coming < len(requests) and requests[coming].arrival_s <= clock_s:
            if needs[coming] > free:
                break  # whoever comes later waits as well
            free -= needs[coming]
            prefill.append(coming)
            coming += 1
        steps.append(Step(clock_s, tuple(prefill), tuple(decode)))
        prompts = [requests[k].prompt_tokens for k in prefill]
        clock_s += server.step_s(prompts, [requests[k].prompt_tokens + made[k] for k in decode])
        made.update(dict.fromkeys(prefill, 0))
        for k in list(made):
            made[k] += 1
            if made[k] == requests[k].output_tokens:
                del made[k]
                free += needs[k]
    return steps
    ### END SOLUTION
