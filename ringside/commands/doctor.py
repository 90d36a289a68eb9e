"""`ringside doctor`: what works on this machine, and how to mend what doesn't."""

from __future__ import annotations

import argparse
from typing import Any

from ringside.commands.command import add, print_json

EXAMPLES = """\
examples:
  ringside doctor
  ringside doctor --json
  mpiexec -n 2 ringside doctor --cluster
  srun --mpi=pmi2 ringside doctor --cluster --site zaratan
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(
        commands, "doctor", "what works on this machine, and how to mend what doesn't", EXAMPLES
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="examine ranks: inside a job, or under mpiexec, srun or torchrun",
    )
    parser.add_argument("--site", help="with --cluster: compare with this site's machine")
    parser.add_argument(
        "--ranks", type=int, metavar="P", help="with --cluster: how many were asked for"
    )


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.jobs.doctor import this_machine as doctor

    if asked.cluster:
        return _of_ranks(asked)
    findings = doctor.examine()
    if asked.json:
        print_json([finding.as_json() for finding in findings])
    else:
        print(doctor.text(findings), flush=True)
    return 0 if all(finding.works for finding in findings if finding.needed) else 2


def _of_ranks(asked: argparse.Namespace) -> int:
    """On ranks: examine them; alone: start some."""
    from ringside.jobs.doctor import cluster
    from ringside.jobs.doctor import this_machine as doctor
    from ringside.jobs.real import facts as cluster_facts

    if cluster_facts.launched_rank() is None:
        arguments = ["--json"] if asked.json else []
        arguments += ["--site", asked.site] if asked.site else []
        return cluster.start_ranks(asked.site, asked.ranks, arguments)
    findings = cluster.examine(asked.site, asked.ranks)
    if findings is None:
        return 0
    if asked.json:
        print_json([finding.as_json() for finding in findings])
    else:
        print(doctor.text(findings), flush=True)
    return 0 if all(finding.works for finding in findings if finding.needed) else 2
