"""What one network port would make of published steps of sharded training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ringside import Machine
from ringside.course.lectures import table
from ringside.scale.hybrid_cost import Config, axis_link

RUNS = table(Path(__file__).parents[3] / "lectures" / "data" / "sharded_runs.csv")


PORT = 0.96 / 8 * 1e9 * RUNS["port_gbit_per_s"]  # bytes a second


def sending_s(bytes_per_s: np.ndarray) -> np.ndarray:
    """Seconds that the bytes of every step take at the rate of its ring."""
    share = (RUNS["gpus"] - 1) / RUNS["gpus"]  # what a ring of n ranks receives of a vector
    return RUNS["passes"] * 2 * RUNS["params"] * share / bytes_per_s


def test_one_port_would_need_longer_for_the_bytes_than_12_of_70_steps_took() -> None:
    too_long = sending_s(PORT) > RUNS["step_s"]
    assert (len(too_long), too_long.sum()) == (70, 12)


def test_no_step_is_too_short_for_the_bytes_through_all_ports() -> None:
    rates = []
    for gpu, gpus, port, gpus_per_nic in zip(
        RUNS["gpu"], RUNS["gpus"], PORT, RUNS["gpus_per_port"], strict=True
    ):
        machine = Machine.load("dgx_h100" if gpu == "H100" else "dgx_a100")
        nodes = machine.with_(beta_s_per_byte=1 / float(port), gpus_per_nic=int(gpus_per_nic))
        rates.append(1 / axis_link(Config(data=int(gpus), zero=3), "data", nodes).beta_s_per_byte)
    all_ports = np.array(rates)
    nvlink = np.where(RUNS["gpu"] == "H100", 371e9, 240e9)
    assert all_ports == pytest.approx(np.minimum(8 * PORT / RUNS["gpus_per_port"], nvlink), 1e-3)
    share = sending_s(all_ports) / RUNS["step_s"]
    assert not (share > 1).any()
    assert share.max() < 0.5
