"""Which version of the kit this is, and where it lies: the package's folder, the tree around it."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.2.0"  # pyproject.toml reads it here

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent


def cluster_folder() -> Path:
    """The tree's ``cluster/`` beside the package, or the copy in an installed package."""
    beside = ROOT / "cluster"
    return beside if (beside / "machines").is_dir() else PACKAGE / "cluster"
