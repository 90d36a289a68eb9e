"""Whether torch is installed: all but torch's own ranks works without it.

It is an extra of the kit, since its usual build for Linux brings several GB of CUDA's libraries.
"""

from __future__ import annotations

import importlib.util

from ringside.errors import TargetError

__all__ = ["INSTALL", "need_torch"]

INSTALL = "pip install 'torch>=2.11,<2.16'"


def need_torch(name: str) -> None:
    """Refuse, in one sentence, what runs on torch where there is none.

    Args:
        name: what needs it, such as ``ring_torch.py``.

    Raises:
        TargetError: torch is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        raise TargetError(f"{name} needs torch, which is not installed here: {INSTALL}")
