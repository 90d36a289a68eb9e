"""Go on from the weights that train.py left, on another text: all layers, or the last ones alone.

    ringside launch finetune.py --site zaratan --gpus-per-node 4 -- --last 1

Frozen weights have no gradient: DDP sends fewer bytes, the optimizer holds less, and the backward
pass ends at the first block that learns. A tenth of the new text is held out, to see what is learnt
and not merely remembered; the old text shows what is forgotten.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
import torch.distributed as dist
from gpt import GPT, SIZES, Size, batch, loss_of, read
from record import finish, join, leave, mean, num_buckets, state_bytes, wait
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import ringside
from ringside import checkpoint

OLD = Path(__file__).parent / "data" / "lectures.txt"
CODE = Path(ringside.__file__).parent  # what Ringside itself is written in


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fine-tune the GPT of train.py.")
    parser.add_argument("--start", type=Path, default=Path("gpt.pt"), help="weights to begin with")
    parser.add_argument("--scratch", action="store_true", help="begin with fresh weights instead")
    parser.add_argument("--text", type=Path, default=CODE, help="a file, or a folder of Python")
    parser.add_argument("--last", type=int, help="train the last so many blocks; else all layers")
    parser.add_argument("--lr", type=float, help="by default a third of that in training")
    parser.add_argument("--steps", type=int, help="by default half as many as in training")
    parser.add_argument("--out", type=Path, default=Path("finetuned.pt"))
    return parser.parse_args()


def freeze(model: GPT, last: int) -> None:
    """Let only the last blocks, the last norm and the head learn."""
    for module in (model.embedding, model.position, *model.blocks[: len(model.blocks) - last]):
        module.requires_grad_(False)


@torch.no_grad()
def held_out_loss(model: nn.Module, text: Tensor, size: Size, device: torch.device) -> float:
    """Mean over one batch of all ranks, always the same one."""
    inputs, targets = batch(text, size, 10**6, dist.get_rank(), dist.get_world_size())
    return mean(loss_of(model, inputs.to(device), targets.to(device)))


def main() -> None:
    asked, device = parse(), join()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    found = checkpoint.load(asked.start)
    if found is None:
        raise FileNotFoundError(f"{asked.start} is not here: train.py writes it.")
    size, new, old = SIZES[found["size"]], read(asked.text), read(OLD)
    new, held_out = new.split([len(new) - len(new) // 10, len(new) // 10])
    model = GPT(size)
    if not asked.scratch:
        model.load_state_dict(found["model"])
    if asked.last:
        freeze(model, asked.last)
    wrapped = DistributedDataParallel(model.to(device))
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=asked.lr or size.lr / 3, betas=(0.9, 0.95))

    texts = {"new": held_out, "old": old}
    before = {name: held_out_loss(model, text, size, device) for name, text in texts.items()}
    losses, seconds, held = [], [], 0
    for step in range(asked.steps or size.steps // 2):
        inputs, targets = (part.to(device) for part in batch(new, size, step, rank, world_size))
        with ringside.recorded():  # the last step's timeline is what stays
            start = time.perf_counter()
            loss = loss_of(wrapped, inputs, targets)
            loss.backward()
            held = state_bytes(model, optimizer)  # now that there are gradients
            optimizer.step()
            wait(device)
            seconds.append(time.perf_counter() - start)
        optimizer.zero_grad()
        losses.append(mean(loss))
    after = {name: held_out_loss(model, text, size, device) for name, text in texts.items()}

    checkpoint.save(asked.out, {"size": found["size"], "model": model.state_dict()})
    if rank == 0:
        for name in texts:
            print(f"{name} text: loss {before[name]:.3f} before, {after[name]:.3f} after")
    facts = {"losses": losses, "before": before, "after": after, "state_bytes": held}
    nbytes = 4 * sum(weight.numel() for weight in learning)  # of gradients, which alone are sent
    facts |= {"passes": 2 * num_buckets(nbytes), "bytes": 2 * nbytes, "can_hide": True}
    which = "scratch" if asked.scratch else f"last{asked.last}" if asked.last else "all"
    leave(f"finetune-{which}", seconds, device, **facts)
    finish(device)


if __name__ == "__main__":
    main()
