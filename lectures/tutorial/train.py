"""Train a small GPT on all ranks: data parallel by DDP, or sharded by FSDP2.

    ringside launch train.py --site zaratan --gpus-per-node 4 -- --strategy fsdp

Every rank has its own sequences of each batch and the same weights. DDP keeps all of the model on
every rank and averages the gradients; FSDP2 keeps a p-th of weights, gradients and optimizer state,
and gathers the weights of a block when the block is computed.

A run that is asked to stop (USR1, before the time limit) leaves a checkpoint; the next one goes on
there, with whatever strategy and on however many ranks.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from gpt import GPT, SIZES, batch, loss_of, read
from record import finish, join, leave, mean, num_buckets, state_bytes, wait
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import ringside
from ringside import checkpoint

TEXT = Path(__file__).parent / "data" / "lectures.txt"
WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)  # gathered, if sharded


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small GPT.")
    parser.add_argument("--strategy", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--size", choices=SIZES, help="of the model: tiny on CPUs, small on GPUs")
    parser.add_argument("--steps", type=int, help="how many; by default as many as suit the size")
    parser.add_argument("--lr", type=float, help="learning rate; by default what suits the size")
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--pause", type=int, help="stop after this step, as if the time were up")
    parser.add_argument("--unfinished", type=Path, default=Path("unfinished.pt"))
    parser.add_argument("--out", type=Path, default=Path("gpt.pt"), help="the trained weights")
    return parser.parse_args()


def on_all_ranks(model: GPT, strategy: str) -> nn.Module:
    """The same model; its gradients are averages over all ranks."""
    if strategy == "ddp":
        return DistributedDataParallel(model)
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)  # what lies outside of the blocks


def communication(strategy: str, nbytes: int, num_layers: int) -> dict[str, Any]:
    """A step's vectors on the ring, for `plots.py`; nbytes: of all gradients."""
    if strategy == "ddp":  # an all-reduce, two passes, of each bucket of gradients
        return {"passes": 2 * num_buckets(nbytes), "bytes": 2 * nbytes, "can_hide": True}
    # Weights are gathered in forward and again in backward, gradients reduced and scattered.
    # (What lies outside of the blocks is gathered once only, which is left out here.)
    return {"passes": 3 * (num_layers + 1), "bytes": 3 * nbytes, "can_hide": True}


def main() -> None:
    asked, device = parse(), join()
    checkpoint.listen()  # for USR1, which the job's script passes on when the time is nearly up
    rank, world_size = dist.get_rank(), dist.get_world_size()
    name = asked.size or ("small" if device.type == "cuda" else "tiny")
    size, text = SIZES[name], read(asked.text)
    if size.batch % world_size:
        raise ValueError(f"{size.batch} sequences can't be shared evenly by {world_size} ranks.")
    model = on_all_ranks(GPT(size).to(device), asked.strategy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=asked.lr or size.lr, betas=(0.9, 0.95))
    parameters = sum(p.numel() for p in model.parameters())

    first, losses, seconds, held = 0, [], [], 0
    if found := checkpoint.load(asked.unfinished):
        first, losses = found["step"], found["losses"]
        states = {"model_state_dict": found["model"], "optim_state_dict": found["optimizer"]}
        set_state_dict(model, optimizer, **states, options=WHOLE)

    for step in range(first, asked.steps or size.steps):
        inputs, targets = (part.to(device) for part in batch(text, size, step, rank, world_size))
        with ringside.recorded():  # the last step's timeline is what stays
            start = time.perf_counter()
            loss = loss_of(model, inputs, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # of all ranks' shards together
            held = state_bytes(model, optimizer)  # now that there are gradients
            optimizer.step()
            wait(device)
            seconds.append(time.perf_counter() - start)
        optimizer.zero_grad()
        losses.append(mean(loss))
        if rank == 0 and (step % 10 == 0):
            print(f"step {step:4d}  loss {losses[-1]:.4f}", flush=True)
        if step + 1 == asked.pause or (step % 10 == 9 and checkpoint.asked()):
            weights, moments = get_state_dict(model, optimizer, options=WHOLE)
            state = {"step": step + 1, "losses": losses, "model": weights, "optimizer": moments}
            checkpoint.save(asked.unfinished, state)
            return finish(device)

    weights, _ = get_state_dict(model, optimizer, options=WHOLE)
    checkpoint.save(asked.out, {"size": name, "model": weights})
    if rank == 0:
        asked.unfinished.unlink(missing_ok=True)
    facts = {"losses": losses, "began_at": first, "state_bytes": held}
    facts |= communication(asked.strategy, 4 * parameters, size.num_layers)
    leave(f"train-{asked.strategy}", seconds, device, **facts)
    finish(device)


if __name__ == "__main__":
    main()
