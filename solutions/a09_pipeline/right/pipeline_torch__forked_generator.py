"""The second forward pass in a forked generator; sends as batches of one."""

import torch
import torch.distributed as dist
from actions import Forward
from model_torch import loss_of


def run(group, modules, actions, batch_sizes, inputs=None, targets=None, recompute=False):
    num_stages, stage = (dist.get_world_size(group), dist.get_rank(group))
    last, batch_size = (num_stages * len(modules) - 1, sum(batch_sizes))
    kept, here, arriving, sending = ({}, {}, {}, [])
    total = 0.0

    def source_of(action):
        step = -1 if isinstance(action, Forward) else 1
        piece = action.chunk * num_stages + stage + step
        return piece if 0 <= piece <= last else None

    def tag(forward, piece, microbatch):
        return 2 * (microbatch * (last + 1) + piece) + forward

    def expect(action):
        piece, forward = (source_of(action), isinstance(action, Forward))
        if piece is None or num_stages == 1 or action in arriving:
            return
        own = modules[action.chunk]
        width = own.width_in if forward else own.width_out
        buffer = torch.empty(batch_sizes[action.microbatch], width, dtype=torch.float64)
        rank = dist.get_global_rank(group, piece % num_stages)
        request = dist.irecv(buffer, rank, group, tag(forward, piece, action.microbatch))
        arriving[action] = (buffer, request)

    def take(action):
        if num_stages == 1:
            key = (isinstance(action, Forward), source_of(action), action.microbatch)
            return here.pop(key)
        buffer, request = arriving.pop(action)
        request.wait()
        return buffer

    def give(forward, piece, microbatch, tensor):
        if num_stages == 1:
            here[forward, piece, microbatch] = tensor
            return
        rank = dist.get_global_rank(group, (piece + (1 if forward else -1)) % num_stages)
        place = tag(forward, piece, microbatch)
        message = dist.P2POp(dist.isend, tensor.contiguous(), rank, group, place)
        sending.extend((request, tensor) for request in dist.batch_isend_irecv([message]))

    def output_of(piece, module, x, microbatch):
        y = module(x)
        return y if piece < last else loss_of(y, targets[microbatch], batch_size)

    for action, following in zip(actions, [*actions[1:], None], strict=True):
        key = (action.chunk, action.microbatch)
        module, piece = (modules[action.chunk], action.chunk * num_stages + stage)
        expect(action)
        incoming = take(action) if source_of(action) is not None else None
        if following is not None:
            expect(following)
        if isinstance(action, Forward):
            x = (inputs[action.microbatch] if piece == 0 else incoming).detach()
            x.requires_grad_(piece > 0)
            state = torch.get_rng_state()
            with torch.set_grad_enabled(not recompute):
                y = output_of(piece, module, x, action.microbatch)
            kept[key] = (x, state) if recompute else (x, y)
            if piece < last:
                give(True, piece, action.microbatch, y.detach())
            else:
                total += float(y)
            continue
        x, y = kept.pop(key)
        if recompute:
            with torch.random.fork_rng(devices=[]):
                torch.set_rng_state(y)
                y = output_of(piece, module, x, action.microbatch)
        torch.autograd.backward(y, incoming)
        if piece > 0:
            give(False, piece, action.microbatch, x.grad)
        del x, y
    for request, _ in sending:
        request.wait()
    return total if stage == num_stages - 1 else None
