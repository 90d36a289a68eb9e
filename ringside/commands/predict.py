"""`ringside predict`: replay a real run on a machine's model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ringside.commands.command import add, print_json
from ringside.progress import waiting

EXAMPLES = """\
examples:
  ringside predict run.json --machine machine.toml
  ringside predict run.trace.gz --machine zaratan --scale-compute
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(commands, "predict", "replay a real run on a machine's model", EXAMPLES)
    parser.add_argument("run", type=Path, metavar="RUN", help="run.json or run.trace.gz of a run")
    parser.add_argument(
        "--machine", required=True, help="a preset, a TOML file such as `ringside fit` writes"
    )
    parser.add_argument(
        "--scale-compute",
        action="store_true",
        help="time computation by the machine's rates where its FLOPs are known",
    )


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.jobs.calibrate import predict as predicting

    with waiting(f"replaying {asked.run} on {asked.machine}"):
        prediction = predicting.predict(asked.run, asked.machine, scale_compute=asked.scale_compute)
    if asked.json:
        print_json(prediction.as_json())
    else:
        print(prediction.text())
    return 0
