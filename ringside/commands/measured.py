"""The commands that measure a machine and judge its model: `fit`, `predict`, `doctor --cluster`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ringside.errors import RingsideError

FIT = """\
examples:
  ringside fit --out machine.toml                        measure this machine, 2 ranks
  ringside fit --site zaratan --nodes 2 --out zaratan_cpu.toml
  ringside fit --kind torch --out gloo.toml              over torch.distributed
  ringside fit run.json --out machine.toml               of a run of the probe that you have

The probe sends messages of 8 B to 16 MiB, multiplies matrices, copies memory and starts kernels.
Beside machine.toml stands machine.svg: the fitted lines, and how far they miss.
"""
PREDICT = """\
examples:
  ringside predict run.json --machine machine.toml
  ringside predict run.trace.gz --machine zaratan --scale-compute
"""


def add_fit(parser: argparse.ArgumentParser) -> None:
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


def add_predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="run.json or run.trace.gz of a run")
    parser.add_argument(
        "--machine", required=True, help="a preset, a TOML file such as `ringside fit` writes"
    )
    parser.add_argument(
        "--scale-compute",
        action="store_true",
        help="time computation by the machine's rates where its FLOPs are known",
    )


def add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="examine ranks: inside a job, or under mpiexec, srun or torchrun",
    )
    parser.add_argument("--site", help="with --cluster: compare with this site's machine")
    parser.add_argument(
        "--ranks", type=int, metavar="P", help="with --cluster: how many were asked for"
    )


def fit(asked: argparse.Namespace) -> int:
    from ringside.calibrate import fit as fitting

    if asked.out.suffix != ".toml":
        raise fitting.FitError(f"--out ({asked.out}) must end in .toml.")
    with tempfile.TemporaryDirectory(prefix=".ringside-fit-", dir=".") as folder:
        runs = asked.runs or [_launch_probe(asked, Path(folder))]
        fitted = fitting.fit(runs, asked.out.stem, asked.base)
    fitting.save(fitted.machine, asked.out)
    if fitted.links:
        fitting.draw(fitted, asked.out.with_suffix(".svg"))
    if asked.json:
        print(json.dumps(fitted.as_json(), indent=1, ensure_ascii=False))
    else:
        print(fitted.text())
        print(f"{asked.out} is written: `--machine {asked.out}` takes it.")
    return 0


def _launch_probe(asked: argparse.Namespace, out: Path) -> Path:
    """Launch the probe at a site; return its run.json.

    Raises:
        RingsideError: it left none.
    """
    from ringside.calibrate import probe
    from ringside.commands import cli

    words = [
        "launch",
        str(probe.script(asked.kind)),
        "--site",
        asked.site,
        "--nodes",
        str(asked.nodes),
    ]
    words += ["--out", str(out)]
    if asked.gpus_per_node is not None:
        words += ["--gpus-per-node", str(asked.gpus_per_node)]
    for change in asked.set:
        words += ["--set", change]
    if asked.kind == "torch":
        words += ["--", "nccl" if asked.gpus_per_node else "gloo"]
    status = _on_stderr(lambda: cli.main(words))
    if status or not (out / "run.json").is_file():
        raise RingsideError(f"the probe did not run (status {status}); the lines above say why.")
    return out / "run.json"


def _on_stderr(work: Callable[[], int]) -> int:
    """What a launch prints is for people; standard output is the answer's."""
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        return work()
    finally:
        sys.stdout = stdout


def predict(asked: argparse.Namespace) -> int:
    from ringside.calibrate import predict as predicting

    found = predicting.predict(asked.run, asked.machine, scale_compute=asked.scale_compute)
    if asked.json:
        print(json.dumps(found.as_json(), indent=1, ensure_ascii=False))
    else:
        print(found.text())
    return 0


def doctor_cluster(asked: argparse.Namespace) -> int:
    """On ranks: examine them; alone: start some."""
    from ringside.doctor import cluster
    from ringside.doctor import this_machine as doctor
    from ringside.real import facts as cluster_facts

    if cluster_facts.launched_rank() is None:
        words = ["--json"] if asked.json else []
        words += ["--site", asked.site] if asked.site else []
        return cluster.start_ranks(asked.site, asked.ranks, words)
    findings = cluster.examine(asked.site, asked.ranks)
    if findings is None:
        return 0
    if asked.json:
        found = [finding.as_json() for finding in findings]
        print(json.dumps(found, indent=1, ensure_ascii=False), flush=True)
    else:
        print(doctor.text(findings), flush=True)
    return 0 if all(finding.works for finding in findings if finding.needed) else 2


def handlers() -> dict[str, Callable[[Any], int]]:
    """By command."""
    return {"fit": fit, "predict": predict}
