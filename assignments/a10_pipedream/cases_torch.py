"""Calls of the torch modules, as the tests make them: supplied, nothing to write.

A case is what a verdict is about: its words, its inputs, and the line that runs the same thing.
Beside them stands what must come out: the same recursion for all stages, in NumPy on one process.
"""

from dataclasses import dataclass

import numpy as np

from ringside import checking
from ringside.checking import assert_array, one_line
from ringside.trace import Kind
from ringside.units import format_count


def one_f_one_b(num_stages, num_minibatches, stage):
    """The passes of a stage in 1F1B order, without a flush: letter and minibatch.

    >>> one_f_one_b(2, 3, 0)
    [('F', 0), ('F', 1), ('B', 0), ('F', 2), ('B', 1), ('B', 2)]
    """
    in_flight = num_stages - stage
    order = [("F", m) for m in range(min(in_flight, num_minibatches))]
    for m in range(num_minibatches):
        order.append(("B", m))
        if m + in_flight < num_minibatches:
            order.append(("F", m + in_flight))
    return order


# -- stash_torch -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StashTorchCase(checking.Call):
    """Calls of ``stash_torch.train``, one after another; inputs come from ``seed``.

    ``ends`` and ``hidden`` are widths: what stages hand on takes turns between two of them.
    """

    place = "stage"

    batch_sizes: tuple = ()
    vertical_sync: bool = False
    optimizer: str = "sgd"
    num_calls: int = 1
    ends: tuple = (5, 4)
    hidden: int = 6
    costs: tuple = (1e-6, 2e-6)
    seed: int = 0

    def widths(self, stage):
        """Input, hidden and output of a stage."""
        return self.ends[stage % 2], self.hidden, self.ends[(stage + 1) % 2]

    def inputs(self):
        """Parameters of each stage, and of each call inputs and targets."""
        rng, params = np.random.default_rng(self.seed), []
        for stage in range(self.world_size):
            d_in, d, d_out = self.widths(stage)
            shapes = (d, d_in), (d,), (d_out, d), (d_out,)
            params.append([rng.standard_normal(shape) / np.sqrt(shape[-1]) for shape in shapes])
        first, last = self.ends[0], self.widths(self.world_size - 1)[2]
        calls = [
            tuple(
                [rng.standard_normal((size, width)) for size in self.batch_sizes]
                for width in (first, last)
            )
            for _ in range(self.num_calls)
        ]
        return params, calls

    def arguments_of_ranks(self):
        """What ``callers_torch.stash_torch_trained`` gets on each stage, after ``group``."""
        (params, calls), last = self.inputs(), self.world_size - 1
        return [
            (
                {"widths": self.widths(s), "costs": self.costs, "optimizer": self.optimizer},
                params[s],
                list(self.batch_sizes),
                [(x if s == 0 else None, y if s == last else None) for x, y in calls],
                self.vertical_sync,
            )
            for s in range(self.world_size)
        ]

    def version(self, stage, minibatch):
        """The version of a stage's parameters that a minibatch meets there."""
        late = self.world_size - 1 - (0 if self.vertical_sync else stage)
        return max(0, minibatch - late)

    def passes(self, stage):
        """The passes of one call in their order: letter and minibatch."""
        return one_f_one_b(self.world_size, len(self.batch_sizes), stage)

    def sent(self, stage):
        """Messages and bytes that a stage may send in all."""
        samples = self.num_calls * sum(self.batch_sizes)
        count = self.num_calls * len(self.batch_sizes)
        d_in, _, d_out = self.widths(stage)
        forward, backward = stage < self.world_size - 1, stage > 0
        return count * (forward + backward), 8 * samples * (d_out * forward + d_in * backward)


def stash_torch_case(
    num_stages, batch_sizes, rng, *, vertical_sync=False, optimizer="sgd", num_calls=1,
    ends=(5, 4), hidden=6, costs=(1e-6, 2e-6), memory=False,
):  # fmt: skip
    """``stash_torch.train`` on data that are drawn; ``rng`` gives the seed."""
    seed = int(rng.integers(2**31))
    words = f"--batch-sizes '{list(batch_sizes)}'"
    words += " --vertical-sync True" if vertical_sync else ""
    words += f" --optimizer {optimizer}" if optimizer != "sgd" else ""
    words += f" --num-calls {num_calls}" if num_calls > 1 else ""
    words += f" --ends '{list(ends)}' --hidden {hidden}" if (ends, hidden) != ((5, 4), 6) else ""
    words += f" --costs '{list(costs)}'" if costs != (1e-6, 2e-6) else ""
    count = len(batch_sizes)
    alike = len(set(batch_sizes)) == 1
    sizes = format_count(batch_sizes[0], "sample") if alike else f"{list(batch_sizes)} samples"
    return StashTorchCase(
        "stash_torch:train", num_stages, count, "float64",
        about=f"{count} {'minibatch' if count == 1 else 'minibatches'} of {sizes}"
        f"{', vertical_sync' if vertical_sync else ''}"
        f"{f', {optimizer}' if optimizer != 'sgd' else ''}"
        f"{f', {num_calls} calls' if num_calls > 1 else ''}",
        line=f"ringside run callers_torch.py:stash_torch_{'memory' if memory else 'trained'} "
        f"--ranks {num_stages} -- {words} --data {seed}",
        batch_sizes=tuple(batch_sizes), vertical_sync=vertical_sync, optimizer=optimizer,
        num_calls=num_calls, ends=tuple(ends), hidden=hidden, costs=tuple(costs), seed=seed,
    )  # fmt: skip


def stash_torch_serial(case, factors=None):
    """The delayed recursion on one process.

    Args:
        factors: of the passes, in a test of order.

    Returns:
        Parameters of each stage at the end, and the losses of each call.
    """
    newest, calls = case.inputs()
    speed = [[np.zeros_like(each) for each in own] for own in newest]
    momentum = 0.6 if case.optimizer == "momentum" else 0.0
    losses = []
    for number, (inputs, targets) in enumerate(calls):
        history = [[own] for own in newest]  # of each stage, all versions
        losses.append([])
        for m, (x, target) in enumerate(zip(inputs, targets, strict=True)):
            which = number * len(inputs) + m
            met = [own[case.version(s, m)] for s, own in enumerate(history)]
            loss, grads = _stash_gradients(met, x, target, which, factors)
            losses[-1].append(loss)
            for s, own in enumerate(history):
                speed[s] = [momentum * v + g for v, g in zip(speed[s], grads[s], strict=True)]
                own.append([w - 0.1 * v for w, v in zip(own[-1], speed[s], strict=True)])
        newest = [own[-1] for own in history]
    return newest, losses


def _stash_gradients(params, x, target, number, factors):
    """Loss, and gradients of each stage's parameters, of one minibatch."""

    def begun(letter, stage, array):
        if factors is None:
            return array
        return factors.scaled(stage, f"{letter} of piece {stage}", number, array)

    kept = []
    for stage, (w1, b1, w2, b2) in enumerate(params):
        x = begun("F", stage, x)
        h = np.tanh(x @ w1.T + b1)
        y = np.tanh(h @ w2.T + b2)
        kept.append((x, h, y))
        x = y
    loss, grad, grads = 0.5 * ((x - target) ** 2).sum() / len(x), (x - target) / len(x), []
    for stage, (w1, _, w2, _) in reversed(list(enumerate(params))):
        x, h, y = kept[stage]
        dz2 = begun("B", stage, grad) * (1 - y * y)
        dz1 = dz2 @ w2 * (1 - h * h)
        grads.append([dz1.T @ x, dz1.sum(axis=0), dz2.T @ h, dz2.sum(axis=0)])
        grad = dz1 @ w1
    return float(loss), grads[::-1]


def assert_stash_torch(result, case):
    """The parameters of the recursion, without collectives that carry the stages' tensors."""
    moved = sum(record.nbytes for record in getattr(result, "collectives", ()))
    if moved > 64 * (1 + len(case.batch_sizes)):
        raise (
            case.seen_in(result)
            .asking("own")
            .fail(
                f"{moved} bytes went through torch's collectives; stages must send their "
                "activations and gradients themselves."
            )
        )
    newest, _ = stash_torch_serial(case, getattr(result, "factors", None))
    for stage, value in enumerate(result.values):
        assert_stash_torch_params(value, stage, newest[stage], case.seen_in(result))


def assert_stash_torch_params(value, stage, right, case):
    """What the module of a stage holds."""
    eps = 2 * (case.world_size + 1) * np.finfo("float64").eps
    for number, (param, wanted) in enumerate(zip(value["params"], right, strict=True)):
        scale = np.full(wanted.shape, 1e-10 / eps * (1 + np.abs(wanted).max()))
        what = f"parameter {number} of stage {stage} after all updates"
        assert_array(param, wanted, scale, case, what)


def assert_stash_torch_losses(result, call, case=None):
    """What ``run`` returned: losses on the last stage, None on the others."""
    case = case or call.seen_in(result).asking("torch_losses")
    _, losses = stash_torch_serial(call, getattr(result, "factors", None))
    for stage, value in enumerate(result.values):
        for told, right in zip(value["losses"], losses, strict=True):
            if stage < case.world_size - 1:
                if told is not None:
                    raise case.fail(f"stage {stage} returned {one_line(repr(told), 60)}, not None.")
                continue
            if not isinstance(told, list) or len(told) != len(right):
                raise case.fail(
                    f"the last stage returned {one_line(repr(told), 60)}; it must be a list of "
                    f"{len(right)} losses."
                )
            for m, (mine, exact) in enumerate(zip(told, right, strict=True)):
                if not isinstance(mine, float):
                    raise case.fail(f"loss {m} is a {type(mine).__name__}; it must be a float.")
                if not abs(mine - exact) <= 1e-10 * (1 + abs(exact)):
                    raise case.fail(f"the loss of minibatch {m} is {mine:.12g}, not {exact:.12g}.")


def assert_stash_torch_kept(result, call, case=None):
    """Inputs and parameter objects are those of before, and every ``grad`` is None."""
    case = case or call.seen_in(result).asking("torch_kept")
    for stage, value in enumerate(result.values):
        if value["kept"] is not True:
            raise case.fail(
                f"stage {stage} changed its inputs or targets, or its module holds other parameter "
                "objects than before; the optimizer holds the old ones."
            )
        if value["cleared"] is not True:
            raise case.fail(f"after the call a parameter of stage {stage} has a grad, not None.")


def assert_stash_torch_passed_on(result, call, case=None):
    """Each stage computed passes, and sent each neighbour half of what is due there, or more."""
    case = case or call.seen_in(result).asking("torch_passed_on")
    sent, samples = result.bytes_matrix(), call.num_calls * sum(call.batch_sizes)
    for stage in range(call.world_size):
        if not any(op.kind == Kind.COMPUTE and op.detail[2] for op in result.trace.ops[stage]):
            raise case.fail(f"stage {stage} computed no pass of its piece.")
        for other in {stage - 1, stage + 1} & set(range(call.world_size)):
            due = 8 * samples * call.widths(max(stage, other))[0]
            if sent[stage, other] < due / 2:
                what = "activations" if other > stage else "gradients"
                raise case.fail(
                    f"stage {stage} sent {sent[stage, other]} bytes to stage {other} in messages "
                    f"of its own; the {what} have {due}."
                )


def assert_stash_torch_sent(result, call, case=None):
    """At most 2 messages for each minibatch and boundary, and no more bytes than they need."""
    case = case or call.seen_in(result).asking("torch_sent")
    for stage in range(case.world_size):
        messages, nbytes = call.sent(stage)
        sent, size = result.sent_messages()[stage], result.sent_bytes()[stage]
        if sent > messages:
            raise case.fail(f"stage {stage} sent {sent} messages; at most {messages} are allowed.")
        if size > nbytes:
            raise case.fail(
                f"stage {stage} sent {size} bytes; its activations and gradients have {nbytes}."
            )


def assert_stash_torch_order(result, call, case=None):
    """Each stage announced its passes in the order of 1F1B, and declared them there."""
    case = case or call.seen_in(result).asking("torch_order")
    for stage, member in enumerate(result.members or range(case.world_size)):
        ops = result.trace.ops[member]
        begun = [(op.detail[0][0], op.detail[1]) for op in ops if op.kind == Kind.PASS]
        wanted = call.passes(stage)
        if begun != wanted:
            both = zip(begun, wanted, strict=False)
            differ = (k for k, (a, b) in enumerate(both) if a != b)
            at = next(differ, min(len(begun), len(wanted)))
            raise case.fail(
                f"stage {stage} announced {_shown(begun, at)} as pass number {at}; it must be "
                f"{_shown(wanted, at)}.",
                f"announced: {_listed(begun)}\nasked for: {_listed(wanted)}",
            )
    checking.assert_declared_at_once(result, case)


def _shown(passes, at):
    return f"{passes[at][0]}{passes[at][1]}" if at < len(passes) else "nothing"


def _listed(passes):
    return " ".join(f"{letter}{m}" for letter, m in passes)


def assert_stash_torch_memory(result, call, case=None):
    """Parameters, their gradients, S - s copies, and parameters once more."""
    case = case or call.seen_in(result).asking("torch_memory")
    for stage in range(case.world_size):
        d_in, d, d_out = call.widths(stage)
        one = 8 * (d * d_in + d + d_out * d + d_out)
        copies = call.world_size - (0 if call.vertical_sync else stage)
        allowed = (3 + copies) * one + one // 2
        peak = result.memory[stage]["peak"]
        if peak > allowed:
            raise case.fail(
                f"stage {stage} held {peak} bytes at one time; with parameters of {one} bytes "
                f"{allowed} are allowed: parameters, gradients, {copies} copies, one more of them, "
                "and half of them for activations."
            )


def stash_torch_reference_s(case, machine):
    """How long the schedule takes where receives are posted one pass ahead, and sends wait last.

    A message of n bytes takes ``alpha + n beta`` from when it is sent and its receive is posted.
    """
    lists = [case.passes(stage) for stage in range(case.world_size)]
    takes_s = dict(zip("FB", case.costs, strict=True))
    sent, free_s, at = {}, [0.0] * case.world_size, [0] * case.world_size
    posted = {(stage, *own[0]): 0.0 for stage, own in enumerate(lists)}
    while any(k < len(own) for k, own in zip(at, lists, strict=True)):
        for stage, own in enumerate(lists):
            if at[stage] == len(own):
                continue
            letter, m = own[at[stage]]
            source = stage + (-1 if letter == "F" else 1)
            here = free_s[stage]
            if 0 <= source < case.world_size:
                if (letter, source, m) not in sent:
                    continue
                there, nbytes = sent[letter, source, m]
                begun = max(there, posted[stage, letter, m])
                here = max(here, begun + machine.alpha_s + nbytes * machine.beta_s_per_byte)
            at[stage] += 1
            if at[stage] < len(own):
                posted[(stage, *own[at[stage]])] = here
            free_s[stage] = here + takes_s[letter]
            width = case.widths(stage)[2 if letter == "F" else 0]
            sent[letter, stage, m] = free_s[stage], 8 * case.batch_sizes[m] * width
    return max(free_s)
