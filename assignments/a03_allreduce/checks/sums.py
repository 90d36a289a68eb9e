"""The tests that every all-reduce of this assignment gets, written once, with public cases.

A suite says which calls they are about and which requirement each shows, and gives each its name::

    suite = Sums("star", Star)

    test_second_call_is_independent = suite.again("own", 4)
"""

from functools import partial

from checks.cases import EVEN
from ringside.checking import (
    LATENCY_SEEDS,
    assert_inputs_kept,
    assert_own_messages,
    assert_requests_complete,
)
from ringside.checking.assertions import EAGER_BYTES
from ringside.checking.suite import Suite, contrasted, group, right_run

PLAIN = "powers of two as numbers of ranks p, where p divides n"
POWER_UNEVEN = "powers of two that do not divide n"
OTHER_UNEVEN = "other numbers of ranks that do not divide n"
SPECIAL = "NaN and infinities"
SHORT = "vectors of fewer elements than ranks"
HALVES = "the halves of it alone"


WEIGHTS = {PLAIN: 2, EVEN: 2, HALVES: 2, SPECIAL: 2}
OF_LENGTHS = {POWER_UNEVEN: 3, OTHER_UNEVEN: 3, SPECIAL: 2}  # where they are what is asked


def kind_of(case):
    """What is often missed: numbers of ranks, and lengths that they do not divide."""
    if hasattr(case, "kind"):
        return case.kind
    if case.n < case.p:
        return SHORT
    if getattr(case, "special", False):
        return SPECIAL
    divides = case.n % case.p == 0
    if not case.fold:
        return PLAIN if divides else POWER_UNEVEN
    return "other numbers of ranks that divide n" if divides else OTHER_UNEVEN


def shares(*cases, weights=WEIGHTS):
    """Groups of the cases, so that each kind of them earns its share."""
    apart = not all(case.half for case in cases)
    groups = {}
    for case in cases:
        kind = HALVES if apart and case.half else kind_of(case)
        groups.setdefault(kind, []).append(case)
    return [group(kind, *of, weight=weights.get(kind, 1)) for kind, of in groups.items()]


def exactly(case, run):
    """The body of a test of values."""
    case.check_exactly(run)


def inputs_kept(case, run):
    """The body of a test of values and of what was given."""
    case.check_exactly(run)
    assert_inputs_kept(run, case)


class Sums(Suite):
    """Tests of functions that sum over all ranks.

    Args:
        kinds: of the calls; tests that aren't given one ask all of them.
    """

    def __init__(self, module, *kinds):
        super().__init__(module)
        self.kinds = kinds

    def _cases(self, *sizes, kind=None):
        kinds = [kind] if kind else self.kinds
        return [each(*size) for each in kinds for size in sizes]

    def _values(self, requirement, *cases, body=exactly, weight=1.0, weights=WEIGHTS):
        table = shares(*cases, weights=weights)
        return self.test(requirement, "values", *table, weight=weight)(body)

    def powers_of_two(self, requirement, kind=None, body=exactly, weight=1.0):
        """``body`` may ask more of each run."""
        sizes = (4, 8), (4, 10), (4, 3), (4, 0), (2, 7), (8, 24)
        cases = [*self._cases(*sizes, kind=kind), *self._special(4, kind)]
        return self._values(requirement, *cases, body=body, weight=weight, weights=OF_LENGTHS)

    def other_sizes(self, requirement, kind=None, weight=1.0):
        sizes = (1, 11), (3, 11), (5, 11), (6, 12), (7, 3)
        cases = [*self._cases(*sizes, kind=kind), *self._special(3, kind)]
        return self._values(requirement, *cases, weight=weight, weights=OF_LENGTHS)

    def _special(self, p, kind):
        kinds = [kind] if kind else self.kinds
        return [each(p, 3 * p, special=True) for each in kinds]

    def dtypes(self, requirement, *more, weight=1.0):
        sizes = (4, 8, "float32"), (3, 7, "float32"), (3, 7, "int64"), (4, 8, "int64")
        return self._values(requirement, *self._cases(*sizes), *more, weight=weight)

    def inputs(self, requirement, *more, weight=1.0):
        """Inputs may have gaps and be read-only, and they stay as they were."""
        cases = [
            case
            for kind in self.kinds
            for case in (kind(4, 9), kind(1, 5, stride=2), kind(3, 7, stride=2))
        ]
        return self._values(requirement, *cases, *more, body=inputs_kept, weight=weight)

    def again(self, requirement, *more, weight=1.0):
        """A second call gives other values, and leaves the first result and all inputs alone."""
        cases = [kind(p, 6, again=True) for kind in self.kinds for p in (3, 1)]
        body = exactly if self.module.endswith("_torch") else inputs_kept
        return self._values(requirement, *cases, *more, body=body, weight=weight)

    def real(self, requirement, weight=1.0):
        return self.real_ranks(requirement, *shares(*self._cases((4, 8), (3, 11))), weight=weight)

    def in_part(self, requirement, *more, **words):
        return self.given_communicator(requirement, *shares(*self._cases((4, 8)), *more), **words)

    def point_to_point(self, requirement, *more, weight=1.0):
        """No library collective is called, not even a barrier, and few communicators are made."""
        cases = [*self._cases((1, 8), (4, 8)), *more]

        @self.test(requirement, "communication", *shares(*cases), weight=weight)
        def test(case, run):
            assert_own_messages(run, case)

        return test

    def waiting(self, requirement, *more, weight=1.0, complete=False):
        """Right where each send waits for its receive; who doesn't wait for a send doesn't hang.

        Args:
            complete: what is started must be completed, too, which ``any_order`` asks otherwise.
        """
        table = shares(*self._cases((2, 10), (3, 12), (4, 12), (3, 0)), *more)
        if complete:
            return self.waiting_sends(requirement, *table, weight=weight)
        words = (
            f"works only while messages stay below {EAGER_BYTES} bytes, where a send does not wait "
            "for its receive. Above:"
        )

        @self.test(requirement, "safety", *table, weight=weight)
        def test(case, ranks):
            contrasted(
                partial(right_run, ranks, case.on_sends("rendezvous")),
                partial(right_run, ranks, case.on_sends("buffered")),
                case,
                words,
            )

        return test

    def any_order(self, requirement, *more, weight=1.0):
        """Right whichever messages are slow, whether sends wait or not, on a part of the world."""
        words = "right where all messages take as long, wrong where some are slow. There:"

        @self.test(requirement, "safety", *shares(*self._cases((4, 8)), *more), weight=weight)
        def test(case, ranks):
            for seed in LATENCY_SEEDS:
                for machine in ("buffered", "rendezvous"):
                    part = case.on_sends(machine).in_part()
                    run = contrasted(
                        partial(right_run, ranks, part.with_(latencies=seed)),
                        partial(right_run, ranks, part),
                        case,
                        words,
                    )
                    assert_requests_complete(run, case)

        return test
