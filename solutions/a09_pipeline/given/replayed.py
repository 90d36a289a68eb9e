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
"""

from ringside import Machine, replay
from ringside.trace import Kind, Op, Trace

FORWARD, WHOLE, INPUT, WEIGHT = "Forward", "Backward", "BackwardInput", "BackwardWeight"
LETTERS = {FORWARD: "F", WHOLE: "B", INPUT: "I", WEIGHT: "W"}
FREE = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)
PS = 10**12


class ScheduleError(ValueError):
    """The schedules are not complete, or a stage would wait for ever."""


def kind(action):
    """The name of an action's class."""
    return type(action).__name__


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
    num_stages = len(schedules)
    at, made, order = [0] * num_stages, set(), []
    moved = True
    while moved:
        moved = False
        for stage, actions in enumerate(schedules):
            while at[stage] < len(actions):
                action = actions[at[stage]]
                needed = needs(action, stage, num_stages, num_chunks, placement)
                if needed and (*needed, action.microbatch) not in made:
                    break
                maker = makes(action, stage, num_stages, num_chunks, placement)
                if maker:
                    made.add((*maker, action.microbatch))
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
    return f"{kind(action)}({action.microbatch}{f', chunk={action.chunk}' * bool(action.chunk)})"


def _short(action):
    """An action in a timeline: "F2", "B0.1"."""
    word = f"{LETTERS[kind(action)]}{action.microbatch}"
    return f"{word}.{action.chunk}" if action.chunk else word


def _check_stage(stage, actions, num_microbatches, num_chunks):
    """Every pass of every microbatch and chunk once, forward before backward."""
    done = set()
    for place, action in enumerate(actions):
        where, key = f"stage {stage}, action {place}", (action.microbatch, action.chunk)
        if not (0 <= key[0] < num_microbatches and 0 <= key[1] < num_chunks):
            raise ScheduleError(
                f"{where}: {shown(action)} is none of {num_microbatches} microbatches "
                f"in {num_chunks} {'chunk' if num_chunks == 1 else 'chunks'}"
            )
        parts = (INPUT, WEIGHT) if kind(action) == WHOLE else (kind(action),)
        if any((part, *key) in done for part in parts):
            raise ScheduleError(f"{where}: {shown(action)} was done before")
        before = {WEIGHT: INPUT, FORWARD: None}.get(kind(action), FORWARD)
        if before and (before, *key) not in done:
            raise ScheduleError(f"{where}: {shown(action)} comes before its {before}")
        done.update((part, *key) for part in parts)
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
        now += kind(action) == FORWARD
        most = max(most, now)
        now -= kind(action) in (WHOLE, WEIGHT)
    return most


def trace(
    schedules,
    num_chunks=1,
    forward_s=1.0,
    backward_s=2.0,
    nbytes=0,
    weight_s=None,
    placement="loop",
):
    """What the network would record of stages that run these schedules.

    Args:
        forward_s, backward_s: what one pass through one piece takes.
        nbytes: of one activation, and of one gradient.
        weight_s: ``BackwardWeight``'s part of ``backward_s``; ``BackwardInput`` takes the rest.
            None: half of it.
    """
    num_stages = len(schedules)
    numbers = {}  # what is sent: the message's number
    weight_s = backward_s / 2 if weight_s is None else weight_s
    takes_s = {FORWARD: forward_s, WHOLE: backward_s, WEIGHT: weight_s}
    ranks = []
    for stage, actions in enumerate(schedules):
        ops, posted = [], {}

        def number(key):
            return numbers.setdefault(key, len(numbers))

        def expect(action, stage=stage, ops=ops, posted=posted):
            needed = needs(action, stage, num_stages, num_chunks, placement)
            source = needed and stage_of(needed[1], num_stages, placement)
            if needed is None or source == stage or action in posted:
                return
            posted[action] = len(ops)
            message = number((*needed, action.microbatch))
            ops.append(
                Op(Kind.IRECV, source, 0, nbytes, request=len(ops), message=message,
                   detail=(source, 0))
            )  # fmt: skip

        for place, action in enumerate(actions):
            expect(action)
            if action in posted:
                ops.append(Op(Kind.WAIT, detail=(posted[action],)))
            for ahead in actions[place + 1 : place + 2]:
                expect(ahead)
            seconds = takes_s.get(kind(action), backward_s - weight_s)
            ops.append(Op(Kind.COMPUTE, detail=(0.0, 0.0, round(seconds * PS), _short(action))))
            made = makes(action, stage, num_stages, num_chunks, placement)
            following = made and made[1] + (1 if made[0] == FORWARD else -1)
            dest = stage if made is None else stage_of(following, num_stages, placement)
            if dest != stage:
                message = number((*made, action.microbatch))
                ops.append(
                    Op(Kind.ISEND, dest, 0, nbytes, request=len(ops), message=message,
                       detail=(0,))
                )  # fmt: skip
        sends = tuple(op.request for op in ops if op.kind == Kind.ISEND)
        ops.append(Op(Kind.WAIT, detail=sends))
        ranks.append(ops)
    return Trace(num_stages, ranks)


def timeline(
    schedules,
    num_chunks=1,
    forward_s=1.0,
    backward_s=2.0,
    nbytes=0,
    machine=FREE,
    weight_s=None,
    placement="loop",
):
    """When every stage does what, on a machine; messages are free if none is given.

    The other arguments are those of ``trace``.
    """
    costs = forward_s, backward_s, nbytes, weight_s
    return replay(trace(schedules, num_chunks, *costs, placement), machine)


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
