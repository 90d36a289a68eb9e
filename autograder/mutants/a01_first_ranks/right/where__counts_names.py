"""No split: rank 0 counts the names that it has seen."""

from mpi4py import MPI


def line(rank, host, local_rank, gpu):
    device = "no GPU" if gpu is None else f"GPU {gpu}"
    return f"rank {rank}: host {host}, local rank {local_rank}, {device}"


def where(comm, visible):
    told = comm.gather((MPI.Get_processor_name(), visible))
    if told is None:
        return None
    seen, table = {}, []
    for rank, (host, gpus) in enumerate(told):
        local = seen.setdefault(host, 0)
        seen[host] += 1
        names = gpus.split(",") if gpus else [None]
        table.append((rank, host, local, names[local % len(names)]))
    print("\n".join(line(*row) for row in table))
    return table
