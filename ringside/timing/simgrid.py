"""A trace for SimGrid: another engine, written by others, times the same operations.

``export`` writes a folder that SimGrid's SMPI replays (its "time-independent trace")::

    rank-0.txt ...   0 irecv 1 7 4096 6    the operations of a rank, one a line
    traces           the names of these files
    platform.xml     the machine: a host for every rank, a link for every port
    hostfile         the host of every rank
    flags            the options that make SimGrid's network the textbook's
    command          how to run it: sh command

Two forms of the same run. What both have in common:

- compute and polls become ``compute`` and ``sleep`` (with ``two_ports`` both are ``sleep``);
- every message has a tag of its own, so that it meets the receive that it met in the run;
- a collective becomes the messages of the algorithm that the machine names, since SimGrid would
  choose one of its own, and knows ``MPI_COMM_WORLD`` only. A collective that runs beside its rank
  (``Iallreduce``) is played by a rank more, on the same host;
- SimGrid adds 16 bytes to every message. Sizes are counted in a small fraction of a byte, and the
  latency is shortened by what the 16 fractions cost;
- eager sends exist here only. All sends are exported as rendezvous, so compare with
  ``machine.with_(eager_threshold_bytes=0)``;
- a port of a rank serves near and far partners here; there, the links inside a node and those
  between nodes are different links;
- messages that want one port at the same instant go in the order of their posting here; there, in
  the order in which they met their receives.

The plain form is the usual one: a message crosses the sender's outgoing link and the receiver's
incoming link at the same time; the latency lies on the first. Messages that want one link at the
same time share its bandwidth, as in a fluid, while a port here serves them one after the other.

With ``two_ports``, SimGrid is given the ports of ``ringside.timing.machine``. A link carries one
message at a time, and a message crosses its two links one after the other: a player of its own
carries it, on a host between them, and sends it on as soon as its head is there. So a message that
finds the receiver's port taken has left the sender's.

Without contention the makespans of all forms agree to rounding (1e-6 is asserted). With contention,
``two_ports`` does too: random traces, every reference solution, all-to-all in any order. The
plain form then differs: 66 of 88 random traces are within 5 %, the others within 29 %; the
double tree of assignment 03, which sends many messages between the same ranks, by up to 44 %; an
all-to-all whose ranks all begin with rank 0 takes 1.7 to 1.9 times as long here, because the ports
of the others stand idle. These are figures of ``pytest -s tests/ringside/timing/test_simgrid.py``.

Source: SimGrid 3.32, documentation of "SMPI: Replaying a trace" and "Configuring SimGrid".
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from ringside.errors import RingsideError, TraceError
from ringside.files import write_atomically
from ringside.timing.machine import LinkModel, Machine
from ringside.timing.rails import formula_s
from ringside.timing.rounds import collective_ops
from ringside.trace import Kind, Mode, Op, Trace

PS = 10**12
DEBIAN_PACKAGE = "libsimgrid-dev"
_ENVELOPE = 16  # what SimGrid adds to every message
_BYTE = 6  # SimGrid's number of that datatype
_MAX_COUNT = 2**31 - 1  # a larger one counts as negative, and so as eager
_NO_LIMIT = 1e21  # bytes per second of a link that costs nothing

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
ONE_AT_A_TIME = {"maxmin/concurrency-limit": "1"}  # on a link


class SimgridError(RingsideError):
    """SimGrid is not installed, or could not replay a trace."""


def export(trace: Trace, machine: Machine, folder: str | Path, *, two_ports: bool = False) -> Path:
    """Write ``trace`` and ``machine`` for SimGrid's replay, and return the folder.

    Args:
        trace: a run that ended; see ``ringside.trace``.
        machine: its ports become links; collectives are lowered as it says.
        folder: made if need be; files of the same names are replaced.
        two_ports: let messages queue at the sender's port and again at the receiver's, as they do
            here, instead of sharing both links at once. It needs a player more for each message.

    Raises:
        TraceError: a message was never sent or never received, went through a buffered send, or is
            too large for SimGrid; or a rank was killed.
    """
    folder = Path(folder)
    scale = _scale(trace)
    actions = (_CarriedActions if two_ports else _Actions)(trace, machine, scale)
    files = {f"rank-{player}.txt": mine for player, mine in enumerate(actions.of_all())}
    hosts = [_host(host) for host in actions.cast.hosts]
    routes = _routes(machine, trace.world_size)
    if isinstance(actions, _CarriedActions):
        hosts += [_way(*pair) for pair in actions.carried]
        routes = _routes_in_two(machine, trace.world_size, sorted(set(actions.carried)))
    files["traces"] = list(files)
    files["hostfile"] = hosts
    files["platform.xml"] = list(_platform(machine, hosts, routes, scale))
    flags = FLAGS | (ONE_AT_A_TIME if two_ports else {})
    files["flags"] = [f"--cfg={name}:{value}" for name, value in flags.items()]
    files["command"] = [
        f"smpirun -no-privatize -np {len(hosts)} -platform platform.xml -hostfile hostfile "
        "$(cat flags) -replay traces"
    ]
    for name, content in files.items():
        write_atomically(folder / name, ("\n".join(content) + "\n").encode())
    return folder


def makespan_s(folder: str | Path) -> float:
    """Let SimGrid replay a folder that ``export`` wrote; seconds until the last rank ends.

    Raises:
        SimgridError: it is not installed, or it ended in an error, which is quoted.
    """
    folder = Path(folder)
    if shutil.which("smpirun") is None:
        raise SimgridError(f"SimGrid is not installed: apt-get install {DEBIAN_PACKAGE}.")
    command = (folder / "command").read_text(encoding="utf-8").split()
    # No shell runs it: the options are put where ``$(cat flags)`` is.
    at = command.index("$(cat")
    options = (folder / "flags").read_text(encoding="utf-8").split()
    # %.17r is the simulated clock; the replay itself prints it to a microsecond only.
    more = [*options, "--log=root.fmt:%.17r|%m%n"]
    argv = [*command[:at], *more, *command[at + 2 :]]
    ended = subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C")
    )
    output = ended.stdout + ended.stderr
    # It says so whenever nobody is left, even if others have not begun: the last is the end.
    clocks = re.findall(r"^([0-9.e+-]+)\|Simulation time", output, re.MULTILINE)
    if ended.returncode or not clocks:
        tail = "\n".join([line for line in output.splitlines() if "->" not in line][-5:])
        raise SimgridError(f"{shlex.join(argv[:1])} in {folder} ended in an error:\n{tail}")
    return float(clocks[-1])


def _scale(trace: Trace) -> int:
    """In how many parts a byte is counted: a power of two, as fine as SimGrid's counts allow."""
    if any(op.kind == Kind.COLLECTIVE and not op.detail for ops in trace.ops for op in ops):
        raise TraceError("a collective never ended; SimGrid replays only runs that ended.")
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
                    # Its collective is over, so the player can be the next one's.
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
                lines += self._compute(op, self.trace.slow.get(rank, 1.0))
            elif op.kind == Kind.POLL:
                lines.append(f"sleep {op.detail[0] / PS!r}")
            elif op.kind == Kind.STORE:
                lines.append(f"sleep {self.machine.store_ps(op.nbytes) / PS!r}")
            elif op.kind == Kind.WAIT:
                for request in op.detail:
                    lines += waits.pop(request)
            elif op.kind == Kind.COLLECTIVE:
                waits[op.request] = self._collective(rank, op)
            elif op.kind == Kind.ACCESS:
                call = self.trace.site_of(op).parts[0]
                raise TraceError(
                    f"rank {rank} calls {call}, and SimGrid's replay has no one-sided "
                    "communication."
                )
            elif op.kind in (Kind.FAULT, Kind.DEATH, Kind.HANG):
                raise TraceError(
                    "in this run a rank was killed or hangs, and SimGrid's replay knows no deaths."
                )
            elif op.kind != Kind.PASS:
                post, waits[op.request] = self._message(rank, op)
                lines += post

    def _compute(self, op: Op, factor: float) -> list[str]:
        flops, nbytes, picoseconds = op.detail[:3]
        if picoseconds < 0:
            picoseconds = round(self.machine.compute_s(flops, nbytes, *op.detail[4:6]) * PS)
        return [self._work(round(picoseconds * factor) / PS)] if picoseconds else []

    def _work(self, seconds: float) -> str:
        return f"compute {seconds * self.machine.flop_per_s!r}"

    def _message(self, rank: int, op: Op) -> tuple[list[str], list[str]]:
        """The lines that post a send or receive, and those that wait for it."""
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
    ) -> tuple[list[str], list[str]]:
        tag = self._tags.setdefault(number, len(self._tags) + 1)
        peer = dest if verb == "isend" else source
        count = nbytes * self.scale
        return [f"{verb} {peer} {tag} {count} {_BYTE}"], [f"wait {source} {dest} {tag}"]

    def _collective(self, rank: int, op: Op) -> list[str]:
        """Write the messages of a collective; return the lines that wait for it."""
        player = self.cast.of_collective[op.comm, op.detail[1], rank]
        if player == rank:
            self._rounds(rank, player, op)
            return []
        # The added player waits for a word to begin, and gives one when it is done.
        begin, done = (("begin", rank, op.request), ("done", rank, op.request))
        ours, theirs = self._lines[rank], self._lines[player]
        ours += self._transfer("isend", rank, player, begin, 0)[0]
        theirs += _joined(self._transfer("irecv", rank, player, begin, 0))
        self._rounds(rank, player, op)
        theirs += _joined(self._transfer("isend", player, rank, done, 0))
        return _joined(self._transfer("irecv", player, rank, done, 0))

    def _rounds(self, rank: int, player: int, op: Op) -> None:
        name, _, _, members, sizes = op.detail
        if formula_s(self.machine, name, members, sizes) is not None:
            raise TraceError(
                f"{name} of {len(members)} ranks is timed by a formula on machine "
                f"{self.machine.name}, which SimGrid cannot be told: name another algorithm in the "
                "machine's collectives, or give it fewer ranks."
            )
        lines = self._lines[player]
        waits: dict[int, list[str]] = {}
        for part in collective_ops(self.machine, rank, op):
            if part.kind == Kind.WAIT:
                lines += _joined(waits.pop(request) for request in part.detail)
                continue
            other = self.cast.of_collective[op.comm, op.detail[1], part.peer]
            send = part.kind == Kind.ISEND
            source, dest = (player, other) if send else (other, player)
            verb = "isend" if send else "irecv"
            post, waits[part.request] = self._transfer(
                verb, source, dest, part.message, part.nbytes
            )
            lines += post


class _CarriedActions(_Actions):
    """The same, where every message between hosts has a player that carries it.

    The carrier waits until the receive is posted. Then the message crosses the sender's link to it,
    an empty head before it; as soon as the carrier has the head, it sends the message on across the
    receiver's link, and in the end it tells the sender. So each link is taken as a port is here.
    """

    def __init__(self, trace: Trace, machine: Machine, scale: int) -> None:
        super().__init__(trace, machine, scale)
        self.carried: list[tuple[int, int]] = []  # of every carrier: from which rank to which
        self._carriers: dict[object, int] = {}

    def _transfer(
        self, verb: str, source: int, dest: int, number: object, nbytes: int
    ) -> tuple[list[str], list[str]]:
        hosts = self.cast.hosts
        if hosts[source] == hosts[dest]:
            return super()._transfer(verb, source, dest, number, nbytes)
        carrier = self._carriers.get(number)
        if carrier is None:
            carrier = self._carriers[number] = len(self._lines)
            self.carried.append((hosts[source], hosts[dest]))
            self._lines.append(self._carry(carrier, source, dest, nbytes))
        leg = super()._transfer
        if verb == "irecv":
            legs = [
                leg("isend", dest, carrier, ("ready", carrier), 0),
                leg("irecv", carrier, dest, ("whole", carrier), nbytes),
            ]
        else:
            legs = [
                leg("isend", source, carrier, ("head", carrier), 0),
                leg("isend", source, carrier, ("body", carrier), nbytes),
                leg("irecv", carrier, source, ("done", carrier), 0),
            ]
        return _joined(post for post, _ in legs), _joined(wait for _, wait in legs)

    def _work(self, seconds: float) -> str:
        # ONE_AT_A_TIME holds for processors too: SimGrid 3.32 then lets some work wait for ever.
        return f"sleep {seconds!r}"

    def _carry(self, carrier: int, source: int, dest: int, nbytes: int) -> list[str]:
        leg = super()._transfer
        ready = leg("irecv", dest, carrier, ("ready", carrier), 0)
        head = leg("irecv", source, carrier, ("head", carrier), 0)
        body = leg("irecv", source, carrier, ("body", carrier), nbytes)
        whole = leg("isend", carrier, dest, ("whole", carrier), nbytes)
        done = leg("isend", carrier, source, ("done", carrier), 0)
        return _joined([*ready, head[0], body[0], head[1], whole[0], body[1], whole[1], *done])


def _joined(parts: Iterable[list[str]]) -> list[str]:
    return list(chain.from_iterable(parts))


_Links = list[tuple[str, LinkModel]]  # what a message crosses
_FREE: _Links = [("self", LinkModel(0.0, 0.0))]


def _platform(
    machine: Machine, hosts: Iterable[str], routes: Mapping[tuple[str, str], _Links], scale: int
) -> Iterator[str]:
    """The machine as SimGrid's platform: full duplex ports as two links each."""
    yield "<?xml version='1.0'?>"
    yield '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    yield '<platform version="4.1">'
    yield f" <!-- {machine.name.replace('--', '- -')}: 1 byte is counted as {scale} -->"
    yield ' <zone id="world" routing="Full">'
    for host in dict.fromkeys(hosts):
        yield f'  <host id="{host}" speed="{machine.flop_per_s!r}f"/>'
    links = dict(link for path in [_FREE, *routes.values()] for link in path)
    for name, link in links.items():
        yield _link(name, link, scale)
    for (source, dest), path in routes.items():
        inside = "".join(f'<link_ctn id="{name}"/>' for name, _ in path)
        yield f'  <route src="{source}" dst="{dest}" symmetrical="NO">{inside}</route>'
    yield " </zone>"
    yield "</platform>"


def _routes(machine: Machine, world_size: int) -> dict[tuple[str, str], _Links]:
    """From every rank's host to every other, across both ports at once."""
    ranks = range(world_size)
    return {
        (_host(source), _host(dest)): _path(machine, source, dest)
        for source in ranks
        for dest in ranks
    }


def _routes_in_two(
    machine: Machine, world_size: int, pairs: Iterable[tuple[int, int]]
) -> dict[tuple[str, str], _Links]:
    """From the sender's host to the carrier's across one port, and on across the other."""
    routes = {(_host(rank), _host(rank)): _FREE for rank in range(world_size)}
    for source, dest in pairs:
        sender, way, receiver = _host(source), _way(source, dest), _host(dest)
        out, *into = _path(machine, source, dest)
        routes[sender, way] = [out]
        routes[way, receiver] = into or [(f"{out[0]}-in", LinkModel(0.0, out[1].beta_s_per_byte))]
        routes[receiver, way] = routes[way, sender] = _FREE
    return routes


def _host(rank: int) -> str:
    return f"host-{rank}"


def _way(source: int, dest: int) -> str:
    return f"way-{source}-{dest}"


def _path(machine: Machine, source: int, dest: int) -> _Links:
    """The links that a message crosses; the latency is on the first alone."""
    if source == dest:
        return _FREE
    link = machine.link(source, dest)
    far = machine.node(source) != machine.node(dest)
    port = LinkModel(0.0, link.beta_s_per_byte)
    if machine.ports == "peer":
        return [(f"pair-{source}-{dest}", link)]
    if far and machine.ranks_per_node > 1:
        return [(f"nic-out-{machine.nic(source)}", link), (f"nic-in-{machine.nic(dest)}", port)]
    return [(f"out-{source}", link), (f"in-{dest}", port)]


def _link(name: str, link: LinkModel, scale: int) -> str:
    bandwidth = scale / link.beta_s_per_byte if link.beta_s_per_byte else _NO_LIMIT
    latency = max(0.0, link.alpha_s - _ENVELOPE / bandwidth)
    # A FATPIPE is not divided among the messages that cross it.
    policy = "SHARED" if link.beta_s_per_byte else "FATPIPE"
    return (
        f'  <link id="{name}" bandwidth="{bandwidth!r}Bps" latency="{latency!r}s" '
        f'sharing_policy="{policy}"/>'
    )
