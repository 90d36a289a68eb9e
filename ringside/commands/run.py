"""`ringside run`: a function or a script on simulated ranks."""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ringside.commands import command
from ringside.commands.command import add, print_json
from ringside.errors import TargetError
from ringside.progress import waiting
from ringside.units import format_count

if TYPE_CHECKING:
    from ringside.session.session import Result

EXAMPLES = """\
examples:
  ringside run ring.py:all_reduce --ranks 8
  ringside run ring.py:all_reduce --ranks 5 --machine zaratan -- --n 11 --dtype float32
  ringside run ring.py:all_reduce --ranks 5 --members 3,0,4     comm is a part of the world
  ringside run elastic.py:train --ranks 4 --kill 2@1.2ms   rank 2 dies on the way
  ringside run train.py --ranks 4 --slow 1x1.34    rank 1 computes 1.34 times as long
  ringside run hello.py --ranks 4 -- any words     as `mpiexec -n 4 python hello.py any words`
  ringside run -m package.train --ranks 4          as `mpiexec -n 4 python -m package.train`

A function gets (comm, ...): x is a vector of --n whole numbers, different on each rank
(--n 16 --dtype float64 --seed 0); any other parameter is given as --NAME VALUE.
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(
        commands, "run", "run a function or a script on simulated ranks", EXAMPLES, words=True
    )
    parser.add_argument("target", metavar="FILE[:FUNCTION]")
    parser.add_argument("-m", action="store_true", dest="module", help="FILE is a module's name")
    parser.add_argument(
        "--ranks", type=int, default=4, metavar="P", help="number of ranks (default 4)"
    )
    parser.add_argument(
        "--members", type=_members, metavar="R,R,...",
        help="ranks that make up comm, in its order (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--machine",
        default="textbook",
        help="textbook, laptop, zaratan, a TOML file, or numbers such as alpha_s=1e-3,ports=peer",
    )
    parser.add_argument("--seed", type=int, help="permute latencies and wildcard choices")
    command.add_failures(parser)
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="real seconds (default 60)"
    )
    parser.add_argument(
        "--debug", type=int, metavar="RANK",
        help="let breakpoint() in this rank open pdb here; the others' do nothing",
    )  # fmt: skip
    parser.add_argument(
        "--pretend-cuda",
        action="store_true",
        help="run a program for GPUs on CPU tensors, timed as the machine's GPU",
    )
    parser.add_argument("--trace", type=Path, metavar="FILE", help="save the trace")
    parser.add_argument(
        "--perfetto", type=Path, metavar="FILE", help="save JSON for ui.perfetto.dev"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="save the timeline's picture")
    parser.add_argument(
        "--simgrid", type=Path, metavar="FOLDER", help="save trace and machine for SimGrid's replay"
    )


def _members(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(rank) for rank in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of ranks such as 3,0,4") from None


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.checking import case_files, inputs, run_report
    from ringside.checking.assertions import Verdict
    from ringside.session.session import Session
    from ringside.session.target import Target
    from ringside.timing.machine import Machine

    if not asked.timeout > 0:
        raise TargetError(f"--timeout ({asked.timeout:g}) must be more than 0 seconds.")
    target = Target.of_module(asked.target) if asked.module else Target.parse(asked.target)
    options = inputs.parse_options(asked.words) if target.function else None
    if asked.members and target.function is None:
        raise TargetError("--members makes the comm that a function is given; a script has none.")
    args: Any = list(asked.words)
    case, folder, path = None, target.folder, target.folder / target.file
    if target.function and options:
        size = len(asked.members) if asked.members else asked.ranks
        case = inputs.case_of(path, target.function, size, options)
        if case is None:
            args = inputs.arguments(path, target.function, size, options)
    if case is not None:
        # pytest comes with it, which a program without a case doesn't wait for.
        from ringside.checking.suite import arguments, called_by, filled

        case = case.with_(machine=asked.machine)
        folder = case_files.unit_of(path) or folder
        args = arguments(case)
    name = f"{target.file}:{target.function}" if target.function else target.file
    what = f"{name} on {format_count(asked.ranks, 'rank')}"
    failures = command.failures(asked) or (case.failures if case else None)
    machine = Machine.load(asked.machine)
    if asked.debug is not None:
        _can_debug(asked.debug, asked.ranks)
    # A line that says how long one waits would be written over pdb's.
    progress = waiting(what) if asked.debug is None else contextlib.nullcontext()
    with (
        progress,
        Session(
            folder, machine=machine, debug_rank=asked.debug, pretend_cuda=asked.pretend_cuda
        ) as session,
    ):
        try:
            stores = filled(session, case) if case is not None and case.stored else None
        except Verdict as verdict:
            raise TargetError(f"a call before this one failed: {verdict.sentence}") from None
        result = session.call(
            target if case is None else called_by(case),
            asked.ranks,
            args,
            members=asked.members,
            seed=asked.seed,
            timeout_s=asked.timeout if asked.debug is None else None,
            factors=None if case is None else case.factors,
            failures=failures,
            stores=stores,
        )
    values, wrong = "right", ""
    if case is None:
        values, wrong = run_report.compared(result, target.function, options, path)
    else:
        try:
            case.check(result)
        except Verdict as verdict:
            values, wrong = "wrong", verdict.sentence
    with waiting("timing the run on the machine"):
        if asked.json:
            report = run_report.as_json(result, name, values)
        else:
            shown = f"{name} ({case.told})" if case is not None and case.told else name
            # `shown` says a case's details, and its sentence follows the report.
            more = (options, path, wrong) if case is None else (None, path)
            text = run_report.text(result, shown, values, *more)
    if asked.json:
        print_json({**report, "verdict": wrong or None})
    else:
        print(text)
        if target.function is None and run_report.nothing_happened(result):
            functions = ", ".join(inputs.functions(target.folder / target.file)) or "none"
            print(
                f"{name} was run as a script: it printed and sent nothing. To call a function of "
                f"it: `ringside run {name}:FUNCTION` (functions of comm: {functions})."
            )
        if case is not None and wrong:
            print(f"\n{wrong}")
    lines = _leave_files(asked, result)
    if not asked.json:
        print("\n".join(lines), end="\n" if lines else "")
    return 1 if result.error or values == "wrong" else 0


def _can_debug(rank: int, world_size: int) -> None:
    """Refuse a rank that there isn't, and a debugger that nobody could type to."""
    if not 0 <= rank < world_size:
        raise TargetError(f"--debug {rank}: the ranks are 0 to {world_size - 1}.")
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        raise TargetError("--debug needs a terminal: type this command in one.") from None


def _leave_files(asked: argparse.Namespace, result: Result) -> list[str]:
    """Write what was asked for of a run; say where each is, and what opens it."""
    rows = []
    if asked.trace:
        result.trace.save(asked.trace)
        rows.append(f"trace: {asked.trace} (ringside.Trace.load reads it)")
    if asked.perfetto:
        from ringside.timing import perfetto

        perfetto.export(result.timeline, asked.perfetto)
        rows.append(f"timeline: {asked.perfetto} (open it at https://ui.perfetto.dev)")
    if asked.svg:
        from ringside.draw import live_svg
        from ringside.files import write_output

        write_output(asked.svg, live_svg(result.timeline).encode())
        rows.append(f"picture: {asked.svg} (open it in a browser)")
    if asked.simgrid:
        from ringside import output_folder
        from ringside.timing import simgrid

        output_folder.begin(asked.simgrid, "ringside run --simgrid")
        simgrid.export(result.trace, result.machine, asked.simgrid)
        rows.append(f"for SimGrid: {asked.simgrid} (`cd {asked.simgrid} && sh command` replays it)")
    return rows
