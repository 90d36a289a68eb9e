"""Closed forms of a pipeline: time, bubble, microbatches in flight, messages, memory.

    stage 0   0 1 2 3 . . . . . . 0b  1b  2b  3b    M = 4 microbatches, S = 3 stages
    stage 1   . 0 1 2 3 . . . 0b  1b  2b  3b  . .   (M + S - 1)(tf + tb) = 6 * 3 = 18
    stage 2   . . 0 1 2 3 0b  1b  2b  3b  . . . .   6 of the 18 are idle on each stage

``num_stages`` is S, ``num_microbatches`` M, ``num_chunks`` v (pieces on each stage), all at least
1. ``forward_s`` and ``backward_s`` are what one microbatch's pass through a whole stage takes,
all v pieces of it. Messages take no time unless a latency is given. Every function returns a plain
number, and needs no ranks.
"""

import math


def makespan_s(
    num_stages: int, num_microbatches: int, forward_s: float, backward_s: float, num_chunks: int = 1
) -> float:
    """Time of a step, in seconds: GPipe and 1F1B with one chunk, interleaved with more.

    Source: Narayanan et al., Efficient Large-Scale Language Model Training, SC 2021, section 2.2.
    """
    ### BEGIN SOLUTION
    turns = num_microbatches + (num_stages - 1) / num_chunks
    return turns * (forward_s + backward_s)
    ### END SOLUTION


def bubble_fraction(num_stages: int, num_microbatches: int, num_chunks: int = 1) -> float:
    """Share of the step's time that a stage is idle, from 0 to below 1.

    That is idle over total. (The literature often gives idle over ideal, which is larger.)
    """
    ### BEGIN SOLUTION
    idle = (num_stages - 1) / num_chunks
    return idle / (num_microbatches + idle)
    ### END SOLUTION


def fewest_microbatches(num_stages: int, most_bubble: float, num_chunks: int = 1) -> int:
    """The smallest M whose bubble fraction is at most ``most_bubble``, above 0 and below 1.

    A fraction of exactly ``most_bubble`` is small enough: S = 3 and 0.25 give 6. M need not be a
    multiple of anything.
    """
    ### BEGIN SOLUTION
    least = (num_stages - 1) / num_chunks * (1 / most_bubble - 1)
    return max(1, math.ceil(least - 1e-9))
    ### END SOLUTION


def gpipe_s(
    num_stages: int, num_microbatches: int, forward_s: float, backward_s: float, latency_s: float
) -> float:
    """GPipe's step, if each message takes ``latency_s``, many at a time.

    Each message is on its way while its sender computes the next microbatch (a pass takes at least
    as long), so it is paid for once in each direction and between each two stages.
    """
    ### BEGIN SOLUTION
    step_s = makespan_s(num_stages, num_microbatches, forward_s, backward_s)
    return step_s + 2 * (num_stages - 1) * latency_s
    ### END SOLUTION


def num_messages(num_stages: int, num_microbatches: int, num_chunks: int = 1) -> int:
    """Messages of a step, of all stages together: activations and their gradients.

    What goes from one piece to another on the same stage is no message.
    """
    ### BEGIN SOLUTION
    if num_stages == 1:
        return 0
    return 2 * num_microbatches * (num_chunks * num_stages - 1)
    ### END SOLUTION


def in_flight(
    schedule: str, num_stages: int, num_microbatches: int, stage: int, num_chunks: int = 1
) -> int:
    """The most microbatches in flight on a stage; with chunks, each chunk counts for itself.

    A microbatch is in flight from its forward to the end of its backward pass.

    Args:
        schedule: "gpipe", "one_f_one_b" (both with one chunk) or "interleaved" (v at least 1). The
            result is the bound that ``schedule.py`` states under "In flight"; it is reached.
        stage: 0 to S - 1.

    Raises:
        ValueError: another name.
    """
    ### BEGIN SOLUTION
    if schedule == "gpipe":
        return num_microbatches
    if schedule == "one_f_one_b":
        return min(num_microbatches, num_stages - stage)
    if schedule == "interleaved":
        warm_up = 2 * (num_stages - stage - 1) + (num_chunks - 1) * num_stages
        return min(num_chunks * num_microbatches, warm_up + 1)
    raise ValueError(f"schedule ({schedule!r}) must be gpipe, one_f_one_b or interleaved.")
    ### END SOLUTION


def activation_bytes(
    schedule: str,
    num_stages: int,
    num_microbatches: int,
    stage: int,
    saved_bytes: int,
    input_bytes: int,
    recompute: bool = False,
) -> int:
    """The most bytes of activations that a stage holds, with one chunk.

    Args:
        schedule: "gpipe" or "one_f_one_b".
        saved_bytes: what one microbatch's forward pass through the stage keeps for the backward
            pass, its input included.
        input_bytes: of that input alone.
        recompute: keep the inputs of the microbatches in flight alone, and just before a backward
            pass compute that microbatch's forward pass again, which then keeps everything.

    Source: Huang et al., GPipe, NeurIPS 2019, section 2.3.
    """
    ### BEGIN SOLUTION
    count = in_flight(schedule, num_stages, num_microbatches, stage)
    if not recompute:
        return count * saved_bytes
    return (count - 1) * input_bytes + saved_bytes
    ### END SOLUTION
