"""The next action is decided by what is ahead; V is found with queues of what has arrived."""

from actions import BackwardInput, BackwardWeight, Forward


def by_memory(most, ahead, count):
    """F while fewer than ``ahead`` are without I, else I; W after it where enough are put off."""
    actions, f, i, w = [], 0, 0, 0
    while i < count:
        if f < count and f - i < ahead:
            actions.append(Forward(f))
            f += 1
        else:
            actions.append(BackwardInput(i))
            i += 1
            if i - w > most - ahead:
                actions.append(BackwardWeight(w))
                w += 1
    while w < count:
        actions.append(BackwardWeight(w))
        w += 1
    return actions


def zb_h1(num_stages, num_microbatches, stage):
    return by_memory(num_stages, num_stages - stage, num_microbatches)


def zb_h2(num_stages, num_microbatches, stage):
    return by_memory(2 * num_stages - 1, 2 * (num_stages - stage) - 1, num_microbatches)


def zb_v(num_stages, num_microbatches, stage):
    kinds = {"F": Forward, "I": BackwardInput, "W": BackwardWeight}
    pieces = 2 * num_stages
    home = [min(q, pieces - 1 - q) for q in range(pieces)]
    waiting = {(kind, q): [] for kind in "FIW" for q in range(pieces)}
    waiting["F", 0] = list(range(num_microbatches))
    rank = {("F", 1): 0, ("F", 0): 1, ("I", 0): 2, ("W", 0): 3, ("I", 1): 4, ("W", 1): 5}
    held, lists, left = [0] * num_stages, [[] for _ in range(num_stages)], 0
    while left < 3 * pieces * num_microbatches:
        came = []
        for s in range(num_stages):
            open_ = [
                (rank[kind, int(q >= num_stages)], kind, q)
                for (kind, q), queue in waiting.items()
                if queue and home[q] == s and (kind != "F" or held[s] < pieces)
            ]
            if not open_:
                continue
            _, kind, q = min(open_)
            m = waiting[kind, q].pop(0)
            lists[s].append(kinds[kind](m, int(q >= num_stages)))
            left += 1
            held[s] += (kind == "F") - (kind == "W")
            if kind == "F":
                came.append((("F", q + 1) if q + 1 < pieces else ("I", q), m))
            elif kind == "I":
                came.append((("W", q), m))
                if q:
                    came.append((("I", q - 1), m))
        for key, m in came:
            waiting[key].append(m)
    return lists[stage]
