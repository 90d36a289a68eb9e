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

# %%
import matplotlib.pyplot as plt

from ringside import guess, reveal

# %load_ext ringside

# %% [markdown]
# ## Where the bytes go, and what fits
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

from gpt_sizes import Sizes

invalidate_caches()
memory = reload(import_module("memory"))  # as its file is now
seven = Sizes(num_layers=36, width=4096, num_heads=32, sequence=2048, vocabulary=51_200)
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
# Real training uses fused attention, which stores neither the probabilities nor their mask.
# Then the term 5 a s / h falls away.

# %% tags=["predict"]
guess(
    "a07/fused",
    "What share of a layer's activations falls away with fused attention, for the model above?",
    unit="%",
)

# %%
import ringside

small = Sizes(num_layers=4, width=128, num_heads=4, sequence=64, vocabulary=300)
numbers = (4, 128, 4, 64, 300)
for again in (False, True):
    told = ringside.run("gpt_torch.py:kept", 1, [(numbers, 2, 2, True, again)]).memory[0]
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
# ## Keep, swap or recompute
#
# Between keeping everything and recomputing everything there are many plans, and the host's memory
# is a third place. `offload_model.py` says exactly what each plan takes. Read its drawing first.
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
from offload_model import Layer, simulate

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
