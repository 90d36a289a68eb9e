"""What the models assume of a GPU, measured on one: at most nine minutes, then a page.

    PYTHONPATH=. python benchmarks/on_a_gpu.py --out FOLDER        needs a GPU
    python benchmarks/on_a_gpu.py --small --device cpu             the same code on a CPU
    python benchmarks/on_a_gpu.py --page FOLDER/on_a_gpu.json      keeps it, and writes the page
    python benchmarks/on_a_gpu.py --page                           writes it again

Each section runs in a process of its own, which ends by its time limit: an error or a hang costs
the rest of this section and nothing else. `on_a_gpu.json` is written anew after each section, and
`gpt_step.trace.json.gz` is one training step for https://ui.perfetto.dev. On several GPUs the
section `links` starts a rank for each of them. The page is `lectures/on_a_gpu.md`.

    products     matrix products by size and type            sharded      FSDP2 and DDP on one rank
    steps        whole layers and training steps             copies       a product beside copies
    activations  bytes that a layer keeps for backward       attention    FlashAttention's rate
    optimizers   bytes a parameter                           compiled     a layer by torch.compile
    launches     kernels one by one, and as a graph          links        all-reduce, rings by hand
    tests        the kit's tests that want a GPU
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NAME = "on_a_gpu.json"
PAGE = ROOT / "lectures" / "on_a_gpu.md"
KEPT = ROOT / "lectures" / "data" / NAME
GRACE_S = 12.0  # for the measurement that runs when a section's time is over
# Seconds that a section may take. Most take less, and the last one gets what they leave.
SECTIONS = {
    "products": 60, "steps": 60, "activations": 100, "copies": 50, "launches": 25,
    "sharded": 50, "optimizers": 40, "attention": 40, "compiled": 70, "links": 40, "tests": 140,
}  # fmt: skip
IN_STEPS = {"steps": "items", "compiled": "compiled_items"}


def measure(section: str, path: Path, limit_s: float, small: bool, device: str) -> None:
    """Measure one section in this process; the file is written anew after each measurement."""
    import torch
    from gpu.bench import Bench

    end = time.monotonic() + limit_s
    rank = int(os.environ.get("LOCAL_RANK", 0))
    if device == "cuda":
        torch.cuda.set_device(rank)
    torch.manual_seed(rank)
    if small:
        torch.set_num_threads(1)  # threads wait for one another where cores are shared
    bench = Bench(torch.device(device), small)
    module = importlib.import_module(f"gpu.{'steps' if section in IN_STEPS else section}")
    items = getattr(module, IN_STEPS.get(section, "items"))
    more = {"folder": path.parent} if section == "steps" else {}
    records: dict[str, Any] = {}
    for name, measurement in items(bench, **more):
        if time.monotonic() > end:
            records[name] = {"skipped": "no time was left"}
        else:
            try:
                records[name] = measurement()
            except Exception as error:  # whatever it is, the next measurement is another one
                text = f"{type(error).__name__}: {error}".strip()
                where = traceback.format_exc().splitlines()[-6:]
                records[name] = {"error": text[:600], "where": where}
        gc.collect()
        if bench.is_gpu:
            torch.cuda.empty_cache()
        if rank == 0:
            path.write_text(json.dumps(records))


def run_section(section: str, limit_s: float, folder: Path, words: argparse.Namespace) -> Any:
    """Run a section in processes of its own; what it has measured, whatever becomes of it."""
    path = folder / f"{section}.json"
    own = [str(HERE / "on_a_gpu.py"), "--section", section, "--file", str(path)]
    own += ["--limit", str(limit_s), "--device", words.device, *["--small"] * words.small]
    command = [sys.executable, *own]
    if section == "links" and (ranks := num_ranks(words)) > 1:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        command = [sys.executable, *launcher, *own]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    log = folder / f"{section}.log"
    begin = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            status: int | str = process.wait(limit_s + GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = "ended by its time limit"
    record = {"seconds": time.monotonic() - begin, "status": status}
    record["items"] = json.loads(path.read_text()) if path.exists() else {}
    if status != 0:
        record["last_lines"] = log.read_text(errors="replace").splitlines()[-15:]
    return record


def run_here(section: str, limit_s: float, folder: Path, words: argparse.Namespace) -> Any:
    """Run a section in this process: quicker, and an end by force would end all."""
    path, begin = folder / f"{section}.json", time.monotonic()
    measure(section, path, limit_s, words.small, words.device)
    seconds = time.monotonic() - begin
    return {"seconds": seconds, "status": 0, "items": json.loads(path.read_text())}


def num_ranks(words: argparse.Namespace) -> int:
    """GPUs, each of which gets a rank; two ranks on a CPU."""
    import torch

    return torch.cuda.device_count() if words.device == "cuda" else 2


def measure_all(words: argparse.Namespace) -> None:
    """All sections within the time, the results after each."""
    import torch
    from gpu import facts, suite
    from gpu.bench import Bench

    out = Path(words.out)
    out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    end = begin + 60 * words.minutes
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(torch.device(words.device), words.small)
        results: dict[str, Any] = {"facts": facts.facts(bench), "sections": {}}
        if words.only and (out / NAME).exists():
            results["sections"] = json.loads((out / NAME).read_text())["sections"]
        for section in words.only or SECTIONS:
            limit_s = min(SECTIONS[section], end - time.monotonic() - 15)
            if limit_s < 5:
                record: Any = {"seconds": 0.0, "status": "no time was left", "items": {}}
            elif section == "tests":
                record = tests(suite.run, limit_s, words)
            elif words.in_one_process:
                record = run_here(section, limit_s, Path(name), words)
            else:
                record = run_section(section, limit_s, Path(name), words)
            results["sections"][section] = record
            results["facts"]["seconds"] = time.monotonic() - begin
            write(out / NAME, json.dumps(results, indent=1))
            for trace in Path(name).glob("*.trace.json.gz"):
                shutil.copy(trace, out / trace.name)
            bad = [key for key, item in record["items"].items() if "error" in item]
            left_out = [key for key, item in record["items"].items() if "skipped" in item]
            print(
                f"{section}: {len(record['items'])} measured in {record['seconds']:.0f} s, "
                f"status {record['status']}, skipped {left_out}, errors "
                + "; ".join(f"{key}: {record['items'][key]['error'][:150]}" for key in bad),
                flush=True,
            )
            for line in record.get("last_lines", ())[-8:]:
                print(f"    {line[:200]}", flush=True)
        if words.device == "cuda":
            results["facts"]["nvidia_smi_at_the_end"] = facts.nvidia_smi()
            write(out / NAME, json.dumps(results, indent=1))
    print(
        f"{out / NAME}: {(out / NAME).stat().st_size} bytes after {time.monotonic() - begin:.0f} s"
    )


def tests(run: Callable[[float], Any], limit_s: float, words: argparse.Namespace) -> Any:
    """The kit's tests as a section."""
    if words.device != "cuda":
        reason = {"skipped": "the tests want a GPU"}
        return {"seconds": 0.0, "status": 0, "items": {"suite": reason}}
    record = run(limit_s)
    is_good = record["passed"] and not record["failed"] + record["errors"]
    return {
        "seconds": record["seconds"],
        "status": 0 if record["ended"] else "ended by its time limit",
        "items": {"suite": record},
        **({} if is_good else {"last_lines": record["last_lines"]}),
    }


def page_of_kept() -> str:
    """The page from the results that are kept; where there are none, how to get them."""
    from gpu.page import page

    return page(json.loads(KEPT.read_text()) if KEPT.exists() else None)


def write(path: Path, text: str) -> None:
    """Replace a file at once, so that none is ever half."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=9.0, help="at most, all sections together")
    parser.add_argument("--out", default="build/on_a_gpu", help="a folder for the results")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes for tests; times mean nothing")
    parser.add_argument(
        "--only", nargs="+", choices=SECTIONS,
        help="measure these; what the folder has of others is kept",
    )  # fmt: skip
    parser.add_argument("--in-one-process", action="store_true", help="quicker; for tests")
    parser.add_argument(
        "--page", nargs="?", const=KEPT, type=Path,
        help="write the page from a file of results, which is kept; measure nothing",
    )  # fmt: skip
    for name, kind in (("--section", str), ("--file", Path), ("--limit", float)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.page:
        if words.page != KEPT:
            write(KEPT, words.page.read_text())
        write(PAGE, page_of_kept())
        print(f"wrote {PAGE.relative_to(ROOT)}")
    elif words.section:
        measure(words.section, words.file, words.limit or 60.0, words.small, words.device)
    else:
        import torch

        if words.device == "cuda" and not torch.cuda.is_available():
            print("torch finds no GPU here; --small --device cpu runs the same code on a CPU.")
        else:
            measure_all(words)


if __name__ == "__main__":
    main()
