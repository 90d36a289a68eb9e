"""The calls of decode_torch.py that the tests make: models and prompts are those of decode.py."""

from dataclasses import dataclass

from checks.cases_decode import Forward, Generate, Greedy, MeasuredTokens


class OnGroup:
    """A call that gets a group."""

    def check(self, run):
        """As that of ``decode.py``, and no group was made."""
        super().check(run)
        if getattr(run, "comm_calls", None):
            raise self.fail("groups were made; none is allowed.")


@dataclass(frozen=True)
class ForwardTorch(OnGroup, Forward):
    """``decode_torch.forward``, as ``Forward``."""

    target = "decode_torch:forward"
    through = "checks/inside_torch.py:stepped"


@dataclass(frozen=True)
class GreedyTorch(OnGroup, Greedy):
    """``decode_torch.greedy``, as ``Greedy``."""

    target = "decode_torch:greedy"
    through = "checks/inside_torch.py:chosen"


@dataclass(frozen=True)
class GenerateTorch(OnGroup, Generate):
    """``decode_torch.generate``, as ``Generate``.

    Attributes:
        watched: the weights require gradients, and we look at what is kept for a backward pass.
    """

    target = "decode_torch:generate"
    through = "checks/inside_torch.py:generated"


@dataclass(frozen=True)
class MeasuredTokensTorch(MeasuredTokens):
    """``decode_torch.generate`` of a model of width n, for runs and jobs."""

    target = "checks/inside_torch.py:measured_tokens"
