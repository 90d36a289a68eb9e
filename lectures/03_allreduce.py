# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"} tags=["aims"]
# # Lecture 3: All-reduce
#
# Every rank holds a vector. At the end every rank holds the sum of all of them. This operation is
# called an **all-reduce**, and it is most of what data-parallel training sends over the network. You can
# do it in many ways, and the slowest and the fastest differ by orders of magnitude. Which one should you
# take? It depends on the length of your vector, on the number of ranks, and on the wires between them.
#
# **After this lecture you can**
#
# - write a program of several communicating ranks, in MPI and in torch, and read from a timeline
#   what it did;
# - derive the time of five all-reduce algorithms from three numbers, and check it to the last
#   digit;
# - say which algorithm to take for a given vector, world size and machine, and where that changes;
# - say what a node, a rack, a port and a rail are, and what they do to the price of an all-reduce;
# - tell what MPICH and NCCL choose, and why;
# - say what a hidden collective still costs the GPU;
# - say what the model leaves out, and how large the error is on two published measurements;
# - say how long a network's gradients take next to a step of its training.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** You need Python and NumPy, and [lecture 1](01_messages.ipynb): ranks, messages,
# timelines and deadlocks, in MPI and in torch.
#
# **How to read.** Before many programs you are asked for a prediction. Type your number into the
# cell before you run the program. The result then appears next to your prediction, and you learn from
# the gap between the two. Nobody grades it. Then change the program and run it again.
#
# All programs run on your laptop. Ringside starts real processes, passes their messages, and keeps
# a *virtual* clock for a cluster that you describe by a few numbers. So every time in this notebook
# is exact, and it is the same on every computer.

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **One notation.** Slides on this subject use $N$ for the samples, for the parameters and for the
# workers. They use $\alpha$ for the learning rate and for the latency. In this lecture each sign
# has one meaning:
#
# | sign | meaning | unit |
# |---|---|---|
# | $p$ | world size: the number of ranks | |
# | $n$ | size of each rank's vector | bytes |
# | $\alpha$ | latency of a message, whatever its size | seconds |
# | $\beta$ | time for each byte: the *inverse* of the bandwidth | seconds per byte |
# | $\gamma$ | time to add up one byte's worth of numbers | seconds per byte |

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.**
#
# | section | ask the class | where classes stumble |
# |---|---|---|
# | 1 | Who has seen 553 MB of gradients before? | |
# | 3 | What does posting at once save? | They expect bytes to be saved. |
# | 4 | Does the order of sending matter? | "All are posted at once, so no." Collect votes. |
# | 5 | By what factor does the ring's time grow with $p$? | Nearly all say 1. |
# | 6 | How long is the last step of halving? | They forget the way back. |
# | 7 | Which saves more, the second tree or the chunks? | Which port is the busiest in one tree? |
# | 8 | Do the crossings move with the latency? | |
# | 9 | Put the five cases on nodes in order. | They count bytes per rank, not per node. |
# | 10 | Through how many ports do the bytes leave a node? | They compare the rates of two wires, and forget that there are eight ports. |
# | 11 | How far off is NCCL's own formula? | |
# | 12 | Is a layer that hides its messages as fast as one without? | Most say yes. |
# | 13 | Which part of a step is the all-reduce? | They forget that chips differ in speed. |
# | 15 | How far off is the prediction at 1 MB? | A large error is no failure: ask what it says. |

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import guess, reveal
from ringside.course.lectures import Knob, explore, moving_ring, puzzle, show, table

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
machine = ringside.Machine.load("textbook")
alpha, beta = machine.alpha_s, machine.beta_s_per_byte
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"] meeting=1 minutes=5
# ## 1. The problem: a sum of gradients
#
# What do workers have to send each other at all? Suppose that you train by gradient descent. You need the
# gradient of the loss over a batch, and four workers share the batch: each computes the gradient over its
# quarter of the samples. Then no worker has the gradient that you need. But the *sum* of their four
# results is exactly that gradient.

# %% slideshow={"slide_type": "fragment"}
rng = np.random.default_rng(0)
samples, targets = rng.normal(size=(1024, 5)), rng.normal(size=1024)
weights = rng.normal(size=5)


def gradient(lo, hi):
    """Of the sum of (sample @ weights - target)**2 / 2 over samples lo to hi - 1."""
    error = samples[lo:hi] @ weights - targets[lo:hi]
    return samples[lo:hi].T @ error


parts = [gradient(0, 256), gradient(256, 512), gradient(512, 768), gradient(768, 1024)]
np.testing.assert_allclose(sum(parts), gradient(0, 1024))
print("sum of four parts:", sum(parts).round(2))
print("all at once:      ", gradient(0, 1024).round(2))

# %% [markdown] slideshow={"slide_type": "slide"}
# Five numbers are easy to send. How many are there in a real network? The file below holds the number
# of parameters of VGG-16, an image classifier of 2014 [1], layer by layer.

# %% slideshow={"slide_type": "fragment"}
vgg16 = table(LECTURES / "data" / "vgg16_parameters.csv")
megabytes = 4 * vgg16["num_parameters"] / 1e6  # a float32 has four bytes
largest = megabytes.argmax()

print(f"{vgg16['num_parameters'].sum():,} parameters")
print(f"{megabytes.sum():.0f} MB of gradients in every step")
name = vgg16["layer"][largest]
print(f"{megabytes[largest]:.0f} MB of them in the largest layer, {name}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# So in each of many thousand steps, every worker has 553 MB that all others need. **How long does the
# sum take, next to the rest of a step?** Section 13 answers this question. Before that you need to know what a message costs, which algorithms there are, and how fast any of them *can* be.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert vgg16["num_parameters"].sum() == 138_357_544
assert round(megabytes.sum()) == 553 and round(megabytes[largest]) == 411

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. What a message costs
#
# From [lecture 1](01_messages.ipynb) you know how a rank sends and receives, and why two ranks that
# both begin with `Send` wait for each other for ever. This lecture needs three calls. `Sendrecv` sends
# and receives at once. `Isend` and `Irecv` post a message and return a *request*, and
# `MPI.Request.Waitall` waits for a list of them. A message that has left and has not arrived is **in
# flight**. Here two ranks exchange their arrays:

# %% slideshow={"slide_type": "fragment"}
# %%writefile exchange.py
import numpy as np


def exchange(comm, num_elements):
    other = 1 - comm.rank
    mine = np.full(num_elements, float(comm.rank))
    theirs = np.empty(num_elements)
    comm.Sendrecv(mine, dest=other, recvbuf=theirs, source=other)
    return float(theirs[0])


# %% [markdown] slideshow={"slide_type": "subslide"}
# **The same in torch.** There is no `Sendrecv` in `torch.distributed`. Instead you describe a send
# and a receive and start both with one call, `batch_isend_irecv`. It returns the requests. You will
# need this often, so put it into a file of its own:

# %% slideshow={"slide_type": "fragment"}
# %%writefile both_ways.py
import torch.distributed as dist


def sendrecv(outgoing, dest, incoming, source):
    """What Sendrecv does in MPI: start both, then wait for both."""
    sending = dist.P2POp(dist.isend, outgoing, dest)
    receiving = dist.P2POp(dist.irecv, incoming, source)
    for request in dist.batch_isend_irecv([sending, receiving]):
        request.wait()


# %% slideshow={"slide_type": "fragment"}
# %%writefile exchange_torch.py
import torch
import torch.distributed as dist
from both_ways import sendrecv


def exchange(group, num_elements):
    other = 1 - dist.get_rank()
    mine = torch.full((num_elements,), float(dist.get_rank()), dtype=torch.float64)
    theirs = torch.empty_like(mine)
    sendrecv(mine, other, theirs, other)
    return theirs[0].item()


# %% [markdown] slideshow={"slide_type": "slide"}
# **The time of a message.** A message of $n$ bytes takes $\alpha + n\beta$ seconds [2]. The latency
# $\alpha$ is paid once for each message: it is the time of software, network card and switches. The
# inverse bandwidth $\beta$ is paid for each byte.
#
# Our first machine is called `textbook` and has round numbers:

# %% slideshow={"slide_type": "fragment"}
print(f"alpha {alpha * 1e6:g} µs for each message")
print(f"beta  {beta * 1e9:g} ns for each byte, that is {1e-9 / beta:g} GB/s")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/exchange",
    "How long do two ranks take to exchange 8000 bytes, both ways at the same time?",
    unit="µs",
)

# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
result = ringside.run("exchange.py:exchange", world_size=2, args=(1000,))
in_torch = ringside.run("exchange_torch.py:exchange", world_size=2, args=(1000,))
print(f"in MPI   {result.makespan_s * 1e6:g} µs")
print(f"in torch {in_torch.makespan_s * 1e6:g} µs")

# %% slideshow={"slide_type": "fragment"}
result.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("03/exchange", result.makespan_s * 1e6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. Two ranks exchange 8000 bytes. The two messages cross.*
#
# It takes 9 µs, which is $\alpha + n\beta$ for one message. Links are **full duplex**: a rank sends and
# receives at the same time, at full speed both ways. So you pay for an exchange what one message costs.
# Why does your torch program take 0.08 µs more? Torch's own operations are counted too, and
# `torch.full` writes its 8000 bytes to memory.
#
# For a message of $\alpha/\beta = 1000$ bytes, latency and transfer cost the same. Below that size you pay
# on this machine for *messages*, and above it for *bytes*. Remember this number. Nearly everything
# that follows trades messages for bytes or bytes for messages.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert result.values == in_torch.values == [1.0, 0.0]
assert result.sent_bytes() == in_torch.sent_bytes() == [8000, 8000]
assert np.isclose(result.makespan_s, alpha + 8000 * beta)
assert np.isclose(result.makespan_s, 9e-6)
assert round((in_torch.makespan_s - result.makespan_s) * 1e6, 2) == 0.08
assert round(alpha / beta) == 1000

# %% [markdown] slideshow={"slide_type": "slide"}
# **Ports.** What do you pay if one rank talks to several others? In our model each rank has two
# **ports**, one for sending and one for receiving. A port moves one message at a time. For example,
# if three messages arrive at your rank together, their bytes pass through its receiving port one
# after another. But their latencies may overlap, because $\alpha$ is not spent in the port:
#
# ```text
#  one after another                          posted all at once
#  |alpha|n*beta|alpha|n*beta|alpha|n*beta|   |alpha|n*beta|n*beta|n*beta|
#  3 (alpha + n*beta)                         alpha + 3 n*beta
# ```
#
# **Adding.** Summing two vectors costs $\gamma$ for each byte. An addition reads two numbers and
# writes one, so $\gamma$ is the time of three bytes of memory traffic.

# %% slideshow={"slide_type": "fragment"}
gamma = 3 / machine.memory_bytes_per_s
print(f"gamma is {gamma / beta:.0%} of beta on this machine")

# %% [markdown] slideshow={"slide_type": "fragment"}
# At 3 % of $\beta$ you may leave $\gamma$ out, and from here on the timelines do. Remember it where
# your network is as fast as memory, or where one rank does all the adding.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(gamma / beta, 2) == 0.03

# %% [markdown] slideshow={"slide_type": "slide"}
# **Lower bounds.** What can no algorithm beat?
#
# - *Bytes.* Some rank has to send at least $2\frac{p-1}{p}n$ bytes [3]. The reason is a count.
#   Take one element: its $p$ values start on $p$ ranks, and each message merges at most two partial
#   sums. So $p-1$ messages bring it together, and $p-1$ more bring it to all. For $n$ bytes these are
#   $2(p-1)n$ bytes, which the $p$ ranks share.
# - *Latency.* Your number has to reach every other rank, so you need at least one $\alpha$. Suppose
#   that a rank can do only one message at a time, latency included. Then the number of ranks whose
#   numbers are in one sum can at best double with each message, and you need at least
#   $\lceil\log_2 p\rceil\,\alpha$.
#
# Which bound on the latency holds depends on what $\alpha$ is made of. Time on the wire and in
# switches overlaps between messages that are posted together, as in the picture above. Time that
# the processor spends on starting a message does not overlap. Our picture is the optimistic end.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 3. Star: one master
#
# What is the most obvious way to sum? One master gets all vectors, adds them up, and sends the sum
# back. This is a **parameter server**, and its messages form a star. To see what it costs you need no
# additions, only messages of the right size in the right order. So here and below you write the **traffic**
# of an algorithm, and leave the arithmetic to the assignment. Your master can serve the others in a row,
# or post everything at once.

# %% slideshow={"slide_type": "fragment"}
# %%writefile star_traffic.py
import numpy as np
from mpi4py import MPI


def star(comm, nbytes, at_once):
    vector, others = np.zeros(nbytes, np.uint8), range(1, comm.size)
    if comm.rank > 0:
        comm.Send(vector, dest=0)
        comm.Recv(vector, source=0)
    elif at_once:
        inbox = np.zeros((comm.size, nbytes), np.uint8)
        MPI.Request.Waitall([comm.Irecv(inbox[source], source) for source in others])
        MPI.Request.Waitall([comm.Isend(vector, dest) for dest in others])
    else:
        for source in others:
            comm.Recv(vector, source=source)
        for dest in others:
            comm.Send(vector, dest=dest)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/star-row", "Four ranks, 2000 bytes, served in a row: how long?", unit="µs")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/star-once", "The same, with everything posted at once: how long?", unit="µs")

# %% slideshow={"slide_type": "slide"}
p, n = 4, 2000
in_a_row = ringside.run("star_traffic.py:star", p, (n, False))
print(f"in a row: {in_a_row.makespan_s * 1e6:g} µs")

# %% slideshow={"slide_type": "fragment"}
in_a_row.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("03/star-row", in_a_row.makespan_s * 1e6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. A star whose master serves one rank after another.*

# %% slideshow={"slide_type": "subslide"}
at_once = ringside.run("star_traffic.py:star", p, (n, True))
print(f"at once: {at_once.makespan_s * 1e6:g} µs")

# %% slideshow={"slide_type": "fragment"}
at_once.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("03/star-once", at_once.makespan_s * 1e6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. A star whose master posts all receives at once, and then all sends.*
#
# In a row it takes $2(p-1)(\alpha + n\beta)$, which is 18 µs. At once it takes
# $2(\alpha + (p-1)n\beta)$, which is 14 µs. So posting early saves you four latencies, because what you post
# together overlaps its $\alpha$. It doesn't save one byte, because all vectors still squeeze through the two
# ports of rank 0, one after another (section 2).

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(in_a_row.makespan_s, 2 * (p - 1) * (alpha + n * beta))
assert np.isclose(at_once.makespan_s, 2 * (alpha + (p - 1) * n * beta))
assert np.isclose(in_a_row.makespan_s, 18e-6) and np.isclose(at_once.makespan_s, 14e-6)
assert in_a_row.sent_bytes() == [3 * n, n, n, n]

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The same in torch**, posted at once. It sends the same bytes in the same time.

# %% slideshow={"slide_type": "fragment"}
# %%writefile star_torch.py
import torch
import torch.distributed as dist


def star(group, nbytes):
    vector = torch.empty(nbytes, dtype=torch.uint8)
    if dist.get_rank() > 0:
        dist.send(vector, dst=0)
        dist.recv(vector, src=0)
        return
    others = range(1, dist.get_world_size())
    inboxes = [torch.empty_like(vector) for _ in others]
    for request in [dist.irecv(box, src=r) for r, box in zip(others, inboxes)]:
        request.wait()
    for request in [dist.isend(vector, dst=r) for r in others]:
        request.wait()


# %% slideshow={"slide_type": "fragment"} known={"03/star-once": "the torch program repeats it"}
in_torch = ringside.run("star_torch.py:star", p, (n,))
print(f"{in_torch.makespan_s * 1e6:g} µs, bytes sent: {in_torch.sent_bytes()}")
assert in_torch.sent_bytes() == at_once.sent_bytes()
assert np.isclose(in_torch.makespan_s, at_once.makespan_s)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=10
# ## 4. Sharded server: every rank is the master of a part
#
# Look at figure 3 again. Only the ports of rank 0 are busy, and those of the other ranks are idle most of
# the time. Can you spread the master's work? Partition the vector into $p$ equal **shards** (parts), and let
# rank $i$ be the master of shard $i$. The work then has two halves:
#
# 1. **Reduce-scatter.** Each rank sends $p-1$ shards of $n/p$ bytes, one to each master. Afterwards
#    each rank holds the sum of *its* shard.
# 2. **All-gather.** Each master sends its finished shard to all others.

# %% slideshow={"slide_type": "fragment"}
# %%writefile sharded_traffic.py
import numpy as np
from mpi4py import MPI


def exchange(comm, nbytes, start_next_door):
    p, shard = comm.size, np.zeros(nbytes // comm.size, np.uint8)
    inbox = np.zeros((p, nbytes // p), np.uint8)
    if start_next_door:
        order = [(comm.rank + k) % p for k in range(1, p)]
    else:
        order = [dest for dest in range(p) if dest != comm.rank]
    for _half in ("reduce-scatter", "all-gather"):
        requests = [comm.Irecv(inbox[source], source=source) for source in order]
        requests += [comm.Isend(shard, dest=dest) for dest in order]
        MPI.Request.Waitall(requests)


# %% [markdown] slideshow={"slide_type": "fragment"}
# You can send in two orders. Either every rank sends to rank 0 first, then to rank 1, and so
# on. Or every rank starts with its neighbour. All messages are posted at once in both cases.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/incast",
    "How many times longer does it take if every rank sends to rank 0 first?",
    unit="times",
)

# %% slideshow={"slide_type": "slide"}
zero_first = ringside.run("sharded_traffic.py:exchange", p, (n, False))
next_door = ringside.run("sharded_traffic.py:exchange", p, (n, True))
print(f"rank 0 first   {zero_first.makespan_s * 1e6:g} µs")
print(f"neighbour first {next_door.makespan_s * 1e6:g} µs")

# %% slideshow={"slide_type": "subslide"}
zero_first.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. The sharded server when every rank sends to rank 0 first.*

# %% slideshow={"slide_type": "subslide"}
next_door.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("03/incast", zero_first.makespan_s / next_door.makespan_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. The sharded server when every rank starts with its neighbour.*
#
# You sent the same messages, and one order is 1.30 times as slow. If every rank sends to rank 0
# first, messages queue at its port while other ports are idle. You see it in figure 4, where three
# messages arrive at rank 0 together, and two of them wait. Such a crowd at one receiver is called
# **incast**. If every rank starts with its neighbour, each port always sends one message and receives
# one. That gives 5 µs:
#
# $$T_\text{sharded} = 2\left(\alpha + \tfrac{p-1}{p}\,n\beta\right).$$

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(next_door.makespan_s, 2 * (alpha + (p - 1) / p * n * beta))
assert np.isclose(next_door.makespan_s, 5e-6)
assert np.isclose(zero_first.makespan_s / next_door.makespan_s, 1.30)
assert zero_first.sent_bytes() == next_door.sent_bytes() == [2 * (p - 1) * n // p] * p

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The same in torch.** `batch_isend_irecv` takes any number of sends and receives.

# %% slideshow={"slide_type": "fragment"}
# %%writefile sharded_torch.py
import torch
import torch.distributed as dist


def exchange(group, nbytes):
    p, rank = dist.get_world_size(), dist.get_rank()
    shard = torch.empty(nbytes // p, dtype=torch.uint8)
    inbox = torch.empty(p, nbytes // p, dtype=torch.uint8)
    order = [(rank + k) % p for k in range(1, p)]
    for _half in ("reduce-scatter", "all-gather"):
        calls = [dist.P2POp(dist.irecv, inbox[source], source) for source in order]
        calls += [dist.P2POp(dist.isend, shard, dest) for dest in order]
        for request in dist.batch_isend_irecv(calls):
            request.wait()


# %% slideshow={"slide_type": "fragment"}
in_torch = ringside.run("sharded_torch.py:exchange", p, (n,))
print(f"{in_torch.makespan_s * 1e6:g} µs, bytes sent: {in_torch.sent_bytes()}")
assert in_torch.sent_bytes() == next_door.sent_bytes()
assert np.isclose(in_torch.makespan_s, next_door.makespan_s)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Where do you cut the vector?** It is tempting to give whole layers to the machines: parameter key $i$
# goes to machine $i$. With equal layers each machine then serves $n/p$ bytes. Try it
# on VGG-16 with four machines. Give out the longest layers first, each to the machine that has the
# least so far.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/by-layer",
    "How many times as much as in equal parts does the busiest of four machines serve?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
load = np.zeros(4)
for layer in np.sort(megabytes)[::-1]:  # longest first
    load[load.argmin()] += layer  # to the machine with the least so far
even = megabytes.sum() / 4
print(f"by layer: {np.round(load)} MB; in equal parts: {even:.0f} MB each")
reveal("03/by-layer", load.max() / even)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The busiest machine serves 3.0 times as much, because one layer holds 74 % of VGG-16. All others wait
# for the machine that got this layer. So shard the flat vector by *range*, as libraries do: the first
# quarter of all bytes to machine 0, the second to machine 1, and so on.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(load.max()) == 411 and round(megabytes[largest] / megabytes.sum(), 2) == 0.74
assert round(even) == 138 and round(load.max() / even, 1) == 3.0

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=30
# ## 5. Ring
#
# Do you need a message between every two ranks? No. Let every rank talk only to its two neighbours: it
# receives from the left and sends to the right. The program below is a complete all-reduce of this kind.
# Each rank adds what comes in and passes it on, until every vector has gone all the way round.

# %% slideshow={"slide_type": "fragment"}
# %%writefile whole_ring.py
import numpy as np


def all_reduce(comm, x):
    next_rank = (comm.rank + 1) % comm.size
    prev_rank = (comm.rank - 1) % comm.size
    result, passing, arriving = x.copy(), x.copy(), np.empty_like(x)
    for _ in range(comm.size - 1):
        comm.Sendrecv(passing, dest=next_rank, recvbuf=arriving, source=prev_rank)
        result += arriving
        passing, arriving = arriving, passing
    return result


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/whole-ring", "Four ranks, 2000 bytes: how long does it take?", unit="µs")

# %% slideshow={"slide_type": "slide"}
vectors = [np.full(n // 8, 10.0**rank) for rank in range(p)]  # float64: 8 bytes each
whole = ringside.run("whole_ring.py:all_reduce", p, [(x,) for x in vectors])
print(f"{whole.makespan_s * 1e6:g} µs, result {whole.values[0]}")

# %% slideshow={"slide_type": "fragment"}
whole.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("03/whole-ring", whole.makespan_s * 1e6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 6. Whole vectors go round a ring of four ranks.*
#
# It takes $(p-1)(\alpha + n\beta)$, here 9 µs. You see every port busy all the time, and yet this is far
# from the 5 µs of the sharded server. The reason is that the ports carry too much. Each rank sends
# $(p-1)n$ bytes, and the lower bound is $2\frac{p-1}{p}n$. **Busy is not the same as fast.**

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert all((value == sum(vectors)).all() for value in whole.values)
assert np.isclose(whole.makespan_s, (p - 1) * (alpha + n * beta))
assert np.isclose(whole.makespan_s, 9e-6)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# **The ring all-reduce** keeps the neighbours and takes over the shards [3]. Partition your vector into $p$
# shards. In each step every rank sends *one shard* to the right. (What one step sends is also
# called a **chunk**.) For $p-1$ steps, partial sums travel and grow: that is a reduce-scatter. For $p-1$
# more steps, finished sums travel: that is an all-gather. Here is a run on four ranks, with one number
# in each shard. Rank 0 begins with 1, 2, 3, 4, rank 1 with 11, 12, 13, 14, and so on.

# %% slideshow={"slide_type": "slide"}
moving_ring()

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 7. A ring all-reduce on four ranks, step by step. The numbers are those of a run on ranks.*
#
# Follow the first shard. It leaves rank 0 as 1. Rank 1 adds its 11, rank 2 adds its 21, and rank 3 adds
# its 31. After three steps rank 3 holds the finished sum, 64. Then the finished sum goes round once
# more, and no rank adds anything. There are $2(p-1)$ steps, here six.
#
# Can you find the rule, for any $p$? Which shard does rank $r$ send in step $k$? It is the heart of your
# `ring.py`.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
moving = moving_ring()
assert [moving.held[step][rank][0] for step, rank in enumerate(range(4))] == [1, 12, 33, 64]
assert [moving.held[0][rank][0] for rank in range(4)] == [1, 11, 21, 31]
assert moving.counts[3][3][0] == 4 and len(moving.held) - 1 == 2 * (4 - 1)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** "A ring takes $p-1$ rounds" is half of it. Let the class play figure 7 with four
# people and sheets of paper. It takes five minutes and settles the matter.

# %% slideshow={"slide_type": "slide"}
# %%writefile ring_traffic.py
import numpy as np

import ringside


def ring(comm, nbytes):
    next_rank = (comm.rank + 1) % comm.size
    prev_rank = (comm.rank - 1) % comm.size
    chunk = np.zeros(nbytes // comm.size, np.uint8)
    arriving = np.empty_like(chunk)
    for half in ("reduce-scatter", "all-gather"):
        with ringside.phase(half):  # a name for the timeline; it costs nothing
            for _ in range(comm.size - 1):
                comm.Sendrecv(chunk, dest=next_rank, recvbuf=arriving, source=prev_rank)


# %% slideshow={"slide_type": "fragment"} known={"03/whole-ring": "another program takes as long"}
ring = ringside.run("ring_traffic.py:ring", p, (n,))
print(f"{ring.makespan_s * 1e6:g} µs")
ring.timeline

# %% [markdown] slideshow={"slide_type": "fragment"} known={"03/whole-ring": "another program takes as long"}
# *Figure 8. The ring all-reduce on four ranks: a reduce-scatter of three steps, then an all-gather of
# three steps.*
#
# $$T_\text{ring} = 2(p-1)\,\alpha + 2\tfrac{p-1}{p}\,n\beta$$
#
# It takes 9 µs, as long as your whole vectors round the ring. Compare the two timelines: this one sends
# half the bytes in twice as many messages. At 2000 bytes the two effects balance.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(ring.makespan_s, 2 * (p - 1) * (alpha + n / p * beta))
assert np.isclose(ring.makespan_s, 9e-6)
assert ring.sent_bytes() == [2 * (p - 1) * n // p] * p
assert 2 * sum(ring.sent_bytes()) == sum(whole.sent_bytes())

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The same in torch.** This is the pattern of your `ring_torch.py`. In daily work one line does it
# for you: `dist.all_reduce(x)`. On this machine model the library uses a ring too.

# %% slideshow={"slide_type": "fragment"}
# %%writefile ring_torch.py
import torch
import torch.distributed as dist
from both_ways import sendrecv


def ring(group, nbytes):
    p, rank = dist.get_world_size(), dist.get_rank()
    chunk = torch.empty(nbytes // p, dtype=torch.uint8)
    arriving = torch.empty_like(chunk)
    for _ in range(2 * (p - 1)):
        sendrecv(chunk, (rank + 1) % p, arriving, (rank - 1) % p)


def library(group, nbytes):
    dist.all_reduce(torch.empty(nbytes, dtype=torch.uint8))


# %% slideshow={"slide_type": "fragment"} known={"03/whole-ring": "another program takes as long"}
for function in ("ring", "library"):
    in_torch = ringside.run(f"ring_torch.py:{function}", p, (n,))
    print(f"{function:8} {in_torch.makespan_s * 1e6:.3g} µs")
    assert np.isclose(in_torch.makespan_s, ring.makespan_s)

# %% [markdown] slideshow={"slide_type": "slide"}
# Which of your two rings should you take? They are equally fast at 2000 bytes. For short vectors the
# latency decides, and whole vectors win. For long ones the bytes decide, and chunks win.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/chunks-win",
    "With four ranks and 2 MB, how many times faster are chunks than whole vectors?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
for nbytes in (20, 2000, 2_000_000):
    whole_s = (p - 1) * (alpha + nbytes * beta)
    ring_s = 2 * (p - 1) * (alpha + nbytes / p * beta)
    times = f"whole {whole_s * 1e6:7.2f} µs, chunks {ring_s * 1e6:7.2f} µs"
    print(f"{nbytes:9,} bytes: {times}")
reveal("03/chunks-win", whole_s / ring_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# For 2 MB on four ranks, chunks are 2.0 times faster. On $p$ ranks you gain $p/2$, because you send
# $2\frac{p-1}{p}n$ bytes instead of $(p-1)n$.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(whole_s / ring_s, 1) == 2.0

# %% [markdown] slideshow={"slide_type": "slide"}
# **And the additions?** You can declare a program's computing to the virtual clock, with
# `ringside.compute`. Below, each rank adds a chunk in the first $p-1$ steps. That is three bytes of
# memory traffic for each byte.

# %% slideshow={"slide_type": "fragment"}
# %%writefile adding_traffic.py
import numpy as np

import ringside


def ring(comm, nbytes):
    next_rank = (comm.rank + 1) % comm.size
    prev_rank = (comm.rank - 1) % comm.size
    chunk = np.zeros(nbytes // comm.size, np.uint8)
    arriving = np.empty_like(chunk)
    for step in range(2 * (comm.size - 1)):
        comm.Sendrecv(chunk, dest=next_rank, recvbuf=arriving, source=prev_rank)
        if step < comm.size - 1:
            ringside.compute(nbytes=3 * chunk.nbytes, phase="add")


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/adding",
    "How long does it take where memory is so slow that gamma equals beta?",
    unit="µs",
)

# %% slideshow={"slide_type": "fragment"}
slow_memory = machine.with_(memory_bytes_per_s=3 / beta)
adding = ringside.run("adding_traffic.py:ring", p, (n,), machine=slow_memory)
print(f"with additions    {adding.makespan_s * 1e6:g} µs")
print(f"without additions {ring.makespan_s * 1e6:g} µs")

# %% slideshow={"slide_type": "fragment"}
adding.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("03/adding", adding.makespan_s * 1e6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 9. The ring all-reduce with additions, on a machine with slow memory.*
#
# It takes 10.5 µs. The additions cost you $\frac{p-1}{p}\,n\gamma$ in all. Every rank adds at the same
# time, so the ring shares the additions as evenly as the bytes. The master of a star would do all of
# them alone, and take $(p-1)n\gamma$.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(adding.makespan_s, ring.makespan_s + (p - 1) / p * n * beta)
assert np.isclose(adding.makespan_s, 10.5e-6)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Is the time of a ring independent of the number of ranks?** You will read often
# that it is. Test it: keep the vector at 100 kB, and let the number of ranks grow from 4 to 4096.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/independent", "By what factor does the ring's time grow?", unit="times")

# %% slideshow={"slide_type": "fragment"}
worlds = 2 ** np.arange(2, 13)
latency_s = 2 * (worlds - 1) * alpha
transfer_s = 2 * (worlds - 1) / worlds * 100e3 * beta
total_s = latency_s + transfer_s
for place in (0, -1):
    print(f"{worlds[place]:4} ranks: {total_s[place] * 1e3:.2f} ms")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(8, 3.6))
axis.bar(range(len(worlds)), transfer_s * 1e3, color="#009e73", label="bytes: 2 (p-1)/p n beta")
axis.bar(
    range(len(worlds)),
    latency_s * 1e3,
    bottom=transfer_s * 1e3,
    color="#a6dccb",
    label="messages: 2 (p-1) alpha",
)
axis.set_xticks(range(len(worlds)), worlds)
axis.set(xlabel="ranks p", ylabel="time of one ring all-reduce (ms)")
axis.legend(frameon=False)
show(
    figure,
    "Stacked bars over 4 to 4096 ranks: the part for bytes stays below 0.2 ms, the part for "
    "messages grows in proportion to the ranks, from almost nothing to 8.2 ms.",
)

# %% slideshow={"slide_type": "fragment"}
reveal("03/independent", total_s[-1] / total_s[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 10. What a ring all-reduce of 100 kB costs on 4 to 4096 ranks.*
#
# **It isn't: your ring takes 54 times as long.** Only its *bytes* are nearly independent of $p$. They cost
# 1.33 times as much on the largest world as on the smallest. The messages cost $2(p-1)\alpha$, in
# proportion to $p$. So on large machines the latency puts an end to the ring.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(transfer_s[-1] / transfer_s[0], 2) == 1.33
assert round(total_s[-1] / total_s[0]) == 54 and worlds[-1] == 4096
assert round(latency_s[-1] * 1e3, 1) == 8.2 and transfer_s[-1] < 0.2e-3

# %% [markdown] slideshow={"slide_type": "slide"}
# **Why use a ring at all?** Compare it with your sharded server. There each rank sends the same
# $2\frac{p-1}{p}n$ bytes, but pays $2\alpha$ instead of $2(p-1)\alpha$. In this model the sharded
# server *always* wins. Keep this question in mind. Section 9 answers it with a machine whose ranks
# share links, and section 15 with what the model leaves out.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=15
# ## 6. Recursive doubling and halving
#
# The lower bound for latency contains a logarithm. How do you reach it? In step $k$, exchange
# with the rank whose number differs from yours in bit $k$ alone: rank 5, in binary `101`, meets `100`, `111` and `001`.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, axes = plt.subplots(1, 3, figsize=(9, 1.9))
for axis, bit in zip(axes, (1, 2, 4)):
    for rank in range(8):
        axis.plot(rank, 0, "o", color="#57606a", markersize=11)
        axis.text(rank, 0, rank, color="white", ha="center", va="center", fontsize=8)
        if rank < (partner := rank ^ bit):  # which flips that bit
            arc = np.linspace(0, np.pi)
            middle, radius = (rank + partner) / 2, (partner - rank) / 2
            across, height = middle + radius * np.cos(arc), 0.3 + np.sin(arc) * bit / 4
            axis.plot(across, height, color="#57606a")
    axis.set(title=f"partner = rank ^ {bit}", ylim=(-0.5, 1.6))
    axis.axis("off")
show(
    figure,
    "Three rows of ranks 0 to 7. Step 1 joins 0-1, 2-3, 4-5, 6-7; step 2 joins ranks two "
    "apart, 0-2, 1-3, 4-6, 5-7; step 3 joins ranks four apart, 0-4, 1-5, 2-6, 3-7.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 11. Who exchanges with whom in the three steps of eight ranks.*
#
# **Recursive doubling** exchanges the whole vector in each step and adds. After step 1 you have the
# sum of 2 ranks, after step 2 the sum of 4, and after $\log_2 p$ steps the sum of all.
#
# **Halving-doubling** (Rabenseifner's algorithm [5]) exchanges halves, and goes through Figure 11 from the
# right: far partners first. You send the half whose sum your partner will hold, and get the half whose sum will
# be yours. Then you do the same with quarters, and so on. This is a reduce-scatter in $\log_2 p$ steps. The
# same way back is an all-gather.

# %% slideshow={"slide_type": "slide"}
# %%writefile recursive_traffic.py
import numpy as np


def trade(comm, bit, nbytes):
    partner = comm.rank ^ bit
    mine, theirs = np.zeros(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    comm.Sendrecv(mine, dest=partner, recvbuf=theirs, source=partner)


def doubling(comm, nbytes, bits):
    for bit in bits:
        trade(comm, bit, nbytes)


def halving_doubling(comm, nbytes, bits):
    sizes = [nbytes // 2 ** (step + 1) for step in range(len(bits))]
    for bit, size in zip(bits, sizes):
        trade(comm, bit, size)
    for bit, size in zip(reversed(bits), reversed(sizes)):
        trade(comm, bit, size)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/doubling", "Recursive doubling, 8 ranks, 2000 bytes: how long?", unit="µs")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/halving", "Halving-doubling, 8 ranks, 2000 bytes: how long?", unit="µs")

# %% slideshow={"slide_type": "slide"}
p = 8
doubling = ringside.run("recursive_traffic.py:doubling", p, (n, [1, 2, 4]))
print(f"{doubling.makespan_s * 1e6:g} µs, messages sent: {doubling.sent_messages()[0]}")

# %% slideshow={"slide_type": "fragment"}
doubling.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("03/doubling", doubling.makespan_s * 1e6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 12. Recursive doubling on eight ranks: three steps, each with the whole vector.*

# %% slideshow={"slide_type": "subslide"}
halving = ringside.run("recursive_traffic.py:halving_doubling", p, (n, [4, 2, 1]))
print(f"{halving.makespan_s * 1e6:g} µs, messages sent: {halving.sent_messages()[0]}")

# %% slideshow={"slide_type": "fragment"}
halving.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("03/halving", halving.makespan_s * 1e6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 13. Halving-doubling on eight ranks: the steps get shorter, and then longer again.*
#
# $$T_\text{doubling} = \log_2 p\,(\alpha + n\beta) \qquad
# T_\text{halving-doubling} = 2\log_2 p\;\alpha + 2\tfrac{p-1}{p}\,n\beta$$
#
# Your two programs take 9 µs and 9.5 µs, because 2000 bytes is close to the size where they change
# places. Doubling meets the bound of $\log_2 p$ messages in a row. Halving-doubling meets the bound for
# bytes, and needs only twice as many messages. If your additions count, doubling pays
# $\log_2 p\; n\gamma$ more and halving-doubling $\frac{p-1}{p}n\gamma$, because doubling adds whole
# vectors in every step [5].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(doubling.makespan_s, 3 * (alpha + n * beta))
assert np.isclose(halving.makespan_s, 2 * 3 * alpha + 2 * (p - 1) / p * n * beta)
assert np.isclose(doubling.makespan_s, 9e-6) and np.isclose(halving.makespan_s, 9.5e-6)
assert halving.sent_messages()[0] == 2 * doubling.sent_messages()[0] == 6
assert halving.sent_bytes()[0] == 2 * (p - 1) * n // p

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The same in torch**, with `sendrecv` of section 2:

# %% slideshow={"slide_type": "fragment"}
# %%writefile recursive_torch.py
import torch
import torch.distributed as dist
from both_ways import sendrecv


def doubling(group, nbytes, bits):
    mine = torch.empty(nbytes, dtype=torch.uint8)
    theirs = torch.empty_like(mine)
    for bit in bits:
        partner = dist.get_rank() ^ bit
        sendrecv(mine, partner, theirs, partner)


# %% slideshow={"slide_type": "fragment"} known={"03/doubling": "the torch program repeats it"}
in_torch = ringside.run("recursive_torch.py:doubling", p, (n, [1, 2, 4]))
print(f"{in_torch.makespan_s * 1e6:.3g} µs")
assert in_torch.sent_bytes() == doubling.sent_bytes()
assert np.isclose(in_torch.makespan_s, doubling.makespan_s)

# %% [markdown] slideshow={"slide_type": "slide"}
# **What if your $p$ is not a power of two?** Then some ranks have no partner. The usual cure is to
# *fold*. With $p = 2^k + r$, first let $r$ ranks hand their vector to a neighbour. Then run the
# algorithm on $2^k$ ranks. At the end, hand the result back to the $r$ ranks. For doubling that is
# two more messages of full length. For halving-doubling MPICH [5] counts
# $(2\lfloor\log_2 p\rfloor + 2)\,\alpha + (2\frac{p-1}{p} + 2)\,n\beta$.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/ninth",
    "Halving-doubling of 100 MB: how many times as long do 9 ranks take as 8?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
long = 100_000_000
eight_s = 2 * 3 * alpha + 2 * 7 / 8 * long * beta
nine_s = (2 * 3 + 2) * alpha + (2 * 8 / 9 + 2) * long * beta
ring_nine_s = 2 * 8 * (alpha + long / 9 * beta)
print(f"8 ranks: halving-doubling {eight_s:.3f} s")
print(f"9 ranks: halving-doubling {nine_s:.3f} s, ring {ring_nine_s:.3f} s")
reveal("03/ninth", nine_s / eight_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your ninth rank makes it take 2.2 times as long. The plain ring on the same nine ranks is 2.1 times
# faster. For long vectors the ring has no favourite world sizes, and that is one of the reasons why it is
# so popular.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(nine_s / eight_s, 1) == 2.2 and round(nine_s / ring_nine_s, 1) == 2.1

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. Trees, and two of them
#
# Can you have short latency and full bandwidth at once? Begin with a binary tree. It sums towards its root,
# and then sends the result back down, in $2\log_2 p$ levels. Alone it wastes ports, because a leaf receives
# nothing while summing, and the root sends nothing. Two improvements [6] make up for it:
#
# 1. **Chunks.** Cut the vector into $c$ chunks and send one after the other. While the root adds
#    chunk 1, the level below works on chunk 2.
# 2. **Two trees.** Let each of two trees carry half of the vector. Choose them so that *no rank is
#    an inner node in both*. A rank that is a leaf in one tree works in the other.
#
# ```text
#  tree 1        0                      tree 2        7
#                |                                    |
#                4                                    3
#             /     \                              /     \
#            2       6                            5       1
#           / \     / \                          / \     / \
#          1   3   5   7                        6   4   2   0
# ```

# %% slideshow={"slide_type": "fragment"}
trees = table(LECTURES / "data" / "double_trees.csv")
of_eight = trees["world_size"] == 8
# the parents of ranks 0, 1, 2 and so on; -1 marks the root
tree1 = trees["parent1"][of_eight].tolist()
tree2 = trees["parent2"][of_eight].tolist()
print("tree 1:", tree1)
print("tree 2:", tree2)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Check that every rank is an inner node in exactly one of the two trees. (The extra module of the
# assignment asks you to build such trees for any $p$. Here they come from a file.)
#
# Your traffic goes chunk after chunk up both trees, and then chunk after chunk down. Now two ranks
# may have messages of both trees in flight between them. How does a receiver tell them apart? By the
# **tag**, a number that you write on a message. A receive that names a tag takes only
# messages with that tag. Here tree 1 uses tag 0 and tree 2 uses tag 1.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
inner1, inner2 = set(tree1) - {-1}, set(tree2) - {-1}
assert inner1 & inner2 == set() and inner1 | inner2 == set(range(8))

# %% slideshow={"slide_type": "slide"}
# %%writefile relay.py
import numpy as np
from mpi4py import MPI


def relay(comm, chunk, routes, num_chunks):
    """Of a route (tag, sources, dests): what came from all sources goes to dests."""
    expected = []  # entries: requests to wait for, tag, where the chunk goes next
    for tag, sources, dests in routes:
        for _ in range(num_chunks):
            requests = [comm.Irecv(np.empty_like(chunk), one, tag) for one in sources]
            expected.append((requests, tag, dests))
    sent = []
    for requests, tag, dests in expected:
        MPI.Request.Waitall(requests)
        sent += [comm.Isend(chunk, dest, tag) for dest in dests]
    MPI.Request.Waitall(sent)


# %% [markdown] slideshow={"slide_type": "fragment"}
# The order of the routes matters. Send the chunks that depend on no one first: a leaf's own. Send
# last what no other rank is waiting for. The program below sorts its routes by this rule.

# %% slideshow={"slide_type": "subslide"}
# %%writefile tree_traffic.py
import numpy as np
from relay import relay


def urgency(route):
    _tag, sources, dests = route
    return (len(sources) > 0, len(dests) == 0)  # False comes before True


def trees(comm, nbytes, parents, num_chunks):
    chunk = np.zeros(nbytes // len(parents) // num_chunks, np.uint8)
    upwards, downwards = [], []
    for tag, tree in enumerate(parents):
        children = [rank for rank in range(comm.size) if tree[rank] == comm.rank]
        above = [tree[comm.rank]] if tree[comm.rank] >= 0 else []
        upwards.append((tag, children, above))
        downwards.append((tag, above, children))
    relay(comm, chunk, sorted(upwards, key=urgency), num_chunks)
    relay(comm, chunk, sorted(downwards, key=urgency), num_chunks)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/trees",
    "8 ranks, 20,000 bytes. What saves more time?",
    choices=["the second tree", "eight chunks in each of two trees"],
)

# %% slideshow={"slide_type": "fragment"}
n = 20_000
one_tree = ringside.run("tree_traffic.py:trees", p, (n, [tree1], 1))
two_trees = ringside.run("tree_traffic.py:trees", p, (n, [tree1, tree2], 1))
chunked = ringside.run("tree_traffic.py:trees", p, (n, [tree1, tree2], 8))
names = ["one tree", "two trees", "chunks"]
for name, run in zip(names, [one_tree, two_trees, chunked]):
    busiest = max(run.sent_bytes())
    print(f"{name:9} {run.makespan_s * 1e6:4.0f} µs, busiest rank {busiest:,} bytes")
second = one_tree.makespan_s - two_trees.makespan_s
chunking = two_trees.makespan_s - chunked.makespan_s
best = "the second tree" if second > chunking else "eight chunks in each of two trees"

# %% slideshow={"slide_type": "slide"}
chunked.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("03/trees", best)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 14. Two trees of eight ranks with eight chunks each.*
#
# **Your second tree saves more than the chunks.**
#
# | | time | why |
# |---|---|---|
# | one tree | 206 µs | its busiest rank sends three vectors: two down to its children, one up |
# | two trees | 106 µs | each carries half of the bytes, and no rank works twice |
# | two trees, eight chunks | 61 µs | all levels work at the same time |
#
# How far can you go on? In this scheme the busiest rank sends two vectors, which take 40 µs. So you can't
# get below that.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
times_us = [round(run.makespan_s * 1e6) for run in (one_tree, two_trees, chunked)]
assert times_us == [206, 106, 61]
assert max(one_tree.sent_bytes()) == 3 * n and max(chunked.sent_bytes()) == 2 * n
assert second > chunking
assert round(2 * n * beta * 1e6) == 40

# %% [markdown] slideshow={"slide_type": "slide"}
# What does it cost with many chunks? Each rank passes on $2 \cdot n/2$ bytes upwards and as much
# downwards. The time then tends to $2n\beta$, plus what it takes to fill the tree:
#
# $$T_\text{double tree} \approx 2n\beta + O(\log p)\left(\alpha + \tfrac{n}{2c}\beta\right)$$
#
# So you have the bandwidth of a ring and the latency of a logarithm. (This is an approximation. The
# formulas of sections 2 to 6 are exact.)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/chunks",
    "Which number of chunks is the best on this machine?",
    choices=["1", "8", "32", "128"],
)

# %% slideshow={"slide_type": "fragment"}
chunk_counts = [1, 2, 4, 8, 16, 32, 64, 128]
makespans = []
for num_chunks in chunk_counts:
    run = ringside.run("tree_traffic.py:trees", p, (20_480, [tree1, tree2], num_chunks))
    makespans.append(run.makespan_s)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(6, 3))
axis.plot(chunk_counts, np.array(makespans) * 1e6, "o-", color="#8a7a00")
axis.set(xscale="log", xlabel="chunks in each tree", ylabel="time (µs)", ylim=0)
axis.set_xticks(chunk_counts, chunk_counts)
show(
    figure,
    "Time of the double tree on 8 ranks over the number of chunks: it falls steeply from "
    "108 µs with one chunk, and hardly any more beyond 16 chunks, to 57 µs with 128.",
)

# %% slideshow={"slide_type": "fragment"}
reveal("03/chunks", str(chunk_counts[np.argmin(makespans)]))

# %% [markdown] slideshow={"slide_type": "subslide"}
# *Figure 15. Time of the double tree against the number of chunks.*
#
# Of these numbers 128 is the best, as more chunks are always better here. The first seven cuts save you 46 µs, and the next 120 only 5 µs. Don't
# trust the right end of the curve, for the model is an optimist: chunks that are posted together share
# their $\alpha$. On a real machine each chunk costs the processor something, and the curve turns up again.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [chunk_counts[i] for i in (3, 7)] == [8, 128]
one, eight_chunks, most = [round(makespans[i] * 1e6) for i in (0, 3, 7)]
assert one - eight_chunks == 46 and eight_chunks - most == 5 and chunk_counts[7] - 8 == 120

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 8. Crossover: which one, when?
#
# Which of your programs should you take? Compare all of them on 16 ranks, from 16 bytes to 16 MB. Every
# run leaves a **trace**, which is the list of what each rank sent, received and waited for, without times.
# `ringside.replay` computes the times of a trace on any machine. It does not run the program again.
#
# So you need one run of each program, not one for each size. In the port model the number of bytes
# appears only in $n\beta$. A vector that is $k$ times longer therefore takes as long as the same trace on a
# machine whose $\beta$ is $k$ times larger.

# %% slideshow={"slide_type": "fragment"}
p, n0 = 16, 2048
PROGRAMS = {
    "star": ("star_traffic.py:star", (n0, True)),
    "sharded_server": ("sharded_traffic.py:exchange", (n0, True)),
    "ring": ("ring_traffic.py:ring", (n0,)),
    "recursive_doubling": ("recursive_traffic.py:doubling", (n0, [1, 2, 4, 8])),
    "halving_doubling": ("recursive_traffic.py:halving_doubling", (n0, [8, 4, 2, 1])),
}
of_sixteen = trees["world_size"] == p
parents = [trees[name][of_sixteen].tolist() for name in ("parent1", "parent2")]
for num_chunks in (1, 4, 16, 64):
    arguments = (n0, parents, num_chunks)
    PROGRAMS[f"tree, {num_chunks}"] = ("tree_traffic.py:trees", arguments)

# %% slideshow={"slide_type": "fragment"}
TRACES = {}
for name, (target, arguments) in PROGRAMS.items():
    TRACES[name] = ringside.run(target, p, arguments).trace
print(len(TRACES), "traces")

# %% slideshow={"slide_type": "slide"}
SIZES = 4 ** np.arange(2, 13)  # 16 bytes to 16 MB


def replayed(name, machine):
    """Seconds for each of SIZES on a machine."""
    seconds = []
    for size in SIZES:
        slower = machine.with_(beta_s_per_byte=machine.beta_s_per_byte * size / n0)
        seconds.append(ringside.replay(TRACES[name], slower).makespan_s)
    return np.array(seconds)


def curves(machine):
    """All algorithms; the double tree with the best of its numbers of chunks."""
    result = {name: replayed(name, machine) for name in TRACES}
    tree_times = [result.pop(name) for name in TRACES if "tree" in name]
    return result | {"tree": np.min(tree_times, axis=0)}


# %% slideshow={"slide_type": "fragment"}
def formulas(machine, p=16):
    """What sections 3 to 6 derived, for each of SIZES."""
    a, nb, steps = machine.alpha_s, SIZES * machine.beta_s_per_byte, np.log2(p)
    return {
        "star": 2 * (a + (p - 1) * nb),
        "sharded_server": 2 * (a + (p - 1) / p * nb),
        "ring": 2 * (p - 1) * (a + nb / p),
        "recursive_doubling": steps * (a + nb),
        "halving_doubling": 2 * steps * a + 2 * (p - 1) / p * nb,
    }


measured, predicted = curves(machine), formulas(machine)
for name, seconds in predicted.items():
    np.testing.assert_allclose(measured[name], seconds, rtol=1e-9, err_msg=name)
print(f"{len(predicted)} formulas agree with the replay at {len(SIZES)} sizes")

# %% slideshow={"slide_type": "slide"} tags=["figure", "hide-input"]
from ringside.draw import crossover_axes

axes = crossover_axes(SIZES, measured, predicted, title="All-reduce on 16 ranks, textbook machine")
show(
    axes.figure,
    "Time over vector size, both logarithmic, for six algorithms: lines by formula, markers "
    "by replay, and they coincide. For short vectors star and sharded server lie lowest, "
    "then recursive doubling, and the ring highest. For long vectors star lies highest by "
    "far, and sharded server, ring, halving-doubling and double tree run together below.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 16. Six all-reduce algorithms on 16 ranks. Lines are formulas, and markers are replays.*
#
# Read it from the left. For short vectors count the *messages in a row*. For long vectors count the
# *bytes through the busiest port*. In between, the lines cross. To find where doubling and
# halving-doubling cross, set their formulas equal:
#
# $$n^* = \frac{\log_2 p}{\log_2 p - 2\frac{p-1}{p}}\cdot\frac{\alpha}{\beta}$$


# %% slideshow={"slide_type": "subslide"}
def crossover(p, machine):
    """The size in bytes at which recursive doubling and halving-doubling are equal."""
    steps = np.log2(p)
    return steps / (steps - 2 * (p - 1) / p) * machine.alpha_s / machine.beta_s_per_byte


for p in (4, 16, 64, 1024):
    print(f"{p:5} ranks: {crossover(p, machine):,.0f} bytes")

# %% [markdown] slideshow={"slide_type": "fragment"}
# For your 16 ranks it is 1882 bytes. With more ranks it tends towards $\alpha/\beta$.
#
# The sharded server lies below everything, everywhere. It is the one curve here that you should not
# trust. It assumes that 15 messages of one rank share a single $\alpha$, and that every pair of
# ranks has a wire of its own. If $\alpha$ is the processor's work for each message, nothing is
# shared, and the sharded server costs what the ring costs, $2(p-1)\alpha + 2\frac{p-1}{p}n\beta$.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(crossover(16, machine)) == 1882
best = [min(measured, key=lambda name: measured[name][i]) for i in range(len(SIZES))]
assert set(best) == {"sharded_server"}

# %% [markdown] slideshow={"slide_type": "slide"}
# **Another machine.** What if your network is another one? Draw the same figure for a tenth of the
# latency, and for ten times the latency.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/more-latency",
    "With ten times the latency, where do the lines cross?",
    choices=["at shorter vectors", "at the same size", "at longer vectors"],
)

# %% slideshow={"slide_type": "fragment"}
slower = machine.with_(alpha_s=10 * alpha)
before, after = crossover(16, machine), crossover(16, slower)
print(f"from {before:,.0f} to {after:,.0f} bytes")
words = "at longer vectors" if after > before else "at shorter vectors"

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
KNOBS = {"a tenth of the latency": 0.1, "textbook": 1.0, "ten times the latency": 10.0}
shown = ["ring", "recursive_doubling", "halving_doubling", "tree"]
figure, panels = plt.subplots(1, 3, figsize=(10, 3.8), sharey=True)
for axis, (title, factor) in zip(panels, KNOBS.items()):
    other = machine.with_(alpha_s=factor * alpha)
    replays, lines = curves(other), formulas(other)
    markers = {name: replays[name] for name in shown}
    crossover_axes(SIZES, markers, {name: lines[name] for name in shown[:3]}, axis, title=title)
    axis.set_xticks(SIZES[1::3])
    axis.get_legend().set_visible(factor == 0.1)
panels[0].set_ylim(top=2.0)  # room for the legend
show(
    figure,
    "Three copies of the crossover plot for ring, recursive doubling, halving-doubling and "
    "double tree, with a tenth, once and ten times the latency: the pattern is the same and "
    "moves to the right in proportion to the latency.",
)

# %% slideshow={"slide_type": "fragment"}
reveal("03/more-latency", words)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 17. The same comparison on three machines.*
#
# With more latency the crossings move to longer vectors, in proportion. Only $\alpha/\beta$ matters for
# the pattern, so you know your machine's figure as soon as you know that one number.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(after / before, 10)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Move the sliders.** Choose a scheme, a number of ranks and a vector, and look at the timeline to see
# where your time goes.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/slowest",
    "8 ranks, 20,000 bytes. Which scheme is the slowest?",
    choices=["sharded server", "ring", "recursive doubling", "halving-doubling"],
)


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
def schedule(scheme, ranks, nbytes, latency_us, gigabytes_per_s):
    """Timeline of one all-reduce on a machine of your own."""
    bits = [2**k for k in reversed(range(ranks.bit_length() - 1))]
    target, args = {
        "sharded server": ("sharded_traffic.py:exchange", (nbytes, True)),
        "ring": ("ring_traffic.py:ring", (nbytes,)),
        "recursive doubling": ("recursive_traffic.py:doubling", (nbytes, bits[::-1])),
        "halving-doubling": ("recursive_traffic.py:halving_doubling", (nbytes, bits)),
    }[scheme]
    yours = machine.with_(alpha_s=latency_us * 1e-6, beta_s_per_byte=1e-9 / gigabytes_per_s)
    return ringside.run(target, ranks, args, machine=yours).timeline


# %% slideshow={"slide_type": "fragment"}
SCHEMES = ["sharded server", "recursive doubling", "halving-doubling", "ring"]
times_us = {}
for nbytes in (200, 20_000):
    runs = [schedule(scheme, 8, nbytes, 1.0, 1.0) for scheme in SCHEMES]
    times_us[nbytes] = [round(run.makespan_s * 1e6, 2) for run in runs]
    print(f"{nbytes:6,} bytes:", dict(zip(SCHEMES, times_us[nbytes])))

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
explore(
    schedule,
    alt="Timeline of an all-reduce by {scheme}: {ranks} ranks, {nbytes} bytes each, "
    "{latency_us} µs for each message, {gigabytes_per_s} GB/s.",
    same_scale=["scheme"],
    scheme=Knob(["sharded server", "ring", "recursive doubling", "halving-doubling"], "ring"),
    ranks=Knob([4, 8], start=8),
    nbytes=Knob([200, 2000, 20_000], start=2000, label="vector", unit="bytes"),
    latency_us=Knob([0.1, 1.0, 10.0], start=1.0, label="latency", unit="µs", live=True),
    gigabytes_per_s=Knob([0.1, 1.0, 10.0], start=1.0, label="link", unit="GB/s", live=True),
)

# %% slideshow={"slide_type": "fragment"}
reveal("03/slowest", SCHEMES[np.argmax(times_us[20_000])])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 18. The four schemes, as you set them. The sliders for latency and link move in Jupyter
# only, where the kernel draws what you ask for.*
#
# **For 20,000 bytes recursive doubling is the slowest.** For short vectors it is the second:
#
# | | messages in a row | 200 bytes | 20,000 bytes |
# |---|---|---|---|
# | sharded server | 2 | 2.35 µs | 37 µs |
# | recursive doubling | 3 | 3.6 µs | 63 µs |
# | halving-doubling | 6 | 6.35 µs | 41 µs |
# | ring | 14 | 14.35 µs | 49 µs |
#
# With short vectors you pay for messages in a row, and the times are in their order. With long ones you pay
# for bytes, and doubling sends whole vectors.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
np.testing.assert_allclose(times_us[200], [2.35, 3.6, 6.35, 14.35])
assert times_us[200] == [2.35, 3.6, 6.35, 14.35] and times_us[20_000] == [37, 63, 41, 49]

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 9. Topology: who has a wire to whom?
#
# So far any two of your ranks could talk at full speed. What if they can't? Draw the **links** (wires) as a
# graph. Two numbers of a graph bound every algorithm that uses its links:
#
# - The **diameter** is the largest number of hops (links in a row) between two ranks. It bounds the latency from
#   below. For example, in a ring of 16 ranks two ranks are up to 8 hops apart.
# - The **degree** is the number of links of one rank. It says how many links share the port of that
#   rank.
#
# [7] shows three graphs: a random one, a ring, and a wheel, which is a rim of ranks with a hub that
# has a link to each of them. A fourth is the *hypercube*, in which two ranks are linked if their binary numbers
# differ in one bit.
#
# From here on a *port* is the network card (NIC) of a node, and no longer a rank's side for sending or receiving.


# %% slideshow={"slide_type": "fragment"}
def around(ranks):
    """The wires of a ring: from each rank to the next one, the last one's to the first."""
    return list(zip(ranks, np.roll(ranks, -1)))


p = 16
shuffles = np.random.default_rng(1)
WIRES = {
    "random": around(shuffles.permutation(p)) + around(shuffles.permutation(p)),
    "ring": around(range(p)),
    "wheel": around(range(1, p)) + [(0, rim) for rim in range(1, p)],
    "hypercube": [(rank, rank ^ bit) for rank in range(p) for bit in (1, 2, 4, 8)],
}


# %% slideshow={"slide_type": "fragment"}
def graph(wires):
    """joined[i, j]: a wire joins ranks i and j, or they are the same rank."""
    joined = np.eye(p, dtype=bool)
    for i, j in wires:
        joined[i, j] = joined[j, i] = True
    return joined


def diameter(joined):
    reached, hops = joined, 1
    while not reached.all():
        reached, hops = reached @ joined, hops + 1
    return hops


# %% slideshow={"slide_type": "fragment"}
facts = {}
for name, wires in WIRES.items():
    joined = graph(wires)
    facts[name] = (joined.sum(axis=0).max() - 1, diameter(joined))
    print(f"{name:10} largest degree {facts[name][0]:2}, diameter {facts[name][1]}")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, panels = plt.subplots(1, 4, figsize=(10, 2.7))
for axis, (name, wires) in zip(panels, WIRES.items()):
    spots = np.exp(2j * np.pi * np.arange(p) / p)
    if name == "wheel":
        spots = np.concatenate([[0], np.exp(2j * np.pi * np.arange(p - 1) / (p - 1))])
    for i, j in np.argwhere(np.triu(graph(wires), 1)):
        axis.plot(spots[[i, j]].real, spots[[i, j]].imag, color="#57606a", linewidth=0.8)
    axis.plot(spots.real, spots.imag, "o", color="#57606a")
    axis.set_title(f"{name}\ndegree {facts[name][0]}, diameter {facts[name][1]}", fontsize=9)
    axis.set_aspect("equal")
    axis.axis("off")
show(
    figure,
    "Four graphs of 16 ranks drawn on circles: random, made of two shuffled rings; ring; "
    "wheel with a hub in the middle; hypercube.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 19. Four ways to wire 16 ranks.*
#
# You have used three of them. Your *star* uses the spokes of the wheel: two hops, and 15 vectors
# through one port. Your *ring* is the opposite: one neighbour at a time, and many hops. *Recursive
# doubling* uses the hypercube, whose degree and diameter are both 4. A random graph has a low degree
# and a low diameter without any plan. *Gossip* algorithms, in which each rank averages with a few
# others, make use of that.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert facts["ring"] == (2, 8) and facts["wheel"] == (15, 2) and facts["hypercube"] == (4, 4)
assert max(facts["random"]) <= 4

# %% [markdown] slideshow={"slide_type": "slide"}
# **Nodes.** In a cluster your links are not alike. A **node** is one computer with several GPUs, and a
# **port** (a network card, NIC) is where a cable leaves it. On the `zaratan` model [8] a node has four GPUs.
# Inside it a message is fast, and *all four share one port* to the other nodes.

# %% slideshow={"slide_type": "fragment"}
zaratan = ringside.Machine.load("zaratan").with_(eager_threshold_bytes=0)
inside, between = zaratan.link(0, 1), zaratan.link(0, 4)
for where, link in (("inside a node", inside), ("between nodes", between)):
    print(f"{where}: {link.alpha_s * 1e6:.1f} µs, {1e-9 / link.beta_s_per_byte:g} GB/s")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
BLUE, ORANGE, GREY = "#0072b2", "#e69f00", "#57606a"


def box(axis, x, y, width, height, color, text="", fill=True):
    """A rectangle with words in its middle."""
    inside, ink = (color, "white") if fill else ("none", color)
    shape = plt.Rectangle((x, y), width, height, facecolor=inside, edgecolor=color)
    axis.add_patch(shape)
    middle = (x + width / 2, y + height / 2)
    axis.text(*middle, text, color=ink, ha="center", va="center", fontsize=12)


def rates(machine):
    """GB/s of a GPU inside its node or rack, and of a port."""
    links = machine.link(0, 1), machine.link(0, machine.ranks_per_node)
    return [1e-9 / link.beta_s_per_byte for link in links]


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def wires(axis, places, share, top, size):
    """From each GPU a wire up to its NVLink, and one down to the port that it shares."""
    ports = np.repeat(places.reshape(-1, share).mean(axis=1), share)
    for place, port in zip(places, ports):
        axis.plot([place, place], [top, top + 0.9], color=BLUE, linewidth=1)
        axis.plot([place, place, port, port], [1.8, 1.6, 1, -0.2], color=ORANGE, linewidth=1)
        axis.plot(port, 1, "s", color=ORANGE, markersize=size)


def labels(axis, preset, top):
    """The two rates, at the right."""
    near, far = rates(preset)
    sharing = "a GPU" if preset.gpus_per_nic == 1 else "for all"
    axis.text(8.4, top + 0.3, f"NVLink:\n{near:.0f} GB/s\na GPU", fontsize=12)
    axis.text(8.4, -0.2, f"port:\n{far:.3g} GB/s\n{sharing}", fontsize=12)


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def domain(axis, columns, rows, preset, title, inside="NVLink switches"):
    """GPUs between their NVLink and their ports to the network."""
    step, top = 8 / columns, 1.7 + 0.5 * rows
    box(axis, -0.2, 0.7, 8.4, top + 1.1, GREY, fill=False)  # the node or the rack
    box(axis, 0, top + 0.9, 8, 0.7, GREY, inside)
    box(axis, 0, -0.9, 8, 0.7, GREY, "switches of the network")
    middles = step * (np.arange(columns) + 0.5)
    for x in middles:
        for y in 1.8 + 0.5 * np.arange(rows):
            box(axis, x - 0.4 * step, y, 0.8 * step, 0.4, BLUE, "GPU" * (rows == 1))
    beside = 0.2 * step * (np.arange(rows) - (rows - 1) / 2)
    places = (middles[:, None] + beside).ravel()
    wires(axis, places, preset.gpus_per_nic, top, size=10 / rows)
    labels(axis, preset, top)
    axis.set(title=title, xlim=(-0.3, 10.3), ylim=(-1, top + 2))
    axis.axis("off")


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
domain(axis, 4, 1, zaratan, "a node of zaratan: 4 GPUs, one port", inside="NVLink")
show(
    figure,
    "Four GPUs in a node, each with a wire of 100 GB/s up to NVLink. Their wires down meet in one "
    "port of 12.5 GB/s, whose cable leads to the switches of the network.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 20. A node, and its one port to the network.*
#
# Run five programs on 32 GPUs of 8 nodes, with 100 MB each:
#
# - (a) the ring, with ranks in order;
# - (b) the ring, with ranks shuffled;
# - (c) the sharded server;
# - (d) halving-doubling that begins with far partners;
# - (e) halving-doubling that begins with near partners.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/fastest", "Which one is the fastest?", choices=["a", "b", "c", "d", "e"])

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/shuffled", "How many times as long as (a) does (b) take?", unit="times")

# %% slideshow={"slide_type": "slide"}
p, n0, n = 32, 3200, 100e6
in_order, shuffled = list(range(p)), np.random.default_rng(2).permutation(p).tolist()
RING, HALVING = "ring_traffic.py:ring", "recursive_traffic.py:halving_doubling"
CASES = {  # program, arguments, and the order of the ranks
    "a": (RING, (n0,), in_order),
    "b": (RING, (n0,), shuffled),
    "c": ("sharded_traffic.py:exchange", (n0, True), in_order),
    "d": (HALVING, (n0, [16, 8, 4, 2, 1]), in_order),
    "e": (HALVING, (n0, [1, 2, 4, 8, 16]), in_order),
}
runs = {}
for case, (target, args, members) in CASES.items():
    runs[case] = ringside.run(target, p, args, members=members, machine=zaratan)


# %% slideshow={"slide_type": "subslide"}
def on_zaratan(trace, nbytes):
    """Replay a trace of n0 bytes as if the vector had nbytes."""
    longer = nbytes / n0
    slower = zaratan.with_(
        beta_s_per_byte=between.beta_s_per_byte * longer,
        intra_beta_s_per_byte=inside.beta_s_per_byte * longer,
    )
    return ringside.replay(trace, slower).makespan_s


node = np.arange(p) // 4
leaves = node[:, None] != node[None, :]  # do ranks i and j sit on different nodes?

# %% slideshow={"slide_type": "fragment"}
times, out = {}, {}
for case, run in runs.items():
    times[case] = on_zaratan(run.trace, n)
    out[case] = (run.bytes_matrix() * leaves).sum() / 8 * n / n0
    relative = times[case] / times["a"]
    print(f"({case}) {times[case] * 1e3:5.1f} ms, {relative:.1f} times (a)")
    print(f"       {out[case] / 1e6:5.0f} MB leave each node")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, panels = plt.subplots(1, 5, figsize=(9.5, 2.3), layout="constrained")
for axis, (case, run) in zip(panels, runs.items()):
    nbytes = run.bytes_matrix()
    hues = plt.matplotlib.colors.ListedColormap([BLUE, ORANGE])
    axis.imshow(leaves, cmap=hues, alpha=(nbytes / nbytes.max()) ** 0.5)
    axis.set(title=f"({case})", xticks=[], yticks=[])
    for edge in np.arange(4, p, 4) - 0.5:
        axis.axhline(edge, color="#d3d9e0", linewidth=0.5)
        axis.axvline(edge, color="#d3d9e0", linewidth=0.5)
panels[0].set(xlabel="to rank", ylabel="from rank")
show(
    figure,
    "Five squares of 32 by 32 ranks, lines between nodes. In (a) a thin diagonal that is orange once "
    "a node; in (b) scattered orange dots; in (c) all is orange but the blocks of the nodes; in (d) "
    "the farthest diagonal, orange, is the darkest; in (e) the blue ones on the nodes are.",
)

# %% slideshow={"slide_type": "fragment"}
reveal("03/fastest", min(times, key=times.get))
reveal("03/shuffled", times["b"] / times["a"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 21. Who sends to whom in the five programs. Blue stays on the node, orange leaves it. The darker, the
# more bytes.*
#
# **Case (e) is the fastest, and the shuffled ring (b) takes 4.0 times as long as the ring in order.**
#
# | | time | leaves each node |
# |---|---|---|
# | (a) ring, ranks in order | 15.7 ms | 194 MB |
# | (b) ring, ranks shuffled | 62.3 ms | 678 MB |
# | (c) sharded server | 56.0 ms | 700 MB |
# | (d) halving-doubling, far partners first | 56.2 ms | 700 MB |
# | (e) halving-doubling, near partners first | 15.5 ms | 175 MB |
#
# Why? From each rank all five send the same number of bytes. What differs is how many of them pass the port
# of a node.
#
# That answers the question of section 5. The sharded server wants a link between every two ranks, and your
# ring in order enters and leaves each node once. You also see in figure 21 that the order of the steps matters:
# (d) sends its largest messages between nodes, and (e) inside. So does the order in which your job numbers its
# ranks.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(time * 1e3, 1) for time in times.values()] == [15.7, 62.3, 56.0, 56.2, 15.5]
assert [round(nbytes / 1e6) for nbytes in out.values()] == [194, 678, 700, 700, 175]
assert round(times["b"] / times["a"], 1) == 4.0
assert round(times["c"] / times["a"], 1) == round(times["d"] / times["a"], 1) == 3.6
assert len({nbytes for run in runs.values() for nbytes in run.sent_bytes()}) == 1
assert zaratan.ranks_per_node == 4 == zaratan.gpus_per_nic
assert round(rates(zaratan)[1], 1) == 12.5

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=20
# ## 10. Rails, the NVLink domain, and sums in the switch
#
# Your GPUs of section 9 shared one port. What does a machine look like that is built for training?
# Figure 22 shows two. A DGX H100 [17] is a node of eight GPUs, and each of them has a port of its own. You need
# four more words:
#
# - **NVLink** is the wire between GPUs. It leads to **NVLink switches**, so each GPU reaches any other.
# - The **NVLink domain** is the set of GPUs behind the same NVLink switches. In a DGX H100 it is the node.
# - A **rack** of type GB200 NVL72 [17] has 18 trays of four GPUs. All 72 are one NVLink domain.
# - A **rail** is the set of ports that have the same place in their nodes: the third ports of all nodes, for example.

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
h100, nvl72 = ringside.Machine.load("dgx_h100"), ringside.Machine.load("gb200_nvl72")
figure, panels = plt.subplots(
    2, 1, figsize=(6.5, 7.2), height_ratios=[5.2, 6.7], layout="constrained"
)
domain(panels[0], 8, 1, h100, "a node of type DGX H100: 8 GPUs")
domain(panels[1], 18, 4, nvl72, "a rack of type GB200 NVL72: 18 trays of 4 GPUs")
show(
    figure,
    "Above, a node: eight GPUs in a row, a wire of 371 GB/s from each to the NVLink switches, and a "
    "port of 48 GB/s below each, with a cable to the switches of the network. Below, a rack: 18 "
    "trays of four GPUs, 72 wires of 722 GB/s to the NVLink switches, and 72 ports of 48 GB/s.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 22. What a node, a rack, a port and a switch are. Blue wires are NVLink, orange ones lead to the
# network. The rates are those that libraries reach.*
#
# Compare `zaratan`, a campus cluster, with the two. How many GPUs does NVLink join, and how many share a port?

# %% slideshow={"slide_type": "fragment"}
for preset in (zaratan, h100, nvl72):
    near, far = rates(preset)
    print(f"{preset.name:11} {preset.ranks_per_node:2} GPUs at {near:3.0f} GB/s", end="; ")
    print(f"GPUs a port: {preset.gpus_per_nic}, of {far:4.1f} GB/s")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(rate) for rate in rates(h100) + rates(nvl72)] == [371, 48, 722, 48]
assert (h100.ranks_per_node, nvl72.ranks_per_node) == (8, 72) and 72 == 18 * 4
assert h100.gpus_per_nic == nvl72.gpus_per_nic == 1

# %% [markdown] slideshow={"slide_type": "slide"}
# **Your ring, and the library's.** What are eight ports a node worth to you? Sum 8 GiB over the 32 GPUs of
# four DGX H100. Do it once by the ring that you wrote, and once by one line of the library, which sends round a
# ring as well. Compare the two by their **bus bandwidth**, the number that NCCL's tests report:
# $2\frac{p-1}{p}n$ bytes, divided by the time. It says how fast the bytes of a ring go.

# %% slideshow={"slide_type": "fragment"}
# %%writefile one_line.py
import numpy as np


def all_reduce(comm, nbytes):
    comm.Allreduce(np.zeros(nbytes, np.uint8), np.empty(nbytes, np.uint8))


# %% slideshow={"slide_type": "fragment"}
VECTOR, SENT = 2**33, 2**15  # 8 GiB; the programs send 32 KiB instead


def for_long(machine):
    """The machine on which SENT bytes take as long as VECTOR."""
    longer = VECTOR / SENT
    return machine.with_(
        beta_s_per_byte=longer * machine.beta_s_per_byte,
        intra_beta_s_per_byte=longer * machine.intra_beta_s_per_byte,
        collectives={"allreduce": "ring"},
        eager_threshold_bytes=0,
    )


def bus_GB_per_s(run, p=32):
    return 2 * (p - 1) / p * VECTOR / 1e9 / run.makespan_s


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/rails", "How many times as fast as your ring is the library's all-reduce?", unit="times")

# %% slideshow={"slide_type": "fragment"}
flat = ringside.run(RING, 32, (SENT,), machine=for_long(h100))
library = ringside.run("one_line.py:all_reduce", 32, (SENT,), machine=for_long(h100))
through_ports_GB = {}
for name, run in {"your ring": flat, "the library": library}.items():
    out_of_node_0 = run.timeline.bytes_matrix[:8, 8:].sum(axis=1)
    through_ports_GB[name] = out_of_node_0 * VECTOR / SENT / 1e9
    print(f"{name:11} {bus_GB_per_s(run):4.0f} GB/s; GB through each port of node 0:")
    print(f"            {through_ports_GB[name].round(1)}")
reveal("03/rails", bus_GB_per_s(library) / bus_GB_per_s(flat))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **The library is 7.9 times as fast, since a ring that you write is one ring on one port.** Yours leaves each node
# by one GPU, and seven of eight ports are idle. So you get 48 GB/s, the rate of one port.
#
# The library knows which GPUs share a node. It cuts the vector into eight parts and sends each one round a
# ring of its own. Each ring enters and leaves a node by another GPU, so all eight ports work at once. The
# field calls this **multi-rail**. Your GPUs send no byte more than before, and you get 377 GB/s. Is that
# realistic? On four such nodes 365.8 GB/s were measured with NCCL [18].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(bus_GB_per_s(run)) for run in (flat, library)] == [48, 377]
assert round(bus_GB_per_s(library) / bus_GB_per_s(flat), 1) == 7.9
assert abs(bus_GB_per_s(library) / 365.8 - 1) < 0.03  # measured [18]
assert (through_ports_GB["your ring"] > 0).sum() == 1
assert (through_ports_GB["the library"] > 0).sum() == 8
assert flat.sent_bytes() == library.timeline.bytes_matrix.sum(axis=1).tolist()

# %% [markdown] slideshow={"slide_type": "slide"}
# **Two levels.** Can *you* use all ports? Nest the collectives. First do a reduce-scatter inside each node:
# every GPU then holds one eighth of its node's sum. Next, let the GPUs with the same place in their nodes sum
# their eighth, along the rail. At the end do an all-gather inside each node. This is a **hierarchical**
# all-reduce.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
two_by_four = [(a, a + 1) for a in (0, 1, 2, 4, 5, 6)]
PAIRS = {
    "your flat ring": [*two_by_four, (3, 4), (7, 0)],
    "two levels": [*two_by_four, *((a, a + 4) for a in range(4))],
}
figure, panels = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained")
for axis, (title, pairs) in zip(panels, PAIRS.items()):
    for x, y in [([a % 4, b % 4], [-1.6 * (a // 4), -1.6 * (b // 4)]) for a, b in pairs]:
        axis.plot(x, y, color=BLUE if y[0] == y[1] else ORANGE, linewidth=3)
    for x, y in [(rank % 4, -1.6 * (rank // 4)) for rank in range(8)]:
        axis.plot(x, y, "o", color=BLUE, markersize=20)
        axis.text(x, y, round(x - 2.5 * y), color="white", ha="center", va="center")
        box(axis, -0.4, y - 0.35, 3.8, 0.7, GREY, fill=False)
    axis.set(title=title, xlim=(-0.5, 3.5), ylim=(-2.1, 0.5))
    axis.axis("off")
alt = "Two nodes of four GPUs. The flat ring crosses between them twice, two levels four times."
show(figure, alt)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 23. Which wires are used, on two nodes of four GPUs: blue is NVLink, orange is the network.*

# %% slideshow={"slide_type": "fragment"}
# %%writefile group_ring.py
import numpy as np


def steps(comm, group, nbytes, count):
    """So many steps of a ring over the ranks of a group, with a vector of nbytes."""
    here = group.index(comm.rank)
    next_rank, prev_rank = group[(here + 1) % len(group)], group[here - 1]
    chunk = np.zeros(nbytes // len(group), np.uint8)
    arriving = np.empty_like(chunk)
    for _ in range(count):
        comm.Sendrecv(chunk, dest=next_rank, recvbuf=arriving, source=prev_rank)


# %% slideshow={"slide_type": "fragment"}
# %%writefile two_levels.py
from group_ring import steps


def all_reduce(comm, nbytes, g):
    """On nodes of g GPUs."""
    node, place = divmod(comm.rank, g)
    inside = list(range(node * g, node * g + g))
    rail = list(range(place, comm.size, g))
    steps(comm, inside, nbytes, g - 1)  # reduce-scatter: a g-th each
    steps(comm, rail, nbytes // g, 2 * (len(rail) - 1))  # all-reduce of the g-th
    steps(comm, inside, nbytes, g - 1)  # all-gather


# %% [markdown] slideshow={"slide_type": "fragment"}
# Before you run it, count. How many bytes leave a node, through how many ports? Do it for the four DGX H100,
# and for the eight nodes of `zaratan`, where four GPUs share a port.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/levels",
    "On four DGX H100, how many times as fast as your flat ring are two levels?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/levels-zaratan", "And on eight nodes of zaratan?", unit="times")

# %% slideshow={"slide_type": "fragment"}
gain = {}
for preset in (h100, zaratan):
    here, g = for_long(preset), preset.ranks_per_node
    one_ring = ringside.run(RING, 32, (SENT,), machine=here)
    nested = ringside.run("two_levels.py:all_reduce", 32, (SENT, g), machine=here)
    gain[preset.name] = one_ring.makespan_s / nested.makespan_s
    rings = f"flat ring {one_ring.makespan_s * 1e3:6.1f} ms"
    print(f"{preset.name:9} {rings}, two levels {nested.makespan_s * 1e3:6.1f} ms")
    if preset is h100:
        levels = nested
reveal("03/levels", gain["dgx_h100"])
reveal("03/levels-zaratan", gain["zaratan"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Two levels gain where each GPU has a port of its own.** On DGX H100 they are 4.7 times as fast as your
# flat ring, and on `zaratan` 1.0 times. There the four shards of a node queue at the same port.
#
# Could you have predicted the 4.7? For long vectors on $N$ nodes of $g$ GPUs with a port each, add the two
# levels up:
#
# $$T_\text{two levels} \approx 2\tfrac{g-1}{g}\,n\beta_\text{NVLink} +
# 2\tfrac{N-1}{N}\,\tfrac{n}{g}\,\beta_\text{port}$$
#
# For your run the formula says 74 ms. Why is the library faster still, at 44 ms? Your levels come one after
# the other, so NVLink is idle while the ports work. The library's rings use both at the same time. You would get
# there with chunks: while one chunk is between the nodes, the next one is inside.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(gain["dgx_h100"], 1) == 4.7 and round(gain["zaratan"], 1) == 1.0
inside_s = 2 * 7 / 8 * VECTOR * h100.intra_beta_s_per_byte
rails_s = 2 * 3 / 4 * VECTOR / 8 * h100.beta_s_per_byte
assert np.isclose(levels.makespan_s, inside_s + rails_s, rtol=0.01)
assert round(1e3 * levels.makespan_s) == 74 and round(1e3 * library.makespan_s) == 44

# %% [markdown] slideshow={"slide_type": "slide"}
# **One rack.** Now take the 32 GPUs from a single NVL72 rack. No byte leaves the NVLink domain, and in
# figure 22 its wires are 15 times as fast as a port.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/rack",
    "How many times as fast as on four DGX H100 is the library's all-reduce in one rack?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
in_rack = ringside.run("one_line.py:all_reduce", 32, (SENT,), machine=for_long(nvl72))
print(f"32 GPUs: {bus_GB_per_s(library):.0f} GB/s on four nodes, ", end="")
print(f"{bus_GB_per_s(in_rack):.0f} GB/s in a rack")
apart = [0, 8, 16, 24]  # on DGX H100 one GPU of each node
alone = {}
for preset in (h100, nvl72):
    run = ringside.run(RING, 32, (SENT,), members=apart, machine=for_long(preset))
    alone[preset.name] = bus_GB_per_s(run, p=4)
    print(f"4 of them, 8 apart: {alone[preset.name]:.0f} GB/s on {preset.name}")
reveal("03/rack", bus_GB_per_s(in_rack) / bus_GB_per_s(library))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **The rack makes the all-reduce of all 32 GPUs 1.9 times as fast, not 15 times.** Why? On the four nodes
# all eight ports carry a node's bytes, and together they are as fast as NVLink inside it.
#
# The 15 times are in the last two lines that you printed, where four GPUs sum that are eight apart. On DGX H100 each of
# them is alone on its node, and has one port. In the rack they are as near to each other as any others. So a
# rack changes little for an all-reduce over all your GPUs. It changes a lot for whatever else you may put between
# GPUs that used to be on different nodes (lectures 12 and 14).

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(bus_GB_per_s(in_rack) / bus_GB_per_s(library), 1) == 1.9
assert round(rates(nvl72)[0] / rates(nvl72)[1]) == 15
assert round(alone["gb200_nvl72"] / alone["dgx_h100"]) == 15

# %% [markdown] slideshow={"slide_type": "slide"}
# **Sums in the switch.** So far only your GPUs add. But every byte between two GPUs passes a switch anyway. What
# if the *switch* adds? Then each GPU sends its vector once, and gets the sum once. NVIDIA calls this SHARP, and
# NVLink SHARP (NVLS) where NVLink switches do it.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, panels = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
spots = np.exp(2j * np.pi * np.arange(8) / 8)
for axis, title, style in zip(panels, ("ring", "sum in the switch"), ("->", "<->")):
    ends = np.roll(spots, -1) if title == "ring" else 0 * spots
    gap = 12 if title == "ring" else 28  # from the middle of what stands at the end
    look = {"arrowstyle": style, "color": BLUE, "shrinkA": 12, "shrinkB": gap}
    for spot, end in zip(spots, ends):
        axis.annotate("", (end.real, end.imag), (spot.real, spot.imag), arrowprops=look)
    axis.plot(spots.real, spots.imag, "o", color=BLUE, markersize=20)
    axis.set(title=title, xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    axis.axis("off")
box(panels[1], -0.25, -0.25, 0.5, 0.5, GREY, "+")
alt = "Left, eight GPUs in a ring, arrows round it. Right, each has an arrow both ways to a switch."
show(figure, alt)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 24. Eight GPUs of a node in a ring, and around a switch that adds.*
#
# You can run this. Let a ninth rank play the switch, with a port for each GPU. The `relay` of section 7
# passes each chunk on as soon as it has come from all, so it does the rest: what came from all GPUs goes to all GPUs, chunk after chunk.

# %% slideshow={"slide_type": "fragment"}
# %%writefile in_switch.py
import numpy as np
from relay import relay


def all_reduce(comm, nbytes, num_chunks):
    chunk = np.zeros(nbytes // num_chunks, np.uint8)
    *gpus, switch = range(comm.size)
    routes = [(0, [], [switch]), (0, [switch], [])]  # of a GPU
    if comm.rank == switch:
        routes = [(0, gpus, gpus)]  # what came from all, added up, goes to all
    relay(comm, chunk, routes, num_chunks)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/in-switch",
    "Eight GPUs, a long vector in 64 chunks: how many times as fast as a ring is it?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
eight = for_long(h100)
switching = eight.with_(ports="peer", ranks_per_node=9)  # a port for each peer
round_ring = ringside.run(RING, 8, (SENT,), machine=eight)
by_switch = ringside.run("in_switch.py:all_reduce", 9, (SENT, 64), machine=switching)
for name, run in {"ring": round_ring, "switch": by_switch}.items():
    sent_GB = run.sent_bytes()[0] * VECTOR / SENT / 1e9
    print(f"{name:6} {run.makespan_s * 1e3:.1f} ms, each GPU sends {sent_GB:.1f} GB")
reveal("03/in-switch", round_ring.makespan_s / by_switch.makespan_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **The switch is 1.72 times as fast, since each GPU sends $n$ bytes and not $2\frac{p-1}{p}n$.** With $c$
# chunks,
#
# $$T_\text{switch} = 2\alpha + \left(1 + \tfrac1c\right) n\beta,$$
#
# so with many chunks the gain tends to $2\frac{p-1}{p}$, for eight GPUs 1.75. What do you get in practice?
# On eight H200 NCCL's test was run with NVLS and without [19]. The gain was 1.31 times, so part of it isn't
# reached.
#
# With NVLS that test reported 480 GB/s, and the peak of NVLink there is 450 GB/s. How can that be? The *bus*
# bandwidth counts the bytes of a ring, and here no GPU sent so many. Divide it by 1.75 and you have the bytes
# that did go.
#
# And your all-gathers? They gain nothing. There is nothing to add, and each GPU has to *receive*
# $\frac{p-1}{p}n$ bytes in any case.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(round_ring.makespan_s / by_switch.makespan_s, 2) == 1.72
formula_s = 2 * eight.intra_alpha_s + (1 + 1 / 64) * VECTOR * h100.intra_beta_s_per_byte
assert np.isclose(by_switch.makespan_s, formula_s)
assert [run.sent_bytes()[0] / SENT for run in (round_ring, by_switch)] == [1.75, 1]
assert round(480.0 / 367.2, 2) == 1.31 == h100.switch_gain  # measured [19]
assert 480 / 1.75 < 450 and abs(rates(h100)[0] / 367 - 1) < 0.02

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"] meeting=2 minutes=10
# ## 11. What the libraries choose
#
# **MPICH** has had this rule for `MPI_Allreduce` since [5]. It is still in its source
# (`MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE` is the constant [9]):


# %% slideshow={"slide_type": "fragment"}
def mpich_choice(num_elements, itemsize, world_size, predefined_op=True):
    power = 2 ** (world_size.bit_length() - 1)  # the largest power of two that fits
    short = num_elements * itemsize <= 2048
    if short or not predefined_op or num_elements < power:
        return "recursive doubling"
    return "halving-doubling"


for num_elements in (256, 257):
    print(f"{8 * num_elements} bytes: {mpich_choice(num_elements, 8, 16)}")
for preset in (machine, zaratan):
    print(f"formula for 16 ranks of {preset.name}: {crossover(16, preset):,.0f} bytes")

# %% [markdown] slideshow={"slide_type": "fragment"}
# You recognise the crossover of section 8, written down as a constant. (Two special cases go to doubling:
# an operation of your own, which may not be cut in pieces, and a vector with fewer elements than
# ranks, which can't be.) Can one constant fit your machine? With the network of `zaratan` the
# formula says 64,000 bytes.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert mpich_choice(256, 8, 16) == "recursive doubling"  # 2048 bytes
assert mpich_choice(257, 8, 16) == "halving-doubling"
assert mpich_choice(1000, 8, 16, predefined_op=False) == "recursive doubling"
assert round(crossover(16, zaratan), -3) == 64_000

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# **NCCL**, the library for NVIDIA GPUs, does what you did. For every algorithm and protocol it
# computes a latency and a bandwidth, predicts $\text{latency} + n/\text{bandwidth}$, and takes the
# smallest [4]. These are its latencies for a low-latency protocol over $N$ nodes of $g$ GPUs, in µs:
#
# - ring: $6.6 + (2(p-1) - 2(N-1))\cdot 1.0 + 2(N-1)\cdot 2.7$
# - double tree: $6.8 + 2\,((g-1)\cdot 0.6 + \lfloor\log_2 N\rfloor\cdot 5.0)$
#
# NCCL's trees were first shown on 4096 nodes with 6 GPUs each [10].

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/nccl-tree", "How many times shorter is the tree's latency?", unit="times")

# %% slideshow={"slide_type": "fragment"}
nodes, gpus = 4096, 6
p = nodes * gpus
ring_us = 6.6 + (2 * (p - 1) - 2 * (nodes - 1)) * 1.0 + 2 * (nodes - 1) * 2.7
tree_us = 6.8 + 2 * ((gpus - 1) * 0.6 + np.log2(nodes) * 5.0)
print(f"{p:,} GPUs: ring {ring_us:,.0f} µs, tree {tree_us:.0f} µs")
reveal("03/nccl-tree", ring_us / tree_us)

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# NCCL's constants say 475 times. If you only counted steps, you would say 1446 times. Measured were *up to
# 180 times* [10], in 2019. So the direction is right and the factor is not. At such ratios a model of two
# numbers gives you an order of magnitude.

# %% slideshow={"slide_type": "skip"} tags=["checked", "systems"]
steps = 2 * (p - 1) / (2 * (gpus - 1 + np.log2(nodes)))
assert p == 24_576 and round(ring_us) == 63_080 and round(tree_us) == 133
assert round(ring_us / tree_us) == 475 and round(steps) == 1446
assert ring_us / tree_us > 180  # published: up to 180 times [11]

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=2 minutes=10
# ## 12. What a collective costs the GPU
#
# So far a message has cost you the network, and nothing else. Does your computing go on at full speed while
# messages are hidden behind it? On a GPU it doesn't. There a collective is a **kernel** (a program of the GPU). It
# runs on **SMs** (streaming multiprocessors, the GPU's processors), which copy the chunks and add them up. Your
# matrix products have to do with the other SMs. For example, DeepSeek-V3 (2024) gave messages 20 of the 132 SMs of
# an H800 [20].
#
# Take a layer that computes for 10 ms on all SMs, and messages of 10 ms whose results it doesn't need yet. Is that
# much realistic? With experts it can be: DeepSeek-V3's ratio of computing to messages was about 1 to 1 [20].

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
T_MS, SHARE = 10, 20 / 132  # of the computing and of the messages; of the SMs


def layer_bar(axis, y, share, hidden=True):
    """One layer: time to the right, SMs upwards, so that an area of blue is work."""
    strip = 0.8 * share
    axis.add_patch(plt.Rectangle((0, y + 0.8 - strip), T_MS, strip or 0.05, color=ORANGE))
    if hidden:
        beside, rest = (T_MS, 0.8 * (1 - share)), share * T_MS
        axis.add_patch(plt.Rectangle((0, y), *beside, color=BLUE))
        axis.add_patch(plt.Rectangle((T_MS, y), rest, 0.8, color=BLUE))
    else:
        axis.add_patch(plt.Rectangle((T_MS, y), T_MS, 0.8, color=BLUE))
    axis.set(xlim=(0, 2.1 * T_MS), yticks=[], xlabel="time (ms)")
    axis.spines["left"].set_visible(False)


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(6.5, 1.5))
layer_bar(axis, 0, SHARE, hidden=False)
axis.text(0, 0.9, "messages: 20 of 132 SMs", fontsize="large")
axis.text(1.5 * T_MS, 0.4, "computing: all SMs", color="white", ha="center", fontsize="large")
axis.set(ylim=(0, 1.2))
show(
    figure,
    "A thin bar of messages from 0 to 10 ms, a seventh of the SMs high, and then a bar of "
    "computing from 10 to 20 ms that is as high as all SMs.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 25. One layer, with messages and computing one after the other. SMs are counted upwards.*
#
# Now start the messages first, and compute while they are under way. You can ask requests whether they are
# done, with `Testall`. As long as they aren't, the next piece of your computing has fewer SMs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile layer.py
import numpy as np
from mpi4py import MPI

import ringside


def layer(comm, nbytes, compute_s, share, hide):
    other, sent, arriving = 1 - comm.rank, np.zeros(nbytes), np.empty(nbytes)
    messages = [comm.Isend(sent, other), comm.Irecv(arriving, other)]
    if not hide:
        MPI.Request.Waitall(messages)
    for _ in range(100):  # pieces of the computing
        under_way = not MPI.Request.Testall(messages)
        left = 1 - share if under_way else 1  # of the SMs
        ringside.compute(seconds=compute_s / 100 / left)
    MPI.Request.Waitall(messages)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/hidden", "How long does the layer take if it hides its messages?", unit="ms")

# %% slideshow={"slide_type": "fragment"}
WAYS = {  # share of the SMs that messages take, and whether they are hidden
    "one after the other": (SHARE, False),
    "hidden, with 20 of 132 SMs": (SHARE, True),
    "hidden, with no SM": (0, True),
}
nbytes, layer_ms = round(T_MS * 1e-3 / beta), {}  # these bytes take 10 ms
for name, (share, hide) in WAYS.items():
    arguments = (nbytes // 8, T_MS * 1e-3, share, hide)
    run = ringside.run("layer.py:layer", 2, arguments)
    layer_ms[name] = run.makespan_s * 1e3
    print(f"{name:26} {layer_ms[name]:.1f} ms")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(6.5, 3.4))
for y, (name, (share, hide)) in zip((2.6, 1.3, 0), WAYS.items()):
    layer_bar(axis, y, share, hide)
    axis.text(0, y + 0.9, f"{name}: {layer_ms[name]:.1f} ms", fontsize="large")
axis.set(ylim=(0, 3.8))
show(
    figure,
    "Three bars. One after the other the layer ends at 20 ms. Hidden with 20 of 132 SMs the "
    "computing is a little less high for 10 ms, and ends somewhat later. Hidden with no SM it ends "
    "with the messages.",
)

# %% slideshow={"slide_type": "fragment"}
reveal("03/hidden", layer_ms["hidden, with 20 of 132 SMs"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 26. The layer in three ways. The blue area is the same in all of them: it is the work.*
#
# **The layer takes 11.5 ms.** Hiding is worth it, since one after the other would take 20 ms. But your layer
# isn't as fast as one without messages. Let $T$ be the time of the computing, $T_c$ that of the messages, and $s$
# the share of SMs that they take. While the messages are under way, $(1-s)\,T_c$ of the computing gets done. The
# rest of it comes after them:
#
# $$T_\text{hidden} = T_c + \left(T - (1-s)\,T_c\right) = T + s\,T_c$$
#
# (This holds if the computing is long enough, $T \ge (1-s)\,T_c$.) So messages that are fully hidden still
# cost you $s\,T_c$. Here $s$ is 15 %.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
in_ms = list(layer_ms.values())
assert np.allclose(in_ms, [2 * T_MS, (1 + SHARE) * T_MS, T_MS], rtol=0.003)
assert [round(one, 1) for one in in_ms] == [20.0, 11.5, 10.0] and round(SHARE, 2) == 0.15
assert round(132 * SHARE) == 20

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# **How do you get your SMs back?** As of 2026 there are three ways out:
#
# - **Copy engines** (units that move memory without an SM). NCCL can use them inside an NVLink domain, since
#   version 2.28 [21], for all-gather, all-to-all, scatter and gather. An all-reduce isn't on that list.
# - **Sums in the switch**, as in section 10. With SHARP in InfiniBand switches and one GPU a node, NCCL gets by with as
#   little as one SM [21].
# - **GPU-initiated networking** (GIN: kernels that start the network card themselves). DeepEP, DeepSeek's library for
#   experts, uses it in its second version. For a training like V3's it takes 4 to 6 SMs instead of 24 [22].
#
# What is the last one worth to you? On a GPU with 132 SMs, $s$ falls from 18 % to at most 5 %.

# %% slideshow={"slide_type": "skip"} tags=["checked", "systems"]
sms = 20 / SHARE
assert round(sms) == 132 and round(24 / sms, 2) == 0.18 and round(6 / sms, 2) == 0.05

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 13. 553 MB, next to a step
#
# Now you can answer the question of section 1: how long does VGG-16's all-reduce take, next to the rest of
# a step? Take 32 GPUs on 8 nodes of the `zaratan` model [8], and 64 images for each GPU.
#
# First the computing. Training VGG-16 on one image takes 92.6 billion floating-point operations
# ([lecture 2](02_sgd.ipynb) counts them). One GPU of the model does at most 19.5 TFLOP/s in float32.
# That is the peak of an A100 without tensor cores, so a real step takes longer.

# %% slideshow={"slide_type": "fragment"}
step_flops = 64 * 92.6e9
compute_s = step_flops / zaratan.flop_per_s
print(f"forward and backward of 64 images: {compute_s * 1e3:.0f} ms")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your program computes, and then does a ring all-reduce. All ranks are in order, as in case (a)
# of section 9.

# %% slideshow={"slide_type": "fragment"}
# %%writefile vgg_step.py
from ring_traffic import ring

import ringside


def step(comm, nbytes, num_flops):
    ringside.compute(num_flops=num_flops, phase="forward and backward")
    ring(comm, nbytes)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/step",
    "Which part of such a step on 32 GPUs is exposed communication?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
gradient_bytes = 1e6 * megabytes.sum()
run = ringside.run("vgg_step.py:step", 32, (n0, step_flops), machine=zaratan)
step_s = on_zaratan(run.trace, gradient_bytes)
exposed_s = step_s - compute_s
print(f"step {step_s * 1e3:.0f} ms, of it exposed {exposed_s * 1e3:.0f} ms")
reveal("03/step", 100 * exposed_s / step_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **The all-reduce of 553 MB takes 86 ms.** All of it is exposed, because every rank has finished its
# gradient and waits. And if your chip computes faster? In bf16, a 16-bit number format, large models reach
# about 140 TFLOP/s on the same GPU [14]. The gradients stay in float32, so the all-reduce takes what it took:
#
# | | computing | all-reduce | exposed part of the step |
# |---|---|---|---|
# | float32 at the peak | 304 ms | 86 ms | 22 % |
# | bf16 at 140 TFLOP/s | 42 ms | 86 ms | 67 % |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
weights_of = vgg16["num_parameters"][:13]  # of the convolutions, biases among them
channels = np.array([64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512])
width = np.array([224, 224, 112, 112, 56, 56, 56, 28, 28, 28, 14, 14, 14])
forward = 2 * ((weights_of - channels) * width**2)  # biases take no product
linear = 2 * (vgg16["num_parameters"][13:] - np.array([4096, 4096, 1000]))
# three products of each layer, but none for the gradient of the image
flops_an_image = 3 * (forward.sum() + linear.sum()) - forward[0]
assert round(flops_an_image / 1e9, 1) == 92.6 and zaratan.flop_per_s == 19.5e12
assert step_flops == 64 * 92.6e9 and run.world_size == 32
assert round(compute_s * 1e3) == 304 and round(exposed_s * 1e3) == 86
assert round(exposed_s / step_s, 2) == 0.22
fast_s = step_flops / 140e12
assert round(step_flops / fast_s / 1e12) == 140
assert round(fast_s * 1e3) == 42 and round(exposed_s / (exposed_s + fast_s), 2) == 0.67

# %% [markdown] slideshow={"slide_type": "slide"}
# **Was it so on a real machine?** You can check the order of magnitude by two measurements of 2017 and
# 2018.
#
# - One P100 trains VGG-16 on 154 images per second, with 64 images in a step [15]. So a step without
#   communication takes 416 ms.
# - On 512 P100 in servers of four, with 25 Gbit/s between the servers, Horovod reached 68 % of 512
#   times the speed of one GPU [16].
#
# Suppose that these steps had 64 images for each GPU, too. Two bounds are easy. If the ring comes after
# the computing, all of it is exposed. If the ring runs *while* the GPUs compute, nothing is exposed as
# long as it is the shorter of the two.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "03/horovod",
    "Which part of the full speed is left if all of the ring is exposed?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
p = 128 * 4  # servers, and GPUs of each
p100_step_s = 64 / 154
ring_512_s = 2 * (p - 1) / p * gradient_bytes / (25e9 / 8)  # 25 Gbit/s, in bytes
print(f"computing {p100_step_s * 1e3:.0f} ms, ring {ring_512_s * 1e3:.0f} ms")
print(f"all exposed: {p100_step_s / (p100_step_s + ring_512_s):.0%} of the full speed")
reveal("03/horovod", 100 * p100_step_s / (p100_step_s + ring_512_s))

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# **If all of the ring is exposed, 54 % of the full speed is left.**
#
# | | step | exposed | of the full speed |
# |---|---|---|---|
# | your bound, all of the ring exposed | 769 ms | 354 ms | 54 % |
# | published [16] | 611 ms | 196 ms | 68 % |
# | your bound, nothing exposed | 416 ms | 0 ms | 100 % |
#
# The published speed lies between your two bounds, and so it says how much they hid. Of the ring 55 % was
# exposed, and the rest ran while the GPUs still computed. How you hide more of it is the subject of [lecture 5](05_ddp.ipynb).

# %% slideshow={"slide_type": "skip"} tags=["checked", "systems"]
all_exposed = p100_step_s / (p100_step_s + ring_512_s)
assert p == 512 and round(64 / p100_step_s) == 154
assert round(p100_step_s * 1e3) == 416 and round(ring_512_s * 1e3) == 354
assert round(all_exposed, 2) == 0.54 and all_exposed < 0.68 < 1
horovod_step_s = p100_step_s / 0.68
assert round(horovod_step_s * 1e3) == 611
assert round((horovod_step_s - p100_step_s) * 1e3) == 196
assert round((p100_step_s + ring_512_s) * 1e3) == 769
assert round((horovod_step_s - p100_step_s) / ring_512_s, 2) == 0.55

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14. Summary
#
# | algorithm | messages in a row | bytes through the busiest port | good for |
# |---|---|---|---|
# | star, in a row | $2(p-1)$ | $2(p-1)n$ | a first program, and no more |
# | star, at once | $2$ | $2(p-1)n$ | few ranks, short vectors |
# | sharded server | $2$ to $2(p-1)$ | $2\frac{p-1}{p}n$ | wires between all pairs |
# | ring | $2(p-1)$ | $2\frac{p-1}{p}n$ | long vectors, any $p$, nodes in order |
# | recursive doubling | $\log_2 p$ | $n\log_2 p$ | short vectors |
# | halving-doubling | $2\log_2 p$ | $2\frac{p-1}{p}n$ | $p$ a power of two, near partners first |
# | double tree, $c$ chunks | about $2\log_2 p + 2c$ | $2n$ | long vectors on many ranks |
# | two levels, $N$ nodes of $g$ | $2(g-1) + 2(N-1)$ | $2\frac{N-1}{N}\frac{n}{g}$ out of a node | nodes with a port for each GPU |
# | sum in the switch | $2$ | $n$ | GPUs behind switches that add |
#
# And remember that messages which are fully hidden still take a share of the GPU's SMs (section 12).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Appendix: not taught
#
# For those who want to know more. Nothing that is taught needs it.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 15. What the model forgets
#
# **Two nodes, one rank on each.** A published table [11] holds measurements between two machines of
# a cloud: the time of a message and the time of an all-reduce, for many sizes. With two ranks,
# recursive doubling is one exchange, so it should cost one message of $n$ bytes. Halving-doubling is
# two exchanges of $n/2$. So you can predict the all-reduce from the *measured* messages. Suppose that
# the library changes from one algorithm to the other at 10 kB.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/cloud", "By how many percent is this prediction off at 1 MB?", unit="%")

# %% slideshow={"slide_type": "fragment"}
osu = table(LECTURES / "data" / "osu_gke_2_nodes.csv")
message_us = dict(zip(osu["nbytes"], osu["latency_us"]))
known = ~np.isnan(osu["allreduce_us"])
sizes, measured_us = osu["nbytes"][known], osu["allreduce_us"][known]


def from_messages_us(nbytes):
    return message_us[nbytes] if nbytes < 10_000 else 2 * message_us[nbytes // 2]


predicted_us = np.array([from_messages_us(nbytes) for nbytes in sizes])
error = dict(zip(sizes, predicted_us / measured_us - 1))
for nbytes in (4, 1024, 16384, 65536, 524288, 1048576):
    print(f"{nbytes:9,} bytes: {error[nbytes]:+.0%}")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
a_us = message_us[4]
b_us = 1 / osu["bw_MB_per_s"].max()  # microseconds for each byte
figure, axis = plt.subplots(figsize=(7.5, 4))
axis.loglog(sizes, measured_us, "o", color="#1b1f24", label="all-reduce, measured")
axis.loglog(sizes, predicted_us, "-", color="#5c4d9a", label="from the measured messages")
axis.loglog(sizes, a_us + sizes * b_us, ":", color="#7f5539", label="one alpha, one beta")
axis.set(xlabel="bytes", ylabel="time (µs)")
axis.set_yticks([20, 50, 100, 200, 500], [20, 50, 100, 200, 500], minor=False)
axis.minorticks_off()
axis.legend(frameon=False)
show(
    figure,
    "All-reduce between two nodes from 4 B to 1 MB: measured points rise in steps at 2 kB, "
    "16 kB and 128 kB. The prediction from measured messages follows the steps and falls "
    "below at the right end. The curve of one alpha and one beta lies far below from 2 kB on.",
)

# %% slideshow={"slide_type": "fragment"}
reveal("03/cloud", 100 * abs(error[1048576]))

# %% [markdown] slideshow={"slide_type": "subslide"}
# *Figure 27. An all-reduce between two machines of a cloud, measured and predicted.*
#
# At 1 MB your prediction is 40 % too low, though it is right to 8 % up to 16 kB. With *one* $\alpha$ and
# $\beta$ for all sizes you would do worse, and be 74 % too low at 16 kB. You see why in the figure. The
# measured times rise in **steps**, because the library changes its way of sending: one packet more, a
# handshake, another protocol.
#
# What is missing at 1 MB? Look at the bandwidth of both directions together.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
smooth = dict(zip(sizes, (a_us + sizes * b_us) / measured_us - 1))
assert all(-0.08 < error[nbytes] < -0.02 for nbytes in sizes if nbytes <= 16384)
assert round(error[1048576], 2) == -0.40 and round(smooth[16384], 2) == -0.74

# %% slideshow={"slide_type": "fragment"}
one_way, both_ways = osu["bw_MB_per_s"], osu["bibw_MB_per_s"]
is_long = osu["nbytes"] >= 65536
print("both ways against one way:", np.round(both_ways[is_long] / one_way[is_long], 2))

bandwidth = dict(zip(osu["nbytes"], one_way))  # MB/s, so bytes for each µs
better = {}
for nbytes, time_us in zip(sizes, measured_us):
    if nbytes > 10_000:
        one_exchange_us = message_us[nbytes // 2] + nbytes / 2 / bandwidth[nbytes]
        better[nbytes] = 2 * one_exchange_us / time_us - 1
print({f"{nbytes} B": f"{e:+.0%}" for nbytes, e in better.items()})

# %% [markdown] slideshow={"slide_type": "fragment"}
# Both directions together get no more than one direction alone, so this network is **half duplex**. Your
# model took it for full duplex. Charge each exchange for the bytes of both directions. Then you come within
# 10 % at all long sizes. An assumption was wrong, and the method was right.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (both_ways[is_long] < 1.05 * one_way[is_long]).all()
assert max(map(abs, better.values())) < 0.10

# %% [markdown] slideshow={"slide_type": "slide"}
# **Sixteen GPUs.** The next table is NCCL on two nodes with eight A100 each [12], from 8 bytes to
# 8 GiB. Here nobody tells you $\alpha$ and $\beta$. So fit them to every second size, and predict the
# sizes in between.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("03/two-numbers", "What is the median error of this prediction?", unit="%")

# %% slideshow={"slide_type": "fragment"}
nccl = table(LECTURES / "data" / "nccl_2x8_a100.csv")
n, t_us = nccl["nbytes"].astype(float), nccl["time_us"]


def fit(n, t_us):
    """alpha and beta that make the relative errors smallest (least squares)."""
    columns = np.column_stack([1 / t_us, n / t_us])
    return np.linalg.lstsq(columns, np.ones(len(n)), rcond=None)[0]


a_us, b_us = fit(n[::2], t_us[::2])
errors = np.abs((a_us + b_us * n[1::2]) / t_us[1::2] - 1)
print(f"alpha {a_us:.0f} µs, 1/beta {1e-3 / b_us:.0f} GB/s")
print(f"in between: median error {np.median(errors):.0%}, largest {errors.max():.0%}")

# %% slideshow={"slide_type": "slide"}
edges = [0, 2**18, 16e6, np.inf]  # three regimes
between_n, between_t, by_regime = n[1::2], t_us[1::2], np.empty(len(n[1::2]))
for low, high in zip(edges, edges[1:]):
    fitted = (n[::2] >= low) & (n[::2] < high)
    asked = (between_n >= low) & (between_n < high)
    a, b = fit(n[::2][fitted], t_us[::2][fitted])
    by_regime[asked] = a + b * between_n[asked]
regimes = np.abs(by_regime / between_t - 1)
print(f"in between: median error {np.median(regimes):.0%}, largest {regimes.max():.0%}")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(7.5, 4))
axis.loglog(n, t_us, "o", color="#1b1f24", label="measured")
axis.loglog(n, a_us + b_us * n, ":", color="#7f5539", label="one alpha, one beta")
axis.loglog(between_n, by_regime, "-", color="#5c4d9a", label="three regimes")
axis.set(xlabel="bytes", ylabel="time (µs)")
axis.legend(frameon=False)
show(
    figure,
    "NCCL all-reduce on 16 A100 from 8 B to 8 GB. The straight model follows the measured "
    "points at both ends and lies up to a third below between 100 kB and 10 MB; three "
    "regimes follow throughout.",
)

# %% slideshow={"slide_type": "fragment"}
reveal("03/two-numbers", 100 * np.median(errors))

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 28. NCCL's all-reduce on 16 GPUs, measured and fitted.*
#
# | your fit | median error | largest |
# |---|---|---|
# | two numbers for all sizes | 13 % | 36 % |
# | two numbers for each of three regimes | 6 % | 15 % |
#
# Two numbers describe nine orders of magnitude, and are worst in the middle. There NCCL changes its
# protocol, from a low-latency one for short vectors to a high-bandwidth one for long ones.
#
# **What the model forgets**, in order of how often it will surprise you:
#
# 1. protocols that change with the size;
# 2. wires that are shared with others;
# 3. half duplex;
# 4. the processor's work for each message;
# 5. $\gamma$ on slow memory;
# 6. partners that come late.
#
# **What the model gets right**: the shape of the curves, which algorithm wins, roughly where they
# cross, and what more ranks will do.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(a_us) == 44 and round(1e-3 / b_us) == 100
assert round(np.median(errors), 2) == 0.13 and round(errors.max(), 2) == 0.36
assert round(np.median(regimes), 2) == 0.06 and round(regimes.max(), 2) == 0.15

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16. Two puzzles, and your turn
#
# Each program below is right and too slow. Change it until it meets its target. Plan ten minutes for
# each. The cell below the program runs it, tells you what is missing, and draws it.
#
# **Puzzle 1.** Rank 0 has 80,000 bytes, and all eight ranks need them. The program sends the vector to
# one rank after another. Reach 250 µs. *Think of the two halves of an all-reduce.*

# %% slideshow={"slide_type": "fragment"}
# %%writefile spread.py
import numpy as np


def spread(comm, num_elements):
    """Every rank returns the vector of rank 0."""
    vector = np.empty(num_elements)
    if comm.rank == 0:
        vector = np.arange(float(num_elements))
        for dest in range(1, comm.size):
            comm.Send(vector, dest=dest)
    else:
        comm.Recv(vector, source=0)
    return vector


# %% slideshow={"slide_type": "fragment"}
puzzle(
    "spread.py:spread",
    8,
    (10_000,),
    expected=np.arange(10_000.0),
    at_most_us=250,
    hint="Let rank 0 send each rank one eighth. Who can send the other seven eighths?",
)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile spread_solved.py
import numpy as np


def spread(comm, num_elements):
    """Rank 0 scatters the shards, and then they go round a ring: an all-gather."""
    p, rank = comm.size, comm.rank
    vector = np.arange(float(num_elements)) if rank == 0 else np.empty(num_elements)
    shards = np.split(vector, p)  # views of the vector
    if rank == 0:
        for dest in range(1, p):
            comm.Send(shards[dest], dest=dest)
    else:
        comm.Recv(shards[rank], source=0)
    for step in range(p - 1):
        mine, theirs = shards[(rank - step) % p], shards[(rank - step - 1) % p]
        comm.Sendrecv(mine, dest=(rank + 1) % p, recvbuf=theirs, source=(rank - 1) % p)
    return vector


# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
solved = puzzle(
    "spread_solved.py:spread",
    8,
    (10_000,),
    expected=np.arange(10_000.0),
    at_most_us=250,
    draw=False,
)
assert solved.solved and solved.time_us < 250 and solved.values[0].nbytes == 80_000

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2.** A network has 32 layers with 100 gradients each. The program sums them over 8 ranks, one
# layer after another, with the ring of section 5. Reach 70 µs. *Look at the timeline: what does a ring
# do with 100 bytes at a time?*

# %% slideshow={"slide_type": "fragment"}
# %%writefile layers.py
import numpy as np


def ring(comm, x):
    p, rank = comm.size, comm.rank
    shards = np.array_split(x, p)  # views of x
    arriving = np.empty_like(shards[0])
    for step in range(2 * (p - 1)):
        mine, theirs = shards[(rank - step) % p], shards[(rank - step - 1) % p]
        box = arriving[: len(theirs)]
        comm.Sendrecv(mine, dest=(rank + 1) % p, recvbuf=box, source=(rank - 1) % p)
        theirs[:] = theirs + box if step < p - 1 else box


def sums(comm, layers):
    for gradients in layers:
        ring(comm, gradients)
    return np.concatenate(layers)


# %% slideshow={"slide_type": "fragment"}
layers = [[np.full(100, 1.0 + rank) for _ in range(32)] for rank in range(8)]
puzzle(
    "layers.py:sums",
    8,
    [(one,) for one in layers],
    expected=np.full(3200, 36.0),  # 1 + 2 + ... + 8
    at_most_us=70,
    hint="A ring starts 14 messages, however short its vector. How many do you need?",
)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile layers_solved.py
import numpy as np
from layers import ring


def sums(comm, layers):
    """One vector for all layers: one ring. Lecture 5 calls such a vector a bucket."""
    together = np.concatenate(layers)
    ring(comm, together)
    return together


# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
solved = puzzle(
    "layers_solved.py:sums",
    8,
    [(one,) for one in layers],
    expected=np.full(3200, 36.0),
    at_most_us=70,
    draw=False,
)
assert solved.solved and solved.sent_messages[0] == 14 and solved.time_us < 70
assert len(layers[0]) == 32 and len(layers[0][0]) == 100

# %% [markdown] slideshow={"slide_type": "slide"}
# **Your turn.** The assignment `a03_allreduce` asks for what this lecture left out: the arithmetic, every dtype and
# length, and every world size. Once you have written a module, the next cell runs *yours*, compares its
# values with the plain sum, and shows its time. Until then it says that the module isn't written yet.

# %% slideshow={"slide_type": "fragment"}
MODULES = {
    "star": "all_reduce",
    "sharded_server": "all_reduce",
    "ring": "all_reduce",
    "recursive": "halving_doubling",
}
xs = [rng.normal(size=1000) for _ in range(8)]


def verdict(run):
    """What to say about a run of your module."""
    if getattr(run.error, "type_name", "") == "NotImplementedError":
        return "not written yet"
    if run.error or not all(np.allclose(value, sum(xs)) for value in run.values):
        return "not right yet; `ringside check` says why"
    return f"right, {run.makespan_s * 1e6:.1f} µs for 8000 bytes on 8 ranks"


# %% slideshow={"slide_type": "fragment"}
for module, function in MODULES.items():
    file = LECTURES.parent / "assignments" / "a03_allreduce" / f"{module}.py"
    if not file.is_file():
        print(f"{module}.py: not written yet")
        continue
    run = ringside.run(f"{file}:{function}", 8, [(x,) for x in xs], check=False)
    print(f"{module}.py: {verdict(run)}")

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 17. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** You have six ranks, 2000 bytes and the textbook machine. How long does recursive
# doubling take, with folding? How long does a ring take? Which one do you choose?
#
# <details><summary>Answer</summary>
#
# Six is $4 + 2$. Ranks 4 and 5 hand their vectors to ranks 0 and 1. Those four do two steps of
# doubling, and hand the results back. These are four messages of full length in a row: $4(\alpha +
# n\beta) = 12$ µs. The ring takes ten steps with a sixth of the vector:
# $10\alpha + 2\cdot\frac56 n\beta = 13.3$ µs. Doubling wins by a little. From 2571 bytes on it is the
# ring.
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
folded_s, ring_s = 4 * (alpha + 2000 * beta), 10 * alpha + 2 * 5 / 6 * 2000 * beta
assert np.isclose(folded_s, 12e-6) and round(ring_s * 1e6, 1) == 13.3
assert round((10 - 4) * alpha / ((4 - 2 * 5 / 6) * beta)) == 2571

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** A colleague's ring uses `Send` and then `Recv`. It works with 100 numbers on the lab's
# cluster, and hangs with 100,000. Why? He changes it: even ranks send first, and odd ranks receive
# first. Is that right for 5 ranks too? What does it cost?
#
# <details><summary>Answer</summary>
#
# Short messages are buffered there, so `Send` returns early. Long ones wait for a receive that no rank
# has posted (lecture 1). With even ranks first, 4 ranks take two rounds where `Sendrecv` takes one.
# With 5 ranks, ranks 4 and 0 are neighbours and both are even. Rank 4 has to wait until rank 0 has
# finished its send, and rank 3 has to wait for rank 4. The waits form no cycle, so there is no
# deadlock. But it takes three rounds.
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile parity.py
import numpy as np


def shift(comm, nbytes):
    mine, theirs = np.zeros(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    next_rank, prev_rank = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    if comm.rank % 2 == 0:
        comm.Send(mine, dest=next_rank)
        comm.Recv(theirs, source=prev_rank)
    else:
        comm.Recv(theirs, source=prev_rank)
        comm.Send(mine, dest=next_rank)


# %% slideshow={"slide_type": "skip"} tags=["checked"]
one_round_s = alpha + 2000 * beta
four = ringside.run("parity.py:shift", 4, (2000,))
five = ringside.run("parity.py:shift", 5, (2000,))
assert np.isclose(four.makespan_s, 2 * one_round_s)
assert np.isclose(five.makespan_s, 3 * one_round_s)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** The program nccl-tests reports a *bus bandwidth*. In the table of section 15, 8 GiB
# took 67,689 µs on 16 GPUs. How many bytes per second is $n/T$? How many bytes per second does the link
# of each GPU carry, if the algorithm is a ring? Why is the second number reported?
#
# <details><summary>Answer</summary>
#
# $n/T = 126.9$ GB/s. In a ring each rank sends $2\frac{p-1}{p}n$, so its link carries
# $\frac{2\cdot 15}{16}\cdot 126.9 = 237.9$ GB/s. That is the bus bandwidth. You can compare it with the
# number of the hardware, whatever $p$ is. The number $n/T$ falls as $p$ grows, even if every link runs
# at its limit. Here the comparison says something. The eight ports of such a node carry $8 \cdot 24 = 192$ GB/s [17], which
# is less than 237.9. So it wasn't a ring. Between two nodes a tree sends $n$ bytes, and not $2\cdot\frac{15}{16}n$. NCCL takes
# whichever it reckons to be faster.
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
rate = nccl["nbytes"][-1] / (t_us[-1] * 1e-6) / 1e9
assert t_us[-1] == 67_689 and nccl["nbytes"][-1] == 8 * 2**30
assert round(rate, 1) == 126.9 and round(2 * 15 / 16 * rate, 1) == 237.9

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** A well-known paper [13] on training with 256 GPUs reports that halving-doubling was 3
# times as fast as the ring on 32 servers (50 Gbit/s) for short vectors. Suppose that $\alpha = 20$ µs,
# and that the vector has 1 MB. What does the formula say? Have you now confirmed their measurement?
#
# <details><summary>Answer</summary>
#
# There are 62 steps against 10, with the same bytes. The ring takes 3.04 times as long. It looks like a
# confirmation, but it is none. The paper does not publish $\alpha$, so you can choose it to fit. With
# 5 µs you get 1.72, with 50 µs you get 4.21. A prediction would need $\alpha$ from another measurement.
# </details>


# %% slideshow={"slide_type": "skip"} tags=["checked"]
def speedup(a, n=1e6, p=32, b=8 / 50e9):
    return (2 * (p - 1) * (a + n / p * b)) / (2 * np.log2(p) * a + 2 * (p - 1) / p * n * b)


assert (2 * (32 - 1), 2 * np.log2(32)) == (62, 10)
assert round(speedup(20e-6), 2) == 3.04
assert round(speedup(5e-6), 2) == 1.72 and round(speedup(50e-6), 2) == 4.21

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** On `zaratan`, two levels gained nothing for a vector of 8 GiB (section 10), although fewer
# bytes leave each node. How many bytes leave a node, by the flat ring and by two levels, if 32 GPUs on 8
# nodes sum 100 MB? And do two levels gain nothing for 10 kB either?
#
# <details><summary>Answer</summary>
#
# Each of the four shards has $n/4$ bytes, and its ring sends $2\frac{7}{8}\cdot\frac{n}{4}$ from each
# node. Four of them make $2\cdot\frac78 n$, or 175 MB. The flat ring sends
# $2\cdot\frac{31}{32}n$, or 194 MB. For 100 MB they are equally fast (1.01), because the network card is
# the bottleneck of both, and two levels spend inside the nodes what they save between them. For
# 10 kB messages decide. Two levels send 14 between nodes and 6 inside, instead of 62. They are
# 4.0 times faster.
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
nested = ringside.run("two_levels.py:all_reduce", 32, (n0, 4), machine=zaratan)
leaving = (nested.bytes_matrix() * leaves).sum() / 8 * 100e6 / n0
assert round(leaving / 1e6) == 175 and round(out["a"] / 1e6) == 194
gain = {
    nbytes: on_zaratan(runs["a"].trace, nbytes) / on_zaratan(nested.trace, nbytes)
    for nbytes in (100e6, 10e3)
}
assert round(gain[100e6], 2) == 1.01 and round(gain[10e3], 1) == 4.0
assert nested.sent_messages()[0] == 14 + 6 and runs["a"].sent_messages()[0] == 62

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. K. Simonyan, A. Zisserman. Very deep convolutional networks for large-scale image recognition.
#    ICLR 2015. arXiv:1409.1556. Configuration D.
# 2. R. W. Hockney. The communication challenge for MPP: Intel Paragon and Meiko CS-2. Parallel
#    Computing 20(3), 389–398, 1994.
# 3. P. Patarasuk, X. Yuan. Bandwidth optimal all-reduce algorithms for clusters of workstations.
#    Journal of Parallel and Distributed Computing 69(2), 117–124, 2009.
# 4. NVIDIA. NCCL, version 2.28.7, `src/graph/tuning.cc`: `ncclTunerConstantsDefaults`,
#    `ncclTopoTuneModel`. github.com/NVIDIA/nccl
# 5. R. Thakur, R. Rabenseifner, W. Gropp. Optimization of collective communication operations in
#    MPICH. International Journal of High Performance Computing Applications 19(1), 49–66, 2005.
#    The costs are also in the comments of MPICH's source.
# 6. P. Sanders, J. Speck, J. L. Träff. Two-tree algorithms for full bandwidth broadcast, reduction
#    and scan. Parallel Computing 35(12), 581–594, 2009.
# 7. M. Cai. Introduction to High-performance Machine Learning. Slides, SURFsara.
# 8. `cluster/machines/zaratan.toml`, with the source of each number. Nothing in it was measured on
#    Zaratan.
# 9. MPICH, `src/mpi/coll/allreduce` and `src/mpi/coll/iallreduce`. github.com/pmodels/mpich
# 10. S. Jeaugey. Massively scale your deep learning training with NCCL 2.4. NVIDIA Technical Blog,
#     February 2019.
# 11. `data/osu_gke_2_nodes.csv`: OSU Micro-Benchmarks 5.8 on two c3-standard-176 nodes of Google
#     Cloud, published by converged-computing on GitHub.
# 12. `data/nccl_2x8_a100.csv`: nccl-tests on two nodes of Oracle Cloud, published in
#     github.com/oracle-quickstart/oci-hpc-oke.
# 13. P. Goyal, P. Dollár, R. Girshick, P. Noordhuis, L. Wesolowski, A. Kyrola, A. Tulloch, Y. Jia,
#     K. He. Accurate, large minibatch SGD: training ImageNet in 1 hour. arXiv:1706.02677, 2017.
#     Section 4.
# 14. D. Narayanan and others. Efficient large-scale language model training on GPU clusters using
#     Megatron-LM. SC '21, 2021. arXiv:2104.04473. Table 1: 135 to 163 TFLOP/s for each A100.
# 15. TensorFlow, `docs_src/performance/benchmarks.md`: training with NVIDIA DGX-1, synthetic data,
#     May 2017. github.com/tensorflow/tensorflow
# 16. Horovod, `docs/benchmarks.rst`: 128 servers with 4 P100 each, RoCE 25 Gbit/s.
#     github.com/horovod/horovod
# 17. `dgx_a100.toml`, `dgx_h100.toml` and `gb200_nvl72.toml` in `cluster/machines`, with the source of each
#     number.
# 18. nccl-tests, issue 309: an all-reduce of 8 GiB on four nodes of eight H100, with eight ports of 400 Gbit/s
#     each. github.com/NVIDIA/nccl-tests
# 19. S. Bekman. Machine Learning Engineering, `network/README.md`, section SHARP: nccl-tests on eight H200, NCCL
#     2.27.7. github.com/stas00/ml-engineering at 744d01e1 (August 2026).
# 20. DeepSeek-AI. DeepSeek-V3 technical report. arXiv:2412.19437, 2024. Sections 3.2.1 and 3.5.1.
# 21. NVIDIA. NCCL user guide, `usage/bufferreg.rst`: zero-CTA, and buffers for SHARP in InfiniBand switches.
#     github.com/NVIDIA/nccl at 5067397c (June 2026).
# 22. DeepSeek-AI. DeepEP, `README.md`. github.com/deepseek-ai/DeepEP at 0297fc8.
#
# Read next: [5] for the algorithms, [6] for the trees, and E. Chan, M. Heimlich, A. Purkayastha,
# R. van de Geijn, Collective communication: theory, practice, and experience, Concurrency and
# Computation: Practice and Experience 19(13), 1749–1783, 2007.
