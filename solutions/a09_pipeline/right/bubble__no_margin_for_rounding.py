"""The number of microbatches in one formula, without a margin for rounding."""

import math


def makespan_s(num_stages, num_microbatches, forward_s, backward_s, num_chunks=1):
    return (num_microbatches + (num_stages - 1) / num_chunks) * (forward_s + backward_s)


def bubble_fraction(num_stages, num_microbatches, num_chunks=1):
    return (num_stages - 1) / (num_chunks * num_microbatches + num_stages - 1)


def fewest_microbatches(num_stages, most_bubble, num_chunks=1):
    return max(1, math.ceil((num_stages - 1) * (1 - most_bubble) / (most_bubble * num_chunks)))


def gpipe_s(num_stages, num_microbatches, forward_s, backward_s, latency_s):
    return (
        makespan_s(num_stages, num_microbatches, forward_s, backward_s)
        + 2 * (num_stages - 1) * latency_s
    )


def num_messages(num_stages, num_microbatches, num_chunks=1):
    if num_stages == 1:
        return 0
    return 2 * num_microbatches * (num_stages * num_chunks - 1)


def in_flight(schedule, num_stages, num_microbatches, stage, num_chunks=1):
    if schedule == "gpipe":
        return num_microbatches
    if schedule == "one_f_one_b":
        return min(num_microbatches, num_stages - stage)
    if schedule == "interleaved":
        return min(
            num_chunks * num_microbatches,
            2 * (num_stages - stage - 1) + (num_chunks - 1) * num_stages + 1,
        )
    raise ValueError(schedule)


def activation_bytes(
    schedule, num_stages, num_microbatches, stage, saved_bytes, input_bytes, recompute=False
):
    n = in_flight(schedule, num_stages, num_microbatches, stage)
    return (n - 1) * input_bytes + saved_bytes if recompute else n * saved_bytes
