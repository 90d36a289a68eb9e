"""The calls of recorder.py: dumps in which one thing has gone wrong."""

import functools
from dataclasses import dataclass

from checks.dumps import Program
from ringside.checking import Verdict, one_line
from ringside.checking.cases import Formula
from ringside.units import ordinal

KINDS = ("dead", "type", "dtype", "size", "missing", "slow", "none")
MANY = 64  # records: more than a run here has
WORDS = {
    "hang": "hangs before its {} call",
    "kill": "dies before its {} call",
    "op": "makes its {} call with another op",
    "dtype": "makes its {} call with another dtype",
    "size": "makes its {} call with another count",
    "op+dtype": "makes its {} call with another op and dtype",
    "op+size": "makes its {} call with another op and count",
    "dtype+size": "makes its {} call with another dtype and count",
    "slow": "computes {:g} times as long as the others",
    "uneven": "computes layers {:g} times as long as the others, and gradients less long",
}


@dataclass(frozen=True)
class Diagnose(Formula):
    """What went wrong, and to whom: the first two entries of the answer.

    Attributes:
        shape, steps, fault, who, at, factor, overlap, jitter, times, layers, every: of
            ``checks.dumps.Program``, whose seed is ``times``.
        last: records that a rank keeps.
        gives: what must come out.
    """

    target = "recorder:diagnose"
    shape: tuple = (2, 4)
    fault: str = "hang"
    who: tuple = (5,)
    at: int = 9
    last: int = MANY
    steps: int = 6
    factor: float = 1.5
    overlap: bool = False
    jitter: float = 0.05
    times: int = 0
    layers: tuple = (1,)
    every: int = 0

    whole = False  # whether group and seq are looked at, too

    def arguments(self):
        return drawn(self)

    def __str__(self):
        grid = " x ".join(map(str, self.shape))
        what = "nothing goes wrong"
        if self.fault:
            number = self.factor if self.fault in ("slow", "uneven") else ordinal(self.at + 1)
            ranks = " and ".join(map(str, self.who))
            who = f"rank {ranks}" if len(self.who) == 1 else f"each of the ranks {ranks}"
            what = f"{who} {WORDS[self.fault].format(number)}"
        layers = " and ".join(map(str, self.layers))
        grid += "" if self.layers == (1,) else f" with {layers} pairs of layers"
        return f"diagnose, where on a grid of {grid} {what}"

    def check_value(self, value):
        """Raise a verdict unless it is right, with what the dumps say to it."""
        right = self.right()
        answer = self._read(value)
        if right is None:
            return
        answer = answer if self.whole else answer[:2]
        right = tuple(right) if self.whole else tuple(right)[:2]
        if answer != right:
            sentence = f"{self}: it is {answer}; it must be {right}."
            raise Verdict(f"{sentence} {self._says(answer, right)}".rstrip())

    def _read(self, value):
        """The answer as a tuple; a verdict if it has another form."""
        try:
            kind, ranks, group, seq = value
            answer = str(kind), tuple(int(rank) for rank in ranks), str(group), int(seq)
        except (TypeError, ValueError):
            answer = ("",)
        if answer[0] not in KINDS:
            form = "(kind, ranks, group, seq), with a kind of the docstring's"
            raise Verdict(f"{self}: it is {one_line(repr(value), 100)}; it must be {form}.")
        return answer

    def _says(self, answer, right):
        """What in the dumps speaks against an answer."""
        dumps, groups = self.arguments()
        ranks = answer[1]
        if right[0] == "dead":
            return f"Rank {right[1][0]} left no dump."
        begins = self._begins(dumps, groups) if self.last < MANY else ""
        if begins and right[0] != "none":
            return f"Compare records of the same seq: {begins}."
        for rank in sorted({*ranks} - {*right[1]} & {*dumps}):
            waits = next((r for r in dumps[rank] if r["state"] == "started"), None)
            if right[0] == "missing" and waits is not None:
                place = f"{waits['op']} {waits['seq']} of {waits['group']}"
                return f"Rank {rank} itself waits, in {place}."
        if right[0] == "slow":
            (rank,) = right[1]
            return (
                f"Rank {rank} is the last to come to nearly all of its collectives, so it waits "
                "least: its own are the shortest."
            )
        if right[0] == "none" and answer[0] == "missing":
            return "All collectives are complete: a record that isn't there has left its recorder."
        if right[0] == "none":
            return "Nobody is last nearly everywhere, and all collectives are complete."
        if right[0] in ("type", "dtype", "size"):
            if answer[0] in ("dtype", "size") and answer[0] != right[0]:
                return "Ops are compared first, then dtypes, and counts last."
            return "Look at what the members of one collective that isn't complete have called."
        if self.whole:
            return "That in which a rank of these is missed for the longest time is asked for."
        return ""

    def _begins(self, dumps, groups):
        """Two ranks' buffers of one group that begin at different numbers, in words."""
        for group, members in groups.items():
            first = {
                rank: min(r["seq"] for r in dumps[rank] if r["group"] == group)
                for rank in members
                if any(r["group"] == group for r in dumps.get(rank, ()))
            }
            if len(set(first.values())) > 1:
                low, high = min(first, key=first.get), max(first, key=first.get)
                return (
                    f"of {group} rank {low}'s begin at {first[low]}, and rank {high}'s at "
                    f"{first[high]}"
                )
        return ""


@dataclass(frozen=True)
class Where(Diagnose):
    """Also in which collective: all four entries."""

    whole = True


@dataclass(frozen=True)
class Complete(Diagnose):
    """Where all is complete and nobody is missed; whether somebody is slow isn't asked."""

    def _read(self, value):
        answer = super()._read(value)
        return ("none", (), "", 0) if answer[0] == "slow" else answer


@functools.lru_cache(maxsize=64)
def program_of(case):
    """The program whose dumps a case has."""
    return Program(
        case.shape, case.steps, case.fault, case.who, case.at, case.factor, case.overlap,
        case.jitter, case.times, case.layers, case.every,
    )  # fmt: skip


@functools.lru_cache(maxsize=64)
def drawn(case):
    """A case's dumps, and their groups."""
    return program_of(case).dumps(case.last)
