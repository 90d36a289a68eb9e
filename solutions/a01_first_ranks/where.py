"""Who is where: host, local rank and GPU of every rank, told by rank 0.

    rank 0: host node0, local rank 0, GPU 0
    rank 1: host node0, local rank 1, GPU 1
    rank 2: host node1, local rank 0, GPU 0
    rank 3: host node1, local rank 1, GPU 1

It is the first thing to run on a new cluster: ranks that are elsewhere than one thinks explain
many a slow job, and many a failed one. Run as a script, this file does it.
"""

import os

from given.where_table import line
from mpi4py import MPI


def where(comm: MPI.Comm, visible: str | None) -> list[tuple] | None:
    """Bring together where every rank is, and let rank 0 print it in order of ranks.

    The *host* is what ``MPI.Get_processor_name()`` says; ranks with equal names are on the same
    host. The *local rank* counts the ranks of ``comm`` on the same host, in their order in
    ``comm``, from 0. Ranks of a host need not be neighbours in ``comm``. Of the GPUs that a rank
    sees it takes the one at the place of its local rank. If a host has more ranks than a rank
    sees GPUs, the count begins again with the first: local rank 5 of three GPUs takes the third.

    Args:
        comm: the ranks.
        visible: this rank's environment variable CUDA_VISIBLE_DEVICES: GPUs separated by commas
            without spaces, such as ``"0,1,2,3"`` or ``"GPU-8f2a,GPU-91c0"``; None or ``""`` where
            there is none. It may differ from rank to rank.

    Returns:
        On rank 0 a list with a tuple ``(rank, host, local_rank, gpu)`` for each rank of ``comm``,
        in order of ranks; ``gpu`` is a text, or None for none. None on all others.

    Prints: rank 0 prints ``line(rank, host, local_rank, gpu)`` of each rank, in order of ranks
    (``given/where_table.py``). Other ranks print nothing: what several ranks print arrives in any
    order, whatever they wait for.

    Messages, with any calls on ``comm`` or on communicators made from it:

    - at most four collectives, and making a communicator (``Split_type``, ...) is one of them;
    - at most four point-to-point messages from each rank but 0;
    - each rank but 0 gives or sends at most 1000 bytes in all.

    A rank may be in its next call already while another one is still in this one.
    """
    ### BEGIN SOLUTION
    host = MPI.Get_processor_name()
    on_this_host = comm.Split_type(MPI.COMM_TYPE_SHARED, key=comm.Get_rank())
    local_rank = on_this_host.Get_rank()
    on_this_host.Free()
    gpus = visible.split(",") if visible else []
    gpu = gpus[local_rank % len(gpus)] if gpus else None
    places = comm.gather((comm.Get_rank(), host, local_rank, gpu), root=0)
    if comm.Get_rank() == 0:
        for place in places:
            print(line(*place))
    return places
    ### END SOLUTION


if __name__ == "__main__":
    where(MPI.COMM_WORLD, os.environ.get("CUDA_VISIBLE_DEVICES"))
