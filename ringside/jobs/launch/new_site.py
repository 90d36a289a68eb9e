"""Show a site, and write the file of a new one: ``ringside site show`` and ``ringside site new``.

The new file says what was answered differently from ``generic.toml``, and nothing else; the
answers' source is whoever gave them.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ringside.jobs.launch import sites
from ringside.jobs.launch.sites import Site, SiteError, Value, Variable

# What is asked, in this order; everything else has a default that suits most clusters.
ASKED = (
    "account",
    "partition",
    "gpu_partition",
    "gpu_request",
    "time",
    "ranks_per_node",
    "cpus_per_gpu",
    "memory_per_cpu",
    "modules",
    "gpu_modules",
    "environment",
    "launcher",
    "torch_launcher",
    "exports",
    "gpu_exports",
    "scratch",
    "login_host",
)

Ask = Callable[[str], str]


def shown(site: Site) -> str:
    """All variables of a site with help and source, for people."""
    lines = [f"{site.name}: {site.description}", ""]
    for name, variable in site.variables.items():
        lines += [f"{name} = {_as_text(variable.value)}", f"    {variable.help}"]
        if variable.source:
            lines.append(f"    source: {variable.source}")
    return "\n".join(lines)


def as_json(site: Site) -> dict[str, Any]:
    """The same for programs."""
    variables = {
        name: {"value": variable.value, "help": variable.help, "source": variable.source}
        for name, variable in site.variables.items()
    }
    return {"name": site.name, "description": site.description, "variables": variables}


def ask_on_terminal(question: str) -> str:
    """Ask a person; an empty answer is the default.

    Raises:
        SiteError: nobody is there to answer.
    """
    try:
        print(question, end="", file=sys.stderr, flush=True)
        return input()
    except EOFError:
        print(file=sys.stderr)
        raise SiteError("the answers ended: --yes takes the defaults, --set the others.") from None


def write(
    name: str, changes: Sequence[str] = (), description: str | None = None, ask: Ask | None = None
) -> Path:
    """Write a site's file; whole or not at all, and never over another file.

    Args:
        name: the file, with or without ``.toml``.
        changes: answers as NAME=VALUE; what they name is not asked.
        description: the site in a few words.
        ask: gets a question and returns the answer, empty for the default; None: nothing is asked.

    Raises:
        SiteError: an answer that is none, or there is such a file or such a site already.
    """
    path = Path(name if name.endswith(".toml") else f"{name}.toml")
    if path.exists():
        raise SiteError(f"{path} is there already: take another name, or remove it first.")
    if path.stem in sites.names():
        raise SiteError(f"{path.stem} is a site of the kit: take another name.")
    variables = sites.generic_variables()
    answers = _given(variables, changes)
    if ask is not None:
        print("An empty answer takes the value in brackets.", file=sys.stderr)
        if description is None:
            description = ask("description, in a few words [a cluster with Slurm]: ").strip()
        for variable in variables.values():
            if variable.name in ASKED and variable.name not in answers:
                answers[variable.name] = _answer(variable, ask)
    text = _toml(path.stem, description or "a cluster with Slurm", variables, answers)
    Site.parse(text.encode(), str(path), variables)
    _write_new(path, text.encode())
    return path


def _given(known: dict[str, Variable], changes: Sequence[str]) -> dict[str, Value]:
    """The answers that stand on the command line; the same checks as for a launch."""
    site = Site(sites.GENERIC, "", "slurm", known)
    settings = site.settings(changes, {})
    return {change.partition("=")[0]: settings[change.partition("=")[0]] for change in changes}


def _answer(variable: Variable, ask: Ask) -> Value:
    """Ask until the answer is one."""
    while True:
        text = ask(f"{variable.help}\n  {variable.name} [{_as_text(variable.value)}]: ").strip()
        if not text:
            return variable.value
        try:
            return variable.parse(text)
        except SiteError as error:
            print(f"  {error}", file=sys.stderr)


def _as_text(value: Value) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def _toml(
    name: str, description: str, known: dict[str, Variable], answers: dict[str, Value]
) -> str:
    today = datetime.date.today().isoformat()
    lines = [
        f"# Written by `ringside site new` on {today}. What is not here is as in the kit's",
        f"# generic.toml: `ringside site show {sites.GENERIC}` lists it.",
        f"name = {_quoted(name)}",
        f"description = {_quoted(description)}",
        'scheduler = "slurm"',
    ]
    for key, variable in known.items():
        value = answers.get(key, variable.value)
        if value == variable.value:
            continue
        items = f"[{', '.join(_quoted(item) for item in value)}]" if isinstance(value, list) else ""
        literal = items or (str(value) if isinstance(value, int) else _quoted(str(value)))
        source = f"answered on {today}"
        lines += ["", f"[variables.{key}]", f"value = {literal}", f"source = {_quoted(source)}"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A basic string of TOML: its escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _write_new(path: Path, data: bytes) -> None:
    """Write under a temporary name, then link: unlike a rename, a link replaces nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(data)
        os.link(part, path)
    except FileExistsError:
        raise SiteError(
            f"{path} is there already: take another name, or remove it first."
        ) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
