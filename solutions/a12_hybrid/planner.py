"""The planner: which mixture of schemes trains this model fastest on these GPUs, and fits.

    GPT of 7.5 billion parameters, a batch of 512, on 8 GPUs of dgx_a100 with 80 GB each

    data x tensor x pipeline   microbatch   zero   recompute      step       memory
         8 x      1 x        1          1      0   none        20.3 s     131.2 GB    too much
         1 x      8 x        1          1      0   none        32.9 s      19.0 GB
         4 x      1 x        2          1      0   none        21.0 s      71.8 GB
         8 x      1 x        1          1      1   selective   20.5 s      49.3 GB
         8 x      1 x        1          1      1   none        20.3 s      52.8 GB    the plan

A mixture is a ``Config`` of ``ringside.scale.hybrid_cost``, a frozen dataclass. You choose eight of
its fields: ``data``, ``tensor``, ``pipeline``, ``microbatch_size``, ``interleave``, ``zero``,
``recompute`` ("none", "selective" or "full") and ``order`` (which axis runs fastest over the
ranks). The others keep their defaults. ``why_illegal(model, config)`` says in words why a mixture
can't run, and ``""`` where it can. ``configs(model, num_gpus)`` yields all that can run, each once,
whether it fits or not: ``order`` has axes of size 1 last, since their place changes nothing, and
``zero`` is 0 where there is one replica. Both are free. Any ``Config`` that can run is a right
answer, also one that ``configs`` doesn't yield.

The *cost model* is a function that you are given. ``cost(model, config, machine)`` returns
``step_s`` and ``memory_bytes``, and is asked at most 20,000 times in a plan. That is enough to ask
about every mixture of 16 GPUs, and not of many more:

    parameters (billions)      7.5     7.5      145.6     145.6     1008
    GPUs                         8      16        512      1536     3072
    mixtures that can run    6,150  11,118     83,520   172,386   76,776

So where there are more than 20,000, you must leave some out. Any method is right that reaches the
bounds below. What helps:

- Where the smallest microbatch doesn't fit, no larger one does.
- ``order`` changes no byte of memory, and the time only a little. Ask about one order first, and
  about the others for the mixtures that turned out well.
- Change one field of a good mixture at a time, as long as it gets better, from many starts.

Source: Jia, Zaharia, Aiken, FlexFlow, MLSys 2019, searches such a space with a simulator as its
cost model; Narayanan et al., SC 2021, section 5, give rules of thumb for it.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace

from ringside import Machine
from ringside.scale.hybrid_cost import AXES, Config, Model, configs


def plan(
    model: Model, machine: Machine, num_gpus: int, memory_bytes: int, cost: Callable
) -> Config:
    """Find the mixture with the shortest step that fits.

    Args:
        model: a ``hybrid_cost.Model``, with its batch.
        machine: a ``ringside.Machine``; handed on to ``cost``.
        num_gpus: from 1. All of them are used: ``data * tensor * pipeline`` equals it. In the tests
            some mixture can always run.
        memory_bytes: what a GPU has. A mixture fits if its cost's ``memory_bytes`` is at most that.
        cost: as above. Tests have other cost models than the kit's, too; ask no other.

    Returns:
        A ``Config`` that can run and fits.
        - Up to 16 GPUs: no other one that fits has a shorter ``step_s`` (to 1e-9). Of several that
          are as short any is right.
        - On 512 GPUs: at most 1.05 times the shortest, half of the points to 1.25.
        - On 3,072 GPUs, with a trillion parameters: at most 1.10 times the shortest.
        - ``cost`` was asked at most 20,000 times. Asking again about the same mixture counts.
        - All calls of the tests have 60 s of CPU time together, and a few of them ask about more
          than 16 GPUs. Such a call should take less than 5 s.

    Raises:
        ValueError: nothing fits. The message has both values, in bytes, as whole numbers: what
            there is, and what the mixture takes that comes nearest, the one of least memory.
            Example: "nothing fits in 1000000 bytes: Config(...) is nearest and takes 9035776."
    """
    ### BEGIN SOLUTION
    asked = {}

    def fits(config):
        if config not in asked:
            asked[config] = cost(model, config, machine)
        return asked[config].memory_bytes <= memory_bytes

    several = list(configs(model, num_gpus))
    if len(several) <= 20_000:
        good = [config for config in several if fits(config)]
    else:
        # One order of each mixture; no larger microbatch where a smaller one was too large.
        ordered = {replace(config, order=AXES): config for config in reversed(several)}
        full, good = set(), []
        for same, config in sorted(ordered.items(), key=lambda each: each[0].microbatch_size):
            key = replace(same, microbatch_size=1)
            if key in full:
                continue
            if fits(config):
                good.append(config)
            else:
                full.add(key)
        best = sorted(good, key=lambda config: asked[config].step_s)[:500]
        others = (replace(c, order=order) for c in best for order in itertools.permutations(AXES))
        good += [config for config in others if fits(config)]
    if not good:
        nearest = min(asked, key=lambda config: asked[config].memory_bytes)
        raise ValueError(
            f"nothing fits in {memory_bytes} bytes: {nearest} is nearest and takes "
            f"{asked[nearest].memory_bytes}. Take more GPUs, or GPUs with more memory."
        )
    return min(good, key=lambda config: asked[config].step_s)
    ### END SOLUTION
