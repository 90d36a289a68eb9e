"""Collectives of torch.distributed, each beside what plain torch makes of all ranks' tensors."""

import torch
import torch.distributed as dist

OPS = {
    "SUM": lambda x: x.sum(0, dtype=x.dtype),
    "AVG": lambda x: x.mean(0),
    "PRODUCT": lambda x: x.prod(0, dtype=x.dtype),
    "MIN": lambda x: x.amin(0),
    "MAX": lambda x: x.amax(0),
    "BAND": lambda x: x[0] if len(x) == 1 else OPS["BAND"](x[:-1]) & x[-1],
    "BOR": lambda x: x[0] if len(x) == 1 else OPS["BOR"](x[:-1]) | x[-1],
    "BXOR": lambda x: x[0] if len(x) == 1 else OPS["BXOR"](x[:-1]) ^ x[-1],
}
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"]


def of_rank(rank, n, dtype):
    """What a rank gives: small whole numbers, so that every dtype holds all sums and products."""
    generator = torch.Generator().manual_seed(rank)
    high = 2 if dtype == "bool" else 3
    return torch.randint(0, high, (n,), generator=generator).to(getattr(torch, dtype))


def everyone(group, n, dtype):
    return torch.stack([of_rank(r, n, dtype) for r in range(group.size())])


def same(got, expected):
    torch.testing.assert_close(got, expected.to(got.dtype))


def reductions(group, n):
    """all_reduce, reduce and reduce_scatter for every dtype and operation that has a meaning."""
    rank, size = group.rank(), group.size()
    for dtype in DTYPES:
        whole = not dtype.startswith(("float", "bfloat"))
        for op, expected in OPS.items():
            if (op == "AVG" and whole) or (op.startswith("B") and not whole):
                continue
            if dtype == "bool" and op not in ("BAND", "BOR", "BXOR"):
                continue
            reduce_op = getattr(dist.ReduceOp, op)
            wanted = expected(everyone(group, n, dtype))
            x = of_rank(rank, n, dtype)
            dist.all_reduce(x, reduce_op, group=group)
            same(x, wanted)
            x = of_rank(rank, n, dtype)
            dist.reduce(x, size - 1, reduce_op, group=group)
            same(x, wanted if rank == size - 1 else of_rank(rank, n, dtype))
            wanted = expected(everyone(group, n * size, dtype))
            given, out = of_rank(rank, n * size, dtype), torch.empty(n, dtype=x.dtype)
            dist.reduce_scatter(out, list(given.split(n) if n else [given] * size), reduce_op,
                                group=group)  # fmt: skip
            same(out, wanted[rank * n : (rank + 1) * n])
            out.zero_()
            group.reduce_scatter_single(out, given, _reduce_scatter_options(reduce_op)).wait()
            same(out, wanted[rank * n : (rank + 1) * n])


def _reduce_scatter_options(op):
    options = dist.ReduceScatterOptions()
    options.reduceOp = op
    return options


def moves(group, n):
    """Collectives that move data and reduce nothing, for every dtype."""
    rank, size = group.rank(), group.size()
    for dtype in DTYPES:
        kind = getattr(torch, dtype)
        all_of = everyone(group, n, dtype)
        mine = of_rank(rank, n, dtype)
        x = mine.clone()
        dist.broadcast(x, size - 1, group=group)
        same(x, all_of[-1])
        out = [torch.empty(n, dtype=kind) for _ in range(size)]
        dist.all_gather(out, mine, group=group)
        same(torch.stack(out), all_of)
        flat = torch.empty(n * size, dtype=kind)
        group.all_gather_single(flat, mine).wait()
        same(flat.view(size, n), all_of)
        flat.zero_()
        group._allgather_base(flat, mine).wait()  # the older name
        same(flat.view(size, n), all_of)
        out = [torch.empty(n, dtype=kind) for _ in range(size)]
        dist.gather(mine, out if rank == 0 else None, 0, group=group)
        if rank == 0:
            same(torch.stack(out), all_of)
        x = torch.empty(n, dtype=kind)
        dist.scatter(x, list(all_of) if rank == 0 else None, 0, group=group)
        same(x, mine)
        given = [mine[: min(n, other)].clone() for other in range(size)]
        out = [torch.empty(min(n, rank), dtype=kind) for _ in range(size)]
        dist.all_to_all(out, given, group=group)
        for source, part in enumerate(out):
            same(part, all_of[source][: min(n, rank)])


def splits(group):
    """all_to_all_single with equal and with given parts, along the first dimension."""
    rank, size = group.rank(), group.size()
    given = torch.arange(size * 2.0).view(size, 2) + 100 * rank
    out = torch.empty_like(given)
    dist.all_to_all_single(out, given, group=group)
    same(out, torch.stack([torch.arange(2.0) + 2 * rank + 100 * s for s in range(size)]))
    sends = [other + 1 for other in range(size)]  # rows to each rank
    given = torch.full((sum(sends), 3), float(rank))
    out = torch.empty((rank + 1) * size, 3)
    dist.all_to_all_single(out, given, [rank + 1] * size, sends, group=group)
    same(out, torch.arange(float(size)).repeat_interleave(rank + 1)[:, None].expand(-1, 3))


def objects(group):
    rank, size = group.rank(), group.size()
    got = [None] * size
    dist.all_gather_object(got, {"rank": rank}, group=group)
    assert got == [{"rank": r} for r in range(size)]
    box = [("from", 0)] if rank == 0 else [None]
    dist.broadcast_object_list(box, 0, group=group)
    assert box == [("from", 0)]
    out = [None]
    dist.scatter_object_list(out, [f"for {r}" for r in range(size)], 0, group=group)
    assert out == [f"for {rank}"]
    at_root = [None] * size if rank == 0 else None
    dist.gather_object(rank, at_root, 0, group=group)
    assert rank != 0 or at_root == list(range(size))


def coalesced(group):
    """Several tensors in one call, by torch's manager and by the older names."""
    rank, size = group.rank(), group.size()
    xs = [torch.full((3,), float(rank)), torch.ones(2, 2)]
    with dist._coalescing_manager(group):
        for x in xs:
            dist.all_reduce(x, group=group)
    total = float(sum(range(size)))
    same(xs[0], torch.full((3,), total))
    same(xs[1], torch.full((2, 2), float(size)))
    outs = [torch.empty(size * 3), torch.empty(size * 4)]
    group.allgather_into_tensor_coalesced(outs, [xs[0] + rank, xs[1].view(-1)]).wait()
    same(outs[0], (total + torch.arange(float(size))).repeat_interleave(3))
    backs = [torch.empty(3), torch.empty(4)]
    group.reduce_scatter_tensor_coalesced(backs, outs).wait()
    same(backs[0], torch.full((3,), (total + rank) * size))
    mixed = [torch.ones(2), torch.ones(2, dtype=torch.int64)]
    group.allreduce_coalesced(mixed).wait()
    same(mixed[1], torch.full((2,), size))


def averages(group):
    """AVG of what can't be averaged exactly, and PREMUL_SUM."""
    rank, size = group.rank(), group.size()
    x = torch.full((2,), float(rank) + 0.25)
    dist.all_reduce(x, dist.ReduceOp.AVG, group=group)
    same(x, torch.full((2,), (size - 1) / 2 + 0.25))
    x = torch.tensor([rank, -rank])
    dist.all_reduce(x, dist.ReduceOp.AVG, group=group)
    total = sum(range(size))
    same(x, torch.tensor([total // size, -(total // size)]))
    x = torch.full((2,), float(rank))
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5), group=group)
    same(x, torch.full((2,), total / 2.0))


def rounding(group, n):
    """bfloat16 is reduced in float32 and rounded once."""
    generator = torch.Generator().manual_seed(7)
    all_of = torch.randn(group.size(), n, generator=generator).to(torch.bfloat16)
    x = all_of[group.rank()].clone()
    dist.all_reduce(x, group=group)
    total = all_of[0].float()
    for item in all_of[1:]:
        total = total + item.float()
    assert torch.equal(x, total.to(torch.bfloat16))
    x = torch.tensor([float("nan"), float("inf"), -0.0, 3.38e38], dtype=torch.bfloat16)
    dist.all_reduce(x, dist.ReduceOp.MAX, group=group)
    assert x[0].isnan() and x[1].isinf() and x[2] == 0 and x[3].isfinite()


def functional(group):
    """The functional forms, as DTensor and the compiler use them."""
    import torch.distributed._functional_collectives as funcol

    rank, size = group.rank(), group.size()
    x = torch.arange(4.0) + rank
    same(funcol.all_reduce(x, "sum", group) * 1, size * torch.arange(4.0) + sum(range(size)))
    gather = getattr(funcol, "all_gather_single", funcol.all_gather_tensor)
    gathered = gather(x, 0, group) * 1
    same(gathered.view(size, 4), torch.stack([torch.arange(4.0) + r for r in range(size)]))
    scatter = getattr(funcol, "reduce_scatter_single", funcol.reduce_scatter_tensor)
    same(scatter(gathered, "avg", 0, group) * 1, x)
    swapped = funcol.all_to_all_single(gathered + 10 * rank, None, None, group) * 1
    same(swapped.view(size, 4), torch.stack([x + 10 * s for s in range(size)]))
    same(funcol.broadcast(x, 0, group) * 1, torch.arange(4.0))


def channels_last(group):
    """A dense tensor in another order of memory."""
    x = torch.arange(24.0).view(1, 2, 3, 4).to(memory_format=torch.channels_last)
    dist.all_reduce(x, group=group)
    same(x, torch.arange(24.0).view(1, 2, 3, 4) * group.size())


def strided(group):
    dist.all_reduce(torch.zeros(4, 4)[:, 0], group=group)


def sparse(group):
    """Other rows on every rank, one of them on all."""
    rank, size = group.rank(), group.size()
    given = torch.sparse_coo_tensor(
        torch.tensor([[0, rank + 1]]), torch.full((2, 3), float(rank + 1)), (size + 1, 3)
    )
    dist.all_reduce(given, group=group)
    wanted = torch.arange(float(size + 1))
    wanted[0] = sum(range(1, size + 1))
    same(given.to_dense(), wanted[:, None].expand(-1, 3))
    dist.monitored_barrier(group)
