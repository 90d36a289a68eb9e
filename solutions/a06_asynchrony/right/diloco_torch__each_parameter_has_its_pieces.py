"""Parameters stay apart: a fragment is a list of pieces of them, which travel in one buffer."""

import torch
import torch.distributed as dist


def train(group, model, loss, inner, outer_lr, outer_momentum, num_steps, period, num_fragments):
    if min(num_steps, period - 1, num_fragments - 1, period - num_fragments) < 0:
        raise ValueError("num_steps, period or num_fragments")
    if outer_momentum < 0 or outer_momentum >= 1:
        raise ValueError("outer_momentum")
    params = [each for each in model.parameters() if each.requires_grad]
    n = sum(each.numel() for each in params)
    pieces = []
    for f in range(num_fragments):
        lo, hi, at = f * n // num_fragments, (f + 1) * n // num_fragments, 0
        own = []
        for param in params:
            first, last = max(lo - at, 0), min(hi - at, param.numel())
            if first < last:
                own.append(param.data.view(-1)[first:last])
            at += param.numel()
        pieces.append(own)
    anchors = [[piece.clone() for piece in own] for own in pieces]
    speeds = [[torch.zeros_like(piece) for piece in own] for own in pieces]
    for taken in range(1, num_steps + 1):
        inner.zero_grad(set_to_none=False)
        loss(model, taken - 1).backward()
        inner.step()
        for f in range(num_fragments):
            turn = taken >= period and taken % period == f * period // num_fragments
            if (turn or taken == num_steps) and pieces[f]:
                buffer = torch.cat(pieces[f])
                dist.all_reduce(buffer, group=group)
                at = 0
                for w, a, v in zip(pieces[f], anchors[f], speeds[f], strict=True):
                    d = a - buffer[at : at + len(w)] / group.size()
                    at += len(w)
                    v.copy_(outer_momentum * v + d)
                    a.copy_(a - outer_lr * (d + outer_momentum * v))
                    w.copy_(a)
