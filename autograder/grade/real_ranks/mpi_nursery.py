"""Inside the sandbox: start real MPI ranks as forks of one process that has imported all they need.

``mpiexec`` starts p processes as ever. Each of them hands what it was given, the environment, the
descriptor that leads to ``mpiexec`` and its output, over to the nursery, and ends when its rank
does; the rank is a fork of the nursery, which holds libraries only and has not initialised MPI::

    nursery --- mpiexec -n 3 --- stand-in --environment, PMI_FD, output--> nursery
       |                         stand-in                                     |
       +--fork--> rank 0, 1, 2 <----------------------------------------------+

So NumPy is imported once and not once a rank. An ``mpiexec`` that gives no such descriptor starts
ranks that import for themselves. So it is with ``RINGSIDE_JOB_OWN_HASHES``: every rank is then a
Python of its own, with another seed of its hashes.

    python -I nursery.py nursery MPIEXEC P ...    worlds of P ranks, one after another
"""

from __future__ import annotations

import contextlib
import os
import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence


def nurse(mpiexec: str, worlds: Sequence[int]) -> Callable[[], int]:
    """Start the worlds; returns, here and in each rank, what gives the exit status."""
    load()
    folder = tempfile.mkdtemp()
    before = _entries()
    status = first_pipe = 0
    for number, world_size in enumerate(worlds):
        listener = _listen(f"{folder}/{number}")
        command = [mpiexec, "-n", str(world_size), sys.executable, "-I", "-S"]
        command += [_beside("stand_in.py"), f"{folder}/{number}", str(number), str(first_pipe)]
        job = subprocess.Popen(command)
        alone = "RINGSIDE_JOB_OWN_HASHES" in os.environ
        stand_ins = [] if alone else _accept(listener, world_size, job)
        ranks = []
        while stand_ins:
            # No rank begins before all are here: nobody else gets to this socket.
            up = stand_ins.pop()
            pid = os.fork()
            if not pid:
                for other in stand_ins:
                    other.close()
                return _take_over(up, number, first_pipe)
            up.close()
            ranks.append(pid)
        status = job.wait() or status
        for pid in ranks:
            # Nobody has reaped it, so the number is still the rank's.
            os.kill(pid, 9)  # whoever waits for one that has failed
            os.waitpid(pid, 0)
        _clear(before)
        first_pipe += world_size
    shutil.rmtree(folder)
    return lambda: status


def _entries() -> list[os.DirEntry[str]]:
    """What lies in the folders that a world may write; none where they are not the sandbox's own.

    Where they are, this file is in its /job. Before the first world that is our folder, and the
    interpreter where it lies below one.
    """
    if os.environ["RINGSIDE_JOB_RESULTS"] != "/job" or not __file__.startswith("/job/"):
        return []
    return [entry for folder in ("/dev/shm", "/tmp") for entry in os.scandir(folder)]


def _clear(before: Sequence[os.DirEntry[str]]) -> None:
    """Remove what a world has left: in a /dev/shm that is full the next one would wait for ever."""
    paths = {entry.path for entry in before}
    for entry in _entries():
        if entry.path in paths:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def _beside(name: str) -> str:
    return os.path.join(os.environ["RINGSIDE_JOB_RESULTS"], name)


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(64)
    listener.settimeout(0.05)
    return listener


def _accept(
    listener: socket.socket, world_size: int, job: subprocess.Popen[bytes]
) -> list[socket.socket]:
    """The stand-ins of a world; none if mpiexec ends without them."""
    stand_ins: list[socket.socket] = []
    while len(stand_ins) < world_size and job.poll() is None:
        try:
            stand_ins.append(listener.accept()[0])
        except TimeoutError:
            continue
    listener.close()
    return stand_ins if len(stand_ins) == world_size else []


def _take_over(up: socket.socket, number: int, first_pipe: int) -> Callable[[], int]:
    """Become the rank that a stand-in stands for; returns what tells it how the rank ended."""
    up.settimeout(None)
    # Descriptors come with the first bytes; a large environment takes several reads.
    text, fds, _, _ = socket.recv_fds(up, 1 << 16, 3)
    length = int.from_bytes(text[:4], "little")
    while len(text) < length + 4:
        text += up.recv(1 << 16)
    os.environ.clear()
    for variable in text[4:].decode("utf-8", "surrogateescape").split("\0"):
        name, _, value = variable.partition("=")
        os.environ[name] = value
    pmi_fd, out, err = fds
    os.environ["PMI_FD"] = str(pmi_fd)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    status = be_rank(number, first_pipe)

    def tell() -> int:
        up.send(bytes([status]))
        return status

    return tell


def load() -> None:
    """Import what ranks need; MPI is initialised by each for itself."""
    kit = os.environ["RINGSIDE_JOB_KIT"]
    sys.path.insert(0, kit)
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI  # noqa: F401

    from ringside.network import codec  # noqa: F401

    sys.path.remove(kit)


def be_rank(number: int, first_pipe: int) -> int:
    """Run the driver as a rank of a world; returns its exit status.

    A daemon of its own would keep mpiexec from ending, so none is started.
    """
    from mpi4py import MPI

    from ringside.ranks import seccomp

    MPI.Init_thread()
    # After MPI has started what it needs, and before the first line of the student's.
    seccomp.refuse_processes(os.getpid())
    os.environ["RINGSIDE_JOB_WORLD"] = str(number)
    os.environ["RINGSIDE_JOB_PIPE"] = _beside(f"pipe{first_pipe + MPI.COMM_WORLD.rank}")
    status = 0
    try:
        runpy.run_path(_beside("driver.py"), run_name="__main__")
    except BaseException:
        traceback.print_exc()
        status = 1
    MPI.Finalize()
    return status


def main(role: str, *words: str) -> Callable[[], int]:
    """The nursery, or a rank that must import for itself."""
    if role == "alone":
        load()
        status = be_rank(int(words[0]), int(words[1]))
        return lambda: status
    return nurse(words[0], [int(word) for word in words[1:]])


if __name__ == "__main__":
    # An exit by the ordinary way: MPICH takes leave of mpiexec in the last moment.
    sys.exit(main(*sys.argv[1:])())
