"""The kit itself: its version, and where it lies on this machine."""

from __future__ import annotations

from pathlib import Path

VERSION = "0.1.0"
PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent


def cluster_folder() -> Path:
    """The tree's ``cluster/`` beside the package, or the copy in an installed package."""
    beside = ROOT / "cluster"
    return beside if (beside / "machines").is_dir() else PACKAGE / "cluster"
