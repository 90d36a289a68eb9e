"""FSDP2 and DDP on one rank: gathered layers, buckets, and what they add to a step.

One rank sends nothing, but its library does all else: it gathers a layer's weights into memory of
their own before it runs, and it fills buckets of gradients and calls the reduction.

    FSDP2   shards are fp32 and stay; a layer's weights are gathered in bf16 and freed again
    DDP     gradients go in buckets: the first 1 MiB, then 25 MiB, filled from the last layer on
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from gpu.bench import Bench, Items, Record
from gpu.block import Block

FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20


def items(bench: Bench) -> Items:
    """DDP, FSDP2, and the plain module beside them."""
    yield "plain", partial(plain, bench, torch.bfloat16)
    yield "ddp", partial(ddp, bench, as_view=False)
    yield "ddp, gradients as views", partial(ddp, bench, as_view=True)
    for name, options in (
        ("fsdp2", {}),
        ("fsdp2, kept after forward", {"reshard": False}),
        ("fsdp2, two ahead", {"ahead": 2}),
    ):
        yield name, partial(fsdp, bench, **options)
    yield "collectives", partial(collectives, bench)


@contextmanager
def one_rank(bench: Bench) -> Iterator[None]:
    """A world of this process alone."""
    backend = "nccl" if bench.is_gpu else "gloo"
    options: dict[str, Any] = {"device_id": torch.device("cuda", 0)} if bench.is_gpu else {}
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, **options)
    try:
        yield
    finally:
        dist.destroy_process_group()


def make(bench: Bench, dtype: torch.dtype) -> tuple[nn.Sequential, torch.Tensor]:
    """Eight layers and an input so short that weights are what fills memory."""
    hidden, num_heads, number = bench.size((2048, 16, 8), (64, 4, 3))
    blocks = (Block(hidden, num_heads) for _ in range(number))
    model = nn.Sequential(*blocks).to(bench.device, dtype)
    return model, bench.normal(1, bench.size(2048, 16), hidden)


def trained(bench: Bench, model: nn.Module, x: torch.Tensor) -> Record:
    """Time of forward and backward."""

    def run() -> None:
        model(x).sum().backward()

    record = bench.time(run, spend_s=1.0)
    return {"step_s": record["time_s"], "fastest_s": record["fastest_s"]}


def plain(bench: Bench, dtype: torch.dtype) -> Record:
    """The module alone."""
    model, x = make(bench, dtype)
    return {"parameters": sum(p.numel() for p in model.parameters()), **trained(bench, model, x)}


def bucket_sizes(parameters: Sequence[torch.Tensor]) -> list[int]:
    """Bytes of DDP's buckets as its rule has them: closed as soon as a cap is reached."""
    sizes, filled = [], 0
    for parameter in reversed(parameters):
        filled += parameter.nbytes
        if filled >= (BUCKET if sizes else FIRST_BUCKET):
            sizes.append(filled)
            filled = 0
    return [*sizes, filled] if filled else sizes


def ddp(bench: Bench, as_view: bool) -> Record:
    """Buckets as a hook sees them, memory, and time."""
    with one_rank(bench):
        model, x = make(bench, torch.bfloat16)
        parameters = list(model.parameters())
        weights = sum(p.nbytes for p in parameters)
        before = bench.allocated_bytes() if bench.is_gpu else 0
        wrapped = DistributedDataParallel(model, gradient_as_bucket_view=as_view)
        record: Record = {"weights_bytes": weights, "rule_buckets_bytes": bucket_sizes(parameters)}
        wrapped(x).sum().backward()  # the second backward has the buckets in their final order
        record |= trained(bench, wrapped, x)
        if bench.is_gpu:
            record["added_bytes"] = bench.allocated_bytes() - before  # gradients and buckets
        sizes: dict[int, int] = {}

        def seen(state, bucket):  # type: ignore[no-untyped-def]  # DDP refuses them as text
            sizes[bucket.index()] = bucket.buffer().nbytes
            # A future holds tensors of a GPU only where it was told so.
            done = torch.futures.Future(devices=[x.device] if bench.is_gpu else None)
            done.set_result(bucket.buffer())
            return done

        wrapped.register_comm_hook(None, seen)
        for _ in range(2):
            wrapped(x).sum().backward()
        bench.synchronize()
        record["buckets_bytes"] = [sizes[number] for number in sorted(sizes)]
        return record


def fsdp(bench: Bench, reshard: bool = True, ahead: int = 0) -> Record:
    """Shards, peak of forward without activations, and time."""
    with one_rank(bench):
        model, x = make(bench, torch.float32)
        units = [sum(p.numel() for p in block.parameters()) * 2 for block in model]
        mesh = init_device_mesh(bench.device.type, (1,))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model:
            fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
        blocks: list[Any] = list(model)
        if ahead:
            for number, block in enumerate(blocks):
                block.set_modules_to_forward_prefetch(blocks[number + 1 : number + 1 + ahead])
        shards = sum(p.to_local().nbytes for p in model.parameters())  # type: ignore[attr-defined]
        record: Record = {"shards_bytes": shards, "units_bytes": units}
        record |= trained(bench, model, x)
        if bench.is_gpu:
            model.zero_grad(set_to_none=True)
            short = x[:, :16]
            with torch.no_grad():
                model(short)
                for block in blocks:
                    block.reshard()
                bench.forget_peak()
                before = bench.allocated_bytes()
                model(short)
                record["gathered_peak_bytes"] = bench.peak_bytes() - before
                record["left_bytes"] = bench.allocated_bytes() - before
                for block in blocks:
                    block.reshard()
            bench.forget_peak()
            before = bench.allocated_bytes()
            model(short).sum().backward()
            record["both_peak_bytes"] = bench.peak_bytes() - before
        return record


def collectives(bench: Bench) -> Record:
    """An all-reduce with oneself: what a call costs before any byte is sent."""
    with one_rank(bench):
        record: Record = {}
        for nbytes in bench.size((8, 1 << 20, 25 << 20, 256 << 20), (8,)):
            x = bench.normal(nbytes // 4, dtype=torch.float32)
            record[f"all_reduce_{nbytes}_bytes_s"] = bench.time(
                partial(dist.all_reduce, x), spend_s=0.2
            )["time_s"]
        return record
