"""A real network, with ranks that are played: their ends of real socket pairs, and no processes.

The network's own step (`Peers.ready`) is the only clock: before each a rank that is drawn says
its next turn, or a piece of it. When all is said every rank hangs up. So a run takes a bounded
number of steps or has failed, whatever the machine does meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ringside.checking import one_line, open_request
from ringside.checking.ring_bytes import sent_as_ring
from ringside.errors import RunError
from ringside.factors import Factors
from ringside.network import codec
from ringside.network.bounds import Limits
from ringside.network.network import Network
from ringside.network.peers import Peer
from ringside.network.storage import Stores
from ringside.network.wire import COMPLETION, DOWN, Reply
from ringside.session.session import Result, result_of
from ringside.timing.machine import Machine
from tests.fuzz.frames import Program

LIMITS = Limits(
    operations=2400, frame_bytes=1 << 20, held_bytes=2 << 20, result_bytes=2 << 20,
    decoded_bytes=2 << 20, description_bytes=1 << 18, site_bytes=1 << 18, sites=100,
    output_bytes=2048, open_requests=100, unreceived=300, communicators=100, memberships=400,
    factors=5000,
)  # fmt: skip
MEMORY_BYTES = 24 << 20  # at most, beside what the limits say: objects, and values decoded
MOST_CPU_S = 15.0  # of one run
_IDLE = 4
_PIECE = 100_000  # bytes that go into a socket at once


@dataclass
class Figures:
    """What fuzzing has seen."""

    seconds: float = 0.0
    examples: int = 0
    frames: int = 0
    peak_bytes: int = 0
    steps: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    def told(self, name: str) -> str:
        seconds = max(self.seconds, 1e-9)
        text = f"{name}: {self.examples} examples in {seconds:.0f} s"
        text += f" ({self.examples / seconds:.0f} a second), {len(self.outcomes)} distinct outcomes"
        if self.frames:
            text += f", {self.frames} frames ({self.frames / seconds:.0f} a second)"
            text += f", at most {self.steps} steps a run"
        if self.peak_bytes:
            text += f", at most {self.peak_bytes / 2**20:.1f} MiB of memory a run"
        return text


FIGURES = Figures()


class Stage:
    """The ranks' side of one run."""

    def __init__(self, program: Program, order: list[int], pieces: int) -> None:
        self.program = program
        self.order = order
        self.pieces = pieces  # bytes of a write, 0 for all at once
        self.ends: list[socket.socket | None] = []
        self.peers: list[Peer] = []
        self.outputs: list[int] = []
        self.coming = [bytearray() for _ in program.turns]
        self.saying = [bytearray() for _ in program.turns]
        self.turn = [0] * program.world_size
        self.may_speak = [False] * program.world_size
        self.got: list[dict[int, bytes]] = [{} for _ in program.turns]
        self.steps = self.idle = self.bytes_said = self.bytes_got = 0
        for rank in range(program.world_size):
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            theirs.setblocking(False)
            read, write = os.pipe()
            os.set_blocking(read, False)
            os.write(write, b"printed \xff\n" * 300)
            self.peers.append(Peer(rank, ours, read))
            self.ends.append(theirs)
            self.outputs.append(write)

    def close(self) -> None:
        for rank in range(self.program.world_size):
            self._hang_up(rank)
            self.peers[rank].sock.close()
            os.close(self.peers[rank].output)
            os.close(self.outputs[rank])

    def _hang_up(self, rank: int) -> None:
        end, self.ends[rank] = self.ends[rank], None
        if end is not None:
            end.close()

    def step(self) -> None:
        """One rank says something; when nobody has anything to say, all hang up."""
        self.steps += 1
        self._listen()
        size = self.program.world_size
        first = self.order.pop(0) % size if self.order else self.steps
        for rank in [(first + each) % size for each in range(size)]:
            if self._speak(rank):
                self.idle = 0
                return
        if any(self.peers[rank].outbox for rank in range(size) if self._reads(rank)):
            return  # an answer that its socket couldn't take at once
        self.idle += 1
        if self.idle <= _IDLE:  # the network may not have read all of it yet
            return
        for rank in range(size):
            self._hang_up(rank)

    def _reads(self, rank: int) -> bool:
        return self.ends[rank] is not None and rank not in self.program.rude

    def _speak(self, rank: int) -> bool:
        end, turns = self.ends[rank], self.program.turns[rank]
        if end is None:
            return False
        said = self.saying[rank]
        if not said:
            if not self.may_speak[rank] and rank not in self.program.rude:
                return False
            if self.turn[rank] == len(turns):
                said += self.program.noise.pop(rank, b"")
                if not said:
                    if rank in self.program.hostile:
                        self._hang_up(rank)
                    return False
            else:
                said += b"".join(frame.pack() for frame in turns[self.turn[rank]])
                self.turn[rank] += 1
                self.may_speak[rank] = False
                if not said:
                    self.may_speak[rank] = True
                    return self._speak(rank)
        try:
            sent = end.send(said[: self.pieces or _PIECE])
        except BlockingIOError:
            return False
        except OSError:
            self._hang_up(rank)
            return False
        self.bytes_said += sent
        del said[:sent]
        return True

    def _listen(self) -> None:
        for rank, end in enumerate(self.ends):
            if end is None or not self._reads(rank):  # who is rude doesn't read either
                continue
            with contextlib.suppress(BlockingIOError, ConnectionResetError):
                while piece := end.recv(1 << 18):
                    self.coming[rank] += piece
                    self.bytes_got += len(piece)
            self._replies(rank)

    def _replies(self, rank: int) -> None:
        data = self.coming[rank]
        while len(data) >= DOWN.size:
            kind, _, _, count, size = DOWN.unpack_from(data)
            if len(data) < DOWN.size + size:
                return
            body = bytes(data[DOWN.size : DOWN.size + size])
            del data[: DOWN.size + size]
            self.may_speak[rank] = True
            at = 0
            for _ in range(count if kind == Reply.DONE else 0):
                number, *_, flags, _, _, length = COMPLETION.unpack_from(body, at)
                at += COMPLETION.size
                if flags & 2:
                    self.got[rank][number] = body[at : at + length]
                    at += length


class _Hang(BaseException):
    """The network computes and computes; nothing that it catches."""


def _hangs(*_: object) -> None:
    raise _Hang


def _descriptors() -> set[tuple[str, str]]:
    """The open descriptors of the kinds that a network has: number and what it is open on.

    Pipes aren't among them, and fewer than before are no fault: threads of the session start
    commands meanwhile, and garbage of earlier tests is collected.
    """
    opened = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # closed since, as that of the listing itself
            continue
        if target.startswith(("socket:", "anon_inode:")):
            opened.add((number, target))
    return opened


def play(program: Program, order: list[int], pieces: int = 0, *, seed: int | None = None,
         machine: str = "textbook", measured: bool = False, limits: Limits = LIMITS,
         memory_bytes: int = MEMORY_BYTES) -> Result:  # fmt: skip
    """Run a program on a network; fails where it raises, leaks, grows or mixes things up."""
    descriptors = _descriptors()
    signal.signal(signal.SIGPROF, _hangs)
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    if measured:
        tracemalloc.start()
    stage = Stage(program, order, pieces)
    used = Machine.load(machine)
    try:
        network = Network(
            stage.peers, used, seed=seed, limits=limits, factors=Factors(b"fuzz"), stores=Stores()
        )
        wires = network._wires
        ready = wires.ready

        def step(timeout_s: float | None) -> Iterator[Peer]:
            stage.step()
            yield from ready(0)
            most = (
                60
                + 3 * (stage.bytes_said + stage.bytes_got) // (pieces or 4096)
                + 3 * program.num_frames
            )
            assert stage.steps <= most, "the run doesn't end"
            most = limits.held_bytes + limits.decoded_bytes + limits.frame_bytes
            assert 0 <= network.ledger.held_bytes <= most
            assert wires._outgoing_bytes <= 2 * (limits.held_bytes + limits.frame_bytes)

        wires.ready = step  # type: ignore[method-assign]
        everyone = range(program.world_size)
        outcome = network.call({r: [codec.encode({})] for r in everyone}, None, 300.0)
        stage._listen()
        result = result_of(
            outcome, tuple(everyone), used, seed=seed, most_bytes=limits.decoded_bytes
        )
        _look(result)
    except _Hang:
        raise AssertionError("it hangs:\n" + traceback.format_exc()) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        stage.close()
        if measured:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            FIGURES.peak_bytes = max(FIGURES.peak_bytes, peak)
            assert peak < memory_bytes, f"{peak} bytes"
    assert not _descriptors() - descriptors, "a descriptor is left open"
    _check_payloads(program, stage)
    FIGURES.examples += 1
    FIGURES.frames += program.num_frames
    FIGURES.steps = max(FIGURES.steps, stage.steps)
    FIGURES.outcomes[_kind(result.error)] += 1
    return result


def _look(result: Result) -> None:
    """What graders and reports ask of a run, whatever its ranks have said."""
    assert result.error is None or isinstance(result.error, RunError)
    assert result.makespan_s >= 0
    assert min(result.sent_bytes()) >= 0
    assert min(sent_as_ring(result)) >= 0
    assert min(result.num_flops()) >= 0
    text = f"{result!r} {result.error} {open_request(result)} {result.unreceived} {result.output}"
    text += result.timeline._repr_html_() + "".join(
        span.label for span in result.timeline.critical_path
    )
    text.encode()
    one_line(text)
    json.dumps([result.makespan_s, sent_as_ring(result)], allow_nan=False)


def _check_payloads(program: Program, stage: Stage) -> None:
    """Who keeps the rules got what others who keep them have sent, or nothing."""
    for rank, got in enumerate(stage.got):
        if rank in program.hostile:
            continue
        for number, payload in got.items():
            wanted, makers = program.expected[rank].get(number, (payload, frozenset()))
            if not makers & program.hostile:
                assert payload == wanted, f"rank {rank} got another payload in request {number}"


def _kind(error: RunError | None) -> str:
    """An outcome without its numbers."""
    if error is None:
        return "ended"
    text: Any = getattr(error, "cure", None) or getattr(error, "message", None) or str(error)
    return f"{type(error).__name__}: {re.sub(r'[0-9]+', '#', one_line(str(text), 70))}"
