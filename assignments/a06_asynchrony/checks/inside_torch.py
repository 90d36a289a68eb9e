"""Functions that call the torch modules inside a rank, for the tests: nothing to write.

The tests run outside and see only messages and results. What a rank alone can make, such as a
model, and what must be looked at from inside, is here.
"""

import torch
from given.local_problem_torch import LocalLoss, Network, optimizer_of

from ringside.checking.callers import error_of, find

# -- diloco_torch ----------------------------------------------------------------------------------


def diloco_trained(group, params, batches, inner, frozen, step_s, numbers):
    """``diloco_torch.train`` on a rank's own loss.

    Args:
        numbers: what ``train`` gets after ``inner``.

    Returns:
        ``(returned_none, params)``: the parameters as the model has them afterwards.
    """
    model = Network(params, frozen)
    held = list(model.parameters())  # the optimizer holds these, too
    optimizer = optimizer_of(model, inner)
    returned = find("diloco_torch:train")(
        group, model, LocalLoss(batches, step_s), optimizer, *numbers
    )
    return returned is None, [each.detach().clone() for each in held]


def diloco_twice(group, params, batches, inner, frozen, step_s, numbers):
    """The same training twice, of two models."""
    arguments = params, batches, inner, frozen, step_s, numbers
    return diloco_trained(group, *arguments), diloco_trained(group, *arguments)


def diloco_refused(group, outer_lr, outer_momentum, num_steps, period, num_fragments):
    """``diloco_torch.train`` with numbers that can't be right: its error, and losses computed."""
    called = []
    model = torch.nn.Linear(2, 2)

    def loss(model, step):
        called.append(step)
        return model(torch.ones(1, 2)).sum()

    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    numbers = outer_lr, outer_momentum, num_steps, period, num_fragments
    return error_of("diloco_torch:train", group, model, loss, inner, *numbers), len(called)


# -- compress_torch --------------------------------------------------------------------------------


def compressed(group, gradients, approx_rank, seed):
    """``compress_torch.all_reduce`` of these gradients one after another.

    Returns:
        Per call the mean and the residual.
    """
    state, residual = {"seed": seed}, None
    answers = []
    for gradient in gradients:
        residual = torch.zeros_like(gradient) if residual is None else residual
        mean, residual = find("compress_torch:all_reduce")(
            group, gradient, residual, approx_rank, state
        )
        answers.append((mean, residual))
    return answers


def compressed_in_turns(group, gradients, others, approx_rank, seed, other_seed):
    """Two series of calls in turns, with a state each and gradients with gaps in memory.

    Returns:
        A dict: ``series``, of each per call the mean and the residual; was an argument ``changed``,
        and does a result ``share`` memory with one?
    """
    states = {"seed": seed}, {"seed": other_seed}
    answers, changed, shared = ([], []), False, False
    residuals = [None, None]
    for pair in zip(gradients, others, strict=True):
        for k, given in enumerate(pair):
            gradient = torch.stack([given, torch.full_like(given, 77)], dim=-1)[..., 0]
            residual = torch.zeros_like(given) if residuals[k] is None else residuals[k]
            before = residual.clone()
            results = find("compress_torch:all_reduce")(
                group, gradient, residual, approx_rank, states[k]
            )
            changed |= not (torch.equal(gradient, given) and torch.equal(residual, before))
            shared |= any(share(a, b) for a in results for b in (gradient, residual))
            shared |= share(*results)
            answers[k].append(results)
            residuals[k] = results[1]
    changed |= states[0].get("seed") != seed or states[1].get("seed") != other_seed
    return {"series": answers, "changed": changed, "shared": shared}


def compress_refused(group, approx_rank, residual_shape):
    """``compress_torch.all_reduce`` with arguments that can't be right: its error."""
    gradient = torch.ones(4, 6, dtype=torch.float64)
    residual = torch.zeros(*residual_shape, dtype=torch.float64)
    state = {"seed": 1}
    return error_of("compress_torch:all_reduce", group, gradient, residual, approx_rank, state), 0


# -- what both need --------------------------------------------------------------------------------


def share(a, b):
    """Do two tensors lie in the same memory?"""
    return bool(a.numel()) and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
