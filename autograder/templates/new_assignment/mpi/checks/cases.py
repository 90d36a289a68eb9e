"""The calls that the tests make, and what must come of them."""

from dataclasses import dataclass

from ringside.checking.cases import Vectors


@dataclass(frozen=True)
class PrefixSum(Vectors):
    """``n`` and ``dtype`` are those of each rank's vector."""

    target = "prefix:prefix_sum"

    def summands(self, rank):
        return [self.vector(each) for each in range(rank + 1)]
