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
# # Inference: generation in torch, and batches that never empty

# %%
# {{plan}}

# %%
import matplotlib.pyplot as plt
import numpy as np
from model import make_weights, serial_generate

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

# %% [markdown]
# ## 3. The same model in torch
#
# `model_torch.py` is the same GPT in torch, with the same arrays. `decode_torch.py` runs it on
# process groups: unchanged on CPUs over gloo and on GPUs over NCCL. Two things are new.
#
# - Weights of torch may require gradients. Generation needs none, and what autograd keeps for a
#   backward pass that never comes would fill the memory.
# - A program that reads no value of a tensor can be traced on fake tensors, which have shapes and
#   no numbers. So a model that no laptop holds is traced in a second. Which word is chosen depends
#   on numbers, but how many steps there are doesn't.

#
# Think of four layers of the width of Llama 3 8B, with its 128,256 words, in float32. A rank sends
# something to each other rank so that all of them choose the same word: all of its logits, or its
# largest logit and that word's number, 8 bytes each.

# %% tags=["predict"]
guess(
    "a13/logits",
    "On 4 ranks: how many times more bytes are all logits than the two numbers?",
    unit="times",
)

# %% [markdown]
# **Think.** A prompt of 512 tokens has 512 rows. For how many of them are logits needed? A line
# `if token == end: break` would stop early. Why can a program with this line not be traced? Which
# line in your program would keep a graph alive, if weights require gradients?

# %%
# {{module decode_torch}}

# %%
# {{check decode_torch}}

# %%
from decode_cases_torch import decode_torch_case

rng = np.random.default_rng(1)
case = decode_torch_case("torch_generate", 4, rng, heads=8, lengths=(4, 2))
arguments = case.arguments_of_ranks()
run = ringside.run("callers_torch.py:torch_generate", 4, arguments).raise_for_error()
print(run.values[0])
print(serial_generate(case.prompts(), make_weights(case.sizes, case.seed), case.sizes, 4))
reveal("a13/logits", 4 * (128_256 // 4) / 16)
run.timeline

# %% [markdown]
# Now the time of a decoding step on 1 to 8 GPUs, four in a node: traced on fake tensors, replayed
# on the machine `zaratan`. `decode_time_torch.py` subtracts a run with one token, which is the
# prefill, from a run with five.

# %% tags=["predict"]
guess(
    "a13/second-node",
    "How many times faster is a step on 8 GPUs in two nodes than on 4 in one?",
    unit="times",
)

# %%
from decode_time_torch import step_times

worlds, zaratan = [1, 2, 4, 8], Machine.load("zaratan")
fig, axes = plt.subplots(figsize=(6.5, 3.5))
took = {}
for overhead_us in (0, 5):
    machine = zaratan.with_(kernel_overhead_s=overhead_us * 1e-6)
    took[overhead_us] = [1e3 * step_times(ringside.trace_torch, machine, n)[0] for n in worlds]
    axes.plot(worlds, took[overhead_us], "o-", label=f"{overhead_us} µs to start an operator")
axes.plot(worlds, [took[0][0] / n for n in worlds], "--", color="0.5", label="a p-th")
axes.set(xlabel="GPUs", ylabel="time of a step, ms", ylim=(0, None), xticks=worlds)
axes.set_title("Four layers of 4,096 columns, one sequence")
axes.legend()
plt.show()
reveal("a13/second-node", took[0][2] / took[0][3])

# %% [markdown]
# **Explain.** Starting an operator takes as long on 8 GPUs as on one. How many operators does your
# program start in a step? Look at the two curves on 8 GPUs. CUDA graphs and compilers start many
# operators at once: which of the curves do they give? And which collective of a step could be
# left out if each rank had the whole `head`, and what would that cost in reading?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 4. Batches that never empty (extra)
#
# Your program decodes a batch of sequences that begin and end together. Users don't. A server gets
# requests at any time, with prompts and answers of all lengths. A step reads 16 GB of weights for
# one request or for thirty, so it should always have thirty. **Static batching** takes the
# requests that wait, and takes the next ones when the longest answer of the batch has ended.
# **Continuous batching** looks at the batch after each step: who has ended leaves, and who waits
# joins, as soon as there is room for its keys and values.
#
# Nothing is sent here, and time is virtual: `server.step_s` says how long a step takes. Your module
# returns a plan, and `batching_server.replay` carries it out.

# %%
from batching_server import Server, replay, static, stream

server = Server(capacity_tokens=8000)
requests = stream(seed=7, count=100, requests_per_s=14, prompt=200, output=150)
plain = replay(requests, static(requests, server), server)
print(f"{requests[0]}, ...")
print(f"static: {plain.tokens_per_s:.0f} tokens/s, {plain.slow_first_token_s:.1f} s to the first")

# %% tags=["predict"]
guess("a13/continuous", "How many tokens per second does continuous batching give?", unit="1/s")

# %% tags=["predict"]
guess(
    "a13/first-token",
    "With static batching 95 % of the requests have their first token within "
    "the time above. How long is it with continuous batching?",
    unit="s",
)

# %% [markdown]
# **Think.** A request has a prompt of 300 tokens, and its answer has 500. There is room for 400
# tokens. May it start? What goes wrong 100 steps later, if all others are still under way? A
# shorter request waits behind it and would fit. What speaks for letting it pass, and what against?

# %%
# {{module batching}}

# %%
# {{check batching}}

# %%
from batching import serve

plans = {"static": static(requests, server), "continuous": serve(requests, server)}
fig, axes = plt.subplots(figsize=(7, 3.5))
for name, steps in plans.items():
    width = [len(step.prefill) + len(step.decode) for step in steps]
    axes.plot([step.start_s for step in steps], width, label=name, drawstyle="steps-post")
axes.set(xlabel="time, s", ylabel="requests in a step", ylim=(0, None))
axes.legend()
plt.show()
log = replay(requests, plans["continuous"], server)
reveal("a13/continuous", log.tokens_per_s)
reveal("a13/first-token", log.slow_first_token_s)

# %% [markdown]
# How many requests a second can the server take? Here each rate has a stream of its own, and the
# curves show how long 95 % of the requests wait at most.

# %%
rates = [1, 2, 4, 6, 8, 10, 12, 14, 16, 20]
fig, axes = plt.subplots(figsize=(6.5, 3.5))
for name, plan in (("static", static), ("continuous", serve)):
    waits = []
    for rate in rates:
        some = stream(5, 200, rate, 200, 150)
        waits.append(replay(some, plan(some, server), server).slow_first_token_s)
    axes.plot(rates, waits, "o-", label=name)
axes.set(xlabel="requests per second", ylabel="time to the first token, s", yscale="log")
axes.set_title("95 % of the requests wait at most so long")
axes.legend()
plt.show()

# %% [markdown]
# **Explain.** Where does each curve leave its floor, and what is full then: the memory or the time
# of a step? Below this rate a request waits for one step on average. Above it the time to the first
# token depends on how long the stream is. Why? A long prompt makes one step long for all requests
# that decode. What could a server do about it, and what would it cost?

# %% [markdown]
# *Your answer:*
