"""Overlap: the all-reduce of a bucket travels while the next layers' backward pass computes.

    one after another           with overlap, two buckets

    compute  bbbbbbbb           compute  bbbbbbbb           b: a layer's backward pass
    network          11112222   network      1111-2222      1, 2: the buckets' all-reduces
                                             ^ starts when bucket 1's last gradient is ready

``model`` is a ``model.Model``, on each rank the same parameters and another part of the batch, of
equal length. ``buckets`` are lists of indices of the model's parameters. Each parameter is in
exactly one of them, no bucket is empty, and all ranks have the same ones. Indices stand in any
order: ``[[3, 5], [4], [0], [1, 2]]`` is right. Parameters are float32 or float64, all alike.

- Communicate by ``Iallreduce`` on ``comm`` only, and complete what you start.
- Every gradient array of the model is a part of one flat buffer of its bucket, so nothing is
  copied: ``backward`` allocates, beside what the layers need, less than a quarter of the
  gradients' bytes.
- A started all-reduce owns its buffer until it is complete: neither read nor write it.
- The only thing kept from one call to the next is the buffers.
"""

import numpy as np
from given.model import Model, loss_gradient
from mpi4py import MPI


def flat_buckets(model: Model, buckets: list[list[int]]) -> list[np.ndarray]:
    """Make one flat buffer a bucket, and let the model's gradients be parts of them.

    Args:
        model: its layers' ``grads`` are replaced by arrays of the same shapes that share memory
            with the buffers; what they held need not be kept. ``model.owners()`` says which
            parameter is where.
        buckets: lists of indices of the model's parameters.

    Returns:
        A list of one-dimensional arrays, contiguous, one a bucket: the gradients of its
        parameters in the bucket's order, row by row, and nothing else.
    """
    ### BEGIN SOLUTION
    owners = model.owners()
    flats = []
    for bucket in buckets:
        params = [owners[index][0].params[owners[index][1]] for index in bucket]
        flat = np.zeros(sum(param.size for param in params), params[0].dtype)
        lo = 0
        for index, param in zip(bucket, params, strict=True):
            layer, k = owners[index]
            layer.grads[k] = flat[lo : lo + param.size].reshape(param.shape)
            lo += param.size
        flats.append(flat)
    return flats
    ### END SOLUTION


def backward(
    comm: MPI.Comm,
    model: Model,
    grad_output: np.ndarray,
    buckets: list[list[int]],
    flats: list[np.ndarray],
) -> np.ndarray:
    """The backward pass, with each bucket's all-reduce begun as soon as it may be.

    Args:
        comm: the ranks that take part; p of them.
        model: after its forward pass; its gradients are parts of ``flats``.
        grad_output: gradient with respect to the output.
        buckets: lists of indices of the model's parameters; the order of the lists is the order of
            launches, on every rank, whichever bucket is full first.
        flats: what ``flat_buckets(model, buckets)`` returned.

    Returns:
        This rank's gradient with respect to the model's input. The model's gradients hold the
        mean over all ranks.

    - Communication: exactly one all-reduce a bucket, of its elements, in the order of ``buckets``.
    - Schedule: a bucket's all-reduce begins once all gradients of this bucket and of those before
      it are there, before the backward pass of the next layer that has parameters.
    - Time: at most 1.05 times ``finish_s`` of a model in which all-reduces follow one another,
      each of ``2 (p - 1) (alpha + ceil(n / p) * itemsize * beta)`` seconds for n elements. Half
      the points up to 1.3 times.
    """
    ### BEGIN SOLUTION
    owners = model.owners()
    missing = [{id(owners[index][0]) for index in bucket} for bucket in buckets]
    requests = []
    for layer in reversed(model.layers):
        grad_output = layer.backward(grad_output)
        for layers in missing:
            layers.discard(id(layer))
        while len(requests) < len(buckets) and not missing[len(requests)]:
            requests.append(comm.Iallreduce(MPI.IN_PLACE, flats[len(requests)]))
    MPI.Request.Waitall(requests)
    for flat in flats:
        flat /= comm.Get_size()
    return grad_output
    ### END SOLUTION


def finish_s(
    ready_s: list[float], end_s: float, buckets: list[list[int]], bucket_s: list[float]
) -> float:
    """When backward pass and all-reduces are done, if all-reduces follow one another.

    A bucket's all-reduce begins when all its gradients are ready and the one before it is done.

    Args:
        ready_s: per parameter, when its gradient is ready; seconds from the pass's beginning.
        end_s: when the backward pass has computed everything.
        buckets: lists of indices of ``ready_s``, in the order of launches; there may be none.
        bucket_s: per bucket, what its all-reduce takes alone, in seconds.

    Returns:
        Seconds from the pass's beginning until everything is done.
    """
    ### BEGIN SOLUTION
    done_s = 0.0
    for bucket, duration_s in zip(buckets, bucket_s, strict=True):
        done_s = max(done_s, max(ready_s[index] for index in bucket)) + duration_s
    return max(end_s, done_s)
    ### END SOLUTION


def measured_step(
    comm: MPI.Comm,
    params: list[np.ndarray],
    x: np.ndarray,
    target: np.ndarray,
    buckets: list[list[int]],
) -> list[np.ndarray]:
    """One step as the run on a cluster measures it: supplied, nothing to write.

    Args:
        params: weights and biases in turn, the same on all ranks.
        x, target: this rank's part of the batch.
        buckets: lists of indices of ``params``.

    Returns:
        The mean gradients, in the order of ``params``.
    """
    model = Model(params)
    flats = flat_buckets(model, buckets)
    output = model.forward(x)
    backward(comm, model, loss_gradient(output, target), buckets, flats)
    return model.gradients()
