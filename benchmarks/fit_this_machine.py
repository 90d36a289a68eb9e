"""What the model predicts of real ranks on this machine: fitted on messages, judged on programs.

    python benchmarks/fit_this_machine.py [--ranks 2 4] [--repeats 15]

1. A ping-pong between two ranks gives alpha and beta (`ringside.jobs.calibrate.fit`), here one line
for
   short and one for long messages, fitted on every other size and judged on those between. Adding
   and copying vectors gives the rates of computing.
2. The reference solutions run on simulated ranks, and their traces are replayed on that machine;
   what the critical path adds and copies by itself comes on top.
3. The same files run on real ranks: MPICH by mpiexec, and gloo by torch.distributed. All programs
   and sizes take turns within one launch; the median of each is compared with its prediction.

Ranks that share a core take turns, which no model of ports knows: the table marks them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ringside import Machine, Session, Trace, replay
from ringside.jobs.calibrate.fit import line
from ringside.jobs.calibrate.probe.measurements import ping_pong
from ringside.jobs.launch.launch import here_environment, mpiexec
from ringside.trace import Kind, Op

REFERENCE = Path(__file__).resolve().parent.parent / "solutions" / "a03_allreduce"
# Work of one rank on the critical path, in vectors, on p ranks: elements added, and new arrays
# filled (copies, and receives into a new array).
PROGRAMS: dict[str, Callable[[int], tuple[float, float]]] = {
    "star:all_reduce": lambda p: (p - 1, 2),
    "ring:all_reduce": lambda p: ((p - 1) / p, 3),
    "recursive:recursive_doubling": lambda p: ((p - 1).bit_length(), 2),
    "recursive:halving_doubling": lambda p: ((p - 1) / p, 1 + (p - 1) / p),
    "ring_torch:all_reduce": lambda p: ((p - 1) / p, 1 + 1 / p),
    "gloo's own all_reduce": lambda p: ((p - 1) / p, 1 + 1 / p),
}
MPI_PROGRAMS = [name for name in PROGRAMS if "torch" not in name and "gloo" not in name]
LENGTHS = [16, 1024, 16_384, 262_144, 1_048_576]  # float64
PING_BYTES = [2**k for k in range(3, 24)]
LONG_BYTES = 2**15  # from here on, the second line
Cell = tuple[str, int]  # program and length


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--repeats", type=int, default=15, help="of every program and size")
    parser.add_argument("--only", choices=["mpich", "gloo"], help="leave the other away")
    parser.add_argument("--rank", choices=["mpich", "gloo"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        os.environ["OMP_NUM_THREADS"] = "1"
        world = MpiWorld() if options.rank == "mpich" else GlooWorld()
        measure(world, options.repeats)
        return
    for library in [options.only] if options.only else ["mpich", "gloo"]:
        study(library, options.ranks, options.repeats)


# -- on real ranks ---------------------------------------------------------------------------------


class World:
    """What both kinds of ranks measure with."""

    def buffer(self, nbytes: int) -> np.ndarray:
        return np.zeros(nbytes // 8)

    def seconds(self, work: Callable[[], object]) -> float:
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin


class MpiWorld(World):
    """Real ranks of MPI, started by mpiexec."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self._comm = MPI.COMM_WORLD
        self._max = MPI.MAX
        self.rank, self.size = self._comm.rank, self._comm.size

    def programs(self) -> dict[str, Callable[[np.ndarray], object]]:
        sys.path.insert(0, str(REFERENCE))
        found = {}
        for name in MPI_PROGRAMS:
            module, function = name.split(":")
            call = getattr(__import__(module), function)
            found[name] = lambda x, call=call: call(self._comm, x)
        return found

    def barrier(self) -> None:
        self._comm.Barrier()

    def slowest(self, seconds: float) -> float:
        return float(self._comm.allreduce(seconds, self._max))

    def send(self, x: np.ndarray, dest: int) -> None:
        self._comm.Send(x, dest)

    def receive(self, x: np.ndarray, source: int) -> None:
        self._comm.Recv(x, source)


class GlooWorld(World):
    """Real ranks of torch.distributed with gloo."""

    def __init__(self) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        self._torch, self._dist = torch, dist
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = dist.FileStore(os.environ["RINGSIDE_STORE"], self.size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.size)

    def programs(self) -> dict[str, Callable[[np.ndarray], object]]:
        found = {"gloo's own all_reduce": self._own}
        if (REFERENCE / "ring_torch.py").is_file():
            sys.path.insert(0, str(REFERENCE))
            call = __import__("ring_torch").all_reduce
            found["ring_torch:all_reduce"] = lambda x: call(
                self._dist.group.WORLD, self._torch.from_numpy(x.copy())
            )
        return found

    def _own(self, x: np.ndarray) -> None:
        self._dist.all_reduce(self._torch.from_numpy(x.copy()))

    def barrier(self) -> None:
        self._dist.barrier()

    def slowest(self, seconds: float) -> float:
        value = self._torch.tensor([seconds], dtype=self._torch.float64)
        self._dist.all_reduce(value, self._dist.ReduceOp.MAX)
        return float(value)

    def send(self, x: np.ndarray, dest: int) -> None:
        self._dist.send(self._torch.from_numpy(x), dest)

    def receive(self, x: np.ndarray, source: int) -> None:
        self._dist.recv(self._torch.from_numpy(x), source)


def measure(world: MpiWorld | GlooWorld, repeats: int) -> None:
    """Rank 0 prints one line of JSON: ping-pong, additions and programs, all in seconds."""
    pings = ping_pong(world, (0, 1), PING_BYTES, 3 * repeats) if world.size == 2 else []
    programs = world.programs()
    times: dict[Cell, list[float]] = {(name, n): [] for name in programs for n in LENGTHS}
    for turn in range(repeats + 1):
        for (name, n), seconds in times.items():
            x = np.full(n, float(world.rank))
            world.barrier()
            begin = time.perf_counter()
            programs[name](x)
            took = world.slowest(time.perf_counter() - begin)
            if turn:  # the first is for warming up
                seconds.append(took)
    if world.rank == 0:
        told = [[name, n, seconds] for (name, n), seconds in times.items()]
        print(json.dumps({"pings": pings, **local_work(), "programs": told}))


def local_work() -> dict[str, list[tuple[int, float]]]:
    """Median seconds by bytes: adding two vectors, and copying one into new memory."""
    found: dict[str, list[tuple[int, float]]] = {"adding": [], "copying": []}
    for n in LENGTHS:
        total, incoming = np.zeros(n), np.ones(n)
        for name, work in (
            ("adding", lambda t=total, i=incoming: np.add(t, i, out=t)),
            ("copying", lambda i=incoming: np.array(i)),
        ):
            seconds = []
            for _ in range(25):
                begin = time.perf_counter()
                work()
                seconds.append(time.perf_counter() - begin)
            found[name].append((8 * n, statistics.median(seconds)))
    return found


# -- fitted and predicted --------------------------------------------------------------------------


def fit(points: list[tuple[int, float]]) -> Machine:
    """The machine of one line through the points (`ringside.jobs.calibrate.fit`)."""
    fitted = line(points)
    return Machine("fitted", fitted.alpha_s, fitted.beta_s_per_byte)


class Fitted:
    """This machine: a line for short messages, a line for long ones, and the cost of adding."""

    def __init__(self, told: dict) -> None:
        self.pings = [(int(n), s) for n, s in told["pings"]]
        used = self.pings[::2]
        self.short = fit([point for point in used if point[0] < LONG_BYTES])
        self.long = fit([point for point in used if point[0] >= LONG_BYTES])
        self.adding_s = {int(n): s for n, s in told["adding"]}  # by the bytes of a vector
        self.copying_s = {int(n): s for n, s in told["copying"]}

    def machine(self, nbytes: float) -> Machine:
        return self.short if nbytes < LONG_BYTES else self.long

    def judged(self) -> float:
        """The median relative error on the sizes that were not fitted."""
        errors = []
        for nbytes, seconds in self.pings[1::2]:
            machine = self.machine(nbytes)
            predicted = machine.alpha_s + nbytes * machine.beta_s_per_byte
            errors.append(abs(predicted / seconds - 1))
        return statistics.median(errors)

    def predict_s(self, trace: Trace, nbytes: int, added: float, filled: float) -> float:
        """Replay, with the line of the trace's messages; adding and copying come on top."""
        sizes = [op.nbytes for ops in trace.ops for op in ops if op.kind == Kind.ISEND]
        typical = statistics.median(sizes) if sizes else nbytes / trace.world_size
        local_s = added * self.adding_s[nbytes] + filled * self.copying_s[nbytes]
        return replay(trace, self.machine(typical)).makespan_s + local_s


def traces(library: str, world_size: int) -> dict[Cell, Trace]:
    """Every program's trace, from simulated ranks; gloo's own is taken for a ring."""
    found: dict[Cell, Trace] = {}
    members = tuple(range(world_size))
    with Session(REFERENCE) as session:
        for n in LENGTHS:
            args = [(np.full(n, float(rank)),) for rank in members]
            for name in MPI_PROGRAMS if library == "mpich" else ():
                found[name, n] = session.call(name, world_size, args).raise_for_error().trace
            detail = ("allreduce", 0, 0, members, (8 * n,))
            call = [Op(Kind.COLLECTIVE, request=0, detail=detail), Op(Kind.WAIT, detail=(0,))]
            for name in ("gloo's own all_reduce", "ring_torch:all_reduce"):
                found[name, n] = Trace(world_size, [call] * world_size)
    return found


def launch(library: str, world_size: int, repeats: int) -> dict:
    """Run this file on real ranks; what rank 0 printed."""
    own = [sys.executable, __file__, "--rank", library, "--repeats", str(repeats)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if library == "mpich":
        command = [mpiexec(), "-n", str(world_size), *own]
        ended = subprocess.run(
            command, env={**here_environment(), **environment}, stdout=subprocess.PIPE, check=True
        )
        return json.loads(ended.stdout)
    with tempfile.TemporaryDirectory() as folder:
        environment.update(WORLD_SIZE=str(world_size), RINGSIDE_STORE=f"{folder}/store")
        ranks = [
            subprocess.Popen(
                own, env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True
            )
            for rank in range(world_size)
        ]
        said = [rank.communicate()[0] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            raise SystemExit("a rank of gloo ended in an error; see above.")
        return json.loads(said[0])


def study(library: str, world_sizes: list[int], repeats: int) -> None:
    fitted = Fitted(launch(library, 2, repeats))
    print(f"\n{library} on {os.cpu_count()} cores, fitted on every other size of a ping-pong")
    for name, machine in (("short", fitted.short), ("long", fitted.long)):
        bandwidth = 1e-9 / machine.beta_s_per_byte if machine.beta_s_per_byte else float("inf")
        print(f"  {name:5} alpha {machine.alpha_s * 1e6:8.2f} µs   {bandwidth:6.2f} GB/s")
    print(f"  median error on the sizes between: {fitted.judged():.0%}")
    for verb, took in (("adding", fitted.adding_s), ("copying", fitted.copying_s)):
        rates = ", ".join(f"{1e-9 * nbytes / seconds:.1f}" for nbytes, seconds in took.items())
        print(f"  {verb}: {rates} GB/s for {', '.join(map(str, LENGTHS))} float64")
    print(
        f"  {'program':30} {'ranks':>5} {'n':>8} {'median':>10} {'quartiles':>21} "
        f"{'model':>10}  error"
    )
    errors: dict[bool, list[float]] = {False: [], True: []}
    for world_size in world_sizes:
        told = launch(library, world_size, repeats)
        known = traces(library, world_size)
        shared = world_size > (os.cpu_count() or 1)
        for name, n, seconds in told["programs"]:
            predicted = fitted.predict_s(known[name, n], 8 * n, *PROGRAMS[name](world_size))
            low, median, high = statistics.quantiles(seconds, n=4)
            error = predicted / median - 1
            errors[shared].append(abs(error))
            print(
                f"  {name:30} {world_size:5} {n:8} {median * 1e6:7.1f} µs "
                f"{low * 1e6:8.1f}–{high * 1e6:8.1f} µs {predicted * 1e6:7.1f} µs "
                f"{error:+6.0%}{'  ranks share cores' if shared else ''}"
            )
    for shared, values in errors.items():
        if values:
            where = "more ranks than cores" if shared else "a core for every rank"
            print(
                f"  {where}: median error {statistics.median(values):.0%}, "
                f"largest {max(values):.0%}"
            )


if __name__ == "__main__":
    main()
