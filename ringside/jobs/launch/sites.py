"""Where a job can run: one TOML file a site, in ``cluster/sites/``.

``generic.toml`` has every variable, with its help and a value that suits most clusters; the
file of a site says only what differs there::

    name = "example"
    description = "Example University's cluster"
    scheduler = "slurm"                # or "none": bash runs the script on this machine

    [variables.partition]
    value = "standard"                 # of the type that generic.toml gives it
    source = "https://..."             # where a fact about the site comes from

Nothing else in the kit knows a site: the templates take all values from here.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ringside.errors import RingsideError
from ringside.kit import cluster_folder

Value = str | int | float | list[str]

GENERIC = "generic"
SCHEDULERS = ("slurm", "none")


class SiteError(RingsideError):
    """A site or a variable of a site that doesn't exist or has a wrong value."""


@dataclass(frozen=True)
class Variable:
    """What differs between sites, courses and users."""

    name: str
    value: Value
    help: str
    source: str = ""
    choices: tuple[str, ...] = ()  # none: any
    minimum: int = 1  # of a number

    def parse(self, text: str) -> Value:
        """Read a new value of this variable's type; a list is separated by commas.

        Raises:
            SiteError: a number is wanted, and the text is none; or it is none of the choices.
        """
        if isinstance(self.value, list):
            return [item for item in text.split(",") if item]
        if isinstance(self.value, str):
            return self.checked(text)
        try:
            return self.checked(type(self.value)(text))
        except ValueError:
            raise SiteError(f"{self.name}={text}: a whole number is wanted.") from None

    def checked(self, value: Any) -> Value:
        """Return a value of this variable.

        Raises:
            SiteError: it has another type, is too small, or none of the choices.
        """
        if type(value) is not type(self.value):
            type_name = {str: "text", int: "a whole number", list: "a list"}[type(self.value)]
            raise SiteError(f"{self.name} = {value!r}: {type_name} is wanted.")
        if isinstance(value, int) and value < self.minimum:
            raise SiteError(f"{self.name}={value}: must be at least {self.minimum}.")
        if self.choices and value not in self.choices:
            raise SiteError(f"{self.name}={value}: must be one of {', '.join(self.choices)}.")
        if isinstance(value, list) and not all(isinstance(item, str) for item in value):
            raise SiteError(f"{self.name} = {value!r}: a list of texts is wanted.")
        result: Value = value
        return result


@dataclass(frozen=True)
class Site:
    """A machine that jobs run on, and the variables of its jobs."""

    name: str
    description: str
    scheduler: str
    variables: Mapping[str, Variable]

    @classmethod
    def load(cls, name: str) -> Site:
        """Read a site by its name or from a TOML file.

        Raises:
            SiteError: there is no such site, or the file is no site.
        """
        path = Path(name) if name.endswith(".toml") else folder() / f"{name}.toml"
        if not path.is_file():
            raise SiteError(
                f"no site {name!r}: there are {', '.join(names())}; or give a .toml file "
                "(`ringside site new` writes one)."
            )
        return cls.parse(path.read_bytes(), str(path), generic_variables())

    @classmethod
    def parse(cls, data: bytes, where: str, known: Mapping[str, Variable]) -> Site:
        """Read a site's file, whose variables are among the ``known`` ones.

        Raises:
            SiteError: the file is no site; ``where`` names it.
        """
        try:
            table = tomllib.loads(data.decode("utf-8"))
            entries = table.get("variables", {})
            variables = {
                key: variable if key not in entries else _changed(variable, entries[key])
                for key, variable in known.items()
            }
            scheduler = table["scheduler"]
            site = cls(table["name"], table["description"], scheduler, variables)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise SiteError(f"{where} is no site: {error}") from None
        except SiteError as error:
            raise SiteError(f"{where}: {error}") from None
        if scheduler not in SCHEDULERS:
            raise SiteError(f"{where}: scheduler ({scheduler}) must be slurm or none.")
        strangers = sorted(set(entries) - set(known))
        if strangers:
            raise SiteError(
                f"{where}: there is no variable {strangers[0]!r}; `ringside site show "
                f"{GENERIC}` lists them."
            )
        return site

    def settings(
        self, changes: Sequence[str] = (), environment: Mapping[str, str] = os.environ
    ) -> dict[str, Value]:
        """The values: the site's, then RINGSIDE_NAME of the environment, then ``changes``.

        Raises:
            SiteError: a change is not of the form NAME=VALUE or names no variable.
        """
        values = {name: variable.value for name, variable in self.variables.items()}
        for name, variable in self.variables.items():
            env_value = environment.get(f"RINGSIDE_{name.upper()}")
            if env_value is not None:
                values[name] = variable.parse(env_value)
        for change in changes:
            name, sign, text = change.partition("=")
            if not sign or name not in self.variables:
                all_names = ", ".join(self.variables)
                raise SiteError(
                    f"{change!r}: site {self.name} has the variables {all_names} (NAME=VALUE)."
                )
            values[name] = self.variables[name].parse(text)
        return values

    def render(self, template: str, values: Mapping[str, object]) -> str:
        """Fill a job template of ``cluster/templates/`` in; every name in it must have a value."""
        import jinja2

        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(cluster_folder() / "templates"),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        # No autoescaping, which is for HTML: templates quote values for the shell by this filter.
        environment.filters["quote"] = lambda value: shlex.quote(str(value))
        text = environment.get_template(template).render(scheduler=self.scheduler, **values)
        return text.rstrip("\n") + "\n"


def _changed(variable: Variable, own: Mapping[str, Any]) -> Variable:
    """A variable of generic.toml as a site's file has it; what generic says of it has no source."""
    strangers = sorted(set(own) - {"value", "help", "source", "choices", "minimum"})
    if strangers:
        raise SiteError(f"{variable.name} has no {strangers[0]!r}: it has value, help and source.")
    return replace(
        variable,
        value=variable.checked(own["value"]),
        help=own.get("help", variable.help),
        source=own.get("source", ""),
    )


def generic_variables() -> dict[str, Variable]:
    """Every variable that there is, in the order of ``generic.toml``."""
    table = tomllib.loads((folder() / f"{GENERIC}.toml").read_text(encoding="utf-8"))
    return {
        name: Variable(
            name,
            entry["value"],
            entry["help"],
            entry.get("source", ""),
            tuple(entry.get("choices", ())),
            entry.get("minimum", 1),
        )
        for name, entry in table["variables"].items()
    }


def folder() -> Path:
    """Where the kit's sites are."""
    return cluster_folder() / "sites"


def names() -> list[str]:
    """The sites that come with the kit."""
    return sorted(path.stem for path in folder().glob("*.toml"))
