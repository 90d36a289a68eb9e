"""The ledger's programs for shards, tensor parallelism and pipelines do the whole model's work."""

from pathlib import Path

import pytest

import ringside
from ringside.course.lectures import course_machine, course_trace
from ringside.course.lectures import ledger as ledger_module
from ringside.course.lectures.ledger import (
    PROGRAM,
    SEQUENCES_PER_GPU,
    SIZES,
    num_parameters,
    step_flops,
)
from ringside.course.lectures.programs import piped_gpt
from ringside.scale.agreement import num_flops

PROGRAMS = Path(ledger_module.__code__.co_filename).parent / "programs"


@pytest.mark.parametrize("prefetch", [True, False])
def test_a_sharded_step_gathers_twice_and_reduces_once(prefetch: bool) -> None:
    p, sequences = 4, 2
    traced = course_trace(
        f"{PROGRAMS}/sharded_gpt.py:step", p, (sequences, prefetch), grid={"dp": p}, alike=("dp",)
    )
    assert num_flops(traced.trace) == pytest.approx([step_flops(sequences)] * p, rel=1e-4)
    machine = course_machine().with_(ranks_per_node=1)
    timeline = ringside.replay(traced.trace, machine)
    layer = 12 * SIZES["width"] ** 2 + 13 * SIZES["width"]
    outside = num_parameters() - SIZES["num_layers"] * layer
    # the last layer is still there when the backward pass begins; words and positions are kept
    halves = (3 * SIZES["num_layers"] - 1) * layer + 2 * outside
    assert timeline.bytes_matrix.sum(axis=1) == pytest.approx([(p - 1) / p * 2 * halves] * p)
    exposed_s = timeline.makespan_s - timeline.busy_s[0]
    whole_s = (p - 1) / p * 2 * halves * machine.beta_s_per_byte
    assert exposed_s < 0.7 * whole_s if prefetch else exposed_s == pytest.approx(whole_s, rel=1e-2)
    copies = course_trace(
        f"{PROGRAM}:step", p, (sequences, "layers"), grid={"dp": p}, alike=("dp",)
    )
    saved = copies.memory[0]["peak"] - traced.memory[0]["peak"]
    assert saved == pytest.approx((p - 1) / p * 16 * num_parameters(), rel=0.1)


def test_ranks_that_share_a_model_share_its_work_and_send_its_sums() -> None:
    t, sequences = 2, 2
    traced = course_trace(
        f"{PROGRAMS}/cut_gpt.py:step", t, (sequences, t), grid={"dp": 1, "tp": t}, alike=("tp",)
    )
    assert num_flops(traced.trace) == pytest.approx([step_flops(sequences) / t] * t, rel=1e-3)
    sent = ringside.replay(traced.trace, course_machine()).bytes_matrix.sum(axis=1)
    # a layer sums twice forward, twice as it runs again, twice backward; the words once each way
    sums = (6 * SIZES["num_layers"] + 2) * sequences * SIZES["sequence"] * SIZES["width"]
    assert sent == pytest.approx([2 * (t - 1) / t * 2 * sums] * t, rel=1e-3)


@pytest.mark.parametrize("layers", [[12, 12], [7, 6, 6, 5]])
def test_stages_together_have_the_work_and_the_parameters_of_the_model(layers: list[int]) -> None:
    held = piped_gpt.stages(SIZES, layers)
    work = 4 * SEQUENCES_PER_GPU * sum(stage["forward_flops"] for stage in held)
    assert work == pytest.approx(step_flops(SEQUENCES_PER_GPU), rel=1e-9)
    words_twice = SIZES["vocabulary"] * SIZES["width"]
    total = sum(stage["parameters"] for stage in held)
    assert total == num_parameters() + words_twice


def test_a_pipeline_holds_what_is_in_flight_and_takes_its_time() -> None:
    held = piped_gpt.stages(SIZES, [12, 12])
    schedules = ["F0 F1 B0 B1", "F0 B0 F1 B1"]
    traced = course_trace(
        f"{PROGRAMS}/piped_gpt.py:step", 2, (schedules, held, 0), grid={"pp": 2}, alike=()
    )
    input_bytes = 2 * SIZES["sequence"] * SIZES["width"]
    first, last = (memory["peak"] for memory in traced.memory)
    assert first == pytest.approx(16 * held[0]["parameters"] + 2 * 12 * input_bytes, rel=0.01)
    assert last == pytest.approx(16 * held[1]["parameters"] + 1 * 12 * input_bytes, rel=0.01)
    free = course_machine().with_(ranks_per_node=1, alpha_s=0.0, beta_s_per_byte=0.0)
    forward_s = [stage["forward_flops"] / free.flop_per_s for stage in held]
    step_s = ringside.replay(traced.trace, free).makespan_s  # the last stage is the slower one
    assert step_s == pytest.approx(4 * forward_s[0] + 2 * 4 * forward_s[1], rel=1e-6)
