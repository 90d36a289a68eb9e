"""What grid.py, layout.py and predict.py answer, written another way."""

import math

from given.einsum_graph import GRAPHS

from ringside.scale.hybrid_cost import axis_link

# -- grid ------------------------------------------------------------------------------------------


def coordinates(sizes, order):
    """Per axis one digit for each rank, in blocks as long as a step along the axis."""
    columns, step, count = {}, 1, math.prod(sizes.values())
    for axis in order:
        block = "".join(str(digit) * step for digit in range(sizes[axis]))
        columns[axis] = block * (count // len(block))
        step *= sizes[axis]
    return columns


def group(at, rank, axes):
    """The group of a rank: who has the same coordinates but for ``axes``."""
    others = [digits for axis, digits in at.items() if axis not in axes]
    members = [k for k in range(len(others[0]) if others else len(at[axes[0]]))
               if all(digits[k] == digits[rank] for digits in others)]  # fmt: skip
    return sorted(members, key=lambda k: [at[axis][k] for axis in reversed(axes)])


def groups(at, axes):
    """All groups, in the order of their lowest ranks."""
    count = len(next(iter(at.values())))
    return sorted({tuple(group(at, rank, axes)) for rank in range(count)}, key=min)


def neighbour(at, rank, axis, step, wrap):
    """A rank, or "None"."""
    ring = group(at, rank, [axis])
    there = ring.index(rank) + step
    return ring[there % len(ring)] if wrap or 0 <= there < len(ring) else "None"


# -- layout ----------------------------------------------------------------------------------------


def reductions(case, backward=False):
    """The all-reduces of a pass: what a step sums over, and the parts of what it makes."""
    graph, sizes = GRAPHS[case.graph]
    steps = [(step, [step.output]) for step in graph.steps]
    if backward:
        steps = [
            (step, [name for name in step.inputs if name not in graph.data])
            for step in graph.steps[::-1]
        ]
    found = []
    for step, name in ((step, name) for step, names in steps for name in names):
        there = graph.tensors[name]
        over = {case.layout.get(dim) for dim in graph.dims(step) if dim not in there}
        axes = tuple(axis for axis in case.mesh if axis in over and case.mesh[axis] > 1)
        cuts = [case.mesh[case.layout[dim]] if dim in case.layout else 1 for dim in there]
        parts = [sizes[dim] // cut for dim, cut in zip(there, cuts, strict=True)]
        found += [(name, axes, math.prod(parts))] if axes else []
    return found


def needed_bytes(case):
    """Of all ranks together: 2 (p - 1) parts for each sum over p of them, in each group."""
    itemsize, total = (4 if case.dtype == "float32" else 8), 0
    for _, axes, num_elements in reductions(case):
        p = math.prod(case.mesh[axis] for axis in axes)
        total += case.p // p * 2 * (p - 1) * num_elements * itemsize
    return total


# -- predict ---------------------------------------------------------------------------------------


def state_bytes(parameters, data, zero):
    shard = math.ceil(parameters / data)
    weights = shard if zero == 3 else parameters
    gradients = shard if zero >= 2 else parameters
    states = shard if zero >= 1 else parameters
    return 2 * weights + 2 * gradients + 12 * states


def memory_bytes(model, config):
    s, h, b, t = model.sequence, model.hidden, config.microbatch_size, config.tensor
    layers = -(-model.num_layers // config.pipeline)
    embedding = (model.vocabulary + s) * h
    parameters = math.ceil((layers * (12 * h * h + 13 * h) + embedding) / t)
    whole = s * b * h * (10 + 24 / t)
    held = min(microbatches(model, config), config.pipeline) * layers
    activations = 2 * s * b * h * held + whole if config.recompute == "full" else whole * held
    return state_bytes(parameters, config.data, config.zero) + activations


def microbatches(model, config):
    return model.batch // config.data // config.microbatch_size


def sent_bytes(model, config, element_bytes=2):
    m, layers = microbatches(model, config), model.num_layers // config.pipeline
    h, t, d, p = model.hidden, config.tensor, config.data, config.pipeline
    message = model.sequence * config.microbatch_size * h * element_bytes
    rings = m * layers * (6 if config.recompute == "full" else 4)
    gradients = layers * ((12 * h * h + 7 * h) / t + 6 * h) * element_bytes
    once = gradients * (d - 1) / d
    neighbours = {1: 0, 2: 1}.get(p, 2)
    return {
        "tensor": rings * message * 2 * (t - 1) / t,
        "pipeline": neighbours * message * m * config.interleave,
        "data": {0: 2 * once, 1: 2 * once, 2: (m + 1) * once, 3: 3 * m * once}[config.zero],
    }


def step_s(model, config, machine, element_bytes=2):
    s, h, b, t, p = model.sequence, model.hidden, config.microbatch_size, config.tensor, 0
    message = s * b * h * element_bytes
    passes, rings = (4, 6) if config.recompute == "full" else (3, 4)

    def ring(nbytes, axis):
        size, link = getattr(config, axis), axis_link(config, axis, machine)
        return 2 * (size - 1) * (link.alpha_s + nbytes / size * link.beta_s_per_byte)

    rate = t * machine.flop_per_s
    layer = passes * b * (24 * s * h * h + 4 * s * s * h) / rate + rings * ring(message, "tensor")
    hop = axis_link(config, "pipeline", machine)
    hops = 2 * config.interleave * (hop.alpha_s + message * hop.beta_s_per_byte)
    p = config.pipeline
    counts = [model.num_layers // p + (stage < model.num_layers % p) for stage in range(p)]
    stages = [count * layer + hops for count in counts]
    stages[-1] += 3 * b * 2 * s * h * model.vocabulary / rate
    slowest = max(stages)
    first = counts[0] * (12 * h + 13) * h + (model.vocabulary + s) * h
    return (
        microbatches(model, config) * slowest
        + (sum(stages) - slowest) / config.interleave
        + ring(first / t * element_bytes, "data")
    )
