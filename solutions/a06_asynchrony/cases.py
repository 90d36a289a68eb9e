"""Calls of this assignment's functions, as the tests make them: supplied, nothing to write.

A ``Call`` is what a verdict is about: its words, and the line that runs the same thing.
"""

from ringside.checking import Call

# -- server ----------------------------------------------------------------------------------------


def server_call(
    steps, paces, staleness, n=4, seed=0, fixed=False, through="server_training", late=0
):
    """``serve`` and ``work`` together, or one of them with a script at the other end.

    Args:
        steps: per worker, how many steps it makes.
        paces: per worker, what a step takes, in ms.
        through: the function of ``callers.py``; ``scripted_server`` has no paces and staleness.
        late: of ``scripted_workers``.
    """
    options = {"steps": list(steps)}
    if through != "scripted_server":
        options |= {"paces": list(paces), "staleness": staleness}
    words = [f"--{name} '{value}'" for name, value in options.items()]
    words += [f"--n {n}", f"--seed {seed}"] + (["--fixed True"] if fixed else [])
    words += [f"--late {late}"] if late else []
    function = "work" if through == "scripted_server" else "serve"
    world_size = len(steps) + 1
    about = f"steps {_few(steps)}"
    if through != "scripted_server":
        about += f" of about {_few(paces)} ms, staleness {staleness}"
    if through != "server_training":
        about += ", with a script at the other end"
    about += f" whose END comes {late} ms late" if late else ""
    return Call(
        f"server:{function}", world_size, n, options=options,
        about=f"{about}, n = {n}",
        line=f"ringside run callers.py:{through} --ranks {world_size} -- {' '.join(words)}",
    )  # fmt: skip


def refusal_call(world_size, staleness, num_steps):
    """``serve`` and ``work`` with arguments that can't be right."""
    words = f"--staleness {staleness} --num-steps {num_steps}"
    return Call(
        "server:serve", world_size, 2,
        about=f"staleness {staleness}, num_steps {num_steps}",
        line=f"ringside run callers.py:server_refusals --ranks {world_size} -- {words}",
    )  # fmt: skip


def _few(values):
    text = ", ".join(str(value) for value in values)
    return text if len(text) <= 40 else f"{text[:37]}..."
