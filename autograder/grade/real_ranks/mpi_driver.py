"""What runs under a real ``mpiexec`` in grading: the student's functions, call after call.

The inputs are a codec list: for each world its calls, ``(target, [arguments of each rank])``. Each
rank sends back one frame a call, its length and ``codec(("value", v))`` or ``("error", bytes)``, a
``ringside.network.failure``; an error is its last. ``autograder.grade.real_ranks.job`` says where
inputs and results go.
"""

import os
import struct
import sys


def main() -> None:
    """Make all calls, each on a communicator of its own."""
    sys.path[:0] = [os.environ["RINGSIDE_JOB_KIT"], os.environ["RINGSIDE_JOB_MODULES"]]
    from mpi4py import MPI

    from ringside.network import codec, failure
    from ringside.targets import find

    with open(os.environ["RINGSIDE_JOB_INPUTS"], "rb") as stream:
        calls = codec.decode(stream.read())[int(os.environ["RINGSIDE_JOB_WORLD"])]
    world = MPI.COMM_WORLD
    with open(os.environ["RINGSIDE_JOB_PIPE"], "wb") as results:
        for target, arguments in calls:
            comm = world.Dup()
            try:
                call = find(target)
                frame = codec.encode(("value", call(comm, *arguments[world.rank])))
            except BaseException as error:
                report = failure.encode_caught(error, os.environ["RINGSIDE_JOB_MODULES"])
                frame = codec.encode(("error", report))
            results.write(struct.pack("<I", len(frame)) + frame)
            results.flush()
            if codec.decode(frame)[0] == "error":  # the other ranks may wait for this one
                world.Abort(1)
            comm.Free()


if __name__ == "__main__":
    main()
