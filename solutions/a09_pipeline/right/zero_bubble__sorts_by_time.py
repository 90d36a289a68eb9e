"""H1 and H2 by sorting keys of turns; V with a dictionary of what has been done."""

from actions import BackwardInput, BackwardWeight, Forward


def merged(num_microbatches, ahead, later):
    """``ahead`` forward passes, then one of each in turn."""
    keyed = [((m - ahead, 0), Forward(m)) for m in range(num_microbatches)]
    keyed += [((m, 1), BackwardInput(m)) for m in range(num_microbatches)]
    keyed += [((m + later, 2), BackwardWeight(m)) for m in range(num_microbatches)]
    return [action for _, action in sorted(keyed, key=lambda each: each[0])]


def zb_h1(num_stages, num_microbatches, stage):
    return merged(num_microbatches, num_stages - stage - 1, stage)


def zb_h2(num_stages, num_microbatches, stage):
    return merged(num_microbatches, 2 * (num_stages - stage - 1), 2 * stage)


def zb_v(num_stages, num_microbatches, stage):
    done, time_of, lists = {}, {}, [[] for _ in range(num_stages)]
    pieces, step = 2 * num_stages, 0
    order = [("F", 1), ("F", 0), ("I", 0), ("W", 0), ("I", 1), ("W", 1)]
    kinds = {"F": Forward, "I": BackwardInput, "W": BackwardWeight}
    while any(len(own) < 6 * num_microbatches for own in lists):
        new = {}
        for s, own in enumerate(lists):
            held = sum(isinstance(a, Forward) - isinstance(a, BackwardWeight) for a in own)
            for kind, chunk in order:
                q = pieces - 1 - s if chunk else s
                m = done.get((kind, q), 0)
                if m == num_microbatches or (kind == "F" and held == pieces):
                    continue
                if kind == "F":
                    needed = [("F", q - 1, m)] if q else []
                elif kind == "I":
                    needed = [("F", q, m)] + ([("I", q + 1, m)] if q + 1 < pieces else [])
                else:
                    needed = [("I", q, m)]
                if all(each in time_of for each in needed):
                    own.append(kinds[kind](m, chunk))
                    done[kind, q] = m + 1
                    new[kind, q, m] = step
                    break
        time_of.update(new)
        step += 1
    return lists[stage]
