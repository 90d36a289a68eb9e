"""Where the kit lies on this machine: the package's folder, and the tree around it."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent


def cluster_folder() -> Path:
    """The tree's ``cluster/`` beside the package, or the copy in an installed package."""
    beside = ROOT / "cluster"
    return beside if (beside / "machines").is_dir() else PACKAGE / "cluster"
