"""What a machine can do, measured on real ranks: what `ringside.jobs.calibrate.fit` needs.

    ringside launch ringside/jobs/calibrate/probe/on_mpi.py      mpi4py
    ringside launch ringside/jobs/calibrate/probe/on_torch.py    gloo, or NCCL where there are GPUs

Each leaves in run.json, as ``script``::

    transport     "mpi4py", "gloo" or "nccl"; library: its version
    hosts, cores  of each rank: the host's name, how many cores the rank may use
    device        of rank 0: "cpu", or the GPU's name
    links         [{"where": "inside" | "between", "ranks": [0, 1], "points": [[nbytes, s], ...],
                    "eager_threshold_bytes": n | null}]: half a round trip, the median of batches
    all_reduce    [[nbytes, s], ...]: the slowest rank, the median of batches
    products      [{"dtype", "n", "s"}]: of two (n, n) matrices; best of each rank, slowest rank
    copies        [[nbytes read and written, s], ...]: the same
    kernel_s      starting an operator on one element
    poll_s        a Test that finds nothing; null where it was not measured
    memory_bytes  of the device, or of the host, for each rank
"""

from __future__ import annotations

from pathlib import Path

from ringside.jobs.calibrate.probe.measurements import SIZES

__all__ = ["SIZES", "script"]


def script(kind: str) -> Path:
    """The launch target for "mpi4py" or "torch"."""
    return Path(__file__).with_name("on_mpi.py" if kind == "mpi4py" else "on_torch.py")
