"""The student's command line.

Exit status 0: done; 1: the student's code failed; 2: asked wrongly, or this kit failed.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ringside.commands import measured as cli_measured
from ringside.errors import Interrupted, RingsideError, RunError, TargetError

if TYPE_CHECKING:
    from ringside.launch.outcome import Outcome
    from ringside.session.session import Result

_CHECK = """\
examples:
  ringside check                 all modules of the assignment's folder
  ringside check ring star       these two
  ringside check ring --test ring_bytes      one test
  ringside check --timeout 60    each call on ranks has a minute: a slow machine
  ringside check --json
"""
_RUN = """\
examples:
  ringside run ring.py:all_reduce --ranks 8
  ringside run ring.py:all_reduce --ranks 5 --machine zaratan -- --n 11 --dtype float32
  ringside run ring.py:all_reduce --ranks 5 --members 3,0,4     comm is a part of the world
  ringside run hello.py --ranks 4 -- any words     as `mpiexec -n 4 python hello.py any words`

A function gets (comm, ...): x is a vector of --n whole numbers, different on each rank
(--n 16 --dtype float64 --seed 0); any other parameter is given as --NAME VALUE.
"""
_LAUNCH = """\
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
Leaves run.json and run.trace.gz in the current folder. Lengths: --n, several times if you like.
Exit status 0: done; 1: the student's file failed; 2: the cluster did, or the command was wrong.
"""
_SITE = """\
examples:
  ringside site list                 the sites that come with the kit
  ringside site show zaratan         its variables, what they mean, where the facts come from
  ringside site new mine.toml        asks what differs on your cluster, and writes the file
  ringside site new mine.toml --yes --set account=NAME --set modules=gcc,openmpi     asks nothing

`ringside launch --site mine.toml` takes the file.
"""
_HANDIN = """\
examples:
  ringside handin                    validate, then hand in (nbgrader's exchange, else a zip)
  ringside handin --from-notebook    first write the files from the notebook's cells
  ringside handin --from-files       first write the notebook's cells from the files
"""


def build_parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = argparse.ArgumentParser(
        prog="ringside",
        description="Write a parallel scheme, run it on simulated or real ranks, hand it in.",
        epilog="`ringside COMMAND --help` has examples. Exit status 0: done; 1: your code failed; "
        "2: the command was wrong, or something on this machine is.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_check(commands)
    _add_run(commands)
    _add_launch(commands)
    _add_site(commands)
    _add_handin(commands)
    cli_measured.add_fit(
        _add(commands, "fit", "measure a machine and write its model", cli_measured.FIT)
    )
    cli_measured.add_predict(
        _add(commands, "predict", "replay a real run on a machine's model", cli_measured.PREDICT)
    )
    cli_measured.add_doctor(
        _add(
            commands,
            "doctor",
            "what works on this machine, and how to mend what doesn't",
            "examples:\n  ringside doctor\n  ringside doctor --json\n"
            "  mpiexec -n 2 ringside doctor --cluster\n"
            "  srun --mpi=pmi2 ringside doctor --cluster --site zaratan\n",
        )
    )
    return parser


def _add(
    commands: Any, name: str, summary: str, examples: str, *, words: bool = False
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        usage=f"ringside {name} [OPTIONS] FILE[:FUNCTION] [-- ARGUMENTS]" if words else None,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    return parser


def _add_sync(parser: argparse.ArgumentParser) -> None:
    sync = parser.add_mutually_exclusive_group()
    sync.add_argument(
        "--from-notebook",
        action="store_true",
        help="first write the files from the notebook's cells",
    )
    sync.add_argument(
        "--from-files", action="store_true", help="first write the notebook's cells from the files"
    )


def _add_check(commands: Any) -> None:
    parser = _add(commands, "check", "run the public tests of the modules here", _CHECK)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as ring; none: all")
    parser.add_argument(
        "--test", default="", metavar="NAME", help="only the test of this name, such as ring_bytes"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="real seconds of one call on ranks (default: as many as the grader gives)",
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="the assignment's folder (default: here)"
    )
    _add_sync(parser)


def _add_run(commands: Any) -> None:
    parser = _add(
        commands, "run", "run a function or a script on simulated ranks", _RUN, words=True
    )
    parser.add_argument("target", metavar="FILE[:FUNCTION]")
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
    parser.add_argument(
        "--check",
        action="append",
        default=[],
        metavar="CHECK",
        help="look at what a test looks at: own, inputs, bytes=3:192, time=..., part, ...",
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="real seconds (default 60)"
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


def _add_launch(commands: Any) -> None:
    parser = _add(
        commands, "launch", "run on real ranks, here or on a cluster", _LAUNCH, words=True
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


def _add_site(commands: Any) -> None:
    parser = _add(commands, "site", "list, show and write descriptions of clusters", _SITE)
    parser.add_argument("action", choices=["list", "show", "new"])
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="of a site; for `new` the file to write, NAME.toml"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="new: the answer to the question for this variable",
    )
    parser.add_argument("--description", help="new: the answer to that question")
    parser.add_argument("--yes", action="store_true", help="new: ask nothing, take the defaults")


def _add_handin(commands: Any) -> None:
    parser = _add(commands, "handin", "validate, and hand the assignment in", _HANDIN)
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="the assignment's folder (default: here)"
    )
    parser.add_argument(
        "--zip", action="store_true", help="make the zip even if an exchange is configured"
    )
    parser.add_argument("--dry-run", action="store_true", help="validate only")
    _add_sync(parser)


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    given = list(sys.argv[1:] if words is None else words)
    cut = given.index("--") if "--" in given else len(given)
    asked, unknown = build_parser().parse_known_args(given[:cut])
    asked.given, asked.words = given[:cut], given[cut + 1 :]
    if unknown:
        print(f"ringside {asked.command}: {_unknown(asked, unknown)}", file=sys.stderr)
        return 2
    handlers = {
        "check": _check,
        "run": _run,
        "launch": _launch,
        "site": _site,
        "handin": _handin,
        "doctor": _doctor,
        **cli_measured.handlers(),
    }
    try:
        return handlers[asked.command](asked)
    except RunError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader, such as `head`, had enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # nothing more can be said
        return 0
    except RingsideError as error:
        print(f"ringside: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"ringside: {_of_the_system(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        start = "\n" if sys.stderr.isatty() else ""  # the terminal's own ^C stands there
        said = stop if isinstance(stop, Interrupted) else "stopped."
        print(f"{start}ringside: {said}", file=sys.stderr)
        return 130


def _of_the_system(error: OSError) -> str:
    """What this machine refused, and the way round where a folder can't be written."""
    if error.filename is None or error.strerror is None:
        return str(error)
    said = f"{os.fspath(error.filename)}: {error.strerror}."
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        said += " Is the folder not yours? Work in a copy of it (`cp -r`)."
    return said


def _unknown(asked: argparse.Namespace, unknown: Sequence[str]) -> str:
    """What to do about options that the command doesn't have."""
    words = " ".join(unknown)
    if getattr(asked, "sweep", False) and words[:1].isdigit():
        return (
            f"--sweep takes no numbers ({words}): it runs on 1, 2, 4, ... ranks, up to --nodes "
            "times ranks_per_node (`--set ranks_per_node=8`)."
        )
    if asked.command in ("run", "launch") and asked.target:
        return (
            f"it has no {words}. What the function or script is given stands after ` -- `: "
            f"`ringside {asked.command} {asked.target} -- {words}`."
        )
    return f"it has no {words}; `ringside {asked.command} --help` lists what it has."


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))


def _sync(asked: argparse.Namespace, modules: Sequence[str]) -> bool:
    """Make notebook and files agree as asked; False: they differ and nothing was asked."""
    from ringside.checking import notebook

    found = notebook.differences(asked.folder, modules)
    if not found:
        return True
    if not (asked.from_notebook or asked.from_files):
        command = shlex.join(["ringside", *asked.given])
        print(notebook.refusal(found, command), file=sys.stderr)
        return False
    done = notebook.write_files(found) if asked.from_notebook else notebook.write_cells(found)
    for line in done:
        print(line, file=sys.stderr)
    return True


def _check(asked: argparse.Namespace) -> int:
    from ringside.checking import public_tests

    public_tests.find(asked.folder)  # before anything is said about notebooks
    modules = [name.removesuffix(".py") for name in asked.modules]
    if not _sync(asked, modules):
        return 2
    timeout_s = public_tests.CALL_TIMEOUT_S if asked.timeout is None else asked.timeout
    if not timeout_s > 0:
        raise TargetError(f"--timeout ({timeout_s:g}) must be more than 0 seconds.")
    report = public_tests.run(asked.folder, modules, asked.test, timeout_s=timeout_s)
    if asked.json:
        _print_json(report.as_json())
    else:
        print(public_tests.text(report))
    return 0 if report.passed and report.modules else 1


def _run(asked: argparse.Namespace) -> int:
    from ringside.checking import inputs, rerun, run_report
    from ringside.session.session import Session, Target
    from ringside.timing.machine import Machine

    if not asked.timeout > 0:
        raise TargetError(f"--timeout ({asked.timeout:g}) must be more than 0 seconds.")
    target = Target.parse(asked.target)
    options = inputs.parse_options(asked.words) if target.function else None
    if asked.members and target.function is None:
        raise TargetError("--members makes the comm that a function is given; a script has none.")
    args: Any = list(asked.words)
    if target.function and options:
        size = len(asked.members) if asked.members else asked.ranks
        args = inputs.arguments(target.folder / target.file, target.function, size, options)
    name = f"{target.file}:{target.function}" if target.function else target.file
    with Session(target.folder, machine=Machine.load(asked.machine)) as session:
        run = rerun.made(
            session,
            name,
            args,
            machine=session.machine,
            members=asked.members,
            world_size=asked.ranks,
            seed=asked.seed,
            timeout_s=asked.timeout,
        )
        wrong = None
        if options is None and asked.check:
            raise TargetError("--check looks at the run of a function: name FILE:FUNCTION.")
        if options is None:
            result = run()
        else:
            case = run_report.case(target, size, options)
            path = target.folder / target.file
            result, wrong = rerun.judge(run, case, asked.check, path, str(target.function), options)
    values = run_report.verdict(result, target.function, options, target.folder / target.file)
    if asked.json:
        found = wrong.sentence if wrong is not None else None
        _print_json({**run_report.as_json(result, name, values), "verdict": found})
    else:
        print(run_report.text(result, name, values, options, target.folder / target.file))
        if target.function is None and run_report.nothing_happened(result):
            functions = ", ".join(inputs.functions(target.folder / target.file)) or "none"
            print(
                f"{name} was run as a script: it printed and sent nothing. To call a function of "
                f"it: `ringside run {name}:FUNCTION` (functions of comm: {functions})."
            )
        if wrong is not None:
            print(f"\n{wrong.sentence}")
    left = _leave_files(asked, result)
    if not asked.json:
        print("\n".join(left), end="\n" if left else "")
    return 1 if result.error or wrong is not None or values == "wrong" else 0


def _leave_files(asked: argparse.Namespace, result: Result) -> list[str]:
    """Write what was asked for of a run; say where each is, and what opens it."""
    left = []
    if asked.trace:
        result.trace.save(asked.trace)
        left.append(f"trace: {asked.trace} (ringside.Trace.load reads it)")
    if asked.perfetto:
        from ringside.timing import perfetto

        perfetto.export(result.timeline, asked.perfetto)
        left.append(f"timeline: {asked.perfetto} (open it at https://ui.perfetto.dev)")
    if asked.svg:
        from ringside.draw import timeline_svg

        asked.svg.write_text(timeline_svg(result.timeline), encoding="utf-8")
        left.append(f"picture: {asked.svg} (open it in a browser)")
    if asked.simgrid:
        from ringside.timing import simgrid

        simgrid.export(result.trace, result.machine, asked.simgrid)
        left.append(f"for SimGrid: {asked.simgrid} (`cd {asked.simgrid} && sh command` replays it)")
    return left


def _launch(asked: argparse.Namespace) -> int:
    from ringside.checking import inputs
    from ringside.launch import launch
    from ringside.launch.sites import Site
    from ringside.session.session import Target

    if asked.follow:
        return _say_outcome(asked, launch.follow(asked.follow, asked.out, _say_to_stderr))
    site = Site.load(asked.site)
    if asked.nodes < 1:
        raise launch.LaunchError(f"--nodes ({asked.nodes}) must be at least 1.")
    if asked.gpus_per_node < 0:
        raise launch.LaunchError(f"--gpus-per-node ({asked.gpus_per_node}) must be at least 0.")
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
    lengths, dtype, words = launch.options_of(asked.words)
    target = Target.parse(asked.target)
    script = target.function is None
    path = target.folder / target.file
    if script and inputs.only_defines(path) and (functions := inputs.functions(path)):
        raise TargetError(
            f"{target.file} only defines functions, so as a script it does nothing. Name one: "
            f"`ringside launch {target.file}:FUNCTION` (functions of comm: {', '.join(functions)})."
        )
    job = launch.Launch(
        target,
        site,
        settings,
        asked.nodes,
        lengths or launch.LENGTHS,
        dtype,
        asked.words if script else words,
        asked.out,
        asked.gpus_per_node,
        asked.sweep,
    )
    if asked.dry_run:
        job.check()
        print(job.script(), end="")
        return 0
    # What ranks print stands on standard output, unless a program reads that.
    printed = sys.stderr if asked.json else sys.stdout
    outcome = launch.run(job, _say_to_stderr, wait=not asked.no_wait, printed=printed)
    return _say_outcome(asked, outcome)


def _say_outcome(asked: argparse.Namespace, outcome: Outcome) -> int:
    if asked.json:
        _print_json(outcome.as_json())
    else:
        print(outcome.text())
    return outcome.exit_status


def _jupyter(asked: argparse.Namespace, site: Any, settings: Any) -> int:
    from ringside.launch.jupyter import Jupyter

    if asked.target is not None or asked.nodes != 1:
        raise TargetError("--jupyter runs JupyterLab on one node: give it no file and no --nodes.")
    jupyter = Jupyter(site, settings, asked.gpus_per_node, asked.out)
    if asked.dry_run:
        print(jupyter.script(), end="")
        return 0
    _say_to_stderr(jupyter.run(_say_to_stderr, wait=not asked.no_wait))
    return 0


def _site(asked: argparse.Namespace) -> int:
    from ringside.launch import new_site, sites

    if asked.action == "list":
        known = {name: sites.Site.load(name).description for name in sites.names()}
        if asked.json:
            _print_json(known)
        for name, description in () if asked.json else known.items():
            print(f"{name:<12}  {description}")
        return 0
    if asked.name is None:
        raise TargetError(f"which? `ringside site {asked.action} NAME`; `ringside site list`.")
    if asked.action == "show":
        site = sites.Site.load(asked.name)
        if asked.json:
            _print_json(new_site.as_json(site))
        else:
            print(new_site.shown(site))
        return 0
    ask = None if asked.yes else new_site.ask_on_terminal
    path = new_site.write(asked.name, asked.set, asked.description, ask)
    print(
        f"{path} is written: `ringside launch FILE:FUNCTION --site {path} --dry-run` shows a job."
    )
    return 0


def _say_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _handin(asked: argparse.Namespace) -> int:
    from ringside.handin import handin

    if not _sync(asked, ()):
        return 2
    receipt = handin.hand_in(asked.folder, force_zip=asked.zip, dry_run=asked.dry_run)
    if asked.json:
        _print_json(receipt.as_json())
    else:
        print(receipt.text())
    return 0


def _doctor(asked: argparse.Namespace) -> int:
    from ringside.doctor import this_machine as doctor

    if asked.cluster:
        return cli_measured.doctor_cluster(asked)
    findings = doctor.examine()
    if asked.json:
        _print_json([finding.as_json() for finding in findings])
    else:
        print(doctor.text(findings))
    return 0 if all(finding.works for finding in findings if finding.needed) else 2
