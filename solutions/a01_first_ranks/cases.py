"""Calls of this assignment's functions, as the tests make them: supplied, nothing to write.

A ``Call`` is what a verdict is about: its words, and the line that runs the same thing.
"""

from dataclasses import dataclass

from ringside.checking import Case
from ringside.units import format_count


@dataclass(frozen=True)
class Call(Case):
    """One call on p ranks."""

    about: str = ""  # such as "8 bytes, 3 repetitions"
    words: str = ""  # what stands after the -- of the line that runs it

    @property
    def reproduce(self):
        """The line that runs this call."""
        called, _, given = self.through.partition(" ")
        module, _, function = (called or self.target).partition(":")
        ranks = self.ranks or f"--ranks {self.world_size}"
        where = f" {self.where}" if self.where else ""
        words = [f"--target {self.target} {given}".strip()] if called else []
        words += [self.words] if self.words else []
        words += [f"--drawn {self.drawn[-1]}"] if self.drawn else []
        after = f" -- {' '.join(words)}" if words else ""
        return f"ringside run {module}.py:{function} {ranks}{where}{after}"

    def __str__(self):
        ranks = format_count(self.world_size, "rank")
        return f"{self.function} on {ranks}{f', {self.about}' if self.about else ''}"


def ping_call(world_size, nbytes, repetitions=3, partner=1):
    """``ping.ping``."""
    about, words = _trips(repetitions, partner)
    return Call(
        "ping:ping", world_size, nbytes,
        about=f"nbytes = {nbytes}, {about}", words=f"--nbytes {nbytes} {words}",
    )  # fmt: skip


def bounce_call(world_size, n, repetitions=3, partner=1, dtype="float64"):
    """``ping.bounce``."""
    about, words = _trips(repetitions, partner)
    more = "" if dtype == "float64" else f" --dtype {dtype}"
    return Call(
        "ping:bounce", world_size, n, dtype,
        about=f"n = {n}, {dtype}, {about}", words=f"--n {n}{more} {words}",
    )  # fmt: skip


def _trips(repetitions, partner):
    about, words = f"repetitions = {repetitions}", f"--repetitions {repetitions}"
    if partner == 1:
        return about, words
    return f"{about}, partner = {partner}", f"{words} --partner {partner}"


def exchange_call(world_size, n):
    """``mend.exchange``."""
    return Call("mend:exchange", world_size, n, about=f"n = {n}", words=f"--n {n}")


def mean_call(lengths, equal=None):
    """``mend.mean_and_deviation``, with so many elements on each rank; all ``equal``, if given."""
    shown = "[" + ",".join(map(str, lengths)) + "]"
    alike, more = ("", "") if equal is None else (f", all {equal}", f" --equal {equal}")
    return Call(
        "mend:mean_and_deviation", len(lengths), sum(lengths),
        about=f"with {', '.join(map(str, lengths))} elements{alike}",
        words=f"--lengths {shown}{more}",
    )  # fmt: skip


def collect_call(world_size, rows, width):
    """``mend.collect``."""
    return Call(
        "mend:collect", world_size, width,
        about=f"{format_count(rows, 'row')} of {width}", words=f"--rows {rows} --n {width}",
    )  # fmt: skip


def where_call(world_size, visible=None):
    """``where.where``; ``visible`` is the same on all ranks, or a list with each rank's."""
    about = f"visible {'on each rank ' if isinstance(visible, list) else ''}= {visible!r}"
    words = "" if visible is None else f'--visible "{visible}"'
    return Call("where:where", world_size, 0, about=about, words=words)
