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
# Every rank holds a vector. At the end every rank holds the sum of all of them. This one operation
# is most of what data-parallel training says over the network, and there are many ways to do it.
# The slowest and the fastest differ by orders of magnitude, and which one is fastest depends on
# how long the vector is, how many ranks there are, and how they are wired.
#
# **After this lecture you can**
#
# - write a program of several communicating ranks, and read what it did off a timeline;
# - derive the time of five all-reduce algorithms from three numbers, and check it to the last
#   digit;
# - say which algorithm to take for a given vector, world size and machine, and where that changes;
# - tell what MPICH and NCCL choose, and why;
# - say what the model leaves out, and how much that is on two published measurements.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** Python and NumPy. You need not have seen MPI: section 2 starts from nothing.
#
# **How to read.** Before most programs there is a line that starts with *Predict*. Write your
# answer down before you look at the output; the gap between the two is what you learn from. Change
# the programs and run them again. All of them run on your laptop: Ringside starts real processes,
# passes their messages, and keeps a *virtual* clock for a cluster that you describe by a few
# numbers. So every time in this notebook is exact and the same on every computer.
#
# **For teachers.** Sections 1 to 6 and 7 to 12 are a session each; the cells carry slide types,
# and `make slides` writes the slides. Collect the predictions before each run, above all for the
# two orders of the sharded server (section 5), for ring time against ranks (6) and for the five
# cases on nodes (10): there the answers surprise.
#
# **One notation.** Slides about this subject use $N$ for the samples, the parameters and the
# workers, and $\alpha$ for the learning rate and the latency. Here:
#
# | sign | meaning | unit |
# |---|---|---|
# | $p$ | world size: the number of ranks | |
# | $n$ | size of each rank's vector | bytes |
# | $\alpha$ | latency of a message, whatever its size | seconds |
# | $\beta$ | time for each byte: the *inverse* of the bandwidth | seconds per byte |
# | $\gamma$ | time to add up one byte's worth of numbers | seconds per byte |

# %% slideshow={"slide_type": "skip"}
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside.lectures import Knob, explore, show, table

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
machine = ringside.Machine.load("textbook")
alpha, beta = machine.alpha_s, machine.beta_s_per_byte
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"]
# ## 1. The problem: a sum of gradients
#
# Training by gradient descent needs the gradient of the loss over a batch. Four workers can share
# the work: each computes the gradient of its quarter of the samples. Nobody then has the gradient
# that is needed, but the *sum* of what they have is exactly it.

# %% slideshow={"slide_type": "fragment"}
rng = np.random.default_rng(0)
samples, targets, weights = rng.normal(size=(1024, 5)), rng.normal(size=1024), rng.normal(size=5)


def gradient(lo, hi):
    """Sum over samples lo..hi-1 of the gradient of (sample @ weights - target)**2 / 2."""
    error = samples[lo:hi] @ weights - targets[lo:hi]
    return samples[lo:hi].T @ error


cuts = [0, 256, 512, 768, 1024]  # worker r takes cuts[r] up to, not including, cuts[r + 1]
parts = [gradient(lo, hi) for lo, hi in zip(cuts, cuts[1:])]
np.testing.assert_allclose(sum(parts), gradient(0, 1024))

# %% [markdown] slideshow={"slide_type": "slide"}
# Five numbers are no problem to send around. A real network has more. The file below holds the
# parameters of VGG-16, an image classifier of 2014 [1], layer by layer.

# %% slideshow={"slide_type": "fragment"}
vgg16 = table(LECTURES / "data" / "vgg16_parameters.csv")
parameters = vgg16["num_parameters"]
megabytes = 4 * parameters / 1e6  # a float32 has four bytes
largest = parameters.argmax()

print(f"{parameters.sum():,} parameters, {megabytes.sum():.0f} MB of gradients in every step")
print(f"the largest layer, {vgg16['layer'][largest]}, holds {megabytes[largest]:.0f} MB of them")
assert parameters.sum() == 138_357_544
assert round(megabytes.sum()) == 553 and round(megabytes[largest]) == 411

# %% [markdown] slideshow={"slide_type": "fragment"}
# Every worker must give 553 MB to the others and get 553 MB from them, in each of many thousand
# steps. Your task in the assignment of this unit is to make that fast. This lecture gives you the
# means to know how fast it *can* be.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. MPI from nothing
#
# MPI, the Message Passing Interface, is a standard for programs that run as many processes at once
# and talk by sending messages. Each process is a **rank** and has a number, 0, 1, 2 and so on. All
# of them run *the same* function. Nothing is shared: a variable on rank 0 is invisible to rank 1.
#
# The object `comm`, a *communicator*, is the rank's telephone. It knows how many ranks there are
# (`comm.size`) and which one you are (`comm.rank`). Write a first program into a file:


# %% slideshow={"slide_type": "fragment"}
# %%writefile hello.py
def hello(comm):
    return f"rank {comm.rank} of {comm.size}"


# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
ringside.run("hello.py:hello", world_size=4).values

# %% [markdown] slideshow={"slide_type": "fragment"}
# One function, four processes, four results. The list holds what rank 0 returned, what rank 1
# returned, and so on.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Send and receive.** A message goes from one rank to one other. Both have to act: the sender
# calls `send` and names the destination, the receiver calls `recv` and names the source.
#
# *Predict: what do the three ranks return?*


# %% slideshow={"slide_type": "fragment"}
# %%writefile ping.py
def ping(comm):
    if comm.rank == 0:
        comm.send(3.5, dest=1)
        return "sent"
    if comm.rank == 1:
        return comm.recv(source=0)
    return "nothing to do"


# %% slideshow={"slide_type": "fragment"}
result = ringside.run("ping.py:ping", world_size=3)
result.values

# %% [markdown] slideshow={"slide_type": "fragment"}
# The `if comm.rank` is how one function plays different parts. `recv` *blocks*: rank 1 stands
# still in that line until the message is there.

# %% [markdown] slideshow={"slide_type": "slide"}
# **The running example.** Every rank has a number; at the end every rank knows the sum. Rank 0
# does the adding: the others send their number to it, and it sends the result back.


# %% slideshow={"slide_type": "fragment"}
# %%writefile total.py
def total(comm, mine):
    if comm.rank == 0:
        result = mine
        for source in range(1, comm.size):
            result = result + comm.recv(source=source)
        for dest in range(1, comm.size):
            comm.send(result, dest=dest)
        return result
    comm.send(mine, dest=0)
    return comm.recv(source=0)


# %% slideshow={"slide_type": "fragment"}
result = ringside.run("total.py:total", world_size=4, args=[(1.0,), (2.0,), (3.0,), (4.0,)])
assert result.values == [10.0] * 4
result.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# You have written your first all-reduce. Each row of the picture is a rank and time runs to the
# right; each message is an arrow from its sender to its receiver, and grey is waiting. Point at a
# bar to see which call it is, on which line of your file. You see rank 3 wait while ranks 1 and 2
# are served: the whole program takes six messages, one after another. The black line runs along
# them: it is the *critical path*, the chain of messages and computing that the whole time, the
# *makespan*, is made of. *Exposed* communication is time in which a rank computes nothing.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Arrays.** The lower-case `send` takes any Python object and packs it up. For arrays there are
# upper-case calls, `Send` and `Recv`, that move the bytes of a buffer and nothing else. The
# receiver brings the buffer in which the data is to land.
#
# Let two ranks exchange their arrays. *Predict: what does each rank return?*

# %% slideshow={"slide_type": "fragment"}
# %%writefile swap.py
import numpy as np


def swap(comm, num_elements):
    other = 1 - comm.rank
    mine = np.full(num_elements, float(comm.rank))
    theirs = np.empty(num_elements)
    comm.Send(mine, dest=other)
    comm.Recv(theirs, source=other)
    return float(theirs[0])


# %% slideshow={"slide_type": "fragment"}
result = ringside.run("swap.py:swap", world_size=2, args=(1000,), check=False)
print(f"{type(result.error).__name__}: {result.error}")

# %% [markdown] slideshow={"slide_type": "slide"}
# Both ranks stand in `Send` and wait for the other to receive, and neither ever gets to its
# `Recv`. That is a **deadlock**. What makes it treacherous is that MPI *may* copy a small message
# into a buffer of its own and let `Send` return at once ("eager" sending). Here is the same
# program on the same machine, except that short messages are buffered:

# %% slideshow={"slide_type": "fragment"}
buffering = machine.with_(eager_threshold_bytes=4096)
for num_elements in (10, 1000):  # 80 and 8000 bytes
    result = ringside.run("swap.py:swap", 2, (num_elements,), machine=buffering, check=False)
    print(f"{num_elements:5} elements:", result.values if result.error is None else "deadlock")
    assert (result.error is None) == (num_elements == 10)

# %% [markdown] slideshow={"slide_type": "subslide"}
# A program that works in your tests and hangs on real data. Ringside's default is the strict one:
# no send returns before its message is received, so you find such a program at once.
#
# The cure is one call that does both, `Sendrecv`. MPI sees to it that the two don't wait for each
# other.

# %% slideshow={"slide_type": "fragment"}
# %%writefile exchange.py
import numpy as np


def exchange(comm, num_elements):
    other = 1 - comm.rank
    mine = np.full(num_elements, float(comm.rank))
    theirs = np.empty(num_elements)
    comm.Sendrecv(mine, dest=other, recvbuf=theirs, source=other)
    return float(theirs[0])


# %% slideshow={"slide_type": "fragment"}
result = ringside.run("exchange.py:exchange", world_size=2, args=(1000,))
assert result.values == [1.0, 0.0]
assert result.sent_bytes() == [8000, 8000]
result.timeline

# %% [markdown] slideshow={"slide_type": "slide"}
# There is one more way, which this lecture uses often. `Isend` and `Irecv` (I for *immediate*)
# post a message and return at once with a *request*; `Waitall` waits until all requests of a list
# are done. Post first and wait later: then several messages are under way together, and nobody has
# to be first.
#
# | call | does |
# |---|---|
# | `comm.send(obj, dest)`, `comm.recv(source)` | one Python object |
# | `comm.Send(array, dest)`, `comm.Recv(array, source)` | the bytes of an array |
# | `comm.Sendrecv(array, dest, recvbuf=array, source=source)` | both at once |
# | `comm.Isend(array, dest)`, `comm.Irecv(array, source)` | post, and go on |
# | `MPI.Request.Waitall(requests)` | until all of them are done |
#
# With these five lines you can write every algorithm of this lecture. The files run unchanged on a
# real cluster, where `mpiexec` starts the ranks and `comm` is `MPI.COMM_WORLD`.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. What a message costs
#
# A message of $n$ bytes takes $\alpha + n\beta$ seconds [2]. The latency $\alpha$ is paid once for
# each message: software, network card, switches. The inverse bandwidth $\beta$ is paid for each
# byte. (On many slides "$\beta$" is called the bandwidth. Check the units: then $n\beta$ would be
# bytes² per second.)
#
# *Predict: how long does the exchange above take, 8000 bytes in both directions at the same time?*

# %% slideshow={"slide_type": "fragment"}
print(f"alpha {alpha * 1e6:g} µs, beta {beta * 1e9:g} ns per byte, that is {1e-9 / beta:g} GB/s")
print(f"the exchange takes {result.makespan_s * 1e6:g} µs")
assert np.isclose(result.makespan_s, alpha + 8000 * beta)
assert np.isclose(alpha, 1e-6) and np.isclose(beta, 1e-9)

half = alpha / beta
print(f"latency and transfer cost the same at {half:,.0f} bytes")
assert round(half) == 1000

# %% [markdown] slideshow={"slide_type": "fragment"}
# Links are *full duplex*: a rank sends and receives at the same time, at full speed both ways. So
# an exchange costs as much as one message.
#
# Below 1000 bytes you pay on this machine for *messages*, above it for *bytes*. Keep this number
# in mind: nearly everything that follows is about trading the one for the other.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Ports.** What if one rank talks to several others? Each rank has one sending and one receiving
# **port**, and a port moves one message at a time. So three messages that arrive at one rank
# together share $\beta$; but they need not wait for each other's $\alpha$:
#
# ```text
#  one after another                          posted all at once
#  |alpha|n*beta|alpha|n*beta|alpha|n*beta|   |alpha|n*beta|n*beta|n*beta|
#  3 (alpha + n*beta)                         alpha + 3 n*beta
# ```
#
# **Adding.** Summing two vectors costs $\gamma$ for each byte. An addition reads two numbers and
# writes one, so $\gamma$ is about three bytes of memory traffic for each byte of vector.

# %% slideshow={"slide_type": "fragment"}
gamma = 3 / machine.memory_bytes_per_s
print(f"gamma is about {gamma / beta:.0%} of beta here")
assert round(gamma / beta, 2) == 0.03

# %% [markdown] slideshow={"slide_type": "fragment"}
# At 3 % of $\beta$ you may leave $\gamma$ out, and from here on the timelines do. Remember it
# where the network is as fast as memory, or where one rank does all the adding.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Lower bounds.** Before any algorithm: what can none of them beat?
#
# - *Bytes.* Some rank has to send at least $2\frac{p-1}{p}n$ bytes [3]: in all, $(p-1)n$ bytes
#   must come together to be summed, $(p-1)n$ bytes of results must go out again, and $p$ ports
#   share this.
# - *Latency.* Your number has to reach everybody, so at least one $\alpha$. If a rank can do no
#   more than one message at a time, latency included, the number of ranks whose numbers are in a
#   sum at best doubles with each message: then it is $\lceil\log_2 p\rceil\,\alpha$.
#
# Which bound on latency holds depends on what $\alpha$ is made of. Time on the wire and in
# switches overlaps between messages that are posted together, as in the picture above. Time that
# the processor spends on starting a message does not. The picture is the optimistic end; keep that
# in mind.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. Star: one master
#
# The running example with arrays: a *parameter server*, or star. To see what it costs you don't
# need the additions, only messages of the right size in the right order. So here and below you
# write the **traffic** of an algorithm, and leave the arithmetic to the assignment. The master can
# serve the others in a row, or post everything at once.

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
        MPI.Request.Waitall([comm.Irecv(inbox[source], source=source) for source in others])
        MPI.Request.Waitall([comm.Isend(vector, dest=dest) for dest in others])
    else:
        for source in others:
            comm.Recv(vector, source=source)
        for dest in others:
            comm.Send(vector, dest=dest)


# %% [markdown] slideshow={"slide_type": "fragment"}
# *Predict for four ranks and a vector of 2000 bytes: how many µs in a row, and how many at once?*

# %% slideshow={"slide_type": "slide"}
p, n = 4, 2000
in_a_row = ringside.run("star_traffic.py:star", p, (n, False))
assert np.isclose(in_a_row.makespan_s, 2 * (p - 1) * (alpha + n * beta))
assert np.isclose(in_a_row.makespan_s, 18e-6)
in_a_row.timeline

# %% slideshow={"slide_type": "subslide"}
at_once = ringside.run("star_traffic.py:star", p, (n, True))
assert np.isclose(at_once.makespan_s, 2 * (alpha + (p - 1) * n * beta))
assert np.isclose(at_once.makespan_s, 14e-6)
at_once.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# In a row: $2(p-1)(\alpha + n\beta)$, 18 µs. At once: $2(\alpha + (p-1)n\beta)$, 14 µs. Posting
# early saved four latencies and not one byte: all the vectors still squeeze through rank 0's two
# ports.

# %% slideshow={"slide_type": "fragment"}
slide_s = alpha + p * n * beta  # the formula on a widely used slide
print(f"slide: {slide_s * 1e6:g} µs")
assert np.isclose(slide_s, 9e-6) and slide_s < at_once.makespan_s < in_a_row.makespan_s
assert in_a_row.sent_bytes() == [3 * n, n, n, n]

# %% [markdown] slideshow={"slide_type": "fragment"}
# > **Corrected.** The summary slide of [4] gives the star as $\alpha + pn\beta$, which would be 9
# > µs. It counts one way only: its own earlier slide says $2(p-1)n$, and there is no way to do
# > both directions with a single latency. And its legend calls $\beta$ the bandwidth; it is
# > seconds per byte.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# ## 5. Sharded server: everybody is master of a part
#
# Only rank 0's ports were busy; the other ranks' ports stood idle most of the time. So cut the
# vector into $p$ **shards** and let rank $i$ be the master of shard $i$. Each rank sends $p-1$
# shards of $n/p$ bytes, one to each master (a **reduce-scatter**: afterwards each rank holds the
# sum of *its* shard), and then each master sends its finished shard to everybody (an
# **all-gather**).

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
    for _ in ("reduce-scatter", "all-gather"):
        requests = [comm.Irecv(inbox[source], source=source) for source in order]
        requests += [comm.Isend(shard, dest=dest) for dest in order]
        MPI.Request.Waitall(requests)


# %% [markdown] slideshow={"slide_type": "fragment"}
# The program can send in two orders: everybody serves rank 0 first, then 1, then 2; or everybody
# starts with its neighbour. *Predict: does the order matter? All messages are posted at once.*

# %% slideshow={"slide_type": "slide"}
zero_first = ringside.run("sharded_traffic.py:exchange", p, (n, False))
print(f"{zero_first.makespan_s * 1e6:g} µs")
zero_first.timeline

# %% slideshow={"slide_type": "subslide"}
next_door = ringside.run("sharded_traffic.py:exchange", p, (n, True))
print(f"{next_door.makespan_s * 1e6:g} µs")
assert np.isclose(next_door.makespan_s, 2 * (alpha + (p - 1) / p * n * beta))
next_door.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# It does. If everybody calls rank 0 first, three messages queue at its port while the other ports
# are idle. This is called *incast*. Starting next door, at every moment each port sends one
# message and receives one. That gives
#
# $$T_\text{sharded} = 2\left(\alpha + \tfrac{p-1}{p}\,n\beta\right).$$

# %% slideshow={"slide_type": "fragment"}
assert np.isclose(next_door.makespan_s, 5e-6)
assert zero_first.sent_bytes() == next_door.sent_bytes() == [2 * (p - 1) * n // p] * p
print(f"incast: {zero_first.makespan_s / next_door.makespan_s:.2f} times slower, same messages")
assert np.isclose(zero_first.makespan_s / next_door.makespan_s, 1.30)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Shards of what?** A slide of [4] gives parameter key $i$ to machine $i$ and counts $n/p$ bytes
# for each. That holds if all keys are equally long. *Predict: four machines, the 16 layers of
# VGG-16 dealt to them as evenly as whole layers allow. How much does the busiest machine get?*

# %% slideshow={"slide_type": "fragment"}
load = np.zeros(4)
for layer in np.sort(megabytes)[::-1]:  # longest first, each to the machine with least so far
    load[load.argmin()] += layer
even = megabytes.sum() / 4
print(f"by layer: {np.round(load)} MB; by range: {even:.0f} MB each")

share = megabytes[largest] / megabytes.sum()
assert round(load.max()) == 411 and round(share, 2) == 0.74
assert round(even) == 138 and round(load.max() / even, 1) == 3.0

# %% [markdown] slideshow={"slide_type": "fragment"}
# > **Corrected.** One layer is 74 % of VGG-16. Whoever gets it serves 411 MB where an even share
# > is 138 MB, and everybody waits 3.0 times as long. Cut by *range* of the flat vector, not by
# > key.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. Ring
#
# Now a different idea: every rank talks to its two neighbours only. It receives from the left and
# sends to the right. Here is a complete all-reduce of this kind; each rank adds what comes in and
# passes on what came in, until every vector has gone all the way round.

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


# %% [markdown] slideshow={"slide_type": "fragment"}
# *Predict its time for four ranks and 2000 bytes. Is it better than the star?*

# %% slideshow={"slide_type": "slide"}
vectors = [np.full(n // 8, 10.0**rank) for rank in range(p)]  # float64: 8 bytes each
whole = ringside.run("whole_ring.py:all_reduce", p, [(x,) for x in vectors])
assert all((value == 1111.0).all() for value in whole.values)
assert np.isclose(whole.makespan_s, (p - 1) * (alpha + n * beta))
assert np.isclose(whole.makespan_s, 9e-6)
whole.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# $(p-1)(\alpha + n\beta)$, here 9 µs: every port is busy all the time, and yet it is far from the
# sharded server's 5 µs. The ports carry too much: each rank sends $(p-1)n$ bytes where the lower
# bound is $2\frac{p-1}{p}n$. **Busy is not the same as fast.**

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# **The ring all-reduce** keeps the neighbours and borrows the shards [3]. Cut the vector into $p$
# chunks. In each step every rank sends *one chunk*: for $p-1$ steps partial sums travel and grow
# (a reduce-scatter), for $p-1$ more steps finished chunks travel (an all-gather). For four ranks,
# this is what they send to the right:

# %% slideshow={"slide_type": "fragment"}
# in each step: the chunks that ranks 0, 1, 2 and 3 send to their next rank
reduce_scatter = [(3, 0, 1, 2), (2, 3, 0, 1), (1, 2, 3, 0)]
all_gather = [(0, 1, 2, 3), (3, 0, 1, 2), (2, 3, 0, 1)]

contains = np.eye(4, dtype=bool)[:, None, :].repeat(4, axis=1)  # [rank, chunk, whose numbers]
states = [contains.sum(axis=2)]
for chunks in reduce_scatter + all_gather:
    arriving = [contains[rank, chunk].copy() for rank, chunk in enumerate(chunks)]
    for rank, chunk in enumerate(chunks):
        contains[(rank + 1) % 4, chunk] |= arriving[rank]
    states.append(contains.sum(axis=2))
assert (states[-1] == 4).all() and (states[3].diagonal() == 4).all()

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axes = plt.subplots(1, 7, figsize=(10, 1.9))
for step, (axis, state) in enumerate(zip(axes, states)):
    axis.imshow(state, cmap="Blues", vmin=0, vmax=5)
    for (rank, chunk), count in np.ndenumerate(state):
        color = "white" if count > 2 else "black"
        axis.text(chunk, rank, count, ha="center", va="center", color=color)
    axis.set_title("start" if step == 0 else f"step {step}", fontsize=10)
    axis.set_xticks(range(4), "abcd")
    axis.set_yticks(range(4), [f"rank {r}" for r in range(4)] if step == 0 else [])
    axis.tick_params(length=0)
show(figure, "Seven tables, one for each step of a ring all-reduce on 4 ranks: rows are ranks, columns "
     "chunks a to d, entries count the ranks whose numbers are in the chunk. After step 3 each rank has "
     "one complete chunk, 4, on the diagonal; after step 6 all entries are 4.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each entry counts the ranks whose numbers are in that chunk. Follow chunk a (the first column):
# it leaves rank 1 with one contribution, gathers one more on each rank, and is complete, 4, on
# rank 0 after step 3. Then the complete chunk goes round once more.
#
# There are $2(p-1)$ steps, here six.
#
# > **Corrected.** [4] lists $p-1$ rounds as the drawback of the ring. That is half of it; the same
# > deck's cost formula, and NCCL's source [5], have $2(p-1)$.
#
# *Find the rule behind the table for any p: it is the heart of your `ring.py`.*

# %% slideshow={"slide_type": "slide"}
# %%writefile ring_traffic.py
import numpy as np


def ring(comm, nbytes):
    next_rank, prev_rank = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    chunk, arriving = np.zeros((2, nbytes // comm.size), np.uint8)
    for _ in range(2 * (comm.size - 1)):
        comm.Sendrecv(chunk, dest=next_rank, recvbuf=arriving, source=prev_rank)


# %% slideshow={"slide_type": "fragment"}
ring = ringside.run("ring_traffic.py:ring", p, (n,))
assert np.isclose(ring.makespan_s, 2 * (p - 1) * (alpha + n / p * beta))
assert np.isclose(ring.makespan_s, 9e-6)
assert ring.sent_bytes() == [2 * (p - 1) * n // p] * p
ring.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# $$T_\text{ring} = 2(p-1)\,\alpha + 2\tfrac{p-1}{p}\,n\beta$$
#
# Again 9 µs, the same as whole vectors round the ring: half the bytes, and twice the messages. At
# 2000 bytes the two balance. *Which of them wins for longer vectors?*

# %% slideshow={"slide_type": "slide"}
for nbytes in (20, 2000, 2_000_000):
    whole_s, ring_s = (p - 1) * (alpha + nbytes * beta), 2 * (p - 1) * (alpha + nbytes / p * beta)
    print(f"{nbytes:9,} bytes: whole {whole_s * 1e6:7.2f} µs, chunks {ring_s * 1e6:7.2f} µs")
assert round(whole_s / ring_s, 1) == 2.0

# %% [markdown] slideshow={"slide_type": "fragment"}
# For short vectors latency decides and whole vectors win. For long ones chunks are 2.0 times
# faster at four ranks, and $p/2$ times in general.

# %% [markdown] slideshow={"slide_type": "slide"}
# **And the additions?** A program can declare its computing to the virtual clock. Here each rank
# adds a chunk in the first $p-1$ steps, three bytes of memory traffic for each byte. *Predict the
# time on a machine whose memory is so slow that* $\gamma = \beta$.

# %% slideshow={"slide_type": "fragment"}
# %%writefile adding_traffic.py
import numpy as np

import ringside


def ring(comm, nbytes):
    next_rank, prev_rank = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    chunk, arriving = np.zeros((2, nbytes // comm.size), np.uint8)
    for step in range(2 * (comm.size - 1)):
        comm.Sendrecv(chunk, dest=next_rank, recvbuf=arriving, source=prev_rank)
        if step < comm.size - 1:
            ringside.compute(nbytes=3 * chunk.nbytes, phase="add")


# %% slideshow={"slide_type": "fragment"}
slow_memory = machine.with_(memory_bytes_per_s=3 / beta)
adding = ringside.run("adding_traffic.py:ring", p, (n,), machine=slow_memory)
assert np.isclose(adding.makespan_s, ring.makespan_s + (p - 1) / p * n * beta)  # gamma = beta
assert np.isclose(adding.makespan_s, 10.5e-6)
adding.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# 10.5 µs: the blue bars are $\frac{p-1}{p}\,n\gamma$ in all. Every rank adds at the same time, so
# the ring splits the additions as evenly as the bytes. A star's master does all of them alone,
# $(p-1)n\gamma$.

# %% [markdown] slideshow={"slide_type": "slide"}
# **"The time of a ring is independent of the number of processors."** You read this often, also in
# [4]. *Predict: the vector stays at 100 kB; from 4 ranks to 4096, by what factor does the time
# grow?*

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
worlds = 2 ** np.arange(2, 13)
latency_s, transfer_s = 2 * (worlds - 1) * alpha, 2 * (worlds - 1) / worlds * 1e5 * beta
figure, axis = plt.subplots(figsize=(8, 3.6))
axis.bar(range(len(worlds)), transfer_s * 1e3, color="#009e73", label="bytes: 2 (p-1)/p n beta")
axis.bar(range(len(worlds)), latency_s * 1e3, bottom=transfer_s * 1e3, color="#a6dccb",
         label="messages: 2 (p-1) alpha")  # fmt: skip
axis.set_xticks(range(len(worlds)), worlds)
axis.set(xlabel="ranks p", ylabel="time of one ring all-reduce (ms)")
axis.legend(frameon=False)
show(figure, "Stacked bars over 4 to 4096 ranks: the part for bytes stays below 0.2 ms, the part for "
     "messages grows in proportion to the ranks, from almost nothing to 8.2 ms.")  # fmt: skip
total_s = latency_s + transfer_s
assert round(transfer_s[-1] / transfer_s[0], 2) == 1.33 and round(total_s[-1] / total_s[0]) == 54
assert worlds[-1] == 4096 and round(latency_s[-1] * 1e3, 1) == 8.2 and transfer_s[-1] < 0.2e-3

# %% [markdown] slideshow={"slide_type": "fragment"}
# > **Corrected.** Only the *bytes* are nearly independent of $p$: they cost 1.33 times more at
# > 4096 ranks than at 4. The messages cost $2(p-1)\alpha$, in proportion to $p$, and the whole
# > takes 54 times longer. On large machines it is the latency that ends the ring.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Wait: why a ring at all?** Compare with the sharded server: the same $2\frac{p-1}{p}n$ bytes
# for each rank, but $2\alpha$ in the place of $2(p-1)\alpha$. In this model the sharded server
# wins *always*. Keep the question. Section 10 answers it with a machine whose ranks share wires,
# and section 12 with what the model leaves out.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# ## 7. Recursive doubling and halving
#
# The lower bound for latency had a logarithm in it. Here is how to get it: in step $k$ exchange
# with the rank whose number differs from yours in bit $k$.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, axes = plt.subplots(1, 3, figsize=(9, 1.9))
for axis, bit in zip(axes, (1, 2, 4)):
    for rank in range(8):
        axis.plot(rank, 0, "o", color="#57606a", markersize=11)
        axis.text(rank, 0, rank, color="white", ha="center", va="center", fontsize=8)
        partner = rank ^ bit  # flips that bit
        if rank < partner:
            arc = np.linspace(0, np.pi)
            middle, radius = (rank + partner) / 2, (partner - rank) / 2
            axis.plot(middle + radius * np.cos(arc), 0.3 + np.sin(arc) * bit / 4, color="#57606a")
    axis.set(title=f"partner = rank ^ {bit}", ylim=(-0.5, 1.6))
    axis.axis("off")
show(figure, "Three rows of ranks 0 to 7. Step 1 joins 0-1, 2-3, 4-5, 6-7; step 2 joins ranks two apart, "
     "0-2, 1-3, 4-6, 5-7; step 3 joins ranks four apart, 0-4, 1-5, 2-6, 3-7.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Recursive doubling** exchanges the whole vector each time and adds. After step 1 you have the
# sum of 2 ranks, after step 2 of 4, after $\log_2 p$ steps of all.
#
# **Halving-doubling** (Rabenseifner's algorithm [6]) exchanges halves. In step 1 you send the half
# that your partner will be responsible for, and get the half that is yours; in step 2 a quarter,
# and so on: a reduce-scatter in $\log_2 p$ steps. Then the same way back, an all-gather.

# %% slideshow={"slide_type": "slide"}
# %%writefile recursive_traffic.py
import numpy as np


def trade(comm, bit, nbytes):
    mine, theirs = np.zeros((2, nbytes), np.uint8)
    comm.Sendrecv(mine, dest=comm.rank ^ bit, recvbuf=theirs, source=comm.rank ^ bit)


def doubling(comm, nbytes):
    for step in range(comm.size.bit_length() - 1):  # log2 of a power of two
        trade(comm, 2**step, nbytes)


def halving_doubling(comm, nbytes, bits):
    sizes = [nbytes >> step for step in range(1, len(bits) + 1)]
    way_in = list(zip(bits, sizes))
    for bit, size in way_in + way_in[::-1]:
        trade(comm, bit, size)


# %% [markdown] slideshow={"slide_type": "fragment"}
# *Predict for 8 ranks and 2000 bytes: the number of messages that one rank sends in each, and the
# times.*

# %% slideshow={"slide_type": "slide"}
p = 8
doubling = ringside.run("recursive_traffic.py:doubling", p, (n,))
assert np.isclose(doubling.makespan_s, 3 * (alpha + n * beta))
assert np.isclose(doubling.makespan_s, 9e-6) and doubling.sent_messages()[0] == 3
doubling.timeline

# %% slideshow={"slide_type": "subslide"}
halving = ringside.run("recursive_traffic.py:halving_doubling", p, (n, [4, 2, 1]))
assert np.isclose(halving.makespan_s, 2 * 3 * alpha + 2 * (p - 1) / p * n * beta)
assert np.isclose(halving.makespan_s, 9.5e-6) and halving.sent_messages()[0] == 6
assert halving.sent_bytes()[0] == 2 * (p - 1) * n // p
halving.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# $$T_\text{doubling} = \log_2 p\,(\alpha + n\beta) \qquad
# T_\text{halving-doubling} = 2\log_2 p\;\alpha + 2\tfrac{p-1}{p}\,n\beta$$
#
# 9 µs against 9.5 µs: 2000 bytes is close to where they change places. Doubling meets the bound of
# $\log_2 p$ messages in a row. Halving-doubling meets the bound for bytes, and needs only twice as
# many messages. With additions counted, they take $\log_2 p\; n\gamma$ and $\frac{p-1}{p}n\gamma$
# more: doubling adds whole vectors in every step [6].

# %% [markdown] slideshow={"slide_type": "slide"}
# **Not a power of two?** Then partners are missing. The usual cure *folds*: with $p = 2^k + r$,
# let $r$ ranks first hand their vector to a neighbour, run the algorithm on $2^k$ ranks, and hand
# the result back. For doubling that is two more messages of full length; for halving-doubling
# MPICH [6] counts $(2\lfloor\log_2 p\rfloor + 2)\,\alpha + (2\frac{p-1}{p} + 2)\,n\beta$.
# *Predict: 8 ranks against 9, for a long vector. How much slower is the ninth rank's company?*

# %% slideshow={"slide_type": "fragment"}
long = 100_000_000
eight_s = 2 * 3 * alpha + 2 * 7 / 8 * long * beta
nine_s = (2 * 3 + 2) * alpha + (2 * 8 / 9 + 2) * long * beta
ring_nine_s = 2 * 8 * (alpha + long / 9 * beta)
print(f"8 ranks: halving-doubling {eight_s:.3f} s")
print(f"9 ranks: halving-doubling {nine_s:.3f} s, ring {ring_nine_s:.3f} s")
assert round(nine_s / eight_s, 1) == 2.2 and round(nine_s / ring_nine_s, 1) == 2.1

# %% [markdown] slideshow={"slide_type": "fragment"}
# One more rank, 2.2 times the time; and at 9 ranks the plain ring is 2.1 times faster. For long
# vectors the ring has no favourite world sizes: one of the reasons why it is so popular.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8. Trees, and two of them
#
# A binary tree sums towards its root and then sends the result back down: $2\log_2 p$ levels.
# Alone it wastes ports: a leaf never receives while summing, and the root never sends. Two
# improvements make it the best of both worlds [7]:
#
# 1. **Chunks.** Cut the vector into $c$ chunks and send one after the other: while the root adds
#    chunk 1, the level below works on chunk 2.
# 2. **Two trees.** Let each of two trees carry half of the vector, chosen so that *no rank is an
#    inner node in both*. The leaf of one tree works in the other.
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
eight = trees["world_size"] == 8
PARENTS = [trees["parent1"][eight].tolist(), trees["parent2"][eight].tolist()]
print(PARENTS)  # the parent of rank 0, 1, 2 and so on; -1 for the root
assert PARENTS == [[-1, 2, 4, 2, 0, 6, 4, 6], [1, 3, 1, 7, 5, 3, 5, -1]]
inner = [set(parents) - {-1} for parents in PARENTS]
assert inner[0] & inner[1] == set() and inner[0] | inner[1] == set(range(8))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Every rank is an inner node in exactly one of them. (How to build such trees for any $p$ is the
# extra module of the assignment, so here they come from a file.) The traffic: chunk after chunk up
# both trees, then chunk after chunk down.

# %% slideshow={"slide_type": "slide"}
# %%writefile relay.py
import numpy as np
from mpi4py import MPI


def relay(comm, chunk, routes, num_chunks):
    """For each route (tag, sources, dests): when a chunk is there from all sources, send it on."""
    # First what waits for nobody (a leaf's own chunks), last what nobody waits for.
    routes = sorted(routes, key=lambda route: (route[1] != [], route[2] == []))
    arriving, sent = [], []
    for tag, sources, _ in routes:
        for _ in range(num_chunks):
            arriving.append([comm.Irecv(np.empty_like(chunk), one, tag) for one in sources])
    for number, requests in enumerate(arriving):
        tag, _, dests = routes[number // num_chunks]
        MPI.Request.Waitall(requests)
        sent += [comm.Isend(chunk, dest, tag) for dest in dests]
    MPI.Request.Waitall(sent)


# %% slideshow={"slide_type": "subslide"}
# %%writefile tree_traffic.py
import numpy as np
from relay import relay


def trees(comm, nbytes, parents, num_chunks):
    chunk = np.zeros(nbytes // len(parents) // num_chunks, np.uint8)
    upwards, downwards = [], []
    for tag, tree in enumerate(parents):
        up = [tree[comm.rank]] if tree[comm.rank] >= 0 else []
        down = [rank for rank, parent in enumerate(tree) if parent == comm.rank]
        upwards.append((tag, down, up))
        downwards.append((tag, up, down))
    relay(comm, chunk, upwards, num_chunks)
    relay(comm, chunk, downwards, num_chunks)


# %% [markdown] slideshow={"slide_type": "fragment"}
# *Predict: one tree, two trees, two trees with 8 chunks. Which step saves most? Take 20,000
# bytes.*

# %% slideshow={"slide_type": "fragment"}
n = 20_000
cases = {"one": (n, PARENTS[:1], 1), "two": (n, PARENTS, 1), "chunks": (n, PARENTS, 8)}
runs = {name: ringside.run("tree_traffic.py:trees", p, args) for name, args in cases.items()}
for name, run in runs.items():
    print(f"{name:7} {run.makespan_s * 1e6:5.0f} µs, busiest rank {max(run.sent_bytes()):,} bytes")
assert [round(run.makespan_s * 1e6) for run in runs.values()] == [206, 106, 61]
assert max(runs["one"].sent_bytes()) == 3 * n and max(runs["two"].sent_bytes()) == 40_000
assert round(2 * n * beta * 1e6) == 40

# %% slideshow={"slide_type": "slide"}
runs["chunks"].timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# One tree takes 206 µs, and its busiest rank sends three vectors: two down to its children, one
# up. Two trees take 106 µs: half the bytes in each, and no rank works twice. With 8 chunks it is
# 61 µs, because the levels now work at the same time. No rank sends more than two vectors, 40,000
# bytes, so 40 µs is the least that this scheme could take.

# %% [markdown] slideshow={"slide_type": "slide"}
# With many chunks each rank passes on $2 \cdot n/2$ bytes upwards and as much downwards, so the
# time tends to $2n\beta$ and what it takes to fill the tree:
#
# $$T_\text{double tree} \approx 2n\beta + O(\log p)\left(\alpha + \tfrac{n}{2c}\beta\right)$$
#
# This has the bandwidth of a ring and the latency of a logarithm. (It is an approximation; the
# other formulas of this lecture are exact.) *Predict: how many chunks are best?*

# %% slideshow={"slide_type": "fragment"}
chunk_counts = [1, 2, 4, 8, 16, 32, 64, 128]
makespans = []
for num_chunks in chunk_counts:
    run = ringside.run("tree_traffic.py:trees", p, (256 * 80, PARENTS, num_chunks))
    makespans.append(run.makespan_s)
figure, axis = plt.subplots(figsize=(6, 3))
axis.plot(chunk_counts, np.array(makespans) * 1e6, "o-", color="#8a7a00")
axis.set(xscale="log", xlabel="chunks in each tree", ylabel="time (µs)", ylim=0)
axis.set_xticks(chunk_counts, chunk_counts)
show(figure, "Time of the double tree on 8 ranks over the number of chunks: falls steeply from 108 µs with one "
     "chunk, and hardly any more beyond 16 chunks, to 57 µs with 128.")  # fmt: skip
assert chunk_counts[-1] == 128
assert [round(makespans[i] * 1e6) for i in (0, 3, 7)] == [108, 62, 57]

# %% [markdown] slideshow={"slide_type": "subslide"}
# From 108 µs with one chunk it falls to 62 µs with 8 and to 57 µs with 128: the more the better,
# with little gain after the first few. That is the model's optimism again: chunks that are posted
# together share their $\alpha$. On a real machine each chunk costs the processor something, and
# there the curve turns up again.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9. Crossover: which one, when?
#
# Now put all of them on one sheet: 16 ranks, from 16 bytes to 16 MB. Every run leaves a **trace**:
# the list of what each rank sent, received and waited for, without times. `ringside.replay`
# computes the times of a trace on any machine, and does not run the program again.
#
# You need one run of each program, not one for each size. In the port model a byte appears nowhere
# but in $n\beta$, so a vector that is $k$ times longer takes what the same trace takes on a
# machine whose $\beta$ is $k$ times larger.

# %% slideshow={"slide_type": "fragment"}
p, n0 = 16, 2048
PROGRAMS = {
    "star": ("star_traffic.py:star", (n0, True)),
    "sharded_server": ("sharded_traffic.py:exchange", (n0, True)),
    "ring": ("ring_traffic.py:ring", (n0,)),
    "recursive_doubling": ("recursive_traffic.py:doubling", (n0,)),
    "halving_doubling": ("recursive_traffic.py:halving_doubling", (n0, [8, 4, 2, 1])),
}
sixteen = trees["world_size"] == p
parents = [trees["parent1"][sixteen].tolist(), trees["parent2"][sixteen].tolist()]
for num_chunks in (1, 4, 16, 64):
    PROGRAMS[f"tree, {num_chunks}"] = ("tree_traffic.py:trees", (n0, parents, num_chunks))
TRACES = {name: ringside.run(target, p, args).trace for name, (target, args) in PROGRAMS.items()}
print(sum(trace.num_ops for trace in TRACES.values()), "operations in", len(TRACES), "traces")

# %% slideshow={"slide_type": "slide"}
SIZES = 4 ** np.arange(2, 13)


def replayed(name, machine):
    """Seconds for each of SIZES on a machine."""
    longer = [machine.with_(beta_s_per_byte=machine.beta_s_per_byte * n / n0) for n in SIZES]
    return np.array([ringside.replay(TRACES[name], one).makespan_s for one in longer])


def curves(machine):
    """All algorithms; the double tree with the best of its numbers of chunks."""
    result = {name: replayed(name, machine) for name in TRACES}
    trees = [result.pop(name) for name in TRACES if "tree" in name]
    return result | {"tree": np.min(trees, axis=0)}


# %% slideshow={"slide_type": "fragment"}
def formulas(machine, p=16):
    """What sections 4 to 7 derived, for each of SIZES."""
    a, nb, lg = machine.alpha_s, SIZES * machine.beta_s_per_byte, np.log2(p)
    return {
        "star": 2 * (a + (p - 1) * nb),
        "sharded_server": 2 * (a + (p - 1) / p * nb),
        "ring": 2 * (p - 1) * (a + nb / p),
        "recursive_doubling": lg * (a + nb),
        "halving_doubling": 2 * lg * a + 2 * (p - 1) / p * nb,
    }


measured, predicted = curves(machine), formulas(machine)
for name, seconds in predicted.items():
    np.testing.assert_allclose(measured[name], seconds, rtol=1e-9, err_msg=name)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Five formulas, eleven sizes, and the replay agrees with each of them to nine digits.

# %% slideshow={"slide_type": "slide"} tags=["figure", "hide-input"]
from ringside.draw import crossover_axes

axes = crossover_axes(SIZES, measured, predicted, title="All-reduce on 16 ranks, textbook machine")
show(axes.figure, "Time over vector size, both logarithmic, for six algorithms: lines by formula, "
     "markers by replay, and they coincide. For short vectors star and sharded server lie lowest, then "
     "recursive doubling, and the ring highest. For long vectors star lies highest by far, and sharded "
     "server, ring, halving-doubling and double tree run together at the bottom.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# Read it from the left. Short vectors: count *messages in a row*. Long vectors: count *bytes
# through the busiest port*. In between, the lines cross. Where doubling and halving-doubling cross
# you find by setting their formulas equal:
#
# $$n^* = \frac{\log_2 p}{\log_2 p - 2\frac{p-1}{p}}\cdot\frac{\alpha}{\beta}$$


# %% slideshow={"slide_type": "subslide"}
def crossover(p, machine):
    lg = np.log2(p)
    return lg / (lg - 2 * (p - 1) / p) * machine.alpha_s / machine.beta_s_per_byte


for p in (4, 16, 64, 1024):
    print(f"{p:5} ranks: {crossover(p, machine):,.0f} bytes")
assert round(crossover(16, machine)) == 1882 and round(crossover(1024, machine)) == 1250
best = [min(measured, key=lambda name: measured[name][i]) for i in range(len(SIZES))]
assert set(best) == {"sharded_server"}

# %% [markdown] slideshow={"slide_type": "fragment"}
# 1882 bytes for 16 ranks, and with more ranks it tends towards $\alpha/\beta$: 1250 bytes for
# 1024.
#
# And the sharded server lies below everything, everywhere. It is the one curve here that you
# should not trust: it rests on 15 messages of one rank sharing a single $\alpha$, and on every
# pair of ranks having a wire of its own. If $\alpha$ is the processor's work for each message,
# nothing is shared and the sharded server costs what the ring costs, $2(p-1)\alpha +
# 2\frac{p-1}{p}n\beta$.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Turn the knobs.** The same sheet for three machines. *Predict: with ten times the latency, do
# the crossings move left or right?*

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
KNOBS = {"a tenth of the latency": 0.1, "textbook": 1.0, "ten times the latency": 10.0}
shown = ["ring", "recursive_doubling", "halving_doubling", "tree"]
figure, panels = plt.subplots(1, 3, figsize=(10, 3.8), sharey=True)
for axis, (title, factor) in zip(panels, KNOBS.items()):
    other = machine.with_(alpha_s=factor * alpha)
    replays, lines = curves(other), formulas(other)
    crossover_axes(SIZES, {name: replays[name] for name in shown},
                   {name: lines[name] for name in shown[:3]}, axis, title=title)  # fmt: skip
    axis.set_xticks(SIZES[1::3])
    axis.get_legend().set_visible(factor == 0.1)
panels[0].set_ylim(top=2.0)  # room for the legend
show(figure, "Three copies of the crossover plot for ring, recursive doubling, halving-doubling and double "
     "tree, with a tenth, once and ten times the latency: the pattern is the same and moves to the right "
     "in proportion to the latency.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# To the right, in proportion: only $\alpha/\beta$ matters for the pattern.
#
# Now turn them yourself, and see in the timelines where the time goes. *Predict: 8 ranks, 200
# bytes: what is the order of the four schemes? And for 20,000 bytes?*


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
def schedule(scheme, ranks, nbytes, latency_us, gigabytes_per_s):
    """Timeline of one all-reduce on a machine of your own."""
    bits = [2**k for k in reversed(range(ranks.bit_length() - 1))]
    target, args = {
        "sharded server": ("sharded_traffic.py:exchange", (nbytes, True)),
        "ring": ("ring_traffic.py:ring", (nbytes,)),
        "recursive doubling": ("recursive_traffic.py:doubling", (nbytes,)),
        "halving-doubling": ("recursive_traffic.py:halving_doubling", (nbytes, bits)),
    }[scheme]
    yours = machine.with_(alpha_s=latency_us * 1e-6, beta_s_per_byte=1e-9 / gigabytes_per_s)
    return ringside.run(target, ranks, args, machine=yours).timeline


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
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

# %% slideshow={"slide_type": "skip"}
SCHEMES = ["sharded server", "recursive doubling", "halving-doubling", "ring"]
times_us = {}
for nbytes in (200, 20_000):
    runs = [schedule(scheme, 8, nbytes, 1.0, 1.0) for scheme in SCHEMES]
    times_us[nbytes] = [run.makespan_s * 1e6 for run in runs]
np.testing.assert_allclose(times_us[200], [2.35, 3.6, 6.35, 14.35])
np.testing.assert_allclose(times_us[20_000], [37, 63, 41, 49])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Sharded server, doubling, halving-doubling, ring take 2.35, 3.6, 6.35 and 14.35 µs for 200 bytes:
# the order of their *messages in a row*, 2, 3, 6 and 14. For 20,000 bytes it is 37, 63, 41 and 49
# µs: doubling, which sends whole vectors, has fallen from second to last. The two sliders at the
# end, for latency and link, move in Jupyter only, where the kernel draws what you ask for.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10. Topology: who has a wire to whom?
#
# So far any two ranks talked at full speed. Draw the wires instead, as a graph. Two of its numbers
# bound every algorithm that uses these wires: the **diameter**, the most hops between two ranks,
# bounds the latency from below; the **degree**, the wires of one rank, says how many must share
# its port. [8] shows three graphs: a random one, a ring, and a wheel (a hub with a wire to
# everybody on a rim).


# %% slideshow={"slide_type": "fragment"}
def graph(p, wires):
    """Adjacency matrix of p ranks; wires go both ways."""
    joined = np.eye(p, dtype=bool)
    for i, j in wires:
        joined[i, j] = joined[j, i] = True
    return joined


def diameter(joined):
    reached, hops = joined, 1
    while not reached.all():
        reached, hops = reached @ joined, hops + 1
    return hops


def around(ranks):
    return list(zip(ranks, np.roll(ranks, -1)))


# %% slideshow={"slide_type": "fragment"}
p = 16
shuffles = np.random.default_rng(1)
GRAPHS = {
    "random": graph(p, around(shuffles.permutation(p)) + around(shuffles.permutation(p))),
    "ring": graph(p, around(range(p))),
    "wheel": graph(p, around(range(1, p)) + [(0, rim) for rim in range(1, p)]),
    "hypercube": graph(p, [(i, i ^ bit) for i in range(p) for bit in (1, 2, 4, 8)]),
}
facts = {name: (joined.sum(0).max() - 1, diameter(joined)) for name, joined in GRAPHS.items()}
for name, (degree, hops) in facts.items():
    print(f"{name:10} largest degree {degree:2}, diameter {hops}")
assert facts["ring"] == (2, 8) and facts["wheel"] == (15, 2) and facts["hypercube"] == (4, 4)

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, panels = plt.subplots(1, 4, figsize=(10, 2.7))
for axis, (name, joined) in zip(panels, GRAPHS.items()):
    spots = np.exp(2j * np.pi * np.arange(p) / p)
    if name == "wheel":
        spots = np.concatenate([[0], np.exp(2j * np.pi * np.arange(p - 1) / (p - 1))])
    for i, j in np.argwhere(np.triu(joined, 1)):
        axis.plot(spots[[i, j]].real, spots[[i, j]].imag, color="#57606a", linewidth=0.8)
    axis.plot(spots.real, spots.imag, "o", color="#57606a")
    axis.set_title(f"{name}\ndegree {facts[name][0]}, diameter {facts[name][1]}", fontsize=9)
    axis.set_aspect("equal")
    axis.axis("off")
show(figure, "Four graphs of 16 ranks drawn on circles: random, made of two shuffled rings; ring; wheel "
     "with a hub in the middle; hypercube.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# You have met three of them. The *star* uses the wheel's spokes: two hops, and 15 vectors through
# one port. The *ring* is the opposite: one neighbour at a time, and a number needs many hops.
# *Recursive doubling* uses the hypercube, with 4 and 4. A random graph has low degree and low
# diameter without any plan: *gossip*, where each rank averages with some others, lives on that.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Nodes.** In a cluster the wires are not alike. On the `zaratan` model [9] four GPUs share a
# node: inside it a message is fast, and *all four share one network card* to the other nodes.

# %% slideshow={"slide_type": "fragment"}
zaratan = ringside.Machine.load("zaratan").with_(eager_threshold_bytes=0)
inside, between = zaratan.link(0, 1), zaratan.link(0, 4)
for where, link in (("inside a node", inside), ("between nodes", between)):
    print(f"{where}: {link.alpha_s * 1e6:.1f} µs, {1e-9 / link.beta_s_per_byte:g} GB/s")
assert zaratan.ranks_per_node == 4 and zaratan.shared_nic
assert np.isclose(inside.beta_s_per_byte * 8, between.beta_s_per_byte)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Predict: 32 GPUs on 8 nodes, 100 MB each. Put these in order, fastest first: (a) the ring, ranks
# in order; (b) the ring, ranks shuffled; (c) the sharded server; (d) halving-doubling, far
# partners first; (e) halving-doubling, near partners first.*

# %% slideshow={"slide_type": "slide"}
p, n0, n = 32, 3200, 100e6
shuffled = np.random.default_rng(2).permutation(p).tolist()
RING, HALVING = "ring_traffic.py:ring", "recursive_traffic.py:halving_doubling"
CASES = {
    "a": (RING, (n0,), None),
    "b": (RING, (n0,), shuffled),  # the ranks of the ring, in this order
    "c": ("sharded_traffic.py:exchange", (n0, True), None),
    "d": (HALVING, (n0, [16, 8, 4, 2, 1]), None),
    "e": (HALVING, (n0, [1, 2, 4, 8, 16]), None),
}
runs = {case: ringside.run(target, p, args, members=members, machine=zaratan)
        for case, (target, args, members) in CASES.items()}  # fmt: skip

# %% slideshow={"slide_type": "subslide"}
node = np.arange(p) // 4
leaves = node[:, None] != node[None, :]  # which pairs of ranks talk through network cards


def on_zaratan(trace, nbytes):
    """Replay a trace of n0 bytes as if the vector had nbytes."""
    longer = nbytes / n0
    machine = zaratan.with_(beta_s_per_byte=between.beta_s_per_byte * longer,
                            intra_beta_s_per_byte=inside.beta_s_per_byte * longer)  # fmt: skip
    return ringside.replay(trace, machine).makespan_s


# %% slideshow={"slide_type": "fragment"}
times = {case: on_zaratan(run.trace, n) for case, run in runs.items()}
out = {case: (run.bytes_matrix() * leaves).sum() / 8 * n / n0 for case, run in runs.items()}
for case in runs:
    relative = times[case] / times["a"]
    print(f"({case}) {times[case] * 1e3:5.1f} ms, {relative:.1f} times (a); "
          f"{out[case] / 1e6:4.0f} MB out of each node")  # fmt: skip
assert [round(time * 1e3, 1) for time in times.values()] == [15.7, 62.3, 56.0, 56.2, 15.5]
assert [round(nbytes / 1e6) for nbytes in out.values()] == [194, 678, 700, 700, 175]
assert round(times["b"] / times["a"], 1) == 4.0 and round(times["c"] / times["a"], 1) == 3.6
assert all(len(set(run.sent_bytes())) == 1 for run in runs.values())
assert len({run.sent_bytes()[0] for run in runs.values()}) == 1

# %% [markdown] slideshow={"slide_type": "fragment"}
# The ring in order and halving-doubling with near partners first take 15.7 and 15.5 ms. The
# shuffled ring takes 4.0 times as long, the sharded server and halving with far partners first 3.6
# times. *All five send the same number of bytes from each rank.* What differs is how many go
# through the network card of a node: 194 and 175 MB against 678 and 700.
#
# That answers the question of section 6. The sharded server wants a wire between every two ranks.
# The ring in order enters and leaves each node once. And it shows why the order in which your job
# numbers its ranks matters, and that "the same algorithm" can be four times slower for the order
# of its steps.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 11. What the libraries choose
#
# **MPICH** has had this rule for `MPI_Allreduce` since [6], and it is still in its source
# (`MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE` is the constant [10]):


# %% slideshow={"slide_type": "fragment"}
def mpich_choice(num_elements, itemsize, world_size, predefined_op=True):
    power = 2 ** (world_size.bit_length() - 1)  # the largest power of two that fits
    if num_elements * itemsize <= 2048 or not predefined_op or num_elements < power:
        return "recursive doubling"
    return "halving-doubling"


assert mpich_choice(256, 8, 16) == "recursive doubling"  # 2048 bytes
assert mpich_choice(257, 8, 16) == "halving-doubling"
assert mpich_choice(1000, 8, 16, predefined_op=False) == "recursive doubling"
for preset in (machine, zaratan):
    print(f"{preset.name}: the formula says {crossover(16, preset):,.0f} bytes for 16 ranks")
assert round(crossover(16, zaratan), -3) == 64_000

# %% [markdown] slideshow={"slide_type": "fragment"}
# It is section 9's crossover as a constant. (An operation of your own may not be cut in pieces,
# and a vector with fewer elements than ranks can't be; both go to doubling.) One constant cannot
# fit all machines: with the network of `zaratan` the formula says 64,000 bytes.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# **NCCL**, the library for NVIDIA GPUs, does what you did: for every algorithm and protocol it
# computes a latency and a bandwidth, predicts $\text{latency} + n/\text{bandwidth}$, and takes the
# smallest [5]. Its latencies for a low-latency protocol over $N$ nodes of $g$ GPUs, in µs:
#
# - ring: $6.6 + (2(p-1) - 2(N-1))\cdot 1.0 + 2(N-1)\cdot 2.7$
# - double tree: $6.8 + 2\,((g-1)\cdot 0.6 + \lfloor\log_2 N\rfloor\cdot 5.0)$
#
# *Predict: on 24,576 GPUs, how many times shorter is the tree's latency?*

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
nodes, gpus = 4096, 6  # the size on which NCCL's trees were first shown
p = nodes * gpus
ring_us = 6.6 + (2 * (p - 1) - 2 * (nodes - 1)) * 1.0 + 2 * (nodes - 1) * 2.7
tree_us = 6.8 + 2 * ((gpus - 1) * 0.6 + np.log2(nodes) * 5.0)
steps = 2 * (p - 1) / (2 * (gpus - 1 + np.log2(nodes)))
print(f"{p:,} GPUs: ring {ring_us:,.0f} µs, tree {tree_us:.0f} µs: {ring_us / tree_us:.0f} times")
print(f"counting steps alone: {steps:,.0f} times")
assert p == 24_576 and round(ring_us) == 63_080 and round(tree_us) == 133
assert round(ring_us / tree_us) == 475 and round(steps) == 1446
assert ring_us / tree_us > 180  # published: up to 180 times [11]

# %% [markdown] slideshow={"slide_type": "fragment"}
# NCCL's constants say 475 times; counting steps alone would say 1446. The published measurement is
# *up to 180 times* [11]. The direction is right and the factor is not: at such ratios a model of
# two numbers is good for an order of magnitude.
#
# > **Corrected.** [4] says that the double binary tree takes $\log p$ rounds and is "used on
# > Summit and latest NCCL". It is $2\log_2 p$ levels and the chunks on top. NCCL 2.4 (February
# > 2019) brought it and was *tested* on Summit; NCCL goes back to rings where they give more
# > bandwidth [11].

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 12. What the model forgets
#
# **Two nodes, one rank on each.** The table holds published measurements [12] between two machines
# of a cloud: the time of a message, and of an all-reduce, for many sizes. With two ranks,
# recursive doubling is one exchange, so it should cost one message of $n$ bytes; halving-doubling
# is two exchanges of $n/2$. Take the *measured* message times, and suppose that the library
# changes over at 10 kB.
#
# *Predict: by how many percent is this prediction off, at 1 kB and at 1 MB?*

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
osu = table(LECTURES / "data" / "osu_gke_2_nodes.csv")
message_us = dict(zip(osu["nbytes"], osu["latency_us"]))
known = ~np.isnan(osu["allreduce_us"])
sizes, measured_us = osu["nbytes"][known], osu["allreduce_us"][known]
predicted_us = np.array([message_us[n] if n < 10_000 else 2 * message_us[n // 2] for n in sizes])
error = dict(zip(sizes, predicted_us / measured_us - 1))
print({f"{n} B": f"{error[n]:+.0%}" for n in (4, 1024, 16384, 65536, 524288, 1048576)})
assert all(-0.075 < error[n] < -0.02 for n in sizes if n <= 16384)
assert round(error[1024], 2) == -0.02 and round(error[1048576], 2) == -0.40

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
show(figure, "All-reduce between two nodes from 4 B to 1 MB: measured points rise in steps at 2 kB, 16 kB and "
     "128 kB. The prediction from measured messages follows the steps and falls below at the right end. "
     "The curve from one alpha and one beta is smooth and lies far below from 2 kB on.")  # fmt: skip
smooth = dict(zip(sizes, (a_us + sizes * b_us) / measured_us - 1))
assert round(smooth[16384], 2) == -0.74 and round(smooth[8192], 2) == -0.51

# %% [markdown] slideshow={"slide_type": "subslide"}
# From measured messages the prediction is off by 2 % at 1 kB and less than 8 % up to 16 kB. At 1
# MB it is 40 % too optimistic. And *one* $\alpha$ and $\beta$ for all sizes is worse: 51 % too low
# at 8 kB, 74 % at 16 kB, because the measured times rise in **steps**: the library changes its way
# of sending (a packet more, a handshake, another protocol).
#
# Can you find what is missing at 1 MB? Look at the bandwidths in both directions together.

# %% slideshow={"slide_type": "fragment"}
one_way, both_ways = osu["bw_MB_per_s"], osu["bibw_MB_per_s"]
long = osu["nbytes"] >= 65536
print("both ways against one way:", np.round(both_ways[long] / one_way[long], 2))
assert (both_ways[long] < 1.05 * one_way[long]).all()

bandwidth = dict(zip(osu["nbytes"], one_way))
better = {}
for n, t in zip(sizes, measured_us):
    if n > 10_000:
        better[n] = 2 * (message_us[n // 2] + n / 2 / bandwidth[n]) / t - 1
print({f"{n} B": f"{e:+.0%}" for n, e in better.items()})
assert round(better[1048576], 2) == -0.07 and max(map(abs, better.values())) < 0.10

# %% [markdown] slideshow={"slide_type": "fragment"}
# Both directions together get no more than one direction alone: this network is **half duplex**.
# Charge the exchange for the bytes of both directions, and all long sizes come within 10 %; 1 MB
# within 7 %. An assumption was wrong, not the method.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Sixteen GPUs.** NCCL on two nodes with eight A100 each [13]. Here nobody tells you $\alpha$ and
# $\beta$, so fit them to every second size and predict the sizes in between. *Predict: what error
# do you expect from a fit with two numbers over nine orders of magnitude?*

# %% slideshow={"slide_type": "fragment"}
nccl = table(LECTURES / "data" / "nccl_2x8_a100.csv")
n, t_us = nccl["nbytes"].astype(float), nccl["time_us"]


def fit(n, t_us):
    """alpha and beta that make the relative errors smallest (least squares)."""
    return np.linalg.lstsq(np.column_stack([1 / t_us, n / t_us]), np.ones(len(n)), rcond=None)[0]


a_us, b_us = fit(n[::2], t_us[::2])
errors = np.abs((a_us + b_us * n[1::2]) / t_us[1::2] - 1)
print(f"alpha {a_us:.0f} µs, 1/beta {1e-3 / b_us:.0f} GB/s")
print(f"sizes in between: median error {np.median(errors):.0%}, largest {errors.max():.0%}")
assert round(a_us) == 44 and round(1e-3 / b_us) == 100
assert round(np.median(errors), 2) == 0.13 and round(errors.max(), 2) == 0.36

# %% slideshow={"slide_type": "slide"}
edges = [0, 2**18, 16e6, np.inf]  # three regimes
inbetween_n, inbetween_t, guess = n[1::2], t_us[1::2], np.empty(len(n[1::2]))
for low, high in zip(edges, edges[1:]):
    fitted, asked = (n[::2] >= low) & (n[::2] < high), (inbetween_n >= low) & (inbetween_n < high)
    a, b = fit(n[::2][fitted], t_us[::2][fitted])
    guess[asked] = a + b * inbetween_n[asked]
regimes = np.abs(guess / inbetween_t - 1)
print(f"three regimes: median error {np.median(regimes):.0%}, largest {regimes.max():.0%}")
assert round(np.median(regimes), 2) == 0.06 and round(regimes.max(), 2) == 0.15

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(7.5, 4))
axis.loglog(n, t_us, "o", color="#1b1f24", label="measured")
axis.loglog(n, a_us + b_us * n, ":", color="#7f5539", label="one alpha, one beta")
axis.loglog(inbetween_n, guess, "-", color="#5c4d9a", label="three regimes")
axis.set(xlabel="bytes", ylabel="time (µs)")
axis.legend(frameon=False)
show(figure, "NCCL all-reduce on 16 A100 from 8 B to 8 GB. The straight model follows the measured points at "
     "both ends and lies up to a third below between 100 kB and 10 MB; three regimes follow throughout.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# Two numbers describe nine orders of magnitude with a median error of 13 %, and 36 % at worst, in
# the middle. There NCCL changes its protocol: a low-latency one for short vectors, a
# high-bandwidth one for long ones. With a fit for each of three regimes it is 6 %, and 15 % at
# worst.
#
# **What the model forgets**, in order of how often it will surprise you: protocols that change
# with size; wires shared with others; half duplex; the processor's work for each message; $\gamma$
# on slow memory; late partners. **What it gets right**: the shape of the curves, which algorithm
# wins, where roughly they cross, and what more ranks will do.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["corrected"]
# ## 13. Summary
#
# | algorithm | messages in a row | bytes through the busiest port | good for |
# |---|---|---|---|
# | star, in a row | $2(p-1)$ | $2(p-1)n$ | nothing but a first program |
# | star, at once | $2$ | $2(p-1)n$ | few ranks, short vectors |
# | sharded server | $2$ to $2(p-1)$ | $2\frac{p-1}{p}n$ | wires between all pairs |
# | ring | $2(p-1)$ | $2\frac{p-1}{p}n$ | long vectors, any $p$, nodes in order |
# | recursive doubling | $\log_2 p$ | $n\log_2 p$ | short vectors |
# | halving-doubling | $2\log_2 p$ | $2\frac{p-1}{p}n$ | $p$ a power of two, near partners first |
# | double tree, $c$ chunks | about $2\log_2 p + 2c$ | $2n$ | long vectors on many ranks |
#
# **Errors on slides that you may meet**, all in [4], a deck that is otherwise worth your time:
#
# | slide | correct |
# |---|---|
# | "$\beta$ bandwidth" | $\beta$ is seconds per byte; and $\gamma$ is missing |
# | parameter server $\alpha + PN\beta$ | $2(p-1)(\alpha + n\beta)$, or $2(\alpha + (p-1)n\beta)$ posted at once |
# | ring takes $P-1$ rounds | $2(p-1)$ |
# | double tree: $\log p$ rounds, "used on Summit and latest NCCL" | $2\log_2 p$ and chunks; since NCCL 2.4, tested on Summit, chosen where it is faster |
# | ring's time "independent of the number of processors" | only the bytes, and only in the limit; latency is $2(p-1)\alpha$ |
# | key $i$ to machine $i$, $N/P$ each | only for equal keys; cut by range |

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 14. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** Six ranks, 2000 bytes, textbook machine. How long does recursive doubling take
# with folding? How long does a ring take, and which one do you choose?
#
# <details><summary>Answer</summary>
#
# Six is $4 + 2$: ranks 4 and 5 hand their vectors to ranks 0 and 1, those four do two steps of
# doubling, and hand the results back. Four messages of full length in a row: $4(\alpha + n\beta) =
# 12$ µs. The ring takes ten steps of a sixth: $10\alpha + 2\cdot\frac56 n\beta = 13.3$ µs.
# Doubling, narrowly; from 2571 bytes on it is the ring.
# </details>

# %% slideshow={"slide_type": "skip"}
folded_s, ring_s = 4 * (alpha + 2000 * beta), 10 * alpha + 2 * 5 / 6 * 2000 * beta
assert np.isclose(folded_s, 12e-6) and round(ring_s * 1e6, 1) == 13.3
assert round((10 - 4) * alpha / ((4 - 2 * 5 / 6) * beta)) == 2571

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** A colleague's ring uses `Send` and then `Recv`. It works with 100 numbers on the
# lab's cluster and hangs with 100,000. Why? He mends it: even ranks send first, odd ranks receive
# first. Is that right for 5 ranks too? What does it cost?
#
# <details><summary>Answer</summary>
#
# Short messages are buffered there, so `Send` returns early; long ones wait for a receive that
# nobody has posted (section 2). With even ranks first, 4 ranks take two rounds where `Sendrecv`
# takes one. With 5 ranks, 4 and 0 are neighbours and both even: rank 4 has to wait for rank 0 to
# finish its send, and rank 3 has to wait for rank 4. No cycle, so no deadlock, but three rounds.
# </details>

# %% slideshow={"slide_type": "skip"}
# %%writefile parity.py
import numpy as np


def shift(comm, nbytes):
    mine, theirs = np.zeros((2, nbytes), np.uint8)
    next_rank, prev_rank = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    if comm.rank % 2 == 0:
        comm.Send(mine, dest=next_rank)
        comm.Recv(theirs, source=prev_rank)
    else:
        comm.Recv(theirs, source=prev_rank)
        comm.Send(mine, dest=next_rank)


# %% slideshow={"slide_type": "skip"}
one_round_s = alpha + 2000 * beta
rounds = {q: ringside.run("parity.py:shift", q, (2000,)).makespan_s / one_round_s for q in (4, 5)}
assert np.isclose(rounds[4], 2) and np.isclose(rounds[5], 3)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** nccl-tests reports a *bus bandwidth*. In the table of section 12, 8 GiB took
# 67,689 µs on 16 GPUs. How many bytes per second is $n/T$? How many bytes per second does each
# GPU's link carry, if the algorithm is a ring? Why report the second?
#
# <details><summary>Answer</summary>
#
# $n/T = 126.9$ GB/s. In a ring each rank sends $2\frac{p-1}{p}n$, so its link carries
# $\frac{2\cdot 15}{16}\cdot 126.9 = 237.9$ GB/s: that is the bus bandwidth. It can be compared
# with the hardware's number whatever $p$ is; $n/T$ falls as $p$ grows even if every link runs at
# its limit.
# </details>

# %% slideshow={"slide_type": "skip"}
rate = n[-1] / (t_us[-1] * 1e-6) / 1e9
assert t_us[-1] == 67_689 and n[-1] == 8 * 2**30
assert round(rate, 1) == 126.9 and round(2 * 15 / 16 * rate, 1) == 237.9

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** A well-known paper [14] on training with 256 GPUs reports that halving-doubling
# was 3 times as fast as the ring on 32 servers (50 Gbit/s) for short vectors. Suppose $\alpha =
# 20$ µs and a vector of 1 MB. What does the formula say? Have you now confirmed their measurement?
#
# <details><summary>Answer</summary>
#
# 62 steps against 10, and the same bytes: 3.04 times. It looks like a confirmation and is none:
# the paper does not publish $\alpha$, so you can choose it to fit. With 5 µs you get 1.72, with 50
# µs 4.21. A prediction would need $\alpha$ from another measurement.
# </details>


# %% slideshow={"slide_type": "skip"}
def speedup(a, n=1e6, p=32, b=8 / 50e9):
    return (2 * (p - 1) * (a + n / p * b)) / (2 * np.log2(p) * a + 2 * (p - 1) / p * n * b)


assert (2 * (32 - 1), 2 * np.log2(32)) == (62, 10)
assert round(speedup(20e-6), 2) == 3.04
assert round(speedup(5e-6), 2) == 1.72 and round(speedup(50e-6), 2) == 4.21

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** On `zaratan`, 32 GPUs on 8 nodes: reduce-scatter inside each node; then, for each
# of the four shards, a ring all-reduce over the 8 ranks that hold it; then all-gather inside each
# node. How many bytes leave each node? Is it better than the ring in order, for 100 MB and for 10
# kB?
#
# <details><summary>Answer</summary>
#
# Each of the four shards is $n/4$ and its ring sends $2\frac{7}{8}\cdot\frac{n}{4}$ from each
# node; four of them make $2\cdot\frac78 n$, or 175 MB. The ring in order sends
# $2\cdot\frac{31}{32}n$, or 194 MB. For 100 MB they are equally fast (1.01), because the network
# card is the bottleneck of both, and what the nested scheme saves there it spends inside the
# nodes. For 10 kB messages decide: 14 between nodes and 6 inside take the place of 62, and the
# nested scheme is 4.0 times faster.
# </details>

# %% slideshow={"slide_type": "skip"}
# %%writefile in_nodes.py
import numpy as np


def ring(comm, group, nbytes, steps):
    here = group.index(comm.rank)
    next_rank, prev_rank = group[(here + 1) % len(group)], group[here - 1]
    chunk, arriving = np.zeros((2, nbytes // len(group)), np.uint8)
    for _ in range(steps):
        comm.Sendrecv(chunk, dest=next_rank, recvbuf=arriving, source=prev_rank)


def all_reduce(comm, nbytes):
    first = comm.rank // 4 * 4
    node, across = list(range(first, first + 4)), list(range(comm.rank % 4, comm.size, 4))
    ring(comm, node, nbytes, 3)
    ring(comm, across, nbytes // 4, 2 * (len(across) - 1))
    ring(comm, node, nbytes, 3)


# %% slideshow={"slide_type": "skip"}
nested = ringside.run("in_nodes.py:all_reduce", 32, (n0,), machine=zaratan)
leaving = (nested.bytes_matrix() * leaves).sum() / 8 * 100e6 / n0
assert round(leaving / 1e6) == 175 and round(out["a"] / 1e6) == 194
gain = {
    nbytes: on_zaratan(runs["a"].trace, nbytes) / on_zaratan(nested.trace, nbytes)
    for nbytes in (100e6, 10e3)
}
assert round(gain[100e6], 2) == 1.01 and round(gain[10e3], 1) == 4.0
assert (2 * (8 - 1), 3 + 3, 2 * (32 - 1)) == (14, 6, 62)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 15. Your turn
#
# The assignment `a03_allreduce` asks for what this lecture left out: the arithmetic, every dtype
# and length, and every world size. Once you have written a module, the next cell runs *yours*,
# compares its values with the plain sum and shows its time. Until then it says so.

# %% slideshow={"slide_type": "fragment"}
MODULES = {"star": "all_reduce", "sharded_server": "all_reduce", "ring": "all_reduce",
           "recursive": "halving_doubling"}  # fmt: skip
for module, function in MODULES.items():
    file = LECTURES.parent / "assignments" / "a03_allreduce" / f"{module}.py"
    xs = [rng.normal(size=1000) for _ in range(8)]
    run = file.is_file() and ringside.run(f"{file}:{function}", 8, [(x,) for x in xs], check=False)
    if not run or getattr(run.error, "type_name", "") == "NotImplementedError":
        print(f"{module}.py: not written yet")
    elif run.error or not all(np.allclose(value, sum(xs)) for value in run.values):
        print(f"{module}.py: not right yet; `ringside check {module}` says why")
    else:
        print(f"{module}.py: right, {run.makespan_s * 1e6:.1f} µs for 8000 bytes on 8 ranks")

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. K. Simonyan, A. Zisserman. Very deep convolutional networks for large-scale image recognition.
#    ICLR
#    2015. arXiv:1409.1556. Configuration D.
# 2. R. W. Hockney. The communication challenge for MPP: Intel Paragon and Meiko CS-2. Parallel
#    Computing 20(3), 389–398, 1994.
# 3. P. Patarasuk, X. Yuan. Bandwidth optimal all-reduce algorithms for clusters of workstations.
#    Journal of Parallel and Distributed Computing 69(2), 117–124, 2009.
# 4. D. Tao. Introduction to ML Systems. Slides, Oxford Machine Learning Summer School (OxML),
#    2022.
# 5. NVIDIA. NCCL, version 2.28.7, `src/graph/tuning.cc`: `ncclTunerConstantsDefaults`,
#    `ncclTopoTuneModel`. github.com/NVIDIA/nccl
# 6. R. Thakur, R. Rabenseifner, W. Gropp. Optimization of collective communication operations in
#    MPICH. International Journal of High Performance Computing Applications 19(1), 49–66, 2005.
#    The costs are also in the comments of MPICH's source.
# 7. P. Sanders, J. Speck, J. L. Träff. Two-tree algorithms for full bandwidth broadcast, reduction
#    and scan. Parallel Computing 35(12), 581–594, 2009.
# 8. M. Cai. Introduction to High-performance Machine Learning. Slides, SURFsara.
# 9. `cluster/machines/zaratan.toml`, with the source of each number. Nothing in it was measured on
#    Zaratan.
# 10. MPICH, `src/mpi/coll/allreduce` and `src/mpi/coll/iallreduce`. github.com/pmodels/mpich
# 11. S. Jeaugey. Massively scale your deep learning training with NCCL 2.4. NVIDIA Technical Blog,
#     February 2019.
# 12. `data/osu_gke_2_nodes.csv`: OSU Micro-Benchmarks 5.8 on two c3-standard-176 nodes of Google
#     Cloud, published by converged-computing on GitHub.
# 13. `data/nccl_2x8_a100.csv`: nccl-tests on two nodes of Oracle Cloud, published in
#     github.com/oracle-quickstart/oci-hpc-oke.
# 14. P. Goyal, P. Dollár, R. Girshick, P. Noordhuis, L. Wesolowski, A. Kyrola, A. Tulloch, Y. Jia,
#     K. He. Accurate, large minibatch SGD: training ImageNet in 1 hour. arXiv:1706.02677, 2017.
#     Section 4.
#
# Read next: [6] for the algorithms, [7] for the trees, and E. Chan, M. Heimlich, A. Purkayastha,
# R. van de Geijn, Collective communication: theory, practice, and experience, Concurrency and
# Computation: Practice and Experience 19(13), 1749–1783, 2007.
