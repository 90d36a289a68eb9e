"""Faulty programs on torch.distributed, as people write them, and the sentence that names why."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringside import Session, run

PROGRAM = (Path(__file__).parent / "programs" / "faults.py").read_text().splitlines()
FAULTS = {  # function of faults.py -> what must be said; {..} is the line that holds the text
    "loss_reduced_by_one": (
        "rank 1 calls broadcast by DistributedDataParallel where rank 0 calls all_reduce. Either "
        "not all ranks make this call of all_reduce, as inside an `if` on the rank, or one has"
    ),
    "one_stops_early": (
        "rank 1 calls barrier where rank 0 calls all_reduce in backward(). Either not all ranks "
        "make this call of barrier, as inside an `if` on the rank, or one has left out a pass."
    ),
    "one_validates": "a rank that validates alone calls `model.module`",
    "wrapped_by_one": (
        "Rank 0 waits in all_gather in DistributedDataParallel(...) for rank 1, which has ended. "
        "DistributedDataParallel(model) is a call for all ranks"
    ),
    "sharded_batch_more": (
        "Rank 0 waits in FSDP for rank 1, which has made fewer passes. FSDP collects parameters "
        "from all ranks"
    ),
    "sharded_backward_left_out": "So all ranks must make as many passes: give them as many batches",
    "whole_parameters_for_one": (
        "rank 1 calls barrier where rank 0 calls all_gather_into_tensor by DTensor. A DTensor's "
        "parts lie on all ranks, so what is done with it is done by all ranks"
    ),
    "own_all_reduce_in_join": (
        "A rank without a batch in `with model.join():` takes part in DistributedDataParallel's "
        "own collectives only."
    ),
    "stages_of_more_ranks": "The pipeline's schedule makes these calls: give all ranks the same",
    "objects_of_two_lengths": "recv_object_list and send_object_list are given lists of the same",
    "neighbours_mixed_up": (
        "Rank 0 receives from rank 1, by irecv(src=1) at {dist.batch_isend_irecv}, and it is rank "
        "2 that sends to it. Check the source."
    ),
    "own_method": "The model is the wrapper's `.module`, with its methods.",
    "names_of_a_wrapper": "save `model.module.state_dict()`, or load into the wrapped model.",
    "names_without_a_wrapper": "load into `model.module`.",
    "loss_of_what_was_gathered": "Use torch.distributed.nn.functional",
    "result_of_all_reduce": (
        "dist.all_reduce returns None: its result is in the tensor that it is given."
    ),
    "plain_tensor_with_a_dtensor": "Give the plain tensor as a DTensor too",
    "checkpoint_by_a_second_pass": "give it use_reentrant=False",
    "objects_gathered_into_one_place": "a list with a place for each rank: [None] * world_size.",
    "sent_from_a_buffer_filled_anew": (
        "the tensor of isend(dst=1) at {dist.isend(x, 1)} was changed before its work was waited"
    ),
    "same_order_in_each_epoch": (
        "DistributedSampler gives at {for epoch in range(2)]} the order of the epoch before once "
        "more: call its set_epoch(epoch) before each epoch."
    ),
    "average_of_whole_numbers": (
        "ReduceOp.AVG at {dist.ReduceOp.AVG)} is of whole numbers, so it is cut to one, and gloo "
        "refuses it"
    ),
    "objects_into_a_tensor": (
        "what send_object_list sends, which begins with its lengths as int64, only "
        "recv_object_list takes."
    ),
    "columns_alone": (
        "Behind ColwiseParallel each rank has its own columns of the result alone: let "
        "RowwiseParallel follow"
    ),
    "wrapper_passed_by": (
        "optimizer.step() at {optimizer.step()} takes gradients of this rank alone: "
        "DistributedDataParallel reduces them in passes through the wrapper, and there was none."
    ),
    "unfrozen_when_wrapped": "takes gradients of this rank alone for 0.weight, 0.bias:",
    "optimizer_before_sharding": (
        "changes nothing: no parameter of this optimizer has a gradient. fully_shard and its kin "
        "give a model new parameters, so make the optimizer after them."
    ),
}


def with_lines(sentence: str) -> str:
    """The sentence with each text in braces replaced by its place in the program."""
    while "{" in sentence:
        before, _, rest = sentence.partition("{")
        text, _, after = rest.partition("}")
        line = next(n for n, found in enumerate(PROGRAM, 1) if text in found)
        file = "" if before.endswith("in line ") else "faults.py:"
        sentence = f"{before}{file}{line}{after}"
    return sentence


@pytest.mark.parametrize("function", FAULTS)
def test_the_cause_is_named(session: Session, function: str) -> None:
    result = session.call(f"faults:{function}", 3 if function == "neighbours_mixed_up" else 2)
    told = " ".join([str(result.error), *result.notes.values()])
    assert with_lines(FAULTS[function]) in " ".join(told.split())


def test_stages_that_do_not_fit_are_named(tmp_path: Path) -> None:
    (tmp_path / "stages.py").write_text(
        "import torch\n"
        "from torch.distributed.pipelining import PipelineStage, ScheduleGPipe\n"
        "def train(group):\n"
        "    layer = torch.nn.Linear(8, (16, 4)[group.rank()])\n"
        "    stage = PipelineStage(layer, group.rank(), 2, torch.device('cpu'))\n"
        "    inputs = [torch.randn(4, 8)] * (group.rank() == 0)\n"
        "    ScheduleGPipe(stage, n_microbatches=2).step(*inputs)\n"
    )
    result = run(f"{tmp_path / 'stages.py'}:train", 2, check=False)
    assert "A stage is given what the stage before it returns" in str(result.error)


def test_nothing_is_said_of_receives_into_parts_of_one_tensor(session: Session) -> None:
    result = session.call("faults:parts_of_one_tensor", 2).raise_for_error()
    assert result.notes == {} and result.values[0].tolist() == [[0.0] * 3, [1.0] * 3]


def test_nothing_is_said_of_training_as_it_should_be(session: Session) -> None:
    result = session.call("faults:trained_as_it_should_be", 3).raise_for_error()
    assert result.notes == {}
