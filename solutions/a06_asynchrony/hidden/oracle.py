"""What must come out: the checks that students have, too, and closed forms."""

from pathlib import Path

import numpy as np

from ringside.checking.examples import beside
from ringside.timing.machine import Machine
from solutions.a06_asynchrony.local_loss import FLOPS_PER_ELEMENT

SOLUTION = Path(__file__).resolve().parents[1]
examples = beside(SOLUTION / "server.py")


# -- local_sgd -------------------------------------------------------------------------------------


def local_sgd_bytes(case) -> int:
    """What a rank may send: rings around all ranks, one for each array and average."""
    p, itemsize = case.world_size, np.dtype(case.dtype).itemsize
    elements = sum(-(-int(np.prod(shape)) // p) for shape in case.shapes)
    return case.rounds * 2 * (p - 1) * elements * itemsize


def local_sgd_s(case, machine: Machine) -> float:
    """The time of all gradients, and of a ring of all parameters for each average."""
    gradient_s = machine.compute_s(FLOPS_PER_ELEMENT * case.n, 0)
    shard = -(-case.n // case.world_size) * np.dtype(case.dtype).itemsize
    ring_s = 2 * (case.world_size - 1) * (machine.alpha_s + shard * machine.beta_s_per_byte)
    return case.num_steps * gradient_s + case.rounds * ring_s


def data_parallel(case) -> list[np.ndarray]:
    """Data-parallel SGD: a step along the mean of all ranks' gradients."""
    params, losses, lr = case.inputs()
    w = [np.asarray(param, "float64") for param in params]
    for step in range(case.num_steps):
        for k in range(len(w)):
            gradients = [a[k] * (w[k] - c[step % len(c)][k]) for a, c in losses]
            w[k] = w[k] - lr * np.mean(gradients, axis=0)
    return [np.asarray(each).astype(case.dtype) for each in w]


# -- gossip ----------------------------------------------------------------------------------------


def gossip_s(case, machine: Machine) -> float:
    """The time of all rounds in which ranks talk to all neighbours at once."""
    nbytes = 2 * case.degree * case.nbytes  # a port may idle while it waits for its turn elsewhere
    return case.num_rounds * (machine.alpha_s + nbytes * machine.beta_s_per_byte)


def slowest_wave(world_size: int) -> tuple[np.ndarray, float]:
    """An eigenvector of a ring's Metropolis weights, and its eigenvalue (1 + 2 cos(2 pi / p)) / 3.

    It is the second largest: of all that isn't the mean, nothing shrinks more slowly.
    """
    angle = 2 * np.pi / world_size
    return np.cos(angle * np.arange(world_size)), (1 + 2 * float(np.cos(angle))) / 3
