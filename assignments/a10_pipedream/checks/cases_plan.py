"""The calls of partition.py that the tests make, and what must come of them."""

from dataclasses import dataclass

from given.profiles import layers_of

from ringside.checking import Verdict, award, one_line
from ringside.checking.cases import Formula
from ringside.units import format_count

FREE = float("inf")  # bytes per second of a link whose messages take no time


@dataclass(frozen=True)
class Planner(Formula):
    """A call about a profile.

    Attributes:
        profile: as ``given.profiles.layers_of`` takes it.
    """

    caller = "checks/inside.py:planner"
    profile: object = ()

    @property
    def layers(self):
        return layers_of(self.profile)

    def __str__(self):
        name = self.profile if isinstance(self.profile, str) else ""
        words = [name or format_count(len(self.layers), "layer"), *self.words]
        return f"{self.function}({', '.join(words)})"


@dataclass(frozen=True)
class PlanS(Planner):
    """The time of a plan, at so many bytes per second."""

    target = "partition:plan_s"
    plan: tuple = ()
    bytes_per_s: float = FREE

    def arguments(self):
        return self.profile, list(self.plan), self.bytes_per_s

    @property
    def words(self):
        return str(list(self.plan)), f"{self.bytes_per_s:g} bytes/s"


@dataclass(frozen=True)
class PlanBytes(Planner):
    """What a worker of each stage of a plan needs."""

    target = "partition:plan_bytes"
    plan: tuple = ()

    def arguments(self):
        return self.profile, list(self.plan)

    @property
    def words(self):
        return (str(list(self.plan)),)

    def check_value(self, value):
        super().check_value(value)
        if not all(type(number) is int for number in value):
            raise Verdict(f"{self} is {one_line(repr(value), 200)}; it must hold whole numbers.")


@dataclass(frozen=True)
class Partition(Planner):
    """A plan as short as the shortest one, which takes ``gives`` seconds.

    Attributes:
        workers: so many may be used.
        capacity: bytes of a worker; None: no limit.
    """

    target = "partition:partition"
    shortest = "the shortest plan"
    workers: int = 4
    bytes_per_s: float = FREE
    capacity: int | None = None

    def arguments(self):
        return self.profile, self.workers, self.bytes_per_s, self.capacity

    @property
    def words(self):
        capacity = () if self.capacity is None else (f"capacity_bytes={self.capacity}",)
        workers = format_count(self.workers, "worker")
        return workers, f"{self.bytes_per_s:g} bytes/s", *capacity

    def check_value(self, value):
        text = f"{self} is {one_line(repr(value), 200)}"
        if wrong := self.illegal(value):
            raise Verdict(f"{text}: {wrong}.")
        if self.capacity is not None:
            for stage, needed in enumerate(self.needs(value)):
                if needed > self.capacity:
                    raise Verdict(
                        f"{text}, which needs {needed} bytes in stage {stage}; {self.capacity} are "
                        "there."
                    )
        if self.gives is not None:
            self.check_time(text, *max((seconds, what) for what, seconds in self.takes(value)))

    def check_time(self, text, seconds, what):
        """It takes no longer than the shortest plan.

        Args:
            what: the part of the plan that takes longest.
        """
        if seconds > self.gives * (1 + 1e-9):
            raise Verdict(
                f"{text}, in which {what} takes {seconds:.9g} s; {self.shortest} takes "
                f"{self.gives:.9g} s."
            )

    def illegal(self, plan):
        """What is wrong with the form of a plan, if anything."""
        if not isinstance(plan, list | tuple) or not plan:
            return "it must be a list of stages"
        if not all(isinstance(stage, list | tuple) and len(stage) == 3 for stage in plan):
            return "each stage must be a tuple (lo, hi, replicas)"
        if not all(type(number) is int for stage in plan for number in stage):
            return "lo, hi and replicas must be whole numbers"
        edges, count = [0] + [hi for _, hi, _ in plan], len(self.layers)
        if [lo for lo, _, _ in plan] != edges[:-1] or edges[-1] != count:
            return f"each of layers 0 to {count - 1} must be in one stage, in order"
        if any(hi <= lo or replicas < 1 for lo, hi, replicas in plan):
            return "each stage must have a layer and a worker"
        used = sum(replicas for _, _, replicas in plan)
        return f"it uses {used} workers of {self.workers}" if used > self.workers else ""

    def takes(self, plan):
        """What works at the same time in a plan, and its seconds for each minibatch."""
        for stage, (lo, hi, replicas) in enumerate(plan):
            own = self.layers[lo:hi]
            yield f"stage {stage}", sum(layer.compute_s for layer in own) / replicas
            nbytes = 2 * (replicas - 1) * sum(layer.weight_bytes for layer in own)
            yield f"averaging in stage {stage}", nbytes / self.bytes_per_s / replicas
            if hi < len(self.layers):
                nbytes = 2 * own[-1].output_bytes
                yield f"the link behind stage {stage}", nbytes / self.bytes_per_s

    def needs(self, plan):
        """Bytes of a worker of each stage."""
        for stage, (lo, hi, replicas) in enumerate(plan):
            behind = sum(number for *_, number in plan[stage:])
            versions = -(-behind // replicas)
            own = self.layers[lo:hi]
            yield versions * sum(layer.weight_bytes + layer.output_bytes for layer in own)


@dataclass(frozen=True)
class Published(Partition):
    """Of VGG-16, where the published plan is one of the shortest."""

    shortest = "the published one, 15 workers in the first stage and 1 in the second,"
    profile: object = "VGG16"
    workers: int = 16


@dataclass(frozen=True)
class Long(Partition):
    """Of a long profile: half of the points go to a plan of 1.5 times the shortest one's time."""

    def check_time(self, text, seconds, what):
        ratio = seconds / self.gives
        award(
            1.0 if ratio <= 1.05 else 0.5 if ratio <= 1.5 else 0.0,
            f"{text}, in which {what} takes {seconds:.6g} s; the shortest plan takes "
            f"{self.gives:.6g} s, and this is {ratio:.3f} times as long. 1.05 times is asked for, "
            "and half of the points go to 1.5.",
        )
