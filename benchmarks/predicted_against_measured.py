"""Every reference solution that `ringside launch` can run: predicted, and measured on real ranks.

    python benchmarks/predicted_against_measured.py [--write] [--launches 3]

1. `ringside fit` measures this machine, for mpi4py and for gloo.
2. Each function of a reference module that can be called on ranks runs on 2 real ranks, a small
   size and a large one, several times. Its trace is replayed on the machine fitted just before
   (`ringside.jobs.calibrate.predict`); of the launches the shortest is shown, which was disturbed
   least.

More ranks than cores don't fit the model, which knows nothing of ranks that take turns on a core:
so there are 2. ``--write`` leaves the table in lectures/predicted.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ringside.checking import inputs
from ringside.errors import RingsideError
from ringside.files import write_atomically
from ringside.jobs.calibrate.fit import Fitted, fit, save
from ringside.jobs.calibrate.predict import Prediction, predict
from ringside.jobs.calibrate.probe import script
from ringside.jobs.launch.launch import here_environment, mpiexec
from ringside.timing.machine import Machine
from ringside.units import format_bytes, format_time

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "lectures" / "predicted.md"
RANKS = 2
VECTORS = (10_000, 1_000_000)  # elements
OTHERS = {  # what n is: the case of the function says it
    "train_step": (512, 4096),
    "accumulated_step": (512, 4096),
    "broadcast_parameters": (512,),
    "measured_layer": (128, 512),
    "measured_step": (64, 256),
    "measured_ddp": (64, 256),
    "measured_pair": (128, 512),
    "measured_pipeline": (64, 256),
    "measured_training": (64, 256),
    "measured_steps": (128, 512),
    "measured_tokens": (256, 512),
}
CALLS_LEFT = "compute"  # what stays as it was measured

TEXT = """\
# Predicted and measured: the reference solutions on real ranks

Written by `python benchmarks/predicted_against_measured.py --write` on {date}: {cores} cores of \
{machine}, with a load average of {load} at the end: \
far from quiet, if that is more than the cores. Another machine, or another hour, \
gives other numbers.

{ranks} ranks, one for each core. More ranks than cores don't fit the model: ranks that take turns \
on a core wait for the operating system, and no model of ports knows when.

First the machine was fitted on a ping-pong ({sizes}):

{machines}

Then each function ran on real ranks at two sizes, in {launches} launches; the shortest, which \
was disturbed least, is shown. Its recorded run is replayed on the fitted machine: what a rank \
computes between two calls stays as it was measured, the time in the calls is the model's. So \
*makespan* compares the whole run, *in calls* what was really predicted, the mean of the ranks. \
*Timed* is the median of 5 runs just before, and their range: where runs of the same program \
differ so much, no model can be nearer than that.

{table}

Median error of the makespan: {errors}. In calls: {call_errors}.

## Where it is wrong, and why

- **The time in calls is, we think, mostly waiting for a core**, not for bytes. A rank that waits \
in MPI or gloo is woken by the operating system; on a machine that does other work that takes \
from some microseconds to some milliseconds, and the ping-pong, whose ranks are always awake, \
sees the short end of it. So what is predicted is mostly too short.
- **One line for all sizes** is a compromise: the libraries change their protocol at some \
kilobytes (the fit's residual shows it), and the largest messages leave the cache.
- **Both ranks copy through one memory bus**: two messages at once, as in a ring, share what one \
message of the ping-pong has alone.
- **Adding is free in a library's all-reduce** in this model (gamma = 0), and not on the machine.
- **What a lower-case call pickles**, and what the recorder itself does at each call, \
is in what was measured and in no prediction.

On a cluster's nodes, with a core for each rank and nothing else on it, the first point should go \
away; `ringside fit --site NAME --nodes 2` and `ringside predict run.json --machine machine.toml` \
make the same comparison there.
"""


@dataclass(frozen=True)
class Case:
    """One function of a reference module."""

    assignment: str
    module: str
    function: str

    @property
    def path(self) -> Path:
        return ROOT / "solutions" / self.assignment / f"{self.module}.py"

    @property
    def kind(self) -> str:
        return "gloo" if inputs.takes_group(self.path, self.function) else "mpi4py"

    @property
    def sizes(self) -> tuple[int, ...]:
        return OTHERS.get(self.function, VECTORS)

    @property
    def name(self) -> str:
        return f"{self.assignment} {self.module}:{self.function}"


def cases() -> list[Case]:
    """What the notebooks launch, and the modules' functions whose inputs and results are known."""
    found = []
    for plan in sorted((ROOT / "solutions").glob("*/assignment.toml")):
        assignment = plan.parent.name
        names = [module["name"] for module in tomllib.loads(plan.read_text())["module"]]
        found += [Case(assignment, name, f) for name in names for f in known_functions(plan, name)]
        found += [Case(assignment, *words) for words in launched(plan.with_name("notebook.py"))]
    return list(dict.fromkeys(found))


def launched(notebook: Path) -> list[tuple[str, ...]]:
    """Module and function of every ``ringside launch`` that a notebook shows."""
    return re.findall(r"ringside launch (\w+)\.py:(\w+)", notebook.read_text())


def known_functions(plan: Path, module: str) -> Iterator[str]:
    """Functions of comm that get inputs, and whose results are compared."""
    path, options = plan.with_name(f"{module}.py"), inputs.Options(8)
    for function in inputs.functions(path):
        try:
            inputs.arguments_of_rank(path, function, RANKS, 0, options)
            known = inputs.is_right(None, function, RANKS, 0, options, path)
        except RingsideError:
            continue  # it wants what no option gives
        if known is not None and not inputs.takes_group(path, function):
            yield function


def run_ranks(kind: str, target: str, out: Path, *words: str) -> dict:
    """Run a target on real ranks; its record."""
    if kind == "mpi4py":
        command = [mpiexec(), "-n", str(RANKS), sys.executable, "-m", "ringside.jobs.real.mpi_main"]
    else:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(RANKS), "-m", "ringside.jobs.real.torch_main"]
    command += [target, "--world-size", str(RANKS), "--out", str(out), *words]
    ended = subprocess.run(
        [*command, "--scratch", str(out / "scratch")],
        env=here_environment(),
        cwd=out,
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip().splitlines()
        raise RingsideError(f"{Path(target).name}: {next(iter(said), 'it failed')}")
    return json.loads((out / "run.json").read_text())


def fitted(kind: str, out: Path) -> Fitted:
    """This machine, over one library."""
    run_ranks(kind, str(script(kind if kind == "mpi4py" else "torch")), out)
    found = fit([out / "run.json"], f"here_{kind}", "laptop")
    save(found.machine, out / "machine.toml")
    return found


def in_calls_s(calls_s: dict[str, float]) -> float:
    return sum(seconds for name, seconds in calls_s.items() if name != CALLS_LEFT)


def compared(case: Case, n: int, machine: Machine, launches: int) -> tuple[Prediction, list[float]]:
    """The launch of the shortest makespan, and the times of its runs before."""
    found = []
    for _ in range(launches):
        with tempfile.TemporaryDirectory() as folder:
            words = ["--length", str(n)]
            record = run_ranks(case.kind, f"{case.path}:{case.function}", Path(folder), *words)
            assert record["measurements"][0]["values"] != "wrong", case.name
            prediction = predict(Path(folder) / "run.json", machine)
            found.append((prediction, record["measurements"][0]["times_s"]))
    return min(found, key=lambda one: one[0].measured_s or 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.name}")
    parser.add_argument("--launches", type=int, default=3, help="of every function and size")
    options = parser.parse_args()
    machines: dict[str, Fitted] = {}
    head = ["", "n", "timed", "makespan", "predicted", "error", "in calls", "predicted", "error"]
    rows = ["| " + " | ".join(head) + " |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    errors: list[float] = []
    call_errors: list[float] = []
    for case in cases():
        if case.kind not in machines:
            with tempfile.TemporaryDirectory() as folder:
                machines[case.kind] = fitted(case.kind, Path(folder))
        for n in case.sizes:
            found, times_s = compared(case, n, machines[case.kind].machine, options.launches)
            assert found.error is not None and found.measured_s
            measured = in_calls_s(dict(found.measured_calls_s))
            predicted = in_calls_s(dict(found.predicted_calls_s))
            errors.append(found.error)
            call_error = "none"
            if measured:
                call_errors.append(predicted / measured - 1)
                call_error = f"{call_errors[-1]:+.0%}"
            cells = [
                f"{case.name} ({case.kind})",
                f"{n:,}",
                f"{format_time(statistics.median(times_s))} "
                f"({format_time(min(times_s))} to {format_time(max(times_s))})",
                format_time(found.measured_s),
                format_time(found.predicted_s),
                f"{found.error:+.0%}",
                format_time(measured),
                format_time(predicted),
                call_error,
            ]
            rows.append("| " + " | ".join(cells) + " |")
            print(rows[-1], flush=True)
    text = TEXT.format(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        cores=os.cpu_count(),
        machine=processor(),
        ranks=RANKS,
        launches=options.launches,
        load=f"{os.getloadavg()[0]:.0f}",
        sizes="8 B to 16 MiB",
        machines="\n".join(map(described, machines.values())),
        table="\n".join(rows),
        errors=summary(errors),
        call_errors=summary(call_errors),
    )
    print(text)
    if options.write:
        write_atomically(DOCUMENT, text.encode())


def described(found: Fitted) -> str:
    """A line for the list of machines."""
    [line] = found.links.values()
    transport = found.machine.name.removeprefix("here_")
    bandwidth = f"{1e-9 / line.beta_s_per_byte:.2g} GB/s" if line.beta_s_per_byte else "no beta"
    threshold = format_bytes(found.machine.eager_threshold_bytes)
    measured = found.machine.sources["eager_threshold_bytes"].startswith("measured")
    eager = f", eager below {threshold}" if measured else ""
    return (
        f"- **{transport}**: alpha {format_time(line.alpha_s)}, {bandwidth}{eager}; "
        f"{line.residual()}; float32 products at {found.machine.flop_per_s:.2g} FLOP/s, copies at "
        f"{found.machine.memory_bytes_per_s * 1e-9:.2g} GB/s"
    )


def summary(errors: list[float]) -> str:
    sizes = [abs(error) for error in errors]
    return (
        f"{statistics.median(sizes):.0%} of {len(sizes)} runs, {sum(e < 0 for e in errors)} of "
        "them predicted too short"
    )


def processor() -> str:
    """What the cores are."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model n"))
    except (OSError, StopIteration):
        name = platform.machine()
    return f"a virtual machine ({name})" if "hypervisor" in "".join(lines[:40]) else name


if __name__ == "__main__":
    main()
