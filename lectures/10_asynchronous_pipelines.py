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
# *You read this unit by yourself. No meeting teaches it. It is for you if you choose its modules, or if
# section 11 of lecture 9 made you curious. Sections 2 to 6 belong together, and so do sections 7 and 8; you
# can read section 9 alone.*
#
# A pipeline that updates its weights once a batch has to run empty (*flush*) before each update. Lecture 9
# measured the idle time that this costs, the bubble. The system PipeDream (2019) doesn't flush. Each stage
# updates its weights as soon as it has a gradient, and goes on. So the stages compute with weights of
# different age. In this lecture you write down exactly what such a pipeline computes, how far you can trust
# it, and what it costs in memory. You also write the planner with which PipeDream cuts a network, and you
# compare its promises with published measurements.

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
# - explain why most systems flush their pipelines today.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** [Lecture 9](09_pipeline_bubbles.ipynb): stages, schedules as lists of actions,
# 1F1B. Section 4 of [lecture 6](06_large_batches_and_asynchrony.ipynb) treats stale gradients; you
# need its result in sections 4 and 6. From [lecture 3](03_allreduce.ipynb) you need the time of a
# ring all-reduce.
#
# **How to read.** Predict before each run, as in a meeting, and do the puzzles where you meet their subject:
# the first after section 3, the second after section 7.
#
# | sign | meaning |
# |---|---|
# | $S$, $s$ | the number of stages; one stage, $0 \le s < S$ |
# | $N$, $t$ | the number of minibatches; one minibatch, $0 \le t < N$ |
# | $w_s(t)$ | the weights of stage $s$ after $t$ updates: their *version* $t$ |
# | $\eta$, $\lambda$ | the learning rate; the curvature of a loss |
# | $t_f$, $t_b$ | the time of a forward and of a backward pass through a stage: 1 ms and 2 ms |
# | $M$ | the number of microbatches in a batch |
# | $m$ | the number of replicas of a stage |
# | $\beta'$ | the bandwidth of a link, in bytes per second |
#
# A **minibatch** is what one update is made from. A pipeline with a flush cuts it into
# microbatches, and as in lecture 9 we then call it a batch. An asynchronous pipeline sends whole
# minibatches, one behind the other.

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** No meeting teaches this unit. It is for those who choose its modules, and for your evenings.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** If you teach it in a seminar, take sections 2, 3, 5, 7 and 10. Before section 3 let the
# class write the version numbers into the timeline of section 2 by hand. It takes five minutes, and without
# it nobody believes the formula.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import guess, reveal
from ringside.course.lectures import Knob, explore, puzzle, show, table

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
quoted = table(LECTURES / "data" / "asynchronous_systems.csv")
stated = dict(zip(quoted["what"], quoted["value"]))  # single numbers that papers state
BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#e69f00", "#009e73", "#7f7f7f"

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"]
# ## 1. The problem: 553 MB on a slow network
#
# Why would you leave data parallelism? The authors of PipeDream (2019) trained VGG-16 on 16 GPUs in four
# servers, over a network of 10 Gb/s [1]. Their profile of VGG-16 is public [2]. For each layer you find the time
# of a minibatch of 128 images, the bytes of its output, and the bytes of its parameters.

# %% slideshow={"slide_type": "fragment"}
profile = table(LECTURES / "data" / "pipedream_vgg16.csv")
work_ms = profile["forward_ms"] + profile["backward_ms"]
parameter_MB = profile["parameter_bytes"] / 1e6
output_MB = profile["activation_bytes"] / 1e6
for name, ms, out, own in zip(profile["layer"], work_ms, output_MB, parameter_MB):
    print(f"{name:8} {ms:6.1f} ms   hands on {out:7.1f} MB   parameters {own:6.1f} MB")
print(f"all      {work_ms.sum():6.1f} ms{parameter_MB.sum():42.1f} MB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# One of your GPUs needs 672.5 ms for a minibatch. With data parallelism all 16 of them all-reduce 553.4 MB of
# gradients after each step. In a ring each rank sends $2 \cdot \frac{15}{16}$ times that many bytes, over links
# of 1.25 GB/s.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(work_ms.sum(), 1) == 672.5 and round(parameter_MB.sum(), 1) == 553.4
side, nbytes = 224, 4
images = 77_070_336 / (3 * side**2 * nbytes)  # the input's bytes, by the profile
assert images == 128

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("10/all-reduce", "How long does the all-reduce take, if nothing disturbs it?", unit="ms")

# %% slideshow={"slide_type": "fragment"}
GBIT = {"A": 10, "B": 25}  # between the servers of the paper's two clusters, per second
SLOW = GBIT["A"] / 8 * 1e9  # bytes per second
all_reduce_ms = 2 * 15 / 16 * parameter_MB.sum() * 1e6 / SLOW * 1e3
print(f"{all_reduce_ms:.0f} ms of communication for {work_ms.sum():.0f} ms of work")
in_classifier = parameter_MB[-3:].sum() / parameter_MB.sum()
in_work = work_ms[-3:].sum() / work_ms.sum()
print(f"fc6 to fc8: {in_classifier:.1%} of the parameters, {in_work:.1%} of the work")
reveal("10/all-reduce", all_reduce_ms)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The all-reduce takes **830 ms**, more than the work. You pay nearly all of it for three layers, because
# `fc6` to `fc8` hold 89.4 % of the parameters. They do 1.5 % of the work. So let one GPU compute them for all
# others, as the last stage of a pipeline. Then their gradients never travel at all.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Three questions follow. How does a pipeline run without a bubble (sections 2 to 6)? Who decides
# where to cut, and how often to copy a stage (sections 7 and 8)? And did it work (section 8)? The
# all-reduce comes back in section 13.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(all_reduce_ms) == 830 and SLOW / 1e9 == 1.25
assert round(in_classifier, 3) == 0.894 and round(in_work, 3) == 0.015

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. Leave the flush out
#
# Recall 1F1B from lecture 9. Stage $s$ begins with $S - s$ forward passes. Then it alternates one
# backward and one forward pass. With a flush, this ends after $M$ microbatches: the pipeline runs
# empty, all stages update, and the pipeline fills again. What if you let it go on? Then a stage's list of
# actions ends only when the training ends.


# %% slideshow={"slide_type": "fragment"}
def endless(num_stages, num_minibatches):
    """Each stage's 1F1B actions, for all minibatches, without a flush."""
    lists = []
    for stage in range(num_stages):
        ahead = min(num_stages - stage, num_minibatches)
        actions = [f"F{t}" for t in range(ahead)]
        for t in range(num_minibatches):
            actions.append(f"B{t}")
            if t + ahead < num_minibatches:
                actions.append(f"F{t + ahead}")
        lists.append(" ".join(actions))
    return lists


for stage, actions in enumerate(endless(3, 5)):
    print(f"stage {stage}  {actions}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# As in lecture 9, a small program moves the traffic of any such list by P2P sends and receives, and messages
# are free. (Lecture 9 has it in torch, too.)

# %% slideshow={"slide_type": "fragment"}
# %%writefile flow.py
import numpy as np
from mpi4py import MPI

import ringside

STEP = {"F": 1, "B": -1}  # to the next stage, or back; other actions stay here


def run(comm, actions, milliseconds):
    """Do what a stage's list says; an action takes its kind's time, or its own if it has one."""
    going, packet, box = [], np.zeros(8, np.uint8), np.zeros(8, np.uint8)
    for action in actions[comm.rank].split():
        step, number = STEP.get(action[0], 0), int(action[1:])
        if step and 0 <= comm.rank - step < comm.size:
            comm.Recv(box, comm.rank - step, number)
        takes = milliseconds.get((comm.rank, action), milliseconds.get(action[0]))
        ringside.compute(seconds=takes / 1e3, phase=action)
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


MILLISECONDS = {"F": 1.0, "B": 2.0}


def flow(actions, milliseconds=MILLISECONDS, machine=free):
    """Move the traffic of each stage's list of actions."""
    args = (actions, milliseconds)
    return session.call("flow:run", len(actions), args, machine=machine).raise_for_error()


# %% [markdown] slideshow={"slide_type": "fragment"}
# With a flush after every 8 microbatches, 8 such batches on 4 stages take
# $8\,(8+3) \cdot 3 = 264$ ms.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("10/no-flush", "Without a flush, how long do the same 64 passes through 4 stages take?",
      unit="ms")  # fmt: skip

# %% slideshow={"slide_type": "slide"}
batch = flow(endless(4, 8))
without = flow(endless(4, 64))
flushing_ms = 8 * batch.makespan_s * 1e3
print(f"with a flush {flushing_ms:.0f} ms, without {1e3 * without.makespan_s:.0f} ms")
reveal("10/no-flush", 1e3 * without.makespan_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without a flush each of the 64 passes is a minibatch of its own. They take 201 ms, which is
# $(N + S - 1)(t_f + t_b)$. **You pay the bubble once in a training run, not once in a batch.** It hasn't gone,
# since the pipeline still fills at the start and drains at the end. But a run has thousands of minibatches.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(8 * batch.makespan_s, 264e-3) and np.isclose(without.makespan_s, 201e-3)
assert np.isclose(without.makespan_s, (64 + 3) * 3e-3)

# %% slideshow={"slide_type": "fragment"}
flow(endless(4, 10)).timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. Ten minibatches on four stages, without a flush.*

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. What a stale stage computes
#
# When does a stage update its weights? PipeDream does it after each backward pass [1]. So look at
# the list of stage 0 of three: `F0 F1 F2 B0 F3 B1 F4 ...`. After `B0` the stage has made one
# update. So `F3` runs with version 1, although minibatches 1 and 2 haven't come back yet.
#
# In general stage $s$ runs `F`$t$ after `B` of minibatch $t - (S - s)$. By then it has made
# $t - (S-s) + 1$ updates. So the forward pass of minibatch $t$ uses version
#
# $$v_s(t) = \max\bigl(0,\; t - (S - 1 - s)\bigr).$$
#
# The last stage uses version $t$, which has all updates of the minibatches before. The stage
# before it lacks one of them, and stage 0 lacks $S-1$ of them. Count the updates in the list:


# %% slideshow={"slide_type": "fragment"}
def versions_in(actions):
    """For each minibatch: the updates made before its forward pass, and before its backward pass."""
    updates, forward, backward = 0, {}, {}
    for action in actions.split():
        if action[0] == "F":
            forward[int(action[1:])] = updates
        else:
            backward[int(action[1:])] = updates
            updates += 1
    return forward, backward


for stage, actions in enumerate(endless(3, 7)):
    forward, backward = versions_in(actions)
    print(f"stage {stage}: forward {list(forward.values())}, backward {list(backward.values())}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# You see the trouble in the output. On stage 0 minibatch 4 goes forward with version 2, but when its
# gradient comes back the stage is at version 4. Which version should the backward pass use?

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for S in (1, 2, 3, 5):
    for s, actions in enumerate(endless(S, 9)):
        forward, backward = versions_in(actions)
        assert all(forward[t] == max(0, t - (S - 1 - s)) for t in range(9))
        assert all(backward[t] == t for t in range(9))
forward, backward = versions_in(endless(3, 7)[0])
assert (forward[4], backward[4]) == (2, 4)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# **A chain of numbers.** Take the smallest network that shows it. Stage $s$ holds one number
# $w_s$ and computes $y = w_s\,x$. The input is 1, so the output is the product of all weights,
# and the loss is
#
# $$f(w_0, \dots, w_{S-1}) = \tfrac12 (w_{S-1} \cdots w_1 w_0 - g)^2$$
#
# with a goal $g$. Let $\delta$ be the output minus $g$. The gradient for $w_0$ is
# $\delta\,w_{S-1} \cdots w_1$, because each stage multiplies what comes back by *its own weight* and passes
# it on.
#
# With $S = 3$, let stage 1 go forward with an old weight $w_1$ and backward with a newer one,
# $w_1'$. Then stage 0 gets
#
# $$\delta\,w_2\,w_1' \qquad\text{where}\qquad \frac{\partial f}{\partial w_0} = \delta\,w_2\,w_1 .$$
#
# The error $\delta$ belongs to the old weight, and the factor to the new one. **This is the gradient
# neither at the old weights nor at the new ones.** It doesn't only come late. It is wrong.

# %% slideshow={"slide_type": "fragment"}
w0, w1, w2, newer, goal = 1.2, 0.8, 1.1, 0.5, 2.0
delta = w2 * w1 * w0 - goal
tiny = 1e-6
shifted = 0.5 * (w2 * w1 * (w0 + tiny) - goal) ** 2
slope = (shifted - 0.5 * delta**2) / tiny
print(f"by finite differences {slope:.4f}")
print(f"with the same version {delta * w2 * w1:.4f}, with a newer one {delta * w2 * newer:.4f}")
assert np.isclose(slope, delta * w2 * w1, rtol=1e-4)
assert abs(delta * w2 * newer / slope - 1) > 0.3

# %% [markdown] slideshow={"slide_type": "slide"}
# **Weight stashing.** In PipeDream each stage keeps the version that a forward pass used until the backward
# pass of the same minibatch [1]. For example, stage 0 of 3 keeps version 2 for minibatch 4, while it goes on to
# versions 3 and 4. The stage applies the update to its newest version. So the gradient is old, but the weights
# that it changes are not.
#
# Now you can write down what the whole pipeline computes. The gradient of minibatch $t$ is the true
# gradient of its loss $f_t$, at a point whose components have different ages:
#
# $$w(t+1) = w(t) - \eta\,\nabla f_t\bigl(w_0(t-S+1),\; w_1(t-S+2),\; \dots,\; w_{S-1}(t)\bigr).$$
#
# (PipeDream's paper counts stages from 1 [1]. Below version 0 there is nothing, so read
# $w_s(\max(0, \cdot))$.) You could run this recursion in one process, without any pipeline. That
# makes it a test:

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
# (`at.prod() / at` holds, for each stage, the product of all *other* weights.) The second variant
# is explained below.
#
# **On ranks.** Two helpers send and receive a number between neighbours. At the ends of the pipeline the
# first stage takes the input, and the last one its own error.

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
# In `PICK` you see three rules. Each says with which version minibatch `t` goes forward, on a
# stage that has made `now` updates. (`newest` goes forward as `stash` does. It differs in the
# backward pass, where it takes the newest version.)

# %% slideshow={"slide_type": "fragment"}
# %%writefile chain.py
from mpi4py import MPI
from neighbours import pass_on, take

import ringside

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


def train(comm, actions, w, rate, goals, which):
    stage = Stage(comm, w[comm.rank], which)
    for kind, t in [(action[0], int(action[1:])) for action in actions[comm.rank].split()]:
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
# Your forty minibatches on four ranks follow the recursion to rounding. So the order of messages, the
# speed of the GPUs and the network change *when* something is computed, but not *what*. An
# asynchronous pipeline with stashing is as repeatable as a synchronous one. The parameter server
# of lecture 6 isn't, because there the delay depends on which worker is fast.

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** A version is a tensor of its own with `requires_grad`. Autograd keeps the
# tensors that a forward pass used, so the graph of a minibatch *is* its stash. An optimizer that
# changes weights in place would destroy it, and torch would refuse the backward pass. So make a
# new tensor in each update.

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


def train(group, actions, w, rate, goals):
    rank, under_way = group.rank(), {}
    newest = torch.tensor([w[rank]], requires_grad=True, **LONG)
    for kind, t in [(action[0], int(action[1:])) for action in actions[rank].split()]:
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


# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
args = (endless(4, 40), start, 0.05, list(goals))
in_torch = ringside.run("chain_torch.py:train", 4, args, machine=free).values
print(np.round(in_torch, 6))
np.testing.assert_allclose(in_torch, stashed[-1], rtol=1e-12)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Vertical sync.** With stashing a minibatch sees different versions on different stages. If you
# want one version for all of them, let stage 0 decide. It uses version $t - S + 1$ for minibatch
# $t$, and tells the number to the stages after it. They use the same version, although they have
# newer weights. This is called **vertical sync** [1]:
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
# With stashing, stage $s$ keeps at most $S - s$ versions, one for each minibatch that is in flight there. With
# vertical sync every stage keeps $S$, so your last of four stages keeps 4: when minibatch $t$ arrives, the stage
# has version $t$, and the minibatch asks for version $t - S + 1$.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert kept == [4, 3, 2, 1] and kept_vertical == [4, 4, 4, 4]
for S in (1, 2, 3):
    assert chain("stash", w=start[:S])[1] == list(range(S, 0, -1))
    assert chain("vertical", w=start[:S])[1] == [S] * S
assert chain("stash", goals=goals[:2])[1][0] <= 2  # fewer minibatches than stages

# %% [markdown] slideshow={"slide_type": "slide"}
# **What does each of them converge to?** Run four variants on the same minibatches: synchronous SGD,
# stashing, vertical sync, and the newest weights in the backward pass.


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
# Stashing overshoots to 2.57 and then settles. Vertical sync, which looks tidier, swings up to
# 3.31 and hasn't settled after 40 updates. Section 4 explains why.
#
# And the wrong program? You find "newest in backward" nearly on top of stashing, because old and new weights
# hardly differ at a small rate. So the mistake is dangerous: you can't see it in a loss curve, and only the
# recursion finds it.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
peak = {name: weights.prod(axis=1).max() for name, weights in paths.items()}
last = {name: weights.prod(axis=1)[-8:].mean() for name, weights in paths.items()}
assert round(peak["stashing"], 2) == 2.57 and round(peak["vertical sync"], 2) == 3.31
assert abs(last["stashing"] - 2) < 0.1 < 0.5 < abs(last["vertical sync"] - 2)
assert 1e-3 < np.abs(paths["newest in backward"] - stashed).max() < 0.1

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, sections 2 and 3.** The usual error is to say "stage 0 uses
# weights that are old". Stage 0 always goes forward with the newest weights that it has. They are
# old only in comparison with the minibatches that are already under way. Ask who is *ahead* of
# whom.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. How fast may it learn?
#
# How large a learning rate can you take, if gradients come late? On a quadratic loss you can compute it exactly.
# Let the stages *add* instead of multiply. The output is the sum of all weights, and the loss is
# $\frac \lambda2 (w_0 + \dots + w_{S-1} - g)^2$ with a curvature $\lambda$. All stages get the same gradient.
# So if they start equal they stay equal, and one number $u(t)$ stands for all $w_s(t)$.
#
# **Synchronous SGD.** Each update uses the newest weights:
#
# $$u(t+1) = u(t) - \eta \lambda\,\bigl(S\,u(t) - g\bigr).$$
#
# It converges for $k < 2$, where $k = \eta \lambda S$.
#
# **Vertical sync.** The $u(t)$ on the right becomes $u(t-S+1)$, which is a constant delay of $S - 1$ updates.
# Lecture 6 has the limit:
#
# $$k < 2 \sin\frac{\pi}{2\,(2S-1)}.$$

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Stashing.** Now each stage has its own delay, from $S - 1$ down to 0. Measure $u$ from its
# fixed point $g/S$, so that $g$ drops out:
#
# $$u(t+1) = u(t) - \frac kS \bigl(u(t) + u(t-1) + \dots + u(t-S+1)\bigr).$$
#
# *Step 1: an equation for growth.* Put $u(t) = z^t$, divide by $z^{t-S+1}$, and sum the geometric series:
#
# $$z^{S-1}(z-1) = -\frac kS\,\frac{z^S-1}{z-1}
# \qquad\Longrightarrow\qquad z^{S-1}(z-1)^2 = -\frac kS\,(z^S - 1).$$
#
# (The last step adds a root at $z = 1$, which doesn't count.) All solutions die out if every root
# has $|z| < 1$, which holds for a small $k$, as in lecture 6.
#
# *Step 2: the limit.* There a root sits on the unit circle, at $z = e^{i\theta}$. So
# $z - 1 = 2i \sin\frac\theta2\, e^{i\theta/2}$ and
# $z^S - 1 = 2i \sin\frac{S\theta}2\, e^{iS\theta/2}$. Put both in:
#
# $$-4 \sin^2\tfrac\theta2\; e^{iS\theta} = -\frac kS\; 2i \sin\tfrac{S\theta}2\; e^{iS\theta/2}
# \qquad\Longrightarrow\qquad 2 \sin^2\tfrac\theta2\; e^{iS\theta/2} = \frac kS\; i \sin\tfrac{S\theta}2 .$$
#
# *Step 3: compare the two sides.* The right one is purely imaginary, so the left one must be, too. The smallest
# $\theta$ with this property has $S\theta/2 = \pi/2$, and it gives the smallest $k$. Then
# $\sin\frac{S\theta}2 = 1$, and the recursion converges for
#
# $$k < 2S \sin^2\frac{\pi}{2S}.$$
#
# Check it for $S = 1$: one stage has no delay, and the limit is 2.

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
     f"2 without staleness; stashing has {limits(2)[0]:g} with two stages and then falls like 1/S; vertical sync "
     "lies below it, by a factor that grows to about 3.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("10/two-stages", limits(2)[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. The largest learning rate (times curvature and $S$) that converges on a quadratic.*
#
# What does staleness cost you?
#
# | | two stages | many stages |
# |---|---|---|
# | synchronous | 2 | 2 |
# | stashing | 2 | $\frac{\pi^2}{2S} = 4.93/S$ |
# | vertical sync | 1 | $\frac{\pi}{2S} = 1.57/S$ |
#
# **So stashing allows you a rate that is up to $\pi$ times larger.** Its mean delay is half as long, and the
# stages whose gradient isn't late damp the swing. Since vertical sync also keeps more versions, you rarely want
# it. In PipeDream it is optional [1].
#
# The limit falls with the number of *stages*, not with the number of GPUs. If your plan has few stages, each on
# many GPUs, it has little staleness. Section 7 makes such plans.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.allclose(limits(2), (2, 1))
assert round(np.pi**2 / 2, 2) == 4.93 and round(np.pi / 2, 2) == 1.57
assert np.isclose(1000 * limits(1000)[0], np.pi**2 / 2, rtol=1e-2)
assert np.isclose(1000 * limits(1000)[1], np.pi / 2, rtol=1e-2)
assert all(one / other <= np.pi for one, other in map(limits, range(1, 200)))

# %% [markdown] slideshow={"slide_type": "slide"}
# **Turn the sliders.** Follow one weight of the quadratic, from 1, under both rules.


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
# *Figure 4. One weight under both rules. With 4 stages and $k = 0.6$ stashing converges, and
# vertical sync grows without bound.*

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert limits(4)[1] < 0.6 < limits(4)[0]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. The memory of versions
#
# What does a version cost? Cut a model of $\Psi$ parameters into $S$ equal stages, with $b$ bytes for a
# parameter. Stage $s$ keeps $S - s$ versions of $\Psi/S$ parameters. It also holds the activations of $S - s$
# minibatches, where 1F1B with a flush holds those of $S - s$ *micro*batches.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("10/stash-memory", "A model of 1.65 billion parameters in 16 bits, on 4 equal stages. How much do the "
      "versions of stage 0 take?", unit="GB")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
from ringside.course.lectures.ledger import num_parameters

psi = num_parameters()  # the course's GPT
versions_GB = {}
for S in (1, 4, 8):
    versions_GB[S] = [(S - s) * psi / S * 2 / 1e9 for s in range(S)]
    print(f"{S} stages: " + ", ".join(f"{gb:.2f}" for gb in versions_GB[S]) + " GB of versions")
reveal("10/stash-memory", versions_GB[4][0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Stage 0 keeps $S$ versions of $\Psi/S$ parameters, which take
#
# $$S \cdot \frac{\Psi}{S}\,b = \Psi b.$$
#
# **However many stages there are, stage 0 holds as many bytes of weights as a GPU that holds the
# whole model.** Gradients and the optimizer's state exist only once, since there is one newest version. So with
# Adam in mixed precision (16 bytes for a parameter, lecture 7) your 4 stages need:
#
# | | stage 0 | stage 3 |
# |---|---|---|
# | $16\,\Psi/S$ | 6.6 GB | 6.6 GB |
# | older versions | 2.5 GB | |
# | all versions of the weights | 3.30 GB | 0.83 GB |

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Forward and backward of one minibatch need the same version, and nothing more.** Two versions
# may share a layer that hasn't changed between them. But an update must write to a new array. If
# it changes the array in place, all versions are the same one, and the program computes what
# Figure 2 calls "newest in backward".

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(psi / 1e9, 2) == 1.65 and round(versions_GB[4][0], 1) == 3.3
assert f"{versions_GB[4][0]:.2f}" == f"{versions_GB[8][0]:.2f}" == "3.30"
assert round(versions_GB[4][-1], 2) == 0.83 and round(16 * psi / 4 / 1e9, 1) == 6.6
assert round(3 * psi / 4 * 2 / 1e9, 1) == 2.5

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. Two versions are enough: 2BW
#
# Why are there so many versions? Because each minibatch makes one. **PipeDream-2BW** (2021) makes fewer [3]. It
# accumulates the gradients of $M \ge S$ *micro*batches before it makes an update, as a pipeline with a flush
# does, but it doesn't drain. When batch $t$ enters, the last microbatches of batch $t - 1$ are still in flight,
# so stage 0 doesn't have version $t$ yet. But every stage has version $t - 1$ in time, and all microbatches of
# batch $t$ use it, forward and backward:
#
# $$w(t+1) = w(t) - \eta\,\nabla f_t\bigl(w(t-1)\bigr).$$
#
# Here $t$ counts batches. The delay is 1, for every stage and every $S$, so a stage keeps two versions (2BW
# stands for double-buffered weights). By lecture 6, a constant delay of 1 converges for
# $k < 2 \sin \frac{\pi}{6} = 1$. In the next cell you change `chain.py`: `PICK` gets a fourth rule, and a stage
# accumulates the gradients of four microbatches before it updates.

# %% slideshow={"slide_type": "fragment"}
text = Path("chain.py").read_text()
rule = '"2bw": lambda t, now, num_stages: max(0, t // num_stages - 1),'
text = text.replace('"newest":', rule + '\n    "newest":')
one_update = "stage.weights.append(stage.weights[-1] - rate * slope * stage.came_in.pop(t))"
collect = """stage.total += slope * stage.came_in.pop(t) / comm.size
    if (t + 1) % comm.size == 0:  # a batch is as many microbatches as there are stages
        stage.weights.append(stage.weights[-1] - rate * stage.total)
        stage.total = 0.0"""
text = text.replace(one_update, collect)
Path("double.py").write_text(text.replace("self.sent = []", "self.sent, self.total = [], 0.0"))

args = (endless(4, 40), start, 0.05, goals, "2bw")
double = session.call("double:train", 4, args, machine=free).raise_for_error()
print("versions kept:", [most for _, most in double.values])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Every stage keeps two versions, and the cell below checks the weights against the recursion. Your lists of
# actions are the same as before, so you pay the bubble once in the run here, too.

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
# **For teachers, sections 4 to 6.** If the class knows no complex numbers, skip
# the algebra and use Figure 4. Ask before Figure 3: "Which is better for the accuracy, one delay
# for all or the least delay for each?" Most vote for the tidy one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. Where to cut, and what to copy
#
# Back to VGG-16. Your pipeline is as fast as its slowest stage. What can you do about that? You can move a cut,
# and you can **replicate** the stage: $m$ GPUs hold the same layers and take the minibatches in turn. Minibatch
# $t$ goes to replica $t \bmod m$, forward *and* backward, since that replica has the stash. The replicas average
# their gradients, as in data parallelism, so such a stage makes one update from $m$ minibatches.
#
# A plan is named by its replicas: "3-1" has a first stage on three GPUs and a second stage on one. Run it for two
# stages of which the first takes three times as long. Three replicas should make it as fast as the second.

# %% slideshow={"slide_type": "fragment"}
# %%writefile copies.py
import numpy as np
from mpi4py import MPI

import ringside


def run(comm, actions, milliseconds):
    """All ranks but the last share stage 0; minibatch t belongs to rank t modulo their number."""
    box, last, sent = np.zeros(8, np.uint8), comm.size - 1, []
    for action in actions[comm.rank].split():
        kind, t = action[0], int(action[1:])
        partner = t % last if comm.rank == last else last
        receives = (kind == "F") == (comm.rank == last)
        if receives:
            comm.Recv(box, partner, t)
        ringside.compute(seconds=milliseconds[comm.rank][kind] / 1e3, phase=action)
        if not receives:
            sent.append(comm.Isend(np.zeros(8, np.uint8), partner, t))
    MPI.Request.Waitall(sent)


# %% slideshow={"slide_type": "fragment"} known={"10/by-hand": "a time of another plan"}
replica = "F{} F{} B{} F{} B{} F{} B{} B{}"
shared = [replica.format(r, r + 3, r, r + 6, r + 3, r + 9, r + 6, r + 9) for r in range(3)]
single = " ".join(f"F{t} B{t}" for t in range(12))
milliseconds = [{"F": 3.0, "B": 6.0}] * 3 + [{"F": 1.0, "B": 2.0}]
args = ([*shared, single], milliseconds)
copies = session.call("copies:run", 4, args, machine=free).raise_for_error()
print(f"12 minibatches: {copies.makespan_s * 1e3:.0f} ms")
copies.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. A plan "3-1": ranks 0 to 2 are replicas of the first stage, rank 3 is the second
# stage.*
#
# One GPU would take 144 ms for your 12 minibatches. The plan takes 45 ms, because one of them is done every 3 ms,
# after 9 ms to fill and drain. How many minibatches are in flight on a replica? Two, which PipeDream calls NOAM,
# the optimal number of active minibatches: the number of GPUs divided by the replicas of the first stage, rounded
# up [1].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(copies.makespan_s, 45e-3) and 12 * (9 + 3) == 144 and 12 * 3 + 9 == 45
assert -(-len(args[0]) // len(shared)) == 2

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# **How long does a stage take?** Let it hold layers $i$ to $j$ on $m$ GPUs. In one round each GPU works on a
# minibatch of its own, and meanwhile the gradients are all-reduced. The longer of the two sets the time of the
# round, and a round finishes $m$ minibatches. So PipeDream writes for the time per minibatch [1]
#
# $$T(i..j, m) = \frac1m \max\Bigl(\sum_{l=i}^{j} (t_f + t_b)_l,\;\; \frac{2\,(m-1)}{\beta'} \sum_{l=i}^{j} |w_l|\Bigr)$$
#
# with $|w_l|$ the bytes of a layer's parameters. (The second term is larger than a ring needs.
# Section 8 comes back to it.)
#
# **How long does a pipeline take?** Let $A(j, m)$ be the shortest time per minibatch for layers 0 to $j$ on $m$
# GPUs. Look at its last cut, behind layer $i$, with $m'$ GPUs behind it. Three things take time:
#
# | part | time per minibatch |
# |---|---|
# | before the cut: the best pipeline for layers 0 to $i$ | $A(i, m - m')$ |
# | P2P at the cut: $a_i$ bytes of activations, and as many of gradients | $2a_i/\beta'$ |
# | behind the cut: one stage with layers $i+1$ to $j$ | $T(i{+}1..j, m')$ |
#
# The slowest of the three sets the rate. You choose the cut, or none:
#
# $$A(j, m) = \min\Bigl(T(0..j, m),\;\; \min_{i,\,m'} \max\bigl(A(i, m-m'),\; 2a_i/\beta',\; T(i{+}1..j, m')\bigr)\Bigr).$$
#
# You compute it by a *dynamic program*: fill a table from few layers and few GPUs to many. Each entry uses
# entries that are there already.

# %% [markdown] slideshow={"slide_type": "subslide"} known={"10/by-hand": "a part of the entry for 2 GPUs"}
# **By hand.** You have 3 GPUs and three layers, and 1 MB takes 1 ms on a link:
#
# | layer | work | parameters | output |
# |---|---|---|---|
# | 0 | 6 ms | 0.5 MB | 1 MB |
# | 1 | 3 ms | 1 MB | 1 MB |
# | 2 | 1 ms | 10 MB | |
#
# The table $A(j, m)$, in ms, is
#
# | | 1 GPU | 2 GPUs | 3 GPUs |
# |---|---|---|---|
# | layer 0 | 6 | 3 | 2 |
# | layers 0, 1 | 9 | 4.5 | 3 |
# | layers 0, 1, 2 | 10 | 6 | ? |
#
# Where does the 6 in the last row come from? Compare your three choices for two GPUs:
#
# | cut | before | P2P | behind | slowest |
# |---|---|---|---|---|
# | none, two replicas | | | | $\frac12 \max(10, 2 \cdot 11.5) = 11.5$ |
# | behind layer 0 | 6 | 2 | 4 | 6 |
# | behind layer 1 | 9 | 2 | 1 | 9 |

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
    """(ms, [(first layer, layer after the last, replicas)]); a layer is (ms, out MB, own MB)."""
    found = {}
    for end in range(1, len(layers) + 1):
        for m in range(1, gpus + 1):
            ways = options(layers, end, m, found, wire, rule)
            found[end, m] = min(ways, key=lambda way: way[0])  # the first of equal ones
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
# Your best plan is 2-1, which takes 4 ms. Compare it with the others:
#
# | plan | ms |
# |---|---|
# | 2-1: two replicas of layer 0, then layers 1 and 2 | 4 |
# | 2-1: two replicas of layers 0 and 1, then layer 2 | 4.5 |
# | 1-1-1: a layer on each GPU | 6 |
# | 3: data parallelism | 15.3 |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [[round(best_plan(small[:e], m, 1.0)[0], 2) for m in (1, 2)] for e in (1, 2, 3)] == [
    [6, 3], [9, 4.5], [10, 6]]  # fmt: skip
assert best_plan(small, 3, 1.0) == (4.0, [(0, 1, 2), (1, 3, 1)])
assert [best_plan(small[:e], 3, 1.0)[0] for e in (1, 2)] == [2, 3]
assert round(stage_ms(10, 11.5, 3, 1.0), 1) == 15.3 and stage_ms(10, 11.5, 2, 1.0) == 11.5
assert max(stage_ms(9, 1.5, 2, 1.0), 2, 1) == 4.5
assert (max(6, 2, 3 + 1), max(6 + 3, 2, 1)) == (6, 9)  # two GPUs, cut behind layer 0 or 1

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers** (half an hour for section 7). Let pairs fill the table with pencil. Two errors
# are common: to *add* the times of the stages, and to forget the factor $1/m$. Both give plans
# that look reasonable.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 8. VGG-16: the plan is right, the speed is not
#
# Does your planner find the plan that was used? Give it the profile of section 1 and 16 GPUs. The paper reports
# the plans of two clusters [1]. Cluster A has servers of 4 GPUs and 10 Gb/s between them. Cluster B has servers
# of 8 GPUs and 25 Gb/s.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("10/plan", "Which plan does the dynamic program choose for VGG-16 on 16 GPUs, at 1.25 GB/s?",
      choices=["16 (data parallelism)", "15-1", "12-3-1", "8-8", "4-4-4-4"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
layers = list(zip(work_ms.tolist(), output_MB.tolist(), parameter_MB.tolist()))
BANDWIDTHS = [0.3, 0.5, 0.8, 1.25, 2.0, 3.125, 6.0, 12.0]  # GB/s, which is MB/ms


def name_of(stages):
    return "-".join(str(copies) for _, _, copies in stages)


plans = {wire: best_plan(layers, 16, wire) for wire in BANDWIDTHS}
for wire, (ms, stages) in plans.items():
    cuts = [str(profile["layer"][first]) for first, _, _ in stages[1:]]
    copied = stage_ms(work_ms.sum(), parameter_MB.sum(), 16, wire)
    print(f"{wire:6} GB/s  {name_of(stages):9} cut before {', '.join(cuts):20} {ms:6.1f} ms; "
          f"16 copies {copied:6.0f} ms")  # fmt: skip
chosen = name_of(plans[1.25][1])


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def mark_plans(axis):
    """The planner's choices as points with their names, and the bandwidths of the two clusters."""
    for wire, (ms, stages) in plans.items():
        axis.plot(wire, ms, "o", color=BLUE)
        axis.text(wire, ms * 0.86, name_of(stages), color=BLUE, ha="center", va="top", fontsize=8)
    for cluster, gbit in GBIT.items():
        axis.axvline(gbit / 8, color=ORANGE, linewidth=0.8)
        axis.text(gbit / 8 * 1.03, 2600, f"cluster {cluster}", color="#8a5a00", fontsize=9)
    axis.set_xticks(BANDWIDTHS, [f"{wire:g}" for wire in BANDWIDTHS])
    axis.set_yticks([30, 100, 300, 1000, 3000], [30, 100, 300, 1000, 3000])
    axis.minorticks_off()


# %% slideshow={"slide_type": "slide"} tags=["figure", "hide-input"]
figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
fine = np.geomspace(0.3, 12, 60)
copied = [stage_ms(work_ms.sum(), parameter_MB.sum(), 16, wire) for wire in fine]
axis.plot(fine, copied, color=GRAY)
axis.text(3.5, 370, "16 copies (data parallelism)", color="#57606a")
axis.plot(fine, [best_plan(layers, 16, wire)[0] for wire in fine], color=BLUE, linewidth=2)
axis.text(0.29, 330, "the best plan", color=BLUE)
axis.axhline(work_ms.sum() / 16, color="k", linewidth=0.7, linestyle=":")
axis.text(11.5, 45, "dotted: 1/16 of the work", ha="right", va="bottom", fontsize=9)
axis.set(xscale="log", yscale="log", xlabel="bandwidth (GB/s)", ylabel="ms for a minibatch")
mark_plans(axis)
axis.set(ylim=(30, 4500))
show(figure, "Time per minibatch of VGG-16 on 16 GPUs over the bandwidth from 0.3 to 12 GB/s, both axes "
     f"logarithmic. The best plan falls from 262 to 42 ms and is {chosen} at 1.25 GB/s; data parallelism by "
     "the formula falls from 3459 to 86 ms.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("10/plan", "16 (data parallelism)" if chosen == "16" else chosen)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 6. The planner's choice for VGG-16 over the bandwidth. Both lines are by the formula.*
#
# **From 1.25 to 12 GB/s your planner finds 15-1, the published plan.** Below that it makes more stages. Is the
# cut where the authors have it? Not exactly, as you see at 1.25 GB/s:
#
# | 15-1 | cut before | by the formula |
# |---|---|---|
# | the model in the authors' repository [2] | `fc6` | 87.9 ms |
# | your planner | `conv5_1` | 82.2 ms |
#
# There the cut itself is the slowest part, because the 51.4 MB behind `conv4_3` cross it in both directions.
# (`conv5_1` hands on as many bytes, so a cut behind it is as good.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
names = {wire: name_of(stages) for wire, (_, stages) in plans.items()}
assert all(names[wire] == "15-1" for wire in (1.25, 2.0, 3.125, 6.0, 12.0))
assert names[0.8] == "6-1-3-6" and "15-1" not in (names[0.3], names[0.5])
where = {wire: str(profile["layer"][stages[1][0]]) for wire, (_, stages) in plans.items()}
assert where[1.25] == where[2.0] == "conv5_1" and where[3.125] == where[12.0] == "conv5_2"
before_fc6 = stage_ms(work_ms[:13].sum(), parameter_MB[:13].sum(), 15, 1.25)
assert round(before_fc6, 1) == 87.9 and round(plans[1.25][0], 1) == 82.2
assert before_fc6 > 2 * output_MB[12] / 1.25 and work_ms[13:].sum() < 44
assert round(output_MB[9], 1) == round(output_MB[10], 1) == 51.4
assert np.isclose(plans[1.25][0], 2 * output_MB[9] / 1.25)
copied = [stage_ms(work_ms.sum(), parameter_MB.sum(), 16, wire) for wire in (0.3, 12)]
assert [round(ms) for ms in copied] == [3459, 86]
assert round(plans[0.3][0]) == 262 and round(plans[12.0][0]) == 42

# %% [markdown] slideshow={"slide_type": "slide"}
# **And the speedup?** The formula also tells you how much faster this plan is than 16 copies of the whole
# network, which is data parallelism. The paper measured 5.28 on cluster A and 2.98 on cluster B, by the time of
# an epoch.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "10/speedup", "What speedup over 16 copies does the formula predict on cluster A?", unit="times"
)

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
published = table(LECTURES / "data" / "pipedream_speedups.csv")
measured = {
    cluster: epoch
    for network, cluster, epoch in zip(
        published["network"], published["cluster"], published["epoch"]
    )
    if network == "VGG-16"
}
predicted = {}
for cluster, wire in [(name, gbit / 8) for name, gbit in GBIT.items()]:
    copied = stage_ms(work_ms.sum(), parameter_MB.sum(), 16, wire)
    predicted[cluster] = copied / plans[wire][0]
    print(f"cluster {cluster}: predicted {predicted[cluster]:.2f}, measured {measured[cluster]}")
reveal("10/speedup", predicted["A"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# The formula is too optimistic:
#
# | cluster | formula | measured | too high by a factor of |
# |---|---|---|---|
# | A | 10.10 | 5.28 | 1.9 |
# | B | 7.83 | 2.98 | 2.6 |
#
# Why? Look at its second term, $2(m-1)|w|/\beta'$. That is what *all* replicas of a ring send *together*.
# In a ring each of them sends $\frac1m$ of it, over a link of its own. So the formula makes data parallelism
# slower than it needs to be. At 1.25 GB/s it counts 830 ms for *each* minibatch, but the ring of section 1
# takes as long for a round of 16. Now change one assumption after the other. First count the bytes of a
# ring, then hide all of them behind the work.

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
RULES = {
    "the formula": {},
    "ring, nothing hidden": {"ring": True, "hidden": False},
    "ring, all hidden": {"ring": True},
}
under = {}
for cluster, wire in (("A", 1.25), ("B", 3.125)):
    for rule, options_of in RULES.items():
        ms, stages = best_plan(layers, 16, wire, **options_of)
        copied = stage_ms(work_ms.sum(), parameter_MB.sum(), 16, wire, **options_of)
        under[cluster, rule] = name_of(stages), copied / ms
        print(f"{cluster}  {rule:22} plan {name_of(stages):5} speedup {copied / ms:5.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# On cluster A your prediction lies between 1.17, for a ring that is all hidden, and 10.10, depending on how you
# count the all-reduce. What was measured is between them. On cluster B a perfect ring, hidden behind the backward
# pass, would make data parallelism as good as any pipeline. Four things separate these lines from a real cluster:
#
# - how much of an all-reduce is hidden (lecture 5);
# - which bandwidth a collective reaches, which is less than that of the link;
# - that four or eight GPUs share the link of their server, which a flat formula doesn't know;
# - that activations and gradients use the same link at the same time.
#
# **On cluster A all three rules choose 15-1.** The plan follows from the shape of the network:
# many parameters where there is little work. That is robust. The speedup depends on how bad the
# alternative is. **Trust the plan, and measure the speed.** (The planner in the authors'
# repository differs again: it *adds* work and exchange, counts $4(m-1)/m$ instead of $2(m-1)$,
# and treats servers and GPUs as two levels [2].)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [f"{predicted[c]:.2f}" for c in "AB"] == ["10.10", "7.83"] and GBIT["B"] == 25
assert (measured["A"], measured["B"]) == (5.28, 2.98)
assert round(predicted["A"] / 5.28, 1) == 1.9 and round(predicted["B"] / 2.98, 1) == 2.6
assert round(stage_ms(work_ms.sum(), parameter_MB.sum(), 16, 1.25)) == 830 == round(all_reduce_ms)
assert round(under["A", "ring, all hidden"][1], 2) == 1.17
assert all(under["A", rule][0] == "15-1" for rule in RULES)
assert under["B", "ring, all hidden"] == ("16", 1.0)
assert under["A", "ring, all hidden"][1] < 5.28 < under["A", "the formula"][1]
assert under["B", "ring, all hidden"][1] < 2.98 < under["B", "the formula"][1]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9. Take what comes: message-driven stages
#
# A list of actions fixes the order before the run. If one pass takes longer than planned, your stage may wait
# for a message although another one is there. Do you need the list? AxoNN (2022) has none [4]. A stage looks at
# what has arrived. If a gradient is there, our stage does that backward pass, because that frees memory. Else, if
# an activation is there *and* fewer than `limit` microbatches are in flight here, the stage does that forward
# pass. We call this limit the **room** of the stage.

# %% slideshow={"slide_type": "fragment"}
# %%writefile driven.py
import numpy as np
from mpi4py import MPI

import ringside


def run(comm, count, limit, milliseconds):
    here, last, begun, done, sent = comm.rank, comm.size - 1, 0, 0, []
    while done < count:
        room = begun < count and begun - done < limit[here]
        if begun > done and (here == last or comm.Iprobe(here + 1)):
            carry_out(comm, "B", done, -1, milliseconds, sent)
            done += 1
        elif room and (here == 0 or comm.Iprobe(here - 1)):
            carry_out(comm, "F", begun, 1, milliseconds, sent)
            begun += 1
        else:  # sleep until something comes that we may take
            comm.Probe(MPI.ANY_SOURCE if room else here + 1)
    MPI.Request.Waitall(sent)


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a driven.py


def carry_out(comm, kind, number, way, milliseconds, sent):
    action, packet = f"{kind}{number}", np.zeros(8, np.uint8)
    if 0 <= comm.rank - way < comm.size:
        comm.Recv(packet, comm.rank - way, number)
    takes = milliseconds.get((comm.rank, action), milliseconds.get(kind))
    ringside.compute(seconds=takes / 1e3, phase=action)
    if 0 <= comm.rank + way < comm.size:
        sent.append(comm.Isend(packet, comm.rank + way, number))


# %% [markdown] slideshow={"slide_type": "subslide"}
# With equal times and room for $S - s$ microbatches it does what 1F1B does. Now let each pass take
# between half and one and a half times its mean, at random. Sequences of different length, or a
# busy neighbour, have this effect. Compare four ways, on the same 32 microbatches:
#
# - 1F1B, which has room for $S - s$ microbatches on stage $s$;
# - message-driven stages with the same room;
# - message-driven stages with room for $2S$ microbatches each;
# - a fixed list that alternates like 1F1B, with room for $2(S - s) - 1$.


# %% slideshow={"slide_type": "fragment"}
def fixed(limits, count):
    """Lists of actions that begin with `limit` forward passes on each stage."""
    lists = []
    for limit in limits:
        actions = [f"F{t}" for t in range(min(limit, count))]
        for t in range(count):
            actions += [f"B{t}"] + [f"F{t + limit}"] * (t + limit < count)
        lists.append(" ".join(actions))
    return lists


def random_ms(seed, count=32, spread=0.5):
    rng = np.random.default_rng(seed)
    return {
        (stage, f"{kind}{t}"): mean * rng.uniform(1 - spread, 1 + spread)
        for stage in range(4) for kind, mean in (("F", 1.0), ("B", 2.0)) for t in range(count)
    }  # fmt: skip


# %% slideshow={"slide_type": "fragment"}
def driven(limits, milliseconds, count=32):
    args = (count, limits, milliseconds)
    return session.call("driven:run", 4, args, machine=free).raise_for_error()


equal = driven([4, 3, 2, 1], {"F": 1.0, "B": 2.0}, count=8)
print(f"equal times: {equal.makespan_s * 1e3:.0f} ms, as 1F1B")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("10/driven", "Random times, at most S - s microbatches in flight on stage s. Which is faster?",
      choices=["1F1B's list", "message-driven", "both the same"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
ROOM, MORE, MOST = [4, 3, 2, 1], [7, 5, 3, 1], [8, 8, 8, 8]
took = {"1F1B": [], "driven, S - s": [], "driven, 2 S": [], "list, 2 (S - s) - 1": []}
for seed in range(6):
    ms = random_ms(seed)
    took["1F1B"].append(flow(fixed(ROOM, 32), ms).makespan_s * 1e3)
    took["driven, S - s"].append(driven(ROOM, ms).makespan_s * 1e3)
    took["driven, 2 S"].append(driven(MOST, ms).makespan_s * 1e3)
    took["list, 2 (S - s) - 1"].append(flow(fixed(MORE, 32), ms).makespan_s * 1e3)
relative = {name: np.array(each) / took["1F1B"] for name, each in took.items()}
for name, each in relative.items():
    print(f"{name:20} {np.mean(took[name]):5.0f} ms, {each.mean():.2f} of 1F1B")
slower = (relative["driven, S - s"] > 1).all()

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(8, 2.6), layout="constrained")
for row, (name, each) in enumerate(relative.items()):
    axis.plot(each, [row] * len(each), "o", color=BLUE if "driven" in name else GRAY, alpha=0.6)
    axis.plot(each.mean(), row, "|", color="k", markersize=18)
axis.set_yticks(range(4), relative)
axis.axvline(1, color="k", linewidth=0.6, linestyle=":")
axis.set(xlabel="time in units of 1F1B's, a point for each seed", ylim=(3.5, -0.5))
means = ", ".join(f"{name} {each.mean():.2f}" for name, each in relative.items())
show(figure, f"Time relative to 1F1B, a point for each of six seeds; the means are {means}.")

# %% slideshow={"slide_type": "fragment"}
reveal("10/driven", "1F1B's list" if slower else "message-driven")

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 7. Random pass times, six seeds, 4 stages and 32 microbatches. The bars are means.*
#
# With the same room as 1F1B, message-driven stages are slower on every seed, by about 10 % on
# average. "Backward first" is the reason. A stage that finds two gradients does both, and meanwhile the
# next stage gets no new work. The list alternates, so it keeps the other stages busy. Give every stage
# room for $2S$ microbatches, and message-driven stages are about 7 % faster than 1F1B. But the *list* with more
# room gains even more.
#
# **What helps you against random times is room, not the freedom to choose.** The freedom has another merit. You
# don't have to write a list, so it works for any network and any number of stages, also where you don't know the
# times. AxoNN's authors (2022) trained on up to 384 V100 GPUs, and report that it was 15 to 25 % faster than the
# state of the art [4]. (It also moves data to the CPU's memory, so the order isn't the only reason.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Here the order of arrival doesn't change the gradient at all. Each stage still does its backward
# passes in the order of the microbatches. Where microbatches can overtake one another, the sum of
# their gradients changes by rounding only. (torch.distributed has no call that looks for a
# message. A program in torch starts a receive from each neighbour and asks the two requests
# whether they are complete.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(equal.makespan_s, 33e-3, rtol=1e-4)  # a look at what has arrived takes 0.1 us
assert round(relative["driven, S - s"].mean(), 1) == 1.1 and slower
assert round(relative["driven, 2 S"].mean(), 2) == 0.93 and (relative["driven, 2 S"] < 1).all()
assert relative["list, 2 (S - s) - 1"].mean() < relative["driven, 2 S"].mean()
assert (stated["fewest GPUs"], stated["most GPUs"]) == (48, 384)
assert (stated["least gain over others"], stated["largest gain over others"]) == (0.15, 0.25)
assert round(stated["least share of the peak"], 2) == 0.49
assert round(stated["largest share of the peak"], 2) == 0.55

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10. What became of it
#
# Asynchronous pipelines work, and we know of no large language model that was trained with one. Megatron-LM
# (2021) has 1F1B *with* a flush. Its paper calls the schedule PipeDream-Flush, after the system that introduced
# the order [5]. All seven schedules of PyTorch have a flush [7]. Why did the flush win?
#
# - Data parallelism is the reference. A flush computes exactly the same gradient, so you don't have to ask
#   whether a difference in the loss comes from staleness.
# - Section 4: deeper pipelines need smaller learning rates. Pipelines became deep: up to 64
#   stages [5].
# - Section 5: versions cost memory, and large models have none to spare.
# - Large batches have many microbatches, so the bubble is small anyway: 11 % with 512
#   microbatches and 64 stages (lecture 9).
#
# And you can fill the bubble *without* staleness, if you cut each backward pass in two. [Section 9 of
# lecture 9](09_pipeline_bubbles.ipynb) does so, and its section 10 plays the schedules that PyTorch ships.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
from torch.distributed import pipelining

grids = table(LECTURES / "data" / "megatron_2021_grids.csv")
gpus, batch, tensor, stages = (grids[name][-1] for name in ("gpus", "batch", "tensor", "pipeline"))
microbatches = batch // (gpus // (tensor * stages))
assert (microbatches, stages) == (512, 64)
assert round((stages - 1) / (microbatches + stages - 1), 2) == 0.11
assert sum(name.startswith("Schedule") for name in pipelining.__all__) == 7

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11. When a stage dies
#
# What if one of your GPUs dies? In data parallelism every other GPU holds a copy of the whole model. In a
# pipeline a GPU holds the only copy of its stage, and all stages wait. So write **checkpoints**, files from which
# the run can go on.
#
# **Who writes, and when?** With a flush there is a moment between two batches in which all stages
# have the same version. Without one there is no such moment, and none is needed. Let each stage
# write its own weights when it has done the backward pass of an agreed minibatch $t$. The stages
# do that at different times, but all of them write version $t + 1$. PipeDream's program has a
# file for each stage [2].
#
# **What is lost?** The stash and the minibatches in flight. After a restart the pipeline fills
# again from one version. Does the run go on as if nothing had happened?

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("10/restart", "A run of 40 minibatches stops after 20 and goes on from the checkpoint. Are the final weights "
      "those of a run without a stop?", choices=["exactly", "not exactly"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
first_half, _ = chain("stash", goals=goals[:20])
checkpoint = list(first_half[-1])
second_half, _ = chain("stash", w=checkpoint, goals=goals[20:])
gap = np.abs(second_half[-1] - stashed[-1]).max()
early = np.abs(first_half[-1] - stashed[20]).max()
print(f"at the checkpoint the weights differ by {early:.0e}, at the end by {gap:.1e}")
reveal("10/restart", "exactly" if gap < 1e-12 else "not exactly")

# %% [markdown] slideshow={"slide_type": "fragment"}
# No, not exactly. Your checkpoint is right up to rounding. But after the restart the first $S - 1$ minibatches see
# weights that are *less* stale than in the run without a stop. That does no harm, but you can't compare the two
# runs bit by bit any more. With a flush, you can, which is one more reason for it.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **How often should you write one?** [Section 16 of lecture 12](12_hybrid.ipynb) has the formula, and it holds
# for every scheme. What differs in a pipeline is who can help. A *replicated* stage (section 7) is better off:
# if one replica dies, another has the same weights.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert early < 1e-12 < 1e-4 < gap

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** In section 8 stop at the two speedups and ask for reasons before you go on. Good classes
# find three of the four.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 12. Where the models break
#
# **The quadratic.** Section 4 says when SGD diverges on a bowl, with equal stages. Momentum and
# Adam change the limit, and in a network curvature changes during training. Use the formulas to
# compare rules, not to choose a rate.
#
# **What else has a version.** The random numbers of a dropout belong to a minibatch, so they must
# be kept until its backward pass. The optimizer's state isn't stashed: there is one, and it goes
# with the newest version.
#
# **The profile.** It was measured on one GPU, one layer after the other. Kernels that fuse
# layers, and a smaller minibatch, change it. `conv1_2` takes 27 % of all time here, so its error
# counts most.
#
# **A flat network.** The planner knows one bandwidth. Inside a server there is another one.
# PipeDream plans in levels: first over the GPUs of a server, then over the servers [1], [2].
#
# **Memory.** Our planner ignores it. The first stage of 15-1 holds 1.64 GB for the output of
# `conv1_1` alone, for each minibatch in flight. The assignment's planner is told the capacity.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(work_ms[1] / work_ms.sum(), 2) == 0.27 and profile["layer"][1] == "conv1_2"
assert round(output_MB[0] / 1e3, 2) == 1.64

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Statements you will meet.**
#
# | statement | what to know |
# |---|---|
# | PipeDream: no bubble, hurts accuracy, wasn't adopted [6] | filling and draining remain. With stashing it gained at least as much in time to accuracy as in time per epoch in most rows of its table 1 [1]. Its order of work is the standard, with a flush [5] |
# | (in PipeDream's own text) 2.92 for GNMT-8 and 2.95 for GNMT-16 | the paper's table 1 has them the other way round; use the table [1] |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
accuracy = {
    (network, cluster): value
    for network, cluster, value in zip(*(published[k] for k in ("network", "cluster", "accuracy")))
}
assert accuracy["GNMT-16", "A"] == 2.92 and accuracy["GNMT-8", "A"] == 2.95
assert (published["accuracy"] >= published["epoch"]).sum() == len(published["epoch"]) - 1

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13. Back to the 830 ms
#
# At 1.25 GB/s data parallelism had to move 553.4 MB through a ring after each step, 830 ms for
# 672.5 ms of work. Take the plan 15-1, cut before `fc6`, as the authors ran it.

# %% slideshow={"slide_type": "fragment"}
ring_ms = 2 * 14 / 15 * parameter_MB[:13].sum() / 1.25
work_of_stage = work_ms[:13].sum()
crossing_ms = 2 * output_MB[12] / 1.25
print(f"all-reduce of the 15 replicas: {ring_ms:.0f} ms, for {work_of_stage:.0f} ms of work")
print(f"a minibatch every {work_of_stage / 15:.1f} ms")
print(f"the cut takes {crossing_ms:.1f} ms of the last GPU's link for each minibatch")
print(f"the last GPU works {work_ms[13:].sum():.1f} ms")

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Of your 830 ms, 88 are left**, and they can hide behind 662 ms of work, because the 494.6 MB of `fc6` to
# `fc8` stay where they are. If they do hide, you get:
#
# | | |
# |---|---|
# | a minibatch every | 44.2 ms |
# | for which the last GPU works | 10.2 ms |
# | 16 GPUs at best: a minibatch every | 42.0 ms |
#
# The last GPU is idle for most of the time, but that is 1 GPU of 16. Gradients of the first stage are late by one
# of its own updates, and it keeps two versions.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(ring_ms) == 88 and round(work_of_stage) == 662
assert round(parameter_MB[13:].sum(), 1) == 494.6
assert round(work_of_stage / 15, 1) == 44.2 and round(work_ms.sum() / 16, 1) == 42.0
assert round(work_ms[13:].sum(), 1) == 10.2 and crossing_ms < work_of_stage / 15

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Summary.**
#
# | | weights of minibatch $t$ on stage $s$ | versions kept | bubble |
# |---|---|---|---|
# | 1F1B with a flush | the same everywhere | 1 | $(S-1)(t_f+t_b)$ per batch |
# | weight stashing | $t - (S - 1 - s)$ | $S - s$ | once in a run |
# | vertical sync | $t - (S - 1)$ | $S$ | once in a run |
# | 2BW (batches of $M \ge S$) | one batch late | 2 | once in a run |

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14. Puzzles
#
# Each has a program that works and misses a target. Change the program in its cell, run it, and
# run the cell below it. About ten minutes each.
#
# **Puzzle 1: the version that moves.** This stage stashes its weights, and still its result isn't
# that of the recursion. Three stages, eight minibatches, the same chain as above.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle1.py
import numpy as np
from neighbours import pass_on, take


def train(comm, actions, w, rate, goals):
    here, w, kept = comm.rank, np.array([w[comm.rank]]), {}
    for kind, t in [(action[0], int(action[1:])) for action in actions[here].split()]:
        if kind == "F":
            x = take(comm, here - 1, t, 1.0)
            kept[t] = x, w, w[0] * x  # the input, the weight, the output
            pass_on(comm, kept[t][2], here + 1, t)
        else:
            x, stashed, y = kept.pop(t)
            slope = take(comm, here + 1, t, y - goals[t])
            pass_on(comm, slope * stashed[0], here - 1, t)
            w -= rate * slope * x
    return w


# %% slideshow={"slide_type": "fragment"}
few = [list(row) for row in delayed(STASH, start[:3], 0.2, goals[:8])]
moving = {
    "args": (endless(3, 8), start[:3], 0.2, list(goals[:8])),
    "machine": free,
    "expected": [np.array([number]) for number in few[-1]],
    "at_most_messages_in_all": 32,
    "draw": False,
    "hint": "How many arrays of weights are there?",
}
attempt = puzzle("puzzle1.py:train", 3, **moving)

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# `w -= ...` changes the array that all stashed versions refer to. So there is one version, the
# newest. Write `w = w - rate * slope * x`, which makes a new array. In torch, `optimizer.step()`
# changes weights in place as well.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle1.py").read_text()
Path("solved1.py").write_text(text.replace("w -= rate", "w = w - rate"))
assert puzzle("solved1.py:train", 3, **moving).solved and not attempt.solved

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2: who gets the fourth GPU?** Four layers take 8, 4, 2 and 2 ms. The program gives each
# layer a GPU of its own, and 12 minibatches take 104 ms. Bring them to at most 60 ms with three
# stages on 4 GPUs. (Only the forward passes are there, and messages are free.)

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle2.py
import numpy as np

import ringside

LAYER_MS = [8, 4, 2, 2]
PLAN = [([0], 1), ([1], 1), ([2], 1), ([3], 1)]  # the layers of each stage, and its replicas


def step(comm, minibatches=12):
    seats = [(stage, r) for stage, (_, copies) in enumerate(PLAN) for r in range(copies)]
    stage, replica = seats[comm.rank]
    layers, copies = PLAN[stage]
    for t in range(replica, minibatches, copies):
        if stage > 0:
            comm.Recv(np.zeros(8), seats.index((stage - 1, t % PLAN[stage - 1][1])), t)
        ringside.compute(seconds=sum(LAYER_MS[k] for k in layers) / 1e3, phase=f"F{t}")
        if stage + 1 < len(PLAN):
            comm.Isend(np.zeros(8), seats.index((stage + 1, t % PLAN[stage + 1][1])), t)


# %% slideshow={"slide_type": "fragment"}
seats = {
    "machine": free,
    "at_most_us": 60_010,
    "hint": "The work is 16 ms, so 4 GPUs could finish a minibatch every 4 ms.",
}
puzzle("puzzle2.py:step", 4, **seats)

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# `PLAN = [([0], 2), ([1], 1), ([2, 3], 1)]`. Now each stage finishes a minibatch every 4 ms. The
# two replicas of layer 0 finish the last pair after 48 ms. Layer 1 does them one after the other,
# 4 ms each, and the last stage adds 4 ms more.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle2.py").read_text()
better = "PLAN = [([0], 2), ([1], 1), ([2, 3], 1)]"
Path("solved2.py").write_text(
    text.replace("PLAN = [([0], 1), ([1], 1), ([2], 1), ([3], 1)]", better)
)
first, solved = (
    puzzle(f"{name}.py:step", 4, **seats, draw=False) for name in ("puzzle2", "solved2")
)
assert round(first.time_us) == 104_000 and not first.solved
assert solved.solved and round(solved.time_us) == 60_000 and 12 / 2 * 8 == 48
others = []
for plan in ("[([0], 2), ([1, 2, 3], 2)]", "[([0, 1, 2, 3], 4)]"):
    Path("other.py").write_text(text.replace("[([0], 1), ([1], 1), ([2], 1), ([3], 1)]", plan))
    others.append(puzzle("other.py:step", 4, **seats, draw=False).time_us / 1e3)
assert np.allclose(others, [56, 48], rtol=1e-4)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** Ten minutes for each puzzle, in pairs. Puzzle 1 belongs after section 3: most
# look for the mistake in the indices. After puzzle 2 ask for a
# plan with two stages: layer 0 on two GPUs and the others on two is 4 ms faster. (All layers on
# four replicas are faster still, by another 8 ms, since their all-reduce is free here.)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 15. Five questions
#
# Try each question before you open its answer. The cell below each answer checks it.
#
# **Question 1.** A pipeline with stashing has 6 stages. Which version does stage 2 use for
# minibatch 10? Which version does the gradient change? How many versions does this stage keep?
#
# <details><summary>Answer</summary>
#
# It uses version $10 - (6 - 1 - 2) = 7$. When the gradient comes back the stage has made 10
# updates, so the gradient changes version 10 into version 11. The stage keeps $6 - 2 = 4$
# versions. When minibatch 10 goes forward these are 4 to 7, and when its gradient comes back they
# are 7 to 10.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
forward, backward = versions_in(endless(6, 14)[2])
assert (forward[10], backward[10]) == (7, 10)
assert [forward[t] for t in (7, 8, 9, 10)] == [4, 5, 6, 7]  # in flight when 10 goes forward
assert [forward[t] for t in (10, 11, 12, 13)] == [7, 8, 9, 10]  # and when it comes back
order = endless(6, 14)[2].split()
assert order.index("B6") < order.index("F10") < order.index("B7")
assert order.index("F13") < order.index("B10")
six = [*start, 1.0, 1.0]
assert chain("stash", rate=0.01, w=six, goals=goals[:14])[1][2] == 4

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** Synchronous SGD runs at half the largest rate of a quadratic, $k = 1$. You turn
# the flush off and leave the rate as it is. Does the run converge with stashing on 4 stages, and
# on 8? With vertical sync on 4? With 2BW?
#
# <details><summary>Answer</summary>
#
# With stashing on 4 stages it does, since the limit is 1.172. On 8 stages it doesn't: the limit
# is 0.609. With vertical sync on 4 stages the limit is 0.445, so it diverges. 2BW has its limit
# exactly at 1, for any number of stages. There the weight swings for ever.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(limits(4)[0], 3) == 1.172 and round(limits(8)[0], 3) == 0.609
assert round(limits(4)[1], 3) == 0.445
assert largest_root([0, 1, 2, 3], 1.0) < 1 < largest_root(list(range(8)), 1.0)
assert largest_root([3], 1.0) > 1 and np.isclose(largest_root([1], 1.0), 1)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** A colleague's planner *adds* the three terms of $A(j, m)$ instead of taking
# their maximum. Which plan does it choose for the three layers of section 7, and how long does
# that plan really take? When would the sum be right?
#
# <details><summary>Answer</summary>
#
# It compares sums: 9 for the cut behind layer 0 and two replicas before it, and 7.5 for the cut
# behind layer 1 with two replicas before it. It chooses the second, which takes 4.5 ms for a
# minibatch. The best plan takes 4 ms. If no stage is replicated, the sum is the time that *one*
# minibatch needs to pass through. So it would be right without replicas and with only one
# minibatch in flight. (Replicas don't make one minibatch faster.)
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
cut_0 = stage_ms(6, 0.5, 2, 1.0), 2 * 1, stage_ms(4, 11, 1, 1.0)
cut_1 = stage_ms(9, 1.5, 2, 1.0), 2 * 1, stage_ms(1, 10, 1, 1.0)
each_alone = 6, 2, 3, 2, 1
assert sum(cut_0) == 9 and sum(cut_1) == 7.5 < sum(each_alone) < stage_ms(10, 11.5, 3, 1.0)
assert max(cut_1) == 4.5 and max(cut_0) == 4

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** A pipeline with a flush has 4 stages and cuts each minibatch into 32 microbatches.
# You drop the flush, send the same minibatches whole, and use stashing. What do you gain in time
# for each minibatch? What do you lose, if both runs use the largest stable rate of a quadratic and
# the number of updates goes like one over the rate?
#
# <details><summary>Answer</summary>
#
# The bubble was $3/35 = 8.6$ % of the time, so you gain a factor of $35/32 = 1.09$. The largest
# $k$ falls from 2 to 1.172, so you need 1.71 times as many updates. At the limit of stability the
# flush wins clearly. If something else limits the rate, such as the noise of the gradients, then
# staleness may cost little, and you keep the 9 %. So the answer depends on the run. That is a
# reason to choose the flush.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(3 / 35, 3) == 0.086 and round(35 / 32, 2) == 1.09
assert round(2 / limits(4)[0], 2) == 1.71

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** A colleague runs a message-driven pipeline twice on the same data. Its middle
# stage has two replicas, so one microbatch can overtake another. The gradients of the two runs
# differ in the last digits. With a fixed list they never did. Is that an error? How can the two
# runs be made equal?
#
# <details><summary>Answer</summary>
#
# It isn't an error. The gradients of the microbatches are added in the order in which they come
# back, and sums of floating-point numbers depend on the order. Tell it apart from an error by its
# size: it is near the rounding of the type. To make runs equal, keep backward passes in the order
# of the microbatches, or keep the gradients apart and add them in that order at the end. The
# second costs memory.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
parts = np.random.default_rng(5).normal(size=(16, 1000))
one_order, other = parts.sum(axis=0), np.zeros(1000)
for number in np.random.default_rng(6).permutation(16):
    other += parts[number]
assert 0 < np.abs(one_order - other).max() < 1e-13

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
session.close()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16. Your turn
#
# In the assignment `a10_pipedream` you write the asynchronous stage with real layers
# (`stash.py`), the same in torch (`stash_torch.py`), and the planner, with a limit on memory
# (`partition.py`). The message-driven stage (`axonn.py`) is extra.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. D. Narayanan, A. Harlap, A. Phanishayee, V. Seshadri, N. R. Devanur, G. R. Ganger, P. B.
#    Gibbons, M. Zaharia. PipeDream: generalized pipeline parallelism for DNN training. SOSP 2019.
#    Table 1; `data/pipedream_speedups.csv`.
# 2. PipeDream's profiles, planner and models. github.com/msr-fiddle/pipedream, commit 7db6a1c;
#    `data/pipedream_vgg16.csv`.
# 3. D. Narayanan, A. Phanishayee, K. Shi, X. Chen, M. Zaharia. Memory-efficient pipeline-parallel
#    DNN training. ICML 2021. arXiv:2006.09503.
# 4. S. Singh, A. Bhatele. AxoNN: an asynchronous, message-driven parallel framework for
#    extreme-scale deep learning. IPDPS 2022. arXiv:2110.13005. Abstract.
# 5. D. Narayanan, M. Shoeybi, J. Casper, P. LeGresley, M. Patwary, V. Korthikanti, D. Vainbrand,
#    P. Kashinkunti, J. Bernauer, B. Catanzaro, A. Phanishayee, M. Zaharia. Efficient large-scale
#    language model training on GPU clusters using Megatron-LM. SC 2021. arXiv:2104.04473. Section
#    2.2, table 1.
# 6. D. Tao. Introduction to ML Systems. Slides, Oxford Machine Learning Summer School (OxML), 2022.
# 7. PyTorch. `torch.distributed.pipelining`, documentation of version 2.13.
#
# Read next: sections 3.2 and 3.3 of [1], which the recursion of section 3 comes from; then [3].
