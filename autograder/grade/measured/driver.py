"""What runs on each rank of a measured world: wait for an order, call, put the result into memory.

The ranks are started by ``mpi_nursery`` or ``gloo_nursery``. Two descriptors a rank lead out, which
``RINGSIDE_JOB_RANKS`` names (``socket,memory`` of rank 0, of rank 1, ...): a socket for orders and
replies, and a memory shared with the grader, the arguments in its first ``RINGSIDE_JOB_ARGUMENTS``
bytes and the result behind them. Nothing here is trusted: this process runs the student's code, so
the clock is the grader's, and a result counts that lies in memory when the grader stops the ranks.
"""

import mmap
import os
import socket
import struct
import sys
from typing import Any

ORDER = struct.Struct("<QQQ")  # nonce, what (CALL or ECHO), bytes of the arguments
REPLY = struct.Struct("<QQQ")  # nonce, VALUE or ERROR, bytes of the result
CALL, ECHO, VALUE, ERROR = range(4)


def main() -> None:
    """Announce this rank, then obey until the socket closes."""
    sys.path[:0] = [os.environ["RINGSIDE_JOB_KIT"], os.environ["RINGSIDE_JOB_MODULES"]]
    from ringside.network import codec
    from ringside.ranks import seccomp
    from ringside.targets import find

    comm, rank, convert, back = _torch() if "torch" in sys.modules else _mpi()
    channel, memory = _own(rank)
    results = memoryview(memory)[int(os.environ["RINGSIDE_JOB_ARGUMENTS"]) :]
    # Before the student's module is imported: its lines may not leave these cores.
    seccomp.refuse_moving()

    def reply(nonce: int, kind: int, value: object) -> None:
        at = 0
        for part in codec.encode_parts(value):
            results[at : at + len(part)] = part
            at += len(part)
        channel.sendall(REPLY.pack(nonce, kind, at))

    value: object = None
    nonce = 0
    try:
        function = find(os.environ["RINGSIDE_JOB_TARGET"])
        reply(nonce, VALUE, None)
        while len(order := channel.recv(ORDER.size, socket.MSG_WAITALL)) == ORDER.size:
            nonce, what, nbytes = ORDER.unpack(order)
            arguments = codec.decode(memoryview(memory)[:nbytes], copy=False)
            args = convert(arguments)
            if what == CALL:
                value = function(comm, *args)
                if value is None and args:
                    value = args[0]  # a function that overwrites what it gets
            reply(nonce, VALUE, back(value))
    except BaseException as error:
        reply(nonce, ERROR, f"{type(error).__name__}: {error}"[:300])
        channel.recv(1)  # the grader ends all ranks; others may wait for this one
    os._exit(0)


def _own(rank: int) -> tuple[socket.socket, mmap.mmap]:
    """This rank's descriptors; those of the others are closed."""
    pairs = [
        tuple(map(int, pair.split(","))) for pair in os.environ["RINGSIDE_JOB_RANKS"].split(";")
    ]
    mine = pairs.pop(rank)
    for pair in pairs:
        os.close(pair[0])
        os.close(pair[1])
    return socket.socket(fileno=mine[0]), mmap.mmap(mine[1], 0)


def _mpi() -> Any:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    return comm, comm.rank, lambda value: value, lambda value: value


def _torch() -> Any:
    import torch.distributed as dist

    from ringside.pytorch import tensors

    group = dist.new_group()
    if dist.get_backend() != "nccl":
        return group, dist.get_rank(), tensors.from_arrays, tensors.to_arrays

    # The copy to the CPU waits for the GPU: without it a reply would come before the result.
    def there(value: Any) -> Any:
        return _moved(tensors.from_arrays(value), "cuda")

    def back(value: Any) -> Any:
        return tensors.to_arrays(_moved(value, "cpu"))

    return group, dist.get_rank(), there, back


def _moved(value: Any, device: str) -> Any:
    if hasattr(value, "detach"):
        return value.detach().to(device)
    if isinstance(value, (tuple, list)):
        return type(value)(_moved(item, device) for item in value)
    if isinstance(value, dict):
        return {key: _moved(item, device) for key, item in value.items()}
    return value


if __name__ == "__main__":
    main()
