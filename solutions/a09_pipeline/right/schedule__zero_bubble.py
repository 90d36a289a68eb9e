"""Second halves fill the gaps, while no more is in flight than 1F1B has."""

from actions import Backward, BackwardInput, BackwardWeight, Forward


def gpipe(num_stages, num_microbatches, stage):
    microbatches = range(num_microbatches)
    return [Forward(m) for m in microbatches] + [Backward(m) for m in microbatches]


def one_f_one_b(num_stages, num_microbatches, stage):
    most = min(num_microbatches, num_stages - stage)
    actions, later = [], []
    forward = backward = 0
    while backward < num_microbatches:
        if forward < num_microbatches and forward - backward + len(later) < most:
            actions.append(Forward(forward))
            forward += 1
        elif later and forward < num_microbatches:
            actions.append(later.pop(0))
        else:
            actions.append(BackwardInput(backward))
            later.append(BackwardWeight(backward))
            backward += 1
    return actions + later


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
