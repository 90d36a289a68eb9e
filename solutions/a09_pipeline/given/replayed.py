"""What a schedule does, without a stage that runs it: nothing to write.

    schedules = [one_f_one_b(4, 8, stage) for stage in range(4)]
    check(schedules, 8)                     complete, and nobody waits for ever
    timeline(schedules).makespan_s          who waits for whom, on a machine of your choice
    most_in_flight(schedules[0])            forward passes whose activations are still needed

A schedule is a list of actions for each stage (``given/actions.py``). The interpreter imagined here
never waits for a send, and posts the receive for the next action before it computes the present
one.

Where stages have several pieces of the model, ``placement`` says which. "loop" is that of
``schedule.interleaved``. With "v" the model goes down the stages and up again, so that a stage has
a piece near each end, and the last stage has two in a row; three stages, two chunks:

    stage           0  1  2                       stage           0  1  2
    loop  chunk 0   0  1  2                       v     chunk 0   0  1  2
          chunk 1   3  4  5                             chunk 1   5  4  3

The passes of a ``Pair`` begin when both have what they need, and end together. ``exchange_s`` is
what a ``Forward``, ``Backward`` or ``BackwardInput`` waits at its end, for messages inside its
stage; those of a pair are hidden for as long as the pair computes.
"""

from ringside import Machine, replay
from ringside.trace import Kind, Op, Trace

FORWARD, WHOLE, INPUT, WEIGHT = "Forward", "Backward", "BackwardInput", "BackwardWeight"
PAIR = "Pair"
LETTERS = {FORWARD: "F", WHOLE: "B", INPUT: "I", WEIGHT: "W"}
FREE = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)
PS = 10**12


class ScheduleError(ValueError):
    """The schedules are not complete, or a stage would wait for ever."""


def kind(action):
    """The name of an action's class."""
    return type(action).__name__


def passes(action):
    """The passes of an action: a pair's two, or itself."""
    return (action.forward, action.backward) if kind(action) == PAIR else (action,)


def piece_of(chunk, stage, num_stages, placement="loop"):
    """Which piece of the model a stage's chunk is."""
    back = placement == "v" and chunk % 2 == 1
    return chunk * num_stages + (num_stages - 1 - stage if back else stage)


def stage_of(piece, num_stages, placement="loop"):
    """Which stage has a piece of the model."""
    chunk, place = divmod(piece, num_stages)
    return num_stages - 1 - place if placement == "v" and chunk % 2 == 1 else place


def needs(action, stage, num_stages, num_chunks=1, placement="loop"):
    """What an action on this stage needs from another piece, or None.

    Returns:
        ``("Forward" or "Backward", piece)``: whose activation, or whose gradient, it waits for.
    """
    piece = piece_of(action.chunk, stage, num_stages, placement)
    last = num_chunks * num_stages - 1
    if kind(action) == FORWARD:
        return (FORWARD, piece - 1) if piece > 0 else None
    if kind(action) in (WHOLE, INPUT):
        return (WHOLE, piece + 1) if piece < last else None
    return None


def makes(action, stage, num_stages, num_chunks=1, placement="loop"):
    """What other pieces may wait for: ``("Forward" or "Backward", piece)``, or None."""
    piece = piece_of(action.chunk, stage, num_stages, placement)
    last = num_chunks * num_stages - 1
    if kind(action) == FORWARD:
        return (FORWARD, piece) if piece < last else None
    if kind(action) in (WHOLE, INPUT):
        return (WHOLE, piece) if piece > 0 else None
    return None


def _keys(of, action, *where):
    """What an action's passes need, or make, with their microbatches; ``of`` is one of these."""
    found = ((of(each, *where), each.microbatch) for each in passes(action))
    return [(*key, microbatch) for key, microbatch in found if key]


def check(schedules, num_microbatches, num_chunks=1, placement="loop"):
    """Go through the schedules of all stages, one action after another.

    Returns:
        All actions as ``(stage, action)``, in an order in which they can be done.

    Raises:
        ScheduleError: an action is missing, or done twice, or comes before what it needs on its
            own stage; or stages wait for one another for ever. Says where.
    """
    for stage, actions in enumerate(schedules):
        _check_stage(stage, actions, num_microbatches, num_chunks)
    at, made, order = [0] * len(schedules), set(), []
    moved = True
    while moved:
        moved = False
        for stage, actions in enumerate(schedules):
            where = stage, len(schedules), num_chunks, placement
            while at[stage] < len(actions):
                action = actions[at[stage]]
                if not made.issuperset(_keys(needs, action, *where)):
                    break
                made.update(_keys(makes, action, *where))
                order.append((stage, action))
                at[stage] += 1
                moved = True
    waiting = [stage for stage, actions in enumerate(schedules) if at[stage] < len(actions)]
    if waiting:
        first = [f"stage {s} at {shown(schedules[s][at[s]])}" for s in waiting[:4]]
        raise ScheduleError(f"the stages wait for one another for ever: {', '.join(first)}")
    return order


def shown(action):
    """An action in a sentence: "Forward(2)", "Backward(0, chunk=1)"."""
    if kind(action) == PAIR:
        return f"Pair({', '.join(map(shown, passes(action)))})"
    return f"{kind(action)}({action.microbatch}{f', chunk={action.chunk}' * bool(action.chunk)})"


def _short(action):
    """An action in a timeline: "F2", "B0.1", "F3+B1.1"."""
    if kind(action) == PAIR:
        return "+".join(map(_short, passes(action)))
    word = f"{LETTERS[kind(action)]}{action.microbatch}"
    return f"{word}.{action.chunk}" if action.chunk else word


def _check_stage(stage, actions, num_microbatches, num_chunks):
    """Every pass of every microbatch and chunk once, forward before backward."""
    done = set()
    for place, action in enumerate(actions):
        where, new = f"stage {stage}, action {place}", set()
        for each in passes(action):
            key = each.microbatch, each.chunk
            if not (0 <= key[0] < num_microbatches and 0 <= key[1] < num_chunks):
                raise ScheduleError(
                    f"{where}: {shown(each)} is none of {num_microbatches} microbatches "
                    f"in {num_chunks} {'chunk' if num_chunks == 1 else 'chunks'}"
                )
            parts = (INPUT, WEIGHT) if kind(each) == WHOLE else (kind(each),)
            if any((part, *key) in done for part in parts):
                raise ScheduleError(f"{where}: {shown(each)} was done before")
            before = {WEIGHT: INPUT, FORWARD: None}.get(kind(each), FORWARD)
            if before and (before, *key) not in done:
                what = "stands in a pair with" if (before, *key) in new else "comes before"
                raise ScheduleError(f"{where}: {shown(each)} {what} its {before}")
            new.update((part, *key) for part in parts)
        done |= new
    for microbatch in range(num_microbatches):
        for chunk in range(num_chunks):
            for part in (FORWARD, INPUT, WEIGHT):
                if (part, microbatch, chunk) not in done:
                    other = "" if part == FORWARD else f" (nor a whole {WHOLE})"
                    raise ScheduleError(
                        f"stage {stage} does no {part} of microbatch {microbatch}"
                        f"{f' in chunk {chunk}' if num_chunks > 1 else ''}{other}"
                    )


def most_in_flight(actions):
    """The most forward passes whose activations are needed at one time.

    A microbatch in a chunk is in flight from its ``Forward`` to the end of its ``Backward``, or of
    its ``BackwardWeight``.
    """
    now = most = 0
    for action in actions:
        kinds = [kind(each) for each in passes(action)]
        now += FORWARD in kinds
        most = max(most, now)
        now -= WHOLE in kinds or WEIGHT in kinds
    return most


def trace(
    schedules,
    num_chunks=1,
    forward_s=1.0,
    backward_s=2.0,
    nbytes=0,
    weight_s=None,
    placement="loop",
    exchange_s=0.0,
):
    """What the network would record of stages that run these schedules.

    Args:
        forward_s, backward_s: what one pass through one piece takes.
        nbytes: of one activation, and of one gradient.
        weight_s: ``BackwardWeight``'s part of ``backward_s``; ``BackwardInput`` takes the rest.
            None: half of it.
        exchange_s: what a pass waits for messages inside its stage.
    """
    num_stages = len(schedules)
    numbers = {}  # what is sent: the message's number
    weight_s = backward_s / 2 if weight_s is None else weight_s
    takes_s = {FORWARD: forward_s, WHOLE: backward_s, WEIGHT: weight_s}
    takes_s[INPUT] = backward_s - weight_s
    ranks = []
    for stage, actions in enumerate(schedules):
        ops, posted = [], {}
        where = stage, num_stages, num_chunks, placement

        def number(key):
            return numbers.setdefault(key, len(numbers))

        def expect(action, where=where, ops=ops, posted=posted):
            for key in _keys(needs, action, *where):
                source = stage_of(key[1], num_stages, placement)
                if source == where[0] or key in posted:
                    continue
                posted[key] = len(ops)
                ops.append(
                    Op(Kind.IRECV, source, 0, nbytes, request=len(ops), message=number(key),
                       detail=(source, 0))
                )  # fmt: skip

        for place, action in enumerate(actions):
            expect(action)
            arrived = [posted[key] for key in _keys(needs, action, *where) if key in posted]
            if arrived:
                ops.append(Op(Kind.WAIT, detail=tuple(arrived)))
            for ahead in actions[place + 1 : place + 2]:
                expect(ahead)
            ops += _computed(action, takes_s, exchange_s)
            for key in _keys(makes, action, *where):
                following = key[1] + (1 if key[0] == FORWARD else -1)
                dest = stage_of(following, num_stages, placement)
                if dest != stage:
                    ops.append(
                        Op(Kind.ISEND, dest, 0, nbytes, request=len(ops), message=number(key),
                           detail=(0,))
                    )  # fmt: skip
        sends = tuple(op.request for op in ops if op.kind == Kind.ISEND)
        ops.append(Op(Kind.WAIT, detail=sends))
        ranks.append(ops)
    return Trace(num_stages, ranks)


def _computed(action, takes_s, exchange_s):
    """An action's computation; then what it doesn't hide of the messages inside the stage."""
    kinds = [kind(each) for each in passes(action)]
    compute_s = sum(takes_s[name] for name in kinds)
    hidden_s = compute_s if len(kinds) > 1 else 0.0
    exposed_s = exchange_s * sum(name != WEIGHT for name in kinds) - hidden_s
    spans = [(compute_s, _short(action))] + [(exposed_s, "exchange")] * (exposed_s > 0)
    return [Op(Kind.COMPUTE, detail=(0.0, 0.0, round(s * PS), label)) for s, label in spans]


def timeline(
    schedules,
    num_chunks=1,
    forward_s=1.0,
    backward_s=2.0,
    nbytes=0,
    machine=FREE,
    weight_s=None,
    placement="loop",
    exchange_s=0.0,
):
    """When every stage does what, on a machine; messages are free if none is given.

    The other arguments are those of ``trace``.
    """
    costs = forward_s, backward_s, nbytes, weight_s
    return replay(trace(schedules, num_chunks, *costs, placement, exchange_s), machine)


def idle_inside_s(line, stage):
    """How long a stage of a timeline is idle between its first pass and the end of its last."""
    passes = [span for span in line.spans[stage] if span.kind == "compute"]
    busy_s = sum(each.end_s - each.start_s for each in passes)
    return passes[-1].end_s - passes[0].start_s - busy_s if passes else 0.0


def resized(recorded, factor):
    """A recorded trace with messages so many times as long, as those of a larger model are."""
    sized = (Kind.ISEND, Kind.IRECV)
    ops = [
        [
            op._replace(nbytes=round(op.nbytes * factor)) if op.kind in sized else op
            for op in own
        ]
        for own in recorded.ops
    ]  # fmt: skip
    return Trace(recorded.world_size, ops, recorded.sites, recorded.machine)
