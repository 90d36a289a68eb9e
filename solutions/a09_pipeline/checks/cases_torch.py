"""The steps of pipeline_torch.py that the tests make, and what must come of them: without torch."""

from dataclasses import dataclass

from given.model import Piece

import ringside
from checks.cases_stage import MeasuredStep, Step, letter
from ringside.checking import assert_ran
from ringside.checking.cases import cast
from ringside.trace import Kind


class Numbered(Piece):
    """A piece whose passes are announced as ``given/model_torch.py`` does it.

    There a pass is known by the order in which its piece makes it.
    """

    def __init__(self, params, number, order):
        super().__init__(params, number)
        self.order = order  # per letter the microbatches

    def _begin(self, what, seconds, given):
        phase, order = f"{what[0]} of piece {self.number}", self.order[what[0]]
        return ringside.announce(phase, given, order.index(int(what[1:])))


@dataclass(frozen=True)
class StepTorch(Step):
    """One training step.

    Attributes:
        recompute: ``run`` keeps inputs only.
        dropout: probability with which a hidden value is left out; then nothing is compared.
    """

    target = "pipeline_torch:run"
    through = "checks/inside_torch.py:stepped"
    recompute: bool = False
    dropout: float = 0.0

    @property
    def more(self):
        return self.recompute, self.dropout

    @property
    def told(self):
        again = ["recomputing"] if self.recompute else []
        again += [f"dropout {self.dropout:g}"] if self.dropout else []
        return ", ".join([super().told, *again])

    def piece(self, number):
        chunk, stage = divmod(number, self.p)
        own = [each for each in self.actions[stage] if each.chunk == chunk]
        order = {kind: [each.microbatch for each in own if letter(each) == kind] for kind in "FB"}
        return Numbered(cast(self.params[number], "float64"), number, order)

    def check(self, run):
        if self.dropout:
            assert_ran(run, self)
        else:
            super().check(run)

    changed = (
        "changed its parameters, inputs or targets (their values, their requires_grad or grad, or "
        "a list of them), or left training mode"
    )

    def passes(self, run, stage):
        """What a stage's modules computed: "F of piece 2"."""
        ops = run.trace.ops[self.rank_of(stage)]
        phases = [str(op.detail[3]) for op in ops if op.kind == Kind.COMPUTE]
        return [phase for phase in phases if phase[:10] in ("F of piece", "B of piece")]

    def check_order(self, run):
        """Passes in the order of the list; with recomputation a forward before each backward."""
        for stage, actions in enumerate(self.actions):
            wanted = self.numbered(stage, actions)
            done, must = self.passes(run, stage), [phase for phase, _ in wanted]
            ops = run.trace.ops[self.rank_of(stage)]
            begun = [op.detail[:2] for op in ops if op.kind == Kind.PASS]
            if done == must and self.announced and begun != wanted:
                raise self.fail(
                    f"stage {stage} announced its passes in another order than its list has them."
                )
            if done != must:
                pairs = enumerate(zip(done, must, strict=False))
                at = next((k for k, (one, other) in pairs if one != other), -1)
                beside = f"; pass {at} was {done[at]}, not {must[at]}" if at >= 0 else ""
                raise self.fail(
                    f"stage {stage} computed {len(done)} passes, and {len(must)} are asked for"
                    f"{beside}."
                )
        if self.announced:
            self.check_received(run)

    def numbered(self, stage, actions):
        """What is announced: passes of a piece are numbered as the list has them."""
        passes, counts = [], {}
        for action in actions:
            piece = action.chunk * self.p + stage
            forward, back = f"F of piece {piece}", letter(action) == "B"
            phase = f"B of piece {piece}" if back else forward
            if back and self.recompute:
                passes.append((forward, counts[forward, action.microbatch]))
            counts[phase, action.microbatch] = counts[phase] = counts.get(phase, -1) + 1
            passes.append((phase, counts[phase]))
        return passes

    def spent(self, action):
        again_s = self.costs[0] if self.recompute and letter(action) == "B" else 0.0
        return super().spent(action) + again_s


@dataclass(frozen=True)
class MeasuredPipeline(MeasuredStep):
    """The same step in torch, which computes in float64 whatever was asked for."""

    target = "checks/inside_torch.py:measured_pipeline"

    @property
    def step(self):
        return super().step.with_(dtype="float64")
