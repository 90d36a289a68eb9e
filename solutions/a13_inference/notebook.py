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
# # Inference: a paged cache, tensor-parallel decoding and batches that never empty
#
# A trained model answers questions. It reads the question at once: this is **prefill**. Then it
# writes one token after another: this is **decoding**. For each new token it reads all of its
# weights, and the keys and values of all tokens before. It computes little with them. So the time
# of a token is the time to read memory, and two questions decide how fast answers come, and how
# many:
#
# - Where do the keys and values of many answers of unknown length lie? In **pages**, which are
#   taken when they are needed and shared where answers begin alike.
# - How do several GPUs share the reading? By **heads**, hidden units and words. Then each token
#   waits for many small messages, and latency counts more than bandwidth.
#
# You write both in NumPy, and the second in torch too, for a small GPT whose tokens you can compare
# with those of one rank. An extra module decides which answers share a decoding step, so that the
# weights that are read serve as many of them as possible. Another one brings new weights to a
# server whose model is still being trained.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points: about 45 for values, 30 for what is sent
# and computed, and the rest for memory, safety and speed in virtual time. All that the hidden
# suite asks stands in the module's docstring and in `docs/contract.md`, and the tests in
# `checks/`, which you can read, ask the same of small cases. Read `given/model.py` first: it is the
# whole model on one rank, and you use its parts.
#
# Some rules hold in every module, so the docstrings don't repeat them. Inputs stay as they were,
# and results are new arrays or tensors. Nothing is kept from one call to the next. A function uses
# the communicator or group that it is given, which may be a part of the world. What it starts to
# send or to receive is completed before it returns, and its sends may have to wait for their
# receives. A docstring says so where its module is an exception.
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
import matplotlib.pyplot as plt
import numpy as np
from given.model import Sizes, serial_generate

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

# %% [markdown]
# ## 1. A cache in pages
#
# Without a cache the model would compute the keys and values of all earlier positions again for
# each token. With one it reads them. Llama 3 8B has 32 layers, 8 heads of keys and values of width
# 128, and two bytes an element.

# %% tags=["predict"]
guess(
    "a13/cache-gib",
    "How much memory do the keys and values of 64 answers take, with 4,096 positions each?",
    unit="GiB",
)

# %% [markdown]
# The module is `kv_cache.py`. Positions of a sequence are dealt out in pages, and a table says
# which page of the pool holds which positions, as an operating system does with memory.
#
# **Think.** Two answers share a prompt of 6 positions, in pages of 4. One of them gets a position.
# Which page may it write to, and what must happen first? What is different if the prompt has 8
# positions? And when the first answer is freed, how does the cache know which pages the second one
# still needs?

# %%
# {{module kv_cache}}

# %%
# {{check kv_cache}}

# %%
from kv_cache import PagedCache, token_bytes

llama_8b = token_bytes(32, 8, 128)
print(f"{llama_8b / 2**10:.0f} KiB for a position")
reveal("a13/cache-gib", 64 * 4096 * llama_8b / 2**30)

# %% [markdown] tags=["open"]
# Nobody knows how long an answer will be. A server without pages reserves room for the longest
# one. Here are 64 answers of 50 to 2,048 positions, short ones more often.

# %% tags=["predict"]
guess(
    "a13/reserved",
    "What share of the reserved memory do they use, if each reserves 2,048 positions?",
    unit="%",
)

# %%
rng = np.random.default_rng(4)
lengths = np.clip(rng.exponential(400, size=64), 50, 2048).astype(int)


def share_used(page_size):
    """Positions over what their pages have room for, in percent."""
    cache = PagedCache(64 * 2048 // page_size, page_size, 1, 1, 1)
    for length in lengths:
        cache.append(cache.new(), np.zeros((length, 1, 1, 1)), np.zeros((length, 1, 1, 1)))
    return 100 * lengths.sum() / (cache.used_pages * page_size)


page_sizes = [1, 4, 16, 64, 256, 1024, 2048]
shares = [share_used(size) for size in page_sizes]
reveal("a13/reserved", shares[-1])
fig, axes = plt.subplots(figsize=(6.5, 3.5))
axes.plot(page_sizes, shares, "o-")
axes.set(xscale="log", xlabel="positions in a page", ylabel="memory in use, %", ylim=(0, 105))
axes.set_title("64 answers of 50 to 2,048 positions")
plt.show()

# %% [markdown]
# **Explain.** Pages of one position waste nothing. Why do servers use pages of 16 all the same?
# What does a page of 16 cost a sequence on average, in positions?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# Eight answers to the same question are forks of one prompt of 1,000 positions. Each gets 20
# positions of its own. Pages have 16 positions.

# %% tags=["predict"]
guess("a13/forks", "How many pages are in use at the end?", unit="pages")

# %%
cache = PagedCache(700, 16, 1, 1, 1)
prompt = cache.new()
cache.append(prompt, np.zeros((1000, 1, 1, 1)), np.zeros((1000, 1, 1, 1)))
answers = [prompt] + [cache.fork(prompt) for _ in range(7)]
for name in answers:
    cache.append(name, np.ones((20, 1, 1, 1)), np.ones((20, 1, 1, 1)))
print(f"without sharing: {8 * -(-1020 // 16)} pages")
reveal("a13/forks", cache.used_pages)

# %% [markdown]
# **Explain.** Count the pages by hand: which are shared, which were copied, which are new? One
# answer copies nothing. Which one, and why?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 2. One model on many ranks
#
# Before you cut the model, look at what one GPU does. `given/token_time.py` declares the work of
# the model and sends what must be sent, without computing anything. So the model can be large: this
# one has the width, heads, layers and words of Llama 3 8B. Its MLP is the plain one of
# `given/model.py`, so it has 6.7 billion weights. The machine is an A100 that computes in bfloat16,
# at its peak. Starting an operator takes 5 µs.

# %%
large = Sizes(vocabulary=128_256, d=4096, heads=32, kv_heads=8, layers=32, longest=8192)
a100 = Machine.load("zaratan").with_(flop_per_s=3.12e14)


def time_s(p, new, before, ranks_per_node):
    """One step of the large model: new positions of each sequence, after those in the cache."""
    machine = a100.with_(ranks_per_node=ranks_per_node)
    given = tuple(vars(large).values()), new, before, 1, 2
    run = ringside.run("given/token_time.py:steps", p, given, machine=machine)
    return run.raise_for_error().makespan_s


# %% tags=["predict"]
guess(
    "a13/prefill",
    "How many times longer does the prefill of 512 tokens take than one decoding step?",
    unit="times",
)

# %%
prefill_s, token_s = time_s(1, [512], [0], 1), time_s(1, [1], [512], 1)
print(f"prefill {prefill_s * 1e3:.1f} ms, a token {token_s * 1e3:.1f} ms")
reveal("a13/prefill", prefill_s / token_s)

# %% [markdown]
# **Explain.** A token of prefill is many times cheaper than one of decoding. What does the GPU do
# in both cases for all of the time? What does this say about decoding 32 answers at once?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# The module is `decode.py`. `shard` gives each rank its heads, hidden units and words. `forward`
# sums twice in each layer. `greedy` finds the best word, and `generate` does one step after
# another.
#
# **Think.** Which arrays does every rank need whole, and why? `bo` is added to a sum over ranks:
# before or after? A rank knows the largest logit of its own words. What must it tell the others so
# that all choose the same word, also when two logits are equal?

# %%
# {{module decode}}

# %%
# {{check decode}}

# %%
from checks.cases_decode import MeasuredTokens

case = MeasuredTokens(4, n=32, lengths=(4, 2))
given = [case.inputs(rank) for rank in range(4)]
run = ringside.run("decode.py:measured_tokens", 4, given).raise_for_error()
print(run.values[0])
print(serial_generate(case.prompts, case.weights, case.sizes, case.tokens))
run.timeline

# %% [markdown]
# Now the large model again: one token of one answer on 1 to 8 GPUs. First all of them are in one
# node, then each is in a node of its own.

# %% tags=["predict"]
guess("a13/inside", "How many times faster are 8 GPUs than one, inside a node?", unit="times")

# %% tags=["predict"]
guess("a13/across", "And if each GPU is in a node of its own?", unit="times")

# %%
worlds = [1, 2, 4, 8]
inside = [time_s(p, [1], [512], 8) for p in worlds]
across = [time_s(p, [1], [512], 1) for p in worlds]
reveal("a13/inside", inside[0] / inside[-1])
reveal("a13/across", across[0] / across[-1])
fig, axes = plt.subplots(figsize=(6.5, 3.5))
for times, label in ((inside, "in one node"), (across, "a node for each GPU")):
    axes.plot(worlds, [1e3 * each for each in times], "o-", label=label)
axes.plot(worlds, [1e3 * inside[0] / p for p in worlds], "--", color="0.5", label="a p-th")
axes.set(xlabel="GPUs", ylabel="time of a token, ms", ylim=(0, None), xticks=worlds)
axes.set_title("One answer of the large model on modelled A100s")
axes.legend()
plt.show()

# %% [markdown]
# **Explain.** A sum of 4,096 numbers has 8 kB. The library's ring takes 2 (p - 1) latencies of 2.7
# µs for each of the 64 sums across nodes. How much of the time on 8 GPUs is latency there, how
# much is the starting of operators, and how much is reading? From how many GPUs on does one more
# make a token slower?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 3. The same model in torch
#
# `given/model_torch.py` is the same GPT in torch, with the same arrays. `decode_torch.py` runs it
# on process groups: unchanged on CPUs over gloo and on GPUs over NCCL. Two things are new.
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
run = ringside.run("checks/inside_torch.py:measured_tokens", 4, given).raise_for_error()
print(run.values[0])
print(serial_generate(case.prompts, case.weights, case.sizes, case.tokens))
reveal("a13/logits", 4 * (128_256 // 4) / 16)
run.timeline

# %% [markdown] tags=["open"]
# Now the time of a decoding step on 1 to 8 GPUs, four in a node: traced on fake tensors, replayed
# on the machine `zaratan`. `given/decode_time_torch.py` subtracts a run with one token, which
# is the prefill, from a run with five.

# %% tags=["predict"]
guess(
    "a13/second-node",
    "How many times faster is a step on 8 GPUs in two nodes than on 4 in one?",
    unit="times",
)

# %%
from given.decode_time_torch import step_times

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
# returns a plan, and `replay` of `given/batching_server.py` carries it out.

# %%
from given.batching_server import Server, replay, static, stream

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

# %% [markdown] tags=["open"]
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

# %% [markdown]
# ## 5. New weights for the server (extra)
#
# In reinforcement learning the model writes answers, a program marks them, and a step of training
# makes good ones more likely. Then the GPUs that write, the *samplers*, need the new weights. They
# cut a matrix as you did in section 2, by columns or rows; the *trainers* cut it as in
# `a07_sharding`, by rows alone, and often in several groups that have copies of one another. So no
# collective fits: each sampler gets each piece from a trainer that has it.
#
# Eight trainers are two groups of four. Each group has the whole matrix, cut by rows. Eight
# samplers are two servers of four, each with the whole matrix, cut by columns. Copies share the
# work.

# %% tags=["predict"]
guess(
    "a13/weights",
    "What share of the matrix does one trainer send, in all?",
    unit="%",
)

# %% [markdown]
# **Think.** Each rank works through its own part of the plan with blocking calls. When may that end
# in a deadlock, and which order of the plan's pieces is safe on all ranks?

# %%
# {{module weights}}

# %%
# {{check weights}}

# %%
from checks.cases_weights import Sync

case = Sync(16, trainers=(4, 1, 2), samplers=(1, 4, 2), shape=(64, 64))
run = ringside.run("weights.py:sync", 16, [case.inputs(rank) for rank in range(16)])
reveal("a13/weights", 100 * max(run.raise_for_error().sent_bytes()) / case.matrices[1].nbytes)
run.timeline

# %% [markdown]
# **Explain.** How much would rank 0 send and receive if it gathered the matrix and sent each
# sampler its block? A program broadcasts each trainer's block to all samplers instead: how many
# times too much does a sampler receive? Why do some servers do it all the same?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 6. On a cluster
#
# The same `decode.py`, unchanged, on real ranks: `measured_tokens` generates 16 tokens of each of
# two sequences with a model of width n. In a terminal, in this folder, on one rank and on several:
#
# ```
# ringside launch decode.py:measured_tokens --site zaratan --nodes 2 -- --n 256 --n 512 --tokens 16
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook. The run counts if it is complete and was made
# with the `decode.py` that you hand in.

# %%
# {{run decode_cluster points=5}}

# %% [markdown]
# **Your paragraph.** Compare the measured time of a token for both widths, on one rank and on
# several, with the model. Take the time of one rank divided by the number of ranks for the
# reading, and alpha and beta from your runs of `a01_first_ranks` for the sums. Which share of a
# token's time is latency? For which width does another rank no longer help? (About 150 words.)

# %%
# {{paragraph decode_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
