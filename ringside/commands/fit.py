"""`ringside fit`: measure a machine and write its model."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from ringside.commands.command import add, print_json, say_to_stderr
from ringside.commands.launch import check_counts
from ringside.errors import RingsideError

EXAMPLES = """\
examples:
  ringside fit --out machine.toml                        measure this machine, 2 ranks
  ringside fit --site zaratan --nodes 2 --out zaratan_cpu.toml
  ringside fit --kind torch --out gloo.toml              over torch.distributed
  ringside fit run.json --out machine.toml               of a run of the probe that you have

The probe sends messages of 8 B to 16 MiB, multiplies matrices, copies memory and starts kernels.
Beside machine.toml stands machine.svg: the fitted lines, and how far they miss.
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(commands, "fit", "measure a machine and write its model", EXAMPLES)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN.json", help="runs of the probe")
    parser.add_argument("--out", type=Path, default=Path("machine.toml"), metavar="FILE.toml")
    parser.add_argument(
        "--base", default="textbook", help="machine that has what is not measured (textbook)"
    )
    parser.add_argument("--site", default="local", help="where to launch the probe (default local)")
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="number of nodes")
    parser.add_argument("--gpus-per-node", type=int, metavar="G", help="with --kind torch: NCCL")
    parser.add_argument(
        "--kind", choices=["mpi4py", "torch"], default="mpi4py", help="library of the messages"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a variable of the site"
    )


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.jobs.calibrate import fit as fitting

    if asked.out.suffix != ".toml":
        raise fitting.FitError(f"--out ({asked.out}) must end in .toml.")
    with tempfile.TemporaryDirectory(prefix=".ringside-fit-", dir=".") as folder:
        runs = asked.runs or [_launch_probe(asked, Path(folder))]
        fitted = fitting.fit(runs, asked.out.stem, asked.base)
    fitting.save(fitted.machine, asked.out)
    if fitted.links:
        fitting.draw(fitted, asked.out.with_suffix(".svg"))
    if asked.json:
        print_json(fitted.as_json())
    else:
        print(fitted.text())
        print(f"{asked.out} is written: `--machine {asked.out}` takes it.")
    return 0


def _launch_probe(asked: argparse.Namespace, out: Path) -> Path:
    """Launch the probe at a site; return its run.json.

    Raises:
        RingsideError: it left none.
    """
    from ringside.jobs.calibrate import probe
    from ringside.jobs.launch import launch
    from ringside.jobs.launch.sites import Site
    from ringside.session.target import Target

    site = Site.load(asked.site)
    gpus = asked.gpus_per_node or 0
    check_counts(asked.nodes, gpus)
    job = launch.Launch(
        Target.parse(str(probe.script(asked.kind))),
        site,
        site.settings(asked.set),
        asked.nodes,
        words=["nccl" if gpus else "gloo"] if asked.kind == "torch" else [],
        out=out,
        gpus_per_node=gpus,
    )
    # What a launch prints is for people; standard output is the answer's.
    outcome = launch.run(job, say_to_stderr, printed=sys.stderr)
    say_to_stderr(outcome.text())
    status = outcome.exit_status
    if status or not (out / "run.json").is_file():
        raise RingsideError(f"the probe did not run (status {status}); the lines above say why.")
    return out / "run.json"
