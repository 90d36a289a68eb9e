"""The calls of step_torch.py that the tests make: without torch."""

from dataclasses import dataclass

from checks.cases import Broadcast, Step, Steps


@dataclass(frozen=True)
class TorchBroadcast(Broadcast):
    """``broadcast_parameters`` of a network.

    Attributes:
        frozen: parameters that don't learn.
        nested: the network is inside another module.
    """

    target = "step_torch:broadcast_parameters"
    through = "checks/inside_torch.py:broadcast"
    frozen: tuple = (0, 1)
    nested: bool = False

    def inputs(self, rank):
        return self.params(rank), self.frozen, self.nested


@dataclass(frozen=True)
class TorchStep(Step):
    """One step, for runs and jobs: parameters in, parameters out."""

    target = "checks/inside_torch.py:train_step"


@dataclass(frozen=True)
class TorchSteps(Steps):
    """Some steps of one network and optimizer, for the tests.

    Attributes:
        frozen: parameters that don't learn. The optimizer has them too.
        stale: before the first step, every parameter's ``grad`` holds something.
        nested: the network is inside another module, the optimizer has two groups, and a step of
            another network is made before.
    """

    target = "step_torch:train_step"
    through = "checks/inside_torch.py:steps"
    frozen: tuple = ()
    stale: bool = False
    nested: bool = False

    def inputs(self, rank):
        return *self.given(rank), self.frozen, self.stale, self.nested
