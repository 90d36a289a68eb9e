"""The calls of cost.py that the tests make. What each must give stands in it: ``gives``."""

from dataclasses import dataclass

from ringside.checking import Verdict, assert_ran
from ringside.checking.cases import Formula, brief, machine_of
from ringside.checking.ring_bytes import sent_as_ring

WAYS = ("data", "filter", "domain")


@dataclass(frozen=True)
class Bytes(Formula):
    """Bytes of a step.

    Attributes:
        layers: numbers of each ``given.conv_sizes.Layer``.
        ranks: P.
    """

    caller = "checks/inside.py:costs"
    layers: tuple = ()
    batch: int = 1
    ranks: int = 4
    itemsize: int = 4

    def arguments(self):
        more = (self.itemsize,) if self.itemsize != 4 else ()
        return (list(self.layers), *self.settings(), *more)

    def settings(self):
        """What follows the layers."""
        return self.batch, self.ranks

    def __str__(self):
        layers = ", ".join(f"Layer{layer}" for layer in self.layers)
        more = ", ".join(
            f"Machine.load({each!r})" if isinstance(each, str) else repr(each)
            for each in self.arguments()[1:]
        )
        return f"{self.function}([{layers}], {more})"

    @property
    def way(self):
        """Data, filter or domain."""
        return self.function.partition("_")[0]

    def counted(self, ranks):
        """What the network counts of ``given/traffic.py``: bytes and seconds."""
        given = list(self.layers), self.batch
        target = f"given/traffic.py:{self.way}_parallel"
        run = ranks.call(target, self.ranks, [given] * self.ranks, machine=machine_of(self))
        assert_ran(run, self)
        return round(sum(sent_as_ring(run))), run.makespan_s

    def check_counted(self, value, counted):
        """Raise a verdict unless the value is what the network counts."""
        try:
            self.with_(gives=counted).check_value(value)
        except Verdict as verdict:
            beside = f", as the network counts of traffic.py on {self.ranks} ranks."
            raise Verdict(verdict.sentence.removesuffix(".") + beside) from None


@dataclass(frozen=True)
class DataBytes(Bytes):
    target = "cost:data_bytes"


@dataclass(frozen=True)
class FilterBytes(Bytes):
    target = "cost:filter_bytes"


@dataclass(frozen=True)
class DomainBytes(Bytes):
    target = "cost:domain_bytes"


@dataclass(frozen=True)
class Seconds(Bytes):
    """Seconds of a step's messages.

    Attributes:
        wire: the machine.
    """

    wire: str = "textbook"

    def settings(self):
        return self.batch, self.ranks, self.wire


@dataclass(frozen=True)
class DataS(Seconds):
    target = "cost:data_s"


@dataclass(frozen=True)
class FilterS(Seconds):
    target = "cost:filter_s"


@dataclass(frozen=True)
class DomainS(Seconds):
    target = "cost:domain_s"


@dataclass(frozen=True)
class Best(Seconds):
    """The shortest way; ``gives`` has pairs of each way that is possible and its milliseconds."""

    target = "cost:best"

    def check_value(self, value):
        times = dict(self.gives)
        least = min(times, key=times.get)
        if value not in WAYS or times.get(value, 2 * times[least] + 1) > times[least] * (1 + 1e-9):
            beside = ", ".join(f"{way} takes {time:.6g} ms" for way, time in times.items())
            raise Verdict(f"{self} is {brief(value)}; it must be {least!r}. {beside}.")
