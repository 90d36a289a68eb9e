"""An exception of the student's as it travels, from the rank that raised it to whoever reports it.

    body = encode(error, "/home/me/a03", ())    in the rank: type, message, frames and a hint
    decode(2, body)                             RankError of rank 2, every text cut to a length

What comes from a rank is text of a student's process: it is shown, and nothing depends on it.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from linecache import getlines
from pickle import PicklingError
from typing import Any

from ringside.errors import Frame, RankError
from ringside.kit import PACKAGE
from ringside.network import codec, lost_results

OwnFrame = tuple[str, int, str, str]  # file, line, function, text

_HERE = str(PACKAGE)
# Signs in a message of torch's, and what to do about it.
_HINTS = (
    (
        (
            "not compiled with CUDA", "_cuda_", "No CUDA GPUs", "accelerator device when none",
            "device_ids and output_device arguments only work", "NVIDIA driver",
        ),
        "There is no GPU for ranks: `ringside run --pretend-cuda` runs a program for GPUs on "
        "CPU tensors, or choose the device by torch.cuda.is_available().",
    ),
    (
        ("'DistributedDataParallel' object has no attribute",),
        "The model is the wrapper's `.module`, with its methods. Gradients are reduced only for "
        "passes through a call of the wrapper, so a loss is best computed in `forward`.",
    ),
    (
        ('Unexpected key(s) in state_dict: "module.',),
        "These are the names of a wrapper, DistributedDataParallel: save "
        "`model.module.state_dict()`, or load into the wrapped model.",
    ),
    (
        ('Missing key(s) in state_dict: "module.',),
        "The model is wrapped in DistributedDataParallel, and these names aren't: load into "
        "`model.module`.",
    ),
    (
        ("Expected to mark a variable ready only once",),
        "checkpoint(..., use_reentrant=True) makes passes of its own: give it use_reentrant=False. "
        "Else see that each forward pass has one backward pass.",
    ),
    (
        ("does not require grad and does not have a grad_fn",),
        "If it comes from what a collective of torch.distributed has filled: that knows nothing "
        "of gradients. Use torch.distributed.nn.functional, or put this rank's own tensor back "
        "into its place.",
    ),
    (
        ("got mixed torch.Tensor and DTensor",),
        "Give the plain tensor as a DTensor too, by distribute_tensor or DTensor.from_local, or "
        "compute with the DTensor's .to_local() part.",
    ),
)  # fmt: skip
# What a program uses, and what to do where shapes don't fit.
_UNFIT_SHAPES = {
    "ColwiseParallel": "Behind ColwiseParallel each rank has its own columns of the result alone: "
    "let RowwiseParallel follow, or gather them by output_layouts=Replicate().",
    "PipelineStage": "A stage is given what the stage before it returns: compare the two widths.",
}
confined = True  # whether this rank may not touch files; a rank of one's own run may
_MOST_FRAMES = 12
_MOST_TEXT = 300  # of a line of source
_MAX_LINE = 1 << 31


def encode(error: BaseException, folder: str, otherwise: Sequence[OwnFrame] = ()) -> bytes:
    """An exception as codec bytes: type, message, the student's frames, a hint.

    Args:
        folder: where the student's files lie.
        otherwise: the frames of an exception that has none of the student's.
    """
    frames = []
    prefix = folder.rstrip("/") + "/"
    for entry in traceback.extract_tb(error.__traceback__):
        if entry.filename.startswith((_HERE, "<frozen")) or entry.filename.endswith(".pyx"):
            continue  # a library that Cython has compiled names its sources relatively
        name = entry.filename.removeprefix(prefix)
        frames.append((name, int(entry.lineno or 0), entry.name, entry.line or ""))
    student_frames = [frame for frame in frames if not frame[0].startswith("/")]
    if isinstance(error, SyntaxError) and error.filename:
        name = error.filename.removeprefix(prefix)
        line = (error.text or "").strip()
        student_frames.append((name, int(error.lineno or 0), "<module>", line))
    try:
        message = str(error)
    except Exception:  # a student's exception may fail while it describes itself
        message = "(its message could not be made)"
    hint = _hint(error, message) or lost_results.cure(error, folder)
    relevant = (student_frames or list(otherwise) or frames[-3:])[-_MOST_FRAMES:]
    cut = [(file, line, name, text[:_MOST_TEXT]) for file, line, name, text in relevant]
    return codec.encode((type(error).__name__, message[:4000], cut, hint))


def encode_caught(error: BaseException, folder: str) -> bytes:
    """``encode`` without the frame that caught the exception: it is no line of the student's."""
    here = error.__traceback__
    return encode(error.with_traceback(here.tb_next if here else None), folder)


def _hint(error: BaseException, message: str) -> str:
    """What to do about exceptions whose own message doesn't say it."""
    if isinstance(error, PermissionError) and confined:
        return "Ranks may not write files or start programs: return the value instead."
    if isinstance(error, EOFError) and message == "EOF when reading a line":
        return "Ranks have no keyboard: give the value as an argument instead."
    if "pickle" in message and isinstance(error, (PicklingError, AttributeError, TypeError)):
        return (
            "Lower-case calls pickle what they send: a lambda, a function inside of another, an "
            "open file or a generator can't be. Define the function with def at the top of the "
            "file, or send the data that it works on."
        )
    if isinstance(error, TypeError) and "'method'" in message:
        return "A method stands where its result should: call it, as in comm.Get_size()."
    if isinstance(error, AttributeError) and error.name in ("wait", "Wait"):
        return "Only what isend, irecv and their like return is waited for: other calls are done."
    if isinstance(error, TypeError) and _is_of_mpi(error) and "positional argument" in message:
        return (
            "Upper-case calls fill an array that they are given, such as numpy.empty(n); "
            "lower-case calls take one object, and return one."
        )
    for signs, hint in _HINTS:
        if any(sign in message for sign in signs):
            return hint
    if message == "list assignment index out of range" and "all_gather_object" in _last(error).name:
        return "all_gather_object wants a list with a place for each rank: [None] * world_size."
    if "shapes cannot be multiplied" in message:
        frames = traceback.extract_tb(error.__traceback__)
        text = "".join(line for file in {f.filename for f in frames} for line in getlines(file))
        return next((cure for name, cure in _UNFIT_SHAPES.items() if f"{name}(" in text), "")
    if isinstance(error, AttributeError) and _is_mpi(error.obj):
        for name in dir(error.obj):
            if name.lower() == str(error.name).lower():
                return f"Did you mean {name!r}?"
    return ""


def _is_of_mpi(error: TypeError) -> bool:
    """Whether a method of a communicator was called with other arguments than it has."""
    name = str(error).partition("(")[0]
    return name.startswith(("PointToPoint.", "Objects.", "BufferCollectives."))


def _last(error: BaseException) -> traceback.FrameSummary:
    return traceback.extract_tb(error.__traceback__)[-1]


def _is_mpi(value: object) -> bool:
    return str(type(value).__module__).startswith(("ringside.mpi", "mpi4py"))


def decode(rank: int, body: codec.Part) -> RankError:
    """What ``encode`` has made, as the error of a rank.

    Raises:
        CodecError, TypeError, ValueError, OverflowError: it is something else.
    """
    type_name, message, frames, hint = codec.decode(body)
    return RankError(
        rank,
        text(type_name, 100),
        text(message, 2000),
        tuple(
            Frame(text(f, 200), line(n), text(w, 100), text(t, _MOST_TEXT))
            for f, n, w, t in frames[-_MOST_FRAMES:]
        ),
        text(hint, 300),
    )


def text(value: Any, most: int) -> str:
    """Text of a rank's, short, and such as every file and terminal can take."""
    return str(value)[:most].encode("utf-8", "backslashreplace").decode()


def line(number: Any) -> int:
    """A line number of a rank's; a long one could not even be written down."""
    return min(max(int(number), 0), _MAX_LINE)
