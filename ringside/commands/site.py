"""`ringside site`: list, show and write descriptions of clusters."""

from __future__ import annotations

import argparse
from typing import Any

from ringside.commands.command import add, print_json
from ringside.errors import TargetError

EXAMPLES = """\
examples:
  ringside site list                 the sites that come with the kit
  ringside site show zaratan         its variables, what they mean, where the facts come from
  ringside site new mine.toml        asks what differs on your cluster, and writes the file
  ringside site new mine.toml --yes --set account=NAME --set modules=gcc,openmpi     asks nothing

`ringside launch --site mine.toml` takes the file.
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(commands, "site", "list, show and write descriptions of clusters", EXAMPLES)
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


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.jobs.launch import new_site, sites

    if asked.action == "list":
        descriptions = {name: sites.Site.load(name).description for name in sites.names()}
        if asked.json:
            print_json(descriptions)
        for name, description in () if asked.json else descriptions.items():
            print(f"{name:<12}  {description}")
        return 0
    if asked.name is None:
        raise TargetError(f"which? `ringside site {asked.action} NAME`; `ringside site list`.")
    if asked.action == "show":
        site = sites.Site.load(asked.name)
        if asked.json:
            print_json(new_site.as_json(site))
        else:
            print(new_site.shown(site))
        return 0
    ask = None if asked.yes else new_site.ask_on_terminal
    path = new_site.write(asked.name, asked.set, asked.description, ask)
    print(
        f"{path} is written: `ringside launch FILE:FUNCTION --site {path} --dry-run` shows a job."
    )
    return 0
