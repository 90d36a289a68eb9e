# fails: test_fewest_microbatches
"""One microbatch more than needed."""

import math


def makespan_s(num_stages, num_microbatches, forward_s, backward_s, num_chunks=1):
    turns = num_microbatches + (num_stages - 1) / num_chunks
    return turns * (forward_s + backward_s)


def bubble_fraction(num_stages, num_microbatches, num_chunks=1):
    idle = (num_stages - 1) / num_chunks
    return idle / (num_microbatches + idle)


def fewest_microbatches(num_stages, most_bubble, num_chunks=1):
    least = (num_stages - 1) / num_chunks * (1 / most_bubble - 1)
    return max(1, math.floor(least) + 1)


def gpipe_s(num_stages, num_microbatches, forward_s, backward_s, latency_s):
    step_s = makespan_s(num_stages, num_microbatches, forward_s, backward_s)
    return step_s + 2 * (num_stages - 1) * latency_s


def num_messages(num_stages, num_microbatches, num_chunks=1):
    if num_stages == 1:
        return 0
    return 2 * num_microbatches * (num_chunks * num_stages - 1)


def in_flight(schedule, num_stages, num_microbatches, stage, num_chunks=1):
    if schedule == "gpipe":
        return num_microbatches
    if schedule == "one_f_one_b":
        return min(num_microbatches, num_stages - stage)
    if schedule == "interleaved":
        warm_up = 2 * (num_stages - stage - 1) + (num_chunks - 1) * num_stages
        return min(num_chunks * num_microbatches, warm_up + 1)
    raise ValueError(f"schedule ({schedule!r}) must be gpipe, one_f_one_b or interleaved.")


def activation_bytes(
    schedule, num_stages, num_microbatches, stage, saved_bytes, input_bytes, recompute=False
):
    count = in_flight(schedule, num_stages, num_microbatches, stage)
    if not recompute:
        return count * saved_bytes
    return (count - 1) * input_bytes + saved_bytes
