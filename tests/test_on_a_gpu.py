"""`benchmarks/on_a_gpu.py` in small on a CPU: its numbers are right, however long they take."""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ringside.units import format_time

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "benchmarks" / "on_a_gpu.py"
SMALL = ["--small", "--device", "cpu"]

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("on_a_gpu")
    words = [*SMALL, "--in-one-process", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def results(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "on_a_gpu.json").read_text()))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script as a module."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    yield importlib.import_module("on_a_gpu")


def items(results: dict[str, Any], section: str) -> dict[str, Any]:
    return {
        name: item
        for name, item in results["sections"][section]["items"].items()
        if "skipped" not in item
    }


def test_every_section_gives_numbers_and_no_error(results: dict[str, Any]) -> None:
    for section, record in results["sections"].items():
        assert record["status"] == 0, section
        for name, item in record["items"].items():
            assert "error" not in item, f"{section}: {name}: {item}"
            for key, value in item.items():
                if key.endswith("_s") and key != "kernels_s":  # a CPU has no kernels
                    assert 0 < value < 1e15, f"{section}: {name}: {key}"
    wanting_a_gpu = {"compiled", "links", "tests"}
    measured = {section for section in results["sections"] if items(results, section)}
    assert measured == results["sections"].keys() - wanting_a_gpu


def test_products_are_right_as_far_as_their_type_can_be(results: dict[str, Any]) -> None:
    products = items(results, "products")
    for name, item in products.items():
        if "flop" in item:
            assert item["flop"] == 2 * item["m"] * item["k"] * item["n"], name
            assert item["flop_per_s"] == pytest.approx(item["flop"] / item["time_s"])
    errors = [products[f"{kind} error"]["relative_error"] for kind in ("fp32", "bf16", "fp8")]
    assert errors[0] < 1e-5 < 1e-3 < errors[1] < 1e-2 < errors[2] < 1e-1


def test_a_layer_keeps_what_the_formulas_say(results: dict[str, Any]) -> None:
    for name, item in items(results, "activations").items():
        ratio = item["counted_bytes"] / item["formula_bytes"]
        if item["recompute"] == "full":
            assert ratio == 1, name
        elif name.startswith("math none"):
            assert 1 < ratio < 1.5, name  # torch's own composition keeps scaled factors besides
        else:
            assert 1 <= ratio < 1.02, name  # means and deviations of norms, sums of rows
    s, b, h, a = 32, 2, 64, 4
    formulas = {
        name.rpartition(" ")[0]: item["formula_bytes"]
        for name, item in items(results, "activations").items()
    }
    assert formulas["plain none"] == s * b * h * 32 + 2 * a * s * s * b
    assert formulas["flash none"] == formulas["plain selective"] == 32 * s * b * h
    assert formulas["flash full"] == 2 * s * b * h


def test_formulas_with_dropout_are_the_papers(script: ModuleType) -> None:
    kept_bytes = importlib.import_module("gpu.block").kept_bytes
    s, b, h, a = 2048, 1, 12288, 96
    options = {"recompute": "none", "dropout": True}
    assert kept_bytes(s, b, h, a, attention="plain", **options) == s * b * h * (34 + 5 * a * s / h)
    assert kept_bytes(s, b, h, a, attention="flash", **options) == 34 * s * b * h


def test_training_keeps_16_or_18_bytes_a_parameter(results: dict[str, Any]) -> None:
    kept = {name: item["kept_bytes"] for name, item in items(results, "optimizers").items()}
    assert kept.pop("bf16 master, fp32 gradients, fused") == 18
    assert kept.pop("bf16, fused") == 8
    assert set(kept.values()) == {16} and len(kept) == 6
    for item in items(results, "optimizers").values():
        assert item["kept_bytes"] == item["formula_bytes"]


def test_a_step_learns_and_is_counted_by_the_formula(results: dict[str, Any], folder: Path) -> None:
    steps = items(results, "steps")
    kept, again = steps["step"], steps["step, recomputed"]
    for item in (kept, again):
        assert item["losses"][1] < item["losses"][0]
    forward = 2 * (24 * 32 * 64**2 + 4 * 32**2 * 64) * 2  # sequences, FLOPs, layers
    logits = 2 * 2 * 32 * 64 * 512
    assert kept["counted_flop"] == pytest.approx(3 * (forward + logits), rel=0.02)
    assert again["counted_flop"] - kept["counted_flop"] == pytest.approx(forward)
    # Masters and moments are there before the step; weights too, which the step is given.
    assert kept["given_bytes"] >= 14 * kept["parameters"]
    trace = json.loads(gzip.decompress((folder / steps["trace"]["file"]).read_bytes()))
    assert any("scaled_dot_product" in event.get("name", "") for event in trace["traceEvents"])


def test_ddp_fills_buckets_by_its_rule(results: dict[str, Any], script: ModuleType) -> None:
    for name in ("ddp", "ddp, gradients as views"):
        item = items(results, "sharded")[name]
        assert item["buckets_bytes"] == item["rule_buckets_bytes"]
        assert sum(item["buckets_bytes"]) == item["weights_bytes"]
    torch = importlib.import_module("torch")
    sharded = importlib.import_module("gpu.sharded")
    mib = 1 << 20
    parameters = [torch.empty(n * mib // 2, dtype=torch.bfloat16) for n in (3, 20, 9, 2)]
    assert sharded.bucket_sizes(parameters) == [2 * mib, 29 * mib, 3 * mib]


def test_the_page_has_a_row_for_each_measurement(
    results: dict[str, Any], script: ModuleType
) -> None:
    pages = importlib.import_module("gpu.page")
    page = pages.page
    sheets = importlib.import_module("gpu.facts").DATA_SHEETS
    text = page(results)
    assert "no time on this page means anything" in text
    assert text.count("\n| n = ") == 2 and text.count("\n| h = ") == 1
    assert text.count("\n| all kept | ") == text.count("\n| recomputed | ") == 2
    for name in items(results, "optimizers"):
        assert f"\n| {name} | " in text
    for why in ("a graph is captured on a GPU only", "compiled on a GPU only"):
        assert why in text
    # As if it were a GPU that we know: shares of the peak, and the kit's clock.
    results = json.loads(json.dumps(results))
    results["facts"]["data_sheet"] = sheets["NVIDIA H100 80GB HBM3"]
    for item in items(results, "products").values():
        if "flop_per_s" in item:
            item["flop_per_s"] = 494.7e12
    results["sections"]["launches"]["items"]["chain"] = {"error": "RuntimeError: no | more"}
    text = page(results)
    assert "| n = 64 | 495 (739%) | 495 (100%) | 495 (50%) | 495 (25%) | 495 (25%) |" in text
    assert "| launches: chain | RuntimeError: no / more |" in text
    assert "| a kernel of a chain, one by one | — | 5 µs |" in text
    operators = results["sections"]["steps"]["items"]["step"]["operators"]
    busy = sum(count for _, *work, count in operators if any(work))
    clock_s = pages.predicted_s(operators, pages.machine(pages.Results(results)))
    assert 5e-6 * busy < clock_s < 6e-6 * busy  # launches take nearly all of so small a model's
    assert f" | {format_time(clock_s)} | {format_time(clock_s)} | " in text  # peak, then reached


def test_the_page_in_the_lectures_is_that_of_the_results_that_are_kept(script: ModuleType) -> None:
    text = script.PAGE.read_text()
    assert text == script.page_of_kept(), "run `python benchmarks/on_a_gpu.py --page`"
    assert script.KEPT.exists() or "**Not run.**" in text


def test_a_measurement_that_fails_takes_no_other_along(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> dict[str, Any]:
        raise RuntimeError("CUDA out of memory")

    def measurements(bench: object) -> Iterator[tuple[str, Any]]:
        yield "one", fail
        yield "two", lambda: {"time_s": 1.0}

    monkeypatch.setitem(sys.modules, "gpu.products", SimpleNamespace(items=measurements))
    path = tmp_path / "products.json"
    script.measure("products", path, 60.0, True, "cpu")
    records = json.loads(path.read_text())
    assert records["one"]["error"] == "RuntimeError: CUDA out of memory"
    assert records["two"] == {"time_s": 1.0}
    script.measure("products", path, -1.0, True, "cpu")
    assert json.loads(path.read_text())["two"] == {"skipped": "no time was left"}


def test_what_the_tests_on_a_gpu_said_is_an_item_that_was_measured(
    script: ModuleType, results: dict[str, Any]
) -> None:
    suite = importlib.import_module("gpu.suite")
    record = script.tests(suite.run, 120.0, argparse.Namespace(device="cuda"))
    said = record["items"]["suite"]
    assert said["ended"] and said["failed"] == said["errors"] == 0
    assert said["passed"] + said["left_out"] > 20
    assert ("last_lines" in record) == (not said["passed"])
    sections = {**results["sections"], "tests": record}
    page = importlib.import_module("gpu.page").page({**results, "sections": sections})
    assert f"\n{said['passed']} passed, 0 failed, 0 errors, {said['left_out']} skipped\n" in page


def test_a_section_that_is_measured_again_leaves_the_others(
    results: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "on_a_gpu.json").write_text(json.dumps(results))
    words = [*SMALL, "--in-one-process", "--only", "attention", "--out", str(tmp_path)]
    subprocess.run([sys.executable, str(SCRIPT), *words], cwd=ROOT, capture_output=True, check=True)
    after = json.loads((tmp_path / "on_a_gpu.json").read_text())["sections"]
    assert after.keys() == results["sections"].keys()
    changed = [name for name in after if after[name] != results["sections"][name]]
    assert changed == ["attention"]


def test_a_section_that_hangs_is_ended(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "GRACE_S", -4.9)
    words = argparse.Namespace(device="cpu", small=True)
    begin = time.monotonic()
    record = script.run_section("steps", 5.0, tmp_path, words)  # 0.1 s: torch isn't imported yet
    assert record["status"] == "ended by its time limit" and record["items"] == {}
    assert time.monotonic() - begin < 60


def test_two_ranks_reduce_by_the_library_and_by_hand(script: ModuleType, tmp_path: Path) -> None:
    record = script.run_section(
        "links", 60.0, tmp_path, argparse.Namespace(device="cpu", small=True)
    )
    assert record["status"] == 0, record
    measured = {name: item for name, item in record["items"].items() if "nbytes" in item}
    assert len(measured) == 8 and all(item["right"] for item in measured.values())
    for item in measured.values():
        assert item["world_size"] == 2
        assert item["bus_byte_per_s"] == pytest.approx(item["nbytes"] / item["time_s"])
