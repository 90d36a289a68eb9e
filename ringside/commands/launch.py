"""`ringside launch`: on real ranks, here or on a cluster."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ringside.commands.command import add, print_json, say_to_stderr
from ringside.errors import RingsideError, TargetError

if TYPE_CHECKING:
    from ringside.jobs.launch.outcome import Outcome

EXAMPLES = """\
examples:
  ringside launch ring.py:all_reduce --site local --nodes 2
  ringside launch ring.py:all_reduce --site zaratan --nodes 2 --account NAME --dry-run
  ringside launch ring.py:all_reduce --site zaratan --nodes 2 --set time=00:05:00 -- --n 1000000
  ringside launch train.py --site zaratan --nodes 2 --gpus-per-node 4 -- --epochs 3
  ringside launch ring.py:all_reduce --site zaratan --nodes 2 --sweep     on 1, 2, 4, ... ranks
  ringside launch --jupyter --site zaratan --gpus-per-node 1
  ringside launch --follow 123456      come back to a job after Ctrl-C or --no-wait

A function of comm, or a script of mpi4py, gets MPI's ranks; a function of group, or a script of
torch, gets torch's: over NCCL with --gpus-per-node, else over gloo on CPUs.
Leaves run.json and run.trace.gz in the current folder. Lengths: --n, several times if you like;
without it, lengths whose inputs a laptop holds.
Exit status 0: done; 1: the student's file failed; 2: the cluster did, or the command was wrong.
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(
        commands, "launch", "run on real ranks, here or on a cluster", EXAMPLES, words=True
    )
    parser.add_argument("target", metavar="FILE[:FUNCTION]", nargs="?")
    parser.add_argument(
        "--site",
        default="local",
        help="a name of `ringside site list`, or a TOML file (default local)",
    )
    parser.add_argument(
        "--nodes", type=int, default=1, metavar="N", help="number of nodes (default 1)"
    )
    parser.add_argument(
        "--gpus-per-node",
        type=int,
        default=0,
        metavar="G",
        help="GPUs of each node, and ranks on it (default 0: no GPUs)",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a variable of the site"
    )
    for name in ("account", "partition", "reservation"):
        parser.add_argument(f"--{name}", help=f"the same as --set {name}=...")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="where run.json goes (default: here)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the job script, submit nothing"
    )
    parser.add_argument("--no-wait", action="store_true", help="submit and come back at once")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--sweep",
        action="store_true",
        help="run on 1, 2, 4, ... ranks in one job, up to --nodes times ranks_per_node",
    )
    how.add_argument("--jupyter", action="store_true", help="JupyterLab on a compute node")
    parser.add_argument("--follow", metavar="JOB", help="follow a job that was launched before")
    parser.add_argument("--variables", action="store_true", help="list the site's variables")


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.checking import inputs
    from ringside.jobs.launch import launch
    from ringside.jobs.launch.lengths import USUAL, fitting
    from ringside.jobs.launch.sites import Site
    from ringside.session.target import Target

    if asked.follow:
        return _say_outcome(asked, launch.follow(asked.follow, asked.out, say_to_stderr))
    site = Site.load(asked.site)
    check_counts(asked.nodes, asked.gpus_per_node)
    shortcuts = [
        f"{name}={getattr(asked, name)}"
        for name in ("account", "partition", "reservation")
        if getattr(asked, name) is not None
    ]
    settings = site.settings([*shortcuts, *asked.set])
    if asked.variables:
        for name, variable in site.variables.items():
            print(f"{name} = {settings[name]}\n    {variable.help}")
        return 0
    if asked.jupyter:
        return _jupyter(asked, site, settings)
    if asked.target is None:
        raise TargetError("what to launch is missing: `ringside launch ring.py:all_reduce`.")
    lengths, dtype, arguments = launch.options_of(asked.words)
    target = Target.parse(asked.target)
    script = target.function is None
    path = target.folder / target.file
    if script and inputs.only_defines(path) and (functions := inputs.functions(path)):
        raise TargetError(
            f"{target.file} only defines functions, so as a script it does nothing. Name one: "
            f"`ringside launch {target.file}:FUNCTION` (functions of comm: {', '.join(functions)})."
        )
    fitted = fitting(path, target.function, arguments, dtype) if target.function else USUAL
    job = launch.Launch(
        target,
        site,
        settings,
        asked.nodes,
        lengths or fitted,
        dtype,
        asked.words if script else arguments,
        asked.out,
        asked.gpus_per_node,
        asked.sweep,
    )
    if asked.dry_run:
        job.check()
        try:
            job.check_here()
        except RingsideError as problem:  # a script can be read anywhere
            say_to_stderr(f"from here it would not be launched: {problem}")
        print(job.script(), end="")
        return 0
    # What ranks print stands on standard output, unless a program reads that.
    printed = sys.stderr if asked.json else sys.stdout
    outcome = launch.run(job, say_to_stderr, wait=not asked.no_wait, printed=printed)
    return _say_outcome(asked, outcome)


def check_counts(nodes: int, gpus_per_node: int) -> None:
    """Refuse numbers that no site has.

    Raises:
        LaunchError: there is one.
    """
    from ringside.jobs.launch.launch import LaunchError

    if nodes < 1:
        raise LaunchError(f"--nodes ({nodes}) must be at least 1.")
    if gpus_per_node < 0:
        raise LaunchError(f"--gpus-per-node ({gpus_per_node}) must be at least 0.")


def _say_outcome(asked: argparse.Namespace, outcome: Outcome) -> int:
    if asked.json:
        print_json(outcome.as_json())
    else:
        print(outcome.text())
    return outcome.exit_status


def _jupyter(asked: argparse.Namespace, site: Any, settings: Any) -> int:
    from ringside.jobs.launch.jupyter import Jupyter

    if asked.target is not None or asked.nodes != 1:
        raise TargetError("--jupyter runs JupyterLab on one node: give it no file and no --nodes.")
    jupyter = Jupyter(site, settings, asked.gpus_per_node, asked.out)
    if asked.dry_run:
        print(jupyter.script(), end="")
        return 0
    say_to_stderr(jupyter.run(say_to_stderr, wait=not asked.no_wait))
    return 0
