"""The messages of one training step, for real, without the arithmetic: supplied for cost.

Each function sends what its kind of parallelism sends, in arrays of zeros of the right sizes; the
docstring of ``cost.py`` says what moves, and what for. The network counts bytes and time:

    layers = [(64, 64, 3, 16, 3, 3), (32, 32, 16, 32, 3, 3)]
    result = ringside.run("given/traffic.py:domain_parallel", 4, (layers, 2))
    sum(ringside.checking.ring_bytes.sent_as_ring(result)), result.makespan_s
"""

import numpy as np
from given.conv_sizes import Layer


def data_parallel(comm, layers, batch):
    """Every rank has all filters and some images."""
    for layer in reversed(_named(layers)):
        _sum(comm, layer.weights)


def filter_parallel(comm, layers, batch):
    """Every rank has all images and some filters of each layer."""
    layers = _named(layers)
    for layer in layers:
        counts = _counts(comm, batch * layer.outputs, layer.out_channels)
        gathered = np.zeros(sum(counts), "float32")
        comm.Allgatherv(np.zeros(counts[comm.rank], "float32"), [gathered, counts])
    for layer in reversed(layers[1:]):
        counts = _counts(comm, batch * layer.inputs, layer.in_channels)
        own = np.empty(counts[comm.rank], "float32")
        comm.Reduce_scatter(np.zeros(sum(counts), "float32"), own, counts)


def domain_parallel(comm, layers, batch):
    """Every rank has all filters and some rows of each image."""
    layers = _named(layers)
    for layer in layers:
        _trade(comm, batch * layer.in_channels * layer.width * (layer.kernel_h // 2))
    for number, layer in reversed(list(enumerate(layers))):
        if number:
            _trade(comm, batch * layer.out_channels * layer.width * (layer.kernel_h // 2))
        _sum(comm, layer.weights)


def _named(layers):
    return [Layer(*layer) for layer in layers]


def _sum(comm, count):
    comm.Allreduce(np.zeros(count, "float32"), np.empty(count, "float32"))


def _counts(comm, count, parts):
    """Elements of every rank, where ``parts`` equal parts are dealt out as evenly as possible."""
    few, more = divmod(parts, comm.size)
    return [count // parts * (few + (rank < more)) for rank in range(comm.size)]


def _trade(comm, count):
    """Zeros to and from the ranks before and after this one, all at once."""
    calls = []
    for other in {comm.rank - 1, comm.rank + 1} & set(range(comm.size)) if count else ():
        calls += [comm.Irecv(np.empty(count, "float32"), other)]
        calls += [comm.Isend(np.zeros(count, "float32"), other)]
    for call in calls:
        call.Wait()
