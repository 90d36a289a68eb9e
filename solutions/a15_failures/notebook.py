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
# # Failures: go on when somebody is gone
#
# A run on 16,384 GPUs was stopped 419 times in 54 days. The usual answer is a checkpoint: all
# ranks end, and a new job begins where the last copy was written. In this assignment the ranks
# that are left go on instead, and the parameters that come out are those that nobody's death
# would have changed.
#
# On real machines you can't choose when a rank dies, and the moments in which a wrong program
# fails are microseconds wide. Here the network chooses the moment, and chooses it again when you
# try again.

# %%
# {{plan}}

# %% [markdown]
# All that the hidden suite asks stands in the module's docstring. The tests lie in `checks/`,
# where you can read them; the hidden suite asks the same of other cases. In `given/` is
# `model.py`, a linear model whose gradient is a sum over samples. What each call does when a rank
# is dead, hangs or is slow stands in `docs/student.md`, "Ranks that die".
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
import numpy as np

import ringside
from ringside import Failures, Flip, Hang, Kill, Slow, guess, reveal

# %load_ext ringside

BATCH, STEPS, LR = 12, 10, 0.1
samples = np.random.default_rng(0).standard_normal((STEPS * BATCH, 6))
arguments = (np.zeros(5), samples, BATCH, STEPS, LR)

# %% [markdown]
# ## 1. Who learns of a death?
#
# The program below adds up one number of each rank by the library's all-reduce. Rank 2 dies in
# its second operation: it has given its number, and waits for the sum.

# %%
# %%module summed.py
"""The sum of one number of each rank, or what this rank was told."""

import numpy as np
from mpi4py import MPI


def summed(comm):
    total = np.zeros(1)
    try:
        comm.Allreduce(np.ones(1), total)
    except MPI.Exception as error:
        return "dead" if error.Get_error_class() == MPI.ERR_PROC_FAILED else "other"
    return float(total[0])


# %% tags=["predict"]
guess(
    "a15/who",
    "Rank 2 of four dies when it has given its number to the all-reduce. What do the other three "
    "get?",
    choices=["all the sum", "all an error", "some the sum, some an error"],
)

# %%
result = ringside.run("summed.py:summed", 4, failures=Failures(Kill(2, op=2)))
print(result.values)

# %%
reveal("a15/who", "some the sum, some an error")

# %% [markdown]
# **Explain.** A rank that has the sum could take the step, and a rank that has the error can't.
# What becomes of the parameters, if each rank does what it can? And what does a rank that has the
# sum know about the others?

# %% [markdown]
# ## 2. A checkpoint that is whole
#
# Sometimes nobody can go on: the job ends, and another one begins later, perhaps on fewer ranks.
# What it needs must lie where no rank's death can take it. A `ringside.Store` is such a place;
# `docs/student.md`, "Checkpoints that outlive the ranks", says what it does.
#
# In the program below each rank writes its piece of step 4, and later writes the piece of step 8
# over it. Rank 2 is killed in its second `put`.

# %%
# %%module overwrite.py
"""Each rank writes its piece of two steps, one over the other."""

import numpy as np

import ringside


def overwrite(comm):
    store = ringside.Store("pieces")
    for step in (4, 8):
        store.put(f"piece {comm.Get_rank()}", np.full(3, step))
        comm.Barrier()


# %% tags=["predict"]
guess(
    "a15/mixed",
    "Rank 2 of four is killed in its second put. How many of the four pieces in the store are of "
    "step 8 then?",
    unit="pieces",
)

# %%
killed = ringside.run("overwrite.py:overwrite", 4, failures=Failures(Kill(2, op=4)), check=False)
print(killed.deaths[0].told)
store = ringside.Store("pieces")
steps = [int(store.get(name)[0]) for name in store.names()]
print(steps)

# %%
reveal("a15/mixed", steps.count(8))

# %% [markdown]
# **Explain.** Each `put` was whole. Is the checkpoint? What would a program train from that loads
# these four pieces, and would anybody see it?
#
# **Think** before you write: which single `put` could make a new checkpoint count, and what must
# be true of all other ranks before it? What may be removed after it, and what not before?

# %%
# {{module checkpoint}}

# %%
# {{check checkpoint}}

# %% [markdown]
# **Run.** A vector of which each element grows by one in a step, saved now and then. Rank 2 of
# four is killed on the way, and three ranks go on.

# %%
# %%module training.py
"""Train, and save a checkpoint now and then."""

import numpy as np
from checkpoint import load, save

import ringside

LENGTH = 11


def train(comm, folder, num_steps):
    store = ringside.Store(folder)
    s = -(-LENGTH // comm.Get_size())
    mine = np.zeros(LENGTH)[comm.Get_rank() * s : (comm.Get_rank() + 1) * s]
    first, shard = load(comm, store, LENGTH) or (0, mine)
    for step in range(first + 1, num_steps + 1):
        shard = shard + 1
        if step % 4 == 0:
            save(comm, store, step, shard, LENGTH)
    return first, shard


# %%
import shutil

shutil.rmtree("run1", ignore_errors=True)
four = Failures(Kill(2, at_s=2.5e-3))
killed = ringside.run("training.py:train", 4, ("run1", 12), failures=four, check=False)
print(killed.deaths[0].told)
print(ringside.Store("run1").names())

# %% tags=["predict"]
guess(
    "a15/twice",
    "Rank 2 was killed while it put its piece of step 8. Three ranks go on now, to step 12. How "
    "many of the steps that they compute had been computed before?",
    unit="steps",
)

# %%
three = ringside.run("training.py:train", 3, ("run1", 12))
first = three.values[0][0]
print(f"three ranks went on after step {first}; at the end:", three.values)
print(ringside.Store("run1").names())

# %%
reveal("a15/twice", 8 - first)

# %% [markdown]
# **Explain.** What lay in the store after the death, and what of it counted? What is left at the
# end? What would change if you saved at every step, and what would it cost?

# %% [markdown]
# ## 3. A copy in another node's memory
#
# A dead rank takes along what it alone has: its shard of the parameters, and the optimizer's state.
# A checkpoint has it, but all ranks would go back to the last one. A copy in the memory of another
# node can be as new as the last step.
#
# **Think** before you write: when somebody dies, who holds copies of which steps? How many steps
# must each rank keep, so that there is one that all can go back to? And what happens to a message
# that is on its way while the next step changes the parameters?

# %%
# {{module neighbour}}

# %%
# {{check neighbour}}

# %% [markdown]
# The program below trains with copies on two nodes of two ranks. Rank 2 dies in step 3, while the
# copy of its state is on its way to rank 0, and it never arrives.

# %%
# %%module kept.py
"""Steps with copies, and what is left of them when somebody dies."""

import numpy as np
from given.training import next_state
from mpi4py import MPI
from neighbour import finish, start


def kept(comm, num_steps, n):
    state, memory = np.full(n, float(comm.rank)), None
    try:
        for step in range(num_steps):
            handle = start(comm, state, step, memory, per_node=2)
            state = next_state(state, step, num_flops=20_000_000)
            memory = finish(handle)
            comm.allreduce(1)
    except MPI.Exception:
        comm.Revoke()
    return sorted(memory)


# %% tags=["predict"]
guess(
    "a15/kept",
    "Which steps does rank 0 have in its memory when all know of the death? And rank 1?",
    choices=["both 1 and 2", "rank 0: 1 and 2, rank 1: 2 and 3", "both 2 and 3"],
)

# %%
dies = Failures(Kill(2, at_s=80e-6), in_flight="lost")
left = ringside.run("kept.py:kept", 4, (6, 1000), failures=dies)
print(left.values)

# %%
reveal("a15/kept", "rank 0: 1 and 2, rank 1: 2 and 3")

# %% [markdown]
# **Explain.** Why can rank 1 be a step ahead of rank 0, and why never two? To which step do all go
# back? What would be lost if each rank kept its newest step only?

# %% [markdown]
# A step of this program takes 20 µs, and the all-reduce behind it 6 µs more. On this machine a
# message of B bytes takes 1 µs and B ns.

# %% tags=["predict"]
guess(
    "a15/hides",
    "Up to how many elements of 8 bytes may a state have, so that its copy costs no time at all?",
    unit="elements",
)

# %%
for n in (1000, 2000, 3000, 4000):
    result = ringside.run("kept.py:kept", 4, (1, n))
    print(f"{n} elements: {result.makespan_s * 1e6:.1f} µs")

# %%
reveal("a15/hides", (20 - 1) * 1000 / 8)

# %% [markdown]
# **Explain.** A GPU's share of a state is some 100 MB, a step takes a second, and in that second a
# port moves 50 GB. Does the copy hide? What else may use the port meanwhile?

# %% [markdown]
# ## 4. Train on with those who are left
#
# **Think** before you write: what must be true of all ranks that are left before one of them may
# change its parameters? Which call tells you? And which samples does the step need that a dead
# rank had?

# %%
# {{module elastic}}

# %%
# {{check elastic}}

# %% [markdown]
# **Run.** The same training run, with nobody's death and with two. The largest difference of the
# parameters, and the virtual time.

# %%
whole = ringside.run("elastic.py:train", 4, arguments)
two = Failures(Kill(1, op=20), Kill(3, at_s=1.06e-3))
left = ringside.run("elastic.py:train", 4, arguments, failures=two)
print(f"difference {np.abs(left.values[0] - whole.values[0]).max():.1e}")
print(f"{whole.makespan_s * 1e6:.0f} µs, and with two deaths {left.makespan_s * 1e6:.0f} µs")

# %% [markdown]
# **Explain.** Nearly all of the time goes into one thing. Which, and which number of the machine
# says how long it takes? What does a step cost more from then on, with two ranks in the place of
# four? When would you rather wait for a new machine than go on with fewer ranks?

# %% [markdown]
# ## 5. Who hangs, who is slow?
#
# A dead rank is found by its silence. A rank that hangs is alive, and so are all that wait for it.
# The program below trains on a grid of 2 x 4: the ranks of a row add up activations, those of a
# column their gradients.

# %%
# %%module grid.py
"""A grid of 2 x 4 ranks: rows add up activations, columns gradients."""

import numpy as np

import ringside


def train(comm, num_steps):
    rows = comm.Split(comm.rank // 4, comm.rank)
    columns = comm.Split(comm.rank % 4, comm.rank)
    x, total = np.ones(256, np.float32), np.empty(256, np.float32)
    for _ in range(num_steps):
        ringside.compute(seconds=1e-3, phase="forward")
        rows.Allreduce(x, total)
        ringside.compute(seconds=2e-3, phase="backward")
        columns.Allreduce(total, x)


# %% tags=["predict"]
guess(
    "a15/waiting",
    "Rank 5 of eight hangs in its forward pass. How many of the other seven wait in a collective "
    "to which rank 5 belongs?",
    unit="ranks",
)

# %%
hung = ringside.run("grid.py:train", 8, (5,), failures=Failures(Hang(5, at_s=9.5e-3)), check=False)
recorder = hung.recorder(last=4)
for rank, records in recorder.dumps.items():
    last = records[-1]
    ranks = recorder.groups[last["group"]]
    print(f"rank {rank}: {last['op']} {last['seq']} of ranks {ranks}, {last['state']}")
lasts = [records[-1] for records in recorder.dumps.values() if records[-1]["state"] == "started"]
waiting = sum(5 in recorder.groups[last["group"]] for last in lasts)

# %%
reveal("a15/waiting", waiting)

# %% [markdown]
# **Think** before you write: three of these seven wait in a collective without rank 5. For whom?
# What tells you that rank 5 is the one to look at, and not one of those it keeps waiting?

# %%
# {{module recorder}}

# %%
# {{check recorder}}

# %% [markdown]
# **Run.** The same training run with a rank that computes 1.34 times as long. First the time of the
# seven others.

# %% tags=["predict"]
guess(
    "a15/idle",
    "Rank 5 computes 1.34 times as long as the others. Which share of the run is rank 0 idle?",
    unit="%",
)

# %%
slow = ringside.run("grid.py:train", 8, (40,), failures=Failures(Slow(5, 1.34)))

# %%
reveal("a15/idle", 100 * slow.timeline.idle_s[0] / slow.makespan_s)

# %% [markdown]
# Now the time that each rank spends in a collective, from its call to the end, and your diagnosis.

# %% tags=["predict"]
guess(
    "a15/shortest",
    "Which rank's collectives are the shortest?",
    choices=["those of the slow rank", "those of its row and column", "all are alike"],
)

# %%
import recorder as reader

recorder = slow.recorder()
for rank, records in recorder.dumps.items():
    waits = [record["completed_ps"] - record["created_ps"] for record in records]
    print(f"rank {rank}: {sum(waits) / len(waits) / 1e9:.2f} ms on average")
print(reader.diagnose(recorder.dumps, recorder.groups))
print(reader.diagnose(hung.recorder().dumps, hung.recorder().groups))

# %%
reveal("a15/shortest", "those of the slow rank")

# %% [markdown]
# **Explain.** Why? And if the clocks of two ranks differ by a millisecond: is the rank that hangs
# still found, and the slow one?

# %% [markdown]
# ## 6. A replica comes back
#
# Until now the ranks that were left went on with fewer. With several replicas a new one can come
# in while the others train: it gets its state from a peer that has the same shard. Nobody reads a
# checkpoint, and nobody should have to wait. Lecture 15, section 8 draws the protocol, as torchft
# has it; `given/quorum_torch.py` is the part of it that says who takes part.

# %%
# {{module heal_torch}}

# %%
# {{check heal_torch}}

# %%
# %%module heal_run.py
"""Replicas that train together, some of them new."""

import torch
from given.quorum_torch import Lighthouse
from heal_torch import Replicated

import ringside


def train(group, num_steps, new):
    torch.manual_seed(group.rank() if group.rank() in new else -1)
    w, m, v = torch.rand(3, 4000, dtype=torch.float64)
    state = {"w": w, "m": m, "v": v, "step": -1 if group.rank() in new else 6}

    def gradient_of(w, step):
        ringside.compute(seconds=1e-3, phase="gradient")
        return w.clone()

    trainer, taken = Replicated(state, Lighthouse(group, num_shards=1)), []
    while sum(taken) < num_steps:
        taken.append(trainer.step(gradient_of))
    return taken, state["step"], float(state["w"].sum())


# %% [markdown]
# Three replicas of one rank, on a wire of 10 ns a byte. A gradient takes 1 ms. A state has 96,008
# bytes, so its copy takes 0.96 ms, and the sum of 32,000 bytes over three ranks takes 0.43 ms.

# %% tags=["predict"]
guess(
    "a15/join",
    "Replica 1 is new. How long does the step take in which it joins?",
    unit="ms",
)

# %%
wire = ringside.Machine("wire", alpha_s=1e-6, beta_s_per_byte=1e-8)
joins = ringside.run("heal_run.py:train", 3, (1, (1,)), machine=wire)
print(f"{joins.makespan_s * 1e3:.2f} ms")
for rank, (taken, step, total) in enumerate(joins.values):
    print(f"rank {rank}: {taken}, step {step}, sum of w {total:.12f}")

# %%
reveal("a15/join", joins.makespan_s * 1e3)

# %% [markdown]
# **Run.** Replica 0, which gives its state, dies in the midst of that.

# %%
dies = ringside.run(
    "heal_run.py:train", 3, (2, (1,)), machine=wire, failures=Failures(Kill(0, at_s=0.5e-3))
)
for rank in (1, 2):
    taken, step, total = dies.values[rank]
    print(f"rank {rank}: {taken}, step {step}, sum of w {total:.12f}")

# %% [markdown]
# **Explain.** Who gives replica 1 its state in the second attempt, and by what is the sum divided
# then? What would have come of replica 1 if it had taken over the step's number as soon as that
# arrived? A state of 14 bytes a parameter, 70 billion parameters on 64 GPUs a replica, 50 GB/s:
# how long is the copy, and can it hide behind a step of 10 s?

# %% [markdown]
# ## 7. How often to write a checkpoint (extra)
#
# With copies in memory you still write checkpoints, for the day on which both nodes of a pair die.
# Lecture 15 derives the best interval. Here you also walk along a run whose stops are known, and
# see what the formula leaves out.

# %%
# {{module interval}}

# %%
# {{check interval}}

# %% [markdown]
# A job with 900 s from one stop to the next on average, and 60 s for a checkpoint. Its best
# interval by the formula, and what you get along one run of random stops.

# %% tags=["predict"]
guess(
    "a15/interval",
    "Stops every 900 s, 60 s for a checkpoint, 120 s for a restart. How many seconds of work "
    "between checkpoints lose the least?",
    unit="s",
)

# %%
from interval import best_interval, lost_share, walk

best = best_interval(60, 900)
stops = np.cumsum(np.random.default_rng(1).exponential(900, 2000)).tolist()
end = stops.pop()
for tau in (best / 3, best, 3 * best):
    lost = 1 - walk(tau, 60, 120, stops, end) / end
    print(f"{tau:4.0f} s: formula {lost_share(tau, 60, 120, 900):.3f}, walk {lost:.3f}")

# %%
reveal("a15/interval", best)

# %% [markdown]
# **Explain.** By how much does the lost share grow if you write three times as often, or three
# times as rarely? Which of the two would you rather choose if you don't know how often your machine
# stops?

# %% [markdown]
# ## 8. A bit that nobody sees (extra)
#
# A death is loud. A wrong bit isn't: the run goes on, with other numbers. The network can flip any
# bit of any message, and here you find it. A product has no message to check; but its rows and
# columns have sums that you know beforehand.

# %%
# {{module checked}}

# %%
# {{check checked}}

# %% [markdown]
# How much does one flipped bit change? The next cell flips each of the 64 bits of 1000 numbers.

# %% tags=["predict"]
guess(
    "a15/bits",
    "One bit of a 64-bit float is flipped, any of the 64. In how many of 100 cases does the number "
    "change by more than 1 %?",
    unit="%",
)

# %%
numbers = np.random.default_rng(2).standard_normal(1000)
words = numbers.view(np.uint64)[:, None] ^ (np.uint64(1) << np.arange(64, dtype=np.uint64))
with np.errstate(all="ignore"):
    changes = np.abs(words.view(np.float64) / numbers[:, None] - 1)
grave = 100 * np.mean(~(changes <= 0.01))
for bit in (0, 20, 40, 51, 52, 62, 63):
    print(f"bit {bit:2}: changed by {np.nanmedian(changes[:, bit]):.0e} of itself, typically")

# %%
reveal("a15/bits", grave)

# %% [markdown]
# Your all-reduce on four ranks. A low bit of rank 2's fifth message is flipped, then a high one.

# %%
vectors = [(row,) for row in np.random.default_rng(3).standard_normal((4, 1000))]
plain = ringside.run("checked.py:all_reduce", 4, vectors)
print(f"nothing flipped: rank {plain.values[0][1]}, {max(plain.sent_bytes()):,} bytes")
for bit in (64, 126):
    hit = ringside.run("checked.py:all_reduce", 4, vectors, failures=Failures(Flip(2, 5, bit)))
    (total, sender), off = hit.values[0], np.abs(hit.values[0][0] - plain.values[0][0]).max()
    print(f"bit {bit}: rank {sender}, off by {off:.0e}, {max(hit.sent_bytes()):,} bytes")

# %% [markdown]
# **Explain.** Why may the sums that a message carries be compared for equality, and those of a
# product not? Which flips does your `product` miss, and why is that no harm? What does it cost to
# check a product of two matrices of 4096 x 4096?
