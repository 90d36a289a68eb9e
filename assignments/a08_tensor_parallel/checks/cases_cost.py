"""The calls of cost.py that the tests make; what each must give stands beside it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ringside.checking import Verdict
from ringside.checking.cases import Formula, brief
from ringside.checking.suite import plain


class Cost(Formula):
    """A call; an argument that is "" or 0 isn't given."""

    traffic: ClassVar[str] = ""  # the function of given/traffic.py that sends these bytes

    def arguments(self):
        return tuple(each for each in super().arguments() if each not in ("", 0))

    @property
    def num_ranks(self):
        return self.ranks

    @property
    def sent(self):
        """What ``traffic`` gets: all but the bytes of an element and the number of ranks."""
        return self.widths, self.batch


@dataclass(frozen=True)
class DataBytes(Cost):
    target = "cost:data_bytes"
    traffic = "data_parallel"
    widths: tuple = (10, 20, 5)
    batch: int = 7
    ranks: int = 4
    itemsize: int = 0


@dataclass(frozen=True)
class PairedBytes(DataBytes):
    target = "cost:paired_bytes"
    traffic = "paired"


@dataclass(frozen=True)
class ModelBytes(Cost):
    target = "cost:model_bytes"
    traffic = "model_parallel"
    widths: tuple = (10, 20, 5)
    batch: int = 7
    ranks: int = 4
    backward: str = ""
    itemsize: int = 0

    @property
    def sent(self):
        return self.widths, self.batch, self.backward


@dataclass(frozen=True)
class HybridBytes(Cost):
    target = "cost:hybrid_bytes"
    traffic = "hybrid"
    widths: tuple = (10, 20, 5)
    batch: int = 8
    model_size: int = 2
    data_size: int = 4
    backward: str = ""
    itemsize: int = 0

    @property
    def num_ranks(self):
        return self.model_size * self.data_size

    @property
    def sent(self):
        return self.widths, self.batch, self.model_size, self.data_size, self.backward


@dataclass(frozen=True)
class Crossover(Cost):
    target = "cost:crossover_batch"
    widths: tuple = (12, 12, 12)
    backward: str = ""


@dataclass(frozen=True)
class BestGrid(Cost):
    """``gives`` has all grids that send least."""

    target = "cost:best_grid"
    widths: tuple = (50, 50, 50)
    batch: int = 60
    ranks: int = 12
    backward: str = ""

    def check_value(self, value):
        pair = value.tolist() if isinstance(value, np.ndarray) and value.ndim else value
        pair = [plain(each) for each in pair] if isinstance(pair, list | tuple) else []
        if len(pair) != 2 or any(type(each) is not int for each in pair):
            raise Verdict(f"{self} is {brief(value)}; it must be two whole numbers.")
        model_size, data_size = pair
        if min(pair) < 1 or model_size * data_size != self.ranks or data_size > self.batch:
            raise Verdict(
                f"{self} is {tuple(pair)}; the product must be {self.ranks}, and data_size at most "
                f"{self.batch}."
            )
        if self.gives and tuple(pair) not in map(tuple, self.gives):
            raise Verdict(f"{self} is {tuple(pair)}; {brief(tuple(self.gives[0]))} sends less.")
