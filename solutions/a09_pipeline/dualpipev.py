"""DualPipeV: forward and backward passes in pairs, so that a stage computes while it exchanges.

In a mixture of experts a pass waits inside its stage for messages from experts on other GPUs. A
stage that does one pass at a time is idle meanwhile. So do two passes of different microbatches
side by side: ``Pair(Forward(3), Backward(1, 1))``, written F3+B1.1, computes one of them while
the messages of the other travel. The model is placed in a V, as for ``zero_bubble.zb_v``: piece s
is chunk 0 of stage s, and piece 2 S - 1 - s is its chunk 1. Here S = 2, M = 5:

    stage 0   F0 F1 F2 F0.1 I0.1 W0.1 F1.1 F3+B1.1 F2.1+B0 F4+B2.1 F3.1+B1 B3.1 F4.1+B2
              I4.1 W4.1 I3 W3 I4 W4
    stage 1   F0 F0.1 F1 F1.1 F2+B0.1 F2.1+B0 F3+B1.1 F3.1+B1 F4+B2.1 F4.1+B2
              I3.1 I3 W3.1 I4.1 W3 I4 W4.1 W4

The first passes stand alone, since a gradient that a pair makes leaves later than that of an I.
Then pairs take turns: chunk 0 forward with chunk 1 backward, and the other way round. At the end
second halves fill the gaps, as in ``zero_bubble.zb_h1``. How many of each a stage does is for you
to find. Count how many stages lie between this one and the turn of the V.
"""

from itertools import count

from given.actions import Backward, BackwardInput, BackwardWeight, Forward, Pair


def dualpipev(num_stages: int, num_microbatches: int, stage: int) -> list:
    """The list of one stage; any list that does the following is right.

    - Each microbatch has in each chunk one ``Forward`` and after it one ``Backward``, or one
      ``BackwardInput`` and after it one ``BackwardWeight``.
    - A ``Forward`` may be one action with a ``Backward`` or ``BackwardInput``: ``Pair(forward,
      backward)``. The pair begins when both have what they need, and ends after the time of both.
    - The lists of all stages together can be run: no stages wait for one another for ever.

    Args:
        num_stages, num_microbatches: S, at least 1, and M, at least 2 S.
        stage: whose list is asked for, 0 to S - 1.

    Returns:
        A list of actions of chunks 0 and 1.

    Raises:
        ValueError: M is less than 2 S.

    Held: at most 2 S + 1 chunks' microbatches, each from its ``Forward`` to the end of its
    ``Backward`` or ``BackwardWeight``.

    Time: F, I and W take 1 s each, a ``Backward`` 2 s. Each ``Forward``, ``Backward`` and
    ``BackwardInput`` then waits x s for messages, x from 0 to 1. Those of a pair take no time,
    since the pair computes for at least 2 s. Messages between stages are free. At most

        T = 6 M + 2 (S - 1) + 6 x S

    seconds; up to 1.05 T earns half the points. For S = 4, M = 16 and x = 1 that is 96 + 6 + 24 =
    126 s. Without pairs a stage needs 6 M + 4 x M seconds, here 160 s: lists with fewer than M / 2
    pairs on a stage earn at most a tenth of the module.

    Source: DeepSeek-AI, DualPipe, github.com/deepseek-ai/DualPipe, 2025.
    """
    ### BEGIN SOLUTION
    if num_microbatches < 2 * num_stages:
        raise ValueError(
            f"num_microbatches ({num_microbatches}) must be at least 2 * num_stages "
            f"({2 * num_stages})."
        )
    later = num_stages - 1 - stage  # stages between this one and the turn of the V
    forwards, backwards = (count(), count()), (count(), count())  # by chunk: the next microbatch

    def forward(chunk):
        return Forward(next(forwards[chunk]), chunk)

    def backward(chunk, kind=Backward):
        return kind(next(backwards[chunk]), chunk)

    actions = [forward(0) for _ in range(2 * later)]
    for _ in range(stage + 1):
        actions += [forward(0), forward(1)]
    for m in range(later):
        actions += [backward(1, BackwardInput), BackwardWeight(m, 1), forward(1)]
    for _ in range(num_microbatches - 2 * num_stages + stage + 1):
        actions += [Pair(forward(0), backward(1)), Pair(forward(1), backward(0))]
    for _ in range(later):
        actions += [backward(1), Pair(forward(1), backward(0))]

    # The rest in halves. Stage s puts off s second halves: its gradients have s stages to go.
    chunks = [1, 0] * (stage + 1) + [0] * later
    halves = [backward(chunk, BackwardInput) for chunk in chunks]
    seconds = [BackwardWeight(each.microbatch, each.chunk) for each in halves]
    actions += halves[:stage]
    for half, second in zip(halves[stage:], seconds, strict=False):
        actions += [half, second]
    return actions + seconds[len(seconds) - stage :]
    ### END SOLUTION
