"""The validation table is honest: what is said to reproduce does, and what is not does not."""

from __future__ import annotations

import tomllib
from itertools import pairwise, product
from pathlib import Path
from statistics import median

import pytest

from ringside.course.validation import (
    ACCURACY,
    Row,
    Source,
    collectives,
    load,
    markdown,
    pipelines,
    runs,
    training,
)
from ringside.course.validation.__main__ import DOCUMENT, main
from ringside.course.validation.report import rows, unpredicted
from ringside.kit import cluster_folder
from ringside.timing.machine import Machine

ROOT = Path(__file__).resolve().parents[3]
ROWS = rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.item)
def test_a_row_reproduces_in_its_class_unless_it_says_why_not(row: Row) -> None:
    assert row.reproduces == (not row.reason), f"{row.error:+.1%}"


def test_every_reason_belongs_to_a_row() -> None:
    items = {(row.source.title, row.item) for row in ROWS}
    assert len(items) == len(ROWS)
    for source in {row.source.title: row.source for row in ROWS}.values():
        for item in source.reasons:
            assert (source.title, item) in items, item


def test_every_table_has_a_source_that_somebody_read() -> None:
    files = sorted((cluster_folder() / "validation").glob("*.toml"))
    for path in files:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        assert table["evidence"].startswith("read in"), path.name
        sources = [table] if "source" in table else table["table"]
        assert all(entry["source"] for entry in sources), path.name
    titles = {row.source.title for row in ROWS}
    assert len(titles) == len(files) - 1  # all but what nothing predicts
    assert all(entry["reason"] for entry in unpredicted())


def test_a_row_outside_its_class_does_not_reproduce() -> None:
    source = Source("a", "b", "c")
    for name, tolerance in ACCURACY.items():
        assert Row(source, "x", 100, 100 * (1 + 0.99 * tolerance), name).reproduces
        assert not Row(source, "x", 100, 100 * (1 + 1.01 * tolerance), name).reproduces
    assert not Row(source, "x", 100, 33, "factor 3").reproduces
    assert Row(source, "x", 1.9, 1.851, "exact", 0.05).reproduces
    assert not Row(source, "x", 1.9, 1.84, "exact", 0.05).reproduces


def test_the_document_is_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / DOCUMENT).read_text(encoding="utf-8")
    assert text == markdown(), "run python -m ringside.course.validation --write"
    assert main([]) == 0
    assert capsys.readouterr().out == text
    monkeypatch.chdir(tmp_path)
    assert main(["--write"]) == 0
    assert (tmp_path / DOCUMENT).read_text(encoding="utf-8") == text


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (2, 1), (4, 4), (4, 1), (3, 8)])
def test_a_replayed_gpipe_step_takes_its_closed_form(stages: int, microbatches: int) -> None:
    expected = (microbatches + stages - 1) * 3e-3
    assert pipelines.gpipe_s([3e-3] * stages, microbatches) == pytest.approx(expected)


def test_an_unbalanced_gpipe_step_waits_for_its_slowest_stage() -> None:
    stage_s = [1e-3, 5e-3, 2e-3]
    expected = sum(stage_s) + (6 - 1) * max(stage_s)
    assert pipelines.gpipe_s(stage_s, 6) == pytest.approx(expected)


def test_vgg16_has_its_published_parameters() -> None:
    layers = pipelines.vgg16(64, 0.672)
    assert len(layers) == 16
    assert sum(layer.weight_bytes for layer in layers) == 4 * 138_357_544
    assert sum(layer.compute_s for layer in layers) == pytest.approx(0.672)


def test_the_plan_is_the_best_of_all_plans() -> None:
    layers = [
        pipelines.Layer(3.0, 10.0, 8.0),
        pipelines.Layer(5.0, 1.0, 4.0),
        pipelines.Layer(2.0, 90.0, 2.0),
        pipelines.Layer(1.0, 40.0, 1.0),
    ]
    workers, bandwidth = 4, 7.0
    best = float("inf")
    for cuts in product([False, True], repeat=len(layers) - 1):
        edges = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(layers)]
        stages = list(pairwise(edges))
        for replicas in product(range(1, workers + 1), repeat=len(stages)):
            if sum(replicas) != workers:
                continue
            times = [2 * layers[edge - 1].activation_bytes / bandwidth for edge in edges[1:-1]]
            for (first, end), m in zip(stages, replicas, strict=True):
                compute = sum(layer.compute_s for layer in layers[first:end])
                weights = sum(layer.weight_bytes for layer in layers[first:end])
                times.append(max(compute, 2 * (m - 1) * weights / bandwidth) / m)
            best = min(best, max(times))
    seconds, replicas_found = pipelines.plan(layers, workers, bandwidth)
    assert seconds == pytest.approx(best)
    assert sum(replicas_found) == workers


def test_zero_shards_to_a_sixteenth_on_many_gpus() -> None:
    assert training.zero_bytes(1e9, 64, 0) == 16e9
    assert training.zero_bytes(1e9, 64, 3) == 16e9 / 64
    assert training.zero_bytes(1e9, 1, 2) == 16e9


def test_a_replayed_all_reduce_takes_its_closed_form() -> None:
    textbook = Machine.load("textbook")
    assert collectives.allreduce_s(textbook, 4, 4000, "ring") == pytest.approx(6 * 2e-6)
    halving_s = 4e-6 + 2 * 3 / 4 * 4000e-9
    assert collectives.allreduce_s(textbook, 4, 4000, "halving_doubling") == pytest.approx(
        halving_s
    )


def test_steps_of_sharded_runs_are_within_15_percent_by_constants_of_the_other_half() -> None:
    every = runs.read()
    assert [run["id"] for run in every] == sorted(run["id"] for run in every)
    assert all(run["evidence"] in ("V", "V2") for run in every)
    fitted = [run for run in every if run["fitted"] == "1"]
    for (name, dtype), share in runs.fit(fitted).items():
        assert Machine.load(name).rates[dtype]["steps"] == share
    errors = [
        abs(runs.step_s(run, runs.machine_of(run)) / float(run["step_s"]) - 1)
        for run in every
        if run["zero"] == "3" and run["fitted"] == "0"
    ]
    assert len(errors) == 55 > len(fitted)
    assert median(errors) < 0.15
    assert sum(error < 0.15 for error in errors) > 0.6 * len(errors)


def test_bus_bandwidths_of_up_to_16_nodes_are_within_15_percent() -> None:
    errors = [row.error for row in collectives.bus_bandwidths() if " 20 x 72" not in row.item]
    assert median(map(abs, errors)) < 0.05
    within = [error for error in errors if abs(error) < 0.15]
    assert len(within) >= len(errors) - 4  # and those say why


def test_groups_that_share_a_nic_halve_each_others_rate() -> None:
    machine = Machine.load("dgx_a100").with_(ranks_per_node=2, gpus_per_nic=2)
    nbytes = 1 << 30
    alone = collectives.allreduce_s(machine.with_(ranks_per_node=1), 2, nbytes, "ring")
    both = collectives.allreduce_s(machine, 4, nbytes, "ring", num_groups=2)
    assert both == pytest.approx(2 * alone, rel=1e-3)


def test_the_preset_is_within_a_factor_of_a_half_of_nccl_at_every_size() -> None:
    rows = collectives.nccl()
    assert len(rows) == 15
    ratios = [row.predicted / row.published for row in rows]
    assert max(max(ratio, 1 / ratio) for ratio in ratios) < 1.5
    assert sum(max(ratio, 1 / ratio) for ratio in ratios) / len(ratios) < 1.2


def test_with_one_port_a_node_eight_published_steps_would_be_far_too_long() -> None:
    judged = [run for run in runs.read() if run["fitted"] == "0"]
    too_long = []
    for run in judged:
        published, machine = float(run["step_s"]), runs.machine_of(run)
        assert runs.step_s(run, machine) < 1.5 * published
        one_s = runs.step_s(run, machine.with_(gpus_per_nic=machine.ranks_per_node))
        if run["tensor"] == "1" and one_s > 1.5 * published:
            too_long.append(run["id"])
    assert len(too_long) == 8
    assert "eight" in load("published_runs")[0].note


def test_an_all_reduce_on_one_port_a_node_is_timed_by_the_algorithm_that_is_named() -> None:
    zaratan = Machine.load("zaratan")
    times = {
        name: collectives.allreduce_s(zaratan, 16, 8, name)
        for name in ("ring", "recursive_doubling", "tree")
    }
    assert times["recursive_doubling"] < times["tree"] < times["ring"]
