"""What the network saw of attention in parts, against what the docstrings allow: supplied.

Where a block begins is what the network was told before it answered with the factors that the block
needs. Messages are counted in bytes, so that keys and values may travel together or apart.
"""

from ringside import replay
from ringside.checking import assert_moved, assert_own_messages, assert_peers, award
from ringside.errors import RunError, TraceError
from ringside.scale.agreement import num_flops
from ringside.trace import Kind

LONG = (102_400, 8, 8, 128)  # positions, heads, heads of keys, width
RING_FACTORS, ZIGZAG_FACTORS = (1.1, 1.5), (1 / 0.95, 1.2)  # of the time: all points, and half


def assert_ring(result, case):
    """Own messages, and to the two neighbours in the ring alone."""
    p, case = case.world_size, case.seen_in(result)
    if not result.collectives or any(each.nbytes for each in result.collectives):
        assert_own_messages(result, case)
    neighbours = [{(r - 1) % p, (r + 1) % p} - {r} for r in range(p)]
    assert_peers(result, neighbours, case, "keys and values go to the neighbours in the ring alone")


def assert_volume(result, case, attention):
    """At most the docstring's bytes, forward or in both passes."""
    case = case.seen_in(result).asking("ring_volume")
    nbytes = attention.forward_bytes()
    what = "keys and values of all parts but one"
    if attention.how != "forward":
        nbytes += attention.backward_bytes()
        what += ", forward and backward, and the sums of their gradients"
    assert_moved(result, nbytes, case, what)


def assert_travelling(result, case, attention, passes=("forward", "backward")):
    """When a block of these passes begins, its keys and values are on their way on."""
    case = case.seen_in(result).asking("ring_travelling")
    p, part = case.world_size, _part(attention)
    for rank, member in enumerate(result.members or range(result.world_size)):
        sent, begun = 0, {"forward": [], "backward": []}
        for op in result.trace.ops[member]:
            sent += op.nbytes if op.kind == Kind.ISEND else 0
            if op.kind != Kind.PASS:
                continue
            direction, source = str(op.detail[0]).split(" ")
            step = len(begun[direction])
            begun[direction].append(source)
            before = (p - 1) * part if direction == "backward" else 0  # in the forward pass
            least = min(step + 1, p - 1) * part
            if sent - before < least and direction in passes:
                raise case.fail(
                    f"when rank {rank} began its {direction} block of step {step}, it had started "
                    f"to send {max(0, sent - before)} bytes in that pass; with the keys and values "
                    f"of this step it must be {least}."
                )
        for direction, sources in begun.items():
            if direction in passes and (len(sources) != p or len(set(sources)) != p):
                raise case.fail(
                    f"rank {rank} announced {len(sources)} {direction} blocks for the keys of {p} "
                    "ranks: call the functions of attention_torch.py once for each rank's keys."
                )


def assert_early(result, case, attention):
    """When a block of the forward pass begins, only its keys and the next ones have been asked for.

    So no rank gathers all keys first.
    """
    case = case.seen_in(result).asking("ring_early")
    part = _part(attention)
    for rank, member in enumerate(result.members or range(result.world_size)):
        received, step = 0, 0
        for op in result.trace.ops[member]:
            received += op.nbytes if op.kind == Kind.IRECV else 0
            if op.kind == Kind.PASS and str(op.detail[0]).startswith("forward"):
                step += 1
                if received > step * part:
                    raise case.fail(
                        f"when rank {rank} began its forward block of step {step - 1}, it had "
                        f"started to receive {received} bytes; up to the next step's keys and "
                        f"values it is {step * part}."
                    )


def _part(attention):
    """Bytes of one rank's keys and values."""
    return 2 * attention.elements * attention.lengths[0] * attention.itemsize


def assert_skipped(result, case, attention):
    """The rank at place r computes r + 1 blocks, and the diagonal one counts in full."""
    case = case.seen_in(result).asking("ring_skipped")
    one = attention.block_flops() + attention.block_flops(backward=True)
    for rank, flops in enumerate(num_flops(result.trace)):
        if flops > 1.02 * (rank + 1) * one:
            raise case.fail(
                f"rank {rank} made {flops:.0f} FLOPs in products; its {rank + 1} blocks that are "
                f"not masked altogether have {(rank + 1) * one}."
            )


def zigzag_flops(attention):
    """FLOPs of a rank, forward and backward: a whole block, and a half one for each other rank."""
    one = attention.block_flops() + attention.block_flops(backward=True)
    return one * (attention.world_size + 1) // 2


def assert_balanced(result, case, attention):
    """No rank computes more than its share of the causal work in zigzag order."""
    case = case.seen_in(result).asking("zigzag_balanced")
    most = zigzag_flops(attention)
    for rank, flops in enumerate(num_flops(result.trace)):
        if flops > 1.02 * most:
            raise case.fail(
                f"rank {rank} made {flops:.0f} FLOPs in products; a whole block and "
                f"{case.world_size - 1} halves have {most}."
            )


def assert_long_time(trace, case, target, num_ranks):
    """A long sequence on many GPUs of the machine "zaratan", against the blocks of a rank alone.

    The times come from traces on fake tensors.

    Args:
        trace: ``ringside.trace_torch``, or what does the same.
    """
    case = case.asking(f"ring_long_time={num_ranks}")
    try:
        try:
            traced = _traced(trace, target, num_ranks, ("rank",))
        except RunError:  # ranks aren't alike; then each one is traced, and that takes longer
            num_ranks = min(num_ranks, 16)
            traced = _traced(trace, target, num_ranks, ())
    except (RunError, TraceError) as error:
        raise case.fail(
            f"a trace of {num_ranks} ranks on fake tensors ended with {type(error).__name__}: the "
            "line shows why."
        ) from None
    alone = trace("ring_callers_torch:blocks_alone", 1, (target, num_ranks, *LONG))
    took_s, bound_s = (replay(each.trace, "zaratan").makespan_s for each in (traced, alone))
    full, half = ZIGZAG_FACTORS if "zigzag" in target else RING_FACTORS
    ratio = took_s / bound_s
    award(
        1.0 if ratio <= full else 0.5 if ratio <= half else 0.0,
        f"{case.function} of {LONG[0]} positions on {num_ranks} GPUs of 'zaratan', forward and "
        f"backward: takes {took_s * 1e3:.1f} ms, {ratio:.2f} times the {bound_s * 1e3:.1f} ms of "
        f"a rank's blocks alone; at most {full:.2f} times that is asked for"
        f"{' (half the points)' if full < ratio <= half else ''}.",
        reproduce=case.reproduce,
    )


def _traced(trace, target, num_ranks, alike):
    arguments, grid = (target, *LONG), {"rank": num_ranks}
    return trace("ring_callers_torch:long_sequence", num_ranks, arguments, grid=grid, alike=alike)
