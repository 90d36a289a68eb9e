"""Write text with the trained GPT, every layer cut over all ranks: tensor parallel by torch's own.

    ringside launch generate.py --site zaratan --gpus-per-node 4 -- --prompt "The ring "

    query, key, value, up    cut by columns: a rank computes some heads, some hidden units
    out, down                cut by rows: partial sums, made whole by an all-reduce

Two all-reduces a block, each of B x width numbers, and no weights on the way. With the keys and
values of earlier tokens kept, a new token costs one pass of one token. All ranks draw the same
next byte, since they have the same logits and the same seed.

    ringside launch generate.py ... -- --own ~/a13_inference      # your own decode_torch.py
    ringside launch generate.py ... -- --temperature 0            # the same bytes by torch's layers

With `--own` your module of assignment 13 writes. It takes the likeliest byte each time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import own
import torch
import torch.distributed as dist
from gpt import GPT, SIZES
from record import finish, join, leave, state_bytes, wait
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import ringside
from ringside import checkpoint


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Write text with the GPT of train.py.")
    parser.add_argument("--weights", type=Path, default=Path("gpt.pt"))
    parser.add_argument("--prompt", default="The ring ")
    parser.add_argument("--tokens", type=int, help="bytes to write; as many as the context holds")
    parser.add_argument("--samples", type=int, default=4, help="texts at a time")
    parser.add_argument("--temperature", type=float, default=0.7, help="0: the likeliest byte")
    parser.add_argument("--own", type=Path, help="folder of your decode_torch.py, which writes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("generated.txt"))
    return parser.parse_args()


def cut(model: GPT, device: torch.device) -> None:
    """Leave on every rank its columns and rows of each block."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    columns, rows = ColwiseParallel(), RowwiseParallel()
    plan = {f"attention.{name}": columns for name in ("query", "key", "value")}
    plan |= {"attention.out": rows, "up": columns, "down": rows}
    for block in model.blocks:
        parallelize_module(block, mesh, plan)


def draw(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """One next byte for each text, (B, 1), from logits (B, 256)."""
    if temperature == 0:
        return logits.argmax(dim=-1, keepdim=True).cpu()
    chances = torch.softmax(logits.float().cpu() / temperature, dim=-1)
    return torch.multinomial(chances, 1, generator=generator)


@torch.no_grad()
def main() -> None:
    asked, device = parse(), join()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    found = checkpoint.load(asked.weights)
    if found is None:
        raise FileNotFoundError(f"{asked.weights} is not here: train.py writes it.")
    size = SIZES[found["size"]]
    if size.num_heads % world_size:
        raise ValueError(f"{size.num_heads} heads can't be shared evenly by {world_size} ranks.")
    model = GPT(size)
    model.load_state_dict(found["model"])
    if asked.own is None:
        cut(model.to(device), device)
        num_bytes = state_bytes(model)
    else:
        next_byte, num_bytes = own.writer(asked.own, model, size, asked.samples, device)

    prompt = list(asked.prompt.encode())
    tokens = torch.tensor([prompt] * asked.samples)  # (B, T), on the CPU
    past: list[list[Tensor]] = [[] for _ in model.blocks]
    generator = torch.Generator().manual_seed(asked.seed)
    new, seconds = tokens, []
    for _ in range(asked.tokens or size.context - len(prompt)):
        with ringside.recorded():  # the last byte's timeline is what stays
            start = time.perf_counter()
            if asked.own is None:
                logits = model(new.to(device), past)[:, -1]
                new = draw(logits, asked.temperature, generator)
            else:
                new = next_byte(new.to(device)).cpu()
            wait(device)
            seconds.append(time.perf_counter() - start)
        tokens = torch.cat([tokens, new], dim=1)

    texts = [bytes(row).decode(errors="replace") for row in tokens.tolist()]
    if rank == 0:
        asked.out.write_text("\n---\n".join(texts) + "\n")
        print(texts[0], flush=True)
    passes = 2 * 2 * size.num_layers  # two all-reduces a block; the next layer waits for each
    facts = {"passes": passes, "bytes": passes * 4 * asked.samples * size.width, "can_hide": False}
    facts |= {"texts": texts, "state_bytes": num_bytes}
    leave("generate" if asked.own is None else "generate-own", seconds, device, **facts)
    finish(device)


if __name__ == "__main__":
    main()
