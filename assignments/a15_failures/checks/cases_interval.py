"""The calls of interval.py that the tests make."""

import math
from dataclasses import dataclass

from ringside.checking.cases import Formula, brief


@dataclass(frozen=True)
class LostShare(Formula):
    """The lost share of a long run."""

    target = "interval:lost_share"
    tau_s: float = 1000.0
    write_s: float = 30.0
    restart_s: float = 300.0
    between_s: float = 10_000.0

    def wrong(self):
        tau, write, restart, mean = self.arguments()
        attempt = tau + write
        simple = write / tau + (restart + tau / 2) / mean
        with_free_restarts = mean * math.expm1(min(700.0, attempt / mean)) * (1 + restart / mean)
        return {
            "This is C / tau + (R + tau / 2) / M, which holds where stops are rare.": simple,
            "A restart can be hit, too.": 1 - tau / with_free_restarts,
        }


@dataclass(frozen=True)
class BestInterval(Formula):
    """The interval that loses least."""

    target = "interval:best_interval"
    write_s: float = 5.0
    between_s: float = 15.0

    def check_value(self, value):
        right = self.right()
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if right is not None and not (number and math.isclose(value, right, rel_tol=1e-6)):
            young = math.sqrt(2 * self.write_s * self.between_s)
            near = number and math.isclose(value, young, rel_tol=1e-6)
            says = " This is Young's sqrt(2 C M), for C far below M." if near else ""
            raise self.fail(f"it is {brief(value)} s; {brief(right)} s loses least.{says}")


@dataclass(frozen=True)
class Walk(Formula):
    """The useful seconds of a run with these stops."""

    target = "interval:walk"
    tau_s: float = 100.0
    write_s: float = 10.0
    restart_s: float = 30.0
    stops_s: tuple = ()
    end_s: float = 400.0

    def arguments(self):
        return self.tau_s, self.write_s, self.restart_s, list(self.stops_s), self.end_s
