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
# # Pipelines: schedules and bubbles
#
# A model that is too large for one GPU is cut into *stages*, each a run of layers on a rank of its
# own. Activations travel forward, their gradients back, each to one neighbour only. The price is
# waiting: while the first stage works, the last one has nothing to do. In this assignment you
# write the schedules that make the wait short, and one interpreter that runs them all.
#
# At the end you will have
#
# - written GPipe, 1F1B and interleaved 1F1B as *data*: lists of actions;
# - seen where each stage waits, in timelines of real runs;
# - found out what 1F1B is good for (not for what many slides say);
# - closed forms for time, bubble, messages and memory, held against replays of a GPT on 8 to 64
#   GPUs.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points. All that it asks stands in the module's
# docstring and in `docs/contract.md`. The tests lie in `checks/`, where you can read them; the
# hidden suite asks the same of other cases. In `given/` are `actions.py` (what a stage can do),
# `model.py` and `model_torch.py` (pieces of a network, whose passes take virtual time), and
# `replayed.py` (what a schedule does, without a stage that runs it). Read `actions.py` and
# `model.py` first: each is a page.
#
# In every module inputs stay as they were and results are new arrays, nothing is kept from one
# call to the next, the communicator or group that is given may be a part of the world, and each
# send and receive that a call starts is completed before it returns. Sends may wait for their
# receives.
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
from importlib import import_module, invalidate_caches, reload

import matplotlib.pyplot as plt
import numpy as np
from given import replayed
from given.actions import parse, text

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

S, M = 4, 8  # stages, microbatches
TF, TB = 1.0, 2.0  # seconds of a forward and a backward pass through one stage

# %% [markdown]
# ## 1. The naive way
#
# One batch goes through all stages and back, then comes the next one. Here is its schedule for
# two stages as text: `F0` is the forward pass of microbatch 0, `B0` its backward pass.

# %% tags=["predict"]
guess(
    "a09/naive",
    "How many times faster are the two stages than one GPU that could hold everything?",
    unit="times",
)

# %%
naive = [parse("F0 B0 F1 B1 F2 B2 F3 B3")] * 2
one_by_one = replayed.timeline(naive)
busy_s = sum(one_by_one.makespan_s - idle_s for idle_s in one_by_one.idle_s)
reveal("a09/naive", busy_s / one_by_one.makespan_s)
one_by_one

# %% [markdown]
# Two GPUs work, and each is idle half of the time.

# %% [markdown]
# GPipe's idea is to cut the batch into M microbatches and let the next one follow before the first
# is back. **Think:** with S stages and M batches, how long does the naive way take?
#
# Draw GPipe's schedule for S = 3 and M = 4, on paper, with backward passes twice as long as forward
# passes. How many squares of each row are empty?

# %% [markdown]
# ## 2. Schedules are data
#
# A schedule says what a stage does, in which order. It says nothing of messages: a stage waits for
# what its next action needs. So you can write, test and draw it without sending anything.
#
# GPipe is two lines. 1F1B (one forward, one backward) needs a *warm-up*: how many forward passes
# must stage s do before its first backward pass can come? One too few, and others wait for it; one
# too many, and an activation more is kept.

# %% tags=["predict"]
guess("a09/gpipe", "How long does GPipe take with S = 4, M = 8, tf = 1 s and tb = 2 s?", unit="s")

# %%
# {{module schedule}}

# %%
# {{check schedule}}

# %%
invalidate_caches()
schedule = reload(import_module("schedule"))  # as its file is now


def lists(name, num_stages, num_microbatches, *chunks):
    """All stages' actions."""
    function = getattr(schedule, name)
    return [function(num_stages, num_microbatches, s, *chunks) for s in range(num_stages)]


for actions in lists("one_f_one_b", S, M):
    print(text(actions))
gpipe = replayed.timeline(lists("gpipe", S, M), 1, TF, TB)
reveal("a09/gpipe", gpipe.makespan_s)
gpipe

# %%
flush = replayed.timeline(lists("one_f_one_b", S, M), 1, TF, TB)
assert gpipe.makespan_s == flush.makespan_s == (M + S - 1) * (TF + TB)
flush

# %% [markdown] tags=["explanation"]
# Both take 33 s, which is (M + S - 1)(tf + tb). So 1F1B does *not* make the bubble smaller. It
# moves the bubble.

# %% [markdown]
# **Explain.** What does 1F1B make smaller? Count how many microbatches are in flight.

# %% [markdown]
# *Your answer:*

# %%
print("stage      ", *range(S))
for name in ("gpipe", "one_f_one_b"):
    print(f"{name:<12}", *(replayed.most_in_flight(each) for each in lists(name, S, M)))
assert [replayed.most_in_flight(each) for each in lists("one_f_one_b", S, M)] == [4, 3, 2, 1]

# %% [markdown]
# What does make the bubble smaller is smaller pieces: with v chunks on each stage, the pipeline
# fills in smaller steps. Where will the wide gaps be?

# %% tags=["predict"]
guess("a09/interleaved", "How long does it take with v = 2?", unit="s")

# %%
small = replayed.timeline(lists("interleaved", S, M, 2), 2, TF / 2, TB / 2)
print(f"v = 2: {small.makespan_s:g} s, and v = 1: {flush.makespan_s:g} s")
reveal("a09/interleaved", small.makespan_s)
assert small.makespan_s == (M + (S - 1) / 2) * (TF + TB)
small

# %% [markdown] tags=["open"]
# Or more microbatches. The dots are your schedules, replayed; the lines the formulas.

# %%
counts = [4, 8, 16, 32, 64]
fig, axes = plt.subplots(figsize=(6.5, 3.6))
for name, v, colour in (("one_f_one_b", 1, "tab:blue"), ("interleaved", 2, "tab:orange")):
    bubbles = []
    for count in counts:
        mine = lists(name, S, count, *([v] if v > 1 else []))
        line = replayed.timeline(mine, v, TF / v, TB / v)
        bubbles.append(line.idle_s[0] / line.makespan_s)
    formula = [(S - 1) / (v * count + S - 1) for count in counts]
    axes.plot(counts, formula, color=colour, label=f"{name}, v = {v}")
    axes.plot(counts, bubbles, "o", color=colour)
    assert np.allclose(bubbles, formula)
axes.set(xscale="log", xlabel="microbatches M", ylabel="idle share of the time", ylim=(0, 0.5))
axes.set_xticks(counts, labels=[str(count) for count in counts])
axes.minorticks_off()
axes.set_title(f"The bubble of {S} stages")
axes.legend()
plt.show()

# %% [markdown]
# **Explain.** GPipe's line lies on that of 1F1B. Why don't you take M = 1000? Name two things that
# stop you. One of them is in the GPU: how fast is a matrix product with very few rows? The other is
# in the optimizer: how large is the global batch?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 3. One interpreter for all
#
# Now the messages. `stage.run` gets a list of actions and runs it, whatever it is: it receives what
# an action needs, computes, and sends on.
#
# In the steady state of 1F1B a stage has just done a forward pass and wants to send the activation
# to the next stage. That one has just done a backward pass and wants to send the gradient back.
# Both use a blocking send. Whether that works depends on the length of the message: on what,
# exactly?

# %% tags=["predict"]
guess(
    "a09/blocking",
    "What happens on a network where every send waits for its receive?",
    choices=[
        "both messages arrive",
        "the activation arrives first, and then the gradient",
        "both stages wait for ever",
    ],
)

# %%
# %%ranks 2
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
activation, gradient = np.ones(1000), np.ones(1000)
if comm.Get_rank() == 0:  # F0 F1 B0 B1
    comm.Send(activation, dest=1)
    comm.Send(activation, dest=1)  # after F1
    comm.Recv(gradient, source=1)  # for B0
else:  # F0 B0 F1 B1
    comm.Recv(activation, source=0)
    comm.Send(gradient, dest=0)  # after B0
    comm.Recv(activation, source=0)  # for F1

# %%
reveal("a09/blocking", "both stages wait for ever")

# %% [markdown]
# **Explain.** Who waits for whom? Why does GPipe run with the same blocking sends? Your cure must
# not depend on the schedule, since `run` has to run all of them.

# %% [markdown]
# *Your answer:*

# %% [markdown]
# There are three more traps: microbatches of different lengths (whose mean is the loss?), fewer
# microbatches than stages, and one stage alone. There is also a question of speed. A long message
# begins when its receive is posted. When do you post it?

# %%
# {{module stage}}

# %%
# {{check stage}}

# %% [markdown]
# Real runs, on four simulated ranks: each pass takes the time that `given/model.py` declares, and
# each message the time that the network needs. First your GPipe, then your 1F1B, then interleaved,
# on a wire on which a message takes an eighth of a forward pass.

# %%
from checks.cases_stage import Step

wire = Machine("wire", alpha_s=1e-5, beta_s_per_byte=1e-8)
COSTS = (1e-4, 2e-4)  # a whole stage


def step(name, v=1, count=M, machine=wire, rows=8):
    """One step of stage.py on simulated ranks."""
    mine = lists(name, S, count, *([v] if v > 1 else []))
    costs = tuple(cost / v for cost in COSTS)
    case = Step(S, tuple(map(text, mine)), sizes=(rows,), costs=costs)
    arguments = [case.inputs(rank) for rank in range(S)]
    return ringside.run("checks/inside.py:stepped", S, arguments, machine=machine)


gpipe_run = step("gpipe")
print(f"{gpipe_run.makespan_s * 1e3:.3f} ms, {sum(gpipe_run.sent_messages())} messages")
gpipe_run.timeline

# %%
flush_run = step("one_f_one_b")
print(f"{flush_run.makespan_s * 1e3:.3f} ms, {sum(flush_run.sent_messages())} messages")
assert sum(flush_run.sent_messages()) == 2 * M * (S - 1)
flush_run.timeline

# %%
small_run = step("interleaved", v=2)
print(f"{small_run.makespan_s * 1e3:.3f} ms, {sum(small_run.sent_messages())} messages")
assert sum(small_run.sent_messages()) == 2 * M * (2 * S - 1)
small_run.timeline

# %% [markdown]
# **Explain.** The interleaved schedule sends more than twice as many messages. On which kind of
# wire does it lose what it wins? Change `wire` and find one.

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 4. What latency does: an old exam question
#
# S = 4, M = 8, tf = 1 s, tb = 2 s, and a message takes 0.5 s, however short. Without that, both
# schedules take 33 s.
#
# One of the two is easy. For the other follow a microbatch down to the last stage and back, and ask
# what stage 0 does meanwhile.

# %% tags=["predict"]
guess("a09/latency-gpipe", "How long does GPipe take now?", unit="s")

# %% tags=["predict"]
guess("a09/latency-1f1b", "And how long does 1F1B take?", unit="s")

# %%
slow = Machine("slow", alpha_s=0.5, beta_s_per_byte=0.0)
slow_gpipe = replayed.timeline(lists("gpipe", S, M), 1, TF, TB, 8, slow)
slow_flush = replayed.timeline(lists("one_f_one_b", S, M), 1, TF, TB, 8, slow)
print(f"GPipe {slow_gpipe.makespan_s:g} s, 1F1B {slow_flush.makespan_s:g} s")
reveal("a09/latency-gpipe", slow_gpipe.makespan_s)
reveal("a09/latency-1f1b", slow_flush.makespan_s)
slow_flush

# %% tags=["checked"]
assert (slow_gpipe.makespan_s, slow_flush.makespan_s) == (36.0, 41.0)

# %% [markdown]
# GPipe pays for latency once between two stages, in each direction. That makes
# 33 + 2 * 3 * 0.5 = 36 s. 1F1B takes 41 s, although no send is blocking.

# %% [markdown]
# **Explain.** Look at the last two stages of 1F1B in the steady state: forward, send, backward,
# send, and what comes next? What would one
# more microbatch in flight buy, and what would it cost? (Change the warm-up in a copy of your
# function, and replay it.)

# %% [markdown]
# *Your answer:*

# %% [markdown]
# What 1F1B saves is memory. The next cell measures the peak of what each rank allocates, as
# Python's `tracemalloc` sees it, while your stages run both schedules.

# %%
ROWS, WIDTHS = 256, (8, 512, 8)
saved = 8 * ROWS * sum(WIDTHS)  # input, hidden layer, output
peaks = {}
for name in ("gpipe", "one_f_one_b"):
    mine = tuple(map(text, lists(name, S, M)))
    case = Step(S, mine, sizes=(ROWS,), widths=WIDTHS, watched=True)
    arguments = [case.inputs(rank) for rank in range(S)]
    measured = ringside.run("checks/inside.py:stepped", S, arguments)
    peaks[name] = [value["peak"] / saved for value in measured.values]
fig, axes = plt.subplots(figsize=(6.5, 3.4))
for shift, (name, values) in zip((-0.2, 0.2), peaks.items(), strict=True):
    axes.bar(np.arange(S) + shift, values, 0.36, label=name)
axes.set(xlabel="stage", ylabel="peak, in microbatches' activations", xticks=range(S))
axes.set_ylim(0, 16)
axes.set_title(f"Memory of {S} stages, {M} microbatches")
axes.legend()
plt.show()
assert max(peaks["one_f_one_b"]) < 0.75 * min(peaks["gpipe"])

# %% [markdown]
# **Explain.** The bars of 1F1B fall by one from stage to stage. Which stage would you give an
# additional layer, then? And why are the bars not whole numbers?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 5. Closed forms
#
# You have seen all of these numbers; now write them down. Mind what the bubble is a fraction *of*:
# papers give idle over *ideal*, (S - 1) / M, and a profiler shows idle over *total*.

# %%
# {{module bubble}}

# %%
# {{check bubble}}

# %% [markdown]
# A GPT of 64 layers of width 4096, sequences of 2048 tokens, one a microbatch, float32, on a
# cluster of A100s (four to a node, one network port a node): activations of 33.6 MB travel between
# stages. Your schedules, replayed on 8 to 64 stages with 32 microbatches, against your formula.

# %%
invalidate_caches()
bubble = reload(import_module("bubble"))
zaratan = Machine.load("zaratan")
LAYERS, HIDDEN, TOKENS, COUNT = 64, 4096, 2048, 32
layer_s = 24 * TOKENS * HIDDEN**2 * (1 + TOKENS / (6 * HIDDEN)) / zaratan.flop_per_s
stages = [8, 16, 32, 64]
speedups = {"gpipe": [], "one_f_one_b": [], "formula": []}
for p in stages:
    tf = layer_s * LAYERS / p
    serial_s = COUNT * p * 3 * tf
    for name in ("gpipe", "one_f_one_b"):
        line = replayed.timeline(lists(name, p, COUNT), 1, tf, 2 * tf, 4 * TOKENS * HIDDEN, zaratan)
        speedups[name].append(serial_s / line.makespan_s)
    speedups["formula"].append(serial_s / bubble.makespan_s(p, COUNT, tf, 2 * tf))
    ratio = ", ".join(f"{name} {values[-1]:.1f}" for name, values in speedups.items())
    print(f"{p} stages: {ratio}")

# %%
fig, axes = plt.subplots(figsize=(6.5, 3.8))
axes.plot(stages, stages, color="grey", linestyle=":", label="ideal")
axes.plot(stages, speedups["formula"], color="grey", label="formula, free messages")
axes.plot(stages, speedups["gpipe"], "o", ms=11, fillstyle="none", label="gpipe, replayed")
axes.plot(stages, speedups["one_f_one_b"], "x", label="one_f_one_b, replayed")
axes.set(xscale="log", yscale="log", xlabel="stages, one A100 each", ylabel="speedup over one")
axes.set_xticks(stages, labels=[str(p) for p in stages])
axes.set_yticks([4, 8, 16, 32, 64], labels=["4", "8", "16", "32", "64"])
axes.minorticks_off()
axes.set_title(f"A GPT, {COUNT} microbatches")
axes.legend()
plt.show()
assert all(a <= b for a, b in zip(speedups["one_f_one_b"], speedups["formula"], strict=True))
assert 0.3 < speedups["one_f_one_b"][-1] / 64 < 0.35

# %% [markdown]
# **Explain.** At 64 stages two thirds of all GPUs are idle. How many microbatches does your
# `fewest_microbatches` want for a bubble of a tenth? How large is the global batch then, in tokens?
# A slide says that pipelines are ideal for thousands of processes. What limits the number of
# stages? What do large runs do with the other GPUs? (The longest pipeline in Megatron-LM's table of
# 2021 has 64 stages, on 3072 GPUs.)

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 6. In torch, and without activations
#
# With `given/model.py` you called each piece's backward pass yourself. In torch autograd does, but
# it does not see across ranks: each stage has a graph of its own, for each microbatch, which begins
# at a tensor that came in and ends at one that went out. What must be said to the incoming tensor
# so that its gradient can be sent back? And what do you give `backward` on a stage that has no
# loss?
#
# GPipe keeps the activations of all M microbatches, so its authors don't keep them at all: each
# stage remembers its *inputs*, and computes the forward pass again when the gradient arrives.
# **Think:** what does that do to the bubble, as a share? And what goes wrong in a network with
# dropout?

# %% tags=["predict"]
guess(
    "a09/recompute",
    "A backward pass takes twice as long as a forward pass. How many times as long "
    "does a step take, if everything is computed again?",
    unit="times",
)

# %%
# {{module pipeline_torch}}

# %%
# {{check pipeline_torch}}

# %%
from checks.cases_torch import StepTorch

options = {"sizes": (ROWS,), "widths": WIDTHS, "costs": (1e-3, 2e-3)}


def torch_step(name, recompute):
    """One step of pipeline_torch.py on simulated ranks."""
    mine = tuple(map(text, lists(name, S, M)))
    case = StepTorch(S, mine, **options, recompute=recompute)
    arguments = [case.inputs(rank) for rank in range(S)]
    return ringside.run("checks/inside_torch.py:stepped", S, arguments)


runs = {(name, again): torch_step(name, again)
        for name in ("gpipe", "one_f_one_b") for again in (False, True)}  # fmt: skip
for (name, again), one in runs.items():
    peak = max(each["peak_by_kind"]["activations"] for each in one.memory) / saved
    words = f"{name}, {'recomputing' if again else 'keeping all'}"
    print(f"{words:<26} {one.makespan_s * 1e3:5.1f} ms, at most {peak:4.1f} microbatches' worth")
reveal("a09/recompute", runs["gpipe", True].makespan_s / runs["gpipe", False].makespan_s)
runs["gpipe", True].timeline

# %% tags=["checked"]
assert runs["gpipe", True].makespan_s > 1.3 * runs["gpipe", False].makespan_s

# %% [markdown]
# **Explain.** Recomputation costs a third more time and frees most of the memory. With it, is there
# still a reason to prefer 1F1B to GPipe? And why do large runs recompute only *some* layers?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 7. Zero bubble (extra)
#
# A backward pass computes two things. The gradient of the input is what the stage before waits
# for. The gradients of the weights are needed by nobody until the update. Let I be the first half
# and W the second. A stage can send after I, and do W when it would be idle.
#
# With one second each for F, I and W, and S = 4 and M = 8, 1F1B takes (8 + 3) * 3 = 33 s. Its first
# stage is idle for 9 s while it waits for the first gradient.

# %% tags=["predict"]
guess(
    "a09/zero-bubble",
    "A stage may hold as many microbatches as under 1F1B on stage 0. How long does a step take "
    "if second halves fill the gaps?",
    unit="s",
)

# %%
# {{module zero_bubble}}

# %%
# {{check zero_bubble}}

# %%
invalidate_caches()
zero = reload(import_module("zero_bubble"))


def halves(name, placement="loop", chunks=1, costs=(1.0, 1.0, 1.0)):
    """The timeline of one of your zero-bubble schedules; costs are those of F, I and W."""
    mine = [getattr(zero, name)(S, M, s) for s in range(S)]
    f, i, w = (each / chunks for each in costs)
    line = replayed.timeline(mine, chunks, f, i + w, weight_s=w, placement=placement)
    idle_s = [replayed.idle_inside_s(line, s) for s in range(S)]
    held = [replayed.most_in_flight(each) for each in mine]
    print(f"{name}: {line.makespan_s:g} s, idle inside at most {max(idle_s):g} s, held {held}")
    return line


first = halves("zb_h1")
reveal("a09/zero-bubble", first.makespan_s)
first

# %%
halves("zb_h2")

# %%
halves("zb_v", "v", 2)

# %% tags=["checked"]
assert first.makespan_s == M * 3 + (S - 1)

# %% [markdown]
# **Explain.** Under `zb_h2` no stage is idle between its first and its last action, and yet the
# step takes as long as under `zb_h1`. Where is the rest of the time? What would have to change at
# the end of a step, so that many steps in a row gain from H2? And why does W longer than F not help
# `zb_h1`?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 8. DualPipeV (extra)
#
# Now let passes wait *inside* a stage, as in a mixture of experts: each F, I and B needs messages
# from experts on other GPUs, of one second a pass. F, I and W of a chunk take one second each. With
# two chunks a stage and 12 microbatches, a stage computes for 72 s.

# %% tags=["predict"]
guess(
    "a09/exchange",
    "How long does a stage compute and wait, if it does one pass at a time and never stands idle?",
    unit="s",
)

# %%
WAITING_M, WAIT_S = 12, 1.0
reveal("a09/exchange", WAITING_M * 2 * (3 + 2 * WAIT_S))

# %% [markdown]
# In each of its two chunks a microbatch costs 3 s of computing, one wait behind F and one behind I:
# 5 s. That makes 120 s, whatever the order. Less is possible only if a stage does two passes side
# by side, of different microbatches, and computes one while the messages of the other travel.

# %% tags=["predict"]
guess(
    "a09/pairs",
    "With pairs of a forward and a backward pass: what share of the waiting can be hidden?",
    choices=["less than half", "half to three quarters", "more than three quarters"],
)

# %%
# {{module dualpipev}}

# %%
# {{check dualpipev}}

# %%
invalidate_caches()
dual = reload(import_module("dualpipev"))


def paired(wait_s):
    """The timeline of your lists; each pass waits for messages inside its stage."""
    mine = [dual.dualpipev(S, WAITING_M, s) for s in range(S)]
    line = replayed.timeline(mine, 2, placement="v", exchange_s=wait_s)
    held = [replayed.most_in_flight(each) for each in mine]
    print(f"x = {wait_s:g} s: {line.makespan_s:g} s, held {held}")
    return line


free = paired(0.0)
waiting = paired(WAIT_S)
hidden = 1 - (waiting.makespan_s - free.makespan_s) / (WAITING_M * 4 * WAIT_S)
parts = ["less than half", "half to three quarters", "more than three quarters"]
reveal("a09/pairs", parts[(hidden >= 0.5) + (hidden > 0.75)])
waiting

# %% tags=["checked"]
assert (free.makespan_s, waiting.makespan_s) == (78, 98)

# %% [markdown]
# **Explain.** Which passes stand alone, and why does their number not grow with M? Compare the list
# with `zb_v` for x = 0 and for x = 1. From which x on would you take pairs? What does our clock
# assume about a pair that real GPUs don't give you for nothing?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 9. On a cluster
#
# The same `stage.py`, unchanged, on real nodes: `measured_step` is one step with two layers of
# n x n on each stage. In a terminal, in this folder:
#
# ```
# STEP="ringside launch stage.py:measured_step --site zaratan --nodes 2"
# $STEP -- --n 512 --n 1024 --microbatches 4
# $STEP -- --n 512 --n 1024 --microbatches 32
# ```
#
# (`--site local` runs it on this machine, `--schedule gpipe` takes the other schedule, `--dry-run`
# prints the job.) It leaves `run.json` and a trace here, which are handed in with the notebook: the
# last run's, so note the first one's times. The run counts if it is complete and was made with the
# `stage.py` that you hand in.
#
# `pipeline_torch.py` runs over gloo, on CPUs. (NCCL ignores tags and makes the calls between two
# ranks one after another. So over NCCL a receive that is posted ahead can block the send that the
# other rank waits for.) Let it leave its record in a folder of its own: the one to hand in is that
# of the module above.
#
# ```
# ringside launch checks/inside_torch.py:measured_pipeline --site zaratan --out torch -- --n 1024
# ```

# %%
# {{run pipeline_cluster points=5}}

# %% [markdown]
# **Your paragraph.** Give the time of one microbatch with 4 and with 32 of them, and the ratio that
# `bubble_fraction` predicts. Where do they differ, and why? Say what you would change first to make
# the step faster on this machine: the schedule, M, or the cut into stages. (About 150 words.)

# %%
# {{paragraph pipeline_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
