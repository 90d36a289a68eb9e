"""`make install`: PyTorch from where TORCH_INDEX says, a word before gigabytes, few lines."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

import install

ROOT = Path(__file__).resolve().parents[1]
PINS = ["--constraint", str(ROOT / "constraints.txt")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a wheel of a PyTorch that holds nothing."""
    place = tmp_path / "mit Leerzeichen é"
    place.mkdir()
    about = "torch-2.12.0+cpu.dist-info"
    files = {
        "torch/__init__.py": "",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.12.0+cpu\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(place / "torch-2.12.0+cpu-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return place


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What pip is asked for, on a machine without PyTorch and without a GPU."""
    calls: list[list[str]] = []
    monkeypatch.setattr(install, "pip", lambda words: calls.append(list(words)) or 0)
    monkeypatch.setattr(install, "has_torch", lambda: False)
    monkeypatch.setattr(install.platform, "system", lambda: "Linux")
    monkeypatch.setattr(install.shutil, "which", lambda name: None)
    monkeypatch.delenv("TORCH_INDEX", raising=False)
    monkeypatch.delenv("CONSTRAINTS", raising=False)
    return calls


def test_torch_comes_from_the_folder_and_from_nowhere_else(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = ["--target", str(tmp_path / "site")]
    words = [*install.where(str(folder)), "--no-deps", *target, install.torch_requirement()]
    assert install.pip(words) == 0
    assert (tmp_path / "site" / "torch-2.12.0+cpu.dist-info").is_dir()
    said = capfd.readouterr()
    assert (said.out, said.err) == ("  Installing 1 package ...\n", "")


def test_where_torch_comes_from_is_a_step_of_its_own(
    asked: list[list[str]],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for index, options in (
        ("https://index.example/cpu", ["--index-url", "https://index.example/cpu"]),
        (str(folder), ["--no-index", "--find-links", str(folder)]),
    ):
        monkeypatch.setenv("TORCH_INDEX", index)
        assert install.main(["torch,dev"]) == 0
        assert asked == [
            [*options, "--no-deps", *PINS, install.torch_requirement()],
            [*PINS, "-e", f"{ROOT}[torch,dev]"],
        ]
        said = capsys.readouterr().out.splitlines()
        assert said[0] == f"Step 1 of 2: PyTorch, from {index}."
        assert said[1].startswith("Step 2 of 2: the kit and what it needs, into ")
        assert len(said) == 2
        asked.clear()


def test_without_a_gpu_gigabytes_are_told_before_pip_begins(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install.main(["torch,dev"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(install.WARNING) and "several GB" in said and "TORCH_INDEX" in said
    assert asked == [[*PINS, "-e", f"{ROOT}[torch,dev]"]]
    monkeypatch.setattr(install.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    assert install.main(["torch,dev"]) == 0
    assert "several GB" not in capsys.readouterr().out


def test_without_torch_there_is_nothing_to_warn_of(
    asked: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert install.main([]) == 0
    assert asked == [[*PINS, "-e", str(ROOT)]]
    assert capsys.readouterr().out.startswith("Step 1 of 1: the kit")


def test_who_asks_for_no_constraints_or_for_others_gets_them(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, options in (("", []), ("mine.txt", ["--constraint", "mine.txt"])):
        monkeypatch.setenv("CONSTRAINTS", value)
        assert install.main([]) == 0
        assert asked.pop() == [*options, "-e", str(ROOT)]


def test_places_that_are_not_there_are_passed_over_and_faults_are_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    install.complain(
        [
            "WARNING: Location 'file:///opt/x/simple/numpy/' is ignored: it is neither a file\n",
            "ERROR: what matters\n",
        ]
    )
    assert capfd.readouterr().err == "ERROR: what matters\n"
    assert install.pip(["--no-index", "ringside-needs-no-such-package"]) == 1
    assert "No matching distribution found" in capfd.readouterr().err


def test_progress_is_a_line_for_each_large_download(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        "Collecting torch", "  Downloading torch-2.12.0-cp311-manylinux.whl (915.1 MB)",
        "  Downloading https://index.example/six-1.16.0-py3-none-any.whl (11 kB)",
        "Installing collected packages: six, torch",
    ]  # fmt: skip
    said: list[str] = []
    install.show(iter(lines), said)
    assert capsys.readouterr().out == "  torch (915.1 MB)\n  Installing 2 packages ...\n"
    assert said == lines


def test_make_asks_for_torch_the_checks_and_the_pages() -> None:
    words = ["make", "--dry-run", "--always-make", "install"]
    shown = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "python install.py torch,dev,site" in shown
