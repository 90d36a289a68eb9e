# fails: test_all_reduces_begin_before_the_next_layer
"""A bucket travels after the backward pass of the next layer."""

import numpy as np
from model import Model, loss_gradient
from mpi4py import MPI


def flat_buckets(model, buckets):
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


def backward(comm, model, grad_output, buckets, flats):
    owners = model.owners()
    missing = [{id(owners[index][0]) for index in bucket} for bucket in buckets]
    requests = []
    for layer in reversed(model.layers):
        if layer.params:
            full = next((k for k, layers in enumerate(missing) if layers), len(missing))
        grad_output = layer.backward(grad_output)
        while len(requests) < full:
            requests.append(comm.Iallreduce(MPI.IN_PLACE, flats[len(requests)]))
        for layers in missing:
            layers.discard(id(layer))
    while len(requests) < len(buckets):
        requests.append(comm.Iallreduce(MPI.IN_PLACE, flats[len(requests)]))
    MPI.Request.Waitall(requests)
    for flat in flats:
        flat /= comm.Get_size()
    return grad_output


def finish_s(ready_s, end_s, buckets, bucket_s):
    done_s = 0.0
    for bucket, duration_s in zip(buckets, bucket_s, strict=True):
        done_s = max(done_s, max(ready_s[index] for index in bucket)) + duration_s
    return max(end_s, done_s)


def measured_step(comm, params, x, target, buckets):
    model = Model(params)
    flats = flat_buckets(model, buckets)
    output = model.forward(x)
    backward(comm, model, loss_gradient(output, target), buckets, flats)
    return model.gradients()
