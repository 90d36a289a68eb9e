"""All fragments of a turn are started before any is waited for; parameters become views."""

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def train(group, model, loss, inner, outer_lr, outer_momentum, num_steps, period, num_fragments):
    if num_steps < 0 or period < 1 or not (1 <= num_fragments <= period):
        raise ValueError("num_steps, period or num_fragments")
    if not (0.0 <= outer_momentum < 1.0):
        raise ValueError("outer_momentum")
    params = [each for each in model.parameters() if each.requires_grad]
    with torch.no_grad():
        anchor = parameters_to_vector(params).clone()
    fragments = [
        slice(f * anchor.numel() // num_fragments, (f + 1) * anchor.numel() // num_fragments)
        for f in range(num_fragments)
    ]
    v = torch.zeros_like(anchor)
    for step in range(num_steps):
        inner.zero_grad()
        loss(model, step).backward()
        inner.step()
        with torch.no_grad():
            started = []
            w = parameters_to_vector(params).clone()
            for f, part in enumerate(fragments):
                if part.start == part.stop:
                    continue
                at_the_end = step == num_steps - 1
                late = step + 1 - period - f * period // num_fragments
                if at_the_end or (late >= 0 and late % period == 0):
                    mean = w[part] / group.size()
                    work = dist.all_reduce(mean, group=group, async_op=True)
                    started.append((part, mean, work))
            for part, mean, work in started:
                work.wait()
                d = anchor[part] - mean
                v[part] = outer_momentum * v[part] + d
                anchor[part] -= outer_lr * (d + outer_momentum * v[part])
                w[part] = anchor[part]
            if started:
                vector_to_parameters(w, params)
