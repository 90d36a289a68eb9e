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
# # Hybrid
#
# No scheme is enough alone. Replicas multiply the memory, tensor ranks the messages, and stages
# the waiting. A large model is trained with all of them, and somebody has to say with how much of
# each. In this part you write the formulas that tell what a mixture costs, and the planner that
# searches with them.

# %%
# {{plan}}

# %%
from dataclasses import replace
from importlib import import_module, invalidate_caches, reload

import matplotlib.pyplot as plt
from callers import predict_argument
from predict_cases import megatron, replays

from ringside import Machine, guess, reveal
from ringside.scale.hybrid_cost import Config, Model, configs
from ringside.scale.hybrid_cost import cost as kits_cost

# %load_ext ringside

# %% [markdown]
# ## Predict: what a step costs, before it runs
#
# You have a model of 174.6 billion parameters, 300 billion tokens, and 1,024 A100 that reach 140
# of their 312 TFLOP/s. Before anybody pays for them, you are asked how long the training takes.
# No simulation is needed for this. A parameter meets each token three times, once forward and
# twice backward, and once more forward where activations are recomputed. Each time it takes one
# multiplication and one addition. So 8 FLOPs for each parameter and token are nearly all.

# %% tags=["predict"]
guess("a12/days", "How many days does this training take?", unit="days")

# %% [markdown]
# The module is `predict.py`. Besides days it predicts parameters, FLOPs, memory, the bytes of each
# axis and the seconds of a step. `predict_parts.py` is supplied: it has the times of a message and
# of a ring.
#
# **Think** before you write. The last stage of a pipeline has the logits besides its layers. With
# 51,200 words and h = 2048 they take as long as how many layers? What does that do to the stages
# before it?

# %%
# {{module predict}}

# %%
# {{check predict}}

# %%
invalidate_caches()
predict = reload(import_module("predict"))
days = predict.training_days(174.6e9, 300e9, 1024, 140e12)
reveal("a12/days", days)
for row in megatron("days")[:3]:
    told = predict.training_days(1e9 * row["parameters"], 300e9, row["gpus"], 1e12 * row["tflops"])
    print(f"{row['scheme']} on {row['gpus']} GPUs: {told:.1f} days, published {row['days']}")

# %% [markdown]
# **Explain.** From 384 to 1,536 GPUs ZeRO-3's training time falls from 90 to 74 days. What does the
# formula take from the measurement, and what does it explain itself? Which of the numbers that it
# takes would you have to predict to plan a training that nobody has run?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# The trillion-parameter model ran on 6 replicas x 8 tensor ranks x 64 stages, with a batch of 3,072
# sequences in microbatches of one.

# %% tags=["predict"]
guess(
    "a12/heaviest-axis",
    "Along which axis does a GPU in the middle of the pipeline send most bytes in a step?",
    choices=["tensor", "pipeline", "data"],
)

# %%
trillion = Model(num_layers=128, hidden=25600, num_heads=160, batch=3072)
published = Config(data=6, tensor=8, pipeline=64, microbatch_size=1)
sent = predict.sent_bytes(trillion, published)
fig, axes = plt.subplots(figsize=(6, 2.4))
axes.barh(list(sent), [each / 1e9 for each in sent.values()], color="tab:blue")
axes.set(xscale="log", xlim=(1, 3000), xlabel="GB that a GPU sends in a step")
axes.set_title("A trillion parameters on 6 x 8 x 64 GPUs")
plt.show()
for axis, nbytes in sent.items():
    print(f"{axis:<9}{nbytes / 1e9:9.1f} GB")
reveal("a12/heaviest-axis", max(sent, key=sent.get))

# %% [markdown]
# **Explain.** Order the three axes by bytes. Which one belongs inside a node of eight GPUs, and
# which one can span the longest wires? Here each microbatch is one sequence. Which of the three
# numbers changes with microbatches of two?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# Does the formula for a step hold? `replays.toml` has times of a GPT that was traced on fake
# tensors and replayed on a machine: every message, every product, every wait. The rate of
# arithmetic is what one rank reaches. Everything else is predicted.

# %%
for (model, config, machine, nbytes), replayed_s in replays("replays.toml", "times"):
    given = [predict_argument(each) for each in (model, config, machine)]
    told_s = predict.step_s(*given, nbytes)
    grid = f"{config['data']} x {config['tensor']} x {config['pipeline']}"
    error = f"{told_s / replayed_s - 1:+.1%}"
    print(f"{grid:<10} replayed {replayed_s:.3f} s, predicted {told_s:.3f} s: {error}")

# %% [markdown]
# ## Plan: the best mixture for these GPUs
#
# With formulas a mixture costs microseconds, not GPU hours. So you can try them all, as long as
# there aren't too many. Take a model of 76.1 billion parameters (60 layers, a batch of 1,792) on
# 1,024 GPUs. Its mixtures have eight fields: the three sizes, the microbatch, the number of
# interleaved pieces, ZeRO's stage, recomputation, and the order of the axes.

# %% tags=["predict"]
guess("a12/mixtures", "How many such mixtures can run, fitting or not?", unit="mixtures")

# %% [markdown]
# The module is `planner.py`. Your planner gets the cost model as an argument and may ask it 20,000
# times.
#
# **Think** before you write. How many mixtures are left if you fix the order of the axes? How do
# you know, without asking, that a mixture with a larger microbatch doesn't fit?

# %%
# {{module planner}}

# %%
# {{check planner}}

# %%
invalidate_caches()
planner = reload(import_module("planner"))
seventy_six = Model(num_layers=60, hidden=10240, num_heads=80, batch=1792)
reveal("a12/mixtures", sum(1 for _ in configs(seventy_six, 1024)))

# %% [markdown]
# Megatron-LM's authors chose by rules: tensor parallelism inside the node, as many stages as
# memory asks for, replicas with the rest. They had no ZeRO. A cost model that says so is three
# lines long. Their GPUs reached about 150 TFLOP/s.

# %%
reached = Machine.load("dgx_a100,flop_per_s=1.5e14")


def without_zero(model, config, machine):
    told = kits_cost(model, config, machine)
    return told if config.zero == 0 else replace(told, memory_bytes=10**18)


# %% tags=["predict"]
guess(
    "a12/stages",
    "They cut the model of 145.6 billion parameters into 8 stages, on 1,536 GPUs. How many stages "
    "does your planner take there, without ZeRO?",
    unit="stages",
)

# %%
rows = [  # model, GPUs, and the published tensor x pipeline where there is one
    (Model(36, 4096, 32, 512), 8, ""),
    (Model(36, 4096, 32, 512), 128, "4 x 1"),
    (Model(48, 8192, 64, 1536), 512, "8 x 2"),
    (seventy_six, 1024, "8 x 4"),
    (Model(80, 12288, 96, 2304), 1536, "8 x 8"),
    (trillion, 3072, "8 x 64"),
]
plans = [planner.plan(model, reached, gpus, 80 * 10**9, without_zero) for model, gpus, _ in rows]
print(" GPUs   billions  data x tensor x pipeline  recompute   published tensor x pipeline")
for (model, gpus, theirs), plan in zip(rows, plans, strict=True):
    size = f"{model.num_parameters() / 1e9:.1f}"
    mine = f"{plan.data} x {plan.tensor} x {plan.pipeline}"
    print(f"{gpus:>5}{size:>11}  {mine:<26}{'yes' if plan.recompute else 'no':<12}{theirs}")
reveal("a12/stages", plans[-2].pipeline)

# %% [markdown]
# **Explain.** The smaller models were trained with more tensor ranks than your planner takes, and
# always with recomputation. What might the authors have known that the cost model leaves out? Its
# text lists what it doesn't count.

# %% [markdown]
# *Your answer:*

# %% [markdown]
# And with ZeRO? Let the planner choose freely.

# %%
free = planner.plan(trillion, reached, 3072, 80 * 10**9, kits_cost)
for name, plan in (("without ZeRO", plans[-1]), ("free", free)):
    told = kits_cost(trillion, plan, reached)
    print(f"{name}: {plan}")
    print(f"  {told.step_s:.1f} s a step, {told.memory_bytes / 1e9:.1f} GB")

# %% [markdown]
# **Explain.** The free plan gathers all weights for each microbatch on hundreds of replicas. It
# looks faster. Which assumption of the cost model makes it so, and which line of Megatron-LM's
# table 2 speaks against it?

# %% [markdown]
# *Your answer:*
