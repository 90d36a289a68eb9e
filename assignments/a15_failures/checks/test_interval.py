"""interval.py: how often to write a checkpoint."""

from checks.cases_interval import BestInterval, LostShare, Walk
from ringside.checking.suite import Suite, group

suite = Suite("interval")


@suite.test(
    "walk", "values", group("no stop", Walk(gives=370.0), Walk(end_s=305.0, gives=285.0)),
    group("stops in work", Walk(stops_s=(250.0,), gives=310.0), weight=2),
    group("stops while it writes", Walk(stops_s=(105.0, 250.0), gives=210.0)),
    group("stops when it has written", Walk(stops_s=(110.0,), gives=340.0)),
)  # fmt: skip
def test_useful_seconds(case, run):
    """Work counts if it was written, or is under way at the end."""


@suite.test(
    "restarts", "values", Walk(stops_s=(250.0, 260.0), end_s=300.0, gives=210.0),
    Walk(stops_s=(250.0, 270.0, 290.0), end_s=310.0, gives=200.0),
)  # fmt: skip
def test_stops_in_restarts(case, run):
    """A restart begins anew."""


@suite.test(
    "lost", "values", LostShare(gives=0.105509328514), LostShare(5, 5, 0, 15, gives=0.648283886731),
    LostShare(12.25, 5, 5, 15, gives=0.728862404125),
)  # fmt: skip
def test_lost_share(case, run):
    """Exact, also where stops are frequent."""


@suite.test(
    "best", "values", BestInterval(5, 1440, gives=116.690073327),
    BestInterval(5, 360, gives=56.7140019988), BestInterval(5, 15, gives=9.16650282094),
)  # fmt: skip
def test_best_interval(case, run):
    """Daly's three optima."""


@suite.test(
    "extremes", "values", group("long writes", BestInterval(45, 15, gives=14.7200905637)),
    group("short writes", BestInterval(1e-6, 1e6, gives=1.41421289566)),
    group("no end in sight", LostShare(9000, 30, 0, 10, gives=1.0)),
)  # fmt: skip
def test_extremes(case, run):
    """Writes that take longer than the time between stops, and hardly any."""
