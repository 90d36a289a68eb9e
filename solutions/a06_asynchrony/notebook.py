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
# # Asynchrony, local steps and compression
#
# In data-parallel training all ranks wait for each other in every step, and in every step they
# exchange all gradients. Each of the schemes in this assignment gives up a part of that:
#
# - a **parameter server** lets a worker go on while others are still computing. The price is that
#   gradients are computed on old weights;
# - **local SGD** and **DiLoCo** average the weights only every H steps. The price is that the
#   ranks' weights drift apart in between;
# - **PowerSGD** sends a small approximation of each gradient, and keeps what it left out for the
#   next step;
# - **gossip** (extra) averages with a few neighbours only, so that a mean takes several rounds.
#
# Whoever gives something up should know what it costs. So for each scheme you measure two things:
# the time or the bytes that it saves, and what happens to the weights.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points: about 45 for values, 30 for what is sent
# and when, and the rest for safety and speed in virtual time. All that the hidden suite asks
# stands in the module's docstring and in `docs/contract.md`. The tests lie in `checks/`, where you
# can read them; the hidden suite asks the same of other cases. In `given/` is what modules import.
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
from given.server_problem import Problem, trained

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

textbook = Machine.load("textbook")

# %% [markdown]
# ## 1. A parameter server
#
# One worker is slow. Perhaps its processor is older, or somebody else uses its node. It makes 4
# steps of about 8 ms each. Three other workers make 16 steps of about 2 ms each, so each worker
# computes for about 32 ms. Rank 0 is the server: it holds the weights and computes no gradient.
#
# Messages take microseconds here. What costs time is waiting.

# %% tags=["predict"]
guess(
    "a06/rounds",
    "All four workers wait for each other in each step, as long as all of them have "
    "steps left. How long does the training take?",
    unit="ms",
)

# %% [markdown]
# The module is `server.py`. The same program trains in three ways, and only the rule for
# answering a pull is different. In `given/` are `wire.py`, the four messages, and
# `server_problem.py`, a training problem whose gradients take virtual time.
#
# Think about the ends before you write. A worker may be the one that all others wait for, and
# then tell the server that it has ended. Who must be answered now?
#
# There is no torch version of this module. In PyTorch's collectives no rank answers requests as
# they come. Its RPC package can do that, but it is no longer actively developed.

# %%
# {{module server}}

# %%
# {{check server}}

# %% [markdown]
# **Run.** First synchronously: `staleness=0`. Grey is waiting.

# %%
STEPS, PACES = [4, 16, 16, 16], [8, 2, 2, 2]  # per worker: steps, and ms a step


def train(staleness, n=1000):
    """One training on simulated ranks."""
    arguments = (STEPS, PACES, staleness, n, 0)
    return ringside.run("checks/inside.py:server_training", 5, arguments, machine=textbook)


rounds = train(0).raise_for_error()
reveal("a06/rounds", 1e3 * rounds.makespan_s)
rounds.timeline

# %% [markdown]
# **Explain.** In which part of the run do the fast workers wait, and for how long in each step?
# When does the waiting end, and why?
#
# Now without any waiting. Each worker gets the newest weights whenever it asks. But while the
# slow worker computes, the others go on pushing. So its gradient belongs to weights that are no
# longer there. The number of updates in between is the gradient's lag.

# %% tags=["predict"]
guess(
    "a06/lag",
    "What is the largest lag of a gradient when nobody waits?",
    unit="versions",
)

# %%
free = train(None).raise_for_error()
print(
    f"{1e3 * free.makespan_s:.1f} ms, where synchronous rounds took {1e3 * rounds.makespan_s:.1f}"
)
print("the slow worker computed on versions", free.values[1])
lags = trained(Problem(1000, STEPS, PACES, 0), None, textbook).lags  # the same in one process
reveal("a06/lag", max(lags))
free.timeline

# %% [markdown]
# **Explain.** Most gradients have a lag of 2 or 3. Which rule of thumb would you give for the lag
# of a worker among p - 1 equally fast ones? And for a worker that is k times slower than the
# others?
#
# Stale-synchronous training lies between the two. How much staleness is needed until nobody
# waits?

# %% tags=["predict"]
guess(
    "a06/enough",
    "From which staleness on does the training take as long as the asynchronous one (to 1 %)?",
    unit="steps",
)

# %%
allowed = list(range(15))
times_ms = [1e3 * train(staleness).raise_for_error().makespan_s for staleness in allowed]
problem = Problem(1000, STEPS, PACES, 0)
largest = [max(trained(problem, staleness, textbook).lags) for staleness in allowed]
enough = next(s for s, ms in enumerate(times_ms) if ms < 1.01e3 * free.makespan_s)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5))
left.plot(allowed, times_ms, "o-", color="tab:blue", label="stale-synchronous")
left.axhline(1e3 * free.makespan_s, color="grey", linestyle=":", label="asynchronous")
left.set(xlabel="staleness, steps", ylabel="time of the training, ms", ylim=(0, None))
left.legend()
right.plot(allowed, largest, "o-", color="tab:orange", label="largest lag")
right.plot(
    allowed[1:], [3 * (2 * s + 1) for s in allowed[1:]], ":", color="grey", label="(2s + 1)(p - 2)"
)
right.set(xlabel="staleness, steps", ylabel="lag, versions", ylim=(0, 40))
right.legend()
fig.suptitle("One slow worker and three fast ones")
plt.show()
reveal("a06/enough", enough)
assert times_ms[0] > times_ms[2] > times_ms[8] > 0.99 * times_ms[-1]

# %% [markdown]
# **Explain.** Derive the bound (2s + 1)(p - 2) on the lag: between a pull and its push, how many
# gradients can each of the other workers push at most? Why do the runs stay so far below it?
#
# So asynchronous training is the fastest. What does it do to the weights? Take one weight with
# the loss w²/2, whose gradient is w. The cell makes as many updates as your server made, each
# with the gradient of the weight as it was so many versions before as the run's lag says.

# %% tags=["predict"]
guess(
    "a06/large-rate",
    "The learning rate is 0.8. Synchronous rounds bring w from 1 to 7e-12. What do the "
    "asynchronous updates do?",
    choices=["come as near to 0", "come nearer to 0 more slowly", "move away from 0"],
)

# %%


def weights_after(lags, rate):
    """``w`` after each update, with gradients that are late by the lags."""
    w = [1.0]
    for lag in lags:
        w.append(w[-1] - rate * w[max(0, len(w) - 1 - lag)])
    return np.abs(w)


runs = {
    "synchronous": ([0] * 16, times_ms[0]),
    "stale-synchronous, s = 2": (trained(problem, 2, textbook).lags, times_ms[2]),
    "asynchronous": (lags, 1e3 * free.makespan_s),
}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.5), sharey=True)
for axis, rate in zip(axes, (0.1, 0.3, 0.8), strict=True):
    for name, (own, ends_ms) in runs.items():
        axis.plot(np.linspace(0, ends_ms, len(own) + 1), weights_after(own, rate), label=name)
    axis.set(yscale="log", ylim=(1e-6, 1e3), xlabel="time, ms", title=f"learning rate {rate}")
axes[0].set_ylabel("|w|")
axes[0].legend(fontsize="small")
plt.show()
late = weights_after(lags, 0.8)[-1]
words = ("come as near to 0", "come nearer to 0 more slowly", "move away from 0")
reveal("a06/large-rate", words[2] if late > 1 else words[1] if late > 1e-9 else words[0])

# %% [markdown]
# **Explain.** At rate 0.1 the asynchronous run is ahead at every time, and at 0.8 it is useless.
# Which two things does an update gain or lose when it doesn't wait? What would you do with the
# learning rate when you switch a training from synchronous to asynchronous, and what would that
# do to your gain?

# %% [markdown]
# ## 2. Local SGD
#
# Data-parallel ranks exchange gradients in every step. Over a slow network, for instance between
# two computing centres, this exchange takes longer than the step itself. Local SGD meets less
# often. Each rank takes H steps alone, on its own data. Then all ranks replace their parameters by
# the mean of all ranks' parameters. H is called the period.

# %% tags=["predict"]
guess(
    "a06/local-bytes",
    "A model has 1 GB of parameters. 8 ranks take 500 steps with a period of 50. How many GB does "
    "each rank send in all, if each average is a ring all-reduce?",
    unit="GB",
)

# %% [markdown]
# The module is `local_sgd.py`. In `given/local_loss.py` is the loss of a rank, whose gradient takes
# virtual time.
#
# **Think** before you write. The number of steps need not be a multiple of the period. What do
# the ranks return if nobody thinks of that? And if each parameter array travels alone, what does
# that cost for a model with hundreds of small ones?

# %%
# {{module local_sgd}}

# %%
# {{check local_sgd}}

# %% [markdown]
# **Run.** 8 ranks, 500 steps, a period of 50, and a small model. The network counts.

# %%
start = [np.zeros(64)]
mine = ([np.ones(64)], [[np.ones(64)]])  # curvatures and samples: the same on all ranks
counted = ringside.run("checks/inside.py:local_sgd_trained", 8, [(start, *mine, 500, 50, 0.01)] * 8)
averages = [record.nbytes for record in counted.raise_for_error().collectives]
sent_bytes = sum(2 * nbytes * 7 / 8 for nbytes in averages)  # a ring sends so much
print(f"{len(averages)} all-reduces of {averages[0]} bytes: a rank sends {sent_bytes:.0f} bytes")
reveal("a06/local-bytes", sent_bytes / start[0].nbytes)

# %% [markdown]
# **Explain.** How many GB would data-parallel SGD send? Is there anything that still grows with
# the number of steps between two averages?
#
# Now the price. Two ranks share one weight w. Rank 0's data want it to be 0, and its loss is
# w²/2. Rank 1's data want it to be 1, and its loss is 9 (w - 1)²/2: nine times as curved. The sum
# of the two losses is smallest at w = 0.9, and data-parallel SGD ends there.

# %% tags=["predict"]
guess(
    "a06/drift",
    "Both ranks take 1000 steps with a learning rate of 0.05 and a period of 200. Which w do they "
    "end with?",
)

# %%
LOSSES = [(1.0, 0.0), (9.0, 1.0)]  # per rank: curvature, and the w that its data want
slow = Machine.load("textbook,alpha_s=1e-2,flop_per_s=1e3")  # a step takes 2 ms, a message 10 ms


def local_run(period, num_steps=1000):
    """Where the two ranks end, and the run."""
    rows = [([np.array([a])], [[np.array([c])]]) for a, c in LOSSES]
    rows = [([np.zeros(1)], *row, num_steps, period, 0.05) for row in rows]
    run = ringside.run("checks/inside.py:local_sgd_trained", 2, rows, machine=slow)
    return run.raise_for_error().values[0][0].item(), run


end, drift_run = local_run(200)
reveal("a06/drift", end)
print(f"the ranks end at w = {end:.4f}")

# %% [markdown]
# **Explain.** Within 200 steps each rank arrives at the w that its own data want. What does the
# average know of the curvatures then? Derive the formula that is drawn below. A rank's H steps
# bring w to `c + q (w - c)` with `q = (1 - lr * a)^H`, and in the end the average must not move.

# %%
periods = [1, 2, 5, 10, 20, 50, 100, 200]
ends, ms_a_step = [], []
for period in periods:
    end, run = local_run(period)
    ends.append(end)
    ms_a_step.append(run.makespan_s * 1e3 / 1000)
many = np.arange(1, 201)
left_over = np.array([1 - (1 - 0.05 * a) ** many for a, _ in LOSSES])  # 1 - q, per rank
formula = (left_over * [[c] for _, c in LOSSES]).sum(axis=0) / left_over.sum(axis=0)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5))
left.plot(periods, ms_a_step, "o-", color="tab:orange")
left.set(xscale="log", xlabel="period, steps", ylabel="time, ms a step", ylim=(0, None))
right.plot(many, formula, color="grey", label="formula")
right.plot(periods, ends, "o", color="tab:blue", label="your runs")
right.axhline(0.9, color="tab:green", linestyle=":", label="best w for both")
right.set(xscale="log", xlabel="period, steps", ylabel="w at the end", ylim=(0.4, 1))
right.legend()
fig.suptitle("What a longer period saves, and what it costs")
plt.show()
assert np.allclose(ends, [formula[period - 1] for period in periods], atol=1e-6)
assert ms_a_step == sorted(ms_a_step, reverse=True)

# %% [markdown]
# **Explain.** From which period on is there little left to save? Why does local SGD end at the
# right place, with any period, if both ranks have the same curvature? Between the two extremes,
# what does a smaller learning rate do to the error at a given period?


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
# The module is `diloco_torch.py`. In `given/local_problem_torch.py` are a small network, and the
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
from checks.cases_torch import Diloco, reduced_after_steps

STEPS, P = 220, 8
drawn = Diloco(P, widths=(8, 16, 4), seed=1)
params, batches = drawn.params, [drawn.batches(rank) for rank in range(P)]
model_bytes = sum(each.nbytes for each in params)


def trained(period, num_fragments, outer=(0.7, 0.5), num_steps=STEPS):
    """DiLoCo on simulated ranks, with plain SGD inside."""
    numbers = (*outer, num_steps, period, num_fragments)
    given = [(params, own, "sgd", False, 1e-3, numbers) for own in batches]
    return ringside.run("checks/inside_torch.py:diloco_trained", P, given).raise_for_error()


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
# The module is `compress_torch.py`. `given/low_rank_torch.py` makes the matrix Q of the first call.
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
counted = ringside.run("checks/inside_torch.py:compressed", 2, given).raise_for_error()
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
sent = ringside.run("checks/inside_torch.py:compressed", 2, given).raise_for_error()
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

# %% [markdown]
# ## 5. Gossip (extra)
#
# An all-reduce makes everybody wait for everybody. Gossip asks for less. In one round a rank
# exchanges values with its neighbours only, and moves towards them. The ranks don't know the mean
# after a round, but each round brings them nearer to it.
#
# How much nearer is one number of the graph. Collect all weights in a matrix W; its second largest
# absolute eigenvalue λ is the factor by which the distance from the mean shrinks in a round. The
# *spectral gap* is 1 - λ.

# %% tags=["predict"]
guess(
    "a06/ring-of-32",
    "On a ring of 8 ranks, with weights of 1/3, it takes 32 rounds until the distance from the "
    "mean is a thousandth of what it was. How many does it take on a ring of 32?",
    unit="rounds",
)

# %% [markdown]
# The module is `gossip.py`. Graphs and weights are in `given/graphs.py`. The weights there are
# those of Metropolis: 1 / (1 + the larger of the two ranks' numbers of neighbours). The two ends
# of an edge can find that out without asking anybody else.
#
# **Think** before you write. All ranks send in the same round. What happens if each of them sends
# first, and no send returns before it is received? And a neighbour who is done early is already
# in the next round: which of its values do you get?

# %%
# {{module gossip}}

# %%
# {{check gossip}}

# %%
from given.graphs import metropolis, mixing_matrix, random_graph, ring, second_eigenvalue, wheel


def eigenvalue(graph):
    """λ of a graph with Metropolis weights."""
    return second_eigenvalue(mixing_matrix(graph, metropolis(graph)))


def rounds_to(shrunk, graph):
    """How many rounds it takes until the distance from the mean has shrunk so far."""
    return int(np.ceil(np.log(shrunk) / np.log(eigenvalue(graph))))


reveal("a06/ring-of-32", rounds_to(1e-3, ring(32)))
print("rounds to a thousandth:", {p: rounds_to(1e-3, ring(p)) for p in (4, 8, 16, 32, 64)})

# %% [markdown]
# **Run.** Your module on a ring of 8. One rank begins with 8 and the others with 0, so the mean
# is 1. Dots are runs, and the line falls by λ in each round.

# %%
GRAPH = ring(8)
WEIGHTS = metropolis(GRAPH)


def distance_after(num_rounds):
    """The largest distance of a rank from the mean."""
    x = [np.array([8.0 if rank == 0 else 0.0]) for rank in range(8)]
    rows = [(*row, num_rounds) for row in zip(x, GRAPH, WEIGHTS, strict=True)]
    run = ringside.run("gossip.py:average", 8, rows).raise_for_error()
    return max(abs(value.item() - 1) for value in run.values)


tried = list(range(0, 33, 4))
distances = [distance_after(num_rounds) for num_rounds in tried]
fig, axes = plt.subplots(figsize=(6.5, 3.5))
line = distances[-1] * eigenvalue(GRAPH) ** (np.array(tried) - tried[-1])
axes.plot(tried, line, color="grey", label="falls by λ in each round")
axes.plot(tried, distances, "o", color="tab:blue", label="your runs")
axes.set(yscale="log", xlabel="rounds", ylabel="largest distance from the mean")
axes.legend()
plt.show()
assert np.allclose(distances[3:], line[3:], rtol=0.05)

# %% [markdown]
# **Explain.** Why does the first dot lie above the line? Which pattern of values on the ring is
# left after many rounds?
#
# Three graphs: the ring; the wheel, which is a ring with a hub in addition; and a random graph in
# which each rank has about seven neighbours.

# %% tags=["predict"]
guess(
    "a06/graphs",
    "On which of the three graphs, with 128 ranks each, are the fewest rounds needed?",
    choices=["the ring", "the wheel", "the random graph"],
)

# %%
sizes = [8, 16, 32, 64, 128]
rng = np.random.default_rng(2)
makers = {
    "the ring": ring,
    "the wheel": wheel,
    "the random graph": lambda p: random_graph(p, rng, 5 / p),
}
graphs = {name: [make(p) for p in sizes] for name, make in makers.items()}
fig, axes = plt.subplots(figsize=(6.5, 3.5))
for (name, drawn), marker in zip(graphs.items(), "osv", strict=True):
    axes.plot(sizes, [1 - eigenvalue(graph) for graph in drawn], marker=marker, label=name)
axes.set(xscale="log", yscale="log", xlabel="ranks", ylabel="spectral gap, 1 - λ")
axes.legend()
plt.show()
fewest = {name: rounds_to(1e-3, drawn[-1]) for name, drawn in graphs.items()}
busiest = {name: max(map(len, drawn[-1])) for name, drawn in graphs.items()}
for name, count in fewest.items():
    print(f"{name:<17} {count:>6} rounds; its busiest rank sends {count * busiest[name]} values")
reveal("a06/graphs", min(fewest, key=fewest.get))
assert fewest["the random graph"] < fewest["the wheel"] < fewest["the ring"]

# %% [markdown]
# **Explain.** Read off the figure how the gap depends on the number of ranks p, for the ring and
# for the wheel. A ring all-reduce sends 2 (p - 1)/p values a rank and gives the exact mean. So
# what is gossip good for? Think of latency, of one slow rank, and of a training in which each
# step is followed by a single round.

# %% [markdown]
# ## 6. On a cluster
#
# The same `server.py`, unchanged, on real nodes. In `measured_training` a gradient is a product
# of n x n matrices, and rank 1 makes four of them in each step. In a terminal, in this folder,
# once for each way to wait:
#
# ```
# TRAIN="ringside launch server.py:measured_training --site zaratan --nodes 2"
# $TRAIN -- --n 256 --n 512 --staleness 0
# $TRAIN -- --n 256 --n 512 --staleness 2
# $TRAIN -- --n 256 --n 512 --staleness None
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook: the last run's, so note the times of the
# first two. The run counts if it is complete and was made with the `server.py` that you hand in.

# %%
# {{run server_cluster points=5}}

# %% [markdown]
# **Your paragraph.** All workers make the same number of steps here, and one takes four times as
# long for each. Predict the times of the three runs from the time of one product of matrices, and
# compare them with what you measured. Does asynchronous training end earlier in this setting?
# When do the fast workers end, and what could they do with the rest of the time? (About 150
# words.)

# %%
# {{paragraph asynchrony_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
