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

# %%
# {{plan}}

# %%
import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

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
#
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
# The module is `stash_torch.py`. `model_torch.py` is supplied: a piece of the model, and the loss.
#
# **Think** before you write. Which minibatches share a version, and what does `y.backward()` do to
# `grad` of a tensor that two graphs share? When is a version needed for the last time? And at
# which moment must a copy be made, if the optimizer works in place?

# %%
# {{module stash_torch}}

# %%
# {{check stash_torch}}

# %%
from cases_torch import stash_torch_case

COSTS = (1e-3, 2e-3)


def train(num_stages, count, **options):
    """Your module on simulated ranks where messages are free."""
    case = stash_torch_case(
        num_stages, (2,) * count, np.random.default_rng(5), costs=COSTS, **options
    )
    free = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)
    given = case.arguments_of_ranks()
    run = ringside.run("callers_torch.py:stash_torch_trained", num_stages, given, machine=free)
    return run.raise_for_error()


flushed_s = 12 * 4 * sum(COSTS)  # each minibatch goes through all stages alone
reveal("a10/no-flush", flushed_s / train(4, 12).makespan_s)

# %% [markdown]
# **Explain.** Count both times in units of one forward and one backward pass, for N minibatches and
# S stages. To which factor does the gain tend for large N? A pipeline with a flush can come near
# to it, too. What does it do then to the minibatch, and which other price does it not pay?
#
# **Run.** The price in memory. Each stage reports the most bytes that it held at one time, here
# divided by those of its parameters. The minibatches have one sample each, so what forward passes
# save hardly counts.

# %%


def held(vertical_sync, count, num_stages=4, width=60):
    """Per stage: the most bytes held at one time, over those of the stage's parameters."""
    rng = np.random.default_rng(5)
    sizes = {"ends": (width, width), "hidden": width, "vertical_sync": vertical_sync}
    case = stash_torch_case(num_stages, (1,) * count, rng, **sizes)
    given = case.arguments_of_ranks()
    run = ringside.run("callers_torch.py:stash_torch_memory", num_stages, given).raise_for_error()
    own = 8 * (2 * width * width + 2 * width)
    return [memory["peak"] / own for memory in run.memory]


fig, axes = plt.subplots(figsize=(6.5, 3.2))
for vertical_sync, color in ((False, "tab:blue"), (True, "tab:orange")):
    for count, style in ((8, "o-"), (16, "x--")):
        label = f"vertical_sync = {vertical_sync}, {count} minibatches"
        axes.plot(held(vertical_sync, count), style, color=color, label=label)
axes.set(xlabel="stage", ylabel="held, in parameters", xticks=range(4), ylim=(0, None))
axes.legend()
plt.show()

# %% [markdown]
# **Explain.** Which parts of what a stage holds do you recognise? Why does `vertical_sync` cost
# the last stage most, and what does it buy? PipeDream-2BW updates only once for every S minibatches
# or more. How many versions does a stage need then, and why?
