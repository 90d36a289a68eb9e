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
# # Lecture 10: Pipelines that never drain
#
# A pipeline that updates its weights once a batch has to run empty before each update. Lecture 9
# measured the idle time that this costs, the bubble. The system PipeDream doesn't let the pipeline run
# empty. Each stage updates its weights as soon as it has a gradient, and goes on. Then the stages
# compute with weights of different age. In this lecture you write down exactly what such a pipeline
# computes, how far it can be trusted, and what it costs in memory. You also write the planner with
# which PipeDream cuts a network, and you compare its promises with published measurements.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - say which version of the weights each stage uses for each minibatch, with and without *weight
#   stashing* and *vertical sync*, and write the recursion that the whole pipeline follows;
# - derive the largest learning rate at which this recursion still converges on a quadratic;
# - count the versions that a stage has to keep;
# - cut a network with a dynamic program, replicate its stages, and say which part of the result you
#   can trust;
# - decide when it helps to process messages in the order in which they arrive;
# - explain why most systems flush their pipelines today, and how they fill the bubble instead.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** [Lecture 9](09_pipeline_bubbles.ipynb): stages, schedules as lists of words, 1F1B.
# Section 5 of [lecture 6](06_large_batches_and_asynchrony.ipynb) treats stale gradients; we use its
# result once. From [lecture 3](03_allreduce.ipynb) you need the time of a ring all-reduce.
#
# | sign | meaning |
# |---|---|
# | $S$, $s$ | the number of stages; one stage, $0 \le s < S$ |
# | $N$, $t$ | the number of minibatches; one minibatch, $0 \le t < N$ |
# | $w_s(t)$ | the weights of stage $s$ after $t$ updates: their *version* $t$ |
# | $\eta$ | the learning rate |
# | $t_f$, $t_b$ | the time of a forward and of a backward pass through a stage: 1 ms and 2 ms |
# | $m$ | the number of replicas of a stage |
# | $\beta'$ | the bandwidth of a link, in bytes per second |
#
# A **minibatch** is what one update is made from. A pipeline with a flush cuts it into microbatches. An
# asynchronous pipeline doesn't: it sends whole minibatches, one behind the other.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** Two meetings of 75 minutes: sections 1 to 6, and sections 7 to 12. In one meeting
# teach 2, 3, 5, 7 and 10. Before section 3 let the class write the version numbers into the timeline of
# section 2 by hand. It takes five minutes, and without it nobody believes the formula.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import guess, reveal
from ringside.lectures import Knob, explore, puzzle, show, table

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#e69f00", "#009e73", "#7f7f7f"

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"]
# ## 1. The problem: 553 MB on a slow network
#
# The authors of PipeDream trained VGG-16 on 16 GPUs in four servers. The servers were connected by 10
# Gb/s [1]. Their profile of the network is public [2]: for each layer the time of a minibatch of 128
# pictures, the bytes of its output, and the bytes of its parameters.

# %% slideshow={"slide_type": "fragment"}
profile = table(LECTURES / "data" / "pipedream_vgg16.csv")
work_ms = profile["forward_ms"] + profile["backward_ms"]
parameter_MB = profile["parameter_bytes"] / 1e6
output_MB = profile["activation_bytes"] / 1e6
for name, ms, out, own in zip(profile["layer"], work_ms, output_MB, parameter_MB):
    print(f"{name:8} {ms:6.1f} ms   hands on {out:7.1f} MB   parameters {own:6.1f} MB")
print(f"all      {work_ms.sum():6.1f} ms{parameter_MB.sum():42.1f} MB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# One GPU needs 672.5 ms for a minibatch. With data parallelism all 16 GPUs sum 553.4 MB of gradients
# after each step. A ring all-reduce sends $2\frac{15}{16}$ times as much from each rank, over links of
# 1.25 GB/s.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(work_ms.sum(), 1) == 672.5 and round(parameter_MB.sum(), 1) == 553.4
assert 10e9 / 8 == 1.25e9 and 128 * 3 * 224 * 224 * 4 == 77_070_336

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("10/all-reduce", "How long does the all-reduce take, if nothing disturbs it?", unit="ms")

# %% slideshow={"slide_type": "fragment"}
SLOW = 1.25e9  # bytes per second: 10 Gb/s
all_reduce_ms = 2 * 15 / 16 * parameter_MB.sum() * 1e6 / SLOW * 1e3
print(f"{all_reduce_ms:.0f} ms of communication for {work_ms.sum():.0f} ms of work")
in_classifier = parameter_MB[-3:].sum() / parameter_MB.sum()
in_work = work_ms[-3:].sum() / work_ms.sum()
print(f"fc6 to fc8: {in_classifier:.1%} of the parameters, {in_work:.1%} of the work")
reveal("10/all-reduce", all_reduce_ms)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The all-reduce takes **830 ms**, more than the work. And nearly all of it is for three layers: `fc6` to
# `fc8` hold 89.4 % of the parameters and do 1.5 % of the work. So 16 copies of these layers are a bad
# idea. One GPU could do them for all others, as the last stage of a pipeline. The gradients of these
# layers would then never travel at all.
#
# Three questions follow. How does a pipeline run without a bubble (sections 2 to 6)? Who decides where to
# cut, and how often to copy a stage (sections 7 and 8)? And did it work (section 8)? The 830 ms come back
# in section 13.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(all_reduce_ms) == 830
assert round(in_classifier, 3) == 0.894 and round(in_work, 3) == 0.015

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. Leave the flush out
#
# Recall 1F1B from lecture 9. Stage $s$ begins with $S - s$ forward passes. Then it alternates one
# backward and one forward pass. With a flush, this ends after $M$ microbatches: the pipeline runs empty,
# all stages update, and it fills again. Now let it go on. The list of words of a stage has no end but
# that of the training.


# %% slideshow={"slide_type": "fragment"}
def endless(num_stages, num_minibatches):
    """The 1F1B words of each stage, for all minibatches, without a flush."""
    lists = []
    for stage in range(num_stages):
        ahead = min(num_stages - stage, num_minibatches)
        words = [f"F{t}" for t in range(ahead)]
        for t in range(num_minibatches):
            words.append(f"B{t}")
            if t + ahead < num_minibatches:
                words.append(f"F{t + ahead}")
        lists.append(" ".join(words))
    return lists


for stage, words in enumerate(endless(3, 5)):
    print(f"stage {stage}  {words}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# As in lecture 9, a small program moves the traffic of any such list, and messages are free.

# %% slideshow={"slide_type": "fragment"}
# %%writefile flow.py
import numpy as np
from mpi4py import MPI

import ringside

STEP = {"F": 1, "B": -1}  # to the next stage, or back; a word of another kind stays here


def run(comm, words, milliseconds):
    """Do what a stage's list says; a word takes its kind's time, or its own if it has one."""
    going, packet, box = [], np.zeros(8, np.uint8), np.zeros(8, np.uint8)
    for word in words[comm.rank].split():
        step, number = STEP.get(word[0], 0), int(word[1:])
        if step and 0 <= comm.rank - step < comm.size:
            comm.Recv(box, comm.rank - step, number)
        takes = milliseconds.get((comm.rank, word), milliseconds.get(word[0]))
        ringside.compute(seconds=takes / 1e3, phase=word)
        if step and 0 <= comm.rank + step < comm.size:
            going.append(comm.Isend(packet, comm.rank + step, number))
    MPI.Request.Waitall(going)


# %% slideshow={"slide_type": "fragment"}
free = ringside.Machine.load("textbook").with_(
    name="free messages",
    alpha_s=0.0,
    beta_s_per_byte=0.0,
    eager_threshold_bytes=2**30,  # a message leaves at once
    flop_per_s=1e24,  # only what the programs declare takes time
    memory_bytes_per_s=1e24,
)
session = ringside.Session(Path.cwd())  # keeps its processes from one run to the next


def flow(words, milliseconds={"F": 1.0, "B": 2.0}, machine=free):
    """Move the traffic of a list of words for each stage."""
    args = (words, milliseconds)
    return session.call("flow:run", len(words), args, machine=machine).raise_for_error()


# %% [markdown] slideshow={"slide_type": "fragment"}
# With a flush after every 8 microbatches, 8 such batches on 4 stages take $8\,(8+3) \cdot 3 = 264$ ms.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("10/no-flush", "Without a flush, how long do the same 64 passes through 4 stages take?",
      unit="ms")  # fmt: skip

# %% slideshow={"slide_type": "slide"} tags=["ranks"]
batch = flow(endless(4, 8))
without = flow(endless(4, 64))
print(f"with a flush {8 * batch.makespan_s * 1e3:.0f} ms, without {without.makespan_s * 1e3:.0f} ms")
reveal("10/no-flush", 1e3 * without.makespan_s)

# %% slideshow={"slide_type": "fragment"}
flow(endless(4, 10)).timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. Ten minibatches on four stages, without a flush.*
#
# They take 201 ms, which is $(N + S - 1)(t_f + t_b)$ with $N = 64$. **The bubble is paid once in a
# training run, not once in a batch.** It hasn't gone: the pipeline still fills at the start and drains at
# the end. But a run has thousands of minibatches.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(8 * batch.makespan_s, 264e-3) and np.isclose(without.makespan_s, 201e-3)
assert np.isclose(without.makespan_s, (64 + 3) * 3e-3)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. What a stale stage computes
#
# When does a stage update its weights? PipeDream does it after each backward pass [1]. So look at the
# list of stage 0 of three: `F0 F1 F2 B0 F3 B1 F4 ...`. After `B0` the stage has made one update. So `F3`
# runs with version 1, although minibatches 1 and 2 haven't come back yet.
#
# In general stage $s$ runs `F`$t$ after `B` of minibatch $t - (S - s)$. By then it has made $t - (S-s) +
# 1$ updates. So the forward pass of minibatch $t$ uses version
#
# $$v_s(t) = \max\bigl(0,\; t - (S - 1 - s)\bigr).$$
#
# The last stage uses the newest version, $t$. The stage before it is one update behind, and stage 0 is $S
# - 1$ updates behind. Count it in the list:


# %% slideshow={"slide_type": "fragment"}
def versions_in(words):
    """For each minibatch: the updates made before its forward pass, and before its backward pass."""
    updates, forward, backward = 0, {}, {}
    for word in words.split():
        if word[0] == "F":
            forward[int(word[1:])] = updates
        else:
            backward[int(word[1:])] = updates
            updates += 1
    return forward, backward


for stage, words in enumerate(endless(3, 7)):
    forward, backward = versions_in(words)
    print(f"stage {stage}: forward {list(forward.values())}, backward {list(backward.values())}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The table shows the trouble. On stage 0 minibatch 4 goes forward with version 2, but when its gradient
# comes back the stage is at version 4. Which version should the backward pass use?

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for S in (1, 2, 3, 5):
    for s, words in enumerate(endless(S, 9)):
        forward, backward = versions_in(words)
        assert all(forward[t] == max(0, t - (S - 1 - s)) for t in range(9))
        assert all(backward[t] == t for t in range(9))
forward, backward = versions_in(endless(3, 7)[0])
assert (forward[4], backward[4]) == (2, 4)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# **A chain of numbers.** Take the smallest network that shows it. Stage $s$ holds one number $w_s$ and
# computes $y = w_s\,x$. The input is 1, so the output is the product of all weights, and the loss is
#
# $$f(w_0, \dots, w_{S-1}) = \tfrac12 (w_{S-1} \cdots w_1 w_0 - g)^2$$
#
# with a goal $g$. Let $e$ be the output minus $g$. The gradient for $w_0$ is $e\,w_{S-1} \cdots w_1$:
# each stage multiplies what comes back by *its own weight* and passes it on.
#
# With $S = 3$, let stage 1 go forward with an old weight $w_1$ and backward with a newer one, $w_1'$. Then
# stage 0 gets
#
# $$e\,w_2\,w_1' \qquad\text{where}\qquad \frac{\partial f}{\partial w_0} = e\,w_2\,w_1 .$$
#
# The error $e$ belongs to the old weight and the factor to the new one. **This is the gradient of no
# function at no point.** It isn't a gradient that comes late. It is a wrong one.

# %% slideshow={"slide_type": "fragment"}
w0, w1, w2, newer, goal = 1.2, 0.8, 1.1, 0.5, 2.0
e = w2 * w1 * w0 - goal
tiny = 1e-6
shifted = 0.5 * (w2 * w1 * (w0 + tiny) - goal) ** 2
slope = (shifted - 0.5 * e**2) / tiny
print(f"by finite differences {slope:.4f}")
print(f"with the same version {e * w2 * w1:.4f}, with a newer one {e * w2 * newer:.4f}")
assert np.isclose(slope, e * w2 * w1, rtol=1e-4) and abs(e * w2 * newer / slope - 1) > 0.3

# %% [markdown] slideshow={"slide_type": "slide"}
# **Weight stashing.** The cure is simple. Each stage keeps the version that a forward pass used until the
# backward pass of the same minibatch. This is called **weight stashing** [1]. For example, stage 0 of 3
# keeps version 2 for minibatch 4, while it goes on to version 3 and 4. The update itself goes to the newest
# version: what is old is the gradient, not the weights that it changes.
#
# Now we can write down what the whole pipeline computes. The gradient of minibatch $t$ is the true
# gradient of its loss $f_t$, at a point whose components have different ages:
#
# $$w(t+1) = w(t) - \eta\,\nabla f_t\bigl(w_0(t-S+1),\; w_1(t-S+2),\; \dots,\; w_{S-1}(t)\bigr).$$
#
# (PipeDream's paper counts stages from 1 [1]. Below version 0 there is nothing, so read $w_s(\max(0,
# \cdot))$.) You could run this recursion in one process, without any pipeline. That makes it a test:

# %% slideshow={"slide_type": "fragment"}
STASH = "stash"
VERTICAL = "vertical"


def delayed(which, w, rate, goals):
    """All versions of the chain's weights by the recursion, in one process."""
    weights = [np.array(w, dtype=float)]
    S = len(w)
    for t, goal in enumerate(goals):
        oldest = t - S + 1
        ages = [oldest + s if which == STASH else oldest for s in range(S)]
        at = np.array([weights[max(0, age)][s] for s, age in enumerate(ages)])
        error = at.prod() - goal
        weights.append(weights[-1] - rate * error * at.prod() / at)
    return np.array(weights)


# %% [markdown] slideshow={"slide_type": "fragment"}
# (`at.prod() / at` holds, for each stage, the product of all *other* weights.) The second variant is
# explained below.
#
# **On ranks.** Two helpers move a number between neighbours. Beyond the ends of the pipeline there is
# nobody: the first stage gets the input, and the last one its own error.

# %% slideshow={"slide_type": "fragment"}
# %%writefile neighbours.py
import numpy as np


def take(comm, source, tag, otherwise):
    """Receive a number; where there is no such stage, take the other value."""
    if not 0 <= source < comm.size:
        return otherwise
    number = np.empty(1)
    comm.Recv(number, source, tag)
    return number[0]


def pass_on(comm, number, dest, tag):
    """Start to send a number, if there is such a stage; the requests, at most one."""
    exists = 0 <= dest < comm.size
    return [comm.Isend(np.array([number]), dest, tag)] if exists else []


# %% [markdown] slideshow={"slide_type": "subslide"}
# In `PICK` you see three rules. Each says with which version minibatch `t` goes forward, on a stage
# that has made `now` updates.

# %% slideshow={"slide_type": "fragment"}
# %%writefile chain.py
import ringside
from mpi4py import MPI
from neighbours import pass_on, take

PICK = {
    "newest": lambda t, now, num_stages: now,
    "stash": lambda t, now, num_stages: now,
    "vertical": lambda t, now, num_stages: max(0, t - num_stages + 1),
}


class Stage:
    def __init__(self, comm, w, which):
        self.comm, self.which = comm, which
        self.weights = [w]  # every version, for the lecture to look at
        self.version_of = {}  # minibatch under way -> the version that it uses
        self.came_in, self.went_out, self.most = {}, {}, 1
        self.sent = []


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a chain.py


def forward(stage, t):
    comm, now = stage.comm, len(stage.weights) - 1
    x = take(comm, comm.rank - 1, t, 1.0)
    ringside.compute(seconds=1e-3, phase=f"F{t}")
    version = PICK[stage.which](t, now, comm.size)
    stage.version_of[t], stage.came_in[t] = version, x
    stage.went_out[t] = stage.weights[version] * x
    stage.sent += pass_on(comm, stage.went_out[t], comm.rank + 1, t)
    oldest = min(stage.version_of.values())
    stage.most = max(stage.most, now - oldest + 1)


# %% [markdown] slideshow={"slide_type": "fragment"}
# `most` counts the versions from the oldest that is still needed to the newest.

# %% slideshow={"slide_type": "fragment"}
# %%writefile -a chain.py


def backward(stage, t, rate, goal):
    comm, y = stage.comm, stage.went_out.pop(t)
    slope = take(comm, comm.rank + 1, t, y - goal)  # the last stage: the error
    ringside.compute(seconds=2e-3, phase=f"B{t}")
    version = stage.version_of.pop(t)
    w = stage.weights[-1 if stage.which == "newest" else version]
    stage.sent += pass_on(comm, slope * w, comm.rank - 1, t)
    stage.weights.append(stage.weights[-1] - rate * slope * stage.came_in.pop(t))


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a chain.py


def train(comm, words, w, rate, goals, which):
    stage = Stage(comm, w[comm.rank], which)
    for kind, t in [(word[0], int(word[1:])) for word in words[comm.rank].split()]:
        if kind == "F":
            forward(stage, t)
        else:
            backward(stage, t, rate, goals[t])
    MPI.Request.Waitall(stage.sent)
    return stage.weights, stage.most


# %% slideshow={"slide_type": "slide"}
rng = np.random.default_rng(10)
start = [1.3, 0.7, 1.1, 0.9]
goals = 2.0 + 0.3 * rng.normal(size=40)


def chain(which, rate=0.05, w=start, goals=goals):
    """Run the chain on ranks: all versions, (updates + 1, stages), and the most that were kept."""
    args = (endless(len(w), len(goals)), w, rate, goals, which)
    run = session.call("chain:train", len(w), args, machine=free).raise_for_error()
    weights, most = zip(*run.values)
    return np.array(weights).T, list(most)


stashed, kept = chain("stash")
print(f"largest difference {np.abs(stashed - delayed(STASH, start, 0.05, goals)).max():.1e}")
np.testing.assert_allclose(stashed, delayed(STASH, start, 0.05, goals), rtol=0, atol=1e-12)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Forty minibatches on four ranks follow the recursion to rounding. So the order of messages, the speed of
# the GPUs and the network change *when* something is computed, but not *what*. An asynchronous pipeline
# with stashing is as repeatable as a synchronous one. The parameter server of lecture 6 isn't: there the
# delay depends on who is fast.

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** A version is a tensor of its own with `requires_grad`. Autograd keeps the tensors
# that a forward pass used, so the graph of a minibatch *is* its stash. An optimizer that changes weights in
# place would destroy it, and torch would refuse the backward pass. So make a new tensor in each update.

# %% slideshow={"slide_type": "fragment"}
# %%writefile chain_torch.py
import torch
import torch.distributed as dist

LONG = {"dtype": torch.float64}


def forward(group, t, w):
    """The input and the output of the stage, with the graph between them."""
    x = torch.ones(1, requires_grad=True, **LONG)
    if group.rank() > 0:
        dist.recv(x.data, group.rank() - 1, tag=t)
    y = w * x
    if group.rank() < group.size() - 1:
        dist.isend(y.detach(), group.rank() + 1, tag=t)
    return x, y, w


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a chain_torch.py


def train(group, words, w, rate, goals):
    rank, under_way = group.rank(), {}
    newest = torch.tensor([w[rank]], requires_grad=True, **LONG)
    for kind, t in [(word[0], int(word[1:])) for word in words[rank].split()]:
        if kind == "F":
            under_way[t] = forward(group, t, newest)
            continue
        x, y, used = under_way.pop(t)
        slope = y.detach() - goals[t]
        if rank < group.size() - 1:
            dist.recv(slope, rank + 1, tag=t)
        grad_x, grad_w = torch.autograd.grad(y, (x, used), slope)
        if rank > 0:
            dist.isend(grad_x, rank - 1, tag=t)
        newest = (newest.detach() - rate * grad_w).requires_grad_()
    return newest.item()


# %% slideshow={"slide_type": "fragment"}
args = (endless(4, 40), start, 0.05, list(goals))
in_torch = ringside.run("chain_torch.py:train", 4, args, machine=free).values
print(np.round(in_torch, 6))
np.testing.assert_allclose(in_torch, stashed[-1], rtol=1e-12)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Vertical sync.** With stashing a minibatch sees different versions on different stages. If you want one
# version for all of them, let stage 0 decide. It uses version $t - S + 1$ for minibatch $t$, and tells the
# number to the stages behind it. They use the same one, although they have newer weights. This is called
# **vertical sync** [1]:
#
# $$w(t+1) = w(t) - \eta\,\nabla f_t\bigl(w(t-S+1)\bigr).$$
#
# It is SGD with a constant delay of $S - 1$ updates, as in lecture 6.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("10/kept-vertical", "Stashing keeps 4, 3, 2 and 1 versions on four stages. How many does the last "
      "stage keep with vertical sync?", unit="versions")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
vertical, kept_vertical = chain("vertical")
np.testing.assert_allclose(vertical, delayed(VERTICAL, start, 0.05, goals), rtol=0, atol=1e-12)
print(f"stashing keeps {kept} versions, vertical sync {kept_vertical}")
reveal("10/kept-vertical", kept_vertical[-1])

# %% [markdown] slideshow={"slide_type": "fragment"}
# With stashing, stage $s$ keeps at most $S - s$ versions, one for each minibatch that is in flight there.
# With vertical sync every stage keeps $S$. The last stage has version $t$ when minibatch $t$ arrives, and
# the minibatch asks for version $t - S + 1$.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert kept == [4, 3, 2, 1] and kept_vertical == [4, 4, 4, 4]
for S in (1, 2, 3):
    assert chain("stash", w=start[:S])[1] == list(range(S, 0, -1))
    assert chain("vertical", w=start[:S])[1] == [S] * S
assert chain("stash", goals=goals[:2])[1][0] <= 2  # fewer minibatches than stages

# %% [markdown] slideshow={"slide_type": "slide"}
# **What each of them converges to.** Four variants on the same minibatches: synchronous SGD, stashing,
# vertical sync, and the newest weights in the backward pass.

# %% slideshow={"slide_type": "fragment"}
def synchronous(w, rate, goals):
    """Plain SGD: each gradient at the newest weights."""
    weights = [np.array(w, dtype=float)]
    for goal in goals:
        w = weights[-1]
        weights.append(w - rate * (w.prod() - goal) * w.prod() / w)
    return np.array(weights)


paths = {
    "synchronous": synchronous(start, 0.05, goals),
    "stashing": stashed,
    "vertical sync": vertical,
    "newest in backward": chain("newest")[0],
}

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(8.5, 3.3), layout="constrained")
for (name, weights), color in zip(paths.items(), (GRAY, BLUE, ORANGE, "#cc79a7")):
    style = "--" if name == "newest in backward" else "-"
    axis.plot(weights.prod(axis=1), style, color=color, label=name, linewidth=1.8)
axis.axhline(2.0, color="k", linewidth=0.6, linestyle=":")
axis.set(xlabel="updates", ylabel="product of the weights", xlim=(0, 40))
axis.legend(frameon=False, ncols=2, loc="lower right")
show(figure, "The product of four weights over 40 updates, from 0.9. Synchronous SGD rises to about 2 and stays; "
     "stashing, and newest weights almost on top of it, overshoot once; vertical sync swings up and down.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. The chain's output over the updates. The goal is 2 (dotted), with noise.*
#
# Stashing overshoots to 2.57 and then settles. Vertical sync, which looks tidier, swings up to 3.31 and
# hasn't settled after 40 updates. Section 4 explains why.
#
# The wrong program is nearly on top of stashing. Old and new weights hardly differ at a small rate. That
# makes the mistake dangerous: it doesn't show in a loss curve, and only the recursion finds it.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
peak = {name: weights.prod(axis=1).max() for name, weights in paths.items()}
last = {name: weights.prod(axis=1)[-8:].mean() for name, weights in paths.items()}
assert round(peak["stashing"], 2) == 2.57 and round(peak["vertical sync"], 2) == 3.31
assert abs(last["stashing"] - 2) < 0.1 < 0.5 < abs(last["vertical sync"] - 2)
assert 1e-3 < np.abs(paths["newest in backward"] - stashed).max() < 0.1

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers** (35 minutes for sections 2 and 3). The usual error is to say "stage 0 uses weights that
# are old". Stage 0 always goes forward with the newest weights that it has. They are old only in
# comparison with the minibatches that are already under way. Ask who is *ahead* of whom.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. How fast may it learn?
#
# A quadratic shows it exactly. Let the stages *add* instead of multiply. The output is the sum of all
# weights, and the loss is $\frac a2 (w_0 + \dots + w_{S-1} - g)^2$ with a curvature $a$. All stages get the
# same gradient. So if they start equal they stay equal, and $w_s(t) = u(t)$ for all $s$. Without staleness
#
# $$u(t+1) = u(t) - \eta a\,\bigl(S\,u(t) - g\bigr),$$
#
# which converges for $\eta a S < 2$. Let $k = \eta a S$ be this product. With vertical sync $u(t)$ on the
# right becomes $u(t-S+1)$. That is a constant delay of $S - 1$, and lecture 6 has the limit:
#
# $$k < 2 \sin\frac{\pi}{2\,(2S-1)}.$$

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Stashing.** Now each stage has its own delay, from $S - 1$ down to 0. Take away the fixed point, so that
# $g = 0$:
#
# $$u(t+1) = u(t) - \frac kS \bigl(u(t) + u(t-1) + \dots + u(t-S+1)\bigr).$$
#
# Put $u(t) = z^t$, and sum the geometric series:
#
# $$z^{S-1}(z-1) = -\frac kS\,\frac{z^S-1}{z-1}
# \qquad\Longrightarrow\qquad z^{S-1}(z-1)^2 = -\frac kS\,(z^S - 1).$$
#
# At the limit of stability a solution sits on the unit circle, at $z = e^{i\theta}$. There $z - 1 = 2i
# \sin\frac\theta2\, e^{i\theta/2}$, and likewise $z^S - 1 = 2i \sin\frac{S\theta}2\, e^{iS\theta/2}$. So
#
# $$-4 \sin^2\tfrac\theta2\; e^{iS\theta} = -\frac kS\; 2i \sin\tfrac{S\theta}2\; e^{iS\theta/2}
# \qquad\Longrightarrow\qquad 2 \sin^2\tfrac\theta2\; e^{iS\theta/2} = \frac kS\; i \sin\tfrac{S\theta}2 .$$
#
# The right side is purely imaginary. So the left side must be, too, which means $S\theta/2 = \pi/2$ for the
# smallest $\theta$. Then $\sin\frac{S\theta}2 = 1$, and
#
# $$k < 2S \sin^2\frac{\pi}{2S}.$$
#
# For $S = 1$ this is 2, as it must be.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("10/two-stages", "Two stages with stashing: what is the limit of k? Without staleness it is 2.",
      unit="")  # fmt: skip


# %% slideshow={"slide_type": "fragment"}
def limits(S):
    """The largest k that converges: with stashing, and with vertical sync."""
    return 2 * S * np.sin(np.pi / (2 * S)) ** 2, 2 * np.sin(np.pi / (2 * (2 * S - 1)))


def largest_root(delays, k):
    """The largest |z| of u(t+1) = u(t) - k mean of u(t - delay)."""
    equation = np.zeros(max(delays) + 2)
    equation[:2] = 1, -1
    for delay in delays:
        equation[1 + delay] += k / len(delays)
    return np.abs(np.roots(equation)).max()


for S in (1, 2, 4, 8, 16):
    print(f"S = {S:2}: stashing {limits(S)[0]:.3f}, vertical sync {limits(S)[1]:.3f}")
reveal("10/two-stages", limits(2)[0])

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for S in (1, 2, 3, 4, 8, 16):
    for limit, delays in zip(limits(S), (range(S), [S - 1])):
        assert largest_root(list(delays), 0.999 * limit) < 1 + 1e-9
        assert largest_root(list(delays), 1.001 * limit) > 1 + 1e-6
assert np.isclose(limits(1)[0], 2) and np.isclose(limits(1)[1], 2)

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(8, 3.4), layout="constrained")
deep = np.arange(1, 33)
both = np.array([limits(S) for S in deep])
axis.plot(deep, 2 + 0 * deep, color=GRAY, label="synchronous")
axis.plot(deep, both[:, 0], "o-", color=BLUE, markersize=3, label="stashing")
axis.plot(deep, both[:, 1], "o-", color=ORANGE, markersize=3, label="vertical sync")
axis.set(xscale="log", yscale="log", xlabel="stages S", ylabel="largest k = rate x curvature x S")
axis.set_xticks([1, 2, 4, 8, 16, 32], [1, 2, 4, 8, 16, 32])
axis.set_yticks([0.05, 0.1, 0.2, 0.5, 1, 2], ["0.05", "0.1", "0.2", "0.5", "1", "2"])
axis.minorticks_off()
axis.legend(frameon=False)
show(figure, "The largest stable product of rate and curvature over the number of stages, both axes logarithmic: "
     "2 without staleness; stashing stays at 2 for two stages and then falls like 1/S; vertical sync lies below "
     "it, by a factor that grows to about 3.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. The largest learning rate (times curvature and $S$) that converges on a quadratic.*
#
# Two stages with stashing have the same limit as none: 2. With many stages the limits fall like
# $\frac{\pi^2}{2S} = 4.93/S$ with stashing and $\frac{\pi}{2S} = 1.57/S$ with vertical sync. **So stashing
# allows a rate that is up to $\pi$ times larger.** The mean delay is half as long, and the part of the
# gradient that isn't late damps the swing. Since vertical sync also keeps more versions, you rarely want
# it. PipeDream leaves it off by default [1].
#
# The limit falls with the number of *stages*, not with the number of GPUs. PipeDream's plans are short (15-1
# has two stages), so their staleness is small. That is a reason why its accuracy held.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(limits(2)[0], 2) and round(np.pi**2 / 2, 2) == 4.93 and round(np.pi / 2, 2) == 1.57
assert np.isclose(1000 * limits(1000)[0], np.pi**2 / 2, rtol=1e-2)
assert np.isclose(1000 * limits(1000)[1], np.pi / 2, rtol=1e-2)
assert all(one / other <= np.pi for one, other in map(limits, range(1, 200)))

# %% [markdown] slideshow={"slide_type": "slide"}
# **Turn the knobs.** One coordinate of the quadratic, from 1, with the limits of the formulas.


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
def swing(k, stages):
    u = {"stashing": [1.0] * stages, "vertical sync": [1.0] * stages}
    for _ in range(60):
        for name, history in u.items():
            late = history[-stages:] if name == "stashing" else history[-stages:][:1]
            history.append(history[-1] - k * np.mean(late))
    figure, axis = plt.subplots(figsize=(7.5, 2.6), layout="constrained")
    for (name, history), color in zip(u.items(), (BLUE, ORANGE)):
        axis.plot(history[stages - 1 :], color=color, label=name)
    axis.set(xlabel="updates", ylabel="weight", ylim=(-2, 2), title=f"k = {k}, {stages} stages")
    axis.legend(frameon=False, loc="upper right")
    plt.close(figure)
    return figure


explore(swing, "The weight over 60 updates for k = {k} and {stages} stages, with stashing and with vertical "
        "sync: it decays below the limit of each, and swings with growing size above.",
        k=Knob([0.2, 0.4, 0.6, 1.0, 1.3], start=0.6, label="k"),
        stages=Knob([2, 4, 8], start=4, label="stages"))  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. One weight under both rules. With 4 stages and $k = 0.6$ stashing converges, and vertical sync
# grows without bound.*

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert limits(4)[1] < 0.6 < limits(4)[0]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. The memory of versions
#
# Let a model of $\Psi$ parameters be cut into $S$ equal stages, with $w$ bytes for a parameter. Stage $s$
# keeps $S - s$ versions of $\Psi/S$ parameters. For stage 0 that is
#
# $$S \cdot \frac{\Psi}{S}\,w = \Psi w.$$
#
# **However many stages there are, stage 0 holds as many bytes of weights as a GPU that holds the whole
# model.** And it holds activations of $S$ minibatches, as in 1F1B. But there they were *micro*batches.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("10/stash-memory", "A model of 1.65 billion parameters in 16 bits, on 4 equal stages. How much do the "
      "versions of stage 0 take?", unit="GB")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
from ringside.lectures.ledger import num_parameters

psi = num_parameters()  # the course's GPT
versions_GB = {}
for S in (1, 4, 8):
    versions_GB[S] = [(S - s) * psi / S * 2 / 1e9 for s in range(S)]
    print(f"{S} stages: " + ", ".join(f"{gb:.2f}" for gb in versions_GB[S]) + " GB of versions")
reveal("10/stash-memory", versions_GB[4][0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# On 4 stages it is 3.30 GB for stage 0 and 0.83 GB for the last one, and 3.30 GB for stage 0 of 8 again.
# Gradients and the optimizer's state exist once only, since there is one newest version. So with Adam in
# mixed precision stage 0 of 4 needs $16\,\Psi/S = 6.6$ GB, and 2.5 GB more for the three older versions.
#
# **Forward and backward of one minibatch need the same version, and nothing more.** A stage may share what
# is equal: a layer that hasn't been updated since needs no copy. Each version must be an array of its own. If
# the update changes the array in place, all versions are the same one, and the program computes what
# Figure 2 calls "newest in backward".

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(psi / 1e9, 2) == 1.65 and round(versions_GB[4][0], 1) == 3.3
assert f"{versions_GB[4][0]:.2f}" == f"{versions_GB[8][0]:.2f}" == "3.30"
assert round(versions_GB[4][-1], 2) == 0.83 and round(16 * psi / 4 / 1e9, 1) == 6.6
assert round(3 * psi / 4 * 2 / 1e9, 1) == 2.5

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. Two versions are enough: 2BW
#
# Why are there so many versions? Because there is one for each minibatch. **PipeDream-2BW** makes fewer
# [3]. It sums the gradients of $m \ge S$ *micro*batches before it makes an update, as a flushing pipeline does, but
# it doesn't drain. Microbatches that are under way finish with the old version. All microbatches of a batch
# use the version before the newest, which all stages have by then:
#
# $$w(t+1) = w(t) - \eta\,\nabla f_t\bigl(w(t-1)\bigr).$$
#
# Here $t$ counts batches. The delay is 1, for every stage and every $S$. So a stage keeps two versions (2BW:
# two buffers of weights). By lecture 6, a constant delay of 1 converges for $k < 2 \sin \frac{\pi}{6} = 1$.

# %% slideshow={"slide_type": "fragment"}
text = Path("chain.py").read_text()
text = text.replace('"newest":', '"2bw": lambda t, now, num_stages: max(0, t // num_stages - 1),\n    "newest":')
one_update = "stage.weights.append(stage.weights[-1] - rate * slope * stage.came_in.pop(t))"
collect = """stage.total += slope * stage.came_in.pop(t) / comm.size
    if (t + 1) % comm.size == 0:  # a batch is as many microbatches as there are stages
        stage.weights.append(stage.weights[-1] - rate * stage.total)
        stage.total = 0.0"""
text = text.replace(one_update, collect).replace("self.sent = []", "self.sent, self.total = [], 0.0")
Path("double.py").write_text(text)

args = (endless(4, 40), start, 0.05, goals, "2bw")
double = session.call("double:train", 4, args, machine=free).raise_for_error()
print("versions kept:", [most for _, most in double.values])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Two on every stage. The cell below checks the weights against the recursion. There is no bubble either: the
# list of words is the same as before.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
weights = [np.array(start)]
for batch_goals in goals.reshape(-1, 4):
    at = weights[max(0, len(weights) - 2)]
    gradient = np.mean([(at.prod() - goal) * at.prod() / at for goal in batch_goals], axis=0)
    weights.append(weights[-1] - 0.05 * gradient)
on_ranks = np.array([values for values, _ in double.values]).T
np.testing.assert_allclose(on_ranks, weights, rtol=0, atol=1e-12)
assert [most for _, most in double.values] == [2, 2, 2, 2]
assert np.isclose(2 * np.sin(np.pi / 6), 1) and np.isclose(double.makespan_s, (40 + 3) * 3e-3)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers** (35 minutes for sections 4 to 6). If the class knows no complex numbers, skip the algebra and
# use Figure 4. Ask before Figure 3: "Which is better for the accuracy, one delay for all or the least delay for
# each?" Most vote for the tidy one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. Where to cut, and what to copy
#
# Back to VGG-16. A pipeline is as fast as its slowest stage. You have two means. You can move a cut, and
# you can **replicate** a stage: $m$ GPUs hold the same layers and take the minibatches in turn. Minibatch $t$
# goes to replica $t \bmod m$, forward *and* backward, since that replica has the stash. The replicas sum their
# gradients, as in data parallelism. So "15-1" means a first stage with 15 replicas and a second stage with one
# GPU.
#
# Here is a small case: two stages, of which the first takes three times as long. Three replicas make it as fast
# as the second stage.

# %% slideshow={"slide_type": "fragment"}
# %%writefile copies.py
import numpy as np
from mpi4py import MPI

import ringside


def run(comm, words, milliseconds):
    """All ranks but the last share stage 0; minibatch t belongs to rank t modulo their number."""
    box, last, sent = np.zeros(8, np.uint8), comm.size - 1, []
    for word in words[comm.rank].split():
        kind, t = word[0], int(word[1:])
        partner = t % last if comm.rank == last else last
        receives = (kind == "F") == (comm.rank == last)
        if receives:
            comm.Recv(box, partner, t)
        ringside.compute(seconds=milliseconds[comm.rank][kind] / 1e3, phase=word)
        if not receives:
            sent.append(comm.Isend(np.zeros(8, np.uint8), partner, t))
    MPI.Request.Waitall(sent)


# %% slideshow={"slide_type": "fragment"}
replica = "F{} F{} B{} F{} B{} F{} B{} B{}"
shared = [replica.format(r, r + 3, r, r + 6, r + 3, r + 9, r + 6, r + 9) for r in range(3)]
single = " ".join(f"F{t} B{t}" for t in range(12))
milliseconds = [{"F": 3.0, "B": 6.0}] * 3 + [{"F": 1.0, "B": 2.0}]
args = ([*shared, single], milliseconds)
copies = session.call("copies:run", 4, args, machine=free).raise_for_error()
print(f"12 minibatches: {copies.makespan_s * 1e3:.0f} ms")
copies.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. A plan "3-1": ranks 0 to 2 are replicas of the first stage, rank 3 is the second stage.*
#
# One GPU would take 144 ms for the 12 minibatches. The plan takes 45 ms: 3 ms for each, and 9 ms to fill and
# drain. Each replica has two minibatches in flight. PipeDream calls this number NOAM. It is the number of GPUs
# divided by the replicas of the first stage, rounded up [1]: here $\lceil 4/3 \rceil = 2$.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(copies.makespan_s, 45e-3) and 12 * (9 + 3) == 144 and 12 * 3 + 9 == 45
assert -(-4 // 3) == 2

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# **The time of a stage.** Let a stage hold layers $i$ to $j$ on $m$ GPUs. Together they finish $m$
# minibatches in the time that one of them needs for its own, so long as the gradients are summed meanwhile.
# PipeDream writes [1]
#
# $$T(i..j, m) = \frac1m \max\Bigl(\sum_{l=i}^{j} (t_f + t_b)_l,\;\; \frac{2\,(m-1)}{\beta'} \sum_{l=i}^{j} |w_l|\Bigr)$$
#
# with $|w_l|$ the bytes of a layer's parameters. (The second term is generous. We come back to it.)
#
# **The time of a pipeline.** Let $A(j, m)$ be the shortest time per minibatch for layers 0 to $j$ on $m$ GPUs. Its
# last stage has layers $i+1$ to $j$ on $m'$ GPUs. What comes before it is again a pipeline, for layers 0 to $i$ on $m - m'$
# GPUs, and the best one will do. Between them the output of layer $i$, $a_i$ bytes, crosses the cut, and its
# gradient comes back. The slowest of the three sets the rate:
#
# $$A(j, m) = \min\Bigl(T(0..j, m),\;\; \min_{i,\,m'} \max\bigl(A(i, m-m'),\; 2a_i/\beta',\; T(i{+}1..j, m')\bigr)\Bigr).$$
#
# It is a *dynamic program*: fill a table from few layers and few GPUs to many. Each entry uses entries that
# are there already.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **By hand.** Three layers take 6, 3 and 1 ms and have 0.5, 1 and 10 MB of parameters. Each of the first two hands on 1 MB. There
# are 3 GPUs, and 1 MB takes 1 ms. The table $A(j, m)$ is
#
# | | 1 GPU | 2 GPUs | 3 GPUs |
# |---|---|---|---|
# | layer 0 | 6 | 3 | 2 |
# | layers 0, 1 | 9 | 4.5 | 3 |
# | layers 0, 1, 2 | 10 | 6 | ? |
#
# Take the 6 in the last row. Two replicas of everything would take $\frac12 \max(10, 2 \cdot 11.5) = 11.5$. With a
# cut behind layer 0 there are 6 ms before the cut, $2 \cdot 1$ ms on the wire, and 4 ms behind it. The slowest
# takes 6.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("10/by-hand", "Fill in the last entry: three layers on three GPUs.", unit="ms")


# %% slideshow={"slide_type": "fragment"}
def stage_ms(work, own, m, wire, ring=False, hidden=True):
    """Milliseconds a minibatch of a stage on m GPUs. wire: MB that a link moves in a millisecond."""
    exchange = 2 * (m - 1) * own / wire
    if ring:
        exchange /= m
    return (max(work, exchange) if hidden else work + exchange) / m


# %% slideshow={"slide_type": "fragment"}
def best_plan(layers, gpus, wire, **rule):
    """(ms, [(first layer, layer after the last, replicas), ...]) for layers of (ms, out MB, own MB)."""
    found = {}
    for end in range(1, len(layers) + 1):
        for m in range(1, gpus + 1):
            found[end, m] = min(options(layers, end, m, found, wire, rule), key=lambda option: option[0])
    return found[len(layers), gpus]


def options(layers, end, m, found, wire, rule):
    """Every way to place the layers before `end` on m GPUs, by the place of the last cut."""
    for cut in range(end):
        work, own = (sum(layer[k] for layer in layers[cut:end]) for k in (0, 2))
        for copies in range(1, m) if cut else [m]:
            before, stages = found[cut, m - copies] if cut else (0.0, [])
            crossing = 2 * layers[cut - 1][1] / wire if cut else 0.0
            own_ms = stage_ms(work, own, copies, wire, **rule)
            yield max(before, crossing, own_ms), [*stages, (cut, end, copies)]


# %% slideshow={"slide_type": "fragment"}
small = [(6, 1, 0.5), (3, 1, 1), (1, 1, 10)]
for end in (1, 2, 3):
    print([round(best_plan(small[:end], m, wire=1.0)[0], 2) for m in (1, 2, 3)])
print(best_plan(small, 3, wire=1.0))
reveal("10/by-hand", best_plan(small, 3, wire=1.0)[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# The best plan is 2-1: two replicas of layer 0, and one GPU for layers 1 and 2. It takes 4 ms. Two replicas of
# layers 0 *and* 1 would do all the slow work together, but they take 4.5 ms. Equal layers, one for each GPU, take 6 ms, and data
# parallelism takes 15.3 ms.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [[round(best_plan(small[:e], m, 1.0)[0], 2) for m in (1, 2)] for e in (1, 2, 3)] == [
    [6, 3], [9, 4.5], [10, 6]]  # fmt: skip
assert best_plan(small, 3, 1.0) == (4.0, [(0, 1, 2), (1, 3, 1)])
assert [best_plan(small[:e], 3, 1.0)[0] for e in (1, 2)] == [2, 3]
assert round(stage_ms(10, 11.5, 3, 1.0), 1) == 15.3 and stage_ms(10, 11.5, 2, 1.0) == 11.5
assert max(stage_ms(9, 1.5, 2, 1.0), 2, 1) == 4.5
