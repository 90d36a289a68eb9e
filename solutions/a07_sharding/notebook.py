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

# %%
# {{plan}}

# %% [markdown]
# ## ZeRO 3: parameters that come and go
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
import cases_torch
import matplotlib.pyplot as plt
import numpy as np
import observed_torch
import torch
from layers_torch import network

import ringside
from ringside import Machine, guess, replay, reveal
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
# One more thing is supplied: `flat_torch.py` lays a layer's parameters into one flat tensor, of
# which the module's parameters are views. It can give the tensor's memory back, and take it again.
# Read it; it is short. The views stay, so the weights that autograd saved are right again when the
# tensor is filled again.
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
p, spec = 4, {"widths": [32] * 9, "bias": False, "costs": [2e-5, 4e-5]}
options = cases_torch.options_of()
sample = cases_torch.sample_training(np.random.default_rng(1), spec, p, steps=1)
mine = ringside.run(
    "callers_torch.py:zero3_train", p, cases_torch.training_arguments(spec, sample, options)
)
whole = [each for layer in sample["params"] for each in layer]
theirs = ringside.run(
    "callers_torch.py:with_fully_shard", p,
    [(spec, whole, steps, options | {"whole": False}) for steps in sample["steps"]],
)  # fmt: skip
total = sum(layer.nbytes for layer in cases_torch.sharded(spec, p))
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
deep = {"widths": [64] * 13, "bias": False, "costs": [2e-5, 4e-5]}
layer_bytes = 8 * 64 * 64
peaks = {}
for ranks in (2, 4, 8):
    data = cases_torch.sample_training(np.random.default_rng(2), deep, ranks, steps=1)
    arguments = [(deep, data["handed"][rank], *data["steps"][rank][0][0]) for rank in range(ranks)]
    result = ringside.run("callers_torch.py:zero3_memory", ranks, arguments)
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
large = {"widths": [64] * 7, "bias": False}
counts, curves = [4, 8, 16, 32], {}
for backward_us in (2, 20, 80):
    costs = [backward_us / 2e6, backward_us / 1e6]
    sample = cases_torch.sample_training(np.random.default_rng(3), large, 4, steps=1)
    arguments = cases_torch.training_arguments(large | {"costs": costs}, sample, options)
    trace = ringside.run("callers_torch.py:zero3_train", 4, arguments, machine=cluster).trace
    curves[backward_us] = [
        6 * sum(costs) / replay(observed_torch.stretched(trace, n), cluster).makespan_s
        for n in counts
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
#
# ## Extra: hybrid sharding
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
    hybrid = ringside.run(
        "callers_torch.py:hsdp_step", ranks, [(4, lengths)] * ranks, machine=cluster
    )
    flat = ringside.run("callers_torch.py:flat_step", ranks, [(lengths,)] * ranks, machine=cluster)
    times_us[nodes] = (hybrid.makespan_s * 1e6, flat.makespan_s * 1e6)
    print(f"{nodes} nodes: hybrid {times_us[nodes][0]:.0f} µs, plain {times_us[nodes][1]:.0f} µs")
reveal("a07/hsdp", times_us[2][1] / times_us[2][0])
assert all(hybrid_us < flat_us for hybrid_us, flat_us in times_us.values())

# %% [markdown]
# **Explain.** Count what one node sends to the other in a step, for both. Why does the advantage
# shrink with more nodes? What does hybrid sharding cost, and when is there no choice?
