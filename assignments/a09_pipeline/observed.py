"""What a run must give whose passes are announced, and where they must be: supplied.

In a test of order the network scales the input of each pass, for each stage, piece and microbatch
in another way (``ringside.announce``). Here the whole model is computed with the same factors, on
one process.
"""

import numpy as np
from actions import LETTERS, text
from model import loss, loss_gradient

from ringside.checking import announced
from ringside.trace import Kind


def letter(action):
    """F, B, I or W: a suite's actions are of other classes than those of this folder."""
    return LETTERS[type(action).__name__]


def in_pieces(params, inputs, targets, halves, scaled):
    """Loss and gradients in double precision, piece by piece and microbatch by microbatch.

    Args:
        halves: ``(piece, microbatch)`` whose backward pass comes in two halves.
        scaled: called with a pass (its letter, piece and microbatch) and its input.
    """
    exact = [[np.asarray(each, "float64") for each in own] for own in params]
    found = [[np.zeros_like(each) for each in own] for own in exact]
    batch_size, total = sum(map(len, inputs)), 0.0
    for microbatch, (x, target) in enumerate(zip(inputs, targets, strict=True)):
        x, kept = x.astype("float64"), []
        for piece, own in enumerate(exact):
            x = scaled("F", piece, microbatch, x)
            for weight, bias in zip(own[::2], own[1::2], strict=True):
                kept.append((x, np.tanh(x @ weight + bias)))
                x = kept[-1][1]
        total += loss(x, target, batch_size)
        grad = loss_gradient(x, target, batch_size)
        for piece in reversed(range(len(exact))):
            half = (piece, microbatch) in halves
            grad = scaled("I" if half else "B", piece, microbatch, grad)
            samples = np.ones((len(grad), 1))
            samples = scaled("W", piece, microbatch, samples) if half else samples
            for k in reversed(range(len(exact[piece]) // 2)):
                x, y = kept.pop()
                grad = grad * (1 - y * y)
                found[piece][2 * k] += x.T @ (grad * samples)
                found[piece][2 * k + 1] += (grad * samples).sum(axis=0)
                grad = grad @ exact[piece][2 * k].T
    return total, found


def of_stage(params, inputs, targets, lists, factors):
    """Loss and gradients, per piece of the model, that a run of ``stage`` must give."""
    num_stages = len(lists)
    halves = {
        (each.chunk * num_stages + stage, each.microbatch)
        for stage, actions in enumerate(lists)
        for each in actions
        if letter(each) == "I"
    }

    def scaled(letter, piece, microbatch, array):
        phase = f"{letter}{microbatch} of piece {piece}"
        return factors.scaled(piece % num_stages, phase, 0, array)

    return in_pieces(params, inputs, targets, halves, scaled)


def of_torch(params, inputs, targets, lists, factors):
    """Loss and gradients that a run of ``pipeline_torch`` must give; weights are transposed.

    There a pass is known by the order in which its piece makes it.
    """
    num_stages, order = len(lists), {}
    for stage, actions in enumerate(lists):
        for each in actions:
            key = letter(each), each.chunk * num_stages + stage
            order.setdefault(key, []).append(each.microbatch)

    def scaled(letter, piece, microbatch, array):
        number = order[letter, piece].index(microbatch)
        return factors.scaled(piece % num_stages, f"{letter} of piece {piece}", number, array)

    return in_pieces(params, inputs, targets, (), scaled)


def assert_received(result, lists, case):
    """In a test of order, no pass began before what it needs from another stage had come."""
    num_stages = len(lists)
    last = num_stages * (1 + max(each.chunk for own in lists for each in own)) - 1
    for stage, actions in enumerate(lists):
        ops = result.trace.ops[result.members[stage] if result.members else stage]
        begun = {place for place, _, _ in announced(ops)}
        receives, left, needed = set(), iter(actions), 0
        had = 0
        for place, op in enumerate(ops):
            if op.kind == Kind.IRECV:
                receives.add(op.request)
            elif op.kind == Kind.WAIT:
                had += len(receives.intersection(op.detail))
            elif place in begun and (action := next(left, None)) is not None:
                piece = action.chunk * num_stages + stage
                alone = {"F": piece == 0, "W": True}.get(letter(action), piece == last)
                needed += not alone and num_stages > 1
                if had < needed:
                    raise case.seen_in(result).fail(
                        f"stage {stage} began {text([action])} when it had {had} messages; it and "
                        f"the passes before it need {needed}."
                    )
