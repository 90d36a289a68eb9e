"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see messages and results only. What must be made or looked at inside a
rank, they ask for here. A verdict names the same functions in its line.
"""

import batching_server

from ringside.checking import find

# -- batching --------------------------------------------------------------------------------------


def batching_requests(told):
    """Requests: ``(seed, count, requests_per_s, prompt, output)`` of ``stream``, or numbers."""
    if isinstance(told, tuple):
        return batching_server.stream(*told)
    return [batching_server.Request(*numbers) for numbers in told]


class BatchingServer(batching_server.Server):
    """A server that gives up where a plan of steps doesn't end."""

    def step_s(self, prompts, caches):
        left = self.__dict__.setdefault("left", 50_000)
        if left == 0:
            raise RuntimeError("50,000 steps, and the plan has no end: does a request never end?")
        self.__dict__["left"] = left - 1
        return super().step_s(prompts, caches)


def batching_steps(steps):
    """Steps as plain numbers: ``(start_s, prefill, decode)`` of each."""
    return [
        (float(step.start_s), [int(k) for k in step.prefill], [int(k) for k in step.decode])
        for step in steps
    ]


def batching_answers(comm, target, calls):
    """Call ``batching.serve`` with each of a list of arguments.

    Args:
        calls: of each the requests as for ``batching_requests``, and ``capacity_tokens``.

    Returns:
        Per call ``(steps, None)``, or ``(None, "ValueError")``: the exception's type.
    """
    function, answers = find(target), []
    for told, capacity in calls:
        requests = batching_requests(told)
        before = list(requests)
        try:
            answer = batching_steps(function(requests, BatchingServer(capacity))), None
        except Exception as error:
            answer = None, type(error).__name__
        kept = before == requests
        answers.append(answer if kept else (None, "nothing, but it changed the list of requests"))
    return answers


def try_batching(told, capacity):
    """Call ``batching.serve`` and show what a replay of its steps finds."""
    from batching import serve

    requests, server = batching_requests(told), BatchingServer(capacity)
    told = [batching_steps(serve(requests, server)) for _ in range(2)]
    steps, plain = (
        [batching_server.Step(*step) for step in told[0]],
        batching_server.Server(capacity),
    )
    log = batching_server.replay(requests, steps, plain)
    print(f"{len(steps)} steps, {log.num_tokens} tokens, the last one at {log.end_s:.3f} s")
    print(f"{log.tokens_per_s:.0f} tokens per second", end="; ")
    if all(each.prompt_tokens + each.output_tokens <= capacity for each in requests):
        static = batching_server.replay(requests, batching_server.static(requests, plain), plain)
        print(f"static batching's {static.tokens_per_s:.0f}")
    else:
        print("a request never fits, and serve must raise ValueError.")
    print(f"95 % of the requests wait at most {log.slow_first_token_s:.3f} s for their first token")
    print(f"{log.joined} requests joined others after one had ended")
    if told[0] != told[1]:
        print("serve returned another plan when it was called again.")
    for sentence in log.wrong.values():
        print(f"wrong: {sentence}")
