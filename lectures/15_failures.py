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

# %% [markdown] slideshow={"slide_type": "slide"}
# # Lecture 15: Failures
#
# A run on many GPUs stops because one of them fails. What does a stop cost, and which part of the price can you avoid?
# In this lecture you kill ranks, at a moment that you choose, and look at those who are left. You find out how
# a training loop can go on without the dead, and why the survivors have to agree first.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - say how often a run on $n$ GPUs stops, and under which assumption;
# - derive the expected time with failures, and the best interval between checkpoints;
# - say which ranks learn of a death by themselves, and which wait for ever;
# - say what `Revoke`, `Agree` and `Shrink` are for, and where a training loop needs each of them;
# - decide between the same batch and a smaller one, and between waiting and going on;
# - name the deaths that a checkpoint of many files has to survive;
# - place copies of the state so that a dead node takes none with it;
# - find the rank that is slow or hangs, from what a flight recorder holds;
# - predict from one published number of a recovery another one.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** [Lecture 4](04_data_parallel.ipynb), for data parallelism and the ring.
# [Lecture 12](12_hybrid.ipynb) has failures in two sections. This lecture goes on from there.
#
# | sign | meaning |
# |---|---|
# | $m, M$ | mean time between failures of one GPU, and between stops of a run |
# | $n$ | GPUs of a run |
# | $\tau, C$ | work between two checkpoints, and time to write one |
# | $D, R$ | time until a death is known, and until all compute again ($D$ is a part of $R$) |
# | $p, p'$ | replicas, and those that are left |
# | $B$ | samples of a step |
# | $\alpha$ | latency of a message |

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are minutes.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** The first meeting is about price and detection, the second about going on and about copies, the third
# about replicas and about ranks that are slow or hang. If you have one meeting, teach 1, 2, 4, 5 and the figure of 9,
# and let 3 be read.
#
# Ask at the beginning: "A GPU lasts for years. Why does a run on 16,384 of them stop every three hours?" Let the class
# divide. Then ask what *one* stop costs, and collect the terms on the board. Section 1 ends with the list.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import math
import os
import tempfile
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import Failures, Flip, Hang, Kill, Slow, guess, reveal
from ringside.course.lectures import puzzle, show, table

DATA = Path.cwd() / "data"  # beside this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
BLUE, RED, YELLOW, GREEN, GREY = "#0072b2", "#b56576", "#e69f00", "#009e73", "#9aa0a6"
stated = table(DATA / "failures.csv")
quoted = dict(zip(stated["name"].tolist(), stated["value"].tolist()))
stops = table(DATA / "llama3_stops.csv")
by_category = {}
for category, count in zip(stops["category"].tolist(), stops["stops"].tolist()):
    by_category[category] = by_category.get(category, 0) + count

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"] meeting=1 minutes=10
# ## 1. The problem: rank 5 is gone
#
# Llama 3 was trained on 16,384 GPUs. In 54 days something stopped it that nobody had planned, and it happened 419 times
# [1]. What was it?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(6.4, 2.3), layout="constrained")
names = sorted(by_category, key=by_category.get)
axis.barh(names, [by_category[name] for name in names], color=BLUE, height=0.65)
for row, name in enumerate(names):
    axis.text(by_category[name] + 4, row, str(by_category[name]), va="center", fontsize=9)
axis.set(xlabel="stops in 54 days", xlim=(0, 300))
show(figure, "Bars of the unexpected stops of Llama 3's training by category: GPU 268, dependency 56, network 35, unplanned "
     "maintenance 32, host 21, unknown 7.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. What stopped Llama 3, in the categories of its authors [1]. A software bug is a "dependency".*
#
# Many of these stops begin in the same way: one process is gone, and the others don't know. Look at such a stop from
# the inside. Eight ranks sum a vector in a ring, as in [lecture 3](03_allreduce.ipynb). A rank that gets an error
# catches it and says which.

# %% slideshow={"slide_type": "fragment"}
# %%writefile ring.py
import numpy as np


def ring(comm, vector):
    """The sum of all ranks' vectors, which each rank has at the end."""
    p, r = comm.size, comm.rank
    pieces = np.array(np.split(vector, p))
    got = np.empty_like(pieces[0])
    for step in range(2 * p - 2):
        k = (r - step) % p
        comm.Sendrecv(pieces[k], (r + 1) % p, 0, got, (r - 1) % p, 0)
        k = (k - 1) % p
        pieces[k] = pieces[k] + got if step < p - 1 else got
    return pieces.reshape(-1)


# %% slideshow={"slide_type": "fragment"}
# %%writefile alone.py
import numpy as np
from mpi4py import MPI
from ring import ring


def told(comm, n):
    """The sum, or the error that this rank got."""
    try:
        return ring(comm, np.full(n, comm.rank + 1.0))[0]
    except MPI.Exception as error:
        return str(error)


# %% [markdown] slideshow={"slide_type": "fragment"}
# Now you kill rank 5 after 60 µs. It ends without a word, as if somebody had pulled its plug. Survivors need time to
# find this out, here 20 µs. (The machine `textbook` takes 1 ms, and real ones take far more, as section 4 says. The
# drawing is clearer with less.) For programs of your own, `%%ranks 8 --kill 5@60us` does the same in a cell, and
# `ringside run train.py --ranks 8 --kill 5@60us` in a terminal.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "15/by-themselves",
    "Rank 5 dies in the middle of a ring of 8. How many of the other seven get an error by themselves?",
    unit="ranks",
)

# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
gone = Failures(Kill(5, at_s=60e-6), detect_s=20e-6)
alone = ringside.run("alone.py:told", 8, (8000,), failures=gone, check=False)
told = {rank: value for rank, value in enumerate(alone.values) if value is not None}
for rank, error in told.items():
    print(f"rank {rank}: {error}")
waiting = sorted(set(range(8)) - {5} - told.keys())
print("no error and no end: ranks", waiting)

# %% slideshow={"slide_type": "fragment"}
alone.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("15/by-themselves", len(told))

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. A ring of eight. The cross is the death of rank 5.*
#
# Two. Rank 6 waits for a piece of rank 5. Rank 4 has a piece for it, and on this machine a send waits for its receive.
# Both get `MPI.ERR_PROC_FAILED` and leave. The five others wait for ranks that are *alive*: rank 7 for rank 6, rank 0
# for rank 7, and so on. Nobody tells them anything, so they wait for ever. You pay for seven GPUs that compute nothing.
#
# Is it an artefact of our network? We ran a ring of six on real ranks, with Open MPI 5, and killed rank 2 (November
# 2026). Its neighbours, 1 and 3, got the error at once. Ranks 0, 4 and 5 waited until we ended them.

# %% [markdown] slideshow={"slide_type": "fragment"}
# A stop has four prices, and each section below lowers one of them:
#
# | price | what you pay | lowered in |
# |---|---|---|
# | $D$ | all wait until somebody knows | section 4, or not at all |
# | $R$ | all wait until all compute again ($D$ is a part of it) | sections 5, 6 and 8 |
# | repeated work | what was done since the last checkpoint is done again | sections 3 and 7 |
# | $C$ | all wait while a checkpoint is written, also when nothing fails | sections 3 and 7 |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (quoted["llama3_gpus"], quoted["llama3_days"]) == (16_384, 54)
assert stops["stops"].sum() == 419
assert [by_category[name] for name in ("GPU", "Dependency", "Network")] == [268, 56, 35]
assert list(told) == [4, 6] and waiting == [0, 1, 2, 3, 7]
assert "5 of 7 ranks are blocked" in str(alone.error)
assert all("rank 5 was killed at 60 µs" in error for error in told.values())
assert gone.detect_s == 20e-6 and gone.kills[0].at_s == 60e-6
assert ringside.Machine.load("textbook").failure_detect_s == 1e-3

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the class point at the first rank that waits for nothing. Ask what would happen if rank 4's message were small and
# buffered: its send would succeed, and one rank alone would get an error. Then it waits for rank 3, like the others.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 2. Rates add
#
# How often does a run on $n$ GPUs stop? Say that a GPU, with its share of cables, hosts and software, fails at a rate
# of $1/m$, whatever its age and whatever the others do. Then it works for a time $T$ with probability $e^{-T/m}$. All
# $n$ of them do so with probability
#
# $$\left(e^{-T/m}\right)^n = e^{-T/M}, \qquad M = \frac mn .$$
#
# So the rates add up, and the mean time between stops, $M$, is proportional to $1/n$. What is $m$? Llama's run tells
# you.

# %% slideshow={"slide_type": "fragment"}
m_s = quoted["llama3_days"] * 86_400 * quoted["llama3_gpus"] / stops["stops"].sum()
print(f"one GPU of this machine: a failure in {m_s / 86_400 / 365.25:.1f} years")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("15/stops-a-day", "At this rate: how many stops has a day on 100,000 GPUs?", unit="stops")

# %% slideshow={"slide_type": "fragment"}
rng = np.random.default_rng(15)
for n in (8, 1024, 16_384, 100_000):
    M_s = m_s / n
    first_s = [rng.exponential(m_s, n).min() for _ in range(400)]  # the first of n to fail
    print(f"{n:7,} GPUs: M = {M_s / 3600:8.2f} h, simulated {np.mean(first_s) / 3600:8.2f} h; "
          f"a day passes without a stop: {math.exp(-86_400 / M_s):.3%}")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("15/stops-a-day", 86_400 / (m_s / 100_000))

# %% [markdown] slideshow={"slide_type": "fragment"}
# 47 stops, one in 30.4 minutes. A GPU fails once in 5.8 years. That is long, but you have 100,000 of them. On the eight
# GPUs of one node you will hardly ever see a stop, since nearly every day passes without one. That is why programs that
# were written on one node know nothing of failures.
#
# You assumed that GPUs fail independently, and at a constant rate. Section 13 says where this is wrong.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(m_s / 86_400 / 365.25, 1) == 5.8 and round(86_400 / (m_s / 100_000)) == 47
assert round(m_s / 100_000 / 60, 1) == 30.4 and math.exp(-86_400 * 8 / m_s) > 0.99
assert abs(np.mean(first_s) / (m_s / 100_000) - 1) < 0.15

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=25
# ## 3. How often should you write a checkpoint?
#
# Lecture 12 had two terms, $C/\tau + \tau/2M$, and both are approximations. Derive the exact time. An *attempt* is
# $\tau$ of work and $C$ of writing, $a = \tau + C$ in all. What is the mean time $E$ until an attempt succeeds?
#
# With probability $q = e^{-a/M}$ nothing fails, and you pay $a$. Else you pay the time until the stop, then a restart
# $E_R$, and then you are where you were, and pay $E$ again. The stop times have the density $e^{-t/M}/M$. So the time
# until a stop contributes
#
# $$\int_0^a t\,\frac{e^{-t/M}}{M}\,dt = M(1-q) - a\,q .$$
#
# Put it together, and $a$ falls out:
#
# $$E = a\,q + M(1-q) - a\,q + (1-q)(E_R + E) \quad\Rightarrow\quad E = \frac{1-q}{q}\,(M + E_R) .$$
#
# A restart takes $R$ and can be hit, too. It is an attempt without work that begins anew at once, so the same formula
# with $a = R$ and $E_R = 0$ gives $E_R = M(e^{R/M} - 1)$. Hence
#
# $$E = M\,e^{R/M}\left(e^{(\tau + C)/M} - 1\right), \qquad \text{lost} = 1 - \frac{\tau}{E} .$$

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The best interval** has the smallest $E/\tau$. There the derivative of this quotient is zero, so
# $dE/d\tau = E/\tau$. Now $dE/d\tau$ is $e^{R/M} e^{(\tau + C)/M}$. The factor $e^{R/M}$ stands on both sides and
# cancels, and what remains is
#
# $$1 - \frac{\tau}{M} = e^{-(\tau + C)/M} .$$
#
# So a longer restart makes each stop worse, but it doesn't change how often you should write. The solution is
# $\tau^* = M\left(1 + W_0(-e^{-1-C/M})\right)$ with Lambert's function $W_0$. You don't need its name: Newton's method
# finds $u = \tau/M$ in a few steps.


# %% slideshow={"slide_type": "fragment"}
def expected(tau, C, R, M):
    """The mean time until tau of work are done and saved."""
    return M * math.exp(R / M) * math.expm1((tau + C) / M)


def best_interval(C, M):
    """The root of f(u) = exp(-u - C/M) - 1 + u, times M; f is convex, so from 1 it descends."""
    u = 1.0
    for _ in range(50):
        survives = math.exp(-u - C / M)
        u -= (survives - 1 + u) / (1 - survives)
    return u * M


# %% [markdown] slideshow={"slide_type": "fragment"}
# For $C \ll M$ the exponential is nearly a parabola, and you get Young's formula again, $\tau^* \approx \sqrt{2CM}$
# [2]. How good is it? Take a run that stops every 15 minutes, and checkpoints of 5 minutes. Young's formula says 12.2
# minutes.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("15/best", "M is 15 minutes, C is 5 minutes. Which interval is the best?", unit="minutes")

# %% slideshow={"slide_type": "fragment"}
rows, runs = [], ((1440, 5), (360, 5), (15, 5))  # M, C
for M, C in runs:
    x = math.sqrt(C / (2 * M))
    young, exact = math.sqrt(2 * C * M), best_interval(C, M)
    rows.append((young, young - C, young * (1 + x / 3 + x**2 / 9) - C, exact))
    print(f"M = {M:4} min: Young {young:6.2f}, minus C {young - C:6.2f}, "
          f"Daly's series {rows[-1][2]:6.2f}, exact {exact:6.2f} min")  # fmt: skip
reveal("15/best", exact)

# %% [markdown] slideshow={"slide_type": "fragment"}
# 9.17 minutes. Young's interval is a third too long, because a checkpoint isn't short beside $M$ here. Daly [3]
# expanded the same equation in powers of $\sqrt{C/2M}$, and printed the optima of three such runs. They check your
# formula:
#
# | $M$, $C$ in minutes | Young | Daly's series | exact | Daly's paper [3] |
# |---|---:|---:|---:|---:|
# | 1440, 5 | 120.0 | 116.7 | 116.7 | 117 |
# | 360, 5 | 60.0 | 56.7 | 56.7 | 57 |
# | 15, 5 | 12.2 | 9.14 | 9.17 | 9.1 |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
table_rows = [(round(y, 1), round(series, 1), round(e, 1)) for y, _, series, e in rows]
assert table_rows[:2] == [(120.0, 116.7, 116.7), (60.0, 56.7, 56.7)]
assert table_rows[2][0] == 12.2 and [round(one, 2) for one in rows[2][2:]] == [9.14, 9.17]
assert (round(rows[0][3]), round(rows[1][3])) == (117, 57)  # [3], figures 3 to 5
assert abs(rows[2][2] - 9.1) < 0.05
assert runs == ((1440, 5), (360, 5), (15, 5)) and 1.3 < rows[2][0] / rows[2][3] < 1.35

# %% [markdown] slideshow={"slide_type": "subslide"}
# Don't trust a derivation that nothing contradicts. Let a run fail at random, in its work, in its writing and in its
# restarts, and compare.


# %% slideshow={"slide_type": "fragment"}
def simulated(tau, C, R, M, intervals=4000, seed=3):
    """The share of the time that is lost until so many intervals are saved."""
    draw = np.random.default_rng(seed)
    clock, saved = 0.0, 0
    while saved < intervals:
        stop = draw.exponential(M)
        clock += min(stop, tau + C)
        if stop >= tau + C:
            saved += 1
            continue
        while (stop := draw.exponential(M)) < R:  # a restart is hit
            clock += stop
        clock += R
    return 1 - intervals * tau / clock


# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
taus = np.geomspace(2, 40, 9)
for C, R, colour in ((5, 0, RED), (1, 0, BLUE), (1, 5, GREEN)):
    fine = np.geomspace(2, 40, 100)
    axis.plot(fine, [100 * (1 - tau / expected(tau, C, R, 15)) for tau in fine], color=colour,
              label=f"C = {C} min, R = {R} min")  # fmt: skip
    axis.plot(taus, [100 * simulated(tau, C, R, 15) for tau in taus], ".", color=colour)
    best = best_interval(C, 15)
    axis.plot(best, 100 * (1 - best / expected(best, C, R, 15)), "o", color=colour, mfc="white")
axis.set(xscale="log", ylim=(0, 100), ylabel="time lost (%)")
axis.set_xlabel("minutes of work between checkpoints")
axis.set_xticks([2, 5, 10, 20, 40], ["2", "5", "10", "20", "40"])
axis.set_xticks([], minor=True)
axis.legend(frameon=False, fontsize=9, loc="lower right")
show(figure, "Lost time in percent over the minutes of work between checkpoints, for a run that stops every 15 minutes. Three curves "
     "with a minimum each. Dots of simulated runs lie on them. The curves for C = 1 min, with and without R = 5 min, "
     "have their minimum at the same interval.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. A run that stops every 15 minutes. Lines: the formula. Dots: simulated runs. Circles: the best intervals.*
#
# The dots lie on the lines. Compare the two curves with $C = 1$: a restart of 5 minutes lifts the curve, and its
# minimum stays where it was.
#
# **Does it hold for a published run?** Take Llama's $M$ of 3.09 hours. Say that a checkpoint takes 30 s and a restart 5
# minutes, which are our assumptions. Then 90.4 % of the time is useful, and its authors report more than 90 % [1].
#
# Useful time over all time has two names: **ETTR** (effective training time ratio), or **goodput**. It counts at the
# speed that the job had. A slow GPU lowers the MFU of lecture 12 and leaves the ETTR as it is.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
M_llama_s = m_s / quoted["llama3_gpus"]
tau_s = best_interval(30, M_llama_s)
useful = tau_s / expected(tau_s, 30, 300, M_llama_s)
assert round(M_llama_s / 3600, 2) == 3.09 and round(100 * useful, 1) == 90.4
assert quoted["llama3_least_effective"] == 0.9 < useful
for tau, C, R in ((5, 5, 0), (9, 1, 5), (20, 1, 0)):
    assert abs(simulated(tau, C, R, 15) - 1 + tau / expected(tau, C, R, 15)) < 0.02

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Restarts become twice as slow. Should you write more often?" Most say yes. The formula says no, and
# the reason is worth a minute: each stop costs one restart, wherever in the interval it comes.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=25
# ## 4. What survivors see
#
# Go back to the five ranks of section 1 that wait for ever. Somebody who knows has to tell them. But how? They are
# inside a `Sendrecv`, so a message wouldn't reach them. MPI's proposal for failures, *user-level failure mitigation*
# (ULFM), has a call for this. `comm.Revoke()` makes the communicator useless for everybody. Each call on it ends with
# the error `MPI.ERR_REVOKED`, also a call that has begun and waits. One rank may revoke alone, because `Revoke` isn't a
# collective.
#
# After that nobody can use `comm`. `comm.Shrink()` makes a new communicator of those who are alive, in their old order.

# %% slideshow={"slide_type": "fragment"}
# %%writefile recover.py
import numpy as np
from mpi4py import MPI
from ring import ring


def recovered(comm, n):
    """The sum over those who are left, and each error with its time."""
    errors = []
    while True:
        try:
            return ring(comm, np.full(n, comm.rank + 1.0))[0], comm.size, errors
        except MPI.Exception as error:
            errors.append((error.Get_error_class() == MPI.ERR_REVOKED, MPI.Wtime()))
            comm.Revoke()
            comm = comm.Shrink()


# %% [markdown] slideshow={"slide_type": "fragment"}
# Kill rank 5 at 60 µs again, and let it take 50 µs until its neighbours know. A latency is 1 µs on this machine.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "15/when-rank-1",
    "Rank 1 waits for rank 0, which is alive. At which time does its call end?",
    unit="µs",
)

# %% slideshow={"slide_type": "fragment"}
gone = Failures(Kill(5, at_s=60e-6), detect_s=50e-6)
back = ringside.run("recover.py:recovered", 8, (5600,), failures=gone)
ends = {}
for rank, value in enumerate(back.values):
    if value is not None:
        total, size, [(revoked, time_s)] = value
        ends[rank] = "ERR_REVOKED" if revoked else "ERR_PROC_FAILED", round(1e6 * time_s)
        error, time_us = ends[rank]
        print(f"rank {rank}: {error:15} at {time_us} µs, then {total:g} of {size} ranks")

# %% slideshow={"slide_type": "fragment"}
back.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("15/when-rank-1", ends[1][1])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. The same death, with `Revoke` and `Shrink`. The ring begins anew on seven ranks.*
#
# At 111 µs. Ranks 4 and 6 know at 110 µs, since 60 + 50 is 110. Both revoke the communicator, which takes a latency.
# Then you see the calls of the five others end with `ERR_REVOKED`. All seven meet in `Shrink`, and sum again:
# $1 + 2 + \dots + 7 = 28$. Rank 6 of the old communicator is rank 5 of the new one. Without the death the ring would
# have been done before it was known.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert {rank for rank, (error, _) in ends.items() if error == "ERR_PROC_FAILED"} == {4, 6}
assert ends[4][1] == ends[6][1] == 110 == 60 + 50 and ends[1][1] == 111
assert {one for rank, one in ends.items() if rank not in (4, 6)} == {("ERR_REVOKED", 111)}
assert back.values[6][:2] == (28, 7) and sum(range(1, 8)) == 28
assert ringside.run("alone.py:told", 8, (5600,)).makespan_s < 110e-6

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The rules.** What a call of a survivor does depends on whom it needs:
#
# | call | what happens |
# |---|---|
# | receive from the dead | what it had sent comes first, then `ERR_PROC_FAILED` |
# | send to the dead | succeeds if it is buffered; a send that waits for its receive fails |
# | receive from `ANY_SOURCE` | a message of another rank if one comes before the death is known, else an error |
# | collective of the library | `ERR_PROC_FAILED` if it can't do without the dead (section 5 looks closer) |
# | any call on a revoked communicator | `ERR_REVOKED` |
# | `Shrink`, `Agree` | work on a revoked communicator, too, and need all who are alive |
#
# Catch only these errors. If you catch everything, a bug in your own code looks like a failure, and your program
# shrinks and tries again for ever. (Our shortest programs do it, to fit on a slide. `step.py` in section 5 doesn't.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **And who tells the first one?** A process that is killed leaves its sockets to the operating system, which closes
# them. So its neighbours know at once: in our runs on one node it took 41 ms with Open MPI and 70 ms with gloo. A node
# without power closes nothing. Then you need a **heartbeat**: each process sends a sign of life to another one, which
# counts the time since the last.
#
# | detector | it says "dead" after |
# |---|---:|
# | Open MPI's runtime: a heartbeat every 5 s [4] | 10 s without one |
# | gloo in PyTorch, by default, in our runs of November 2026 | 30 minutes in one call |
#
# Which timeout is right? A long one costs $D$ at every stop, and all wait. A short one declares ranks dead that are
# only slow, or whose heartbeat is late. You can't tell them apart from outside. So a detector is either slow or
# sometimes wrong.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (quoted["open_mpi_killed_ms"], quoted["gloo_killed_ms"]) == (41, 70)
assert (quoted["heartbeat_s"], quoted["heartbeat_timeout_s"]) == (5, 10)
assert quoted["gloo_hang_min"] == 30

# %% [markdown] slideshow={"slide_type": "notes"}
# Stumbling block: "why doesn't rank 4 send the news to its neighbours?" Because nobody has posted a receive for it, and
# who has is the question. Draw a `Sendrecv` on the board and ask which message could end it.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=25
# ## 5. Why survivors must agree
#
# In section 4 all survivors got an error. With a collective of the library this isn't sure. Inside it ranks finish at
# different times, and a rank that has its result leaves. Take one `Allreduce` on four ranks.

# %% slideshow={"slide_type": "fragment"}
# %%writefile step.py
import numpy as np
from mpi4py import MPI


def summed(comm, gradient):
    """The sum over all ranks, and 1 if this rank has it."""
    total = np.empty_like(gradient)
    try:
        comm.Allreduce(gradient, total)
        return total, 1
    except MPI.Exception as error:
        if error.Get_error_class() not in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED):
            raise
        comm.Revoke()
        return total, 0


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("15/sum-and-error", "Rank 2 dies inside an Allreduce. Can it be that rank 0 has the sum and rank 1 an error?",
      choices=["yes", "no, all have it or none"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
inside = ringside.run("step.py:summed", 4, (np.ones(1),), failures=Failures(Kill(2, op=2), seed=2))
has = {rank: value[1] for rank, value in enumerate(inside.values) if value is not None}
for rank, ok in has.items():
    print(f"rank {rank}: {'the sum' if ok else 'an error'}")
mixed = len(set(has.values())) == 2
reveal("15/sum-and-error", "yes" if mixed else "no, all have it or none")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Yes. Rank 2 had given its part before it died, so somebody could finish the sum. ULFM allows this outcome: an error on
# one rank says nothing about the others. The network drew at random who gets the sum. (It will draw the same again
# tomorrow, because you gave it a `seed`.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# What does it do to training? Here is a loop in which each step uses the same $B$ samples, whoever is left to compute
# them. After a failure the survivors shrink, and do the step again.

# %% slideshow={"slide_type": "fragment"}
# %%writefile hasty.py
from step import summed


def train(comm, w, samples, num_steps, batch):
    """SGD on (x w - 1)^2 / 2. A rank that has the sum takes the step."""
    t = 0
    while t < num_steps:
        mine = samples[t * batch :][:batch][comm.rank :: comm.size]
        total, ok = summed(comm, mine.T @ (mine @ w - 1))
        if not ok:
            comm = comm.Shrink()
            continue
        w, t = w - 0.1 * total / batch, t + 1
    return w


# %% slideshow={"slide_type": "fragment"}
num_steps, batch = 5, 12
samples = np.random.default_rng(1).normal(size=(num_steps * batch, 5))
args = np.zeros(5), samples, num_steps, batch
serial = args[0]
for step in range(num_steps):
    x = samples[step * batch : (step + 1) * batch]
    serial = serial - 0.1 * x.T @ (x @ serial - 1) / batch


def right(result):
    """Whether the run ended, and all survivors have the weights of the serial run."""
    weights = [value for value in result.values if value is not None]
    return result.error is None and all(np.abs(w - serial).max() < 1e-12 for w in weights)


# %% [markdown] slideshow={"slide_type": "fragment"}
# In a run without failures, rank 2 has ten operations: for each of five steps, it begins an `Allreduce` and ends it. So
# there are ten moments to die. Try them all.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("15/bad-moments", "At how many of the ten moments does the death of rank 2 spoil the run?", unit="moments")  # fmt: skip


# %% slideshow={"slide_type": "fragment"}
def killed_everywhere(program, **options):
    """One run for each operation before which rank 2 can die."""
    whole = ringside.run(program, 4, args)
    deaths = [Failures(Kill(2, op=op + 1), detect_s=50e-6, **options)
              for op in range(len(whole.trace.ops[2]))]  # fmt: skip
    return [ringside.run(program, 4, args, failures=one, check=False) for one in deaths]


hasty = killed_everywhere("hasty.py:train")
print("right:", [right(result) for result in hasty])
late = hasty[3]  # rank 2 dies in the second step
for rank, w in enumerate(late.values):
    if w is not None:
        off = np.abs(w - serial).max()
        print(f"op 4: rank {rank} has returned weights that are off by {off:.3f}")

# %% slideshow={"slide_type": "fragment"}
late.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("15/bad-moments", sum(not right(result) for result in hasty))

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. Without an agreement. Rank 2 dies in the second step; rank 0 has the sum, and ranks 1 and 3 have an error.*
#
# Five: each time that rank 2 dies between the beginning and the end of a collective. Follow it in the figure. Rank 0
# has the sum and takes the step. Ranks 1 and 3 don't. All three shrink. From then on rank 0 is one step ahead. It gives
# the gradient of step 3 where the others give that of step 2, and the sums mix both. No error says so. You see a
# symptom only at the end: rank 0 has done its five steps and leaves, with weights that are off by 0.040. The others
# wait for it for ever.
#
# On real ranks you wouldn't have found this. We ran such a program six times with Open MPI, four ranks, two of them
# killed by a timer (November 2026). Six times the weights were right, since the bad moment lasts for microseconds. A
# network that chooses the bad moment finds it each time.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert mixed and has == {0: 1, 1: 0, 3: 1}
assert [right(result) for result in hasty] == 5 * [True, False]
assert f"{np.abs(late.values[0] - serial).max():.3f}" == "0.040"
assert "2 of 3 ranks are blocked" in str(late.error) and late.values[1] is late.values[3] is None
assert len(hasty) == 10 and quoted["runs_without_agreement"] == 6

# %% [markdown] slideshow={"slide_type": "subslide"}
# **No rule of one rank helps.** Could rank 0 decide better? Look at two runs:
#
# ```text
#             run A                      run B
#   rank 0    has the sum                has the sum
#   rank 1    has the sum                has an error
#   then      all must take the step     rank 1 can't take it, so nobody may
# ```
#
# Rank 0 sees the same in both runs, so it does the same in both. In one of them that is wrong. Therefore the *decision*
# has to come from an operation whose outcome is the same on all survivors, whoever dies in it. This is
# `comm.Agree(flag)`. It returns the AND of all flags on all survivors. If somebody died who wasn't known to be dead, it
# raises an error, on all of them or on none.

# %% slideshow={"slide_type": "fragment"}
# %%writefile agreed.py
from mpi4py import MPI
from step import summed


def has_sum(comm, gradient, ask):
    """Whether this rank takes the step: if it has the sum or, with ask, if all have it."""
    _, ok = summed(comm, gradient)
    if not ask:
        return ok
    try:
        return comm.Agree(ok)
    except MPI.Exception as error:
        if error.Get_error_class() != MPI.ERR_PROC_FAILED:
            raise
        return 0  # somebody has died, and all survivors are here


# %% [markdown] slideshow={"slide_type": "fragment"}
# One attempt at a sum, and rank 2 dies before each of its operations, or when it is about to return. Which survivors
# want to take the step?

# %% slideshow={"slide_type": "fragment"}
decisions = {False: [], True: []}
for ask, deaths in (False, (1, 2, 3)), (True, (1, 2, 3, 4, 5)):
    for op in deaths:
        one = Failures(Kill(2, op=op), seed=2)
        taken = ringside.run("agreed.py:has_sum", 4, (np.ones(1), ask), failures=one).values
        decisions[ask].append([rank for rank in (0, 1, 3) if taken[rank]])
        print(f"{'Agree' if ask else 'alone':5}  death {op}: the step is taken by ranks",
              decisions[ask][-1])  # fmt: skip
free_s = [ringside.run("agreed.py:has_sum", 4, (np.ones(1), ask)).makespan_s for ask in (0, 1)]
agree_us = 1e6 * (free_s[1] - free_s[0])
print(f"without a failure, the agreement costs {agree_us:.1f} µs")
alike = killed_everywhere("hasty.py:train", collectives="none")
print(f"hasty.py, if all survivors of a collective get an error: "
      f"{sum(map(right, alike))} of {len(alike)} runs are right")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each on its own, two of the three take the step in the second line. With `Agree` all survivors do the same, also where
# rank 2 dies in the agreement itself. The last line is a control: where all survivors get an error, the hasty program
# is right, too. So the split result was the only culprit.
#
# Look at deaths 3 and 4 with `Agree`. All survivors had the sum, and nobody took the step. Is this a mistake? No. They
# throw a good sum away and do the step again, which costs time. Taking a sum that others don't have would make the
# weights differ.
#
# What does the agreement itself cost? It is an all-reduce of one small number. Here it goes round a ring, and takes
# 6.0 µs, six latencies. With a tree it is $2\lceil\log_2 n\rceil\,\alpha$, and that is 20 latencies on 1024 ranks. Next
# to an all-reduce of gradients you won't find it.
#
# What has to change in `hasty.py` now? You write this loop in the assignment. There it is killed at every operation, of
# any rank, and also while it recovers.
#
# **Each of the three has its task.** `Revoke` frees those who wait for the living. `Agree` makes one decision. `Shrink`
# makes a group that works. Leave one out, and there is a moment at which your program fails.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert decisions[False] == [[], [0, 3], [0, 1, 3]]
assert decisions[True] == 4 * [[]] + [[0, 1, 3]]
assert len(alike) == 10 and all(map(right, alike))
assert round(agree_us, 1) == 6.0 == 2 * (4 - 1) * 1.0 and 2 * math.ceil(math.log2(1024)) == 20

# %% [markdown] slideshow={"slide_type": "notes"}
# Let two students play ranks 0 and 1, with a sheet of paper each on which stands what they have. They may look at their
# own only. Then let them decide. This is the whole proof.
#
# Ask why `Agree` has to work on a revoked communicator: those who got an error have revoked it before they come.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 6. The same batch, or a smaller one
#
# Of $p$ replicas $p'$ are left. Who computes the samples of the dead? `hasty.py` gave them to the others. You can
# also leave them out:
#
# | | same batch | smaller batch |
# |---|---|---|
# | samples of a step | $B$ | $B\,p'/p$ |
# | a step takes | $p/p'$ times as long | as long as before |
# | the mean is over | $B$ samples | those that are in it |
# | its variance | stays | grows by $p/p'$ |
# | learning rate, by the linear rule of [lecture 6](06_large_batches_and_asynchrony.ipynb) | stays | times $p'/p$ |
# | the weights | those of a run without the death | others |
#
# Both are in use. ReCoVer (2026) keeps the number of microbatches of a step constant [5]. Its authors ran it on up to
# 512 GPUs, and lost 256 on the way. They report 2.23 times the throughput of checkpoints and restarts. torchft (2026)
# divides by the number of replicas that took part [6]. Each replica has its own shard of the data, and the sampler's
# own comment calls this inherently lossy: while a replica is down, nobody reads its samples.
#
# **Wait or go on?** One of $p$ replicas is away for a time $L$, until somebody has replaced it. If you go on, you lose
# its share, $L/p$ of the whole run's time. If you restart at once with a spare node, all lose $R$.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "15/go-on",
    "8 replicas; a restart of all costs 10 minutes. Up to which L does it pay to go on with 7?",
    unit="minutes",
)

# %% slideshow={"slide_type": "fragment"}
replicas, restart_min = 8, 10
break_even_min = replicas * restart_min
reveal("15/go-on", break_even_min)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Going on pays while $L < pR$, so up to 80 minutes. With more replicas you can wait longer, because each of them is a
# smaller part of the run. With one replica there is nothing to go on with. That is a reason for hybrid sharding beside
# those of [lecture 7](07_sharding.ipynb): several copies of the state.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert break_even_min == 80 and quoted["recover_speedup"] == 2.23
assert (quoted["recover_most_gpus"], quoted["recover_lost_gpus"]) == (512, 256)
draw = np.random.default_rng(6).normal(size=(20_000, 8, 4))  # p = 8 replicas of 4 samples
growth = draw[:, :6].mean(axis=(1, 2)).var() / draw.mean(axis=(1, 2)).var()
assert abs(growth - 8 / 6) < 0.05  # p' = 6

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 7. A checkpoint is many files
#
# Until here a checkpoint was one number, $C$. What is it really? The state of 405 billion parameters has 5.67 TB, and
# each of 16,384 GPUs has a piece of it. So the GPUs write 16,384 files, and a GPU may die between any two of them.
#
# `ringside.Store` stands for the file system. It keeps arrays by name when the ranks have ended, and one `put` appears
# whole or not at all. Here is the simplest program: each rank writes its piece, over that of the last checkpoint.

# %% slideshow={"slide_type": "fragment"}
# %%writefile pieces.py
import numpy as np

import ringside


def save(comm, folder, step):
    """Each rank writes its piece over the one before."""
    store = ringside.Store(folder)
    store.put(f"piece {comm.rank}", np.full(3, step))
    comm.Barrier()


def steps(comm, folder):
    """The steps that a new run finds."""
    store = ringside.Store(folder)
    return [int(store.get(name)[0]) for name in store.names()]


# %% [markdown] slideshow={"slide_type": "fragment"}
# Four ranks save step 4, and all is well. Then they save step 8, and one of them dies: you try each rank and each of
# its operations. (A rank has three, the `put`, its part of the barrier and its end, and can die when it is about to
# return.)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "15/mixed",
    "Of the 16 moments in which one rank of four dies, how many leave pieces of both steps?",
    unit="moments",
)

# %% slideshow={"slide_type": "fragment"}
found = []
for rank in range(4):
    for op in range(1, 5):
        folder = f"pieces-{rank}-{op}"
        ringside.run("pieces.py:save", 4, (folder, 4))
        dies = Failures(Kill(rank, op=op), collectives="none")
        ringside.run("pieces.py:save", 4, (folder, 8), failures=dies, check=False)
        found.append(ringside.run("pieces.py:steps", 1, (folder,)).values[0])
mixed = [steps for steps in found if len(set(steps)) > 1]
for steps in mixed:
    print(steps)

# %% slideshow={"slide_type": "fragment"}
reveal("15/mixed", len(mixed))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Four: each rank's first moment. The others have written step 8, and the dead rank's piece is of step 4. That is a
# quarter of the moments in our small run. On a real machine it is nearly all of the time that `save` takes, since
# writing takes longest. And no error tells you: each piece is whole, and the next run trains from a state that never
# was.
#
# Four rules make it safe, and each of them has a death that shows why:
#
# | rule | without it |
# |---|---|
# | each checkpoint has names of its own | pieces of two steps, as above |
# | one last `put`, a sign, makes it count | a checkpoint counts that lacks a piece |
# | the sign comes when *all* pieces are there, on all ranks | the same: the rank with the sign can't see the others |
# | the one before is removed after that | a death between removal and sign leaves nothing |
#
# You write this in the assignment `checkpoint`, and the network kills your ranks at each operation.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert len(found) == 16 and mixed == [
    [8 if other != rank else 4 for other in range(4)] for rank in range(4)
]
assert [steps for steps in found if steps not in mixed] == 12 * [[8, 8, 8, 8]]

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Another number of ranks.** After the stop you have three ranks, and four have written. A vector of 11 numbers was
# cut into pieces of 3, 3, 3 and 2; three ranks need 4, 4 and 3 of them.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "15/reshard",
    "How many bytes does rank 1 of 3 have to read of the checkpoint that 4 ranks wrote? A number has 8 bytes.",
    unit="bytes",
)


# %% slideshow={"slide_type": "fragment"}
def shares(length, num_ranks):
    """From where to where each rank's shard goes."""
    s = -(-length // num_ranks)
    return [(min(rank * s, length), min((rank + 1) * s, length)) for rank in range(num_ranks)]


def overlap(one, other):
    """Elements that two shards have in common."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


read = [[overlap(new, old) for old in shares(11, 4)] for new in shares(11, 3)]
for rank, elements in enumerate(read):
    print(f"rank {rank} of 3 reads {elements} elements of the pieces 0 to 3")
reveal("15/reshard", 8 * sum(read[1]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# 32 bytes: the 4 numbers of its own shard, two of piece 1 and two of piece 2. A rank never has to read more than its
# shard, whatever the two numbers of ranks are. Its shard lies in at most $\lceil N/M \rceil + 1$ pieces, if $N$ ranks
# wrote and $M$ read.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert read == [[3, 1, 0, 0], [0, 2, 2, 0], [0, 0, 1, 2]] and 8 * sum(read[1]) == 32
for old in range(1, 20):
    for new in range(1, 20):
        for length in (1, 11, 97):
            for mine in shares(length, new):
                pieces = [overlap(mine, other) for other in shares(length, old)]
                assert sum(pieces) == mine[1] - mine[0]
                assert sum(map(bool, pieces)) <= math.ceil(old / new) + 1

# %% [markdown] slideshow={"slide_type": "subslide"}
# **What it costs.** Does it matter who writes? In the first program below rank 0 gathers everything and writes one
# file. In the second each rank writes its own. The store takes a nanosecond for a byte of each rank, and a millisecond
# for a call; ranks don't wait for each other.

# %% slideshow={"slide_type": "fragment"}
# %%writefile writers.py
import numpy as np

import ringside


def one(comm, n):
    """Rank 0 writes all."""
    whole = np.empty(n * comm.size) if comm.rank == 0 else None
    comm.Gather(np.zeros(n), whole)
    if comm.rank == 0:
        ringside.Store("one").put("whole", whole)


def each(comm, n):
    """Each rank writes its piece."""
    ringside.Store("each").put(f"piece {comm.rank}", np.zeros(n))


# %% slideshow={"slide_type": "fragment"}
seconds = {
    how: ringside.run(f"writers.py:{how}", 8, (1_000_000,)).makespan_s for how in ("one", "each")
}
for how, time_s in seconds.items():
    print(f"{how:4}  {1e3 * time_s:.0f} ms")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Eight writers take 9 ms, one takes 121 ms: seven eighths of the state has to reach it first, and then it writes all.
# With $N$ writers of bandwidth $B_1$ and a file system that takes $B$ of all together,
#
# $$C = \alpha_s + \frac{n b}{\min(N B_1,\; B)},$$
#
# for $n$ parameters of $b$ bytes. So more writers help until the file system is full.
#
# **Asynchronous.** A rank can also copy its state into its host's memory, go on, and let the copy be written meanwhile.
# Then $C$ falls into two parts: the stall until the copy is made, and the lag until it is whole in the file system.
# During the lag the checkpoint before is the one that counts. IBM measured it with PyTorch, on a model of 7 billion
# parameters: the stall fell from 148.8 s to 6.3 s [13].

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "15/asynchronous",
    "Llama 3's machine stops every 3.09 hours. A checkpoint that stalls for 148.8 s costs at least 16 % of the time, "
    "by Young. What does one cost that stalls for 6.3 s?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
between_s = quoted["llama3_days"] * 86_400 / stops["stops"].sum()
young = {
    stall_s: math.sqrt(2 * stall_s / between_s)
    for stall_s in (quoted["dcp_stall_before_s"], quoted["dcp_stall_after_s"])
}
print({stall_s: f"{lost:.1%}" for stall_s, lost in young.items()})
reveal("15/asynchronous", 100 * young[6.3])

# %% [markdown] slideshow={"slide_type": "fragment"}
# 3.4 %, since the loss goes with the root of $C$: a stall that is 24 times as short costs a fifth. This leaves the lag
# out. With it, a stop repeats more: all since the checkpoint that is whole, which may be the one before.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert {how: round(1e3 * time_s) for how, time_s in seconds.items()} == {"one": 121, "each": 9}
assert round(between_s / 3600, 2) == 3.09 and round(100 * young[6.3], 1) == 3.4
assert (
    0.16 < young[148.8] < 0.165
    and round(148.8 / 6.3) == 24
    and round(young[148.8] / young[6.3]) == 5
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the class find the death for each rule of the table before you show it. The third is the hard one: rank 0 has
# written its piece, so why may it not write the sign? Because it can't see whether the others have.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 8. A neighbour's memory
#
# A dead rank takes its shard of the state with it. So far you get it back from a file system, which is slow for all at
# once. Whose memory is empty enough, and near? That of another node. How long does a copy take? Take 405 billion
# parameters on 16,384 GPUs, with 14 bytes for each: weights, the optimizer's copy of them, and two moments.

# %% slideshow={"slide_type": "fragment"}
parameters = 405e9
state = 14 * parameters  # bytes
print(f"as one file {state / 1e12:.2f} TB; a GPU's shard {state / 16_384 / 1e6:.0f} MB, "
      f"through a port of 50 GB/s {1e3 * state / 16_384 / 50e9:.1f} ms")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# The whole state is a file of 5.67 TB, but a GPU's shard has 346 MB. If each GPU has a port of 50 GB/s of its own, all
# copies are done in 6.9 ms. They hide behind one training step. So you can copy in *every* step: then $C$ is zero, and
# a stop repeats one step.
#
# But where do you put the copy? Each of eight ranks keeps its state and that of a partner, and there are two ranks on a
# node. Then node 1 dies.

# %% slideshow={"slide_type": "fragment"}
# %%writefile neighbour.py
import numpy as np
from mpi4py import MPI

import ringside


def left(comm, distance):
    """The ranks whose state some survivor has."""
    partner = comm.rank ^ distance  # 0 and 1, 2 and 3, ... if it is 1; 0 and 2, 1 and 3 if 2
    state, copy = np.full(1000, comm.rank), np.zeros(1000, int)
    comm.Sendrecv(state, partner, 0, copy, partner, 0)
    try:
        ringside.compute(seconds=1e-3, phase="forward 0")
        comm.Barrier()
    except MPI.Exception:
        comm.Revoke()
        comm = comm.Shrink()
    return [rank for pair in comm.allgather((int(state[0]), int(copy[0]))) for rank in pair]


# %% slideshow={"slide_type": "fragment"}
pairs_of_ranks = ringside.Machine.load("ranks_per_node=2")
node_dies = Failures(Kill(node=1, at_s=0.5e-3))
kept = {}
for distance in (1, 2):
    options = {"machine": pairs_of_ranks, "failures": node_dies}
    result = ringside.run("neighbour.py:left", 8, (distance,), **options)
    kept[distance] = set(result.values[0])
    lost = sorted(set(range(8)) - kept[distance])
    print(f"partner is rank ^ {distance}: lost are the states of ranks {lost}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With `rank ^ 1` the partner is on the same node, and dies with it. Ranks 2 and 3 had each other's state, and it is
# gone. With `rank ^ 2` you lose nothing. A partner belongs into another **failure domain**: another node, and if racks
# fail as a whole, another rack.
#
# Now two nodes die at once. In *pairs*, nodes 0 and 1 keep copies for each other, 2 and 3, and so on. In a *ring*, each
# node keeps that of the node before it.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "15/ring-loses",
    "Two of 16 nodes die at once. In which share of all cases is a state lost, in a ring?",
    unit="%",
)


# %% slideshow={"slide_type": "fragment"}
def lost_cases(nodes, keeper, dead=2):
    """The share of all sets of dead nodes that hold a node and the keeper of its copy."""
    sets = list(combinations(range(nodes), dead))
    return sum(any(keeper(node) in one for node in one) for one in sets) / len(sets)


in_pairs = {nodes: lost_cases(nodes, lambda node: node ^ 1) for nodes in (16, 128)}
in_ring = {16: lost_cases(16, lambda node: (node + 1) % 16),
           128: lost_cases(128, lambda node: (node + 1) % 128)}  # fmt: skip
for nodes in (16, 128):
    print(f"{nodes} nodes: pairs {in_pairs[nodes]:.2%}, ring {in_ring[nodes]:.2%}")
reveal("15/ring-loses", 100 * in_ring[16])

# %% [markdown] slideshow={"slide_type": "fragment"}
# In 13.3 % of the cases. There are $\binom{N}{2}$ ways to choose two nodes of $N$. In a ring $N$ of them are
# neighbours, which is a share of $2/(N-1)$. In pairs $N/2$ of them are a pair, a share of $1/(N-1)$, or 6.7 %. So pairs
# lose half as often, for the same memory and the same messages. With 128 nodes it is 0.8 % in pairs, and you still
# write a file now and then.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Published.** Google trained Gemini Ultra (2023) with copies of the state in memory. Its report says that the goodput
# of the largest job rose from 85 % to 97 % [7]. Read this as a number about $C$: the loss fell to a fifth. If all of it
# were $\sqrt{2C/M}$, a checkpoint would have become 25 times cheaper.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (round(state / 1e12, 2), round(state / 16_384 / 1e6)) == (5.67, 346)
assert round(1e3 * state / 16_384 / 50e9, 1) == 6.9 and parameters / 1e9 == 405
assert set(range(8)) - kept[1] == {2, 3} and kept[2] == set(range(8))
assert (
    np.allclose(list(in_ring.values()), [2 / 15, 2 / 127]) and round(100 * in_ring[16], 1) == 13.3
)
assert np.allclose(list(in_pairs.values()), [1 / 15, 1 / 127]) and list(in_pairs) == [16, 128]
assert [round(100 * one, 1) for one in in_pairs.values()] == [6.7, 0.8]
goodput = quoted["gemini_goodput_before"], quoted["gemini_goodput_after"]
assert goodput == (0.85, 0.97) and round((1 - goodput[0]) / (1 - goodput[1])) == 5
assert round(((1 - goodput[0]) / (1 - goodput[1])) ** 2) == 25

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"] meeting=3 minutes=15
# ## 9. Replicas that heal
#
# What remains is $R$: all wait until the dead are replaced. With several replicas they needn't. Let a replica be the
# unit of failure, as in torchft [6]:
#
# ```text
#              step 7                   step 7 again         step 8
#   replica 0  quorum  step  no commit  quorum step commit   quorum  step                    commit
#   replica 1  quorum  dies             restarts             quorum  heals from 0, adds 0    commit
#   replica 2  quorum  step  no commit  quorum step commit   quorum  step                    commit
# ```
#
# At the beginning of each step a **quorum** says who takes part: those whose heartbeat is heard. A step is
# **committed** by all or by nobody, which is `Agree` again. A replica that comes back **heals**: it gets weights and
# optimizer state from another one, and gives zeros to the sum until it has them.
#
# Meta's FT-HSDP (2026) does this on the order of 100,000 GPUs. With synchronous training a failure stalled all of them
# for 10 minutes, and 44 % of the time was useful [8]. Say that a stop costs all GPUs a stall $S$, and that nothing else
# counts. Then the useful share is $1 - S/M$.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "15/ft-hsdp",
    "With stalls of 10 minutes 44 % of the time is useful. Which share is it with stalls of 3 minutes?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
before_min, after_min = quoted["ft_hsdp_stall_before_min"], quoted["ft_hsdp_stall_after_min"]
M_min = before_min / (1 - quoted["ft_hsdp_useful_before"])
predicted = 1 - after_min / M_min
also_hit = quoted["ft_hsdp_useful_before"] ** (after_min / before_min)
print(f"M = {M_min:.1f} min; predicted {predicted:.0%}, and {also_hit:.0%} if stalls can be hit")
reveal("15/ft-hsdp", 100 * predicted)

# %% [markdown] slideshow={"slide_type": "fragment"}
# You predict 83 %, and the paper reports 80 % [8]. The first number gives $M = 17.9$ minutes, and the second follows.
# Why is it less? A replica that is out computes nothing. And a stall can itself be hit: with section 3's formula the
# useful share is about $e^{-S/M}$, and $0.44^{3/10}$ is 78 %. The paper's number lies between the two.
#
# Compare $M$ with section 2. At Llama's rate 100,000 GPUs stop every 30.4 minutes. So a GPU of this run failed 1.7
# times as often, if there were as many and if nothing but stalls counts. We don't know why.
#
# **A second check.** PyTorch's authors ran torchft on 300 GPUs in 30 replicas, without any checkpoint, and ended one
# replica every 60 s [9]. A step took 10.9 s. A step in which somebody dies isn't committed, so you expect
# $1 - 10.9/60 = 81.8\,\%$. They committed 5145 of 6249 steps, that is 82.3 %.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(M_min, 1) == 17.9 and round(100 * predicted) == 83 and round(100 * also_hit) == 78
assert also_hit < quoted["ft_hsdp_useful_after"] == 0.8 < predicted
assert quoted["ft_hsdp_useful_before"] == 0.44
assert round(m_s / 100_000 / 60, 1) == 30.4 and round(m_s / 100_000 / 60 / M_min, 1) == 1.7
run = {name[8:]: value for name, value in quoted.items() if name.startswith("torchft_")}
assert (run["gpus"], run["replicas"], run["failure_s"], run["step_s"]) == (300, 30, 60, 10.9)
assert round(100 * (1 - run["step_s"] / run["failure_s"]), 1) == 81.8
assert (run["committed"], run["steps"]) == (5145, 6249)
assert round(100 * run["committed"] / run["steps"], 1) == 82.3

# %% [markdown] slideshow={"slide_type": "subslide"}
# **One day, three ways.** Put everything into the formula of section 3. A failed attempt costs the time until its stop,
# and then a restart. So you can say where each hour of a day goes. We assume checkpoints of 30 s and steps of 12 s.
# Stalls are those of the paper: 10 minutes if all restart, 3 if replicas heal. GPUs fail as often as Llama's.


# %% slideshow={"slide_type": "fragment"}
def day(n, way):
    """The shares of a day: useful, writing, repeated, stalled."""
    M_s = m_s / n
    C_s, R_s = {"file": (30, 600), "memory": (0, 600), "healing": (0, 180)}[way]
    tau_s = best_interval(C_s, M_s) if C_s else 12  # a copy in each step
    stops = math.expm1((tau_s + C_s) / M_s)  # for each saved interval
    parts = [tau_s, C_s, M_s * stops - tau_s - C_s, M_s * stops * math.expm1(R_s / M_s)]
    return np.array(parts) / expected(tau_s, C_s, R_s, M_s)


WAYS = {"file": "file system", "memory": "a neighbour's memory", "healing": "replicas that heal"}
GPUS = 16_384, 100_000, 500_000
for way, name in WAYS.items():
    print(f"{name:21} useful:", ", ".join(f"{day(n, way)[0]:4.0%} of {n:,} GPUs" for n in GPUS))

# %% slideshow={"slide_type": "slide"} tags=["hide-input", "figure"]
figure, axes = plt.subplots(1, 3, figsize=(8.4, 2.9), layout="constrained", sharey=True)
kinds = (("useful", GREEN), ("writing", YELLOW), ("repeated", BLUE), ("stalled", GREY))
for axis, (way, name) in zip(axes, WAYS.items()):
    shares = 24 * np.array([day(n, way) for n in GPUS]).T
    bottom = np.zeros(3)
    for hours, (kind, colour) in zip(shares, kinds):
        axis.bar([f"{n:,}" for n in GPUS], hours, 0.65, bottom, color=colour, label=kind)
        bottom += hours
    axis.set_title(name, fontsize=10)
    axis.set_xlabel("GPUs")
axes[0].set(ylabel="hours of a day", yticks=[0, 6, 12, 18, 24])
legend = axes[0].get_legend_handles_labels()
figure.legend(*legend, loc="outside upper center", ncols=4, frameon=False)
show(figure, "Stacked bars of a day's 24 hours on 16,384, 100,000 and 500,000 GPUs, for three ways to recover. With a file system the "
     "useful hours shrink from 21 to 14 and to 3, and most of the rest is stalled. A neighbour's memory removes writing and repeated work, and "
     "500,000 GPUs are still stalled for 19 hours. With replicas that heal they are useful for 14 hours.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 6. Where a day goes. The formula of section 3, at Llama's rate of failures.*
#
# On 16,384 GPUs you may choose any of the three. On 100,000 the file system leaves 60 % of the day. The memory of a
# neighbour makes it 72 %, because the waiting remains. Replicas that heal make it 90 %. On 500,000 GPUs the first two
# wait for most of the day. **So the larger the run, the less it matters how you write, and the more it matters who has
# to wait.**

# %% slideshow={"slide_type": "skip"} tags=["checked"]
days = {(n, way): day(n, way) for n in GPUS for way in WAYS}
assert all(np.isclose(parts.sum(), 1) for parts in days.values())
assert [round(100 * days[100_000, way][0]) for way in WAYS] == [60, 72, 90]
assert [round(24 * days[n, "file"][0]) for n in GPUS] == [21, 14, 3]
assert round(24 * days[500_000, "memory"][3]) == 19
assert round(24 * days[500_000, "healing"][0]) == 14

# %% [markdown] slideshow={"slide_type": "notes"}
# Cover the third panel and ask for a guess first. Then ask what FT-HSDP's 3 minutes still contain, and what a fourth
# panel with 10 seconds would show: on 500,000 GPUs more than nine tenths of the day.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=3 minutes=15
# ## 10. Slow is worse than dead
#
# A dead rank is found, and the others go on without it. A slow rank is alive, answers, and gives right results. Nobody
# raises an error. On a cluster of more than 10,000 GPUs such *fail-slows* lasted from less than a minute to nearly ten
# hours, and delayed large jobs by 1.34 times on average [14].
#
# How much does one slow rank cost you? Here is a step of data parallelism: each of eight ranks computes for 10 ms, and
# then all sum their gradients.

# %% slideshow={"slide_type": "fragment"}
# %%writefile steps.py
import numpy as np

import ringside


def train(comm, num_steps, work_s):
    """Steps of data parallelism, of which only time counts here."""
    gradient, total = np.ones(50_000), np.empty(50_000)
    for _ in range(num_steps):
        ringside.compute(seconds=work_s, phase="step")
        comm.Allreduce(gradient, total)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "15/one-slow",
    "One of eight ranks computes 1.34 times as long. How many times as long takes a step?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
usual = ringside.run("steps.py:train", 8, (5, 10e-3))
slow = ringside.run("steps.py:train", 8, (5, 10e-3), failures=Failures(Slow(3, 1.34)))
times_as_long = slow.makespan_s / usual.makespan_s
print(
    f"{1e3 * usual.makespan_s / 5:.2f} ms a step, and with a slow rank {1e3 * slow.makespan_s / 5:.2f} ms"
)

# %% slideshow={"slide_type": "fragment"}
slow.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("15/one-slow", times_as_long)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure. Rank 3 computes 1.34 times as long: the factor stands at its row. The seven others wait.*
#
# 1.32 times. A synchronous step takes as long as its slowest rank, whatever you paid for the others. (Only the sum,
# which is as fast as ever, keeps it below 1.34.) With the slow rank *dead*, and its samples shared out among the seven
# others, a step would take 8/7 of the work: 1.14 times. So you would gain by killing it.
#
# Better still, give it less. Say that a rank needs $s$ times as long for a sample. If all are to end together, the
# others take over some of its samples, and the step takes
#
# $$\frac{N}{N - 1 + 1/s}$$
#
# times as long as without a slow rank: for $N = 8$ and $s = 1.34$ only 1.033 times.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(times_as_long, 2) == 1.32
assert round(8 / (7 + 1 / 1.34), 3) == 1.033 and round(8 / 7, 2) == 1.14
assert slow.trace.slow == {3: 1.34} and quoted["greyhound_delay"] == 1.34

# %% [markdown] slideshow={"slide_type": "subslide"}
# **No rank is broken, and still all wait.** Times vary from step to step. The step takes as long as the *largest* of $N$
# random times. For normal times with mean $\mu$ and standard deviation $\sigma$ its mean is at most
# $\mu + \sigma\sqrt{2 \ln N}$. Draw some:

# %% slideshow={"slide_type": "fragment"}
rng = np.random.default_rng(11)
largest = {}
for n in (8, 1024, 16_384):
    largest[n] = np.mean([rng.standard_normal(n).max() for _ in range(300)])
    print(
        f"{n:6,} ranks: the largest lies {largest[n]:.1f} σ above the mean; the bound says {math.sqrt(2 * math.log(n)):.1f} σ"
    )

# %% [markdown] slideshow={"slide_type": "fragment"}
# With times that vary by 5 %, each step on 16,384 ranks takes a fifth longer than the mean. No rank is to blame for it.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert all(largest[n] < math.sqrt(2 * math.log(n)) for n in largest)
assert 0.19 < 0.05 * largest[16_384] < 0.21
assert [round(math.sqrt(2 * math.log(n)), 1) for n in (8, 16_384)] == [2.0, 4.4]

# %% [markdown] slideshow={"slide_type": "subslide"}
# **What if?** You have the trace of a slow run. How long would it have taken without the straggler? Replay it with the
# slow rank's work as fast as the others'. The *slowdown* is $S = T/T_{\text{ideal}}$, and the wasted share of the GPU
# hours is $1 - 1/S$.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "15/wasted",
    "A step takes 1.32 times as long as it could. Which share of the GPU hours is wasted?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
trace = slow.trace
factors = dict(trace.slow)
trace.slow.clear()
ideal = ringside.replay(trace, "textbook")
trace.slow.update(factors)
slowdown = slow.makespan_s / ideal.makespan_s
print(f"S = {slowdown:.2f}, wasted {1 - 1 / slowdown:.0%}")
reveal("15/wasted", 100 * (1 - 1 / slowdown))

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert ideal.makespan_s == usual.makespan_s and round(100 * (1 - 1 / slowdown)) == 24

# %% [markdown] slideshow={"slide_type": "fragment"}
# A quarter. Nothing has failed, so no goodput and no ETTR shows it (section 13). On a real machine you don't have the
# factor of each rank. You put the mean of all ranks' times in place of each, and replay that.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=3 minutes=20
# ## 11. Who hangs? A flight recorder
#
# All GPUs show 100 % load, and no step ends. Which of 16,384 do you look at? Each of them waits in a collective, and a
# kernel that waits looks as busy as one that computes.
#
# PyTorch keeps a **flight recorder** for this: a ring buffer with the last collectives of each rank. A record says to
# which group a collective belongs, which number it has there, what was called with how much of which dtype, and
# whether it is complete. Our network can keep the same record of any run.

# %% slideshow={"slide_type": "fragment"}
# %%writefile grid.py
import numpy as np

import ringside


def train(comm, num_steps):
    """A grid of 2 x 4: rows add up activations, columns gradients."""
    rows = comm.Split(comm.rank // 4, comm.rank)
    columns = comm.Split(comm.rank % 4, comm.rank)
    x, total = np.ones(1000, np.float32), np.empty(1000, np.float32)
    for _ in range(num_steps):
        ringside.compute(seconds=3e-3, phase="forward")
        rows.Allreduce(x, total)
        ringside.compute(seconds=6e-3, phase="backward")
        columns.Allreduce(total, x)


# %% [markdown] slideshow={"slide_type": "fragment"}
# First the milder illness. One rank is slow, and you look at how long each rank's last all-reduce took, from its own
# call to its end.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "15/shortest",
    "Seven ranks show collectives of about 2 ms, and rank 5 shows 0.01 ms. Which one is slow?",
    choices=["one of the seven", "rank 5", "the durations don't tell"],
)

# %% slideshow={"slide_type": "fragment"}
lame = ringside.run("grid.py:train", 8, (20,), failures=Failures(Slow(5, 1.5)))
waited_ms = {
    rank: np.mean([record["completed_ps"] - record["created_ps"] for record in records]) / 1e9
    for rank, records in lame.recorder(last=8).dumps.items()
}
print("  ".join(f"rank {rank}: {time_ms:.2f} ms" for rank, time_ms in waited_ms.items()))
print(lame.straggler())

# %% slideshow={"slide_type": "fragment"}
reveal("15/shortest", "rank 5")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Rank 5. A collective ends for all at once, and begins for each rank when *it* calls. Who comes last has the shortest
# one. **The straggler waits least.** Whoever sorts by the longest collective looks at seven healthy machines.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert min(waited_ms, key=waited_ms.get) == 5 and waited_ms[5] < 0.03
assert all(1.5 < time_ms < 2.8 for rank, time_ms in waited_ms.items() if rank != 5), waited_ms
assert lame.straggler().startswith("rank 5 comes last to 40 of its 42 collectives")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Now a rank **hangs**. It is alive, so no detector finds it, and nobody gets an error. (In a torch program a time-out
# of the group ends the wait, if it has one.) Rank 5 stops in its fourth step, and you read the last record of each.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "15/waiting-for-5",
    "Rank 5 shares a row with three ranks and a column with one. How many of the seven others wait in the end?",
    unit="ranks",
)

# %% slideshow={"slide_type": "fragment"}
stop = Failures(Hang(5, at_s=28e-3))
hung = ringside.run("grid.py:train", 8, (20,), failures=stop, check=False)
recorder = hung.recorder(last=4)
lasts = {rank: records[-1] for rank, records in recorder.dumps.items()}
for rank, last in lasts.items():
    print(
        f"rank {rank}: number {last['seq']} of ranks {recorder.groups[last['group']]}, {last['state']}"
    )
still = [rank for rank, last in lasts.items() if last["state"] != "completed"]

# %% slideshow={"slide_type": "fragment"}
reveal("15/waiting-for-5", len(still))

# %% [markdown] slideshow={"slide_type": "fragment"}
# All seven. Four of them wait in a collective of rank 5: its row, and rank 1 in its column. The three others wait for
# ranks that wait themselves. If you ask who is missing somewhere, four ranks are. How do you find the one?
#
# 1. **Compare by number.** Each group counts its collectives, and members meet by this number. Buffers begin at
#    different numbers, so never compare the last entries, or the first.
# 2. **Who is missed?** A collective that isn't complete has members without a record of it.
# 3. **Who of them waits nowhere?** A rank that is missed and waits itself is a victim. Follow the waits until they end.

# %% slideshow={"slide_type": "fragment"}
missed = set()
for last in lasts.values():
    if last["state"] != "completed":
        for rank in recorder.groups[last["group"]]:
            numbers = [r["seq"] for r in recorder.dumps[rank] if r["group"] == last["group"]]
            missed |= {rank} if last["seq"] not in numbers else set()
print(f"missed: {sorted(missed)}, and of these wait nowhere: {sorted(missed - set(still))}")
print(hung.error)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert still == [0, 1, 2, 3, 4, 6, 7] and missed == {4, 5, 6, 7}
assert missed - set(still) == {5}
assert sum(5 in recorder.groups[lasts[rank]["group"]] for rank in still) == 4
assert "rank 5 hangs" in str(hung.error)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The last lines are our network's own verdict, which knows more than a recorder does: it has seen each message.
#
# A recorder shows more than hangs. If the members of one collective disagree, PyTorch's analyzer has names for it [15]:
#
# | name | the members |
# |---|---|
# | `FULLY_MATCHED` | agree |
# | `COLLECTIVE_TYPE_MISMATCH` | call different collectives |
# | `SIZE_OR_SYNTAX_MISMATCH` | give different sizes |
# | `COLLECTIVE_DTYPE_MISMATCH` | give different dtypes |
# | `COLLECTIVE_STATE_MISMATCH` | are in different states: some have begun it, and others haven't |
#
# You write such an analyzer in assignment 15, `recorder`.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the class sort the seven durations before the prompt is opened: most look at the longest. Then ask what they'd see
# if clocks differed by 5 ms from rank to rank. Durations are a rank's own, so they survive; who called last doesn't.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12. A bit that nobody sees
#
# Six of Llama 3's 419 stops were *silent corruption* [1]: a machine computed or carried a wrong number, and raised no
# error. [Lecture 12](12_hybrid.ipynb) flips a bit inside of a rank. Here one flips on the wire, in the ring of section
# 1. Rank 2 sends 14 messages in it. You flip the highest bit of a number's exponent in one of them, and count the
# ranks whose sum is wrong. This section is for reading.

# %% slideshow={"slide_type": "fragment"}
# %%writefile sums.py
import numpy as np
from ring import ring


def summed(comm, n):
    """This rank's sum of all vectors."""
    return ring(comm, np.full(n, comm.rank + 1.0))


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("15/wrong-sums", "A bit flips in the third of rank 2's 14 messages. On how many of the eight ranks is the sum wrong?",
      unit="ranks")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
num_wrong = {}
for message in range(1, 15):
    sums = ringside.run("sums.py:summed", 8, (16,), failures=Failures(Flip(2, message, 62))).values
    num_wrong[message] = sum((total != 36).any() for total in sums)
print("wrong on so many ranks:", list(num_wrong.values()))

# %% slideshow={"slide_type": "fragment"}
reveal("15/wrong-sums", num_wrong[3])

# %% [markdown] slideshow={"slide_type": "fragment"}
# On all eight. The first seven messages carry partial sums. What is wrong in one of them is added up and handed to
# everybody, so all ranks have the *same* wrong sum. The last seven carry finished pieces, and only ranks further on get
# the wrong one.
#
# Which of the two would you rather have? With the later flip the ranks' weights differ from then on, and a comparison of
# replicas finds it. With the earlier one all copies agree, and no comparison shows anything.
#
# **On the wire**, a checksum helps. The sender adds up the bits of exactly the bytes that it sends, and the receiver does
# the same and compares. Two sums are equal or they aren't, so no tolerance is needed, and any one flip is seen. It costs
# eight bytes a message.
#
# **In arithmetic** it is harder. For a product $C = AB$ and a vector $e$ of ones, $e^T C = (e^T A) B$ and
# $C e = A (B e)$. If one element of $C$ is wrong, one sum of a column and one of a row don't fit: they cross where it
# is, and tell by how much. This is *algorithm-based fault tolerance*. But both sides are rounded differently, so a
# tolerance is needed, and a flip that changes less than rounding does isn't found. For matrices of $n$ rows the sums
# cost about $2/n$ of the product, 0.05 % for $n = 4096$. You write both in the extra module `checked`.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert list(num_wrong.values()) == 7 * [8] + [7, 6, 5, 4, 3, 2, 1]
assert stops["stops"][stops["cause"].tolist().index("Silent data corruption")] == 6
assert sum(range(1, 9)) == 36 and round(100 * 2 / 4096, 2) == 0.05

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 13. Where the models break
#
# **Failures aren't independent.** A switch takes all nodes behind it, and a node all its GPUs. They aren't equal,
# either: on a cluster of 63 nodes (2026), three of them were more than half of all that were excluded from runs [10].
# Then it helps to find these three, and a rate for each GPU says nothing about it.
#
# **Rates aren't constant.** A rate falls while bad parts are replaced, and may rise with a new version of the software.
# Our $m$ is that of one machine, from 54 days.
#
# **A wrong rank is the hardest case.** A dead one says nothing, and a slow one can be found by its times. One that
# computes wrong numbers looks healthy ([lecture 12](12_hybrid.ipynb) flips a bit). It is in no formula of this lecture.
#
# **Two halves that both live.** If a network is cut in two, each half takes the other one for dead. Both would go on,
# and the run would exist twice. A quorum needs more than half of the replicas for this reason.
#
# **Our network** kills at an exact moment and detects after an exact time. A real detector is late by a random time,
# and sometimes wrong.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert quoted["lablup_nodes"] == 63 and 2 * 3 < 63 and quoted["llama3_days"] == 54

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14. Often heard
#
# | statement | what holds |
# |---|---|
# | "Faulty GPUs: 148 of 419 stops, 30.1 %" (the table of Llama 3's paper [1]) | 148 of 419 is 35.3 %. The counts add up to 419, so the percentage is wrong. |
# | "Recovery from failures is in MPI 5" | It isn't. `Revoke` has passed its final vote for a later version. `Agree` is open, and in June 2026 `Shrink` missed the quorum of its first vote [11]. |
# | "$\sqrt{2CM}$ is the best interval" | If $C \ll M$. At $C = M/3$ it is a third too long (section 3). |
# | "A survivor notices that somebody died" | If it waits for the dead. Who waits for the living waits for ever (section 1). |
# | "After the error all know that the sum is lost" | Some may have it (section 5). |
# | "`torchrun` is fault tolerant" | It ends *all* workers and starts them again. What isn't in a checkpoint is lost [12]. |
# | "Elastic training goes on as if nothing had happened" | With the same batch it does. With a smaller one the training is another one (section 6). |
# | "97 % goodput, so the GPUs are busy" | Goodput counts time at the speed that the job had. A slow GPU doesn't lower it. |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
faulty = stops["stops"][0]
assert (faulty, stops["stops"].sum()) == (148, 419) and stops["percent"][0] == 30.1
assert round(100 * faulty / 419, 1) == 35.3 and quoted["gemini_goodput_after"] == 0.97
assert 1.3 < math.sqrt(2 * 5 * 15) / best_interval(5, 15) < 1.35

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# A puzzle, and questions with answers.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 15. A puzzle: the copy that nobody waits for
#
# In each of three steps a rank copies its state to its partner, computes for 25 µs, and updates the state. A step takes
# 46 µs, because all wait for the copies. The target for the three steps is 80 µs. The copies must stay those of the
# beginning of each step.

# %% slideshow={"slide_type": "fragment"}
# %%writefile copies.py
import numpy as np

import ringside


def copied(comm, num_steps=3, n=2500):
    """The first number of the copy that this rank holds at the end of each step."""
    state, copy = np.full(n, float(comm.rank)), np.empty(n)
    partner, held = comm.rank ^ 2, []
    for step in range(num_steps):
        comm.Sendrecv(state, partner, 0, copy, partner, 0)
        ringside.compute(seconds=25e-6, phase=f"forward {step}")
        state += 1
        held.append(float(copy[0]))
    return held


# %% slideshow={"slide_type": "fragment"}
right_copies = [[float((rank ^ 2) + step) for step in range(3)] for rank in range(4)]
attempt = puzzle("copies.py:copied", 4, expected=right_copies, at_most_us=80,
                 hint="Until when may the copy travel? What mustn't happen before that?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Post `Irecv` and `Isend` before the computing, and wait for both after it, but *before* `state += 1`: until then the
# message reads the state. It takes 21 µs and hides behind 25. The three steps take 75 µs.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
text = Path("copies.py").read_text()
blocking = "        comm.Sendrecv(state, partner, 0, copy, partner, 0)\n"
posted = "        requests = [comm.Irecv(copy, partner), comm.Isend(state, partner)]\n"
waited = "        for request in requests:\n            request.Wait()\n        state += 1\n"
text = text.replace(blocking, posted).replace("        state += 1\n", waited)
Path("hidden.py").write_text(text)
# %% slideshow={"slide_type": "skip"} tags=["checked"]
solved = puzzle("hidden.py:copied", 4, expected=right_copies, at_most_us=80, draw=False)
assert solved.solved and not attempt.solved
assert round(attempt.time_us) == 3 * 46 and round(solved.time_us) == 75 == 3 * 25
assert round(attempt.time_us / 3 - 25) == 21 and solved.time_us < 80

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 16. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** You train on 2048 GPUs that fail as often as Llama's. How often does the run stop? With which
# probability does a day pass without a stop? And a week?
#
# <details><summary>Answer</summary>
#
# $M = 50{,}677\,\mathrm{h} / 2048$ is 24.7 hours. A day passes with $e^{-24/24.7} = 38\,\%$, a week with
# $0.38^7 = 0.1\,\%$.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
M_h = m_s / 3600 / 2048
assert round(m_s / 3600) == 50_677 and round(M_h, 1) == 24.7
assert round(math.exp(-24 / M_h), 2) == 0.38 and round(100 * math.exp(-7 * 24 / M_h), 1) == 0.1

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** A run stops once an hour, and a checkpoint takes 2 minutes. Which interval is the best, by Young and
# exactly? How much time is lost, without restarts? By which factor does the useful share change if each restart takes 6
# minutes?
#
# <details><summary>Answer</summary>
#
# Young: $\sqrt{2 \cdot 2 \cdot 60} = 15.5$ minutes. Exactly 14.2. Then 23.6 % are lost, where $\sqrt{2C/M}$ says 25.8
# %. The useful share is multiplied by $e^{-R/M} = e^{-0.1} = 0.905$.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
tau = best_interval(2, 60)
assert round(math.sqrt(2 * 2 * 60), 1) == 15.5 and round(tau, 1) == 14.2
assert round(100 * (1 - tau / expected(tau, 2, 0, 60)), 1) == 23.6
assert round(100 * math.sqrt(2 * 2 / 60), 1) == 25.8
assert round(expected(tau, 2, 0, 60) / expected(tau, 2, 6, 60), 3) == 0.905

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** Eight ranks sum with a star: rank 0 receives from ranks 1 to 7 in this order, adds up, and sends the
# total to each of them. Sends wait for their receives. Rank 3 dies before it sends. Who gets an error by itself, and
# who waits for whom?
#
# <details><summary>Answer</summary>
#
# Only rank 0, when it wants to receive from rank 3. Ranks 1 and 2 have sent and wait for the total, and ranks 4 to 7
# wait until rank 0 takes their vectors. All six wait for rank 0, which is alive. If it leaves without `Revoke`, they
# wait for ever.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
Path("star.py").write_text("""import numpy as np
from mpi4py import MPI


def star(comm, n):
    mine, total = np.ones(n), np.ones(n)
    try:
        for rank in range(1, comm.size) if comm.rank == 0 else [0]:
            comm.Recv(mine, rank) if comm.rank == 0 else comm.Send(total, 0)
        for rank in range(1, comm.size) if comm.rank == 0 else [0]:
            comm.Send(total, rank) if comm.rank == 0 else comm.Recv(total, 0)
    except MPI.Exception:
        return "an error"
""")
star = ringside.run("star.py:star", 8, (10,), failures=Failures(Kill(3, op=1)), check=False)
assert star.values[0] == "an error" and set(star.values[1:]) == {None}
assert "6 of 7 ranks are blocked" in str(star.error)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** *Three* of 16 nodes die at once. Copies are in pairs. With which probability is every state still
# there?
#
# <details><summary>Answer</summary>
#
# There are $\binom{16}{3} = 560$ sets. No pair is in a set if its nodes come from three of the eight pairs, one of
# each: $\binom83 \cdot 2^3 = 448$. So it is 80 %.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert math.comb(16, 3) == 560 and math.comb(8, 3) * 2**3 == 448 and 448 / math.comb(16, 3) == 0.8
assert np.isclose(1 - lost_cases(16, lambda node: node ^ 1, dead=3), 0.80)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** A run has 32 replicas. A restart of all takes 10 minutes, and a broken node is replaced after 4 hours.
# Do you go on with the others or restart with a spare? What if there are 16 replicas?
#
# <details><summary>Answer</summary>
#
# Going on costs $240/32 = 7.5$ minutes of the whole run, less than 10. With 16 replicas it costs 15 minutes, and you
# restart.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [4 * 60 / replicas for replicas in (32, 16)] == [7.5, 15] and 4 * 60 < 10 * 32

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. Llama Team, AI @ Meta. The Llama 3 herd of models. arXiv:2407.21783, 2024. Section 3.3.4 and table 5.
# 2. J. W. Young. A first order approximation to the optimum checkpoint interval. Communications of the ACM 17(9), 1974.
# 3. J. T. Daly. A higher order estimate of the optimum checkpoint interval for restart dumps. Future Generation Computer
#    Systems 22(3), 2006. doi:10.1016/j.future.2004.11.016. Figures 3 to 5.
# 4. Open MPI. User-level fault mitigation. github.com/open-mpi/ompi, docs/features/ulfm.rst.
# 5. Z. Liu, and others. ReCoVer: resilient LLM pre-training system via fault-tolerant collective and versatile workload.
#    arXiv:2605.11215, 2026. Abstract.
# 6. torchft. github.com/meta-pytorch/torchft at commit 7eb70878: torchft/manager.py, torchft/data.py, README.md.
# 7. Gemini Team, Google. Gemini: a family of highly capable multimodal models. arXiv:2312.11805, 2023. On training
#    infrastructure.
# 8. O. Salpekar, R. Varma, K. Yu, V. Ivanov, Y. Wang, A. Sharif, M. Si, S. Xu, F. Tian, S. Zheng, T. Rice, A. Garg, S. Peng,
#    S. Siravara, W. Fu, R. de Castro, A. Gangidi, A. Obraztsov, S. Narang, S. Edunov, M. Naumov, C. Tang, M. Oldham. Training
#    LLMs with fault tolerant HSDP on 100,000 GPUs. arXiv:2602.00277, 2026. Abstract.
# 9. PyTorch. Fault tolerant Llama: training with 2000 synthetic failures every ~15 seconds and no checkpoints on Crusoe L40S.
#    PyTorch blog, 20 June 2025. Run 1.
# 10. Lablup Inc. From detection to recovery: operational analysis on LLM pre-training with 504 GPUs. arXiv:2605.09370, 2026.
#     Abstract.
# 11. MPI Forum. github.com/mpi-forum/mpi-issues, issues 581 (revoke), 582 (agree) and 583 (shrink), with their votes.
# 12. PyTorch 2.13. torch/distributed/run.py, the text at its beginning.
# 13. L. Pasqualin, L. Wright, I. Zhang, C.-C. Huang, S. Sundararaman, S. Gupta, R. Ganti. Reducing model checkpointing times by
#     over 10x with PyTorch distributed asynchronous checkpointing. PyTorch blog, 2024.
# 14. T. Wu, W. Wang, Y. Yu, and others. Greyhound: hunting fail-slows in hybrid-parallel training at scale. USENIX ATC 2025.
#     Abstract.
# 15. PyTorch 2.13. torch/distributed/flight_recorder/components/types.py, class MatchState.
#
# Read next: [8], for how a sum among 100,000 GPUs can go on when one of them is gone; and [9], which is short.
