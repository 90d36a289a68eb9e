"""The tests that every all-reduce of this assignment gets, written once.

A suite says which functions they are about and what each is worth, and gives each its name::

    shared = SharedTests("star", ["star:all_reduce"])
    points = shared.points

    test_second_call_is_independent = shared.second_call(4)

    @points(12, "communication")
    def test_bytes_per_rank(ranks, rng):
        ...
"""

from collections.abc import Callable, Sequence

from ringside.checking import Case
from ringside.checking.points import points_of
from solutions.a03_allreduce.hidden import runs


class SharedTests:
    """Tests of functions ``f(comm, x, *options)`` that sum over all ranks."""

    def __init__(self, module, targets: Sequence[str], options=None):
        self.points = points_of(module)
        self._targets = targets
        self._options = options or {}

    def _test(self, number, kind, check: Callable, *arguments):
        """``check(ranks, rng, *arguments)`` as a test."""

        @self.points(number, kind)
        def test(ranks, rng):
            check(ranks, rng, *arguments)

        return test

    def _cases(self, world_sizes, lengths):
        return [
            Case(target, p, n, options=self._options)
            for target in self._targets
            for p in world_sizes
            for n in lengths
        ]

    def _assorted(self, world_sizes, lengths):
        return [
            case
            for target in self._targets
            for case in runs.assorted(target, world_sizes, lengths, self._options)
        ]

    def _sweep(self):
        each = (runs.everywhere(target, self._options) for target in self._targets)
        return [case for cases in each for case in cases]

    def sums(self, number, world_sizes, scheme=None):
        """The sum is right on every rank, for vectors of all lengths.

        Args:
            scheme: ranks and length on which each function must be its scheme, where a module
                has several and one could stand for the other.
        """

        def check(ranks, rng):
            if scheme:
                runs.check_scheme(ranks, rng, self._cases(scheme[:1], scheme[1:]))
            for target in self._targets:
                runs.check_sums(ranks, rng, target, world_sizes, self._options)

        return self._test(number, "values", check)

    def dtypes(self, number):
        def check(ranks, rng):
            for target in self._targets:
                runs.check_dtypes(ranks, rng, target, self._options)

        return self._test(number, "values", check)

    def inputs(self, number):
        """Inputs may have gaps and be read-only, and they stay as they were."""

        def check(ranks, rng):
            runs.check_strided(ranks, rng, self._assorted((1, 2, 3), (11,)), runs.summed)
            runs.check_inputs_kept(ranks, rng, self._assorted((1, 2, 4, 3), (13,)))

        return self._test(number, "values", check)

    def second_call(self, number):
        cases = self._assorted((1, 2, 4, 3), (9, 0))
        return self._test(number, "values", runs.check_second_call, cases)

    def real_mpi(self, number):
        cases = self._cases((4, 3), (12, 11, runs.LARGE))

        @self.points(number, "reality")
        def test(mpi, rng):
            runs.check_real_mpi(mpi, rng, cases)

        return test

    def given_communicator(self, number):
        def check(ranks, rng):
            for target in self._targets:
                cases = runs.of_each_dtype(target, self._options)
                runs.check_given_communicator(ranks, rng, cases)

        return self._test(number, "communication", check)

    def scheme(self, number, world_size=4, n=40):
        """The module is its scheme at all: without this test, little else counts."""
        cases = self._cases((world_size,), (n,))

        @self.points(number, "communication", essential=True)
        def test(ranks, rng):
            runs.check_scheme(ranks, rng, cases)

        return test

    def point_to_point(self, number):
        cases = [*self._cases((1,), (10,)), *self._cases((3,), (0,)), *self._sweep()]
        return self._test(number, "communication", runs.check_point_to_point, cases)

    def rendezvous(self, number):
        cases = [case for target in self._targets for case in runs.slow(target, self._options)]
        return self._test(number, "safety", runs.check_rendezvous, cases)

    def any_order(self, number):
        cases = [case for target in self._targets for case in runs.shuffled(target, self._options)]
        return self._test(number, "safety", runs.check_any_order, cases)
