"""Start real ranks as forks of one process that has imported torch: what torchrun does, cheaper.

python real_ranks.py JOBS.json        jobs: lists of a folder to run in and of words

Each job is two ranks of ``ringside.jobs.real.torch_main``, one job after another; what they print
goes to FOLDER/printed-RANK. Words that begin with --plain name a program that is run as it is.
Prints the exit statuses of each job's ranks as JSON.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
import traceback
from pathlib import Path

WORLD_SIZE = 2


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def be_rank(rank: int, port: int, folder: str, words: list[str]) -> int:
    """A rank; returns its exit status."""
    from ringside.jobs.real import run as real_run
    from ringside.jobs.real import torch_main as real_torch_rank

    os.chdir(folder)
    printed = os.open(f"printed-{rank}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD_SIZE),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo",
    )  # fmt: skip
    if words[0] == "--most-calls":
        real_run.MOST_CALLS = int(words[1])
        words = words[2:]
    sys.argv = ["real_torch_rank", *words]
    try:
        if words[0] == "--plain":
            runpy.run_path(words[1], run_name="__main__")
            return 0
        return real_torch_rank.main()
    except BaseException:
        traceback.print_exc()
        return 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def main() -> None:
    """Run all jobs."""
    import torch

    import ringside.pytorch.preload  # noqa: F401
    from ringside.jobs.real import recording_torch  # noqa: F401

    torch.set_num_threads(1)
    ended = []
    for folder, words in json.loads(Path(sys.argv[1]).read_text()):
        port = free_port()
        children = []
        for rank in range(WORLD_SIZE):
            child = os.fork()
            if not child:
                os._exit(be_rank(rank, port, folder, words))
            children.append(child)
        ended.append([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
    print(json.dumps(ended))


if __name__ == "__main__":
    main()
