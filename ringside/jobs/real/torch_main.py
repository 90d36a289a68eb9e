"""One rank of a real run over torch.distributed: what ``torchrun`` or ``srun`` starts.

    torchrun --standalone --nproc-per-node 2 -m ringside.jobs.real.torch_main \\
        ring_torch.py:all_reduce --world-size 2 --backend gloo --length 1000

RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT say who it is and where the others are.
With nccl the rank's GPU is ``cuda:LOCAL_RANK``, the current device before anything else happens;
gloo has its tensors on the CPU, or with ``--device cuda`` on a GPU that ranks may share.

A function gets the group of all ranks, and tensors in the place of arrays, on that device; one
that returns nothing is compared by its first tensor, which it overwrites. A script finds no group:
it calls ``dist.init_process_group()`` itself. ``ringside.jobs.real.run`` says what is measured and
what stays behind.
"""

from __future__ import annotations

import argparse
import atexit
import ctypes
import functools
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ringside.jobs.real import run as real_run
from ringside.jobs.real.torch_ranks import TorchRanks, clock_of
from ringside.jobs.real.watch import Watch, report_start
from ringside.session.recorder import Recorder
from ringside.session.target import Target

_ENVIRONMENT = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")

# -- devices -------------------------------------------------------------------------------------


def _device(kind: str) -> Any:
    """The rank's device, made the current one; ranks over gloo may share one."""
    import torch

    if kind == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _no_device(kind: str, backend: str) -> str | None:
    """Why this rank has no device, or None."""
    if kind == "cpu":
        return None
    import torch

    if torch.version.cuda is None:
        return (
            f"torch {torch.__version__} is built for CPUs alone: install the one for this "
            "cluster's CUDA, or ask for no GPUs."
        )
    local, count = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if local < count or (backend == "gloo" and count):
        return None
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (
        f"local rank {local} of {os.uname().nodename} needs GPU {local}, and torch sees {count} "
        f"there (CUDA_VISIBLE_DEVICES is {'not set' if seen is None else repr(seen)}). Ask for as "
        "many GPUs as ranks on a node (--gpus-per-node), and don't bind each task to one."
    )


# -- the process ---------------------------------------------------------------------------------


def main() -> int:
    """Be a rank; returns the exit status."""
    parser = real_run.parser("python -m ringside.jobs.real.torch_main")
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="of gloo's tensors; default: cpu")
    arguments = real_run.parse(parser)
    real_run.begin()
    ending = _Ending()
    atexit.register(ending.end)  # the first that is registered is the last that is called
    rank = int(os.environ.get("RANK", "0"))
    why_not = _wrong_start(arguments)
    if why_not:
        return real_run.refuse(arguments, rank, "size", why_not)
    kind = "cuda" if arguments.backend == "nccl" else arguments.device or "cpu"
    why_not = _no_device(kind, arguments.backend)
    if why_not:
        return real_run.refuse(arguments, rank, "asked", why_not)
    target = Target.parse(arguments.target)
    device = _device(kind)
    recorder = Recorder(
        clock_of(device), most_calls=None if target.function else real_run.MOST_CALLS
    )
    recorder.enabled = False
    ranks = TorchRanks(arguments.backend, device, recorder)
    started = time.time()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    watch = Watch(arguments.deadline_s, rank, ranks.world_size, arguments.scratch, recorder)
    report_start(arguments.scratch, rank)
    measurements: list[dict[str, Any]] = []
    ending.keep_groups()
    if target.function:
        why_not = _initialise(arguments, device, ranks, recorder)
        if why_not:
            return real_run.refuse(arguments, rank, "asked", why_not)
    with real_run.reported(arguments, ranks):
        if target.function:
            measurements = real_run.measure(target, arguments, ranks)
        else:
            _run_script(target, arguments, ranks, recorder)
    real_run.leave_record(arguments, target, ranks, recorder, measurements, started)
    watch.close()
    _leave_groups()
    # Last: from here on the process ends with status 0, whatever its libraries would do at the end.
    ending.done = True
    return 0


def _wrong_start(asked: argparse.Namespace) -> str | None:
    """Why the environment is not that of a rank of this run, or None."""
    missing = [name for name in _ENVIRONMENT if not os.environ.get(name)]
    if missing:
        return (
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set: start the ranks "
            "with torchrun, or with srun and these variables as in cluster/templates."
        )
    size = int(os.environ["WORLD_SIZE"])
    if size != asked.world_size:
        return (
            f"asked for {asked.world_size} ranks, but WORLD_SIZE is {size}: the launcher started "
            "another number of ranks than the job has. One torchrun a node wants "
            "--nnodes and --nproc-per-node, srun wants --ntasks."
        )
    return None


def _initialise(
    asked: argparse.Namespace, device: Any, ranks: TorchRanks, recorder: Recorder
) -> str | None:
    """Make the default group for a function; returns why that could not be done, or None."""
    import torch.distributed as dist

    waiting = f"init_process_group() at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    try:
        with recorder.call(f"{waiting}, until all ranks are there"):
            dist.init_process_group(
                asked.backend,
                timeout=timedelta(seconds=asked.deadline_s + 60),  # the watch is first
                device_id=device if asked.backend == "nccl" else None,
            )
            ranks.meet()
            ranks.allgather(ranks.rank)
    except Exception as error:
        return f"the ranks did not find each other: {waiting}: {error}"
    return None


def _run_script(
    target: Target, asked: argparse.Namespace, ranks: TorchRanks, recorder: Recorder
) -> None:
    import torch.distributed as dist

    from ringside.jobs.real.recording_torch import recording

    _meet_where_the_script_initialises(ranks, recorder)
    with recording(recorder):
        real_run.run_script(target, asked, ranks, recorder)
    # The record is gathered over a group, so a script that made none gets one afterwards.
    if ranks.world_size > 1 and not ranks.has_met:
        dist.init_process_group("gloo")
        ranks.meet()


def _meet_where_the_script_initialises(ranks: TorchRanks, recorder: Recorder) -> None:
    """Take the group's store when there is one, and let the recorded time begin then."""
    import torch.distributed as dist

    original = dist.distributed_c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if not ranks.has_met:
            ranks.meet()
            ranks.allgather(None)  # so that all clocks begin together
            recorder.restart()
        return result

    _replace(original, init_process_group)


def _replace(original: Callable[..., Any], made: Callable[..., Any]) -> None:
    """Put one function in another's place, wherever it has been imported."""
    for module in list(sys.modules.values()):
        if vars(module).get(original.__name__) is original:
            vars(module)[original.__name__] = made


def _leave_groups() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


class _Ending:
    """How a rank's process ends: its groups are left, and stay in memory.

    A group of gloo joins its threads when the last that holds it lets go. If that is DDP's reducer,
    which doesn't give up Python's lock, and a thread wants the lock for a tensor that it has still
    to drop, the process never ends; if it is the interpreter's own end, it is aborted.
    """

    def __init__(self) -> None:
        self.done = False
        self._groups: list[Any] = []

    def keep_groups(self) -> None:
        """From now on, hold the groups that are destroyed."""
        import torch.distributed as dist

        original = dist.distributed_c10d.destroy_process_group

        @functools.wraps(original)
        def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
            c10d: Any = dist.distributed_c10d
            self._groups.extend(c10d._world.pg_map)
            return original(*args, **kwargs)

        _replace(original, destroy_process_group)

    def end(self) -> None:
        """End the process here, where all has been done; otherwise as Python does."""
        if self.done:
            sys.stdout.flush()
            sys.stderr.flush()
            ctypes.CDLL(None).fflush(None)  # what C code printed, such as NCCL
            os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
