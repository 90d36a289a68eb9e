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
# # All-reduce, five ways
#
# Every rank holds a vector; every rank needs the sum. That is what data-parallel training does
# with gradients in each step, and it decides how far training scales. In this assignment you
# write the sum five times, each time faster on some machine, and you measure when each one wins;
# the fastest for long vectors you write once more for PyTorch.
#
# At the end you will have
#
# - six (or seven) modules that run unchanged on simulated ranks and on a cluster, under `mpiexec`
#   or, the torch one, under `torchrun`;
# - seen the timeline of every rank, and counted every byte that your code sent;
# - a plot of predicted against replayed time, with the sizes at which the lead changes;
# - measured your ring on a real machine, and said in a paragraph why it differs.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points. All that it asks stands in the module's
# docstring, and `checks/requirements.toml` says what each requirement is worth: most where a
# mistake would train wrongly without a word, less where it costs time. The tests lie in `checks/`,
# where you can read them; the hidden suite asks the same of other cases. In `given/` is
# `shards.py`: `shard_bounds(n, p, rank)` says where a rank's shard begins and ends.
#
# Some rules hold in every module, and no docstring repeats them:
#
# - Inputs stay as they were, and results are new arrays that you can write to.
# - A function keeps nothing from one call to the next.
# - It uses the communicator that it is given, which may be a part of the world: `COMM_WORLD` is
#   wrong.
# - Each send and receive that it starts is completed before it returns.
# - A send may wait until its receive is posted, however short the message is.
# - Where floats are summed, NaN and infinities arrive in the result.
#
# In `ring_torch`, which overwrites its tensor, the first rule holds for everything else.
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

P = 4
textbook = Machine.load("textbook")


def vectors(n, world_size=P):
    """One argument tuple a rank: rank r holds r + 1 everywhere."""
    return [(np.full(n, rank + 1.0),) for rank in range(world_size)]


# %% [markdown]
# ## 1. Two minutes of point-to-point
#
# `%%ranks 4` runs a cell on four ranks. Each is a process of its own: it sees the files beside
# this notebook, not its variables. The network between them is simulated, so it can count, time
# and tell you who waits for whom.
#
# On the `textbook` machine a message of b bytes takes `alpha + b beta`, with alpha = 1 µs and
# beta = 1 ns. In the next cell each rank sends 8000 bytes, all ranks at once.

# %% tags=["predict"]
guess("a03/at-once", "How long does the next cell take on `textbook`?", unit="µs")

# %%
# %%ranks 4
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, p = comm.Get_rank(), comm.Get_size()
mine, theirs = numpy.full(1000, float(rank)), numpy.empty(1000)
comm.Sendrecv(mine, dest=(rank + 1) % p, recvbuf=theirs, source=(rank - 1) % p)
print("rank", rank, "got", theirs[0])

# %%
reveal("a03/at-once", (textbook.alpha_s + 8000 * textbook.beta_s_per_byte) * 1e6)

# %% [markdown] tags=["open"]
# The next cell has `Send` and then `Recv` in the place of `Sendrecv`. On this machine a send waits
# for its receive, whatever its size. Run it and read what it says of every rank's call.

# %% tags=["predict"]
guess(
    "a03/send-first",
    "All four ranks send first, and then receive. What happens?",
    choices=[
        "all messages arrive",
        "the ranks send one after another",
        "all ranks wait for ever",
    ],
)

# %%
# %%ranks 4
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, p = comm.Get_rank(), comm.Get_size()
mine, theirs = numpy.full(1000, float(rank)), numpy.empty(1000)
comm.Send(mine, dest=(rank + 1) % p)
comm.Recv(theirs, source=(rank - 1) % p)

# %%
reveal("a03/send-first", "all ranks wait for ever")

# %% [markdown]
# Under a real MPI this works while messages are small, because the library buffers them, and
# hangs on the day when they grow. Your modules must not depend on it.

# %% [markdown]
# ## 2. A star
#
# The plainest way: everybody sends to rank 0, which adds and sends the sum back.
#
# Before you write: with p ranks, blocking calls and vectors of n bytes, how many messages pass
# through rank 0's port one after another?

# %% tags=["predict"]
guess(
    "a03/star",
    "How long does the star take on 4 ranks of `textbook`, with 800 kB on each?",
    unit="µs",
)

# %%
# {{module star}}

# %%
# {{check star}}

# %% [markdown]
# Now look at it. A bar is time inside an MPI call, a line is a message.

# %%
star_run = ringside.run("star.py:all_reduce", P, vectors(100_000))
print(f"{star_run.makespan_s * 1e6:.0f} µs, bytes sent by each rank: {star_run.sent_bytes()}")
reveal("a03/star", star_run.makespan_s * 1e6)
star_run.timeline

# %% [markdown]
# **Explain.** Which ranks are idle, and for how long? What is the makespan on 64 ranks? How much
# of it would a network of twice the bandwidth save? Compare it with `2 (p - 1) (alpha + n beta)`.

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 3. A server on every rank
#
# Rank 0's port is the bottleneck while p - 1 others rest. So let every rank be the server of one
# shard. By *range* of elements, not by layer: in VGG-16 one layer holds 411 of 553 MB.
#
# **Think.** Suppose that every rank sends its shards in the order 0, 1, 2, ...: which port is busy
# first, and who waits?

# %% tags=["predict"]
guess(
    "a03/server-bytes",
    "4 ranks, 800 kB on each: how many bytes does a rank send now?",
    unit="bytes",
)

# %%
# {{module sharded_server}}

# %%
# {{check sharded_server}}

# %%
server_run = ringside.run("sharded_server.py:all_reduce", P, vectors(100_000))
print(f"{server_run.makespan_s * 1e6:.0f} µs, bytes sent by each rank: {server_run.sent_bytes()}")
reveal("a03/server-bytes", max(server_run.sent_bytes()))
server_run.timeline

# %% [markdown]
# **Explain.** The ranks together send as many bytes as those of the star. Why is it faster? Each
# rank talks to all p - 1 others. What would that mean on a real network of 1000 nodes, which the
# model leaves out?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 4. A ring, in two halves
#
# Each rank talks to its two neighbours only. In p - 1 steps partial sums travel round the ring
# and grow (reduce-scatter), in p - 1 more the finished shards travel round (all-gather). Each
# rank sends `2 (p - 1) / p` of its vector, however many ranks there are.
#
# Draw it for p = 3 on paper before you write: who holds which partial sum after each step?

# %%
# {{module ring}}

# %%
# {{check ring}}

# %%
ring_run = ringside.run("ring.py:all_reduce", P, vectors(100_000))
print(f"{ring_run.makespan_s * 1e6:.0f} µs, bytes sent by each rank: {ring_run.sent_bytes()}")
ring_run.timeline

# %% [markdown]
# "The time of a ring doesn't depend on the number of ranks", a slide says. The cell below doubles
# the ranks at 80 bytes and at 8 MB.

# %% tags=["predict"]
guess(
    "a03/ring-time",
    "For which vectors is that so?",
    choices=[
        "for none",
        "for short ones",
        "for long ones",
        "for all",
    ],
)

# %%
for n in (10, 1_000_000):
    times = {p: ringside.run("ring.py:all_reduce", p, vectors(n, p)).makespan_s for p in (2, 4, 8)}
    print(f"{8 * n:>9} bytes:", {p: f"{time_s * 1e6:.1f} µs" for p, time_s in times.items()})
reveal("a03/ring-time", "for long ones")

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 5. In log2(p) steps
#
# A ring of p ranks starts 2 (p - 1) messages one after another: for short vectors that is all it
# does. Exchange with ever more distant partners instead, and log2(p) steps suffice; either with
# whole vectors (few steps, many bytes) or with halves of halves (twice the steps, few bytes).

# %%
# {{module recursive}}

# %%
# {{check recursive}}

# %%
doubling_run = ringside.run("recursive.py:recursive_doubling", 8, vectors(100_000, 8))
print(f"recursive doubling: {doubling_run.makespan_s * 1e6:.0f} µs")
doubling_run.timeline

# %%
halving_run = ringside.run("recursive.py:halving_doubling", 8, vectors(100_000, 8))
print(f"halving-doubling: {halving_run.makespan_s * 1e6:.0f} µs")
halving_run.timeline

# %% [markdown]
# **Explain.** Both do their steps in pairs of ranks. In which of the two does the length of the
# steps change, and why? Run both on 7 ranks. What does the fold cost, and which ranks wait?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 6. What each one costs, and which to take
#
# Put the five makespans into closed forms. Then `choose` can name the fastest without running
# anything, which is what MPI libraries and NCCL do at each call.

# %%
# {{module cost}}

# %%
# {{check cost}}

# %% [markdown]
# Now draw, for 8 ranks on the textbook machine: lines are your formulas, dots are your modules, run
# on the network and timed on the same machine.

# %% tags=["predict"]
guess("a03/crossover", "Up to how many bytes is recursive doubling the fastest?", unit="bytes")

# %%
from importlib import import_module, invalidate_caches, reload

from ringside.draw import crossover_axes

TARGETS = {
    "star": "star.py:all_reduce",
    "sharded_server": "sharded_server.py:all_reduce",
    "ring": "ring.py:all_reduce",
    "recursive_doubling": "recursive.py:recursive_doubling",
    "halving_doubling": "recursive.py:halving_doubling",
}
invalidate_caches()
cost = reload(import_module("cost"))  # as its file is now
sizes = [64 * 8**k for k in range(6)]  # bytes: 64 B to 2 MB
predicted = {
    name: [getattr(cost, f"{name}_s")(size, 8, textbook) for size in sizes] for name in TARGETS
}
replayed = {
    name: [ringside.run(target, 8, vectors(size // 8, 8)).makespan_s for size in sizes]
    for name, target in TARGETS.items()
}
crossover_axes(sizes, replayed, predicted, title="All-reduce on 8 ranks, textbook machine")
plt.show()

# %%
for size in sizes:
    best = min(replayed, key=lambda name: replayed[name][sizes.index(size)])
    print(f"{size:>8} bytes: choose says {cost.choose(size, 8, textbook)}, replay says {best}")
few = range(64, 2**17, 64)
doubling = [n for n in few if cost.choose(n, 8, textbook) == "recursive_doubling"]
reveal("a03/crossover", max(doubling, default=0))

# %% [markdown]
# **Explain.** Where dots and lines differ, which assumption of the model does your program not
# keep? Change `textbook` to `Machine.load("zaratan")`, and 8 ranks to 7. Which algorithm wins
# now?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 7. The ring on torch.distributed
#
# In training, the vector is a gradient, and the ranks are PyTorch processes. torch.distributed has
# the same two halves of a message, `isend` and `irecv`; `batch_isend_irecv` starts several at once,
# which is how a Sendrecv is written there. Three things are new: the group is a process group and
# peers are named by their rank in the whole job, the sum replaces what the tensor held, and
# `Work.wait()` takes the place of `Request.Wait()`. The same file runs on gloo (CPUs) and on NCCL
# (GPUs); here its messages go over the same counted network as before.

# %% tags=["predict"]
guess(
    "a03/torch-bytes",
    "4 ranks, 100,000 elements of float32 on each: how many bytes does a rank send?",
    unit="bytes",
)

# %%
# {{module ring_torch}}

# %%
# {{check ring_torch}}

# %%
gradients = [(np.full(100_000, rank + 1.0, np.float32),) for rank in range(P)]
torch_run = ringside.run("checks/inside_torch.py:all_reduce", P, gradients)
print(f"{torch_run.makespan_s * 1e6:.0f} µs, bytes sent by each rank: {torch_run.sent_bytes()}")
reveal("a03/torch-bytes", max(torch_run.sent_bytes()))
torch_run.timeline

# %% [markdown]
# **Explain.** Compare with the timeline of `ring.py` above. What are the thin bars of computing
# between the first three messages, and why were there none before? Why are there none between the
# last three? (Operators of torch are counted here, and those of NumPy are not.)

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 8. Two trees at once (extra)
#
# A binary tree needs 2 log2(p) steps and lets half of the ranks, its leaves, rest. Two trees,
# each with half of the vector, whose leaves are the other's inner nodes, keep every port busy;
# cut into chunks, the halves flow. NCCL has used this for large machines since version 2.4.

# %%
# {{module tree}}

# %%
# {{check tree}}

# %% [markdown]
# **Explore.** With one chunk nothing flows; with very many each pays alpha. Where is the best?

# %%
# for num_chunks in (1, 2, 4, 8, 16, 32):
#     arguments = [(x, num_chunks) for (x,) in vectors(100_000, 8)]
#     tree_run = ringside.run("tree.py:all_reduce", 8, arguments)
#     print(f"{num_chunks:>3} chunks: {tree_run.makespan_s * 1e6:.0f} µs")

# %% [markdown]
# ## 9. Inside the node, and between nodes (extra)
#
# A flat ring does not know about nodes. On nodes with four GPUs, like Zaratan's, three of four
# messages stay inside a node, on links that are eight times as fast. Yet every step of the ring
# waits for its slowest message, and that one goes to another node.
#
# On two levels each rank first sums inside its node, and only its quarter travels between nodes.
# All four ranks of a node share one port there. Where each rank has its own port, the flat ring
# uses one of them and the two levels use all, as a library's rings do.

# %% tags=["predict"]
guess(
    "a03/levels-bytes",
    "4 nodes of 4 ranks, 100 MB: how many MB does each *node* send to others?",
    unit="MB",
)

# %%
# {{module hierarchical}}

# %%
# {{check hierarchical}}

# %% [markdown]
# Both programs run on 8, 16 and 80 ranks with short vectors. Then their messages are made longer,
# as those of 100 MB are, and replayed on `zaratan`.

# %%
from ringside.trace import Trace

SHORT, LONG = 800, 12_500_000  # elements; 100 MB


def replayed_s(target, p, *more):
    """Seconds with vectors of 100 MB, and the MB that the first node sends to others."""
    short = ringside.run(target, p, [(np.full(SHORT, 1.0), *more)] * p)
    longer = [
        [op._replace(nbytes=op.nbytes * LONG // SHORT) for op in ops] for ops in short.trace.ops
    ]
    line = ringside.replay(Trace(p, longer), Machine.load("zaratan"))
    return line.makespan_s, short.bytes_matrix()[:4, 4:].sum() * LONG / SHORT / 1e6


for p in (8, 16, 80):
    flat_s, flat_mb = replayed_s("ring.py:all_reduce", p)
    levels_s, node_mb = replayed_s("hierarchical.py:all_reduce", p, 4)
    print(f"{p // 4:>2} nodes: ring {flat_s * 1e3:5.2f} ms, two levels {levels_s * 1e3:5.2f} ms")
    print(f"          a node sends {flat_mb:.0f} MB, and {node_mb:.0f} MB")
    if p == 16:
        reveal("a03/levels-bytes", node_mb)

# %% [markdown]
# **Explain.** Derive the bytes that a node sends in both programs, for N nodes of g ranks. What
# happens to their ratio as N grows? The two levels also pay for something that the flat ring gets
# for nothing: what is it, and how long does it take here? Give a vector with which two levels win
# on 20 nodes, too.

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 10. On a cluster
#
# The same `ring.py`, unchanged, on real nodes. In a terminal, in this folder:
#
# ```
# ringside launch ring.py:all_reduce --site zaratan --nodes 2 -- --n 1000 --n 10000000
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and
# a trace here, which are handed in with the notebook. The run counts if it is complete and was
# made with the `ring.py` that you hand in.
#
# `ring_torch.py` runs on GPUs over NCCL, and over gloo where no GPU is asked for. Let it leave
# its record in a folder of its own: the one to hand in is that of the module above.
#
# ```
# ringside launch checks/inside_torch.py:all_reduce --site zaratan --gpus-per-node 4 \
#     --out gpus -- --n 1000 --n 10000000
# ```

# %%
# {{run ring_cluster points=5}}

# %% [markdown]
# **Your paragraph.** Compare three times for each size: what `cost.ring_s` predicts on
# `Machine.load("zaratan")`, what the replay of your program says, and what you measured. Which
# of them differ by more than a fifth, in which direction, and which assumption of the model is
# the likely reason? Name one measurement that would tell. (About 150 words.)
#
# The replay, on as many ranks as the job had (the launch names the number; here 8):
#
# ```
# ringside run ring.py:all_reduce --ranks 8 --machine zaratan -- --n 1000
# ringside predict run.json --machine zaratan
# ```
#
# The second replays the recorded call itself, that of the greatest length, with its computation
# as it was measured.

# %%
# {{paragraph cluster_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
