"""``%load_ext ringside``: what a notebook's cells may begin with.

    %%module ring.py                     the cell is a module: it is written into this file, and
    def all_reduce(comm, x): ...         what somebody else wrote there is kept

    %%ranks 4 --machine zaratan          the cell is a script on simulated ranks
    from mpi4py import MPI
    print("rank", MPI.COMM_WORLD.rank)

Every rank is a fresh process: the cell sees the files beside the notebook, not its variables.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from ringside.checking import module_file
from ringside.checking.assertions import notes
from ringside.commands import command
from ringside.errors import RankError
from ringside.session.session import Result, Session


class _Parser(argparse.ArgumentParser):
    """A parser that raises what it can't read, and prints nothing."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


_PARSER = _Parser(prog="%%ranks", add_help=False)
_PARSER.add_argument("world_size", metavar="WORLD_SIZE", type=int)
_PARSER.add_argument("--machine", default="textbook")
_PARSER.add_argument("--seed", type=int)
_PARSER.add_argument("--timeout", type=float, default=60.0)
command.add_failures(_PARSER)
_PARSER.add_argument("--no-timeline", action="store_true")


def run_cell(line: str, cell: str) -> Result | None:
    """Run a cell on ranks; print what they printed, and why they stopped.

    Returns None, with a word on usage, where the line can't be read.
    """
    try:
        args = _PARSER.parse_args(shlex.split(line))
    except ValueError as error:
        print(f"%%ranks: {error}")
        print("usage: %%ranks WORLD_SIZE [--machine NAME] [--seed N] [--timeout S] [--no-timeline]")
        print("       [--kill WHO@WHEN] [--lost] [--hang WHO@WHEN] [--slow RANKxFACTOR]")
        print("       [--flip RANK#MESSAGE:BIT]")
        return None
    folder = Path.cwd().resolve()
    with _script(folder, cell) as name, Session(folder, machine=args.machine) as session:
        result = session.call(
            name, args.world_size, [], seed=args.seed, timeout_s=args.timeout,
            failures=command.failures(args),
        )  # fmt: skip
    for rank, printed in enumerate(result.output):
        for text in printed.splitlines():
            print(f"[{rank}] {text}")
    if result.error is None and "kind" in result.notes:
        print(result.notes["kind"].replace(name, "cell"))
    if result.error is not None:
        lines = [f"{type(result.error).__name__}: {result.error}", *notes(result)]
        print("\n".join(lines).replace(name, "cell"))
        if isinstance(result.error, RankError) and result.error.type_name == "NameError":
            print("Ranks are fresh processes: what the cell uses, it imports or defines itself.")
    elif not args.no_timeline and any(result.trace.ops):
        _show(result)
    return result


@contextlib.contextmanager
def _script(folder: Path, cell: str) -> Iterator[str]:
    """The cell as a file beside the modules, which it may import."""
    number = 0
    while (folder / f"ranks_cell_{number}.py").exists():
        number += 1
    path = folder / f"ranks_cell_{number}.py"
    path.write_text(f"\n{cell}", encoding="utf-8")  # line 1 is the %%ranks line
    try:
        yield path.name
    finally:
        path.unlink(missing_ok=True)


def _show(result: Result) -> None:
    from IPython.display import display

    display(result.timeline)  # type: ignore[no-untyped-call]


def load_ipython_extension(shell: Any) -> None:
    """Register ``%%module`` and ``%%ranks``."""
    from IPython.core.error import UsageError

    def ranks(line: str, cell: str) -> None:
        run_cell(line, cell)

    def module(line: str, cell: str) -> None:
        try:
            print(module_file.write(Path.cwd(), line.strip().strip("'\""), cell))
        except module_file.ModuleFileError as error:
            # An error in one line, and later cells don't run on a module that isn't there.
            raise UsageError(f"%%module: {error}") from None

    shell.register_magic_function(ranks, magic_kind="cell", magic_name="ranks")
    shell.register_magic_function(module, magic_kind="cell", magic_name="module")
