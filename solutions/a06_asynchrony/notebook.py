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
# # Asynchrony and local steps

# %%
# {{plan}}

# %%
import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import guess, reveal

# %load_ext ringside

# %% [markdown]
# ## 3. DiLoCo, in torch
#
# Local SGD replaces the parameters by their mean. DiLoCo asks one question more. After H steps the
# ranks have come from their common anchor a to w, each to its own. The difference a - mean(w)
# points back to where they came from, as a gradient does. So an optimizer can take it as a
# gradient. Two optimizers are at work then:
#
# - the **inner** one takes the steps on each rank, for instance AdamW. Its state stays there;
# - the **outer** one moves the anchor along the difference, with a rate and with Nesterov's
#   momentum. It is the same on all ranks.
#
# If all parameters are averaged after every H-th step, the network is idle for H - 1 steps, and
# then everybody waits for it. Streaming DiLoCo cuts the parameters into F fragments, and each
# fragment has its turn after another step.

# %% tags=["predict"]
guess(
    "a06/diloco-peak",
    "A model has 1 GB of parameters. 8 ranks train it with a period of 100 and with 25 fragments, "
    "by ring all-reduces. How many MB does a rank send after a step, at most? Leave out the last "
    "step.",
    unit="MB",
)

# %% [markdown]
# The module is `diloco_torch.py`. `local_problem_torch.py` is supplied: a small network, and the
# loss of a rank on its own samples.
#
# **Think** before you write. The inner optimizer holds the parameters of the model. What happens
# if you put new tensors in their place? And what happens to the anchor if it is not a copy?

# %%
# {{module diloco_torch}}

# %%
# {{check diloco_torch}}

# %% [markdown]
# **Run.** 8 ranks, 220 steps, a period of 100. The figure shows what a rank sends after each step,
# as a share of the model, with one fragment and with 25.

# %%
from cases_torch import diloco_inputs, reduced_after_steps

WIDTHS, STEPS, P = (8, 16, 4), 220, 8
params, batches = diloco_inputs(P, WIDTHS, seed=1)
model_bytes = sum(each.nbytes for each in params)


def trained(period, num_fragments, outer=(0.7, 0.5), num_steps=STEPS):
    """DiLoCo on simulated ranks, with plain SGD inside."""
    numbers = (*outer, num_steps, period, num_fragments)
    given = [(params, own, "sgd", False, 1e-3, numbers) for own in batches]
    return ringside.run("callers_torch.py:diloco_trained", P, given).raise_for_error()


fig, axes = plt.subplots(figsize=(8, 3.2))
for num_fragments, color in ((1, "tab:orange"), (25, "tab:blue")):
    reduced = reduced_after_steps(trained(100, num_fragments).trace.ops[0], STEPS)
    shares = 2 * (P - 1) / P * np.array(reduced) / model_bytes
    axes.vlines(range(STEPS + 1), 0, shares, color=color, label=f"F = {num_fragments}")
axes.set(xlabel="steps taken", ylabel="sent by a rank, in models", ylim=(0, 2))
axes.legend()
plt.show()
reveal("a06/diloco-peak", 1000 * shares[1:-1].max())

# %% [markdown]
# **Explain.** Fragments don't change how many bytes are sent in all. What do they change for a
# rank that can send while it computes? After the last step, both runs send the whole model. Why is
# that so, and what would be wrong if it were left out?
#
# Now the price of long periods. The loss is that of the final parameters on all ranks' samples,
# and data-parallel training has a period of 1. What it sends is printed beside it.

# %%


def loss_of_all(weights):
    """The mean loss over all ranks' batches."""
    w1, b1, w2, b2 = weights
    every = [batch for own in batches for batch in own]
    x, target = (np.concatenate(each) for each in zip(*every, strict=True))
    output = np.tanh(x @ w1.T + b1) @ w2.T + b2
    return 0.5 * np.mean(np.sum((output - target) ** 2, axis=1))


print(f"before training: loss {loss_of_all(params):.3f}")
for period, outer in ((1, (1.0, 0.0)), (5, (1.0, 0.0)), (5, (0.7, 0.5)), (20, (0.7, 0.5))):
    run = trained(period, 1, outer, num_steps=40)
    models = sum(record.nbytes for record in run.collectives) / model_bytes
    rate, momentum = outer
    loss = loss_of_all(run.values[0][1])
    print(f"H = {period:<3} rate {rate}, momentum {momentum}: loss {loss:.3f}, {models:.0f} models")

# %% [markdown]
# **Explain.** Which of these runs is data-parallel SGD, and why? The ranks' samples differ a lot
# here: rank k's targets lie around k. In which direction does a rank drift during a long period,
# and what does the mean of all ranks keep of that? What would change if all ranks drew their
# samples from the same source?
#
# ## 4. PowerSGD, in torch
#
# Local steps send everything, but seldom. The other way is to send little in each step. The
# gradient of a weight is a matrix. PowerSGD sends it in low rank: two thin matrices, from which
# every rank makes the same approximation of the mean.

# %% tags=["predict"]
guess(
    "a06/low-rank",
    "A gradient has 1024 x 4096 numbers. In rank 4, how many percent of them are all-reduced?",
    unit="%",
)

# %% [markdown]
# The module is `compress_torch.py`. `low_rank_torch.py` is supplied: the matrix Q of the first
# call.
#
# **Think** before you write. All ranks must end with the same mean, bit for bit. Which matrices
# are the same on all ranks, and which are a rank's own? If each rank made its own P orthonormal
# before the average, what would the average of these be?

# %%
# {{module compress_torch}}

# %%
# {{check compress_torch}}

# %% [markdown]
# **Run.** Two ranks with a gradient of that size. The network counts.

# %%
shape = (1024, 4096)
gradients = [np.random.default_rng(rank).standard_normal(shape, "float32") for rank in range(2)]
given = [([gradient], 4, 1) for gradient in gradients]
counted = ringside.run("callers_torch.py:compressed", 2, given).raise_for_error()
lengths = [record.nbytes // 4 for record in counted.collectives]
print("all-reduces of", lengths, "numbers")
mean, _ = counted.values[0][0]
whole = (gradients[0] + gradients[1]) / 2
print(f"off by {np.linalg.norm(mean - whole) / np.linalg.norm(whole):.1%} of the gradient")
reveal("a06/low-rank", 100 * sum(lengths) / whole.size)

# %% [markdown]
# **Explain.** This gradient is noise, so rank 4 holds next to nothing of it. Why do gradients of
# real networks do better? From which r on are r (n + m) numbers more than n m?
#
# Is such a mean of any use? What is left out stays in the residual, and is added to the next
# gradient. In the next run every rank has the same gradient in each of 30 calls, of 24 x 32
# numbers, in rank 2. The error of all that was sent so far is compared with all that should have
# been sent.

# %% tags=["predict"]
guess(
    "a06/feedback",
    "After one call, the error is nearly as large as the gradient itself. How large is it after 30 "
    "calls, compared with the sum of 30 gradients?",
    choices=["as large as after one call", "a half of that", "less than a third of that"],
)

# %%
CALLS = 30
ours = np.random.default_rng(0).standard_normal((2, 24, 32))
given = [([own] * CALLS, 2, 1) for own in ours]
sent = ringside.run("callers_torch.py:compressed", 2, given).raise_for_error()
means = np.array([mean for mean, _ in sent.values[0]])
right = ours.mean(axis=0)
calls = np.arange(1, CALLS + 1)
each = np.linalg.norm(means - right, axis=(1, 2)) / np.linalg.norm(right)
so_far = np.linalg.norm(np.cumsum(means, axis=0) / calls[:, None, None] - right, axis=(1, 2))
so_far /= np.linalg.norm(right)
fig, axes = plt.subplots(figsize=(6.5, 3.2))
axes.plot(calls, each, color="tab:orange", label="of one mean")
axes.plot(calls, so_far, color="tab:blue", label="of all means so far")
axes.set(xlabel="calls", ylabel="error, relative", ylim=(0, None))
axes.legend()
plt.show()
ratio = so_far[-1] / so_far[0]
words = ["less than a third of that", "a half of that", "as large as after one call"]
reveal("a06/feedback", words[0] if ratio < 1 / 3 else words[1] if ratio < 0.7 else words[2])

# %% [markdown]
# **Explain.** Each single mean is a bad one, and their sum is a good one. Use the rule "what was
# sent plus the new residual is the gradient plus the old residual" to write the sum of all means
# as the sum of all gradients minus one matrix. Which matrix is it, and what follows for the blue
# line?
#
# PyTorch has PowerSGD as a hook for its `DistributedDataParallel`
# (`torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook`). There a rank's residual is its
# matrix minus the mean P Q^T, not minus its own P Q_i^T. Do the means of later calls differ
# between the two rules? What is the mean of all ranks' residuals in each?
