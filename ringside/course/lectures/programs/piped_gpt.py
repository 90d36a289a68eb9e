"""The course's GPT as a pipeline: what each stage computes, sends and holds in one step.

    rank = stage * num_replicas + replica        ranks of one stage sum their gradients at the end

Traced on fake tensors by lecture 9 for the ledger. A microbatch is one sequence. Arithmetic is
declared (``stages`` knows how much), and what is held are tensors of the right size.
"""

from typing import Any

import torch
import torch.distributed as dist

from ringside.course.lectures.ledger import num_parameters
from ringside.session.recorder import compute


def stages(sizes: dict[str, int], layers: list[int]) -> list[dict[str, int]]:
    """For each stage: its layers, parameters, and the operations of a sequence's forward pass.

    The words are held at both ends: the first stage looks them up, the last one scores them.
    """
    s, wide, vocabulary = sizes["sequence"], sizes["width"], sizes["vocabulary"]
    of_layer = 24 * s * wide**2 + 4 * s**2 * wide
    held = []
    for stage, number in enumerate(layers):
        first, last = stage == 0, stage == len(layers) - 1
        parameters = number * (12 * wide**2 + 13 * wide)
        parameters += first * (vocabulary + s) * wide + last * (vocabulary + 2) * wide
        forward = number * of_layer + last * 2 * s * wide * vocabulary
        held.append({"layers": number, "parameters": parameters, "forward_flops": forward})
    return held


def inside_a_layer(sizes: dict[str, int], peak: int, num_sequences: int) -> int:
    """Bytes that a layer takes for one sequence while it runs again, from one GPU's peak."""
    inputs = sizes["num_layers"] * num_sequences * sizes["sequence"] * sizes["width"] * 2
    return (peak - 16 * num_parameters(sizes) - inputs) // num_sequences


def step(
    group: Any,
    sizes: dict[str, int],
    schedules: list[str],
    held: list[dict[str, int]],
    inside_bytes: int,
) -> None:
    """One training step; each stage follows its schedule: F3, B3 and so on.

    Args:
        group: all ranks.
        sizes: as for ``course_gpt.Gpt``.
        schedules: of every stage.
        held: what every stage holds, from ``stages``.
        inside_bytes: what a layer takes while it runs again.
    """
    num_stages = len(held)
    replicas = group.size() // num_stages
    stage, replica = divmod(group.rank(), replicas)
    share = held[stage]
    groups = [
        dist.new_group(list(range(s * replicas, (s + 1) * replicas))) for s in range(num_stages)
    ]
    gradients = torch.empty(share["parameters"], dtype=torch.bfloat16)
    weights, adam = torch.empty_like(gradients), torch.empty(3, share["parameters"])
    activations: dict[str, torch.Tensor] = {}
    shape, sent = (sizes["sequence"], sizes["width"]), []
    for word in schedules[stage].split():
        kind, microbatch = word[0], word[1:]
        way, moved = (1 if kind == "F" else -1), torch.empty(shape, dtype=torch.bfloat16)
        if 0 <= stage - way < num_stages:
            dist.recv(moved, (stage - way) * replicas + replica, tag=int(microbatch))
        if kind == "F":
            compute(num_flops=share["forward_flops"], phase=word)
            activations[microbatch] = torch.empty(share["layers"], *shape, dtype=torch.bfloat16)
        else:  # forward once more, and two products for each of the forward pass
            inside = torch.empty(inside_bytes, dtype=torch.uint8)
            compute(num_flops=3 * share["forward_flops"], phase=word)
            del activations[microbatch], inside
        if 0 <= stage + way < num_stages:
            sent.append(dist.isend(moved, (stage + way) * replicas + replica, tag=int(microbatch)))
    for request in sent:
        assert request is not None
        request.wait()
    dist.all_reduce(gradients, group=groups[stage])
    del weights, adam
