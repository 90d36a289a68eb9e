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
# # First ranks: messages, their cost, and programs that hang
#
# A neural network that is too large or too slow for one GPU is trained by many processes at once,
# which talk to each other by messages. Before you write such training you have to know three
# things: how to send a message, what it costs, and why a program that sends messages hangs. You
# need Python and NumPy, nothing else; you have not seen MPI yet.
#
# At the end you will have
#
# - measured messages, and found the two numbers that say what any message costs;
# - seen what these two numbers do *not* say, on published measurements;
# - mended three programs that hang or race, each for one of the usual reasons;
# - asked every process of a job where it is, and run your first job.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points. All that it asks stands in the module's
# docstring. The tests stand in `checks/`: `ringside check` makes them with the public cases that
# you see there, the grader makes the same tests with others. In `given/` are `broken.py`, three
# programs for you to mend, and `where_table.py`, one line.
#
# You work in this notebook: each `%%module` cell is one module. Run it, and the file is written;
# run the next cell before, which makes `%%module` known. Or edit the files: a cell that you leave
# as it is gives way to its file.

# %%
import sys
from importlib import import_module, invalidate_caches
from inspect import getsource

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

np.set_printoptions(precision=4)
textbook = Machine.load("textbook")


def fresh(name):
    """Your module as it is now."""
    invalidate_caches()
    sys.modules.pop(name, None)
    return import_module(name)


# %% [markdown]
# ## 1. What a rank is
#
# `%%ranks 4` runs a cell four times at once, in four processes. All run the same program; what
# tells them apart is a number from 0 to 3, the *rank*. `comm` is the group of all of them, and how
# they find each other.

# %% tags=["predict"]
guess(
    "a01/own-x",
    "In the next cell only rank 1 changes `x` from 100 to 200. What do the four ranks print?",
    choices=[
        "100 on every rank",
        "200 on every rank",
        "200 on rank 1 and 100 on the others",
        "100 on rank 0 and 200 on the others",
    ],
)

# %%
# %%ranks 4
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, p = comm.Get_rank(), comm.Get_size()
x = 100
if rank == 1:
    x = 200
print("I am rank", rank, "of", p, "and my x is", x)

# %%
reveal("a01/own-x", "200 on rank 1 and 100 on the others")

# %% [markdown]
# Each rank has memory of its own: no rank can look at another's `x`, nor change it. They share
# nothing but the network. (Here the network is simulated on your computer, and sorts what is
# printed by rank. On a real one, lines of several ranks arrive in any order.)

# %% [markdown]
# `comm` is a *communicator*. `COMM_WORLD` holds all ranks of a program; others hold some of them,
# perhaps in another order, and in each the ranks are counted from 0. Your functions get one as
# their first argument and use that one, whatever it holds.
#
# ## 2. A message
#
# What one rank needs from another must be sent *and* received. `Send` and `Recv` take arrays; the
# receiver says from whom, and gives an array for what comes.

# %%
# %%ranks 2
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.Get_rank() == 0:
    comm.Send(np.arange(1000.0), dest=1)
else:
    got = np.empty(1000)
    comm.Recv(got, source=0)
    print("the last number is", got[-1])

# %% [markdown]
# This is a *timeline*: a row for each rank, time from left to right. A bar is time inside a call of
# MPI, the line a message. The time is that of a model of a cluster, called `textbook`, and not of
# your computer: so it is the same whenever you run the cell. A rank that waits is inside a call
# too: rank 1 does nothing for 9 µs but wait and receive.
#
# In the next cell both ranks receive before they send. When it has run, read what it says: which
# call is each rank in, at which line, and who waits for whom?

# %% tags=["predict"]
guess(
    "a01/both-receive",
    "Both ranks receive first, and then send. What happens?",
    choices=[
        "both messages arrive",
        "one of the two messages arrives",
        "both ranks wait for ever",
    ],
)

# %%
# %%ranks 2
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
other = 1 - comm.Get_rank()
mine, theirs = np.full(4, float(comm.Get_rank())), np.empty(4)
comm.Recv(theirs, source=other)
comm.Send(mine, dest=other)

# %%
reveal("a01/both-receive", "both ranks wait for ever")

# %% [markdown]
# That is a *deadlock*. On a cluster nobody tells you: the job stands still until its time is over.

# %% [markdown]
# ## 3. What a message costs
#
# Measure it. The clock of one rank is no use for a message that ends on another rank, whose clock
# may be off. So let the message come back: start the clock, send, wait for the answer, look at the
# clock. Half of the *round trip* is the time of one message. This is the ping-pong, the first
# benchmark on every cluster. One round trip is too short for many clocks, so there are many, and
# the first is left out: the other rank may not have begun yet, and a network may take time to make
# a connection.
#
# The clock is `MPI.Wtime()`, in seconds. On simulated ranks it tells the time of the model.
#
# Before you write: where in the program below must the first look at the clock stand, and where
# the second?

# %% tags=["predict"]
guess(
    "a01/late",
    "Suppose rank 1 comes 1 ms late to the first of ten round trips, and nobody "
    "leaves that trip out. By how many µs is the measured time of one message too "
    "long?",
    unit="µs",
)

# %%
# {{module ping}}

# %%
# {{check ping}}

# %% [markdown]
# `ringside.run` calls a function of a file on ranks, here on three; the list holds what each of
# them gets after `comm`. Its result has `values`, what each rank returned, and `timeline`.

# %%
late_us, trips = 1000, 10
reveal("a01/late", late_us / (2 * trips))

ball = [(np.zeros(1000), 3)] * 3  # for each rank: x, repetitions
ringside.run("ping.py:bounce", 3, ball).timeline

# %% [markdown]
# **Explain.** There are three ranks. What does rank 2 do, and what does its row show? Why is there
# no moment at which two messages are on their way?
#
# Now from no byte at all to 4 MB. Sketch the curve before you run the cell: time against size,
# both on logarithmic axes.

# %% tags=["predict"]
guess(
    "a01/bend",
    "At how many bytes does a message take twice as long as an empty one?",
    unit="bytes",
)

# %%
sizes = [0, *(2**k for k in range(0, 23, 2))]
times_s = [ringside.run("ping.py:ping", 2, [(n, 2)] * 2).values[0] for n in sizes]
_, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
axes.loglog(sizes[1:], np.array(times_s[1:]) * 1e6, "o-")
axes.set(xlabel="size of the message, bytes", ylabel="time, µs", title="Ping-pong on textbook")
axes.grid(alpha=0.3)
plt.show()
print(f"no byte: {times_s[0] * 1e6:.3f} µs, one byte: {times_s[1] * 1e6:.3f} µs")
print(f"1 MiB: {times_s[sizes.index(2**20)] * 1e6:.1f} µs, 4 MiB: {times_s[-1] * 1e6:.1f} µs")
byte_s = (times_s[-1] - times_s[0]) / sizes[-1]
reveal("a01/bend", times_s[0] / byte_s)

# %% tags=["checked"]
assert np.allclose(times_s, [1e-6 + n * 1e-9 for n in sizes])

# %% [markdown]
# On the left the size does not matter: a message of one byte takes as long as one of a hundred.
# On the right four times the bytes take four times the time. One formula does both:
#
# $$ T(n) = \alpha + n\,\beta $$
#
# **α**, the *latency*, is what any message takes, however short: software, switches, the speed of
# light. **β** is the time of one more byte; its inverse is the *bandwidth*. On `textbook`
# α = 1 µs and β = 1 ns, a bandwidth of 1 GB/s. They are equally large at $n_{1/2} = \alpha/\beta$:
# there a message reaches half of the bandwidth.

# %% [markdown]
# **Explain.** What is $n_{1/2}$ on `textbook`, and where is it in the figure? You have 1000
# numbers to send, 8 bytes each. How long does it take in one message, and how long in 1000?
#
# ## 4. Two numbers out of many measurements
#
# A real network scatters. Take the times above, each off by up to a tenth, as if measured:

# %%
noisy = np.array(times_s) * (1 + 0.1 * np.random.default_rng(0).uniform(-1, 1, len(sizes)))
beta, alpha_s = np.polyfit(sizes, noisy, 1)  # least squares of seconds
print(f"alpha = {alpha_s * 1e6:.2f} µs and beta = {beta * 1e9:.3f} ns; right are 1 and 1")
assert alpha_s < 0 and abs(beta - 1e-9) < 1e-10

# %% [markdown]
# β is good, and α is nonsense: no message comes before it is sent. **Explain** it before you read
# on: a tenth of the largest message's time is how many times α?
#
# Least squares adds up squares of *seconds*, and the largest message's error is larger than all
# of a small one's time. All sizes should count alike. So divide each error by the time that was
# measured: the *residual*, a fraction without a unit. It is still linear in α and β.

# %%
# {{module fit}}

# %%
# {{check fit}}

# %%
fit = fresh("fit")


def show_fit(sizes, times_s, lines, title):
    """Measurements and models above, residuals below; sizes of 0 are left out."""
    _, (above, below) = plt.subplots(
        2, 1, figsize=(6.5, 5), sharex=True, layout="constrained", height_ratios=(2, 1)
    )
    sizes, times_s = np.array(sizes), np.array(times_s)
    some = sizes > 0
    above.loglog(sizes[some], times_s[some] * 1e6, "ko", label="measured")
    for (name, (alpha_s, beta)), colour in zip(lines.items(), ("C0", "C1", "C2"), strict=False):
        model = alpha_s + beta * sizes[some]
        above.loglog(sizes[some], np.where(model > 0, model, np.nan) * 1e6, colour, label=name)
        rest = fit.residuals(sizes, times_s, alpha_s, beta)
        below.semilogx(sizes[some], rest[some], "o-", color=colour, ms=4)
    above.set(ylabel="time, µs", title=title)
    above.legend()
    below.axhline(0, color="0.5", lw=0.8)
    below.set(xlabel="size of the message, bytes", ylabel="residual", ylim=(-1, 1))
    plt.show()


relative = fit.fit(sizes, noisy)
print(f"alpha = {relative[0] * 1e6:.2f} µs and beta = {relative[1] * 1e9:.3f} ns")
lines = {"residuals": relative, "seconds": (alpha_s, beta)}
show_fit(sizes, noisy, lines, "The same measurements, fitted in two ways")
assert abs(relative[0] - 1e-6) < 1e-7 and abs(relative[1] - 1e-9) < 1e-10

# %% [markdown]
# **Explain.** Both lines pass through the points on the right. Where does the fit of seconds
# leave the figure, and why is that not seen in the seconds?
#
# ### What two numbers do not say
#
# A residual plot is good for more: if the model is right, residuals scatter around 0 without a
# pattern. These are published measurements of messages between two nodes of a cloud (OSU
# micro-benchmarks 5.8 with Open MPI on Google Kubernetes Engine, by the converged-computing
# project).

# %%
osu_us = {
    1024: 20.87, 2048: 39.07, 8192: 39.87, 16384: 40.62, 32768: 44.72, 65536: 96.54,
    131072: 109.25, 262144: 124.30, 524288: 166.29, 1048576: 265.0, 4194304: 720.24,
}  # fmt: skip
cloud_sizes, cloud_s = list(osu_us), [us * 1e-6 for us in osu_us.values()]
cloud = fit.fit(cloud_sizes, cloud_s)
rest = fit.residuals(cloud_sizes, cloud_s, *cloud)
print(f"alpha = {cloud[0] * 1e6:.1f} µs, bandwidth {1e-9 / cloud[1]:.1f} GB/s")
print("residuals in order of size:", *(f"{each:+.2f}" for each in rest))
show_fit(cloud_sizes, cloud_s, {"one line": cloud}, "Between two nodes of a cloud")
assert rest[0] < -0.5 and rest[5] > 0.3

# %% [markdown]
# There is a pattern. 1 KiB takes half the time of 2 KiB, and 64 KiB more than twice that of 32 KiB:
# this network sends short, middling and long messages in three different ways. Two lines are
# better than one; `two_regimes` finds where to cut.

# %%
threshold, short, long = fit.two_regimes(cloud_sizes, cloud_s)
print(f"below {threshold} bytes: {short[0] * 1e6:.1f} µs and {1e-9 / short[1]:.1f} GB/s")
print(f"from there on:     {long[0] * 1e6:.1f} µs and {1e-9 / long[1]:.1f} GB/s")
below = np.array(cloud_sizes) < threshold
both = [fit.residuals(cloud_sizes, cloud_s, *line) for line in (short, long)]
one, two = np.sum(rest**2), np.sum(np.where(below, *both) ** 2)
print(f"sum of squared residuals: {one:.3f} of one line, {two:.3f} of two")
assert threshold == 65536 and two < one / 3

# %% [markdown]
# **Explain.** Why can α + nβ with one pair of numbers not be right at both 1 KiB and 2 KiB? Which
# of the two lines would you use for a gradient of 100 MB, and which for one number?
#
# ## 5. Why short messages seem to forgive
#
# One of the ways in which libraries send differently is about *waiting*. A short message is put
# into a buffer and sent off; `Send` is over at once, whether or not anybody receives. That is
# *eager*. A long one has no room in a buffer: `Send` waits until the other side has posted its
# receive. That is *rendezvous*. From which size on? Each library has its own threshold, and none
# promises anything.
#
# The first of three programs in `given/broken.py` passes an array around a ring:

# %%
broken = fresh("given.broken")
print(getsource(broken.exchange))

# %% [markdown]
# The next two cells run it on a machine that sends messages of fewer than 4096 bytes eagerly.

# %% tags=["predict"]
guess(
    "a01/eager",
    "It is run with 100 numbers of 8 bytes each, and then with 1000. What happens?",
    choices=[
        "both runs end",
        "both runs hang",
        "100 numbers end, 1000 hang",
        "100 numbers hang, 1000 end",
    ],
)

# %%
# %%ranks 4 --machine textbook,eager_threshold_bytes=4096
import numpy as np
from given.broken import exchange
from mpi4py import MPI

comm = MPI.COMM_WORLD
print(exchange(comm, np.full(100, float(comm.Get_rank())))[:3])

# %%
# %%ranks 4 --machine textbook,eager_threshold_bytes=4096
import numpy as np
from given.broken import exchange
from mpi4py import MPI

comm = MPI.COMM_WORLD
print(exchange(comm, np.full(1000, float(comm.Get_rank())))[:3])

# %%
reveal("a01/eager", "100 numbers end, 1000 hang")

# %% [markdown]
# It passed every test with a small network, and it hangs on the day when the network has grown.
# That is why all tests here also use a machine on which *every* send waits.

# %% [markdown]
# **Explain.** Each rank waits for the next one, in a circle. Name two ways to break the circle.
# How long does each take on p ranks?
#
# ## 6. Three programs to mend
#
# The second program takes a mean and a deviation over the elements of all ranks. It uses
# *collectives*, calls that all ranks of `comm` make together: `allreduce` adds up one number of
# each rank and gives the sum to all, `reduce` gives it to rank 0 only, `bcast` gives rank 0's
# number to all.

# %%
print(getsource(broken.mean_and_deviation))

# %%
# %%ranks 3
import numpy as np
from given.broken import mean_and_deviation
from mpi4py import MPI

comm = MPI.COMM_WORLD
print(mean_and_deviation(comm, np.arange(comm.Get_rank() + 1.0)))

# %% [markdown]
# A collective has no tag and no partner by which it could be told from the next one: only the
# *order* in which a rank calls them says which is which. So all ranks must call the same ones in
# the same order. Read the verdict: which two are met here?
#
# **Think.** Suppose that is mended. What happens when one rank has no elements? (There are two
# mistakes in this program.)
#
# The third program brings rows to rank 0. `Isend` begins a send and returns at once, with a
# *request*; only when the request has been waited for may the buffer be written to again.
# `ANY_SOURCE` receives whatever comes first: a rank that is ahead may be in its next call by then.

# %%
print(getsource(broken.collect))

# %%
# %%ranks 3
import numpy as np
from given.broken import collect
from mpi4py import MPI

comm = MPI.COMM_WORLD
print(collect(comm, np.full((2, 3), comm.Get_rank() + 1.0) * [[1], [10]]))

# %% [markdown]
# On a real network there would be no word of this. The message leaves at some time after `Isend`,
# with what the buffer holds *then*: sometimes the right row, sometimes the next one. Such a
# mistake is a *race*, and it is worse than a hang, because it gives numbers.
#
# There is a second race in it. With a single row no buffer is used twice, and the first race is out
# of the way. Below, latencies differ from pair to pair as `seed` says; another seed is another day.

# %% tags=["predict"]
guess(
    "a01/rows",
    "In which order do the rows of ranks 1 to 5 come to rank 0?",
    choices=[
        "by rank, every day",
        "by rank backwards, every day",
        "another order on another day",
    ],
)

# %%
rows = [(np.array([[rank + 1.0]]),) for rank in range(6)]  # one row of one number
for seed in (None, 1, 2, 3):
    day = ringside.run("given/broken.py:collect", 6, rows, seed=seed)
    print(f"seed {seed!s:>4}: rows of ranks 0 to 5:", day.values[0].astype(int).ravel())
reveal("a01/rows", "another order on another day")

# %% [markdown] tags=["open"]
# Right are 1, 4, 9, 16, 25 and 36, in this order. These are the calls that you may want:
#
# | call | what it does |
# |---|---|
# | `comm.Sendrecv(x, dest=1, recvbuf=got, source=2)` | sends and receives, both at once |
# | `request = comm.Isend(x, dest=1)` | begins to send; leave `x` alone until `request.Wait()` |
# | `request = comm.Irecv(got, source=2)` | begins to receive; it is in `got` after `Wait()` |
# | `MPI.Request.Waitall(requests)` | waits for all requests of a list |
# | `comm.Recv(got, source=MPI.ANY_SOURCE, status=s)` | receives from anybody |
# | `s = MPI.Status()`, and afterwards `s.Get_source()` | says from whom it was |
# | `comm.allreduce(3.5)` | the sum of all ranks' numbers, on every rank |
# | `comm.gather(value)` | the list of all ranks' values, on rank 0 |
#
# Names with a capital letter take arrays, those with a small one any object of Python
# (`comm.send(("row", 3), dest=1)`, `what = comm.recv(source=0)`), which is slower.
#
# Now mend all three, so that they compute what they should and talk as they did. Don't make
# everything wait for everything: a `Barrier` in the right place hides many a mistake, and costs its
# time in every step.

# %%
# {{module mend}}

# %%
# {{check mend}}

# %% tags=["predict"]
guess(
    "a01/exchange",
    "How long does your `exchange` take on 16 ranks of `textbook`, with 1000 numbers on each?",
    unit="µs",
)

# %%
for p in (2, 8, 16):
    ring = ringside.run("mend.py:exchange", p, [(np.full(1000, float(r)),) for r in range(p)])
    print(f"{p:>2} ranks: {ring.makespan_s * 1e6:.1f} µs")
reveal("a01/exchange", ring.makespan_s * 1e6)
ringside.run("mend.py:exchange", 8, [(np.full(1000, float(r)),) for r in range(8)]).timeline

# %% [markdown]
# **Explain.** Rank 0 could receive first while all others send first: no circle, no hang. Draw the
# timeline of that program, and say why it takes p times as long.
#
# ## 7. Who is where
#
# A cluster is made of *nodes*, computers of several cores and GPUs each. A node's ranks are told
# apart by the *local rank*, and usually rank and GPU are matched by it. Whether a job got what you
# think it got is the first thing to find out about it. `MPI.Get_processor_name()` is the name of
# a rank's node, and `comm.Split_type(MPI.COMM_TYPE_SHARED)` a communicator of the ranks that share
# it; or count names.
#
# **Think.** Each rank prints its own line, and between two lines there is a `Barrier`, so that
# they come in order. Why may they still come out mixed? (Who carries printed lines to your
# screen, and does a barrier wait for that?)

# %%
# {{module where}}

# %%
# {{check where}}

# %%
table = ringside.run("where.py:where", 8, [("0,1,2,3",)] * 8, machine="zaratan")
print(table.output[0])

# %% [markdown]
# That was a model of the cluster Zaratan, with four GPUs on a node. Inside a node messages are
# faster. Your table tells who shares a node.

# %% tags=["predict"]
guess(
    "a01/partner",
    "Which of these partners lets rank 0 measure the network between nodes?",
    choices=[
        "rank 1",
        "rank 3",
        "rank 4",
    ],
)

# %%
for partner in (1, 3, 4, 7):
    played = ringside.run("ping.py:ping", 8, [(1_000_000, 2, partner)] * 8, machine="zaratan")
    print(f"rank 0 and rank {partner}: 1 MB in {played.values[0] * 1e6:6.2f} µs")
reveal("a01/partner", "rank 4")

# %% [markdown]
# ## 8. Your first job
#
# A cluster is shared: you hand a *job* to its scheduler, which starts it when there is room. In a
# terminal, in this folder:
#
# ```
# ringside launch where.py --site zaratan --nodes 2 --out where_job
# ringside launch ping.py:bounce --site zaratan --nodes 2 -- --n 1 --n 1000 --n 100000 --n 1000000
# ```
#
# (`--dry-run` prints the job and submits nothing; `--site local` runs the same on this machine;
# `ringside site list` shows the sites.) The first runs your `where.py` as a script, which prints
# its table: are the ranks where you thought? What it leaves lies in `where_job`, out of the way.
#
# The second lets `n` numbers of 8 bytes go to and fro 100 times between rank 0 and rank 1; with
# `--partner R` at the end, between rank 0 and rank R. Take one on the other node. It leaves
# `run.json` and a trace here, which are handed in with the notebook. The run counts if it is
# complete and was made with the `ping.py` that you hand in.

# %%
# {{run ping_cluster points=5}}

# %%
import json
from pathlib import Path

if Path("run.json").exists():
    record = json.loads(Path("run.json").read_text())
    bytes_sent = [entry["nbytes"] for entry in record["measurements"]]
    one_way_s = [entry["median_s"] / 200 for entry in record["measurements"]]  # 100 round trips
    mine = fit.fit(bytes_sent, one_way_s)
    print(f"{record['site']}: alpha = {mine[0] * 1e6:.2f} µs, {1e-9 / mine[1]:.2f} GB/s")
    show_fit(bytes_sent, one_way_s, {"one line": mine}, f"Measured on {record['site']}")
else:
    print("There is no run.json yet.")

# %% [markdown]
# **Your paragraph.** Give α, β and $n_{1/2}$ of the network that you measured, and which ranks and
# hosts played. Compare with the model (`Machine.load("zaratan")`, or the site's own): which number
# differs more, and what could be the reason? Look at the residuals: is there a pattern, and what
# does it say about the library? Name one measurement that would tell. (About 150 words.)

# %%
# {{paragraph cluster_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
