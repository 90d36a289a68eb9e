"""One receive is posted for each neighbour, and posted again; ``Waitany`` where nothing is there."""

import numpy as np
from model import loss, loss_gradient
from mpi4py import MPI


def run(comm, piece, params, batch_sizes, limit, inputs=None, targets=None):
    rank, last = comm.Get_rank(), comm.Get_size() - 1
    count, dtype = len(batch_sizes), params[0].dtype
    widths = {"F": params[0].shape[0], "B": params[-1].shape[0]}
    sources = {kind: s for kind, s in (("F", rank - 1), ("B", rank + 1)) if 0 <= s <= last}
    got, posted, ready = {"F": 0, "B": 0}, {}, {"F": [], "B": []}

    def post(kind):
        if kind in sources and got[kind] < count:
            buffer = np.empty(max(batch_sizes) * widths[kind], dtype)
            posted[kind] = comm.Irecv(buffer, sources[kind], MPI.ANY_TAG), buffer

    def take(kind, status):
        _, buffer = posted.pop(kind)
        m = status.Get_tag()
        ready[kind].append((m, buffer[: batch_sizes[m] * widths[kind]].reshape(-1, widths[kind])))
        got[kind] += 1
        post(kind)

    def poll():
        for kind in list(posted):
            status = MPI.Status()
            while kind in posted and posted[kind][0].Test(status):
                take(kind, status)

    post("F")
    post("B")
    begun = done = 0
    kept, sends, parts, losses = {}, [], [], []
    while done < count:
        poll()
        may_begin = rank == 0 and begun < count and begun - done < limit
        if not (ready["B"] or ready["F"] or may_begin):
            status, kinds = MPI.Status(), list(posted)
            which = MPI.Request.Waitany([posted[kind][0] for kind in kinds], status)
            take(kinds[which], status)
            continue
        if ready["B"]:
            m, dy = ready["B"].pop(0)
            dx, own = piece.backward(m, params, kept.pop(m), dy)
            parts.append(own)
            done += 1
            if rank > 0:
                sends.append(comm.Isend(dx, rank - 1, m))
            continue
        m, x = (begun, inputs[begun]) if may_begin else ready["F"].pop(0)
        y, kept[m] = piece.forward(m, params, x)
        begun += 1
        if rank == last:
            share = len(y) / sum(batch_sizes)
            losses.append(share * loss(y, targets[m]))
            ready["B"].append((m, loss_gradient(y, targets[m]) * dtype.type(share)))
        else:
            sends.append(comm.Isend(y, rank + 1, m))
    MPI.Request.Waitall(sends)
    return (sum(losses) if rank == last else None), [sum(each) for each in zip(*parts)]
