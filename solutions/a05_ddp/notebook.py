# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # DDP: buckets and overlap
#
# In data-parallel training every rank computes gradients on its own part of the batch, and in
# each step all ranks need the mean. The plain way is: backward pass first, then one all-reduce
# for each gradient. In this assignment you make that fast, in the two steps that PyTorch's
# `DistributedDataParallel` and Horovod are built on:
#
# - **buckets**: many small gradients travel as few long vectors;
# - **overlap**: a bucket travels while the backward pass goes on with the layers below.
#
# At the end you will have
#
# - written both on NumPy and mpi4py, and seen each all-reduce in the timeline of every rank;
# - a model that predicts the time of a step, and its plot up to 512 ranks;
# - your own `DDP` wrapper for torch modules, which copes with unused, frozen and tied parameters;
# - measured on a real machine what overlap hides, and said in a paragraph why it is not more.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points: about 45 for values, 30 for what is sent
# and when, and the rest for safety, memory and speed in virtual time. All that the hidden suite
# asks stands in the module's docstring. The tests lie in `checks/`, where you can read them; the
# hidden suite asks the same of other cases. In `given/` are `model.py` (layers with an explicit
# backward pass, which declare their floating-point operations, so that virtual time passes for
# them) and `model_torch.py` (the same for torch).
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
import matplotlib.pyplot as plt
import numpy as np
from checks.cases import greedy, ring_s
from given.model import random_parameters

import ringside
from ringside import Machine, guess, reveal
from ringside.trace import Kind

# %load_ext ringside

cluster = Machine.load("textbook,alpha_s=1e-5")  # ten times the textbook's latency
P, WIDTHS, BATCH, WORK = 4, (64,) * 7, 16, 400.0
params = random_parameters(WIDTHS, np.random.default_rng(0))
sizes = [param.nbytes for param in params]
print(f"{len(sizes)} parameters, of {sizes[0]} and {sizes[1]} bytes in turn")

# %% [markdown]
# ## 1. Without buckets, without overlap
#
# Six layers, each with a weight and a bias. The cell runs one step on four ranks: forward,
# backward, then one blocking all-reduce for each gradient. The simulated network counts and times
# every byte; compute takes the time that `given/model.py` declares.
#
# An all-reduce of n bytes round a ring of p ranks takes `2 (p - 1) (alpha + n / p beta)`, on this
# machine with alpha = 10 µs and beta = 1 ns a byte.

# %% tags=["predict"]
guess(
    "a05/bias",
    "A bias has 64 numbers of 8 bytes. What share of the time of its all-reduce, on "
    "four ranks, is latency?",
    unit="%",
)

# %%
# %%ranks 4 --machine textbook,alpha_s=1e-5
import numpy as np
from given.model import Model, loss_gradient, random_parameters
from mpi4py import MPI

comm = MPI.COMM_WORLD
net = Model(random_parameters((64,) * 7, np.random.default_rng(0)), work=400.0)
rng = np.random.default_rng(comm.Get_rank())
x, target = rng.standard_normal((2, 16, 64))
net.backward(loss_gradient(net.forward(x), target))
for gradient in reversed(net.gradients()):
    comm.Allreduce(MPI.IN_PLACE, gradient)
    gradient /= comm.Get_size()

# %%
reveal("a05/bias", 100 * ring_s(0, P, cluster) / ring_s(sizes[1], P, cluster))

# %% [markdown]
# **Explain.** Half of the all-reduces are of biases. How many bytes are in them, and how long do
# they take together? During the whole backward pass the network is idle, and during all
# all-reduces every rank is: name the gradient that could have travelled first, and when.

# %% [markdown]
# ## 2. Buckets, and tensor fusion
#
# The first cure is for latency. Gradients become ready in the *reverse* order of the layers, so
# buckets are filled in that order: a bucket that holds the first and the last layer's gradient
# would have to wait for the whole backward pass.
#
# The second half of the module is Horovod's way to the same end, from before there were hooks
# with a fixed order. Every few milliseconds a *cycle* begins: the ranks agree which tensors are
# ready everywhere, and fuse these into buffers up to a *threshold*.
#
# **Think** before you write: if one rank launches gradient 3 and then 5, another one 5 and then
# 3, both with the same call: what does each get? What if the two have different lengths?

# %%
# {{module buckets}}

# %%
# {{check buckets}}

# %% [markdown]
# **Run.** How many buckets there are, and what all all-reduces take together, from a cap of one
# byte to one bucket of everything.

# %%
from importlib import import_module, invalidate_caches, reload

invalidate_caches()
assign_buckets = reload(import_module("buckets")).assign_buckets  # as its file is now
for cap in (1, 10_000, 40_000, 70_000, 10**6):
    cut = assign_buckets(sizes, cap)
    total_s = sum(ring_s(sum(sizes[i] for i in each), P, cluster) for each in cut)
    print(f"cap {cap:>8} bytes: {len(cut):>2} buckets, all-reduces take {total_s * 1e6:.0f} µs")

# %% [markdown]
# **Explain.** One bucket of everything is the cheapest on the network. Why is it still a bad
# choice for a step? And what would a machine with ten times the latency change?
#
# Now your second half. Every rank says which of six gradients are ready; some are late on some
# ranks. The run shows which of them were averaged in this cycle, and in how many all-reduces.

# %%
late = [[], [4], [0, 4], [2]]  # per rank
arguments = []
for rank in range(P):
    gradients = [np.full(1000 * (k + 1), float(rank)) for k in range(6)]
    ready = np.array([k not in late[rank] for k in range(6)])
    arguments.append(("fusion_cycle", gradients, (ready, 50_000), False, False))
fusion_run = ringside.run("checks/inside.py:averaged", P, arguments)
print("averaged:", fusion_run.values[0]["returned"])
print("all-reduces of", [record.nbytes for record in fusion_run.collectives], "bytes")

# %% [markdown]
# **Explain.** Which all-reduce is the agreement? What does a short cycle cost, and what a long
# one? A fixed order of buckets, as DDP has it, needs no agreement at all: which assumption about
# the ranks' programs buys that?

# %% [markdown]
# ## 3. Overlap
#
# The second cure is for idleness. `Iallreduce` starts an all-reduce and returns at once; the
# network moves the bytes while the rank computes the next layer's backward pass.
#
# Two hazards. A started all-reduce owns its buffer until it is complete. And if each bucket is
# *copied* into a buffer of its own, gradients need twice their memory: so let the gradients be
# parts of the buffers from the beginning.
#
# Draw two lines for one rank, compute and network, with six layers that take as long to compute as
# to reduce, and one bucket per layer.

# %% tags=["predict"]
guess(
    "a05/sticks-out",
    "The backward pass of a layer takes 1 ms, and so does its all-reduce. By how many "
    "ms does the last all-reduce of six end after the backward pass?",
    unit="ms",
)

# %%
# {{module overlap}}

# %%
# {{check overlap}}

# %%
rngs = [np.random.default_rng(rank) for rank in range(P)]
batches = [tuple(rng.standard_normal((2, BATCH, WIDTHS[0]))) for rng in rngs]


def step(buckets, world_size=P, machine=cluster, work=WORK):
    """One step of overlap.py on simulated ranks."""
    plain = (None, work, False, False)  # no update, no step before, no look at memory
    arguments = [(params, [batches[r % P]], buckets, *plain) for r in range(world_size)]
    return ringside.run("checks/inside.py:overlapped", world_size, arguments, machine=machine)


one_bucket = step([list(range(len(sizes)))[::-1]])
print(f"one bucket of everything: {one_bucket.makespan_s * 1e6:.0f} µs")
one_bucket.timeline

# %%
layerwise = step(greedy(sizes, sizes[0] + sizes[1]))
print(f"a bucket for each layer: {layerwise.makespan_s * 1e6:.0f} µs")
layerwise.timeline

# %%
each_gradient = step(greedy(sizes, 1))
print(f"no buckets, but overlap: {each_gradient.makespan_s * 1e6:.0f} µs")
assert max(layerwise.makespan_s, each_gradient.makespan_s) < one_bucket.makespan_s
each_gradient.timeline

# %% [markdown]
# **Explain.** With one bucket nothing overlaps, though the call is an `Iallreduce`: why? In the
# second timeline, which all-reduce is exposed, and could a smaller *last* bucket help? And with a
# smaller *first* one, what would begin earlier?
#
# Now your `finish_s` predicts what you have just run. Dots are runs, the line is the formula.

# %%
invalidate_caches()
finish_s = reload(import_module("overlap")).finish_s
six = finish_s([1, 2, 3, 4, 5, 6], 6, [[k] for k in range(6)], [1] * 6)  # in ms
reveal("a05/sticks-out", six - 6)


def predicted_s(buckets, world_size=P, machine=cluster, work=WORK):
    """Forward pass, then backward pass and all-reduces by `finish_s`."""
    layer_s = work * 2 * BATCH * params[0].size / machine.flop_per_s
    layers = len(params) // 2
    ready_s = [2 * layer_s * (layers - index // 2) for index in range(len(params))]
    bucket_s = [ring_s(sum(sizes[i] for i in each), world_size, machine) for each in buckets]
    return layers * layer_s + finish_s(ready_s, 2 * layer_s * layers, buckets, bucket_s)


caps = [1, 1000, 34_000, 67_000, 101_000, 135_000, 210_000]
cuts = [greedy(sizes, cap) for cap in caps]
runs_us = [step(cut).makespan_s * 1e6 for cut in cuts]
formula_us = [predicted_s(cut) * 1e6 for cut in cuts]
fig, axes = plt.subplots(figsize=(6.5, 3.5))
axes.plot(caps, formula_us, color="tab:blue", label="finish_s")
axes.plot(caps, runs_us, "o", color="tab:orange", label="replayed")
axes.set(xscale="log", xlabel="cap of a bucket, bytes", ylabel="time of a step, µs", ylim=(0, None))
axes.set_title(f"One step on {P} ranks")
axes.legend()
plt.show()
assert all(run <= 1.01 * formula for run, formula in zip(runs_us, formula_us, strict=True))
assert runs_us[0] < 0.9 * formula_us[0]

# %% [markdown]
# **Explain.** Left of the best cap the line rises for one reason, right of it for another: name
# both. On the left the dots lie far below the line: this network carries several all-reduces at
# once, so their latencies overlap, while `finish_s` lets them follow one another, as NCCL does
# with all that is launched on one stream. Which of the two would you plan for? (PyTorch's default
# cap is 25 MB, its first bucket has 1 MB.)
#
# ## 4. From four ranks to 512
#
# In this program all ranks do the same. So the trace of four ranks can be *widened*: rank r does
# what rank r mod 4 did, and each all-reduce goes over all. That is weak scaling: the work of each
# rank stays, and the ideal is a flat line. The machine's all-reduce is one of log2(p) steps here;
# with a ring's 2 (p - 1) steps, latency would be all that you see at 512.

# %% tags=["predict"]
guess(
    "a05/many",
    "How many times faster is a step with a bucket for each layer than with one "
    "bucket, on 512 ranks?",
    unit="times",
)

# %%
from ringside import replay
from ringside.timing.extrapolation import widen

many = cluster.with_(collectives={"allreduce": "halving_doubling"})
plans = {
    "one bucket": [list(range(len(sizes)))[::-1]],
    "a bucket for each layer": greedy(sizes, sizes[0] + sizes[1]),
    "a bucket for each gradient": greedy(sizes, 1),
}
counts = [4, 8, 16, 32, 64, 128, 256, 512]
speedups = {}
for name, cut in plans.items():
    trace = step(cut, machine=many).trace
    compute_s = sum(
        many.compute_s(op.detail[0], 0) for op in trace.ops[0] if op.kind == Kind.COMPUTE
    )
    times_s = [replay(widen(trace, p), many).makespan_s for p in counts]
    speedups[name] = [p * compute_s / time_s for p, time_s in zip(counts, times_s, strict=True)]
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
left.plot(counts, counts, color="grey", linestyle=":", label="ideal")
for (name, values), marker in zip(speedups.items(), "os^", strict=True):
    left.plot(counts, values, marker=marker, label=name)
    right.plot(counts, np.array(values) / counts, marker=marker, label=name)
left.set(xscale="log", yscale="log", xlabel="ranks", ylabel="samples a second, over one rank's")
right.set(xscale="log", xlabel="ranks", ylabel="efficiency", ylim=(0, 1))
left.legend()
fig.suptitle("Weak scaling of one step, all-reduce by halving and doubling")
plt.show()
for name, values in speedups.items():
    print(f"{name:<28} efficiency at 512 ranks: {values[-1] / 512:.0%}")
reveal("a05/many", speedups["a bucket for each layer"][-1] / speedups["one bucket"][-1])
assert speedups["a bucket for each layer"][-1] > speedups["one bucket"][-1]

# %% [markdown]
# **Explain.** The number of bytes that a rank sends hardly grows from 4 to 512 ranks. What does
# grow? Which plan suffers most from it, and why? Change `many` to
# `Machine.load("zaratan").with_(collectives=...)` and look at what its slower links between nodes
# do to the shape of the curves.

# %% [markdown]
# ## 5. In torch, with hooks
#
# With `given/model.py` you called each layer's backward pass yourself. In torch, autograd does, and a
# *hook* tells you when a parameter's gradient has been added up:
# `param.register_post_accumulate_grad_hook(function)`. In which order do they fire?

# %%
import torch
from torch import nn

small = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
names = {param: name for name, param in small.named_parameters()}
order = []
for param in small.parameters():
    param.register_post_accumulate_grad_hook(lambda param: order.append(names[param]))
small(torch.ones(2, 4)).sum().backward()
print("ready:", order)
assert set(order[:2]) == {"2.weight", "2.bias"}

# %% [markdown]
# That order is a property of *this rank's* graph. If another rank's batch takes another path
# through the network, its order is another, and some hooks never fire. But the ranks match
# all-reduces by their order alone. So:
#
# In the next cell two ranks launch two buckets in different orders. Read what the network says.

# %% tags=["predict"]
guess(
    "a05/orders",
    "What may a real library do, which compares neither lengths nor names?",
    choices=[
        "refuse the second call",
        "put the buckets in order",
        "hang, or add up what doesn't belong together",
    ],
)

# %%
# %%ranks 2
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
buckets = {"last": numpy.ones(1000), "first": numpy.ones(10)}
names = ["last", "first"] if comm.Get_rank() == 0 else ["first", "last"]
requests = [comm.Iallreduce(MPI.IN_PLACE, buckets[name]) for name in names]
MPI.Request.Waitall(requests)

# %%
reveal("a05/orders", "hang, or add up what doesn't belong together")

# %% [markdown]
# So buckets are launched in one fixed order on all ranks, and one that is full too early waits.

# %% [markdown]
# Six more things that a wrapper must get right are in the docstring: parameters that nobody used,
# frozen ones, tied ones, `no_sync`, buffers, and gradients that are not copied.

# %%
# {{module ddp_torch}}

# %%
# {{check ddp_torch}}

# %% [markdown]
# Look at it: eight layers, of which rank 0 uses only some. Backward passes take 20 µs each.

# %%
spec = {"width": 32, "num_layers": 8, "backward_s": 2e-5}
shapes = [(32, 32), (32,)] * 8
paths = [[0, 1, 2, 5, 6, 7], list(range(8)), list(range(8)), list(range(8))]
options = {"bucket_bytes": 20_000, "lr": 0.1, "momentum": 0.9, "set_to_none": True}
arguments = []
for rank, path in enumerate(paths):
    rng = np.random.default_rng(rank)
    initial = [rng.standard_normal(shape) / 6 for shape in shapes]
    x, target = rng.standard_normal((2, 4, 32))
    arguments.append((spec, initial, [], [[(x, target, path)]], options))
ddp_run = ringside.run("checks/inside_torch.py:train", 4, arguments)
ends = [value["params"] for value in ddp_run.values]
for other in ends[1:]:
    assert all(np.array_equal(a, b) for a, b in zip(ends[0], other, strict=True))
print(f"{ddp_run.makespan_s * 1e6:.0f} µs; all ranks have the same parameters")
ddp_run.timeline

# %% [markdown]
# **Explain.** When does rank 0 launch the bucket with the layers that it did not use, and who
# waits for whom because of that? PyTorch looks for unused parameters only if it is told to
# (`find_unused_parameters=True`): what does the search cost, and what happens without it?
#
# The long row of short bars at the beginning are the constructor's broadcasts, one a parameter.
# How would you send them in fewer?
#
# The file runs unchanged under `torchrun`, with gloo or NCCL; a script of ten lines that calls
# `dist.init_process_group()` and wraps a network in your `DDP` is all that it takes.

# %% [markdown]
# ## 6. On a cluster
#
# The same `overlap.py`, unchanged, on real nodes: `measured_step` is one step with four layers of
# n x n. In a terminal, in this folder, once with a bucket for each gradient and once with one of
# everything:
#
# ```
# STEP="ringside launch overlap.py:measured_step --site zaratan --nodes 2"
# $STEP -- --n 64 --n 512 --bucket-bytes 1
# $STEP -- --n 64 --n 512
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and
# a trace here, which are handed in with the notebook: the last run's, so note the first one's
# times. The run counts if it is complete and was made with the `overlap.py` that you hand in.
#
# `ddp_torch.py` runs on GPUs over NCCL, and over gloo where no GPU is asked for. Let it leave
# its record in a folder of its own: the one to hand in is that of the module above.
#
# ```
# ringside launch checks/inside_torch.py:measured_ddp --site zaratan --gpus-per-node 4 \
#     --out gpus -- --n 512
# ```

# %%
# {{run overlap_cluster points=5}}

# %% [markdown]
# **Your paragraph.** Compare the measured times with and without overlap for both sizes, with
# what `finish_s` predicts from the times of the layers alone. The simulated network moves
# messages whether or not a rank is in a call; many MPI libraries make progress only while it is.
# Which of your numbers shows whether that is so on your machine, and what could `backward` do
# about it? (About 150 words.)

# %%
# {{paragraph overlap_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
