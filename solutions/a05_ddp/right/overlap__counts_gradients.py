"""A class counts what is missing; each request is waited for and divided in turn."""

import numpy as np
from mpi4py import MPI


class Queue:
    def __init__(self, comm, buckets, flats):
        self.comm, self.flats = comm, flats
        self.bucket_of = {index: k for k, bucket in enumerate(buckets) for index in bucket}
        self.missing = [len(bucket) for bucket in buckets]
        self.started = []

    def ready(self, index):
        self.missing[self.bucket_of[index]] -= 1
        while self.missing[len(self.started) :][:1] == [0]:
            flat = self.flats[len(self.started)]
            self.started.append(self.comm.Iallreduce(MPI.IN_PLACE, flat, op=MPI.SUM))

    def drain(self):
        for request, flat in zip(self.started, self.flats, strict=True):
            request.Wait()
            np.multiply(flat, 1 / self.comm.size, out=flat)


def flat_buckets(model, buckets):
    params, flats = model.parameters(), []
    for bucket in buckets:
        ends = np.cumsum([params[index].size for index in bucket])
        flat = np.empty(ends[-1], params[bucket[0]].dtype)
        for index, part in zip(bucket, np.split(flat, ends[:-1]), strict=True):
            layer, k = model.owners()[index]
            layer.grads[k] = part.reshape(params[index].shape)
        flats.append(flat)
    return flats


def backward(comm, model, grad_output, buckets, flats):
    queue = Queue(comm, buckets, flats)
    index = len(model.parameters())
    for layer in model.layers[::-1]:
        grad_output = layer.backward(grad_output)
        for _ in layer.params:
            index -= 1
            queue.ready(index)
    queue.drain()
    return grad_output


def finish_s(ready_s, end_s, buckets, bucket_s):
    free_s = 0.0
    for number, bucket in enumerate(buckets):
        begin_s = np.max([ready_s[index] for index in bucket] + [free_s])
        free_s = begin_s + bucket_s[number]
    return float(np.maximum(end_s, free_s))
