"""Forward passes as long as few enough are in flight."""

import itertools

from actions import Backward, Forward


def gpipe(num_stages, num_microbatches, stage):
    microbatches = range(num_microbatches)
    return [Forward(m) for m in microbatches] + [Backward(m) for m in microbatches]


def one_f_one_b(num_stages, num_microbatches, stage):
    return limited(
        [Forward(m) for m in range(num_microbatches)],
        [Backward(m) for m in range(num_microbatches)],
        num_stages - stage,
    )


def limited(forwards, backwards, most):
    forwards, backwards = iter(forwards), iter(backwards)
    actions = list(itertools.islice(forwards, most))
    for backward in backwards:
        actions.append(backward)
        actions += itertools.islice(forwards, 1)
    return actions


def interleaved(num_stages, num_microbatches, stage, num_chunks):
    if num_microbatches % num_stages:
        raise ValueError(f"{num_microbatches} is no multiple of {num_stages}.")
    total = num_microbatches * num_chunks

    def turn(k):
        group, place = divmod(k, num_stages * num_chunks)
        chunk, within = divmod(place, num_stages)
        return (group * num_stages + within, chunk)

    forwards = [Forward(*turn(k)) for k in range(total)]
    backwards = [Backward(m, num_chunks - 1 - c) for m, c in map(turn, range(total))]
    most = 2 * (num_stages - stage - 1) + (num_chunks - 1) * num_stages + 1
    return limited(forwards, backwards, most)
