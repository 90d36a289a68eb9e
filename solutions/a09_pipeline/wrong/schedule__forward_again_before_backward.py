# fails: test_gpipe_is_complete_and_can_be_run
"""Recomputation is written into the schedule as second forward passes."""

from actions import Backward, Forward


def gpipe(num_stages, num_microbatches, stage):
    actions = [Forward(m) for m in range(num_microbatches)]
    for m in range(num_microbatches):
        actions += [Forward(m), Backward(m)]
    return actions


def one_f_one_b(num_stages, num_microbatches, stage):
    warm_up = min(num_stages - stage - 1, num_microbatches)
    actions = [Forward(m) for m in range(warm_up)]
    for m in range(warm_up, num_microbatches):
        actions += [Forward(m), Backward(m - warm_up)]
    return actions + [Backward(m) for m in range(num_microbatches - warm_up, num_microbatches)]


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
    warm_up = min(2 * (num_stages - stage - 1) + (num_chunks - 1) * num_stages, total)
    actions = forwards[:warm_up]
    for k in range(warm_up, total):
        actions += [forwards[k], backwards[k - warm_up]]
    return actions + backwards[total - warm_up :]
