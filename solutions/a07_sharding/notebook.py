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
# # Sharding
#
# In data-parallel training every rank has a copy of everything: parameters, gradients, and what
# the optimizer remembers. With Adam in mixed precision that is 16 bytes for each parameter, on
# each rank: 120 GB for 7.5 billion parameters, more than a GPU of 80 GB has. Yet the ranks need
# only one copy between them.
#
# *Sharding* cuts these copies into parts, *shards*, and gives each rank one. What a rank doesn't
# have, it asks for when it needs it. ZeRO ("zero redundancy optimizer") does so in three stages:
#
# | stage | in shards | bytes for a parameter, N ranks | sent a step, in elements |
# |---|---|---|---|
# | 0 | nothing | 16 | 2 Psi |
# | 1 | the optimizer's state | 4 + 12/N | 2 Psi |
# | 2 | and gradients | 2 + 14/N | 2 Psi |
# | 3 | and parameters | 16/N | 3 Psi |
#
# Psi is the number of parameters. Stage 3 is also called FSDP, "fully sharded data parallel".

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points. All that it asks stands in the module's
# docstring. The tests lie in `checks/`, where you can read them; the hidden suite asks the same of
# other cases. In `given/` is what modules import. Rules that hold in every module: inputs stay as
# they were, results are new arrays, nothing is kept from one call to the next, the given
# communicator is used, and everything that is started is completed.
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
# ## 1. Equal parts
#
# A network has parameters of many shapes. If each rank took whole parameters, one would have
# 411 of VGG-16's 553 MB, since one layer has so many. So all parameters are written into one
# *flat* vector, row by row, and that is cut into N equal shards. The end is filled up with zeros,
# the *padding*.
#
# **Think** before you write: a GPT uses one matrix twice, as its first layer and its last one. If
# it stands twice in the flat vector, who updates it?

# %% tags=["predict"]
guess(
    "a07/padding",
    "A million and one parameters are cut for 64 ranks. How many elements of padding are there?",
    unit="elements",
)

# %%
# {{module partition}}

# %%
# {{check partition}}

# %% [markdown]
# **Run.** The shards of a small GPT whose first and last matrix are one.

# %%
from importlib import import_module, invalidate_caches, reload

invalidate_caches()
partition = reload(import_module("partition"))  # as its file is now

words = np.ones((50, 8))
params = [words, *(np.ones(s) for s in ((8, 24), (24,), (8, 32), (32, 8), (8,))), words]
starts, shard_size = partition.layout(params, 4)
print(f"starts {starts}, shards of {shard_size} elements")
for rank in range(4):
    print(f"rank {rank}:", partition.pieces(starts, [p.shape for p in params], shard_size, rank))
million = partition.layout([np.broadcast_to(0.0, 1_000_001)], 64)[1]
reveal("a07/padding", 64 * million - 1_000_001)

# %% [markdown]
# **Explain.** Which parameters have two owners? What would change in `zero1` if every rank had
# whole parameters instead: in memory, and in the longest time of an update?

# %% [markdown]
# ## 2. ZeRO 1: the optimizer's state
#
# Adam remembers two numbers for each parameter. Adam updates each element by itself, so the owner
# of a shard can update it with nothing else at hand but the shard's mean gradient. That is what a
# *reduce-scatter* gives it. Then all ranks need the new parameters: an *all-gather*.

# %% tags=["predict"]
guess(
    "a07/faster",
    "On 8 ranks Adam's update of all parameters takes as long as the all-reduce before it. How "
    "many times as fast as these two is a step of ZeRO 1?",
    unit="times",
)

# %%
# {{module zero1}}

# %%
# {{check zero1}}

# %% [markdown]
# **Run.** One step of 64 000 parameters on 8 ranks, and its timeline.

# %%
from checks.cases import Steps, state_nbytes
from given.adam import FLOPS

from ringside.checking.ring_bytes import sent_as_ring

N, PSI = 8, 64_000
machine = Machine.load("textbook,alpha_s=1e-7")
all_reduce_bytes = 2 * (N - 1) / N * PSI * 8
all_reduce_s = 2 * (N - 1) * machine.alpha_s + all_reduce_bytes * machine.beta_s_per_byte
machine = machine.with_(flop_per_s=FLOPS * PSI / all_reduce_s)  # the update takes as long
case = Steps(N, PSI, clip=1.0)
run = ringside.run(case.through, N, [case.inputs(rank) for rank in range(N)], machine=machine)
print(f"a rank's state: {state_nbytes(run.values[0]['state'])} of {2 * PSI * 8} bytes")
print(f"sent by a rank: {sent_as_ring(run)[0]:.0f} bytes, by an all-reduce {all_reduce_bytes:.0f}")
run.timeline

# %%
reveal("a07/faster", 2 * all_reduce_s / run.makespan_s)

# %% [markdown]
# **Explain.** Why are the bytes the same, although twice as many collectives are called? What does
# the short collective in the middle of the timeline carry? Without it each rank would clip by the
# norm of its own shard: would its part of the gradient come out too long or too short?
#
# A mistake that is hard to see: somebody forgets to divide by N, and updates with the sum of the
# gradients. Nothing is clipped.

# %% tags=["predict"]
guess(
    "a07/sum",
    "What does it do to Adam's steps, without weight decay?",
    choices=["N times as long", "next to nothing", "shorter by the root of N"],
)

# %%
from given.adam import adam

ends = []
for factor in (1, N):
    w, m, v = np.zeros((3, 5))
    for t in range(1, 6):
        g = factor * np.random.default_rng(t).standard_normal(5)
        w, m, v = adam(w, g, m, v, t, lr=0.1)
    ends.append(w)
    print(f"gradient times {factor}: {w}")
difference = np.abs(ends[0] - ends[1]).max()
reveal("a07/sum", "next to nothing" if difference < 1e-6 else "N times as long")

# %% [markdown]
# **Explain.** Where does the factor vanish? Which argument of your `step` would show the mistake,
# and which of plain SGD's?

# %%
# The bytes that a rank keeps for each parameter, in mixed precision.
counts = np.array([1, 2, 4, 8, 16, 64, 256, 1024])
stages = {"0": 16 + 0 / counts, "1": 4 + 12 / counts, "2": 2 + 14 / counts, "3": 16 / counts}
fig, axes = plt.subplots(figsize=(6.5, 3.5))
for (stage, per_parameter), marker in zip(stages.items(), "os^d", strict=True):
    axes.plot(counts, 7.5 * per_parameter, marker=marker, label=f"stage {stage}")
axes.axhline(80, color="grey", linestyle=":", label="a GPU of 80 GB")
axes.set(xscale="log", yscale="log", xlabel="ranks N", ylabel="GB on each rank")
axes.set_title("7.5 billion parameters with Adam")
axes.legend()
plt.show()
at_64 = {stage: 7.5 * values[counts == 64][0] for stage, values in stages.items()}
print({stage: round(float(gigabytes), 2) for stage, gigabytes in at_64.items()})
assert abs(at_64["1"] - 31.4) < 0.05 and abs(at_64["3"] - 1.9) < 0.05

# %% [markdown]
# ## 3. ZeRO 3: parameters that come and go
#
# Optimizer states are sharded, and gradients perhaps. What is left on every rank is a whole copy of
# the parameters. But a layer's parameters are needed twice a step only: when the layer computes
# forward, and when it computes backward. In between they may lie in shards, one on each rank.
#
# So a rank borrows: it gathers a layer just before it computes, and frees it just after. PyTorch
# does that under the name `fully_shard` (FSDP). You write it with four hooks a layer.
#
# Hooks are functions that torch calls for you. Look when each of them comes:

# %%
import torch
from checks.cases_torch import Alone, Train, stretched
from given.layers_torch import network

from ringside import replay
from ringside.checking.ring_bytes import sent_as_ring

seen = []
small = network([4, 4, 4])
for k, layer in enumerate(small):
    layer.register_forward_pre_hook(lambda *_, k=k: seen.append(f"before forward {k}"))
    layer.register_forward_hook(lambda *_, k=k: seen.append(f"after forward {k}"))
    layer.register_full_backward_pre_hook(lambda *_, k=k: seen.append(f"before backward {k}"))
    weight = layer.linear.weight
    weight.register_post_accumulate_grad_hook(lambda *_, k=k: seen.append(f"gradient {k}"))
small(torch.ones(2, 4, dtype=torch.float64).requires_grad_()).sum().backward()
print(*seen, sep="\n")
assert seen.index("gradient 1") < seen.index("before backward 0")

# %% [markdown]
# One more thing is given: `FlatLayer` in `given/layers_torch.py` lays a layer's parameters into one
# flat tensor, of which the module's parameters are views. It can give the tensor's memory back, and
# take it again. Read it; it is short. The views stay, so the weights that autograd saved are right
# again when the tensor is filled again.
#
# Plain data parallelism sends an all-reduce of all gradients in a step: 2 (p - 1) / p of their
# bytes. Before you write the module, count what ZeRO 3 sends.

# %% tags=["predict"]
guess(
    "a07/zero3-volume",
    "How many times the bytes of plain data parallelism does a rank send in a step of ZeRO 3?",
    unit="times",
)

# %%
# {{module zero3_torch}}

# %%
# {{check zero3_torch}}

# %% [markdown]
# Now run a step: eight equal layers on four ranks. Beside it runs the same network in torch's own
# `fully_shard`, on the same network, which counts both.

# %%
p = 4
case = Train(p, (32,) * 9, bias=False, costs=(2e-5, 4e-5), steps=1)
inputs = [case.inputs(rank) for rank in range(p)]
mine = ringside.run(case.through, p, inputs)
whole = [param for layer in case.params for param in layer]
theirs = ringside.run(
    "checks/inside_torch.py:with_fully_shard", p,
    [(spec, whole, steps, False) for spec, _, steps, *_ in inputs],
)  # fmt: skip
total = sum(layer.nbytes for layer in case.layers)
plain = 2 * total * (p - 1) / p
for name, result in (("yours", mine), ("fully_shard", theirs)):
    kinds = [each.name for each in result.collectives]
    print(
        f"{name:<12} {sent_as_ring(result)[0]:8.0f} bytes, {kinds.count('allgather')} all-gathers, "
        f"{kinds.count('reduce_scatter')} reduce-scatters, {result.makespan_s * 1e6:.0f} µs"
    )
reveal("a07/zero3-volume", sent_as_ring(mine)[0] / plain)
assert sent_as_ring(mine)[0] <= 1.5 * plain
mine.timeline

# %% [markdown]
# **Explain.** Where do the three parts of the volume come from? Which gather is left out in your
# program, and what does it save with 8 layers and with 80? Find in the timeline the only
# communication that nothing can hide.
#
# ### What a rank holds
#
# Twelve layers of 32 KiB on four ranks. With plain data parallelism each rank holds 12 layers of
# parameters and 12 of gradients, 24 in all (and the optimizer's states, which we leave out).

# %% tags=["predict"]
guess(
    "a07/zero3-memory",
    "How many layers' bytes does a rank hold at its peak, parameters, gradients and activations?",
    unit="layers",
)

# %%
layer_bytes = 8 * 64 * 64
peaks = {}
for ranks in (2, 4, 8):
    deep = Alone(ranks, (64,) * 13)
    result = ringside.run(deep.through, ranks, [deep.inputs(rank) for rank in range(ranks)])
    peaks[ranks] = result.memory[0]["peak"] / layer_bytes
reveal("a07/zero3-memory", peaks[4])
for ranks, layers in peaks.items():
    print(f"{ranks} ranks: {layers:.1f} layers at the peak, of which {24 / ranks:.1f} are shards")
assert peaks[8] < peaks[4] < peaks[2] < 24

# %% [markdown]
# **Explain.** One part of the peak falls as 1 / N, and another does not fall at all. What is in the
# second part? What would you change if one layer alone were too large for a GPU?
#
# ### Until the wire is busier than the GPU
#
# All ranks do the same, so the trace of four ranks can be stretched to more: the same layers in
# more shards. Each rank keeps its batch.

# %%
cluster = Machine.load("zaratan").with_(kernel_overhead_s=0.0)
counts, curves = [4, 8, 16, 32], {}
for backward_us in (2, 20, 80):
    costs = (backward_us / 2e6, backward_us / 1e6)
    large = Train(4, (64,) * 7, bias=False, costs=costs, steps=1)
    inputs = [large.inputs(rank) for rank in range(4)]
    trace = ringside.run(large.through, 4, inputs, machine=cluster).trace
    curves[backward_us] = [
        6 * sum(costs) / replay(stretched(trace, n), cluster).makespan_s for n in counts
    ]
fig, axes = plt.subplots(figsize=(6.5, 3.5))
for (backward_us, shares), marker in zip(curves.items(), "os^", strict=True):
    axes.plot(counts, shares, marker=marker, label=f"{backward_us} µs")
axes.set(xlabel="ranks", ylabel="share of the step that computes", ylim=(0, 1.05))
axes.set_xticks(counts, counts)
axes.set_title("ZeRO 3 on zaratan, by the time of a layer's backward pass")
axes.legend(title="backward pass")
plt.show()
assert curves[80][-1] > curves[2][-1]

# %% [markdown]
# **Explain.** Where does each curve fall, and is it latency or bandwidth that pulls it down? Larger
# batches help here as they do for plain data parallelism. How much larger must a layer's work be
# than there, if all three collectives are to be hidden? (Its forward pass takes half as long as its
# backward pass.)

# %% [markdown]
# ## 4. Where the bytes go, and what fits
#
# A parameter in mixed precision with Adam has 16 bytes: 2 of weight, 2 of gradient and 12 of
# optimizer state. ZeRO's stage 1 shards the 12, stage 2 also the gradients, stage 3 also the
# weights. That is one half of the memory of a step. The other half are the activations: what the
# forward pass leaves for the backward pass. They grow with the batch, and no stage shards them.
#
# You have 64 GPUs of 32 GB, and a GPT of 7.5 billion parameters. Each GPU has one sequence of 2048
# tokens, and each layer is computed forward once more in the backward pass, so that it keeps its
# input alone.

# %% tags=["predict"]
guess(
    "a07/stage",
    "Which is the first stage of ZeRO with which a step of this model fits on the 64 GPUs?",
    choices=["stage 0", "stage 1", "stage 2", "stage 3", "none"],
)

# %% tags=["predict"]
guess(
    "a07/again",
    "By what share does computing every layer forward once more lengthen a step, if a backward "
    "pass takes twice as long as a forward pass?",
    unit="%",
)

# %%
# {{module memory}}

# %%
# {{check memory}}

# %%
from importlib import import_module, invalidate_caches, reload

invalidate_caches()
memory = reload(import_module("memory"))  # as its file is now
seven = memory.Sizes(num_layers=36, width=4096, num_heads=32, sequence=2048, vocabulary=51_200)
state_gb = [memory.state_bytes(memory.num_parameters(seven), 64, k) / 1e9 for k in range(4)]
kept_gb = {again: memory.activation_bytes(seven, 1, recompute=again) / 1e9 for again in (0, 1)}
fig, axes = plt.subplots(figsize=(7, 3.5), constrained_layout=True)
for again, place in ((0, -0.2), (1, 0.2)):
    x = [k + place for k in range(4)]
    axes.bar(x, state_gb, 0.35, color="tab:blue", label=None if again else "state")
    label = "activations, recomputed" if again else "activations, all kept"
    color = "tab:green" if again else "tab:orange"
    axes.bar(x, [kept_gb[again]] * 4, 0.35, bottom=state_gb, color=color, label=label)
axes.axhline(32, color="black", linestyle=":", label="32 GB")
axes.set(xticks=range(4), xlabel="stage of ZeRO", ylabel="GB on each GPU")
axes.set_title("A step of 7.5 billion parameters on 64 GPUs")
axes.legend()
plt.show()

# %%
fits = [k for k in range(4) if state_gb[k] + kept_gb[1] <= 32]
reveal("a07/stage", f"stage {fits[0]}")
forward, backward = 1, 2
reveal("a07/again", 100 * forward / (forward + backward))

# %% [markdown]
# **Explain.** The state of stage 1 alone takes 31.3 GB, which is less than 32. What is missing in
# that comparison? Without recomputation no stage fits on any number of GPUs: which part of the
# memory doesn't shrink when GPUs are added, and name two other ways to make it smaller. What does
# recomputation save in a model of one layer, and why?
#
# Is the formula right? Below, a small GPT runs on the simulated network, where each allocation and
# each release of a tensor is counted.
#
# Real training uses fused attention, which stores neither the probabilities nor their mask. Then
# the term 5 a s / h falls away.

# %% tags=["predict"]
guess(
    "a07/fused",
    "What share of a layer's activations falls away with fused attention, for the model above?",
    unit="%",
)

# %%
import ringside

small = memory.Sizes(num_layers=4, width=128, num_heads=4, sequence=64, vocabulary=300)
numbers = (4, 128, 4, 64, 300)
for again in (False, True):
    told = ringside.run("given/gpt_torch.py:kept", 1, [(numbers, 2, 2, True, again)]).memory[0]
    counted, formula = (
        told["live"]["activations"],
        memory.activation_bytes(small, 2, recompute=again),
    )
    print(f"recompute={again}: counted {counted:,} bytes, formula {formula:,}")
    assert abs(counted - formula) <= 0.02 * counted
scores = 5 * seven.num_heads * seven.sequence / seven.width
reveal("a07/fused", 100 * scores / (34 + scores))

# %% [markdown]
# **Explain.** The tracker counts a little more. A layer norm keeps a mean and a deviation for each
# token: do they account for the difference? With how many tokens would the probabilities take as
# much as all the rest of a layer?

# %% [markdown]
# ## 5. ZeRO 2: gradients, too (extra)
#
# A backward pass makes one layer's gradient after the other. Each can be added up on its owners at
# once, and then be forgotten. So a rank never has the whole gradient.

# %% tags=["predict"]
guess(
    "a07/owners",
    "Eight equal layers, 4 ranks. Of how many layers' gradients is a rank the owner?",
    unit="layers",
)

# %%
# {{module zero2}}

# %%
# {{check zero2}}

# %%
from checks.cases import Backward

case = Backward(4, (60,) * 9, watched=True)
run = ringside.run(case.through, 4, [case.inputs(rank) for rank in range(4)], machine=machine)
whole = 8 * sum(case.sizes)
print(f"held at most: {run.values[0]['held']} bytes; the whole gradient has {whole}")
reveal("a07/owners", case.shard_size / case.sizes[0])
run.timeline

# %% [markdown]
# **Explain.** A rank that owns nothing of a layer sends its part and waits for nothing more. What
# does it wait for in your program, and how would you let the next layer's pass go on meanwhile?

# %% [markdown]
# ## 6. Hybrid sharding (extra)
#
# In the curves above gathers cross the slow links between nodes, twice a step. If a model's shards
# fit into one node, there is a middle way: shard inside a node, and replicate the node.

# %% tags=["predict"]
guess(
    "a07/hsdp",
    "Two nodes of four GPUs: how many times longer does plain sharding take to send what one step "
    "needs?",
    unit="times",
)

# %%
# {{module hsdp_torch}}

# %%
# {{check hsdp_torch}}

# %%
lengths, times_us = [40_000] * 4, {}
for nodes in (2, 4):
    ranks = 4 * nodes
    inside = "checks/inside_torch.py"
    hybrid = ringside.run(f"{inside}:hsdp_step", ranks, [(4, lengths)] * ranks, machine=cluster)
    flat = ringside.run(f"{inside}:flat_step", ranks, [(lengths,)] * ranks, machine=cluster)
    times_us[nodes] = (hybrid.makespan_s * 1e6, flat.makespan_s * 1e6)
    print(f"{nodes} nodes: hybrid {times_us[nodes][0]:.0f} µs, plain {times_us[nodes][1]:.0f} µs")
reveal("a07/hsdp", times_us[2][1] / times_us[2][0])
assert all(hybrid_us < flat_us for hybrid_us, flat_us in times_us.values())

# %% [markdown]
# **Explain.** Count what one node sends to the other in a step, for both. Why does the advantage
# shrink with more nodes? What does hybrid sharding cost, and when is there no choice?

# %% [markdown] known={"a07/offload": "it counts layers"}
# ## 7. Keep, swap or recompute (extra)
#
# Between keeping everything and recomputing everything there are many plans, and the host's memory
# is a third place. `given/offload_model.py` says exactly what each plan takes. Read its drawing
# first.
#
# Six equal layers take 1 s forward and 2 s backward, so 18 s in all. The GPU has room for the
# activations of three of them. A copy to the host takes twice as long as a layer's forward pass.

# %% tags=["predict"]
guess(
    "a07/offload",
    "How many seconds longer than 18 does the best plan take?",
    unit="s",
)

# %%
# {{module offload}}

# %%
# {{check offload}}

# %%
from given.offload_model import Layer, simulate

invalidate_caches()
schedule = reload(import_module("offload")).schedule
six = [Layer(1, 2, 10)] * 6
best = schedule(six, 30, 5.0)
plans = {"recompute all": ["recompute"] * 6, "swap all": ["swap"] * 6, "best": best}
fig, rows = plt.subplots(3, 1, figsize=(9, 4.5), sharex=True, constrained_layout=True)
for axes, (name, plan) in zip(rows, plans.items(), strict=True):
    spans = []
    time_s, peak = simulate(six, plan, 30, 5.0, spans)
    for span in spans:
        y = ("copy", "compute").index(span.stream)
        color = {"F": "tab:blue", "B": "tab:orange"}.get(span.what[0], "tab:gray")
        axes.barh(y, span.end_s - span.begin_s, left=span.begin_s, color=color, edgecolor="white")
        axes.text((span.begin_s + span.end_s) / 2, y, span.what, ha="center", va="center")
    axes.set(yticks=(0, 1), yticklabels=("copy", "compute"), ylim=(-0.5, 1.5))
    axes.set_title(f"{name}: {time_s:g} s, at most {peak} of 30 bytes", fontsize=10)
rows[-1].set_xlabel("time, s")
plt.show()

# %%
reveal("a07/offload", simulate(six, best, 30, 5.0)[0] - 18)
print(best)

# %% [markdown]
# **Explain.** Which layers are kept in the best plan, the first or the last ones, and why? What
# limits "swap all", although nothing is computed twice? Double the speed of the link. What becomes
# of the layer that is computed again?

# %% [markdown] known={"a07/lowbit": "it counts elements, bits and ranks"}
# ## 8. Fewer bits (extra)
#
# Messages also shrink if their numbers do. To *quantise* a block of numbers means to write each one
# as an integer of 8 or 4 bits, with one scale for the block. Each time you quantise a number, it is
# off by up to half a step of its scale. So it matters how often a sum is quantised on its way.
#
# Eight ranks add up gradients whose numbers have one sign and about the same size. In one hop each
# gradient is quantised once, and what arrives is added in float32. In a ring, each rank adds its
# own gradient to a partial sum, and quantises that before it sends it on.

# %% tags=["predict"]
guess(
    "a07/lowbit",
    "How many times as large may the error become in the ring?",
    unit="times",
)

# %%
# {{module lowbit}}

# %%
# {{check lowbit}}


# %%
def read_back(x):
    """Numbers as others see them: one rank gathers its own shard."""
    return ringside.run("lowbit.py:all_gather", 1, [(x, 4, 128)]).values[0]


x = np.random.default_rng(7).uniform(0.5, 1, (8, 1280)).astype("float32")
partial = x[0]
for gradient in x[1:]:
    partial = gradient + read_back(partial)
one_hop = sum(read_back(gradient) for gradient in x)
for name, result in (("one hop", one_hop), ("ring", partial)):
    off = np.abs(result - x.sum(axis=0))
    print(f"{name}: at most {off.max():.2f} off, {off.mean():.3f} on average")
reveal("a07/lowbit", sum(range(1, 8)) / 8)

# %% [markdown]
# **Explain.** Why is the largest error that you see smaller than the bound, for both? One number of
# a block is 100 times as large as the others: what becomes of these, with 4 bits, and what does a
# smaller block cost? Why does `reduce_scatter` go first inside the node?

# %% [markdown]
# ## 9. On a cluster
#
# The same `zero1.py`, unchanged, on real nodes: `measured_step` is one step with n parameters. In a
# terminal, in this folder, on one rank and on several:
#
# ```
# ringside launch zero1.py:measured_step --site zaratan --nodes 2 -- --n 100000 --n 10000000
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook. The run counts if it is complete and was made
# with the `zero1.py` that you hand in.

# %%
# {{run zero1_cluster points=5}}

# %% [markdown]
# **Your paragraph.** Compare the measured time of a step for both sizes with the model: a
# reduce-scatter, an all-gather, and the update of a shard. Take alpha and beta from your runs of
# `a01_first_ranks`, or from two sizes here. Which part of the step shrinks with more ranks, and
# which doesn't? For your largest size, how many bytes of state has a rank, and how many would it
# have without sharding? (About 150 words.)

# %%
# {{paragraph zero1_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
