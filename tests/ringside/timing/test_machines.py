"""The presets of cluster/machines: complete, sourced, and exact where they claim to be."""

import tomllib
from pathlib import Path

import pytest

from ringside.timing.machine import Machine, machines_folder

PRESETS = sorted(path.stem for path in machines_folder().glob("*.toml"))


def test_the_three_presets_are_there():
    assert set(PRESETS) >= {"laptop", "textbook", "zaratan"}


@pytest.mark.parametrize("name", PRESETS)
def test_every_number_of_a_preset_has_a_source(name):
    table = tomllib.loads(Path(machines_folder(), f"{name}.toml").read_text(encoding="utf-8"))
    sources = table.pop("sources")
    numbers = {key for key in table if key not in {"name", "intra"}}
    numbers |= {f"intra_{key}" for key in table.get("intra", {})}
    assert set(sources) == numbers
    assert all(len(source) >= 14 for source in sources.values())


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_loads_under_its_own_name(name):
    machine = Machine.load(name)
    assert machine.name == name
    assert machine.sources["alpha_s"]


def test_the_textbook_machine_is_exact_in_picoseconds():
    machine = Machine.load("textbook")
    assert machine.alpha_s * 10**12 == 1_000_000
    assert round(machine.beta_s_per_byte * 10**18) == 1000 * 10**6
    assert machine.eager_threshold_bytes == 0
    assert machine.link(0, 1) == machine.link(0, 63)


def test_a_node_of_zaratan_is_four_gpus_that_share_one_network_port():
    machine = Machine.load("zaratan")
    assert [machine.node(rank) for rank in range(9)] == [0, 0, 0, 0, 1, 1, 1, 1, 2]
    inside, between = machine.link(0, 3), machine.link(0, 4)
    assert inside.beta_s_per_byte * 8 == pytest.approx(between.beta_s_per_byte)
    assert inside.alpha_s < between.alpha_s
    assert machine.gpus_per_nic == 4
