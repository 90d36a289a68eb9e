"""Heat in a square plate: blocks on a Cartesian grid of ranks, halos of rows and of columns."""

import numpy as np
from mpi4py import MPI

SIZE, STEPS = 24, 40

comm = MPI.COMM_WORLD
grid = comm.Create_cart(MPI.Compute_dims(comm.size, 2), periods=(False, False))
block = tuple(SIZE // extent for extent in grid.dims)
rows, columns = block
plate = np.zeros((rows + 2, columns + 2))
if grid.coords[0] == 0:
    plate[0, :] = 100.0  # the hot edge

# Its own border and its halo, in both directions of both dimensions.
column = MPI.DOUBLE.Create_vector(rows, 1, columns + 2).Commit()
flat = plate.reshape(-1)
up, down = grid.Shift(0, 1)
left, right = grid.Shift(1, 1)
width = columns + 2
for _ in range(STEPS):
    requests = [
        grid.Isend(plate[1, 1:-1], up),
        grid.Isend(plate[-2, 1:-1], down),
        grid.Isend([flat[width + 1 :], 1, column], left),
        grid.Isend([flat[2 * width - 2 :], 1, column], right),
        grid.Irecv(plate[0, 1:-1], up),
        grid.Irecv(plate[-1, 1:-1], down),
        grid.Irecv([flat[width:], 1, column], left),
        grid.Irecv([flat[2 * width - 1 :], 1, column], right),
    ]
    MPI.Request.Waitall(requests)
    inner = (plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]) / 4
    change = np.array(np.abs(inner - plate[1:-1, 1:-1]).max())
    plate[1:-1, 1:-1] = inner
    comm.Allreduce(MPI.IN_PLACE, change, op=MPI.MAX)
column.Free()

blocks = grid.gather((grid.coords, plate[1:-1, 1:-1].copy()))
if grid.rank == 0:
    whole = np.zeros((SIZE, SIZE))
    for (i, j), part in blocks:
        whole[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns] = part
    print(f"grid {grid.dims}, last change {change:.12f}")
    print("middle column", np.round(whole[::6, SIZE // 2], 9).tolist())
