"""Zero bubble: backward passes in two halves, and the second half waits for a gap.

A backward pass computes two things: the gradient of the input (I), which the stage before waits
for, and the gradients of the weights (W), which nobody waits for until the update. 1F1B computes
both before it sends. A zero-bubble schedule sends after I, and keeps W for a time when the stage
would be idle. Here S = 3, M = 5, and F, I and W take one second each (``F0`` is written 0, ``I0``
a, ``W0`` A; b is I1):

    1F1B     0 1 2 . . . . a A 3 b B 4 c C . d D . e E      stage 0 waits 4 s for a
             . 0 1 . . a A 2 b B 3 c C 4 d D . e E
             . . 0 a A 1 b B 2 c C 3 d D 4 e E

    zb_h1    0 1 2 . . a A 3 b B 4 c C d D e E              2 s, and as much memory
             . 0 1 . a 2 b A 3 c B 4 d C e D E
             . . 0 a 1 b 2 c A 3 d B 4 e C D E

    zb_h2    0 1 2 3 4 a A b B c C d D e E                  not at all, with more memory
             . 0 1 2 a 3 b 4 c A d B e C D E
             . . 0 a 1 b 2 c 3 d 4 e A B C D E

Rules for all functions here:

- A schedule is a list of actions (``given/actions.py``), one for each stage, as in
  ``schedule.py``: each microbatch has one ``Forward``, after it one ``BackwardInput``, and after
  that one ``BackwardWeight``. No ``Backward`` occurs. S and M are at least 1, in any relation.
- A microbatch is *held* on a stage from its ``Forward`` to the end of its ``BackwardWeight``.
- F, I and W are the times of the three actions on a stage; messages are free. Papers write B for I.
- With fewer microbatches than stated a step takes no longer than under 1F1B, whose time is
  (M + S - 1)(F + I + W).
"""

from given.actions import BackwardInput, BackwardWeight, Forward


def zb_h1(num_stages: int, num_microbatches: int, stage: int) -> list:
    """As much memory as 1F1B's first stage, and a third of its bubble where F = I = W.

    Args:
        num_stages, num_microbatches: S and M.
        stage: whose list is asked for, 0 to S - 1.

    Returns:
        A list of actions, chunk 0 in all.

    Held: at most S microbatches, on every stage.
    Time: at most M (F + I + W) + (S - 1) max(F, I, F + I - W) where M >= S. For S = 4, M = 8 and
    one second each that is 24 + 3 * 1 = 27 s. 1F1B takes 33 s. If each W follows its I at once, a
    step takes M (F + I + W) + (S - 1)(F + I), here 30 s: half the points below that.

    Source: Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024.
    """
    ### BEGIN SOLUTION
    return _in_turn(num_microbatches, num_stages - stage - 1, stage)


def _in_turn(num_microbatches, warm_up, most_later):
    """Warm-up, then F and I in turn; W follows where more than ``most_later`` are put off."""
    warm_up = min(warm_up, num_microbatches)
    actions, done = [Forward(m) for m in range(warm_up)], 0
    for m in range(num_microbatches):
        if warm_up + m < num_microbatches:
            actions.append(Forward(warm_up + m))
        actions.append(BackwardInput(m))
        if m + 1 - done > most_later:
            actions.append(BackwardWeight(done))
            done += 1
    return actions + [BackwardWeight(m) for m in range(done, num_microbatches)]
    ### END SOLUTION


def zb_h2(num_stages: int, num_microbatches: int, stage: int) -> list:
    """Twice the memory of 1F1B, and no stage is idle between its first and its last action.

    The first stage begins so many microbatches that the first gradient is back when they are done.

    Args and returns: as those of ``zb_h1``.

    Held: at most 2 S - 1 microbatches, on every stage.
    Time: where M >= 2 S - 1, each stage is idle for at most (S - 1) max(0, I - F, F + I - 2 W)
    between its first action and the end of its last one: not at all where F = I = W. For S = 4,
    F = W = 1 s and I = 1.5 s that is 3 * 0.5 = 1.5 s. Half the points up to twice that, and none
    where it is 0.

    Source: Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024.
    """
    ### BEGIN SOLUTION
    return _in_turn(num_microbatches, 2 * (num_stages - stage - 1), 2 * stage)
    ### END SOLUTION


def zb_v(num_stages: int, num_microbatches: int, stage: int) -> list:
    """Two chunks on each stage, down the stages and up again: 1F1B's memory, and no idle stage.

    Piece s of the model is chunk 0 of stage s, and piece 2 S - 1 - s is its chunk 1. So the first
    stage has both ends of the model. F, I and W of a chunk take the same time here. So you may
    simulate all stages in steps of that time, in which each does the first action of a fixed order
    of preference that it can do; which order is for you to try. Or write down a pattern: that of
    PyTorch's ``ScheduleZBVZeroBubble`` gets all points. (``stage.run`` places pieces otherwise: see
    this schedule in ``given.replayed.timeline(..., placement="v")``.)

    Args and returns: as those of ``zb_h1``, with actions of chunks 0 and 1.

    Held: at most 2 S chunks' microbatches at a time, which are as large as S of a whole stage.
    Time: at most 6 M + S - 1 times the time of one action where M >= 2 S - 1. For S = 4 and M = 8
    that is 51 actions, half a second each if a stage's F takes one second: 25.5 s. Half the points
    up to 6 M + 2 (S - 1).

    Source: Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024.
    """
    ### BEGIN SOLUTION
    last = 2 * num_stages - 1
    turns = [(Forward, 1), (Forward, 0), (BackwardInput, 0), (BackwardWeight, 0),
             (BackwardInput, 1), (BackwardWeight, 1)]  # fmt: skip
    lists = [[] for _ in range(num_stages)]
    count = {}  # (kind, piece): how many are done
    ready = {}  # (kind, piece, microbatch): the step from which on others may use it
    held = [0] * num_stages

    def may(kind, piece, at, step):
        m = count.get((kind, piece), 0)
        if m == num_microbatches:
            return False
        if kind is BackwardWeight:
            return m < count.get((BackwardInput, piece), 0)
        if kind is Forward:
            needs = [(Forward, piece - 1, m)] * (piece > 0)
            if held[at] == 2 * num_stages:
                return False
        else:
            needs = [(Forward, piece, m), (BackwardInput, piece + 1, m)][: 1 + (piece < last)]
        return all(ready.get(key, step + 1) <= step for key in needs)

    step = 0
    while sum(map(len, lists)) < 6 * num_stages * num_microbatches:
        for at in range(num_stages):
            for kind, chunk in turns:
                piece = last - at if chunk else at
                if may(kind, piece, at, step):
                    m = count.get((kind, piece), 0)
                    lists[at].append(kind(m, chunk))
                    count[kind, piece], ready[kind, piece, m] = m + 1, step + 1
                    held[at] += (kind is Forward) - (kind is BackwardWeight)
                    break
        step += 1
    return lists[stage]
    ### END SOLUTION
