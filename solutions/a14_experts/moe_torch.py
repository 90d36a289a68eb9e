"""A layer of experts on torch.distributed, whose exchange hides behind a shared expert.

Beside the experts that a gate chooses, many models have a *shared* one, which sees every token. It
needs no message, so it computes while the tokens travel:

    counts | tokens travel ......... | experts | answers travel | sum       forward
           | shared expert computes  |

    sum | gradients travel | experts | gradients travel ....... |           backward
                                     | shared expert's backward |

Autograd runs operations in the reverse of their order in the forward pass. Let an exchange be
**two** operations: one starts it, the other waits for it, and the shared expert stands between
them. Then the backward pass has the same shape by itself: the backward of the wait starts the
exchange of gradients, and the backward of the start waits for it. A gradient must have the shape
of what it belongs to: so the start may return a stand-in, as many rows as it sends, and the wait
what came.

Rules:

- ``group`` is a process group of p ranks. Expert e lives on rank ``owners(num_experts, p)[e]``
  (``given/experts.py``).
- ``by_expert`` and ``by_rank`` of ``given/experts_torch.py`` sort what has come, and what goes
  back. You need not use them.
- ``all_to_all_single`` is the only collective.
- Experts and shared expert may be any modules from (n, d) to (n, d).

Source: Rajbhandari et al. 2022, "DeepSpeed-MoE"; DeepSeek-AI 2024, "DeepSeek-V3", section 3.2.
"""

import torch
import torch.distributed as dist
from given.experts import owners
from given.experts_torch import by_expert, by_rank
from torch import nn


class Experts(nn.Module):
    """A shared expert and E routed ones: ``y = shared(x) + sum of weight * expert(x)``.

    The sum is over those of a token's k experts that keep it.

    Args:
        group: the ranks.
        gate: ``gate(x)`` gives ``(experts, weights, kept)``, each of shape (T, k).
        experts: this rank's experts, a list of modules.
        shared: the shared expert; every rank has a copy.
        num_experts: E, of all ranks together.

    ``forward(x)`` takes this rank's tokens, shape (T, d), and returns a new tensor of this shape
    and dtype. T may differ from rank to rank, and be 0.

    - Values and gradients: those of one rank with all experts and all tokens, to 1e-12 of the
      largest element (1e-5 in float32). An expert's gradients are sums over all ranks' tokens;
      those of the gate and of the shared expert are of this rank's tokens alone (data parallelism
      sums them, elsewhere).
    - Rows: a token that isn't kept isn't sent. A row goes once to its expert's rank and once back,
      in each pass. Example: 100 rows of 64 elements in float32, 75 of them for experts of other
      ranks: 19,200 bytes go there, and 19,200 come back.
    - Counts are sent once, 8 bytes for each expert of another rank. So the forward pass has at most
      three exchanges, and the backward pass two.
    - Every rank takes part in every exchange of both passes, even with no row to send or to
      receive. If there is a backward pass, x requires a gradient on every rank.
    - Other forward passes may come between a forward pass and its backward pass, as in a pipeline.
    - Time, if the shared expert takes longer than an exchange of rows: at most 1.05 times the work,
      the counts, and one exchange of rows in each pass; the other one is hidden. This is asked of
      the forward pass alone, and of both. Half the points go to 1.1 times.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        gate: nn.Module,
        experts: list[nn.Module],
        shared: nn.Module,
        num_experts: int,
    ):
        super().__init__()
        self.group, self.num_experts = group, num_experts
        self.gate, self.shared = gate, shared
        self.experts = nn.ModuleList(experts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``y`` for this rank's tokens."""
        ### BEGIN SOLUTION
        experts, weights, kept = self.gate(x)
        token, choice = torch.nonzero(kept, as_tuple=True)
        numbers, order = torch.sort(experts[token, choice], stable=True)
        token, choice = token[order], choice[order]
        p, mine = dist.get_world_size(self.group), len(self.experts)
        owner = torch.from_numpy(owners(self.num_experts, p)).to(x.device)
        counts = torch.bincount(numbers, minlength=self.num_experts)
        theirs = torch.bincount(owner, minlength=p).tolist()
        coming = counts.new_empty(p * mine)
        dist.all_to_all_single(coming, counts, [mine] * p, theirs, group=self.group)
        coming = coming.view(p, mine)
        sent = [int(part.sum()) for part in counts.split(theirs)]
        came = coming.sum(dim=1).tolist()

        way = _Way(self.group)
        rows = _Start.apply(x[token], sent, came, way)
        shared = self.shared(x)
        rows = _Finish.apply(rows, way)
        each = zip(self.experts, by_expert(rows, coming), strict=True)
        there = by_rank([expert(part) for expert, part in each], coming, rows)
        back = _Way(self.group)
        answers = _Finish.apply(_Start.apply(there, came, sent, back), back)
        return shared.index_add(0, token, weights[token, choice][:, None] * answers)


class _Way:
    """An exchange that is under way: what was started, and not yet waited for."""

    def __init__(self, group):
        self.group, self.work = group, None

    def start(self, rows, sent, came):
        self.rows, self.into = rows.contiguous(), rows.new_empty(sum(came), *rows.shape[1:])
        self.work = dist.all_to_all_single(
            self.into, self.rows, came, sent, group=self.group, async_op=True
        )
        return self.into

    def finish(self):
        self.work.wait()
        into, self.rows, self.into = self.into, None, None
        return into


class _Start(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, sent, came, way):
        ctx.way, way.counts = way, (sent, came)
        return way.start(rows, sent, came)

    @staticmethod
    def backward(ctx, grad_rows):
        # What arrives by autograd is a stand-in: the gradient itself comes by the exchange.
        return ctx.way.finish(), None, None, None


class _Finish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, way):
        ctx.way = way
        way.finish()
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx, grad_rows):
        sent, came = ctx.way.counts
        ctx.way.start(grad_rows, came, sent)
        return grad_rows, None

    ### END SOLUTION
