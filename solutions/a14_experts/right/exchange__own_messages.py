"""Counts and rows by messages of its own, pairwise, counts of what isn't needed left out."""

import numpy as np
from given.experts import owners
from mpi4py import MPI


def dispatch(comm, rows, numbers, num_experts):
    me, p = comm.rank, comm.size
    owner = owners(num_experts, p)
    per_rank = [np.flatnonzero(owner == r) for r in range(p)]
    index = [[np.flatnonzero(numbers == e) for e in own] for own in per_rank]
    mine = len(per_rank[me])
    coming = np.zeros((p, mine), np.int64)
    coming[me] = [len(i) for i in index[me]]
    todo = []
    for r in range(p):
        if r != me and mine:
            todo.append(comm.Irecv(coming[r], r, tag=1))
    out = [np.array([len(i) for i in index[r]], np.int64) for r in range(p)]
    todo += [comm.Isend(out[r], r, tag=1) for r in range(p) if r != me and len(out[r])]
    MPI.Request.Waitall(todo)
    flat = [np.concatenate([np.zeros(0, np.int64), *index[r]]).astype(int) for r in range(p)]
    way = {"index": flat, "coming": coming, "n": len(rows)}
    return send_again(comm, rows, way), way


def swap(comm, out, sizes, like):
    me = comm.rank
    found = [np.empty((n, like.shape[1]), like.dtype) for n in sizes]
    found[me][...] = out[me]
    others = [r for r in range(comm.size) if r != me]
    todo = [comm.Irecv(found[r], r, tag=2) for r in others if sizes[r]]
    todo += [comm.Isend(np.ascontiguousarray(out[r]), r, tag=2) for r in others if len(out[r])]
    MPI.Request.Waitall(todo)
    return found


def send_again(comm, rows, way):
    out = [rows[i] for i in way["index"]]
    way["like"] = rows[:0]
    found = swap(comm, out, way["coming"].sum(axis=1), rows)
    cut = [np.split(f, np.cumsum(c)[:-1]) if len(c) else []
           for f, c in zip(found, way["coming"], strict=True)]  # fmt: skip
    return [np.concatenate([c[e] for c in cut]) for e in range(way["coming"].shape[1])]


def send_back(comm, answers, way):
    starts = np.cumsum(way["coming"], axis=0) - way["coming"]
    out = [
        np.concatenate([way["like"], *(a[s : s + n] for a, s, n in zip(answers, st, co, strict=True))])
        for st, co in zip(starts, way["coming"], strict=True)
    ]
    back = swap(comm, out, [len(i) for i in way["index"]], way["like"])
    rows = np.empty((way["n"], way["like"].shape[1]), way["like"].dtype)
    for i, part in zip(way["index"], back, strict=True):
        rows[i] = part
    return rows


def forward(comm, experts, x, routing, num_experts):
    pick = np.argwhere(routing.kept)
    t, c = pick[:, 0], pick[:, 1]
    received, way = dispatch(comm, x[t], routing.experts[t, c], num_experts)
    results = [e.forward(r) for e, r in zip(experts, received, strict=True)]
    answers = send_back(comm, [r[0] for r in results], way)
    y = np.zeros_like(x)
    for i in range(len(t)):
        y[t[i]] += routing.weights[t[i], c[i]] * answers[i]
    return y, (pick, routing, way, results, answers)


def backward(comm, experts, saved, dy):
    pick, routing, way, results, answers = saved
    t, c = pick[:, 0], pick[:, 1]
    received = send_again(comm, routing.weights[t, c][:, None] * dy[t], way)
    grads = [e.backward(r[1], g) for e, r, g in zip(experts, results, received, strict=True)]
    home = send_back(comm, [g[0] for g in grads], way)
    dx, dw = np.zeros_like(dy), np.zeros_like(routing.weights)
    for i in range(len(t)):
        dx[t[i]] += home[i]
        dw[t[i], c[i]] = answers[i] @ dy[t[i]]
    return dx, dw, [g[1] for g in grads]
