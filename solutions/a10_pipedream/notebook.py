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
# # Asynchronous pipelines
#
# The pipelines of `a09_pipeline` drain at the end of each step. All microbatches come back, the
# parameters are updated, and the pipeline fills again. While it fills and drains, stages are idle.
# PipeDream never drains. Each minibatch is a step of its own, and a stage updates its parameters
# as soon as the minibatch's backward pass is done there.
#
# The price is that a minibatch meets old parameters, and different versions on different stages.
# At the end of this assignment you will have
#
# - a stage that keeps the versions it needs, and trains exactly as a recursion with delays does
#   in one process, to twelve digits, over mpi4py and in torch;
# - the memory that the versions take, and the learning rates that the delays allow;
# - PipeDream's planner, which cuts a network into stages and replicates some of them;
# - as an extra, a stage without a fixed schedule, which processes whatever message comes first.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points: about 45 for values, 30 for what is sent
# and when, and the rest for safety and speed in virtual time. All that the hidden suite asks
# stands in the module's docstring and in `docs/contract.md`. The tests lie in `checks/`, where you
# can read them; the hidden suite asks the same of other cases. In `given/` is what you read and
# import: pieces of a model, the recursion, profiles.
#
# In every module inputs stay as they were and results are new arrays, nothing is kept from one
# call to the next, the communicator or group that is given may be a part of the world, and each
# send and receive that a call starts is completed before it returns. Sends may wait for their
# receives.
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

# %% [markdown]
# ## 1. A pipeline that never drains
#
# Four stages train on 40 minibatches. A forward pass through a stage takes 1 ms and a backward
# pass 2 ms, and messages take no time. A pipeline with a flush takes groups of four minibatches:
# it fills, drains, updates the parameters, and begins with the next four. An asynchronous one
# never waits for a flush.

# %% tags=["predict"]
guess(
    "a10/flushes",
    "How many times as long does the training with ten flushes take?",
    unit="times",
)

# %% [markdown]
# Without a flush, a stage updates its parameters between the forward and the backward pass of
# other minibatches. Draw the first passes of the four stages on paper, and write down after how
# many updates each forward pass comes.

# %% tags=["predict"]
guess(
    "a10/version",
    "Minibatches count from 0, and so do stages. How many updates has stage 1 of the four made "
    "when it computes the forward pass of minibatch 10?",
    unit="updates",
)

# %% [markdown]
# The backward pass of minibatch 10 comes later, after more updates. It must use the parameters of
# the forward pass all the same. With others it would compute the gradient of no function at all.
# So the stage keeps the old version until then.
#
# The module is `stash.py`. `given/model.py` is supplied: a piece of a model, which is told in each
# pass which parameters to use. `given/recursion.py` is supplied too, and trains in one process as
# your stages must train together.
#
# **Think** before you write. When is a version no longer needed? Two neighbours send each other an
# activation and a gradient in the steady state. What happens if both of them use `Send`?

# %%
# {{module stash}}

# %%
# {{check stash}}

# %% [markdown]
# **Run.** Forty minibatches without a flush, and ten trainings of four.

# %%
from checks.cases import Train

from ringside.checking.suite import arguments

free = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)


def train(num_minibatches, **fields):
    """Four stages of your module train on a model and data that are drawn."""
    fields = {"costs": (1e-3, 2e-3), **fields}
    case = Train(4, (2,) * num_minibatches, **fields)
    run = ringside.run(case.through, 4, arguments(case), machine=free)
    return case, run.raise_for_error()


four, long = train(4)[1], train(40)[1]
print(f"ten flushes {1e4 * four.makespan_s:.0f} ms, no flush {1e3 * long.makespan_s:.0f} ms")
reveal("a10/flushes", 10 * four.makespan_s / long.makespan_s)
train(12)[1].timeline

# %%
from ringside.trace import Kind

passes = [str(op.detail[3]) for op in long.trace.ops[1] if op.kind == Kind.COMPUTE]
before = passes[: passes.index("F10 of piece 1")]
print("stage 1:", " ".join(phase.partition(" ")[0] for phase in before[-6:]), "F10 ...")
reveal("a10/version", sum(phase.startswith("B") for phase in before))

# %% [markdown]
# **Explain.** Which idle time is left without a flush, and how does it depend on the number of
# minibatches? A flush after every 32 minibatches instead of every four makes the gain smaller.
# Compute it. Why would one want to flush after 32, although it takes longer?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# Each version takes memory. Suppose that each of the four stages has 100 MB of parameters.

# %% tags=["predict"]
guess(
    "a10/versions",
    "How many MB of parameters do the four stages hold in all, if each version is let go as early "
    "as possible?",
    unit="MB",
)

# %%
WIDE = {"width": 64, "hidden": 512, "alike": True, "watched": True}
fig, axes = plt.subplots(figsize=(7, 3.5))
held = {}
for place, (name, vertical_sync) in enumerate((("stashing", False), ("vertical sync", True))):
    case, run = train(16, vertical_sync=vertical_sync, **WIDE)
    sizes = [sum(param.nbytes for param in own) for own in case.drawn[0]]
    held[name] = [v["peak"] / size for v, size in zip(run.values, sizes, strict=True)]
    axes.bar(np.arange(4) + 0.4 * place - 0.2, held[name], 0.4, label=name)
axes.plot(np.arange(4), [4 - stage for stage in range(4)], "k_", markersize=30, label="S - s")
axes.set(xticks=range(4), xlabel="stage", ylabel="peak, in sizes of its parameters", ylim=(0, 8.5))
axes.legend(ncols=3)
plt.show()
reveal("a10/versions", sum(100 * (4 - stage) for stage in range(4)))
for name, least in (("stashing", [4, 3, 2, 1]), ("vertical sync", [4] * 4)):
    assert all(n <= most <= n + 3.5 for most, n in zip(held[name], least, strict=True))

# %% [markdown]
# **Explain.** What else does a stage hold beside its versions at the moment of the peak? With
# vertical sync the last stage keeps as many versions as the first. Why can it not let them go? The
# first stage also keeps the activations of the most minibatches. VGG-16 has large activations in
# its first layers, and nearly all of its parameters in the last ones. Which of the two suits this
# kind of pipeline, and which doesn't?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# Now the other price. A chain of four stages learns what a second chain with other parameters
# computes. The recursion with delays is what your stages compute, so one process is enough to see
# it. Plain gradient descent has no delay; with stashing, stage s has a delay of 3 - s; with
# vertical sync, every stage has a delay of 3.

# %% tags=["predict"]
guess(
    "a10/rates",
    "With a learning rate of 0.6, plain gradient descent trains well. Which of the two "
    "asynchronous ways does so, too?",
    choices=["both", "stashing alone", "vertical sync alone", "neither"],
)

# %%
from given.model import Piece, random_parameters
from given.recursion import delayed_descent, lags


def drawn_chain(rng):
    """Parameters of four stages with two layers each."""
    return [random_parameters([8, 8, 8], rng) for _ in range(4)]


rng = np.random.default_rng(0)
start, teacher = drawn_chain(rng), drawn_chain(rng)
inputs = [rng.standard_normal((16, 8)) for _ in range(400)]
targets = []
for minibatch, x in enumerate(inputs):
    for params in teacher:
        x, _ = Piece(0, 0.0, 0.0).forward(minibatch, params, x)
    targets.append(x)

WAYS = {"plain": [0] * 4, "stashing": lags(4), "vertical sync": lags(4, vertical_sync=True)}
fig, row = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
ends = {}
for axes, lr in zip(row, (0.1, 0.6, 1.5), strict=True):
    for name, delays in WAYS.items():
        losses = delayed_descent(start, inputs, targets, lr, delays)[1]
        axes.plot(np.convolve(losses, np.ones(10) / 10, "valid"), label=name)
        ends[name, lr] = np.mean(losses[-20:])
    axes.set(yscale="log", xlabel="minibatch", title=f"learning rate {lr}")
row[0].set_ylabel("loss, mean of 10")
row[0].legend()
plt.show()
well = [name for name in WAYS if ends[name, 0.6] < 2 * ends["plain", 0.6]]
words = {1: "neither", 3: "both"}.get(len(well), f"{well[-1]} alone")
reveal("a10/rates", words)

# %% [markdown]
# **Explain.** For a single weight with the loss h w²/2 and a delay of d updates, gradient descent
# is stable for learning rates below (2 / h) sin(π / (4 d + 2)). Compare the limits for d = 0 and
# d = 3. Why do the stages with stashing tolerate more than d = 3 allows? Vertical sync is closer
# to gradient descent in one respect: all stages use the parameters of one and the same moment. The
# authors of PipeDream found that stashing suffices. What would you give up for vertical sync, and
# what would you gain?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 2. Weight stashing, in torch
#
# The same stage, with an `nn.Module`, its optimizer and autograd. A version of the parameters is
# now harder to keep. The optimizer changes the parameters in place, and the graph of a forward
# pass doesn't hold the numbers that they had. It holds the tensors.
#
# Here is the smallest case. A stage computes `y` with its own weight, another minibatch's update
# changes the weight in place, and then the backward pass of `y` is due.

# %% tags=["predict"]
guess(
    "a10/in-place",
    "What does the backward pass of y give?",
    choices=["the gradient with the old weight", "with the new weight", "a RuntimeError"],
)

# %%
import torch


def gradient_after(update):
    """The gradient of y = w x with respect to x, where w is updated before the backward pass."""
    w = torch.nn.Parameter(torch.tensor([3.0]))
    x = torch.tensor([1.0], requires_grad=True)
    y = w * x
    with torch.no_grad():
        update(w)  # w was 3; now it is 5
    y.backward()
    return x.grad.item()


try:
    seen = {3.0: "the gradient with the old weight", 5.0: "with the new weight"}
    found = seen[gradient_after(lambda w: w.add_(2))]
except RuntimeError as error:
    found = "a RuntimeError"
    print(str(error).splitlines()[0])
reveal("a10/in-place", found)
print("through w.data:", gradient_after(lambda w: w.data.add_(2)))

# %% [markdown]
# So autograd counts the changes of each tensor, and refuses a backward pass that would meet other
# numbers than its forward pass did. An optimizer's `step()` is such a change. A change through
# `.data` isn't counted, and then the gradient is silently wrong. The way out is to compute with a
# copy, which nobody changes: `torch.func.functional_call` calls a module with other parameters
# than its own.

# %% [markdown]
# What do you gain? Compare with a pipeline that has the same messages and drains before each
# update.

# %% tags=["predict"]
guess(
    "a10/no-flush",
    "4 stages, 12 minibatches, an update after each; messages are free. With a flush before each "
    "update, how many times as long does it take as without?",
    unit="times",
)

# %% [markdown]
# The module is `stash_torch.py`. `given/model_torch.py` is supplied: a piece of the model, and the
# loss.
#
# **Think** before you write. Which minibatches share a version, and what does `y.backward()` do to
# `grad` of a tensor that two graphs share? When is a version needed for the last time? And at
# which moment must a copy be made, if the optimizer works in place?

# %%
# {{module stash_torch}}

# %%
# {{check stash_torch}}

# %%
from checks.cases_torch import TrainTorch

COSTS = (1e-3, 2e-3)


def train_torch(num_stages, count, **options):
    """Your module on simulated ranks where messages are free."""
    case = TrainTorch(num_stages, (2,) * count, costs=COSTS, **options)
    run = ringside.run(case.through, num_stages, arguments(case), machine=free)
    return run.raise_for_error()


flushed_s = 12 * 4 * sum(COSTS)  # each minibatch goes through all stages alone
reveal("a10/no-flush", flushed_s / train_torch(4, 12).makespan_s)

# %% [markdown]
# **Explain.** Count both times in units of one forward and one backward pass, for N minibatches and
# S stages. To which factor does the gain tend for large N? A pipeline with a flush can come near
# to it, too. What does it do then to the minibatch, and which other price does it not pay?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# **Run.** The price in memory. Each stage reports the most bytes that it held at one time, here
# divided by those of its parameters. The minibatches have one sample each, so what forward passes
# save hardly counts.

# %%


def held_torch(vertical_sync, count, num_stages=4, width=60):
    """Per stage: the most bytes held at one time, over those of the stage's parameters."""
    sizes = {"ends": (width, width), "hidden": width, "vertical_sync": vertical_sync}
    case = TrainTorch(num_stages, (1,) * count, watched=True, **sizes)
    run = ringside.run(case.through, num_stages, arguments(case)).raise_for_error()
    own = 8 * (2 * width * width + 2 * width)
    return [memory["peak"] / own for memory in run.memory]


fig, axes = plt.subplots(figsize=(6.5, 3.2))
for vertical_sync, color in ((False, "tab:blue"), (True, "tab:orange")):
    for count, style in ((8, "o-"), (16, "x--")):
        label = f"vertical_sync = {vertical_sync}, {count} minibatches"
        axes.plot(held_torch(vertical_sync, count), style, color=color, label=label)
axes.set(xlabel="stage", ylabel="held, in parameters", xticks=range(4), ylim=(0, None))
axes.legend()
plt.show()

# %% [markdown]
# **Explain.** Which parts of what a stage holds do you recognise? Why does `vertical_sync` cost
# the last stage most, and what does it buy? PipeDream-2BW updates only once for every S minibatches
# or more. How many versions does a stage need then, and why?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 3. PipeDream's planner
#
# Somebody must say which layers form a stage, and how many workers replicate it. PipeDream measures
# each layer once, on one GPU, and computes the plan from the numbers. Here is such a profile of
# VGG-16, with minibatches of 128 images. The authors published it with their program.

# %%
WORKERS = 16

from given.profiles import VGG16, VGG16_NAMES, equal_layers, link

print(f"{'layer':<8} {'compute':>10} {'output':>12} {'weights':>10}")
for name, layer in zip(VGG16_NAMES, VGG16, strict=True):
    print(
        f"{name:<8} {layer.compute_s * 1e3:7.1f} ms {layer.output_bytes / 1e6:9.1f} MB "
        f"{layer.weight_bytes / 1e6:7.1f} MB"
    )

# %% [markdown]
# The first layers compute long and have few weights. The last three, `fc6` to `fc8`, are fully
# connected: they compute for 10 of 673 ms and have 89 % of the weights. Data parallelism averages
# all weights on all 16 workers. Think about which layers you would replicate, before you go on.

# %% tags=["predict"]
guess(
    "a10/vgg16-last-stage",
    "The best plan of VGG-16 for 16 workers at 6 GB/s has two stages. How many workers has the "
    "second one?",
    unit="workers",
)

# %% tags=["predict"]
guess(
    "a10/vgg16-speedup",
    "On a network of 1.25 GB/s, how many times as fast as data parallelism is the best plan?",
    unit="times",
)

# %% [markdown]
# A stage with m replicas computes m minibatches at a time, and averages their gradients once. So
# both its times are divided by m. Links and stages all work at the same time, and the slowest of
# them decides. A plan's time is therefore a maximum of maxima. That is why the best plan of many
# layers contains the best plans of fewer layers, and why a table is enough to find it.

# %%
# {{module partition}}

# %%
# {{check partition}}

# %%
from partition import partition, plan_bytes, plan_s

rates = [0.5, 1.25, 2.0, 3.125, 6.0, 12.0, 25.0]
data_parallel, plans = [(0, 16, WORKERS)], {}
for rate in rates:
    machine = link(rate * 1e9)
    plans[rate] = partition(VGG16, WORKERS, machine)
    best_s, plain_s = (plan_s(VGG16, plan, machine) for plan in (plans[rate], data_parallel))
    print(
        f"{rate:6.3f} GB/s: {best_s * 1e3:6.1f} ms, data parallel {plain_s * 1e3:7.1f} ms, "
        f"{plain_s / best_s:5.2f} times as fast, {plans[rate]}"
    )
reveal("a10/vgg16-last-stage", plans[6.0][-1][2])
slow = link(1.25e9)
speedup = plan_s(VGG16, data_parallel, slow) / plan_s(VGG16, plans[1.25], slow)
reveal("a10/vgg16-speedup", speedup)

# %% tags=["checked"]
assert [stage[2] for stage in plans[6.0]] == [15, 1]
assert speedup > 10

# %% [markdown]
# The paper found 15-1, too: 15 workers for the first stage, and 1 for the second. At 1.25 and 2
# GB/s the link between the stages takes longest. Then fewer replicas than 15 are as fast, and your
# planner may return any of these plans.

# %% [markdown]
# **Explain.** The paper measured 5.28 times at 1.25 GB/s, on four machines with four GPUs each, and
# your planner predicts about twice as much. The formula counts the messages of all 16 replicas as
# if they shared one link. How many bytes does a ring of these GPUs really send out of each machine?
# What would data parallelism then take? What else does the formula leave out, for both plans?

# %% [markdown]
# *Your answer:*

# %%
times = np.geomspace(0.3, 30, 40)
straight = equal_layers(16, WORKERS)
fig, axes = plt.subplots(figsize=(6.5, 3.5))
for name, style, chosen in (
    ("one layer on each worker", ":", lambda machine: straight),
    ("data parallel", "--", lambda machine: data_parallel),
    ("planned", "-", lambda machine: partition(VGG16, WORKERS, machine)),
):
    machines = [link(rate * 1e9) for rate in times]
    ms = [1e3 * plan_s(VGG16, chosen(machine), machine) for machine in machines]
    axes.plot(times, ms, style, label=name)
axes.set(xscale="log", yscale="log", xlabel="GB/s of a link", ylabel="ms between minibatches")
axes.set_title("VGG-16 on 16 workers")
axes.legend()
plt.show()

# %% [markdown]
# ### What fits
#
# A stage keeps one version of its weights, and its layers' outputs, for each minibatch that is
# under way. So the first stage of 15-1 keeps two versions, although a GPU with a plain copy of the
# model would keep one.

# %% tags=["predict"]
guess(
    "a10/vgg16-fits",
    "At 6 GB/s a worker of the first stage of 15-1 keeps 9.1 GB. A worker now has 8 GB. How many "
    "stages has the best plan that fits?",
    unit="stages",
)

# %%
machine = link(6e9)
for capacity in (10, 8, 6, 4):
    plan = partition(VGG16, WORKERS, machine, capacity * 10**9)
    if capacity == 8:
        reveal("a10/vgg16-fits", len(plan))
    needed = [round(nbytes / 1e9, 1) for nbytes in plan_bytes(VGG16, plan)]
    print(f"{capacity:3} GB: {plan_s(VGG16, plan, machine) * 1e3:6.1f} ms, {plan}, {needed} GB")

# %% [markdown]
# **Explain.** Data parallelism on 16 workers keeps 5.1 GB, so it would fit in 6 GB. Why does the
# planner take another plan there, of more stages? Which layers make the first stage so large?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 4. Whatever arrives first (extra)
#
# 1F1B is a fixed list: stage s knows before the step which pass comes next. If the message for this
# pass is late, the stage waits, even if another message is there. AxoNN has no list. A stage looks
# at what has arrived, and computes that. Where an activation and a gradient are both there, it
# takes the gradient, because a backward pass frees memory.
#
# Nothing is stale here: the parameters stay the same during the batch, and the pipeline is flushed
# at its end. Sums of gradients don't depend on the order of the summands (but for rounding).

# %% tags=["predict"]
guess(
    "a10/as-many-as-1f1b",
    "Forward passes take between 0.3 and 3 ms. Four stages have at most four microbatches in "
    "flight, as 1F1B has. How does the message-driven step compare with 1F1B?",
    choices=["it is shorter", "it is as long", "it is longer"],
)

# %% tags=["predict"]
guess(
    "a10/twice-as-many",
    "And with eight microbatches in flight: by how much is it shorter than by 1F1B?",
    unit="percent",
)

# %%
# {{module axonn}}

# %%
# {{check axonn}}

# %%
from checks.cases_axonn import Step, drawn_times_s
from given.axonn_times import message_driven, one_f_one_b

S, M, SEEDS = 4, 32, 20
limits = [2, 3, 4, 5, 6, 8, 12, 16, 24]
drawn = [drawn_times_s(S, M, np.random.default_rng(seed)) for seed in range(SEEDS)]
fixed_s = sum(one_f_one_b(*each) for each in drawn)
ratios = {limit: sum(message_driven(*each, limit) for each in drawn) / fixed_s for limit in limits}
words = "it is shorter" if ratios[S] < 0.99 else "it is longer" if ratios[S] > 1.01 else ""
reveal("a10/as-many-as-1f1b", words or "it is as long")
reveal("a10/twice-as-many", 100 * (1 - ratios[2 * S]))
fig, axes = plt.subplots(figsize=(6.5, 3.2))
axes.plot(limits, [ratios[limit] for limit in limits], "o-")
axes.axhline(1.0, color="grey", linestyle=":", label="1F1B, 4 in flight")
axes.set(xlabel="limit: microbatches in flight", ylabel="time over that of 1F1B", ylim=(0.6, 1.8))
axes.set_title(f"{S} stages, {M} microbatches, times that vary")
axes.legend()
plt.show()
assert ratios[S] > 1.05 and ratios[2 * S] < 0.9 and ratios[24] > 0.99 * ratios[16]

# %% [markdown]
# **Explain.** With four in flight each stage has little to choose from. Why is "gradients first"
# then a bad rule for the last stage, which waits for activations? What do eight in flight cost on
# stage 0? And why does it help no more, from 16 on, to have more of them in flight?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# One step of your stages, with a limit of 8, and its timeline:

# %%
case = Step(S, (1,) * 10, seed=3)
run = ringside.run(case.through, S, arguments(case))
run.timeline

# %% [markdown]
# ## 5. On a cluster
#
# The same `stash.py`, unchanged, on real nodes: `measured_training` has two layers of n x n on each
# stage. In a terminal, in this folder:
#
# ```
# TRAIN="ringside launch stash.py:measured_training --site zaratan --nodes 2"
# $TRAIN -- --n 512 --n 1024 --minibatches 4
# $TRAIN -- --n 512 --n 1024 --minibatches 32
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook: the last run's, so note the first one's times.
# The run counts if it is complete and was made with the `stash.py` that you hand in.

# %%
# {{run stash_cluster points=5}}

# %% [markdown]
# **Your paragraph.** Give the time of one minibatch with 4 and with 32 of them, and the ratio that
# (N + S - 1)(tf + tb) predicts. Where do they differ, and why? A pipeline that flushes after every
# 4 minibatches would take eight times the first time for 32 of them. What does the training without
# a flush save on this machine, and what does it cost in memory, for the number of stages of your
# run? (About 150 words.)

# %%
# {{paragraph stash_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
