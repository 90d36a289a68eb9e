"""The reference of `ddp_torch` beside torch's own DistributedDataParallel.

    python benchmarks/ddp_against_torch.py

On real gloo: two ranks on this machine, a network of 6.3 million parameters, steps of the one and
of the other in turn. Prints the median time of a step (of the slower rank), and the median of the
ratios of neighbouring steps. On the modelled machine: the virtual time of one step of each on 8
ranks of zaratan, with the work of every operator counted.
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
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
SOLUTION = ROOT / "solutions" / "a05_ddp"
WIDTH, LAYERS, BATCH = 1024, 6, 32
BUCKET_BYTES = 5 * 2**20


def network() -> nn.Module:
    """Layers of one width: 6 x (1024 x 1024 + 1024) parameters."""
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers)


def steppers(group: Any) -> dict[str, Callable[[], None]]:
    """One training step of each kind, on networks of their own."""
    sys.path.insert(0, str(SOLUTION))
    from ddp_torch import DDP

    torch.manual_seed(dist.get_rank(group))
    x = torch.randn(BATCH, WIDTH)
    mine = DDP(network(), group, BUCKET_BYTES)
    theirs = nn.parallel.DistributedDataParallel(
        network(), process_group=group, bucket_cap_mb=BUCKET_BYTES / 2**20
    )
    optimizers = [torch.optim.SGD(each.parameters(), lr=1e-3) for each in (mine, theirs)]

    def ours() -> None:
        optimizers[0].zero_grad(set_to_none=False)
        mine(x).square().mean().backward()
        mine.finish()
        optimizers[0].step()

    def torchs() -> None:
        optimizers[1].zero_grad(set_to_none=False)
        theirs(x).square().mean().backward()
        optimizers[1].step()

    return {"ours": ours, "torch": torchs}


def one_rank(pairs: int) -> None:
    """What torchrun starts: times pairs of steps; rank 0 prints what the slower rank took."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    steps = steppers(dist.group.WORLD)
    times = []
    for pair in range(pairs + 3):  # the first three warm up
        taken = []
        for name in ("ours", "torch") if pair % 2 else ("torch", "ours"):
            dist.barrier()
            begin = time.perf_counter()
            steps[name]()
            taken.append((name, time.perf_counter() - begin))
        seconds = torch.tensor([dict(taken)["ours"], dict(taken)["torch"]])
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        times.append(seconds.tolist())
    if dist.get_rank() == 0:
        os.write(1, (json.dumps(times[3:]) + "\n").encode())
    dist.barrier()
    dist.destroy_process_group()


def on_gloo(pairs: int) -> list[list[float]]:
    """Seconds of each pair of steps."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, __file__, "--rank", "--pairs", str(pairs)],
        check=True, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"),
    )  # fmt: skip
    line = next(line for line in done.stdout.splitlines() if line.startswith("[["))
    times: list[list[float]] = json.loads(line)
    return times


SIMULATED = """
import sys
sys.path.insert(0, {benchmarks!r})
import torch
from ddp_against_torch import steppers

def step(group, name):
    run = steppers(group)[name]
    run()  # torch's buckets are final after the first pass
    torch.distributed.barrier(group)
    import ringside.network.link
    clock = ringside.network.link.current().wtime
    begin = clock()
    run()
    return clock() - begin
"""


def on_the_machine() -> dict[str, float]:
    """Virtual seconds of one step of each."""
    sys.path.insert(0, str(ROOT))
    import ringside

    taken = {}
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "step.py"
        file.write_text(SIMULATED.format(benchmarks=str(ROOT / "benchmarks")))
        for kind in ("ours", "torch"):
            result = ringside.run(
                f"{file}:step", 8, (kind,), machine="zaratan", front_end="torch", timeout_s=300
            )
            taken[kind] = max(result.values)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--rank", action="store_true", help="be a rank; torchrun says this")
    options = parser.parse_args()
    if options.rank:
        one_rank(options.pairs)
        return
    times = on_gloo(options.pairs)
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    print(
        f"gloo, 2 ranks: ours {ours * 1e3:.1f} ms, torch {theirs * 1e3:.1f} ms, ratio {ratio:.2f}"
    )
    virtual = on_the_machine()
    print(
        f"zaratan, 8 ranks: ours {virtual['ours'] * 1e6:.1f} µs, "
        f"torch {virtual['torch'] * 1e6:.1f} µs, ratio {virtual['ours'] / virtual['torch']:.2f}"
    )


if __name__ == "__main__":
    main()
