"""Schedules of ours, and schedules that nobody teaches."""

from given.actions import Backward, BackwardInput, BackwardWeight, Forward, parse
from given.replayed import makes, needs


def lists_of(function, num_stages, num_microbatches, *chunks):
    """One of our schedules, for all stages."""
    return [function(num_stages, num_microbatches, stage, *chunks) for stage in range(num_stages)]


def gpipe(num_stages, num_microbatches, stage):
    """All forward passes, then all backward passes."""
    return [kind(m) for kind in (Forward, Backward) for m in range(num_microbatches)]


def one_f_one_b(num_stages, num_microbatches, stage):
    """A forward pass whenever the number in flight allows one, else the oldest backward pass."""
    return interleave(
        [Forward(m) for m in range(num_microbatches)],
        [Backward(m) for m in range(num_microbatches)],
        num_stages - stage,
    )


def interleaved(num_stages, num_microbatches, stage, num_chunks):
    """As Megatron-LM does it: groups of ``num_stages`` microbatches go through chunk by chunk."""
    turns = [
        (first + within, chunk)
        for first in range(0, num_microbatches, num_stages)
        for chunk in range(num_chunks)
        for within in range(num_stages)
    ]
    return interleave(
        [Forward(m, c) for m, c in turns],
        [Backward(m, num_chunks - 1 - c) for m, c in turns],
        2 * (num_stages - stage - 1) + (num_chunks - 1) * num_stages + 1,
    )


def interleave(forwards, backwards, most):
    """Forward passes first, at most so many in flight."""
    actions, done = [], 0
    for number, forward in enumerate(forwards):
        if number - done == most:
            actions.append(backwards[done])
            done += 1
        actions.append(forward)
    return actions + backwards[done:]


def zero_bubble(num_stages, num_microbatches, stage):
    """1F1B with backward passes in two halves; the second one waits for ``stage`` actions."""
    actions, later = [], []
    for action in one_f_one_b(num_stages, num_microbatches, stage):
        if isinstance(action, Backward):
            actions.append(BackwardInput(action.microbatch))
            later.append(BackwardWeight(action.microbatch))
        else:
            actions.append(action)
        if len(later) > stage:
            actions.append(later.pop(0))
    return actions + later


def anything(num_stages, num_microbatches, num_chunks, rng, halves=True):
    """A legal schedule, drawn at random: all stages' lists; some backward passes in two halves."""
    lists = [[] for _ in range(num_stages)]
    open_ = []
    for stage in range(num_stages):
        for microbatch in range(num_microbatches):
            for chunk in range(num_chunks):
                key = (microbatch, chunk)
                back = [Backward(*key)]
                if halves and rng.random() < 0.5:
                    back = [BackwardInput(*key), BackwardWeight(*key)]
                open_.append((stage, [Forward(*key), *back]))
    made = set()
    while open_:
        ready = []
        for place, (stage, actions) in enumerate(open_):
            needed = needs(actions[0], stage, num_stages, num_chunks)
            if needed is None or (*needed, actions[0].microbatch) in made:
                ready.append(place)
        place = ready[int(rng.integers(len(ready)))]
        stage, (action, *rest) = open_[place]
        lists[stage].append(action)
        maker = makes(action, stage, num_stages, num_chunks)
        if maker:
            made.add((*maker, action.microbatch))
        open_[place : place + 1] = [(stage, rest)] if rest else []
    return lists


def opposite(num_stages, num_microbatches):
    """Stages with odd numbers take the microbatches the other way round: all stages' lists."""
    order = range(num_microbatches)
    return [
        [kind(m) for kind in (Forward, Backward) for m in (order[::-1] if stage % 2 else order)]
        for stage in range(num_stages)
    ]


def overtaking():
    """Two stages' lists: on the second, microbatch 2 comes before 1."""
    return [parse("F0 F1 B0 F2 B1 B2"), parse("F0 B0 F2 F1 B1 B2")]


def unhurried(num_stages, num_microbatches):
    """GPipe on the first stage, and no warm-up on the others: forward passes could come sooner."""
    each = [kind(m) for m in range(num_microbatches) for kind in (Forward, Backward)]
    return [gpipe(num_stages, num_microbatches, 0), *[each] * (num_stages - 1)]


class Gpt:
    """What a stage of a GPT costs on a machine: float32, one sequence a microbatch.

    Layers of 24 b s h^2 (1 + s / 6h) operations each (Narayanan et al. 2021, appendix); the
    backward pass takes twice as long as the forward pass.
    """

    LAYERS, HIDDEN, SEQUENCE = 64, 4096, 2048

    def __init__(self, num_stages, machine):
        s, h = self.SEQUENCE, self.HIDDEN
        flops = 24 * s * h * h * (1 + s / (6 * h)) * self.LAYERS / num_stages
        self.forward_s = flops / machine.flop_per_s
        self.backward_s = 2 * self.forward_s
        self.nbytes = 4 * s * h  # an activation, or its gradient
