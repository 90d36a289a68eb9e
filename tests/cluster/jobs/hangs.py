"""Never ends by itself."""

import time

from mpi4py import MPI

MPI.COMM_WORLD.Barrier()
while True:
    time.sleep(1)
