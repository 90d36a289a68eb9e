"""What the network saw of a run, against what the docstrings of the torch modules allow: supplied.

Where a layer's pass begins is what the network was told before it answered with the factors that
the pass needs; gathers and reduce-scatters are counted in bytes. So a collective that is made in
several pieces counts as one. ``layers`` are those of ``cases_torch.sharded``.
"""

import numpy as np

from ringside import replay
from ringside.checking import assert_moved, award
from ringside.checking.assertions import microseconds
from ringside.trace import Kind, Trace

ITEMSIZE = 8
ALLOWED = ("allgather", "reduce_scatter")


def assert_collectives(result, case):
    """Only all-gathers and reduce-scatters were called."""
    case = case.seen_in(result).asking("collectives")
    if result.comm_calls or sum(result.sent_messages()):
        raise case.fail("only all-gathers and reduce-scatters on the group may be called.")
    for record in result.collectives:
        if len(record.members) > 1 and record.name not in ALLOWED:
            raise case.fail(
                f"a collective was called that the network knows as {record.name}; only "
                "all-gathers and reduce-scatters may be called."
            )


def assert_one_by_one(result, case, layers):
    """Layers are gathered while others compute, and not all of them before.

    That is ZeRO 3 at all, whatever else is wrong: when layer 0 begins its forward pass, at most
    half of the parameters have been asked for; when the last layer begins, some have.
    """
    case = case.seen_in(result).asking("one_by_one")
    total = sum(layer.nbytes for layer in layers)
    for rank, member in enumerate(result.members or range(result.world_size)):
        found = [seen for seen in begins(result.trace.ops[member], layers)
                 if seen.direction == "forward"]  # fmt: skip
        moved = [seen.gathered + seen.reduced for seen in found]
        if moved and moved[0] > total / 2:
            raise case.fail(
                f"when layer 0 began its forward pass, rank {rank} had started to gather "
                f"{moved[0]} of all {total} bytes of parameters; ZeRO 3 gathers layer by layer."
            )
        if not moved or not max(moved[: len(layers)]) + result.sent_messages()[member]:
            raise case.fail(
                f"rank {rank} gathered nothing in the forward pass; most of each layer's "
                "parameters are on other ranks."
            )


def assert_one_ahead(result, case, layers):
    """When a layer begins, its neighbour is being gathered already, and nothing beyond it."""
    case = case.seen_in(result).asking("one_ahead")
    sizes = [layer.nbytes for layer in layers]
    for rank, member in enumerate(result.members or range(result.world_size)):
        for seen in begins(result.trace.ops[member], layers):
            due = seen.due(len(sizes))
            most = sum(sizes[k] for k in due)
            if seen.gathered > most:
                raise case.fail(
                    f"when layer {seen.unit} began its {seen.direction} pass, rank {rank} had "
                    f"started to gather {seen.gathered} bytes since the pass began; up to the "
                    f"layer that comes next it is {most}."
                )
            if seen.direction == "backward":  # the last layer may have been kept
                due = [k for k in due if k < len(sizes) - 1]
            least = sum(sizes[k] for k in due)
            if seen.gathered < least:
                raise case.fail(
                    f"when layer {seen.unit} began its {seen.direction} pass, rank {rank} had "
                    f"started to gather {seen.gathered} bytes since the pass began; with the "
                    f"layer that comes next it must be {least}."
                )


def assert_reduced(result, case, layers):
    """When a layer begins its backward pass, the one before it is being reduced."""
    case = case.seen_in(result).asking("reduced")
    sizes = [layer.nbytes for layer in layers]
    for rank, member in enumerate(result.members or range(result.world_size)):
        for seen in begins(result.trace.ops[member], layers):
            least = sum(sizes[seen.unit + 1 :]) if seen.direction == "backward" else 0
            if seen.reduced < least:
                raise case.fail(
                    f"when layer {seen.unit} began its backward pass, rank {rank} had started to "
                    f"reduce {seen.reduced} bytes of gradients; those of the layers before it "
                    f"have {least}."
                )


def assert_volume(result, case, layers, steps, evaluations=0):
    """At most 3 (p - 1) / p of all parameters' bytes a step, and one such share an evaluation."""
    p, total = case.world_size, sum(layer.nbytes for layer in layers)
    bound = (3 * steps + evaluations) * total * (p - 1) / p
    assert_moved(result, bound, case, f"{total} bytes of parameters, gathered twice, reduced once")


def assert_ways(result, case, function, shard_size, lengths, dtype="float64", only=""):
    """Of ``hsdp_torch``: gathers and reduce-scatters inside, all-reduces between, bytes as allowed.

    Args:
        function: "gather" or "synchronise".
        only: "inside" or "between": look at collectives inside a replica, or at all others, alone.
    """
    case = case.seen_in(result).asking(f"ways={only}" if only else "ways")
    members = list(result.members or range(result.world_size))
    size, replicas = shard_size, len(members) // shard_size
    nbytes = sum(lengths) * np.dtype(dtype).itemsize
    inside = {tuple(members[k * size : (k + 1) * size]) for k in range(replicas)}
    between = {tuple(members[k::size]) for k in range(size)}
    allowed = dict.fromkeys(ALLOWED, inside) | {"allreduce": between}
    moved = {rank: [0.0, 0.0] for rank in members}
    if sum(result.sent_messages()):
        raise case.fail("messages were sent point to point; only collectives may be called.")
    for each in result.collectives:
        count = len(each.members)
        is_between = not any(set(each.members) <= set(replica) for replica in inside)
        if count == 1 or each.name == "barrier" or only == ("between", "inside")[is_between]:
            continue
        if tuple(each.members) not in allowed.get(each.name, set()):
            raise case.fail(
                f"the ranks {list(each.members)} took part in a collective that the network knows "
                f"as {each.name}; all-gathers and reduce-scatters go inside, all-reduces between."
            )
        for rank in each.members:
            moved[rank][is_between] += (1 + is_between) * each.nbytes * (count - 1) / count
    parts = nbytes / size if function == "synchronise" else 0
    bounds = (nbytes * (size - 1) / size, 2 * parts * (replicas - 1) / replicas)
    for rank, both in moved.items():
        for where, sent, most in zip(("inside", "between"), both, bounds, strict=True):
            if sent > most + 1e-6:
                raise case.fail(
                    f"rank {rank} sent {sent:.0f} bytes {where}; at most {most:.0f} are allowed."
                )


def assert_two_levels(result, case, shard_size):
    """Of ``synchronise``: some collectives stay inside a replica; what crosses goes by places.

    That is hybrid sharding at all, whatever else is wrong: no collective has more ranks of a
    replica than one, and some ranks of another.
    """
    case = case.seen_in(result).asking("two_levels")
    members = list(result.members or range(result.world_size))
    replica = {rank: place // shard_size for place, rank in enumerate(members)}
    seen = set()
    for each in result.collectives:
        if len(each.members) == 1 or each.name == "barrier":
            continue
        crossed = len({replica[rank] for rank in each.members})
        if crossed > 1 and crossed < len(each.members):
            raise case.fail(
                f"the ranks {list(each.members)} of several replicas took part in one "
                f"{each.name}; the ranks of a replica reduce among themselves first."
            )
        seen.add(crossed > 1)
    if len(seen) < 2:
        where = "between replicas" if seen == {False} else "inside a replica"
        raise case.fail(f"no collective was called {where}; gradients are reduced on both levels.")


def stretched(trace, world_size):
    """The trace of the same program on more ranks, which cut the same layers into more shards.

    Rank r does what rank ``r % p`` did; layers are padded anew.
    """
    ops = [
        [_stretched(op, world_size) for op in trace.ops[rank % trace.world_size]]
        for rank in range(world_size)
    ]
    return Trace(world_size, ops, trace.sites, trace.machine)


def _stretched(op, world_size):
    if op.kind != Kind.COLLECTIVE:
        return op
    name, sequence, root, _, sizes = op.detail
    own = -(-sum(sizes) // ITEMSIZE // world_size) * ITEMSIZE
    detail = name, sequence, root, tuple(range(world_size)), (own,) * world_size
    return op._replace(nbytes=own, detail=detail)


def assert_time(result, case, layers, costs, world_size):
    """The time of one step, stretched to ``world_size`` ranks, is the schedule's of the docstring.

    Args:
        result: of one step in float64, in a test of order.
        costs: seconds of a layer's forward and of its backward pass.
    """
    case = case.seen_in(result).on(result.machine, named=True).asking(f"time_on={world_size}")
    took_s = replay(stretched(result.trace, world_size), result.machine).makespan_s
    lengths = [layer.nbytes // ITEMSIZE for layer in layers]
    bound_s = schedule_s(lengths, costs, world_size, result.machine)
    ratio = took_s / bound_s
    award(
        1.0 if ratio <= 1.05 else 0.5 if ratio <= 1.3 else 0.0,
        f"{case} on machine {result.machine.name!r}, stretched to {world_size} ranks: took "
        f"{microseconds(took_s)}, {ratio:.2f} times {microseconds(bound_s)}; at most 1.05 times "
        f"that is asked for{' (half the points)' if 1.05 < ratio <= 1.3 else ''}.",
        reproduce=case.reproduce,
    )


def ring_s(length, p, machine):
    """A ring's all-gather or reduce-scatter of so many elements: the docstring's closed form."""
    return (p - 1) * (machine.alpha_s + -(-length // p) * ITEMSIZE * machine.beta_s_per_byte)


def schedule_s(lengths, costs, p, machine, *, again=True):
    """The time of one step in the schedule of ``zero3_torch``: collectives follow one another.

    Args:
        again: the last layer, too, is gathered again for its backward pass.
    """
    took = [ring_s(each, p, machine) for each in lengths]
    wire, now, gathered, last = 0.0, 0.0, {}, len(lengths) - 1

    def gather(k):
        nonlocal wire
        if 0 <= k <= last and k not in gathered:
            wire = gathered[k] = max(wire, now) + took[k]

    for k in range(last + 1):
        gather(k)
        gather(k + 1)
        now = max(now, gathered[k]) + costs[0]
    gathered, reduced = {} if again else {last: now}, 0.0
    for k in reversed(range(last + 1)):
        gather(k)
        gather(k - 1)
        now = max(now, gathered[k]) + costs[1]
        now = max(now, reduced)
        wire = reduced = max(wire, now) + took[k]
    return max(now, reduced)


class Begin:
    """A layer begins a pass: which, and the bytes gathered and reduced in this pass before."""

    def __init__(self, direction, unit, gathered, reduced):
        self.direction, self.unit = direction, unit
        self.gathered, self.reduced = gathered, reduced

    def due(self, count):
        """The layers of this pass up to the one that comes next."""
        if self.direction == "forward":
            return list(range(min(self.unit + 2, count)))
        return list(range(max(self.unit - 1, 0), count))


def begins(ops, layers):
    """Where layers begin their passes, in order, as the network saw it."""
    starts = {("forward", layer.first): k for k, layer in enumerate(layers)}
    starts |= {("backward", layer.last): k for k, layer in enumerate(layers)}
    gathered = reduced = 0
    found, last = [], len(layers) - 1
    for op in ops:
        if op.kind == Kind.COLLECTIVE and op.detail[0] == "allgather":
            gathered += sum(op.detail[4])
        elif op.kind == Kind.COLLECTIVE:
            reduced += sum(op.detail[4])
        elif op.kind == Kind.PASS:
            direction, _, number = str(op.detail[0]).split(" ")
            unit = starts.get((direction, int(number)))
            if unit is not None:
                found.append(Begin(direction, unit, gathered, reduced))
                if unit == (last if direction == "forward" else 0):
                    gathered = reduced = 0
    return found
