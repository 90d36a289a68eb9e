"""ZeRO stage 2: no rank ever has the whole gradient.

The backward pass computes one layer's gradient after the other, the last layer's first. Each is
added up on the ranks that own its part of the flat vector, as soon as it is there. Then it can go.

    flat       [ layer 0 |   layer 1   | layer 2 ]       the gradients of all layers in a row
    owners     | rank 0    | rank 1    | rank 2    |     ceil(Psi / N) elements each, padded by 0

    backward of layer 2  ->  all ranks' parts to rank 2, and the beginning to rank 1
    backward of layer 1  ->  to ranks 1 and 0                       one layer, one or more owners
    backward of layer 0  ->  to rank 0

A rank keeps its shard of the sum, and of the rest the gradient of the layer that has just been
computed.

Library collectives are allowed. Upper-case ones count as a ring's: ``Reduce`` of m bytes as m on
each rank, ``Reduce_scatter`` of m bytes in all as ``m (N - 1) / N``. Lower-case ``reduce`` hands
each rank's object to every rank, which is too much.
"""

import numpy as np
from given.layers import Layer
from mpi4py import MPI


def backward(
    comm: MPI.Comm, layers: list[Layer], grad_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The backward pass through all layers, and this rank's shard of the mean gradient.

    Args:
        comm: any communicator; N ranks.
        layers: ``given.layers.Layer`` objects after their forward pass, at least one; every rank
            has the same layers, and samples of its own.
        grad_output: the gradient with respect to the last layer's output, shape ``(b, d_out)``.

    Returns:
        ``(grad_input, shard)``: the gradient with respect to the first layer's input, of this rank
        alone, and shape ``(ceil(Psi / N),)``, the shard of the mean over all ranks, of the
        gradients' dtype. Padding is 0. Psi is the sum of all ``layer.size``.

    - Values: to 1e-12 in float64, 1e-5 in float32. Psi = 11 on 4 ranks: shards of 3, the last one
      with one element of padding. With more ranks than elements some have padding alone.
    - Schedule: every layer's ``backward`` is called once. Before that of the next layer, the rank
      sends its part of this layer's gradient (all but what it owns itself), or starts the
      collective that does. A message that is started, and completed later, is in time.
    - Bytes: each rank sends and receives at most ``N ceil(Psi / N)`` elements. An all-reduce, or
      an all-gather at the end, is too much.
    - Memory: when a layer's ``backward`` is called, a rank holds at most (1) its shard and (2)
      three times the gradient of the largest layer: this gradient, a copy, and what it receives.
      Example with 12 equal layers on 4 ranks: 3 + 3 layers, half of the whole gradient.
    """
    ### BEGIN SOLUTION
    rank, psi = comm.Get_rank(), sum(layer.size for layer in layers)
    shard_size = -(-psi // comm.Get_size())
    shard, end = np.zeros(shard_size, grad_output.dtype), psi
    for layer in reversed(layers):
        grad_output, gradient = layer.backward(grad_output)
        start = end - layer.size
        for owner in range(start // shard_size, (end - 1) // shard_size + 1):
            first = owner * shard_size  # of the owner's elements in the flat vector
            lo, hi = max(start, first), min(end, first + shard_size)
            own = shard[lo - first : hi - first] if owner == rank else None
            comm.Reduce(gradient[lo - start : hi - start], own, root=owner)
        end = start
    shard /= comm.Get_size()
    return grad_output, shard
    ### END SOLUTION
