# fails: test_star
"""Nothing to send costs nothing, not even alpha."""


def free_if_empty(formula):
    """Nothing to send takes no time."""
    return lambda nbytes, *rest: formula(nbytes, *rest) if nbytes else 0.0


@free_if_empty
def star_s(nbytes, world_size, machine):
    """Seconds of the star: rank 0 receives from each other rank in turn, then sends to each.

    All calls block, so no two messages overlap.
    """
    return 2 * (world_size - 1) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)


@free_if_empty
def sharded_server_s(nbytes, world_size, machine):
    """Seconds of the sharded server: p - 1 steps to collect the shards, p - 1 to hand them out.

    In step k every rank calls one blocking Sendrecv, to rank + k and from rank - k.
    """
    shard_bytes = nbytes / world_size
    return 2 * (world_size - 1) * (machine.alpha_s + shard_bytes * machine.beta_s_per_byte)


@free_if_empty
def ring_s(nbytes, world_size, machine):
    """Seconds of the ring: p - 1 steps of reduce-scatter, p - 1 of all-gather.

    In each step every rank calls one blocking Sendrecv of one shard.
    """
    shard_bytes = nbytes / world_size
    return 2 * (world_size - 1) * (machine.alpha_s + shard_bytes * machine.beta_s_per_byte)


@free_if_empty
def recursive_doubling_s(nbytes, world_size, machine):
    """Seconds of recursive doubling: one Sendrecv of the whole vector in each step.

    Where ``world_size`` is no power of two, the ranks beyond the largest one below send their
    vectors to partners before the first step, and receive the result after the last.
    """
    steps = world_size.bit_length() - 1
    fold = int(world_size != 2**steps)
    return (steps + 2 * fold) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)


@free_if_empty
def halving_doubling_s(nbytes, world_size, machine):
    """Seconds of halving-doubling: exchanges of 1/2, 1/4, ... of the vector, then back.

    The fold, where ``world_size`` is no power of two, is that of ``recursive_doubling_s``.
    """
    steps = world_size.bit_length() - 1
    core = 2**steps
    fold = int(world_size != core)
    exchanges = 2 * steps * machine.alpha_s
    exchanges += 2 * (core - 1) / core * nbytes * machine.beta_s_per_byte
    return exchanges + 2 * fold * (machine.alpha_s + nbytes * machine.beta_s_per_byte)


def choose(nbytes, world_size, machine):
    """Name the fastest of the five: ``"star"``, ``"sharded_server"``, ``"ring"``,
    ``"recursive_doubling"`` or ``"halving_doubling"``.

    The choice may take at most 5 % longer than the fastest, when the reference programs are
    replayed; here ``nbytes`` need not divide evenly.
    """
    predicted_s = {
        "recursive_doubling": recursive_doubling_s(nbytes, world_size, machine),
        "star": star_s(nbytes, world_size, machine),
        "sharded_server": sharded_server_s(nbytes, world_size, machine),
        "ring": ring_s(nbytes, world_size, machine),
        "halving_doubling": halving_doubling_s(nbytes, world_size, machine),
    }
    return min(predicted_s, key=predicted_s.get)
