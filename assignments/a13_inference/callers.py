"""Functions that call yours inside a rank, for the tests: supplied, nothing to write."""

import tracemalloc

import batching_server
import numpy as np
from kv_script import Script, perform
from model import Cache, Sizes

from ringside.checking.callers import arrays_in, find

# -- kv_cache --------------------------------------------------------------------------------------


def kv_scripts(comm, target, calls):
    """What happens in each of a list of scripts; see ``kv_script.py``."""
    return [perform(Script(*each)) for each in calls]


def kv_numbers(comm, target, calls):
    """Call a function with each of a list of argument tuples."""
    return [find(target)(*arguments) for arguments in calls]


# -- decode ----------------------------------------------------------------------------------------


def decode_steps(comm, sizes, part, prompts, later):
    """What ``decode.forward`` returns for the prompts, then for each list of new tokens."""
    sizes, forward = Sizes(*sizes), find("decode:forward")
    of_rank = part["0.bk"].size // sizes.head_dim
    room = Cache(sizes, len(prompts), of_rank, part["positions"].dtype)
    return [forward(comm, tokens, room, part, sizes) for tokens in [prompts, *later]]


def decode_greedy(comm, sizes, part, hidden):
    """What ``decode.greedy`` returns."""
    return find("decode:greedy")(comm, hidden, part, Sizes(*sizes))


def decode_generate(comm, sizes, part, prompts, num_tokens):
    """What ``decode.generate`` returns."""
    return find("decode:generate")(comm, prompts, part, Sizes(*sizes), num_tokens)


def decode_twice(comm, sizes, part, prompts, others, num_tokens):
    """Generate with some prompts, with others, and with the first ones again.

    Weights can't be written to.

    Returns:
        ``(first, second, third, changed)``: was a prompt changed?
    """
    sizes, generate = Sizes(*sizes), find("decode:generate")
    for array in part.values():
        array.flags.writeable = False
    before = [list(each) for each in (*prompts, *others)]
    found = [generate(comm, each, part, sizes, num_tokens) for each in (prompts, others, prompts)]
    return *found, before != [list(each) for each in (*prompts, *others)]


def decode_memory(comm, sizes, part, prompts, num_tokens):
    """Bytes that ``generate`` allocates at most at a time, and its tokens."""
    sizes, generate = Sizes(*sizes), find("decode:generate")
    tracemalloc.start()
    try:
        tokens = generate(comm, prompts, part, sizes, num_tokens)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return most, tokens


def decode_shards(comm, sizes, weights):
    """``(part, shared)`` of this rank: does it share memory with the whole weights?"""
    part = find("decode:shard")(weights, Sizes(*sizes), comm.Get_size(), comm.Get_rank())
    made, given = (list(arrays_in(list(each.values()))) for each in (part, weights))
    return part, any(np.shares_memory(a, b) for a in made for b in given)


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
