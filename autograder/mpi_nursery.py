"""Inside the sandbox: start real MPI ranks as forks of one process that has imported all they need.

``mpiexec`` starts p processes as ever. Each of them hands what it was given, the environment, the
descriptor that leads to ``mpiexec`` and its output, over to the nursery, and ends when its rank
does; the rank is a fork of the nursery, which holds libraries only and has not initialised MPI::

    nursery --- mpiexec -n 3 --- stand-in --environment, PMI_FD, output--> nursery
       |                         stand-in                                     |
       +--fork--> rank 0, 1, 2 <----------------------------------------------+

So NumPy is imported once and not once a rank. An ``mpiexec`` that gives no such descriptor starts
ranks that import for themselves.

    python -I nursery.py nursery MPIEXEC P ...    worlds of P ranks, one after another
    python -I -S nursery.py stand-in SOCKET WORLD FIRST_PIPE
"""

import os
import sys

HANDS_OVER = "PMI_FD"


def stand_in(path, world, first_pipe):
    """Be what mpiexec started, on behalf of a rank that the nursery forks; returns its status."""
    if HANDS_OVER not in os.environ:
        os.environ["RINGSIDE_JOB_WORLD"] = world
        os.execv(sys.executable, [sys.executable, "-I", __file__, "alone", first_pipe])
    import _socket  # the module socket takes twice the time that all the rest here takes

    up = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    up.connect(path)
    given = int(os.environ[HANDS_OVER])
    rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (given, 1, 2))
    variables = "\0".join(f"{name}={value}" for name, value in os.environ.items())
    text = variables.encode("utf-8", "surrogateescape")
    up.sendmsg(
        [len(text).to_bytes(4, "little") + text],
        [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)],
    )
    for fd in (given, 1, 2):  # if the rank ends, mpiexec must see these end
        os.close(fd)
    status = b""
    while piece := up.recv(16):
        status += piece
    return status[0] if status else 1


def nurse(mpiexec, worlds):
    """Start the worlds; returns the exit status, or in a rank a function that ends it."""
    import shutil
    import subprocess
    import tempfile

    load()
    folder = tempfile.mkdtemp()
    status = first_pipe = 0
    for number, world_size in enumerate(worlds):
        listener = _listen(f"{folder}/{number}")
        command = [mpiexec, "-n", str(world_size), sys.executable, "-I", "-S", __file__]
        command += ["stand-in", f"{folder}/{number}", str(number), str(first_pipe)]
        job = subprocess.Popen(command)
        stand_ins = _accept(listener, world_size, job)
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
            os.kill(pid, 9)  # whoever waits for one that has failed
            os.waitpid(pid, 0)
        first_pipe += world_size
    shutil.rmtree(folder)
    return status


def _listen(path):
    import socket

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(64)
    listener.settimeout(0.05)
    return listener


def _accept(listener, world_size, job):
    """The stand-ins of a world; none if mpiexec ends without them."""
    stand_ins = []
    while len(stand_ins) < world_size and job.poll() is None:
        try:
            stand_ins.append(listener.accept()[0])
        except TimeoutError:
            continue
    listener.close()
    return stand_ins if len(stand_ins) == world_size else []


def _take_over(up, number, first_pipe):
    """Become the rank that a stand-in stands for; returns what tells it how the rank ended."""
    import socket

    up.settimeout(None)
    text, fds, _, _ = socket.recv_fds(up, 1 << 16, 3)
    length = int.from_bytes(text[:4], "little")
    while len(text) < length + 4:
        text += up.recv(1 << 16)
    os.environ.clear()
    for variable in text[4:].decode("utf-8", "surrogateescape").split("\0"):
        name, _, value = variable.partition("=")
        os.environ[name] = value
    given, out, err = fds
    os.environ[HANDS_OVER] = str(given)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    os.environ["RINGSIDE_JOB_WORLD"] = str(number)
    status = be_rank(first_pipe)
    return lambda: (up.send(bytes([status])), status)[1]


def load():
    """Import what ranks need; MPI is initialised by each for itself."""
    kit = os.environ["RINGSIDE_JOB_KIT"]
    sys.path.insert(0, kit)
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI  # noqa: F401

    from ringside import codec, seccomp  # noqa: F401

    sys.path.remove(kit)


def be_rank(first_pipe):
    """Run the driver as a rank; returns its exit status.

    A daemon of its own would keep mpiexec from ending, so none is started.
    """
    import runpy
    import traceback

    from mpi4py import MPI

    from ringside import seccomp

    MPI.Init_thread()
    seccomp.refuse_processes(os.getpid())
    folder = os.environ["RINGSIDE_JOB_RESULTS"]
    os.environ["RINGSIDE_JOB_PIPE"] = f"{folder}/pipe{first_pipe + MPI.COMM_WORLD.rank}"
    status = 0
    try:
        runpy.run_path(f"{folder}/driver.py", run_name="__main__")
    except BaseException:
        traceback.print_exc()
        status = 1
    MPI.Finalize()
    return status


def main(role, *words):
    if role == "stand-in":
        return stand_in(*words)
    if role == "alone":
        load()
        return be_rank(int(*words))
    return nurse(words[0], [int(word) for word in words[1:]])


if __name__ == "__main__":
    answer = main(*sys.argv[1:])
    # An exit by the ordinary way: MPICH takes leave of mpiexec in the last moment.
    sys.exit(answer() if callable(answer) else answer)
