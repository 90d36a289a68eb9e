"""The calls of ring_attention_torch.py and zigzag_torch.py that the tests make: without torch."""

import functools
from dataclasses import dataclass, field

import numpy as np

from checks.cases import InParts
from ringside import replay
from ringside.checking import (
    assert_array,
    assert_moved,
    assert_own_messages,
    assert_peers,
    assert_ran,
    award,
    one_line,
)
from ringside.checking.cases import Case, assert_like, cast
from ringside.errors import RunError, TraceError
from ringside.scale import agreement
from ringside.trace import Kind

NAMES = {
    "out": "the result", "dq": "the gradient of q", "dk": "the gradient of k",
    "dv": "the gradient of v",
}  # fmt: skip
RESULT, GRADIENTS = ("out",), ("dq", "dk", "dv")
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
LONG = (102_400, 8, 8, 128)  # positions, heads, heads of keys, width


@dataclass(frozen=True)
class RingAttention(InParts, Case):
    """``ring_attention``, forward and backward.

    Attributes:
        lengths: of the parts; rank r has ``lengths[r % len(lengths)]`` positions.
        kv_heads: 0: as many as heads.
        how: "plain"; "gaps": tensors whose elements don't lie side by side; "together": two calls,
            whose backward passes follow both forward passes, the second call's first; "forward":
            no backward pass.
        spread: the standard deviation of queries and keys.
        parts: what is compared.
    """

    target = "ring_attention_torch:ring_attention"
    through = "checks/inside_ring_torch.py:ring"
    declared_like = "nothing"  # torch's operators are counted by themselves
    shares = (RESULT, GRADIENTS)
    machine: str = field(default="buffered", kw_only=True)
    dtype: str = field(default="float64", kw_only=True)
    how: str = field(default="plain", kw_only=True)
    spread: float = field(default=1.0, kw_only=True)
    parts: tuple = field(default=tuple(NAMES), kw_only=True)
    lengths: tuple = (3,)
    heads: int = 2
    kv_heads: int = 0
    width: int = 4
    batch: int = 2
    causal: bool = False

    @property
    def all_lengths(self):
        """Of each rank's part."""
        return [self.lengths[rank % len(self.lengths)] for rank in range(self.p)]

    @property
    def key_heads(self):
        """Heads of keys."""
        return self.kv_heads or self.heads

    @functools.cached_property
    def calls(self):
        """Per call and rank ``(q, k, v, dout)``."""
        rng = self.rng()

        def drawn(length, heads, spread=1.0):
            shape = self.batch, heads, length, self.width
            return (spread * rng.standard_normal(shape)).astype(self.dtype)

        def part(length):
            q, k = (drawn(length, heads, self.spread) for heads in (self.heads, self.key_heads))
            return q, k, drawn(length, self.key_heads), drawn(length, self.heads)

        calls = 2 if self.how == "together" else 1
        return [[part(length) for length in self.all_lengths] for _ in range(calls)]

    def inputs(self, rank):
        own = [parts[rank] for parts in self.calls]
        return own, *self.settings(), self.how

    def settings(self):
        """What the function gets beside tensors."""
        return self.all_lengths, self.causal

    def positions(self):
        """Per rank the positions of its part in the sequence."""
        cuts = np.cumsum(self.all_lengths)[:-1]
        return np.split(np.arange(sum(self.all_lengths)), cuts)

    def seen(self, rank, source):
        """Of a block: the rank's queries and the source's keys, as slices of their parts."""
        return slice(None), slice(None)

    @functools.cached_property
    def rights(self):
        """Per rank and call a dict as NAMES."""
        return list(zip(*(serial(self, parts) for parts in self.calls), strict=True))

    def right(self):
        return [{"calls": list(own), "changed": False} for own in self.rights]

    def wrong(self):
        if self.how == "forward" or self.p == 1 or len(set(self.all_lengths)) > 1:
            return {}
        after = [*self.rights[1:], self.rights[0]]
        words = "These are the gradients of the next rank's keys: the sums are one step from home."
        moved = [
            [
                {**one, "dk": other["dk"], "dv": other["dv"]}
                for one, other in zip(*each, strict=True)
            ]
            for each in zip(self.rights, after, strict=True)
        ]
        return {words: [{"calls": own, "changed": False} for own in moved]}

    def check(self, run):
        self.check_parts(run, self.parts)

    def check_parts(self, run, parts):
        """Compare these; look at messages, too."""
        assert_ran(run, self)
        names = [name for name in parts if name == "out" or self.how != "forward"]
        for rank, (value, rights) in enumerate(zip(run.values, self.right(), strict=True)):
            for own, right in zip(value["calls"], rights["calls"], strict=True):
                for name in names:
                    what = f"{NAMES[name]} on rank {rank}"
                    if own[name] is None:
                        raise self.fail(f"{what} is missing: None.")
                    assert_like(own[name], right[name], self, what, TOLERANCE[self.dtype])
        if hasattr(run, "trace"):  # real ranks have none
            self._check_ring(run)
            if self.announced and not self.causal and len(set(self.all_lengths)) == 1:
                self._check_early(run)

    def check_kept(self, run):
        """No rank changed what it was given."""
        for rank, value in enumerate(run.values):
            if value["changed"]:
                raise self.fail(f"rank {rank} changed a tensor that it was given.")

    # -- what the docstring allows -----------------------------------------------------------------

    @property
    def _position_bytes(self):
        """Of a position's keys and values."""
        itemsize = np.dtype(self.dtype).itemsize
        return 2 * self.batch * self.key_heads * self.width * itemsize

    @property
    def allowed_bytes(self):
        """What a rank may send in the passes that are made."""
        if self.p == 1:
            return 0
        lengths = self.all_lengths
        forward = (sum(lengths) - min(lengths)) * self._position_bytes
        if self.how == "forward":
            return forward
        return 2 * forward + sum(lengths) * self._position_bytes

    def block_flops(self):
        """Two products forward and five backward of the largest block, of two FLOPs a summand."""
        return 14 * max(self.all_lengths) ** 2 * self.batch * self.heads * self.width

    def check_volume(self, run):
        """At most the docstring's bytes, forward or in both passes."""
        what = "keys and values of all parts but one"
        if self.how != "forward":
            what += ", forward and backward, and the sums of their gradients"
        assert_moved(run, self.allowed_bytes, self, what)

    # -- what the network saw ----------------------------------------------------------------------

    def _check_ring(self, run):
        """Own messages, and to the two neighbours in the ring alone."""
        if not run.collectives or any(each.nbytes for each in run.collectives):
            assert_own_messages(run, self)
        world = list(run.members or range(self.p))
        allowed = [set() for _ in range(run.world_size)]
        for place, rank in enumerate(world):
            near = {world[(place + step) % self.p] for step in (1, -1)}
            allowed[rank] = near - {rank}
        rule = "keys and values go to the neighbours in the ring alone"
        assert_peers(run, allowed, self, rule)

    def _check_early(self, run):
        """When a block of the forward pass begins, only its keys and the next ones were asked for.

        So no rank gathers all keys first.
        """
        part = self._position_bytes * self.all_lengths[0]
        for rank, member in enumerate(run.members or range(run.world_size)):
            received, step = 0, 0
            for op in run.trace.ops[member]:
                received += op.nbytes if op.kind == Kind.IRECV else 0
                if op.kind == Kind.PASS and str(op.detail[0]).startswith("forward"):
                    step += 1
                    if received > step * part:
                        raise self.fail(
                            f"when rank {rank} began its forward block of step {step - 1}, it had "
                            f"started to receive {received} bytes; up to the next step's keys and "
                            f"values it is {step * part}."
                        )

    def check_travelling(self, run, direction):
        """When a block of this pass begins, its keys and values are on their way on."""
        p, part = self.p, self._position_bytes * self.all_lengths[0]
        for rank, ops in enumerate(run.trace.ops):
            sent, sources = 0, []
            for op in ops:
                sent += op.nbytes if op.kind == Kind.ISEND else 0
                if op.kind != Kind.PASS or not str(op.detail[0]).startswith(direction):
                    continue
                step = len(sources)
                sources.append(op.detail[0])
                before = (p - 1) * part if direction == "backward" else 0  # in the forward pass
                least = min(step + 1, p - 1) * part
                if sent - before < least:
                    raise self.fail(
                        f"when rank {rank} began its {direction} block of step {step}, it had "
                        f"started to send {max(0, sent - before)} bytes in that pass; with the "
                        f"keys and values of this step it must be {least}."
                    )
            if len(sources) != p or len(set(sources)) != p:
                raise self.fail(
                    f"rank {rank} announced {len(sources)} {direction} blocks for the keys of {p} "
                    "ranks: call the functions of given/attention_torch.py once for each rank's "
                    "keys."
                )

    def check_skipped(self, run):
        """The rank at place r computes r + 1 blocks, and the diagonal one counts in full."""
        one = self.block_flops()
        for rank, flops in enumerate(agreement.num_flops(run.trace)):
            if flops > 1.02 * (rank + 1) * one:
                raise self.fail(
                    f"rank {rank} made {flops:.0f} FLOPs in products; its {rank + 1} blocks that "
                    f"are not masked altogether have {(rank + 1) * one}."
                )


@dataclass(frozen=True)
class ZigzagAttention(RingAttention):
    """``zigzag_attention``, forward and backward."""

    target = "zigzag_torch:zigzag_attention"
    through = "checks/inside_ring_torch.py:zigzag"
    lengths: tuple = (4,)
    causal: bool = True

    def settings(self):
        return ()

    def positions(self):
        chunks = np.split(np.arange(sum(self.all_lengths)), 2 * self.p)
        return [np.concatenate([chunks[r], chunks[-1 - r]]) for r in range(self.p)]

    def seen(self, rank, source):
        half = self.lengths[0] // 2
        if source < rank:
            return slice(None), slice(0, half)
        return slice(half if source > rank else 0, None), slice(None)

    def check_balanced(self, run):
        """No rank computes more than a whole block, and a half one for each other rank."""
        most = self.block_flops() * (self.p + 1) // 2
        for rank, flops in enumerate(agreement.num_flops(run.trace)):
            if flops > 1.02 * most:
                raise self.fail(
                    f"rank {rank} made {flops:.0f} FLOPs in products; a whole block and "
                    f"{self.p - 1} halves have {most}."
                )


@dataclass(frozen=True)
class MeasuredRing(RingAttention):
    """The same, for runs and jobs."""

    target = "checks/inside_ring_torch.py:ring"
    through = ""


@dataclass(frozen=True)
class MeasuredZigzag(ZigzagAttention):
    """The same in zigzag order."""

    target = "checks/inside_ring_torch.py:zigzag"
    through = ""


@dataclass(frozen=True)
class Kept(RingAttention):
    """A forward pass, whose memory is looked at."""

    through = "checks/inside_ring_torch.py:kept_for_backward"
    batch: int = 1
    width: int = 64
    how: str = field(default="forward", kw_only=True)

    def inputs(self, rank):
        ((q, k, v, _),) = [parts[rank] for parts in self.calls]
        return q, k, v, self.all_lengths

    def check(self, run):
        assert_ran(run, self)
        for rank, value in enumerate(run.values):
            right, what = self.rights[rank][0]["out"], f"the result on rank {rank}"
            assert_like(value, right, self, what, TOLERANCE[self.dtype])

    def check_memory(self, run):
        """Between both passes a rank keeps at most seven tensors of its part's size."""
        part = self._position_bytes * self.lengths[0] // 2
        for rank, memory in enumerate(run.memory):
            kept = memory["live"]["activations"] + memory["live"]["communication"]
            if kept > 7 * part + 1024:
                raise self.fail(
                    f"rank {rank} keeps {kept} bytes for the backward pass; seven tensors of its "
                    f"part have {7 * part}, and the keys and values of all parts "
                    f"{2 * part * self.p}."
                )


@dataclass(frozen=True)
class Refused(Case):
    """``ring_attention`` with lengths that can't be right."""

    target = "ring_attention_torch:ring_attention"
    through = "checks/inside_ring_torch.py:refused"
    lengths: tuple = (4, 4)
    positions: int = 3

    def inputs(self, rank):
        return list(self.lengths), self.positions

    def check(self, run):
        assert_ran(run, self)
        for rank, error in enumerate(run.values):
            if error != "ValueError":
                raise self.fail(
                    f"rank {rank} raised {error or 'nothing'}; it must raise ValueError."
                )


@dataclass(frozen=True)
class Orders(Case):
    """``split`` and ``merge`` of a sequence.

    Attributes:
        ranks: that it is cut for.
        gives: the positions of each part; (): it can't be cut.
    """

    target = "zigzag_torch:split"
    through = "checks/inside_ring_torch.py:orders"
    p: int = field(default=1, kw_only=True)
    positions: int = 4
    ranks: int = 2
    gives: tuple = ()

    def __str__(self):
        return f"split of {self.positions} positions for {self.ranks} ranks"

    @property
    def sequence(self):
        """A tensor of so many positions."""
        return self.rng().standard_normal((2, 3, self.positions, 2))

    def inputs(self, rank):
        return self.sequence, self.ranks

    def check(self, run):
        assert_ran(run, self)
        ((parts, whole, error),) = run.values
        if not self.gives:
            if error != "ValueError":
                raise self.fail(f"raised {error or 'nothing'}; it must raise ValueError.")
            return
        if error:
            raise self.fail(f"split or merge raised {error}.")
        if len(parts) != self.ranks:
            raise self.fail(f"there are {len(parts)} parts.")
        for rank, (part, places) in enumerate(zip(parts, self.gives, strict=True)):
            right = self.sequence[:, :, list(places)]
            assert_array(part, right, None, self, f"the part of rank {rank}")
        assert_array(whole, self.sequence, None, self, "what merge makes of the parts")


# -- a long sequence -------------------------------------------------------------------------------


@dataclass(frozen=True)
class LongRing(RingAttention):
    """A run, and the time of a long sequence on many GPUs.

    Attributes:
        gpus: how many.
    """

    gpus: int = field(default=16, kw_only=True)
    full, half = 1.1, 1.5  # of the time of blocks alone: all points, and half

    def check_trace(self, ranks):
        """A trace on fake tensors is what the network counts of the same call."""
        target, p = "checks/inside_ring_torch.py:long_sequence", self.p
        given = self.target, 8 * p, self.heads, self.key_heads, self.width
        run = ranks.call(target, p, given)
        assert_ran(run, self)
        try:
            agreement.compare(ranks.trace(target, p, given).trace, run.trace)
        except (RunError, TraceError) as error:
            raise self.fail(
                f"a trace on fake tensors is not what the network counted: {one_line(error, 300)} "
                "Nothing may depend on the elements' values."
            ) from None

    def check_time(self, ranks):
        """A long sequence on GPUs of the machine "zaratan", against a rank's blocks alone."""
        count = self.gpus
        try:
            try:
                traced = self._traced(ranks, count, ("rank",))
            except RunError:  # ranks aren't alike; then each is traced, and that takes longer
                count = min(count, 16)
                traced = self._traced(ranks, count, ())
        except (RunError, TraceError) as error:
            raise self.fail(
                f"a trace of {count} ranks on fake tensors failed: {one_line(error, 300)} "
                "ringside.trace_torch of long_sequence in checks/inside_ring_torch.py shows why."
            ) from None
        blocks = "checks/inside_ring_torch.py:blocks_alone"
        alone = ranks.trace(blocks, 1, (self.target, count, *LONG))
        took_s, bound_s = (replay(each.trace, "zaratan").makespan_s for each in (traced, alone))
        ratio = took_s / bound_s
        award(
            1.0 if ratio <= self.full else 0.5 if ratio <= self.half else 0.0,
            f"{self.function} of {LONG[0]} positions on {count} GPUs of 'zaratan', forward and "
            f"backward: takes {took_s * 1e3:.1f} ms, {ratio:.3f} times the {bound_s * 1e3:.1f} ms "
            f"of a rank's blocks alone; at most {self.full:.4g} times that is asked for"
            f"{' (half the points)' if self.full < ratio <= self.half else ''}.",
        )

    def _traced(self, ranks, count, alike):
        target = "checks/inside_ring_torch.py:long_sequence"
        return ranks.trace(target, count, (self.target, *LONG), grid={"rank": count}, alike=alike)


@dataclass(frozen=True)
class LongZigzag(LongRing, ZigzagAttention):
    """The same in zigzag order."""

    full, half = 1 / 0.95, 1.2
    lengths: tuple = (4,)
    causal: bool = True


def serial(case, parts):
    """Attention over the whole sequence: per rank a dict as NAMES.

    The keys of a block are scaled forward, and ``dout`` backward, where passes have factors: for
    each rank and block by others.

    Args:
        parts: per rank ``(q, k, v, dout)``.
    """
    places, p = case.positions(), case.p
    parts = [tuple(each.astype("float64") for each in own) for own in parts]
    found = [[None, *(np.zeros_like(each) for each in own[:3])] for own in parts]
    group = case.heads // case.key_heads

    def scaled(rank, phase, array):
        return case.factors.scaled(rank, phase, 0, array) if case.announced else array

    def scores(rank, source, rows, k):
        """Of a rank's rows; masked ones are minus infinity."""
        q = parts[rank][0][:, :, rows]
        every = q @ np.repeat(k, group, axis=1).swapaxes(2, 3) / np.sqrt(case.width)
        columns = places[source][case.seen(rank, source)[1]]
        hidden = places[rank][rows][:, None] < columns[None, :]
        return np.where(hidden & case.causal, -np.inf, every)

    for rank, (q, _, _, dout) in enumerate(parts):
        total, out = np.full(q.shape[:3], -np.inf), np.zeros_like(q)
        for twice in range(2):  # first the logarithms of the sums, then what they weigh
            for source in range(p):
                rows, columns = case.seen(rank, source)
                k, v = (each[:, :, columns] for each in parts[source][1:3])
                each = scores(rank, source, rows, scaled(rank, f"forward {source}", k))
                if twice:
                    weights = np.exp(each - total[:, :, rows, None])
                    out[:, :, rows] += weights @ np.repeat(v, group, axis=1)
                else:
                    sums = np.logaddexp.reduce(each, axis=-1)
                    total[:, :, rows] = np.logaddexp(total[:, :, rows], sums)
        found[rank][0] = out
        for source in range(p):
            rows, columns = case.seen(rank, source)
            small = [each[:, :, columns] for each in parts[source][1:3]]
            k, v = (np.repeat(each, group, axis=1) for each in small)
            g = scaled(rank, f"backward {source}", dout[:, :, rows])
            weights = scores(rank, source, rows, small[0]) - total[:, :, rows, None]
            weights = np.exp(np.minimum(weights, 0))  # as in backward_block
            slope = g @ v.swapaxes(2, 3) - (g * out[:, :, rows]).sum(axis=-1, keepdims=True)
            slope = weights * slope / np.sqrt(case.width)
            found[rank][1][:, :, rows] += slope @ k
            for at, left, right in ((2, slope, q[:, :, rows]), (3, weights, g)):
                heads = left.swapaxes(2, 3) @ right
                heads = heads.reshape(case.batch, case.key_heads, group, *heads.shape[2:])
                found[source][at][:, :, columns] += heads.sum(axis=2)
    return [cast(dict(zip(NAMES, own, strict=True)), case.dtype) for own in found]
