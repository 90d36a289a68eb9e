"""What a plan for a layer's activations costs in time and memory: supplied, nothing to write.

A GPU computes layers 0, 1, ..., L - 1 forward, then L - 1, ..., 0 backward. One copy stream works
beside it: it moves one layer at a time, out to the host's memory or back in. Layers of 2 s forward,
3 s backward and 2 GB each, 1 GB/s to the host, 5 GB on the GPU, plan [swap, recompute, keep]:

    second    0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16
    compute   F0 F0 F1 F1 F2 F2 B2 B2 B2 F1 F1 B1 B1 B1 B0 B0 B0
    copy            >0 >0                <0 <0
    GB        2  2  4  4  2  2  2  2  2  4  4  4  4  4  2  2  2

It ends after 17 s, and at most 4 GB are taken.
``>0`` copies layer 0's activations out while layer 1 computes, ``<0`` copies them back while layer
1 is computed once more. The rules, all of them:

1. A layer's activations take ``nbytes`` from the beginning of its forward pass on. Kept ones stay
   until the end of its backward pass. Those to be recomputed are freed when the forward pass of the
   layer ends, those to be swapped when their copy out ends.
2. In the backward pass, ``nbytes`` are taken again from the beginning of the copy in, or of the
   second forward pass, until the end of the layer's backward pass.
3. The compute stream works in the order above; a second forward pass comes immediately before the
   backward pass of its layer. The copy stream copies out in the order of the layers, each as soon
   as its forward pass has ended, and then in, in the order of the backward pass. It copies nothing
   in before the whole forward pass has ended, and needs ``nbytes / host_bytes_per_s`` for each.
4. Everything begins as early as it can: when its stream is free, what it needs is there, and its
   bytes fit within ``capacity_bytes``. Memory is handed out in the order of the backward pass:
   nothing is copied in for layer k before layers above k have got theirs.
5. A layer's input is always kept, and takes no part in the capacity. The host has room for all.

Source of the three choices: Wahib et al., Scaling Distributed Deep Learning Workloads beyond the
Memory Capacity with KARMA, SC 2020.
"""

import heapq
import math
from dataclasses import dataclass

CHOICES = ("keep", "swap", "recompute")


@dataclass(frozen=True)
class Layer:
    """What one layer costs: seconds of its two passes, bytes that its backward pass needs."""

    forward_s: float
    backward_s: float
    nbytes: int


@dataclass(frozen=True)
class Span:
    """One piece of work: ``stream`` "compute" or "copy", ``what`` such as "F3", "B3", ">3"."""

    stream: str
    what: str
    begin_s: float
    end_s: float


def simulate(layers, plan, capacity_bytes, host_bytes_per_s, spans=None):
    """``(makespan_s, peak_bytes)`` of a plan; both infinite where it doesn't fit.

    Args:
        spans: a list that gets a ``Span`` for each piece of work.

    Raises:
        ValueError: the plan has not one of the three words for each layer.
    """
    if len(plan) != len(layers) or any(choice not in CHOICES for choice in plan):
        raise ValueError(f"the plan must have one of {', '.join(CHOICES)} for each layer.")
    frees = []  # (time, bytes) of what will be freed, the earliest first
    used = peak = 0
    now = copied = 0.0  # when the two streams are free

    def take(nbytes, earliest):
        """Take memory at the first moment from ``earliest`` on at which it is there."""
        nonlocal used, peak
        while frees and (frees[0][0] <= earliest or used + nbytes > capacity_bytes):
            at, freed = heapq.heappop(frees)
            earliest, used = max(earliest, at), used - freed
        used += nbytes
        peak = max(peak, used)
        return earliest if used <= capacity_bytes else math.inf

    def did(stream, what, begin_s, end_s):
        if spans is not None:
            spans.append(Span(stream, what, begin_s, end_s))

    for k, layer in enumerate(layers):
        begin = take(layer.nbytes, now)
        if begin == math.inf:
            return math.inf, math.inf
        now = begin + layer.forward_s
        did("compute", f"F{k}", begin, now)
        if plan[k] == "recompute":
            heapq.heappush(frees, (now, layer.nbytes))
        elif plan[k] == "swap":
            begin = max(now, copied)
            copied = begin + layer.nbytes / host_bytes_per_s
            did("copy", f">{k}", begin, copied)
            heapq.heappush(frees, (copied, layer.nbytes))
    taken = now  # nothing gets memory before the layers above it have theirs
    copied = max(copied, now)
    for k in reversed(range(len(layers))):
        layer = layers[k]
        if plan[k] == "swap":
            taken = take(layer.nbytes, max(copied, taken))
            copied = taken + layer.nbytes / host_bytes_per_s
            did("copy", f"<{k}", taken, copied)
            begin = max(now, copied)
        elif plan[k] == "recompute":
            taken = take(layer.nbytes, max(now, taken))
            begin = taken + layer.forward_s
            did("compute", f"F{k}", taken, begin)
        else:
            begin = now
        now = begin + layer.backward_s
        did("compute", f"B{k}", begin, now)
        heapq.heappush(frees, (now, layer.nbytes))
        if now == math.inf:
            return math.inf, math.inf
    return now, peak


def makespan_s(layers, plan, capacity_bytes, host_bytes_per_s):
    """Seconds of forward and backward pass; infinite where the plan doesn't fit."""
    return simulate(layers, plan, capacity_bytes, host_bytes_per_s)[0]
