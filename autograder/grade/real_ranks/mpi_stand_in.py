"""Inside the sandbox: what ``mpiexec`` starts, on behalf of a rank that the nursery forks.

    python -I -S stand_in.py SOCKET WORLD FIRST_PIPE

``mpi_nursery`` tells the whole story. One is started for each rank, so it is short and imports next
to nothing.
"""

from __future__ import annotations

import os
import sys


def main(path: str, world: str, first_pipe: str) -> int:
    """Hand over what mpiexec gave, wait for the rank's end, and return its exit status."""
    own_hashes = "RINGSIDE_JOB_OWN_HASHES" in os.environ
    if "PMI_FD" not in os.environ or own_hashes:  # be the rank
        nursery = os.path.join(os.environ["RINGSIDE_JOB_RESULTS"], "nursery.py")
        isolated = ["-I"]
        if own_hashes:
            rank = os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or "0"
            os.environ["PYTHONHASHSEED"] = str(int(rank) + 1)
            isolated = ["-s", "-P"]  # with -I it would not read the seed
        arguments = [sys.executable, *isolated, nursery, "alone", world, first_pipe]
        os.execv(sys.executable, arguments)
    import _socket  # the module socket takes twice the time that all the rest here takes

    up = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    up.connect(path)
    fds = (int(os.environ["PMI_FD"]), 1, 2)
    rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
    variables = "\0".join(f"{name}={value}" for name, value in os.environ.items())
    text = variables.encode("utf-8", "surrogateescape")
    message = len(text).to_bytes(4, "little") + text
    up.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    for fd in fds:  # when the rank ends, mpiexec must see these end
        os.close(fd)
    status = b""
    while piece := up.recv(16):
        status += piece
    return status[0] if status else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
