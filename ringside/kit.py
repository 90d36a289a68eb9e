"""The kit itself: its version, and where it lies on this machine."""

from __future__ import annotations

from pathlib import Path

VERSION = "0.3.0"  # pyproject.toml reads it here
PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent


def cluster_folder() -> Path:
    """The tree's ``cluster/`` beside the package, or the copy in an installed package."""
    beside = ROOT / "cluster"
    return beside if (beside / "machines").is_dir() else PACKAGE / "cluster"


def handout_folder() -> Path | None:
    """The assignments, lectures and pages that an installed package brings; None in a tree."""
    brought = PACKAGE / "course" / "handout" / "tree"  # setup.py puts it there
    return brought if (brought / "assignments").is_dir() else None


def lectures_folder() -> Path:
    """The tree's ``lectures/`` beside the package, or the copy in an installed package."""
    return (handout_folder() or ROOT) / "lectures"
