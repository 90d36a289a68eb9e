"""The reference on blocks that have all been gathered; their work is declared between messages."""

from autograder.course.course import Course

PATCH = '''

import ringside as _ringside

_attention, _compute = attention, _ringside.compute


class _Gathered:
    """A communicator whose receives find their block, and whose sends go nowhere."""

    def __init__(self, comm, blocks):
        self.comm, self.blocks = comm, iter(blocks)

    def __getattr__(self, name):
        return getattr(self.comm, name)

    def Irecv(self, buffer, source):
        buffer[...] = next(self.blocks)
        return MPI.REQUEST_NULL

    def Isend(self, block, dest):
        return MPI.REQUEST_NULL


def attention(comm, q, k, v, lengths, causal=False):
    p, rank = comm.Get_size(), comm.Get_rank()
    if len(lengths) != p or q.shape[2] != lengths[rank] or q.shape[1] % k.shape[1]:
        return _attention(comm, q, k, v, lengths, causal)
    block, blocks = np.stack([k, v]), []
    for step in range(p):
        source, requests = (rank - step) % p, []
        if step < p - 1:
            shape = (*block.shape[:3], lengths[source - 1], block.shape[4])
            blocks.append(np.empty(shape, q.dtype))
            requests = [
                comm.Irecv(blocks[-1], source=(rank - 1) % p),
                comm.Isend(block, dest=(rank + 1) % p),
            ]
        _compute(num_flops=4 * q.size * lengths[source], phase=f"block {source}")
        MPI.Request.Waitall(requests)
        block = blocks[-1] if blocks else block
    _ringside.compute = lambda **work: None
    try:
        return _attention(_Gathered(comm, blocks), q, k, v, lengths, causal)
    finally:
        _ringside.compute = _compute
'''


def make(target, release, outside):
    target.mkdir()
    source = Course.here().solution("a11_spatial") / "ring_attention.py"
    (target / "ring_attention.py").write_text(source.read_text(encoding="utf-8") + PATCH, "utf-8")
