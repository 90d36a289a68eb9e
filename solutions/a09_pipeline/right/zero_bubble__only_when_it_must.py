"""H1 with H2's idea inside its memory; a V whose second chunk goes first in everything."""

from actions import BackwardInput, BackwardWeight, Forward


def zb_h1(num_stages, num_microbatches, stage):
    actions, forward, backward, weight = [], 0, 0, 0
    ahead = num_stages - stage
    for _ in range(num_microbatches):
        while forward < min(num_microbatches, backward + ahead):
            actions.append(Forward(forward))
            forward += 1
        actions.append(BackwardInput(backward))
        backward += 1
        while weight < backward - stage:
            actions.append(BackwardWeight(weight))
            weight += 1
    while weight < num_microbatches:
        actions.append(BackwardWeight(weight))
        weight += 1
    return actions


def zb_h2(num_stages, num_microbatches, stage):
    actions, forward, backward, weight = [], 0, 0, 0
    ahead = 2 * (num_stages - stage) - 1
    while backward < num_microbatches:
        while forward < num_microbatches and forward < backward + ahead:
            actions.append(Forward(forward))
            forward += 1
        actions.append(BackwardInput(backward))
        backward += 1
        if backward > 2 * stage:
            actions.append(BackwardWeight(weight))
            weight += 1
    return actions + [BackwardWeight(m) for m in range(weight, num_microbatches)]


def zb_v(num_stages, num_microbatches, stage):
    last, clock, busy = 2 * num_stages - 1, 0, True
    moves = ("F1", "F0", "I0", "W0", "I1", "W1")
    state = [dict.fromkeys(moves, 0) for _ in range(num_stages)]
    lists = [[] for _ in range(num_stages)]

    def done(letter, piece):
        at = min(piece, last - piece)
        return state[at][f"{letter}{int(piece >= num_stages)}"]

    make = {"F": Forward, "I": BackwardInput, "W": BackwardWeight}
    while busy:
        busy, chosen = False, []
        for at, own in enumerate(state):
            held = own["F0"] + own["F1"] - own["W0"] - own["W1"]
            for move in moves:
                letter, chunk = move[0], int(move[1])
                piece = last - at if chunk else at
                limit = num_microbatches
                if letter == "F" and piece:
                    limit = done("F", piece - 1)
                if letter == "I":
                    limit = min(own[f"F{chunk}"], done("I", piece + 1) if piece < last else limit)
                if letter == "W":
                    limit = own[f"I{chunk}"]
                if own[move] < limit and not (letter == "F" and held == 2 * num_stages):
                    chosen.append((at, move, make[letter](own[move], chunk)))
                    break
        for at, move, action in chosen:
            state[at][move] += 1
            lists[at].append(action)
            busy = True
        clock += 1
    return lists[stage]
