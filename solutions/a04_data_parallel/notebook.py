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
# # Data parallelism: many ranks, one network
#
# Every rank holds a copy of the whole network and trains on its own part of the samples; an
# all-reduce makes one gradient of all parts. It is the plainest way to train on many machines,
# and the one that every other way is combined with.
#
# At the end you will have
#
# - five modules that run unchanged on simulated ranks and on a cluster, under `mpiexec` or, the
#   torch one, under `torchrun`;
# - trained a network on handwritten digits on one rank and on eight, with the same result;
# - a speedup curve to 512 ranks, and the reason why it bends;
# - seen what large batches do to training, on curves of your own, and what helps;
# - measured your step on a real machine, and said in a paragraph why it differs.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points: values, bytes counted by the network,
# the split of work, safety, and time on a modelled cluster. All that the hidden suite asks
# stands in the module's docstring. Its tests are those in `checks/`, with other cases. The folder
# `given/` has `model.py` (a network with an explicit backward pass; its matrix products count as
# work on the modelled machine), `model_torch.py` (the same one in torch), `digits.py` (the data)
# and `train.py` (the loop round your modules). Read `model.py` first: it is one page.
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
import importlib

import matplotlib.pyplot as plt
import numpy as np
from given import digits, model

import ringside
from ringside import Machine, guess, replay, reveal
from ringside.checking.ring_bytes import sent_as_ring
from ringside.timing.extrapolation import widen

# %load_ext ringside

WIDTHS = (64, 64, 32, 10)
(x, y), (x_test, y_test) = digits.load()
params = model.init_params(WIDTHS, seed=0)
print(f"{len(x)} training samples of {x.shape[1]} pixels, {len(x_test)} for testing")
print(f"{sum(p.size for p in params)} parameters in {len(params)} arrays")

# %% [markdown] known={"a04/cut": "it names both ways"}
# ## 1. Who takes which samples
#
# An epoch goes through all samples once, in a random order. With p ranks each takes a p-th of
# the order. There is more than one way to cut it, and some of them change what is learned.
#
# **Think.** One slide gives rank 1 the samples 1 to B/4, rank 2 the samples B/4 to 2B/4, and so
# on. What is wrong with that?
#
# The order can be cut into p blocks, or dealt out like cards.

# %% tags=["predict"]
guess(
    "a04/cut",
    "In which of the two does a step of p ranks take the samples that one rank would "
    "take in a step p times as large?",
    choices=[
        "cut into blocks",
        "dealt out like cards",
    ],
)

# %%
# {{module shard}}

# %%
# {{check shard}}

# %% [markdown]
# Each row is a rank, each column a step in which it takes one sample. Run it with another
# epoch, then with another number of ranks.

# %%
shard = importlib.reload(importlib.import_module("shard")).shard  # as its file is now
P, EPOCH = 4, 0
print("one rank:", *shard(10, 1, 0, EPOCH, seed=3))
for rank in range(P):
    print(f"rank {rank} of {P}:", *shard(10, P, rank, EPOCH, seed=3))
reveal("a04/cut", "dealt out like cards")

# %% [markdown]
# ## 2. One synchronous step
#
# The loss is a mean over all B samples of all ranks. Every rank computes the gradient of the
# mean over *its own* b samples, and then they must be put together.
#
# **Think** before you write:
#
# - Three ranks have 1, 7 and 3 samples. By which numbers do you multiply their gradients?
# - Instead of gradients, each rank could step alone and then average *parameters*. With plain
#   SGD that is the same. With momentum, which quantity is no longer equal on all ranks?
# - Who calls the first broadcast: rank 0, which has the parameters, or everybody?
#
# The library's all-reduce is allowed here: you have written it in the last assignment.

# %% tags=["predict"]
guess(
    "a04/sum",
    "A slide says: with gradients g1, ..., g4 of four workers, take Q = g1 + g2 + g3 "
    "+ g4 and step by -lr * Q. Each g is a mean already. How many times too large is "
    "the step?",
    unit="times",
)

# %%
# {{module step}}

# %%
# {{check step}}

# %%
means = np.full(P, 0.5)  # of four workers whose samples are alike
reveal("a04/sum", means.sum() / means.mean())

# %% [markdown] tags=["open"]
# Look at one step: 64 samples on each of four ranks, on a modelled machine whose cores are slow
# enough that this small network keeps them busy. Blue is work that `model.py` declares, a phase
# for each layer; the rest is the all-reduce.


# %%
def step_arguments(local_batch_size, world_size, widths=WIDTHS):
    """What ``train_step`` gets on each rank: the same copy, other samples."""
    weights = model.init_params(widths, seed=0)
    velocity = [np.zeros_like(p) for p in weights]
    rng = np.random.default_rng(1)
    parts = [rng.integers(len(x), size=local_batch_size) for _ in range(world_size)]
    return [(weights, velocity, x[part], y[part], 0.1, 0.9) for part in parts]


slow_cores = Machine(
    "slow cores",
    alpha_s=1e-6,
    beta_s_per_byte=1e-9,
    flop_per_s=1e10,
    collectives={"allreduce": "halving_doubling"},
)
step_run = ringside.run("step.py:train_step", 4, step_arguments(64, 4), machine=slow_cores)
print(f"{step_run.makespan_s * 1e6:.0f} µs, bytes as a ring: {sent_as_ring(step_run)}")
step_run.timeline

# %% [markdown]
# **Explain.** All ranks compute, then all communicate: which of them could overlap? (That is the
# next assignment.) What happens to the blue part, and to the rest, if you double the samples;
# if you double the hidden units; if you double the ranks?
#
# ### The same training, on one rank and on eight
#
# If shards and steps are right, the number of ranks changes nothing but rounding. Each rank
# begins with other parameters here, and the broadcast makes them one.


# %%
def train(world_size, local_batch_size, rates, seed=0, momentum=0.9):
    """Train on ranks; the loss of each step, and the test accuracy after each epoch."""
    arguments = [
        (model.init_params(WIDTHS, [seed, rank]), x, y, local_batch_size, rates, momentum, seed)
        for rank in range(world_size)
    ]
    result = ringside.run("given/train.py:train", world_size, arguments)
    losses, history = result.values[0]
    return np.array(losses), [model.accuracy(p, x_test, y_test) for p in history]


one, _ = train(1, 128, [0.1] * 24)
eight, _ = train(8, 16, [0.1] * 24)
print(f"largest difference of the loss in 24 steps: {abs(one - eight).max():.1e}")
assert abs(one - eight).max() < 1e-10

# %% [markdown]
# ### How far does it scale?
#
# Two questions are asked of p ranks. *Strong scaling*: the same batch, split p ways, in less
# time. *Weak scaling*: a batch p times as large in the same time.
#
# The network is wider now, so that there is work to share.

# %%
wide = (64, 256, 128, 10)
weights = model.init_params(wide, seed=0)
B = 2048
serial_s = model.num_flops(weights, B) / slow_cores.flop_per_s
gradient_bytes = sum(w.nbytes for w in weights)
print(f"{B} samples on one slow core: {serial_s * 1e3:.1f} ms")
print(
    f"the gradient's bytes on the wire: {gradient_bytes * slow_cores.beta_s_per_byte * 1e3:.2f} ms"
)

# %% [markdown]
# Before you run it: how often does a gradient cross a rank's port in an all-reduce?
#
# Strong scaling is run on real processes, up to 64 of them. For weak scaling eight ranks are
# run, and their trace is stretched: each new rank does what one of the eight did, and the
# collectives go over all.

# %% tags=["predict"]
guess(
    "a04/strong",
    "On how many ranks, of 1, 2, 4, ..., 64, is a step of these samples fastest?",
    unit="ranks",
)

# %% tags=["predict"]
guess(
    "a04/weak",
    "With 256 samples on each, what is the efficiency of weak scaling on 512 ranks?",
    unit="%",
)

# %%
strong = {
    p: ringside.run(
        "step.py:train_step", p, step_arguments(B // p, p, wide), machine=slow_cores
    ).makespan_s
    for p in (1, 2, 4, 8, 16, 32, 64)
}
eight_ranks = ringside.run(
    "step.py:train_step", 8, step_arguments(256, 8, wide), machine=slow_cores
)
weak = {
    p: replay(widen(eight_ranks.trace, p), slow_cores).makespan_s
    for p in (8, 16, 32, 64, 128, 256, 512)
}

# %%
figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
ranks = np.array([1, 512])
axes.plot(ranks, ranks, color="0.6", linestyle=":", label="ideal")
axes.plot(
    list(strong), [serial_s / t for t in strong.values()], "o-", label=f"strong: {B} samples in all"
)
one_rank_s = model.num_flops(weights, 256) / slow_cores.flop_per_s
axes.plot(
    list(weak),
    [p * one_rank_s / t for p, t in weak.items()],
    "s-",
    label="weak: 256 samples a rank",
)
axes.set_xscale("log", base=2)
axes.set_yscale("log", base=2)
axes.set(xlabel="ranks", ylabel="samples a second, over those of one rank")
ticks = [2**k for k in range(10)]
axes.set_xticks(ticks, ticks)
axes.set_yticks(ticks, ticks)
axes.set_title("Data parallelism on slow cores")
axes.grid(alpha=0.3)
axes.legend()
plt.show()
reveal("a04/strong", min(strong, key=strong.get))
reveal("a04/weak", 100 * one_rank_s / weak[512])

# %% [markdown]
# **Explain.** The strong curve bends where the all-reduce takes as long as the work. Which of its
# two terms, latency or bytes, is it here? Why does the weak curve stay straight, and what
# price does it have, that no clock shows? Section 4 is about that price.

# %% [markdown]
# ## 3. The step on torch.distributed
#
# In torch, autograd finds the gradients and an optimizer keeps the velocity: between
# `loss.backward()` and `optimizer.step()` stands the all-reduce. The same file runs on gloo
# (CPUs) and on NCCL (GPUs); here it runs on the same counted network as before.
#
# **Think** before you write:
#
# - `cross_entropy(model(x), y)` is a mean over this rank's samples. What is it without any, and
#   which `reduction` has no such trouble?
# - A parameter with `requires_grad=False` has `grad` None. What would SGD with momentum do with it
#   if it got a gradient of zeros instead?
# - `optimizer.step()` looks at `p.grad`. What must stand there, and when?

# %%
# {{module step_torch}}

# %%
# {{check step_torch}}

# %% [markdown]
# The same four ranks, samples and machine as for `step.py`. Now torch's operators are counted, the
# small ones too.

# %%
torch_run = ringside.run(
    "checks/inside_torch.py:train_step", 4, step_arguments(64, 4), machine=slow_cores
)
for mine, torchs in zip(step_run.values[0][0], torch_run.values[0][0], strict=True):
    assert abs(mine - torchs).max() < 1e-12
print(f"{torch_run.makespan_s * 1e6:.0f} µs, bytes as a ring: {sent_as_ring(torch_run)}")
torch_run.timeline

# %% [markdown]
# **Explain.** The weights are equal to 1e-12. Compare the two makespans and the two byte counts:
# what differs, if anything, and by how many numbers?

# %% [markdown]
# ## 4. The learning rate of a large batch
#
# Weak scaling makes the batch larger with every rank, and takes fewer steps an epoch. A step of k
# times as many samples has a gradient with a k-th of the variance, but it is one step and not k.
# The *linear scaling rule* makes it k times as long. That holds while the gradient changes
# little within those k steps, and at the start of training it changes much: hence the *warm-up*.

# %%
# {{module warmup}}

# %%
# {{check warmup}}

# %% [markdown]
# A rate of 0.03 was found for batches of 32, with momentum 0.9. Now eight ranks take 64 samples
# each, k = 16, for the same 20 epochs. Sketch the training loss over epochs, for
#
# 1. batches of 32, rate 0.03: the base;
# 2. batches of 512 with the base rate (what if you forget the rule?);
# 3. batches of 512, k times the rate from the first step;
# 4. the same, with a warm-up of ten epochs.
#
# Then run it. The three of large batches are run from several seeds: one run can be luck.

# %% tags=["predict"]
guess(
    "a04/warm-up",
    "Which way of taking large batches ends with the best test accuracy, in the "
    "middle of its runs?",
    choices=[
        "the base rate",
        "k times the rate from the first step",
        "k times the rate, with a warm-up",
    ],
)

# %%
warmup = importlib.reload(importlib.import_module("warmup"))
EPOCHS, BASE_LR, BASE_BATCH, SEEDS = 20, 0.03, 32, range(6)


def rates(local_batch_size, warmup_epochs):
    return warmup.schedule(
        len(x), EPOCHS, local_batch_size, 8, BASE_LR, BASE_BATCH, warmup_epochs=warmup_epochs
    )


k = warmup.scale(64, 8, BASE_BATCH)
scaled, warmed = rates(64, 0), rates(64, 10)
curves = {"batch 32, base rate": [train(8, 4, rates(4, 0))]}
for name, schedule in (
    ("batch 512, base rate", [BASE_LR] * len(scaled)),
    (f"batch 512, {k:g} times the rate", scaled),
    (f"batch 512, {k:g} times, warm-up", warmed),
):
    curves[name] = [train(8, 64, schedule, seed) for seed in SEEDS]
for name, runs in curves.items():
    print(f"{name:<30} test accuracy:", *(f"{accuracy[-1]:.3f}" for _, accuracy in runs))
middle = [np.median([accuracy[-1] for _, accuracy in runs]) for runs in curves.values()][1:]
ways = ["the base rate", "k times the rate from the first step", "k times the rate, with a warm-up"]
reveal("a04/warm-up", ways[int(np.argmax(middle))])

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for colour, (name, runs) in zip(("0.3", "C0", "C1", "C2"), curves.items(), strict=True):
    for number, (losses, accuracy) in enumerate(runs):
        label = name if number == 0 else None
        epochs = np.arange(1, EPOCHS + 1)
        left.plot(epochs, losses.reshape(EPOCHS, -1).mean(axis=1), color=colour, alpha=0.6)
        right.plot(epochs, accuracy, color=colour, alpha=0.6, label=label)
left.set(xlabel="epoch", ylabel="training loss, mean of the epoch", yscale="log", ylim=(1e-3, 20))
right.set(xlabel="epoch", ylabel="test accuracy", ylim=(0, 1))
for axes in (left, right):
    axes.set_xticks(range(0, EPOCHS + 1, 5))
    axes.grid(alpha=0.3)
figure.legend(loc="outside lower center", ncols=2)
plt.show()

# %% [markdown]
# **Explain.** After the same number of epochs, how far are batches of 512 behind those of 32 at
# the base rate (the *large-batch gap*), and how many steps did each take? What goes wrong in
# most runs without a warm-up, and in which epochs is it decided? Is the gap closed with it?
#
# **Explore.** Twice as large a batch, k = 32: does the rule still hold? Goyal et al. trained
# ImageNet at k = 32 (8192 images) without loss, and saw it break beyond. What breaks it here?
#
# **Explore: LARS.** A rate that one layer bears is too much for another. LARS (You, Gitman,
# Ginsburg 2017) gives each layer its own: a step moves a weight matrix by a fixed share of its
# norm, whatever the gradient's. Nothing is graded here. Since ranks change nothing but rounding,
# it runs on one.


# %%
def train_lars(batch_size, trust=0.01, momentum=0.9, seed=0):
    """SGD with momentum and a rate for each array: trust * |w| / |g|."""
    weights = model.init_params(WIDTHS, [seed, 0])
    velocity = [np.zeros_like(w) for w in weights]
    for epoch in range(EPOCHS):
        order = shard(len(x), 1, 0, epoch, seed)
        for start in range(0, len(x), batch_size):
            batch = order[start : start + batch_size]
            _, gradients = model.loss_and_gradients(weights, x[batch], y[batch])
            for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
                norm = np.linalg.norm(w) / (np.linalg.norm(g) + 1e-12) if w.ndim == 2 else 1.0
                velocity[i] = momentum * velocity[i] + trust * norm * g
                weights[i] = w - velocity[i]
    return model.accuracy(weights, x_test, y_test)


for batch_size in (512, len(x)):
    print(
        f"LARS, batches of {batch_size}:", *(f"{train_lars(batch_size, seed=s):.3f}" for s in SEEDS)
    )

# %% [markdown]
# ## 5. Several microbatches, one synchronisation (extra)
#
# A batch need not fit the memory: put it through in pieces, add up the gradients, and
# synchronise once. It also trades bytes for batch size: k times the samples for each all-reduce.
#
# **Think.** Pieces of 5, 2 and 1 samples, and another rank without any. Which sums must travel so
# that the step is that of the whole batch?

# %%
# {{module accumulate}}

# %%
# {{check accumulate}}

# %% [markdown]
# **Explore.** One rank's memory holds 64 samples. How does the time of a sample fall with the
# number of microbatches, and where does it stop to pay?

# %%
# for pieces in (1, 2, 4, 8, 16):
#     arguments = [
#         (w, v, [(a, b)] * pieces, lr, m) for w, v, a, b, lr, m in step_arguments(64, 8, wide)
#     ]
#     run = ringside.run("accumulate.py:accumulated_step", 8, arguments, machine=slow_cores)
#     print(f"{pieces:>3} pieces: {run.makespan_s / (8 * 64 * pieces) * 1e6:.2f} µs a sample")

# %% [markdown]
# ## 6. On a cluster
#
# The same `step.py`, unchanged, on real nodes. In a terminal, in this folder:
#
# ```
# ringside launch step.py:train_step --site zaratan --nodes 2 -- --n 512 --n 4096 --n 32768
# ```
#
# `n` is the number of samples of all ranks together; `Step` in `checks/cases.py` draws them.
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook. The run counts if it is complete and was made
# with the `step.py` that you hand in.
#
# `step_torch.py` runs on GPUs over NCCL, and over gloo where no GPU is asked for. Let it leave
# its record in a folder of its own: the one to hand in is that of the module above.
#
# ```
# ringside launch checks/inside_torch.py:train_step --site zaratan --gpus-per-node 4 --out gpus \
#     -- --n 512 --n 32768
# ```

# %%
# {{run step_cluster points=5}}

# %% [markdown]
# **Your paragraph.** The time of a step is `a + n c`: fit a and c to your three measurements.
# Compare a with what `Machine.load("zaratan")` predicts for an all-reduce of the gradient (of
# `model.init_params((64, 128, 64, 10), 0)`) on your number of ranks, and c with the arithmetic that
# `model.num_flops` counts. Which of the two is further off, and which assumption is the likely
# reason? From which n on is a step on all your ranks faster than on one of them? (About 150
# words.)

# %%
# {{paragraph cluster_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
