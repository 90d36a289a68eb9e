"""What each all-reduce costs, in closed form, and which one to take.

A message of b bytes between two ranks takes ``alpha_s + b * beta_s_per_byte``, so one of no bytes
takes ``alpha_s``. A rank sends one message at a time and receives one at a time; its send and its
receive may overlap. Additions cost nothing. That is the port model of ``ringside.Machine``.

Each formula is the makespan of the program that its docstring describes, from the moment when
all ranks start until the last one returns. Vectors divide evenly: ``nbytes`` is a multiple of
``world_size`` and of every power of two below it, and the halves and shards are equal. All
links are alike: use ``machine.alpha_s`` and ``machine.beta_s_per_byte`` only. Each result is
checked to 1e-6 relative; on one rank every formula is 0.
"""

from ringside import Machine


def star_s(nbytes: int, world_size: int, machine: Machine) -> float:
    """Seconds of the star: rank 0 receives from each other rank in turn, then sends to each.

    All calls block, so no two messages overlap.
    """
    ### BEGIN SOLUTION
    return 2 * (world_size - 1) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)
    ### END SOLUTION


def sharded_server_s(nbytes: int, world_size: int, machine: Machine) -> float:
    """Seconds of the sharded server: p - 1 steps to collect the shards, p - 1 to hand them out.

    In step k every rank calls one blocking Sendrecv, to rank + k and from rank - k.
    """
    ### BEGIN SOLUTION
    shard_bytes = nbytes / world_size
    return 2 * (world_size - 1) * (machine.alpha_s + shard_bytes * machine.beta_s_per_byte)
    ### END SOLUTION


def ring_s(nbytes: int, world_size: int, machine: Machine) -> float:
    """Seconds of the ring: p - 1 steps of reduce-scatter, p - 1 of all-gather.

    In each step every rank calls one blocking Sendrecv of one shard.
    """
    ### BEGIN SOLUTION
    shard_bytes = nbytes / world_size
    return 2 * (world_size - 1) * (machine.alpha_s + shard_bytes * machine.beta_s_per_byte)
    ### END SOLUTION


def recursive_doubling_s(nbytes: int, world_size: int, machine: Machine) -> float:
    """Seconds of recursive doubling: one Sendrecv of the whole vector in each step.

    Where ``world_size`` is no power of two, the ranks beyond the largest one below send their
    vectors to partners before the first step, and receive the result after the last.
    """
    ### BEGIN SOLUTION
    steps = world_size.bit_length() - 1
    fold = int(world_size != 2**steps)
    return (steps + 2 * fold) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)
    ### END SOLUTION


def halving_doubling_s(nbytes: int, world_size: int, machine: Machine) -> float:
    """Seconds of halving-doubling: exchanges of 1/2, 1/4, ... of the vector, then back.

    The fold, where ``world_size`` is no power of two, is that of ``recursive_doubling_s``.
    """
    ### BEGIN SOLUTION
    steps = world_size.bit_length() - 1
    core = 2**steps
    fold = int(world_size != core)
    exchanges = 2 * steps * machine.alpha_s
    exchanges += 2 * (core - 1) / core * nbytes * machine.beta_s_per_byte
    return exchanges + 2 * fold * (machine.alpha_s + nbytes * machine.beta_s_per_byte)
    ### END SOLUTION


def choose(nbytes: int, world_size: int, machine: Machine) -> str:
    """Name the fastest of the five: ``"star"``, ``"sharded_server"``, ``"ring"``,
    ``"recursive_doubling"`` or ``"halving_doubling"``.

    By the formulas above, the choice may take at most 5 % longer than the fastest. Here
    ``nbytes`` need not divide evenly: 100 bytes on 3 ranks make shards of 33.3 bytes.
    """
    ### BEGIN SOLUTION
    predicted_s = {
        "star": star_s(nbytes, world_size, machine),
        "sharded_server": sharded_server_s(nbytes, world_size, machine),
        "ring": ring_s(nbytes, world_size, machine),
        "recursive_doubling": recursive_doubling_s(nbytes, world_size, machine),
        "halving_doubling": halving_doubling_s(nbytes, world_size, machine),
    }
    return min(predicted_s, key=predicted_s.get)
    ### END SOLUTION
