"""server.py: versions and steps, on the wire and in the weights."""

from checks.cases import (
    RefusedTraining,
    ScriptedServer,
    ScriptedWorkers,
    Training,
    TrainingTwice,
    wire,
)
from ringside.checking import Verdict, assert_makespan, assert_own_messages, assert_ran
from ringside.checking.suite import Suite, called, group
from ringside.trace import Kind

suite = Suite("server")
WAYS = {None: "asynchronous training", 0: "synchronous training"}


def each_way(*cases, waiting=1):
    """Each way of training has its share of the points.

    Args:
        waiting: of a way in which workers wait, beside asynchronous training.
    """
    rows = {}
    for case in cases:
        name = WAYS.get(case.staleness, "stale-synchronous training")
        rows.setdefault(name, []).append(case)
    weights = {WAYS[None]: 1}
    return [group(name, *row, weight=weights.get(name, waiting)) for name, row in rows.items()]


def messages_by_tag(run, case):
    """Per worker and tag, numbers of messages and their bytes, as the network counted them.

    Keys are ``(rank, tag)`` of workers, also for what rank 0 sent them.
    """
    counted = {}
    for rank in range(case.p):
        for op in run.trace.ops[rank]:
            if op.kind != Kind.ISEND:
                continue
            if (op.peer == 0) == (rank == 0):
                whom = "itself" if rank == 0 else "another worker"
                raise case.fail(
                    f"rank {rank} sent a message to {whom}; workers exchange messages with rank 0 "
                    "only."
                )
            worker = rank or op.peer
            count, nbytes = counted.get((worker, op.tag), (0, 0))
            counted[worker, op.tag] = (count + 1, nbytes + op.nbytes)
            if (op.tag == wire.STATE) != (rank == 0):
                raise case.fail(
                    f"rank {rank} sent a message with tag {op.tag}; rank 0 sends STATE "
                    f"({wire.STATE}), and workers send the other tags of given/wire.py."
                )
    return counted


def assert_pushes_travel(run, case):
    """Each worker's gradients went to rank 0 as messages, and the weights came back at least once.

    How many messages there are, and which versions they hold, is not looked at.
    """
    assert_own_messages(run, case)
    counted = messages_by_tag(run, case)
    for worker, count in enumerate(case.num_steps, 1):
        for name, right in (("PUSH", 8 * case.n * count), ("STATE", 8 * case.n)):
            _, nbytes = counted.get((worker, getattr(wire, name)), (0, 0))
            if nbytes < right:
                raise case.fail(
                    f"{name} messages of {nbytes} bytes in all were exchanged with rank {worker}; "
                    f"{count} steps take at least {right}."
                )


@suite.test("server", "communication", Training(4, (2,), n=8, machine="buffered"))
def test_gradients_travel_to_the_server(case, ranks):
    """In one of the three ways to train at least, whatever the values are."""
    first = None
    for staleness in (None, 0, 1):
        one = case.with_(staleness=staleness)
        run = called(ranks, one)
        try:
            assert_ran(run, one)
            return assert_pushes_travel(run, one)
        except Verdict as verdict:
            first = first or verdict
    raise first


@suite.test(
    "asynchronous", "values", TrainingTwice(3, (2, 3)), Training(2), Training(4, (3, 4, 2))
)  # fmt: skip
def test_asynchronous_training_takes_each_push_as_it_comes(case, run):
    """Weights and versions are those of one process, also of a second training."""


@suite.test("synchronous", "values", Training(3, (3,), 0), Training(4, (2,), 0))
def test_synchronous_rounds_equal_synchronous_sgd(case, run):
    """All workers make as many steps."""


@suite.test(
    "stale",
    "values",
    Training(3, (3, 5), 1, (8, 2)),
    Training(4, (4, 6, 6), 2, (9, 2, 3)),
)
def test_stale_synchronous_training(case, run):
    """Worker 1 is slow, and the others wait for it now and then."""


@suite.test(
    "ends", "values",
    *each_way(
        *(Training(4, (3, 1, 0), staleness) for staleness in (0, 1, None)),
        ScriptedWorkers(3, (2, 4), 0, (8, 2), late=20),
        ScriptedWorkers(3, (1, 4), 1, (8, 2), late=20),
        waiting=2,
    ),
)  # fmt: skip
def test_workers_end_at_different_times(case, run):
    """An END may complete a round, and allow a pull."""


@suite.test(
    "comm", "values", Training(3, (2, 1), 1, n=0), Training(3, (0,)), Training(1),
    RefusedTraining(2), weight=2,
)  # fmt: skip
def test_no_weights_no_steps_one_rank_and_wrong_arguments(case, run):
    """A worker without steps sends END alone."""


test_real_mpi = suite.real_ranks(
    "comm",
    Training(3, (2,), fixed=True),
    Training(3, (2,), 0),
    Training(3, (2, 3), 1, fixed=True),
    weight=2,
)


@suite.test(
    "protocol", "communication",
    *each_way(Training(3, (2, 3), n=100), Training(6, (2,), 0, n=3)), checked=False,
)  # fmt: skip
def test_messages_are_those_of_the_protocol(case, run, ranks):
    """Each worker's pulls, answers, pushes and one END, with the bytes of their layout."""
    most = max(sum(case.num_steps), 2 * max(case.num_steps) + 1)
    ranks.record(case, run, {"messages": most})
    counted = messages_by_tag(run, case)
    nbytes = 8 * (case.n + 1)
    for worker, count in enumerate(case.num_steps, 1):
        wanted = {
            "PULL": (count, 0),
            "STATE": (count, count * nbytes),
            "PUSH": (count, count * nbytes),
            "END": (1, 0),
        }
        for name, right in wanted.items():
            found = counted.pop((worker, getattr(wire, name)), (0, 0))
            if found != right:
                raise case.fail(
                    f"{found[0]} {name} messages of {found[1]} bytes in all were exchanged with "
                    f"rank {worker}; it must be {right[0]} of {right[1]} bytes."
                )
    if counted:
        worker, tag = min(counted)
        raise case.fail(
            f"rank {worker} sent a message with tag {tag}, which given/wire.py doesn't have."
        )


@suite.test(
    "versions", "communication",
    *each_way(*(ScriptedWorkers(3, (2, 4), staleness, (8, 2)) for staleness in (None, 1, 0))),
    weight=5,
)  # fmt: skip
def test_server_answers_with_the_version_that_it_should(case, run):
    """Workers send what a script says."""


@suite.test("versions", "communication", ScriptedServer(3, (2, 3)), weight=7)
def test_worker_pushes_the_version_that_it_pulled(case, run):
    """The server sends what a script says."""


test_given_communicator_is_used = suite.given_communicator("comm", Training(3, (3, 2), 1), weight=6)


def answered_ahead(run):
    """How far ahead of the slowest each answered worker was, in the order of rank 0's record.

    A clock counts pushes that rank 0 has received; one that has sent END is not waited for.

    Returns:
        A list of ``(worker, clock, slowest clock)``.
    """
    clocks = dict.fromkeys(range(1, run.world_size), 0)
    waits, ahead = {}, []
    for op in run.trace.ops[0]:
        if op.kind == Kind.IRECV:
            waits[op.request] = op
        elif op.kind == Kind.WAIT:
            for received in (waits.pop(request, None) for request in op.detail):
                if received is not None and received.tag == wire.PUSH:
                    clocks[received.peer] += 1
                elif received is not None and received.tag == wire.END:
                    clocks.pop(received.peer, None)
        elif op.kind == Kind.ISEND and op.tag == wire.STATE:
            slowest = min(clocks.values(), default=0)
            ahead.append((op.peer, clocks.get(op.peer, 0), slowest))
    return ahead


def assert_ahead(run, case):
    """No worker was answered while it was further ahead than ``staleness`` steps."""
    for worker, clock, slowest in answered_ahead(run):
        if clock - slowest > case.staleness:
            raise case.fail(
                f"rank {worker} was answered after {clock} pushes, when a worker that still works "
                f"had pushed {slowest}; it may be at most {case.staleness} ahead."
            )


@suite.test("stale", "schedule", Training(3, (2, 6), 2, (20, 3), announced=True), checked=False)
def test_nobody_gets_too_far_ahead(case, run):
    """And somebody gets as far as is allowed."""
    assert_ahead(run, case)
    most = max(clock - slowest for _, clock, slowest in answered_ahead(run))
    if most < case.staleness:
        raise case.fail(
            f"no worker was ever more than {most} steps ahead; {case.staleness} are allowed."
        )


AT_ONCE = [Training(5, (2,), staleness, (2,), fixed=True) for staleness in (0, 2)]
test_messages_may_be_slow_and_come_at_once = suite.slow_messages(
    "comm",
    *each_way(*(Training(4, (3, 2, 4), staleness) for staleness in (1, None)), *AT_ONCE),
    weight=5,
)


@suite.test(
    "time", "speed",
    *each_way(
        *(
            Training(4, (3, 12, 12), staleness, (8, 1, 1), fixed=True, announced=True)
            for staleness in (None, 1)
        )
    ),
)  # fmt: skip
def test_time_with_one_slow_worker(case, run):
    """Nobody waits longer than ``staleness`` demands."""
    if case.staleness is not None:
        assert_ahead(run, case)
    assert_makespan(run, case.training.end_s, case)
