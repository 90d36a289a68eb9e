"""The tutorial's text and programs, as far as they need no cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "lectures" / "tutorial"


def text(name: str) -> str:
    return (FOLDER / name).read_text()


@pytest.fixture(scope="module")
def gpt() -> Any:
    sys.path.insert(0, str(FOLDER))
    try:
        import gpt

        yield gpt
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("gpt", None)


def test_every_source_is_cited_and_every_citation_has_its_source() -> None:
    body, references = text("tutorial.md").split("## References")
    listed = set(re.findall(r"^(\d+)\. ", references, re.MULTILINE))
    groups = re.findall(r"\[(\d+(?:, \d+)*)\]", body)
    assert {number for group in groups for number in group.split(", ")} == listed


def test_links_lead_to_files() -> None:
    for name in ("tutorial.md", "instructor.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", text(name)):
            assert (FOLDER / target).exists(), f"{name} links to {target}"


def test_the_instructors_table_holds_every_variable_of_the_setup() -> None:
    exported = set(re.findall(r"^export (\w+)=", text("setup.sh"), re.MULTILINE))
    told = set(re.findall(r"^\| `(\w+)` \|", text("instructor.md"), re.MULTILINE))
    assert exported == told


def test_the_instructor_unpacks_what_the_bundle_packs() -> None:
    words = [sys.executable, "-m", "autograder", "bundle", "--help"]
    said = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=True).stdout
    found = re.search(r"default: build/(\S+)", said)
    assert found
    page, tree = text("instructor.md"), found[1]
    assert f"unzip ~/{tree}.zip " in page
    assert f'pip install -e "{tree}[torch]"' in page and f"cp {tree}/lectures/tutorial/" in page
    assert f'"$TUTORIAL"/{tree}/lectures/tutorial/' in text("setup.sh")


def test_programs_are_short_enough_to_read() -> None:
    for path in FOLDER.glob("*.py"):
        assert len(path.read_text().splitlines()) <= 150, path.name


def test_numbers_in_the_text_are_those_of_the_models(gpt: Any) -> None:
    import torch

    with torch.device("meta"):
        sizes = {
            name: sum(weight.numel() for weight in gpt.GPT(size).parameters())
            for name, size in gpt.SIZES.items()
        }
    assert sizes == {"tiny": 136_960, "small": 19_308_544, "large": 303_360_000}
    assert "137 thousand parameters in the place of 19 million" in text("instructor.md")
    assert "300 million parameters" in text("tutorial.md")
    small = gpt.SIZES["small"]
    flops = 6 * sizes["small"] * small.batch * small.context * small.steps
    assert flops == pytest.approx(6e14, rel=0.1)
    assert (small.batch, gpt.SIZES["tiny"].batch) == (64, 16)
    assert "the same 64 sequences in a step (16 on CPUs)" in text("tutorial.md")


def test_all_ranks_together_have_the_same_sequences_whatever_their_number(gpt: Any) -> None:
    import torch

    words = torch.arange(5000).to(torch.uint8)
    size = gpt.SIZES["tiny"]
    whole, _ = gpt.batch(words, size, 3, 0, 1)
    for world_size in (2, 4):
        shares = [gpt.batch(words, size, 3, rank, world_size)[0] for rank in range(world_size)]
        assert torch.equal(torch.cat(shares), whole)
    inputs, targets = gpt.batch(words, size, 4, 0, 1)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert not torch.equal(inputs, whole)


def test_a_signal_before_the_time_limit_leads_to_a_checkpoint(tmp_path: Path) -> None:
    one_rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    environment = {**os.environ, **one_rank, "MASTER_PORT": "0", "PYTHONPATH": str(ROOT)}
    environment["OMP_NUM_THREADS"] = "1"
    command = [sys.executable, str(FOLDER / "train.py"), "--size", "tiny", "--steps", "100000"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            assert "step    0" in process.stdout.readline()
            process.send_signal(signal.SIGUSR1)
            deadline = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            assert process.returncode == 0
        finally:
            process.kill()
    assert (tmp_path / "unfinished.pt").is_file()
    assert not (tmp_path / "gpt.pt").exists()
    assert not (tmp_path / "measured").exists()


def record(name: str, world_size: int, **facts: Any) -> dict[str, Any]:
    ring = {"passes": 2, "bytes": 2e8, "can_hide": True, "state_bytes": 16e8, "losses": [5.0, 4.0]}
    return {"name": name, "world_size": world_size, "step_s": 0.1, **ring, **facts}


def test_the_plot_prints_what_the_formula_gives(tmp_path: Path) -> None:
    (tmp_path / "measured").mkdir()
    for p in (1, 2):
        path = tmp_path / "measured" / f"train-ddp-{p}.json"
        path.write_text(json.dumps(record("train-ddp", p)))
    machine = "alpha_s=1e-3,beta_s_per_byte=1e-10"
    done = subprocess.run(
        [sys.executable, str(FOLDER / "plots.py"), "train", "--machine", machine],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    # C(2) = 2 passes * 1 ms + 2e8 B * 1/2 * 0.1 ns = 12 ms, beside 100 ms / 2 of computation.
    assert re.search(r"train-ddp +2 +100\.00 +50\.00 to 62\.00 +1\.00", done.stdout)
    assert (tmp_path / "train.svg").read_text().count("<svg") == 1
