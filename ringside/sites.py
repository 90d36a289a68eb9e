"""Where a job can run: one TOML file a site, in ``cluster/sites/``.

::

    name = "zaratan"
    description = "..."
    scheduler = "slurm"                # or "none": mpiexec on this machine
    template = "mpi4py.sbatch.j2"      # in cluster/templates/

    [variables.partition]
    value = "standard"                 # its type is the variable's type
    help = "..."
    source = "..."                     # where a fact about the site comes from
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ringside.errors import RingsideError
from ringside.machine import cluster_folder

Value = str | int | float | list[str]


class SiteError(RingsideError):
    """A site or a variable of a site that doesn't exist or has a wrong value."""


@dataclass(frozen=True)
class Variable:
    """What differs between sites, courses and users."""

    name: str
    value: Value
    help: str
    source: str = ""

    def parse(self, text: str) -> Value:
        """Read a new value of this variable's type.

        Raises:
            SiteError: a number is wanted, and the text is none.
        """
        if isinstance(self.value, list):
            return [item for item in text.split(",") if item]
        if isinstance(self.value, str):
            return text
        try:
            number = type(self.value)(text)
        except ValueError:
            raise SiteError(f"{self.name}={text}: a whole number is wanted.") from None
        if number < 1:
            raise SiteError(f"{self.name}={text}: must be at least 1.")
        return number


@dataclass(frozen=True)
class Site:
    """A machine that jobs run on, and the variables of its jobs."""

    name: str
    description: str
    scheduler: str
    template: str
    variables: Mapping[str, Variable]

    @classmethod
    def load(cls, name: str) -> Site:
        """Read a site by its name or from a TOML file.

        Raises:
            SiteError: there is no such site, or the file is no site.
        """
        path = Path(name) if name.endswith(".toml") else cluster_folder() / "sites" / f"{name}.toml"
        if not path.is_file():
            raise SiteError(
                f"no site {name!r}: there are {', '.join(names())}; or give a .toml file."
            )
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
            variables = {
                key: Variable(key, entry["value"], entry["help"], entry.get("source", ""))
                for key, entry in table["variables"].items()
            }
            return cls(
                table["name"],
                table["description"],
                table["scheduler"],
                table.get("template", ""),
                variables,
            )
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise SiteError(f"{path} is no site: {error}") from None

    def settings(
        self, changes: Sequence[str] = (), environment: Mapping[str, str] = os.environ
    ) -> dict[str, Value]:
        """The values: the site's, then RINGSIDE_NAME of the environment, then ``changes``.

        Raises:
            SiteError: a change is not of the form NAME=VALUE or names no variable.
        """
        values = {name: variable.value for name, variable in self.variables.items()}
        for name, variable in self.variables.items():
            given = environment.get(f"RINGSIDE_{name.upper()}")
            if given is not None:
                values[name] = variable.parse(given)
        for change in changes:
            name, sign, text = change.partition("=")
            if not sign or name not in self.variables:
                known = ", ".join(self.variables)
                raise SiteError(
                    f"{change!r}: site {self.name} has the variables {known} (NAME=VALUE)."
                )
            values[name] = self.variables[name].parse(text)
        return values

    def render(self, values: Mapping[str, object]) -> str:
        """Fill the site's job template in; every name in it must have a value."""
        import jinja2

        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(cluster_folder() / "templates"),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        environment.filters["quote"] = lambda value: shlex.quote(str(value))
        return environment.get_template(self.template).render(**values)


def names() -> list[str]:
    """The sites that come with the kit."""
    return sorted(path.stem for path in (cluster_folder() / "sites").glob("*.toml"))
