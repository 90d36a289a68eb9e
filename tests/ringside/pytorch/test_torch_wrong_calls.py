"""Wrong calls of torch.distributed, on gloo and here: what it refuses or spoils, we refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ringside import Session

HERE = Path(__file__).parent
PROGRAM = HERE / "programs" / "wrong_calls.py"

# What gloo does, and what is said here. "spoils": it ends well on all ranks, with wrong values;
# "depends": now so, now so, by which rank comes first.
GAPS = "Tensors must be contiguous, and this one of shape (2, 2) has strides (4, 2): pass"
ORDER = "Tensors must be contiguous, and this one of shape (2, 2) has strides (1, 2): pass"
COPY_BACK = f"{GAPS} copy = tensor.contiguous(), and call tensor.copy_(copy) after it."
ONE_TENSOR = "the list to receive into holds one tensor more than once"
WRONG = {
    "all_reduce_gap": ("spoils", f"all_reduce: {COPY_BACK}"),
    "broadcast_gap": ("spoils", f"broadcast: {COPY_BACK}"),
    "broadcast_turned_on_one": ("spoils", "rank 1 gives strides (1, 2) and rank 0 strides contig"),
    "send_gap": ("refuses", f"send: {GAPS} tensor.contiguous()."),
    "recv_gap": ("refuses", f"recv: {COPY_BACK}"),
    "send_turned": ("refuses", f"send: {ORDER} tensor.contiguous()."),
    "reduce_scatter_into_gap": ("spoils", f"reduce_scatter: {COPY_BACK}"),
    "all_to_all_single_gap": ("refuses", f"all_to_all_single: {GAPS} tensor.contiguous()."),
    "all_to_all_single_into_gap": ("spoils", f"all_to_all_single: {COPY_BACK}"),
    "scatter_turned": ("spoils", f"scatter: {ORDER} tensor.contiguous()."),
    "all_reduce_other_dtype": ("spoils", "rank 1 gives dtype int32 and rank 0 dtype float32"),
    "broadcast_other_size": (
        "spoils",
        "rank 1 gives number of elements 4 and rank 0 number of elements 3",
    ),
    "all_gather_other_size": ("refuses", "3 elements of torch.float32 is given where 2 of torch"),
    "all_gather_into_tensor_too_small": ("refuses", "3 elements can't be cut into 2 equal parts"),
    "all_gather_into_tensor_other_dtype": ("refuses", "2 elements of torch.float64 is given where"),
    "reduce_scatter_tensor_indivisible": ("refuses", "5 elements can't be cut into 2 equal parts"),
    "all_to_all_single_splits": ("refuses", "[2, 2] must be 2 numbers that add up to the tensor's"),
    "all_to_all_single_between_ranks": (
        "refuses",
        "rank 1 of the group gave 1 elements, the tensor for them has 2. output_split_sizes[r] is",
    ),
    "recv_larger": (
        "spoils",
        "rank 0 sent 2 elements of float32, the tensor to receive into has 3",
    ),
    "recv_other_dtype": ("spoils", "rank 0 sent 2 elements of int32, the tensor to receive into"),
    "all_gather_dtypes_in_list": ("refuses", "tensors with different dtypes"),
    "all_gather_into_one_tensor": ("spoils", f"all_gather: {ONE_TENSOR}"),
    "gather_into_one_tensor": ("spoils", f"gather: {ONE_TENSOR}"),
    "all_to_all_into_one_tensor": ("spoils", f"all_to_all: {ONE_TENSOR}"),
    "object_lists_of_two_lengths": (
        "refuses",
        "in broadcast of broadcast_object_list, rank 1 gives number of elements 1 and rank 0 "
        "number of elements 2. Before the objects, broadcast_object_list sends how long they are",
    ),
    "all_gather_short_list": ("refuses", "all_gather wants 2 output tensors, got 1"),
    "scatter_short_list": ("refuses", "scatter wants 2 tensors, one per rank: 1"),
    "gather_list_on_all": ("refuses", "must NOT be specified on non-destination ranks"),
    "broadcast_root_beyond": ("refuses", "broadcast: src is 2, and the ranks are 0 to 1."),
    "broadcast_roots_differ": ("refuses", "rank 1 gives root 1 and rank 0 root 0"),
    "broadcast_group_src_beyond": (
        "refuses",
        "group_src is 2, and the group's ranks [0, 1] have the places 0 to 1.",
    ),
    "bitwise_and_of_floats": ("refuses", "ReduceOp.BAND wants integers or bools, not float32"),
    "operations_differ": ("spoils", "rank 1 gives op PRODUCT and rank 0 op SUM"),
    "send_to_itself": ("refuses", "should not be the same as the rank of the current process"),
    "recv_from_itself": ("refuses", "Rank 0 receives from itself, and has sent itself no message"),
    "negative_tag": ("refuses", "isend: a tag is 0 or more, and this one is -1."),
    "wait_for_what_nobody_sends": ("refuses", "Every rank of the cycle receives before it sends"),
    "wait_of_a_blocking_call": ("refuses", "'NoneType' object has no attribute 'wait'"),
    "each_its_own_group": (
        "depends",
        "new_group is a call for all ranks: rank 0 makes the group [0, 1] at wrong_calls.py:{0} "
        "where rank 2 makes the group [2, 3] at wrong_calls.py:{0}. Let each rank make every group",
    ),
    "groups_in_another_order": ("depends", "where rank 2 makes the group [2, 3] at "),
    "world_rank_in_a_group": (
        "refuses",
        "rank 0 is not in this group, whose ranks are [2, 3]. src and dst are ranks of the world: "
        "give one of these, or a place in the group, 0 to 1, as group_src or group_dst.",
    ),
    "destroyed_world": ("refuses", "Default process group has not been initialized"),
}
# What may look wrong and is right, with the same values on both.
RIGHT = [
    *("all_reduce_turned", "all_gather_gap", "all_gather_into_turned", "gather_gap"),
    "all_gather_into_rows",
    *("all_gather_into_tensor_gap", "all_gather_into_tensor_with_gaps", "all_to_all_gap"),
    *("reduce_scatter_tensor_turned", "reduce_scatter_tensor_into_gap"),
    *("each_its_own_group_by_a_hash", "group_that_only_members_make", "group_of_others"),
    *("groups_again_after_destroying_all", "groups_of_one"),
]
# What gloo takes otherwise than NCCL, and is taken here as NCCL does; docs/ways_to_run.md says it.
MILDER = {
    "wait_twice_for_a_receive": "Timed out waiting",
    "wait_twice_for_a_send": "Timed out waiting",
    "poll_what_has_come": False,
}
ON_FOUR = {
    *("each_its_own_group", "groups_in_another_order", "each_its_own_group_by_a_hash"),
    *("group_that_only_members_make", "world_rank_in_a_group"),
}


def num_ranks(call: str) -> int:
    return 4 if call in ON_FOUR else 2


@pytest.fixture(scope="module")
def on_gloo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[Any]]]:
    """What became of each rank of gloo in each call."""
    folder = tmp_path_factory.mktemp("gloo")
    calls = {call: num_ranks(call) for call in [*WRONG, *RIGHT, *MILDER]}
    (folder / "calls.json").write_text(json.dumps(calls))
    script, asked = HERE / "gloo_calls.py", folder / "calls.json"
    command = [sys.executable, "-W", "ignore", script, PROGRAM, folder, asked]
    # The addresses that torch looks for by itself may be slow to find.
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    found: dict[str, list[list[Any]]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("call", WRONG)
def test_what_gloo_refuses_or_spoils_is_refused_with_a_cure(
    session: Session, on_gloo: dict[str, list[list[Any]]], call: str
) -> None:
    does, told = WRONG[call]
    ended_well = all(became[0] == "value" for became in on_gloo[call])
    assert does == "depends" or ended_well == (does == "spoils"), on_gloo[call]
    error = session.call(f"wrong_calls:{call}", num_ranks(call)).error
    if "{0}" in told:
        lines = PROGRAM.read_text().splitlines()
        start = lines.index(f"def {call}(group):")
        told = told.format(next(i for i in range(start, len(lines)) if "new_group" in lines[i]) + 1)
    assert told in " ".join(str(error).split())


@pytest.mark.parametrize("call", RIGHT)
def test_what_gloo_takes_gives_the_same_values_here(
    session: Session, on_gloo: dict[str, list[list[Any]]], call: str
) -> None:
    values = session.call(f"wrong_calls:{call}", num_ranks(call)).raise_for_error().values
    assert [["value", value] for value in values] == on_gloo[call]


@pytest.mark.parametrize("call", MILDER)
def test_what_gloo_waits_for_in_vain_ends_here(
    session: Session, on_gloo: dict[str, list[list[Any]]], call: str
) -> None:
    values = session.call(f"wrong_calls:{call}", 2).raise_for_error().values
    does = MILDER[call]
    if isinstance(does, str):
        assert any(does in str(became) for became in on_gloo[call]), on_gloo[call]
    else:
        assert on_gloo[call] == [["value", does], ["value", True]] and values == [True, True]
