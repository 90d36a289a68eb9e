"""All of a small space; else descent from every grid, one field at a time."""

import dataclasses
import itertools
import math

from ringside.scale.hybrid_cost import AXES, Config, configs, why_illegal


def plan(model, machine, num_gpus, memory_bytes, cost):
    seen = {}

    def value(config):
        """What fits first, by time; what doesn't after it, by memory."""
        if config not in seen:
            if why_illegal(model, config):
                seen[config] = (2, math.inf)
            else:
                told = cost(model, config, machine)
                fits = told.memory_bytes <= memory_bytes
                seen[config] = (0, told.step_s) if fits else (1, told.memory_bytes)
        return seen[config]

    first = list(itertools.islice(configs(model, num_gpus), 20_001))
    if len(first) <= 20_000:
        best = min(first, key=value)
    else:
        best = min((descend(model, start, value) for start in starts(num_gpus)), key=value)
    kind, number = value(best)
    if kind:
        raise ValueError(f"{best} is nearest with {number:_} bytes; there are {memory_bytes:_}")
    return best


def starts(num_gpus):
    divisors = [n for n in range(1, num_gpus + 1) if num_gpus % n == 0]
    for tensor, pipeline in itertools.product(divisors, divisors):
        if tensor <= 64 and num_gpus % (tensor * pipeline) == 0:
            data = num_gpus // tensor // pipeline
            for zero in range(4) if data > 1 else [0]:
                yield Config(data, tensor, pipeline, zero=zero)


def descend(model, config, value):
    best = value(config)
    while True:
        near = list(neighbours(model, config))
        nearest = min(near, key=value)
        if value(nearest) >= best:
            return config
        config, best = nearest, value(nearest)


def neighbours(model, config):
    changed = dataclasses.replace
    for size in (config.microbatch_size * 2, config.microbatch_size * 3, config.microbatch_size // 2):
        yield changed(config, microbatch_size=size)
    for pieces in range(1, model.num_layers // config.pipeline + 1):
        if config.pipeline > 1 and model.num_layers % (config.pipeline * pieces) == 0:
            yield changed(config, interleave=pieces)
    for recompute in ("none", "selective", "full"):
        yield changed(config, recompute=recompute)
    for order in itertools.permutations(AXES):
        yield changed(config, order=order)
