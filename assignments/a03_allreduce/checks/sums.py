"""The tests that every all-reduce of this assignment gets, written once, with public cases.

A suite says which calls they are about and what each is worth, and gives each its name::

    suite = Sums("star", Star)

    test_second_call_is_independent = suite.again(4)
"""

from functools import partial

from ringside.checking import LATENCY_SEEDS, assert_inputs_kept, assert_own_messages
from ringside.checking.suite import Suite, contrasted, group, right_run

PLAIN = "powers of two as numbers of ranks p, where p divides n"
SPECIAL = "NaN and infinities"


def kind_of(case):
    """What is often missed: numbers of ranks, and lengths that they do not divide."""
    if getattr(case, "special", False):
        return SPECIAL
    divides = case.n % case.p == 0
    if not case.fold:
        return PLAIN if divides else "powers of two that do not divide n"
    return f"other numbers of ranks that {'divide' if divides else 'do not divide'} n"


def shares(*cases):
    """Groups of the cases, so that each kind of them earns its share."""
    kinds = dict.fromkeys(map(kind_of, cases))
    return [
        group(kind, *(case for case in cases if kind_of(case) == kind), weight=1 + (kind == PLAIN))
        for kind in kinds
    ]


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
        return shares(*(each(*size) for each in kinds for size in sizes))

    def _values(self, requirement, *table, body=None, weight=1.0):
        """A test of values; ``body`` may ask more of each run."""

        def test(case, run):
            if body is not None:
                body(case, run)

        return self.test(requirement, "values", *table, weight=weight)(test)

    def powers_of_two(self, requirement, kind=None, body=None, weight=1.0):
        sizes = (4, 8), (4, 10), (4, 3), (4, 0), (2, 7), (8, 24)
        special = self._special(4, kind)
        return self._values(
            requirement, *self._cases(*sizes, kind=kind), *special, body=body, weight=weight
        )

    def other_sizes(self, requirement, kind=None, weight=1.0):
        sizes = (1, 11), (3, 11), (5, 11), (6, 12), (7, 3)
        special = self._special(3, kind)
        return self._values(requirement, *self._cases(*sizes, kind=kind), *special, weight=weight)

    def _special(self, p, kind):
        kinds = [kind] if kind else self.kinds
        return shares(*(each(p, 3 * p, special=True) for each in kinds))

    def dtypes(self, requirement, *more, weight=1.0):
        sizes = (3, 7, "float32"), (3, 7, "int64"), (4, 8, "int64")
        return self._values(requirement, *self._cases(*sizes), *shares(*more), weight=weight)

    def inputs(self, requirement, *more, weight=1.0):
        """Inputs may have gaps and be read-only, and they stay as they were."""
        cases = [
            case
            for kind in self.kinds
            for case in (kind(4, 9), kind(1, 5, stride=2), kind(3, 7, stride=2))
        ]

        @self.test(requirement, "values", *shares(*cases, *more), weight=weight)
        def test(case, run):
            assert_inputs_kept(run, case)

        return test

    def again(self, requirement, *more, weight=1.0):
        """A second call gives other values, and leaves the first result alone."""
        cases = [kind(p, 6, again=True) for kind in self.kinds for p in (3, 1)]
        return self._values(requirement, *shares(*cases, *more), weight=weight)

    def real(self, requirement, weight=1.0):
        return self.real_ranks(requirement, *self._cases((3, 11)), weight=weight)

    def in_part(self, requirement, *more, **words):
        return self.given_communicator(requirement, *self._cases((4, 10)), *shares(*more), **words)

    def point_to_point(self, requirement, *more, weight=1.0):
        """No library collective is called, not even a barrier, and few communicators are made."""

        @self.test(
            requirement,
            "communication",
            *self._cases((1, 10), (4, 10)),
            *shares(*more),
            weight=weight,
        )
        def test(case, run):
            assert_own_messages(run, case)

        return test

    def waiting(self, requirement, *more, weight=1.0):
        sizes = (2, 10), (3, 10), (4, 10), (3, 0)
        return self.waiting_sends(requirement, *self._cases(*sizes), *shares(*more), weight=weight)

    def any_order(self, requirement, *more, weight=1.0):
        """Right whichever messages are slow, whether sends wait or not."""
        words = "right where all messages take as long, wrong where some are slow. There:"

        @self.test(requirement, "safety", *self._cases((4, 10)), *shares(*more), weight=weight)
        def test(case, ranks):
            for seed in LATENCY_SEEDS:
                for machine in ("buffered", "rendezvous"):
                    slow = case.on_sends(machine).with_(latencies=seed)
                    contrasted(
                        partial(right_run, ranks, slow),
                        partial(right_run, ranks, case.on_sends(machine)),
                        case,
                        words,
                    )

        return test
