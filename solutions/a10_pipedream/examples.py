"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers_torch.py:stash_torch_trained --ranks 3 -- --batch-sizes '[2, 2, 2, 2, 2]'
    ringside run callers_torch.py:stash_torch_trained --ranks 4 -- --batch-sizes '[2, 1, 3]' \
        --vertical-sync True

Parameters, inputs and targets are drawn from ``--data``.
"""

import cases_torch

# -- stash_torch -----------------------------------------------------------------------------------

STASH_TORCH = ("stash_torch_trained", "stash_torch_memory")
STASH_TORCH_OPTIONS = {
    "batch_sizes", "vertical_sync", "optimizer", "num_calls", "ends", "hidden", "costs", "data",
}  # fmt: skip
STASH_TORCH_INSTEAD = {  # a module and its optimizer are made on the ranks
    "stash_torch.py:train": "callers_torch.py:stash_torch_trained -- --batch-sizes '[2, 2, 2, 2]'",
}


def stash_torch_case(num_stages, others):
    """The case that a line's options describe."""
    sizes = others.get("batch_sizes", (2,) * 5)
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return cases_torch.StashTorchCase(
        "stash_torch:train", num_stages, len(sizes), "float64", batch_sizes=sizes,
        vertical_sync=str(others.get("vertical_sync", False)) == "True",
        optimizer=str(others.get("optimizer", "sgd")), num_calls=int(others.get("num_calls", 1)),
        ends=tuple(others.get("ends", (5, 4))), hidden=int(others.get("hidden", 6)),
        costs=tuple(others.get("costs", (1e-6, 2e-6))), seed=int(others.get("data", 0)),
    )  # fmt: skip


def stash_torch_arguments(function, world_size, rank, options):
    """What the functions of ``callers_torch.py`` get after ``group``."""
    if function not in STASH_TORCH:
        return None
    return stash_torch_case(world_size, options.others).arguments_of_ranks()[rank]


def stash_torch_check(case, function, rank, value, options):
    """Raise a verdict where the parameters of a stage are not right; True: they were compared."""
    if function not in STASH_TORCH:
        return False
    mine = stash_torch_case(case.world_size, options.others)
    newest, _ = cases_torch.stash_torch_serial(mine, getattr(case, "factors", None))
    cases_torch.assert_stash_torch_params(value, rank, newest[rank], case)
    return True


def _stash_torch_seen(check):
    """A check of a whole run, which needs to know the call."""

    def made(result, case, _):
        check(result, stash_torch_case(case.world_size, case.options), case)

    return made


STASH_TORCH_CHECKS = {
    "torch_losses": _stash_torch_seen(cases_torch.assert_stash_torch_losses),
    "torch_kept": _stash_torch_seen(cases_torch.assert_stash_torch_kept),
    "torch_sent": _stash_torch_seen(cases_torch.assert_stash_torch_sent),
    "torch_order": _stash_torch_seen(cases_torch.assert_stash_torch_order),
    "torch_memory": _stash_torch_seen(cases_torch.assert_stash_torch_memory),
}

# -- all modules -----------------------------------------------------------------------------------

OPTIONS = {*STASH_TORCH_OPTIONS}
INSTEAD = {**STASH_TORCH_INSTEAD}
CHECKS = {**STASH_TORCH_CHECKS}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm`` or ``group``; None for functions not known here."""
    return stash_torch_arguments(function, world_size, rank, options)


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    return None


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    return stash_torch_check(case, function, rank, value, options)
