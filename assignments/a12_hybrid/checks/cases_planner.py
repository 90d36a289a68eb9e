"""The plans that the tests ask for, and how they are judged."""

from dataclasses import dataclass, field

from given.planner_costs import COSTS

from checks.cases_predict import NAMES, SAYING_MACHINE
from ringside import Machine
from ringside.checking import Verdict, award, one_line
from ringside.checking.cases import Formula
from ringside.scale.hybrid_cost import Config, Model, why_illegal
from ringside.units import format_count

MOST_ASKED = 20_000  # evaluations of the cost model in one plan
GB = 10**9
AMPLE = 10**15  # bytes of a GPU on which everything fits
SMALL = (6, 192, 4, 24, 3000, 128)  # layers, hidden, heads, batch, vocabulary, sequence
MODELS = {  # of Megatron-LM's table 1, with its batches
    "18B": (40, 6144, 48, 1024, 51200, 2048),
    "39B": (48, 8192, 64, 1536, 51200, 2048),
    "146B": (80, 12288, 96, 2304, 51200, 2048),
    "1T": (128, 25600, 160, 3072, 51200, 2048),
}


@dataclass(frozen=True)
class Plan(Formula):
    """A plan.

    Attributes:
        model: layers, hidden, heads, batch, vocabulary, sequence.
        cost: the cost model's name in ``given/planner_costs.py``.
        gives: seconds of the fastest mixture that fits. Where it must raise: bytes of the mixture
            that takes least, which the message must name; None: any message.
    """

    target = "planner:plan"
    caller = "checks/inside.py:plans"
    unsaid = SAYING_MACHINE
    model: tuple = SMALL
    num_gpus: int = 8
    memory_bytes: int = AMPLE
    cost: str = "plain"
    machine: str = field(default="zaratan", kw_only=True)

    @property
    def named(self):
        """The model's attributes."""
        return dict(zip(NAMES, self.model, strict=True))

    def arguments(self):
        return self.named, self.machine, self.num_gpus, self.memory_bytes, self.cost

    def __str__(self):
        millions = Model(**self.named).num_parameters() / 1e6
        size = f"{millions:,.0f}" if millions >= 10 else f"{millions:.2f}"
        beside = "" if self.cost == "plain" else f", with the cost model {self.cost!r}"
        return (
            f"plan for {size} million parameters on {format_count(self.num_gpus, 'GPU')} of "
            f"{self.machine} with {self.memory_bytes / GB:.6g} GB{beside}"
        )

    def check_answer(self, value, error):
        """A plan can run and fits; where nothing fits, both values are named."""
        fields, message, _ = value
        if error:
            self._check_refusal(message, error)
        elif self.raises:
            raise Verdict(f"{self} returned a Config; nothing fits, so it must raise ValueError.")
        else:
            self.planned(fields)

    def _check_refusal(self, message, error):
        if not self.raises:
            raise Verdict(
                f"{self} raised {error}: {one_line(message, 150)}; it must return a Config."
            )
        digits = message.replace(",", "").replace("_", "").replace("'", "")
        names = (self.memory_bytes, "what there is"), (self.gives, "what the nearest mixture takes")
        for number, what in names if self.gives else ():
            if str(number) not in digits:
                raise Verdict(
                    f'{self} raised "{one_line(message, 200)}", without {what}: {number} bytes.'
                )

    def planned(self, fields):
        """``(config, cost)`` of a plan; a verdict where it can't run or doesn't fit."""
        if isinstance(fields, str):
            raise Verdict(f"{self} is {fields}; it must be a Config.")
        config = Config(**{**fields, "order": tuple(fields["order"])})
        model = Model(**self.named)
        wrong = why_illegal(model, config)
        if not wrong and config.num_gpus != self.num_gpus:
            wrong = f"it uses {config.num_gpus} GPUs"
        if wrong:
            raise Verdict(f"{self} is {config}, which can't run: {wrong}.")
        costs = COSTS[self.cost](model, config, Machine.load(self.machine))
        if costs.memory_bytes > self.memory_bytes:
            raise Verdict(
                f"{self} is {config}, which takes {costs.memory_bytes} bytes of "
                f"{self.memory_bytes}."
            )
        return config, costs

    def check_fast(self, value, full=1 + 1e-9, half=None):
        """No slower than ``full`` times the fastest; half of the points up to ``half`` times."""
        fields, _, asked = value
        if asked > MOST_ASKED:
            raise Verdict(f"{self} asked the cost model {asked} times; {MOST_ASKED} are allowed.")
        if fields is None or self.gives is None:
            return
        config, costs = self.planned(fields)
        ratio = costs.step_s / self.gives
        award(
            1.0 if ratio <= full else 0.5 if half and ratio <= half else 0.0,
            f"{self} is {config}, which takes {costs.step_s:.9g} s; the fastest that fits takes "
            f"{self.gives:.9g} s"
            + (f": {ratio:.3f} times; {full:g} times gets all points." if half else "."),
        )
