"""What each operator of torch's process groups carries: bytes of each member's part, peers, roots.

Under MPI's names, and with the sizes that simulated ranks count: of a collective this member's
part is what it gives, of ``reduce_scatter`` and ``scatter`` what it gets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Read = tuple[str, list[tuple[Any, ...]]]


def nbytes_of(tensors: Any) -> int:
    """Payload of a tensor, or of tensors in lists."""
    if isinstance(tensors, torch.Tensor):
        if tensors.layout == torch.sparse_coo:
            return nbytes_of([tensors._indices(), tensors._values()])
        return tensors.numel() * tensors.element_size()
    return sum(map(nbytes_of, tensors))


def peer(ops: list[tuple[Any, ...]]) -> str:
    """The other side, as a call shows it."""
    kind, first = ops[0][0], ops[0][1]
    if kind == "isend":
        return f"(dst={first})"
    if kind == "irecv":
        return f"(src={first})" if first >= 0 else "()"
    return "()"


def _all(shown: str, name: str, of: str) -> Callable[..., Read]:
    """A collective without a root, whose part is what the argument ``of`` holds."""
    return lambda given, members: (shown, [("collective", name, 0, nbytes_of(given[of]))])


def _each(shown: str, name: str, of: str) -> Callable[..., Read]:
    """Several in one: each tensor of the argument ``of`` is a collective."""
    return lambda given, members: (
        shown,
        [("collective", name, 0, nbytes_of(tensor)) for tensor in given[of]],
    )


def _rooted(shown: str, name: str, of: str) -> Callable[..., Read]:
    return lambda given, members: (
        shown,
        [("collective", name, given["root_rank"], nbytes_of(given[of]))],
    )


def _alltoall(given: dict[str, Any], members: tuple[int, ...]) -> Read:
    part = [nbytes_of(tensor) for tensor in given["input_tensors"]]
    return "all_to_all", [("collective", "alltoall", 0, part)]


def _alltoall_single(given: dict[str, Any], members: tuple[int, ...]) -> Read:
    tensor, splits = given["input"], given["input_split_sizes"]
    whole = nbytes_of(tensor)
    rows = splits or [1] * len(members)
    part = [whole * row // max(1, sum(rows)) for row in rows]
    return "all_to_all_single", [("collective", "alltoall", 0, part)]


def _barrier(given: dict[str, Any], members: tuple[int, ...]) -> Read:
    return "barrier", [("collective", "barrier", 0, 0)]


def _send(given: dict[str, Any], members: tuple[int, ...]) -> Read:
    return "isend", [("isend", members[given["dst"]], given["tag"], nbytes_of(given["tensors"]))]


def _recv(given: dict[str, Any], members: tuple[int, ...]) -> Read:
    source = members[given["src"]] if "src" in given else -1
    return "irecv", [("irecv", source, given["tag"], nbytes_of(given["tensors"]))]


READERS: dict[str, Callable[..., Read]] = {
    "allreduce_": _all("all_reduce", "allreduce", "tensors"),
    "allreduce_coalesced_": _all("all_reduce_coalesced", "allreduce", "tensors"),
    "reduce_": _rooted("reduce", "reduce", "tensors"),
    "broadcast_": _rooted("broadcast", "bcast", "tensors"),
    "reduce_scatter_": _all("reduce_scatter", "reduce_scatter", "output_tensors"),
    "_reduce_scatter_base_": _all("reduce_scatter_tensor", "reduce_scatter", "output_tensor"),
    "reduce_scatter_tensor_coalesced_": _each("reduce_scatter_tensor", "reduce_scatter", "outputs"),
    "allgather_": _all("all_gather", "allgather", "input_tensors"),
    "_allgather_base_": _all("all_gather_into_tensor", "allgather", "input_tensor"),
    "allgather_coalesced_": _each("all_gather", "allgather", "input_list"),
    "allgather_into_tensor_coalesced_": _each("all_gather_into_tensor", "allgather", "inputs"),
    "gather_": _rooted("gather", "gather", "input_tensors"),
    "scatter_": _rooted("scatter", "scatter", "output_tensors"),
    "alltoall_": _alltoall,
    "alltoall_base_": _alltoall_single,
    "barrier": _barrier,
    "send": _send,
    "recv_": _recv,
    "recv_any_source_": _recv,
}
