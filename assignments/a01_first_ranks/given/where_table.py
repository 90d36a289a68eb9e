"""How a rank's place is printed: nothing to write."""


def line(rank, host, local_rank, gpu):
    """One line of the table that ``where`` prints; ``gpu`` is a text, or None for none.

    >>> line(3, "node1", 1, "0")
    'rank 3: host node1, local rank 1, GPU 0'
    >>> line(3, "node1", 1, None)
    'rank 3: host node1, local rank 1, no GPU'
    """
    device = "no GPU" if gpu is None else f"GPU {gpu}"
    return f"rank {rank}: host {host}, local rank {local_rank}, {device}"
