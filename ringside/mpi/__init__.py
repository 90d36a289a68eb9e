"""mpi4py inside a rank: the same names and behaviour, on Ringside's network.

``install()`` puts it in mpi4py's place in this process; outside a rank nothing of it is in the way,
so the same student file runs under ``mpiexec`` with the real one.
"""

from ringside.mpi.install import communicator, install

__all__ = ["communicator", "install"]
