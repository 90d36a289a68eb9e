"""Which assignments students get now: those that the term lists and whose date has come.

    course.toml has lines below [released]   those; a date in the future, or "not yet": not yet
    it has none, and takes a path            those of the path
    neither, and the tree is the kit         those whose assignment.toml says handed_out = true
    no assignment.toml says it               all that are there: a students' tree, chosen before

Whatever else lies in assignments/ is a draft, and nobody gets it.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ringside import toml_tables
from ringside.course.term import Term, shown

__all__ = ["Listing", "listing"]


@dataclass(frozen=True)
class Listing:
    """What becomes of each assignment that is there.

    Attributes:
        given: students get these.
        later: the term lists these for a moment that hasn't come, or "not yet": None.
        unlisted: nobody gets these.
        source: the file that decides, or the folder of the files.
    """

    given: tuple[str, ...]
    later: Mapping[str, datetime.datetime | None]
    unlisted: tuple[str, ...]
    source: Path | None

    @property
    def sentence(self) -> str:
        """All of it for the instructor; units stand for assignments that are handed out.

        >>> due = datetime.datetime(2026, 10, 12, tzinfo=datetime.UTC)
        >>> Listing(("a01_first_ranks",), {"a07_sharding": due}, ("a15_bcast",), None).sentence
        'In the handout: a01; not yet: a07 (Mon 12 Oct 2026, 00:00 UTC); not listed: a15_bcast.'
        """
        numbers = [name.partition("_")[0] for name in self.given]
        unique = len(set(numbers)) == len(numbers)
        parts = [f"In the handout: {', '.join(numbers if unique else self.given) or 'none'}"]
        if self.later:
            dates = (
                f"{name.partition('_')[0]} ({shown(moment) if moment else 'no date yet'})"
                for name, moment in self.later.items()
            )
            parts.append(f"not yet: {', '.join(dates)}")
        if self.unlisted:
            parts.append(f"not listed: {', '.join(self.unlisted)}")
        return "; ".join(parts) + "."


def listing(
    there: Iterable[str],
    term: Term | None,
    tree: Path,
    *,
    also_future: bool = False,
) -> Listing:
    """Divide the assignments that are there.

    Args:
        tree: the kit, or a students' tree.
        also_future: what the term lists for later is handed out now.

    Raises:
        TableError: an assignment.toml of the kit is no TOML.
    """
    names = sorted(there)
    if term is not None and term.listed:
        now = datetime.datetime.now(datetime.UTC)
        dates = {name: term.released.get(name) for name in names if name in term.listed}
        later = {
            name: moment
            for name, moment in dates.items()
            if not also_future and (moment is None or moment > now)
        }
        handouts = tuple(name for name in dates if name not in later)
        unlisted = tuple(name for name in names if name not in dates)
        return Listing(handouts, later, unlisted, term.path)
    if term is not None and term.course_path is not None:
        chosen: Collection[str] | None = term.course_path.work.keys()
        source = term.path
    else:
        chosen, source = _of_kit(tree), tree / "solutions"
    handouts = tuple(name for name in names if chosen is None or name in chosen)
    unlisted = tuple(name for name in names if name not in handouts)
    return Listing(handouts, {}, unlisted, None if chosen is None else source)


def _of_kit(tree: Path) -> set[str] | None:
    """The assignments that the kit hands out; None where none of its files says so."""
    files = tree.glob("solutions/*/assignment.toml")
    names = {path.parent.name for path in files if toml_tables.read(path).get("handed_out")}
    return names or None
