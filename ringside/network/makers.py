"""Collectives that no line of a program calls by itself: what makes them, and the cure.

    rank 0  all_reduce(op=SUM)         "all_reduce"                  a line of the program's
    rank 1  all_reduce(op=SUM).wait()  "all_reduce in backward()"    made by DistributedDataParallel

A maker is what follows the name of a collective. The program has no such call to be moved, so what
is told is which of its own lines must be alike on all ranks.
"""

from __future__ import annotations

from collections.abc import Iterable

IN_BACKWARD, BY_DDP = "in backward()", "by DistributedDataParallel"
MAKING_DDP = "in DistributedDataParallel(...)"
BY_FSDP, BY_DTENSOR, BY_BATCH_NORM = "by FSDP", "by DTensor", "by SyncBatchNorm"
OF_OBJECTS = "of broadcast_object_list"
# Of messages, told where they don't fit.
RECEIVES_OBJECTS, BY_PIPELINING = "of recv_object_list", "by torch.distributed.pipelining"

_GRADIENTS = (
    "Each backward() reduces gradients over all ranks (DistributedDataParallel does it in buckets "
    "of parameters), so all ranks must make as many outside of no_sync(). Give them as many "
    "batches, or train inside `with model.join():`; and if one rank leaves out a batch, as for a "
    "loss that is NaN, all must."
)
_JOIN = (
    "A rank without a batch in `with model.join():` takes part in DistributedDataParallel's own "
    "collectives only. Call your own ones outside of it."
)
_PASSES = (
    "A pass through DistributedDataParallel communicates in forward too, where the model has "
    "buffers, as of BatchNorm. So all ranks must make the same passes: a rank that validates alone "
    "calls `model.module`, and one that leaves out a batch must not be alone in it."
)
_CURES = {
    MAKING_DDP: "DistributedDataParallel(model) is a call for all ranks: each makes it at the same "
    "point of the program, with the same model.",
    BY_FSDP: "FSDP collects parameters from all ranks, and reduces gradients over them, in every "
    "pass. So all ranks must make as many passes: give them as many batches.",
    BY_DTENSOR: "A DTensor's parts lie on all ranks, so what is done with it is done by all ranks, "
    "full_tensor() and a full state dict too: take them out of an `if` on the rank.",
    BY_BATCH_NORM: "SyncBatchNorm averages over all ranks in every forward pass, so all ranks must "
    "make as many passes: a rank that validates alone calls `model.module` in eval mode.",
    OF_OBJECTS: "Before the objects, broadcast_object_list sends how long they are: give it lists "
    "of the same length on all ranks, such as `[None] * 3`.",
}
_IN_PASSES = (IN_BACKWARD, BY_DDP, BY_FSDP, BY_BATCH_NORM)
MAKERS = (*_CURES, BY_DDP, IN_BACKWARD)  # FSDP's are "by FSDP in backward()"


def maker(shown: str) -> str:
    """What makes a collective; empty if the program itself does."""
    return next((name for name in MAKERS if name in shown), "")


def cure(calls: Iterable[str]) -> str:
    """What to do about ranks that make different calls at one place; empty if it's all their own.

    Args:
        calls: the ranks' collectives, as they are shown.
    """
    calls = list(dict.fromkeys(calls))
    makers = {maker(shown) for shown in calls} - {""}
    own = [shown for shown in calls if not maker(shown)]
    if own and f"all_reduce {BY_DDP}" in calls:  # it makes these in `join` alone
        return _JOIN
    text = next((text for name, text in _CURES.items() if name in makers), "")
    if not text and makers:
        text = _PASSES if makers == {IN_BACKWARD, BY_DDP} else _GRADIENTS
    if not own or makers.isdisjoint(_IN_PASSES):
        return text
    return (
        f"Either not all ranks make this call of {own[0]}, as inside an `if` on the rank, or one "
        f"has left out a pass. {text}"
    )


def cure_for_absent(shown: str, waiting: str, absent: str) -> str:
    """What to say of ranks that won't come to a collective that the program doesn't call itself.

    Args:
        waiting: the ranks in it, as a subject with its verb: ``Ranks 0, 2 wait``.
        absent: the others, with theirs: ``rank 1, which has``.
    """
    name = maker(shown)
    if name in _IN_PASSES:
        inside = "backward() for gradients of"
        if name != IN_BACKWARD:
            inside = f"{name.removeprefix('by ')} for"
        return f"{waiting} in {inside} {absent} made fewer passes. {cure([shown])}"
    if name:
        return f"{waiting} in {shown} for {absent} ended. {cure([shown])}"
    return ""
