"""A trace for SimGrid: another engine, written by others, times the same operations.

``export`` writes a folder that SimGrid's SMPI replays (its "time-independent trace")::

    rank-0.txt ...   0 irecv 1 7 4096 6    the operations of a rank, one a line
    traces           the names of these files
    platform.xml     the machine: a host for every rank, a link for every port
    hostfile         the host of every rank
    flags            the options that make SimGrid's network the textbook's
    command          how to run it: sh command

A message crosses the sender's outgoing link and the receiver's incoming link; the latency lies on
the first. What is translated and how:

- compute and polls become ``compute`` and ``sleep``;
- every message has a tag of its own, so that it meets the receive that it met in the run;
- a collective becomes the messages of the algorithm that the machine names, since SimGrid would
  choose one of its own, and knows ``MPI_COMM_WORLD`` only. A collective that runs beside its rank
  (``Iallreduce``) is played by a rank more, on the same host;
- SimGrid adds 16 bytes to every message. Sizes are counted in a small fraction of a byte, and the
  latency is shortened by what the 16 fractions cost.

Where the two engines differ, each in its own right:

- Messages that want one port at the same time go one after the other here, and SimGrid lets them
  share its bandwidth. With ``EXCLUSIVE`` among its flags one at a time crosses a link there too,
  but only when both its links are free at once: a message that finds its receiver's link taken
  waits at the sender, and later ones overtake it. Here it leaves the sender's port and waits at
  the receiver's. That matters where many messages are under way between the same ranks, as in the
  double tree of assignment 03.
- Messages that want one port at the same instant go in the order of their posting here; in SimGrid,
  in the order in which they met their receives.
- Eager sends exist here only. All sends are exported as rendezvous, so compare with
  ``machine.with_(eager_threshold_bytes=0)``.
- A port of a rank serves near and far partners here; there, the links inside a node and those
  between nodes are different links.

Without contention the makespans agree to rounding (at most 1e-6, mostly all digits). With it, and
``EXCLUSIVE``: of 134 random traces 117 within 1e-6, 130 within 5 %, the last four within 18 %; the
double tree within 21 %. An all-to-all whose ranks all begin with rank 0 takes 1.7 to 1.9 times as
long here, because the ports of the others stand idle; in rotated order the engines agree. These
are figures of ``pytest -s tests/test_simgrid.py``.

Source: SimGrid 3.32, documentation of "SMPI: Replaying a trace" and "Configuring SimGrid".
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ringside.engine import collective_ops
from ringside.errors import RingsideError, TraceError
from ringside.machine import Link, Machine
from ringside.trace import Kind, Op, Trace, write_atomically
from ringside.wire import Mode

PS = 10**12
DEBIAN_PACKAGE = "libsimgrid-dev"
_ENVELOPE = 16  # what SimGrid adds to every message
_BYTE = 6  # SimGrid's number of that datatype
_MAX_COUNT = 2**31 - 1  # a larger one counts as negative, and so as eager
_NO_LIMIT = 1e21  # bytes per second of a link that costs nothing

EXCLUSIVE = "--cfg=maxmin/concurrency-limit:1"  # one message at a time on a link

# The textbook's network: latency + size / bandwidth, nothing else, and every send waits for its
# receive. SimGrid's own defaults model TCP, cross traffic and a measured cluster.
FLAGS = {
    "network/model": "CM02",
    "network/TCP-gamma": "0",
    "network/weight-S": "0",
    "network/crosstraffic": "no",
    "network/bandwidth-factor": "1",
    "network/latency-factor": "1",
    "smpi/bw-factor": "0:1",
    "smpi/lat-factor": "0:1",
    "smpi/os": "0:0:0:0:0",
    "smpi/ois": "0:0:0:0:0",
    "smpi/or": "0:0:0:0:0",
    "smpi/async-small-thresh": "0",
    "smpi/send-is-detached-thresh": "0",
    "smpi/host-speed": "1f",
    "surf/precision": "1e-15",
    "maxmin/precision": "1e-9",
}


class SimgridError(RingsideError):
    """SimGrid is not installed, or could not replay a trace."""


def export(trace: Trace, machine: Machine, folder: str | Path) -> Path:
    """Write ``trace`` and ``machine`` for SimGrid's replay, and return the folder.

    Args:
        trace: a run that ended; see ``ringside.trace``.
        machine: its ports become links; collectives are lowered as it says.
        folder: made if need be; files of the same names are replaced.

    Raises:
        TraceError: a message was never sent or never received, went through a buffered send, or is
            too large for SimGrid.
    """
    folder = Path(folder)
    scale = _scale(trace)
    actions = _Actions(trace, machine, scale)
    hosts = actions.cast.hosts
    files = {f"rank-{player}.txt": mine for player, mine in enumerate(actions.of_all())}
    files["traces"] = list(files)
    files["hostfile"] = [f"host-{host}" for host in hosts]
    files["platform.xml"] = list(_platform(machine, trace.world_size, scale))
    files["flags"] = [f"--cfg={name}:{value}" for name, value in FLAGS.items()]
    files["command"] = [
        f"smpirun -no-privatize -np {len(hosts)} -platform platform.xml -hostfile hostfile "
        "$(cat flags) -replay traces"
    ]
    for name, content in files.items():
        write_atomically(folder / name, ("\n".join(content) + "\n").encode())
    return folder


def makespan_s(folder: str | Path, flags: Iterable[str] = ()) -> float:
    """Let SimGrid replay an exported folder; seconds until the last rank ends.

    Args:
        folder: what ``export`` wrote.
        flags: more options, such as ``EXCLUSIVE``.

    Raises:
        SimgridError: it is not installed, or it ended in an error, which is quoted.
    """
    folder = Path(folder)
    if shutil.which("smpirun") is None:
        raise SimgridError(f"SimGrid is not installed: apt-get install {DEBIAN_PACKAGE}.")
    command = (folder / "command").read_text(encoding="utf-8").split()
    at = command.index("$(cat")
    options = (folder / "flags").read_text(encoding="utf-8").split()
    # %.17r is the simulated clock; the replay itself prints it to a microsecond only.
    more = [*options, *flags, "--log=root.fmt:%.17r|%m%n"]
    argv = [*command[:at], *more, *command[at + 2 :]]
    ended = subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C")
    )
    said = ended.stdout + ended.stderr
    # It says so whenever nobody is left, even if others have not begun: the last is the end.
    found = re.findall(r"^([0-9.e+-]+)\|Simulation time", said, re.MULTILINE)
    if ended.returncode or not found:
        tail = "\n".join([line for line in said.splitlines() if "->" not in line][-5:])
        raise SimgridError(f"{shlex.join(argv[:1])} in {folder} ended in an error:\n{tail}")
    return float(found[-1])


def _scale(trace: Trace) -> int:
    """In how many parts a byte is counted: a power of two, as fine as SimGrid's counts allow."""
    sizes = [
        max(op.detail[4], default=0) if op.kind == Kind.COLLECTIVE else op.nbytes
        for ops in trace.ops
        for op in ops
    ]
    largest = max([*sizes, 1])
    if largest > _MAX_COUNT:
        raise TraceError(f"a message of {largest} bytes is too large for SimGrid's replay.")
    parts = (_MAX_COUNT // largest).bit_length() - 1
    return int(2 ** min(parts, 20))


@dataclass
class _Cast:
    """Who plays what: player r is rank r; players beyond are collectives beside their rank."""

    hosts: list[int]  # of every player
    beside: dict[tuple[int, int], int] = field(default_factory=dict)  # (rank, request) -> player
    of_collective: dict[tuple[str, int, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, trace: Trace) -> _Cast:
        """A player more for every collective that its rank does not wait for at once."""
        cast = cls(list(range(trace.world_size)))
        for rank, ops in enumerate(trace.ops):
            free: list[int] = []
            for index, op in enumerate(ops):
                if op.kind == Kind.WAIT:
                    free += [cast.beside[rank, r] for r in op.detail if (rank, r) in cast.beside]
                if op.kind != Kind.COLLECTIVE:
                    continue
                player = rank
                following = ops[index + 1 : index + 2]
                if not any(o.kind == Kind.WAIT and op.request in o.detail for o in following):
                    if not free:
                        free.append(len(cast.hosts))
                        cast.hosts.append(rank)
                    player = cast.beside[rank, op.request] = free.pop()
                cast.of_collective[op.comm, op.detail[1], rank] = player
        return cast


class _Actions:
    """The lines of all players."""

    def __init__(self, trace: Trace, machine: Machine, scale: int) -> None:
        self.trace = trace
        self.machine = machine
        self.scale = scale
        self.cast = _Cast.of(trace)
        self._lines: list[list[str]] = [[] for _ in self.cast.hosts]
        self._tags: dict[object, int] = {}
        self._sent = {
            op.message: (rank, op.nbytes)
            for rank, ops in enumerate(trace.ops)
            for op in ops
            if op.kind == Kind.ISEND
        }

        self._received = {op.message for ops in trace.ops for op in ops if op.kind == Kind.IRECV}

    def of_all(self) -> list[list[str]]:
        """Every player's lines, from init to finalize."""
        for rank in range(self.trace.world_size):
            self._play(rank)
        return [
            [f"{player} {line}" for line in ["init", *lines, "finalize"]]
            for player, lines in enumerate(self._lines)
        ]

    def _play(self, rank: int) -> None:
        lines = self._lines[rank]
        waits: dict[int, list[str]] = {}  # request -> the lines that wait for it
        for op in self.trace.ops[rank]:
            if op.kind == Kind.COMPUTE:
                lines += self._compute(op)
            elif op.kind == Kind.POLL:
                lines.append(f"sleep {op.detail[0] / PS!r}")
            elif op.kind == Kind.WAIT:
                for request in op.detail:
                    lines += waits.pop(request)
            elif op.kind == Kind.COLLECTIVE:
                waits[op.request] = self._collective(rank, op)
            else:
                post, wait = self._message(rank, op)
                lines.append(post)
                waits[op.request] = [wait]

    def _compute(self, op: Op) -> list[str]:
        flops, nbytes, picoseconds = op.detail[:3]
        if picoseconds < 0:
            picoseconds = round(self.machine.compute_s(flops, nbytes) * PS)
        return [f"compute {picoseconds / PS * self.machine.flop_per_s!r}"] if picoseconds else []

    def _message(self, rank: int, op: Op) -> tuple[str, str]:
        """The line that posts a send or receive, and the one that waits for it."""
        if op.kind == Kind.ISEND:
            if op.detail[0] == Mode.BUFFERED:
                raise TraceError(f"rank {rank} calls Bsend, which SimGrid's replay doesn't have.")
            if op.message not in self._received:
                raise TraceError(
                    f"rank {rank} sends to rank {op.peer} a message that was never received; "
                    "SimGrid replays only runs that ended."
                )
            return self._transfer("isend", rank, op.peer, op.message, op.nbytes)
        if op.message not in self._sent:
            raise TraceError(
                f"rank {rank} receives a message that was never sent; SimGrid replays only runs "
                "that ended."
            )
        source, nbytes = self._sent[op.message]
        return self._transfer("irecv", source, rank, op.message, nbytes)

    def _transfer(
        self, verb: str, source: int, dest: int, number: object, nbytes: int
    ) -> tuple[str, str]:
        tag = self._tags.setdefault(number, len(self._tags) + 1)
        peer = dest if verb == "isend" else source
        count = nbytes * self.scale
        return f"{verb} {peer} {tag} {count} {_BYTE}", f"wait {source} {dest} {tag}"

    def _collective(self, rank: int, op: Op) -> list[str]:
        """Write the messages of a collective; return the lines that wait for it."""
        player = self.cast.of_collective[op.comm, op.detail[1], rank]
        if player == rank:
            self._rounds(rank, player, op)
            return []
        # The added player waits for a word to begin, and gives one when it is done.
        begin, done = (("begin", rank, op.request), ("done", rank, op.request))
        ours, theirs = self._lines[rank], self._lines[player]
        sent, _ = self._transfer("isend", rank, player, begin, 0)
        ours.append(sent)
        theirs += self._transfer("irecv", rank, player, begin, 0)
        self._rounds(rank, player, op)
        theirs += self._transfer("isend", player, rank, done, 0)
        return [*self._transfer("irecv", player, rank, done, 0)]

    def _rounds(self, rank: int, player: int, op: Op) -> None:
        lines = self._lines[player]
        waits: dict[int, str] = {}
        for part in collective_ops(self.machine, rank, op):
            if part.kind == Kind.WAIT:
                lines += [waits.pop(request) for request in part.detail]
                continue
            other = self.cast.of_collective[op.comm, op.detail[1], part.peer]
            send = part.kind == Kind.ISEND
            source, dest = (player, other) if send else (other, player)
            verb = "isend" if send else "irecv"
            post, waits[part.request] = self._transfer(
                verb, source, dest, part.message, part.nbytes
            )
            lines.append(post)


def _platform(machine: Machine, world_size: int, scale: int) -> Iterator[str]:
    """The machine as SimGrid's platform: full duplex ports as two links each."""
    ranks = range(world_size)
    yield "<?xml version='1.0'?>"
    yield '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    yield '<platform version="4.1">'
    yield f" <!-- {machine.name.replace('--', '- -')}: 1 byte is counted as {scale} -->"
    yield ' <zone id="world" routing="Full">'
    for rank in ranks:
        yield f'  <host id="host-{rank}" speed="{machine.flop_per_s!r}f"/>'
    yield _link("self", Link(0.0, 0.0), scale)
    links: set[str] = set()
    routes = []
    for source in ranks:
        for dest in ranks:
            path = [("self", Link(0.0, 0.0))]
            if source != dest:
                path = _path(machine, source, dest)
                for name, link in path:
                    if name not in links:
                        links.add(name)
                        yield _link(name, link, scale)
            inside = "".join(f'<link_ctn id="{name}"/>' for name, _ in path)
            routes.append(
                f'  <route src="host-{source}" dst="host-{dest}" symmetrical="NO">{inside}</route>'
            )
    yield from routes
    yield " </zone>"
    yield "</platform>"


def _path(machine: Machine, source: int, dest: int) -> list[tuple[str, Link]]:
    """The links that a message crosses; the latency is on the first alone."""
    link = machine.link(source, dest)
    far = machine.node(source) != machine.node(dest)
    port = Link(0.0, link.beta_s_per_byte)
    if machine.ports == "peer":
        return [(f"pair-{source}-{dest}", link)]
    if machine.shared_nic and far:
        nodes = machine.node(source), machine.node(dest)
        return [(f"node-out-{nodes[0]}", link), (f"node-in-{nodes[1]}", port)]
    kind = "far-" if far and machine.ranks_per_node > 1 else ""
    return [(f"{kind}out-{source}", link), (f"{kind}in-{dest}", port)]


def _link(name: str, link: Link, scale: int) -> str:
    bandwidth = scale / link.beta_s_per_byte if link.beta_s_per_byte else _NO_LIMIT
    latency = max(0.0, link.alpha_s - _ENVELOPE / bandwidth)
    policy = "SHARED" if link.beta_s_per_byte else "FATPIPE"
    return (
        f'  <link id="{name}" bandwidth="{bandwidth!r}Bps" latency="{latency!r}s" '
        f'sharing_policy="{policy}"/>'
    )
