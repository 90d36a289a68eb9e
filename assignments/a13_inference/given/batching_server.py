"""Requests, a server and what a plan of steps costs there: supplied, nothing to write.

    step time  =  (weights + keys and values of the decoding requests) / bytes per second
                  +  2 parameters * tokens computed / FLOP per second

A step reads all weights once, whatever its batch, and the cache of each request that decodes. It
computes all tokens of the prompts that start, and one token of each request that decodes.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Request:
    """One question to the server.

    Args:
        arrival_s: when it arrives.
        prompt_tokens: tokens of the prompt, from 1.
        output_tokens: tokens of the answer, from 1. A real server knows a limit only; here all
            answers are as long as their limit.
    """

    arrival_s: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Step:
    """One pass through the model.

    Args:
        start_s: when it starts.
        prefill: numbers of the requests that start here: their whole prompts are computed, and
            each of them gets its first token.
        decode: numbers of the requests that get one more token here.
    """

    start_s: float
    prefill: tuple
    decode: tuple


@dataclass(frozen=True)
class Server:
    """A model of 8 billion parameters in bfloat16 on one GPU.

    The parameters are read from memory in each step. 32 layers with 8 key heads of width 128 keep
    2 * 32 * 8 * 128 * 2 = 131,072 bytes of keys and values for each token. The GPU has an A100's
    peak numbers.

    Args:
        capacity_tokens: so many tokens' keys and values fit beside the weights.
    """

    capacity_tokens: int
    num_parameters: int = 8_000_000_000
    bytes_per_token: int = 131_072
    memory_bytes_per_s: float = 1.555e12
    flop_per_s: float = 3.12e14

    def step_s(self, prompts, caches):
        """Seconds of one step.

        Args:
            prompts: tokens of each prompt that starts.
            caches: tokens in the cache of each request that decodes, before the step.

        >>> server = Server(16_000)
        >>> round(server.step_s([], [1000]) * 1e3, 3)  # ms of one request; the weights alone 10.289
        10.425
        >>> round(server.step_s([300], [1000] * 30) * 1e3, 3)  # with 30 others, and a new prompt
        29.741
        """
        read = 2 * self.num_parameters + self.bytes_per_token * sum(caches)
        computed = sum(prompts) + len(caches)
        read_s = read / self.memory_bytes_per_s
        return read_s + 2 * self.num_parameters * computed / self.flop_per_s


def stream(seed, count, requests_per_s, prompt=300, output=150):
    """Requests without a pattern, in order of arrival.

    Args:
        prompt, output: about the mean numbers of tokens. Both differ much from request to request,
            up to five times these.
    """
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1 / requests_per_s, count))
    prompts = 1 + rng.exponential(prompt - 1, count).clip(0, 5 * prompt - 1).astype(int)
    outputs = 1 + rng.exponential(output - 1, count).clip(0, 5 * output - 1).astype(int)
    rows = zip(arrivals.tolist(), prompts.tolist(), outputs.tolist(), strict=True)
    return [Request(round(arrival_s, 6), *tokens) for arrival_s, *tokens in rows]


def static(requests, server):
    """Static batching: take what waits and fits, and take nothing else until all of it has ended.

    Returns:
        A list of ``Step``, as ``batching.serve``.
    """
    steps, clock_s, first = [], 0.0, 0
    while first < len(requests):
        clock_s = max(clock_s, requests[first].arrival_s)
        last, tokens = first, 0
        for request in requests[first:]:
            tokens += request.prompt_tokens + request.output_tokens
            if request.arrival_s > clock_s or tokens > server.capacity_tokens:
                break
            last += 1
        batch = range(first, last)
        for made in range(max(requests[k].output_tokens for k in batch)):
            going = tuple(k for k in batch if requests[k].output_tokens > made)
            prompts = [requests[k].prompt_tokens for k in going]
            if made == 0:
                steps.append(Step(clock_s, going, ()))
                clock_s += server.step_s(prompts, [])
            else:
                steps.append(Step(clock_s, (), going))
                clock_s += server.step_s([], [tokens + made for tokens in prompts])
        first = last
    return steps


@dataclass(frozen=True)
class Log:
    """What a replay of a plan found.

    Args:
        first_token_s: per request the seconds from its arrival to its first token.
        end_s: when the last step ends.
        num_tokens: tokens that all requests got.
        peak_tokens: the most tokens that the cache held.
        joined: how many requests started after another one had ended, while a third was under way.
        wrong: sentences on what is wrong, by kind: "tokens", "order", "arrival", "time", "memory".
    """

    first_token_s: tuple
    end_s: float
    num_tokens: int
    peak_tokens: int
    joined: int
    wrong: dict

    @property
    def tokens_per_s(self):
        """Throughput, from time 0 to the end."""
        return self.num_tokens / self.end_s if self.end_s else 0.0

    @property
    def slow_first_token_s(self):
        """95 % of the requests wait at most so long for their first token."""
        waits = sorted(self.first_token_s)
        return waits[-(-95 * len(waits) // 100) - 1] if waits else 0.0


def replay(requests, steps, server):
    """Carry out a plan and say what comes of it; the first mistake of each kind is told."""
    wrong, first, got = {}, {}, {}
    clock_s, peak, held, joined, youngest, left = 0.0, 0, 0, 0, -1, False
    for at, step in enumerate(steps):
        seen = set()
        for k in (*step.prefill, *step.decode):
            going = k in got and got[k] < requests[k].output_tokens
            if not 0 <= k < len(requests):
                wrong.setdefault("tokens", f"step {at} names request {k}, which isn't there")
            elif k in seen:
                wrong.setdefault("tokens", f"step {at} names request {k} twice")
            elif k in step.prefill and k in got:
                wrong.setdefault("tokens", f"request {k} starts again in step {at}")
            elif k in step.decode and not going:
                told = "has ended" if k in got else "has not started"
                wrong.setdefault("tokens", f"step {at} decodes request {k}, which {told}")
            seen.add(k)
        if "tokens" in wrong:
            break
        if not step.start_s >= clock_s * (1 - 1e-9):  # a NaN is wrong too
            wrong.setdefault(
                "time",
                f"step {at} starts at {step.start_s:.6f} s, and the step before it ends at "
                f"{clock_s:.6f} s",
            )
        clock_s = max(clock_s, step.start_s)
        joined += len(step.prefill) if held and left else 0
        for k in step.prefill:
            if not requests[k].arrival_s <= step.start_s + 1e-9 * clock_s:
                wrong.setdefault(
                    "arrival",
                    f"request {k} starts at {step.start_s:.6f} s and arrives at "
                    f"{requests[k].arrival_s:.6f} s",
                )
            if k != youngest + 1:
                wrong.setdefault(
                    "order", f"request {k} starts in step {at}, before request {youngest + 1}"
                )
            youngest = max(youngest, k)
        caches = [requests[k].prompt_tokens + got[k] for k in step.decode]
        prompts = [requests[k].prompt_tokens for k in step.prefill]
        clock_s += server.step_s(prompts, caches)
        held += sum(prompts) + len(prompts) + len(caches)
        peak = max(peak, held)
        if held > server.capacity_tokens:
            wrong.setdefault(
                "memory",
                f"the cache holds {held} tokens in step {at}, and {server.capacity_tokens} fit",
            )
        for k in step.prefill:
            first[k], got[k] = clock_s - requests[k].arrival_s, 0
        for k in seen:
            got[k] += 1
            if got[k] == requests[k].output_tokens:
                held -= requests[k].prompt_tokens + got[k]
                left = True
        left = left and held > 0
    for k, request in enumerate(requests):
        if got.get(k, 0) != request.output_tokens:
            wrong.setdefault(
                "tokens", f"request {k} gets {got.get(k, 0)} of {request.output_tokens} tokens"
            )
    waits = tuple(first[k] for k in sorted(first))
    return Log(waits, clock_s, sum(got.values()), peak, joined, wrong)
