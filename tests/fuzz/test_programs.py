"""Legal MPI programs, drawn call by call and run on real ranks: they end, in words, and repeat.

Hypothesis writes the ranks' calls with a state machine, so that a failure is shown as the shortest
program that has it. Most of them are right; some wait for what nobody sends, take a message that is
too long, or leave members of a collective out. Whatever they do,

- a run ends with values, with a verdict, or with an error of MPI's, and never with one of ours;
- a second run, its ranks hindered at random, has the same trace and the same end;
- the trace, replayed, ends for each rank at the time that the rank itself has read;
- each message comes to whom it was sent, once, and the grader's own questions have answers.

`make fuzz` draws others for as long as wanted; here the examples are few and always the same.
"""

from __future__ import annotations

import atexit
import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ringside import Machine, Session, Trace
from ringside.checking import assertions, open_request
from ringside.checking.ring_bytes import sent_as_ring
from ringside.errors import DeadlockError, RankError
from ringside.session.session import Result
from ringside.timing.replay import replay
from tests.fuzz import stage
from tests.fuzz.test_protocol import FEW

PROGRAM = '''
import random
import time

import numpy as np
from mpi4py import MPI

ROOM = 2000  # elements of the largest message
ANY = -1


def play(comm, steps, hindered):
    """Make a rank's calls; returns the numbers of the messages that it got, and its clock."""
    comms, requests, buffers, got = [comm], {}, {}, []
    chance = random.Random(hindered)

    def take(key):
        if requests[key] == MPI.REQUEST_NULL or isinstance(requests[key], MPI.Prequest):
            buffer = buffers.get(key)
            if buffer is not None and buffer[0] >= 0:
                got.append(int(buffer[0]))
                buffer[0] = -1

    for name, *rest in steps:
        if hindered and chance.random() < 0.3:
            time.sleep(chance.random() * 0.002)
        if name in ("Isend", "Issend", "Send_init"):
            key, place, dest, tag, number, size = rest
            data = np.full(size, float(number))
            requests[key] = getattr(comms[place], name)(data, dest, tag)
        elif name in ("Irecv", "Recv_init"):
            key, place, source, tag, size = rest
            buffers[key] = np.full(size, -1.0)
            source = MPI.ANY_SOURCE if source == ANY else source
            tag = MPI.ANY_TAG if tag == ANY else tag
            requests[key] = getattr(comms[place], name)(buffers[key], source, tag)
        elif name in ("Send", "Ssend"):
            place, dest, tag, number, size = rest
            getattr(comms[place], name)(np.full(size, float(number)), dest, tag)
        elif name == "Recv":
            place, source, tag, size = rest
            buffer = np.full(size, -1.0)
            source = MPI.ANY_SOURCE if source == ANY else source
            comms[place].Recv(buffer, source, MPI.ANY_TAG if tag == ANY else tag)
            got.append(int(buffer[0]))
        elif name == "Start":
            requests[rest[0]].Start()
        elif name in ("Waitall", "Waitany", "Waitsome", "Testall", "Testany"):
            # A wait needs the handles themselves: a copy of one would stay active.
            keys = rest[0]
            getattr(MPI.Request, name)([requests[key] for key in keys])
            for key in keys:
                take(key)
        elif name == "Test":
            if requests[rest[0]].Test():
                take(rest[0])
        elif name == "Cancel":
            requests[rest[0]].Cancel()
        elif name in ("Probe", "Iprobe"):
            place, source, tag = rest
            source = MPI.ANY_SOURCE if source == ANY else source
            getattr(comms[place], name)(source, MPI.ANY_TAG if tag == ANY else tag)
        elif name == "Bcast":
            comms[rest[0]].Bcast(np.full(3, float(comm.rank)), rest[1])
        elif name == "Allreduce":
            total = np.empty(3)
            comms[rest[0]].Allreduce(np.ones(3), total)
            assert (total == comms[rest[0]].size).all()
        elif name == "Barrier":
            comms[rest[0]].Barrier()
        elif name == "Ibcast":
            key, place, root = rest
            requests[key] = comms[place].Ibcast(np.full(3, float(comm.rank)), root)
        elif name == "Idup":
            key, place = rest
            made, requests[key] = comms[place].Idup()
            comms.append(made)
        elif name == "Dup":
            comms.append(comms[rest[0]].Dup())
        elif name == "Split":
            place, color, order = rest
            comms.append(comms[place].Split(color, order))
        elif name == "Wtime":
            MPI.Wtime()
    return got, MPI.Wtime()
'''
ROOM = 2000
ANY = -1
SIZES = st.sampled_from([1, 1, 7, ROOM])
TAGS = st.integers(0, 2)
OF_MPI = {"Exception", "BufferRaceError", "NotOfferedError"}
MACHINES = {
    "waits": Machine.load("textbook"),
    "buffers": Machine.load("textbook").with_(eager_threshold_bytes=1000),
    "cluster": Machine.load("zaratan"),
}


@functools.cache
def session() -> Session:
    """Ranks that play programs, for as long as this process lives."""
    folder = tempfile.TemporaryDirectory()
    (Path(folder.name) / "program.py").write_text(PROGRAM)
    made = Session(folder.name)
    atexit.register(folder.cleanup)
    atexit.register(made.close)
    return made


class Programs(RuleBasedStateMachine):
    """Writes the calls of 2 to 4 ranks, then runs them."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[list[tuple[Any, ...]]] = []
        self.open: list[list[int]] = []  # per rank: requests that it has and hasn't waited for
        self.kept: list[list[int]] = []  # persistent ones, which may be started again
        self.comms: list[tuple[int, ...]] = []  # members, by the place that all of them know it by
        self.sent: dict[int, int] = {}  # number of a message -> whom it was sent to
        self.num_keys = 0
        self.seed: int | None = None
        self.machine = MACHINES["waits"]

    @initialize(
        size=st.integers(2, 4),
        machine=st.sampled_from(sorted(MACHINES)),
        seed=st.sampled_from([None, None, 5]),
    )
    def begin(self, size: int, machine: str, seed: int | None) -> None:
        self.steps, self.open, self.kept = [[[] for _ in range(size)] for _ in range(3)]  # type: ignore[assignment]
        self.comms = [tuple(range(size))]
        self.machine, self.seed = MACHINES[machine], seed

    # -- what rules are made of --------------------------------------------------------------------

    def key(self) -> int:
        self.num_keys += 1
        return self.num_keys

    def pick(self, data: st.DataObject, values: Any) -> Any:
        return data.draw(st.sampled_from(list(values)))

    def send(self, data: st.DataObject, place: int, source: int, dest: int, tag: int) -> None:
        """A rank sends, in one of the ways that there are; ranks by their place in the world."""
        members = self.comms[place]
        number, size = self.key(), data.draw(SIZES)
        self.sent[number] = dest
        name = self.pick(data, ["Isend", "Isend", "Issend", "Send", "Ssend", "Send_init"])
        call = (place, members.index(dest), tag, number, size)
        if name in ("Send", "Ssend"):
            self.steps[source].append((name, *call))
            return
        key = self.key()
        self.steps[source].append((name, key, *call))
        self.open[source].append(key)
        if name == "Send_init":
            self.steps[source].append(("Start", key))

    def take(self, data: st.DataObject, place: int, source: int, dest: int, tag: int) -> None:
        """A rank receives: from that source or from any, for that tag or for any."""
        members = self.comms[place]
        named = members.index(source) if data.draw(st.booleans()) else ANY
        asked = tag if data.draw(st.integers(0, 3)) else ANY
        room = ROOM if data.draw(st.integers(0, 9)) else 3  # now and then too little
        name = self.pick(data, ["Irecv", "Irecv", "Irecv", "Recv", "Recv_init"])
        if name == "Recv":
            self.steps[dest].append((name, place, named, asked, room))
            return
        key = self.key()
        self.steps[dest].append((name, key, place, named, asked, room))
        self.open[dest].append(key)
        if name == "Recv_init":
            self.steps[dest].append(("Start", key))
            self.kept[dest].append(key)

    # -- rules -------------------------------------------------------------------------------------

    @rule(data=st.data(), tag=TAGS, receive_first=st.booleans())
    def message(self, data: st.DataObject, tag: int, receive_first: bool) -> None:
        place = self.pick(data, range(len(self.comms)))
        source, dest = (self.pick(data, self.comms[place]) for _ in range(2))
        ways = [self.send, self.take]
        for way in ways[::-1] if receive_first else ways:
            way(data, place, source, dest, tag)

    @rule(data=st.data(), tag=TAGS, way=st.integers(0, 5))
    def half_a_message(self, data: st.DataObject, tag: int, way: int) -> None:
        if way > 1:  # most programs should go on
            return
        source, dest = (self.pick(data, self.comms[0]) for _ in range(2))
        (self.send if way else self.take)(data, 0, source, dest, tag)

    @rule(data=st.data(), name=st.sampled_from(["Waitall", "Waitall", "Waitany", "Waitsome",
                                                "Testall", "Testany", "Test"]))  # fmt: skip
    def wait(self, data: st.DataObject, name: str) -> None:
        ranks = [rank for rank, keys in enumerate(self.open) if keys]
        if not ranks:
            return
        rank = self.pick(data, ranks)
        keys = data.draw(st.lists(st.sampled_from(self.open[rank]), min_size=1, unique=True))
        self.steps[rank].append((name, keys[0]) if name == "Test" else (name, keys))
        if name == "Waitall":
            self.open[rank] = [key for key in self.open[rank] if key not in keys]

    @rule(data=st.data(), tag=TAGS)
    def again(self, data: st.DataObject, tag: int) -> None:
        """A persistent receive is started once more, after a wait, and gets a message."""
        ranks = [rank for rank, keys in enumerate(self.kept) if keys]
        if not ranks:
            return
        rank = self.pick(data, ranks)
        key = self.pick(data, self.kept[rank])
        self.steps[rank] += [("Waitall", [key]), ("Start", key)]
        if key not in self.open[rank]:
            self.open[rank].append(key)
        self.send(data, 0, self.pick(data, self.comms[0]), rank, tag)

    @rule(data=st.data(), name=st.sampled_from(["Iprobe", "Iprobe", "Probe", "Wtime"]), tag=TAGS)
    def look(self, data: st.DataObject, name: str, tag: int) -> None:
        rank = self.pick(data, self.comms[0])
        source = self.pick(data, [ANY, *self.comms[0]])
        self.steps[rank].append((name, 0, source, tag) if name != "Wtime" else (name,))

    @rule(data=st.data(), name=st.sampled_from(["Bcast", "Allreduce", "Barrier", "Ibcast"]),
          absent=st.integers(0, 19))  # fmt: skip
    def collective(self, data: st.DataObject, name: str, absent: int) -> None:
        place = self.pick(data, range(len(self.comms)))
        members = self.comms[place]
        root = data.draw(st.integers(0, len(members) - 1))
        for member, rank in enumerate(members):
            if absent == member + 16:  # one never comes
                continue
            if name == "Ibcast":
                key = self.key()
                self.steps[rank].append((name, key, place, root))
                self.open[rank].append(key)
            else:
                self.steps[rank].append((name, place, root))

    @precondition(lambda self: len(self.comms) < 4)
    @rule(data=st.data(), name=st.sampled_from(["Dup", "Idup", "Idup", "Split"]))
    def communicator(self, data: st.DataObject, name: str) -> None:
        """A new one, known to all ranks by the same place; of a Split, by its only color."""
        everyone = self.comms[0]
        for rank in everyone:
            if name == "Split":
                self.steps[rank].append((name, 0, 1, -rank))
            elif name == "Dup":
                self.steps[rank].append((name, 0))
            else:
                key = self.key()
                self.steps[rank].append((name, key, 0))
                # One wait for the communicator and for messages is legal.
                waited = [key]
                if self.open[rank] and data.draw(st.booleans()):
                    waited.append(self.pick(data, self.open[rank]))
                self.steps[rank].append(("Waitall", waited))
                self.open[rank] = [each for each in self.open[rank] if each not in waited]
        self.comms.append(everyone[::-1] if name == "Split" else everyone)

    @rule(data=st.data(), chance=st.integers(0, 29))
    def cancel(self, data: st.DataObject, chance: int) -> None:
        """Not offered, which the error says."""
        ranks = [rank for rank, keys in enumerate(self.open) if keys]
        if ranks and chance == 29:
            rank = self.pick(data, ranks)
            self.steps[rank].append(("Cancel", self.pick(data, self.open[rank])))

    # -- the end -----------------------------------------------------------------------------------

    def teardown(self) -> None:
        if self.steps:
            steps = [
                [*mine, ("Waitall", keys)] if keys else mine
                for mine, keys in zip(self.steps, self.open, strict=True)
            ]
            check(self.run(steps, 0), self.run(steps, 1), self.sent)

    def run(self, steps: list[list[tuple[Any, ...]]], hindered: int) -> Result:
        args = [(mine, hindered and hindered + rank) for rank, mine in enumerate(steps)]
        return session().call(
            "program:play", len(steps), args, machine=self.machine, seed=self.seed
        )


def check(first: Result, second: Result, sent: dict[int, int]) -> None:
    """What holds of each program, run twice."""
    for result in (first, second):
        error = result.error
        assert error is None or isinstance(error, DeadlockError | RankError), repr(error)
        if isinstance(error, RankError):
            assert error.type_name in OF_MPI, str(error)
        stage._look(result)
        assert sum(result.sent_messages()) == sum(result.received_messages())
        assert min(sent_as_ring(result)) >= 0
        _replay(result)
    stage.FIGURES.examples += 1
    stage.FIGURES.frames += first.trace.num_ops
    stage.FIGURES.outcomes[stage._kind(first.error)] += 1
    if isinstance(first.error, RankError) or isinstance(second.error, RankError):
        return  # the others are cut off wherever they happen to be
    assert first.trace == second.trace
    assert str(first.error) == str(second.error)
    assert first.timeline.makespan_ps == second.timeline.makespan_ps
    assert first.values == second.values
    got = [
        (number, rank) for rank, value in enumerate(first.values) for number in (value or [[]])[0]
    ]
    # A persistent send is started once here, so that each number comes at most once.
    assert len({number for number, _ in got}) == len(got), "a message came twice"
    assert all(sent[number] == rank for number, rank in got), "a message came to another rank"


def _replay(result: Result) -> None:
    """The trace by itself tells the same times, also from a file."""
    timeline = result.timeline
    with tempfile.TemporaryDirectory() as folder:
        loaded = Trace.load(result.trace.save(Path(folder) / "t.trace"))
    assert loaded == result.trace
    if result.error is not None:
        return
    again = replay(loaded, result.machine, latency_seed=result.seed)
    assert again.makespan_ps == timeline.makespan_ps and again.end_s == timeline.end_s
    # A rank that reads its clock twice, with nothing between, is told the same and pays for it.
    paid = {0, round(result.machine.poll_s * 1e12)}
    read = [round(read_s * 1e12) for _, read_s in result.values]
    ended = [round(end_s * 1e12) for end_s in timeline.end_s]
    assert {after - before for after, before in zip(ended, read, strict=True)} <= paid
    assert assertions.message_time_s(result) >= 0
    assert open_request(result) == ""


TestPrograms = Programs.TestCase
TestPrograms.settings = settings(FEW, max_examples=30, stateful_step_count=25)


@pytest.mark.parametrize(
    "steps",
    [
        # A collective's messages are known when the last member has come, and were sent before.
        [[("Iprobe", 0, ANY, 0), ("Iprobe", 0, ANY, 0), ("Dup", 0)], [("Dup", 0)]],
        # What a receive from anybody gets leaves after all else of that instant.
        [
            [("Idup", 4, 0), ("Waitall", [4])],
            [("Isend", 3, 0, 2, 2, 7, 1), ("Idup", 5, 0), ("Waitall", [5]), ("Waitall", [3])],
            [("Irecv", 1, 0, ANY, ANY, ROOM), ("Idup", 6, 0), ("Waitall", [6]), ("Waitall", [1])],
        ],
        # One wait for a communicator and for a message.
        [
            [("Isend", 1, 0, 1, 0, 7, 1), ("Idup", 2, 0), ("Waitall", [1, 2])],
            [("Irecv", 1, 0, 0, 0, ROOM), ("Idup", 2, 0), ("Waitall", [2, 1])],
        ],
    ],
    ids=["late-collective", "wildcard-behind-a-collective", "one-wait"],
)
def test_program_that_once_was_timed_differently_live(steps: list[list[tuple[Any, ...]]]) -> None:
    for machine in MACHINES.values():
        result = session().call("program:play", len(steps), [(mine, 0) for mine in steps],
                                machine=machine)  # fmt: skip
        assert result.error is None
        check(result, result, {7: len(steps) - 1})
