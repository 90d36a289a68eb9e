"""How fast a trace is replayed, and in how much memory: 64 ranks, 600,000 operations.

    python benchmarks/replay_speed.py

The trace is a ring all-reduce repeated until it has the asked number of operations. Prints
operations a second (the median of five), peak memory, and where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import io
import pstats
import resource
import statistics
import time

from ringside import Machine, Trace
from ringside.timing.engine import Engine
from ringside.trace import Kind, Op


def ring_trace(world_size: int, num_ops: int) -> Trace:
    """Isend, Irecv, Waitall round a ring until there are ``num_ops`` operations."""
    steps = num_ops // (3 * world_size)
    ops: list[list[Op]] = []
    for rank in range(world_size):
        prev_rank, next_rank = (rank - 1) % world_size, (rank + 1) % world_size
        mine = []
        for step in range(steps):
            sent, received = step * world_size + rank, step * world_size + prev_rank
            mine += [
                Op(Kind.ISEND, next_rank, 0, 16384, "world", 2 * step, sent, (0,)),
                Op(
                    Kind.IRECV, prev_rank, 0, 16384, "world", 2 * step + 1, received, (prev_rank, 0)
                ),
                Op(Kind.WAIT, detail=(2 * step, 2 * step + 1)),
            ]
        ops.append(mine)
    return Trace(world_size, ops)


def replay_once(trace: Trace, machine: Machine) -> float:
    """Seconds that one replay takes."""
    engine = Engine(machine, trace.world_size)
    for thread, ops in zip(engine.threads, trace.ops, strict=True):
        thread.ops = ops
    begin = time.perf_counter()
    engine.run()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--ops", type=int, default=600_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--profile", action="store_true", help="also show the functions that cost most"
    )
    options = parser.parse_args()
    machine = Machine.load("zaratan")
    trace = ring_trace(options.ranks, options.ops)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(options.runs):
        gc.collect()
        seconds.append(replay_once(trace, machine))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    median = statistics.median(seconds)
    print(f"{trace.num_ops} operations on {options.ranks} ranks, {options.runs} replays")
    print(f"median {median:.2f} s = {trace.num_ops / median:,.0f} operations a second")
    print(f"memory: trace {before / 1024:.0f} MiB, with the replay {peak / 1024:.0f} MiB")
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(replay_once, trace, machine)
        text = io.StringIO()
        pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(8)
        print(text.getvalue())


if __name__ == "__main__":
    main()
