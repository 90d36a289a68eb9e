"""`ringside completion`: what a shell needs to complete commands, options and files.

The script is made once, from the parser, and the shell reads it by itself: completing starts no
Python, and no command starts later because of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ringside.commands.command import add
from ringside.errors import TargetError

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """\
examples:
  ringside completion bash

"""
HOW = """\
bash, and a new terminal (with the package bash-completion):
  mkdir -p ~/.local/share/bash-completion/completions
  {prog} completion bash > ~/.local/share/bash-completion/completions/{prog}
bash without that package:
  {prog} completion bash > ~/.{prog}-completion
  echo 'source ~/.{prog}-completion' >> ~/.bashrc
zsh:
  mkdir -p ~/.zfunc && {prog} completion zsh > ~/.zfunc/_{prog}
  echo 'fpath+=~/.zfunc; autoload -U compinit; compinit' >> ~/.zshrc
fish:
  {prog} completion fish > ~/.config/fish/completions/{prog}.fish
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(
        commands, "completion", "print what a shell needs to complete commands",
        EXAMPLES + HOW.format(prog="ringside"),
    )  # fmt: skip
    parser.add_argument("shell", choices=SHELLS)


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.jobs.launch import sites
    from ringside.timing import machine

    if asked.json:
        raise TargetError("a completion is for a shell: omit --json.")
    machines = sorted(path.stem for path in machine.machines_folder().glob("*.toml"))
    choices = {"site": sites.names(), "machine": machines, "base": machines}
    print(script(asked.parser, asked.shell, choices))
    return 0


def script(parser: argparse.ArgumentParser, shell: str, known: Mapping[str, Sequence[str]]) -> str:
    """What a shell needs for a command line.

    Args:
        parser: of the command line.
        shell: one of `SHELLS`.
        known: values of options and positions by their name, which may also be others.
    """
    import shtab

    for action in _actions(parser):
        if action.choices is None and action.dest in known:
            action.choices = list(known[action.dest])
        elif action.type is Path or action.metavar in ("FILE[:FUNCTION]", "MODULE"):
            folder = str(action.metavar) == "FOLDER" or action.dest in ("folder", "out")
            action.complete = shtab.DIRECTORY if folder else shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from _actions(subparser)
        else:
            yield action
